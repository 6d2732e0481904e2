"""Optimizers in mixed precision: 16-bit gradients and copies, factors of the gradients, which
weights decay."""

import math

import ml_dtypes
import numpy as np
import optree
import pytest

import cudamath as cm

BF16 = np.dtype(ml_dtypes.bfloat16)


def some_tree(seed, dtypes=("f4", "f8", "f4")):
    host = np.random.default_rng(seed)
    return [host.normal(size=n).astype(d) for n, d in zip((5, 3, 4100), dtypes, strict=True)]


def adam(p, g, s=None, **options):
    return cm.ml.adam_update(p, g, cm.ml.adam_init(p) if s is None else s, **options)


STEPS = [
    ("sgd_update", {"weight_decay": 0.1}),
    ("sgd_update", {"momentum": 0.9, "weight_decay": 0.1}),
    ("adam_update", {"weight_decay": 0.1}),
    ("adamw_update", {"weight_decay": 0.1}),
    ("rmsprop_update", {"weight_decay": 0.1}),
    ("adagrad_update", {"weight_decay": 0.1}),
    ("lion_update", {"weight_decay": 0.1}),
]


def some_state(name, params):
    if name.startswith("adam"):
        return cm.ml.adam_init(params)
    return cm.ml.sgd_init(params)


def bits(t):
    return [x.to_numpy().tobytes() for x in optree.tree_leaves(t)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("name", "options"), STEPS)
def test_a_step_with_16_bit_gradients_factor_and_copies(device, name, options, dtype):
    """Bit for bit the step of the widened, scaled gradients; the copies are the rounded
    parameters."""
    ends = []
    for mixed in (False, True):
        params = {
            "w": cm.asarray(some_tree(0, ("f4",) * 3)[2]),
            "b": cm.asarray(some_tree(0, ("f4",) * 3)[0]),
        }
        params = {k: v.copy() for k, v in params.items()}
        copies = cm.ml.amp.cast(params, dtype, keep=lambda p: p.size < 10)
        assert copies["b"] is params["b"] and copies["w"].dtype == dtype
        state = some_state(name, params)
        for turn in range(3):
            w, b = (cm.asarray(some_tree(turn + 1, ("f4",) * 3)[i]) for i in (2, 0))
            grads = {"w": w.astype(dtype), "b": b.astype(dtype) if turn == 1 else b}
            factor = 0.5**turn
            if mixed:
                getattr(cm.ml, name)(
                    params,
                    grads,
                    state,
                    lr=cm.asarray(0.1, dtype="float32"),
                    factor=cm.asarray(factor, dtype="float32"),
                    copies=copies,
                    **options,
                )
                for key in params:
                    expected = params[key].astype(copies[key].dtype)
                    assert copies[key].to_numpy().tobytes() == expected.to_numpy().tobytes()
            else:
                wide = {k: g.astype("float32") * factor for k, g in grads.items()}
                getattr(cm.ml, name)(
                    params, wide, state, lr=cm.asarray(0.1, dtype="float32"), **options
                )
        ends.append(bits((params, state)))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(("name", "options"), STEPS)
def test_which_weights_decay(device, name, options):
    """As two calls, one with weight decay and one without; by a function or by a tree."""
    grads = [cm.asarray(g) for g in some_tree(1)]
    found = []
    for way in ("two calls", "function", "tree", "array"):
        params = [cm.asarray(p, copy=True) for p in some_tree(0)]
        if way == "two calls":
            for chosen, decay in (([0, 2], 0.1), ([1], 0.0)):
                some = [params[i] for i in chosen]
                getattr(cm.ml, name)(
                    some,
                    [grads[i] for i in chosen],
                    some_state(name, some),
                    lr=0.125,
                    **{**options, "weight_decay": decay},
                )
        else:
            decay = [True, False, True] if way == "tree" else (lambda p: p.size != 3)
            lr = cm.asarray(0.125, dtype="float32") if way == "array" else 0.125
            getattr(cm.ml, name)(
                params, grads, some_state(name, params), lr=lr, decay=decay, **options
            )
        found.append([p.to_numpy() for p in params])
    for others in found[1:]:
        for a, b in zip(found[0], others, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6 if a.dtype == np.float32 else 1e-7)
    assert bits([cm.asarray(x) for x in found[1]]) == bits([cm.asarray(x) for x in found[2]])


