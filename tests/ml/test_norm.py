"""Batch, layer and RMS norm: values, statistics, large means, gradients of both orders, errors,
kernel versions."""

import weakref

import numpy as np
import pytest
from gradient_checks import (
    DTYPES,
    MACHINES,
    TOLERANCE,
    check_gradient,
    check_second_order,
    numbers,
    run_version,
    wide,
)

import cudamath as cm
from cudamath.testing import assert_close

# -------------------- references


def channels(v, x):
    return v.reshape((1, -1) + (1,) * (x.ndim - 2))


def others(x):
    return (0, *range(2, x.ndim))


def batch_reference(x, w, b, eps=1e-5):
    x, w, b = wide(x, w, b)
    d = x - channels(x.mean(others(x)), x)
    return d / np.sqrt((d * d).mean(others(x), keepdims=True) + eps) * channels(w, x) + channels(
        b, x
    )


def row_reference(x, w, b=None, eps=1e-5, axes=(-1,)):
    x, w = wide(x, w)
    d = x if b is None else x - x.mean(axes, keepdims=True)
    y = d / np.sqrt((d * d).mean(axes, keepdims=True) + eps) * w
    return y if b is None else y + wide(b)


def row_gradients(g, x, w, center, eps=1e-5):
    """dx, dweight, dbias for rows."""
    g, x, w = wide(g, x, w)
    d = x - x.mean(1, keepdims=True) if center else x
    rstd = 1 / np.sqrt((d * d).mean(1, keepdims=True) + eps)
    xhat, gw = d * rstd, g * w
    dx = (
        gw
        - xhat * (gw * xhat).mean(1, keepdims=True)
        - (gw.mean(1, keepdims=True) if center else 0)
    )
    return rstd * dx, (g * xhat).sum(0), g.sum(0)


def batch_gradients(g, x, w, eps=1e-5):
    """dx, dweight, dbias for batch norm in training."""
    g, x, w = wide(g, x, w)
    d = x - x.mean(others(x), keepdims=True)
    rstd = 1 / np.sqrt((d * d).mean(others(x), keepdims=True) + eps)
    xhat = d * rstd
    dx = g - g.mean(others(x), keepdims=True) - xhat * (g * xhat).mean(others(x), keepdims=True)
    return dx * rstd * channels(w, x), (g * xhat).sum(others(x)), g.sum(others(x))


def channels_last(x):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


# -------------------- batch norm

SHAPES = [
    (8, 3),
    (300, 65),
    (4, 3, 5),
    (2, 5, 4, 3),
    (16, 32, 8, 8),
    (3, 2, 60, 61),
    (2, 3, 2, 2, 2),
    (1, 2, 1, 3),
]


@pytest.mark.parametrize(
    "dtype, param", [(d, d) for d in DTYPES] + [("bfloat16", "float32"), ("float16", "float32")]
)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_batch_norm_training(device, shape, dtype, param):
    x, c = numbers(shape, dtype, scale=2, shift=1), shape[1]
    w, b, mean = (numbers((c,), param, seed) for seed in (1, 2, 3))
    var = np.abs(numbers((c,), param, 4)) + w.dtype.type(1)
    for last in (False, True) if len(shape) > 2 else (False,):
        a = cm.asarray(x)
        if last:
            a = cm.moveaxis(cm.asarray(channels_last(x)), -1, 1)
        y, new_mean, new_var = cm.ml.batch_norm(a, mean, var, w, b, training=True, momentum=0.3)
        assert y.dtype == x.dtype and new_mean.dtype == mean.dtype == new_var.dtype
        assert_close(
            y, batch_reference(x, w, b), rtol=TOLERANCE[dtype] * 3, atol=TOLERANCE[dtype] * 5
        )
        n, tolerance = x.size // c, TOLERANCE[param] * 2
        assert_close(
            new_mean,
            wide(mean) * 0.7 + wide(x).mean(others(x)) * 0.3,
            rtol=tolerance,
            atol=tolerance,
        )
        assert_close(
            new_var, wide(var) * 0.7 + wide(x).var(others(x)) * n / (n - 1) * 0.3, rtol=tolerance
        )


@pytest.mark.parametrize("dtype, param", [(d, d) for d in DTYPES] + [("bfloat16", "float32")])
@pytest.mark.parametrize("shape", SHAPES + [(0, 3, 2), (2, 3, 0)], ids=str)
def test_batch_norm_inference(device, shape, dtype, param):
    x, c = numbers(shape, dtype, scale=2), shape[1]
    w, b, mean = (numbers((c,), param, seed) for seed in (1, 2, 3))
    var = np.abs(numbers((c,), param, 4)) + w.dtype.type(1)
    wx, ww, wb, wmean, wvar = wide(x, w, b, mean, var)
    expected = (wx - channels(wmean, x)) / np.sqrt(channels(wvar, x) + 1e-3) * channels(
        ww, x
    ) + channels(wb, x)
    for a in (cm.asarray(x), cm.moveaxis(cm.asarray(channels_last(x)), -1, 1)):
        y = cm.ml.batch_norm(a, mean, var, w, b, eps=1e-3)
        assert y.dtype == x.dtype and y.shape == shape
        assert_close(y, expected, rtol=TOLERANCE[dtype] * 3, atol=TOLERANCE[dtype] * 5)


