"""Softmax, log-softmax and losses: values, extremes, gradients, errors, and each kernel version by
name."""

import contextlib
import itertools

import ml_dtypes
import numpy as np
import pytest
from compiled_facts import compile_plan
from fake_driver import gpu
from gradient_checks import (
    DTYPES,
    MACHINES,
    TOLERANCE,
    check_gradient,
    check_second_order,
    numbers,
    run_version,
    versions,
    wide,
)
from simulated_gpu import give_vectors_and_warps, simulated_gpu

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.compiler.lazy_numba import SIMULATOR
from cudamath.runtime.device import assume
from cudamath.testing import assert_close, layout_of, simulate

FUNCTIONS = {"softmax": cm.ml.softmax, "log_softmax": cm.ml.log_softmax}


def loss_dtype(dtype):
    """Losses of 16-bit numbers come in float32."""
    return dtype if dtype in ("float32", "float64") else "float32"


def tolerances(name, dtype):
    """Of a value: its own rounding, and that of the sum. That sum's relative error (exp: 4 u, a
    chain of h additions: about sqrt(h) u, h <= 256) is an absolute one of its logarithm, in the
    compute type, however small log s is."""
    own = TOLERANCE[dtype]
    return dict(
        rtol=own * 3, atol=min(own, TOLERANCE["float32"]) if name == "log_softmax" else own * 1e-3
    )


def reference(name, x, axis=-1):
    x = wide(x)
    if not x.size:
        return x
    with np.errstate(all="ignore"):
        d = x - x.max(axis, keepdims=True)
        total = np.exp(d).sum(axis, keepdims=True)
        return np.exp(d) / total if name == "softmax" else d - np.log(total)


# -------------------- softmax


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "shape, axis",
    [
        ((3, 10), -1),
        ((4, 1), 1),
        ((5, 7, 3), 1),
        ((5, 7, 3), 0),
        ((2, 3, 1000), 2),
        ((2000,), 0),
        ((0, 5), 1),
        ((5, 0), 1),
        ((5, 0), 0),
        ((), -1),
    ],
)
def test_values(device, name, shape, axis, dtype):
    x = numbers(shape, dtype, scale=3)
    y = FUNCTIONS[name](cm.asarray(x), axis)
    expected = np.full((), float(name == "softmax")) if shape == () else reference(name, x, axis)
    assert y.shape == shape and y.dtype == x.dtype
    assert_close(y, expected, rtol=TOLERANCE[dtype] * 2, atol=TOLERANCE[dtype] * 1e-3)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_second_call_checks_no_less_than_the_first(device, name):
    function, host = FUNCTIONS[name], numbers((3, 4), "float64")
    x = cm.asarray(host)
    for _ in range(2):  # the second finds its plan without checks
        for axis in (-2, 0, 1):
            assert_close(function(x, axis), reference(name, host, axis), rtol=1e-14)
        for axis, error in ((1.0, TypeError), ([1], TypeError), (2, ValueError)):
            with pytest.raises(error, match=f"^{name}: "):
                function(x, axis)
        assert cm.grad(lambda x: (function(x, 0) ** 2).sum())(x).shape == (3, 4)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("columns", [5, 40000])  # on the GPU: in registers, and online
def test_extreme_rows(device, name, columns):
    x = np.zeros((7, columns), np.float32)
    x[0] += 1e4
    x[1, :2] = 1e4, -1e4
    x[2, 1:] = -np.inf
    x[3] = -np.inf
    x[4, 3] = np.nan
    x[5, 2] = np.inf
    x[6, :-1] = -np.inf
    for layout, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
        y = FUNCTIONS[name](cm.asarray(layout), axis).to_numpy()
        y = y if axis else y.T
        assert_close(y, reference(name, x), rtol=2e-5, atol=1e-30)
        assert np.isnan(y[3:6]).all() and not np.isnan(y[[0, 1, 2, 6]]).any()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_strided_input_and_gradient(device, name):
    x = numbers((4, 6, 5))
    strided = cm.asarray(x).transpose((2, 0, 1))
    assert_close(FUNCTIONS[name](strided, 0), reference(name, x.transpose(2, 0, 1), 0), rtol=1e-12)
    check_gradient(
        lambda a: FUNCTIONS[name](a.transpose((2, 0, 1)), 1),
        lambda a: reference(name, a.transpose(2, 0, 1), 1),
        x,
    )


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape, axis", [((3, 6), 1), ((3, 6), 0), ((2, 4, 3), 1), ((1,), 0)])
def test_gradients(device, name, shape, axis):
    x = numbers(shape)
    check_gradient(lambda a: FUNCTIONS[name](a, axis), lambda a: reference(name, a, axis), x)
    check_second_order(lambda a: FUNCTIONS[name](a, axis), x)


