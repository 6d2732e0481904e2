"""The list of what packs hold: calls of planners (`core/dispatch/planner_calls.py`), one a line.

`kernel_list.jsonl` is what common programs call, recorded by `packs/record.py` without a device. A
line names an op, its planner ("": the op's own), the layouts and the parameters, and says nothing
of kernels: whatever the planner launches today, on whichever architecture, is what a pack is to
hold. So the list stays true when kernels change.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import pathlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from ...core.dispatch.op import registry
from ...core.dispatch.plan import Plan
from ...core.dispatch.planner_calls import PlannerCall
from ...core.dispatch.small_arrays import as_if_large
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime import rehearsal
from ...runtime.device import assume
from . import compile as compiler
from .target import target

PATH = pathlib.Path(__file__).with_name("kernel_list.jsonl")
#: Calls whose kernels a first session or several programs need, the likeliest first: compiled ahead
#: on a new machine (compile.py).
COMMON = PATH.with_name("common_calls.jsonl")
_PACKAGE = __package__.partition(".")[0]


# -------------------- lines


def line(call: PlannerCall) -> str:
    """A call as a line of the list. TypeError for an argument that has no form there."""
    own = getattr(registry.get(call.op), "cuda", None)  # which may move: it is looked up again
    path, colon, attribute = call.planner.partition(":")
    parts = (call.op, ("" if path == own else path) + colon + attribute, call.inputs, call.params)
    return json.dumps([_written(part) for part in parts], separators=(",", ":"))


def call_of(text: str) -> PlannerCall:
    """The call that a line describes."""
    op, planner, inputs, params = [_read(part) for part in json.loads(text)]
    path, colon, attribute = planner.partition(":")
    if not path:
        path = registry[op].cuda  # type: ignore[union-attr]
    return PlannerCall(op, path + colon + attribute, inputs, params)


def _written(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is tuple:
        return [_written(item) for item in value]
    if type(value) is dict:
        return {"dict": {name: _written(item) for name, item in value.items()}}
    if isinstance(value, Layout):
        usual = Layout.new(value.shape, value.dtype, value.device)
        rest = [] if value is usual else [list(value.strides), value.aligned]
        return {"array": [value.dtype.name, list(value.shape), *rest]}
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return {"number": [value.dtype.name, value.item()]}
    if type(value) is complex or isinstance(value, np.complexfloating):
        kind = value.dtype.name if isinstance(value, np.generic) else ""
        return {"complex": [kind, float(value.real), float(value.imag)]}
    kind = type(value)
    if kind.__module__.partition(".")[0] == _PACKAGE:
        if dataclasses.is_dataclass(value):
            fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            fields = list(value)
        else:
            raise TypeError(f"kernel list: no form for {value!r}")
        name = f"{kind.__module__.partition('.')[2]}:{kind.__qualname__}"
        return {"object": [name, *[_written(field) for field in fields]]}
    raise TypeError(f"kernel list: no form for {value!r}")


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_read(item) for item in value])
    if not isinstance(value, dict):
        return value
    ((form, parts),) = value.items()
    if form == "dict":
        return {name: _read(item) for name, item in parts.items()}
    if form == "dtype":
        return _dtype(parts)
    if form == "array":
        kind, shape, *rest = parts
        if not rest:
            return Layout.new(tuple(shape), _dtype(kind), 0)
        return Layout.of(tuple(shape), tuple(rest[0]), _dtype(kind), 0, rest[1])
    if form == "number":
        return _dtype(parts[0]).type(parts[1])
    if form == "complex":
        number = complex(*parts[1:])
        return _dtype(parts[0]).type(number) if parts[0] else number
    if form == "object":
        module, _, name = parts[0].partition(":")
        kind = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), name)
        return kind(*[_read(part) for part in parts[1:]])
    raise ValueError(f"kernel list: no such form: {form}")


def _dtype(name: str) -> np.dtype:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))


# -------------------- kernels


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A kernel that a pack is to hold."""

    key: str
    kernel: Any
    signature: list[Any]


def launches(call: PlannerCall, plan: Plan) -> Iterator[tuple[Any, list[Any]]]:
    """(kernel, signature) of what a plan launches."""
    inputs = [x for x in call.inputs if isinstance(x, Layout)]
    for step in plan.steps:
        if isinstance(step, Launch) and not hasattr(step.kernel, "dispatcher"):  # a user's has one
            yield step.kernel, plan.signature(step, inputs)


def calls(functions: Collection[str] = (), path: pathlib.Path = PATH) -> list[PlannerCall]:
    """The calls in the list; of these ops alone, if any are named."""
    with open(path, encoding="utf-8") as file:
        every = map(call_of, file)
        return [call for call in every if not functions or call.op.strip("_") in functions]


#: By capability, the names of devices whose measurements the package ships (core/dispatch/tuned):
#: plans follow these there.
_MEASURED = {(9, 0): ("NVIDIA H200",)}


def everywhere(call: PlannerCall, capability: tuple[int, int]) -> Iterator[tuple[Any, list[Any]]]:
    """(kernel, signature) of what a call launches on devices of this capability: without libraries,
    with cuBLAS alone and with cuDNN too, which comes in a package of its own; on measured devices
    and on others; and what it would launch on larger arrays, if small ones share kernels."""
    for name in ("assumed", *_MEASURED.get(capability, ())):
        for there in range(len(rehearsal.LIBRARIES) + 1):
            with (
                assume(capability, name=name),
                rehearsal.libraries(*rehearsal.LIBRARIES[:there]),
            ):
                plan = call.plan()
            yield from launches(call, plan)
    with assume(capability), rehearsal.libraries(*rehearsal.LIBRARIES), as_if_large():
        plan = call.plan()
    yield from launches(call, plan)


def wanted(
    calls: Iterable[PlannerCall], capability: tuple[int, int], errors: list[str] | None = None
) -> Iterator[Wanted]:
    """The distinct kernels that calls launch on devices of this capability (`everywhere`). A call
    that its planner does not take any more, or not there, is added to `errors`."""
    cc, seen = target(capability), set()
    for call in calls:
        try:
            found = list(everywhere(call, capability))
        except Exception as error:
            if errors is not None:
                errors.append(f"{line(call)}: {type(error).__name__}: {error}")
            continue
        for kernel, signature in found:
            key = compiler.cache_key(kernel, signature, cc)
            if key not in seen:
                seen.add(key)
                yield Wanted(key, kernel, signature)
