"""Optimizers and initial values: against the published formulas in float64, and against torch.optim
and torch.nn.init where there is torch."""

import math

import ml_dtypes
import numpy as np
import pytest

import cudamath as cm

BF16 = np.dtype(ml_dtypes.bfloat16)
SHAPES = [
    (7, 5),
    (3,),
    (0, 2),
    (),
    (4096,),
    (2, 3, 700),
]  # no element, one, a chunk of the fused kernel, more than one
METHODS = {
    "sgd": (
        lambda torch, p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01),
        "sgd_update",
        dict(lr=0.1, weight_decay=0.01),
    ),
    "momentum": (
        lambda torch, p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        "sgd_update",
        dict(lr=0.1, momentum=0.9, weight_decay=0.01),
    ),
    "nesterov": (
        lambda torch, p: torch.optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True),
        "sgd_update",
        dict(lr=0.05, momentum=0.8, nesterov=True),
    ),
    "adam": (
        lambda torch, p: torch.optim.Adam(
            p, lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1
        ),
        "adam_update",
        dict(lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1),
    ),
    "adam defaults": (lambda torch, p: torch.optim.Adam(p), "adam_update", {}),
    "adamw": (
        lambda torch, p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
        "adamw_update",
        dict(lr=0.01, weight_decay=0.1),
    ),
    "adamw defaults": (lambda torch, p: torch.optim.AdamW(p), "adamw_update", {}),
    "rmsprop": (
        lambda torch, p: torch.optim.RMSprop(p, lr=0.02, alpha=0.9, eps=1e-6, weight_decay=0.1),
        "rmsprop_update",
        dict(lr=0.02, alpha=0.9, eps=1e-6, weight_decay=0.1),
    ),
    "rmsprop defaults": (lambda torch, p: torch.optim.RMSprop(p), "rmsprop_update", {}),
    "adagrad": (
        lambda torch, p: torch.optim.Adagrad(p, lr=0.1, weight_decay=0.1),
        "adagrad_update",
        dict(lr=0.1, weight_decay=0.1),
    ),
}
SECOND = {"rmsprop_update": "square_avg", "adagrad_update": "sum"}  # torch's name of the state


def tree(arrays):
    """Six arrays as a tree with a dict, a list and a tuple in it."""
    a, b, c, d, e, f = arrays
    return {"a": a, "list": [b, c], "deeper": {"pair": (d, e), "f": f}}


def flat(t):
    return [t["a"], *t["list"], *t["deeper"]["pair"], t["deeper"]["f"]]


def start(function, params):
    return cm.ml.adam_init(params) if function.startswith("adam") else None


def normals(seed, dtype):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in SHAPES]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


class Formula:
    """One parameter's steps by the formulas of torch.optim's documentation, in float64."""

    def __init__(self, function, p, options):
        self.function, self.p = function, p.astype(np.float64)
        self.options = {**DEFAULTS[function], **options}
        self.first = self.second = np.zeros_like(self.p)
        self.count = 0

    def step(self, g):
        o, p, self.count = self.options, self.p, self.count + 1
        lr, decay = o["lr"], o["weight_decay"]
        d = g.astype(np.float64) + (0 if self.function == "adamw_update" else decay * p)
        if self.function == "sgd_update":
            self.first = o["momentum"] * self.first + d
            d = d + o["momentum"] * self.first if o["nesterov"] else self.first
            self.p = p - lr * d
        elif self.function in ("adam_update", "adamw_update"):
            b1, b2 = o["betas"]
            self.first = b1 * self.first + (1 - b1) * d
            self.second = b2 * self.second + (1 - b2) * d**2
            mean, square = self.first / (1 - b1**self.count), self.second / (1 - b2**self.count)
            p = p * (1 - lr * decay) if self.function == "adamw_update" else p
            self.p = p - lr * mean / (np.sqrt(square) + o["eps"])
        else:
            alpha = o.get("alpha")
            self.second = (
                self.second + d**2 if alpha is None else alpha * self.second + (1 - alpha) * d**2
            )
            self.p = p - lr * d / (np.sqrt(self.second) + o["eps"])


