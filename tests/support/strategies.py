"""What the tests feed to functions: dtypes, awkward numbers, shapes, and the same strided view for
NumPy and for us."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import cudamath as cm

BF16 = np.dtype(cm.bfloat16)
BOOL = [np.dtype(np.bool_)]
SIGNED = [np.dtype(t) for t in ("i1", "i2", "i4", "i8")]
UNSIGNED = [np.dtype(t) for t in ("u1", "u2", "u4", "u8")]
FLOATS = [np.dtype(np.float16), BF16, np.dtype(np.float32), np.dtype(np.float64)]
COMPLEX = [np.dtype(np.complex64), np.dtype(np.complex128)]
DTYPES = BOOL + SIGNED + UNSIGNED + FLOATS + COMPLEX
KINDS = {"b": BOOL, "i": SIGNED, "u": UNSIGNED, "f": FLOATS, "c": COMPLEX}


def of_kinds(kinds: str) -> list[np.dtype]:
    """The dtypes of some kinds: b, i, u, f (bfloat16 among them), p (float32 and float64), c."""
    return [dtype for kind in kinds for dtype in KINDS[kind]]


def kind(dtype: np.dtype) -> str:
    """b, i, u, f or c: NumPy calls bfloat16 'V'."""
    return "f" if dtype == BF16 else dtype.kind


def eps(dtype: np.dtype) -> float:
    """The distance from 1 to the next number."""
    return 2.0**-7 if dtype == BF16 else float(np.finfo(dtype).eps)


def numbers(
    rng: np.random.Generator, shape: Any, dtype: np.dtype, low: float = -3, high: float = 3
) -> np.ndarray:
    """Random numbers of any dtype between low and high (real and imaginary part)."""
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = max(math.ceil(low), limits.min), min(int(high), limits.max)
        return np.asarray(rng.integers(low, high, shape, endpoint=True)).astype(dtype)
    x = rng.uniform(low, high, shape)
    if dtype.kind == "c":
        x = x + 1j * rng.uniform(low, high, shape)
    return np.asarray(x).astype(dtype)


def awkward(dtype: np.dtype) -> np.ndarray:
    """The numbers of a dtype at which functions go wrong: zeros, ones, halves, extremes,
    subnormals, NaN, infinities."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        some = [
            0,
            1,
            2,
            3,
            7,
            limits.bits - 1,
            limits.bits,
            limits.max,
            limits.max - 1,
            limits.min,
            limits.min + 1,
        ]
        return np.array(some + ([-1, -2, -7] if limits.min else []), dtype)
    if dtype.kind == "c":
        # on, above and below every branch cut: signed zeros in both parts, at, within and beyond 1
        parts = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 1e-5, -1e-5, 30.0, -30.0]
        z = np.empty((len(parts), len(parts)), dtype)
        z.real, z.imag = np.array(parts)[:, None], np.array(parts)
        return z.ravel()
    top = {"float16": 65504.0, "bfloat16": 3.3895e38}.get(dtype.name) or float(np.finfo(dtype).max)
    tiny = {"float16": 2.0**-24, "bfloat16": 2.0**-133}.get(dtype.name) or float(
        np.finfo(dtype).smallest_subnormal
    )
    some = [0.0, 1e-3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 10.0, 88.0, top, tiny, np.inf]
    return np.array([*some, *[-x for x in some], np.nan]).astype(dtype)


# -------------------- shapes and strides


def shapes(max_dims: int = 4, max_side: int = 5) -> st.SearchStrategy[tuple[int, ...]]:
    """Any shape: 0-d and empty ones among them."""
    return hnp.array_shapes(min_dims=0, max_dims=max_dims, min_side=0, max_side=max_side)


def broadcastable(count: int) -> st.SearchStrategy[hnp.BroadcastableShapes]:
    """`count` shapes that broadcast, and their common shape."""
    return hnp.mutually_broadcastable_shapes(
        num_shapes=count, min_dims=0, max_dims=4, min_side=0, max_side=5
    )


class View(NamedTuple):
    """How to see a base array in some shape through strides: slices, an order of axes, repeated
    axes."""

    base: tuple[int, ...]
    key: tuple
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def of(self, x: Any) -> Any:
        """The view of a base array, NumPy's or ours."""
        library: Any = np if isinstance(x, np.ndarray) else cm
        return library.broadcast_to(library.transpose(x[self.key], self.order), self.shape)


@st.composite
def views(draw: Any, shape: tuple[int, ...], repeats: bool = True) -> View:
    """Contiguous, transposed, sliced, reversed and (with `repeats`) stride-0 views of one shape."""
    if not shape or draw(st.booleans()):
        return View(shape, (...,), tuple(range(len(shape))), shape)
    order = draw(st.permutations(range(len(shape))))
    steps = [
        draw(st.sampled_from([1, 1, 2, -1, -2, 0] if repeats and n else [1, 1, 2, -1, -2]))
        for n in shape
    ]
    lengths = [1 if s == 0 else n * abs(s) for n, s in zip(shape, steps, strict=True)]
    place = sorted(
        range(len(order)), key=lambda i: order[i]
    )  # where axis i of the result lies in the base
    base = tuple(lengths[i] for i in order)
    key = tuple(slice(None, None, steps[i] or 1) for i in order)
    return View(base, key, tuple(place), shape)
