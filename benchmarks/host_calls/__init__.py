"""The calls whose host cost `benchmarks.host_costs` measures, in cudamath's form and in PyTorch's.

There is one file for each kind of call; a test checks that all titles are distinct.
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
