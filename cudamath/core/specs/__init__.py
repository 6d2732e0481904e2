"""Definitions that the CPU function and the kernel of an op share."""
