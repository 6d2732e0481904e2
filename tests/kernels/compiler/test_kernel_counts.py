"""How many kernels NumPy's functions need on small arrays of all dtypes and of layouts drawn at
random, rehearsed without a device.

The numbers bound what a change of planners may add: a user waits a fifth of a second for each.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterable

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch.op import registry
from cudamath.core.dispatch.small_arrays import as_if_large
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.compiler import lazy_numba
from cudamath.kernels.compiler.target import target
from cudamath.runtime import rehearsal

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
CC = 9, 0
DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")


def kernels(calls: Iterable[Callable[[], object]]) -> collections.Counter[str]:
    """How many kernels of each name these calls need."""
    found: dict[str, str] = {}

    def compile_cubin(kernel, signature, capability):
        function = getattr(kernel, "dispatcher", kernel)
        key = compiler.cache_key(function, signature, target(capability))
        found[key] = function.py_func.__name__
        return b"\x7fELF"

    for card in registry.values():
        getattr(card, "plans", {}).clear()  # of other tests
    with rehearsal.rehearsing(CC, compile_cubin), cm.device("cuda:0"), np.errstate(all="ignore"):
        for call in calls:
            with contextlib.suppress(TypeError):  # not for this dtype
                call()
    return collections.Counter(found.values())


def array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> cm.ndarray:
    """An array of this shape; half the time every second element of one, or in Fortran's order."""
    chosen = rng.integers(4)
    if chosen == 0:
        return cm.empty((*shape[:-1], 2 * shape[-1]), dtype=dtype)[..., ::2]
    return cm.empty(shape[::-1], dtype=dtype).T if chosen == 1 else cm.empty(shape, dtype=dtype)


SHAPES = [(3,), (40,), (500,), (2000,), (20, 30), (30, 7), (7, 5, 6), (100, 8)]
NAMES = {
    "elementwise": "add subtract multiply divide floor_divide remainder power less equal maximum",
    "reductions": "sum prod mean std var max min any all argmax argmin nansum nanmax count_nonzero",
}


def drawn(family: str) -> Iterable[Callable[[], object]]:
    """Calls of a family: each function in each dtype, also beside another dtype or a number."""
    rng = np.random.default_rng(0)
    for name in NAMES[family].split():
        for dtype in DTYPES * 4:
            function, shape = getattr(cm, name), SHAPES[rng.integers(len(SHAPES))]
            x = lambda shape=shape, dtype=dtype: array(rng, shape, dtype)  # noqa: E731
            if family == "reductions":
                axis = rng.choice([None, *range(len(shape))])
                yield lambda function=function, x=x, axis=axis: function(x(), axis=axis)
                continue
            other = dtype if rng.random() < 0.5 else DTYPES[rng.integers(len(DTYPES))]
            y = lambda other=other, shape=shape: array(rng, shape, other)  # noqa: E731
            yield lambda function=function, x=x, y=y: function(x(), y())
            yield lambda function=function, x=x: function(x(), 2)


@pytest.mark.parametrize(("family", "most"), [("elementwise", 160), ("reductions", 185)])
def test_few_elements_share_kernels(family, most):
    """Not one for each dtype, mixture of dtypes and layout, as without the versions that share."""
    shared = kernels(drawn(family))
    with as_if_large():
        apart = kernels(drawn(family))
    assert shared.total() <= most and apart.total() > 3.5 * shared.total(), (shared, apart)
