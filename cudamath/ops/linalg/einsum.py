"""Sums of products by index letters: every contraction of two arrays becomes one matrix product.

"bij,bjk->bik" with its letters sorted into batch (in both arrays and the result), contracted (in
both arrays only) and free ones is a batched matrix product of (batch, free of a, contracted) with
(batch, contracted, free of b); letters of one array alone that are not in the result are summed
first, repeated ones are diagonals. The order of several contractions is opt_einsum's. What is left
to do in memory is at most one transposed copy an operand.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core import dtypes
from ...core.array import ndarray
from ...core.dispatch.checks import coerce, members
from ...core.dispatch.fast_path import fast_path
from ...core.dispatch.op import ANY
from ...core.dtypes import INEXACT
from ...core.shapes import order_letter
from ...core.typing import ArrayLike, DTypeLike
from .. import reduce
from ..elementwise import multiply
from ..out_argument import can_write, casting_rule, deliver
from ..shape import astype, diagonal, in_order, permute_dims, reshape, squeeze
from .products import matmul

__all__ = ["einsum", "einsum_path", "kron"]


@functools.lru_cache(4096)
def _path(
    equation: str, shapes: tuple[tuple[int, ...], ...], optimize: Any
) -> tuple[tuple[int, ...], ...]:
    """Which operands meet in what order."""
    import opt_einsum  # later than the rest of the package: 5 ms

    if len(shapes) <= 2:
        return (tuple(range(len(shapes))),)
    if (
        not optimize
    ):  # from left to right: the first two, then the result (which goes to the end) with the next
        count = len(shapes)
        return ((0, 1), *[(0, left - 1) for left in range(count - 1, 1, -1)])
    found, _ = opt_einsum.contract_path(
        equation, *shapes, shapes=True, optimize="auto" if optimize is True else optimize
    )
    return tuple([tuple(pair) for pair in found])


def _order(
    name: str, equation: str, shapes: tuple[tuple[int, ...], ...], optimize: Any
) -> tuple[tuple[int, ...], ...]:
    """`_path`, in an order that is given, or by a strategy; an error in the name of the function
    where there is none such."""
    if (
        isinstance(optimize, tuple | list)
        and len(optimize) == 2
        and isinstance(optimize[0], str)
        and isinstance(optimize[1], int | float)
    ):  # NumPy's (strategy, limit of memory)
        optimize = optimize[0]
    if not isinstance(optimize, bool | str | None):
        wanted = members(
            name, optimize, "pairs of operands as optimize, or a bool or the name of a strategy"
        )
        optimize = tuple([members(name, p, "operands") for p in wanted if not isinstance(p, str)])
    try:
        return _path(equation, shapes, optimize)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{name}: optimize={optimize!r:.60} is no order of contractions of {equation}: {error}"
        ) from None


def _parsed(name: str, arguments: tuple) -> tuple[list[str], str, list[ndarray]]:
    """Letters of the operands and of the result, and the operands as arrays of one device."""
    if not arguments:
        raise ValueError(f"{name}: wants subscripts and arrays")
    named = isinstance(
        arguments[0], str
    )  # or else: array, letters as integers, array, ...; last the result's
    arrays = coerce(name, arguments[1:] if named else arguments[: len(arguments) // 2 * 2 : 2], ANY)
    if not arrays:
        raise ValueError(f"{name}: wants at least one array")
    equation, shapes = arguments[0], tuple([x.shape for x in arrays])
    if not named:
        numbers = [_numbers(name, indices) for indices in arguments[1::2]]
        given = [item for pair in zip(arrays, numbers, strict=True) for item in pair]
        last = [_numbers(name, indices) for indices in arguments[len(given) :]]
        equation = "->".join(_parse(name, (*given, *last), shapes))
    terms, result = _letters(name, equation, shapes)
    return list(terms), result, arrays


def _numbers(name: str, given: Any) -> list[Any]:
    """The indices of an operand or of the result that are numbers: from 0 to 51, or an ellipsis."""
    if not isinstance(given, (list, tuple, range, ndarray, np.ndarray)) or np.ndim(given) > 1:
        raise TypeError(
            f"{name}: subscripts must be a text or lists of integers, got {given!r:.60}"
        )
    numbers = given.tolist() if isinstance(given, ndarray | np.ndarray) else list(given)
    beyond = [i for i in numbers if isinstance(i, int) and not 0 <= i < 52]
    if beyond:
        raise ValueError(
            f"{name}: subscript is not within the valid range [0, 52), got {beyond[0]}"
        )
    return numbers


def _parse(name: str, given: tuple, shapes: tuple[tuple[int, ...], ...]) -> tuple[str, str]:
    """Letters of the operands and of the result, as opt_einsum reads them. given: a text and
    shapes, or arrays and integers."""
    import opt_einsum  # later than the rest of the package: 5 ms

    try:
        return opt_einsum.parser.parse_einsum_input(given, shapes=isinstance(given[0], str))[:2]
    except (LookupError, ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}; shapes {', '.join(map(str, shapes))}") from None


@functools.lru_cache(4096)
def _letters(
    name: str, equation: str, shapes: tuple[tuple[int, ...], ...]
) -> tuple[tuple[str, ...], str]:
    """Letters of operands of these shapes, and of the result."""
    letters, result = _parse(name, (equation, *shapes), shapes)
    terms = letters.split(",")
    if len(terms) != len(shapes):
        raise ValueError(f"{name}: {letters!r} has {len(terms)} terms for {len(shapes)} arrays")
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            raise ValueError(f"{name}: term {term!r} does not fit an array of shape {shape}")
        lengths = dict(zip(term, shape, strict=True))
        for letter, size in zip(term, shape, strict=True):
            if size != lengths[letter]:
                raise ValueError(
                    f"{name}: term {term!r} does not fit: {letter!r} has sizes "
                    f"{size} and {lengths[letter]} in an array of shape {shape}"
                )
    if len(set(result)) < len(result) or not set(result) <= set(letters):
        raise ValueError(
            f"{name}: the result's letters {result!r} must be letters of {letters!r}, each once"
        )
    if not all(letter.isalpha() for letter in letters.replace(",", "")):
        raise ValueError(f"{name}: {letters!r} holds characters that are no letters")
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, n in zip(term, shape, strict=True):
            if sizes.setdefault(letter, n) != n and n != 1 and sizes[letter] != 1:
                raise ValueError(
                    f"{name}: index {letter!r} is {sizes[letter]} and {n} long, in arrays of "
                    "shapes "
                    f"{', '.join(map(str, shapes))}"
                )
            sizes[letter] = max(sizes[letter], n) if n else 0
    return tuple(terms), result


def _single(x: ndarray, term: str, keep: str) -> tuple[ndarray, str]:
    """An operand with no letter twice and none that nobody needs."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            i = term.index(letter)
            j = term.index(letter, i + 1)
            if x.shape[i] != x.shape[j]:  # one of them is 1 long
                gone = i if x.shape[i] == 1 else j
                x, term = squeeze(x, axis=gone), term[:gone] + term[gone + 1 :]
            else:
                x = diagonal(x, 0, i, j)
                term = term[:i] + term[i + 1 : j] + term[j + 1 :] + letter
    alone = tuple([i for i, letter in enumerate(term) if letter not in keep])
    if alone:
        if x.dtype in INEXACT:
            x = reduce.sum(x, axis=alone)
        else:  # in its own dtype, which a sum would widen
            x = (
                reduce.sum(x, axis=alone, dtype=x.dtype)
                if x.dtype.kind != "b"
                else reduce.any(x, axis=alone)
            )
        term = "".join([letter for letter in term if letter in keep])
    return x, term


