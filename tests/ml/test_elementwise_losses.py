"""Losses of pairs of numbers: values and gradients against NumPy and PyTorch, orders in memory,
extremes, errors, versions."""

import functools

import numpy as np
import pytest
from gradient_checks import (
    DTYPES,
    TOLERANCE,
    check_gradient,
    check_resources,
    check_second_order,
    numbers,
    run_version,
    versions,
    wide,
)
from hypothesis import given
from hypothesis import strategies as st
from simulated_gpu import simulated_gpu
from strategies import shapes

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.compiler.lazy_numba import SIMULATOR
from cudamath.testing import assert_close

ml = cm.ml
OPEN = (0.05, 0.95)  # where probabilities are drawn from


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


#: name, options, the loss of each element, where x and target are drawn from (None: normal),
#: PyTorch's name
CASES = [
    ("mse_loss", {}, lambda x, t: (x - t) ** 2, None, None, "mse_loss"),
    ("l1_loss", {}, lambda x, t: abs(x - t), None, None, "l1_loss"),
    (
        "huber_loss",
        {},
        lambda x, t: np.where(abs(x - t) < 1, (x - t) ** 2 / 2, abs(x - t) - 0.5),
        None,
        None,
        "huber_loss",
    ),
    (
        "huber_loss",
        {"delta": 0.3},
        lambda x, t: np.where(abs(x - t) < 0.3, (x - t) ** 2 / 2, 0.3 * (abs(x - t) - 0.15)),
        None,
        None,
        "huber_loss",
    ),
    (
        "smooth_l1_loss",
        {"beta": 0.6},
        lambda x, t: np.where(abs(x - t) < 0.6, (x - t) ** 2 / 1.2, abs(x - t) - 0.3),
        None,
        None,
        "smooth_l1_loss",
    ),
    ("smooth_l1_loss", {"beta": 0}, lambda x, t: abs(x - t), None, None, "smooth_l1_loss"),
    (
        "bce_with_logits",
        {},
        lambda x, t: t * softplus(-x) + (1 - t) * softplus(x),
        None,
        OPEN,
        "binary_cross_entropy_with_logits",
    ),
    (
        "bce_with_logits",
        {"pos_weight": 2.5},
        lambda x, t: 2.5 * t * softplus(-x) + (1 - t) * softplus(x),
        None,
        OPEN,
        None,
    ),
    (
        "binary_cross_entropy",
        {},
        lambda x, t: -t * np.log(x) - (1 - t) * np.log(1 - x),
        OPEN,
        OPEN,
        "binary_cross_entropy",
    ),
    ("kl_div", {}, lambda x, t: t * (np.log(t) - x), (-3, 0), OPEN, "kl_div"),
    ("kl_div", {"log_target": True}, lambda x, t: np.exp(t) * (t - x), (-3, 0), (-3, 0), "kl_div"),
]
IDS = [f"{name} {options}" for name, options, *_ in CASES]
REDUCTIONS = {"mean": np.mean, "sum": np.sum, "none": lambda each: each}


def drawn(case, shape, dtype="float64"):
    rng = np.random.default_rng(3)
    return [
        np.asarray(rng.normal(size=shape) if span is None else rng.uniform(*span, shape)).astype(
            numbers((), dtype).dtype
        )
        for span in case[3:5]
    ]


