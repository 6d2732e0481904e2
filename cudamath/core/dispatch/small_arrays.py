"""Which arrays share kernels whose dtypes and strides are arguments (kernels/elementwise/small.py,
kernels/reduce/small.py)."""

from __future__ import annotations

from collections.abc import Iterator

from ...runtime.interrupts import context_manager

SMALL = 1 << 14  # elements up to which a call takes longer on the host than on the device
_most = [SMALL]


def is_small(size: int) -> bool:
    """Whether an array of so many elements is small."""
    return size <= _most[-1]


@context_manager
def as_if_large() -> Iterator[None]:
    """Context: no array is small. Plans are for their kernels, not to be run."""
    _most.append(-1)
    try:
        yield
    finally:
        _most.pop()
