"""Matrix products against NumPy in float64: shapes, strides, dtypes, gradients, errors; each kernel
version by name."""

import os

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.runtime.device import assume

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
BF16 = np.dtype(ml_dtypes.bfloat16)
EPS = {
    np.dtype("f2"): 2.0**-11,
    BF16: 2.0**-8,
    np.dtype("f4"): 2.0**-24,
    np.dtype("f8"): 2.0**-53,
    np.dtype("c8"): 2.0**-23,
    np.dtype("c16"): 2.0**-52,
}
INTS = [np.dtype(c) for c in "bhilBHIL"]
BOOL = np.dtype(bool)


def wide(x):
    """The same numbers in float64, complex128 or, for integers and bool, in themselves."""
    return x.astype(
        np.complex128 if x.dtype.kind == "c" else x.dtype if x.dtype.kind in "biu" else np.float64
    )


def check(got, a, b, f=np.matmul):
    """`got` against the product in float64, within the errors of sums in the compute type and one
    rounding."""
    expected = f(wide(a), wide(b))
    got = got.to_numpy() if isinstance(got, cm.ndarray) else got
    assert got.shape == expected.shape and got.dtype == a.dtype, (
        got.shape,
        expected.shape,
        got.dtype,
        a.dtype,
    )
    if a.dtype.kind in "biu":
        assert np.array_equal(got, expected)
        return
    own, inner = EPS[a.dtype], max(min(EPS[a.dtype], EPS[np.dtype("f4")]), EPS[np.dtype("f8")])
    size = f(np.abs(wide(a)), np.abs(wide(b)))
    least = 2.0**-25 if a.dtype == np.float16 else 0  # half of its smallest number
    allowed = least + own * np.abs(expected) + inner * 2 * np.sqrt(a.shape[-1] + 16) * size
    wrong = np.abs(wide(got) - expected) > allowed
    assert not (wrong | ~np.isfinite(wide(got))).any(), (
        a.shape,
        b.shape,
        a.dtype,
        got[wrong][:3],
        expected[wrong][:3],
    )


def numbers(rng, shape, dtype):
    if dtype == BOOL:
        return rng.random(shape) < 0.3
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -100, 100, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)