#: Of torch.optim (SGD's lr has none).
DEFAULTS = {
    "sgd_update": dict(momentum=0.0, weight_decay=0.0, nesterov=False),
    "adam_update": dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0),
    "adamw_update": dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2),
    "rmsprop_update": dict(lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0),
    "adagrad_update": dict(lr=1e-2, eps=1e-10, weight_decay=0.0),
}


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-6)], ids=["float64", "float32"]
)
@pytest.mark.parametrize("method", METHODS)
def test_five_steps_by_the_formulas(device, method, dtype, tolerance):
    _, function, options = METHODS[method]
    host = normals(0, dtype)
    formulas = [Formula(function, x, options) for x in host]
    params = tree([cm.array(x) for x in host])
    state = start(function, params)
    for step in range(1, 6):
        grads = normals(step, dtype)
        for formula, g in zip(formulas, grads, strict=True):
            formula.step(g)
        params, state = getattr(cm.ml, function)(
            params, tree([cm.array(g) for g in grads]), state, **options
        )
        for ours, formula in zip(flat(params), formulas, strict=True):
            np.testing.assert_allclose(
                ours.to_numpy(), formula.p, rtol=tolerance, atol=tolerance, err_msg=method
            )


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-6)], ids=["float64", "float32"]
)
@pytest.mark.parametrize("method", METHODS)
def test_five_steps_as_in_torch(device, method, dtype, tolerance, torch):
    make, function, options = METHODS[method]
    host = normals(0, dtype)
    theirs = [torch.tensor(x, requires_grad=True) for x in host]
    optimizer = make(torch, theirs)
    params = tree([cm.array(x) for x in host])
    kept = flat(params)
    state = start(function, params)
    for step in range(1, 6):
        grads = normals(step, dtype)
        for t, g in zip(theirs, grads, strict=True):
            t.grad = torch.tensor(g)
        optimizer.step()
        params, state = getattr(cm.ml, function)(
            params, tree([cm.array(g) for g in grads]), state, **options
        )
        for ours, t in zip(flat(params), theirs, strict=True):
            np.testing.assert_allclose(
                ours.to_numpy(), t.detach().numpy(), rtol=tolerance, atol=tolerance
            )
    assert all(a is b for a, b in zip(flat(params), kept, strict=True))  # in place
    if function.startswith("adam"):
        assert state["step"] == 5
        for ours, t in zip(flat(state["v"]), theirs, strict=True):
            np.testing.assert_allclose(
                ours.to_numpy(),
                optimizer.state[t]["exp_avg_sq"].numpy(),
                rtol=tolerance,
                atol=0.01 * tolerance,
            )  # moments of some 0.01: g + weight_decay p may cancel
    elif "momentum" in options:
        for ours, t in zip(flat(state), theirs, strict=True):
            np.testing.assert_allclose(
                ours.to_numpy(),
                optimizer.state[t]["momentum_buffer"].numpy(),
                rtol=tolerance,
                atol=tolerance,
            )
    elif function in SECOND:
        for ours, t in zip(flat(state), theirs, strict=True):
            np.testing.assert_allclose(
                ours.to_numpy(),
                optimizer.state[t][SECOND[function]].numpy(),
                rtol=tolerance,
                atol=tolerance,
            )
    else:
        assert state is None


