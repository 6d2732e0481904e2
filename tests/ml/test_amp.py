"""Mixed precision and learning-rate schedules, beside torch's GradScaler and schedulers."""

import math

import numpy as np
import optree
import pytest

import cudamath as cm

amp, schedules = cm.ml.amp, cm.ml.schedules


# -------------------- cast


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_cast(device, dtype):
    x = cm.asarray(np.linspace(-3, 3, 7, dtype="f4"))
    tree = {"w": [x.reshape(7, 1), x], "n": cm.arange(3), "k": 4, "name": "kept", "none": None}
    out = amp.cast(tree, dtype, keep=lambda p: p.ndim < 2)
    assert out["w"][0].dtype == dtype and out["w"][1] is x
    assert out["n"] is tree["n"] and (out["k"], out["name"], out["none"]) == (4, "kept", None)
    assert (
        out["w"][0].to_numpy().tobytes()
        == x.to_numpy().reshape(7, 1).astype(out["w"][0].dtype).tobytes()
    )
    assert amp.cast(x, "float32") is x


def test_gradients_of_cast_are_wide(device):
    """The gradient is computed in 16 bits, and comes back in the dtype of what was cast."""
    w, x = cm.asarray(np.float32([[1.01, 2.0], [3.0, 4.0]])), cm.asarray(np.float32([1.0, 0.1]))

    def loss(w):
        w, y = amp.cast((w, x), "bfloat16")
        return (w @ y).astype("float32").sum()

    g = cm.grad(loss)(w)
    tenth = np.float32(0.1).astype(cm.bfloat16).astype("f4")
    assert g.dtype == np.float32 and g.tolist() == [[1.0, tenth], [1.0, tenth]]


def test_norms_stay_wide_and_biases_do_not(device):
    """The recipe of `cast`: a network of everything that takes a bias computes in 16 bits beside
    float32 weights of norms."""
    names = {
        "conv": (4, 3, 3, 3),
        "conv.bias": 4,
        "norm": 4,
        "norm.bias": 4,
        "up": (4, 4, 2, 2),
        "up.bias": 4,
        "fc": (5, 4),
        "fc.bias": 5,
        "out": (2, 5),
        "out.bias": 2,
    }
    params = {name: cm.full(shape, 0.1, "float32") for name, shape in names.items()}
    copies = {name: p if "norm" in name else amp.cast(p, "bfloat16") for name, p in params.items()}
    seen = []

    def loss(p):
        y = cm.ml.conv2d(cm.ones((2, 3, 5, 5), "bfloat16"), p["conv"], p["conv.bias"])
        y = cm.ml.group_norm(y, 2, p["norm"], p["norm.bias"])
        y = cm.ml.conv_transpose2d(y, p["up"], p["up.bias"], stride=2).mean((2, 3))
        z = cm.ml.mlp(y, p["fc"], p["fc.bias"], p["out"], p["out.bias"])
        seen.extend([y.dtype, z.dtype])
        return z.astype("float32").sum()

    g = cm.grad(loss)(copies)
    assert set(seen) == {np.dtype(cm.bfloat16)} and copies["norm"] is params["norm"]
    assert {name: a.dtype for name, a in g.items()} == {name: a.dtype for name, a in copies.items()}


@pytest.mark.parametrize("recorded", [False, True])
def test_a_wide_bias_promotes(device, recorded):
    """As `x + bias`, and as the docstrings of `linear` and `mlp` say."""
    x, w, b = (
        cm.ones((2, 4), "bfloat16"),
        cm.full((4, 4), 0.25, "bfloat16"),
        cm.full(4, 2.0**-20, "float32"),
    )

    def run(b):
        return cm.ml.linear(x, w, b), cm.ml.mlp(x, w, b, w, None)

    one, two = cm.vjp(run, b)[0] if recorded else run(b)
    assert one.dtype == two.dtype == np.float32 and one.tolist() == [[1 + 2.0**-20] * 4] * 2


