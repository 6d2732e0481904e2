"""Shortcuts through Numba's compiler: the same machine code, in less time."""

from __future__ import annotations

import importlib.util
import itertools
import operator
import os
import subprocess
import sys

import numpy as np
import pytest

from cudamath.core.layout import Layout
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.compiler import lazy_numba, shortcuts, single_assignment, variable_lifetimes
from cudamath.kernels.compiler.lazy_numba import cuda

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")

COMPILE = """
import hashlib, sys
import cudamath as cm
from cudamath.kernels.compiler import compile as compiler, shortcuts
from cudamath.kernels.compiler.storage_types import arguments_type
from cudamath.runtime import rehearsal
if sys.argv[1] == "without":
    shortcuts.install = lambda: False
needed = []
def note(kernel, signature, _):
    needed.append((kernel, list(signature)))
    return b"\\x7fELF"
with rehearsal.rehearsing((9, 0), note, there=()), cm.device("cuda:0"):
    x = cm.ones((64, 100), dtype="bfloat16")
    cm.ml.softmax(x), cm.sort(x), x @ x.T, cm.var(x, axis=0)
print(len(needed))
for kernel, signature in needed:
    types = arguments_type(signature)
    code = compiler.compile_now(kernel, types, (9, 0, "a"))[0]
    print(kernel.__name__, hashlib.sha256(code).hexdigest())
print(shortcuts.install())
"""


def compiled(how, seed):
    """What COMPILE says in a process of its own, whose sets have another order."""
    return subprocess.run(
        [sys.executable, "-c", COMPILE, how],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": seed},
    ).stdout.split("\n")


@pytest.mark.slow
def test_machine_code_is_the_same_with_them_and_without_and_in_every_process():
    told = {how: compiled(how, seed) for how, seed in (("with", "1"), ("without", "2"))}
    count, *kernels, taken, _ = told["with"]
    assert int(count) == len(kernels) >= 5 and taken == "True"
    assert told["without"] == [count, *kernels, "False", ""]


def nested_loops(n, x):
    """Assigned in loops and branches, read behind them; one more before it is assigned."""
    total, last = 0, x
    for i in range(n):
        for j in range(i):
            if j > 3:
                total += j
                continue
            last = total
            if last > 100:
                break
        else:
            x = total
        late = last + x
        del last
        last = late
    return total, last, x, late


def exchange(a, b, c):
    while a > b:
        a, b, c = b, c, a + b
        if c:
            return a
    return b, c


def swap_in_place(x, i):
    x[i], x[i + 1] = x[i + 1], x[i]
    t = x[i] if i else i
    t = t if t else x[0]
    x[0] = t
    return None


def straight(x):
    x = x + 1
    x = x * x
    y = x
    y = y + x
    return y


FUNCTIONS = nested_loops, exchange, swap_in_place, straight


