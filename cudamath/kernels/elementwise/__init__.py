"""Elementwise kernels, generated from scalar expressions."""
