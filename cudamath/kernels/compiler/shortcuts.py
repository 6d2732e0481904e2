"""Shortcuts through Numba's compiler: what it computes again although nothing has changed.

From Python to LLVM IR a kernel and each of its device functions pass two dozen stages, and half of
the time there went into these things:

- the flags of a compilation are the key of a cache. Its look-up listed all of them, with their
  defaults, for the hash and again for each comparison;
- at each function, at each operation without an implementation, and at each new intrinsic, all
  registries of functions were asked for new entries;
- after each of Python's instructions it was asked whether it is in a `try`;
- after nine stages of each function the liveness of all variables was computed, and loops were
  looked for. Liveness is needed where a stage reads it, and by generators; kernels are none; loops
  are what they were where no block leads elsewhere;
- each operator of numbers or arrays, and each cast, was resolved as if it had not been met before,
  by all its templates, and what a builtin function stands for was looked up for each use;
- that there is no implementation for some types was found by asking all of them, twice;
- each statement was asked for its types at least twice (type_inference.py);
- the variables of each statement, which are listed again and again, were looked for in all that a
  statement refers to, by five questions for each of its parts;
- for each variable that is assigned twice, all statements were gone through (single_assignment.py);
- for each variable that is used in one block only, all statements of the block were gone through
  (local_variables.py);
- where variables end was found three times: for stages that look for closures and lists and find
  none, and to count references, which a GPU does not (lowering.py);
- the signature of a Python function was asked of `inspect` at each look-up of an implementation,
  of functions that are made anew for each call too; the size of a type of LLVM of a module that was
  written and parsed for it;
- stages were listed for each function, and each of them was followed by a search for statements
  that end variables; the end of `with`, lists and mappings were looked for where there are none;
- each statement entered and left a generator, in case that there is an error, and its text was
  written for nobody (lowering.py);
- the text of LLVM IR was put together of parts (llvm_text.py);
- room between Python's instructions was decoded and followed as if it were some (bytecode.py);
- around each stage listeners were told, locks taken, and times measured; where nothing is to be
  inlined or printed, each call was asked (stages.py);
- whether a type is of a class was asked of abstract classes, which functions take which types one
  after the other (matching.py);
- each constant of LLVM, and each number that a kernel refers to, imported what it is made by;
- NVVM looked for mistakes before it compiled, a quarter of its time: now where tests ask for that,
  and to say what is wrong with what does not compile.

What is compiled stays the same: `tests/kernels/compiler/test_shortcuts.py` compares machine code.
(Of 282 kernels of the list, two have other instructions where variables end, in as many registers.)
Versions of numba-cuda that were not read for this stay as they are.
"""

from __future__ import annotations

import functools
import inspect
import operator
import types as python_types
import weakref
from collections.abc import Callable
from typing import Any

from .cache_key import installed
from .lazy_numba import StandIn

_READ = "0.30."  # versions of numba-cuda

#: Whether NVVM looks for mistakes before it compiles: tests set it.
verifies = False


@functools.cache
def install() -> bool:
    """Take the shortcuts, once a process; False for a version of numba-cuda that is not known."""
    if not installed().get("numba-cuda", "").startswith(_READ):
        return False
    from llvmlite.ir import _utils, instructions, values
    from llvmlite.ir import types as llvm_types
    from numba.core import utils as core_utils
    from numba.core.types import abstract, functions
    from numba.cuda import compiler, lowering, target, utils
    from numba.cuda.core import (
        base,
        bytecode,
        byteflow,
        compiler_machinery,
        errors,
        event,
        inline_closurecall,
        interpreter,
        ir,
        postproc,
        ssa,
        targetconfig,
        typed_passes,
        typeinfer,
        untyped_passes,
    )
    from numba.cuda.core.rewrites import ir_print
    from numba.cuda.cudadrv import nvvm
    from numba.cuda.np import npyimpl, numpy_support
    from numba.cuda.typing import context, npydecl, templates

    from . import bytecode as quick_bytecode
    from . import llvm_text, matching, single_assignment, stages, type_inference
    from . import lowering as quick_lowering

    _compare_flags_quickly(targetconfig.TargetConfig)
    _list_stages_once(compiler.CUDACompiler)
    _check_once(compiler_machinery)
    _leave_contexts_if_there(interpreter)
    _rewrite_if_there(interpreter.Interpreter)
    _follow_exceptions_if_there(byteflow.Flow)
    _keep_places(ir.Loc)
    _ask_registries_once(target.CUDATargetContext)
    _ask_registries_once(target.CUDATypingContext)
    _compute_liveness_late(postproc)
    _remember_operators(functions.BaseFunction)
    _list_variables_quickly(ir)
    single_assignment.install(ssa)
    type_inference.install(typeinfer)
    quick_lowering.install(lowering, typed_passes, errors)
    llvm_text.install(instructions, values, _utils)
    _find_local_variables_quickly(lowering.Lower)
    _know_what_is_no_constant(lowering)
    _resolve_numbers_quickly(target.CUDATypingContext)
    _remember_builtins(target.CUDATypingContext)
    _remember_what_is_missing(base.OverloadSelector, errors.NumbaNotImplementedError)
    _look_for_closures_once(postproc, inline_closurecall, typed_passes, untyped_passes)
    _remember_signatures(utils, base, templates)
    _remember_sizes(base.BaseContext)
    _enter_errors_quickly(errors, lowering, typeinfer)
    _make_constants_quickly(llvm_types.Type, values.Constant)
    _verify_if_asked(nvvm.CompilationUnit)
    quick_bytecode.install(bytecode, byteflow)
    stages.install(compiler_machinery, event, typed_passes, ir_print)
    matching.install(
        type(abstract.Type), base, core_utils, context, numpy_support, npydecl, npyimpl
    )
    return True


