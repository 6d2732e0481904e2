"""How the arrays of an optimizer's step are arranged: what its card, its CPU function and its
planner must agree on."""

from __future__ import annotations

from typing import NamedTuple


class Form(NamedTuple):
    """The arrays of a step are all parameters, then all gradients, then each state, in one order,
    and after them

    copies   a copy of each parameter in another dtype, which gets its new values; one of the
             parameter's own dtype is
             the parameter itself
    step     the number of the step, int64, 0-d (adam only, and always if there is any of the next
             two)
    rate     the learning rate, 0-d
    factor   what gradients are multiplied by, 0-d; NaN: the step is left out

    decays: which parameters' weights decay (None: all).
    """

    step: bool = False
    rate: bool = False
    factor: bool = False
    copies: bool = False
    decays: tuple[bool, ...] | None = None

    @property
    def extra(self) -> int:
        """How many 0-d arrays there are."""
        return self.step + self.rate + self.factor


PLAIN = Form()