def loss_dtype(dtype):
    """That of a loss: the one that it is computed in."""
    return np.dtype("float64" if dtype == "float64" else "float32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_values(device, case, dtype):
    name, options, each, *_ = case
    for shape in ((5, 7), (3, 700), (), (2, 3, 4)):
        x, t = drawn(case, shape, dtype)
        expected = each(*wide(x, t))
        for reduction, reduce in REDUCTIONS.items():
            y = getattr(ml, name)(cm.asarray(x), cm.asarray(t), reduction=reduction, **options)
            assert y.dtype == loss_dtype(dtype) and y.shape == np.shape(reduce(expected))
            tolerance = TOLERANCE[loss_dtype(dtype).name]
            assert_close(
                y,
                reduce(expected),
                rtol=tolerance * 3,
                atol=tolerance,
                what=f"{shape} {reduction}",
            )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_gradients(device, case, reduction):
    name, options, each, *_ = case
    arrays = drawn(case, (4, 5))
    fn = lambda *a: getattr(ml, name)(*a, reduction=reduction, **options)  # noqa: E731
    check_gradient(fn, lambda *a: REDUCTIONS[reduction](each(*a)), *arrays)
    check_second_order(fn, *arrays, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_gradients_of_a_mean_keep_their_digits(device, case, dtype):
    """1 / 300,000 is not rounded to 16 bits before it meets the slope."""
    name, options, _, *_ = case
    arrays = drawn(case, (3, 100_000), dtype)
    half = cm.grad(lambda *a: getattr(ml, name)(*a, **options) * 1000, (0, 1))(
        *map(cm.asarray, arrays)
    )
    full = cm.grad(lambda *a: getattr(ml, name)(*a, **options) * 1000, (0, 1))(
        *map(cm.asarray, wide(*arrays))
    )
    for found, expected in zip(half, full, strict=True):
        assert found.dtype == arrays[0].dtype
        scale = float(abs(expected).max())
        assert_close(
            found, expected.to_numpy(), rtol=TOLERANCE[dtype] * 3, atol=TOLERANCE[dtype] * scale
        )


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_agrees_with_torch(device, case):
    torch = pytest.importorskip("torch")
    name, options, _, _, _, theirs = case
    if theirs is None:
        pytest.skip("PyTorch wants this option as an array: test_weights")
    for reduction in (*REDUCTIONS, *(("batchmean",) if name == "kl_div" else ())):
        arrays = drawn(case, (4, 5, 2))
        there = [torch.tensor(a, requires_grad=True) for a in arrays]
        expected = getattr(torch.nn.functional, theirs)(*there, reduction=reduction, **options)
        weights = numbers(tuple(expected.shape), seed=5)
        slopes = torch.autograd.grad((expected * torch.tensor(weights)).sum(), there)
        fn = lambda *a: getattr(ml, name)(*a, reduction=reduction, **options)  # noqa: B023, E731
        assert_close(fn(*arrays), expected.detach().numpy(), rtol=1e-12, atol=1e-14)
        found = cm.grad(lambda *a: (fn(*a) * weights).sum(), (0, 1))(*arrays)  # noqa: B023
        for a, b in zip(found, slopes, strict=True):
            assert_close(a, b.numpy(), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_weights(device, reduction):
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    x, t, p = (
        numbers((6, 3)),
        np.random.default_rng(1).uniform(*OPEN, (6, 3)),
        np.random.default_rng(2).uniform(*OPEN, (6, 3)),
    )
    weight, positive = (
        np.array([[0.5], [2.0], [0.0], [1.0], [3.0], [0.1]]),
        np.array([0.2, 1.0, 4.0]),
    )
    cases = [
        (
            lambda x, t, w, q: ml.bce_with_logits(
                x, t, weight=w, pos_weight=q, reduction=reduction
            ),
            lambda x, t, w, q: f.binary_cross_entropy_with_logits(
                x, t, w, pos_weight=q, reduction=reduction
            ),
            (x, t, weight, positive),
        ),
        (
            lambda x, t, w: ml.binary_cross_entropy(x, t, weight=w, reduction=reduction),
            lambda x, t, w: f.binary_cross_entropy(x, t, w, reduction=reduction),
            (p, t, weight),
        ),
    ]
    for ours, theirs, arrays in cases:
        there = [
            torch.tensor(a, requires_grad=i == 0) for i, a in enumerate(arrays)
        ]  # PyTorch has none by its weights
        expected = theirs(*there)
        assert_close(ours(*arrays), expected.detach().numpy(), rtol=1e-12)
        slopes = torch.autograd.grad(expected.sum(), there[:1])
        assert_close(cm.grad(lambda *a: ours(*a).sum())(*arrays), slopes[0].numpy(), rtol=1e-11)  # noqa: B023
        check_gradient(ours, lambda *a: theirs(*map(torch.tensor, a)).numpy(), *arrays)  # noqa: B023


def test_orders_in_memory(device):
    """Channels last, transposed, sliced, reversed and repeated: the same loss, and no order
    forgotten in the gradient."""
    base, other = numbers((2, 6, 5, 4)), numbers((2, 6, 5, 4), seed=1)
    views = [
        lambda a: a.transpose((0, 3, 1, 2)),
        lambda a: a.transpose((3, 2, 1, 0)),
        lambda a: a[:, ::2],
        lambda a: a[::-1],
        lambda a: a[:, :, :1] + a * 0,
    ]
    for first in views:
        for second in views:
            x, t = first(base), second(other)
            if x.shape != t.shape:
                continue
            fn = lambda a, b: ml.mse_loss(first(a), second(b))  # noqa: B023, E731
            assert_close(fn(cm.asarray(base), cm.asarray(other)), ((x - t) ** 2).mean(), rtol=1e-13)
            check_gradient(fn, lambda a, b: ((first(a) - second(b)) ** 2).mean(), base, other)  # noqa: B023


@given(data=st.data())
def test_any_shape(data):
    shape = data.draw(shapes())
    case = data.draw(st.sampled_from(CASES))
    x, t = drawn(case, shape)
    reduction = data.draw(st.sampled_from(sorted(REDUCTIONS)))
    with np.errstate(all="ignore"):
        expected = REDUCTIONS[reduction](case[2](x, t)) if x.size or reduction != "mean" else np.nan
    fn = lambda a, b: getattr(ml, case[0])(a, b, reduction=reduction, **case[1])  # noqa: E731
    assert_close(fn(x, t), expected, rtol=1e-11, atol=1e-13)
    assert [
        g.shape for g in cm.grad(lambda a, b: fn(a, b).sum(), (0, 1))(cm.asarray(x), cm.asarray(t))
    ] == [shape, shape]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extremes(device, dtype):
    big = np.array([1e4, -1e4, 1e4, -1e4, 0.0], dtype)
    sure = np.array([1, 0, 0, 1, 0.5], dtype)
    assert_close(
        ml.bce_with_logits(big, sure, reduction="none"), [0, 0, 1e4, 1e4, np.log(2)], rtol=1e-6
    )
    assert_close(
        cm.grad(lambda a: ml.bce_with_logits(a, sure, reduction="sum"))(big),
        [0, 0, 1, -1, 0],
        rtol=1e-6,
        atol=1e-7,
    )
    small = np.array([-30.0, -60.0], dtype)  # the digits of a small loss
    assert_close(
        ml.bce_with_logits(small, np.zeros(2, dtype), reduction="none"),
        np.exp(small.astype(float)),
        rtol=1e-5,
    )
    certain = np.array([0, 1, 0, 1], dtype)
    assert_close(
        ml.binary_cross_entropy(certain, np.array([0, 1, 1, 0], dtype), reduction="none"),
        [0, 0, 100, 100],
        rtol=1e-6,
    )
    assert np.isfinite(
        cm.grad(lambda a: ml.binary_cross_entropy(a, certain))(certain).to_numpy()
    ).all()
    none = np.array([0.0, 1.0], dtype)
    assert_close(ml.kl_div(np.array([-5.0, 0.0], dtype), none, reduction="none"), [0, 0], rtol=0)
    assert_close(
        ml.kl_div(
            np.array([-5.0, 0.0], dtype),
            np.array([-np.inf, 0.0], dtype),
            reduction="none",
            log_target=True,
        ),
        [0, 0],
        rtol=0,
    )
    wrong = np.array([np.nan, 1.0], dtype)
    assert np.isnan(ml.kl_div(none, wrong).item()) and np.isnan(
        ml.kl_div(none, wrong, log_target=True).item()
    )
    assert np.isnan(ml.mse_loss(wrong, none).item())
    assert np.isnan(ml.huber_loss(np.array([np.nan, 1.0], dtype), none).item())


def test_dtypes_meet(device):
    x, t = numbers((4,), "bfloat16"), numbers((4,), "float32", seed=1)
    y, (dx, dt) = cm.value_and_grad(lambda a, b: ml.mse_loss(a, b), (0, 1))(
        cm.asarray(x), cm.asarray(t)
    )
    assert y.dtype == np.float32 and dx.dtype == cm.bfloat16 and dt.dtype == np.float32
    assert_close(y, ((wide(x) - wide(t)) ** 2).mean(), rtol=1e-6)


def test_in_a_fused_function(device):
    x, t = numbers((40, 6), "float32"), numbers((40, 6), "float32", seed=1)
    fused = cm.fuse(lambda a, b: ml.huber_loss(a * 2, b, reduction="none") + 1)
    d = 2 * wide(x) - wide(t)
    assert_close(
        fused(cm.asarray(x), cm.asarray(t)),
        np.where(abs(d) < 1, d * d / 2, abs(d) - 0.5) + 1,
        rtol=1e-6,
    )


@pytest.mark.simulator
def test_bfloat16_beyond_float16_in_a_fused_function(monkeypatch):
    """It is computed in float32, which has its range."""
    x, t = np.array([1e5, -3e38], cm.bfloat16), np.array([0.99e5, -3e38], cm.bfloat16)
    with simulated_gpu(monkeypatch):
        fused = cm.fuse(lambda a, b: ml.l1_loss(a, b, reduction="none") + 1)
        y = fused(cm.asarray(x), cm.asarray(t)).to_numpy()
    assert_close(y, abs(wide(x) - wide(t)) + 1, rtol=4e-3)


def test_errors(device):
    x = cm.zeros((3, 4))
    for name in (
        "mse_loss",
        "l1_loss",
        "huber_loss",
        "smooth_l1_loss",
        "bce_with_logits",
        "binary_cross_entropy",
        "kl_div",
    ):
        loss = getattr(ml, name)
        with pytest.raises(ValueError, match=rf"^{name}: .*\(3, 4\) and \(3, 1\)"):
            loss(x, x[:, :1])
        with pytest.raises(ValueError, match=f"^{name}: reduction .*'avg'"):
            loss(x, x, reduction="avg")
        with pytest.raises(TypeError, match=f"^{name}: .*int64"):
            loss(x, cm.zeros((3, 4), "int64"))
    for call, message in [
        (lambda: ml.huber_loss(x, x, delta=0), "huber_loss: delta .*0"),
        (lambda: ml.smooth_l1_loss(x, x, beta=-1), "smooth_l1_loss: beta .*-1"),
        (
            lambda: ml.bce_with_logits(x, x, weight=cm.ones(3)),
            r"bce_with_logits: wants weight .*\(3, 4\), got \(3,\)",
        ),
        (
            lambda: ml.bce_with_logits(x, x, pos_weight=cm.ones((2, 3, 4))),
            r"bce_with_logits: wants pos_weight .*\(2, 3, 4\)",
        ),
        (
            lambda: ml.kl_div(cm.zeros(()), cm.zeros(()), reduction="batchmean"),
            r"kl_div: .*batchmean.*\(\)",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("machine, version", versions("plain", "blocks"))
def test_sum_versions(machine, version, dtype):
    from cudamath.kernels.loss import dispatch

    for n in (
        (0, 1, 300) if machine == "simulator" else (0, 1, 7, 300, 4096, 4097, 100_003, 3_000_000)
    ):
        for case in CASES[:1] if n > 300 else CASES:
            x, t = drawn(case, (n,), dtype)
            kind = case[0] + (" (log)" if "log_target" in case[1] else "")
            p = next(iter(case[1].values()), 1.0)
            if case[1].get("beta") == 0:
                continue

            expected = case[2](*wide(x, t))
            for reduction, result in (
                ("sum", expected.sum()),
                ("mean", expected.sum() / max(n, 1)),
            ):
                if not n and reduction == "mean":
                    continue  # no number

                def make(a, b, kind=kind, reduction=reduction):
                    return dispatch.loss(a, b, kind=kind, reduction=reduction, version=version)

                y = run_version(machine, make, x, t, scalars=(float(p),))
                tolerance = TOLERANCE[loss_dtype(dtype).name]
                assert_close(
                    y,
                    result,
                    rtol=tolerance * 4,
                    atol=tolerance,
                    what=f"{case[0]} {n} {reduction}",
                )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("machine, version", versions("plain"))
def test_both_gradients_at_once(machine, version, dtype):
    """One launch for contiguous arrays, two for others; for an incoming number and for an incoming
    array; as one gradient at a time. Lengths that are no multiple of an access."""
    from cudamath.kernels.loss import dispatch

    def made(launches, kind):
        def make(*layouts):
            plan = dispatch.loss_grads(*layouts, kind=kind)
            assert [step.kernel.__name__ for step in plan.steps].count("pointwise_slopes") == (
                launches == 1
            )
            assert len(plan.steps) == launches
            return plan

        return make

    for n in (10,) if machine == "simulator" else (1, 7, 4096, 100_003):
        for case in CASES if n == 7 or (n == 10 and dtype == "float32") else CASES[:2]:
            x, t = drawn(case, (n, 2), dtype)
            kind = case[0] + (" (log)" if "log_target" in case[1] else "")
            p = float(next((v for v in case[1].values() if not isinstance(v, bool)), 1.0))
            if case[1].get("beta") == 0:
                continue
            incoming = loss_dtype(dtype).name
            for g in (numbers((), incoming), numbers((n, 2), incoming, 2)):
                for launches, (a, b) in ((1, (x, t)), (2, (x[:, ::-1], t))):
                    if launches == 2 and (machine == "gpu" or g.ndim):
                        continue  # a GPU's array has no negative strides here; one number is enough
                    found = run_version(machine, made(launches, kind), g, a, b, scalars=(p, 0.5))
                    for by, one in enumerate(found):
                        alone = run_version(
                            machine,
                            functools.partial(dispatch.loss_grad, kind=kind, by=by),
                            g,
                            a,
                            b,
                            scalars=(p, 0.5),
                        )
                        if machine == "simulator" or case[0] == "mse_loss":
                            np.testing.assert_array_equal(
                                one.view(f"u{one.itemsize}"), alone.view(f"u{one.itemsize}")
                            )
                        else:  # a compiler may contract what the two have in common otherwise
                            assert_close(
                                one,
                                wide(alone),
                                rtol=TOLERANCE[dtype],
                                atol=TOLERANCE[dtype],
                                what=kind,
                            )
                    if case[0] == "mse_loss":
                        expected = wide(g) * (wide(a) - wide(b))
                        assert_close(
                            found[0], expected, rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype]
                        )
                        assert_close(
                            found[1], -expected, rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype]
                        )


def test_both_gradients_are_one_op(device):
    """Where both arrays are differentiated by, and only there."""
    from cudamath.ml import loss_elementwise as pointwise

    x, t = cm.asarray(numbers((4, 3))), cm.asarray(numbers((4, 3), seed=1))
    cards = pointwise._pointwise_loss_grad, pointwise._pointwise_loss_grads
    for wanted in ((0, 1), (0,), (1,)):
        for card in cards:
            card.plans.clear()
        found = cm.grad(lambda a, b: ml.mse_loss(a, b), wanted)(x, t)
        assert [bool(card.plans) for card in cards] == [len(wanted) == 1, len(wanted) == 2]
        d = (x - t).to_numpy() / 6
        for by, one in zip(wanted, found, strict=True):
            assert_close(one, -d if by else d, rtol=1e-12)


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.skipif(SIMULATOR, reason="the simulator does not compile")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_spills(dtype):
    from cudamath.kernels.loss import dispatch
    from cudamath.kernels.loss import elementwise_losses as pointwise

    x = Layout.new((1_000_000,), numbers((), dtype).dtype, 0)
    for kind in pointwise.EXPRESSIONS:
        check_resources(dispatch.loss(x, x, kind=kind, reduction="mean"), [x, x], (9, 0))
        for shape in ((), x.shape):
            g = Layout.new(shape, loss_dtype(dtype), 0)
            check_resources(dispatch.loss_grads(g, x, x, kind=kind), [g, x, x], (9, 0))
