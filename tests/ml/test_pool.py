"""max_pool2d, avg_pool2d and their gradients: against loops in NumPy, PyTorch, and central
differences."""

import functools

import ml_dtypes
import numpy as np
import pytest
from compiled_facts import compile_plan
from hypothesis import given
from hypothesis import strategies as st

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.compiler.lazy_numba import SIMULATOR
from cudamath.runtime.device import assume
from cudamath.testing import assert_close, layout_of, simulate

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
ROUNDING = {
    F64: 1e-15,
    F32: 6e-7,
    F16: 5e-4,
    BF16: 4e-3,
}  # of one result, relative to the largest summand

# -------------------- the reference: one window at a time


def windows(shape, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
    """For every window: its rows and its columns inside the image, and how many places it has with
    the padding."""
    two = lambda v: v if isinstance(v, tuple) else (v, v)  # noqa: E731
    kernel, padding, dilation = two(kernel), two(padding), two(dilation)
    stride = kernel if stride is None else two(stride)
    axes = []
    for length, k, s, pad, d in zip(shape[2:], kernel, stride, padding, dilation, strict=True):
        starts = [t * s - pad for t in range(length + 2 * pad + k * d)]
        last = (
            length + pad - d * (k - 1) - 1
        )  # the last start of a window that lies inside the padding
        starts = [t for t in starts if t <= last or (ceil_mode and t < min(last + s, length))]
        inside = [[t + d * i for i in range(k) if 0 <= t + d * i < length] for t in starts]
        axes.append(
            [
                (places, min(t + k, length + pad) - t)
                for places, t in zip(inside, starts, strict=True)
            ]
        )
    return axes


def max_reference(x, *where, grad=None):
    """Maxima, and the gradient at the first maximum of each window (the last NaN, as in
    PyTorch)."""
    rows, columns = windows(x.shape, *where)
    y = np.full((*x.shape[:2], len(rows), len(columns)), -np.inf)
    dx = np.zeros(x.shape)
    for n, c, p, q in np.ndindex(y.shape):
        best = None
        for h in rows[p][0]:
            for w in columns[q][0]:
                value = float(x[n, c, h, w])
                if best is None or value > y[n, c, p, q] or np.isnan(value):
                    y[n, c, p, q], best = value, (h, w)
        if grad is not None and best is not None:
            dx[(n, c, *best)] += grad[n, c, p, q]
    return y, dx


def mean_reference(
    x, kernel, stride=None, padding=0, ceil_mode=False, count_include_pad=True, grad=None
):
    rows, columns = windows(x.shape, kernel, stride, padding, 1, ceil_mode)
    y, dx = np.zeros((*x.shape[:2], len(rows), len(columns))), np.zeros(x.shape)
    for p, (r, height) in enumerate(rows):
        for q, (s, width) in enumerate(columns):
            count = height * width if count_include_pad else len(r) * len(s)
            y[:, :, p, q] = (
                x.astype(np.float64)[np.ix_(range(x.shape[0]), range(x.shape[1]), r, s)].sum((2, 3))
                / count
            )
            if grad is not None:
                dx[np.ix_(range(x.shape[0]), range(x.shape[1]), r, s)] += (
                    grad[:, :, p : p + 1, q : q + 1] / count
                )
    return y, dx


def numbers(shape, dtype=F64, seed=0):
    return (
        np.random.default_rng(seed + 31 * len(shape) + sum(shape))
        .standard_normal(shape)
        .astype(dtype)
    )


CASES = [  # x, kernel, stride, padding, dilation (of the maximum only), ceil_mode
    ((2, 3, 8, 6), 2, None, 0, 1, False),
    ((1, 2, 9, 10), 3, 2, 1, 1, False),
    ((1, 2, 9, 10), 3, 2, 1, 1, True),
    ((2, 1, 7, 8), (2, 3), (1, 2), (1, 0), 1, True),
    ((1, 3, 11, 9), (3, 2), (2, 1), (1, 1), (3, 2), False),
    ((3, 2, 5, 5), 5, None, 2, 1, False),
    ((1, 1, 6, 7), 2, 5, 0, 1, True),
    ((2, 2, 1, 1), 1, None, 0, 1, False),
    ((1, 2, 4, 40), (1, 7), 3, (0, 3), 1, True),
    ((2, 3, 2, 5), 4, 3, 0, 1, True),  # a window higher than the image
]


@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_max(device, case, dtype):
    x = numbers(case[0], dtype)
    y, pull = cm.vjp(lambda x: cm.ml.max_pool2d(x, *case[1:]), cm.asarray(x))
    grad = numbers(y.shape, dtype, 1)
    expected, dx = max_reference(x, *case[1:], grad=grad.astype(np.float64))
    assert y.dtype == dtype
    assert_close(y, expected, rtol=0)
    (actual,) = pull(cm.asarray(grad))
    assert_close(actual, dx, rtol=0, atol=ROUNDING[dtype] * 12)


@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16], ids=str)
@pytest.mark.parametrize("count_include_pad", [True, False])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_mean(device, case, count_include_pad, dtype):
    padding = case[3] if case[4] == 1 else 1  # the windows of a mean are not dilated, so smaller
    where = (*case[1:3], padding, case[5], count_include_pad)
    x = numbers(case[0], dtype)
    y, pull = cm.vjp(lambda x: cm.ml.avg_pool2d(x, *where), cm.asarray(x))
    grad = numbers(y.shape, dtype, 1)
    expected, dx = mean_reference(x, *where, grad=grad.astype(np.float64))
    assert y.dtype == dtype
    assert_close(y, expected, rtol=0, atol=ROUNDING[dtype] * 4)
    (actual,) = pull(cm.asarray(grad))
    assert_close(actual, dx, rtol=0, atol=ROUNDING[dtype] * 12)


