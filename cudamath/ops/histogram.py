"""Counting: bincount, histograms of one and several dimensions. Kernels:
kernels/histogram/histogram.py.

Counts are integers, and sums of weights are added in a fixed order (kernels/index/dispatch.py):
both are the same on every run. The number of bins and their edges must be known on the host, so a
call that takes its range from the data waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.array import ndarray
from ..core.asarray import asarray, upload
from ..core.devices import CPU
from ..core.dispatch.call_record import obstruct
from ..core.dispatch.checks import as_numbers, coerce, members, require, speaks_for
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.dtypes import COMPLEX, FLOATING, INTEGER_OR_BOOL, REAL_OR_BOOL
from ..core.shapes import as_integer
from ..core.typing import ArrayLike
from ..core.user_warnings import warn
from .creation import zeros
from .index import take
from .join import stack
from .masks import FETCHED
from .reduce import max as max_
from .reduce import mean, std
from .reduce import min as min_
from .search import _places
from .shape import astype, ravel, reshape
from .sort import sort
from .transfer import complex_of_parts, imag, real
from .where import where

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]

_bincount = Op("bincount", cpu="histogram.bincount", cuda="histogram.dispatch.bincount")
_bin_sums = Op(
    "bin_sums",
    cpu="histogram.bin_sums",
    cuda="histogram.dispatch.bin_sums",
    vjp=lambda g, _y, _weights, x, bins: (take(g, x), None),
)
_histogram = Op("histogram", cpu="histogram.histogram", cuda="histogram.dispatch.histogram")
_in_range = Op(
    "histogram_in_range",
    cpu="histogram.in_range",
    cuda="histogram.dispatch.in_range",
    outputs=3,
)
_between = Op(
    "histogram_between",
    cpu="histogram.between",
    cuda="histogram.dispatch.between",
    outputs=2,
)
_MOST_BINS = 8192  # which the latter counts on a GPU
_NO_DATA = asarray(
    np.empty(0, np.int8), device="cpu"
)  # edges of a given range then have the range's dtype


def _ends(x: ndarray) -> tuple[Any, Any]:
    """The smallest and the largest element, on the host: one wait. They are constants, as counts
    are."""
    if 0 < x._layout.nbytes <= FETCHED:
        host = x._alias().to_numpy()
        return host.min(), host.max()
    low, high = stack([min_(x._alias()), max_(x._alias())]).to_numpy()
    return low, high


def bincount(x: ArrayLike, /, weights: ArrayLike | None = None, minlength: int = 0) -> ndarray:
    """How often each of 0, 1, 2, ... occurs in an array of non-negative integers.

    Parameters
    ----------
    x : array_like
        Non-negative integers, an array of one dimension.
    weights : array_like, optional
        Weights of x's shape: y[i] is the sum of the weights where x is i.
    minlength : int, default 0
        Smallest length of the result.

    Returns
    -------
    ndarray
        Array of length max(x) + 1 (or `minlength`): of int64, or with weights of the default
        floating-point dtype, if theirs is not wider.

    Raises
    ------
    ValueError
        An element is negative, or the shapes do not fit each other.
    TypeError
        `x` does not consist of integers, or the weights are complex.

    Notes
    -----
    With respect to the weights, the gradient is g at the positions `x`. Sums of weights are
    computed in a fixed order.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.bincount([0, 1, 1, 3]).tolist()
    [1, 2, 0, 1]
    >>> cm.bincount([0, 1, 1], weights=[0.5, 1.0, 2.0]).tolist()
    [0.5, 3.0]
    """
    x = require("bincount", x)
    if not x.size and x.ndim == 1:  # of any dtype, and whatever the weights: NumPy's rule
        size = as_integer("bincount", "minlength", minlength, 0)
        return zeros(size, np.int64, device=x.device)
    x = require("bincount", x, INTEGER_OR_BOOL)
    if x.ndim != 1:
        raise ValueError(f"bincount: wants 1 dimension, got shape {x.shape}")
    bins = as_integer("bincount", "minlength", minlength, 0)
    if x._layout.device == CPU:
        obstruct("read values")
        low, high = int(x._data.min()), int(x._data.max())
        if low < 0:
            raise ValueError(f"bincount: elements must not be negative, got {low}")
    else:
        signed = x.dtype.kind == "i"
        # unsigned, negative numbers are the largest of all
        high = int(max_(x.view(f"u{x.itemsize}") if signed else x))
        if signed and high >> 8 * x.itemsize - 1:
            raise ValueError(f"bincount: elements must not be negative, got {int(min_(x))}")
    bins = max(bins, high + 1)
    if weights is None:
        return _bincount(x, bins=bins)
    weights = _weights("bincount", x, weights)
    if weights.dtype in COMPLEX:
        raise TypeError(
            f"bincount: wants real weights, got {weights.dtype} of shape {weights.shape}"
        )
    wide = dtypes.promote(weights.dtype, dtypes.default_float())
    return _bin_sums(astype(weights, wide, copy=False), x, bins=bins)


def _weights(name: str, x: ndarray, weights: Any) -> ndarray:
    """Weights of x's shape, floating-point or complex."""
    given = coerce(name, (x, weights))[1]
    if given.shape != x.shape:
        raise ValueError(
            f"{name}: weights of shape {given.shape} must have the shape of x, {x.shape}"
        )
    return astype(given, dtypes.default_float()) if given.dtype in INTEGER_OR_BOOL else given


