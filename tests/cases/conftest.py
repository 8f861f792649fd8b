"""The fixtures of a real host."""

from tests.fixtures import call, host, opened, session, workspace

__all__ = ["call", "host", "opened", "session", "workspace"]
