"""Cumulative sums, products and the like."""
