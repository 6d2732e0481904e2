"""Gradients against central differences, and kernel versions by name: what the tests of the layers
share."""

import math

import numpy as np
import pytest
from compiled_facts import facts_of

import cudamath as cm
from cudamath.core.dispatch.steps import Launch
from cudamath.kernels.compiler import storage_types, target
from cudamath.runtime.device import assume
from cudamath.testing import assert_close, layout_of, simulate

DTYPES = ["float32", "float64", "float16", "bfloat16"]
TOLERANCE = {
    "float64": 1e-12,
    "float32": 2e-6,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
}  # of values around 1

#: Where a kernel version runs: plain ones in the simulator and on the GPU, all on the GPU.
MACHINES = [
    pytest.param("simulator", marks=pytest.mark.simulator),
    pytest.param("gpu", marks=pytest.mark.gpu),
]


def numbers(shape, dtype="float64", seed=0, scale=1.0, shift=0.0):
    """Normal random numbers as a NumPy array of any dtype."""
    values = np.random.default_rng(seed).normal(size=shape) * scale + shift
    return np.asarray(values).astype(cm.bfloat16 if dtype == "bfloat16" else dtype)


def wide(*arrays):
    """The same values in float64."""
    found = [np.asarray(a).astype(np.float64) for a in arrays]
    return found[0] if len(found) == 1 else found


def check_gradient(fn, reference, *arrays, rtol=1e-6):
    """First-order gradients of <weights, fn> against central differences of the NumPy reference, in
    float64."""
    weights = numbers(np.shape(reference(*arrays)), seed=11)
    gradients = cm.grad(lambda *a: (fn(*a) * weights).sum(), tuple(range(len(arrays))))(*arrays)
    for i, gradient in enumerate(gradients):
        direction, h = numbers(arrays[i].shape, seed=12 + i), 1e-5

        def value(t, i=i, direction=direction):
            return float(
                (
                    reference(*(a + t * direction if i == j else a for j, a in enumerate(arrays)))
                    * weights
                ).sum()
            )

        difference = (value(h) - value(-h)) / (2 * h)
        scale = np.abs(gradient.to_numpy() * direction).sum()
        assert_close(
            float((gradient.to_numpy() * direction).sum()),
            difference,
            rtol=rtol,
            atol=rtol * scale,
            what=f"gradient {i}",
        )


def check_second_order(fn, *arrays, rtol=1e-6):
    """Hessian times vector, in every pair of inputs, against central differences of the (elsewhere
    checked) gradient."""
    weights = numbers(fn(*(cm.asarray(a) for a in arrays)).shape, seed=21)
    every = tuple(range(len(arrays)))
    gradient = cm.grad(lambda *a: (fn(*a) ** 2 * weights).sum(), every)
    vectors = [numbers(a.shape, seed=22 + i) for i, a in enumerate(arrays)]

    def inner(*a):
        return sum((g * v).sum() for g, v in zip(gradient(*a), vectors, strict=True))

    second = cm.grad(inner, every)(*arrays)
    for i, found in enumerate(second):
        direction, h = numbers(arrays[i].shape, seed=32 + i), 1e-5

        def value(t, i=i, direction=direction):
            return inner(*(a + t * direction if i == j else a for j, a in enumerate(arrays))).item()

        difference = (value(h) - value(-h)) / (2 * h)
        scale = np.abs(found.to_numpy() * direction).sum()
        assert_close(
            float((found.to_numpy() * direction).sum()),
            difference,
            rtol=rtol,
            atol=rtol * scale,
            what=f"second order {i}",
        )


def run_version(machine, make, *arrays, scalars=()):
    """The results (NumPy) of the plan that `make` gives for these arrays' layouts, on the named
    machine."""
    if machine == "simulator":
        return simulate(make(*(layout_of(a) for a in arrays)), *arrays, scalars=scalars)
    there = [cm.asarray(a, device="cuda") for a in arrays]
    layouts = [a._layout for a in there]
    out = make(*layouts).bind("version", layouts, len(scalars))(*there, *scalars)
    cm.cuda.synchronize()
    return tuple(o.to_numpy() for o in out) if isinstance(out, tuple) else out.to_numpy()


def versions(*names):
    """Parameters (machine, version): "plain" and "simt" on both machines, the others on the GPU."""
    return [
        pytest.param(*m.values, name, marks=m.marks)
        for name in names
        for m in MACHINES
        if name in ("plain", "simt") or m.values[0] == "gpu"
    ]


def check_resources(plan, inputs, capability):
    """No kernel of the plan spills, and its block's threads fit into the 65,536 registers that they
    share."""
    check_everywhere(lambda: plan, inputs, [capability])


def check_everywhere(make, inputs, capabilities=target.CAPABILITIES):
    """The same of what `make()` plans for each of these capabilities. What several plans have in
    common is compiled once, from Python to LLVM IR for all capabilities together."""
    launches = {}
    for capability in capabilities:
        with assume(capability):
            plan = make()
            for step in plan.steps:
                if isinstance(step, Launch):
                    arguments = storage_types.arguments_type(plan.signature(step, inputs))
                    _, steps = launches.setdefault((step.kernel, str(arguments)), (arguments, {}))
                    steps.setdefault(capability, []).append(step)
    for (kernel, _), (arguments, steps) in launches.items():
        for capability, found in facts_of(kernel, arguments, list(steps)).items():
            assert found.spills == 0, (kernel.__name__, found, capability)
            for step in steps[capability]:
                threads = math.prod(step.block)
                assert -(-found.registers // 8) * 8 * threads <= 65_536, (
                    kernel.__name__,
                    found,
                    threads,
                )  # handed out eight at a time


def rules(op):
    """The gradient rules of a card, by input; under None where one rule has them all. What only
    says that there is no gradient is no rule."""
    found = getattr(op, "vjp", None)
    getattr(op, "_saves", None)  # looks at the rules' arguments, which a stand-in has not
    if type(found) is not tuple:
        return {} if found is None else {None: found}
    texts = getattr(op, "grad", None) or [""] * len(found)
    return {i: r for i, r in enumerate(found) if "no_gradient" not in str(texts[i])}


def note_rules(monkeypatch, ops):
    """({(card, input): every rule of these cards}, and of those a set that grows as they run)."""
    reached = set()

    def noted(rule, key):
        def run(*arguments, **params):
            reached.add(key)
            return rule(*arguments, **params)

        return run

    wanted = {(op.name, i) for op in ops for i in rules(op)}
    for op in ops:
        if type(op.vjp) is tuple:
            whole = tuple(noted(r, (op.name, i)) for i, r in enumerate(op.vjp))
        else:
            whole = noted(op.vjp, (op.name, None))
        monkeypatch.setitem(op.__dict__, "vjp", whole)
    return wanted, reached
