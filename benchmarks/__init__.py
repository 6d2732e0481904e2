"""Measurements of cudamath beside its peers. `python -m benchmarks.run`, or `python -m cudamath
bench NAMES`."""