@given(data=st.data())
def test_any_geometry(data):
    draw = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    kernel, stride, dilation = ((draw(1, 4), draw(1, 4)) for _ in range(3))
    ceil_mode, include = data.draw(st.booleans()), data.draw(st.booleans())
    for d in (dilation, (1, 1)):
        extent = [e * (k - 1) + 1 for e, k in zip(d, kernel, strict=True)]
        padding = tuple(draw(0, k // 2) for k in kernel)
        least = [max(1, e - 2 * p) for e, p in zip(extent, padding, strict=True)]
        x = numbers((draw(0, 2), draw(0, 3), *(n + draw(0, 9) for n in least)))
        if d == dilation:
            y, pull = cm.vjp(
                lambda x: cm.ml.max_pool2d(x, kernel, stride, padding, d, ceil_mode),
                x,  # noqa: B023
            )  # noqa: B023
            reference = lambda g: max_reference(x, kernel, stride, padding, d, ceil_mode, grad=g)  # noqa: B023, E731
        else:
            y, pull = cm.vjp(
                lambda x: cm.ml.avg_pool2d(x, kernel, stride, padding, ceil_mode, include),
                x,  # noqa: B023
            )  # noqa: B023
            reference = lambda g: mean_reference(  # noqa: E731
                x,
                kernel,
                stride,
                padding,
                ceil_mode,
                include,
                grad=g,  # noqa: B023
            )  # noqa: B023, E731
        grad = numbers(y.shape, seed=1)
        expected, dx = reference(grad)
        assert_close(y, expected, rtol=1e-13, atol=1e-13)
        assert_close(pull(cm.asarray(grad))[0], dx, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_torch(device, case):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    x, kernel, stride, padding, dilation, ceil_mode = case
    x = numbers(x, F32)
    pairs = [
        (
            lambda x: functional.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode),
            lambda x: cm.ml.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode),
        )
    ]
    if dilation == 1:
        pairs += [
            (
                lambda x, i=i: functional.avg_pool2d(x, kernel, stride, padding, ceil_mode, i),
                lambda x, i=i: cm.ml.avg_pool2d(x, kernel, stride, padding, ceil_mode, i),
            )
            for i in (True, False)
        ]
    for theirs, ours in pairs:
        leaf = torch.tensor(x, requires_grad=True)
        expected = theirs(leaf)
        grad = numbers(tuple(expected.shape), F32, 3)
        (dx,) = torch.autograd.grad(expected, leaf, torch.tensor(grad))
        y, pull = cm.vjp(ours, cm.asarray(x))
        assert_close(y, expected.detach().numpy(), rtol=1e-6, atol=1e-6)
        assert_close(pull(cm.asarray(grad))[0], dx.numpy(), rtol=1e-6, atol=1e-6)


def test_gradients_are_central_differences(device):
    x, weights = numbers((2, 2, 6, 7)), numbers((2, 2, 3, 3), seed=1)
    direction, h = numbers(x.shape, seed=2), 1e-6
    for ours, reference in ((cm.ml.max_pool2d, max_reference), (cm.ml.avg_pool2d, mean_reference)):
        value = lambda t: (reference(x + t * direction, 3, 2, 1)[0][..., :3] ** 2 * weights).sum()  # noqa: B023, E731
        gradient = cm.grad(lambda x: (ours(x, 3, 2, 1)[..., :3] ** 2 * weights).sum())(x)  # noqa: B023
        assert_close(
            float((gradient.to_numpy() * direction).sum()),
            (value(h) - value(-h)) / (2 * h),
            rtol=1e-6,
        )


def test_gradients_of_gradients(device):
    """f = sum(pool(x)**3): its Hessian times v is the gradient of 6 pool(x) * pool'(v) along the
    same positions."""
    x, v = numbers((2, 2, 6, 7)), numbers((2, 2, 6, 7), seed=5)
    h = 1e-6
    where = (3, 2, 1)
    for ours, reference in ((cm.ml.max_pool2d, max_reference), (cm.ml.avg_pool2d, mean_reference)):
        gradient = lambda x: reference(x, *where, grad=3 * reference(x, *where)[0] ** 2)[1]  # noqa: B023, E731
        product = cm.grad(lambda x: (cm.grad(lambda x: (ours(x, *where) ** 3).sum())(x) * v).sum())(  # noqa: B023
            x
        )  # noqa: B023
        assert_close(
            product, (gradient(x + h * v) - gradient(x - h * v)) / (2 * h), rtol=1e-6, atol=1e-7
        )
    first = cm.grad(lambda x: (cm.ml.max_pool2d(x, 2) ** 3).sum())
    third = lambda x: (cm.grad(lambda x: (first(x) * v).sum())(x) * v).sum()  # noqa: E731
    y, _ = max_reference(x, 2)
    _, at = max_reference(x, 2, grad=np.ones_like(y))
    assert_close(cm.grad(third)(x), 6 * v * v * at, rtol=1e-12, atol=1e-12)


# -------------------- special inputs


def test_nan_infinity_and_ties(device):
    x = np.array(
        [
            [
                [
                    [np.nan, 1, -np.inf, -np.inf],
                    [2, 3, -np.inf, -np.inf],
                    [5, 5, 0.0, -0.0],
                    [5, 5, 0.0, 0.0],
                ]
            ]
        ]
    )
    y, pull = cm.vjp(lambda x: cm.ml.max_pool2d(x, 2), x)
    assert_close(y, [[[[np.nan, -np.inf], [5, 0]]]], rtol=0)
    assert_close(
        pull(np.ones((1, 1, 2, 2)))[0], max_reference(x, 2, grad=np.ones((1, 1, 2, 2)))[1], rtol=0
    )
    assert pull(np.ones((1, 1, 2, 2)))[0].tolist()[0][0] == [
        [1, 0, 1, 0],
        [0] * 4,
        [1, 0, 1, 0],
        [0] * 4,
    ]


def test_a_window_of_padding_only(device):
    """Possible with dilation: the taps step over a narrow image."""
    y, pull = cm.vjp(lambda x: cm.ml.max_pool2d(x, 2, 1, 1, 2), np.ones((1, 1, 1, 1)))
    assert y.tolist() == [[[[-np.inf]]]]
    assert pull(np.ones((1, 1, 1, 1)))[0].tolist() == [[[[0.0]]]]


@pytest.mark.parametrize(("pool", "size"), [(cm.ml.avg_pool2d, 4), (cm.ml.max_pool2d, 1)])
def test_gradients_of_one_row_and_column_in_either_order(device, pool, size):
    """Such images lie in C order and with their channels last at once; the gradients that they get
    say which is meant."""
    x, g = numbers((2, 4, 1, 1), "float32"), numbers((2, 4, 2, 2), "float32", seed=1)
    last = cm.moveaxis(cm.copy(cm.moveaxis(cm.asarray(g), 1, -1)), -1, 1)
    given = cm.moveaxis(cm.copy(cm.moveaxis(cm.asarray(x), 1, -1)), -1, 1)
    expected = g.sum((2, 3), keepdims=True) / size
    for seen in (cm.asarray(x), given):
        for upstream in (cm.asarray(g), last):
            assert_close(
                cm.vjp(lambda x: pool(x, 2, 1, 1), seen)[1](upstream)[0],
                expected,
                rtol=1e-6,
                atol=1e-6,
            )


def test_empty_and_strided(device):
    f = lambda x: (cm.ml.max_pool2d(x, 2) ** 2).sum()  # noqa: E731
    assert cm.grad(lambda x: cm.grad(f)(x).sum())(cm.ones((0, 3, 4, 6))).shape == (0, 3, 4, 6)
    for pool in (cm.ml.max_pool2d, cm.ml.avg_pool2d):
        y, pull = cm.vjp(lambda x: pool(x, 2), np.ones((0, 3, 4, 6), np.float32))  # noqa: B023
        assert y.shape == (0, 3, 2, 3) and pull(y)[0].shape == (0, 3, 4, 6)
        assert pool(np.ones((2, 0, 4, 6), np.float32), 2).shape == (2, 0, 2, 3)
        x = numbers((2, 6, 7, 5), F32)
        last = cm.asarray(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)
        flipped = cm.asarray(np.ascontiguousarray(x[:, :, ::-1]))[:, :, ::-1]
        grad = numbers((2, 6, 3, 2), F32, 1)
        wide = cm.asarray(np.concatenate([grad, grad], 3))[:, :, :, :2]
        plain, pull = cm.vjp(lambda x: pool(x, 2), cm.asarray(x))  # noqa: B023
        for view in (last, flipped):
            y, pull_view = cm.vjp(lambda x: pool(x, 2), view)  # noqa: B023
            np.testing.assert_array_equal(y.to_numpy(), plain.to_numpy())
            np.testing.assert_array_equal(
                pull_view(wide)[0].to_numpy(), pull(cm.asarray(grad))[0].to_numpy()
            )


# -------------------- adaptive, global

SIZES = [(3, 4), (7, 10), (1, 1), 5, (None, 3), (9, 12), (7, 5)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", ["adaptive_avg_pool2d", "adaptive_max_pool2d"])
def test_adaptive_pools_as_in_torch(device, name, size):
    torch = pytest.importorskip("torch")
    x = numbers((2, 3, 7, 10), F32)
    t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    expected = getattr(torch.nn.functional, name)(t, size)
    y, pull = cm.vjp(lambda x: getattr(cm.ml, name)(x, size), cm.asarray(x))
    assert_close(y, expected.detach().numpy(), rtol=1e-6, atol=1e-6)
    g = numbers(tuple(expected.shape), F32, 1)
    (slope,) = torch.autograd.grad(expected, t, torch.tensor(g, dtype=torch.float64))
    assert_close(pull(cm.asarray(g))[0], slope.numpy(), rtol=1e-6, atol=1e-6)
    half = getattr(cm.ml, name)(cm.asarray(x).astype(cm.bfloat16), size)
    assert half.dtype == BF16
    assert_close(half, expected.detach().numpy(), rtol=2**-7, atol=2**-7)


def test_global_pools(device):
    x = numbers((2, 3, 5, 6), F32)
    assert_close(
        cm.ml.global_avg_pool2d(x), x.astype(F64).mean((2, 3), keepdims=True), rtol=1e-6, atol=1e-7
    )
    assert_close(cm.ml.global_max_pool2d(x), x.max((2, 3), keepdims=True), rtol=0)
    assert np.isnan(
        cm.ml.adaptive_max_pool2d(np.full((1, 1, 3, 5), np.nan, F32), 2).to_numpy()
    ).all()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda: cm.ml.adaptive_avg_pool2d(np.ones((2, 3)), 2),
            ValueError,
            r"^adaptive_avg_pool2d: .*\(2, 3\)",
        ),
        (
            lambda: cm.ml.adaptive_avg_pool2d(np.ones((1, 1, 4, 4)), 0),
            ValueError,
            "^adaptive_avg_pool2d: wants output_size",
        ),
        (
            lambda: cm.ml.adaptive_max_pool2d(np.ones((1, 1, 0, 4)), 3),
            ValueError,
            "^adaptive_max_pool2d: cannot divide 0 rows",
        ),
        (
            lambda: cm.ml.adaptive_max_pool2d(np.ones((1, 1, 4, 4), int), 3),
            TypeError,
            "^adaptive_max_pool2d: .*int64",
        ),
        (
            lambda: cm.ml.global_max_pool2d(np.ones((1, 1, 0, 4))),
            ValueError,
            "^global_max_pool2d: .*at least one place",
        ),
        (
            lambda: cm.ml.global_avg_pool2d(np.ones((3, 4))),
            ValueError,
            r"^global_avg_pool2d: .*\(3, 4\)",
        ),
    ],
)
def test_errors_of_adaptive_and_global_pools(device, call, error, says):
    with pytest.raises(error, match=says):
        call()


