"""Kernels generated from the user's own functions, and from fused ones."""