def test_computing_in(device):
    seen = []

    @amp.computing_in("bfloat16")
    def model(p, x, *, bias):
        seen.extend([p["w"].dtype, x.dtype, bias.dtype])
        return {"y": x @ p["w"] + bias, "count": 3}

    p, x, b = (
        {"w": cm.ones((3, 2), dtype="float32")},
        cm.ones((4, 3), dtype="float32"),
        cm.zeros(2, dtype="float32"),
    )
    out = model(p, x, bias=b)
    assert (
        set(seen) == {np.dtype(cm.bfloat16)} and out["y"].dtype == np.float32 and out["count"] == 3
    )
    g = cm.grad(lambda p: model(p, x, bias=b)["y"].sum())(p)
    assert g["w"].dtype == np.float32 and g["w"].tolist() == [[4.0, 4.0]] * 3
    assert model.__name__ == "model"
    wide = amp.computing_in("float16", result="float64")(lambda x: x * x)(x)
    assert wide.dtype == np.float64 and wide.tolist() == np.ones((4, 3)).tolist()


# -------------------- loss scaling


def test_the_scale_goes_as_torchs(device):
    """The same growth, backoff and counts as torch.amp.GradScaler, over a sequence with
    overflows."""
    torch = pytest.importorskip("torch")
    theirs = torch.amp.GradScaler(
        "cpu", init_scale=64.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=3
    )
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=0.5)
    state, ours = amp.loss_scale(64.0), cm.ones(2, dtype="float32")
    overflows = [0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]
    for turn, bad in enumerate(overflows):
        value = math.inf if bad else 0.1 * (turn + 1)
        optimizer.zero_grad()
        theirs.scale((p * torch.tensor([value, 1.0])).sum()).backward()
        theirs.step(optimizer)
        theirs.update()
        g = cm.grad(
            lambda w, value=value: (w * cm.asarray(np.float32([value, 1.0]))).sum() * state["scale"]
        )(ours)
        factor, norm = amp.unscale(g, state, growth=3.0, backoff=0.25, interval=3)
        cm.ml.sgd_update(ours, g, lr=0.5, factor=factor)
        assert float(state["scale"]) == theirs.get_scale()
        np.testing.assert_allclose(ours.to_numpy(), p.detach().numpy(), rtol=1e-6, atol=1e-7)
        assert (
            math.isinf(float(norm))
            if bad
            else float(norm) == pytest.approx(math.hypot(value, 1), rel=1e-6)
        )
    assert int(state["skipped"]) == sum(overflows)


def test_unscaled_gradients_are_clipped(device):
    state = amp.loss_scale(1024.0)
    g = [cm.asarray(np.float16([3 * 1024.0])), cm.asarray(np.float32([4 * 1024.0]))]
    factor, norm = amp.unscale(g, state, max_norm=1.0)
    assert float(norm) == 5.0 and float(factor) * 1024 == pytest.approx(0.2, rel=1e-6)
    assert float(amp.unscale(g, state)[0]) == 1 / 1024
    assert amp.unscale([cm.ones(2)], state)[1].dtype == np.float64


def test_states_that_change_after_their_use_give_no_wrong_gradient(device):
    """Gradients read what they were multiplied by when they are taken: the scale, or the number of
    the step, was the next."""
    scale, params, w = amp.loss_scale(4.0), [cm.ones(2)], cm.asarray([1.0, 2.0])
    state = cm.ml.adam_init(params)

    def after(change, number):
        return cm.grad(lambda w: ((w * number).sum(), change())[0])(w)

    for change, number in (
        (lambda: amp.unscale(cm.asarray([np.inf]), scale), scale["scale"]),
        (lambda: cm.ml.adam_update(params, [cm.ones(2)], state), state["step"]),
    ):
        with pytest.raises(RuntimeError, match="^multiply: .*changed in place after it was used"):
            after(change, number)
    with pytest.raises(ValueError, match="^unscale: not differentiable"):
        cm.grad(lambda s: amp.unscale(w, {**scale, "scale": s})[0])(scale["scale"])


def test_a_scale_never_grows_to_infinity(device):
    state = amp.loss_scale(2.0**127)
    for _ in range(3):
        amp.unscale([cm.ones(1, dtype="float32")], state, interval=1)
    assert float(state["scale"]) == 2.0**127 and int(state["skipped"]) == 0