@pytest.mark.parametrize("given", [(), ("weight",), ("bias",)], ids=str)
@pytest.mark.parametrize(
    "dtype, param", [("float32", "float32"), ("bfloat16", "bfloat16"), ("bfloat16", "float32")]
)
def test_batch_norm_inference_without_weight_or_bias(device, dtype, param, given):
    x = numbers((6, 5, 4, 4), dtype)
    mean, var = numbers((5,), param, 3), np.abs(numbers((5,), param, 4)) + 1
    values = {name: numbers((5,), param, seed) for seed, name in enumerate(given)}
    wmean, wvar = wide(mean, var)
    plain = (wide(x) - channels(wmean, x)) / np.sqrt(channels(wvar, x) + 1e-5)
    expected = (
        plain * channels(wide(values["weight"]), x)
        if "weight" in given
        else (plain + channels(wide(values["bias"]), x) if given else plain)
    )
    for residual in (None, x):
        y = cm.ml.batch_norm(x, mean, var.astype(param), **values, residual=residual)
        assert_close(
            y,
            expected + (0 if residual is None else wide(x)),
            rtol=TOLERANCE[dtype] * 3,
            atol=TOLERANCE[dtype] * 5,
        )
    if dtype == "float32":
        x64, mean, var, *more = (
            a.astype("f8") for a in (x[:2, :, :2, 0], mean, var, *values.values())
        )
        names = dict.fromkeys(values)
        check_gradient(
            lambda x, m, v, *more: (
                cm.ml.batch_norm(x, m, v, **dict(zip(names, more, strict=True))) ** 2
            ),
            lambda x, m, v, *more: (
                inference_reference(x, m, v, **dict(zip(names, more, strict=True))) ** 2
            ),
            x64,
            mean,
            var,
            *more,
        )


def inference_reference(x, mean, var, weight=1.0, bias=0.0):
    weight, bias = (np.broadcast_to(v, mean.shape) for v in (weight, bias))
    return (x - channels(mean, x)) / np.sqrt(channels(var, x) + 1e-5) * channels(
        weight, x
    ) + channels(bias, x)


@pytest.mark.parametrize("shape", [(64, 3, 40, 40), (5000, 4)])
def test_batch_norm_keeps_digits_under_a_large_mean(device, shape):
    x = numbers(shape, "float32", shift=3e3)
    y, _, var = cm.ml.batch_norm(cm.asarray(x), training=True)
    assert_close(var, wide(x).var(others(x), ddof=1), rtol=2e-6)
    assert_close(y, batch_reference(x, np.ones(shape[1]), np.zeros(shape[1])), rtol=1e-4, atol=3e-4)


def test_batch_norm_without_optional_arguments(device):
    x = numbers((6, 3, 4), "float32")
    y, mean, var = cm.ml.batch_norm(x, training=True)
    assert_close(mean, x.mean((0, 2)), rtol=1e-6, atol=1e-7)
    assert_close(var, x.var((0, 2), ddof=1), rtol=1e-6)
    assert_close(y, batch_reference(x, np.ones(3), np.zeros(3)), rtol=1e-5, atol=1e-6)
    w = numbers((3,), "float32", 1)
    assert_close(
        cm.ml.batch_norm(x, weight=w, training=True)[0],
        batch_reference(x, w, np.zeros(3)),
        rtol=1e-5,
        atol=1e-6,
    )


def test_new_statistics_record_no_gradient(device):
    x, w = numbers((6, 3)), numbers((3,), seed=1)

    def loss(w, mean, var):
        y, mean, var = cm.ml.batch_norm(x, mean, var, w, training=True)
        return (y * y * y).sum() + mean.sum() + var.sum(), (mean, var)

    first, (mean, var) = cm.grad(loss, has_aux=True)(w, np.zeros(3), np.ones(3))
    assert mean._node is None and var._node is None
    check_gradient(
        lambda w: (cm.ml.batch_norm(x, weight=w, training=True)[0]) ** 3,
        lambda w: batch_reference(x, w, np.zeros(3)) ** 3,
        w,
    )


@pytest.mark.parametrize("shape", [(5, 3), (3, 2, 4), (2, 3, 2, 2)])
def test_batch_norm_gradients(device, shape):
    c = shape[1]
    x, w, b, mean = numbers(shape), *(numbers((c,), seed=seed) for seed in (1, 2, 3))
    var = np.abs(numbers((c,), seed=4)) + 0.5

    def train(x, w, b):
        return cm.ml.batch_norm(x, weight=w, bias=b, training=True)[0]

    check_gradient(train, batch_reference, x, w, b)
    check_second_order(train, x, w, b)

    def last(x, w, b):
        return train(cm.moveaxis(cm.copy(cm.moveaxis(x, 1, -1)), -1, 1), w, b)

    check_gradient(last, batch_reference, x, w, b)

    def inference(x, mean, var, w, b):
        return cm.ml.batch_norm(x, mean, var, w, b)

    def expected(x, mean, var, w, b):
        scale = channels(w / np.sqrt(var + 1e-5), x)
        return (x - channels(mean, x)) * scale + channels(b, x)

    check_gradient(inference, expected, x, mean, var, w, b)
    check_second_order(inference, x, mean, var, w, b)