def _compare_flags_quickly(config: Any) -> None:
    @functools.cache
    def defaults(kind: type) -> dict[str, Any]:
        return {name: option.default for name, option in kind.options.items()}  # type: ignore[attr-defined]

    @functools.cache
    def hashed(kind: type) -> int:
        return hash(tuple(sorted(defaults(kind))))  # of the names alone, as Numba has it

    def values(self: Any) -> dict[str, Any]:
        return defaults(type(self)) | self._values

    def equals(self: Any, other: object) -> Any:
        if not isinstance(other, config):
            return NotImplemented
        return self._values == other._values or values(self) == values(other)

    config.values, config.__eq__ = values, equals
    config.__hash__ = lambda self: hashed(type(self))


def _list_stages_once(compiler: Any) -> None:
    """The stages are the same for all functions that come as Python's with these flags."""
    define = compiler.define_pipelines
    known: dict[tuple, list[Any]] = {}

    def define_once(self: Any) -> Any:
        state = self.state
        if state.func_ir is not None:
            return define(self)
        key = type(self), state.flags.no_rewrites, state.flags.enable_ssa
        if key not in known:
            known[key] = define(self)
        return known[key]

    compiler.define_pipelines = define_once


def _check_once(machinery: Any) -> None:
    """That no stage has left statements which end variables is checked before the code is generated
    (`check_and_legalize_ir`), not after each stage as well."""
    machinery.enforce_no_dels = lambda function: None


def _leave_contexts_if_there(interpreter: Any) -> None:
    """What ends a `with` is looked for where there is one."""
    delete = interpreter.peep_hole_delete_with_exit

    def delete_if_there(function: Any) -> Any:
        scopes = {id(block.scope): block.scope for block in function.blocks.values()}
        names = (name for scope in scopes.values() for name in scope.localvars._con)
        if any(name.startswith("$setup_with_exitfn") for name in names):
            return delete(function)
        return function

    interpreter.peep_hole_delete_with_exit = delete_if_there


#: Rewritings of what Python's instructions became, each with the instructions of which it looks for
#: what became.
_REWRITTEN = {
    "peep_hole_list_to_tuple": {"BUILD_LIST"},
    "peep_hole_call_function_ex_to_call_function_kw": {"CALL_FUNCTION_EX"},
    "peep_hole_fuse_dict_add_updates": {"BUILD_MAP", "BUILD_CONST_KEY_MAP"},
}


def _rewrite_if_there(interpreter: Any) -> None:
    """Lists, mappings and calls with them are rewritten where there are any."""
    rewrite = interpreter.post_process

    def rewrite_if_there(self: Any, rewritings: list[Any], function: Any) -> Any:
        there = {each.opname for each in self.bytecode}
        needed = [_REWRITTEN.get(each.__name__, there) for each in rewritings]
        chosen = [each for each, names in zip(rewritings, needed, strict=True) if names & there]
        return rewrite(self, chosen, function)

    interpreter.post_process = rewrite_if_there