def fresh(name):
    """A module of Numba's as it was written."""
    spec = importlib.util.find_spec(f"numba.cuda.core.{name}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def intermediate(function):
    """Numba's representation of a function, with phi nodes nowhere and Del statements nowhere."""
    lazy_numba.numba_cuda()
    from numba.cuda.compiler import run_frontend

    return run_frontend(function)


def text_of(blocks):
    return "\n".join(f"{label}: {list(map(str, block.body))}" for label, block in blocks.items())


@pytest.mark.parametrize("function", FUNCTIONS)
def test_static_single_assignment_is_numbas(function):
    ssa = fresh("ssa")
    expected = ssa._run_ssa(intermediate(function).blocks)
    found = single_assignment.reconstruct(ssa, intermediate(function).blocks)
    assert text_of(found) == text_of(expected)
    assert ("phi" in text_of(found)) is (function is not straight)


@pytest.mark.parametrize("extend", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_variables_end_where_numba_ends_them(function, extend):
    postproc, ssa = fresh("postproc"), fresh("ssa")
    expected, found = intermediate(function), intermediate(function)
    for each in expected, found:
        each.blocks = ssa._run_ssa(each.blocks)
    postproc.PostProcessor(expected).run(True, extend_lifetimes=extend)
    postproc.PostProcessor(found).run(False)
    variable_lifetimes.insert_ends(found, extend=extend)
    assert text_of(found.blocks) == text_of(expected.blocks)
    assert "del " in text_of(found.blocks)


def test_signatures_are_remembered_by_context_operator_and_types():
    """Of another context, operator or type is another signature; of the same, the one found."""
    from numba.core import types

    asked = []

    class Function:
        def __init__(self, key):
            self.key = (key,)

        def get_call_type(self, context, args, kws):
            asked.append((context, self.key, args))
            return context, self.key, args

    shortcuts._remember_operators(Function)
    add, subtract = Function(operator.add), Function(operator.sub)
    calls = [
        (function, context, args)
        for function in (add, subtract)
        for context in ("host", "device")
        for args in itertools.product((types.int64, types.float32, types.boolean), repeat=2)
    ]
    for _ in range(2):
        for function, context, args in calls:
            expected = context, function.key, args
            assert function.get_call_type(context, args, {}) == expected
    assert len(asked) == len(calls)
    other = Function("a name")  # no operator: asked for each time
    assert [other.get_call_type("host", (types.int64,), {}) for _ in range(2)]
    assert len(asked) == len(calls) + 2


def test_sizes_are_remembered_by_type_and_layout_of_data():
    asked = []

    class Context:
        def __init__(self, target_data):
            self.target_data = target_data

        def get_abi_sizeof(self, kind):
            asked.append(kind)
            return len(kind) + len(self.target_data)

    shortcuts._remember_sizes(Context)
    for _ in range(2):
        for layout in ("e-i64", "e-p32-i64"):
            for kind in ("i8", "double", "{i64, i32}", "%named"):
                assert Context(layout).get_abi_sizeof(kind) == len(kind) + len(layout)
    assert len(asked) == 2 * 3 + 4  # what a name means is the module's


def test_positions_are_those_of_statements_and_not_of_equal_ones():
    ssa = fresh("ssa")
    single_assignment.install(ssa)
    block = next(iter(intermediate(straight).blocks.values()))
    variable = ssa._FixSSAVars(ssa._CacheListVars())
    plain = fresh("ssa")._FixSSAVars(ssa._CacheListVars())
    stranger = intermediate(straight).blocks[next(iter(intermediate(straight).blocks))].body[0]
    for statement in (*block.body, stranger):
        for stop in (-1, 0, 2, len(block.body)):
            found = variable._stmt_index(statement, block, stop=stop)
            assert found == plain._stmt_index(statement, block, stop=stop)


def test_closures_are_inlined():
    """Of a function that has some, as in Numba's documentation."""

    @cuda.jit
    def kernel(x):
        """x: (n,)."""

        def twice(value):
            return value + value

        x[0] = twice(x[0])

    ptx = compiler.ptx_of(kernel, [Layout.new((4,), np.dtype(np.float32), 0)], (8, 0))
    assert "add.f32" in ptx or "add.rn.f32" in ptx


def test_another_version_of_numba_cuda_stays_as_it_is(monkeypatch):
    from numba.cuda.core.postproc import PostProcessor

    run = PostProcessor.run
    shortcuts.install.cache_clear()
    monkeypatch.setattr(shortcuts, "installed", lambda: {"numba-cuda": "0.99.0"})
    try:
        assert shortcuts.install() is False and PostProcessor.run is run
    finally:
        monkeypatch.undo()
        shortcuts.install.cache_clear()


def test_the_collector_waits_while_numba_compiles(monkeypatch):
    """And collects again, whatever happens."""
    import gc

    assert gc.isenabled()
    with pytest.raises(KeyError), compiler._compiling_for((8, 0)):
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with compiler._compiling_for((8, 0)):
            pass
        assert not gc.isenabled()  # as it was found
    finally:
        gc.enable()
