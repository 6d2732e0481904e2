"""Numba's inference of types, in less time: `install`.

Numba asks all statements of a function for the types of their results, in rounds, until a round
changes nothing: every statement at least twice. Here a call whose function, arguments and result
have the types with which it was answered is not asked again. Warnings are caught once a round, not
once a statement.
"""

from __future__ import annotations

import warnings
from typing import Any


def install(typeinfer: Any) -> None:
    """Let Numba's module `typeinfer` take it."""
    _answer_once(typeinfer.CallConstraint, of_variable=True)
    _answer_once(typeinfer.IntrinsicCallConstraint, of_variable=False)
    _catch_once_a_round(typeinfer)


def _answer_once(constraint: Any, *, of_variable: bool) -> None:
    """of_variable: what is called is a variable, no operation of Python's."""
    from numba.core import types

    ask = constraint.__call__
    with_state = types.BoundFunction, types.RecursiveCall  # what they answer depends on more

    def names_of(call: Any) -> tuple[str, ...] | None:
        """Of the variables whose types decide what the answer is; None if it is not these alone."""
        if call.vararg is not None:
            return None
        function = (call.func,) if of_variable else ()
        arguments = [each.name for each in (*call.args, *dict(call.kws).values())]
        return (call.target, *function, *arguments)

    def ask_if_new(self: Any, inference: Any) -> None:
        state = vars(self)
        if "_decisive" not in state:
            self._decisive = names_of(self)
        if self._decisive is None:
            ask(self, inference)
            return
        variables = inference.typevars
        found = [variables[name].type for name in self._decisive]
        if found == state.get("_answered"):
            return
        ask(self, inference)
        found = [variables[name].type for name in self._decisive]
        known = self.signature is not None and None not in found
        if known and not any(isinstance(each, with_state) for each in found):
            if found[0].is_precise() and self.signature.return_type.is_precise():
                self._answered = found

    constraint.__call__ = ask_if_new


def _catch_once_a_round(typeinfer: Any) -> None:
    def propagate(self: Any, inference: Any) -> list[Exception]:
        failed: list[Exception] = []
        others = []
        fixer = inference.warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", fixer._category)
            for constraint in self.constraints:
                try:
                    constraint(inference)
                except typeinfer.ForceLiteralArg as error:
                    failed.append(error)
                except typeinfer.TypingError as error:
                    told = typeinfer.TypingError(str(error), loc=constraint.loc, highlighting=False)
                    failed.append(typeinfer.utils.chain_exception(told, error))
                for each in caught or ():
                    if issubclass(each.category, fixer._category):
                        loc = constraint.loc
                        place = loc.filename or each.filename, loc.line or each.lineno
                        fixer._warnings[*place, each.category].add(str(each.message))
                    else:
                        others.append(each)
                caught.clear()
        for each in others:
            warnings.warn_explicit(str(each.message), each.category, each.filename, each.lineno)
        return failed

    typeinfer.ConstraintNetwork.propagate = propagate
