"""Compiled sums on the CPU, and reductions whose plan is known: the same answers, errors and
gradients as the first call."""

import numpy as np
import pytest
from threads import together

import cudamath as cm
from cudamath.cpu import reduce

FLOATS = [np.float32, np.float64]
KINDS = ["sum", "mean", "var", "std"]
# (shape, axis) -> (outer, n, inner): vectors, lines, columns; more and fewer than a piece, a run, a
# block
SHAPES = [
    ((40_000,), None),
    ((33_000,), 0),
    ((3, 11_111), 1),
    ((70, 513), 1),
    ((20_000, 2), 1),
    ((40_000, 1), 0),
    ((129, 300), 0),
    ((65, 1025), 0),
    ((20_000, 3), 0),
    ((3, 5000), 0),
    ((17, 63, 40), 1),
    ((17, 63, 40), (0, 1)),
    ((17, 63, 40), (1, 2)),
    ((8, 8, 8, 128), (1, 2)),
    ((2, 9, 2050), 1),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape, axis", SHAPES, ids=str)
def test_compiled_sums(shape, axis, kind, dtype):
    x = (np.random.default_rng(3).standard_normal(shape) + 0.25).astype(dtype)
    y = np.asarray(getattr(cm, kind)(cm.asarray(x, device="cpu"), axis=axis))
    exact = getattr(x.astype(np.longdouble), kind)(axis=axis)
    count = x.size / exact.size
    size = {
        "sum": np.abs(x).sum(axis=axis, dtype=np.float64),
        "mean": np.abs(x).mean(axis=axis, dtype=np.float64),
    }
    allowed = (4 + np.log2(count)) * np.finfo(dtype).eps * size.get(kind, 1 + np.abs(exact))
    assert y.dtype == dtype and y.shape == np.shape(exact)
    assert (np.abs(y - exact) <= allowed).all(), np.max(np.abs(y - exact) / allowed)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compiled_sums_are_as_exact_as_pairwise_ones(axis):
    x = np.full(
        (4096, 4096), 0.1, np.float32
    )  # a running float32 sum of 4096 such numbers is off by some 1e-5 of itself
    y = np.asarray(cm.sum(cm.asarray(x, device="cpu"), axis=axis))
    exact = x.sum(axis=axis, dtype=np.float64)
    assert np.max(np.abs(y - exact) / exact) < 1e-6


@pytest.mark.parametrize("name", ["sum", "nansum", "mean", "nanmean"])
@pytest.mark.parametrize("shape", [(100_000, 3), (100_000, 1, 3), (2, 50_000, 3)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_sums_of_rows_by_numpy_are_as_exact(name, shape, dtype):
    """Columns with gaps are not added by compiled loops; NumPy's own sum would add row by row."""
    x = np.full((*shape[:-1], 2 * shape[-1]), 0.1, dtype)[..., ::2]
    rows = tuple(range(x.ndim - 1))
    y = np.asarray(getattr(cm, name)(cm.asarray(x, device="cpu"), axis=rows))
    exact = getattr(np, name)(x.astype(np.complex128), axis=rows)
    assert y.shape == exact.shape and np.max(np.abs(y - exact) / np.abs(exact)) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compiled_sums_keep_nan_and_infinity(kind, axis):
    x = np.ones((200, 300), np.float32)
    x[3, 5], x[40, 60], x[80, 60] = np.nan, np.inf, -np.inf
    x[100, 7] = np.inf
    with np.errstate(invalid="ignore"):
        expected = getattr(np, kind)(x, axis=axis)
    assert np.array_equal(
        np.asarray(getattr(cm, kind)(cm.asarray(x, device="cpu"), axis=axis)),
        expected,
        equal_nan=True,
    )


def test_divisors_that_are_none():
    x = cm.ones((1, 40_000), device="cpu")
    assert np.isnan(np.asarray(cm.var(x, axis=0, correction=1))).all()
    assert np.isnan(np.asarray(cm.std(x, axis=0, correction=2))).all()


def test_keepdims_and_memory_that_may_not_be_written():
    x = np.arange(60_000, dtype=np.float64).reshape(200, 300)
    x.flags.writeable = False
    y = cm.sum(cm.asarray(x, device="cpu"), axis=1, keepdims=True)
    assert y.shape == (200, 1) and np.array_equal(np.asarray(y), x.sum(1, keepdims=True))


def test_threads_agree_bit_for_bit():
    x = cm.asarray(
        np.random.default_rng(0).standard_normal((500, 700)).astype(np.float32), device="cpu"
    )
    results = []

    def work(_):
        for axis in (None, 0, 1):
            results.append(
                (axis, np.asarray(x.sum(axis)).tobytes(), np.asarray(x.std(axis)).tobytes())
            )

    together(4, work)
    assert len(results) == 12 and len(set(results)) == 3


@pytest.mark.parametrize(
    "name",
    [
        "sum",
        "prod",
        "mean",
        "var",
        "std",
        "max",
        "min",
        "argmax",
        "argmin",
        "any",
        "all",
        "count_nonzero",
    ],
)
def test_a_known_call_is_like_the_first(device, name):
    call = getattr(cm, name)
    for value in ([[1.0, 2.0], [4.0, 3.0]], [[0.0, 5.0], [1.0, -1.0]]):
        x = np.array(value, np.float32)
        for _ in range(2):
            for axis in (None, 0, 1, -1, (0, 1)):
                if name.startswith("arg") and axis == (0, 1):
                    continue
                for keepdims in (False, True):
                    y, expected = (
                        call(cm.asarray(x), axis, keepdims=keepdims),
                        getattr(np, name)(x, axis, keepdims=keepdims),
                    )
                    assert y.shape == np.shape(expected) and y.dtype == np.asarray(expected).dtype
                    assert np.allclose(np.asarray(y), expected, rtol=1e-6)
    x = cm.asarray(x)
    with pytest.raises(TypeError):
        call(x, axis=1.0)  # equals 1, which is known by now
    with pytest.raises(ValueError, match=f"^{name}: "):
        call(x, axis=2)


def test_a_known_call_takes_other_arguments_and_gradients(device):
    x = cm.asarray([[1.0, 2.0], [3.0, 6.0]], dtype="float32")
    for _ in range(2):
        assert x.sum(0).dtype == np.float32
        assert x.sum(0, dtype="float64").dtype == np.float64
        assert x.var(0).tolist() == [1.0, 4.0]
        assert x.var(0, correction=1).tolist() == [2.0, 8.0]
        assert cm.grad(lambda t: t.sum(0)[1])(x).tolist() == [[0.0, 1.0], [0.0, 1.0]]
        assert cm.grad(lambda t: t.max())(x).tolist() == [[0.0, 0.0], [0.0, 1.0]]


def test_only_large_contiguous_sums_are_compiled(monkeypatch):
    compiled = []
    monkeypatch.setattr(reduce, "_compiled_sum", lambda layout, *_: compiled.append(layout.shape))
    x = np.ones((256, 136), np.float32)
    for case, expected in (
        (x, True),
        (x.T, False),
        (x[:, ::2], False),
        (x[:100], False),
        (x.astype(np.float16), False),
    ):
        reduce.reduce.prepare(
            cm.asarray(case, device="cpu")._layout,
            kind="sum",
            axis=(0,),
            keepdims=False,
            dtype=case.dtype,
        )
        assert bool(compiled) == expected, case.shape
        compiled.clear()


def test_a_changed_default_dtype_changes_known_calls():
    x = cm.asarray([1, 2], device="cpu")
    assert x.mean().dtype == np.float64
    try:
        cm.set_default_dtype("float32")
        assert x.mean().dtype == np.float32
    finally:
        cm.set_default_dtype("float64")
    assert x.mean().dtype == np.float64


# -------------------- choices: cpu/min_max.py

CHOICES = ["max", "min", "argmax", "argmin", "any", "all"]


def chosen(kind, x, axis):
    """What a choice is, and NumPy's; argmax and argmin take one axis or all."""
    axis = (
        axis
        if kind not in ("argmax", "argmin") or isinstance(axis, int) or axis is None
        else axis[0]
    )
    return np.asarray(getattr(cm, kind)(cm.asarray(x, device="cpu"), axis=axis)), getattr(np, kind)(
        x, axis=axis
    )


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u8"])
@pytest.mark.parametrize("kind", CHOICES)
@pytest.mark.parametrize(
    "shape, axis", [*SHAPES, ((70_001,), None), ((1, 40_000), 0), ((33_000, 1), 1)], ids=str
)
def test_compiled_choices(shape, axis, kind, dtype):
    rng = np.random.default_rng(7)
    for x in (
        rng.integers(-3 * (dtype[0] != "u"), 4, shape).astype(dtype),
        np.zeros(shape, dtype),
        np.ones(shape, dtype),
        (rng.standard_normal(shape) * 1e6).astype(dtype)
        if dtype[0] != "u"
        else rng.integers(0, 1 << 31, shape, dtype),
    ):
        if kind in ("any", "all"):
            x = np.where(rng.random(shape) < 1e-4, x[(0,) * x.ndim] == 0, x).astype(
                dtype
            )  # one that decides, here and there
        got, expected = chosen(kind, x, axis)
        assert got.dtype == expected.dtype and np.array_equal(got, expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", CHOICES)
@pytest.mark.parametrize(
    "shape, axis",
    [
        ((40_000,), None),
        ((200, 300), 0),
        ((200, 300), 1),
        ((200, 300), None),
        ((2, 40_000), 1),
        ((9, 70, 130), 1),
    ],
    ids=str,
)
def test_compiled_choices_of_nan_infinity_and_zeros(shape, axis, kind, dtype):
    rng = np.random.default_rng(9)
    plain = rng.standard_normal(shape).astype(dtype)
    specials = [np.inf, -np.inf, 0.0, -0.0, np.nan, -np.nan]
    for some in ([0], [1], [2, 3], [4], [5], [0, 4], range(6)):
        x = plain.copy()
        for place in rng.integers(0, x.size, 40):
            x.flat[place] = specials[rng.choice(list(some))]
        for each in (
            x,
            np.where(np.isfinite(x), 0, x).astype(dtype),
            np.full_like(x, specials[some[0]]),
        ):
            got, expected = chosen(kind, each, axis)
            assert np.array_equal(got, expected, equal_nan=kind in ("max", "min"))


def test_places_at_the_ends_of_pieces():
    from cudamath.cpu.min_max import PIECE, STEP

    for n in (PIECE * 40, PIECE * 40 + 1, PIECE * 39 + STEP - 1):
        for place in {0, 1, STEP, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE - 1, n - 2, n - 1}:
            x = np.zeros(n, np.float32)
            x[place] = 1
            assert (
                int(cm.argmax(cm.asarray(x, device="cpu")))
                == int(cm.argmin(cm.asarray(-x, device="cpu")))
                == place
            )
            assert bool(cm.any(cm.asarray(x, device="cpu"))) and not bool(
                cm.all(cm.asarray(1 - x, device="cpu"))
            )
            assert (
                float(cm.max(cm.asarray(x, device="cpu"))) == 1
                and float(cm.min(cm.asarray(-x, device="cpu"))) == -1
            )
            x[place] = np.nan
            assert int(cm.argmax(cm.asarray(x, device="cpu"))) == place and np.isnan(
                float(cm.max(cm.asarray(x, device="cpu")))
            )


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u8"])
def test_places_in_every_part_of_lines(dtype):
    """Lines from the shortest that vectors are used for to a little more than a piece; the best
    number everywhere in turn, then twice (the first has the place), and NaN before it or behind it.
    """
    from cudamath.cpu.min_max import PIECE, STEP
    from cudamath.cpu.reduce import LARGE

    for n in (
        STEP - 1,
        STEP,
        STEP + 1,
        2 * STEP - 1,
        2 * STEP,
        200,
        511,
        512,
        PIECE,
        PIECE + 1,
        PIECE + STEP + 1,
    ):
        lines = np.arange(max(n, LARGE // n + 1))
        x = np.full((lines.size, n), 7, dtype)
        x[lines, lines % n] = 9
        twice, lost = x.copy(), x.copy()
        twice[lines, (lines * 7 + 3) % n] = 9
        lost[lines, (lines * 5 + 1) % n] = np.nan if dtype[0] == "f" else 9
        for each in (x, twice, lost):
            for largest, values in ((True, each), (False, 20 - each)):
                a = cm.asarray(values, device="cpu")
                places = np.argmax(values, 1) if largest else np.argmin(values, 1)
                assert np.array_equal(
                    (cm.argmax if largest else cm.argmin)(a, axis=1).to_numpy(), places
                )
                best = (cm.max if largest else cm.min)(a, axis=1).to_numpy()
                assert np.array_equal(best, values[lines, places], equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape, axis", SHAPES, ids=str)
def test_compiled_norms(shape, axis, dtype):
    x = np.random.default_rng(11).standard_normal(shape).astype(dtype)
    for each in (
        x,
        x.astype("f8") * (1e15 if dtype == np.float32 else 1e150),
        np.full(shape, np.nan),
        x * 0,
    ):
        each = each.astype(dtype)
        y = np.asarray(cm.linalg.vector_norm(cm.asarray(each, device="cpu"), axis=axis))
        exact = np.sqrt((each.astype(np.longdouble) ** 2).sum(axis=axis))
        assert y.dtype == dtype and y.shape == np.shape(exact)
        np.testing.assert_allclose(
            y, exact.astype("f8"), rtol=(4 + np.log2(x.size)) * np.finfo(dtype).eps
        )
