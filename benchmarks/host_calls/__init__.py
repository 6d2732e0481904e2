"""The calls whose cost to the host is measured (`benchmarks.host_costs`): each in cudamath's words
and in PyTorch's.

A file for each kind of call; a test checks that no title stands in two of them.
"""

from __future__ import annotations

from . import (
    arrays,
    elementwise,
    gradients,
    layers,
    linalg,
    products,
    random_numbers,
    reductions,
    variants,
)
from .arguments import Arguments, Pair

__all__ = ["CALLS", "FILES", "Arguments"]

FILES = (
    elementwise,
    arrays,
    reductions,
    products,
    linalg,
    random_numbers,
    layers,
    gradients,
    variants,
)

#: title -> (cudamath's, PyTorch's)
CALLS: dict[str, Pair] = {title: pair for file in FILES for title, pair in file.CALLS.items()}
