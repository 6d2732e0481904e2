"""Recurrent layers: which version computes them.

Versions of all layers and steps together:

``cudnn``                    NVIDIA's library: a stream of kernels for each layer, side by side
``cudnn_persistent``         the library's kernels that keep the weights on the device's
                             multiprocessors from step to step, where it has such
``cudnn_persistent_small``   the same for few units
``persistent``               one layer as one kernel of our own (persistent.py), by its name alone

and otherwise

``steps``                    a product and a kernel for all gates in each step (`ml/recurrent.py`):
                             any dtype, and lengths that are known on the device alone

Lower bound of a layer's forward pass, of gates G, batch B and units U: a step multiplies B x U by U
x G U and cannot begin before the one ahead has ended on all multiprocessors. So steps x (2 B G U^2
/ rate + the time in which multiprocessors meet, some 2 us), beside the products with the inputs,
which need no order.
"""

from __future__ import annotations

from typing import Any

from ...core.dispatch.lazy_import import lazy
from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...runtime import cudnn, cudnn_recurrent
from ...runtime.cudnn_recurrent import Problem
from .cudnn import library, problem

VERSIONS = (*cudnn_recurrent.ALGORITHMS, "persistent", "steps")


def supports(p: Problem) -> bool:
    """Whether the version that a problem names can do it."""
    if p.version == "persistent":
        return lazy("kernels", "recurrent.persistent.supports")(p)
    return (
        p.dtype in cudnn.DTYPES
        and 0 not in (p.lengths or ())
        and cudnn_recurrent.available()
        and library(p) is not None
    )


def chosen(x: Layout, version: str | None, **params: Any) -> str:
    """The name of the version that computes layers of inputs x (steps, batch, features).

    version: the one that is asked for, if any. Raises ValueError if that does not exist or does not
    support the problem.
    """
    if version not in (None, *VERSIONS):
        raise ValueError(f"there is no version {version!r}; there are {', '.join(VERSIONS)}")
    if version == "steps":
        return version
    p = problem(x, version=version or "cudnn", **params)
    able = supports(p)
    if not able and version is not None:
        raise ValueError(f"version {version!r} does not support {p}")
    return p.version if able else "steps"


def layers(x: Layout, *operands: Layout | None, **params: Any) -> Plan:
    """The planner of the layers: see cudnn.py."""
    p = problem(x, **params)
    module = "persistent" if p.version == "persistent" else "cudnn"
    return lazy("kernels", f"recurrent.{module}.layers")(p, x, *operands)


def layers_grad(x: Layout, *operands: Layout | None, **params: Any) -> Plan:
    """The planner of their gradient: see cudnn.py."""
    p = problem(x, **params)
    module = "persistent" if p.version == "persistent" else "cudnn"
    return lazy("kernels", f"recurrent.{module}.layers_grad")(p, x, *operands)
