"""All that runs inside a worker: the wire, cells, verb stubs, the posix shim."""
