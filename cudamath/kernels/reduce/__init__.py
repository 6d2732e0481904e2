"""Reductions over any axes."""
