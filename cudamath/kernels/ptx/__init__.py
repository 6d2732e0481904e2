"""PTX instructions as functions that kernels call."""
