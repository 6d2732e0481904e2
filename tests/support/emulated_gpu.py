"""A GPU whose plans are computed on the CPU: everything between a public function and its kernels
runs as on a GPU (layouts, planners, the pool, streams, graphs, fused stages), on the fake driver.

The steps of each plan are replaced by one that calls the CPU function of its op on the memory of
the fake device, when the stream comes to it. A stage of a fused function is computed value by
value; a product that one sum uses is not rounded before, as by compilers, where the stage does not
ask for that. So values show whether a program was simplified, fused and planned rightly, at 0.05 s
a program; whether kernels compute what their ops say is for the simulator and a GPU. A kernel that
is launched beside plans is an error.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import ctypes
import functools
from typing import Any

import numpy as np
from fake_driver import FakeDriver, installed
from fake_status import OK

import cudamath as cm
from cudamath.core import recording
from cudamath.core.array import wrap
from cudamath.core.dispatch import planner_calls
from cudamath.core.dispatch.arguments import Input, Output
from cudamath.core.dispatch.arguments import Scalar as RunTimeScalar
from cudamath.core.dispatch.call_record import unrecorded
from cudamath.core.dispatch.lazy_import import lazy
from cudamath.core.dispatch.op import registry
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.planner_calls import PlannerCall
from cudamath.core.dispatch.steps import Call
from cudamath.core.dtypes import compute_dtype, planned
from cudamath.core.layout import Layout
from cudamath.core.scalar import inside
from cudamath.kernels.elementwise.generator import NAMES
from cudamath.ops.ufunc import Elementwise
from cudamath.programs.fusion import REFUSED

#: Planners whose plans are calls of a library, which a test puts a fake in the place of.
LIBRARIES = ("recurrent.dispatch.",)

#: Of which a compiler makes one operation with a product.
SUMS = ("x + y", "x - y")


class EmulatedDriver(FakeDriver):
    """Launches are errors: what is not a plan's step would compute nothing."""

    def cuLaunchKernel(self, handle, *rest):
        raise AssertionError(f"a kernel was launched: {self.kernels[handle][0]}")


@contextlib.contextmanager
def emulated_gpu(monkeypatch: Any) -> Any:
    """The default device is a GPU whose plans run on the CPU."""
    import fake_driver

    monkeypatch.setattr(fake_driver, "FakeDriver", EmulatedDriver)
    with installed(monkeypatch) as driver, cm.device("cuda"), np.errstate(all="ignore"):
        observe = functools.partial(_replace, driver)
        planner_calls.observers.append(observe)
        _forget_fused()
        try:
            yield driver
        finally:
            planner_calls.observers.remove(observe)
            _forget_fused()


def _forget_fused() -> None:
    """Drop the plans of functions of `cm.fuse`, which are bound to one driver."""
    for function in planned:
        function.plans.clear()


def _replace(driver: FakeDriver, call: PlannerCall, plan: Plan) -> None:
    """Put a call of the op's CPU function in the place of a plan's steps."""
    if plan.steps and isinstance(plan.steps[0], Call) and hasattr(plan.steps[0].fn, "emulates"):
        return  # plans are kept: it was replaced before
    if call.planner.startswith(LIBRARIES) or not plan.steps:  # of no elements
        return
    inputs = [x for x in call.inputs if isinstance(x, Layout)]
    scalars = {arg.index: arg for step in plan.steps for arg in step.args if _is_scalar(arg)}
    count = max(scalars, default=-1) + 1
    values = [scalars.get(i, RunTimeScalar(i, np.float64)) for i in range(count)]
    outputs = list(plan.outputs)
    from_cell = 0 not in scalars and {1, 2} <= {*scalars} and inputs[-1].shape == (3,)

    def step(stream: Any, *arguments: Any) -> None:
        def run() -> None:
            arrays = [
                _array(driver, address, layout)
                for address, layout in zip(arguments, [*inputs, *outputs], strict=False)
            ]
            given, numbers = arrays[: len(inputs)], arguments[len(arrays) :]
            if from_cell:  # kernels/lib/philox.py
                (key, sequence, first), given = given[-1], given[:-1]
                numbers = (int(key), int(sequence), int(first) + numbers[2], *numbers[3:])
            _compute(call, given, arrays[len(inputs) :], numbers)

        with driver.lock:  # as in a call of the driver
            (status,) = driver.enqueue(stream.handle, run)
        assert status == OK

    step.emulates = call  # type: ignore[attr-defined]
    plan.steps = [
        Call(
            step,
            [
                *[Input(i) for i in range(len(inputs))],
                *[Output(i) for i in range(len(outputs))],
                *values,
            ],
        )
    ]
    plan.temps = []


