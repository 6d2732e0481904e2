"""The kernels of an op's gradient, before the gradient is taken.

A program that records gradients calls an op, and its gradient rule some time later. While this
process compiles the op's kernels, a worker rehearses the rule (runtime/rehearsal.py): it calls the
op and the rule on arrays of the same layouts that have no bytes, and answers with the kernels. They
are then compiled like all others. A rule whose way depends on numbers may take another one in the
end; what is missing then is compiled when it is needed. Of an op with several results, the gradient
is taken to come from the first.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from ...core import array, recording
from ...core.autograd import backward, tape
from ...core.dispatch import op
from ...core.layout import Layout
from ...core.scalar import inside
from ...runtime import memory, rehearsal, stream
from . import compile as compiler


def kernels(
    name: str,
    layouts: Sequence[Layout | None],
    params: dict[str, Any],
    scalars: tuple,
    leading: Sequence[bool],
    capability: tuple[int, int],
    device: str,
    libraries: tuple[str, ...],
) -> list[tuple[Any, list[Any]]]:
    """(kernel, signature) of all that the gradient of an op launches.

    Parameters
    ----------
    name : str
        Of the op.
    layouts, params, scalars
        Of the call.
    leading : sequence of bool
        The inputs with respect to which a gradient is taken.
    capability : tuple of int
        Of the device.
    device : str
        Its name: plans follow what was measured on devices of that name.
    libraries : tuple of str
        What the other process finds (`rehearsal.found`).
    """
    importlib.import_module(__package__.partition(".")[0])  # which makes all ops
    needed: list[tuple[Any, list[Any]]] = []
    with (
        rehearsal.rehearsing(
            capability,
            lambda kernel, types, _: _note(needed, kernel, types),
            there=libraries,
            name=device,
        ),
        inside(),
    ):
        inputs = [
            x if x is None or not leads else tape.leaf(x)
            for x, leads in zip(map(_without_bytes, layouts), leading, strict=True)
        ]
        results = op.registry[name](*inputs, **({"scalars": scalars} if scalars else {}), **params)
        needed.clear()  # the op's own
        first = results[0] if type(results) is tuple else results
        leaves = [x._node for x in inputs if x is not None and x._node is not None]
        if first._node is not None:
            root = first._node, _without_bytes(first._layout)
            with recording.paused():
                backward.backward([root], leaves, {}, release=True)
    return needed


def messages(*call: Any) -> list[tuple[str, bytes]]:
    """`kernels`, each as (key, message to a worker)."""
    *_, capability, _device, _libraries = call
    return list(dict(compiler.message_of(*each, capability) for each in kernels(*call)).items())


def _note(needed: list[tuple[Any, list[Any]]], kernel: Any, types: list[Any]) -> bytes:
    needed.append((kernel, list(types)))
    return b"\x7fELF"


def _without_bytes(layout: Layout | None) -> Any:
    """An array of the device that is rehearsed on."""
    if layout is None:
        return None
    here = Layout.of(layout.shape, layout.strides, layout.dtype, 0, layout.aligned)
    buffer = memory.Buffer(layout.nbytes, stream.stream_of(0))
    return array.over(here, buffer.address, buffer)
