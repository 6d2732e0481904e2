"""Recurrent layers: which version computes them.

Versions of all layers and steps together:

``cudnn``                    NVIDIA's library: a stream of kernels for each layer, side by side
``cudnn_persistent``         the library's kernels that keep the weights on the device's
                             multiprocessors from step to step, where it has such
``cudnn_persistent_small``   the same for few units
``persistent``               one layer as one kernel of our own (persistent.py), by its name alone:
                             on an H100 it takes two thirds of the time of ``cudnn``, measured for
                             LSTM and GRU at one size (64 sequences, 128 steps, 512 units) alone,
                             from which no rule for other sizes and devices follows

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


def obstacle(p: Problem) -> str:
    """Why the version that a problem names cannot do it; empty where it can."""
    if p.version == "persistent":
        return lazy("kernels", "recurrent.persistent.obstacle")(p)
    if not cudnn_recurrent.available():
        return "cuDNN is missing"
    if p.dtype not in cudnn.DTYPES or 0 in (p.lengths or ()) or library(p) is None:
        return "cuDNN does not have it"
    return ""


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
    why = obstacle(p)
    if why and version is not None:
        raise ValueError(f"version {version!r} does not support {p}: {why}")
    return "steps" if why else p.version


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
