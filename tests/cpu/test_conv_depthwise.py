"""Depthwise convolution on the CPU: channels beside each other (cpu/conv_depthwise.py), by name and
through conv2d."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cudamath as cm
from cudamath.cpu import conv, conv_depthwise
from cudamath.cpu.lib.llvm_vectors import VECTOR
from cudamath.testing import assert_close
from tests.ml.test_conv import F32, F64, TOLERANCE, check, check_all, numbers, reference

LANES = VECTOR // 4


@pytest.fixture(autouse=True)
def on_the_cpu():
    with cm.device("cpu"):
        yield


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("channels", [LANES // 2, LANES - 1, LANES, LANES + 1, 3 * LANES + 5])
@pytest.mark.parametrize(
    "size, kernel, where",
    [
        ((7, 7), (3, 3), dict(padding=1)),
        ((14, 14), (3, 3), dict(stride=2, padding=1)),
        ((7, 7), (5, 5), dict(padding=2)),
        ((1, 1), (1, 1), dict(padding=1)),
        ((9, 40), (3, 2), dict(stride=(2, 3), padding=(0, 2), dilation=(2, 1))),
        ((50, 3), (7, 3), dict(padding=(5, 1), dilation=(1, 2))),
        ((90, 33), (3, 3), dict(padding=1)),
    ],
    ids=str,
)
def test_values_and_gradients(size, kernel, where, channels, dtype):
    x, w = numbers((2, channels, *size), dtype), numbers((channels, 1, *kernel), dtype, 1)
    assert conv_depthwise.pays(1, 1, channels, dtype.itemsize)
    check_all(x, w, numbers((channels,), dtype, 2), dtype, **where, groups=channels)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_geometry(data):
    draw = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    channels, kernel = draw(LANES // 4, 2 * LANES + 3), (draw(1, 4), draw(1, 4))
    stride, dilation, padding = (
        (draw(1, 3), draw(1, 3)),
        (draw(1, 3), draw(1, 3)),
        (draw(0, 4), draw(0, 4)),
    )
    least = [
        max(1, d * (k - 1) + 1 - 2 * p) for d, k, p in zip(dilation, kernel, padding, strict=True)
    ]
    x = (draw(1, 3), channels, *(n + draw(0, 20) for n in least))
    w = (channels, 1, *kernel)
    check_all(
        numbers(x),
        numbers(w, seed=1),
        numbers(w[:1], seed=2),
        F64,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=channels,
    )


def test_rows_in_blocks(monkeypatch):
    """Images whose lines do not fit the cache are cut into blocks of rows that overlap."""
    monkeypatch.setattr(conv, "CACHED", 1)
    x, w = numbers((1, LANES, 23, 6), F32), numbers((LANES, 1, 5, 3), F32, 1)
    for stride in (1, 2):
        check_all(x, w, numbers((LANES,), F32, 2), F32, stride=stride, padding=2, groups=LANES)


def test_weight_gradient_of_many_images_is_exact_and_repeats():
    x, grad = numbers((70, 2 * LANES, 7, 7), F32), numbers((70, 2 * LANES, 7, 7), F32, 3)
    where = dict(stride=(1, 1), padding=(1, 1, 1, 1), dilation=(1, 1), groups=2 * LANES)
    first = conv.conv2d_weight_grad(grad, x, kernel=(3, 3), **where)
    w = np.zeros((2 * LANES, 1, 3, 3))
    exact = reference(x, w, padding=1, groups=2 * LANES, grad=grad)[2]
    bound = reference(np.abs(x), w, padding=1, groups=2 * LANES, grad=np.abs(grad))[2]
    check(first, exact, bound, F32, "dw")
    assert TOLERANCE[F32] < 1e-5
    for _ in range(3):
        assert np.array_equal(conv.conv2d_weight_grad(grad, x, kernel=(3, 3), **where), first)


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("width", [7, 8, 2 * LANES + 1])
def test_what_is_not_finite_stays_in_its_window_and_channel(width, value):
    channels = LANES + 2
    x, w = numbers((1, channels, 5, width), F32), numbers((channels, 1, 3, 3), F32, 1)
    grad = numbers((1, channels, 5, width), F32, 3)
    x[0, LANES, 0, width - 1] = value  # a corner: 4 of 9 taps see it
    out, pull = cm.vjp(
        lambda x, w: cm.ml.conv2d(x, w, padding=1, groups=channels), cm.asarray(x), cm.asarray(w)
    )
    dx, dw = pull(cm.asarray(grad))
    with np.errstate(invalid="ignore"):
        y, _, expected, _ = reference(x, w, padding=1, groups=channels, grad=grad)
    # the reference's padding is zeros, of which 0 * inf makes NaN only where a product has both:
    # nowhere here
    assert np.array_equal(np.isfinite(np.asarray(out)), np.isfinite(y))
    assert np.isfinite(np.asarray(dx)).all()
    seen = np.isfinite(np.asarray(dw))
    assert seen[np.arange(channels) != LANES].all() and seen[LANES, 0].sum() == 5
    assert_close(np.asarray(dw)[seen], expected[seen], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", cm.bfloat16], ids=str)
def test_16_bit_numbers_go_through_float32(dtype):
    x, w = numbers((1, LANES, 7, 7), np.dtype(dtype)), numbers((LANES, 1, 3, 3), np.dtype(dtype), 1)
    y = cm.ml.conv2d(x, w, padding=1, groups=LANES)
    wide = cm.ml.conv2d(x.astype(F32), w.astype(F32), padding=1, groups=LANES)
    assert y.dtype == dtype and np.array_equal(np.asarray(y), np.asarray(wide).astype(dtype))
