"""The programs, as a newcomer to cudamath would write them.

Each module has its sizes (`SIZES`, `SMALL` for a CPU), `shapes(c)` of its weights, `inputs(c, rng)`
as NumPy arrays, and `step(c, params, state, *inputs)`, which is what runs. A program that trains
says so (`TRAINS`).
"""
