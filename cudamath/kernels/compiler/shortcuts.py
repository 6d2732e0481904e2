"""Shortcuts through Numba's compiler: what it computes again although nothing has changed.

From Python to LLVM IR a kernel and each of its device functions pass two dozen stages, and a fifth
of the time there went into three things:

- the flags of a compilation are the key of a cache. Its look-up listed all of them, with their
  defaults, for the hash and again for each comparison;
- at each function, and at each operation without an implementation, all registries of functions
  were asked for new entries;
- after nine stages of each function the liveness of all variables was computed. It is needed where
  a stage reads it, and by generators; kernels are none.

None of it changes what is compiled: `tests/kernels/compiler/test_shortcuts.py` compares machine
code. Versions of numba-cuda that were not read for this stay as they are.
"""

from __future__ import annotations

import functools
from typing import Any

from .cache_key import installed

_READ = "0.30."  # versions of numba-cuda


@functools.cache
def install() -> bool:
    """Take the shortcuts, once a process; False for a version of numba-cuda that is not known."""
    if not installed().get("numba-cuda", "").startswith(_READ):
        return False
    from numba.cuda import target
    from numba.cuda.core import postproc, targetconfig

    _compare_flags_quickly(targetconfig.TargetConfig)
    _ask_registries_once(target.CUDATargetContext)
    _ask_registries_once(target.CUDATypingContext)
    _compute_liveness_late(postproc)
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
