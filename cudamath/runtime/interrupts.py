"""Code that an interrupt (Ctrl-C) does not tear apart.

Python runs signal handlers, of which that of Ctrl-C raises KeyboardInterrupt, at fixed places: at
the beginning of a function, after a call, and at the end of a turn of a loop. A `with` block whose
`__exit__` is a Python function can therefore end without it: the exception is raised before the
first line. `uninterrupted` removes that one place; a function that begins with assignments then
makes them, whatever happens. tests/runtime/test_interrupts.py interrupts at every place.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable)

_BEGIN = dis.opmap.get("RESUME")
#: What RESUME has as its argument after an `await`, where it looks for no signals. At the beginning
#: of a function it has 0.
_AFTER_AWAIT = 3


def uninterrupted(function: F) -> F:
    """Decorator: signal handlers do not run at the beginning of the function, but after its first
    call or loop at the earliest. In Pythons with another byte code the function stays as it is."""
    assert isinstance(function, types.FunctionType)
    code = bytearray(function.__code__.co_code)
    for at in range(0, len(code), 2):
        if code[at] == _BEGIN:
            if code[at + 1] == 0:
                code[at + 1] = _AFTER_AWAIT
                function.__code__ = function.__code__.replace(co_code=bytes(code))
            break
    return function


def call_at_once(outcome: list, function: Callable, *args: Any) -> None:
    """Append `function(*args)` to `outcome` in one call of C code: no interrupt comes between the
    driver's work and the note of its result."""
    outcome.extend(map(function, *[(arg,) for arg in args]))


@uninterrupted
def _member(cls: Any, value: int) -> Any:
    try:
        return cls.__singletons__[value]
    except KeyError:
        raise ValueError(f"{value} is not a valid {cls.__name__}") from None


def name_at_once(status: Any) -> None:
    """Make `status(value)`, an enumeration of cuda.bindings, run no signal handlers.

    The bindings call it at the end of each call of the driver. It is a Python function there, so
    that a Ctrl-C during the driver's work was raised in it: the work was done, and nobody learned
    of its result."""
    if "__singletons__" in vars(status):
        status.__new__ = _member


class interrupts_first:
    """Context: an interrupt that came inside leaves it as itself, not as the error that cleaning up
    after it raised. (zipfile cannot close an archive in the midst of a member, and says so.)"""

    __slots__ = ("handled",)

    def __enter__(self) -> None:
        self.handled = sys.exception()  # saving after Ctrl-C is no interrupt of the saving

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, Exception):
            return
        before = error.__context__
        while before is not None and before is not self.handled:
            if not isinstance(before, Exception):
                raise before
            before = before.__context__


class _Context(contextlib._GeneratorContextManager):
    """What `context_manager` makes of a call: a context that is left whatever happens."""

    def __enter__(self) -> Any:
        entered: list[Any] = []
        try:
            call_at_once(entered, next, self.gen)
            return entered[0]
        except BaseException as error:  # of the function; or an interrupt, when it has yielded
            if entered:
                self.gen.throw(error)
            raise

    # It begins with `next(self.gen)`. An interrupt from there on is raised at the generator's
    # `yield`, and so reaches its `finally`.
    __exit__ = uninterrupted(
        types.FunctionType(
            contextlib._GeneratorContextManager.__exit__.__code__,
            contextlib._GeneratorContextManager.__exit__.__globals__,
            "__exit__",
        )
    )


def context_manager(function: Callable[..., Iterator[Any]]) -> Callable[..., _Context]:
    """Decorator: contextlib.contextmanager, but an interrupt cannot prevent that the rest of the
    function runs, from its `yield` on."""

    @functools.wraps(function)
    def context(*args: Any, **kwargs: Any) -> _Context:
        return _Context(function, args, kwargs)  # type: ignore[arg-type]

    return context
