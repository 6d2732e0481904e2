"""The cuda-python layer: devices, streams, memory, modules, library handles. Knows pointers and
bytes, never arrays."""
