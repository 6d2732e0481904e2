"""A linear layer and its cross entropy in one: against the two apart, PyTorch, and each kernel
version by name."""

import numpy as np
import pytest
from gradient_checks import (
    DTYPES,
    TOLERANCE,
    check_gradient,
    check_second_order,
    numbers,
    run_version,
    versions,
    wide,
)

import cudamath as cm
from cudamath.testing import assert_close


def definition(x, weight, targets, classes, ignore=-100):
    """In float64, one row after the other."""
    rows = [
        np.log(np.exp(s - s.max()).sum()) + s.max() - s[t]
        for s, t in zip(wide(x) @ wide(weight)[:classes].T, targets, strict=True)
        if t != ignore
    ]
    return np.mean(rows)


def operands(count, width, rows, classes, dtype):
    targets = np.random.default_rng(3).integers(0, classes, count)
    targets[1::5] = -100
    return numbers((count, width), dtype, 1), numbers((rows, width), dtype, 2), targets


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [None, 5, 1])
def test_values_and_slopes(device, dtype, rows):
    """Columns that are aligned and columns that are not; all at once and in parts."""
    for count, width, padded, classes in ((13, 8, 40, 33), (7, 5, 11, 11), (1, 3, 700, 640)):
        x, weight, targets = operands(count, width, padded, classes, dtype)

        def loss(x, weight, t=targets, c=classes):
            return cm.ml.linear_cross_entropy(x, weight, cm.asarray(t), classes=c, rows=rows)

        value, (dx, dweight) = cm.value_and_grad(loss, (0, 1))(cm.asarray(x), cm.asarray(weight))
        assert (
            value.dtype == ("float64" if dtype == "float64" else "float32") and dx.dtype == x.dtype
        )
        assert_close(
            wide(np.asarray(value)),
            definition(x, weight, targets, classes),
            rtol=2 * TOLERANCE[dtype],
        )
        s = wide(x) @ wide(weight)[:classes].T
        p = np.exp(s - s.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(count), np.maximum(targets, 0)] -= 1
        p[targets == -100] = 0
        p /= (targets != -100).sum()
        assert_close(
            wide(np.asarray(dx)),
            p @ wide(weight)[:classes],
            rtol=8 * TOLERANCE[dtype],
            atol=4 * TOLERANCE[dtype],
        )
        assert_close(
            wide(np.asarray(dweight))[:classes],
            p.T @ wide(x),
            rtol=8 * TOLERANCE[dtype],
            atol=4 * TOLERANCE[dtype],
        )
        assert not np.asarray(dweight)[classes:].any()
        assert float(loss(cm.asarray(x), cm.asarray(weight))) == pytest.approx(
            float(value), rel=1e-6
        )  # without gradients


def test_gradients(device):
    x, weight, targets = operands(6, 3, 5, 4, "float64")
    for rows in (None, 4):
        check_gradient(
            lambda x, w, r=rows: cm.ml.linear_cross_entropy(
                x, w, cm.asarray(targets), classes=4, rows=r
            ),
            lambda x, w: definition(x, w, targets, 4),
            x,
            weight,
        )
        check_second_order(
            lambda x, w, r=rows: cm.ml.linear_cross_entropy(
                x, w, cm.asarray(targets), classes=4, rows=r
            ),
            x,
            weight,
        )
    slope = cm.grad(lambda x: 3 * cm.ml.linear_cross_entropy(x, weight, cm.asarray(targets)))(
        cm.asarray(x)
    )  # x alone
    twice = cm.grad(lambda x: cm.ml.linear_cross_entropy(x, weight, cm.asarray(targets)))(
        cm.asarray(x)
    )
    assert_close(np.asarray(slope), 3 * np.asarray(twice), rtol=1e-12)


def test_against_torch(device):
    torch = pytest.importorskip("torch")
    x, weight, targets = operands(300, 32, 1000, 1000, "float32")
    theirs = [torch.from_numpy(a).requires_grad_() for a in (x, weight)]
    loss = torch.nn.functional.cross_entropy(theirs[0] @ theirs[1].T, torch.from_numpy(targets))
    loss.backward()
    value, slopes = cm.value_and_grad(
        lambda x, w: cm.ml.linear_cross_entropy(x, w, cm.asarray(targets)), (0, 1)
    )(cm.asarray(x), cm.asarray(weight))
    assert_close(np.asarray(value), loss.detach().numpy(), rtol=1e-6)
    for ours, other in zip(slopes, theirs, strict=True):
        assert_close(np.asarray(ours), other.grad.numpy(), rtol=1e-4, atol=1e-7)


def test_nothing_counts_and_bad_targets():
    x, weight = cm.ones((2, 3)), cm.ones((4, 3))
    assert np.isnan(float(cm.ml.linear_cross_entropy(x, weight, cm.array([-100, -100]))))
    words = r"linear_cross_entropy: target 4 at position \(1,\) is outside 0 .. 3"
    with cm.device("cpu"), pytest.raises(IndexError, match=words):
        cm.ml.linear_cross_entropy(np.ones((2, 3)), np.ones((4, 3)), np.array([0, 4]))


@pytest.mark.gpu
def test_bad_target_on_the_gpu():
    with cm.device("cuda"):
        cm.ml.linear_cross_entropy(cm.ones((2, 3)), cm.ones((4, 3)), cm.array([0, 4]))
        with pytest.raises(IndexError, match="linear_loss"):
            cm.cuda.synchronize()