def small_gradients(scaled):
    """The loss after training in float16 on gradients of some 1e-8, below what float16 can hold."""
    target = cm.asarray(np.float32([0.5, -0.25, 1.0]))
    params, copies = cm.zeros(3, dtype="float32"), cm.zeros(3, dtype="float16")
    state, scale = cm.ml.adam_init(params), amp.loss_scale(2.0**30)

    def loss(w):
        value = ((w.astype("float32") - target) ** 2).sum() * 1e-8
        return value * scale["scale"] if scaled else value

    for _ in range(60):
        g = cm.grad(loss)(copies)
        factor = amp.unscale(g, scale)[0] if scaled else None
        cm.ml.adam_update(params, g, state, lr=0.05, eps=1e-20, factor=factor, copies=copies)
    return float(((params - target) ** 2).sum()), int(scale["skipped"]), int(state["step"])


def test_training_in_float16_needs_the_scale(device):
    """Without it the gradients vanish; with it the first steps overflow, are left out, and training
    succeeds."""
    lost, _, _ = small_gradients(False)
    found, skipped, counted = small_gradients(True)
    assert lost > 1 and found < 0.05
    assert skipped == 0 and counted == 60
    w = cm.asarray(np.float16([100.0]))
    scale = amp.loss_scale(2.0**14)
    for _ in range(12):
        g = cm.grad(lambda w: (w * w).astype("float32").sum() * scale["scale"])(w)
        amp.unscale(g, scale)
    assert 200 * float(scale["scale"]) < 65504 and int(scale["skipped"]) >= 6


def test_a_nan_loss_is_left_out_and_counted(device):
    params = {"w": cm.ones(3, dtype="float32")}
    state, scale = cm.ml.adam_init(params), amp.loss_scale()
    for turn in range(4):
        bad = cm.asarray(np.float32(math.nan if turn in (1, 2) else 1.0))
        value, g = cm.value_and_grad(lambda p, bad=bad: (p["w"] ** 2).sum() * bad * scale["scale"])(
            params
        )
        factor, norm = amp.unscale(g, scale)
        cm.ml.adamw_update(params, g, state, lr=0.1, factor=factor)
        assert math.isnan(float(norm)) == math.isnan(float(value)) == (turn in (1, 2))
    assert (
        int(state["step"]) == 2
        and int(scale["skipped"]) == 2
        and float(scale["scale"]) == 65536 / 4
    )
    assert np.isfinite(params["w"].to_numpy()).all()


def test_a_nan_loss_raises_if_asked(device):
    scale = amp.loss_scale()
    with pytest.raises(
        FloatingPointError, match="unscale: the norm of the gradients is not finite"
    ):
        amp.unscale([cm.asarray([cm.nan])], scale, error_if_nonfinite=True)
        scale["scale"].item()
    assert int(scale["skipped"]) == 1
    amp.unscale([cm.asarray([1.0])], scale, error_if_nonfinite=True)
    assert int(scale["good"]) == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda g, s: amp.unscale(g, {}),
            ValueError,
            "wants a state of loss_scale, with scale, good and skipped, got dict",
        ),
        (lambda g, s: amp.unscale(g, 3.0), ValueError, "got float"),
        (
            lambda g, s: amp.unscale(g, {**s, "scale": 3.0}),
            TypeError,
            "wants scale in state as a 0-d float32 array, got float",
        ),
        (
            lambda g, s: amp.unscale(g, {**s, "good": cm.zeros(1)}),
            TypeError,
            r"0-d int64 array, got float64 of shape \(1,\)",
        ),
        (lambda g, s: amp.unscale(g, s, growth=1.0), ValueError, "growth > 1"),
        (lambda g, s: amp.unscale(g, s, backoff=1.0), ValueError, "backoff between 0 and 1"),
        (lambda g, s: amp.unscale(g, s, interval=0), ValueError, "positive whole interval, got 0"),
        (
            lambda g, s: amp.unscale(g, s, max_norm=-1.0),
            ValueError,
            "unscale: wants a max_norm >= 0, got -1.0",
        ),
        (lambda g, s: amp.unscale([], s), ValueError, "unscale: wants a tree of arrays"),
        (lambda g, s: amp.unscale([cm.arange(3)], s), TypeError, "unscale: wants floating-point"),
        (
            lambda g, s: amp.loss_scale(0.0),
            ValueError,
            "loss_scale: wants a finite initial scale > 0, got 0.0",
        ),
        (lambda g, s: amp.loss_scale(math.inf), ValueError, "got inf"),
        (
            lambda g, s: amp.cast(g, "int32"),
            TypeError,
            "cast: wants a floating-point dtype, got int32",
        ),
        (
            lambda g, s: amp.computing_in("int8"),
            TypeError,
            "computing_in: wants floating-point dtypes, got int8",
        ),
    ],
)
def test_errors(device, call, error, words):
    state = amp.loss_scale()
    with pytest.raises(error, match=words):
        call([cm.ones(3)], state)
    assert [x.item() for x in state.values()] == [65536.0, 0, 0]


