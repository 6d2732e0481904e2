"""Arrays of other libraries: DLPack and `__cuda_array_interface__`."""