# -------------------- edges

_Ends = tuple[float, float]


def _spread(x: ndarray) -> float:
    """The distance of the quartiles, a constant."""
    ordered = sort(x._alias())
    at = np.array([0.25, 0.75]) * (x.size - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, x.size - 1)
    a, b = (ordered[asarray(i, device=x.device)].to_numpy().astype(np.float64) for i in (low, high))
    quartiles = a + (b - a) * (at - low)
    return float(quartiles[1] - quartiles[0])


def _scott(x: ndarray, span: float, ends: _Ends) -> float:
    return (24.0 * math.pi**0.5 / x.size) ** (1 / 3) * float(std(x))


def _freedman(x: ndarray, span: float, ends: _Ends) -> float:
    return 2.0 * _spread(x) * x.size ** (-1 / 3)


def _sturges(x: ndarray, span: float, ends: _Ends) -> float:
    return span / (math.log2(x.size) + 1.0)


def _doane(x: ndarray, span: float, ends: _Ends) -> float:
    if x.size <= 2:
        return 0.0
    deviation = float(std(x))
    if not deviation > 0:
        return 0.0
    slant = (6.0 * (x.size - 2) / ((x.size + 1.0) * (x.size + 3))) ** 0.5
    skew = float(mean(((x - mean(x)) / deviation) ** 3))
    return span / (1.0 + math.log2(x.size) + math.log2(1.0 + abs(skew) / slant))


def _auto(x: ndarray, span: float, ends: _Ends) -> float:
    width, other = _freedman(x, span, ends), _sturges(x, span, ends)
    return min(max(width, _root(x, span, ends) / 2), other) if width else other


def _root(x: ndarray, span: float, ends: _Ends) -> float:
    return span / x.size**0.5


def _rice(x: ndarray, span: float, ends: _Ends) -> float:
    return span / (2.0 * x.size ** (1 / 3))


def _stone(x: ndarray, span: float, ends: _Ends) -> float:
    """By the estimated integrated squared error, which is least."""
    if x.size <= 1 or not span:
        return 0.0

    def loss(bins: int) -> float:
        shares = histogram(x._alias(), bins, ends)[0].to_numpy() / x.size
        return (2 - (x.size + 1) * float(shares @ shares)) * bins / span

    most = max(100, int(x.size**0.5))
    best = min(range(1, most + 1), key=loss)
    if best == most:
        warn("histogram: the number of bins estimated may be suboptimal", RuntimeWarning)
    return span / best


_WIDTHS: dict[str, Callable[[ndarray, float, _Ends], float]] = {
    "auto": _auto,
    "doane": _doane,
    "fd": _freedman,
    "rice": _rice,
    "scott": _scott,
    "stone": _stone,
    "sqrt": _root,
    "sturges": _sturges,
}


