"""Matrices that few numbers determine, as `scipy.linalg` makes them: Toeplitz and Hankel matrices,
companions of polynomials, blocks.

Each is one kernel, whose element is a function of row and column: of numbers alone (`_formula`), or
the place in a line (`_placed`). Gradients are sums along the places where a number stands.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...core import dtypes
from ...core.array import ndarray
from ...core.devices import index_of
from ...core.dispatch.checks import coerce, require
from ...core.dispatch.fast_path import fast_path
from ...core.dispatch.op import ANY, Op
from ...core.layout import Layout
from ...core.shapes import as_integer
from ...core.typing import ArrayLike, DeviceLike, DTypeLike
from .. import reduce
from ..creation import zeros
from ..elementwise import abs, conj_or_same
from ..join import concat
from ..padding import pad
from ..ranges import arange
from ..shape import astype, broadcast_to, copy, diagonal, expand_dims, flip, reshape, span
from ..stride_tricks import sliding_window_view
from ..where import where

__all__ = [
    "bandwidth",
    "block_diag",
    "circulant",
    "companion",
    "convolution_matrix",
    "dft",
    "fiedler",
    "fiedler_companion",
    "hadamard",
    "hankel",
    "helmert",
    "hilbert",
    "khatri_rao",
    "leslie",
    "toeplitz",
]


def _vectors(
    name: str, what: str, x: Any, least: int = 1, allowed: dtypes.Category = ANY
) -> ndarray:
    """An array of at least one dimension; the last one has at least so many numbers."""
    x = require(name, x, allowed, what)
    if not x.ndim:
        x = reshape(x, (1,))
    if x.shape[-1] < least:
        raise ValueError(f"{name}: {what} needs {least} numbers along its last axis, got {x.shape}")
    return x


def _of_diagonals(line: ndarray, rows: int) -> ndarray:
    """x[i, j] = line[rows - 1 - i + j]: the diagonals, from the lowest one on."""
    windows = sliding_window_view(line, line.shape[-1] - rows + 1, axis=line.ndim - 1)
    return copy(flip(windows, axis=-2), order="C")


def _cut(x: ndarray, start: int, stop: int) -> ndarray:
    return span(x, x.ndim - 1, start, stop)


def _by_formula(
    rule: str, rows: int, n: int, dtype: np.dtype, device: DeviceLike | None, more: float = 0
) -> ndarray:
    """A matrix of n columns that a function of row and column makes."""
    index = index_of(device)
    layout = Layout.new((rows, n), dtype, index)
    return _formula(layout=layout, device=index, rule=rule, n=n, more=more)


def _of_polynomial(a: ndarray, rule: str) -> ndarray:
    """A matrix with the numbers -a[1:] / a[0]."""
    a = a if a.dtype in dtypes.FLOATING | dtypes.COMPLEX else astype(a, dtypes.default_float())
    if a.shape[-1] < 2:  # a constant
        return zeros((*a.shape[:-1], 0, 0), dtype=a.dtype, device=a.device)
    return _placed[rule](_in_order(a), rule=rule)


def _in_order(x: ndarray) -> ndarray:
    return x if x._layout.contiguous else copy(x, order="C")


_OF_DIAGONALS = "toeplitz", "circulant", "hankel", "hankel_of_column"


def _placed_grad(g: ndarray, _y: Any, x: ndarray, *_s: ndarray, rule: str) -> tuple[ndarray, ...]:
    """Each number of the line stands at one place."""
    n = g.shape[-1]
    if rule in _OF_DIAGONALS:
        return _line_gradient(g, rule)
    if rule == "leslie":
        return g[..., 0, :], diagonal(g, -1, g.ndim - 2, g.ndim - 1)
    slope = g[..., 0, :]
    if rule == "fiedler_companion":
        above, below = (diagonal(g, k, g.ndim - 2, g.ndim - 1) for k in (1, -1))
        even = arange(n - 1, device=g.device) % 2 == 0
        slope = concat([_cut(slope, 0, 1), where(even, above, below)], axis=-1)
    first, rest = conj_or_same(_cut(x, 0, 1)), conj_or_same(_cut(x, 1, n + 1))
    slope = -slope / first
    lead = -reduce.sum(slope * rest, axis=-1, keepdims=True) / first
    return (concat([lead, slope], axis=-1),)


def _line_gradient(g: ndarray, rule: str) -> tuple[ndarray, ...]:
    """Sums along diagonals: row i of the matrix, moved by i, is a row of one that is wider."""
    m, n = g.shape[-2:]
    g = g if rule.startswith("hankel") else flip(g, axis=-2)
    wide = pad(g, ((0, 0),) * (g.ndim - 1) + ((0, m),))
    flat = _cut(reshape(wide, (*g.shape[:-2], m * (n + m))), 0, m * (n + m - 1))
    sums = reduce.sum(reshape(flat, (*g.shape[:-2], m, n + m - 1)), axis=-2)
    column, rest = _cut(sums, 0, m), _cut(sums, m, m + n - 1)
    if rule == "hankel_of_column":
        return (column,)
    column = column if rule == "hankel" else flip(column, axis=-1)
    unread = zeros((*sums.shape[:-1], 1), dtype=sums.dtype, device=sums.device)
    if rule == "circulant":
        return (column + concat([unread, flip(rest, axis=-1)], axis=-1),)
    return column, concat([unread, rest], axis=-1)


_formula = Op("matrix_formula", cpu="triangles.formula", cuda="shape.matrix_rules.formula")
#: By the names of the functions, which errors that a kernel finds begin with.
_placed = {
    rule: Op(rule, cpu="triangles.placed", cuda="shape.matrix_rules.placed", vjp=_placed_grad)
    for rule in ("companion", "fiedler_companion", "leslie", *_OF_DIAGONALS)
}


def _common(name: str, a: ndarray, b: ndarray) -> tuple[ndarray, ndarray]:
    """Both with the same leading axes, in the common dtype."""
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    dtype = dtypes.promote(a.dtype, b.dtype)
    return (
        astype(broadcast_to(a, (*shape, a.shape[-1])), dtype, copy=False),
        astype(broadcast_to(b, (*shape, b.shape[-1])), dtype, copy=False),
    )


@fast_path("c", "r")
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> ndarray:
    """Return the Toeplitz matrix of a first column and a first row.

    t[i, j] = c[i - j] from the diagonal down, r[j - i] above it.

    Parameters
    ----------
    c : array_like of shape (..., m)
        First columns.
    r : array_like of shape (..., n), optional
        First rows; their first number is not read. The default is the conjugate of `c`.

    Returns
    -------
    ndarray
        Array of shape (..., m, n), of the common dtype.

    Raises
    ------
    TypeError
        An argument is no array of numbers.
    ValueError
        The leading axes do not broadcast, or nothing lies along the last one.

    Notes
    -----
    Gradient: the sums of g along the diagonals.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.toeplitz([1, 2, 3], [1, 4]).tolist()
    [[1, 4], [2, 1], [3, 2]]
    """
    c = _vectors("toeplitz", "c", c)
    r = conj_or_same(c) if r is None else _vectors("toeplitz", "r", r)
    c, r = _common("toeplitz", c, r)
    return _placed["toeplitz"](_in_order(c), _in_order(r), rule="toeplitz")


@fast_path("c", "r")
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> ndarray:
    """Return the Hankel matrix of a first column and a last row.

    h[i, j] is number i + j of the column and, after it, of the row.

    Parameters
    ----------
    c : array_like of shape (..., m)
        First columns.
    r : array_like of shape (..., n), optional
        Last rows; their first number is not read. The default is zeros, as many as `c` has.

    Returns
    -------
    ndarray
        Array of shape (..., m, n), of the common dtype.

    Raises
    ------
    TypeError
        An argument is no array of numbers.
    ValueError
        The leading axes do not broadcast, or nothing lies along the last one.

    Notes
    -----
    Gradient: the sums of g along the diagonals.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.hankel([1, 2, 3], [3, 4]).tolist()
    [[1, 2], [2, 3], [3, 4]]
    """
    c = _vectors("hankel", "c", c)
    if r is None:
        return _placed["hankel_of_column"](_in_order(c), rule="hankel_of_column")
    c, r = _common("hankel", c, _vectors("hankel", "r", r))
    return _placed["hankel"](_in_order(c), _in_order(r), rule="hankel")


@fast_path("c")
def circulant(c: ArrayLike) -> ndarray:
    """Return the circulant matrix of a first column.

    a[i, j] = c[(i - j) mod n]

    Parameters
    ----------
    c : array_like of shape (..., n)
        First columns.

    Returns
    -------
    ndarray
        Array of shape (..., n, n).

    Raises
    ------
    TypeError
        An argument is no array of numbers.
    ValueError
        Nothing lies along the last axis.

    Notes
    -----
    Gradient: the sums of g along the diagonals, which wrap around.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.circulant([1, 2, 3]).tolist()
    [[1, 3, 2], [2, 1, 3], [3, 2, 1]]
    """
    c = _in_order(_vectors("circulant", "c", c))
    return _placed["circulant"](c, rule="circulant")


@fast_path("a")
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> ndarray:
    """Return the matrix whose product with v is the convolution of a and v.

    Parameters
    ----------
    a : array_like of shape (..., m)
        The numbers that are convolved.
    n : int
        Length of v.
    mode : str, default "full"
        "full", "same" or "valid", as in `convolve`.

    Returns
    -------
    ndarray
        Array of shape (..., k, n): k = m + n - 1, max(m, n), or max(m, n) - min(m, n) + 1.

    Raises
    ------
    TypeError
        An argument is no array of numbers.
    ValueError
        `n` is not positive, nothing lies along the last axis, or the mode is unknown.

    Notes
    -----
    Gradient: the sums of g along the diagonals.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.convolution_matrix([1, 2], 3).tolist()
    [[1, 0, 0], [2, 1, 0], [0, 2, 1], [0, 0, 2]]
    """
    a = _vectors("convolution_matrix", "a", a)
    n = as_integer("convolution_matrix", "n", n, 1)
    if mode not in ("full", "same", "valid"):
        raise ValueError(
            f'convolution_matrix: mode must be "full", "same" or "valid", got {mode!r}'
        )
    m = a.shape[-1]
    before = {"full": 0, "same": (min(n, m) - 1) // 2, "valid": min(n, m) - 1}[mode]
    rows = {"full": m + n - 1, "same": max(n, m), "valid": max(n, m) - min(n, m) + 1}[mode]
    low, high = before - (n - 1), before + rows  # of i - j: where a has no number, there are zeros
    inside = _cut(a, max(low, 0), min(high, m))
    line = pad(inside, ((0, 0),) * (a.ndim - 1) + ((max(-low, 0), max(high - m, 0)),))
    return _of_diagonals(flip(line, axis=-1), rows)


@fast_path("a")
def companion(a: ArrayLike) -> ndarray:
    """Return the companion matrix of a polynomial, whose eigenvalues are its roots.

    Parameters
    ----------
    a : array_like of shape (..., n + 1)
        Coefficients, the highest power first; n >= 1, and the first one not 0.

    Returns
    -------
    ndarray
        Array of shape (..., n, n): -a[1:] / a[0] in the first row, ones below the diagonal.

    Raises
    ------
    TypeError
        An argument is no array of numbers.
    ValueError
        There are fewer than two coefficients, or the first one is 0; of that, on a GPU the next
        synchronisation raises the error.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.companion([1.0, -3.0, 2.0]).tolist()
    [[3.0, -2.0], [1.0, 0.0]]
    """
    a = _vectors("companion", "a", a, 2)
    return _of_polynomial(a, "companion")


@fast_path("f", "s")
def leslie(f: ArrayLike, s: ArrayLike) -> ndarray:
    """Return the Leslie matrix of fecundities and survival rates.

    Parameters
    ----------
    f : array_like of shape (..., n)
        The first row.
    s : array_like of shape (..., n - 1)
        The numbers below the diagonal.

    Returns
    -------
    ndarray
        Array of shape (..., n, n), of the common dtype.

    Raises
    ------
    TypeError
        An argument is no array of numbers.
    ValueError
        The lengths do not fit, or nothing lies along the last axis of `s`.

    Notes
    -----
    Gradient: g where a number stands.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.leslie([1.0, 2.0], [0.5]).tolist()
    [[1.0, 2.0], [0.5, 0.0]]
    """
    f, s = _vectors("leslie", "f", f), _vectors("leslie", "s", s)
    n = f.shape[-1]
    if s.shape[-1] != n - 1:
        raise ValueError(f"leslie: s must have one number less than f, got {s.shape} and {f.shape}")
    f, s = _common("leslie", f, s)
    return _placed["leslie"](_in_order(f), _in_order(s), rule="leslie")


@fast_path("a")
def fiedler(a: ArrayLike) -> ndarray:
    """Return the matrix of the distances |a[i] - a[j]|.

    Parameters
    ----------
    a : array_like of shape (..., n)
        Numbers.

    Returns
    -------
    ndarray
        Array of shape (..., n, n).

    Raises
    ------
    TypeError
        An argument is no array of numbers.

    Notes
    -----
    Gradient: that of `abs`, 0 on the diagonal.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.fiedler([1, 4, 6]).tolist()
    [[0, 3, 5], [3, 0, 2], [5, 2, 0]]
    """
    a = _vectors("fiedler", "a", a, 0, dtypes.NUMERIC)
    return abs(expand_dims(a, axis=-1) - expand_dims(a, axis=-2))


@fast_path("a")
def fiedler_companion(a: ArrayLike) -> ndarray:
    """Return a companion matrix of a polynomial with five diagonals.

    Its eigenvalues are the roots, as those of `companion`.

    Parameters
    ----------
    a : array_like of shape (..., n + 1)
        Coefficients, the highest power first; the first one not 0.

    Returns
    -------
    ndarray
        Array of shape (..., n, n).

    Raises
    ------
    TypeError
        An argument is no array of numbers.
    ValueError
        The first coefficient of several is 0. On a GPU the next synchronisation raises the error.

    Notes
    -----
    A constant has no roots: n is 0, also where no coefficient is given. The gradient follows from
    those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.fiedler_companion([1.0, -3.0, 2.0]).tolist()
    [[3.0, -2.0], [1.0, 0.0]]
    """
    a = _vectors("fiedler_companion", "a", a, 0)
    return _of_polynomial(a, "fiedler_companion")


@fast_path("a", "b")
def khatri_rao(a: ArrayLike, b: ArrayLike) -> ndarray:
    """Khatri-Rao product: the Kronecker product of each column of a with that of b.

    Parameters
    ----------
    a : array_like of shape (n, k)
        Matrix.
    b : array_like of shape (m, k)
        Matrix.

    Returns
    -------
    ndarray
        Array of shape (n m, k), of the common dtype.

    Raises
    ------
    TypeError
        An argument is no array of numbers.
    ValueError
        An argument is no matrix, or the numbers of columns differ.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.khatri_rao([[1, 2], [3, 4]], [[1, 10]]).tolist()
    [[1, 20], [3, 40]]
    """
    a, b = coerce("khatri_rao", (a, b), ANY)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(
            "khatri_rao: wants matrices of the same number of columns, "
            f"got shapes {a.shape} and {b.shape}"
        )
    product = expand_dims(a, axis=1) * expand_dims(b, axis=0)
    return reshape(product, (a.shape[0] * b.shape[0], a.shape[1]))


@fast_path("*arrays")
def block_diag(*arrays: ArrayLike) -> ndarray:
    """Return the matrix with these blocks along its diagonal.

    Parameters
    ----------
    *arrays : array_like of up to two dimensions
        Blocks. A vector is a row, a number a block of one.

    Returns
    -------
    ndarray
        Matrix of the common dtype, zero outside of the blocks; of shape (1, 0) without any.

    Raises
    ------
    TypeError
        An argument is no array of numbers.
    ValueError
        An array has more than two dimensions.

    Notes
    -----
    Gradient: the blocks of g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.block_diag([[1, 2]], 3).tolist()
    [[1, 2, 0], [0, 0, 3]]
    """
    if not arrays:
        return zeros((1, 0))
    blocks = coerce("block_diag", arrays, ANY)
    for block in blocks:
        if block.ndim > 2:
            raise ValueError(f"block_diag: wants matrices, got shape {block.shape}")
    blocks = [reshape(b, (1, -1)) if b.ndim < 2 and b.size else b for b in blocks]
    blocks = [reshape(b, (1, 0)) if b.ndim < 2 else b for b in blocks]
    dtype = functools.reduce(dtypes.promote, [b.dtype for b in blocks])
    columns, before, rows = sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        sides = (before, columns - before - block.shape[1])
        rows.append(pad(astype(block, dtype, copy=False), ((0, 0), sides)))
        before += block.shape[1]
    return concat(rows, axis=0)


@fast_path()
def hilbert(
    n: int,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> ndarray:
    """Return the Hilbert matrix, h[i, j] = 1 / (i + j + 1).

    Parameters
    ----------
    n : int
        Number of rows.
    dtype : dtype_like, optional
        Dtype of the result.
    device : device_like, optional
        Device of the result. The default is the default device.

    Returns
    -------
    ndarray
        Array of shape (n, n), of the default float unless `dtype` is given.

    Raises
    ------
    TypeError
        `n` is no whole number, or the dtype is none of floating-point numbers.
    ValueError
        `n` is negative.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.hilbert(2).round(4).tolist()
    [[1.0, 0.5], [0.5, 0.3333]]
    """
    n, dtype = as_integer("hilbert", "n", n, 0), _floating("hilbert", dtype)
    return _by_formula("hilbert", n, n, dtype, device)


@fast_path()
def hadamard(
    n: int, dtype: DTypeLike | None = None, *, device: DeviceLike | None = None
) -> ndarray:
    """Return Sylvester's Hadamard matrix: ones and minus ones in orthogonal rows.

    Parameters
    ----------
    n : int
        Number of rows, a power of 2.
    dtype : dtype_like, optional
        Dtype of the result.
    device : device_like, optional
        Device of the result. The default is the default device.

    Returns
    -------
    ndarray
        Array of shape (n, n), of the default integer unless `dtype` is given.

    Raises
    ------
    TypeError
        `n` is no whole number, or the dtype is not supported.
    ValueError
        `n` is no power of 2.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.hadamard(2).tolist()
    [[1, 1], [1, -1]]
    """
    n = as_integer("hadamard", "n", n, 1)
    if n & (n - 1):
        raise ValueError(f"hadamard: n must be a power of 2, got {n}")
    kind = np.dtype(np.int64) if dtype is None else dtypes.as_dtype(dtype, "hadamard")
    if kind not in dtypes.NUMERIC:
        raise TypeError(f"hadamard: wants a numeric dtype, got {kind}")
    return _by_formula("hadamard", n, n, kind, device)


@fast_path()
def helmert(
    n: int, full: bool = False, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> ndarray:
    """Return the Helmert matrix: orthonormal contrasts.

    Row i >= 1: i times 1 / sqrt(i (i + 1)), then -i times that, then zeros.

    Parameters
    ----------
    n : int
        Number of columns.
    full : bool, default False
        Whether the first row, 1 / sqrt(n), is there too.
    dtype : dtype_like, optional
        Dtype of the result.
    device : device_like, optional
        Device of the result. The default is the default device.

    Returns
    -------
    ndarray
        Array of shape (n - 1, n), or (n, n), of the default float unless `dtype` is given.

    Raises
    ------
    TypeError
        `n` is no whole number, or the dtype is none of floating-point numbers.
    ValueError
        `n` is not positive.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.helmert(2).round(4).tolist()
    [[0.7071, -0.7071]]
    """
    n, dtype = as_integer("helmert", "n", n, 1), _floating("helmert", dtype)
    first = 0 if full else 1
    return _by_formula("helmert", n - first, n, dtype, device, first)


@fast_path()
def dft(
    n: int,
    scale: str | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> ndarray:
    """Return the matrix of the Fourier transform, exp(-2 pi i j k / n).

    Parameters
    ----------
    n : int
        Number of rows.
    scale : str, optional
        "sqrtn" divides by sqrt(n), "n" by n.
    dtype : dtype_like, optional
        Dtype of the result.
    device : device_like, optional
        Device of the result. The default is the default device.

    Returns
    -------
    ndarray
        Complex array of shape (n, n), complex128 unless `dtype` is given.

    Raises
    ------
    TypeError
        `n` is no whole number, or the dtype is not complex.
    ValueError
        `n` is negative, or the scale is unknown.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.dft(2).real.tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    n = as_integer("dft", "n", n, 0)
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f'dft: scale must be None, "sqrtn" or "n", got {scale!r}')
    kind = np.dtype(np.complex128) if dtype is None else dtypes.as_dtype(dtype, "dft")
    if kind.kind != "c":
        raise TypeError(f"dft: wants a complex dtype, got {kind}")
    factor = {None: 1.0, "sqrtn": 1 / math.sqrt(max(n, 1)), "n": 1 / max(n, 1)}[scale]
    return _by_formula("dft", n, n, kind, device, factor)