def laid(x, last):
    """An array in C order, or with the channels last in memory."""
    return cm.moveaxis(cm.asarray(channels_last(x)), -1, 1) if last else cm.asarray(x)


@pytest.mark.parametrize(
    "dtype, param", [("float64", "float64"), ("float32", "float32"), ("bfloat16", "float32")]
)
@pytest.mark.parametrize("shape", [(40, 16), (3, 5, 4), (16, 32, 8, 8), (3, 2, 60, 61)], ids=str)
@pytest.mark.parametrize("last", [False, True])
def test_batch_norm_with_residual_and_relu(device, shape, dtype, param, last):
    x, r, c = numbers(shape, dtype, scale=2), numbers(shape, dtype, 5), shape[1]
    w, b, mean = (numbers((c,), param, seed) for seed in (1, 2, 3))
    var = np.abs(numbers((c,), param, 4)) + w.dtype.type(1)
    loose = dict(rtol=TOLERANCE[dtype] * 3, atol=TOLERANCE[dtype] * 6)
    for activation in (None, "relu"):
        for residual in (None, laid(r, last), laid(r, not last)):
            z = batch_reference(x, w, b) + (0 if residual is None else wide(r))
            y, *_ = cm.ml.batch_norm(
                laid(x, last),
                mean,
                var,
                w,
                b,
                training=True,
                activation=activation,
                residual=residual,
            )
            assert_close(y, z if activation is None else np.maximum(z, 0), **loose)
            wx, ww, wb, wmean, wvar = wide(x, w, b, mean, var)
            z = (wx - channels(wmean, x)) / np.sqrt(channels(wvar, x) + 1e-5) * channels(
                ww, x
            ) + channels(wb, x)
            z = z + (0 if residual is None else wide(r))
            y = cm.ml.batch_norm(
                laid(x, last), mean, var, w, b, activation=activation, residual=residual
            )
            assert y.dtype == x.dtype
            assert_close(y, z if activation is None else np.maximum(z, 0), **loose)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("activation", [None, "relu"])
def test_batch_norm_gradients_with_residual_and_relu(device, activation, last):
    shape = (3, 4, 2, 2)
    x, r, w, b, mean = (
        numbers(shape),
        numbers(shape, seed=5),
        *(numbers((4,), seed=seed) for seed in (1, 2, 3)),
    )
    var = np.abs(numbers((4,), seed=4)) + 0.5

    def relu(z):
        return z if activation is None else np.maximum(z, 0)

    def train(x, w, b, r=None):
        return cm.ml.batch_norm(
            laid_out(x, last), weight=w, bias=b, training=True, activation=activation, residual=r
        )[0]

    for more in ([], [r]):
        check_gradient(
            train, lambda x, w, b, r=0: relu(batch_reference(x, w, b) + r), x, w, b, *more
        )
        check_second_order(train, x, w, b, *more)

    def inference(x, mean, var, w, b, r=None):
        return cm.ml.batch_norm(
            laid_out(x, last), mean, var, w, b, activation=activation, residual=r
        )

    def expected(x, mean, var, w, b, r=0):
        return relu(
            (x - channels(mean, x)) * channels(w / np.sqrt(var + 1e-5), x) + channels(b, x) + r
        )

    for more in ([], [r]):
        check_gradient(inference, expected, x, mean, var, w, b, *more)
        check_second_order(inference, x, mean, var, w, b, *more)


@pytest.mark.parametrize("last", [False, True])
def test_batch_norm_used_twice(device, last):
    """Two users give two gradients, which the kernel adds; a third, and a plain batch norm, as
    ever."""
    shape = (3, 8, 2, 2)
    x, r, w, b = (
        numbers(shape),
        numbers(shape, seed=5),
        numbers((8,), seed=1),
        numbers((8,), seed=2),
    )
    for users in (2, 3):
        for more, activation in (([r], "relu"), ([], "relu"), ([r], None)):

            def ours(x, w, b, r=None, activation=activation, users=users):
                y = cm.ml.batch_norm(
                    laid_out(x, last),
                    weight=w,
                    bias=b,
                    training=True,
                    activation=activation,
                    residual=r,
                )[0]
                return [y * y, y * 3, cm.exp(y * 0.1)][:users]

            def reference(x, w, b, r=0, activation=activation, users=users):
                y = batch_reference(x, w, b) + r
                y = y if activation is None else np.maximum(y, 0)
                return sum([y * y, y * 3, np.exp(y * 0.1)][:users])

            def total(*args, ours=ours):
                first, *rest = ours(*args)
                for each in rest:
                    first = first + each
                return first

            check_gradient(total, reference, x, w, b, *more)
            check_second_order(total, x, w, b, *more)


def laid_out(x, last):
    return cm.moveaxis(cm.copy(cm.moveaxis(x, 1, -1)), -1, 1) if last else x