def test_lion_by_its_formula(device):
    host, lr, beta1, beta2, decay = normals(0, np.float64), 0.01, 0.8, 0.95, 0.1
    params, state = tree([cm.array(x) for x in host]), None
    moments = [np.zeros_like(x) for x in host]
    for step in range(1, 6):
        grads = normals(step, np.float64)
        grads[0][0] = 0
        params, state = cm.ml.lion_update(
            params,
            tree([cm.array(g) for g in grads]),
            state,
            lr=lr,
            betas=(beta1, beta2),
            weight_decay=decay,
        )
        for i, g in enumerate(grads):
            host[i] = host[i] - lr * (
                np.sign(beta1 * moments[i] + (1 - beta1) * g) + decay * host[i]
            )
            moments[i] = beta2 * moments[i] + (1 - beta2) * g
        for ours, m, want, moment in zip(flat(params), flat(state), host, moments, strict=True):
            np.testing.assert_allclose(ours.to_numpy(), want, rtol=1e-13, atol=1e-14)
            np.testing.assert_allclose(m.to_numpy(), moment, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
@pytest.mark.parametrize("method", ["sgd", "momentum", "adam", "adamw", "rmsprop"])
def test_half_precision_steps_in_float32(device, method, dtype, torch):
    """Each step: the float32 step of torch from the same (rounded) parameters and states, rounded
    once."""
    make, function, options = METHODS[method]
    params = tree([cm.array(x) for x in normals(0, dtype)])
    state = start(function, params)
    wide = [torch.tensor(x.astype(np.float32), requires_grad=True) for x in normals(0, dtype)]
    optimizer = make(torch, wide)
    for step in range(1, 4):
        grads = normals(step, dtype)
        for t, g in zip(wide, grads, strict=True):
            t.grad = torch.tensor(g.astype(np.float32))
        optimizer.step()
        params, state = getattr(cm.ml, function)(
            params, tree([cm.array(g) for g in grads]), state, **options
        )
        for ours, t in zip(flat(params), wide, strict=True):
            got, want = ours.to_numpy().astype(np.float64), t.detach().numpy().astype(np.float64)
            assert ours.dtype == dtype
            eps = 2.0**-11 if dtype == np.float16 else 2.0**-8
            assert (np.abs(got - want) <= eps * np.abs(want) * 1.01 + 2e-6).all()
            with torch.no_grad():
                t.copy_(torch.tensor(got.astype(np.float32)))  # go on from the rounded parameters
    if state is not None:
        assert all(v.dtype == np.float32 for v in flat(state["v"] if "v" in state else state))


def test_mixed_dtypes_alignments_and_views(device):
    rng = np.random.default_rng(0)
    host = [rng.standard_normal(50).astype(dtype) for dtype in (np.float32, np.float64, BF16)]
    base = cm.array(np.arange(101, dtype=np.float32))
    params = [cm.array(x) for x in host] + [base[1:]]  # a view that is not 16-byte aligned
    grads = [cm.array(np.full(50, 0.5, x.dtype)) for x in host]
    grads.append(cm.array(np.ones((100, 2), np.float32))[:, 0])
    before = [p.to_numpy().astype(np.float64).copy() for p in params]
    cm.ml.sgd_update(params, grads, lr=0.25)
    for p, b, g in zip(params, before, grads, strict=True):
        np.testing.assert_allclose(
            p.to_numpy().astype(np.float64),
            b - 0.25 * g.to_numpy().astype(np.float64),
            rtol=2.0**-8 if p.dtype == BF16 else 1e-6,
        )
    np.testing.assert_array_equal(base.to_numpy(), np.concatenate([[0], np.arange(1, 101) - 0.25]))
    assert params[2].to_numpy().astype(np.float64).tolist() != before[2].tolist()


def test_empty_trees_and_single_arrays(device):
    assert cm.ml.sgd_update({}, {}, lr=0.1) == ({}, None)
    params, state = cm.ml.adam_update([], [], cm.ml.adam_init([]))
    assert (params, state["step"]) == ([], 1)
    p = cm.array([1.0])
    cm.ml.sgd_update(p, cm.array([1.0]), lr=0.5)
    assert p.tolist() == [0.5]


def test_training_finds_the_minimum(device):
    target = cm.array(np.linspace(-1, 1, 10))
    params = {"w": cm.zeros(10)}
    state = cm.ml.adam_init(params)
    for _ in range(300):
        grads = cm.grad(lambda p: ((p["w"] - target) ** 2).sum())(params)
        params, state = cm.ml.adam_update(params, grads, state, lr=0.05)
    np.testing.assert_allclose(params["w"].to_numpy(), target.to_numpy(), atol=1e-3)


def test_the_same_bits_every_time(device):
    def run():
        params = tree([cm.array(x) for x in normals(3, np.float32)])
        state = cm.ml.adam_init(params)
        for step in range(3):
            cm.ml.adamw_update(
                params, tree([cm.array(g) for g in normals(step, np.float32)]), state
            )
        return [p.to_numpy().tobytes() for p in flat(params)]

    assert run() == run()


def params_of(dtype="float64"):
    return {"w": cm.array([1.0, 2.0, 3.0]).astype(dtype)}


def adam(p, g, s=None, **options):
    return cm.ml.adam_update(p, g, cm.ml.adam_init(p) if s is None else s, **options)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda p: cm.ml.sgd_update(p, {"v": p["w"]}, lr=0.1),
            ValueError,
            "sgd_update: wants grads of the structure",
        ),
        (
            lambda p: cm.ml.sgd_update(p, [p["w"]], lr=0.1),
            ValueError,
            "sgd_update: wants grads of the structure",
        ),
        (
            lambda p: cm.ml.sgd_update(p, {"w": cm.zeros(2)}, lr=0.1),
            ValueError,
            "grads of shape (3,) at ['w'], got (2,)",
        ),
        (
            lambda p: cm.ml.sgd_update(p, {"w": cm.zeros(3).astype("float32")}, lr=0.1),
            TypeError,
            "grads of float64 at ['w'], got float32",
        ),
        (lambda p: cm.ml.sgd_update(p, {"w": [1, 2, 3]}, lr=0.1), ValueError, "structure"),
        (
            lambda p: cm.ml.sgd_update(p, {"w": np.ones(3)}, lr=0.1),
            TypeError,
            "cudamath arrays in grads, got ndarray",
        ),
        (
            lambda p: cm.ml.sgd_update({"w": cm.array([1, 2])}, {"w": cm.array([1, 2])}, lr=0.1),
            TypeError,
            "floating-point parameters, got int64",
        ),
        (lambda p: cm.ml.sgd_update(p, p, lr=-0.1), ValueError, "lr >= 0, got -0.1"),
        (lambda p: cm.ml.sgd_update(p, p, lr=math.nan), ValueError, "finite lr"),
        (lambda p: cm.ml.sgd_update(p, p, lr="1"), TypeError, "lr as a number, got str"),
        (lambda p: cm.ml.sgd_update(p, p, lr=1, momentum=-1), ValueError, "momentum >= 0"),
        (lambda p: cm.ml.sgd_update(p, p, lr=1, weight_decay=-1), ValueError, "weight_decay >= 0"),
        (
            lambda p: cm.ml.sgd_update(p, p, lr=1, nesterov=True),
            ValueError,
            "nesterov wants momentum > 0",
        ),
        (
            lambda p: cm.ml.sgd_update(p, p, {"w": cm.zeros(4)}, lr=1, momentum=0.9),
            ValueError,
            "state of shape (3,)",
        ),
        (
            lambda p: cm.ml.sgd_update({"w": p["w"][::2]}, {"w": p["w"][::2]}, lr=1),
            ValueError,
            "without gaps in memory",
        ),
        (lambda p: adam(p, p, {"m": p}), ValueError, "adam_update: wants a state of adam_init"),
        (lambda p: adam(p, p, 3), ValueError, "got int"),
        (lambda p: adam(p, p, betas=(0.9, 1.0)), ValueError, "betas in [0, 1)"),
        (
            lambda p: adam(p, p, betas=(None, 0.9)),
            ValueError,
            "adam_update: wants two betas in [0, 1)",
        ),
        (lambda p: adam(p, p, eps=-1), ValueError, "eps >= 0"),
        (
            lambda p: adam(p, p, factor="x"),
            TypeError,
            "adam_update: wants factor as a number or a 0-d array, got str",
        ),
        (lambda p: adam(p, p, {"step": -1, "m": p, "v": p}), ValueError, "step >= 0"),
        (
            lambda p: adam(p, p, {"step": 0, "m": {"w": cm.zeros(3).astype("float32")}, "v": p}),
            TypeError,
            "m of float64",
        ),
        (
            lambda p: cm.ml.adamw_update(p, {}, cm.ml.adam_init(p)),
            ValueError,
            "adamw_update: wants grads",
        ),
        (lambda p: cm.ml.adam_init({"w": 3}), TypeError, "adam_init: wants cudamath arrays"),
        (lambda p: cm.ml.adam_init(cm.array([1])), TypeError, "floating-point parameters"),
        (
            lambda p: cm.ml.rmsprop_update(p, p, alpha=1.0),
            ValueError,
            "rmsprop_update: wants alpha in [0, 1), got 1.0",
        ),
        (
            lambda p: cm.ml.rmsprop_update(p, p, alpha="x"),
            TypeError,
            "rmsprop_update: wants alpha as a number, got str",
        ),
        (
            lambda p: cm.ml.adagrad_update(p, p, lr=-1.0),
            ValueError,
            "adagrad_update: wants a finite lr >= 0",
        ),
        (
            lambda p: cm.ml.lion_update(p, p, betas=(0.9, 1.0)),
            ValueError,
            "lion_update: wants two betas in [0, 1)",
        ),
        (
            lambda p: cm.ml.clip_grad_norm({}, 1.0),
            ValueError,
            "clip_grad_norm: wants a tree of arrays",
        ),
        (lambda p: cm.ml.clip_grad_norm(p, -1.0), ValueError, "max_norm >= 0"),
        (
            lambda p: cm.ml.clip_grad_norm(cm.array([1]), 1.0),
            TypeError,
            "clip_grad_norm: wants floating-point",
        ),
        (
            lambda p: cm.grad(lambda q: cm.ml.sgd_update(q, p, lr=1)[0]["w"].sum())(p),
            ValueError,
            "is being recorded",
        ),
    ],
)
def test_errors_leave_everything_as_it_was(device, call, error, words):
    params = params_of()
    with pytest.raises(error) as caught:
        call(params)
    assert words in str(caught.value)
    assert params["w"].tolist() == [1, 2, 3]