def _follow_exceptions_if_there(flow: Any) -> None:
    """After each instruction it was asked whether it is in a `try` or a `with`."""
    follow = flow._run_handle_exception

    def follow_if_there(self: Any, runner: Any, state: Any) -> Any:
        if self._bytecode.exception_entries:
            return follow(self, runner, state)
        state.advance_pc()
        return None

    flow._run_handle_exception = follow_if_there


def _keep_places(place: Any) -> None:
    """The instructions of a line have one place."""
    make = place.with_lineno

    def with_line(self: Any, line: int, col: Any = None) -> Any:
        if line == self.line and col is None and self.col is None and not self.maybe_decorator:
            return self
        return make(self, line, col)

    place.with_lineno = with_line


def _ask_registries_once(context: Any) -> None:
    """Registries are asked for entries when one has more than before, and then that one alone: each
    intrinsic of a kernel adds some."""
    refresh = context.refresh

    def lists(self: Any) -> list[Any]:
        """The lists of entries, which grow; found once while there are no new registries."""
        count, found = self.__dict__.get("_entry_lists", (0, []))
        if count != len(self._registries):
            found = [
                getattr(registry, name)
                for registry, loader in self._registries.items()
                for name in loader.registry_items
            ]
            self._entry_lists = len(self._registries), found
        return found

    def noting(install: Callable[..., None]) -> Callable[..., None]:
        def install_and_note(self: Any, registry: Any, *how: Any, **options: Any) -> None:
            install(self, registry, *how, **options)
            names = self._registries[registry].registry_items
            entries = [getattr(registry, name) for name in names]
            again = functools.partial(install_and_note, self, registry, *how, **options)
            self.__dict__.setdefault("_installed", {})[registry] = (
                again,
                entries,
                sum(map(len, entries)),
            )

        return install_and_note

    def refresh_if_new(self: Any) -> None:
        below = getattr(self, "typing_context", None)
        before = sum(map(len, lists(self))), below and sum(map(len, lists(below)))
        seen = self.__dict__.get("_entries_seen")
        if seen == before:
            return
        if seen is None:
            refresh(self)
        else:
            for again, entries, size in list(self._installed.values()):
                if sum(map(len, entries)) != size:
                    again()
            if below is not None:
                below.refresh()
        self._entries_seen = before

    context.refresh = refresh_if_new
    for name in ("install_registry", "install_external_registry"):
        if hasattr(context, name):
            setattr(context, name, noting(getattr(context, name)))


