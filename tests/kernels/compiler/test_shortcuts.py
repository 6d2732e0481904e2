"""Shortcuts through Numba's compiler: the same machine code, in less time."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import operator
import os
import re
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest

from cudamath.core.layout import Layout
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.compiler import (
    lazy_numba,
    llvm_text,
    local_variables,
    shortcuts,
    single_assignment,
)
from cudamath.kernels.compiler.lazy_numba import cuda
from cudamath.kernels.compiler.storage_types import arguments_type

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
    spec = importlib.util.find_spec(f"numba.cuda.{name}")
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
    ssa = fresh("core.ssa")
    expected = ssa._run_ssa(intermediate(function).blocks)
    found = single_assignment.reconstruct(ssa, intermediate(function).blocks)
    assert text_of(found) == text_of(expected)
    assert ("phi" in text_of(found)) is (function is not straight)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_variables_of_one_block_are_those_that_numba_finds(function):
    found = intermediate(function)
    found.blocks = fresh("core.ssa")._run_ssa(found.blocks)
    lower = types.SimpleNamespace(func_ir=found, blocks=found.blocks)
    fresh("lowering").Lower._find_singly_assigned_variable(lower)
    assert local_variables.local_to_a_block(found.blocks) == lower._singly_assigned_vars
    assert lower._singly_assigned_vars


def lowered(function):
    """LLVM's representation of a kernel of one array, function by function."""
    arguments = arguments_type([Layout.new((8,), np.dtype(np.int64), 0)])
    library = compiler.to_llvm(cuda.jit(function), arguments, (9, 0, "a"))
    return library.get_llvm_str().split("\ndefine ")[1:]


def test_what_is_loaded_is_used():
    """Where variables end, and where they are assigned anew, they are not read."""

    def kernel(x):
        total, last = 0, x.size
        for i in range(x.size):
            if x[i] > 3:
                total += i
                last = total
            x[i] = total
        x[0] = last

    loads = 0
    for text in lowered(kernel):
        for name in re.findall(r"%(\S+) = load ", text):
            loads += 1
            assert len(re.findall(rf"%{re.escape(name)}(?![\w.])", text)) > 1, name
    assert loads > 3


def test_errors_name_the_statement_that_is_lowered():
    from numba.cuda.core import errors

    @lazy_numba.intrinsic
    def refused(context):
        def generate(context, builder, signature, values):
            raise errors.LoweringError("not here")

        return lazy_numba.types.int32(), generate

    def kernel(x):
        x[0] = refused()

    with pytest.raises(errors.LoweringError, match="(?s)not here.*lowering.*test_shortcuts.py"):
        lowered(kernel)


def test_the_text_of_llvm_is_what_llvmlite_writes():
    """Of each kind of instruction that has a writer of its own."""
    from llvmlite import ir
    from llvmlite.ir import instructions

    shortcuts.install()
    module = ir.Module("m")
    i32, f32, i1 = ir.IntType(32), ir.FloatType(), ir.IntType(1)
    pair = ir.LiteralStructType([i32, f32])
    function = ir.Function(module, ir.FunctionType(i32, [i32, f32, pair.as_pointer()]), "f")
    n, x, at = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    end, other = b.append_basic_block("end"), b.append_basic_block('o "ther')
    slot = b.alloca(i32, name="slot")
    b.store(b.add(n, ir.Constant(i32, -3), flags=["nsw"]), slot, align=4)
    place = b.gep(at, [ir.Constant(i32, 0), ir.Constant(i32, 0)], inbounds=True)
    b.store(b.load(slot, align=4), b.gep(place, [n], name="slot"))
    whole = b.insert_value(b.load(at), b.fmul(x, b.sitofp(n, f32)), 1)
    less = b.fcmp_ordered("<", b.extract_value(whole, 1), x, flags=["nnan"])
    b.cbranch(b.and_(less, b.icmp_signed("!=", n, b.neg(n))), end, other)
    b.position_at_end(other)
    noted = b.load(slot)
    noted.set_metadata("range", module.add_metadata([ir.Constant(i32, 0), ir.Constant(i32, 9)]))
    b.branch(end)
    b.position_at_end(end)
    b.ret(b.select(i1(1), n, b.trunc(b.zext(n, ir.IntType(64)), i32)))
    expected = [
        line
        for block in function.blocks
        for line in (f"{block._format_name()}:\n", *(f"  {each}\n" for each in block.instructions))
    ]
    kinds = {type(each) for block in function.blocks for each in block.instructions}
    assert kinds >= set(llvm_text._writers(instructions))
    found = []
    for block in function.blocks:
        block.descr(found)
    assert found == expected


