"""Joining, rolling and filling arrays."""
