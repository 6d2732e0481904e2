"""NumPy's floating-point errors pass in silence, as on a GPU: in a call, `quiet().run(function,
*arguments)`, and in a block, `with silence():`.

Neither changes what the user has set, whenever an interrupt (Ctrl-C) comes. `np.errstate` is two
Python functions: an interrupt after the first has set the state, or before the second has set it
back, leaves it so for the rest of the program.
"""

import contextvars

import numpy as np

from ..runtime.interrupts import call_at_once, uninterrupted

#: A tenth of the price of np.errstate: a context in which errors pass is made once and copied for
#: each call.
_context = contextvars.copy_context()
_context.run(np.seterr, all="ignore")
quiet = _context.copy

#: The variable in which NumPy keeps a thread's state.
STATE = next(variable for variable in _context if variable.name == "numpy.ufunc.extobj")


class silence:
    """A block in which floating-point errors pass."""

    __slots__ = ("_entered",)

    def __enter__(self) -> None:
        self._entered: list[contextvars.Token] = []
        try:
            call_at_once(self._entered, STATE.set, _context[STATE])
        except BaseException:  # an interrupt, when the state is set
            if self._entered:
                STATE.reset(self._entered[0])
            raise

    @uninterrupted
    def __exit__(self, *_: object) -> None:
        STATE.reset(self._entered[0])