def _ordered(x: ndarray, term: str, order: str) -> ndarray:
    return x if term == order else permute_dims(x, tuple([term.index(letter) for letter in order]))


def _pair(a: ndarray, left: str, b: ndarray, right: str, keep: str) -> tuple[ndarray, str]:
    """The contraction of two operands, and its letters."""
    for letter in set(left) & set(right):  # where one is 1 long, it does not know that letter
        n, m = a.shape[left.index(letter)], b.shape[right.index(letter)]
        if n == 1 != m:
            a, left = squeeze(a, axis=left.index(letter)), left.replace(letter, "")
        elif m == 1 != n:
            b, right = squeeze(b, axis=right.index(letter)), right.replace(letter, "")
    a, left = _single(a, left, keep + right)
    b, right = _single(b, right, keep + left)
    batch = "".join([s for s in left if s in right and s in keep])
    inner = "".join([s for s in left if s in right and s not in keep])
    rows, columns = (
        "".join([s for s in term if s not in batch and s not in inner]) for term in (left, right)
    )
    sizes = {**dict(zip(right, b.shape, strict=True)), **dict(zip(left, a.shape, strict=True))}

    def lengths(letters: str) -> tuple[int, ...]:
        return tuple([sizes[s] for s in letters])

    a, b = _ordered(a, left, batch + rows + inner), _ordered(b, right, batch + inner + columns)
    if not inner:
        x = reshape(a, lengths(batch + rows) + (1,) * len(columns))
        y = reshape(b, lengths(batch) + (1,) * len(rows) + lengths(columns))
        return multiply(x, y), batch + rows + columns
    depth, high, wide = (math.prod(lengths(letters)) for letters in (inner, rows, columns))
    a, b = reshape(a, (*lengths(batch), high, depth)), reshape(b, (*lengths(batch), depth, wide))
    return reshape(matmul(a, b), lengths(batch + rows + columns)), batch + rows + columns