def _range(name: str, x: ndarray, given: Any) -> tuple[float, float]:
    """First and last edge."""
    if given is not None:
        ends = members(name, given, "two numbers as range")
        if len(ends) != 2:
            raise ValueError(f"{name}: wants two numbers as range, got {given!r:.60}")
        as_numbers(
            name, "real numbers as range", *ends
        )  # looked at alone: a NumPy number keeps its dtype, which edges take
        low, high = [end.item() if isinstance(end, ndarray) else end for end in ends]
        if low > high:
            raise ValueError(f"{name}: range must ascend, got ({low}, {high})")
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(f"{name}: range must be finite, got ({low}, {high})")
    elif not x.size:
        low, high = 0.0, 1.0
    else:
        low, high = _ends(x)
        if not (np.isfinite(low) and np.isfinite(high)):
            raise ValueError(
                f"{name}: the range of x of shape {x.shape} is not finite: [{low}, {high}]"
            )
    if low == high:
        low, high = low - 0.5, high + 0.5
    return low, high


def _is_number(bins: Any) -> bool:
    return np.ndim(bins) == 0 and not isinstance(bins, str)


def _edges(name: str, x: ndarray, bins: Any, given: Any, weighted: bool) -> tuple[np.ndarray, bool]:
    """The edges of the bins of a raveled array, on the host, and whether they are evenly spaced."""
    if isinstance(bins, str):
        if bins not in _WIDTHS:
            raise ValueError(
                f"{name}: bins must be a number, edges or one of {', '.join(_WIDTHS)}; got {bins!r}"
            )
        if weighted:
            raise TypeError(
                f"{name}: the number of bins cannot be estimated ({bins!r}) for weighted data"
            )
        low, high = _range(name, x, given)
        if given is not None:
            x = x[(x >= low) & (x <= high)]
        count = 1
        if x.size:
            span = float(high) - float(low)
            whole = x.dtype in INTEGER_OR_BOOL
            x = astype(x, np.float64) if whole else x
            values = _ends(x)
            width = _WIDTHS[bins](x, float(values[1]) - float(values[0]), (low, high))
            if whole and 0 < width < 1:  # no bin without a whole number in it
                width = 1.0
            count = max(math.ceil(span / width), 1) if width else 1
    elif _is_number(bins):
        count = as_integer(name, "bins", bins, 1)
        low, high = _range(name, x, given)
    else:
        edges = bins.to_numpy() if isinstance(bins, ndarray) else np.asarray(bins)
        if edges.ndim != 1:
            raise ValueError(f"{name}: bins must have 1 dimension, got shape {edges.shape}")
        if np.any(edges[:-1] > edges[1:]):
            raise ValueError(f"{name}: the edges in bins of shape {edges.shape} must ascend")
        return edges, False
    kind = x.dtype if given is None and x.dtype in FLOATING else _edge_dtype(x, low, high)
    edges = np.linspace(low, high, count + 1, dtype=np.float32 if kind.kind == "V" else kind)
    if np.any(edges[:-1] >= edges[1:]):
        raise ValueError(
            f"{name}: {count} bins are too many for the range [{low}, {high}] of {kind}"
        )
    return edges, True


def _edge_dtype(x: ndarray, low: Any, high: Any) -> np.dtype:
    """The dtype of edges between two given numbers."""
    kind = dtypes.result_type(low, high, x)
    return np.result_type(kind, np.float64) if kind.kind in "iub" else kind


def _apart(range: Any, bins: Any) -> tuple[float, float] | None:
    """A range of two of Python's numbers so far apart that even float32 has an edge for each of the
    bins, else None."""
    if range.__class__ is not tuple or len(range) != 2 or bins.__class__ is not int or bins < 1:
        return None
    low, high = range
    if (low.__class__ is not float and low.__class__ is not int) or (
        high.__class__ is not float and high.__class__ is not int
    ):
        return None
    largest = max(abs(low), abs(high))
    return range if largest < 1e38 and high - low > bins * largest * 2.0**-20 else None


