"""The kernels of a program, and before of its constants, compiled before they first run: all at
once, where there are workers.

A plan by itself tells the workers of its own kernels only (`Plan.bind`), and waits for them before
the next plan is made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from ..core.array import ndarray
from ..kernels.compiler.cache_key import unchanging
from ..kernels.compiler.compile import compile_cubin, compile_together
from ..runtime.device import capability
from ..runtime.dry import DryStream, NeedsDevice
from ..runtime.state import runtime
from ..runtime.stream import stream_of
from .draws import Rehearsal


def load_kernels(run: Callable, arrays: Sequence[ndarray], device: int, name: str) -> None:
    """Compile and load the kernels of a program, with the help of all workers at once.

    Its function runs on a dry stream first, where its plans say what they wait for. A program that
    needs more than that there compiles the others as it runs.

    Parameters
    ----------
    run : callable
        As `straight_line` returns it.
    arrays : sequence of ndarray
        Its arguments.
    device : int
        The GPU.
    name : str
        Of the function.
    """
    dry = DryStream(stream_of(device), name)
    with dry, Rehearsal(), contextlib.suppress(NeedsDevice):
        run(*[x._alias() for x in arrays])
    waiting = list(dry.used)
    with unchanging():
        if runtime.compiler is compile_cubin:
            kernels = {key: each for plan in waiting for key, each in plan.kernels().items()}
            compile_together(kernels.values(), capability(device), name)
        for plan in waiting:
            plan.load()