def _is_scalar(arg: Any) -> bool:
    return isinstance(arg, RunTimeScalar)


def _array(driver: FakeDriver, address: int, layout: Layout) -> np.ndarray:
    """An array on the fake device."""
    if not layout.size:
        return np.empty(layout.shape, layout.dtype)
    low, high = 0, layout.itemsize
    for n, stride in zip(layout.shape, layout.strides, strict=True):
        low, high = low + min(0, (n - 1) * stride), high + max(0, (n - 1) * stride)
    driver.check(address + low, high - low, layout.device)
    memory = (ctypes.c_char * (high - low)).from_address(address + low)
    return np.ndarray(layout.shape, layout.dtype, memory, -low, layout.strides)


def _compute(
    call: PlannerCall, inputs: list[np.ndarray], outputs: list[np.ndarray], numbers: tuple
) -> None:
    """What a plan computes, by the CPU function of its op."""
    with cm.device("cpu"), recording.paused(), unrecorded(), inside(), np.errstate(all="ignore"):
        if call.op == "fuse":
            rounds = call.params.get("rounds", False)
            results: Any = _fused(call.params["program"], call.params["shape"], inputs, rounds)
            targets = call.params.get("targets", ())
            for k, target in zip(targets, inputs[len(inputs) - len(targets) :], strict=True):
                assert target.shape == results[k].shape, call  # a row in segments is no such result
                target[...] = results[k]
            results = [y for k, y in enumerate(results) if k not in targets]
        else:
            card: Any = registry[call.op]
            if isinstance(card, Elementwise):
                results = _elementwise(card, call, inputs, numbers)
            else:
                results = _of_op(card, call, inputs, numbers)
    results = results if isinstance(results, (tuple, list)) else (results,)
    if not outputs or call.op in REFUSED:  # whose results have another form on the CPU
        return
    assert len(results) == len(outputs), (call, len(results), len(outputs))
    for y, found in zip(outputs, results, strict=True):
        found = np.asarray(found)
        assert (found.shape, found.dtype) == (y.shape, y.dtype), (call, found.shape, found.dtype)
        y[...] = found


def _of_op(op: Any, call: PlannerCall, inputs: list[np.ndarray], numbers: tuple) -> Any:
    assert ":" not in call.planner, call
    given = iter(inputs)  # without the generator's cell, which comes last
    declared = [x for x in call.inputs if x is None or isinstance(x, Layout)]
    missing = len(declared) - declared.count(None) - len(inputs)
    data = [None if x is None else next(given) for x in declared[: len(declared) - missing]]
    extra = {"scalars": numbers} if numbers else {}
    return lazy("cpu", op.cpu)(*data, **call.params, **extra)


def _elementwise(
    card: Elementwise, call: PlannerCall, inputs: list[np.ndarray], numbers: tuple
) -> Any:
    arrays, scalars = iter(inputs), iter(numbers)
    compute, output = call.params["compute"], call.params["output"]
    T = compute_dtype(compute)
    operands = [
        next(arrays).astype(T) if isinstance(x, Layout) else T.type(next(scalars))
        for x in call.inputs
    ]
    result = _card(card, operands).astype(output)
    if call.params["inplace"]:
        inputs[0][...] = result
    return result


def _card(card: Elementwise, operands: list[Any]) -> np.ndarray:
    """An elementwise op of NumPy arrays, in their dtype."""
    if not any(d.kind == "c" for d in card.category):  # which takes real numbers as complex ones
        operands = [x.real if np.iscomplexobj(x) else x for x in operands]
    return card(*[wrap(np.asarray(x)) for x in operands]).to_numpy()


# -------------------- stages of fused functions


@functools.cache
def _cards() -> dict[str, Elementwise]:
    """Elementwise ops by their expression."""
    for package in (cm.ml, cm.special):  # whose modules are loaded when they are named
        for module in dir(package):
            getattr(package, module)
    return {
        text: card
        for card in registry.values()
        if isinstance(card, Elementwise)
        for text in card.expressions.values()
    }


