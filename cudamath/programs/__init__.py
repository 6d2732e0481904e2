"""Whole programs: a function is traced once, simplified, fused, and replayed (`cm.jit`); and what
such a function can do by values (`cm.scan`, `cm.cond`)."""

from .control_flow import cond, fori_loop, scan, while_loop
from .jit import TraceError, jit

__all__ = ["TraceError", "cond", "fori_loop", "jit", "scan", "while_loop"]
