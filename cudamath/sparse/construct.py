"""Sparse arrays of given kinds, and of other arrays: identities, diagonals, random ones, blocks,
Kronecker
products, triangles."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import random as randoms
from ..core.array import ndarray
from ..core.dispatch.checks import speaks_for
from ..core.dtypes import as_dtype, default_float, result_type
from ..core.shapes import as_integer
from ..ops.creation import asarray, ones, zeros
from ..ops.join import concatenate
from ..ops.masks import flatnonzero
from ..ops.ranges import arange
from ..ops.sets import unique
from ..ops.shape import broadcast_to
from .base import issparse, sparray
from .kinds import ARRAYS, MATRICES
from .structure import index_dtype, sizes_of

__all__ = [
    "block_array",
    "block_diag",
    "bmat",
    "diags",
    "diags_array",
    "expand_dims",
    "eye",
    "eye_array",
    "find",
    "hstack",
    "identity",
    "isspmatrix",
    "isspmatrix_bsr",
    "isspmatrix_coo",
    "isspmatrix_csc",
    "isspmatrix_csr",
    "isspmatrix_dia",
    "kron",
    "kronsum",
    "permute_dims",
    "rand",
    "random",
    "random_array",
    "spdiags",
    "swapaxes",
    "tril",
    "triu",
    "vstack",
]

Kinds = dict[str, type[Any]]


def _kinds_of(*operands: Any) -> Kinds:
    """Arrays where an operand is one, else matrices, as in SciPy."""
    return ARRAYS if any(issparse(x) and x.kinds is ARRAYS for x in operands) else MATRICES


# -------------------- identities and diagonals


def eye_of(n: int, dtype: Any, device: Any, kinds: Kinds) -> Any:
    """The identity in CSR."""
    kind = index_dtype(n)
    each = arange(n + 1, dtype=kind, device=device)
    values = ones(n, dtype=dtype, device=device)
    return kinds["csr"]._of(values, each[:-1], each, (n, n), True)


def _eye(name: str, kinds: Kinds, m: Any, n: Any, k: int, dtype: Any, format: str | None) -> Any:
    m = as_integer(name, "m", m, 0)
    n = m if n is None else as_integer(name, "n", n, 0)
    k = as_integer(name, "k", k)
    if not -m <= k <= n:
        raise ValueError(f"{name}: an array of shape {(m, n)} has no diagonal {k}")
    if m == n and k == 0 and format in ("csr", "csc", "coo"):
        return eye_of(m, dtype, None, kinds).asformat(format)
    values = ones((1, max(0, min(m + k, n))), dtype=dtype)
    made = kinds["dia"]._of(values, asarray([k], dtype=index_dtype(m, n)), (m, n))
    return made.asformat(format)


@speaks_for("eye_array")
def eye_array(
    m: int, n: int | None = None, *, k: int = 0, dtype: Any = float, format: str | None = None
) -> Any:
    """Return a sparse array of ones on a diagonal.

    Parameters
    ----------
    m : int
        The number of rows.
    n : int, optional
        The number of columns; `m` by default.
    k : int, default 0
        Which diagonal: above the main one for positive numbers.
    dtype : dtype, default float
        Of the values.
    format : str, optional
        Of the result; "dia" by default.

    Returns
    -------
    sparse array
        Of shape (m, n).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.eye_array(2, 3, k=1).toarray().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    return _eye("eye_array", ARRAYS, m, n, k, dtype, format)