def test_trees_of_the_same_arrays_in_other_parts_are_checked(device):
    """Six arrays are parameters and gradients of three, or those and states of two; four are
    those of two, or all of one parameter of adam: what is right for one is wrong for the other."""
    p = [cm.ones(3, "float32") for _ in range(3)]
    g = [cm.ones(3, "float16") for _ in range(3)]
    cm.ml.sgd_update(p, g, lr=0.1)
    with pytest.raises(TypeError, match="^sgd_update: wants state of float32 at .* got float16"):
        cm.ml.sgd_update(p[:2], [p[2], g[0]], g[1:], lr=0.1, momentum=0.9)
    cm.ml.sgd_update(p[:2], g[:2], lr=0.1)
    state = {**cm.ml.adam_init(p[:1]), "m": g[:1], "v": g[1:2]}
    with pytest.raises(TypeError, match="^adam_update: wants m of float32 at .* got float16"):
        cm.ml.adam_update(p[:1], p[1:2], state, lr=0.1)


def test_a_failed_adam_step_changes_no_state(device):
    params = params_of()
    state = cm.ml.adam_init(params)
    with pytest.raises(ValueError, match="shape"):
        cm.ml.adam_update(params, {"w": cm.ones(4)}, state)
    assert state["step"] == 0
    assert state["m"]["w"].tolist() == state["v"]["w"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, BF16], ids=str)
