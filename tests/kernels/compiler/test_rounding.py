"""Products and sums that are rounded one by one: in the kernels of functions that take extremes of
what they compute, or compare it for equality, and in no others."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
from emulated_gpu import emulated_gpu

import cudamath as cm
from cudamath.core.dispatch import planner_calls
from cudamath.core.dispatch.planner_calls import PlannerCall
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import cache_key, compile, lazy_numba
from cudamath.kernels.elementwise import generator
from cudamath.kernels.generated.fusion import Program, Shape, Value, composed, fused_rows
from cudamath.runtime.cubin_cache import link

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
F8 = np.dtype("f8")
SHAPE = Shape(32, 1, 1, 0, 1, False)
X, Y = (Value("load", F8, (), (k, (0, 1)), False) for k in range(2))
#: x * y + y
COMPUTED = (
    X,
    Y,
    Value("apply", F8, (0, 1), ("x * y", F8), False),
    Value("apply", F8, (2, 1), ("x + y", F8), False),
)


#: A sum of rows of that, which is no element; and an elementwise program.
SUMS = Program((*COMPUTED, Value("sum", F8, (3,), None, True)), (4,))
ELEMENTS = Program(COMPUTED, (3,))

#: Functions of two arrays, and whether their kernels round.
FUNCTIONS: dict[str, tuple[Any, bool]] = {
    "a maximum": (lambda x, y: (x * y + y).max(-1), True),
    "a minimum, and what it is found among": (
        lambda x, y: (z := x * y + y) - cm.where(z > 0, z, y).min(0),
        True,
    ),
    "equality": (lambda x, y: cm.where(x * y + y == y, x, y * x), True),
    "inequality of what is read": (lambda x, y: cm.where(x != y, x * y + y, x), False),
    "a maximum of what is read": (lambda x, y: x.max(-1) * y.max() + y.max(-1), False),
    "a sum": (lambda x, y: (x * y + y).sum(-1), False),
    "the gradient of a sum": (cm.grad(lambda x, y: (x * y + y).sum()), False),
    "the gradient of a maximum": (cm.grad(lambda x, y: (x * y + y).max(-1).sum()), True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_which_functions_round(monkeypatch, name: str) -> None:
    function, rounds = FUNCTIONS[name]
    seen: set[bool] = set()

    def observe(call: PlannerCall, _plan: Any) -> None:
        if call.planner == "generated.fusion.fused":
            seen.add(call.params.get("rounds", False))

    with emulated_gpu(monkeypatch):
        x, y = (cm.array(np.random.default_rng(k).normal(size=(5, 40))) for k in range(2))
        planner_calls.observers.append(observe)
        try:
            cm.fuse(function)(x, y)
        finally:
            planner_calls.observers.remove(observe)
    assert seen == {rounds}


@pytest.mark.parametrize("rounds", [False, True])
def test_kernels_that_round(rounds: bool) -> None:
    function, _ = composed(ELEMENTS, rounds)
    kernels = [
        fused_rows(SUMS, SHAPE, rounds),
        generator.vector_kernel(function, (True, True), 2),
        generator.rows_kernel(function, ("run", "run"), 2, 1, False),
        generator.broadcast_kernel(function, ("run", "part"), 2, 1, False),
        generator.plain_kernel(function, (True, True), 2, False, 1, False),
    ]
    assert [k.targetoptions.get("fma", True) for k in kernels] == [not rounds] * len(kernels)


def _instructions(ltoir: bytes, *options: str) -> list[str]:
    """The products and sums of float64 in PTX."""
    from cuda.bindings import nvjitlink

    options = "-arch=sm_90a", "-lto", "-ptx", *options
    handle = nvjitlink.create(len(options), [*options])
    nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, ltoir, len(ltoir), "kernel")
    nvjitlink.complete(handle)
    text = bytearray(nvjitlink.get_linked_ptx_size(handle))
    nvjitlink.get_linked_ptx(handle, text)
    nvjitlink.destroy(handle)
    return re.findall(r"(?:fma|mul|add)[.a-z]*\.f64", text.decode())


@pytest.mark.compiles
def test_the_linker_is_told_so(monkeypatch) -> None:
    """A kernel that rounds has no fused multiply-add, and a key of its own."""
    given: list[tuple] = []

    def noted(ltoir: bytes, arch: str, registers: int | None, fma: bool) -> tuple[bytes, str]:
        given.append((ltoir, fma))
        return link(ltoir, arch, registers, fma)

    monkeypatch.setattr(compile.cubin_cache, "link", noted)
    keys = set()
    for rounds in (True, False):
        kernel = fused_rows(SUMS, SHAPE, rounds)
        memory, count = Layout.new((12,), F8, 0), len(inspect.signature(kernel.py_func).parameters)
        signature = [memory] * 3 + [np.dtype("i8")] * (count - 3)
        target = compile.target((9, 0))
        compile.compile_now(kernel, compile.arguments_type(signature), target)
        keys.add(cache_key.fingerprint(kernel))
    (one, fused_one), (other, fused_other) = given
    assert (fused_one, fused_other) == (False, True) and len(keys) == 2
    assert {"mul.rn.f64", "add.rn.f64"} <= {*_instructions(one, "-fma=0")}
    assert not any(x.startswith("fma") for x in _instructions(one, "-fma=0"))
    assert any(x.startswith("fma") for x in _instructions(other))


@pytest.mark.compiles
def test_what_cannot_be_linked_says_why() -> None:
    with pytest.raises(RuntimeError, match="does not match type"):
        link(b"no machine code", "sm_90a")
