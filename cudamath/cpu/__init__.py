"""What the CPU executes: NumPy, or compiled loops where NumPy has no such op. The same file names
as in kernels/."""
