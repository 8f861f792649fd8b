"""The composition: the only place in `host` that may import `tools`."""