@pytest.mark.parametrize(
    "activation, residual, kept",
    [(None, False, False), ("relu", False, False), (None, True, False), ("relu", True, True)],
)
def test_batch_norm_keeps_its_result_only_where_the_gradient_reads_it(activation, residual, kept):
    x, seen = numbers((40, 8)), []

    def f(x):
        more = {"residual": cm.asarray(numbers((40, 8), seed=1))} if residual else {}
        y = cm.ml.batch_norm(x, training=True, activation=activation, **more)[0]
        seen.append(weakref.ref(y._data))
        return y + 1.0

    with cm.device("cpu"):
        _, pull = cm.vjp(f, cm.asarray(x))
        assert (seen[0]() is not None) == kept
        pull(cm.ones((40, 8)))


def test_batch_norm_relu_keeps_nan(device):
    x = numbers((6, 3), "float32")
    x[2, 1] = np.nan
    y = cm.ml.batch_norm(x, training=True, activation="relu")[0].to_numpy()
    assert np.isnan(y[:, 1]).all() and not np.isnan(y[:, [0, 2]]).any()


@pytest.mark.parametrize("shape", [(64, 32, 28, 28), (512, 100)])
def test_batch_norm_gradient_in_float32(device, shape):
    x, g, w = (
        numbers(shape, "float32", shift=1),
        numbers(shape, "float32", 1),
        numbers(shape[1:2], "float32", 2),
    )
    _, pull = cm.vjp(
        lambda x, w, b: cm.ml.batch_norm(x, weight=w, bias=b, training=True)[0],
        cm.asarray(x),
        cm.asarray(w),
        cm.zeros(shape[1], "float32"),
    )
    scale = np.sqrt(x.size / shape[1])
    for found, expected, size in zip(
        pull(cm.asarray(g)), batch_gradients(g, x, w), (1, scale, scale), strict=True
    ):
        assert_close(found, expected, rtol=1e-5, atol=3e-6 * size)


def test_batch_norm_errors(device):
    x, ok = cm.zeros((4, 3)), cm.ones(3)
    for call, error, message in [
        (lambda: cm.ml.batch_norm(cm.zeros(3), ok, ok), ValueError, r"batch_norm: .*\(3,\)"),
        (lambda: cm.ml.batch_norm(x), ValueError, "batch_norm: wants running_mean"),
        (
            lambda: cm.ml.batch_norm(x, ok, training=True),
            ValueError,
            "batch_norm: wants running_mean .* both or neither",
        ),
        (
            lambda: cm.ml.batch_norm(x, None, ok, training=True),
            ValueError,
            "batch_norm: wants running_mean",
        ),
        (
            lambda: cm.ml.batch_norm(x, ok, cm.ones(4)),
            ValueError,
            r"batch_norm: .*running_var of shape \(3,\), got \(4,\)",
        ),
        (
            lambda: cm.ml.batch_norm(cm.zeros((1, 3)), training=True),
            ValueError,
            "batch_norm: training wants at least two",
        ),
        (
            lambda: cm.ml.batch_norm(cm.zeros((0, 3)), training=True),
            ValueError,
            "batch_norm: training wants at least two",
        ),
        (
            lambda: cm.ml.batch_norm(x, ok, ok.astype("float32")),
            TypeError,
            "batch_norm: .*float64.*float32",
        ),
        (
            lambda: cm.ml.batch_norm(cm.zeros((4, 3), "int64"), ok, ok),
            TypeError,
            "batch_norm: .*int64",
        ),
        (
            lambda: cm.ml.batch_norm(x, ok, ok, activation="gelu"),
            ValueError,
            "batch_norm: wants activation None or 'relu'",
        ),
        (
            lambda: cm.ml.batch_norm(x, ok, ok, residual=cm.zeros((4, 1))),
            ValueError,
            r"batch_norm: wants residual of x's shape \(4, 3\), got \(4, 1\)",
        ),
        (
            lambda: cm.ml.batch_norm(x, ok, ok, residual=cm.zeros((4, 3), "float32")),
            TypeError,
            "batch_norm: wants residual of x's dtype float64, got float32",
        ),
    ]:
        with pytest.raises(error, match=message):
            call()


# -------------------- layer and RMS norm

ROWS = [
    ((4, 10), 1),
    ((3, 1), 1),
    ((2, 3, 5), 1),
    ((2, 3, 5), 2),
    ((7,), 1),
    ((5, 768), 1),
    ((2, 40000), 1),
    ((0, 6), 1),
    ((300, 33), 1),
]


@pytest.mark.parametrize("dtype, param", [(d, d) for d in DTYPES] + [("bfloat16", "float32")])
@pytest.mark.parametrize("shape, trailing", ROWS)
def test_row_norms(device, shape, trailing, dtype, param):
    x, normalized = numbers(shape, dtype, scale=2, shift=3), shape[-trailing:]
    w, b = numbers(normalized, param, 1), numbers(normalized, param, 2)
    axes = tuple(range(-trailing, 0))
    y = cm.ml.layer_norm(cm.asarray(x), normalized, w, b)
    assert y.dtype == x.dtype and y.shape == shape
    assert_close(
        y, row_reference(x, w, b, axes=axes), rtol=TOLERANCE[dtype] * 3, atol=TOLERANCE[dtype] * 5
    )
    y = cm.ml.rms_norm(cm.asarray(x), normalized, w, eps=1e-5)
    assert y.dtype == x.dtype and y.shape == shape
    assert_close(
        y, row_reference(x, w, axes=axes), rtol=TOLERANCE[dtype] * 3, atol=TOLERANCE[dtype]
    )


