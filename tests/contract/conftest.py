"""Fixtures of the contract tests."""

from __future__ import annotations

from tests.worker_driver import driver

__all__ = ["driver"]
