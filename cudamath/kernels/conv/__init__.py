"""Convolutions in one, two and three dimensions: forward, data gradient, weight gradient."""