def _floating(name: str, dtype: DTypeLike | None) -> np.dtype:
    kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype, name)
    if kind not in dtypes.FLOATING:
        raise TypeError(f"{name}: wants a floating-point dtype, got {kind}")
    return kind


def bandwidth(a: ArrayLike) -> tuple[int, int]:
    """Return how many diagonals below and above the main one a matrix has.

    Parameters
    ----------
    a : array_like of shape (m, n)
        Matrix.

    Returns
    -------
    tuple of int
        The numbers of the lowest and of the highest diagonal that are not all zero, at least 0.

    Raises
    ------
    TypeError
        `a` is no array of numbers.
    ValueError
        It is no matrix.

    Notes
    -----
    The call waits for the GPU.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.bandwidth([[1, 2, 0], [0, 3, 4], [0, 0, 5]])
    (0, 1)
    """
    a = require("bandwidth", a, ANY)
    if a.ndim != 2:
        raise ValueError(f"bandwidth: wants a matrix, got shape {a.shape}")
    if not a.size:
        return 0, 0
    m, n = a.shape
    there = a != 0
    first, last = reduce.argmax(there, axis=1), n - 1 - reduce.argmax(flip(there, axis=1), axis=1)
    row = arange(m, device=a.device)
    low, high = (reduce.any(there, axis=1) * each for each in (row - first, last - row))
    return max(0, int(reduce.max(low))), max(0, int(reduce.max(high)))