def inferred(function, argument):
    """(types of the variables of a function, calls that were resolved) as this package infers
    them."""
    from numba.cuda.core import typed_passes, typeinfer
    from numba.cuda.descriptor import cuda_target

    shortcuts.install()
    resolved = []
    resolve = typeinfer.CallConstraint.resolve

    def noted(self, *args, **options):
        resolved.append((self.func, self.loc.line))
        return resolve(self, *args, **options)

    context, target = cuda_target.typing_context, cuda_target.target_context
    context.refresh()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typeinfer.CallConstraint, "resolve", noted)
        found = intermediate(function)
        found.blocks = fresh("core.ssa")._run_ssa(found.blocks)
        kinds, *_ = typed_passes.type_inference_stage(context, target, found, (argument,), None)
    return kinds, resolved


def once(x):
    return abs(x) * x + abs(x)


def widening(x):
    """`total` is an integer in the first round."""
    total = 0
    for _ in range(10):
        total = abs(total)
        total += x
    return total


def test_calls_are_asked_for_their_types_once():
    from numba.core import types

    kinds, resolved = inferred(once, types.float32)
    assert kinds["x"] == types.float32 and resolved
    assert len(resolved) == 4  # two calls, a product and a sum
    kinds, again = inferred(widening, types.float64)
    assert {kind for name, kind in kinds.items() if name.startswith("total.")} == {types.float64}
    assert len(again) > len(set(again))  # of another type than in the round before


def test_a_round_keeps_errors_and_warnings_of_each_statement():
    """The compiler's own warnings under the place of the statement; all others are given."""
    from numba.cuda.core import errors, ir, typeinfer

    shortcuts.install()

    class Statement:
        def __init__(self, line, does):
            self.loc, self.does = ir.Loc("a file", line), does

        def __call__(self, inference):
            self.does()

    def fail():
        raise typeinfer.TypingError("no type")

    def warn(category):
        return lambda: warnings.warn("mind", category, stacklevel=1)

    network = typeinfer.ConstraintNetwork()
    kinds = errors.NumbaWarning, DeprecationWarning
    for line, does in enumerate([fail, *map(warn, kinds), lambda: None], 1):
        network.append(Statement(line, does))
    inference = types.SimpleNamespace(warnings=errors.WarningsFixer(errors.NumbaWarning))
    with pytest.warns(DeprecationWarning, match="mind") as given:
        (error,) = network.propagate(inference)
    assert len(given) == 1
    assert isinstance(error, typeinfer.TypingError) and "no type" in str(error)
    assert '"a file", line 1' in str(error)
    place = "a file", 2, errors.NumbaWarning
    assert dict(inference.warnings._warnings) == {place: {"mind"}}


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
    kinds = types.int64, types.float32, types.boolean, types.float32[::1]
    add, get, cast = Function(operator.add), Function(operator.getitem), Function(types.float32)
    calls = [
        (function, context, args)
        for function in (add, get, cast)
        for context in ("host", "device")
        for args in itertools.product(kinds, repeat=2)
    ]
    for _ in range(2):
        for function, context, args in calls:
            expected = context, function.key, args
            assert function.get_call_type(context, args, {}) == expected
    assert len(asked) == len(calls)
    other = Function("a name")  # no operator: asked for each time
    assert [other.get_call_type("host", (types.int64,), {}) for _ in range(2)]
    assert len(asked) == len(calls) + 2


