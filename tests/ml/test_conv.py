"""conv2d and its gradients: against loops in float64, PyTorch, and central differences; each kernel
by name."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cudamath as cm
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.cpu.lib import threads
from cudamath.runtime.device import assume
from cudamath.testing import assert_close, layout_of, simulate

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)

# -------------------- the reference: loops over taps


def geometry(x_shape, w_shape, stride, padding, dilation):
    """((top, bottom, left, right), (P, Q)) from public arguments."""
    two = lambda v: v if isinstance(v, tuple) else (v, v)  # noqa: E731
    stride, dilation, kernel = two(stride), two(dilation), w_shape[2:]
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        margins = (
            totals[0] // 2,
            totals[0] - totals[0] // 2,
            totals[1] // 2,
            totals[1] - totals[1] // 2,
        )
    else:
        rows, columns = (0, 0) if padding == "valid" else two(padding)
        margins = (rows, rows, columns, columns)
    size = [
        (x_shape[2 + i] + margins[2 * i] + margins[2 * i + 1] - dilation[i] * (kernel[i] - 1) - 1)
        // stride[i]
        + 1
        for i in (0, 1)
    ]
    return stride, margins, dilation, size


def reference(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1, grad=None):
    """y in float64; with grad also (dx, dw, dbias). One step a tap: a strided slice of the padded
    images."""
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    stride, (top, bottom, left, right), dilation, size = geometry(
        x.shape, w.shape, stride, padding, dilation
    )
    height, width = size
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    n, c, k = x.shape[0], w.shape[1], w.shape[0] // groups
    split = lambda a: a.reshape(n, groups, a.shape[1] // groups, *a.shape[2:])  # noqa: E731
    y = np.zeros((n, w.shape[0], height, width))
    dpadded, dw = np.zeros_like(padded), np.zeros_like(w)
    for r, s in itertools.product(range(w.shape[2]), range(w.shape[3])):
        rows = slice(r * dilation[0], r * dilation[0] + (height - 1) * stride[0] + 1, stride[0])
        columns = slice(s * dilation[1], s * dilation[1] + (width - 1) * stride[1] + 1, stride[1])
        window, tap = split(padded[:, :, rows, columns]), w[:, :, r, s].reshape(groups, k, c)
        y += np.einsum("ngchw,gkc->ngkhw", window, tap).reshape(y.shape)
        if grad is not None:
            g = split(np.asarray(grad, np.float64))
            dpadded[:, :, rows, columns] += np.einsum("ngkhw,gkc->ngchw", g, tap).reshape(
                n, x.shape[1], height, width
            )
            dw[:, :, r, s] = np.einsum("ngkhw,ngchw->gkc", g, window).reshape(w.shape[:2])
    if bias is not None:
        y += np.asarray(bias, np.float64)[:, None, None]
    if grad is None:
        return y
    dx = dpadded[:, :, top : top + x.shape[2], left : left + x.shape[3]]
    return y, dx, dw, np.asarray(grad, np.float64).sum((0, 2, 3))


def numbers(shape, dtype=F64, seed=0):
    return (
        np.random.default_rng(seed + 31 * len(shape) + sum(shape))
        .standard_normal(shape)
        .astype(dtype)
    )


TOLERANCE = {
    F64: 1e-13,
    F32: 2e-6,
    F16: 1.5e-3,
    BF16: 1.2e-2,
}  # of the largest possible sum; 16-bit: one rounding


def check(actual, expected, bound, dtype, what):
    """|actual - expected| <= tolerance * bound, the sum of |products|, element by element; the
    right dtype and shape."""
    assert actual.dtype == dtype, what
    actual = np.asarray(actual.to_numpy() if hasattr(actual, "to_numpy") else actual).astype(
        np.float64
    )
    assert actual.shape == expected.shape, what
    error = np.abs(actual - expected) / (bound + 1e-30)
    assert error.size == 0 or error.max() <= TOLERANCE[dtype], f"{what}: {error.max():.2e}"


def check_all(x, w, bias, dtype, **where):
    """Forward and all gradients against the reference."""
    y = reference(x, w, bias, **where)
    grad = numbers(y.shape, dtype, 7)
    y, dx, dw, db = reference(x, w, bias, **where, grad=grad)
    sizes = reference(np.abs(x), np.abs(w), np.abs(bias), **where, grad=np.abs(grad))
    out, pull = cm.vjp(
        lambda x, w, b: cm.ml.conv2d(x, w, b, **where), *map(cm.asarray, (x, w, bias))
    )
    check(out, y, sizes[0], dtype, "y")
    for name, actual, expected, size in zip(
        ("dx", "dw", "db"), pull(cm.asarray(grad)), (dx, dw, db), sizes[1:], strict=True
    ):
        check(actual, expected, size, dtype, name)


CASES = [  # x, weight, stride, padding, dilation, groups
    ((2, 3, 8, 9), (4, 3, 3, 3), 1, 1, 1, 1),
    ((2, 1, 28, 28), (32, 1, 3, 3), 1, 1, 1, 1),
    ((3, 5, 7, 6), (9, 5, 1, 1), 1, 0, 1, 1),
    ((1, 4, 11, 13), (6, 2, 3, 2), (2, 1), (0, 1), 1, 2),
    ((2, 6, 9, 9), (6, 1, 3, 3), 1, 1, 1, 6),
    ((2, 3, 17, 15), (17, 3, 5, 3), (3, 2), (2, 1), (1, 2), 1),
    ((1, 2, 5, 5), (3, 2, 2, 2), 4, 0, 1, 1),
    ((1, 2, 6, 50), (66, 2, 3, 3), 1, 1, 1, 1),
    ((2, 3, 7, 8), (4, 3, 2, 4), 1, "same", (2, 1), 1),
    ((2, 3, 7, 8), (4, 3, 3, 3), 2, "valid", 1, 1),
    ((2, 70, 3, 3), (5, 70, 3, 3), 1, 3, 1, 1),
    ((4, 8, 1, 1), (12, 8, 1, 1), 1, 0, 1, 1),
]
NAMES = ("stride", "padding", "dilation", "groups")


@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients(device, case, dtype):
    x, w, *where = case
    where = dict(zip(NAMES, where, strict=True))
    check_all(numbers(x, dtype), numbers(w, dtype, 1), numbers(w[:1], dtype, 2), dtype, **where)


@given(data=st.data())
def test_any_geometry(data):
    draw = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    groups, kernel = draw(1, 3), (draw(1, 4), draw(1, 4))
    stride, dilation, padding = (
        (draw(1, 3), draw(1, 3)),
        (draw(1, 3), draw(1, 3)),
        (draw(0, 4), draw(0, 4)),
    )
    least = [
        max(1, d * (k - 1) + 1 - 2 * p) for d, k, p in zip(dilation, kernel, padding, strict=True)
    ]
    x = (draw(0, 3), groups * draw(1, 3), *(n + draw(0, 12) for n in least))
    w = (groups * draw(1, 10), x[1] // groups, *kernel)
    check_all(
        numbers(x),
        numbers(w, seed=1),
        numbers(w[:1], seed=2),
        F64,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_torch(device, case):
    torch = pytest.importorskip("torch")
    x, w, *where = case
    x, w, b = numbers(x, F32), numbers(w, F32, 1), numbers(w[:1], F32, 2)
    inputs = [torch.tensor(a, requires_grad=True) for a in (x, w, b)]
    expected = torch.nn.functional.conv2d(*inputs, *where)
    grad = numbers(tuple(expected.shape), F32, 3)
    gradients = torch.autograd.grad(expected, inputs, torch.tensor(grad))
    out, pull = cm.vjp(
        lambda *a: cm.ml.conv2d(*a, **dict(zip(NAMES, where, strict=True))),
        *map(cm.asarray, (x, w, b)),
    )
    for actual, wanted in zip((out, *pull(cm.asarray(grad))), (expected, *gradients), strict=True):
        wanted = wanted.detach().numpy()
        assert_close(actual, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


# -------------------- gradients, twice


def test_gradient_is_the_central_difference(device):
    x, w, b = numbers((2, 4, 6, 5)), numbers((6, 2, 3, 2), seed=1), numbers((6,), seed=2)
    where = dict(stride=(2, 1), padding=1, dilation=(1, 2), groups=2)
    weights = numbers(reference(x, w, b, **where).shape, seed=3)
    value = lambda *a: float((reference(*a, **where) ** 3 * weights).sum())  # noqa: E731
    gradients = cm.grad(
        lambda x, w, b: (cm.ml.conv2d(x, w, b, **where) ** 3 * weights).sum(), (0, 1, 2)
    )(x, w, b)
    for i, (a, gradient) in enumerate(zip((x, w, b), gradients, strict=True)):
        direction, h = numbers(a.shape, seed=4), 1e-5
        shifted = lambda t: [v + t * direction if j == i else v for j, v in enumerate((x, w, b))]  # noqa: B023, E731
        difference = (value(*shifted(h)) - value(*shifted(-h))) / (2 * h)
        assert_close(float((gradient.to_numpy() * direction).sum()), difference, rtol=1e-6)


@pytest.mark.parametrize(
    "where",
    [dict(padding=1), dict(stride=2, padding=(1, 0), groups=2), dict(dilation=2, padding=2)],
    ids=str,
)
def test_gradients_of_gradients(device, where):
    """Hessian times vector, in every pair of inputs, against differences of the reference's
    gradient."""
    groups = where.get("groups", 1)
    point = [numbers((2, 4, 6, 7)), numbers((6, 4 // groups, 3, 3), seed=1)]
    loss = lambda x, w: (cm.ml.conv2d(x, w, **where) ** 3).sum()  # noqa: E731

    def gradient(x, w):
        y = reference(x, w, **where)
        return reference(x, w, **where, grad=3 * y * y)[1:3]

    direction, h = [numbers(a.shape, seed=4) for a in point], 1e-5
    for i in (0, 1):  # d/d(x, w) of <gradient_i, direction_i>
        along = lambda x, w: (cm.grad(loss, i)(x, w) * direction[i]).sum()  # noqa: B023, E731
        second = cm.grad(along, (0, 1))(*point)
        for j in (0, 1):
            shift = [h * d if k == j else 0 for k, d in enumerate(direction)]
            up = gradient(*[p + s for p, s in zip(point, shift, strict=True)])[i]
            down = gradient(*[p - s for p, s in zip(point, shift, strict=True)])[i]
            difference = ((up - down) * direction[i]).sum() / (2 * h)
            assert_close(float((second[j].to_numpy() * direction[j]).sum()), difference, rtol=1e-6)


def test_third_order_runs_through_all_three_ops():
    x, w = numbers((1, 2, 4, 4)), numbers((3, 2, 2, 2), seed=1)
    f = lambda x, w: (cm.ml.conv2d(x, w) ** 2).sum()  # noqa: E731   quartic: third derivatives along v are linear
    v = numbers(w.shape, seed=5)
    second = lambda w: (cm.grad(lambda w: (cm.grad(f, 1)(x, w) * v).sum())(w) * v).sum()  # noqa: E731
    assert_close(cm.grad(second)(w), np.zeros_like(w), rtol=0, atol=1e-12)  # quadratic in w
    mixed = cm.grad(lambda x: second_in(x, v, w))(x)
    _, dx, _, _ = reference(x, v, grad=4 * reference(x, v))
    assert_close(mixed, dx, rtol=1e-12, atol=1e-12)  # d/dx of 2 |conv(x, v)|^2


def second_in(x, v, w):
    f = lambda w: (cm.ml.conv2d(x, w) ** 2).sum()  # noqa: E731
    return (cm.grad(lambda w: (cm.grad(f)(w) * v).sum())(w) * v).sum()


# -------------------- special inputs


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_strides_of_the_inputs_do_not_matter(device, dtype):
    x, w = numbers((2, 8, 6, 7), dtype), numbers((9, 8, 3, 3), dtype, 1)
    grad = numbers((2, 9, 6, 7), dtype, 2)
    run = lambda x, w, g: cm.vjp(lambda x, w: cm.ml.conv2d(x, w, padding=1), x, w)  # noqa: E731

    def results(x, w, g):
        y, pull = run(x, w, g)
        return [a.to_numpy() for a in (y, *pull(g))]

    plain = results(*map(cm.asarray, (x, w, grad)))
    last = cm.asarray(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).transpose(
        0, 3, 1, 2
    )  # channels last
    flipped = cm.asarray(np.ascontiguousarray(w[:, :, ::-1, ::-1]))[:, :, ::-1, ::-1]
    wider = cm.asarray(np.concatenate([grad, grad], 3))[:, :, :, :7]
    for a, b in zip(plain, results(last, flipped, wider), strict=True):
        np.testing.assert_array_equal(a, b)
    same = results(
        cm.asarray(x), cm.asarray(w), cm.broadcast_to(cm.asarray(grad[:1, :1, :1, :1]), grad.shape)
    )
    ones = np.broadcast_to(grad[:1, :1, :1, :1], grad.shape)
    for a, b in zip(results(*map(cm.asarray, (x, w, ones.copy()))), same, strict=True):
        np.testing.assert_array_equal(a, b)


def test_empty(device):
    x, w, b = (
        np.ones((0, 3, 5, 5), np.float32),
        np.ones((4, 3, 2, 2), np.float32),
        np.ones(4, np.float32),
    )
    y, pull = cm.vjp(lambda x, w, b: cm.ml.conv2d(x, w, b), x, w, b)
    assert y.shape == (0, 4, 4, 4)
    dx, dw, db = pull(y)
    assert dx.shape == (0, 3, 5, 5) and not dw.to_numpy().any() and not db.to_numpy().any()
    assert cm.ml.conv2d(np.ones((2, 3, 5, 5), np.float32), w[:0]).shape == (2, 0, 4, 4)
    nothing = cm.ml.conv2d(
        np.ones((2, 0, 5, 5), np.float32), w[:, :0], np.arange(4, dtype=np.float32)
    )
    assert_close(nothing, np.broadcast_to(np.arange(4.0)[:, None, None], (2, 4, 4, 4)), rtol=0)


def test_what_is_not_finite_stays_where_it_belongs(device):
    """An infinite pixel reaches the outputs and weights whose windows hold it, and no others."""
    x, w = numbers((1, 8, 6, 7), F32), np.abs(numbers((9, 8, 3, 3), F32, 1))
    x[0, 2, 0, 6] = np.inf  # a corner: only 4 of the 9 taps ever see it
    y, pull = cm.vjp(lambda w: cm.ml.conv2d(x, w, padding=1), w)
    assert_close(np.isfinite(y.to_numpy()), np.isfinite(reference(x, w, padding=1)), rtol=0)
    (dw,) = pull(cm.ones(y.shape, dtype="float32"))
    finite = np.ones((9, 8, 3, 3), bool)
    finite[:, 2, :2, 1:] = False
    assert_close(np.isfinite(dw.to_numpy()), finite, rtol=0)


def test_lists_and_numpy_arrays_are_taken(device):
    assert cm.ml.conv2d([[[[1.0, 2.0]]]], np.array([[[[3.0]]]])).tolist() == [[[[3.0, 6.0]]]]


def test_same_bits_on_any_number_of_threads():
    x, w = (
        cm.asarray(numbers(shape, F32), device="cpu") for shape in ((5, 16, 20, 20), (24, 16, 3, 3))
    )

    def results():
        y, pull = cm.vjp(lambda x, w: cm.ml.conv2d(x, w, stride=2, padding=1), x, w)
        return [a.tobytes() for a in (y, *pull(y))]

    with threads.limited(1):
        alone = results()
    for count in (2, 3, 7):
        with threads.limited(count):
            assert results() == alone


def test_a_gradient_nobody_waits_for_is_not_computed(monkeypatch):
    from cudamath.ml import conv

    called = []
    original = conv._conv2d_input_grad
    monkeypatch.setattr(
        conv, "_conv2d_input_grad", lambda *a, **k: called.append(1) or original(*a, **k)
    )
    x, w = (
        cm.asarray(numbers((1, 2, 4, 4)), device="cpu"),
        cm.asarray(numbers((3, 2, 2, 2)), device="cpu"),
    )
    cm.grad(lambda w: cm.ml.conv2d(x, w).sum())(w)
    assert not called
    cm.grad(lambda x: cm.ml.conv2d(x, w).sum())(x)
    assert called


# -------------------- errors

GOOD = np.ones((2, 4, 5, 6), np.float32), np.ones((6, 4, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("x", "w", "options", "error", "says"),
    [
        (GOOD[0][0], GOOD[1], {}, ValueError, r"\(4, 5, 6\)"),
        (GOOD[0], GOOD[1][0], {}, ValueError, r"weight.*\(4, 3, 3\)"),
        (GOOD[0], GOOD[1][:, :3], {}, ValueError, r"4 channels.*\(6, 3, 3, 3\)"),
        (GOOD[0], GOOD[1][:, :, :0], {}, ValueError, r"\(6, 4, 0, 3\)"),
        (GOOD[0], GOOD[1], {"groups": 3}, ValueError, "groups=3"),
        (GOOD[0], GOOD[1], {"groups": 4}, ValueError, "groups=4"),
        (GOOD[0], GOOD[1], {"groups": 0}, ValueError, "groups=0"),
        (GOOD[0], GOOD[1], {"groups": 1.5}, ValueError, "1.5"),
        (GOOD[0], GOOD[1], {"groups": 2}, ValueError, "2 in its second axis"),
        (GOOD[0], GOOD[1], {"padding": -1}, ValueError, "padding.*-1"),
        (GOOD[0], GOOD[1], {"padding": (1, 2, 3)}, ValueError, r"\(1, 2, 3\)"),
        (GOOD[0], GOOD[1], {"padding": "full"}, ValueError, "'full'"),
        (GOOD[0], GOOD[1], {"padding": "same", "stride": 2}, ValueError, "stride 1"),
        (GOOD[0], GOOD[1], {"stride": 0}, ValueError, "stride.*0"),
        (GOOD[0], GOOD[1], {"stride": (1, 1.5)}, ValueError, "1.5"),
        (GOOD[0], GOOD[1], {"dilation": (0, 1)}, ValueError, "dilation"),
        (GOOD[0][:, :, :2], GOOD[1], {}, ValueError, "window of 3 rows.*larger than the 2"),
        (
            GOOD[0],
            GOOD[1],
            {"dilation": (1, 3)},
            ValueError,
            "window of 7 columns.*larger than the 6",
        ),
        (GOOD[0].astype(int), GOOD[1], {}, TypeError, "int64"),
        (GOOD[0], GOOD[1].astype(complex), {}, TypeError, "complex128"),
        (GOOD[0], GOOD[1].astype(float), {}, TypeError, "float32, float64"),
        (*GOOD, {"bias": np.ones(5, np.float32)}, ValueError, r"\(6,\).*\(5,\)"),
        (*GOOD, {"bias": np.ones((6, 1), np.float32)}, ValueError, r"\(6, 1\)"),
        (*GOOD, {"bias": np.ones(6)}, TypeError, "float64"),
    ],
)
def test_errors(device, x, w, options, error, says):
    with pytest.raises(error, match=says) as raised:
        cm.ml.conv2d(x, w, **options)
    assert str(raised.value).startswith("conv2d: ")


# -------------------- kernels, by name


DIRECTIONS = {"y": "fprop", "dx": "dgrad", "dw": "wgrad"}


def plan_of(name, layouts, x_shape, w_shape, version, **where):
    """The plan of one of the three functions by a version, whose name may lack the direction."""
    from cudamath.kernels.conv import dispatch as conv_dispatch

    if version is not None and version.split("_")[0] not in ("cudnn", "pointwise"):
        version = f"{DIRECTIONS[name]}_{version}"
    if name == "y":
        return conv_dispatch.conv2d(*layouts, **where, version=version)
    if name == "dx":
        return conv_dispatch.conv2d_input_grad(*layouts, size=x_shape[2:], **where, version=version)
    return conv_dispatch.conv2d_weight_grad(*layouts, kernel=w_shape[2:], **where, version=version)


def planned(name, x, w, grad, stride, padding, dilation, groups, version):
    """(plan, its arrays, expected) of one of the three functions."""
    where_given = (stride, padding, dilation, groups)
    stride, margins, dilation, _ = geometry(x.shape, w.shape, stride, padding, dilation)
    where = dict(stride=stride, padding=margins, dilation=dilation, groups=groups)
    number = ("y", "dx", "dw").index(name)
    expected = reference(x, w, None, *where_given, grad)[number]
    bound = reference(np.abs(x), np.abs(w), None, *where_given, np.abs(grad))[number]
    arrays = {"y": (x, w), "dx": (grad, w), "dw": (grad, x)}[name]
    plan = plan_of(name, map(layout_of, arrays), x.shape, w.shape, version, **where)
    return plan, arrays, expected, bound


def random_case(x, w, stride, padding, dilation, groups, dtype):
    x, w = numbers(x, dtype), numbers(w, dtype, 1)
    return (
        x,
        w,
        numbers(
            (x.shape[0], w.shape[0], *geometry(x.shape, w.shape, stride, padding, dilation)[3]),
            dtype,
            2,
        ),
    )


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("name", ["y", "dx", "dw"])
def test_direct_kernels_in_the_simulator(name, dtype):
    where = ((2, 1), (1, 0), (1, 2), 2)
    x, w, grad = random_case((2, 2, 5, 4), (4, 1, 3, 2), *where, dtype)
    plan, arrays, expected, bound = planned(name, x, w, grad, *where, "direct")
    check(simulate(plan, *arrays), expected, bound, dtype, name)


@pytest.mark.simulator
@pytest.mark.parametrize("name", ["y", "dx"])
def test_threads_share_channels_and_taps_in_the_simulator(name):
    """Both at once, unequally: 11 channels in 2 parts, 9 taps (of dx: 6) in as many as leave each
    thread some products."""
    where = ((1, 1) if name == "y" else (2, 1), (1, 0), (1, 2), 1)
    x, w, grad = random_case((2, 11, 4, 5), (11, 11, 3, 3), *where, F32)
    plan, arrays, expected, bound = planned(name, x, w, grad, *where, "direct")
    assert plan.steps[0].block == ((16, 2, 8) if name == "y" else (32, 2, 4))
    check(simulate(plan, *arrays), expected, bound, F32, name)


def test_how_many_threads_share_a_result():
    """Few results: channels first, taps where these are few; many: none."""
    from cudamath.kernels.conv.direct import ENOUGH_THREADS, lanes_for

    assert [
        lanes_for(64, 64, 9),
        lanes_for(64, 16, 9),
        lanes_for(64, 1, 27),
        lanes_for(64, 3, 1),
        lanes_for(64, 0, 9),
    ] == [(16, 1), (4, 4), (1, 4), (1, 1), (1, 1)]
    assert [lanes_for(ENOUGH_THREADS // n, 64, 9) for n in (1, 2, 3, 8)] == [
        (1, 1),
        (2, 1),
        (4, 1),
        (8, 1),
    ]


@pytest.mark.simulator
def test_input_gradients_with_biases_in_the_simulator():
    """Within the kernel, and as a launch behind that of a version that knows none; and steps that
    only 64 bits hold."""
    from cudamath.kernels.conv import dgrad_simt
    from cudamath.kernels.conv import dispatch as conv_dispatch
    from cudamath.kernels.conv import problem as conv_problem
    from cudamath.kernels.conv.problem import Problem

    where = ((2, 3), (1, 0), (1, 2), 2)
    x, w, grad = random_case((2, 6, 5, 7), (4, 3, 3, 2), *where, F32)
    plan, arrays, expected, bound = planned("dx", x, w, grad, *where, "direct")
    bias = numbers((6,), F32, 3)
    expected, bound = (
        expected + bias[:, None, None].astype(np.float64),
        bound + np.abs(bias[:, None, None]),
    )
    options = dict(
        zip(("stride", "padding", "dilation"), (where[0], (1, 1, 0, 0), where[2]), strict=True)
    )
    problem = Problem.input_gradient(
        *map(layout_of, (*arrays, bias)), size=x.shape[2:], **options, groups=2
    )
    behind = conv_problem.add_bias(plan, problem)
    assert len(behind.steps) == 2
    check(simulate(behind, *arrays, bias), expected, bound, F32, "behind")
    for steps in ("contiguous", "reversed"):
        given = bias if steps == "contiguous" else np.ascontiguousarray(bias[::-1])[::-1]
        with assume((9, 0)):
            within = conv_dispatch.conv2d_input_grad(
                *map(layout_of, (*arrays, given)), size=x.shape[2:], **options, groups=2
            )
        assert [step.kernel.__name__ for step in within.steps][-1] == "conv2d_input_direct"
        check(simulate(within, *arrays, given), expected, bound, F32, steps)
    one, taps = np.full((1, 1, 1, 1), 3, np.float32), np.array([[[[2, 5]]]], np.float32)
    far = dgrad_simt.direct(
        Problem.input_gradient(
            layout_of(one),
            layout_of(taps),
            size=(1, 4),
            stride=(1, 1 << 33),
            padding=(0, 0, 1, 0),
            dilation=(1, 2),
            groups=1,
        )
    )
    assert simulate(far, one, taps).ravel().tolist() == [0, 15, 0, 0]
    with assume((9, 0)):
        ahead = conv_dispatch.conv2d(
            layout_of(taps),
            layout_of(taps),
            stride=(1, 1 << 33),
            padding=(0, 0, 1, 1),
            dilation=(1, 2),
            groups=1,
        )
    assert simulate(ahead, taps, taps).ravel().tolist() == [25]


@pytest.mark.simulator
def test_weight_gradients_of_positions_that_only_64_bits_hold():
    from cudamath.kernels.conv import conv3d, wgrad_simt
    from cudamath.kernels.conv.problem import Problem

    where, small = (
        {"stride": (2, 1, 3), "padding": (1, 0, 0, 1, 2, 0), "dilation": (1, 2, 1), "groups": 1},
        (1, 2, 3, 4, 4),
    )
    x = np.arange(-96.0, 96).reshape(1, 2, 4, 6, 4)
    with assume((9, 0)):
        plan = conv3d.conv3d_weight_grad(
            layout_of(np.ones(small)), layout_of(x), kernel=(2, 2, 3), **where
        )
    (step,) = plan.steps
    assert step.kernel is wgrad_simt.conv2d_weight_direct(x.dtype, False)
    grad = np.random.default_rng(2).integers(-9, 9, small).astype(np.float64)
    far = Plan(
        plan.outputs,
        [Launch(wgrad_simt.conv2d_weight_direct(x.dtype, True), step.grid, step.block, step.args)],
    )
    np.testing.assert_array_equal(simulate(far, grad, x), simulate(plan, grad, x))
    huge = Layout.new((1, 1, 2, 1 << 30), x.dtype, 0)
    problem = Problem("weight", huge, Layout.new((1, 1, 1, 1), x.dtype, 0), huge)
    (step,) = wgrad_simt.direct(problem).steps
    assert step.kernel is wgrad_simt.conv2d_weight_direct(x.dtype, True)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("version", "dtype"),
    [
        ("direct", F32),
        ("direct", BF16),
        ("simt", F64),
        ("sm90", F16),
        ("sm80", BF16),
        ("cudnn", F32),
    ],
    ids=str,
)
def test_input_gradients_with_biases(version, dtype):
    for case in TENSOR_CASES[:3]:
        x_shape, w_shape, *where = case
        x, w, grad = random_case(x_shape, w_shape, *where, dtype)
        _, arrays, expected, bound = planned("dx", x, w, grad, *where, "direct")
        bias = numbers(x_shape[1:2], dtype, 3)
        wide = bias[:, None, None].astype(np.float64)
        stride, margins, dilation, _ = geometry(x_shape, w_shape, *where[:3])
        inputs = [cm.asarray(a, device="cuda:0") for a in (*arrays, bias)]
        layouts = [a._layout for a in inputs]
        plan = plan_of(
            "dx",
            layouts,
            x_shape,
            w_shape,
            version,
            stride=stride,
            padding=margins,
            dilation=dilation,
            groups=where[3],
        )
        check(
            plan.bind("dx", layouts)(*inputs),
            expected + wide,
            2 * (bound + np.abs(wide)),
            dtype,
            version,
        )


TILE_EDGES = [
    (
        (2, 9, 16, 16),
        (129, 9, 3, 3),
        1,
        1,
        1,
        1,
    ),  # one output more than a tile, positions a multiple of it
    ((3, 64, 13, 9), (128, 64, 3, 3), 2, 1, 1, 1),
    ((1, 16, 40, 41), (40, 8, 3, 3), 1, 1, 2, 2),
]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        *[(case, F32) for case in CASES + TILE_EDGES],
        *[(case, dtype) for case in TILE_EDGES for dtype in (F64, F16, BF16)],
    ],
    ids=str,
)
@pytest.mark.parametrize("version", ["direct", "simt"])
@pytest.mark.parametrize("name", ["y", "dx", "dw"])
def test_kernels_on_the_gpu(case, name, version, dtype):
    x_shape, w_shape, *where = case
    x, w, grad = random_case(x_shape, w_shape, *where, dtype)
    plan, arrays, expected, bound = planned(name, x, w, grad, *where, version)
    if (name, version) == ("dx", "simt"):  # of these little ones the default leaves some to others
        plan = in_tiles(arrays, x_shape, where)
    inputs = [cm.asarray(a, device="cuda:0") for a in arrays]
    run = plan.bind(name, [a._layout for a in inputs])
    first = run(*inputs)
    check(first, expected, bound, dtype, version)
    assert first.tobytes() == run(*inputs).tobytes()


def in_tiles(arrays, x_shape, where):
    """The plan of an input gradient whose products are all computed in tiles."""
    from cudamath.kernels.conv import dgrad_simt
    from cudamath.kernels.conv.problem import Problem

    stride, margins, dilation, _ = geometry(x_shape, arrays[1].shape, *where[:3])
    problem = Problem.input_gradient(
        *map(layout_of, arrays),
        size=x_shape[2:],
        stride=stride,
        padding=margins,
        dilation=dilation,
        groups=where[3],
    )
    return dgrad_simt.input_gradient(problem, tiles=True)


def on_gpu(array, last):
    """On the first GPU, in C order or channels last."""
    if not last:
        return cm.asarray(np.ascontiguousarray(array), device="cuda:0")
    return cm.asarray(np.ascontiguousarray(array.transpose(0, 2, 3, 1)), device="cuda:0").transpose(
        0, 3, 1, 2
    )


def run_by_name(name, version, case, dtype, last):
    """One function of one version, on channels-last or C-order arrays: right, the same bits twice,
    laid out as its input."""
    x_shape, w_shape, *where = case
    x, w, grad = random_case(x_shape, w_shape, *where, dtype)
    _, arrays, expected, bound = planned(name, x, w, grad, *where, "direct")
    inputs = [on_gpu(a, last) for a in arrays]
    stride, margins, dilation, _ = geometry(x_shape, w_shape, *where[:3])
    options = dict(stride=stride, padding=margins, dilation=dilation, groups=where[3])
    layouts = [a._layout for a in inputs]
    plan = plan_of(name, layouts, x_shape, w_shape, version, **options)
    run = plan.bind(name, layouts)
    first = run(*inputs)
    check(first, expected, bound, dtype, f"{version} {name}")
    assert first.tobytes() == run(*inputs).tobytes()
    images = inputs[1] if name == "dw" else inputs[0]
    if last and min(images.shape[1], images.shape[3], first.shape[1]) > 1:
        assert first.strides[1] == first.itemsize


# channels that are whole steps, and such that are not; every option; outputs past a tile's end
TENSOR_CASES = [
    ((2, 64, 13, 15), (128, 64, 3, 3), 1, 1, 1, 1),
    ((2, 64, 13, 13), (264, 64, 1, 1), 1, 0, 1, 1),
    ((3, 128, 14, 14), (64, 128, 3, 3), 2, 1, 1, 1),
    ((2, 96, 15, 12), (72, 96, 3, 3), 1, 2, 2, 1),
    ((2, 64, 13, 13), (64, 64, 1, 1), 2, 0, 1, 1),
    ((2, 32, 13, 9), (40, 32, 5, 3), (3, 2), (2, 0), 1, 1),
    ((2, 16, 9, 9), (24, 16, 3, 3), 1, "same", 1, 1),
    ((2, 8, 9, 9), (8, 8, 7, 7), 2, 3, 1, 1),
    ((2, 128, 9, 9), (256, 64, 3, 3), 1, 1, 1, 2),
]


def needs_tensor_cores():
    if cm.cuda.devices()[0].capability[0] != 9:
        pytest.skip("kernels of compute capability 9.0")


@pytest.mark.gpu
@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
@pytest.mark.parametrize("case", TENSOR_CASES, ids=str)
@pytest.mark.parametrize("version", ["sm90", "sm80"])
@pytest.mark.parametrize("name", ["y", "dx", "dw"])
def test_tensor_cores_by_name(name, version, case, dtype, last):
    needs_tensor_cores()
    run_by_name(name, version, case, dtype, last)


@pytest.mark.gpu
@pytest.mark.parametrize("across", [False, True], ids=["forward", "input"])
def test_every_tile_of_sm90(across):
    needs_tensor_cores()
    from cudamath.kernels.conv import fprop_dgrad_sm90
    from cudamath.kernels.conv.problem import Problem
    from cudamath.kernels.copy import channels_last

    x, w = numbers((3, 64, 18, 17), BF16), numbers((200, 64, 3, 3), BF16, 1)
    grad = numbers((3, 200, 18, 17), BF16, 2)
    exact = reference(x, w, padding=1, grad=grad)
    bound = reference(np.abs(x), np.abs(w), padding=1, grad=np.abs(grad))
    x, w, grad = (on_gpu(a, True) for a in (x, w, grad))
    first, planner, kind = (
        (grad, fprop_dgrad_sm90.input_gradient, "input")
        if across
        else (x, fprop_dgrad_sm90.forward, "forward")
    )
    images, results = (channels_last.as_channels_last(a._layout) for a in (x, grad))
    problem = Problem(kind, images, w._layout, results, padding=(1, 1, 1, 1))
    for tile in fprop_dgrad_sm90.TILES:
        plan = planner(problem, tile=tile)
        check(
            plan.bind("conv2d", [first._layout, w._layout])(first, w),
            exact[across],
            bound[across],
            BF16,
            str(tile),
        )


@pytest.mark.gpu
def test_every_tile_of_the_weight_gradient():
    needs_tensor_cores()
    from cudamath.kernels.conv import wgrad_sm90
    from cudamath.kernels.conv.problem import Problem
    from cudamath.kernels.copy import channels_last

    x, grad = numbers((3, 136, 18, 17), BF16), numbers((3, 200, 18, 17), BF16, 2)
    w = np.zeros((200, 136, 3, 3), BF16)
    exact, bound = (
        reference(x, w, padding=1, grad=grad)[2],
        reference(np.abs(x), w, padding=1, grad=np.abs(grad))[2],
    )
    x, grad = on_gpu(x, True), on_gpu(grad, True)
    weight = channels_last.result(x._layout, w.shape)
    problem = Problem("weight", x._layout, weight, grad._layout, padding=(1, 1, 1, 1))
    for tile in wgrad_sm90.TILES:
        for splits in (1, 3, 15):
            plan = wgrad_sm90.weight_gradient(problem, tile=tile, splits=splits)
            check(
                plan.bind("conv2d", [grad._layout, x._layout])(grad, x),
                exact,
                bound,
                BF16,
                f"{tile} {splits}",
            )


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("dtype", "last"),
    [(BF16, True), (BF16, False), (F16, True), (F32, False), (F64, True)],
    ids=str,
)
@pytest.mark.parametrize("case", [*CASES[1::2], TENSOR_CASES[3], TENSOR_CASES[-1]], ids=str)
@pytest.mark.parametrize("name", ["y", "dx", "dw"])
def test_cudnn_by_name(name, case, dtype, last):
    from cudamath.runtime import cudnn

    if not cudnn.available():
        pytest.skip("cuDNN is not installed")
    try:
        run_by_name(name, "cudnn", case, dtype, last)
    except ValueError as error:
        if "version 'cudnn' does not support" not in str(error):
            raise


@pytest.mark.gpu
@pytest.mark.parametrize(
    "case",
    [
        ((8, 160, 7, 7), (72, 160, 5, 5), 1, 2, 1, 1),
        ((4, 32, 13, 17), (48, 32, 5, 5), 1, 0, 1, 1),
        ((16, 24, 20, 20), (40, 24, 3, 3), 1, 1, 1, 1),
        ((2, 9, 30, 22), (16, 9, 7, 7), 1, 3, 1, 1),
        ((3, 64, 12, 12), (64, 16, 5, 5), 1, 2, 1, 4),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["y", "dx", "dw"])
@pytest.mark.parametrize("version", ["cudnn", "cudnn_fourier"])
def test_float32_through_the_library_is_exact(version, name, case):
    """Many taps too, for which it prefers Winograd's transform without saying so."""
    from cudamath.runtime import cudnn

    if not cudnn.available():
        pytest.skip("cuDNN is not installed")
    try:
        run_by_name(name, version, case, F32, False)
    except ValueError as error:  # in groups, and where this cuDNN has none
        if f"version '{version}' does not support" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.gpu
def test_a_large_convolution_on_the_gpu():
    """Many tiles and splits; the reference is the CPU in float64, which the tests above hold to
    NumPy."""
    x, w = numbers((32, 64, 64, 64), F32), numbers((128, 64, 3, 3), F32, 1)
    function = lambda x, w: cm.ml.conv2d(x, w, padding=1)  # noqa: E731
    y, pull = cm.vjp(function, cm.asarray(x, device="cuda:0"), cm.asarray(w, device="cuda:0"))
    with cm.device("cpu"):
        exact, pull_exact = cm.vjp(function, x.astype(np.float64), w.astype(np.float64))
        gradients = [exact, *pull_exact(exact)]
    for actual, expected in zip((y, *pull(y)), gradients, strict=True):
        expected = expected.to_numpy()
        assert_close(actual, expected, rtol=1e-5, atol=2e-5 * np.abs(expected).max())