def _fused(
    program: Any, shape: tuple[int, ...], inputs: list[np.ndarray], rounds: bool
) -> list[np.ndarray]:
    """The results of a stage, each value computed on the whole domain."""
    found: list[np.ndarray] = []
    products = {} if rounds else _products_for_one(program)
    for value in program.values:
        R, operands = compute_dtype(value.dtype), [found[i] for i in value.operands]
        rows = (*shape[:-1], 1) if value.row else shape
        if value.kind in ("load", "rolled", "placed"):
            number, alignment = value.detail[:2]
            x = inputs[number]
            kept = [d for d in alignment if d is not None]
            rest = [d for d in range(x.ndim) if d not in kept]
            assert all([x.shape[d] == 1 or not x.strides[d] for d in rest]), value
            y = x.transpose((*kept, *rest))[(..., *[0] * len(rest))]
            y = y.reshape([1 if d is None else x.shape[d] for d in alignment]).astype(R)
            if value.kind == "rolled":
                y = np.roll(y, value.detail[2], range(y.ndim))
            if value.kind == "placed":
                y = _among_zeros(y, shape, *value.detail[2:])
        elif value.kind == "constant":
            y = np.asarray(value.detail[0]).astype(R)
        elif value.kind == "where":
            y = np.where(operands[0].astype(bool), operands[1], operands[2]).astype(R)
        elif value.kind == "apply":
            expression, compute = value.detail
            if expression in SUMS and R.kind == "f" and products.keys() & value.operands:
                y = _summed(expression, value.operands, found, products).astype(R)
            else:
                y = _applied(expression, compute_dtype(compute), operands).astype(R)
        elif value.kind == "cast":
            y = operands[0].astype(value.dtype).astype(R)
        else:
            x = np.broadcast_to(operands[0], shape).astype(R)
            y = getattr(np, value.kind)(x, axis=-1, keepdims=True)
        found.append(np.broadcast_to(y, rows))
    return [found[i].astype(program.values[i].dtype) for i in program.outputs]


def _summed(
    expression: str,
    operands: tuple[int, int],
    found: list[np.ndarray],
    products: dict[int, tuple[int, int]],
) -> np.ndarray:
    """A sum or difference, of which one operand that is a product is not rounded before: of two one
    or the other, as compilers do."""
    terms = [found[i].astype(np.longdouble) for i in operands]
    choice = [k for k, i in enumerate(operands) if i in products]
    k = choice[len(products) % len(choice)]
    a, b = products[operands[k]]
    terms[k] = found[a].astype(np.longdouble) * found[b]
    return terms[0] + terms[1] if expression == "x + y" else terms[0] - terms[1]


def _products_for_one(program: Any) -> dict[int, tuple[int, int]]:
    """Products of which there is one user, of which a compiler makes one operation with a sum that
    uses them: their factors."""
    uses = collections.Counter([*program.outputs, *[i for v in program.values for i in v.operands]])
    return {
        i: v.operands
        for i, v in enumerate(program.values)
        if v.kind == "apply" and v.detail[0] == "x * y" and uses[i] == 1
    }


def _among_zeros(
    y: np.ndarray, shape: tuple[int, ...], bounds: tuple, negative: bool
) -> np.ndarray:
    """What stands at bounds (start, length) of some axes, among zeros."""
    sizes = [n if bound else m for n, m, bound in zip(shape, y.shape, bounds, strict=True)]
    whole = np.full(sizes, -0.0 if negative else 0, y.dtype)
    whole[tuple([slice(b[0], sum(b)) if b else slice(None) for b in bounds])] = y
    return whole


def _applied(expression: str, compute: np.dtype, operands: list[np.ndarray]) -> np.ndarray:
    """A scalar expression of arrays."""
    operands = [x.astype(compute) for x in operands]
    card = _cards().get(expression)
    if card is not None:
        return _card(card, operands)
    tree = ast.parse(expression, mode="eval")
    assert not any([isinstance(n, (ast.IfExp, ast.BoolOp)) for n in ast.walk(tree)]), expression
    names = {"sqrt": np.sqrt, "exp": np.exp, "log": np.log, "abs": np.abs}
    given = dict(zip(NAMES, operands, strict=False))
    return eval(compile(tree, "<expression>", "eval"), names, given)
