"""Copies of small arrays between host and device, and their staging buffers."""
