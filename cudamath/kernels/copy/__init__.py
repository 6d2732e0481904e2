"""Copies between memory layouts."""
