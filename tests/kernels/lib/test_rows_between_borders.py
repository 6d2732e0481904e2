"""Softmax and losses of rows that begin between the borders of 16-byte accesses, against float64:
each distance from the borders, the last access at the array's end, neighbours that are not finite.
"""

import numpy as np
import pytest
from gradient_checks import MACHINES, TOLERANCE, numbers, run_version, wide
from simulated_gpu import give_row_accesses

import cudamath as cm
from cudamath.testing import assert_close

KINDS = [("float32", 4), ("bfloat16", 8), ("float16", 8), ("float64", 2)]

pytestmark = pytest.mark.parametrize("machine", MACHINES)


@pytest.fixture(autouse=True)
def two_warps(machine, monkeypatch):
    """In the simulator blocks of any length are of 64 threads."""
    if machine == "gpu":
        yield
        return
    from cudamath.kernels.loss import linear_cross_entropy as linear
    from cudamath.kernels.softmax import simt

    monkeypatch.setattr(simt, "LONG", 64)
    monkeypatch.setattr(linear, "THREADS", 64)
    made = simt.long_rows, simt.long_rows_grad, linear.rows
    for factory in made:
        factory.cache_clear()
    yield
    for factory in made:
        factory.cache_clear()


def shapes(machine, dtype, width, monkeypatch):
    """Rows of fewer and more numbers than threads, of one access and less, and just so long that
    their ends take one access more."""
    if machine == "gpu":
        longest = 4635 if dtype == "float64" else 9269  # what the threads of a block can hold
        return [
            (31, 67),
            (19, 133),
            (40, 443),
            (17, 513),
            (9, 1601),
            (40, 2047),
            (11, 4093),
            (5, 4095),
            (3, longest),
            (1, 1023),
        ]
    from cudamath.kernels.loss import cross_entropy, cross_entropy_soft_targets
    from cudamath.kernels.loss import linear_cross_entropy as linear
    from cudamath.kernels.softmax import problem

    give_row_accesses(monkeypatch)
    for module in (problem, cross_entropy, cross_entropy_soft_targets, linear):
        monkeypatch.setattr(module, "access", lambda columns, *_: (width, True), raising=False)
    return [(9, 19), (3, 75), (1, 5)]


def exponentials(x):
    """(x - max, exp(x - max), its sum) in float64."""
    v = wide(x).astype(np.float64)
    d = v - v.max(1, keepdims=True)
    e = np.exp(d)
    return d, e, e.sum(1, keepdims=True)


def spoil_others(x):
    """A copy of x in which every second row is NaN; whether a row is."""
    there = x.copy()
    there[1::2] = np.nan
    return there, np.arange(len(x)) % 2 == 1


@pytest.mark.parametrize("dtype, width", KINDS)
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("version", ["rows", "long_rows"])
@np.errstate(all="ignore")
def test_softmax(machine, version, log, dtype, width, monkeypatch):
    from cudamath.kernels.softmax import dispatch

    taken = shapes(machine, dtype, width, monkeypatch)
    if machine == "simulator" and version == "long_rows":  # more than the threads read at a time
        taken = [*taken[:2], (2, 4 * 64 * width + 77)]
    for shape in taken:
        x, g = numbers(shape, dtype, scale=3), numbers(shape, dtype, seed=1)
        exact = dict(rtol=TOLERANCE[dtype] * 4, what=f"{shape}")

        def planned(*inputs):
            return dispatch.plan(inputs, 1, log, version=version)

        d, e, total = exponentials(x)
        y = run_version(machine, planned, x)
        assert_close(y, d - np.log(total) if log else e / total, atol=TOLERANCE[dtype] * 4, **exact)
        dx = run_version(machine, planned, g, y)
        wg, wy = wide(g).astype(np.float64), wide(y).astype(np.float64)
        if log:
            expected = wg - np.exp(wy) * wg.sum(1, keepdims=True)
        else:
            expected = wy * (wg - (wg * wy).sum(1, keepdims=True))
        assert_close(dx, expected, atol=TOLERANCE[dtype] * 5 * shape[1] ** 0.5, **exact)
        there, spoilt = spoil_others(x)
        for found in (
            run_version(machine, planned, there),
            run_version(machine, planned, g, np.where(np.isnan(there), there, y)),
        ):
            assert np.array_equal(np.isnan(wide(found)).all(1), spoilt)
            assert np.array_equal(np.isnan(wide(found)).any(1), spoilt)