@st.composite
def operand(draw, shape):
    """A function making a view of this shape, with strides that are contiguous, transposed, stepped
    or reversed."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, 2, -1])) for _ in shape]
    stored = [0] * len(shape)
    for i, (size, step) in enumerate(zip(shape, steps, strict=True)):
        stored[order[i]] = size * abs(step)

    def make(rng, dtype):
        return numbers(rng, tuple(stored), dtype).transpose(order)[
            tuple(slice(None, None, s) for s in steps)
        ]

    return make


@st.composite
def products(draw):
    """Two operands whose product exists: 1-d, 2-d, batched, broadcast, empty."""
    m, k, n = (draw(st.integers(0, 9)) for _ in range(3))
    lead = draw(st.lists(st.integers(0, 4), max_size=3))
    left, right = [
        tuple(
            1 if draw(st.integers(0, 3)) == 0 else size
            for size in lead[draw(st.integers(0, len(lead))) :]
        )
        for _ in range(2)
    ]
    a = (k,) if draw(st.integers(0, 5)) == 0 else (*left, m, k)
    b = (k,) if draw(st.integers(0, 5)) == 0 else (*right, k, n)
    return draw(operand(a)), draw(operand(b))


@given(products(), st.sampled_from([*EPS, *INTS, BOOL]))
def test_shapes_strides_and_dtypes(device, pair, dtype):
    rng = np.random.default_rng(3)
    a, b = (make(rng, dtype) for make in pair)
    check(cm.matmul(cm.asarray(a), cm.asarray(b)), a, b)


@pytest.mark.parametrize("dtype", [*EPS, np.dtype("i4"), np.dtype("i1")], ids=str)
@pytest.mark.parametrize(
    "left, right",
    [
        ((64, 64), (64, 64)),
        ((129, 257), (257, 131)),
        ((1, 1000), (1000, 3)),
        ((300, 1), (1, 200)),
        ((3, 65, 40), (40, 70)),
        ((2, 3, 30, 40), (3, 40, 50)),
        ((2, 1, 30, 40), (3, 40, 20)),
        ((500,), (500, 70)),
        ((70, 500), (500,)),
        ((999,), (999,)),
        ((4, 7, 33), (4, 33, 1)),
    ],
)
def test_larger(device, left, right, dtype):
    rng = np.random.default_rng(0)
    a, b = numbers(rng, left, dtype), numbers(rng, right, dtype)
    check(cm.asarray(a) @ cm.asarray(b), a, b)
    if a.ndim > 1 and b.ndim > 1:
        a, b = (
            np.swapaxes(np.swapaxes(a, -1, -2).copy(), -1, -2),
            np.swapaxes(np.swapaxes(b, -1, -2).copy(), -1, -2),
        )
        check(cm.asarray(a) @ cm.asarray(b), a, b)


def test_sums_of_16_bit_numbers_are_kept_in_float32(device):
    for dtype in (np.float16, BF16):
        a = np.ones((2, 5000), dtype)
        assert np.array_equal(
            (cm.asarray(a) @ cm.asarray(a.T)).to_numpy(), np.full((2, 2), 5000).astype(dtype)
        )
    huge = np.full((1, 4), 300, np.float16)
    assert np.isinf((cm.asarray(huge) @ cm.asarray(huge.T)).to_numpy()).all()


def test_dtypes_are_promoted(device):
    a = np.arange(6).reshape(2, 3)
    for x, y, z in (
        ("i4", "f4", "f8"),
        ("f2", "f4", "f4"),
        ("i1", "i4", "i4"),
        ("f4", "c8", "c8"),
        ("?", "i2", "i2"),
    ):
        got = cm.matmul(cm.asarray(a.astype(x)), cm.asarray(a.T.astype(y)))
        assert got.dtype == np.dtype(z) and np.array_equal(
            got.to_numpy(), a.astype(x) @ a.T.astype(y)
        )
    assert cm.matmul(cm.asarray(a.astype(BF16)), cm.asarray(a.T.astype("f2"))).dtype == np.float32
    assert np.array_equal((a @ cm.asarray(a.T)).to_numpy(), a @ a.T)


def test_nothing_to_sum_gives_zeros(device):
    assert np.array_equal(
        cm.matmul(cm.zeros((3, 0)), cm.zeros((0, 2))).to_numpy(), np.zeros((3, 2))
    )
    assert cm.matmul(cm.zeros((0, 3)), cm.zeros((3, 2))).shape == (0, 2)
    assert float(cm.matmul(cm.zeros(0), cm.zeros(0))) == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", [(3, 3), (200, 200), (2, 3, 3), (3,)])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8"])
def test_what_does_not_fit_is_infinite_without_a_word(shape, dtype):
    x = cm.full(shape, np.finfo(dtype).max, dtype=dtype, device="cpu")
    for _ in range(2):
        assert np.isinf(np.asarray(x @ x)).all()


def test_results_on_the_cpu_are_kept_while_somebody_sees_them():
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((2, 300, 300)) for _ in range(2))
    x, y = cm.asarray(a, device="cpu"), cm.asarray(b, device="cpu")
    held = [x @ (y * float(k)) for k in range(8)] + [(x @ y)[1:, ::2]]
    for _ in range(6):
        x @ x
    for k, each in enumerate(held[:-1]):
        assert np.allclose(each.to_numpy(), a @ (b * k), rtol=1e-12, atol=1e-11)
    assert np.allclose(held[-1].to_numpy(), (a @ b)[1:, ::2], rtol=1e-12, atol=1e-11)
    assert (x.mT @ y).flags.c_contiguous and (x @ y[0]).shape == (2, 300, 300)


def test_infinities_and_nan(device):
    a = np.array([[np.inf, 1], [np.nan, 0]], np.float32)
    b = np.array([[0, 1], [1, 1]], np.float32)
    with np.errstate(all="ignore"):
        assert np.array_equal((cm.asarray(a) @ cm.asarray(b)).to_numpy(), a @ b, equal_nan=True)


# -------------------- compositions


@pytest.mark.parametrize("dtype", [np.dtype("f8"), np.dtype("c16"), np.dtype("i8")], ids=str)
def test_compositions(device, dtype):
    rng = np.random.default_rng(1)

    def same(name, a, b, **extra):
        expected = getattr(np, name)(a, b, **extra)
        got = np.asarray(getattr(cm, name)(cm.asarray(a), cm.asarray(b), **extra))
        assert got.shape == expected.shape and got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)

    def new(*shape):
        return numbers(rng, shape, dtype)

    for a, b in (
        (new(4), new(4)),
        (new(), new(3)),
        (new(2, 3), new(3)),
        (new(2, 3), new(3, 4)),
        (new(2, 3, 4), new(5, 4, 2)),
        (new(5), new(5, 2)),
        (new(2, 3, 4), new(4)),
    ):
        same("dot", a, b)
    for a, b in ((new(4), new(4)), (new(), new(3)), (new(2, 3), new(5, 3)), (new(2, 3, 4), new(4))):
        same("inner", a, b)
    same("outer", new(2, 3), new(4))
    same("vdot", new(2, 3), new(3, 2))
    for axes in (0, 1, 2, ((0, 1), (1, 0)), ((-1,), (0,))):
        same("tensordot", new(3, 3, 3), new(3, 3, 3), axes=axes)
    same("tensordot", new(2, 3, 4), new(4, 3, 5), axes=((1, 2), (1, 0)))
    for axis in (-1, -2):
        same("vecdot", new(2, 3, 4), new(3, 4), axis=axis)
        same("vecdot", new(1, 3, 4), new(5, 3, 4), axis=axis)
    same("vecdot", new(4), new(4))


def test_gemm_and_gemv(device):
    rng = np.random.default_rng(2)
    a, b, c = rng.standard_normal((3, 4)), rng.standard_normal((4, 5)), rng.standard_normal((3, 5))
    x, y = rng.standard_normal(4), rng.standard_normal(3)
    p, q, r = cm.asarray(a), cm.asarray(b), cm.asarray(c)
    np.testing.assert_allclose(cm.gemm(p, q).to_numpy(), a @ b, rtol=1e-12)
    np.testing.assert_allclose(
        cm.gemm(p, q, 2.5, r, -0.5).to_numpy(), 2.5 * (a @ b) - 0.5 * c, rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(cm.gemm(p, q, 1, r, 1).to_numpy(), a @ b + c, rtol=1e-12, atol=1e-12)
    nan = cm.asarray(np.full((3, 5), np.nan))
    np.testing.assert_allclose(
        cm.gemm(p, q, 1, nan, 0).to_numpy(), a @ b, rtol=1e-12
    )  # beta 0: c is not read
    np.testing.assert_allclose(
        cm.gemv(p, cm.asarray(x), 2, cm.asarray(y), 3).to_numpy(), 2 * (a @ x) + 3 * y, rtol=1e-12
    )
    assert cm.gemm(p.astype("float32"), q.astype("float32"), 2.0).dtype == np.float32
    for kind_of in (lambda v: v, lambda v: v.tolist()):  # NumPy's arrays and lists
        np.testing.assert_allclose(
            cm.gemm(p, q, 2.5, kind_of(c), -0.5).to_numpy(),
            2.5 * (a @ b) - 0.5 * c,
            rtol=1e-12,
            atol=1e-12,
        )
        np.testing.assert_allclose(
            cm.gemv(kind_of(a), kind_of(x), 2, kind_of(y), 3).to_numpy(),
            2 * (a @ x) + 3 * y,
            rtol=1e-12,
        )


def test_what_is_added_to_a_product_goes_where_that_is(monkeypatch):
    """Also where arrays are made on a GPU by default."""
    from fake_driver import installed

    a, b, c = np.arange(6.0).reshape(2, 3), np.ones((3, 2)), [[1.0, 2.0], [3.0, 4.0]]
    with installed(monkeypatch), cm.device("cuda"):
        left, right = cm.asarray(a, device="cpu"), cm.asarray(b, device="cpu")
        for more in (c, np.array(c)):
            y = cm.gemm(left, right, 2.0, more, 3.0)
            assert y.device == "cpu"
            np.testing.assert_array_equal(y.to_numpy(), 2 * (a @ b) + 3 * np.array(c))


# -------------------- gradients


def slope(f, x, h=1e-6):
    """Central differences of a scalar function of a float64 array."""
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += h
        down[i] -= h
        g[i] = (f(up) - f(down)) / (2 * h)
    return g


PAIRS = [
    ((3,), (3,)),
    ((2, 3), (3, 4)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((2, 2, 3), (3, 4)),
    ((2, 3), (2, 3, 4)),
    ((3,), (2, 3, 4)),
    ((2, 2, 3), (3,)),
    ((2, 1, 2, 3), (3, 3, 2)),
    ((1, 2, 3), (4, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
]


@pytest.mark.parametrize("left, right", PAIRS)
def test_gradient(device, left, right):
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal(left), rng.standard_normal(right)
    w = rng.standard_normal(np.matmul(a, b).shape)

    def total(p, q):
        return cm.sum(cm.matmul(p, q) * w)

    p, q = cm.asarray(a), cm.asarray(b)
    for got, expected in (
        (cm.grad(lambda z: total(z, q))(p), slope(lambda z: float(total(cm.asarray(z), q)), a)),
        (cm.grad(lambda z: total(p, z))(q), slope(lambda z: float(total(p, cm.asarray(z))), b)),
    ):
        np.testing.assert_allclose(got.to_numpy(), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("left, right", [pair for pair in PAIRS if 0 not in pair[0]])
def test_gradient_of_gradient(device, left, right):
    rng = np.random.default_rng(6)
    a, q = rng.standard_normal(left), cm.asarray(rng.standard_normal(right))

    def first(p):
        return cm.sum(cm.grad(lambda z: cm.sum(cm.matmul(z, q) ** 3))(p) ** 2)

    got = cm.grad(first)(cm.asarray(a)).to_numpy()
    expected = slope(lambda z: float(first(cm.asarray(z))), a, 1e-5)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


# -------------------- errors


def test_a_second_call_does_no_less_than_the_first(device):
    rng = np.random.default_rng(3)
    left, right = numbers(rng, (3, 4), np.dtype("f8")), numbers(rng, (4, 5), np.dtype("f8"))
    a, b = cm.asarray(left), cm.asarray(right)
    for _ in range(2):  # the second finds its plan without checks
        check(a @ b, left, right)
        assert cm.matmul(a, b, dtype="float64").dtype == np.float64 and (a @ right).shape == (3, 5)
        ga, gb = cm.grad(lambda a, b: (a @ b).sum(), (0, 1))(a, b)
        assert np.allclose(ga.to_numpy(), np.ones((3, 5)) @ right.T) and np.allclose(
            gb.to_numpy(), left.T @ np.ones((3, 5))
        )
        for wrong in (a, a[0, 0], cm.ones(3)):
            with pytest.raises(ValueError, match="^matmul: "):
                a @ wrong


def test_errors(device):
    with pytest.raises(ValueError, match=r"^matmul: .* shapes \(2, 3\) and \(2, 3\)"):
        cm.matmul(cm.zeros((2, 3)), cm.zeros((2, 3)))
    with pytest.raises(
        ValueError,
        match=r"^matmul: wants arrays of at least one dimension, got shapes \(\) and \(3,\)",
    ):
        cm.matmul(cm.zeros(()), cm.zeros(3))
    with pytest.raises(
        ValueError, match=r"^matmul: the leading axes of shapes \(2, 3, 4\) and \(3, 4, 5\)"
    ):
        cm.matmul(cm.zeros((2, 3, 4)), cm.zeros((3, 4, 5)))
    with pytest.raises(TypeError, match="^matmul: "):
        cm.matmul(cm.zeros((2, 2)), object())
    with pytest.raises(ValueError, match="^gemm: wants matrices"):
        cm.gemm(cm.zeros(3), cm.zeros((3, 3)))
    with pytest.raises(ValueError, match="^gemm: beta is 2, but"):
        cm.gemm(cm.zeros((3, 3)), cm.zeros((3, 3)), beta=2)
    with pytest.raises(ValueError, match=r"^gemm: an array of shape \(2, 3, 3\)"):
        cm.gemm(cm.zeros((3, 3)), cm.zeros((3, 3)), 1, cm.zeros((2, 3, 3)), 1)
    with pytest.raises(ValueError, match="^gemv: wants a matrix .* and a vector"):
        cm.gemv(cm.zeros((3, 3)), cm.zeros((3, 3)))
    for wrong in ("x", [1], None):
        with pytest.raises(TypeError, match="^gemm: alpha must be a number"):
            cm.gemm(cm.ones((2, 2)), cm.ones((2, 2)), wrong)
        with pytest.raises(TypeError, match="^gemv: beta must be a number"):
            cm.gemv(cm.ones((2, 2)), cm.ones(2), 1, cm.ones(2), wrong)
    with pytest.raises(ValueError, match="^vecdot: lengths along axis -1 differ"):
        cm.vecdot(cm.zeros((2, 3)), cm.zeros(2))
    with pytest.raises(ValueError, match="^vdot: wants equally many"):
        cm.vdot(cm.zeros(3), cm.zeros(2))
    with pytest.raises(ValueError, match="^dot: "):
        cm.dot(cm.zeros(3), cm.zeros(2))
    with pytest.raises(IndexError, match="^tensordot: axes=3 does not fit"):
        cm.tensordot(cm.zeros((2, 2)), cm.zeros((2, 2)), axes=3)
    with pytest.raises(ValueError, match="^tensordot: axes .* differ in length"):
        cm.tensordot(cm.zeros((2, 3)), cm.zeros((2, 3)), axes=((0,), (1,)))
    with pytest.raises(
        ValueError, match="^set_matmul_precision: wants 'highest' or 'tf32', got 'low'"
    ):
        cm.set_matmul_precision("low")


# -------------------- kernels, each by name


def planned(a, b, version, capability=(9, 0)):
    """The plan of a kernel version for NumPy arrays as they would lie on a GPU."""
    from cudamath.kernels.matmul.dispatch import matmul

    layouts = [Layout.of(x.shape, x.strides, x.dtype, 0, True) for x in (a, b)]
    with assume(capability):
        return matmul(*layouts, version=version)


@pytest.mark.simulator
@pytest.mark.parametrize("version", ["naive", "tiled"])
@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype("f4"),
        np.dtype("f2"),
        BF16,
        np.dtype("f8"),
        np.dtype("c8"),
        np.dtype("i1"),
        np.dtype("u4"),
        np.dtype("i8"),
        BOOL,
    ],
    ids=str,
)
def test_in_the_simulator(version, dtype):
    rng = np.random.default_rng(1)
    for left, right in (
        ((3, 5), (5, 4)),
        ((17, 18), (18, 3)),
        ((5,), (5,)),
        ((2, 1, 3, 4), (2, 4, 2)),
        ((2, 3, 4), (4, 2)),
        ((3, 0), (0, 2)),
    ):
        a, b = numbers(rng, left, dtype), numbers(rng, right, dtype)
        check(cm.testing.simulate(planned(a, b, version), a, b), a, b)
    a, b = numbers(rng, (5, 3), dtype).T, numbers(rng, (4, 10), dtype)[::-1, ::2].T
    b = np.ascontiguousarray(b).T.copy().T
    check(cm.testing.simulate(planned(a, b, version), a, b), a, b)


SIZES = [
    (1, 1, 1),
    (4, 4, 4),
    (127, 7, 129),
    (128, 8, 128),
    (129, 9, 127),
    (130, 12, 132),
    (256, 40, 256),
    (1, 300, 513),
    (513, 33, 4),
    (1200, 64, 300),
    (130, 512, 132),
    (513, 257, 515),
]
LAYOUTS = ["nn", "nt", "tn", "tt", "steps"]


def laid_out(rng, m, k, n, layout, dtype):
    if layout == "steps":
        return numbers(rng, (m, 2 * k), dtype)[:, ::2], numbers(rng, (2 * k, n), dtype)[::-2]
    a = numbers(rng, (m, k), dtype) if layout[0] == "n" else numbers(rng, (k, m), dtype).T
    b = numbers(rng, (k, n), dtype) if layout[1] == "n" else numbers(rng, (n, k), dtype).T
    return a, b


def on_gpu(x):
    """The array on the GPU with the strides it has here."""
    if x.size == 0 or x.flags.c_contiguous:
        return cm.asarray(np.ascontiguousarray(x))
    base = x
    while base.base is not None:
        base = base.base
    offset = x.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    whole = cm.asarray(base)
    return whole._view(whole._layout.view(x.shape, x.strides, offset), offset)


def run_version(a, b, version):
    from cudamath.kernels.matmul.dispatch import matmul

    p, q = on_gpu(a), on_gpu(b)
    return matmul(p._layout, q._layout, version=version).bind("matmul", [p._layout, q._layout])(
        p, q
    )


@pytest.mark.gpu
@pytest.mark.parametrize(
    "version, dtypes",
    [
        ("naive", [np.dtype("f4"), BF16, np.dtype("i8"), np.dtype("c16"), BOOL]),
        (
            "tiled",
            [
                np.dtype("f4"),
                np.dtype("f2"),
                np.dtype("f8"),
                np.dtype("u1"),
                np.dtype("i8"),
                np.dtype("c8"),
                BOOL,
            ],
        ),
        (
            "register_tiles",
            [
                np.dtype("f4"),
                np.dtype("f2"),
                BF16,
                np.dtype("i1"),
                np.dtype("i4"),
                np.dtype("u4"),
                BOOL,
            ],
        ),
        ("simt", [np.dtype("f4"), np.dtype("f2"), np.dtype("i4"), BOOL]),
        ("simt_small", [np.dtype("f4"), BF16, np.dtype("i4")]),
        ("simt_async_copy", [np.dtype("f4")]),
        ("simt_async_copy_small", [np.dtype("f4")]),
        ("sm80", [np.dtype("f2"), BF16, np.dtype("i1"), np.dtype("f8")]),
        (
            "sm90 64x128",
            [np.dtype("f2"), BF16, np.dtype("i1")],
        ),  # each tile is a kernel of its own: few of them
        ("sm90 128x128 pingpong", [BF16]),
        ("sm90 192x128", [BF16]),
        ("sm90 64x128 split 3", [np.dtype("f2")]),
        ("sm90 64x128 share 3", [BF16]),
        ("sm90 192x192 share 2", [BF16]),
        (
            "cublas",
            [np.dtype("f2"), BF16, np.dtype("f4"), np.dtype("f8"), np.dtype("c8"), np.dtype("c16")],
        ),
    ],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_versions_on_the_gpu(version, dtypes, layout):
    rng = np.random.default_rng(9)
    with cm.device("cuda:0"):
        if version.startswith("sm90") and cm.cuda.devices()[0].capability != (9, 0):
            pytest.skip("compute capability 9.0")
        for dtype in dtypes:
            for m, k, n in SIZES:
                a, b = laid_out(rng, m, k, n, layout, dtype)
                check(run_version(a, b, version), a, b)


@pytest.mark.gpu
@pytest.mark.parametrize("m, k, n", [(2170, 800, 2100), (3001, 515, 1000), (700, 2050, 130)])
def test_parts_of_k_fill_the_last_turn_on_the_gpu(m, k, n):
    """More tiles than the device computes at a time, or fewer: parts of k, and what it leaves
    over."""
    rng = np.random.default_rng(9)
    with cm.device("cuda:0"):
        a, b = numbers(rng, (m, k), np.dtype("f4")), numbers(rng, (k, n), np.dtype("f4"))
        check(run_version(a, b, "simt_async_copy"), a, b)
        check(
            run_version(
                np.ascontiguousarray(a.T).T, np.ascontiguousarray(b.T).T, "simt_async_copy"
            ),
            a,
            b,
        )


@pytest.mark.gpu
@pytest.mark.parametrize("m, n", [(40_000, 40), (40, 40_000)])
@pytest.mark.parametrize(
    "version", ["simt", "simt_small", "simt_async_copy", "simt_async_copy_small"]
)
def test_rows_and_columns_beyond_16_bits_on_the_gpu(version, m, n):
    rng = np.random.default_rng(9)
    with cm.device("cuda:0"):
        a, b = numbers(rng, (m, 8), np.dtype("f4")), numbers(rng, (8, n), np.dtype("f4"))
        check(run_version(a, b, version), a, b)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "version",
    [
        "naive",
        "tiled",
        "register_tiles",
        "simt_small",
        "simt_async_copy",
        "simt_async_copy_small",
        "cublas",
    ],
)
def test_batches_on_the_gpu(version):
    rng = np.random.default_rng(9)
    with cm.device("cuda:0"):
        for left, right in (
            ((5, 40, 24), (5, 24, 33)),
            ((5, 40, 24), (24, 33)),
            ((40, 24), (5, 24, 33)),
            ((2, 1, 40, 24), (1, 3, 24, 36)),
            ((4, 3, 130, 16), (3, 16, 132)),
            ((70_000, 2, 2), (70_000, 2, 2)),
            ((24,), (5, 24, 33)),
            ((5, 40, 24), (24,)),
        ):
            a, b = numbers(rng, left, np.dtype("f4")), numbers(rng, right, np.dtype("f4"))
            check(run_version(a, b, version), a, b)
        a = numbers(rng, (40, 3, 16), np.dtype("f4")).transpose(1, 0, 2)
        b = numbers(rng, (3, 33, 16), np.dtype("f4")).transpose(0, 2, 1)
        check(run_version(a, b, version), a, b)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "version",
    ["sm90 64x64", "sm90 128x128 pingpong", "sm90 64x128 share 2", "sm90 64x128 split 2"],
)
def test_products_that_begin_early_wait_for_what_they_read(version):
    """Powers of a permutation, by as many products in a row, are exact; other kernels stand in
    between."""
    from cudamath.core.dispatch.op import Op

    if tuple(cm.cuda.devices()[0].capability) != (9, 0):
        pytest.skip("sm90 needs compute capability 9.0")
    by_name = Op("matmul by name", cpu="matmul.matmul", cuda="matmul.dispatch.matmul")
    n, count = 264, 24
    order = np.random.default_rng(3).permutation(n)
    power = np.arange(n)
    for _ in range(count):
        power = order[power]
    with cm.device("cuda:0"):
        step = cm.asarray(np.eye(n, dtype=np.float32)[order], dtype=cm.bfloat16)

        def chain(x):
            for i in range(count):
                x = by_name(step, x, tf32=False, version=version)
                x = x * 1 if i % 5 == 0 else x
            return x

        start = cm.asarray(np.eye(n, dtype=np.float32), dtype=cm.bfloat16)
        graph = cm.cuda.graph(chain)
        for run in (chain, graph, graph):
            for _ in range(5):
                result = run(start)
            np.testing.assert_array_equal(
                result.astype("float32").to_numpy(), np.eye(n, dtype=np.float32)[power]
            )


@pytest.mark.gpu
def test_a_second_stream_and_a_graph():
    a = np.random.default_rng(1).standard_normal((65, 65)).astype(np.float32)
    with cm.device("cuda:0"):
        x = cm.asarray(a)
        cm.cuda.synchronize()
        with cm.cuda.Stream():
            y = x @ x
            cm.cuda.current_stream().synchronize()
            check(y, a, a)
        step = cm.cuda.graph(lambda z: z @ z)
        check(step(x), a, a)
        check(step(cm.asarray(a + 1)), a + 1, a + 1)


@pytest.mark.gpu
def test_tf32_only_when_asked_for():
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((512, 512)).astype(np.float32) for _ in range(2))
    exact = a.astype(np.float64) @ b
    with cm.device("cuda:0"):
        x, y = cm.asarray(a), cm.asarray(b)
        error = np.abs((x @ y).to_numpy() - exact).max()
        cm.set_matmul_precision("tf32")
        try:
            rough = np.abs((x @ y).to_numpy() - exact).max()
        finally:
            cm.set_matmul_precision("highest")
    assert error < 1e-4 and 1e-3 < rough < 1e-1


@pytest.mark.gpu
def test_repeated_calls_agree_bit_for_bit():
    rng = np.random.default_rng(1)
    with cm.device("cuda:0"):
        for dtype in (np.float32, np.float16):
            x = cm.asarray(rng.standard_normal((700, 900)).astype(dtype))
            assert len({(x @ x.T).tobytes() for _ in range(5)}) == 1


BATCHES = [
    ((3, 65, 40), (3, 40, 72)),
    ((2, 3, 30, 48), (3, 48, 56)),
    ((2, 1, 33, 40), (3, 40, 20)),
    ((70, 136), (136,)),
    ((136,), (136, 70)),
    ((3, 65, 40), (40, 72)),
    ((4, 7, 33), (4, 33, 9)),
]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "version", ["sm80", "sm90 64x128", "sm90 64x256 pingpong", "sm90 128x64 split 2"]
)
def test_batches_on_tensor_cores(version):
    """One matrix for each of the batch, one for all, batches that no single stride walks,
    vectors."""
    rng = np.random.default_rng(10)
    with cm.device("cuda:0"):
        if version.startswith("sm90") and cm.cuda.devices()[0].capability != (9, 0):
            pytest.skip("compute capability 9.0")
        for left, right in BATCHES:
            a, b = numbers(rng, left, BF16), numbers(rng, right, BF16)
            check(run_version(a, b, version), a, b)
