"""The last elements of one long row, which do not fill an access: `tiles` and `ring` scan those
before them by whole accesses (Problem.body), and the thread with the last of these goes on."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..compiler.decorators import device_function
from ..lib.codec import codec
from .decoupled_lookback import scan_functions


@functools.cache
def tail_scan(kind: str, source: np.dtype, target: np.dtype) -> Any:
    """Device function: y[j] = total combine x[first] ... combine x[j] for the elements from `first`
    on, up to the end."""
    lift, combine, _, _ = scan_functions(kind, source, target)
    store = codec(target)[1]

    @device_function
    def scan_tail(x, y, first, total):
        for j in range(first, x.size):
            total = combine(total, lift(x[j]))
            y[j] = store(total)

    return scan_tail
