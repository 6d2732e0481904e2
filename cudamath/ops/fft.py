"""Fourier transforms: cards. Plans: kernels/numeric/fft.py; cuFFT: runtime/cufft.py. The public
functions: cudamath/fft.py.

What their arguments mean: `input_of` to `lengths_and_axes`.

Three cards: complex to complex (of real numbers too, without a gradient), real to complex, complex
to real, each along any number of axes and times a number. Their gradients are one another: the
adjoint of a transform is the transform with the other sign. A fourth one, `cosines`, has the cosine
and sine transforms; its adjoint is itself, with types 2 and 3 exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import dtypes, shapes
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.dispatch.checks import members, require
from ..core.dispatch.op import NUMERIC, Category, Op
from ..core.user_warnings import warn
from .elementwise import conj
from .padding import pad
from .shape import astype, span

__all__: list[str] = []


def _edges(g: ndarray, axis: int, n: int, inner: float) -> ndarray:
    """g times `inner`, except at the frequencies that a real signal has once, not twice: 0 and, for
    even n, n / 2."""
    size = g.shape[axis]
    weights = np.full(size, inner, g.dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return g * asarray(weights.reshape(size, *[1] * (g.ndim - 1 - axis)), device=g.device)


def _r2c_grad(
    g: ndarray,
    _y: Any,
    x: ndarray,
    *,
    axes: tuple[int, ...],
    scale: float,
    conjugate: bool = False,
) -> tuple[ndarray]:
    n = x.shape[axes[-1]]
    if conjugate:
        g = conj(g)
    return (c2r(_edges(g, axes[-1], n, 0.5), axes=axes, n=n, scale=scale),)


def _c2r_grad(g: ndarray, *_: Any, axes: tuple[int, ...], n: int, scale: float) -> tuple[ndarray]:
    return (_edges(r2c(g, axes=axes, scale=scale), axes[-1], n, 2),)


c2c: Op = Op(
    "fft_c2c",
    cpu="fft.c2c",
    cuda="numeric.fft.c2c",
    vjp=lambda g, _y, _x, axes, inverse, scale: (
        c2c(g, axes=axes, inverse=not inverse, scale=scale),
    ),
)
r2c: Op = Op("fft_r2c", cpu="fft.r2c", cuda="numeric.fft.r2c", vjp=_r2c_grad)
c2r: Op = Op("fft_c2r", cpu="fft.c2r", cuda="numeric.fft.c2r", vjp=_c2r_grad)


MOST_AT_ONCE = 3  # axes along which `cosines` goes, of types 2 and 3; otherwise one


def _cosines_grad(
    g: ndarray,
    *_: Any,
    kind: int,
    sines: bool,
    before: float,
    after: float,
    **same: Any,
) -> tuple[ndarray]:
    """Type 3 is the transpose of type 2 but for half of number 0, type 1 its own but for half of
    both ends; types 4 and sines of type 1 are symmetric."""
    ends = kind in (2, 3) or kind == 1 and not sines
    first = after * 2 if ends and kind != 3 else after
    last = before / 2 if ends and kind != 2 else before
    other = {2: 3, 3: 2}.get(kind, kind)
    return (cosines(g, kind=other, sines=sines, before=first, after=last, **same),)


cosines: Op = Op(
    "fft_cosines",
    cpu="fft.cosines",
    cuda="numeric.cosine_transforms.cosines",
    vjp=_cosines_grad,
)
frequencies = Op("fft_frequencies", cpu="fft.frequencies", cuda="numeric.fft.frequencies")

# -------------------- arguments

Axes = int | Sequence[int] | None
ANY_NUMBERS = Category("numeric or bool", NUMERIC | dtypes.BOOLEAN)


def input_of(name: str, x: Any, category: Category = ANY_NUMBERS) -> ndarray:
    """The argument as an array of a dtype that is transformed: float32, float64 or their complex
    counterparts."""
    x = require(name, x, category)
    if x.dtype.kind == "c":
        return x
    narrow = x.dtype in (dtypes.float16, dtypes.bfloat16, dtypes.float32)
    return astype(x, dtypes.float32 if narrow else dtypes.float64, copy=False)


def as_narrow(y: ndarray, x: ndarray) -> ndarray:
    """A real result in x's dtype, where that has 16 bits."""
    narrow = x.dtype in (dtypes.float16, dtypes.bfloat16)
    return astype(y, x.dtype) if narrow else y


def as_complex(x: ndarray) -> ndarray:
    """An array of one of these dtypes as complex numbers."""
    return (
        x
        if x.dtype.kind == "c"
        else astype(x, np.complex64 if x.dtype.itemsize == 4 else np.complex128)
    )


def scale_of(name: str, norm: str | None, sizes: Sequence[int], inverse: bool) -> float:
    """The factor of a transform of these lengths."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'{name}: norm must be "backward", "ortho" or "forward", got {norm!r}')
    count = math.prod(sizes)
    if norm == "ortho":
        return 1 / math.sqrt(count)
    return 1 / count if inverse == (norm != "forward") else 1.0


def length_of(name: str, n: Any) -> int:
    size = shapes.as_integer(name, "a length", n)
    if size < 1:
        raise ValueError(f"{name}: Invalid number of FFT data points ({size}) specified.")
    return size


def fitted(x: ndarray, axis: int, size: int) -> ndarray:
    """x cut, or filled up with zeros, to `size` along an axis."""
    have = x.shape[axis]
    if have == size:
        return x
    if have > size:
        return span(x, axis, 0, size)
    return pad(x, [(0, size - have if i == axis else 0) for i in range(x.ndim)])


def last_axes(s: Any, axes: Axes) -> Axes:
    """Axes of lengths that come without: the last ones. NumPy's functions warn of that, SciPy's do
    not."""
    if axes is not None or s is None or np.ndim(s) == 0:
        return axes
    return tuple(range(-len(s), 0))


def lengths_and_axes(
    name: str, x: ndarray, s: Sequence[int] | None, axes: Axes
) -> tuple[list[int], list[int]]:
    """(lengths, axes) of a transform along several axes."""
    if s is not None:
        s = members(
            name, [s] if isinstance(s, int) or getattr(s, "ndim", None) == 0 else s, "lengths"
        )
    if s and axes is None:
        warn(
            f"{name}: `axes` should not be `None` if `s` is not `None` (deprecated in NumPy 2.0); "
            "s holds the lengths of the last axes",
            DeprecationWarning,
        )
    if s and None in s:
        warn(
            f"{name}: passing an array containing `None` values to `s` is deprecated in NumPy 2.0; "
            "-1 keeps a length",
            DeprecationWarning,
        )
    if axes is None:
        chosen = list(range(0 if s is None else x.ndim - len(s), x.ndim))
        if chosen and chosen[0] < 0:
            raise ValueError(f"{name}: {len(s or ())} lengths for an array of shape {x.shape}")
    else:
        chosen = [
            shapes.normalize_axis(name, a, x.ndim) for a in (axes if np.iterable(axes) else [axes])
        ]
    if s is None:
        sizes = [x.shape[a] for a in chosen]
    elif len(s) != len(chosen):
        raise ValueError(
            f"{name}: Shape and axes have different lengths: s={tuple(s)}, axes={tuple(chosen)}"
        )
    else:
        sizes = [x.shape[a] if n in (-1, None) else n for n, a in zip(s, chosen, strict=True)]
    return [length_of(name, n) for n in sizes], chosen