def continued(n):
    """A loop with three ways back."""
    total = 0
    while total < n:
        if total > 5:
            total += 3
            continue
        if total > 2:
            total += 2
            continue
        total += 1
    return total


@pytest.mark.parametrize("function", (*FUNCTIONS, continued))
def test_loops_are_looked_for_where_blocks_lead_elsewhere(function, monkeypatch):
    from numba.cuda.core import postproc

    shortcuts.install()
    expected, found = intermediate(function), intermediate(function)
    looked, look = [], postproc.transforms.canonicalize_cfg
    plain = fresh("core.postproc")
    monkeypatch.setattr(
        postproc.transforms, "canonicalize_cfg", lambda blocks: looked.append(1) or look(blocks)
    )
    for _ in range(2):
        plain.PostProcessor(expected).run()
        count = len(looked)
        postproc.PostProcessor(found).run()
        assert text_of(found.blocks) == text_of(expected.blocks)
    assert len(looked) == count  # not again
    label = next(iter(found.blocks))
    del found.blocks[label]
    found.blocks[label + 1] = expected.blocks[label]
    postproc.PostProcessor(found).run()
    assert len(looked) == count + 1


def test_what_is_missing_is_remembered_until_there_is_another_implementation():
    asked = []

    class Selector:
        def __init__(self):
            self.versions = []

        def _find(self, kinds):
            asked.append(kinds)
            if kinds not in self.versions:
                raise NotImplementedError
            return kinds

    shortcuts._remember_what_is_missing(Selector, NotImplementedError)
    selector = Selector()
    for kinds in ("a", "b", "a", "b"):
        with pytest.raises(NotImplementedError):
            selector._find(kinds)
    assert asked == ["a", "b"]
    selector.versions.append("a")
    assert selector._find("a") == "a"
    with pytest.raises(NotImplementedError):
        selector._find("b")
    assert asked == ["a", "b", "a", "b"]


def test_stages_are_listed_once_for_functions_of_python_and_flags():
    class Compiler:
        def __init__(self, function, no_rewrites, enable_ssa):
            flags = types.SimpleNamespace(no_rewrites=no_rewrites, enable_ssa=enable_ssa)
            self.state = types.SimpleNamespace(func_ir=function, flags=flags)

        def define_pipelines(self):
            return [object()]

    shortcuts._list_stages_once(Compiler)
    of = lambda *given: Compiler(*given).define_pipelines()  # noqa: E731
    assert of(None, False, True) is of(None, False, True)
    given = (None, True, True), (None, False, False), ("a function", False, True)
    found = [of(None, False, True), *map(lambda each: of(*each), given)]
    assert len(set(map(id, found))) == 4
    assert of(*given[-1]) is not of(*given[-1])


def test_the_end_of_a_context_is_looked_for_where_there_is_one():
    looked = []
    module = types.SimpleNamespace(peep_hole_delete_with_exit=looked.append)
    shortcuts._leave_contexts_if_there(module)
    for names, count in ((["x", "$4compare"], 0), (["x", "$setup_with_exitfn.1"], 1)):
        scope = types.SimpleNamespace(localvars=types.SimpleNamespace(_con=names))
        block = types.SimpleNamespace(scope=scope)
        module.peep_hole_delete_with_exit(types.SimpleNamespace(blocks={0: block, 8: block}))
        assert len(looked) == count


def test_builtins_are_looked_up_once_until_there_are_new_entries():
    asked = []

    class Context:
        def __init__(self):
            self._entries_seen = 1, None

        def resolve_value_type(self, value):
            asked.append(value)
            return str(value)

    shortcuts._remember_builtins(Context)
    context = Context()
    for _ in range(2):
        for value in (operator.add, abs, "a name"):
            assert context.resolve_value_type(value) == str(value)
    assert asked == [operator.add, abs, "a name", "a name"]
    context._entries_seen = (2, None)
    assert context.resolve_value_type(abs) and asked[-1] is abs and len(asked) == 5
    Context().resolve_value_type(abs)
    assert len(asked) == 6


