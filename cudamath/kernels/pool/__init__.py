"""Pooling over windows: forward and backward."""