@fast_path("*operands", rare=("order", "casting"))
def einsum(
    subscripts: Any = None,
    /,
    *operands: Any,
    out: ndarray | None = None,
    dtype: DTypeLike | None = None,
    order: str = "K",
    casting: str = "same_kind",
    optimize: bool | str | Sequence | None = True,
) -> ndarray:
    """Sum of products by Einstein's convention.

    The sum runs over the letters that the result does not have.

    Parameters
    ----------
    subscripts : object, optional
        Text such as "ij,jk->ik". Without "->" the result has the letters that occur once, sorted.
        "..." stands for axes that broadcast. Or the first array, if arrays and lists of integers
        alternate.
    *operands : object
        Numeric or bool arrays. Or further arrays and lists of integers in turn, the list of the
        result last.
    out : ndarray, optional
        Array that receives the result.
    dtype : dtype_like, optional
        Dtype to which the arrays are converted.
    order : str, default "K"
        Order of the result in memory: "C", "F", "A" (Fortran's order if all arrays have it), or "K"
        (any).
    casting : str, default "same_kind"
        NumPy's rule for the conversions to `dtype` and `out`.
    optimize : bool, str or Sequence or None, default True
        True takes the order of contractions from opt_einsum, and a name selects one of its
        strategies. False and None contract from left to right.

    Returns
    -------
    ndarray
        Array of the common dtype.

    Raises
    ------
    ValueError
        The letters and the shapes do not fit each other.
    TypeError
        The dtype is not supported, or complex numbers would lose their imaginary parts.

    Notes
    -----
    The gradient follows from those of the operations inside. Contractions run as matrix products:
    see ``matmul`` for accuracy and determinism.

    Examples
    --------
    >>> import cudamath as cm
    >>> a = cm.arange(6.0).reshape(2, 3)
    >>> cm.einsum("ij,kj->ik", a, a).tolist()
    [[5.0, 14.0], [14.0, 50.0]]
    """
    operands = () if subscripts is None and not operands else (subscripts, *operands)
    terms, result, arrays = _parsed("einsum", operands)
    letter, casting = order_letter("einsum", order, "K"), casting_rule("einsum", casting)
    if letter == "A":
        letter = "F" if all([x.flags.fnc for x in arrays]) else "C"
    common = dtypes.as_dtype(dtype, "einsum") if dtype is not None else dtypes.result_type(*arrays)
    for x in arrays:
        if dtype is not None and not can_write(x.dtype, common, casting):
            raise TypeError(f"einsum: {x.dtype} cannot become {common} by the rule {casting!r}")
    arrays = [astype(x, common, copy=False) for x in arrays]
    for step in _order(
        "einsum", ",".join(terms) + "->" + result, tuple([x.shape for x in arrays]), optimize
    ):
        chosen = [(arrays[i], terms[i]) for i in step]
        for i in sorted(step, reverse=True):
            del arrays[i], terms[i]
        keep = result + "".join(terms)
        x, term = chosen[0]
        for n, (y, other) in enumerate(chosen[1:], 2):
            x, term = _pair(x, term, y, other, keep + "".join([t for _, t in chosen[n:]]))
        arrays.append(x)
        terms.append(term)
    x, term = _single(arrays[0], terms[0], result)
    x = _ordered(x, term, result)
    return in_order("einsum", x, letter) if out is None else deliver("einsum", x, out, casting)


