"""Products and sums that are rounded one by one: in kernels that take extremes of what they compute
or compare it for equality, and in no others."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from ml_dtypes import bfloat16

from cudamath.core.layout import Layout
from cudamath.kernels.compiler import cache_key, compile, lazy_numba
from cudamath.kernels.elementwise import generator
from cudamath.kernels.generated.fusion import Program, Shape, Value, composed, fused_rows
from cudamath.runtime.cubin_cache import link

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
F8 = np.dtype("f8")
X, Y = (Value("load", F8, (), (k, (0, 1)), False) for k in range(2))
#: x * y + y
COMPUTED = (
    X,
    Y,
    Value("apply", F8, (0, 1), ("x * y", F8), False),
    Value("apply", F8, (2, 1), ("x + y", F8), False),
)


def of(*values: Value) -> Program:
    return Program(values, (len(values) - 1,))


#: Programs, and whether each rounds.
PROGRAMS = {
    "a maximum": (of(*COMPUTED, Value("max", F8, (3,), None, True)), True),
    "a minimum of what is chosen": (
        of(
            *COMPUTED,
            Value("where", F8, (0, 3, 1), None, False),
            Value("min", F8, (4,), None, True),
        ),
        True,
    ),
    "rounded before it is compared": (
        of(
            *COMPUTED,
            Value("cast", np.dtype(bfloat16), (3,), None, False),
            Value("apply", np.dtype("?"), (4, 0), ("x == y", F8), False),
        ),
        True,
    ),
    "equality": (of(*COMPUTED, Value("apply", np.dtype("?"), (3, 0), ("x != y", F8), False)), True),
    "a sum": (of(*COMPUTED, Value("sum", F8, (3,), None, True)), False),
    "a maximum of what is read": (of(X, Value("max", F8, (0,), None, True)), False),
    "equality of what is read": (
        of(X, Y, Value("apply", np.dtype("?"), (0, 1), ("x == y", F8), False)),
        False,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_which_programs_round(name: str) -> None:
    program, rounds = PROGRAMS[name]
    assert program.rounds == rounds
    kernels = [fused_rows(program, Shape(32, 1, 1, 0, 1, False))]
    if not program.reductions:
        function, _ = composed(program)
        kernels += [
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
    for name in ("a maximum", "a sum"):
        kernel = fused_rows(PROGRAMS[name][0], Shape(32, 1, 1, 0, 1, False))
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