# -------------------- errors

X = np.ones((2, 3, 5, 6), np.float32)


@pytest.mark.parametrize(
    ("x", "arguments", "error", "says"),
    [
        (X[0], (2,), ValueError, r"\(3, 5, 6\)"),
        (X.astype(int), (2,), TypeError, "int64"),
        (X, (0,), ValueError, "kernel_size.*0"),
        (X, ((2, 2, 2),), ValueError, r"\(2, 2, 2\)"),
        (X, (2.5,), ValueError, "2.5"),
        (X, (2, 0), ValueError, "stride.*0"),
        (X, (2, 2, -1), ValueError, "padding.*-1"),
        (X, (2, 2, 2), ValueError, "at most half of kernel_size.*padding"),
        (X, (6,), ValueError, "window of 6 rows.*larger than the 5"),
        (X, ((5, 7),), ValueError, "window of 7 columns.*larger than the 6"),
        (X, (8, 3, 0, 1, True), ValueError, "window of 8 rows.*larger than the 5"),
    ],
)
@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
def test_errors(device, name, x, arguments, error, says):
    with pytest.raises(error, match=says) as raised:
        getattr(cm.ml, name)(x, *arguments)
    assert str(raised.value).startswith(f"{name}: ")


def test_dilation_errors(device):
    with pytest.raises(ValueError, match="^max_pool2d: .*dilation.*0"):
        cm.ml.max_pool2d(X, 2, 2, 0, 0)
    with pytest.raises(ValueError, match="^max_pool2d: a window of 7 rows"):
        cm.ml.max_pool2d(X, 3, 1, 0, 3)