def test_what_a_stand_in_stands_for_is_found_once():
    asked = []

    class Context:
        def resolve_value_type(self, value):
            asked.append(value)
            return f"type of {value}"

    shortcuts._remember_builtins(Context)
    context, names = Context(), (lazy_numba.types.int32, lazy_numba.types.float32)
    for _ in range(2):
        for name in names:
            assert context.resolve_value_type(name) == f"type of {name}"
    assert asked == list(names)
    Context().resolve_value_type(names[0])
    assert len(asked) == 3


def test_lists_mappings_and_their_calls_are_rewritten_where_there_are_any():
    rewritten = []

    def rewriting(name):
        def rewrite(function):
            rewritten.append(name)
            return function

        rewrite.__name__ = name
        return rewrite

    class Interpreter:
        def __init__(self, *names):
            self.bytecode = [types.SimpleNamespace(opname=name) for name in names]

        def post_process(self, rewritings, function):
            for each in rewritings:
                function = each(function)
            return function

    shortcuts._rewrite_if_there(Interpreter)
    every = [rewriting(name) for name in (*shortcuts._REWRITTEN, "another")]
    for names, expected in (
        (["LOAD_FAST"], ["another"]),
        (["BUILD_MAP", "LOAD_FAST"], ["peep_hole_fuse_dict_add_updates", "another"]),
        (["BUILD_LIST", "CALL_FUNCTION_EX"], [*list(shortcuts._REWRITTEN)[:2], "another"]),
    ):
        rewritten.clear()
        assert Interpreter(*names).post_process(every, "a function") == "a function"
        assert rewritten == expected
    interpreter = importlib.import_module("numba.cuda.core.interpreter")
    assert all(hasattr(interpreter, name) for name in shortcuts._REWRITTEN)


def test_functions_of_one_code_have_one_signature():
    """Unless they have defaults or annotations of their own."""
    asked = []
    module = types.SimpleNamespace(pysignature=lambda f: asked.append(f) or inspect.signature(f))
    templates = types.SimpleNamespace()
    shortcuts._remember_signatures(module, types.SimpleNamespace(), templates)

    def plain():
        return lambda a, b: a

    def with_default(value):
        return lambda a, b=value: a

    for make in plain, lambda: with_default(1), lambda: with_default(2):
        asked.clear()
        for each in (make(), make()):
            assert module.pysignature(each) == inspect.signature(each)
            assert templates.inspect.signature(each) == inspect.signature(each)
        assert len(asked) == (1 if make is plain else 2)


def test_of_registries_those_with_new_entries_are_asked():
    """With the options with which they were installed; those of the context below as well."""
    asked = []

    class Registry:
        def __init__(self, name):
            self.name, self.functions = name, []

    class Context:
        def __init__(self, below, *registries):
            self.typing_context, self.all, self._registries = below, registries, {}

        def install_registry(self, registry, external=False):
            self._registries[registry] = types.SimpleNamespace(registry_items=["functions"])
            asked.append((registry.name, external))

        def install_external_registry(self, registry):
            self._registries[registry] = types.SimpleNamespace(registry_items=["functions"])
            asked.append((registry.name, "external"))

        def refresh(self):
            *own, other = self.all
            for each in own:
                self.install_registry(each, external=each.name == "b")
            self.install_external_registry(other)
            if self.typing_context is not None:
                self.typing_context.refresh()

    shortcuts._ask_registries_once(Context)
    a, b, other, typing, last = (Registry(name) for name in ("a", "b", "other", "typing", "last"))
    context = Context(Context(None, typing, last), a, b, other)
    every = [("a", False), ("b", True), ("other", "external"), ("typing", False)]
    every.append(("last", "external"))
    for changed, expected in (
        ([], every),
        ([], []),
        ([b], [("b", True)]),
        ([other, typing], [("other", "external"), ("typing", False)]),
        ([], []),
    ):
        asked.clear()
        for each in changed:
            each.functions.append("one more")
        context.refresh()
        assert asked == expected