@pytest.mark.parametrize(("name", "options"), STEPS)
def test_a_factor_that_is_nan_leaves_the_step_out(device, name, options):
    params = [cm.asarray(p, copy=True) for p in some_tree(0, ("f4",) * 3)]
    copies = [cm.zeros_like(p).astype("float16") for p in params]
    state = some_state(name, params)
    before = bits((params, copies, state))
    grads = [cm.asarray(g) for g in some_tree(1, ("f4",) * 3)]
    grads[1][...] = cm.inf
    factor, norm = cm.ml.clip_factor(grads, 1.0)
    getattr(cm.ml, name)(params, grads, state, lr=0.1, factor=factor, copies=copies, **options)
    assert math.isinf(float(norm)) and math.isnan(float(factor))
    assert bits((params, copies, state)) == before


def test_clipping_by_a_factor_is_clipping(device):
    """As clip_grad_norm of torch, with the optimizer in between."""
    torch = pytest.importorskip("torch")
    grads = some_tree(1)
    theirs = [torch.nn.Parameter(torch.tensor(p)) for p in some_tree(0)]
    for t, g in zip(theirs, grads, strict=True):
        t.grad = torch.tensor(g)
    total = torch.nn.utils.clip_grad_norm_(theirs, 2.0)
    torch.optim.SGD(theirs, lr=0.5).step()
    params = [cm.asarray(p, copy=True) for p in some_tree(0)]
    factor, norm = cm.ml.clip_factor([cm.asarray(g) for g in grads], 2.0)
    cm.ml.sgd_update(params, [cm.asarray(g) for g in grads], lr=0.5, factor=factor)
    assert float(norm) == pytest.approx(float(total), rel=1e-6)
    for ours, t in zip(params, theirs, strict=True):
        np.testing.assert_allclose(ours.to_numpy(), t.detach().numpy(), rtol=2e-6, atol=1e-7)
    assert float(cm.ml.clip_factor([cm.asarray(g) for g in grads])[0]) == 1.0


def test_clip_factor_raises_if_asked(device):
    with pytest.raises(
        FloatingPointError, match="clip_factor: the norm of the gradients is not finite"
    ):
        cm.ml.clip_factor([cm.asarray([1.0, cm.nan])], error_if_nonfinite=True)
        cm.zeros(1, device=device).to_numpy()
    factor, _ = cm.ml.clip_factor([cm.asarray([1.0])], error_if_nonfinite=True)
    assert float(factor) == 1


def test_a_state_like_copies_that_were_taken_is_refused(device):
    """The last array may be of 16 bits as a copy, not as a state."""
    p, g, half = (
        [cm.asarray(np.arange(3.0, dtype=np.float32)).astype(d)] for d in ("f4", "f4", "f2")
    )
    cm.ml.sgd_update(p, g, lr=0.1, copies=half)
    before = bits((p, half))
    with pytest.raises(
        TypeError, match=r"^sgd_update: wants state.* of float32 at \[0\], got float16"
    ):
        cm.ml.sgd_update(p, g, half, lr=0.1, momentum=0.9)
    assert bits((p, half)) == before