def test_softmax_errors(device):
    with pytest.raises(TypeError, match="softmax: .*int64.*"):
        cm.ml.softmax(cm.asarray([1, 2]))
    with pytest.raises(ValueError, match="log_softmax: axis 2"):
        cm.ml.log_softmax(cm.zeros((2, 2)), 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("machine, version", versions("plain", "rows", "long_rows"))
def test_row_versions(machine, version, log, dtype):
    from cudamath.kernels.softmax import dispatch as kernels

    name, small = ("log_softmax" if log else "softmax"), machine == "simulator"
    for columns in (
        (1, 7, 33) if small else (1, 7, 8, 33, 128, 1000, 1001, 1024, 4096, 4099, 8192, 16384)
    ):
        x, g = numbers((3, columns), dtype, scale=3), numbers((3, columns), dtype, seed=1)
        y = run_version(machine, lambda x: kernels.plan((x,), 1, log, version=version), x)
        expected = reference(name, x)
        assert_close(y, expected, **tolerances(name, dtype), what=f"{columns} columns")
        if (
            version == "rows" and dtype == "float64" and columns == 16384
        ):  # 1,024 threads hold eight each
            with pytest.raises(
                ValueError, match="softmax: version 'rows' does not support .*16384.*float64"
            ):
                kernels.plan((layout_of(g), layout_of(y)), 1, log, version=version)
            continue
        dx = run_version(machine, lambda g, y: kernels.plan((g, y), 1, log, version=version), g, y)
        wg, wy = wide(g, y)
        expected = (
            wg - np.exp(wy) * wg.sum(1, keepdims=True)
            if log
            else wy * (wg - (wg * wy).sum(1, keepdims=True))
        )
        assert_close(
            dx,
            expected,
            rtol=TOLERANCE[dtype] * 3,
            atol=TOLERANCE[dtype] * 5,
            what=f"{columns} columns",
        )


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("version", ["shared_memory", "cluster"])
def test_long_rows_read_once(version, log, dtype):
    """Lines kept in shared memory or by a cluster: with ends between borders, shorter than an
    access, longer than what is kept, more of them than a device has multiprocessors."""
    from cudamath.kernels.softmax import dispatch as kernels
    from cudamath.kernels.softmax import online
    from cudamath.runtime.device import capability

    if capability(0) not in online.CACHE or (version == "cluster" and capability(0) < (9, 0)):
        pytest.skip("no room for two lines in shared memory, or no clusters")
    name = "log_softmax" if log else "softmax"
    for rows, columns in ((3, 1), (3, 7), (5, 1001), (3, 8192), (141, 50257), (7, 100_003)):
        x, g = numbers((rows, columns), dtype, scale=3), numbers((rows, columns), dtype, seed=1)
        x[0, 0], x[1, -1] = -np.inf, 40
        y = run_version("gpu", lambda x: kernels.plan((x,), 1, log, version=version), x)
        expected = reference(name, x)
        assert_close(y, expected, **tolerances(name, dtype), what=f"{columns} columns")
        dx = run_version("gpu", lambda g, y: kernels.plan((g, y), 1, log, version=version), g, y)
        wg, wy = wide(g, y)
        expected = (
            wg - np.exp(wy) * wg.sum(1, keepdims=True)
            if log
            else wy * (wg - (wg * wy).sum(1, keepdims=True))
        )
        scale = columns**0.5 if log else 1
        assert_close(
            dx,
            expected,
            rtol=TOLERANCE[dtype] * 3,
            atol=TOLERANCE[dtype] * 5 * scale,
            what=f"{columns} columns",
        )


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("log", [False, True])
def test_long_rows_that_are_not_finite(log, dtype):
    """-inf throughout the parts of several blocks of a cluster, throughout the line; a NaN, an inf
    anywhere."""
    name = "log_softmax" if log else "softmax"
    x = numbers((5, 50_257), dtype, scale=3)
    x[1, :30_000], x[2], x[3, 40_000], x[4, 7] = -np.inf, -np.inf, np.nan, np.inf
    y = getattr(cm.ml, name)(cm.asarray(x, device="cuda")).to_numpy()
    assert_close(y[0], reference(name, x[:1])[0], **tolerances(name, dtype))
    assert_close(y[1, 30_000:], reference(name, x[1:2, 30_000:])[0], **tolerances(name, dtype))
    assert (wide(y[1, :30_000]) == (-np.inf if log else 0)).all()
    assert np.isnan(wide(y[2:])).all()


#: They run in the simulator, too, as long as the dtype is wide.
COLUMNS = [
    pytest.param(*m.values, version, marks=m.marks)
    for version in ("columns", "columns_split")
    for m in MACHINES
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("machine, version", [*versions("plain"), *COLUMNS])
def test_column_versions(machine, version, log, dtype):
    """Shapes of which each segment of a line has 128 elements or more, and the last one fewer."""
    from cudamath.kernels.softmax import dispatch as kernels

    name = "log_softmax" if log else "softmax"
    shapes = [(2, 5, 3)], [(3, 100, 64), (1, 1000, 33), (70, 16, 2)]
    if version == "columns_split":
        shapes = [(2, 300, 3)], [(1, 1000, 33), (2, 131, 5), (1, 20_001, 16), (3, 4096, 2)]
    for shape in shapes[0] if machine == "simulator" else shapes[0] + shapes[1]:
        x, g = numbers(shape, dtype, scale=3), numbers(shape, dtype, seed=1)
        x[0, :140, 0] = -np.inf  # a segment whose maximum is none
        x[0, -1, 0] = 0
        expected = reference(name, x, 1)
        finite = np.isfinite(expected)

        def planned(*inputs):
            with assume((9, 0)) if machine == "simulator" else contextlib.nullcontext():
                return kernels.plan(inputs, 1, log, version=version)

        y = run_version(machine, planned, x)
        assert np.array_equal(np.isneginf(wide(y)), ~finite)
        y = np.where(finite, y, 0).astype(y.dtype)
        expected = np.where(finite, expected, 0)
        assert_close(y, expected, **tolerances(name, dtype), what=f"{shape}")
        dx = run_version(machine, planned, g, y)
        wg, wy = wide(g, y)
        expected = (
            wg - np.exp(wy) * wg.sum(1, keepdims=True)
            if log
            else wy * (wg - (wg * wy).sum(1, keepdims=True))
        )
        assert_close(
            dx,
            expected,
            rtol=TOLERANCE[dtype] * 3,
            atol=TOLERANCE[dtype] * 5 * (shape[1] ** 0.5 if log else 1),
            what=f"{shape}",
        )


# -------------------- losses


@pytest.mark.simulator
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cross_entropy_of_long_rows_simulated(dtype, smoothing, monkeypatch):
    """Rows that begin between the borders of accesses; targets at their ends, inside of an access,
    and none."""
    from cudamath.kernels.loss import dispatch as kernels

    give_vectors_and_warps(monkeypatch)
    rows, classes = 5, 2061
    x, targets = (
        numbers((rows, classes, 1), dtype, scale=3),
        np.array([[0], [2060], [1033], [7], [-1]]),
    )
    how = {"ignore_index": -1, "label_smoothing": smoothing, "version": "long_rows"}
    with assume((9, 0)):
        plan = kernels.cross_entropy(*map(layout_of, (x, targets)), reduction="none", **how)
    losses, stats, divisor = simulate(plan, x, targets)
    wide_x, there = wide(x)[..., 0], targets[:, 0] >= 0
    logs = reference("log_softmax", wide_x, 1)
    wanted = np.full((rows, classes), smoothing / classes)
    wanted[np.arange(rows), targets[:, 0]] += 1 - smoothing
    wanted *= there[:, None]
    rounding = {"rtol": 4 * TOLERANCE[dtype], "atol": 8 * TOLERANCE[dtype]}
    assert_close(losses[:, 0], -(wanted * logs).sum(1), **rounding)
    g = numbers((rows, 1), dtype, seed=1)
    with assume((9, 0)):
        plan = kernels.cross_entropy_grad(*map(layout_of, (g, x, targets, stats, divisor)), **how)
    assert [step.kernel.__name__ for step in plan.steps] == ["cross_entropy_long_rows_grad"]
    dx = simulate(plan, g, x, targets, stats, divisor)
    slopes = wide(g) * (np.exp(logs) * there[:, None] - wanted)
    assert_close(dx[..., 0], slopes, **rounding)


def written_over(machine, make, number, *arrays):
    """The result of the plan that `make` gives for these arrays' layouts, written over one of
    them."""
    if machine == "simulator":
        given = [a.copy() for a in arrays]
        simulate(make(*map(layout_of, arrays)).into(len(arrays)), *given, given[number])
        return given[number]
    there = [cm.asarray(a, device="cuda", copy=True) for a in arrays]
    layouts = [a._layout for a in there]
    plan = make(*layouts).into(len(there))
    plan.bind("version", [*layouts, layouts[number]])(*there, there[number])
    return there[number].to_numpy()


def loss_reference(x, targets, reduction="mean", ignore_index=-100, smoothing=0.0):
    x, targets = wide(x), np.asarray(targets)
    log_p = np.moveaxis(reference("log_softmax", x, min(1, x.ndim - 1)), min(1, x.ndim - 1), -1)
    counted = targets != ignore_index
    picked = np.take_along_axis(log_p, np.where(counted, targets, 0)[..., None], -1)[..., 0]
    with np.errstate(all="ignore"):
        loss = np.where(
            counted, -(1 - smoothing) * picked - (smoothing * log_p.mean(-1) if smoothing else 0), 0
        )
        return (
            loss
            if reduction == "none"
            else loss.sum() / (counted.sum() if reduction == "mean" else 1)
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(6, 10), (1, 1), (200, 3), (3, 2000), (4, 5, 2, 3), (7,)])
def test_cross_entropy(device, shape, smoothing, reduction, dtype):
    x = numbers(shape, dtype, scale=2)
    classes = shape[min(1, len(shape) - 1)]
    targets = np.random.default_rng(1).integers(
        0, classes, shape[:1] * (len(shape) > 1) + shape[2:]
    )
    if targets.ndim:
        targets.flat[-1] = -100 if targets.size > 1 else 0
    y = cm.ml.cross_entropy(cm.asarray(x), targets, reduction=reduction, label_smoothing=smoothing)
    assert y.dtype == loss_dtype(dtype)
    assert_close(
        y,
        loss_reference(x, targets, reduction, smoothing=smoothing),
        rtol=TOLERANCE[loss_dtype(dtype)] * 4,
        atol=TOLERANCE[loss_dtype(dtype)],
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_target_dtypes_and_ignore_index(device, dtype):
    x, targets = numbers((4, 3)), np.array([0, 2, 1, 2], dtype)
    for ignore in (2, 200, -1):
        assert_close(
            cm.ml.cross_entropy(x, targets, ignore_index=ignore),
            loss_reference(x, targets.astype(int), ignore_index=ignore),
            rtol=1e-12,
        )


@pytest.mark.parametrize("loss", ["cross_entropy", "linear_cross_entropy"])
@pytest.mark.parametrize("ignore", [-100, -1])
def test_targets_beyond_int64_are_not_the_ignored_one(device, loss, ignore):
    """2^64 - 100 is no class; as int64 it would be -100."""
    x, targets = numbers((2, 3), "float32"), np.array([0, 2**64 + ignore], np.uint64)
    operands = (x,) if loss == "cross_entropy" else (x, numbers((4, 3), "float32"))
    # what a kernel finds has the name of its op so far: few logits are linear and cross_entropy
    name = f"({loss}|cross_entropy)" if device == "cuda" else loss
    with pytest.raises(IndexError, match=f"^{name}: "):
        getattr(cm.ml, loss)(*operands, targets, ignore_index=ignore)
        cm.cuda.synchronize() if device == "cuda" else None


def test_all_ignored_and_empty(device):
    x = numbers((3, 4))
    assert np.isnan(cm.ml.cross_entropy(x, [-100] * 3).item())
    assert cm.ml.cross_entropy(x, [-100] * 3, reduction="sum").item() == 0
    assert cm.ml.cross_entropy(x, [-100] * 3, reduction="none").tolist() == [0, 0, 0]
    assert not cm.grad(lambda a: cm.ml.cross_entropy(a, [-100] * 3))(x).to_numpy().any()
    empty = cm.zeros((0, 4))
    assert np.isnan(cm.ml.cross_entropy(empty, cm.zeros(0, "int64")).item())
    assert cm.ml.cross_entropy(empty, cm.zeros(0, "int64"), reduction="sum").item() == 0
    assert cm.ml.cross_entropy(empty, cm.zeros(0, "int64"), reduction="none").shape == (0,)
    assert cm.grad(lambda a: cm.ml.cross_entropy(a, cm.zeros(0, "int64"), reduction="sum"))(
        empty
    ).shape == (0, 4)
    assert np.isnan(cm.ml.nll_loss(empty, cm.zeros(0, "int64")).item())


@pytest.mark.parametrize("columns", [4, 3000])
def test_extreme_logits(device, columns):
    x = np.full((5, columns), -3.0, np.float32)
    x[0, :2] = 1e4, 1e4 - 2
    x[1, 1:] = -np.inf
    x[2] = -np.inf
    x[3] = 1e4
    x[4, 2] = np.inf
    targets = [1, 0, 0, 3, 2]
    loss = cm.ml.cross_entropy(cm.asarray(x), targets, reduction="none").to_numpy()
    assert_close(loss, loss_reference(x, targets, "none"), rtol=1e-6, atol=1e-7)
    assert np.isnan(loss[[2, 4]]).all()
    assert np.isinf(cm.ml.cross_entropy(cm.asarray(x[1:2]), [1]).item())
    # The gradient keeps the digits of the softmax although log sum exp is 1e4.
    gradient = cm.grad(lambda a: cm.ml.cross_entropy(a, [1, 0], reduction="sum"))(cm.asarray(x[:2]))
    expected = reference("softmax", x[:2])
    expected[[0, 1], [1, 0]] -= 1
    assert_close(gradient, expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("targets", [[0, 1, 4], [0, -1, 2], [0, 1, -101]])
def test_class_out_of_range(device, targets):
    x = cm.asarray(numbers((3, 4)))
    for loss in (cm.ml.cross_entropy, cm.ml.nll_loss):
        with pytest.raises(IndexError, match=loss.__name__):
            loss(x, targets)
            if device == "cuda":
                cm.cuda.synchronize()


def test_soft_labels(device):
    x, q = numbers((4, 3, 2)), np.abs(numbers((4, 3, 2), seed=1))
    q /= q.sum(1, keepdims=True)

    def expected(x, q, smoothing=0.0, reduction="mean"):
        q = q * (1 - smoothing) + smoothing / 3
        loss = -(q * reference("log_softmax", x, 1)).sum(1)
        return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()

    for reduction in ("mean", "sum", "none"):
        assert_close(
            cm.ml.cross_entropy(x, q, reduction=reduction, label_smoothing=0.2),
            expected(x, q, 0.2, reduction),
            rtol=1e-12,
        )
    check_gradient(lambda a, b: cm.ml.cross_entropy(a, b), expected, x, q)
    one_hot = np.eye(5)[[1, 4]]
    assert_close(
        cm.ml.cross_entropy(numbers((2, 5)), one_hot),
        loss_reference(numbers((2, 5)), [1, 4]),
        rtol=1e-12,
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(5, 4), (3, 4, 2)])
def test_loss_gradients(device, shape, reduction):
    x, targets = numbers(shape), np.random.default_rng(2).integers(0, 4, shape[:1] + shape[2:])
    targets.flat[0] = -100
    for smoothing in (0.0, 0.3):
        fn = lambda a: cm.ml.cross_entropy(  # noqa: E731
            a,
            targets,
            reduction=reduction,
            label_smoothing=smoothing,  # noqa: B023
        )  # noqa: B023, E731
        check_gradient(fn, lambda a: loss_reference(a, targets, reduction, smoothing=smoothing), x)  # noqa: B023
        check_second_order(fn, x)
    fn = lambda a: cm.ml.nll_loss(cm.ml.log_softmax(a, 1), targets, reduction=reduction)  # noqa: E731
    assert_close(fn(cm.asarray(x)), loss_reference(x, targets, reduction), rtol=1e-12)
    check_gradient(fn, lambda a: loss_reference(a, targets, reduction), x)
    check_second_order(fn, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 3), (1025, 3), (4096, 2), (4097, 2), (5, 3, 1000)])
