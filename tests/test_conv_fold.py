"""Convolutions over folded images: every two by two pixels one pixel of four times the channels (kernels/conv_fold.py)."""

import itertools

import numpy as np
import pytest
from differences import MACHINES, run_version
from test_conv import BF16, F16, check, geometry, numbers, reference

import cudamath as cm

FOLDED = [((2, 3, 16, 16), (8, 3, 7, 7), 3), ((1, 3, 15, 18), (8, 3, 7, 7), 3), ((2, 1, 9, 10), (8, 1, 3, 3), 1),
          ((1, 4, 8, 11), (16, 4, 2, 5), 0), ((2, 3, 13, 12), (8, 3, 3, 4), (2, 1)), ((1, 2, 7, 7), (8, 2, 5, 5), 4)]


@pytest.mark.parametrize("x_shape, w_shape, padding", FOLDED)
def test_folded_convolution_is_the_same(device, x_shape, w_shape, padding):
    from cudamath.ml import conv_fold

    x, w = numbers(x_shape), numbers(w_shape, seed=1)
    (_, margins, _, size) = geometry(x_shape, w_shape, 2, padding, 1)
    g = numbers((x_shape[0], w_shape[0], *size), seed=2)
    expected, dx, dw, _ = reference(x, w, stride=2, padding=padding, grad=g)

    def convolve(x, w):
        images, filters, around = conv_fold.folded(x, w, margins)
        assert images.shape[1] == filters.shape[1] == 16
        around = ((0, 0), (0, 0), around[:2], around[2:])
        return cm.ml.conv2d(cm.pad(images, around), filters)

    y, pull = cm.vjp(convolve, cm.asarray(x), cm.asarray(w))
    for found, wanted in zip((y, *pull(cm.asarray(g))), (expected, dx, dw), strict=True):
        np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-11, atol=1e-11)


def test_folding_has_gradients_of_any_order(device):
    from cudamath.ml import conv_fold

    x = cm.asarray(numbers((2, 3, 5, 6)))
    y, pull = cm.vjp(lambda x: conv_fold._conv_fold(x, channels=16) ** 3, x)
    np.testing.assert_allclose(pull(cm.ones_like(y))[0].to_numpy(), 3 * x.to_numpy() ** 2)
    second = cm.grad(lambda x: cm.grad(lambda x: (conv_fold._conv_fold(x, channels=16) ** 3).sum())(x).sum())(x)
    np.testing.assert_allclose(second.to_numpy(), 6 * x.to_numpy())


def test_folding_that_would_see_too_much():
    from cudamath.ml import conv_fold

    x, w = cm.asarray(numbers((1, 3, 11, 11))), cm.asarray(numbers((8, 3, 2, 2)))
    assert conv_fold.folded(x, w, (0, 0, 0, 0)) is None  # five outputs, and six folded rows


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("x_shape, w_shape, padding", [*FOLDED, ((8, 3, 224, 224), (64, 3, 7, 7), 3)])
def test_few_channels_on_tensor_cores(x_shape, w_shape, padding, dtype):
    x, w = numbers(x_shape, dtype), numbers(w_shape, dtype, 1)
    size = geometry(x_shape, w_shape, 2, padding, 1)[3]
    b, g = numbers(w_shape[:1], dtype, 3), numbers((x_shape[0], w_shape[0], *size), dtype, 2)
    last = [np.ascontiguousarray(np.moveaxis(a, 1, -1)) for a in (x, w)]
    y, dx, dw, db = reference(x, w, b, stride=2, padding=padding, grad=g)
    bounds = reference(abs(x), abs(w), abs(b), stride=2, padding=padding, grad=abs(g))
    with cm.device("cuda"):
        for a, f in ((cm.asarray(x), cm.asarray(w)), tuple(cm.moveaxis(cm.asarray(v), -1, 1) for v in last)):
            found, pull = cm.vjp(lambda x, w, b: cm.ml.conv2d(x, w, b, stride=2, padding=padding), a, f, cm.asarray(b))
            for one, wanted, bound, what in zip((found, *pull(cm.asarray(g))), (y, dx, dw, db), bounds, ("y", "dx", "dw", "db"),
                                                strict=True):
                check(one, wanted, bound, dtype, what)


@pytest.mark.parametrize("shape", [(2, 3, 6, 4), (1, 4, 5, 3), (2, 1, 1, 7)])
@pytest.mark.parametrize("machine", MACHINES)
def test_fold_kernel(machine, shape):
    from cudamath.kernels import conv_fold

    for dtype in (F16, BF16):
        x = numbers(shape, dtype)
        y = run_version(machine, lambda x: conv_fold.conv_fold(x, channels=16), x)
        tall, wide = (shape[2] + 1) // 2, (shape[3] + 1) // 2
        padded = np.pad(x, ((0, 0), (0, 0), (0, 2 * tall - shape[2]), (0, 2 * wide - shape[3])))
        assert y.shape == (shape[0], 16, tall, wide)
        for a, b in itertools.product((0, 1), (0, 1)):
            assert (np.asarray(y)[:, (2 * a + b) * shape[1]:][:, :shape[1]] == padded[:, :, a::2, b::2]).all()
        assert not np.asarray(y)[:, 4 * shape[1]:].astype(bool).any()
        back = run_version(machine, lambda y: conv_fold.conv_unfold(y, shape=shape), np.ascontiguousarray(y))
        assert (np.asarray(back) == x).all()