# -------------------- kernels, by name


FASTEST = ("tiling_windows", "max_16bit", "overlapping_rows", "constant_windows")


def first_supported(names, planner, *layouts, **where):
    """The plan of the first of these versions that supports the layouts."""
    for version in names:
        try:
            return planner(*layouts, **where, version=version)
        except ValueError:
            continue
    raise AssertionError(f"none of {names}")


def plans(x, grad, kernel, stride, padding, dilation, size, dtype, form):
    """name -> (plan, arrays, expected, tolerance); form: "plain", or "fast" and "channels last" for
    the other versions."""
    from cudamath.kernels.pool import dispatch as pool_dispatch

    where = dict(kernel=kernel, stride=stride, padding=padding)
    names = ("plain",) if form == "plain" else FASTEST
    plan_of = functools.partial(first_supported, names)
    exact = grad.astype(np.float64)
    y, dx = max_reference(x, kernel, stride, padding, dilation, grad=exact)
    numbered = np.arange(x.shape[2] * x.shape[3]).reshape(x.shape[2:])
    index = np.full(
        y.shape, -1, np.int32
    )  # positions, from the reference's own gradient of one window
    for at in np.ndindex(y.shape):
        one = np.zeros(y.shape)
        one[at] = 1
        _, place = max_reference(x, kernel, stride, padding, dilation, grad=one)
        index[at] = numbered[place[at[0], at[1]] != 0][0]
    flat = np.take_along_axis(
        x.reshape(*x.shape[:2], -1), index.reshape(*x.shape[:2], -1).astype(int), 2
    )
    p, q = np.indices(size)  # the same positions, counted within the windows
    row = (index // x.shape[3] - (p * stride[0] - padding[0])) // dilation[0]
    column = (index % x.shape[3] - (q * stride[1] - padding[1])) // dilation[1]
    within = (row * kernel[1] + column).astype(np.uint8)
    if form == "channels last":
        x, grad, index, within = (
            np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
            for a in (x, grad, index, within)
        )
    lay, rounding = layout_of, ROUNDING[dtype] * 12
    shape = {"size": x.shape[2:], **where}
    where |= {"size": size}
    found = {
        "max_pool2d": (
            plan_of(pool_dispatch.max_pool2d, lay(x), **where, dilation=dilation),
            (x,),
            (y, index),
            0,
        ),
        "max_pool2d_values": (
            plan_of(pool_dispatch.max_pool2d_values, lay(x), **where, dilation=dilation),
            (x,),
            (y,),
            0,
        ),
        "max_pool2d_grad": (
            plan_of(
                pool_dispatch.max_pool2d_grad, lay(grad), lay(index), **shape, dilation=dilation
            ),
            (grad, index),
            (dx,),
            rounding,
        ),
        "max_pool2d_take": (
            plan_of(pool_dispatch.max_pool2d_take, lay(x), lay(index), **where, dilation=dilation),
            (x, index),
            (flat.reshape(y.shape),),
            0,
        ),
        "max_pool2d, bytes": (
            plan_of(pool_dispatch.max_pool2d, lay(x), **where, dilation=dilation, within=True),
            (x,),
            (y, index if form == "plain" else within),
            0,
        ),
        "max_pool2d_grad, bytes": (
            plan_of(
                pool_dispatch.max_pool2d_grad, lay(grad), lay(within), **shape, dilation=dilation
            ),
            (grad, within),
            (dx,),
            rounding,
        ),
        "max_pool2d_take, bytes": (
            plan_of(pool_dispatch.max_pool2d_take, lay(x), lay(within), **where, dilation=dilation),
            (x, within),
            (flat.reshape(y.shape),),
            0,
        ),
    }
    if dilation == (1, 1):
        for include in (True, False):
            mean, dmean = mean_reference(x, kernel, stride, padding, False, include, grad=exact)
            plan = plan_of(pool_dispatch.avg_pool2d, lay(x), **where, count_include_pad=include)
            found[f"avg_pool2d {include}"] = (plan, (x,), (mean,), rounding)
            plan = plan_of(
                pool_dispatch.avg_pool2d_grad, lay(grad), **shape, count_include_pad=include
            )
            found[f"avg_pool2d_grad {include}"] = (plan, (grad,), (dmean,), rounding)
    return found


FORMS = ["plain", "fast", "channels last"]
#: (kernel, stride, padding, dilation), shape of x: overlapping, dilated, and windows that tile the
#: image or nearly so
KERNELS = [
    ((3, 2), (2, 1), (1, 1), (1, 1), (2, 2, 7, 6)),
    ((3, 2), (2, 1), (1, 1), (1, 2), (2, 2, 7, 6)),
    ((2, 2), (2, 2), (0, 0), (1, 1), (2, 3, 4, 8)),
    ((3, 2), (3, 2), (0, 0), (1, 1), (1, 4, 7, 8)),
]
KERNELS_GPU = [
    *KERNELS,
    ((2, 2), (2, 2), (0, 0), (1, 1), (1, 16, 4, 32)),
    ((4, 4), (4, 4), (0, 0), (1, 1), (1, 2, 8, 32)),
    ((2, 3), (2, 3), (0, 0), (1, 1), (1, 8, 5, 24)),
    ((2, 5), (1, 2), (0, 2), (1, 1), (1, 2, 8, 32)),
    ((3, 3), (2, 2), (1, 1), (1, 1), (1, 2, 9, 32)),
    ((3, 3), (1, 1), (1, 1), (1, 1), (2, 2, 6, 16)),
    ((3, 3), (2, 2), (1, 1), (1, 1), (1, 24, 9, 8)),
]


def kernel_case(dtype, kernel, stride, padding, dilation, shape, form):
    x = numbers(shape, dtype)
    where = (kernel, stride, padding, dilation)
    size = max_reference(x, *where)[0].shape[2:]
    return x, numbers((*shape[:2], *size), dtype, 1), *where, size, dtype, form


@pytest.mark.simulator
def test_notes_of_windows_without_a_maximum():
    """-inf throughout, NaN, and windows that hold no position at all: notes of either kind, and
    where the gradient goes."""
    from cudamath.kernels.pool import dispatch as pool_dispatch

    low = -np.inf
    x = np.array(
        [[[[low, low, 1, 2], [low, low, np.nan, 3], [low, 5, low, low], [low, low, low, low]]]], F32
    )
    where = {
        "kernel": (2, 2),
        "stride": (2, 2),
        "padding": (0, 0),
        "dilation": (1, 1),
        "size": (2, 2),
        "version": "constant_windows",
    }
    for within, places in ((False, [[0, 6], [9, 10]]), (True, [[0, 2], [1, 0]])):
        y, notes = simulate(pool_dispatch.max_pool2d(layout_of(x), within=within, **where), x)
        np.testing.assert_array_equal(y[0, 0], [[low, np.nan], [5, low]])
        assert notes[0, 0].tolist() == places
    x = np.full(
        (1, 1, 3, 1), low, F32
    )  # windows of two columns, of which one lies beside the image, or both
    where |= {"padding": (0, 1), "stride": (1, 1), "dilation": (1, 2)}
    where["size"] = (2, 1)
    grad = np.ones((1, 1, 2, 1), F32)
    for within, nowhere in ((False, -1), (True, 255)):
        y, notes = simulate(pool_dispatch.max_pool2d(layout_of(x), within=within, **where), x)
        assert notes.ravel().tolist() == [nowhere] * 2 and np.isneginf(y).all()
        for version in ("constant_windows", "plain"):
            shape = {**where, "size": (3, 1), "version": version}
            dx = simulate(
                pool_dispatch.max_pool2d_grad(layout_of(grad), layout_of(notes), **shape),
                grad,
                notes,
            )
            assert dx.tolist() == [[[[0]] * 3]]
        assert simulate(
            pool_dispatch.max_pool2d_take(layout_of(x), layout_of(notes), **where), x, notes
        ).tolist() == [[[[0]] * 2]]


@pytest.mark.simulator
@pytest.mark.parametrize("include", [True, False])
def test_means_of_windows_beyond_the_image_in_the_simulator(include):
    """ceil_mode: what lies beyond the padding does not count."""
    from cudamath.kernels.pool import dispatch as pool_dispatch

    for shape, kernel, stride, padding in (
        ((1, 2, 6, 9), (3, 2), (2, 2), (1, 0)),
        ((2, 1, 5, 4), (2, 4), (2, 3), (0, 1)),
    ):
        x = numbers(shape, F32)
        expected, _ = mean_reference(x, kernel, stride, padding, True, include)
        where = {"kernel": kernel, "stride": stride, "padding": padding}
        grad = numbers(expected.shape, F32, 1)
        _, slope = mean_reference(x, kernel, stride, padding, True, include, grad)
        options = where | {"count_include_pad": include}
        size = expected.shape[2:]
        y = simulate(pool_dispatch.avg_pool2d(layout_of(x), size=size, **options), x)
        assert_close(y, expected, rtol=1e-6, atol=1e-6)
        plan = pool_dispatch.avg_pool2d_grad(layout_of(grad), size=shape[2:], **options)
        assert_close(simulate(plan, grad), slope, rtol=1e-6, atol=1e-6)


@pytest.mark.simulator
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", KERNELS, ids=str)
@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_kernels_in_the_simulator(dtype, case, form):
    for name, (plan, arrays, expected, tolerance) in plans(
        *kernel_case(dtype, *case, form)
    ).items():
        if dtype == BF16 and form != "fast":
            continue
        out = simulate(plan, *arrays)
        for actual, wanted in zip(out if isinstance(out, tuple) else (out,), expected, strict=True):
            assert_close(
                actual.astype(np.float64),
                np.asarray(wanted, np.float64),
                rtol=0,
                atol=tolerance,
                what=name,
            )


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("dtype", "case"),
    [
        *[(F32, case) for case in KERNELS_GPU],
        (F64, KERNELS_GPU[0]),
        *[(BF16, case) for case in (*KERNELS_GPU[4:6], *KERNELS_GPU[-3:])],
        (F16, KERNELS_GPU[-1]),
    ],
    ids=str,
)
def test_kernels_on_the_gpu(dtype, case, form):
    for name, (plan, arrays, expected, tolerance) in plans(
        *kernel_case(dtype, *case, form)
    ).items():
        inputs = [
            cm.asarray(np.ascontiguousarray(a.transpose(0, 2, 3, 1)), device="cuda:0").transpose(
                (0, 3, 1, 2)
            )
            if form == "channels last"
            else cm.asarray(a, device="cuda:0")
            for a in arrays
        ]
        out = plan.bind(name, [a._layout for a in inputs])(*inputs)
        for actual, wanted in zip(out if isinstance(out, tuple) else (out,), expected, strict=True):
            assert_close(
                actual.to_numpy().astype(np.float64),
                np.asarray(wanted, np.float64),
                rtol=0,
                atol=tolerance,
                what=name,
            )