def test_errors():
    x, weight, targets = cm.ones((2, 3)), cm.ones((4, 3)), cm.array([0, 1])
    loss = cm.ml.linear_cross_entropy
    for error, words, call in [
        (ValueError, r"got \(2, 3\), \(4, 2\) and \(2,\)", lambda: loss(x, weight[:, :2], targets)),
        (
            ValueError,
            r"targets \(\.\.\.\), got .* and \(3,\)",
            lambda: loss(x, weight, cm.array([0, 1, 2])),
        ),
        (
            ValueError,
            r"wants 1 to 4 classes for weight \(4, 3\), got 5",
            lambda: loss(x, weight, targets, classes=5),
        ),
        (ValueError, "rows must be at least 1, got 0", lambda: loss(x, weight, targets, rows=0)),
        (
            TypeError,
            "in one dtype, got float64 and float32",
            lambda: loss(x, weight.astype("float32"), targets),
        ),
        (TypeError, "integer targets, got float64", lambda: loss(x, weight, cm.ones(2))),
    ]:
        with pytest.raises(error, match="linear_cross_entropy: .*" + words):
            call()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nan_is_seen(device, dtype):
    """A class whose score is not a number, or +inf, in the middle of others: the loss is not a
    number either."""
    x, weight = numbers((6, 16), dtype), numbers((3000, 16), dtype, 1)
    for bad in (np.nan, np.inf):
        weight[1777] = bad
        loss = cm.ml.linear_cross_entropy(
            cm.asarray(x), cm.asarray(weight), cm.asarray([0, 1, 2, 3, 4, 5])
        )
        assert np.isnan(float(loss.astype("float32")))


@pytest.mark.parametrize("machine, version", versions("plain", "rows", "packed"))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_versions(machine, version, dtype):
    """Scores and losses of each kernel, against the CPU's function in float64; the GPU's with
    16-bit rows of both kinds."""
    from cudamath.cpu import linear_loss as cpu
    from cudamath.kernels.loss import dispatch as kernels

    sizes = (
        [(5, 9, 7)]
        if machine == "simulator"
        else [(70, 50304, 50257), (9, 40, 8), (33, 16400, 16384), (20, 72, 3)]
    )
    if version == "packed":
        if dtype != "bfloat16":
            pytest.skip("16-bit numbers alone")
    elif machine == "gpu":
        sizes.append((33, 1001, 1001))
    for lines, columns, classes in sizes:
        x = numbers((lines, columns), dtype, 5, 3.0)
        targets = np.random.default_rng(6).integers(0, classes, lines).astype(np.int32)
        targets[2] = -100
        x[1, 0], x[3] = -np.inf, 60.0
        count = np.asarray(lines - 1, "float64" if dtype == "float64" else "float32")
        full = wide(x).copy()
        losses = cpu.linear_loss(full, targets, wide(count), classes=classes, ignore_index=-100)
        options = {"classes": classes, "ignore_index": -100, "version": version}
        if machine == "simulator":
            scores = x.copy()
            found = run_version(
                machine, lambda *a, o=options: kernels.linear_loss(*a, **o), scores, targets, count
            )
        else:
            given = [cm.asarray(a, device="cuda") for a in (x, targets, count)]
            layouts = [a._layout for a in given]
            found = np.asarray(
                kernels.linear_loss(*layouts, **options).bind("version", layouts)(*given)
            )
            scores = np.asarray(given[0])
        assert_close(wide(found), losses, rtol=4e-6 if dtype != "float64" else 1e-13, atol=1e-6)
        assert_close(wide(scores), full, rtol=2 * TOLERANCE[dtype], atol=TOLERANCE[dtype] / lines)


def test_gradients_one_at_a_time(device):
    """By x alone, by the weight alone: as by both."""
    x, weight, targets = operands(9, 6, 7, 7, "float32")

    def loss(x, weight):
        return cm.ml.linear_cross_entropy(x, weight, targets, rows=4)

    both = cm.grad(loss, (0, 1))(cm.asarray(x), cm.asarray(weight))
    for place, expected in enumerate(both):
        alone = cm.grad(loss, place)(cm.asarray(x), cm.asarray(weight))
        assert_close(alone, expected.to_numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("place", [0, 1])
def test_a_scaled_float16_loss_keeps_small_gradients(device, place):
    """The factor of the loss comes in before gradients are rounded to float16, in which these would
    have hardly a digit without it."""
    rng, count, factor = np.random.default_rng(5), 1000, 4096.0
    x = (rng.standard_normal((count, 8)) * (1 if place == 0 else 1e-3)).astype(np.float16)
    weight = (rng.standard_normal((6, 8)) * (1e-3 if place == 0 else 1)).astype(np.float16)
    targets = rng.integers(0, 6, count)
    scores = wide(x) @ wide(weight).T
    slope = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    slope[np.arange(count), targets] -= 1
    exact = factor / count * (slope @ wide(weight) if place == 0 else slope.T @ wide(x))
    found = cm.grad(lambda *xw: cm.ml.linear_cross_entropy(*xw, targets, rows=100) * factor, place)(
        cm.asarray(x), cm.asarray(weight)
    )
    assert found.dtype == np.float16
    assert_close(wide(found.to_numpy()), exact, rtol=0, atol=0.01 * np.abs(exact).max())