@pytest.mark.parametrize("which", ["params", "state", "copies"])
def test_what_is_read_only_is_not_updated(which):
    trees = {"params": "f4", "state": "f4", "copies": "f2"}
    for name, kind in trees.items():
        host = np.arange(3.0).astype(kind)
        host.flags.writeable = name != which
        trees[name] = [cm.asarray(host, device="cpu", copy=False)]
    params, before = trees.pop("params"), bits(trees)
    grads = [cm.asarray(np.ones(3, np.float32), device="cpu")]
    with pytest.raises(
        ValueError, match=r"^sgd_update: updates in place, .* of \[0\] is read-only"
    ):
        cm.ml.sgd_update(params, grads, lr=0.1, momentum=0.9, **trees)
    assert params[0].tolist() == [0, 1, 2] and bits(trees) == before


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda p: cm.ml.sgd_update(p, p, lr=1, copies=[]),
            ValueError,
            "sgd_update: wants copies of the structure of params",
        ),
        (
            lambda p: cm.ml.sgd_update(p, p, lr=1, copies={"w": p["w"].copy()}),
            ValueError,
            "or the parameter itself",
        ),
        (
            lambda p: cm.ml.sgd_update(p, p, lr=1, copies={"w": cm.zeros(3, dtype="float16")}),
            TypeError,
            "copies of float64",
        ),
        (
            lambda p: cm.ml.sgd_update(p, p, lr=1, factor=cm.ones(1)),
            TypeError,
            "factor as a number or a 0-d",
        ),
        (
            lambda p: cm.ml.sgd_update(p, p, lr=1, decay=[True]),
            ValueError,
            "wants decay of the structure of params",
        ),
        (
            lambda p: cm.ml.sgd_update(p, p, lr=1, decay={"w": 3}),
            TypeError,
            "True or False in decay, got int",
        ),
        (
            lambda p: adam(p, p, {"step": 0, "m": p, "v": p}, factor=1.0),
            TypeError,
            "step in state as an array where factor is",
        ),
        (lambda p: cm.ml.clip_factor({}, 1.0), ValueError, "clip_factor: wants a tree of arrays"),
        (lambda p: cm.ml.clip_factor(p, -1.0), ValueError, "clip_factor: wants a max_norm >= 0"),
        (lambda p: cm.ml.clip_factor(p, "1"), TypeError, "max_norm as a number"),
        (
            lambda p: cm.ml.clip_factor([cm.array([1])]),
            TypeError,
            "clip_factor: wants floating-point",
        ),
        (
            lambda p: cm.grad(lambda q: cm.ml.clip_factor(q)[0])(p),
            ValueError,
            "clip_factor: not differentiable",
        ),
    ],
)
def test_errors_of_mixed_precision(device, call, error, words):
    params = {"w": cm.array([1.0, 2.0, 3.0])}
    with pytest.raises(error) as caught:
        call(params)
    assert words in str(caught.value)
    assert params["w"].tolist() == [1, 2, 3]


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
@pytest.mark.parametrize("factor", [0.5, math.nan])
def test_plain_kernels_with_copies_in_the_simulator(dtype, factor):
    from cudamath.core.specs.optimizer import Form
    from cudamath.cpu import optim as cpu
    from cudamath.kernels.optim import dispatch as kernels

    host = np.random.default_rng(0)
    for name, states, kind in (("adam", 2, "step"), ("momentum", 1, ""), ("lion", 1, "")):
        form = Form(kind == "step", True, True, True, (True, False))
        params = {"nesterov": True} if name == "momentum" else {}
        arrays = [host.uniform(0.5, 1, n).astype("f4") for n in (5, 3)]
        arrays += [host.uniform(0.5, 1, n).astype(dtype) for n in (5, 3)]
        arrays += [host.uniform(0.5, 1, n).astype("f4") for _ in range(states) for n in (5, 3)]
        arrays += [np.zeros(5, dtype), arrays[1]]  # the second copy is its parameter
        arrays += [np.array(4, np.int64)] * form.step + [
            np.array(0.25, "f4"),
            np.array(factor, "f4"),
        ]
        scalars = (0.0, 0.1, 0.0 if name == "adam" else 0.9, 0.1, 0.9, 0.01, 0.0, 1e-8)
        mine, theirs = ([a.copy() for a in arrays] for _ in range(2))
        plan = getattr(kernels, name)(
            *map(cm.testing.layout_of, mine), version="one", form=form, **params
        )
        cm.testing.simulate(plan, *mine, scalars=scalars)
        getattr(cpu, name)(*theirs, scalars=scalars, form=form, **params)
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(
                a.astype("f8"), b.astype("f8"), rtol=1e-6 if a.dtype.itemsize > 2 else 2.0**-8
            )
        assert (mine[0] == arrays[0]).all() == math.isnan(factor)


@pytest.mark.simulator
@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BF16, np.dtype(np.float64)], ids=str)
def test_factors_in_the_simulator(dtype, bad):
    from cudamath.cpu import optim as cpu
    from cudamath.kernels.optim import dispatch as optim_dispatch

    host = np.random.default_rng(0)
    grads = [host.standard_normal(n).astype(dtype) for n in (5, 300)]
    if bad:
        grads[1][7] = np.inf
    for scaling in (False, True):
        state = [np.array(64, "f4"), np.array(2, "i8"), np.array(0, "i8")] if scaling else []
        mine, theirs = ([a.copy() for a in (*grads, *state)] for _ in range(2))
        scalars = (0.1, 2.0, 0.5, 3) if scaling else (0.1,)
        plan = optim_dispatch.factor(
            *map(cm.testing.layout_of, mine), scaling=scaling, version="one"
        )
        got = cm.testing.simulate(plan, *mine, scalars=scalars)
        want = cpu.clip_factor(*theirs, scalars=scalars, scaling=scaling, strict=False)
        for a, b in zip((*got, *mine[2:]), (*want, *theirs[2:]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        if scaling:
            assert [x.item() for x in mine[2:]] == ([32, 0, 1] if bad else [128, 0, 0])
