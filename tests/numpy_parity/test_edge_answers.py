"""Calls at the edge of what a function takes: NumPy's answer, or its class of error and words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy_comparison import CUBE, LINE, MATRIX, WHOLE, agree

import cudamath as cm

Call = Callable[[Any, Callable[[Any], Any]], Any]
EMPTY, TRUTHS = np.zeros((3, 2, 0)), np.array([1, 0, 1, 1, 0])


def after(change: Call) -> Call:
    """The array that a call changes in place."""

    def call(xp: Any, a: Any) -> Any:
        x = a(CUBE.copy())
        change(xp, x)
        return x

    return call


def watched(xp: Any, call: Callable[[], Any]) -> Any:
    """What a call gives where floating-point errors raise."""
    with xp.errstate(all="raise"):
        return call()


ANSWERS: dict[str, Call] = {
    **{
        f"numbers into out, {options}": after(
            lambda xp, x, options=options: xp.add(
                np.int8(2), np.int8(3), out=x[1:2, 1:2, 2:3], **options
            )
        )
        for options in ({}, {"casting": "unsafe"}, {"where": np.bool_(True)})
    },
    "an element into out": after(lambda xp, x: xp.multiply(x[0, 1, 2], x[1, 1, 1], out=x[0])),
    **{
        f"{name} into out without dimensions": lambda xp, a, name=name, more=more, kind=kind: (
            lambda out: [getattr(xp, name)(*map(a, more), out=out) is out, out]
        )(xp.zeros((), kind))
        for name, more, kind in (
            ("nanargmin", [CUBE], int),
            ("nanargmax", [CUBE], int),
            ("round", [np.array(2.5)], float),
            ("clip", [np.array(2.5), np.array(0.0), np.array(1.0)], float),
            ("sum", [CUBE], float),
        )
    },
    **{
        f"one point of {name}": lambda xp, a, name=name: getattr(xp, name)(1) == 1
        for name in ("blackman", "hamming", "hanning", "bartlett")
    },
    "letters as an array": lambda xp, a: xp.einsum(a(MATRIX), np.array([0, 1]), range(1, 2)),
    **{
        f"{name} with lengths that are None": lambda xp, a, name=name: getattr(xp.fft, name)(
            a(CUBE), s=(3, None, None), axes=(0, 1, 2)
        )
        for name in ("fftn", "ifftn", "rfftn", "irfftn")
    },
    **{
        f"{name} of a bool and a longlong": lambda xp, a, name=name: getattr(xp, name)(
            np.bool_(True), np.longlong(2)
        )
        for name in ("logical_and", "logical_or", "logical_xor")
    },
    **{
        f"stone, {ends}": lambda xp, a, ends=ends: xp.histogram_bin_edges(
            a(np.random.default_rng(3).normal(size=300)), "stone", ends
        )
        for ends in (None, (-1.0, 2.0))
    },
    "flags": lambda xp, a: [
        bool(x.flags[key])
        for x in (a(MATRIX), a(np.asfortranarray(MATRIX)), a(MATRIX)[:, ::2])
        for key in "C F W A X B CA FNC FORC FORTRAN BEHAVED CARRAY".split()
    ],
    "resized without a shape": after(lambda xp, x: x.resize()),
    "put nothing": after(lambda xp, x: xp.put(x, [0, 1], [])),
    "put nothing where a mask is": after(lambda xp, x: xp.put(x, [True, False], [])),
    **{
        f"{name} of nothing, {kth}, {axis}": lambda xp, a, name=name, kth=kth, axis=axis: getattr(
            xp, name
        )(a(EMPTY), kth, axis=axis)
        for name in ("partition", "argpartition")
        for kth in (0, 7, -9)
        for axis in (0, 2)
    },
    **{
        f"{name}.{method}, {dtype}": lambda xp, a, name=name, method=method, dtype=dtype: getattr(
            getattr(xp, name), method
        )(a(TRUTHS.astype(dtype)), dtype=bool)
        for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
        for method in ("reduce", "accumulate")
        for dtype in ("i1", "f4")
    },
    "choices as arguments": lambda xp, a: a(np.array([1, 0, 2])).choose(
        a(LINE[:3]), a(LINE[1:4]), a(LINE[2:5])
    ),
    **{
        f"piecewise of {x} where {conditions}": lambda xp, a, x=x, conditions=conditions: (
            xp.piecewise(a(np.array(x)), conditions, [1, 2][: np.size(conditions)])
        )
        for x, conditions in (
            ([3.0, 4.0], [[True, False]]),
            ([3.0, 4.0], [True, False]),
            ([3.0, 4.0], (False, True)),
            ([3.0, 4.0], True),
            (3.0, True),
            (3.0, [True]),
            (3.0, [False, True]),
        )
    },
    "lengths of several axes": lambda xp, a: xp.asarray(
        [xp.size(a(CUBE), axis) for axis in (None, 1, (0, 2), (), (-1,))]
    ),
    "transposed by an array": lambda xp, a: a(CUBE).transpose(np.array([2, 0, 1])),
    **{
        f"close to a number, {dtype}": lambda xp, a, dtype=dtype: [
            xp.isclose(*pair, atol=0, rtol=0)
            for pair in (
                (a(np.ones(2, dtype)), 1 - 1e-12),
                (1 - 1e-12, a(np.ones(2, dtype))),
                (a(np.ones(2, dtype)), 1j),
                (a(np.ones(2, dtype)), 1000),
            )
        ]
        for dtype in ("f4", "f8", "i1", "c8")
    },
    "vecdot of bools": lambda xp, a: xp.vecdot(a(WHOLE > 1), a(WHOLE > 0)),
    "matvec of bools": lambda xp, a: xp.matvec(a(WHOLE > 1), a(WHOLE[0] > 0)),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(device, name):
    agree(ANSWERS[name](cm, cm.asarray), ANSWERS[name](np, np.asarray))


# a call, and words that are in NumPy's text and in ours
REFUSALS: dict[str, tuple[Call, str]] = {
    "negative width": (lambda xp, a: xp.pad(a(LINE), -1), "index can't contain negative values"),
    "negative length": (
        lambda xp, a: xp.pad(a(LINE), 1, "mean", stat_length=(1, -2)),
        "index can't contain negative values",
    ),
    "no length": (
        lambda xp, a: xp.pad(a(LINE), 1, "maximum", stat_length=0),
        "stat_length of 0 yields no value for padding",
    ),
    "width of floats": (
        lambda xp, a: xp.pad(a(LINE), 1.5),
        "`pad_width` must be of integral type",
    ),
    "three widths": (
        lambda xp, a: xp.pad(a(MATRIX), ((1, 2), (3, 4), (5, 6))),
        "operands could not be broadcast together",
    ),
    "widths of too many axes": (
        lambda xp, a: xp.pad(a(MATRIX), (((1,), (2,)), ((3,), (4,)))),
        "input operand has more dimensions than allowed by the axis remapping",
    ),
    "pad an empty axis": (
        lambda xp, a: xp.pad(a(np.zeros((3, 0))), 1, "reflect"),
        "can't extend empty axis 1 using modes other than 'constant' or 'empty'",
    ),
    "unknown mode": (lambda xp, a: xp.pad(a(LINE), 1, "none"), "mode 'none' is not supported"),
    "strange option": (
        lambda xp, a: xp.pad(a(LINE), 1, "wrap", stat_length=2),
        "unsupported keyword arguments for mode 'wrap'",
    ),
    **{
        f"{name} twice": (
            lambda xp, a, name=name: getattr(xp, name)(a(CUBE), ddof=1, correction=1),
            "ddof and correction can't be provided simultaneously",
        )
        for name in ("var", "std", "nanvar", "nanstd")
    },
    **{
        f"{name} of NaN": (
            lambda xp, a, name=name: getattr(xp, name)(a(np.full((2, 3), np.nan)), axis=1),
            "All-NaN slice encountered",
        )
        for name in ("nanargmin", "nanargmax")
    },
    **{
        f"{name} into out with dtype": (
            lambda xp, a, name=name: getattr(xp, name)(
                [a(LINE), a(LINE)], out=a(np.zeros(2 * LINE.size)), dtype="f8"
            ),
            "",
        )
        for name in ("concatenate", "concat", "stack")
    },
    "einsum of numbers": (lambda xp, a: xp.einsum(0, 0), ""),
    "einsum of a letter beyond": (
        lambda xp, a: xp.einsum(a(MATRIX), [0, 52]),
        "subscript is not within the valid range [0, 52)",
    ),
    **{
        f"{count} truths as indices": (
            lambda xp, a, count=count: a(np.ones(1))[(True,) * count],
            "",
        )
        for count in (64, 80)
    },
    **{
        f"{name} of shape {shape}": (
            lambda xp, a, name=name, more=more, shape=shape: getattr(xp, name)(
                a(np.zeros(shape)), *more
            ),
            words,
        )
        for name, more in (("fill_diagonal", [1]), ("diag_indices_from", []))
        for shape, words in ((3, "at least 2-d"), ((2, 3, 4), "of equal length"))
    },
    "pad by None": (lambda xp, a: xp.pad(a(LINE), 1, None), "mode 'None' is not supported"),
    **{
        f"weights {weights} of {method}": (
            lambda xp, a, weights=weights, method=method: xp.quantile(
                a(LINE), 0.5, weights=a(np.full(LINE.size, weights)), method=method
            ),
            words,
        )
        for weights, method, words in (
            (0.0, "inverted_cdf", "Weights included NaN, inf or were all zero"),
            (-1.0, "inverted_cdf", "Weights must be non-negative"),
            (1.0, "linear", "Only method 'inverted_cdf' supports weights"),
        )
    },
    **{
        f"{name} of whole numbers": (
            lambda xp, a, call=call: watched(xp, lambda: call(xp, a)),
            words,
        )
        for name, call, words in (
            (
                "overflow",
                lambda xp, a: a(np.array([-128], "i1")) // a(np.array([-1], "i1")),
                "overflow encountered in floor_divide",
            ),
            (
                "division in place",
                lambda xp, a: a(np.array([1, 2])).__ifloordiv__(0),
                "divide by zero encountered in floor_divide",
            ),
            (
                "division",
                lambda xp, a: xp.floor_divide.reduce(a(np.arange(-3, 3))),
                "divide by zero encountered in reduce",
            ),
        )
    },
    **{
        f"{name} of an iterator": (
            lambda xp, a, name=name: getattr(xp, name)(a(LINE) for _ in range(2)),
            "sequence",
        )
        for name in "hstack vstack dstack column_stack stack concatenate concat".split()
    },
    **{
        f"{name} of {dtype}": (lambda xp, a, name=name, dtype=dtype: getattr(xp, name)(dtype), "")
        for name, dtype in (("iinfo", "f4"), ("iinfo", "?"), ("finfo", "i4"), ("finfo", "?"))
    },
    **{
        f"arange by {step!r}": (lambda xp, a, step=step: xp.arange(0, 4, step), "")
        for step in (0, 0.0)
    },
    "weights of two dimensions": (lambda xp, a: xp.cov(a(LINE), fweights=np.ones((2, 3), int)), ""),
    "too few weights": (lambda xp, a: xp.cov(a(LINE), aweights=np.ones(3)), ""),
    "a shape of too many elements": (
        lambda xp, a: xp.unravel_index(1, (2**32 - 1, 2**31 + 1)),
        "dimensions are too large",
    ),
    "stack nothing": (lambda xp, a: xp.stack([]), "need at least one array"),
    "concatenate nothing": (lambda xp, a: xp.concatenate([]), "need at least one array"),
}


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"s": (2, 3), "axes": None}, "`axes` should not be"),
        ({"s": (2, None), "axes": (0, 1)}, "`None` values"),
    ],
)
def test_lengths_without_axes_warn(device, name, options, words):
    for _ in range(2):  # no replay keeps silent
        with pytest.warns(DeprecationWarning, match=words):
            getattr(cm.fft, name)(cm.asarray(MATRIX), **options)


@pytest.mark.parametrize("name", ["f2", "f4", "f8", "c8", "c16", "i1", "u2", "i4", "i8", "u8"])
def test_texts_of_limits(name):
    limits = "iinfo" if np.dtype(name).kind in "iu" else "finfo"
    assert repr(getattr(cm, limits)(name)) == repr(getattr(np, limits)(name))


def test_seeds_from_a_range():
    ours, same = (cm.random.default_rng(seed).random(3) for seed in (range(3), [0, 1, 2]))
    assert ours.tolist() == same.tolist()


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(device, name):
    call, words = REFUSALS[name]
    with pytest.raises(Exception) as theirs:
        call(np, np.asarray)
    assert words in str(theirs.value)
    with pytest.raises(theirs.type) as ours:
        call(cm, cm.asarray)
    assert words in str(ours.value)
