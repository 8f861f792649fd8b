"""Custody: the warden, one init per session, one leader per command, and the zygote that forks workers."""