def test_clip_grad_norm_as_in_torch(device, dtype, torch):
    grads = [g.astype(dtype) for g in normals(1, np.float64)]
    for most in (0.5, 1e9):
        theirs = [torch.nn.Parameter(torch.tensor(g.astype(np.float64))) for g in grads]
        for t in theirs:
            t.grad = t.detach().clone()
        total = torch.nn.utils.clip_grad_norm_(theirs, most)
        clipped, norm = cm.ml.clip_grad_norm(tree([cm.array(g) for g in grads]), most)
        eps = {8: 1e-13, 4: 1e-6}.get(np.dtype(dtype).itemsize, 2.0**-8)
        assert abs(float(norm) / float(total) - 1) < min(eps, 1e-5)
        for ours, t in zip(flat(clipped), theirs, strict=True):
            assert ours.dtype == dtype
            np.testing.assert_allclose(
                ours.to_numpy().astype(np.float64), t.grad.numpy(), rtol=eps, atol=1e-7
            )


def test_clip_grad_norm_of_mixed_dtypes_and_views(device):
    """Results of one dtype share memory: each has its own place in it. Alignment, order and
    emptiness do not matter."""
    rng = np.random.default_rng(3)
    host = [
        rng.standard_normal(shape).astype(dtype)
        for dtype in (np.float32, BF16, np.float32, np.float64, np.float16)
        for shape in ((5, 3), (0, 4), (4099,), ())
    ]
    base = cm.array(rng.standard_normal((9, 7)).astype(np.float32))
    grads = [cm.array(x) for x in host] + [base.T, base.reshape(-1)[1:]]
    exact = [g.to_numpy().astype(np.float64) for g in grads]
    want = math.sqrt(sum((x * x).sum() for x in exact))
    clipped, norm = cm.ml.clip_grad_norm(grads, 2.0)
    assert norm.dtype == np.float64 and abs(float(norm) / want - 1) < 1e-7
    for ours, g, x in zip(clipped, grads, exact, strict=True):
        assert ours.dtype == g.dtype and ours.shape == g.shape
        eps = {8: 1e-7, 4: 3e-7}.get(g.dtype.itemsize, 2.0**-8)
        np.testing.assert_allclose(
            ours.to_numpy().astype(np.float64), x * (2 / want), rtol=eps, atol=1e-7
        )
    clipped[0][...] = 7  # leaves its neighbours alone
    np.testing.assert_allclose(clipped[2].to_numpy(), exact[2] * (2 / want), rtol=3e-7)
    clipped, norm = cm.ml.clip_grad_norm([cm.array([1.0, np.nan]), cm.array([2.0])], 1.0)
    assert math.isnan(float(norm)) and all(np.isnan(c.to_numpy()).all() for c in clipped)


def test_clip_grad_norm_has_a_gradient(device, torch):
    def value(x):
        (a, b), norm = cm.ml.clip_grad_norm([x[:2], x[2:]], 1.0)
        return (a * cm.array([1.0, 2.0])).sum() + b.sum() + norm

    t = torch.tensor([1.0, 2.0, -3.0], dtype=torch.float64, requires_grad=True)
    norm = t.norm()
    ((t / (norm + 1e-6) * torch.tensor([1.0, 2.0, 1.0])).sum() + norm).backward()
    np.testing.assert_allclose(
        cm.grad(value)(cm.array([1.0, 2.0, -3.0])).to_numpy(), t.grad.numpy(), rtol=1e-12
    )


# -------------------- kernels by name


def clip_case(dtype, double):
    rng = np.random.default_rng(2)
    grads = [rng.standard_normal(n).astype(dtype) for n in (5, 8200, 0, 16)]
    grads += [rng.standard_normal(9).astype(np.float64)] if double else []
    norm = math.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in grads))
    begins = [0, 8, 8208, 8208]
    return grads, norm, begins, {8: 1e-12, 4: 1e-6}.get(np.dtype(dtype).itemsize, 2.0**-8)


def check_clip(outputs, case, most):
    grads, norm, begins, eps = case
    first, *results = [np.asarray(out).astype(np.float64) for out in outputs]
    assert abs(first.item() / norm - 1) < 1e-6
    for g, begin in zip(grads[:4], begins, strict=True):
        want = g.astype(np.float64) * min(1, most / (norm + 1e-6))
        np.testing.assert_allclose(results[0][begin : begin + g.size], want, rtol=eps)