@pytest.mark.parametrize("dtype, width", KINDS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@np.errstate(all="ignore")
def test_cross_entropy(machine, smoothing, dtype, width, monkeypatch):
    from cudamath.kernels.loss import dispatch

    for rows, classes in shapes(machine, dtype, width, monkeypatch):
        x = numbers((rows, classes), dtype, scale=2)
        targets = np.random.default_rng(3).integers(0, classes, (rows, 1))
        targets[0], targets[-1] = classes - 1, 0

        def loss(x, t):
            return dispatch.cross_entropy(
                x,
                t,
                reduction="none",
                ignore_index=-100,
                label_smoothing=smoothing,
                version="rows",
            )

        def gradient(g, x, *_):
            return dispatch.cross_entropy_grad(
                g,
                x,
                None,
                None,
                None,
                ignore_index=-100,
                label_smoothing=smoothing,
                version="rows",
            )

        there, spoilt = spoil_others(x)
        for logits, lost in ((x, np.zeros(rows, bool)), (there, spoilt)):
            d, e, total = exponentials(logits)
            chosen = np.take_along_axis(d, targets, 1)
            expected = np.log(total) - (1 - smoothing) * chosen
            expected -= smoothing * d.mean(1, keepdims=True)
            found, stats, divisor = run_version(machine, loss, logits[..., None], targets)
            own = TOLERANCE[found.dtype.name]
            assert np.array_equal(np.isnan(wide(found))[:, 0], lost)
            assert_close(found[~lost], expected[~lost], rtol=own * 5, atol=own * 5)
            g = numbers((rows, 1), found.dtype.name, seed=4)
            dx = run_version(machine, gradient, g, logits[..., None], targets, stats, divisor)
            slope = e / total - smoothing / classes
            hot = np.take_along_axis(slope, targets, 1) - (1 - smoothing)
            np.put_along_axis(slope, targets, hot, 1)
            slope *= wide(g)
            assert np.array_equal(np.isnan(wide(dx)).all((1, 2)), lost)
            rough = dict(rtol=TOLERANCE[dtype] * 3, atol=TOLERANCE[dtype])
            assert_close(dx[~lost, :, 0], slope[~lost], **rough, what=f"{rows} x {classes}")


@pytest.mark.parametrize("dtype, width", KINDS)
@np.errstate(all="ignore")
def test_soft_targets(machine, dtype, width, monkeypatch):
    from cudamath.kernels.loss import dispatch

    for rows, classes in shapes(machine, dtype, width, monkeypatch):
        x = numbers((rows, classes), dtype, scale=2)
        q = np.abs(numbers((rows, classes), seed=1))
        q = (q / q.sum(1, keepdims=True)).astype(x.dtype)
        loss, stats, divisor = run_version(
            machine,
            lambda x, q: dispatch.soft_cross_entropy(
                x, q, reduction="none", label_smoothing=0.1, version="rows"
            ),
            x[..., None],
            q[..., None],
        )
        d, e, total = exponentials(x)
        target = wide(q) * 0.9 + 0.1 / classes
        own = TOLERANCE[loss.dtype.name] * 10
        expected = -(target * (d - np.log(total))).sum(1)
        assert_close(loss[:, 0], expected, rtol=own, atol=own)
        g = numbers((rows, 1), loss.dtype.name, seed=4)
        dx = run_version(
            machine,
            lambda g, x, q, *_: dispatch.soft_cross_entropy_grad(
                g, x, q, None, None, label_smoothing=0.1, version="rows"
            ),
            g,
            x[..., None],
            q[..., None],
            stats,
            divisor,
        )
        slope = (e / total * target.sum(1, keepdims=True) - target) * wide(g)
        assert_close(dx[..., 0], slope, rtol=TOLERANCE[dtype] * 3, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype, width", KINDS)
@np.errstate(all="ignore")
def test_linear_loss(machine, dtype, width, monkeypatch):
    """The scores are changed in place: the neighbours' stay."""
    from cudamath.kernels.loss import dispatch

    for rows, columns in shapes(machine, dtype, width, monkeypatch)[:2]:
        x = numbers((rows, columns), dtype, scale=2)
        classes = columns - 2
        targets = np.random.default_rng(3).integers(0, classes, rows)
        count = np.asarray(rows, "float64" if dtype == "float64" else "float32")
        scores, given = x.copy(), targets.copy()
        options = dict(classes=classes, ignore_index=-100, version="rows")
        if machine == "simulator":
            losses = run_version(
                machine, lambda *a, o=options: dispatch.linear_loss(*a, **o), scores, given, count
            )
        else:
            there = [cm.asarray(a, device="cuda") for a in (x, targets, count)]
            layouts = [a._layout for a in there]
            plan = dispatch.linear_loss(*layouts, **options)
            losses = plan.bind("between", layouts)(*there).to_numpy()
            scores = there[0].to_numpy()
        d, e, total = exponentials(x[:, :classes])
        chosen = np.take_along_axis(d, targets[:, None], 1)
        own = TOLERANCE[losses.dtype.name] * 10
        assert_close(losses, (np.log(total) - chosen)[:, 0], rtol=own, atol=own)
        slope = np.zeros((rows, columns))
        slope[:, :classes] = e / total
        slope[np.arange(rows), targets] -= 1
        rough = dict(rtol=TOLERANCE[dtype] * 3, atol=TOLERANCE[dtype])
        assert_close(scores, slope / rows, **rough, what=f"{rows} x {columns}")
