"""Packs of kernels that were compiled ahead: which programs they are for, and their wheels."""