def test_exceptions_are_followed_where_there_are_any():
    followed = []

    class Flow:
        def __init__(self, *entries):
            self._bytecode = types.SimpleNamespace(exception_entries=entries)

        def _run_handle_exception(self, runner, state):
            followed.append(runner)
            return True

    shortcuts._follow_exceptions_if_there(Flow)
    advanced = []
    state = types.SimpleNamespace(advance_pc=lambda: advanced.append(1))
    assert not Flow()._run_handle_exception("runner", state)
    assert advanced == [1] and not followed
    assert Flow("an entry")._run_handle_exception("runner", state)
    assert advanced == [1] and followed == ["runner"]


def test_the_instructions_of_a_line_have_one_place():
    from numba.cuda.core import ir

    shortcuts.install()
    place = ir.Loc("a file", 3)
    assert place.with_lineno(3) is place and place.with_lineno(4) == ir.Loc("a file", 4)
    assert place.with_lineno(3, 1) == ir.Loc("a file", 3, 1)
    assert not ir.Loc("a file", 3, maybe_decorator=True).with_lineno(3).maybe_decorator


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
    ssa = fresh("core.ssa")
    single_assignment.install(ssa)
    block = next(iter(intermediate(straight).blocks.values()))
    variable = ssa._FixSSAVars(ssa._CacheListVars())
    plain = fresh("core.ssa")._FixSSAVars(ssa._CacheListVars())
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


def many_constants(x):
    """So long that arguments and jumps need more than a byte."""
    total = 0
    for i in range(10):
        if x > i:
            total += {sum}
        else:
            total -= abs(x)
    return total


def long_function():
    """`many_constants` with 300 different constants in its loop."""
    source = inspect.getsource(many_constants).format(sum=" + ".join(map(str, range(1000, 1300))))
    names = {}
    exec(source, names)
    return names["many_constants"]


@pytest.mark.parametrize("function", [*FUNCTIONS, long_function()], ids=lambda f: f.__name__)
def test_instructions_without_room_become_what_they_were(function):
    from numba.cuda.core import bytecode, interpreter

    lazy_numba.numba_cuda()
    shortcuts.install()
    own = fresh("core.bytecode")
    told = []
    for module in (own, bytecode):
        identity = module.FunctionIdentity.from_function(function)
        found = module.ByteCode(identity)
        blocks = interpreter.Interpreter(identity).interpret(found).blocks
        told.append((found, text_of(blocks)))
    (all_of_them, expected), (without, text) = told
    assert text == expected
    assert "CACHE" not in {each.opname for each in without}
    there = {each.offset for each in without}
    for each in without:
        assert not each.is_jump or each.get_jump_target() in there
        assert each.next in there or each is list(without)[-1]
        assert each.lineno == all_of_them[each.offset].lineno


def test_who_listens_hears_of_each_stage_and_errors_come_out():
    lazy_numba.numba_cuda()
    from numba.core import errors
    from numba.cuda.core import event

    def kernel(x):
        x[0] = 1

    def unknown(x):
        x[0] = len(3)

    with event.install_recorder("numba-cuda:run_pass") as heard:
        lowered(kernel)
    stages = {record.data["name"].split()[0] for _, record in heard.buffer}
    assert stages >= {"cuda_translate_bytecode", "nopython_type_inference", "cuda_native_lowering"}
    with pytest.raises(errors.TypingError, match="len"):
        lowered(unknown)


def test_print_and_what_is_to_be_inlined_are_found():
    from numba.cuda.extending import overload

    def halved(x):
        """Half."""

    @overload(halved, inline="always")
    def inlined(x):
        return lambda x: x // 2

    def kernel(x):
        print(halved(x[0]))

    def silent(x):
        x[0] = halved(x[0])

    assert "vprintf" in "".join(lowered(kernel))
    text = "".join(lowered(silent))
    assert "vprintf" not in text and "sdiv" in text and "halved" not in text


