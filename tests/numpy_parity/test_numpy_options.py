"""NumPy's rarer options, and arguments by NumPy's names: the answers are NumPy's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy_comparison import CUBE, HOLES, LINE, MATRIX, VECTOR, WHOLE, agree

import cudamath as cm

RNG = np.random.default_rng(11)
LONG = RNG.standard_normal((3, 20))
GAPS = LONG.copy()
GAPS[0, 3] = GAPS[2, :7] = np.nan
WHOLE_WEIGHTS, WEIGHTS = RNG.integers(0, 4, (3, 20)), RNG.random(20)
PARTS = [0.0, 0.05, 0.1, 0.25, 0.3, 0.5, 0.75, 0.83, 0.9, 1.0]
TENTHS = np.arange(11) / 10
POINTS, VALUES = np.linspace(0, 3, 12), RNG.standard_normal((12, 3))
STEPS = ("inverted_cdf", "averaged_inverted_cdf", "closest_observation")


def written(
    function: Callable, given: Any, shape: tuple[int, ...], xp: Any, dtype: str = "c16"
) -> Any:
    """What a function writes into `out`, which it returns (some of NumPy 2.4 forget to)."""
    out = xp.zeros(shape, dtype)
    result = function(given, out=out)
    assert result is out or xp is np
    return result


def filled(xp: Any, shape: tuple[int, ...], val: Any, wrap: bool) -> Any:
    out = xp.zeros(shape)
    xp.fill_diagonal(out, val=val, wrap=wrap)
    return out


def changed(name: str, *args: Any, **more: Any) -> Callable:
    """A function that changes its first argument, as one that returns it."""

    def run(xp: Any, a: Callable) -> Any:
        out = a(MATRIX.copy())
        getattr(xp, name)(
            out,
            *args,
            **{key: value(xp, a) if callable(value) else value for key, value in more.items()},
        )
        return out

    return run


#: Functions of (library, maker of its arrays).
CALLS: dict[str, Callable] = {
    # arguments by name
    "linspace": lambda xp, a: xp.linspace(start=0.0, stop=2.0, num=5),
    "logspace": lambda xp, a: xp.logspace(start=0.0, stop=2.0, num=5),
    "geomspace": lambda xp, a: xp.geomspace(start=1.0, stop=8.0, num=4),
    "arange": lambda xp, a: xp.arange(start=1, stop=9, step=3),
    "identity": lambda xp, a: xp.identity(n=3),
    "eye": lambda xp, a: [
        xp.eye(N=2, M=4, k=1),
        xp.eye(2, 4, -1, "float32", "F"),
        xp.eye(3, order="F"),
    ],
    "searchsorted": lambda xp, a: [
        xp.searchsorted(a(LINE), v=a(VECTOR)),
        xp.searchsorted(a=a(LINE), v=0.5, side="right"),
        a(LINE).searchsorted(v=a(VECTOR)),
    ],
    "extract": lambda xp, a: [
        xp.extract(a(VECTOR > 0), arr=a(VECTOR)),
        xp.extract(condition=a(CUBE > 0), arr=a(CUBE)),
    ],
    "compress": lambda xp, a: [
        xp.compress([True, False], a=a(VECTOR)),
        xp.compress([False, True], a=a(MATRIX), axis=1),
    ],
    **{
        name: lambda xp, a, name=name: [
            getattr(xp, name)(a(LINE), a2=a(VECTOR)),
            getattr(xp, name)(a1=[1, 2], a2=a(LINE)),
        ]
        for name in ("polyadd", "polysub", "polymul")
    },
    "polydiv": lambda xp, a: list(xp.polydiv(u=a(LINE[1:]), v=a([2.0, 1.0]))),
    "vecdot": lambda xp, a: [
        xp.vecdot(a(CUBE), a(CUBE), axis=axis, keepdims=True) for axis in (0, -2, 2)
    ],
    "tri": lambda xp, a: xp.tri(N=2, M=4, k=1),
    "vander": lambda xp, a: xp.vander(a(VECTOR), N=3),
    "fftfreq": lambda xp, a: [xp.fft.fftfreq(n=5, d=0.1), xp.fft.rfftfreq(n=5, d=0.1)],
    "astype": lambda xp, a: a(VECTOR).astype(dtype="float32"),
    "isclose": lambda xp, a: xp.isclose(a=a(VECTOR), b=a(VECTOR + 1e-9)),
    "array_equal": lambda xp, a: xp.array_equal(a1=a(VECTOR), a2=a(VECTOR)),
    "products": lambda xp, a: [
        xp.dot(a=a(MATRIX), b=a(MATRIX.T)),
        xp.outer(a=a(VECTOR), b=a(LINE)),
        xp.kron(a=a(VECTOR), b=a(LINE)),
        xp.tensordot(a=a(MATRIX), b=a(MATRIX), axes=2),
        xp.cross(a=a(CUBE[:, 0, :3]), b=a(CUBE[:, 1, :3])),
    ],
    "solve": lambda xp, a: [
        xp.linalg.solve(a=a(MATRIX[:, :4]), b=a(VECTOR)),
        xp.linalg.lstsq(a=a(MATRIX), b=a(VECTOR), rcond=None)[0],
        xp.linalg.matrix_power(a=a(MATRIX[:, :4]), n=3),
    ],
    "select": lambda xp, a: xp.select(
        condlist=[a(LINE > 1), a(LINE > 3)], choicelist=[a(LINE), a(-LINE)], default=7.0
    ),
    "stack": lambda xp, a: xp.stack(arrays=[a(VECTOR), a(VECTOR)], axis=1),
    "append": lambda xp, a: xp.append(a(VECTOR), values=a(LINE)),
    "angle": lambda xp, a: xp.angle(z=a(VECTOR + 1j), deg=True),
    "unwrap": lambda xp, a: xp.unwrap(p=a(VECTOR)),
    "trapezoid": lambda xp, a: xp.trapezoid(y=a(VECTOR), dx=0.5),
    "polynomials": lambda xp, a: [
        xp.polyval(p=a(VECTOR), x=a(LINE)),
        xp.polyder(p=a(VECTOR)),
        xp.polyint(p=a(VECTOR)),
    ],
    "put": changed("put", ind=[0, 3], v=[5.0, 6.0]),
    "putmask": changed("putmask", mask=lambda xp, a: a(MATRIX > 1), values=[5.0, 6.0]),
    "place": changed("place", mask=lambda xp, a: a(MATRIX > 1), vals=[5.0, 6.0]),
    "copyto": lambda xp, a: written(
        lambda src, out: xp.copyto(dst=out, src=src) or out, a(VECTOR), VECTOR.shape, xp
    ),
    # by position
    "reductions": lambda xp, a: [
        xp.sum(a(WHOLE), 0, "float32"),
        xp.prod(a(CUBE), 1, None),
        xp.mean(a(WHOLE), 0, "float32"),
        xp.var(a(CUBE), 0, None, None, 1),
        xp.std(a(CUBE), 0, "float32"),
        xp.nansum(a(HOLES), 2, None),
        xp.max(a(CUBE), 1, None),
        xp.argmin(a(CUBE), 1, None),
        xp.any(a(WHOLE), 0, None),
        a(WHOLE).sum(0, "float32"),
        a(CUBE).max(1, None),
        xp.sum(a(CUBE), 0, None, xp.zeros((4, 5))),
    ],
    # options
    **{
        f"{name} mean": lambda xp, a, name=name, x=x: [
            getattr(xp, name)(a(x), axis=(0, 2), mean=a(np.full((1, x.shape[1], 1), 0.25))),
            getattr(xp, name)(
                a(x), axis=1, ddof=1, keepdims=True, mean=a(np.nanmean(HOLES, 1, keepdims=True) - 1)
            ),
        ]
        for name, x in (("var", CUBE), ("std", CUBE), ("nanvar", HOLES), ("nanstd", HOLES))
    },
    **{
        f"polyfit {' '.join(how)}": lambda xp, a, how=how: [
            xp.polyfit(
                a(POINTS), a(y), deg=3, **{key: a(v) if key == "w" else v for key, v in how.items()}
            )
            for y in (VALUES, VALUES[:, 0])
        ]
        for how in ({"cov": True}, {"cov": "unscaled", "w": WEIGHTS[:12]}, {"rcond": 0.05})
    },
    **{
        f"fill_diagonal {shape} {wrap}": lambda xp, a, shape=shape, wrap=wrap: [
            filled(xp, shape, val, wrap) for val in (4, [1, 2], a(CUBE))
        ]
        for shape in ((7, 2), (5, 3), (3, 5), (3, 3), (3, 3, 3))
        for wrap in (False, True)
    },
    **{
        f"quantile {method}": lambda xp, a, method=method: [
            *(
                xp.quantile(a(x), PARTS, axis=1, method=method, overwrite_input=False)
                for x in (LONG, GAPS)
            ),
            *(xp.quantile(a(LONG[:, :n]), TENTHS, axis=1, method=method) for n in (1, 2, 4, 5, 10)),
            xp.nanquantile(a(GAPS), PARTS, axis=1, method=method),
        ]
        for method in STEPS
    },
    "quantile weights": lambda xp, a: [
        *(
            xp.quantile(a(x), PARTS, axis=1, method="inverted_cdf", weights=a(w))
            for x in (LONG, GAPS)
            for w in (WHOLE_WEIGHTS, WEIGHTS)
        ),
        xp.percentile(
            a(LONG), [20, 50], axis=1, method="inverted_cdf", weights=a(WEIGHTS), keepdims=True
        ),
        xp.quantile(a(LONG), 0.4, axis=0, method="inverted_cdf", weights=a([1, 2, 0])),
        xp.quantile(  # sums beyond float32
            a([1.0, 2, 3]), [0.5], method="inverted_cdf", weights=a([2.0**25, 1, 2.0**25 + 1])
        ),
        xp.quantile(a(LONG), PARTS, method="inverted_cdf", weights=a(WHOLE_WEIGHTS)),
        xp.nanquantile(a(GAPS), PARTS, axis=1, method="inverted_cdf", weights=a(WHOLE_WEIGHTS)),
        xp.nanpercentile(a(GAPS), 30, axis=1, method="inverted_cdf", weights=a(WHOLE_WEIGHTS)),
    ],
    "partition": lambda xp, a: [
        xp.partition(a(LINE), 2, kind="introselect")[2],
        xp.isin(a(LINE), a(VECTOR), kind="sort"),
    ],
    **{
        f"{name} out": lambda xp, a, name=name: written(
            getattr(xp.fft, name), a(MATRIX), MATRIX.shape, xp
        )
        for name in ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn")
    },
    **{
        f"{name} out": lambda xp, a, name=name: written(
            getattr(xp.fft, name), a(MATRIX), (4, 3), xp
        )
        for name in ("rfft", "rfft2", "rfftn", "ihfft")
    },
    **{
        f"{name} out": lambda xp, a, name=name: written(
            getattr(xp.fft, name), a(MATRIX + 0j), (4, 8), xp, "f8"
        )
        for name in ("irfft", "irfft2", "irfftn", "hfft")
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_as_numpy(name, device):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = CALLS[name](np, np.asarray)
        ours = CALLS[name](cm, lambda x: cm.asarray(np.asarray(x)))
    agree(ours, theirs, 1e5 if name.startswith(("polyfit", "solve")) else 1e3)


def test_polyfit_says_how_well_it_went(device):
    for y in (VALUES, VALUES[:, 0]):
        ours, theirs = (
            xp.polyfit(xp.asarray(POINTS), xp.asarray(y), 3, full=True) for xp in (cm, np)
        )
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    with pytest.warns(np.exceptions.RankWarning, match="^polyfit: "):
        cm.polyfit([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], 2)
    with pytest.raises(ValueError, match="^polyfit: 4 points are too few"):
        cm.polyfit(POINTS[:4], POINTS[:4] ** 2, 3, cov=True)


@pytest.mark.parametrize(
    "weights, method",
    [
        (WEIGHTS, "linear"),
        (WEIGHTS[:5], "inverted_cdf"),
        (-WEIGHTS, "inverted_cdf"),
        (0 * WEIGHTS, "inverted_cdf"),
        (WEIGHTS * np.inf, "inverted_cdf"),
    ],
)
def test_weights_that_are_none(weights, method, device):
    with pytest.raises(ValueError, match="^quantile: "):
        cm.quantile(cm.asarray(LONG), 0.5, axis=1, weights=weights, method=method)


def test_too_many_by_position(device):
    with pytest.raises(
        TypeError, match=r"^sum\(\) takes from 0 to 7 positional arguments but 8 were given"
    ):
        cm.sum(cm.ones(3), 0, None, None, False, None, True, None)


def test_out_of_a_transform_is_checked(device):
    x = cm.asarray(MATRIX)
    with pytest.raises(ValueError, match="^fft: the result of shape"):
        cm.fft.fft(x, out=cm.zeros(3, "complex128"))
    with pytest.raises(TypeError, match="^rfft: a result of dtype complex128"):
        cm.fft.rfft(x, out=cm.zeros((4, 3)))


CHOSEN = np.array([True, False, True])
NARROW = np.array([0, 7, 255], np.uint8)


@pytest.mark.parametrize("number", [0, 256, -1, 2.5, True])
@pytest.mark.parametrize(
    "options", [{"dtype": bool}, {"casting": "unsafe"}, {"signature": "??->?"}]
)
@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_truth_of_numbers_that_the_dtype_does_not_hold(name, options, number, device):
    agree(
        getattr(cm, name)(cm.asarray(NARROW), number, **options),
        getattr(np, name)(NARROW, number, **options),
    )


@pytest.mark.parametrize("kind", ["u1", "f4", "f8", "c8", "?"])
@pytest.mark.parametrize(
    "name", "add multiply equal greater logical_and logical_not isnan isfinite abs square".split()
)
def test_where_leaves_the_dtype(name, kind, device):
    """What is not chosen is 0; without `out` NumPy says nothing about it."""
    x, ufunc = NARROW.astype(kind), getattr(np, name)
    for number in (1, True) if ufunc.nin == 2 else (None,):
        more = () if number is None else (number,)
        with np.errstate(all="ignore"):
            expected = ufunc(x, *more, where=CHOSEN, out=np.zeros(3, ufunc(x, *more).dtype))
        agree(getattr(cm, name)(cm.asarray(x), *more, where=cm.asarray(CHOSEN)), expected)


@pytest.mark.parametrize("kind", ["f4", "f8", "c16"])
@pytest.mark.parametrize(("rtol", "atol"), [(0, 0.5), (0.25, 0.25), (0.5, 0), (0, 0)])
def test_what_is_exactly_as_far_as_allowed_is_close(kind, rtol, atol, device):
    x = np.array([1.5, 1.5, 0, -2, 1.25, 3, np.inf, np.inf, np.nan]).astype(kind)
    y = np.array([1, 1.25, -0.5, -1.5, 1, 2, np.inf, -np.inf, np.nan]).astype(kind)
    with np.errstate(invalid="ignore"):
        expected = np.isclose(x, y, rtol, atol)
    agree(cm.isclose(cm.asarray(x), cm.asarray(y), rtol, atol), expected)


@pytest.mark.parametrize("to", ["i1", "i8", "u4", "f2", "f4", "c8", "?"])
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_casts_of_what_does_not_fit_are_silent(kind, to, device):
    """As on a GPU, which says nothing; numbers that fit are NumPy's."""
    x = np.array([np.nan, np.inf, -1e38, 3.0, 0.5]).astype(kind)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = x.astype(to)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = cm.asarray(x).astype(to).to_numpy()
    assert got.dtype == to
    np.testing.assert_array_equal(got[3:], expected[3:])
