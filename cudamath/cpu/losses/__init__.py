"""Losses of pairs of elements and of soft targets on the CPU."""
