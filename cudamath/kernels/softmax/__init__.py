"""Softmax and its relatives along an axis."""
