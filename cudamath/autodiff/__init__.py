"""Gradients of functions of arrays.

`grad` and `value_and_grad` differentiate a function that returns one number; `vjp` gives the
function that turns a gradient of the result into gradients of the arguments, `jvp` a derivative in
a direction. Arguments may be trees (dicts, lists, tuples, registered classes) of arrays, and all of
them compose: `grad(grad(f))` is a second derivative.

`checkpoint` trades time for memory, `custom_vjp` gives a function a gradient rule of one's own,
`stop_gradient` makes constants.

While a gradient is recorded, arrays that carry it cannot be changed in place. Other arrays that
take part must not be changed before the gradient has been taken either: their values are read then.
Where the differentiated function does so all the same, by operations of this package, RuntimeError
says it when the gradient would be wrong. Numbers that functions take (an eps, a scale) are
constants: an array that carries a gradient in their place is a TypeError.
"""

from .recompute import *  # noqa: F403
from .rules import *  # noqa: F403
from .transforms import *  # noqa: F403
