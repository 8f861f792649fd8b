"""Verbs that change and probe the file system."""
