"""Products and solutions with sparse matrices on the CPU."""