def test_nll_loss_of_few_and_many_targets(device, shape, dtype):
    """On a GPU up to 4,096 targets take one launch, more take two. Every fifth target is
    ignored."""
    x = -np.abs(numbers(shape, dtype))
    targets = np.random.default_rng(5).integers(0, shape[1], shape[:1] + shape[2:])
    targets.flat[1::5] = -100
    for reduction in ("mean", "sum"):
        each = -np.take_along_axis(wide(x), np.maximum(targets, 0)[:, None], 1)[:, 0][
            targets != -100
        ]
        expected = each.sum() / (each.size if reduction == "mean" else 1)
        for kind in (np.int64, np.int32):
            got = cm.ml.nll_loss(
                cm.asarray(x), cm.asarray(targets.astype(kind)), reduction=reduction
            )
            assert got.dtype == loss_dtype(dtype)
            assert_close(got, expected, rtol=TOLERANCE[loss_dtype(dtype)] * 5)


@pytest.mark.simulator
@pytest.mark.parametrize("shape", [(5, 3, 1), (3, 4, 6)])
def test_nll_losses_simulated(shape):
    from cudamath.kernels.loss import dispatch as kernels

    x, targets = (
        numbers(shape, "float32"),
        np.random.default_rng(5).integers(0, shape[1], (shape[0], shape[2])),
    )
    targets[1, 0] = -100
    plan = kernels.nll_loss(layout_of(x), layout_of(targets), reduction="none", ignore_index=-100)
    losses, divisor = simulate(plan, x, targets)
    picked = -np.take_along_axis(x, np.maximum(targets, 0)[:, None], 1)[:, 0]
    np.testing.assert_array_equal(losses, np.where(targets == -100, 0, picked))
    assert divisor == 1


