"""Decompositions, triangular solves and the cross product."""
