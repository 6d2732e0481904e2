"""One call of every function of NumPy that works on numbers, for tests that run it beside NumPy.

`CALLS[name]` is a function of (xp, a): `xp` is numpy or cudamath, and `a(*shape)` gives an array of
the dtype under test, small positive numbers (all True for bool), in xp's own class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[Any, Callable[..., Any]], Any]

CALLS: dict[str, Call] = {}


def _calls(names: str, call: Callable[..., Any]) -> None:
    for name in names.split():
        CALLS[name] = lambda xp, a, name=name: call(_function(xp, name), a)


def _function(xp: Any, name: str) -> Any:
    for part in name.split("."):
        xp = getattr(xp, part)
    return xp


def values(dtype: np.dtype, *shape: int) -> np.ndarray:
    """Numbers from 1 to 5 that make regular matrices; True for bool."""
    n = int(np.prod(shape))
    x = np.array([1, 3, 2, 5, 4, 1, 2, 2, 3, 1, 5, 3, 1, 4, 2, 3], np.float64)
    return np.resize(x, n).reshape(shape).astype(dtype)


_calls(
    "absolute abs fabs negative positive sign sqrt cbrt square reciprocal exp exp2 expm1 log log2 "
    "log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh acos asin "
    "atan acosh asinh atanh degrees radians deg2rad rad2deg sinc i0 rint floor ceil trunc fix "
    "isnan isinf isfinite signbit spacing invert bitwise_not bitwise_count bitwise_invert "
    "logical_not conj conjugate "
    "real imag angle frexp modf nan_to_num real_if_close iscomplex isreal isneginf isposinf "
    "unwrap round around",
    lambda f, a: f(a(3)),
)
_calls(
    "add subtract multiply divide true_divide floor_divide remainder mod fmod divmod power "
    "pow float_power arctan2 atan2 hypot logaddexp logaddexp2 copysign nextafter maximum minimum "
    "fmax fmin heaviside gcd lcm bitwise_and bitwise_or bitwise_xor left_shift right_shift "
    "bitwise_left_shift bitwise_right_shift "
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
    "isclose ldexp",
    lambda f, a: f(a(3), a(3)),
)
_calls(
    "sum prod mean std var max min amax amin ptp any all argmax argmin cumsum cumprod "
    "cumulative_sum cumulative_prod median average "
    "nansum nanprod nanmean nanstd nanvar nanmax nanmin nanargmax nanargmin nancumsum nancumprod "
    "nanmedian count_nonzero diff ediff1d gradient trapezoid sort argsort sort_complex unique "
    "unique_values unique_all unique_counts unique_inverse flip roll flatnonzero nonzero argwhere "
    "trim_zeros ravel atleast_1d atleast_2d atleast_3d squeeze copy ascontiguousarray "
    "asfortranarray asanyarray asarray array zeros_like ones_like empty_like "
    "diag diagflat vander tile resize histogram histogram_bin_edges bincount digitize corrcoef "
    "cov poly roots polyder polyint poly1d tri "
    "linalg.norm linalg.vector_norm fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft "
    "fft.fftshift fft.ifftshift array_split",
    lambda f, a: {
        "tile": lambda: f(a(5), 2),
        "resize": lambda: f(a(5), (2, 4)),
        "digitize": lambda: f(a(5), a(1)),
        "roll": lambda: f(a(5), 1),
        "tri": lambda: f(3),
        "array_split": lambda: f(a(5), 2),
    }.get(f.__name__, lambda: f(a(5)))(),
)
_calls(
    "dot vdot inner outer kron convolve correlate cross linalg.cross linalg.outer linalg.vecdot "
    "vecdot matmul intersect1d union1d setdiff1d setxor1d isin searchsorted polyadd polysub "
    "polymul polydiv polyval append hstack vstack dstack column_stack concatenate concat stack "
    "block array_equal array_equiv allclose",
    lambda f, a: (
        f([a(3), a(3)])
        if f.__name__.endswith("stack") or f.__name__ in ("concatenate", "concat", "block")
        else f(a(3), a(3))
    ),
)
_calls(
    "linalg.det linalg.slogdet linalg.inv linalg.pinv linalg.eig linalg.eigvals linalg.eigh "
    "linalg.eigvalsh linalg.svd linalg.svdvals linalg.qr linalg.cond linalg.matrix_rank trace "
    "linalg.trace linalg.diagonal linalg.matrix_norm linalg.matrix_transpose triu tril diagonal "
    "transpose matrix_transpose fliplr flipud rot90 fft.fft2 fft.ifft2 fft.rfft2 "
    "fft.irfft2 fft.fftn fft.ifftn fft.rfftn fft.irfftn",
    lambda f, a: f(a(3, 3)),
)
CALLS |= {
    "linalg.cholesky": lambda xp, a: xp.linalg.cholesky(a(1, 1)),
    "linalg.solve": lambda xp, a: xp.linalg.solve(a(3, 3), a(3)),
    "linalg.lstsq": lambda xp, a: xp.linalg.lstsq(a(4, 2), a(4)),
    "linalg.matrix_power": lambda xp, a: xp.linalg.matrix_power(a(3, 3), 3),
    "linalg.matrix_power negative": lambda xp, a: xp.linalg.matrix_power(a(3, 3), -1),
    "linalg.multi_dot": lambda xp, a: xp.linalg.multi_dot([a(3, 3), a(3, 3), a(3, 3)]),
    "linalg.tensordot": lambda xp, a: xp.linalg.tensordot(a(3, 3), a(3, 3)),
    "linalg.tensorinv": lambda xp, a: xp.linalg.tensorinv(a(3, 3), ind=1),
    "linalg.tensorsolve": lambda xp, a: xp.linalg.tensorsolve(a(3, 3), a(3)),
    "linalg.matmul": lambda xp, a: xp.linalg.matmul(a(3, 3), a(3, 3)),
    "linalg.qr raw": lambda xp, a: xp.linalg.qr(a(3, 3), mode="raw"),
    "tensordot": lambda xp, a: xp.tensordot(a(3, 3), a(3, 3)),
    "einsum": lambda xp, a: xp.einsum("ij,jk->ik", a(3, 3), a(3, 3)),
    "einsum of rows": lambda xp, a: xp.einsum("ij->i", a(3, 3)),
    "einsum of everything": lambda xp, a: xp.einsum("ij,j->", a(3, 3), a(3)),
    "matvec": lambda xp, a: xp.matvec(a(3, 3), a(3)),
    "vecmat": lambda xp, a: xp.vecmat(a(3), a(3, 3)),
    "polyfit": lambda xp, a: xp.polyfit(xp.asarray([1, 2, 3, 4, 5], dtype=a(1).dtype), a(5), 1),
    "polyfit full": lambda xp, a: xp.polyfit(a(5), a(5), 1, full=True)[:4],
    "polyfit cov": lambda xp, a: xp.polyfit(a(7), a(7), 1, cov=True),
    "polyfit weights": lambda xp, a: xp.polyfit(a(5), a(5), 1, w=a(5)),
    "poly matrix": lambda xp, a: xp.poly(a(3, 3)),
    "polyval number": lambda xp, a: xp.polyval(a(3), 2),
    "polyval float": lambda xp, a: xp.polyval(a(3), 2.0),
    "clip": lambda xp, a: xp.clip(a(3), a(1), a(1)),
    "clip numbers": lambda xp, a: xp.clip(a(3), 1, 2),
    "where": lambda xp, a: xp.where(a(3) == a(1), a(3), a(3)),
    "where number": lambda xp, a: xp.where(a(3) == a(1), a(3), 1.5),
    "select": lambda xp, a: xp.select([a(3) == a(1)], [a(3)]),
    "piecewise": lambda xp, a: xp.piecewise(a(3), [a(3) == a(1)], [1, 2]),
    "choose": lambda xp, a: xp.choose([0, 1, 0], [a(3), a(3)]),
    "compress": lambda xp, a: xp.compress([True, False, True], a(3)),
    "extract": lambda xp, a: xp.extract([True, False, True], a(3)),
    "take": lambda xp, a: xp.take(a(3), [0, 1]),
    "take_along_axis": lambda xp, a: xp.take_along_axis(a(3), xp.asarray([0, 1]), 0),
    "repeat": lambda xp, a: xp.repeat(a(3), 2),
    "delete": lambda xp, a: xp.delete(a(3), 1),
    "insert": lambda xp, a: xp.insert(a(3), 1, a(1)[0]),
    "pad": lambda xp, a: xp.pad(a(3), 1),
    "pad linear_ramp": lambda xp, a: xp.pad(a(3), 1, mode="linear_ramp"),
    "pad mean": lambda xp, a: xp.pad(a(3), 1, mode="mean"),
    "reshape": lambda xp, a: xp.reshape(a(4), (2, 2)),
    "swapaxes": lambda xp, a: xp.swapaxes(a(2, 3), 0, 1),
    "moveaxis": lambda xp, a: xp.moveaxis(a(2, 3), 0, 1),
    "rollaxis": lambda xp, a: xp.rollaxis(a(2, 3), 1),
    "permute_dims": lambda xp, a: xp.permute_dims(a(2, 3), (1, 0)),
    "expand_dims": lambda xp, a: xp.expand_dims(a(3), 0),
    "broadcast_to": lambda xp, a: xp.broadcast_to(a(3), (2, 3)),
    "broadcast_arrays": lambda xp, a: xp.broadcast_arrays(a(3), a(2, 3)),
    "meshgrid": lambda xp, a: xp.meshgrid(a(2), a(3)),
    "ix_": lambda xp, a: xp.ix_(a(2), a(3)),
    "full_like": lambda xp, a: xp.full_like(a(3), 2),
    "split": lambda xp, a: xp.split(a(4), 2),
    "hsplit": lambda xp, a: xp.hsplit(a(4), 2),
    "vsplit": lambda xp, a: xp.vsplit(a(4, 2), 2),
    "dsplit": lambda xp, a: xp.dsplit(a(1, 2, 4), 2),
    "unstack": lambda xp, a: xp.unstack(a(2, 3)),
    "partition": lambda xp, a: xp.partition(a(5), 2),
    "argpartition": lambda xp, a: xp.argpartition(a(5), 2),
    "lexsort": lambda xp, a: xp.lexsort((a(5), a(5))),
    "quantile": lambda xp, a: xp.quantile(a(5), 0.3),
    "quantile of its own": lambda xp, a: xp.quantile(a(5), a(1)[0] / a(1)[0]),
    "quantile nearest": lambda xp, a: xp.quantile(a(5), 0.3, method="nearest"),
    "quantile weights": lambda xp, a: xp.quantile(a(5), 0.3, weights=a(5), method="inverted_cdf"),
    "percentile": lambda xp, a: xp.percentile(a(5), 30),
    "percentile array": lambda xp, a: xp.percentile(a(5), xp.asarray([30, 50])),
    "nanquantile": lambda xp, a: xp.nanquantile(a(5), 0.3),
    "nanpercentile": lambda xp, a: xp.nanpercentile(a(5), 30),
    "average weights": lambda xp, a: xp.average(a(5), weights=a(5)),
    "average float weights": lambda xp, a: xp.average(
        a(3), weights=xp.asarray([1, 2, 3], dtype="float32")
    ),
    "bincount weights": lambda xp, a: xp.bincount(xp.asarray([0, 1, 1]), weights=a(3)),
    "histogram weights": lambda xp, a: xp.histogram(xp.asarray([0.0, 1, 1]), weights=a(3)),
    "histogram density": lambda xp, a: xp.histogram(a(5), density=True),
    "histogram2d": lambda xp, a: xp.histogram2d(a(5), a(5)),
    "histogramdd": lambda xp, a: xp.histogramdd(a(5, 2)),
    "interp": lambda xp, a: xp.interp(a(3), xp.asarray([1.0, 2.0, 6.0]), xp.asarray([1.0, 3, 2])),
    "interp values": lambda xp, a: xp.interp(xp.asarray([1.0, 2.0]), xp.asarray([1.0, 2, 6]), a(3)),
    "cov two": lambda xp, a: xp.cov(a(5), a(5)),
    "cov weights": lambda xp, a: xp.cov(a(5), aweights=xp.asarray([1.0, 2, 3, 1, 1])),
    "corrcoef two": lambda xp, a: xp.corrcoef(a(2, 5)),
    "trapezoid x": lambda xp, a: xp.trapezoid(a(5), a(5)),
    "gradient spacing": lambda xp, a: xp.gradient(a(5), 2.0),
    "gradient places": lambda xp, a: xp.gradient(a(3), xp.asarray([1, 2, 4], dtype="float32")),
    "linspace": lambda xp, a: xp.linspace(a(1)[0], a(2)[1], 4),
    "logspace": lambda xp, a: xp.logspace(a(1)[0], a(2)[1], 4),
    "geomspace": lambda xp, a: xp.geomspace(a(1)[0], a(2)[1], 4),
    "arange": lambda xp, a: xp.arange(a(1)[0], dtype=a(1).dtype),
    "eye": lambda xp, a: xp.eye(3, dtype=a(1).dtype),
    "identity": lambda xp, a: xp.identity(3, dtype=a(1).dtype),
    "full": lambda xp, a: xp.full(3, 2, dtype=a(1).dtype),
    "full of one": lambda xp, a: xp.full(3, a(1)[0]),
    "packbits": lambda xp, a: xp.packbits(a(8)),
    "unpackbits": lambda xp, a: xp.unpackbits(a(2)),
    "apply_along_axis": lambda xp, a: xp.apply_along_axis(lambda v: v.sum(), 0, a(2, 3)),
    "apply_over_axes": lambda xp, a: xp.apply_over_axes(xp.sum, a(2, 3), [0, 1]),
    "vectorize": lambda xp, a: xp.vectorize(lambda v: v + v)(a(3)),
    "sum axis": lambda xp, a: xp.sum(a(2, 3), axis=0),
    "mean axis": lambda xp, a: xp.mean(a(2, 3), axis=0),
    "cross of planes": lambda xp, a: xp.cross(a(2), a(2)),
    "fill_diagonal": lambda xp, a: xp.fill_diagonal(x := a(3, 3), 1) or x,
    "array plus one": lambda xp, a: a(3) + 1,
    "array plus a half": lambda xp, a: a(3) + 0.5,
    "array plus 1j": lambda xp, a: a(3) + 1j,
    "array times float32": lambda xp, a: a(3) * xp.asarray([1, 2, 3], dtype="float32"),
    "array times int64": lambda xp, a: a(3) * xp.asarray([1, 2, 3]),
    "array power 2": lambda xp, a: a(3) ** 2,
    "array power a half": lambda xp, a: a(3) ** 0.5,
    "emath.sqrt": lambda xp, a: xp.emath.sqrt(a(3)),
    "emath.log": lambda xp, a: xp.emath.log(a(3)),
    "emath.log2": lambda xp, a: xp.emath.log2(a(3)),
    "emath.log10": lambda xp, a: xp.emath.log10(a(3)),
    "emath.logn": lambda xp, a: xp.emath.logn(2, a(3)),
    "emath.power": lambda xp, a: xp.emath.power(a(3), 2),
    "emath.arccos": lambda xp, a: xp.emath.arccos(a(3)),
    "emath.arcsin": lambda xp, a: xp.emath.arcsin(a(3)),
    "emath.arctanh": lambda xp, a: xp.emath.arctanh(a(3)),
    "fft.irfft odd": lambda xp, a: xp.fft.irfft(a(3), 5),
    "add.reduce": lambda xp, a: xp.add.reduce(a(3)),
    "add.accumulate": lambda xp, a: xp.add.accumulate(a(3)),
    "multiply.reduce": lambda xp, a: xp.multiply.reduce(a(3)),
    "multiply.outer": lambda xp, a: xp.multiply.outer(a(3), a(2)),
    "add.reduceat": lambda xp, a: xp.add.reduceat(a(5), [0, 2]),
    "maximum.reduce": lambda xp, a: xp.maximum.reduce(a(3)),
    "maximum.accumulate": lambda xp, a: xp.maximum.accumulate(a(3)),
    "logical_and.reduce": lambda xp, a: xp.logical_and.reduce(a(3)),
}