def mixed_step(rate):
    """A training step of a small network in float16: loss scaling, clipping, AdamW."""

    def loss_fn(p, x, y, scale):
        h = cm.tanh(x @ p["a"] + p["b"].astype("float16"))
        return ((h @ p["c"]).astype("float32") - y).__pow__(2).mean() * scale

    def step(params, copies, state, scale, x, y):
        loss, g = cm.value_and_grad(loss_fn)(copies, x, y, scale["scale"])
        factor, norm = amp.unscale(g, scale, max_norm=1.0, interval=4)
        cm.ml.adamw_update(
            params,
            g,
            state,
            lr=rate(state["step"]),
            weight_decay=0.1,
            decay=lambda p: p.ndim > 1,
            factor=factor,
            copies=copies,
        )
        return loss, norm

    return step


def run_mixed(wrap):
    host = np.random.default_rng(0)
    params = {"a": host.normal(size=(8, 16)), "b": np.zeros(16), "c": host.normal(size=(16, 1))}
    params = optree.tree_map(lambda v: cm.asarray(v.astype("f4")), params)
    copies = amp.cast(params, "float16", keep=lambda p: p.ndim < 2)
    state, scale = cm.ml.adam_init(params), amp.loss_scale(2.0**17)
    step = wrap(mixed_step(schedules.cosine(0.05, steps=30, warmup=5)))
    seen = []
    for turn in range(30):
        x = host.normal(size=(32, 8))
        y = np.sin(x[:, :1])
        if turn == 9:
            x[3, 2] = np.nan
        before = float(scale["scale"])
        loss, norm = step(
            params, copies, state, scale, cm.asarray(x.astype("f2")), cm.asarray(y.astype("f4"))
        )
        seen.append((float(loss) / before, float(norm), float(scale["scale"])))
    for p, c in zip(optree.tree_leaves(params), optree.tree_leaves(copies), strict=True):
        assert p.astype(c.dtype).to_numpy().tobytes() == c.to_numpy().tobytes()
    return (
        seen,
        [x.to_numpy().tobytes() for x in optree.tree_leaves((params, state, scale))],
        (state, scale, step),
    )


def test_a_whole_step(device):
    seen, _, (state, scale, _) = run_mixed(lambda fn: fn)
    good = [row for row in seen if math.isfinite(row[1])]
    assert int(scale["skipped"]) == 30 - len(good) >= 2 and int(state["step"]) == len(good)
    assert math.isnan(seen[9][1]) and np.mean([row[0] for row in good[-4:]]) < 0.5 * good[0][0]


@pytest.mark.gpu
def test_a_whole_step_as_a_graph():
    """Bit for bit as without a graph: overflow, skipped step, growth, schedule and all."""
    with cm.device("cuda"):
        eager, graphed = run_mixed(lambda fn: fn), run_mixed(cm.cuda.graph)
    assert eager[1] == graphed[1] and graphed[2][2].graphs == 1
    np.testing.assert_array_equal(np.array(eager[0]), np.array(graphed[0]))


# -------------------- schedules


def torch_rates(make, steps):
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.3)
    scheduler = make(torch.optim.lr_scheduler, optimizer)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


