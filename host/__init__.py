"""All that the host owns: sessions, custody of processes, the process core, verbs, approvals."""
