"""Shortcuts through Numba's compiler: what it computes again although nothing has changed.

From Python to LLVM IR a kernel and each of its device functions pass two dozen stages, and a third
of the time there went into five things:

- the flags of a compilation are the key of a cache. Its look-up listed all of them, with their
  defaults, for the hash and again for each comparison;
- at each function, and at each operation without an implementation, all registries of functions
  were asked for new entries;
- after nine stages of each function the liveness of all variables was computed. It is needed where
  a stage reads it, and by generators; kernels are none;
- each operator of numbers was resolved as if it had not been met before, by all its templates;
- the variables of each statement, which are listed again and again, were looked for in all that a
  statement refers to, by five questions for each of its parts.

None of it changes what is compiled: `tests/kernels/compiler/test_shortcuts.py` compares machine
code. Versions of numba-cuda that were not read for this stay as they are.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from .cache_key import installed

_READ = "0.30."  # versions of numba-cuda


@functools.cache
def install() -> bool:
    """Take the shortcuts, once a process; False for a version of numba-cuda that is not known."""
    if not installed().get("numba-cuda", "").startswith(_READ):
        return False
    from numba.core.types import functions
    from numba.cuda import target
    from numba.cuda.core import ir, postproc, targetconfig

    _compare_flags_quickly(targetconfig.TargetConfig)
    _ask_registries_once(target.CUDATargetContext)
    _ask_registries_once(target.CUDATypingContext)
    _compute_liveness_late(postproc)
    _remember_operators(functions.BaseFunction)
    _list_variables_quickly(ir)
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


def _ask_registries_once(context: Any) -> None:
    refresh = context.refresh

    def entries(self: Any) -> int:
        """How many entries there are, in the lists that grow."""
        below = getattr(self, "typing_context", None)
        return (0 if below is None else entries(below)) + sum(
            len(getattr(registry, name))
            for registry, loader in self._registries.items()
            for name in loader.registry_items
        )

    def refresh_if_new(self: Any) -> None:
        before = entries(self)
        if self.__dict__.get("_entries_seen") != before:
            refresh(self)
            self._entries_seen = before

    context.refresh = refresh_if_new


def _compute_liveness_late(postproc: Any) -> None:
    run = postproc.PostProcessor.run

    def run_late(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        function = self.func_ir
        if function.is_generator:
            run(self, emit_dels, extend_lifetimes)
            return
        function.blocks = postproc.transforms.canonicalize_cfg(function.blocks)
        function.variable_lifetime = postproc.VariableLifetime(function.blocks)
        function.generator_info = None
        if emit_dels:
            self._insert_var_dels(extend_lifetimes=extend_lifetimes)

    postproc.PostProcessor.run = run_late


def _remember_operators(function: Any) -> None:
    """The signature of an operator for types of numbers is found once a context."""
    from numba.core import types

    resolve, operators = function.get_call_type, {*filter(callable, vars(operator).values())}
    numbers = types.Number, types.Boolean

    def remembered(self: Any, context: Any, args: Any, kws: Any) -> Any:
        if (
            kws
            or self.key[0] not in operators
            or not all([isinstance(each, numbers) for each in args])
        ):
            return resolve(self, context, args, kws)
        known = self.__dict__.setdefault("_signatures", {})
        key = (context, *args)
        signature = known.get(key)
        if signature is None:
            signature = known[key] = resolve(self, context, args, kws)
        return signature

    function.get_call_type = remembered


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
