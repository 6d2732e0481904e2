"""Resizing and padding."""
