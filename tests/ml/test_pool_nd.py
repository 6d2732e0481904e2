"""Pooling along one and three axes, and the options of all pools: against PyTorch and central
differences."""

import numpy as np
import pytest
from gradient_checks import DTYPES, TOLERANCE, check_gradient, check_second_order, numbers, wide
from hypothesis import assume, given
from hypothesis import strategies as st

import cudamath as cm
from cudamath.testing import assert_close

ml = cm.ml


def agree(ours, theirs, x, rtol=1e-12):
    """Values, positions if there are any, and gradients."""
    import torch

    there = torch.tensor(x, requires_grad=True)
    expected, found = theirs(there), ours(cm.asarray(x))
    if isinstance(expected, tuple):
        np.testing.assert_array_equal(found[1].to_numpy(), expected[1].numpy())
        assert found[1].dtype == np.int32
        expected, found = expected[0], found[0]
    assert_close(found, expected.detach().numpy(), rtol=rtol, atol=rtol)
    g = numbers(tuple(expected.shape), seed=1)
    first = lambda a: a[0] if isinstance(a, tuple) else a  # noqa: E731
    _, pull = cm.vjp(lambda a: first(ours(a)), cm.asarray(x))
    (slope,) = torch.autograd.grad(expected, there, torch.tensor(g))
    assert_close(pull(cm.asarray(g))[0], slope.numpy(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("divisor", [None, 4])
def test_means_of_narrow_numbers_are_rounded_once(device, dtype, divisor):
    """Of sums that float32 holds exactly, divided by powers of two."""
    rng = np.random.default_rng(0)
    for rank in (1, 2, 3):
        x = rng.integers(-2000, 2000, (2, 3, *[4, 6, 8][:rank])) / 64
        x = cm.asarray(x.astype("float32")).astype(dtype)
        y = getattr(ml, f"avg_pool{rank}d")(
            x, 2, **({} if divisor is None or rank == 1 else {"divisor_override": divisor})
        )
        parts = x.to_numpy().astype(np.float64)
        for axis in range(2, 2 + rank):
            shape = (*parts.shape[:axis], parts.shape[axis] // 2, 2, *parts.shape[axis + 1 :])
            parts = parts.reshape(shape).sum(axis + 1)
        expected = parts / (divisor if divisor and rank > 1 else 2**rank)
        np.testing.assert_array_equal(
            y.to_numpy().astype("float64"), expected.astype(y.dtype).astype("float64")
        )


@given(data=st.data())
def test_agrees_with_torch(data):
    """Any geometry that both take, along one, two or three axes; many equal numbers, for their
    order to show."""
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    rank = data.draw(st.integers(1, 3))
    draw = lambda low, high: data.draw(st.tuples(*[st.integers(low, high)] * rank))  # noqa: E731
    kernel, stride, dilation, sizes = draw(1, 3), draw(1, 3), draw(1, 2), draw(3, 7)
    padding = tuple(data.draw(st.integers(0, k // 2)) for k in kernel)
    ceil_mode = data.draw(st.booleans())
    assume(
        all(
            n + 2 * p >= d * (k - 1) + 1
            for n, p, d, k in zip(sizes, padding, dilation, kernel, strict=True)
        )
    )
    x = (
        np.random.default_rng(data.draw(st.integers(0, 99)))
        .integers(-3, 4, (2, 2, *sizes))
        .astype(float)
    )
    ours, theirs = getattr(ml, f"max_pool{rank}d"), getattr(f, f"max_pool{rank}d")
    where = (kernel, stride, padding, dilation, ceil_mode)
    agree(
        lambda a: ours(a, *where, return_indices=True),
        lambda a: theirs(a, *where, return_indices=True),
        x,
    )
    agree(lambda a: ours(a, *where), lambda a: theirs(a, *where), x)
    options = {"ceil_mode": ceil_mode, "count_include_pad": data.draw(st.booleans())}
    if rank > 1 and data.draw(st.booleans()):
        options["divisor_override"] = data.draw(st.integers(1, 9))
    ours_mean, theirs_mean = getattr(ml, f"avg_pool{rank}d"), getattr(f, f"avg_pool{rank}d")
    agree(
        lambda a: ours_mean(a, kernel, stride, padding, **options),
        lambda a: theirs_mean(a, kernel, stride, padding, **options),
        x,
    )


@given(data=st.data())
def test_adaptive_agrees_with_torch(data):
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    rank = data.draw(st.integers(1, 3))
    sizes = data.draw(st.tuples(*[st.integers(1, 7)] * rank))
    new = data.draw(st.tuples(*[st.integers(1, 8)] * rank))
    new = new[0] if rank == 1 else new
    x = (
        np.random.default_rng(data.draw(st.integers(0, 99)))
        .integers(-3, 4, (2, 2, *sizes))
        .astype(float)
    )
    agree(
        lambda a: getattr(ml, f"adaptive_avg_pool{rank}d")(a, new),
        lambda a: getattr(f, f"adaptive_avg_pool{rank}d")(a, new),
        x,
    )
    for more in ({}, {"return_indices": True}):
        agree(
            lambda a: getattr(ml, f"adaptive_max_pool{rank}d")(a, new, **more),  # noqa: B023
            lambda a: getattr(f, f"adaptive_max_pool{rank}d")(a, new, **more),  # noqa: B023
            x,
        )  # noqa: B023


def windows(x, kernel, stride):
    """(N, C, ..., windows of the last axes)."""
    from numpy.lib.stride_tricks import sliding_window_view

    axes = tuple(range(2, x.ndim))
    seen = sliding_window_view(x, kernel, axes)
    return seen[(slice(None), slice(None), *[slice(None, None, s) for s in stride])]


CASES = [
    ("1d", (2, 3, 9), (3,), (2,)),
    ("3d", (1, 2, 5, 4, 6), (2, 3, 2), (1, 1, 2)),
    ("3d", (2, 2, 4, 4, 4), (2, 2, 2), (2, 2, 2)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank, shape, kernel, stride", CASES)
def test_values(device, rank, shape, kernel, stride, dtype):
    x = numbers(shape, dtype)
    axes = tuple(range(-len(kernel), 0))
    expected = windows(wide(x), kernel, stride)
    y = getattr(ml, f"max_pool{rank}")(cm.asarray(x), kernel, stride)
    assert y.dtype == x.dtype
    assert_close(y, expected.max(axes), rtol=0)
    y = getattr(ml, f"avg_pool{rank}")(cm.asarray(x), kernel, stride)
    assert y.dtype == x.dtype
    assert_close(y, expected.mean(axes), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    if rank == "3d":
        y = ml.avg_pool3d(cm.asarray(x), kernel, stride, divisor_override=5)
        assert_close(y, expected.sum(axes) / 5, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * 2)


@pytest.mark.parametrize("rank, shape, kernel, stride", CASES)
def test_gradients(device, rank, shape, kernel, stride):
    x, axes = numbers(shape), tuple(range(-len(kernel), 0))
    for name, reference in (("max", np.max), ("avg", np.mean)):
        fn = lambda a, name=name: getattr(ml, f"{name}_pool{rank}")(a, kernel, stride)  # noqa: E731
        check_gradient(
            fn, lambda a, reference=reference: reference(windows(a, kernel, stride), axes), x
        )
        check_second_order(fn, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [False, True])
def test_divisor(device, last, dtype):
    """A given divisor, in every kernel: windows that tile, that overlap, and those at the edge; C
    order and channels last."""
    base = numbers((2, 8, 8, 8), dtype)
    x = (
        cm.moveaxis(cm.asarray(np.ascontiguousarray(np.moveaxis(base, 1, -1))), -1, 1)
        if last
        else cm.asarray(base)
    )
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 1, 0), (9, 9, 4)):
        y, pull = cm.vjp(lambda a: ml.avg_pool2d(a, kernel, stride, padding, divisor_override=3), x)  # noqa: B023
        seen = windows(
            np.pad(wide(base), ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2)),
            (kernel,) * 2,
            (stride,) * 2,
        )
        assert_close(
            y, seen.sum((-2, -1)) / 3, rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 16
        )
        g = np.ones(y.shape, base.dtype)
        covered = np.zeros((8 + 2 * padding,) * 2)
        for p in range(y.shape[2]):
            for q in range(y.shape[3]):
                covered[p * stride : p * stride + kernel, q * stride : q * stride + kernel] += 1 / 3
        covered = covered[padding : padding + 8, padding : padding + 8]
        assert_close(
            pull(cm.asarray(g))[0], np.broadcast_to(covered, base.shape), rtol=TOLERANCE[dtype] * 2
        )


def test_first_of_equal_maxima(device):
    """The gradient goes to the first place in the order of memory, where bins differ in size too,
    and to one place only."""
    x = np.zeros((1, 1, 5, 5))
    for fn in (lambda a: ml.adaptive_max_pool2d(a, 2), lambda a: ml.max_pool2d(a, 3, 2)):
        gradient = cm.grad(lambda a: fn(a).sum())(cm.asarray(x)).to_numpy()[0, 0]  # noqa: B023
        assert np.argwhere(gradient).tolist() == [[0, 0], [0, 2], [2, 0], [2, 2]]


def test_errors(device):
    x1, x3 = cm.zeros((1, 2, 6)), cm.zeros((1, 2, 4, 4, 4))
    for call, error, message in [
        (lambda: ml.max_pool1d(x3, 2), ValueError, r"max_pool1d: .*\(1, 2, 4, 4, 4\)"),
        (lambda: ml.avg_pool3d(x1, 2), ValueError, r"avg_pool3d: .*\(1, 2, 6\)"),
        (lambda: ml.max_pool1d(x1, 7), ValueError, r"max_pool1d: a window of 7 columns"),
        (lambda: ml.max_pool3d(x3, (5, 1, 1)), ValueError, r"max_pool3d: a window of 5 planes"),
        (lambda: ml.max_pool3d(x3, 2, padding=2), ValueError, "max_pool3d: padding"),
        (
            lambda: ml.avg_pool2d(x3[:, 0], 2, divisor_override=0),
            ValueError,
            "avg_pool2d: .*divisor_override.* got 0",
        ),
        (
            lambda: ml.avg_pool3d(x3, 2, divisor_override=1.5),
            ValueError,
            "avg_pool3d: .*divisor_override.* got 1.5",
        ),
        (
            lambda: ml.adaptive_avg_pool3d(x3, (1, 2)),
            ValueError,
            "adaptive_avg_pool3d: .*output_size",
        ),
        (lambda: ml.adaptive_max_pool1d(x1, 0), ValueError, "adaptive_max_pool1d: .*output_size"),
        (lambda: ml.max_pool1d(cm.zeros((1, 2, 6), "int64"), 2), TypeError, "max_pool1d: .*int64"),
    ]:
        with pytest.raises(error, match=message):
            call()