def test_row_norm_defaults_and_strides(device):
    x = numbers((6, 4))
    assert_close(
        cm.ml.layer_norm(cm.asarray(x).T, 6),
        row_reference(x.T, np.ones(6), np.zeros(6)),
        rtol=1e-12,
    )
    assert_close(
        cm.ml.rms_norm(cm.asarray(x).T, (6,)),
        row_reference(x.T, np.ones(6), eps=2**-52),
        rtol=1e-12,
    )
    assert_close(
        cm.ml.layer_norm(cm.asarray(x), 4, bias=np.ones(4)),
        row_reference(x, np.ones(4), np.ones(4)),
        rtol=1e-12,
    )
    f = numbers((3, 5), "float32", shift=1e3)  # a large mean
    assert_close(
        cm.ml.layer_norm(cm.asarray(f), 5),
        row_reference(f, np.ones(5), np.zeros(5)),
        rtol=1e-4,
        atol=2e-4,
    )
    assert np.isnan(cm.ml.layer_norm(np.array([1.0, np.nan, 2.0]), 3).to_numpy()).all()


@pytest.mark.parametrize("shape, trailing", [((4, 5), 1), ((2, 3, 4), 2), ((1, 6), 1)])
def test_row_norm_gradients(device, shape, trailing):
    x, normalized, axes = numbers(shape), shape[-trailing:], tuple(range(-trailing, 0))
    w, b = numbers(normalized, seed=1), numbers(normalized, seed=2)
    layer = lambda x, w, b: cm.ml.layer_norm(x, normalized, w, b)  # noqa: E731
    check_gradient(layer, lambda x, w, b: row_reference(x, w, b, axes=axes), x, w, b)
    check_second_order(layer, x, w, b)
    rms = lambda x, w: cm.ml.rms_norm(x, normalized, w, eps=1e-3)  # noqa: E731
    check_gradient(rms, lambda x, w: row_reference(x, w, eps=1e-3, axes=axes), x, w)
    check_second_order(rms, x, w)


@pytest.mark.parametrize("shape", [(2000, 768), (5, 20000), (70000, 12), (0, 8)])
def test_row_norm_gradients_in_float32(device, shape):
    x, g, w = (
        numbers(shape, "float32", shift=1),
        numbers(shape, "float32", 1),
        numbers(shape[1:], "float32", 2),
    )
    b = cm.zeros(shape[1], "float32")
    scale = np.sqrt(max(shape[0], 1))
    _, pull = cm.vjp(
        lambda x, w, b: cm.ml.layer_norm(x, shape[1], w, b), cm.asarray(x), cm.asarray(w), b
    )
    for found, expected, size in zip(
        pull(cm.asarray(g)), row_gradients(g, x, w, True), (1, scale, scale), strict=True
    ):
        assert_close(found, expected, rtol=1e-5, atol=5e-6 * size)
    _, pull = cm.vjp(
        lambda x, w: cm.ml.rms_norm(x, shape[1], w, eps=1e-5), cm.asarray(x), cm.asarray(w)
    )
    for found, expected, size in zip(
        pull(cm.asarray(g)), row_gradients(g, x, w, False)[:2], (1, scale), strict=True
    ):
        assert_close(found, expected, rtol=1e-5, atol=5e-6 * size)


def test_row_norms_with_a_residual(device):
    x, r, w, b = (
        numbers((2, 3, 4)),
        numbers((2, 3, 4), seed=1),
        numbers((4,), seed=2),
        numbers((4,), seed=3),
    )
    y, h = cm.ml.layer_norm(x, 4, w, b, residual=r)
    assert_close(h, x + r, rtol=1e-15)
    assert_close(y, row_reference(x + r, w, b), rtol=1e-12, atol=1e-13)

    def layer(x, r, w, b):
        y, h = cm.ml.layer_norm(x, 4, w, b, residual=r)
        return y * h

    check_gradient(layer, lambda x, r, w, b: row_reference(x + r, w, b) * (x + r), x, r, w, b)
    check_second_order(layer, x, r, w, b)

    def rms(x, r, w):
        y, h = cm.ml.rms_norm(x, 4, w, 1e-3, residual=r)
        return y + h * h

    check_gradient(rms, lambda x, r, w: row_reference(x + r, w, eps=1e-3) + (x + r) ** 2, x, r, w)
    check_second_order(rms, x, r, w)
    only = cm.grad(lambda x: (cm.ml.layer_norm(x, 4, residual=r)[1] ** 2).sum())(
        cm.asarray(x)
    )  # y leads nowhere
    assert_close(only, 2 * (x + r), rtol=1e-14)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_row_norms_have_third_derivatives(device, center, residual):
    """Along a line: those of the definition, by central differences in extended precision."""
    x, r, v, w, b, c = (numbers((3, 5), seed=i) for i in range(6))
    w, b, r = w[0], b[0], r if residual else 0 * r

    def value(x):
        given = {"residual": cm.asarray(r)} if residual else {}
        if center:
            found = cm.ml.layer_norm(x, 5, cm.asarray(w), cm.asarray(b), eps=0.1, **given)
        else:
            found = cm.ml.rms_norm(x, 5, cm.asarray(w), 0.1, **given)
        y, h = found if residual else (found, None)
        return (y * c * (h if residual else 1)).sum()

    def along(t):
        h = (x + r).astype(np.longdouble) + np.longdouble(t) * v
        d = h - h.mean(-1, keepdims=True) if center else h
        y = d / np.sqrt((d * d).mean(-1, keepdims=True) + np.longdouble(0.1)) * w
        return ((y + b if center else y) * c * (h if residual else 1)).sum()

    def derivative(f):
        return lambda x: (cm.grad(f)(x) * v).sum()

    step = 1e-3
    rough, fine = [
        (along(2 * h) - 2 * along(h) + 2 * along(-h) - along(-2 * h)) / (2 * h**3)
        for h in (2 * step, step)
    ]
    found = derivative(derivative(derivative(value)))(cm.asarray(x))
    assert_close(float(found), float((4 * fine - rough) / 3), rtol=1e-6)


