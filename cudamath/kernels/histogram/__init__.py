"""Histograms and weighted counts."""