@pytest.mark.simulator
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BF16], ids=str)
def test_plain_clip_in_the_simulator(dtype, double):
    from cudamath.kernels.optim import dispatch as optim_dispatch

    case = clip_case(dtype, double)
    case[0][1] = case[0][1][:300]
    case = (
        case[0],
        math.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in case[0])),
        [0, 8, 312, 312],
        case[3],
    )
    plan = optim_dispatch.clip(*map(cm.testing.layout_of, case[0]), version="one")
    check_clip(cm.testing.simulate(plan, *case[0], scalars=(3.0,)), case, 3.0)


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["one", "many"])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize(
    "dtype", [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BF16], ids=str
)
def test_clip_kernels_on_the_gpu(dtype, double, version):
    from cudamath.kernels.optim import dispatch as optim_dispatch

    case = clip_case(dtype, double)
    on_gpu = [cm.array(g, device="cuda") for g in case[0]]
    layouts = [x._layout for x in on_gpu]
    for most in (3.0, 1e9):
        outputs = optim_dispatch.clip(*layouts, version=version).bind("clip", layouts, 1)(
            *on_gpu, most
        )
        check_clip([out.to_numpy() for out in outputs], case, most)


def cases(dtype):
    """(planner name, parameters, scalars, arrays): p, g and states for shapes (5,) and (3,)."""
    state = np.float64 if dtype == np.float64 else np.float32
    rng = np.random.default_rng(1)

    def some(states):
        arrays = [rng.standard_normal(n).astype(dtype) for _ in range(2) for n in (5, 3)]
        return arrays + [
            np.abs(rng.standard_normal(n)).astype(state) for _ in range(states) for n in (5, 3)
        ]

    return [
        ("sgd", {}, (0.1, 0.01, *[0.0] * 6), some(0)),
        ("momentum", {"nesterov": False}, (0.1, 0.01, 0.9, *[0.0] * 5), some(1)),
        ("momentum", {"nesterov": True}, (0.1, 0.01, 0.9, *[0.0] * 5), some(1)),
        ("adam", {}, (0.1, 0.99, 0.01, 0.1, 0.99, 0.01, 1.2, 1e-8), some(2)),
        ("rmsprop", {}, (0.1, 0.01, 0.9, 0.1, 1e-6, *[0.0] * 3), some(1)),
        ("lion", {}, (0.1, 0.99, 0.9, 0.1, 0.99, 0.01, 0.0, 0.0), some(1)),
    ]


@pytest.mark.simulator
@pytest.mark.parametrize(
    "dtype", [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BF16], ids=str
)
def test_plain_kernels_in_the_simulator(dtype):
    from cudamath.cpu import optim as cpu
    from cudamath.kernels.optim import dispatch as kernels

    for name, params, scalars, arrays in cases(dtype):
        plan = getattr(kernels, name)(*map(cm.testing.layout_of, arrays), version="one", **params)
        want = [a.copy() for a in arrays]
        getattr(cpu, name)(*want, scalars=scalars, **params)
        cm.testing.simulate(plan, *arrays, scalars=scalars)
        for got, expected in zip(arrays, want, strict=True):
            np.testing.assert_allclose(
                got.astype(np.float64), expected.astype(np.float64), rtol=1e-6, atol=1e-7
            )


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["one", "many"])
@pytest.mark.parametrize(
    "dtype", [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BF16], ids=str
)
def test_kernels_on_the_gpu(dtype, version):
    from cudamath.cpu import optim as cpu
    from cudamath.kernels.optim import dispatch as kernels

    for name, params, scalars, arrays in cases(dtype):
        on_gpu = [cm.array(a, device="cuda") for a in arrays]
        layouts = [x._layout for x in on_gpu]
        getattr(kernels, name)(*layouts, version=version, **params).bind(
            name, layouts, len(scalars)
        )(*on_gpu, *scalars)
        getattr(cpu, name)(*arrays, scalars=scalars, **params)
        rtol = {"bfloat16": 2.0**-8, "float16": 2.0**-10}.get(dtype.name, 1e-6)
        for got, expected in zip(on_gpu, arrays, strict=True):
            np.testing.assert_allclose(
                got.to_numpy().astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=1e-7
            )


def test_the_table_of_chunks():
    from cudamath.kernels.optim import steps as kernels

    assert kernels.chunks([3, 0, 4096, 4097]).tolist() == [
        [0, 0, 3],
        [2, 0, 4096],
        [3, 0, 4096],
        [3, 4096, 4097],
    ]
    assert kernels.chunks([]).shape == (0, 3)


# -------------------- initial values


@pytest.mark.parametrize("shape", [(200, 100), (40, 30, 5, 5)])
@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        ("kaiming_normal", "kaiming_normal_", {}),
        ("kaiming_normal", "kaiming_normal_", dict(mode="fan_out", nonlinearity="tanh")),
        ("kaiming_uniform", "kaiming_uniform_", dict(a=math.sqrt(5))),
        ("xavier_normal", "xavier_normal_", dict(gain=2.0)),
        ("xavier_uniform", "xavier_uniform_", {}),
    ],
)
def test_init_has_the_scale_of_torch(device, ours, theirs, options, shape, torch):
    w = getattr(cm.ml.init, ours)(shape, rng=cm.random.default_rng(1), **options)
    torch.manual_seed(1)
    t = getattr(torch.nn.init, theirs)(torch.empty(shape), **options).numpy()
    x = w.to_numpy()
    assert (w.dtype, w.shape) == (np.float32, shape)
    assert abs(x.mean()) < 5 * x.std() / math.sqrt(x.size)
    assert abs(x.std() / t.std() - 1) < 5 * math.sqrt(1 / x.size)
    if "uniform" in ours:
        assert abs(np.abs(x).max() / np.abs(t).max() - 1) < 2e-3