def _compute_liveness_late(postproc: Any) -> None:
    run = postproc.PostProcessor.run

    def edges(blocks: Any) -> list[tuple]:
        return [(label, *block.terminator.get_targets()) for label, block in blocks.items()]

    def canonical(function: Any) -> Any:
        """The blocks with one way back in each loop, which most stages leave as it is."""
        if function.__dict__.get("_canonical_edges") == edges(function.blocks):
            return function.blocks.copy()
        blocks = postproc.transforms.canonicalize_cfg(function.blocks)
        function._canonical_edges = edges(blocks)
        return blocks

    def run_late(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        function = self.func_ir
        if function.is_generator:
            run(self, emit_dels, extend_lifetimes)
            return
        function.blocks = canonical(function)
        function.variable_lifetime = postproc.VariableLifetime(function.blocks)
        function.generator_info = None
        if emit_dels:
            self._insert_var_dels(extend_lifetimes=extend_lifetimes)

    postproc.PostProcessor.run = run_late


def _remember_operators(function: Any) -> None:
    """The signature of an operator, or of a cast, for types of numbers and arrays is found once a
    context."""
    from numba.core import types

    resolve, operators = function.get_call_type, {*filter(callable, vars(operator).values()), bool}
    plain, numbers = (types.Number, types.Boolean, types.Array), (types.Number, types.Boolean)

    def remembered(self: Any, context: Any, args: Any, kws: Any) -> Any:
        meant = self.key[0]
        if (
            kws
            or not (isinstance(meant, numbers) or meant in operators)
            or not all([isinstance(each, plain) for each in args])
        ):
            return resolve(self, context, args, kws)
        known = self.__dict__.setdefault("_signatures", {})
        key = (context, *args)
        signature = known.get(key)
        if signature is None:
            signature = known[key] = resolve(self, context, args, kws)
        return signature

    function.get_call_type = remembered


def _resolve_numbers_quickly(context: Any) -> None:
    """Before it asks what a value is, the context imports what device functions are."""
    resolve, resolve_other = context.__base__.resolve_value_type, context.resolve_value_type
    plain = {int, float, complex, bool, str, type(None)}

    def resolve_quickly(self: Any, value: Any) -> Any:
        return (resolve if type(value) in plain else resolve_other)(self, value)

    context.resolve_value_type = resolve_quickly


def _verify_if_asked(unit: Any) -> None:
    verify, compile = unit.verify, unit.compile

    def verify_if_asked(self: Any) -> None:
        if verifies:
            verify(self)

    def compile_or_verify(self: Any) -> bytes:
        try:
            return compile(self)
        except Exception:
            verify(self)
            raise

    unit.verify, unit.compile = verify_if_asked, compile_or_verify


def _make_constants_quickly(kind: Any, constant: Any) -> None:
    """kind: llvmlite's class of types, which are called with values of theirs."""
    kind.__call__ = lambda self, value: constant(self, value)


def _remember_builtins(context: Any) -> None:
    """What an operator or another function that is written in C stands for is found once a context,
    until there are new entries (`_ask_registries_once`); what a stand-in stands for, once."""
    resolve, builtin = context.resolve_value_type, type(operator.add)

    def remembered(self: Any, value: Any) -> Any:
        if isinstance(value, StandIn):
            known = self.__dict__.setdefault("_stand_ins", {})
            if value not in known:
                known[value] = resolve(self, value)
            return known[value]
        if type(value) is not builtin:
            return resolve(self, value)
        entries = self.__dict__.get("_entries_seen")
        seen, known = self.__dict__.get("_builtins", (None, {}))
        if seen is not entries or entries is None:
            known = {}
            self._builtins = entries, known
        if value not in known:
            known[value] = resolve(self, value)
        return known[value]

    context.resolve_value_type = remembered


def _remember_what_is_missing(selector: Any, missing: type[Exception]) -> None:
    """That there is no implementation for types (an operator has none for its constants) is found
    once for each number of implementations."""
    find = selector._find

    def find_once(self: Any, types: Any) -> Any:
        known = self.__dict__.setdefault("_missing", {})
        if known.get(types) == len(self.versions):
            raise missing(str(types))
        try:
            return find(self, types)
        except missing:
            known[types] = len(self.versions)
            raise

    selector._find = find_once


def _find_local_variables_quickly(lower: Any) -> None:
    from . import local_variables

    def find(self: Any) -> None:
        function = self.func_ir
        generates = function.func_id.is_generator
        self._singly_assigned_vars = (
            set() if generates else local_variables.local_to_a_block(function.blocks)
        )
        self._blk_local_varmap = {}

    lower._find_singly_assigned_variable = find


def _know_what_is_no_constant(lowering: Any) -> None:
    """Of an operator's operands that are no constants no types of constants are made."""
    typed, unknown = lowering._lit_or_omitted, lowering.ir.UNDEFINED
    lowering._lit_or_omitted = lambda value: None if value is unknown else typed(value)


def _list_variables_quickly(ir: Any) -> None:
    plain, variable, instruction, sequence, mapping = range(5)
    kinds: dict[type, int] = {}

    def kind_of(kind: type) -> int:
        """What a member of this class is to the list of variables."""
        found = plain
        for number, classes in (
            (variable, ir.var_types),
            (instruction, ir.inst_types),
            (sequence, (list, tuple)),
            (mapping, dict),
        ):
            if issubclass(kind, classes):
                found = number
                break
        kinds[kind] = found
        return found

    def variables(self: Any, value: Any) -> list[Any]:
        what = kinds.get(type(value))
        if what is None:
            what = kind_of(type(value))
        if what < sequence:
            return [] if what == plain else [value] if what == variable else value.list_vars()
        found = []
        for each in value.values() if what == mapping else value:
            what = kinds.get(type(each))
            if what is None:
                what = kind_of(type(each))
            if what == variable:
                found.append(each)
            elif what != plain:
                found += each.list_vars() if what == instruction else variables(self, each)
        return found

    ir.Inst._rec_list_vars = variables


def _look_for_closures_once(postproc: Any, closures: Any, typed: Any, untyped: Any) -> None:
    """The stage that inlines closures, reductions and comprehensions, and the one that makes arrays
    of lists, have nothing to do where a function has none of these."""
    from numba.cuda.core import ir, ir_utils, rewrites

    def may_have(function: Any, *operations: str) -> bool:
        return any(
            each.value.op in operations
            if isinstance(each.value, ir.expr_types)
            else each.value.value is functools.reduce
            for block in function.blocks.values()
            for each in block.body
            if isinstance(each, ir.assign_types)
            and isinstance(each.value, (*ir.expr_types, *ir.global_types, *ir.freevar_types))
        )

    inline = closures.InlineClosureCallPass.run

    def inline_if_there(self: Any) -> None:
        if may_have(self.func_ir, "make_function", "build_list"):
            inline(self)
            return
        postproc.PostProcessor(self.func_ir).run()
        ir_utils.remove_dels(self.func_ir.blocks)  # the program's own

    rewrite = typed.NopythonRewrites.run_pass

    def rewrite_without_ends(self: Any, state: Any) -> bool:
        if may_have(state.func_ir, "build_list"):
            return rewrite(self, state)
        with typed.fallback_context(state, "rewriting after type inference"):
            rewrites.rewrite_registry.apply("after-inference", state)
        return True

    match = closures.RewriteArrayOfConsts.match

    def match_lists(self: Any, function: Any, block: Any, *others: Any) -> bool:
        found = any(True for _ in block.find_exprs("build_list"))
        return found and match(self, function, block, *others)

    def define_in_scopes(blocks: Any) -> None:
        """Once for each scope: most blocks share one."""
        used = {v: None for block in blocks.values() for s in block.body for v in s.list_vars()}
        for scope in {id(block.scope): block.scope for block in blocks.values()}.values():
            known = scope.localvars
            for variable in used:
                if variable.name not in known:
                    known.define(variable.name, variable)

    closures.InlineClosureCallPass.run = inline_if_there
    typed.NopythonRewrites.run_pass = rewrite_without_ends
    closures.RewriteArrayOfConsts.match = match_lists
    ir_utils.fixup_var_define_in_scope = untyped.fixup_var_define_in_scope = define_in_scopes


def _remember_signatures(utils: Any, base: Any, templates: Any) -> None:
    """templates: a module that asks `inspect`."""
    signature = utils.pysignature
    known: weakref.WeakKeyDictionary[Callable[..., Any], Any] = weakref.WeakKeyDictionary()
    of_code: dict[python_types.CodeType, Any] = {}

    def remembered(function: Any) -> Any:
        if type(function) is not python_types.FunctionType:
            return signature(function)
        if not (function.__defaults__ or function.__kwdefaults__ or function.__dict__):
            if function.__annotations__:
                return signature(function)
            code = function.__code__  # of many functions that are made anew for each call
            if code not in of_code:
                of_code[code] = signature(function)
            return of_code[code]
        found = known.get(function)
        if found is None:
            found = known[function] = signature(function)
        return found

    def has_loc(function: Any) -> bool:
        """Whether a function that generates code takes `loc`. Many are made anew for each call."""
        if type(function) is not python_types.FunctionType or function.__dict__:
            return "loc" in signature(function).parameters
        code = function.__code__
        return "loc" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    utils.pysignature = remembered
    templates.inspect = python_types.SimpleNamespace(**{**vars(inspect), "signature": remembered})
    base._has_loc = has_loc


def _remember_sizes(context: Any) -> None:
    size = context.get_abi_sizeof
    known: dict[tuple[str, str], int] = {}

    def remembered(self: Any, kind: Any) -> int:
        text = str(kind)
        if "%" in text:  # a name, whose meaning is the module's
            return size(self, kind)
        key = (text, str(self.target_data))
        found = known.get(key)
        if found is None:
            found = known[key] = size(self, kind)
        return found

    context.get_abi_sizeof = remembered


def _enter_errors_quickly(errors: Any, *users: Any) -> None:
    class Context:
        """What `errors.new_error_context` makes, without a generator."""

        __slots__ = ("args", "text", "values")

        def __init__(self, text: str, *args: Any, **values: Any):
            self.text, self.args, self.values = text, args, values
            place = values.get("loc")
            if place is not None and not place.filename.startswith(errors._numba_path):
                errors.loc_info.update(values)

        def __enter__(self) -> None:
            pass

        def __exit__(self, _kind: Any, error: Any, _trace: Any) -> None:
            if error is not None and isinstance(error, errors.NumbaError):
                error.add_context(errors._format_msg(self.text, self.args, self.values))

    for module in (errors, *users):
        module.new_error_context = Context
