"""Custody of processes: warden, one init per session, one leader per command, zygote."""
