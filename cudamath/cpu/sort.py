"""Sorting in NumPy: stable, NaN last, either direction."""

import numpy as np

from .quantiles import nan_quantile


def comparable(x):
    """x in a dtype that NumPy sorts rightly: bfloat16, whose NaNs it does not know, as float32."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


def _kind(x):
    """How values are sorted: as is fastest where equal ones cannot be told apart, which only zeros
    of both signs and complex numbers can."""
    if x.dtype.kind == "f":
        zeros = np.signbit(x[x == 0])
        return "stable" if zeros.any() and not zeros.all() else None
    return "stable" if x.dtype.kind == "c" else None


def sort(x, *, axis, descending):
    """x sorted along an axis. NumPy 2.4 leaves thousands of float16 with few values out of order
    where it sorts them by AVX-512; as float32 they take less time, too."""
    keys = comparable(x) if x.dtype != np.float16 else x.astype(np.float32)
    out = np.sort(keys, axis=axis, kind=_kind(keys)).astype(x.dtype, copy=False)
    return np.ascontiguousarray(np.flip(out, axis)) if descending else out


def argsort(x, *, axis, descending):
    """The positions that sort x; of equal elements the first comes first."""
    x = comparable(x)
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.ascontiguousarray(x.shape[axis] - 1 - np.flip(backwards, axis))


def partition(x, *, axis, kth):
    """x with the elements of these ranks in their places, smaller ones before them."""
    return np.partition(comparable(x), kth, axis=axis).astype(x.dtype, copy=False)


def argpartition(x, *, axis, kth):
    """The positions that partition x."""
    return np.argpartition(comparable(x), kth, axis=axis)


def leading(x, *, axis, count, descending):
    """The positions of the first elements that a sort would give."""
    order = argsort(x, axis=axis, descending=descending)
    return np.ascontiguousarray(order[(*[slice(None)] * axis, slice(count))])


def medians(x, *, skip):
    """The medians along the last axis; NaN where there is one. skip: of the elements that are not
    NaN."""
    if skip:
        return nan_quantile(
            sort(x, axis=-1, descending=False),
            method="median",
            wide=np.dtype(np.float32),
            scalars=(0, 0, 0),
        )
    return np.asarray(np.median(comparable(x), axis=-1)).astype(x.dtype, copy=False)


def topk(x, *, axis, count, descending):
    """The first elements that a sort would give, and their positions."""
    order = leading(x, axis=axis, count=count, descending=descending)
    return np.take_along_axis(x, order, axis), order


def order_statistics(x, *, ranks):
    """The elements at these ranks of the sorted lines along the last axis."""
    return np.partition(comparable(x), sorted(set(ranks)), -1)[..., list(ranks)].astype(
        x.dtype, copy=False
    )
