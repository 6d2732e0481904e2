"""From a kernel in Python to machine code: compilation, cache keys, storage types."""