def einsum_path(*operands: Any, optimize: bool | str = "greedy") -> tuple[list, str]:
    """Return the order in which ``einsum`` contracts, and a description.

    The form is that of NumPy's ``einsum_path``.

    Parameters
    ----------
    *operands : object
        A subscript text such as "ij,jk->ik", then the numeric or bool arrays. Without "->" the
        result has the letters that occur once, sorted. "..." stands for axes that broadcast.
        Alternatively arrays and lists of integers in turn, and the list of the result last.
    optimize : bool or str, default "greedy"
        Strategy of opt_einsum, or False for the order from left to right.

    Returns
    -------
    tuple of (list, str)
        The list ["einsum_path", pair, ...], and a description.

    Raises
    ------
    ValueError
        The letters and the shapes do not fit each other.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.einsum_path("ij,jk,k->i", cm.ones((9, 9)), cm.ones((9, 9)), cm.ones(9), optimize="optimal")[0]
    ['einsum_path', (1, 2), (0, 1)]
    """  # noqa: E501
    import opt_einsum

    terms, result, arrays = _parsed("einsum_path", operands)
    equation, shapes = ",".join(terms) + "->" + result, [x.shape for x in arrays]
    path = _order("einsum_path", equation, tuple(shapes), "auto" if optimize is True else optimize)
    _, text = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=list(path))
    return ["einsum_path", *path], str(text)


@fast_path("a", "b")
def kron(a: ArrayLike, b: ArrayLike) -> ndarray:
    """Kronecker product: every element of a times the whole of b, as blocks.

    Parameters
    ----------
    a, b : array_like
        Numeric or bool arrays. The one of fewer dimensions gets new axes in front.

    Returns
    -------
    ndarray
        Array of the common dtype. Its length along each axis is the product of both lengths.

    Notes
    -----
    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.kron([1, 10], [1, 2, 3]).tolist()
    [1, 2, 3, 10, 20, 30]
    """
    a, b = coerce("kron", (a, b), ANY)
    ndim = max(a.ndim, b.ndim)
    first, second = ((1,) * (ndim - x.ndim) + x.shape for x in (a, b))
    pairs = list(zip(first, second, strict=True))
    # each axis becomes two, of which those of length 1 are left out: there may be 64 already
    axes = [axis for n, m in pairs for axis in ((n, 1), (1, m)) if axis != (1, 1)]
    left = reshape(a, tuple([n for n, _ in axes]))
    right = reshape(b, tuple([m for _, m in axes]))
    shape = tuple([n * m for n, m in pairs])
    return reshape(multiply(left, right), shape)
