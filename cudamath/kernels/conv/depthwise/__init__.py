"""Depthwise convolutions, in both orders of memory."""