@pytest.mark.parametrize("given", [(), ("w",), ("b",)])
@pytest.mark.parametrize("row", [(6,), (2, 3)])
def test_row_norm_gradients_without_parameters(device, given, row):
    x, w, b = numbers((5, *row)), numbers(row, seed=1), numbers(row, seed=2)
    axes = tuple(range(-len(row), 0))
    there = [v for name, v in (("w", w), ("b", b)) if name in given]

    def layer(x, *p):
        return cm.ml.layer_norm(
            x, row, **dict(zip(("weight" if g == "w" else "bias" for g in given), p, strict=True))
        )

    def expected(x, *p):
        named = dict(zip(given, p, strict=True))
        return row_reference(
            x, named.get("w", np.ones(row)), named.get("b", np.zeros(row)), axes=axes
        )

    check_gradient(layer, expected, x, *there)
    check_second_order(layer, x, *there)
    if not given:
        check_gradient(
            lambda x: cm.ml.rms_norm(x, row, eps=1e-3),
            lambda x: row_reference(x, np.ones(row), eps=1e-3, axes=axes),
            x,
        )
        check_second_order(lambda x: cm.ml.rms_norm(x, row, eps=1e-3), x)


@pytest.mark.parametrize(
    "norm",
    [
        lambda x, b: cm.ml.layer_norm(x, 4, bias=b),
        lambda x, b: cm.ml.batch_norm(x, cm.zeros(4, "f4"), cm.ones(4, "f4"), bias=b),
    ],
)
def test_gradients_of_a_wide_bias_alone(device, norm):
    """They were rounded to x's dtype: infinite in float16 where the sum is."""
    x, bias = cm.asarray(numbers((2000, 4), "float16")), cm.zeros(4, "float32")
    assert (
        cm.grad(lambda b: norm(x, b).astype("float32").sum() * 100.0)(bias).tolist()
        == [200_000.0] * 4
    )