@pytest.mark.skipif(SIMULATOR, reason="the simulator knows one element an access alone")
def test_whose_channels_lie_last_is_said_by_the_gradient():
    """The images of one row and column that it belongs to lie in both orders."""
    from cudamath.kernels.pool import dispatch as pool_dispatch

    for order, channels in (((0, 1, 2, 3), 1), ((0, 3, 1, 2), 4)):
        shape = (2, 4, 2, 2) if channels == 1 else (2, 2, 2, 4)
        g = np.zeros(shape, "f4").transpose(order)
        with assume((9, 0)):
            plan = pool_dispatch.avg_pool2d_grad(
                layout_of(g),
                size=(1, 1),
                kernel=(2, 2),
                stride=(1, 1),
                padding=(1, 1),
                count_include_pad=True,
            )
        assert plan.steps[0].args[3:9] == (32 // channels, 1, 1, 2, 2, channels)


@pytest.mark.skipif(SIMULATOR, reason="the simulator knows one element an access alone")
def test_the_version_fits_the_layouts():
    from cudamath.kernels.pool import dispatch as pool_dispatch

    def kernels(x, kernel, stride, padding=(0, 0)):
        n, c, h, w = x.shape
        size = tuple(
            (v + 2 * e - k) // s + 1
            for v, k, s, e in zip((h, w), kernel, stride, padding, strict=True)
        )
        where = {"kernel": kernel, "stride": stride, "padding": padding, "count_include_pad": True}
        y = pool_dispatch.avg_pool2d(x, size=size, **where)
        dx = pool_dispatch.avg_pool2d_grad(y.outputs[0], size=(h, w), **where)
        assert dx.outputs[0] is x
        return y.steps[0].kernel.__name__, dx.steps[0].kernel.__name__

    straight, last = (
        Layout.new((2, 8, 16, 16), F32, 0),
        Layout.of((2, 8, 16, 16), (8192, 4, 512, 32), F32, 0),
    )
    assert kernels(straight, (2, 2), (2, 2)) == ("pool_windows", "pool_spread")
    assert kernels(straight, (3, 3), (2, 2), (1, 1)) == ("pool_rows", "pool_rows_grad")
    assert (
        kernels(straight, (3, 3), (2, 2))
        == kernels(last, (2, 2), (2, 2))
        == ("pool_windows", "pool_gather")
    )
    assert kernels(straight, (16, 16), (16, 16)) == ("avg_pool2d", "avg_pool2d_grad")
    gaps = Layout.of((2, 8, 16, 16), (16384, 2048, 128, 8), F32, 0)
    assert (
        pool_dispatch.max_pool2d_values(
            gaps, size=(8, 8), kernel=(2, 2), stride=(2, 2), padding=(0, 0), dilation=(1, 1)
        )
        .steps[0]
        .kernel.__name__
        == "max_pool2d"
    )


@pytest.mark.skipif(SIMULATOR, reason="the simulator knows one element an access alone")
@pytest.mark.parametrize("kernel", [(2, 2), (3, 3)])
@pytest.mark.parametrize("kind", [np.uint8, np.int32])
def test_positions_at_an_odd_address_are_not_read_by_wide_accesses(kernel, kind):
    """A view of positions may begin anywhere; NumPy's strides say where."""
    from cudamath.kernels.pool import dispatch as pool_dispatch

    pad = kernel[0] // 3
    where = {"kernel": kernel, "stride": (2, 2), "padding": (pad, pad), "dilation": (1, 1)}
    grad = Layout.new((2, 8, 16, 16), F16, 0)

    def chosen(begin):
        memory = np.zeros(begin + grad.size, kind)
        index = layout_of(memory)
        index = index.view(grad.shape, Layout.new(grad.shape, index.dtype, 0).strides, begin * 3)
        with assume((9, 0)):
            plan = pool_dispatch.max_pool2d_grad(grad, index, size=(32, 32), **where)
        return plan.steps[0].kernel.__name__

    assert chosen(0) != "max_pool2d_grad" and chosen(1) == "max_pool2d_grad"


@pytest.mark.simulator
@pytest.mark.parametrize("kind", ["max", "mean"])
@pytest.mark.parametrize(
    "kernel, stride, shape",
    [
        ((2, 2), (2, 2), (8, 16)),
        ((2, 2), (2, 3), (8, 23)),  # gaps between the windows of a row
        ((2, 1), (2, 2), (6, 16)),
        ((3, 2), (2, 2), (9, 16)),  # rows overlap
        ((2, 2), (3, 2), (8, 16)),
    ],
)
def test_neighbouring_windows_of_a_thread_in_the_simulator(
    kind, kernel, stride, shape, monkeypatch
):
    """Where windows tile the image, one thread owns several; where they do not, it must not take
    them for neighbours."""
    from simulated_gpu import give_row_accesses

    from cudamath.kernels.lib import vector_io
    from cudamath.kernels.lib import windows as kit
    from cudamath.kernels.pool import constant_windows
    from cudamath.kernels.pool import dispatch as pool_dispatch

    give_row_accesses(monkeypatch)
    monkeypatch.setattr(kit, "SIMULATOR", False)
    made = constant_windows.pool_windows, vector_io.reader, vector_io.reading, vector_io.writer
    for factory in made:
        factory.cache_clear()
    x = numbers((2, 3, *shape), F32)
    reference = max_reference if kind == "max" else mean_reference
    expected, _ = reference(x, kernel, stride)
    where = {"kernel": kernel, "stride": stride, "padding": (0, 0), "version": "constant_windows"}
    where["size"] = expected.shape[2:]
    with assume((9, 0)):
        if kind == "max":
            plan = pool_dispatch.max_pool2d_values(layout_of(x), dilation=(1, 1), **where)
        else:
            plan = pool_dispatch.avg_pool2d(layout_of(x), count_include_pad=True, **where)
    assert [step.kernel.__name__ for step in plan.steps] == ["pool_windows"]
    try:
        assert_close(simulate(plan, x), expected, rtol=1e-6, atol=1e-6)
    finally:
        for factory in made:
            factory.cache_clear()


@pytest.mark.compiles
@pytest.mark.skipif(SIMULATOR, reason="the simulator does not compile")
@pytest.mark.parametrize("form", ["fast", "channels last"])
def test_fast_kernels_compile_without_spills(form):
    case = KERNELS_GPU[-3] if form == "fast" else KERNELS_GPU[-1]
    with assume((9, 0)):
        planned = plans(*kernel_case(F16, *case, form))
    for name, (plan, arrays, _, _) in planned.items():
        if not name.startswith("max_pool2d_take"):
            for found in compile_plan(
                plan, [layout_of(a) for a in arrays], (7, 5) if "avg" in name else (9, 0)
            ):
                assert found.spills == 0, (name, found)


@pytest.mark.gpu
def test_large_images_on_the_gpu():
    x = numbers((16, 64, 56, 56), F32)
    for pool in (lambda x: cm.ml.max_pool2d(x, 3, 2, 1), lambda x: cm.ml.avg_pool2d(x, 3, 2, 1)):
        y, pull = cm.vjp(pool, cm.asarray(x, device="cuda:0"))
        expected, pull_expected = cm.vjp(pool, cm.asarray(x, device="cpu"))
        assert_close(y, expected.to_numpy(), rtol=1e-6, atol=1e-6)
        assert_close(pull(y)[0], pull_expected(expected)[0].to_numpy(), rtol=1e-6, atol=2e-6)
        assert pull(y)[0].tobytes() == pull(y)[0].tobytes()