def test_implementations_are_those_that_numba_finds():
    """For each version of operators, conversions and attributes, and types of each kind."""
    from numba.core import types
    from numba.cuda.descriptor import cuda_target

    lazy_numba.numba_cuda()
    shortcuts.install()
    context = cuda_target.target_context
    context.refresh()
    numbers = [types.int32, types.uint8, types.float64, types.complex64, types.boolean]
    arrays = [types.Array(types.float32, 2, "C"), types.Array(types.int64, 1, "A")]
    others = [types.UniTuple(types.int32, 2), types.literal(3), types.none, types.Any]
    kinds = [*numbers, *arrays, *others, types.Number, types.Array]
    own = fresh("core.base").OverloadSelector()
    found = matched = 0
    for selector in [*context._defns.values(), context._casts, *context._getattrs.values()]:
        for formal in {formal for formal, _ in selector.versions}:
            for actual in itertools.product(kinds, repeat=min(len(formal), 2)):
                expected = bool(own._match_arglist(formal, actual))
                assert selector._match_arglist(formal, actual) is expected, (formal, actual)
                found, matched = found + 1, matched + expected
    assert found > 1000 and matched > 100


def test_loops_of_ufuncs_are_those_that_numba_finds():
    from numba.core import types
    from numba.cuda.np import numpy_support

    lazy_numba.numba_cuda()
    shortcuts.install()
    find = fresh("np.numpy_support").ufunc_find_matching_loop
    kinds = [types.int32, types.uint8, types.float32, types.float64, types.complex64]
    for ufunc in (np.add, np.true_divide, np.power, np.less, np.left_shift):
        for pair in itertools.product(kinds, repeat=2):
            expected = find(ufunc, pair)
            for _ in range(2):
                assert numpy_support.ufunc_find_matching_loop(ufunc, pair) == expected


def test_classes_of_types_are_asked_for_their_instances():
    from numba.core import types

    lazy_numba.numba_cuda()
    shortcuts.install()
    assert isinstance(types.float32, types.Number) and issubclass(types.Float, types.Number)
    assert not isinstance(types.float32, types.Integer) and not isinstance(3, types.Type)
    with pytest.raises(TypeError, match="abstract"):
        types.abstract.ArrayCompatible("an abstract class")


def test_templates_for_all_targets_are_ordered_as_numba_does():
    from numba.core import utils
    from numba.core.target_extension import target_registry

    lazy_numba.numba_cuda()
    shortcuts.install()

    def template(**metadata):
        return type("Template", (), {"metadata": metadata})

    plain, own, others = template(), template(target="cuda"), template(target="cpu")
    order, cuda_target = utils.order_by_target_specificity, target_registry["cuda"]
    assert order(cuda_target, (plain,)) == [plain]
    assert order(cuda_target, (plain, own)) == [own, plain]
    assert order(cuda_target, []) == []
    with pytest.raises(Exception, match="(?i)target"):
        order(cuda_target, (others,), fnkey="f")


def test_what_does_not_compile_is_verified(monkeypatch):
    lazy_numba.numba_cuda()
    shortcuts.install()
    from numba.cuda.cudadrv import nvvm

    asked = []

    class Unit:
        def verify(self):
            asked.append("verify")

        def compile(self):
            asked.append("compile")
            if self.wrong:
                raise ValueError("wrong")
            return b"code"

    shortcuts._verify_if_asked(Unit)
    for verifies, wrong, expected in (
        (False, False, ["compile"]),
        (True, False, ["verify", "compile"]),
        (False, True, ["compile", "verify"]),
    ):
        monkeypatch.setattr(shortcuts, "verifies", verifies)
        asked.clear()
        unit = Unit()
        unit.wrong = wrong
        unit.verify()
        if wrong:
            with pytest.raises(ValueError, match="wrong"):
                unit.compile()
        else:
            assert unit.compile() == b"code"
        assert asked == expected
    with pytest.raises(Exception, match="(?i)error"):
        nvvm.compile_ir("no representation", arch="compute_90")