def test_mse_loss(device):
    x, t = numbers((3, 4)), numbers((3, 4), seed=1)
    for reduction, expected in (
        ("mean", ((x - t) ** 2).mean()),
        ("sum", ((x - t) ** 2).sum()),
        ("none", (x - t) ** 2),
    ):
        assert_close(cm.ml.mse_loss(x, t, reduction=reduction), expected, rtol=1e-13)
    check_gradient(cm.ml.mse_loss, lambda a, b: ((a - b) ** 2).mean(), x, t)
    with pytest.raises(ValueError, match=r"mse_loss: .*\(3, 4\) and \(3, 1\)"):
        cm.ml.mse_loss(x, t[:, :1])


def test_loss_errors(device):
    x = cm.zeros((3, 4))
    for call, error, message in [
        (
            lambda: cm.ml.cross_entropy(x, [0, 1]),
            ValueError,
            r"cross_entropy: .*\(3, 4\).*\(3,\), got \(2,\)",
        ),
        (
            lambda: cm.ml.cross_entropy(x, [0, 1, 2], reduction="avg"),
            ValueError,
            "cross_entropy: reduction .*'avg'",
        ),
        (
            lambda: cm.ml.cross_entropy(x, [0, 1, 2], label_smoothing=2),
            ValueError,
            "cross_entropy: label_smoothing",
        ),
        (
            lambda: cm.ml.cross_entropy(cm.zeros((3, 4), "int64"), [0, 1, 2]),
            TypeError,
            "cross_entropy: .*int64",
        ),
        (lambda: cm.ml.cross_entropy(x, [True, False, True]), TypeError, "cross_entropy: .*bool"),
        (
            lambda: cm.ml.cross_entropy(x, cm.zeros((3, 3))),
            ValueError,
            r"cross_entropy: .*\(3, 4\), got \(3, 3\)",
        ),
        (lambda: cm.ml.cross_entropy(cm.zeros(()), 0), ValueError, r"cross_entropy: .*\(\)"),
        (lambda: cm.ml.nll_loss(x, cm.zeros(3)), TypeError, "nll_loss: .*float64"),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_agrees_with_torch(device):
    torch = pytest.importorskip("torch")
    x, targets = numbers((6, 5, 2)), np.array([[0, 1], [2, -100], [4, 4], [1, 0], [3, 2], [0, 0]])
    for reduction in ("mean", "sum", "none"):
        for smoothing in (0.0, 0.2):
            options = dict(reduction=reduction, label_smoothing=smoothing)
            expected = torch.nn.functional.cross_entropy(
                torch.tensor(x), torch.tensor(targets), **options
            )
            assert_close(cm.ml.cross_entropy(x, targets, **options), expected.numpy(), rtol=1e-12)
    assert_close(cm.ml.softmax(x, 1), torch.softmax(torch.tensor(x), 1).numpy(), rtol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("machine, version", versions("plain", "rows"))
def test_soft_label_versions(machine, version, dtype):
    from cudamath.kernels.loss import dispatch as kernels

    shapes = (
        [(5, 7, 1)]
        if machine == "simulator"
        else [(5, 7, 1), (1000, 10, 1), (3, 5000, 1), (5, 5003, 1), (7, 1, 1)]
    )
    for shape in shapes + [(2, 3, 4)] * (version == "plain"):
        x, q = numbers(shape, dtype, scale=2), np.abs(numbers(shape, seed=1))
        q = (q / q.sum(1, keepdims=True)).astype(x.dtype)
        for reduction, smoothing in (("mean", 0.1), ("sum", 0.0), ("none", 0.2)):
            loss, stats, divisor = run_version(
                machine,
                lambda x, q: kernels.soft_cross_entropy(
                    x,
                    q,
                    reduction=reduction,  # noqa: B023
                    label_smoothing=smoothing,  # noqa: B023
                    version=version,
                ),
                x,
                q,
            )
            target = wide(q) * (1 - smoothing) + smoothing / shape[1]
            each = -(target * reference("log_softmax", x, 1)).sum(1)
            expected = (
                each if reduction == "none" else each.mean() if reduction == "mean" else each.sum()
            )
            assert_close(
                loss,
                expected,
                rtol=TOLERANCE[loss_dtype(dtype)] * 4,
                atol=TOLERANCE[loss_dtype(dtype)],
                what=f"{shape} {reduction}",
            )
            g = numbers(() if reduction != "none" else each.shape, loss_dtype(dtype), seed=2)
            dx = run_version(
                machine,
                lambda *i: kernels.soft_cross_entropy_grad(
                    *i,
                    label_smoothing=smoothing,  # noqa: B023
                    version=version,
                ),
                g,
                x,
                q,
                stats,
                divisor,
            )
            slope = (
                (reference("softmax", x, 1) * target.sum(1, keepdims=True) - target)
                * wide(g)[..., None, :]
                if g.ndim
                else (reference("softmax", x, 1) * target.sum(1, keepdims=True) - target) * wide(g)
            )
            slope /= each.size if reduction == "mean" else 1
            assert_close(
                dx,
                slope,
                rtol=TOLERANCE[dtype] * 4,
                atol=TOLERANCE[dtype] * 2,
                what=f"{shape} {reduction}",
            )


@pytest.mark.parametrize("columns", [4, 3000])
def test_extreme_logits_and_soft_labels(device, columns):
    x = np.full((4, columns), -3.0, np.float32)
    x[0, :2] = 1e4, 1e4 - 2
    x[1, 1:] = -np.inf
    x[2] = -np.inf
    x[3, 2] = np.inf
    q = np.zeros_like(x)
    q[:, :2] = 0.25, 0.75
    q[1:, 2:] = 1e-6
    loss = cm.ml.cross_entropy(cm.asarray(x), q, reduction="none").to_numpy()
    assert_close(
        loss[0], 0.25 * np.log1p(np.exp(-2)) + 0.75 * (2 + np.log1p(np.exp(-2))), rtol=1e-5
    )
    assert np.isposinf(loss[1]) and np.isnan(loss[2:]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("machine, version", versions("plain", "rows", "one_block", "long_rows"))
def test_cross_entropy_versions(machine, version, reduction, dtype):
    from cudamath.kernels.loss import dispatch as kernels

    shapes = (
        [(5, 7, 1)]
        if machine == "simulator"
        else [
            (5, 7, 1),
            (1000, 10, 1),
            (3, 5000, 1),
            (5, 5003, 1),
            (70000, 4, 1),
            (3, 50257, 1),
            (3, 4096, 1),
            (9, 8200, 1),
            (1001, 64, 1),
            (37, 1000, 1),
            (37, 1001, 1),
        ]
    )
    for shape in shapes + [(2, 3, 4)] * (version == "plain"):
        x = numbers(shape, dtype, scale=2)
        targets = np.random.default_rng(3).integers(0, shape[1], (shape[0], shape[2]))
        targets[1] = -100
        for smoothing in (0.0, 0.1):
            loss, stats, divisor = run_version(
                machine,
                lambda x, t: kernels.cross_entropy(
                    x,
                    t,
                    reduction=reduction,
                    ignore_index=-100,
                    label_smoothing=smoothing,
                    version=version,
                ),  # noqa: B023
                x,
                targets,
            )  # noqa: B023
            expected = loss_reference(x, targets, reduction, smoothing=smoothing)
            own = TOLERANCE[loss_dtype(dtype)]
            assert_close(loss, expected, rtol=own * 5, atol=own, what=f"{shape}")
            g = numbers(loss.shape, loss_dtype(dtype), seed=4)

            def gradient(g, x, *_, smoothing=smoothing):
                return kernels.cross_entropy_grad(
                    g,
                    x,
                    None,
                    None,
                    None,
                    ignore_index=-100,
                    label_smoothing=smoothing,
                    version=None if version == "one_block" else version,
                )

            arrays = g, x, targets, stats, divisor
            dx = run_version(machine, gradient, *arrays)
            np.testing.assert_array_equal(
                wide(written_over(machine, gradient, 1, *arrays)), wide(dx)
            )
            unit = reference("softmax", x, 1) - smoothing / shape[1]
            hot = np.where(targets == -100, 0, targets)[:, None]
            np.put_along_axis(unit, hot, np.take_along_axis(unit, hot, 1) - (1 - smoothing), 1)
            unit *= (targets != -100)[:, None]
            unit *= (
                wide(g)[:, None]
                if reduction == "none"
                else wide(g) / ((targets != -100).sum() if reduction == "mean" else 1)
            )
            assert_close(
                dx, unit, rtol=TOLERANCE[dtype] * 3, atol=TOLERANCE[dtype], what=f"{shape}"
            )


def few_logits(most):
    """Losses of few logits, again and again in the same call: in one launch on a GPU. `most`: rows
    of 600 for which one block has to look several times."""
    for dtype, (n, classes), (reduction, weighted, smoothing) in itertools.product(
        DTYPES,
        ((1, 1), (5, 7), (most, 600)),
        (
            ("mean", False, 0.1),
            ("mean", True, 0.0),
            ("sum", True, 0.0),
            ("none", False, 0.0),
            ("none", True, 0.0),
        ),
    ):
        weight = np.linspace(0.5, 2, classes) if weighted else None
        for seed in range(2):
            x = numbers((n, classes), dtype, scale=2, seed=seed)
            targets = np.random.default_rng(seed).integers(0, classes, n)
            targets[1:2] = -100
            factor = np.where(
                targets == -100, 0, 1 if weight is None else weight[np.maximum(targets, 0)]
            )
            each = loss_reference(x, targets, "none", smoothing=smoothing) * factor
            wanted = (
                each
                if reduction == "none"
                else each.sum() / (factor.sum() if reduction == "mean" else 1)
            )
            weights = None if weight is None else cm.asarray(weight)
            found = cm.ml.cross_entropy(
                cm.asarray(x),
                cm.asarray(targets),
                weight=weights,
                reduction=reduction,
                label_smoothing=smoothing,
            )
            assert found.dtype == loss_dtype(dtype) and found.shape == wanted.shape
            assert_close(
                found,
                wanted,
                rtol=TOLERANCE[loss_dtype(dtype)] * 5,
                atol=TOLERANCE[loss_dtype(dtype)],
                what=f"{dtype} {classes} {reduction}",
            )


@pytest.mark.simulator
def test_few_logits_simulated(monkeypatch):
    from cudamath.kernels.loss import cross_entropy

    monkeypatch.setattr(cross_entropy, "FEW_THREADS", 128)
    cross_entropy.few.cache_clear()
    with simulated_gpu(monkeypatch):
        few_logits(5)
    cross_entropy.few.cache_clear()


def test_few_logits(device):
    few_logits(20)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_few_logits_are_one_launch(fake, reduction, weighted):
    """More of them two, and one more for weights."""
    for n, launches in ((256, 1), (257, 2 + weighted)):
        x, targets, weight = (
            gpu(np.zeros((n, 64), np.float32)),
            gpu(np.zeros(n, int)),
            gpu(np.ones(64, np.float32)),
        )
        for _ in range(2):  # the second is looked up
            fake.launches.clear()
            found = cm.ml.cross_entropy(
                x, targets, reduction=reduction, weight=weight if weighted else None
            )
            assert (len(fake.launches), found.shape) == (
                launches,
                (n,) if reduction == "none" else (),
            )


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("version", ["plain", "rows", "one_block", "long_rows"])
def test_cross_entropy_of_rows_that_are_not_finite(version, dtype):
    """NaN anywhere, -inf throughout and +inf make a loss NaN; also in the ends of a row, which have
    threads of their own."""
    from cudamath.kernels.loss import dispatch as kernels

    x = numbers((7, 5003, 1), dtype)
    x[0, 100], x[1, 0], x[2, -1], x[3, 9] = np.nan, np.nan, np.nan, np.inf
    x[4], x[5, 1:] = -np.inf, -np.inf
    targets = np.zeros((7, 1), np.int64)
    found, _, _ = run_version(
        "gpu",
        lambda x, t: kernels.cross_entropy(
            x, t, reduction="none", ignore_index=-100, label_smoothing=0.0, version=version
        ),
        x,
        targets,
    )
    assert np.isnan(wide(found)[:5]).all() and wide(found)[5] == 0 and np.isfinite(wide(found)[6])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("columns", [9, 50_257])
def test_lines_of_large_numbers(device, dtype, columns):
    """What counts is how far numbers are apart, however large they are; a line that is masked
    throughout is uniform."""
    large = 3e4 if dtype == "float16" else 1e9
    x = numbers((4, columns), dtype, scale=2)
    x[0], x[1], x[2] = -large, large, -large
    x[2, 1::3] = large
    x[3] += 1000
    for name in ("softmax", "log_softmax"):
        found = getattr(cm.ml, name)(cm.asarray(x), axis=1)
        assert_close(
            found,
            reference(name, x, 1),
            rtol=TOLERANCE[dtype] * 4,
            atol=TOLERANCE[dtype] / columns,
            what=name,
        )


@pytest.mark.compiles
@pytest.mark.skipif(SIMULATOR, reason="the simulator does not compile")
def test_rows_between_borders_do_not_spill():
    """Rows that begin between the borders of 16-byte accesses: the slowest kernels of the
    family."""
    from cudamath.kernels.loss import dispatch as loss_dispatch
    from cudamath.kernels.softmax import dispatch as softmax_dispatch
    from cudamath.kernels.softmax import online
    from cudamath.runtime.device import assume

    x, g = (
        Layout.new((300, 1003, 1), np.dtype(cm.bfloat16), 0),
        Layout.new((300, 1003), np.dtype(cm.bfloat16), 0),
    )
    t, one = Layout.new((300, 1), np.dtype(np.int64), 0), Layout.new((), np.dtype(np.float32), 0)
    stats, divisor = (
        Layout.new((2, 300, 1), np.dtype(np.float32), 0),
        Layout.new((), np.dtype(np.float32), 0),
    )
    for plan, inputs in (
        (softmax_dispatch.plan((g, g), 1, True, version="rows"), [g, g]),
        (softmax_dispatch.plan((g, g), 1, False, version="long_rows"), [g, g]),
        (softmax_dispatch.plan((g,), 1, False, version="long_rows"), [g]),
        (
            loss_dispatch.cross_entropy(
                x, t, reduction="none", ignore_index=-100, label_smoothing=0.1, version="rows"
            ),
            [x, t],
        ),
        (
            loss_dispatch.cross_entropy_grad(
                one, x, None, None, None, ignore_index=-100, label_smoothing=0.1, version="rows"
            ),
            [one, x, t, stats, divisor],
        ),
    ):
        for found in compile_plan(plan, inputs, (9, 0)):
            assert found.spills == 0 and found.registers <= 128, found
    for capability in online.CACHE:
        kinds = [(True, cm.bfloat16), (False, np.float32), (False, np.float16)]
        for log, dtype in kinds if capability == (9, 0) else kinds[:1]:  # elsewhere the slowest
            v = Layout.new((300, 50257), np.dtype(dtype), 0)
            with assume(capability):
                plans = [
                    (softmax_dispatch.plan(i, 1, log, version="shared_memory"), list(i))
                    for i in ((v,), (v, v))
                ]
            for plan, inputs in plans:
                alone = (
                    plan.steps[0].shared > online.CACHE[capability]
                )  # one block per multiprocessor instead of two
                for found in compile_plan(plan, inputs, capability):
                    assert found.spills == 0 and found.registers <= (128 if alone else 64), (
                        found,
                        capability,
                    )


@pytest.mark.parametrize(
    ("capability", "dtype", "columns", "expected"),
    [
        ((9, 0), "float32", 50_257, "cluster"),
        ((9, 0), "bfloat16", 50_257, "cluster"),
        ((9, 0), "float32", 4096, "rows"),
        ((9, 0), "float64", 50_257, "long_rows"),
        ((8, 0), "bfloat16", 50_257, "shared_memory"),
        ((8, 9), "bfloat16", 50_257, "long_rows"),
        ((8, 0), "float32", 32_768, "rows"),
    ],
)
def test_which_kernel_softmax_takes(capability, dtype, columns, expected):
    if SIMULATOR:
        pytest.skip("the simulator has no accesses of 16 bytes")
    from cudamath.kernels.lib.versions import ordered
    from cudamath.kernels.softmax import dispatch as softmax_dispatch
    from cudamath.kernels.softmax.problem import Problem
    from cudamath.runtime.device import assume

    x = Layout.new((4000, columns), np.dtype(getattr(ml_dtypes, dtype, dtype)), 0)
    with assume(capability):
        problem = Problem((x,), 1, False)
        assert ordered(softmax_dispatch.VERSIONS, problem)[0].name == expected


@pytest.mark.parametrize(
    ("dtype", "shape", "expected"),
    [
        ("bfloat16", (8, 5000, 1), "cross_entropy_long_rows"),
        ("float16", (8, 50_257, 1), "cross_entropy_long_rows"),
        ("float32", (8, 50_257, 1), "cross_entropy_long_rows"),
        ("float32", (8, 4000, 1), "cross_entropy_rows"),
        ("float64", (8, 50_257, 1), "cross_entropy_rows"),
        ("bfloat16", (80, 1000, 1), "cross_entropy_rows"),
        ("bfloat16", (8, 5000, 3), "cross_entropy_plain"),
    ],
)
def test_which_kernel_cross_entropy_takes(dtype, shape, expected):
    """Long rows have their own, forward and backward."""
    if SIMULATOR:
        pytest.skip("the simulator has no accesses of 16 bytes")
    from cudamath.kernels.loss import dispatch as loss_dispatch
    from cudamath.runtime.device import assume

    x = Layout.new(shape, np.dtype(getattr(ml_dtypes, dtype, dtype)), 0)
    targets = Layout.new((shape[0], shape[2]), np.dtype(np.int64), 0)
    stats, one = (Layout.new(s, np.dtype(np.float32), 0) for s in ((2, shape[0], shape[2]), ()))
    with assume((9, 0)):
        forward = loss_dispatch.cross_entropy(
            x, targets, reduction="mean", ignore_index=-100, label_smoothing=0.1
        )
        backward = loss_dispatch.cross_entropy_grad(
            one, x, targets, stats, one, ignore_index=-100, label_smoothing=0.1
        )
    assert [forward.steps[0].kernel.__name__, backward.steps[0].kernel.__name__] == [
        expected,
        expected + "_grad",
    ]