def test_init_constants_and_errors(device):
    assert cm.ml.init.zeros(3, dtype="bfloat16").to_numpy().tolist() == [0, 0, 0]
    assert cm.ml.init.ones((2, 1)).tolist() == [[1], [1]]
    assert abs(float(cm.ml.init.normal((1000,), mean=3, std=0.1).mean()) - 3) < 0.02
    for call, error, words in [
        (lambda: cm.ml.init.kaiming_normal(3), ValueError, "at least two dimensions"),
        (lambda: cm.ml.init.kaiming_normal((3, 3), mode="x"), ValueError, "fan_in"),
        (lambda: cm.ml.init.kaiming_uniform((3, 3), nonlinearity=""), ValueError, "linearity"),
        (lambda: cm.ml.init.zeros(3, dtype="int32"), TypeError, "floating-point dtype"),
    ]:
        with pytest.raises(error, match=words):
            call()


# -------------------- what changes from step to step, in arrays

UPDATES = [
    ("sgd_update", {"weight_decay": 0.1}),
    ("sgd_update", {"momentum": 0.9, "nesterov": True}),
    ("adam_update", {"weight_decay": 0.1}),
    ("adamw_update", {"weight_decay": 0.1}),
    ("rmsprop_update", {}),
    ("adagrad_update", {}),
    ("lion_update", {"weight_decay": 0.1}),
]


def some_tree(seed, dtypes=("f4", "f8", "f4")):
    host = np.random.default_rng(seed)
    return [host.normal(size=n).astype(d) for n, d in zip((5, 3, 4100), dtypes, strict=True)]


@pytest.mark.parametrize(("name", "options"), UPDATES)
def test_a_learning_rate_in_an_array(device, name, options):
    """The steps of a float that changes, to the rounding of the rate to the parameters' dtype."""
    update = getattr(cm.ml, name)
    found = []
    for as_array in (False, True):
        params = [cm.asarray(v, copy=True) for v in some_tree(0)]
        state = cm.ml.adam_init(params) if "adam_" in name or "adamw" in name else None
        rate = cm.asarray(0.0, dtype="float32")
        for turn in range(4):
            grads = [cm.asarray(v) for v in some_tree(turn + 1)]
            lr = 0.5**turn  # exact in float32
            rate[...] = lr
            params, state = update(params, grads, state, lr=rate if as_array else lr, **options)
        found.append([p.to_numpy() for p in params])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=3e-6 if a.dtype == np.float32 else 1e-7, atol=1e-6)


@pytest.mark.parametrize(("name", "options"), UPDATES)
def test_a_learning_rate_in_numpys_array_is_a_number(device, name, options):
    found = []
    for rate in (
        0.25,
        np.asarray(0.25),
        np.asarray(0.25, "float16"),
        np.asarray(0.25, cm.bfloat16),
    ):
        params = [cm.asarray(v, copy=True) for v in some_tree(0)]
        state = cm.ml.adam_init(params) if "adam_" in name or "adamw" in name else None
        getattr(cm.ml, name)(
            params, [cm.asarray(v) for v in some_tree(1)], state, lr=rate, **options
        )
        found.append([p.to_numpy().tobytes() for p in params])
    assert found[1:] == found[:1] * 3


