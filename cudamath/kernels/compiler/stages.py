"""A compilation's stages, in less time: `install`.

A function passes two dozen stages, most of which find nothing to do: fifteen functions of a kernel
are four hundred. Around each of them Numba told listeners of which there are none that it begins
and ends, with its flags and arguments as text, took locks that it had and measured three times.
Rewritings looked at each call whether it prints, and at each operation whether the function behind
it is to be inlined.
"""

from __future__ import annotations

from typing import Any


def install(machinery: Any, event: Any, typed: Any, printing: Any) -> None:
    """Let Numba's modules take it."""
    _run_plainly(machinery, event)
    _inline_if_there(typed.InlineOverloads)
    _look_for_print_once(printing.RewritePrintCalls)


def _run_plainly(machinery: Any, event: Any) -> None:
    """A stage for which nobody listens, with no printing and no checks of what it leaves."""
    manager = machinery.PassManager
    run, listeners, errors = manager._runPass, event._registered, machinery.errors

    def run_plainly(self: Any, index: int, stage: Any, state: Any) -> None:
        printed = self._print_before or self._print_after or self._print_wrap
        if printed or self._ENFORCING or listeners.get("numba-cuda:run_pass"):
            run(self, index, stage, state)
            return
        stage.analysis = self._analysis
        with errors.new_error_context(f"Pass {stage.name()}"):
            stage.run_initialization(state)
            stage.run_pass(state)
            stage.run_finalizer(state)

    manager._runPass = run_plainly


def _inline_if_there(stage: Any) -> None:
    """Functions are inlined where a template asks for it; of Numba's own few do."""
    run = stage.run_pass

    def may_inline(template: Any) -> bool:
        how = getattr(template, "_inline", None)
        return how is not None and not how.is_never_inline

    def called(self: Any, state: Any, expression: Any) -> Any:
        """The templates of what an expression calls."""
        found = (
            self._get_attr_info(state, expression)
            if expression.op == "getattr"
            else self._get_callable_info(state, expression)
        )
        return found[0] if found else None

    def run_if_there(self: Any, state: Any) -> bool:
        from numba.cuda.core import ir

        for block in state.func_ir.blocks.values():
            for each in block.body:
                if isinstance(each, ir.assign_types) and isinstance(each.value, ir.expr_types):
                    if any(map(may_inline, called(self, state, each.value) or ())):
                        return run(self, state)
        return True

    stage.run_pass = run_if_there


def _look_for_print_once(rewriting: Any) -> None:
    """A call prints where the function refers to `print`, by its name or as a member."""
    match = rewriting.match

    def prints(function: Any) -> bool:
        from numba.cuda.core import ir

        for block in function.blocks.values():
            for each in block.body:
                if isinstance(each, ir.assign_types):
                    value = each.value
                    if isinstance(value, (*ir.global_types, *ir.freevar_types)):
                        if value.value is print:
                            return True
                    elif isinstance(value, ir.expr_types) and value.op == "getattr":
                        if value.attr == "print":
                            return True
        return False

    def match_if_there(self: Any, function: Any, block: Any, *others: Any) -> bool:
        known = self.__dict__.get("_prints")
        if known is None:
            known = self._prints = prints(function)
        return known and match(self, function, block, *others)

    rewriting.match = match_if_there
