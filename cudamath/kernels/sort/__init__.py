"""Sorting, selection, ranks, search and quantiles."""