def test_steps_in_arrays_and_ints_are_the_same(device):
    """A state whose step is an int (an older checkpoint's) goes the same way."""
    found = []
    for of in (lambda v: v, lambda v: 0):
        params = [cm.asarray(v, copy=True) for v in some_tree(0)]
        state = cm.ml.adam_init(params)
        state["step"] = of(state["step"])
        for turn in range(5):
            cm.ml.adam_update(params, [cm.asarray(v) for v in some_tree(turn + 1)], state, lr=0.1)
        assert int(state["step"]) == 5
        found.append([p.to_numpy() for p in params])
    for a, b in zip(*found, strict=True):
        close = 2e-6 if a.dtype == np.float32 else 1e-13
        np.testing.assert_allclose(b, a, rtol=close, atol=close)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda p, s: cm.ml.sgd_update(p, p, lr=cm.zeros(2)),
            TypeError,
            "sgd_update: wants lr as a number or a 0-d floating",
        ),
        (
            lambda p, s: cm.ml.sgd_update(p, p, lr=np.zeros(1)),
            TypeError,
            "sgd_update: wants lr as a number, got ndarray",
        ),
        (
            lambda p, s: cm.ml.adam_update(p, p, s, lr=np.asarray(1)),
            TypeError,
            "adam_update: wants lr as a number, got ndarray",
        ),
        (
            lambda p, s: cm.ml.adam_update(p, p, s, lr=np.asarray(-0.5)),
            ValueError,
            "adam_update: wants a finite lr >= 0, got -0.5",
        ),
        (
            lambda p, s: cm.ml.adam_update(p, p, s, lr=cm.asarray(1)),
            TypeError,
            "adam_update: wants lr .* got int64 of shape",
        ),
        (
            lambda p, s: cm.ml.adam_update(p, p, {**s, "step": 3}, lr=cm.asarray(0.1)),
            TypeError,
            "wants step in state as an array",
        ),
        (
            lambda p, s: cm.ml.adam_update(p, p, {**s, "step": cm.zeros(1)}),
            TypeError,
            "wants step in state as a 0-d int64 array",
        ),
    ],
)
def test_bad_arrays_are_refused(device, call, error, words):
    p = [cm.ones(3)]
    state = cm.ml.adam_init(p)
    with pytest.raises(error, match=words):
        call(p, state)
    assert p[0].tolist() == [1, 1, 1] and int(state["step"]) == 0


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("rated", [False, True])
def test_coefficients_in_the_simulator(dtype, rated):
    from cudamath.core.specs.optimizer import Form
    from cudamath.cpu import optim as cpu
    from cudamath.kernels.optim import dispatch as kernels

    host = np.random.default_rng(0)
    arrays = [host.uniform(0.5, 1, 7).astype(dtype) for _ in range(4)]
    step, rate = np.array(4, np.int64), np.array(0.25, dtype)
    scalars = (0.0 if rated else 0.25, 0.1, 0.0, 0.1, 0.9, 0.01, 0.0, 1e-8)
    for planner, truth, states, form in (
        (kernels.adam, cpu.adam, 2, Form(True, rated)),
        (kernels.lion, cpu.lion, 1, Form(rate=True)),
        (kernels.sgd, cpu.sgd, 0, Form(rate=True)),
    ):
        extra = [*([step.copy()] if form.step else []), *([rate] if form.rate else [])]
        mine, theirs = (
            [*[a.copy() for a in arrays[: 2 + states]], *[e.copy() for e in extra]]
            for _ in range(2)
        )
        plan = planner(*map(cm.testing.layout_of, mine), version="one", form=form)
        cm.testing.simulate(plan, *mine, scalars=scalars)
        truth(*theirs, scalars=scalars, form=form)
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6 if dtype == "f4" else 1e-13)
        assert not form.step or mine[-1 - rated] == 5


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "options"), UPDATES)
def test_a_graph_counts_on_and_reads_the_rate(name, options):
    """A training step as a graph, with a learning rate that changes: the bits of the same step
    without."""
    update = getattr(cm.ml, name)
    ends = []
    for wrap in (lambda fn: fn, cm.cuda.graph):
        with cm.device("cuda"):
            params = [cm.asarray(v, copy=True) for v in some_tree(0)]
            state = cm.ml.adam_init(params) if name.startswith("adam") else cm.ml.sgd_init(params)
            x = cm.asarray(np.linspace(-1, 1, 5, dtype="f4"))

            def step(params, state, x, lr):
                grads = [p * x.sum() + p * p for p in params]
                update(params, grads, state, lr=lr, **options)
                return params[0].sum()

            step = wrap(step)
            sums = [
                float(step(params, state, x, cm.asarray(0.1 * 0.7**turn, dtype="float32")))
                for turn in range(8)
            ]
            assert wrap is not cm.cuda.graph or step.graphs == 1
            ends.append((sums, [p.to_numpy().tobytes() for p in params]))
    assert ends[0] == ends[1]


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "options"), UPDATES)
def test_a_tree_takes_one_launch(name, options):
    """However many arrays there are; beside it at most the step's coefficients and a table of
    addresses."""
    update, nodes = getattr(cm.ml, name), []
    with cm.device("cuda"):
        for count in (20, 60):
            params, grads = (
                [cm.ones((7, n + 1), "float32") for n in range(count)] for _ in range(2)
            )
            state = cm.ml.adam_init(params) if name.startswith("adam") else cm.ml.sgd_init(params)
            rate = cm.asarray(0.1, dtype="float32")
            step = cm.cuda.graph(
                lambda params, grads, state, lr: (
                    update(params, grads, state, lr=lr, **options) and None
                )
            )
            for _ in range(2):
                step(params, grads, state, rate)
            (kind,) = step._kinds.values()
            nodes.append(kind.replay.graph.nodes)
    assert nodes[0] == nodes[1] <= 3, nodes