@speaks_for("eye")
def eye(
    m: int, n: int | None = None, k: int = 0, dtype: Any = float, format: str | None = None
) -> Any:
    """Return a sparse matrix of ones on a diagonal; new programs take `eye_array`.

    Parameters
    ----------
    m : int
        The number of rows.
    n : int, optional
        The number of columns; `m` by default.
    k : int, default 0
        Which diagonal: above the main one for positive numbers.
    dtype : dtype, default float
        Of the values.
    format : str, optional
        Of the result; "dia" by default.

    Returns
    -------
    sparse matrix
        Of shape (m, n).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.eye(2).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _eye("eye", MATRICES, m, n, k, dtype, format)


@speaks_for("identity")
def identity(n: int, dtype: Any = float, format: str | None = None) -> Any:
    """Return the identity as a sparse matrix; new programs take `eye_array`.

    Parameters
    ----------
    n : int
        The number of rows and of columns.
    dtype : dtype, default float
        Of the values.
    format : str, optional
        Of the result; "dia" by default.

    Returns
    -------
    sparse matrix
        Of shape (n, n).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.identity(2, format="csr").diagonal().tolist()
    [1.0, 1.0]
    """
    return _eye("identity", MATRICES, n, None, 0, dtype, format)


def _diags(
    name: str, kinds: Kinds, diagonals: Any, offsets: Any, shape: Any, format: Any, dtype: Any
) -> Any:
    if isinstance(offsets, (int, np.integer)):
        offsets = [offsets]
        if len(diagonals) and np.ndim(diagonals[0]):
            raise ValueError(
                f"{name}: wants one diagonal for the offset {offsets[0]}, got several; write "
                f"offsets=[{offsets[0]}]"
            )
        diagonals = [diagonals]
    offsets = [as_integer(name, "offsets", k) for k in np.atleast_1d(np.asarray(offsets))]
    lines = [asarray(line) for line in diagonals]
    lines = [line.reshape(-1) for line in lines]
    if len(lines) != len(offsets):
        raise ValueError(
            f"{name}: wants a diagonal per offset, got {len(lines)} and {len(offsets)}"
        )
    if len(set(offsets)) != len(offsets):
        raise ValueError(f"{name}: wants each offset once, got {offsets}")
    if shape is None:
        m = lines[0].size + abs(offsets[0])
        shape = (m, m)
    m, n = sizes_of(name, shape)
    kind = (
        as_dtype(dtype, name)
        if dtype not in (None, ...)
        else result_type(*lines)
        if lines
        else default_float()
    )
    kind = default_float() if dtype is ... and kind.kind in "biu" else kind
    width = max([min(m + k, n) for k in offsets], default=0)
    rows = []
    for line, k in zip(lines, offsets, strict=True):
        start, count = max(k, 0), min(m + k, n - k, m, n)
        if count < 0:
            raise ValueError(f"{name}: an array of shape {(m, n)} has no diagonal {k}")
        line = line[:count] if line.size > count > 0 else line  # what is too long is cut
        if line.size not in (1, count):
            raise ValueError(
                f"{name}: diagonal {k} of shape {(m, n)} has {count} elements, got {line.size}"
            )
        body = broadcast_to(line.astype(kind), (count,))
        device = line.device
        ends = (
            zeros(start, dtype=kind, device=device),
            zeros(width - start - count, dtype=kind, device=device),
        )
        rows.append(concatenate([ends[0], body, ends[1]]).reshape(1, width))
    data = concatenate(rows) if rows else zeros((0, width), dtype=kind)
    made = kinds["dia"]._of(
        data, asarray(offsets, dtype=index_dtype(m, n), device=data.device), (m, n)
    )
    return made.asformat(format)


@speaks_for("diags_array")
def diags_array(
    diagonals: Any,
    /,
    *,
    offsets: Any = 0,
    shape: Any = None,
    format: str | None = None,
    dtype: Any = ...,
) -> Any:
    """Return a sparse array of given diagonals.

    Parameters
    ----------
    diagonals : sequence of array_like
        The elements of each diagonal; one number stands for all of them.
    offsets : int or sequence of int, default 0
        Which diagonals: above the main one for positive numbers.
    shape : tuple of int, optional
        Of the result; square and as large as the first diagonal asks for by default.
    format : str, optional
        Of the result; "dia" by default.
    dtype : dtype, optional
        Of the values; integers become floating-point numbers by default, and stay for None.

    Returns
    -------
    sparse array
        With gradients with respect to the diagonals.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.diags_array([-1, 2, -1], offsets=[-1, 0, 1], shape=(3, 3)).toarray().tolist()
    [[2.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 2.0]]
    """
    return _diags("diags_array", ARRAYS, diagonals, offsets, shape, format, dtype)


@speaks_for("diags")
def diags(
    diagonals: Any,
    offsets: Any = 0,
    shape: Any = None,
    format: str | None = None,
    dtype: Any = ...,
) -> Any:
    """Return a sparse matrix of given diagonals; new programs take `diags_array`.

    Parameters
    ----------
    diagonals : sequence of array_like
        The elements of each diagonal; one number stands for all of them.
    offsets : int or sequence of int, default 0
        Which diagonals: above the main one for positive numbers.
    shape : tuple of int, optional
        Of the result; square and as large as the first diagonal asks for by default.
    format : str, optional
        Of the result; "dia" by default.
    dtype : dtype, optional
        Of the values; integers become floating-point numbers by default, and stay for None.

    Returns
    -------
    sparse matrix
        With gradients with respect to the diagonals.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.diags([[1.0, 2.0]], [1]).toarray().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]]
    """
    return _diags("diags", MATRICES, diagonals, offsets, shape, format, dtype)


@speaks_for("spdiags")
def spdiags(
    data: Any, diags: Any, m: Any = None, n: int | None = None, format: str | None = None
) -> Any:
    """Return a sparse matrix of diagonals that are stored by column, as `dia_matrix` has them.

    Parameters
    ----------
    data : array_like
        A row per diagonal.
    diags : int or sequence of int
        Which diagonals: above the main one for positive numbers.
    m : int or tuple of int, optional
        The number of rows, or the shape.
    n : int, optional
        The number of columns.
    format : str, optional
        Of the result; "dia" by default.

    Returns
    -------
    sparse matrix
        Of shape (m, n).

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.spdiags([[1, 2, 3]], [1], 3, 3).toarray().tolist()
    [[0, 2, 0], [0, 0, 3], [0, 0, 0]]
    """
    values = asarray(data)
    values = values.reshape(1, -1) if values.ndim < 2 else values
    if m is None:
        m = (values.shape[1],) * 2
    shape = (m, n) if n is not None else m
    return MATRICES["dia"]((values, np.atleast_1d(np.asarray(diags))), shape=shape).asformat(format)


# -------------------- random arrays


def _distinct(generator: Any, size: int, count: int) -> ndarray:
    """So many different integers below `size`, in random order."""
    if size <= 4 * count:
        return generator.permutation(size)[:count]
    found = unique(generator.integers(0, size, count + count // 8 + 16))
    while found.size < count:
        more = generator.integers(0, size, count + count // 8 + 16)
        found = unique(concatenate([found, more]))
    return found[generator.permutation(found.size)[:count]]


def _under_either_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function whose `rng` has another name, `random_state`: SciPy's was so named, and
    CuPy's is."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "random_state" in kwargs:
            if "rng" in kwargs:
                raise TypeError(f"{function.__name__}: wants one of rng and random_state, got both")
            kwargs["rng"] = kwargs.pop("random_state")
        return function(*args, **kwargs)

    return call


def _random(
    name: str,
    kinds: Kinds,
    shape: Any,
    density: float,
    format: Any,
    dtype: Any,
    rng: Any,
    sampler: Any,
) -> Any:
    sizes = sizes_of(name, shape, (1, 2))
    if not 0 <= density <= 1:
        raise ValueError(f"{name}: wants a density from 0 to 1, got {density}")
    generator = rng if isinstance(rng, randoms.Generator) else randoms.default_rng(rng)
    kind = default_float() if dtype is None else as_dtype(dtype, name)
    size = math.prod(sizes)
    count = round(size * density)
    keys = _distinct(generator, size, count)
    if sampler is not None:
        values = asarray(sampler(size=count), device=keys.device).astype(kind)
    elif kind.kind in "iu":
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        values = generator.integers(low, high, count, dtype=kind, endpoint=True)
    elif kind.kind == "c":
        values = (generator.random(count) + 1j * generator.random(count)).astype(kind)
    else:
        values = generator.random(count).astype(kind)
    flat = ARRAYS["coo"]._of(values, (keys.astype(index_dtype(size)),), (size,))
    made = flat if len(sizes) == 1 else kinds["coo"](flat.reshape(*sizes))
    return made.asformat(format)


@speaks_for("random_array")
@_under_either_name
def random_array(
    shape: Any,
    *,
    density: float = 0.01,
    format: str = "coo",
    dtype: Any = None,
    rng: Any = None,
    data_sampler: Callable[..., Any] | None = None,
) -> Any:
    """Return a sparse array of random numbers at random positions.

    Parameters
    ----------
    shape : tuple of int
        Of the result.
    density : float, default 0.01
        The part of the positions that are stored.
    format : str, default "coo"
        Of the result.
    dtype : dtype, optional
        Of the values; integers are drawn from their whole range.
    rng : int or cm.random.Generator, optional
        The source of randomness; `random_state` is another name of it.
    data_sampler : callable, optional
        ``data_sampler(size=n)`` gives the values; uniform from 0 to 1 by default.

    Returns
    -------
    sparse array
        With round(density * positions) elements.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.random_array((10, 10), density=0.1, rng=1)
    >>> A.nnz, A.shape
    (10, (10, 10))
    """
    return _random("random_array", ARRAYS, shape, density, format, dtype, rng, data_sampler)


@speaks_for("random")
@_under_either_name
def random(
    m: int,
    n: int,
    density: float = 0.01,
    format: str = "coo",
    dtype: Any = None,
    rng: Any = None,
    data_rvs: Callable[[int], Any] | None = None,
) -> Any:
    """Return a sparse matrix of random numbers; new programs take `random_array`.

    Parameters
    ----------
    m : int
        The number of rows.
    n : int
        The number of columns.
    density : float, default 0.01
        The part of the positions that are stored.
    format : str, default "coo"
        Of the result.
    dtype : dtype, optional
        Of the values.
    rng : int or cm.random.Generator, optional
        The source of randomness; `random_state` is another name of it.
    data_rvs : callable, optional
        ``data_rvs(n)`` gives the values; uniform from 0 to 1 by default.

    Returns
    -------
    sparse matrix
        With round(density * m * n) elements.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.random(4, 5, density=0.5, rng=1).nnz
    10
    """
    sampler = None if data_rvs is None else lambda size: data_rvs(size)
    return _random("random", MATRICES, (m, n), density, format, dtype, rng, sampler)


@speaks_for("rand")
@_under_either_name
def rand(
    m: int, n: int, density: float = 0.01, format: str = "coo", dtype: Any = None, rng: Any = None
) -> Any:
    """Return a sparse matrix of uniform random numbers at random positions.

    Parameters
    ----------
    m : int
        The number of rows.
    n : int
        The number of columns.
    density : float, default 0.01
        The part of the positions that are stored.
    format : str, default "coo"
        Of the result.
    dtype : dtype, optional
        Of the values.
    rng : int or cm.random.Generator, optional
        The source of randomness; `random_state` is another name of it.

    Returns
    -------
    sparse matrix
        With round(density * m * n) elements.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.rand(4, 5, density=0.25, rng=1).nnz
    5
    """
    return _random("rand", MATRICES, (m, n), density, format, dtype, rng, None)


# -------------------- of other arrays


def _coo(name: str, x: Any, kinds: Kinds, device: Any = None) -> Any:
    """An operand in coordinate format, with two axes."""
    if not issparse(x):
        x = kinds["coo"](x)
    x = x.tocoo()
    return x.reshape(1, -1) if x.ndim == 1 else x


@speaks_for("kron")
def kron(A: Any, B: Any, format: str | None = None) -> Any:
    """Return the Kronecker product of two arrays.

    Parameters
    ----------
    A : sparse array or array_like
        Of shape (m, n).
    B : sparse array or array_like
        Of shape (p, q).
    format : str, optional
        Of the result; by default "bsr" with blocks of B's shape where half of B or more is stored,
        else "coo".

    Returns
    -------
    sparse array
        Of shape (m p, n q): A[i, j] B in the place of each element of A.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[0, 2]])
    >>> cm.sparse.kron(A, cm.array([[1, 3]])).toarray().tolist()
    [[0, 0, 2, 6]]
    """
    kinds = _kinds_of(A, B)
    a, b = _coo("kron", A, kinds), _coo("kron", B, kinds)
    shape = sizes_of("kron", [m * p for m, p in zip(a.shape, b.shape, strict=True)])
    kind = index_dtype(*shape)
    coords = [
        (x.astype(kind)[:, None] * p + y.astype(kind)[None, :]).astype(kind).reshape(-1)
        for x, y, p in zip(a.coords, b.coords, b.shape, strict=True)
    ]
    values = (a.data[:, None] * b.data[None, :]).reshape(-1)
    made = kinds["coo"]._of(values, tuple(coords), shape)
    if format is None and made.nnz and 2 * b.nnz >= b.shape[0] * b.shape[1]:
        return made.tobsr(blocksize=b.shape)
    return made.asformat(format)


@speaks_for("kronsum")
def kronsum(A: Any, B: Any, format: str | None = None) -> Any:
    """Return the Kronecker sum of two square arrays: kron(I_n, A) + kron(B, I_m).

    Parameters
    ----------
    A : sparse array or array_like
        Of shape (m, m).
    B : sparse array or array_like
        Of shape (n, n).
    format : str, optional
        Of the result; "csr" by default.

    Returns
    -------
    sparse array
        Of shape (m n, m n).

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[1.0, 2.0], [3.0, 4.0]])
    >>> cm.sparse.kronsum(A, cm.sparse.csr_array([[10.0]])).toarray().tolist()
    [[11.0, 2.0], [3.0, 14.0]]
    """
    kinds = _kinds_of(A, B)
    a, b = _coo("kronsum", A, kinds), _coo("kronsum", B, kinds)
    for x in (a, b):
        if x.shape[0] != x.shape[1]:
            raise ValueError(f"kronsum: wants square arrays, got shapes {a.shape} and {b.shape}")
    kind = result_type(a.data, b.data)
    left = kron(eye_of(b.shape[0], kind, a.device, kinds), a, "csr")
    right = kron(b, eye_of(a.shape[0], kind, a.device, kinds), "csr")
    return (left + right).asformat(format)


def _joined(name: str, blocks: Any, kinds: Kinds, format: Any, dtype: Any) -> Any:
    """Blocks, rows of them, as one array."""
    table = [list(row) for row in blocks]
    if not table or len({len(row) for row in table}) != 1 or not table[0]:
        raise ValueError(
            f"{name}: wants rows of equally many blocks, got {[len(r) for r in table]}"
        )
    if (whole := _behind_one_another(table, kinds, format, dtype)) is not None:
        return whole
    made = [[None if x is None else _coo(name, x, kinds) for x in row] for row in table]
    heights: list[int | None] = [None] * len(made)
    widths: list[int | None] = [None] * len(made[0])
    for i, row in enumerate(made):
        for j, x in enumerate(row):
            if x is None:
                continue
            for sizes, at, n in ((heights, i, x.shape[0]), (widths, j, x.shape[1])):
                if sizes[at] not in (None, n):
                    raise ValueError(
                        f"{name}: block ({i}, {j}) of shape {x.shape} does not fit beside others "
                        f"with {sizes[at]} {'rows' if sizes is heights else 'columns'}"
                    )
                sizes[at] = n
    tops, lefts = (np.cumsum([0, *(n or 0 for n in sizes)]).tolist() for sizes in (heights, widths))
    shape = sizes_of(name, (tops[-1], lefts[-1]))
    kind = index_dtype(*shape)
    parts = [(i, j, x) for i, row in enumerate(made) for j, x in enumerate(row) if x is not None]
    if not parts:
        return kinds["coo"](shape, dtype=dtype).asformat(format)
    values = concatenate([x.data for *_, x in parts])
    rows = concatenate([(x.row + tops[i]).astype(kind) for i, _, x in parts])
    columns = concatenate([(x.col + lefts[j]).astype(kind) for _, j, x in parts])
    whole = kinds["coo"]._of(
        values if dtype is None else values.astype(dtype), (rows, columns), shape
    )
    return whole.asformat(_common_format(table) if format is None else format)


def _behind_one_another(table: list[list[Any]], kinds: Kinds, format: Any, dtype: Any) -> Any:
    """Blocks in CSR that lie below each other, or in CSC beside each other: their elements stay in
    the order in which they are. None for others."""
    common = _common_format(table)
    if (
        common is None
        or format not in (None, common)
        or len(table[0] if common == "csr" else table) > 1
    ):
        return None
    blocks = _flat(table)
    major = blocks[0].major
    if len({x.shape[1 - major] for x in blocks}) > 1:
        return None
    count, shape = sum(x.nnz for x in blocks), list(blocks[0].shape)
    shape[major] = sum(x.shape[major] for x in blocks)
    kind = index_dtype(*shape, count)
    before = np.cumsum([0, *(x.nnz for x in blocks)]).tolist()
    starts = [x._indptr[:-1].astype(kind) + n for x, n in zip(blocks, before, strict=False)]
    end = asarray([count], dtype=kind, device=blocks[0].device)
    values = concatenate([x.data for x in blocks])
    return kinds[common]._of(
        values if dtype is None else values.astype(dtype),
        concatenate([x._indices.astype(kind) for x in blocks]),
        concatenate([*starts, end]),
        sizes_of("vstack", shape),
        all(x._canonical for x in blocks) or None,
    )


def _common_format(table: list[list[Any]]) -> str | None:
    """The format of blocks that lie in one row, or one column, if all are CSR or all CSC."""
    if 1 not in (len(table), len(table[0])):
        return None
    formats = {getattr(x, "format", None) if issparse(x) else None for row in table for x in row}
    common = formats.pop()
    return common if not formats and common in ("csr", "csc") else None


def _flat(blocks: Any) -> list[Any]:
    return [x for row in blocks for x in row]


@speaks_for("block_array")
def block_array(blocks: Any, *, format: str | None = None, dtype: Any = None) -> Any:
    """Return a sparse array of blocks.

    Parameters
    ----------
    blocks : sequence of sequences
        Rows of sparse or dense arrays; None stands for zeros.
    format : str, optional
        Of the result; by default that of the blocks where all are CSR or all are CSC and they lie
        in one row or column, else "coo".
    dtype : dtype, optional
        Of the values.

    Returns
    -------
    sparse array
        The blocks beside and below each other.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.eye_array(2)
    >>> cm.sparse.block_array([[A, None], [None, 3 * A]]).diagonal().tolist()
    [1.0, 1.0, 3.0, 3.0]
    """
    return _joined("block_array", blocks, ARRAYS, format, dtype)


@speaks_for("bmat")
def bmat(blocks: Any, format: str | None = None, dtype: Any = None) -> Any:
    """Return a sparse array or matrix of blocks; new programs take `block_array`.

    Parameters
    ----------
    blocks : sequence of sequences
        Rows of sparse or dense arrays; None stands for zeros.
    format : str, optional
        Of the result; by default that of the blocks where all are CSR or all are CSC and they lie
        in one row or column, else "coo".
    dtype : dtype, optional
        Of the values.

    Returns
    -------
    sparse array or matrix
        A matrix unless a block is a sparse array.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.bmat([[cm.sparse.eye_array(1), cm.array([[2.0]])]]).toarray().tolist()
    [[1.0, 2.0]]
    """
    return _joined("bmat", blocks, _kinds_of(*_flat(blocks)), format, dtype)


@speaks_for("hstack")
def hstack(blocks: Sequence[Any], format: str | None = None, dtype: Any = None) -> Any:
    """Return arrays beside each other.

    Parameters
    ----------
    blocks : sequence of sparse or dense arrays
        With equally many rows.
    format : str, optional
        Of the result; by default that of the blocks where all are CSR or all are CSC and they lie
        in one row or column, else "coo".
    dtype : dtype, optional
        Of the values.

    Returns
    -------
    sparse array or matrix
        A matrix unless a block is a sparse array.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.eye_array(2)
    >>> cm.sparse.hstack([A, A]).toarray().tolist()
    [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]]
    """
    return _joined("hstack", [list(blocks)], _kinds_of(*blocks), format, dtype)


@speaks_for("vstack")
def vstack(blocks: Sequence[Any], format: str | None = None, dtype: Any = None) -> Any:
    """Return arrays below each other.

    Parameters
    ----------
    blocks : sequence of sparse or dense arrays
        With equally many columns.
    format : str, optional
        Of the result; by default that of the blocks where all are CSR or all are CSC and they lie
        in one row or column, else "coo".
    dtype : dtype, optional
        Of the values.

    Returns
    -------
    sparse array or matrix
        A matrix unless a block is a sparse array.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.eye_array(2)
    >>> cm.sparse.vstack([A, 2 * A]).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 2.0]]
    """
    return _joined("vstack", [[x] for x in blocks], _kinds_of(*blocks), format, dtype)


@speaks_for("block_diag")
def block_diag(mats: Sequence[Any], format: str | None = None, dtype: Any = None) -> Any:
    """Return a sparse array with arrays along its diagonal.

    Parameters
    ----------
    mats : sequence of sparse or dense arrays
        The blocks.
    format : str, optional
        Of the result; "coo" by default.
    dtype : dtype, optional
        Of the values.

    Returns
    -------
    sparse array or matrix
        A matrix unless a block is a sparse array.

    Examples
    --------
    >>> import cudamath as cm
    >>> A = cm.sparse.csr_array([[1.0, 2.0]])
    >>> cm.sparse.block_diag([A, A]).toarray().tolist()
    [[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0]]
    """
    kinds = _kinds_of(*mats)
    if not len(mats):
        raise ValueError("block_diag: wants at least one array, got none")
    each = [_coo("block_diag", x, kinds) for x in mats]
    table: list[list[Any]] = []
    for i, x in enumerate(each):
        row: list[Any] = [None] * len(each)
        row[i] = x
        table.append(row)
    return _joined("block_diag", table, kinds, format, dtype)


def _part(name: str, A: Any, k: int, format: Any, keeps: Callable[[ndarray, int], ndarray]) -> Any:
    kinds = _kinds_of(A)
    elements = _coo(name, A, kinds)
    kept = flatnonzero(
        keeps(elements.col.astype(np.int64) - elements.row, as_integer(name, "k", k))
    )
    coords = tuple([index[kept] for index in elements.coords])
    made = kinds["coo"]._of(elements.data[kept], coords, elements.shape, elements._canonical)
    return made.asformat(format)


@speaks_for("tril")
def tril(A: Any, k: int = 0, format: str | None = None) -> Any:
    """Return the elements on and below a diagonal.

    Parameters
    ----------
    A : sparse array or array_like
        Of shape (m, n).
    k : int, default 0
        Which diagonal: above the main one for positive numbers.
    format : str, optional
        Of the result; "coo" by default.

    Returns
    -------
    sparse array
        Of the same shape.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.tril(cm.sparse.csr_array([[1, 2], [3, 4]])).toarray().tolist()
    [[1, 0], [3, 4]]
    """
    return _part("tril", A, k, format, lambda diagonal, k: diagonal <= k)


@speaks_for("triu")
def triu(A: Any, k: int = 0, format: str | None = None) -> Any:
    """Return the elements on and above a diagonal.

    Parameters
    ----------
    A : sparse array or array_like
        Of shape (m, n).
    k : int, default 0
        Which diagonal: above the main one for positive numbers.
    format : str, optional
        Of the result; "coo" by default.

    Returns
    -------
    sparse array
        Of the same shape.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.triu(cm.sparse.csr_array([[1, 2], [3, 4]])).toarray().tolist()
    [[1, 2], [0, 4]]
    """
    return _part("triu", A, k, format, lambda diagonal, k: diagonal >= k)


@speaks_for("find")
def find(A: Any) -> tuple[ndarray, ndarray, ndarray]:
    """Return the coordinates and values of the elements that are not zero.

    Parameters
    ----------
    A : sparse array or array_like
        Of shape (m, n).

    Returns
    -------
    rows : ndarray
        The row of each element.
    columns : ndarray
        The column of each element.
    values : ndarray
        Duplicate elements are added before.

    Examples
    --------
    >>> import cudamath as cm
    >>> [x.tolist() for x in cm.sparse.find(cm.sparse.csr_array([[0, 7], [8, 0]]))]
    [[0, 1], [1, 0], [7, 8]]
    """
    elements = _coo("find", A, ARRAYS)._summed()._without_zeros()
    return elements.row, elements.col, elements.data


def _as_sparse(name: str, A: Any) -> Any:
    if not issparse(A):
        raise TypeError(f"{name}: wants a sparse array, got {type(A).__name__}")
    return A


@speaks_for("permute_dims")
def permute_dims(A: Any, axes: Any = None, copy: bool = False) -> Any:
    """Return a sparse array with its axes in another order.

    Parameters
    ----------
    A : sparse array
        Of one or two axes.
    axes : tuple of int, optional
        Their order; by default the reverse one.
    copy : bool, default False
        Whether the result must not share memory with the array.

    Returns
    -------
    sparse array
        In coordinate format.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.permute_dims(cm.sparse.eye_array(2, 3), (1, 0)).shape
    (3, 2)
    """
    return _as_sparse("permute_dims", A).tocoo().transpose(axes, copy=copy)


@speaks_for("swapaxes")
def swapaxes(A: Any, axis1: int, axis2: int) -> Any:
    """Return a sparse array with two axes exchanged.

    Parameters
    ----------
    A : sparse array
        Of one or two axes.
    axis1 : int
        One axis.
    axis2 : int
        The other one.

    Returns
    -------
    sparse array
        In coordinate format.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.swapaxes(cm.sparse.eye_array(2, 3), 0, 1).shape
    (3, 2)
    """
    elements = _as_sparse("swapaxes", A).tocoo()
    order = list(range(elements.ndim))
    try:
        order[axis1], order[axis2] = order[axis2], order[axis1]
    except IndexError:
        raise ValueError(f"swapaxes: shape {elements.shape} has no axes {axis1}, {axis2}") from None
    return elements.transpose(tuple(order))


@speaks_for("expand_dims")
def expand_dims(A: Any, /, *, axis: int = 0) -> Any:
    """Return a sparse vector as a row or a column.

    Parameters
    ----------
    A : sparse array
        Of one axis.
    axis : int, default 0
        Where an axis of length 1 is put in.

    Returns
    -------
    sparse array
        In coordinate format.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.expand_dims(cm.sparse.coo_array([1, 0, 2]), axis=1).shape
    (3, 1)
    """
    vector = _as_sparse("expand_dims", A).tocoo()
    if vector.ndim != 1 or axis not in (-2, -1, 0, 1):
        raise ValueError(
            f"expand_dims: wants a vector and an axis from -2 to 1, got {vector.shape}, {axis}"
        )
    return vector.reshape(*((1, -1) if axis in (0, -2) else (-1, 1)))


def isspmatrix(x: object) -> bool:
    """Return whether an object is a sparse matrix of the older classes.

    Parameters
    ----------
    x : object
        Anything.

    Returns
    -------
    bool
        False for sparse arrays.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.isspmatrix(cm.sparse.eye(2)), cm.sparse.isspmatrix(cm.sparse.eye_array(2))
    (True, False)
    """
    return isinstance(x, sparray) and x.kinds is MATRICES


def _of_format(format: str) -> Callable[[object], bool]:
    def test(x: object) -> bool:
        return isspmatrix(x) and x.format == format  # type: ignore[attr-defined]

    test.__name__ = test.__qualname__ = f"isspmatrix_{format}"
    test.__doc__ = f"""Return whether an object is a sparse matrix in {format} format.

    Parameters
    ----------
    x : object
        Anything.

    Returns
    -------
    bool
        False for sparse arrays.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.sparse.isspmatrix_{format}(cm.sparse.eye(2, format="{format}"))
    True
    """
    return test


isspmatrix_bsr = _of_format("bsr")
isspmatrix_coo = _of_format("coo")
isspmatrix_csc = _of_format("csc")
isspmatrix_csr = _of_format("csr")
isspmatrix_dia = _of_format("dia")
