"""Whole programs: a function is traced once, simplified, fused, and replayed (`cm.jit`)."""

from .jit import TraceError, jit

__all__ = ["TraceError", "jit"]