def test_row_norm_errors(device):
    x = cm.zeros((4, 3))
    for call, error, message in [
        (
            lambda: cm.ml.layer_norm(x, 4),
            ValueError,
            r"layer_norm: normalized_shape \(4,\).*\(4, 3\)",
        ),
        (lambda: cm.ml.layer_norm(x, ()), ValueError, "layer_norm: normalized_shape"),
        (
            lambda: cm.ml.layer_norm(x, 3, cm.zeros(4)),
            ValueError,
            r"layer_norm: .*weight of shape \(3,\), got \(4,\)",
        ),
        (
            lambda: cm.ml.rms_norm(x, (4, 3), cm.zeros(3)),
            ValueError,
            r"rms_norm: .*weight of shape \(4, 3\), got \(3,\)",
        ),
        (lambda: cm.ml.layer_norm(cm.zeros((4, 3), "int64"), 3), TypeError, "layer_norm: .*int64"),
        (
            lambda: cm.ml.rms_norm(x, 3, cm.zeros(3, "float32")),
            TypeError,
            "rms_norm: .*float64.*float32",
        ),
        (lambda: cm.ml.layer_norm(cm.zeros((4, 0)), 0), ValueError, "layer_norm: normalized_shape"),
        (
            lambda: cm.ml.layer_norm(x, 3, residual=cm.zeros((3, 3))),
            ValueError,
            r"layer_norm: wants a residual .*\(3, 3\)",
        ),
        (
            lambda: cm.ml.rms_norm(x, 3, residual=cm.zeros((4, 3), "float32")),
            TypeError,
            "rms_norm: .*residual.*float32",
        ),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_agrees_with_torch(device):
    torch = pytest.importorskip("torch")
    f, t = torch.nn.functional, torch.tensor
    x, w, b = numbers((4, 3, 5)), numbers((3,), seed=1), numbers((3,), seed=2)
    mean, var = numbers((3,), seed=3), np.abs(numbers((3,), seed=4))
    y, new_mean, new_var = cm.ml.batch_norm(x, mean, var, w, b, training=True)
    tm, tv = t(mean), t(var)
    assert_close(
        y, f.batch_norm(t(x), tm, tv, t(w), t(b), training=True).numpy(), rtol=1e-11, atol=1e-13
    )
    assert_close(new_mean, tm.numpy(), rtol=1e-12)
    assert_close(new_var, tv.numpy(), rtol=1e-12)
    assert_close(
        cm.ml.batch_norm(x, mean, var), f.batch_norm(t(x), t(mean), t(var)).numpy(), rtol=1e-11
    )
    assert_close(
        cm.ml.layer_norm(x, (3, 5)), f.layer_norm(t(x), (3, 5)).numpy(), rtol=1e-11, atol=1e-13
    )
    assert_close(cm.ml.rms_norm(x, 5), f.rms_norm(t(x), (5,)).numpy(), rtol=1e-11)


# -------------------- kernel versions


BATCH_NORMS = [
    pytest.param(*m.values, version, marks=m.marks)
    for version in ("plain", "split_channels", "one_block", "held")
    for m in MACHINES
    if version != "held" or m.values[0] == "gpu"
]


@pytest.mark.parametrize("dtype, param", [(d, d) for d in DTYPES] + [("bfloat16", "float32")])
@pytest.mark.parametrize("machine, version", BATCH_NORMS)
def test_batch_norm_versions(machine, version, dtype, param):
    from cudamath.kernels.norm import dispatch as norm_dispatch

    back = "split_channels" if version in ("one_block", "held") else version
    shapes = [
        (8, 3),
        (300, 65),
        (3000, 8),
        (4, 3, 5),
        (16, 32, 8, 8),
        (64, 32, 28, 28),
        (3, 2, 60, 61),
        (2, 300, 3, 3),
    ]
    if version == "held":  # runs of whole accesses
        if dtype == "float64":
            pytest.skip("held: of numbers of 16 and 32 bits")
        shapes = [(16, 32, 8, 8), (64, 32, 28, 28), (3, 5, 2, 4), (1, 140, 32, 32), (9, 200, 16)]
    for shape in shapes if machine == "gpu" else [(9, 3), (3, 2, 20)]:
        x, g = numbers(shape, dtype, scale=2, shift=1), numbers(shape, dtype, 1)
        c = shape[1]
        w, b, rm = (numbers((c,), param, seed) for seed in (2, 3, 4))
        rv = np.ones_like(w)
        loose = dict(rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 6, what=f"{shape}")
        size = (x.size // c) ** 0.5
        summed = dict(
            rtol=TOLERANCE[param] * 4,
            atol=TOLERANCE[dtype if param == dtype else "float32"] * 6 * size,
        )
        r = numbers(shape, dtype, 5)
        finished = [
            (True, [r]),
            (False, []),
            (True, []),
            (False, [r]),
        ]  # the first is enough where a simulation takes seconds
        for relu, more in finished[: 4 if machine == "gpu" or dtype == "float32" else 1]:
            y, mean, rstd, *_ = run_version(
                machine,
                lambda x, w, _b, _m, _v, *r, relu=relu: norm_dispatch.batch_forward(
                    x, w, *r or [None], 0.1, 1e-5, relu, version=version
                ),
                x,
                w,
                b,
                rm,
                rv,
                *more,
            )
            z = batch_reference(x, w, b) + (wide(r) if more else 0)
            assert_close(y, np.maximum(z, 0) if relu else z, **loose)
            kept = [y] if relu and more else []
            found = run_version(
                machine,
                lambda g, x, w, _b, _m, _s, *y, relu=relu: norm_dispatch.batch_backward(
                    g, x, w, *y or [None], relu, version=back
                ),
                g,
                x,
                w,
                b,
                mean,
                rstd,
                *kept,
            )
            # what is on is decided by the rounded y, or by z: where they are nearly zero the
            # reference may see another sign
            on = np.where(wide(y) > 0, wide(g), 0) if relu else g
            expected = batch_gradients(on, x, w)
            assert_close(found[0], expected[0], **loose)
            assert_close(found[1], expected[1], **summed)
            assert_close(found[2], expected[2], **summed)
            if kept:
                assert np.array_equal(wide(found[3]), on)
                more = numbers(shape, dtype, 6)  # a gradient in two parts
                found = run_version(
                    machine,
                    lambda g, x, w, _b, _m, _s, y, more: norm_dispatch.batch_backward(
                        g, x, w, y, True, more, version=back
                    ),
                    g,
                    x,
                    w,
                    b,
                    mean,
                    rstd,
                    y,
                    more,
                )
                on = np.where(wide(y) > 0, wide(g) + wide(more), 0)
                expected = batch_gradients(on, x, w)
                for at, tolerance in ((0, loose), (1, summed), (2, summed)):
                    assert_close(
                        found[at], expected[at], **{**tolerance, "atol": tolerance["atol"] * 2}
                    )
                assert_close(found[3], on, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("machine, version", BATCH_NORMS)
def test_batch_norm_versions_under_a_large_mean(machine, version):
    from cudamath.kernels.norm import dispatch as norm_dispatch

    shapes = [(40, 3), (6, 2, 50)] if machine == "simulator" else [(5000, 4), (64, 3, 40, 40)]
    for shape in shapes if version != "held" else [(31, 3, 40, 40)]:
        x, w, b = (
            numbers(shape, "float32", shift=3e3),
            np.ones(shape[1], "float32"),
            np.zeros(shape[1], "float32"),
        )
        y, mean, _, _, var = run_version(
            machine,
            lambda x, w, *_: norm_dispatch.batch_forward(
                x, w, None, 1.0, 1e-5, False, version=version
            ),
            x,
            w,
            b,
            b,
            w,
        )
        assert_close(mean, wide(x).mean(others(x)), rtol=2.0**-24 * 1.1)  # rounded once
        assert_close(var, wide(x).var(others(x), ddof=1), rtol=2e-6)
        assert_close(y, batch_reference(x, w, b), rtol=1e-4, atol=3e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_are_bitwise_reproducible(dtype):
    x, g = (cm.asarray(numbers((4096, 256), dtype, s), device="cuda") for s in (0, 1))
    w = cm.asarray(numbers((256,), dtype, 2), device="cuda")
    for fn in (
        lambda x, w: cm.ml.layer_norm(x, 256, w),
        lambda x, w: cm.ml.batch_norm(x, weight=w, training=True)[0],
    ):
        first = [a.to_numpy() for a in cm.vjp(fn, x, w)[1](g)]
        for _ in range(3):
            assert all(
                np.array_equal(a, b.to_numpy())
                for a, b in zip(first, cm.vjp(fn, x, w)[1](g), strict=True)
            )


# -------------------- group and instance norm


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(
    ("shape", "groups"),
    [((3, 6, 4, 5), 2), ((2, 6), 3), ((4, 8, 7), 8), ((2, 4, 3, 2, 2), 1)],
    ids=str,
)
def test_group_norm_as_in_torch(device, shape, groups, dtype):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, w, b, g = (rng.standard_normal(s) + 1 for s in (shape, shape[1:2], shape[1:2], shape))
    ours = [cm.asarray(a).astype(dtype) for a in (x, w, b)]
    exact = [torch.tensor(a.to_numpy().astype(np.float64), requires_grad=True) for a in ours]
    eps = {"float64": 1e-12, "float32": 3e-6, "bfloat16": 3e-2}[dtype]
    instance = groups == shape[1]
    expected = torch.nn.functional.group_norm(exact[0], groups, exact[1], exact[2], 1e-5)
    y, pull = cm.vjp(
        lambda x, w, b: (
            cm.ml.instance_norm(x, w, b) if instance else cm.ml.group_norm(x, groups, w, b)
        ),
        *ours,
    )
    assert y.dtype == ours[0].dtype
    cm.testing.assert_close(y, expected.detach().numpy(), rtol=eps, atol=eps)
    slopes = torch.autograd.grad(
        expected, exact, torch.tensor(cm.asarray(g).astype(dtype).to_numpy().astype(np.float64))
    )
    for found, slope in zip(pull(cm.asarray(g).astype(dtype)), slopes, strict=True):
        most = slope.abs().max().item()
        cm.testing.assert_close(found, slope.numpy(), rtol=eps, atol=3 * eps * max(most, 1))
    plain = torch.nn.functional.group_norm(exact[0], groups)
    cm.testing.assert_close(
        cm.ml.group_norm(ours[0], groups), plain.detach().numpy(), rtol=eps, atol=eps
    )


def test_group_norm_of_16_bits_with_float32_parameters(device):
    x = np.random.default_rng(1).standard_normal((2, 4, 9)).astype(cm.bfloat16)
    w = np.linspace(1, 2, 4, dtype=np.float32)
    y = cm.ml.group_norm(cm.asarray(x), 2, cm.asarray(w))
    rows = x.astype(np.float64).reshape(2, 2, 18)
    wanted = (
        (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    ).reshape(2, 4, 9) * w[:, None]
    assert y.dtype == cm.bfloat16
    cm.testing.assert_close(y, wanted, rtol=2**-7, atol=1e-2)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda: cm.ml.group_norm(np.ones((2, 6, 3)), 4),
            ValueError,
            r"^group_norm: num_groups must divide .*\(2, 6, 3\).* 4",
        ),
        (
            lambda: cm.ml.group_norm(np.ones(3), 1),
            ValueError,
            r"^group_norm: wants x \(N, C, ...\)",
        ),
        (
            lambda: cm.ml.group_norm(np.ones((2, 4, 0)), 2),
            ValueError,
            "^group_norm: groups without elements",
        ),
        (
            lambda: cm.ml.group_norm(np.ones((2, 4)), 2, np.ones(3)),
            ValueError,
            r"^group_norm: .*weight of shape \(4,\)",
        ),
        (
            lambda: cm.ml.instance_norm(np.ones((2, 4, 3)), np.ones(4, np.float32)),
            TypeError,
            "^instance_norm: .*float64",
        ),
        (
            lambda: cm.ml.instance_norm(np.ones((2, 4, 3), int)),
            TypeError,
            "^instance_norm: .*int64",
        ),
    ],
)
def test_group_norm_errors(device, call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_without_running_statistics_parameters_do_not_stand_for_them(device):
    x = np.random.default_rng(0).standard_normal((6, 3)).astype("f4")
    weight, bias = np.array([np.inf, 1, np.nan], "f4"), np.array([np.nan, 0, 1], "f4")
    _, mean, var = cm.ml.batch_norm(
        cm.asarray(x), None, None, cm.asarray(weight), cm.asarray(bias), training=True
    )
    np.testing.assert_allclose(mean.to_numpy(), x.astype("f8").mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(var.to_numpy(), x.astype("f8").var(0, ddof=1), rtol=1e-5)
