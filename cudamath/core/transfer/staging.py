"""Staging buffers: host memory of a known address through which small arrays are copied."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bounded_cache import store
from ..layout import Layout


class StagingBuffer:
    """Host memory that a thread takes for the duration of a copy.

    Attributes
    ----------
    address : int
        Address of the first byte.
    memory : buffer
        Owner of the memory.
    views : dict of Layout to numpy.ndarray
        The first bytes as an array of each layout that was copied through this buffer.
    """

    __slots__ = ("address", "memory", "views")

    def __init__(self, address: int, memory: Any):
        self.address, self.memory = address, memory
        self.views: dict[Layout, np.ndarray] = {}

    def view(self, layout: Layout) -> np.ndarray:
        """The first bytes as an array of this layout, stored in `views`."""
        return store(self.views, layout, np.ndarray(layout.shape, layout.dtype, self.memory))