def histogram_bin_edges(
    x: ArrayLike,
    bins: ArrayLike | str = 10,
    range: tuple[float, float] | None = None,
    weights: ArrayLike | None = None,
) -> ndarray:
    """The edges that `histogram` would use.

    Parameters
    ----------
    x : array_like
        Real or bool array of any shape.
    bins : array_like or str, default 10
        Number of bins of equal width, or their ascending edges, or the method that chooses the
        number: "auto", "fd", "doane", "scott", "stone", "rice", "sturges" or "sqrt", as in
        NumPy.
    range : tuple of float, optional
        First and last edge. The default is the smallest and the largest element.
    weights : array_like, optional
        Accepted for compatibility with NumPy, and not used.

    Returns
    -------
    ndarray
        Array of one dimension.

    Raises
    ------
    ValueError
        The bins are not valid, the range is not valid, or the shapes do not fit each other.
    TypeError
        An array is complex.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.histogram_bin_edges([0.0, 4.0], bins=4).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    x = ravel(require("histogram_bin_edges", x, REAL_OR_BOOL))
    return asarray(
        _edges("histogram_bin_edges", x, bins, range, weights is not None)[0], device=x.device
    )


@fast_path("x", "weights")
def histogram(
    x: ArrayLike,
    bins: ArrayLike | str = 10,
    range: tuple[float, float] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[ndarray, ndarray]:
    """How many elements lie in each of some bins.

    y[i] = number of x with edges[i] <= x < edges[i + 1]; the last bin includes its upper edge

    Parameters
    ----------
    x : array_like
        Real or bool array of any shape.
    bins : array_like or str, default 10
        Number of bins of equal width, or their ascending edges, or the method that chooses the
        number: "auto", "fd", "doane", "scott", "stone", "rice", "sturges" or "sqrt", as in
        NumPy.
    range : tuple of float, optional
        First and last edge. The default is the smallest and the largest element.
    density : bool, optional
        Whether the counts are divided by the number of elements and the widths of the bins, so that
        the integral is 1.
    weights : array_like, optional
        Weights of x's shape that are added instead of 1.

    Returns
    -------
    tuple of ndarray
        The counts (int64, or the weights' dtype, or float64 with `density`) and
        the edges.

    Raises
    ------
    ValueError
        The bins are not valid, the range is not valid, or the shapes do not fit each other.
    TypeError
        An array is complex.

    Notes
    -----
    The function is differentiable with respect to the weights. Sums of weights are computed in a
    fixed order.

    Examples
    --------
    >>> import cudamath as cm
    >>> counts, edges = cm.histogram([1, 2, 1, 4], bins=[0, 1, 2, 3])
    >>> counts.tolist()
    [0, 2, 1]
    """
    ends, x = _apart(range, bins), require("histogram", x, REAL_OR_BOOL)
    weights = None if weights is None else coerce("histogram", (x, weights))[1]
    given = None if weights is None else ravel(_weights("histogram", x, weights))
    x = ravel(x)
    wide = x.dtype in INTEGER_OR_BOOL or x.dtype.name in ("float32", "float64")
    if (
        wide
        and range is None
        and given is None
        and x.size
        and _is_number(bins)
        and (count := as_integer("histogram", "bins", bins, 1)) <= _MOST_BINS
    ):
        counts, edges, wrong = _in_range(x, bins=count)
        if wrong.item():
            _edges("histogram", x, count, None, False)  # raises
    elif (
        wide
        and ends
        and given is None
        and dtypes.promote(x.dtype, kind := _edge_dtype(x, *ends)) == kind
    ):
        counts, edges = _between(x, scalars=ends, bins=bins, edge=kind)
    else:
        counts, edges = _by_host(x, bins, range, given)
        if weights is not None and weights.dtype in INTEGER_OR_BOOL and not density:
            counts = astype(counts, weights.dtype)
    if density:
        widths = astype(edges[1:] - edges[:-1], np.float64)
        counts = counts / widths / counts.sum()
    return counts, edges


def _by_host(x: ndarray, bins: Any, range: Any, weights: ndarray | None) -> tuple[ndarray, ndarray]:
    """Counts, or sums of weights, and the edges, made on the host."""
    host, even = _edges("histogram", x, bins, range, weights is not None)
    edges = upload(host, x._layout.device, ours=True) if even else asarray(host, device=x.device)
    meeting = dtypes.promote(x.dtype, edges.dtype)
    bounds = edges if edges.dtype == meeting else astype(edges, meeting)
    if edges.size < 2:
        kind = np.dtype(np.int64) if weights is None else weights.dtype
        return zeros(0, kind, device=x.device), edges
    if weights is None:
        return _histogram(x, bounds, even=even), edges
    return _weighted([_bin(x, bounds)], (edges.size - 1,), weights), edges


def _bin(x: ndarray, edges: ndarray) -> ndarray:
    """The bin of each element, -1 outside of all."""
    bins = edges.size - 1
    place = _places("histogram", edges, x, True) - 1
    place = where(x == edges[-1], bins - 1, place)
    return where((place >= bins) | (x != x), -1, place)


def _weighted(
    places: Sequence[ndarray], shape: tuple[int, ...], weights: ndarray | None
) -> ndarray:
    """Counts, or sums of weights, of points in a grid of bins; ``places``: the bin along each axis,
    or -1."""
    size = math.prod(shape)
    flat = places[0]
    outside = flat < 0
    for n, place in zip(shape[1:], places[1:], strict=True):
        flat = flat * n + place
        outside = outside | (place < 0)
    flat = where(outside, size, flat)  # one bin more, for what lies outside
    if weights is None:
        counts = _bincount(flat, bins=size + 1)
    else:
        counts = _sums(weights, flat, size + 1)
    return reshape(counts[:size], shape)


def _sums(weights: ndarray, places: ndarray, bins: int) -> ndarray:
    """Sums of real or complex weights by their places."""
    if weights.dtype not in COMPLEX:
        return _bin_sums(weights, places, bins=bins)
    parts = [_bin_sums(part(weights), places, bins=bins) for part in (real, imag)]
    return complex_of_parts(*parts)


# -------------------- several dimensions


def _one(bins: Any) -> bool:
    """Whether this is a number of bins or a way to choose it, for every dimension."""
    return isinstance(bins, (str, int, float, np.generic)) or getattr(bins, "ndim", None) == 0


def histogramdd(
    sample: ArrayLike,
    bins: ArrayLike = 10,
    range: ArrayLike | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[ndarray, list[ndarray]]:
    """How many points lie in each cell of a grid.

    Parameters
    ----------
    sample : array_like
        Real array of shape (points, dimensions), or a sequence of one coordinate vector for each
        dimension.
    bins : array_like, default 10
        Number of bins, or a number or an array of edges for each dimension.
    range : array_like, optional
        Pair (first, last) of edges for each dimension. None takes the range of the data.
    density : bool, optional
        Whether the counts are divided by the number of points and the volumes of the cells.
    weights : array_like of shape (points,), optional
        Weights that are added instead of 1.

    Returns
    -------
    tuple of (ndarray, list of ndarray)
        The counts, float64 as in NumPy, with one axis for each dimension, and the list of edges.

    Raises
    ------
    ValueError
        The shapes do not fit each other, the bins are not valid, or a range is not valid.
    TypeError
        An array is complex.

    Notes
    -----
    The function is differentiable with respect to the weights.

    Examples
    --------
    >>> import cudamath as cm
    >>> points = cm.asarray([[0.1, 0.2], [0.8, 0.9], [0.7, 0.1]])
    >>> counts, edges = cm.histogramdd(points, bins=2, range=[(0, 1), (0, 1)])
    >>> counts.tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    if isinstance(sample, (tuple, list)):
        columns = coerce("histogramdd", tuple(sample), REAL_OR_BOOL)
    else:
        points = require("histogramdd", sample, REAL_OR_BOOL)
        if points.ndim == 1:
            points = reshape(points, (points.size, 1))
        if points.ndim != 2:
            raise ValueError(
                f"histogramdd: wants a sample of shape (points, dimensions), got {points.shape}"
            )
        columns = [points[:, j] for j in np.arange(points.shape[1])]
    if not columns or any(c.ndim != 1 or c.shape != columns[0].shape for c in columns):
        raise ValueError(
            "histogramdd: wants vectors of one length, got "
            f"{' '.join(str(c.shape) for c in columns)}"
        )
    dimensions = len(columns)
    each = [bins] * dimensions if _one(bins) else members("histogramdd", bins, "bins")
    if len(each) != dimensions:
        raise ValueError(
            f"histogramdd: got bins for {len(each)} dimensions, the sample has {dimensions}"
        )
    ranges = [None] * dimensions if range is None else members("histogramdd", range, "ranges")
    if len(ranges) != dimensions:
        raise ValueError(
            f"histogramdd: got ranges for {len(ranges)} dimensions, the sample has {dimensions}"
        )
    given = None if weights is None else _weights("histogramdd", columns[0], weights)
    if given is not None and given.dtype in COMPLEX:
        raise TypeError(
            f"histogramdd: wants real weights, got {given.dtype} of shape {given.shape}"
        )
    places, edges, hosts = [], [], []
    for x, chosen, limits in zip(columns, each, ranges, strict=True):
        # Here, in contrast to one dimension, NumPy's edges between given numbers are not of the
        # data's dtype.
        free = limits is not None and _is_number(chosen)
        host, _ = _edges("histogramdd", _NO_DATA if free else x, chosen, limits, given is not None)
        if host.size < 2:
            raise ValueError(
                f"histogramdd: edges must bound at least one bin, got shape {host.shape}"
            )
        bounds = asarray(host, device=x.device)
        meeting = dtypes.promote(x.dtype, bounds.dtype)
        places.append(
            _bin(
                x if x.dtype == meeting else astype(x, meeting),
                bounds if bounds.dtype == meeting else astype(bounds, meeting),
            )
        )
        edges.append(bounds)
        hosts.append(host)
    counts = astype(_weighted(places, tuple([h.size - 1 for h in hosts]), given), np.float64)
    if density:
        volume = hosts[0][1:] - hosts[0][:-1]
        for h in hosts[1:]:
            volume = np.multiply.outer(volume, np.diff(h))
        counts = counts / asarray(volume.astype(np.float64), device=counts.device) / counts.sum()
    return counts, edges


@speaks_for("histogram2d")
def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: ArrayLike | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[ndarray, ndarray, ndarray]:
    """How many points (x, y) lie in each cell of a grid.

    Parameters
    ----------
    x, y : array_like of shape (points,)
        Real coordinates of the points.
    bins : array_like, default 10
        Number of bins of both axes, or edges of both axes, or a pair of either.
    range : array_like, optional
        Pair (first, last) of edges for each dimension. None takes the range of the data.
    density : bool, optional
        Whether the counts are divided by the number of points and the volumes of the cells.
    weights : array_like of shape (points,), optional
        Weights that are added instead of 1.

    Returns
    -------
    tuple of ndarray
        The counts of shape (bins of x, bins of y), float64, the edges of `x` and the edges of `y`.

    Raises
    ------
    ValueError
        The shapes do not fit each other, the bins are not valid, or a range is not valid.
    TypeError
        An array is complex.

    Notes
    -----
    The function is differentiable with respect to the weights.

    Examples
    --------
    >>> import cudamath as cm
    >>> counts, _, _ = cm.histogram2d([0, 1, 1], [0, 1, 0], bins=2)
    >>> counts.tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    x, y = coerce("histogram2d", (x, y), REAL_OR_BOOL)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(
            f"histogram2d: wants x and y of one length, got shapes {x.shape} and {y.shape}"
        )
    common = dtypes.promote(x.dtype, y.dtype)
    x, y = (astype(each, common, copy=False) for each in (x, y))
    if not _one(bins):
        bins = bins if hasattr(bins, "__len__") else members("histogram2d", bins, "bins")
        bins = bins if len(bins) == 2 else [bins, bins]
    counts, (a, b) = histogramdd((x, y), bins, range, density, weights)
    return counts, a, b
