"""Verbs that run programs."""