SCHEDULES = {
    "cosine": (
        schedules.cosine(0.3, steps=20, end=0.01),
        lambda s, o: s.CosineAnnealingLR(o, 20, eta_min=0.01),
        21,
    ),
    "linear": (
        schedules.linear(0.3, steps=20, end=0.03),
        lambda s, o: s.LinearLR(o, 1.0, 0.1, 20),
        25,
    ),
    "step_decay": (
        schedules.step_decay(0.3, every=4, gamma=0.5),
        lambda s, o: s.StepLR(o, 4, 0.5),
        25,
    ),
    "exponential": (
        schedules.exponential(0.3, gamma=0.9),
        lambda s, o: s.ExponentialLR(o, 0.9),
        25,
    ),
    "one_cycle": (schedules.one_cycle(0.3, steps=25), lambda s, o: s.OneCycleLR(o, 0.3, 25), 25),
    "one_cycle early": (
        schedules.one_cycle(0.3, steps=40, rising=0.2, start_factor=10, end_factor=100),
        lambda s, o: s.OneCycleLR(o, 0.3, 40, pct_start=0.2, div_factor=10, final_div_factor=100),
        40,
    ),
    "constant": (schedules.constant(0.3), lambda s, o: s.ConstantLR(o, 1.0), 5),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_as_in_torch(device, name):
    rate, make, steps = SCHEDULES[name]
    expected = torch_rates(make, steps)
    np.testing.assert_allclose([rate(t) for t in range(steps)], expected, rtol=1e-12, atol=1e-15)
    arrays = [rate(cm.asarray(t)) for t in range(steps)]
    assert all(r.shape == () and r.dtype == np.float32 and r.device == device for r in arrays)
    np.testing.assert_allclose([float(r) for r in arrays], expected, rtol=2e-5, atol=1e-7)
    assert rate.__name__ == name.split()[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda w: schedules.constant(0.3, warmup=w),
        lambda w: schedules.cosine(0.3, steps=30, warmup=w),
        lambda w: schedules.linear(0.3, steps=30, warmup=w),
        lambda w: schedules.step_decay(0.3, every=50, warmup=w),
        lambda w: schedules.exponential(0.3, gamma=1.0, warmup=w),
    ],
)
def test_the_warm_up(device, make):
    rate = make(5)
    np.testing.assert_allclose([rate(t) for t in range(6)], 0.3 * np.arange(1, 7) / 6, rtol=1e-12)
    np.testing.assert_allclose(
        [float(rate(cm.asarray(t))) for t in range(6)], 0.3 * np.arange(1, 7) / 6, rtol=1e-6
    )
    assert rate(29) <= rate(5) and make(0)(0) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: schedules.cosine(-1.0, steps=3),
            ValueError,
            "cosine: wants a finite peak >= 0, got -1.0",
        ),
        (
            lambda: schedules.cosine(1.0, steps=3, warmup=3),
            ValueError,
            "cosine: wants more steps than those of the warm-up",
        ),
        (
            lambda: schedules.linear("1", steps=3),
            TypeError,
            "linear: wants peak as a number, got str",
        ),
        (
            lambda: schedules.step_decay(1.0, every=0),
            ValueError,
            "step_decay: wants every >= 1, got 0",
        ),
        (
            lambda: schedules.exponential(1.0, gamma=math.nan),
            ValueError,
            "exponential: wants a finite gamma",
        ),
        (
            lambda: schedules.one_cycle(1.0, steps=2),
            ValueError,
            "one_cycle: wants at least one step up",
        ),
        (
            lambda: schedules.constant(1.0)("3"),
            TypeError,
            "constant: wants the step as a number or a 0-d array, got str",
        ),
        (lambda: schedules.constant(1.0)(cm.zeros(2)), TypeError, r"got float64 of shape \(2,\)"),
    ],
)
def test_errors_of_schedules(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    "options",
    [
        {"growth": 1},
        {"growth": 0.5},
        {"growth": float("inf")},
        {"growth": float("nan")},
        {"backoff": 0},
        {"backoff": 1},
        {"backoff": 1.5},
        {"backoff": -0.5},
    ],
    ids=str,
)
def test_factors_that_would_not_find_a_scale(options):
    """The scale must grow by growth and shrink by backoff, and stay finite."""
    with cm.device("cpu"), pytest.raises(ValueError, match="^unscale: wants growth > 1 and back"):
        cm.ml.amp.unscale([cm.ones(1)], cm.ml.amp.loss_scale(), **options)
