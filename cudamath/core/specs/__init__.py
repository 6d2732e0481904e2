"""What the CPU functions and the kernels of an op both have to know."""
