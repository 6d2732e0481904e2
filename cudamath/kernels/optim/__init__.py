"""Optimizer steps and the norm of all gradients."""
