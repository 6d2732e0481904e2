"""What the CPU executes: NumPy, or Numba where NumPy has no such op. The same file names as in
kernels/."""
