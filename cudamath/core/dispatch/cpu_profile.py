"""Profiles where there is no GPU: how long the operations take on the CPU, by the clock.

While a profile is being taken, all ops plan anew, and each function that a plan runs is timed. So
are the replays of calls, which run these functions. Afterwards everything is as it was before, and
costs nothing.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from ...runtime.profiler import Profile, Traced
from ...runtime.roofline import Work
from ...runtime.state import runtime
from ..array import ndarray
from ..dtypes import planned
from ..layout import Layout
from . import fast_path
from .lazy_import import lazy
from .replanning import on_cpu, replanned


class HostProfile(Profile):
    """What was measured on the CPU between `start()` and `stop()`."""

    nothing = "profile: no operation ran"

    def start(self) -> None:
        """Begin to measure. Only one profile measures at a time."""
        if runtime.profile is not None:
            raise RuntimeError("profile: another profile is being taken")
        self._ending = contextlib.ExitStack()
        self._ending.callback(fast_path.forget)
        # user functions beside the ops; what is fused is made of ops
        custom = [function for function in planned if function.broadcasts]
        self._ending.enter_context(replanned(self._timing, custom))
        fast_path.forget()
        runtime.profile = self

    def stop(self) -> None:
        """End measuring."""
        if runtime.profile is not self:
            raise RuntimeError("profile: this profile is not being taken")
        runtime.profile = None
        self._ending.close()

    def _timing(self, plan: Callable) -> Callable:
        def timed_plan(op: Any, operands: tuple, *rest: Any) -> Callable:
            run = plan(op, operands, *rest)
            if not on_cpu(op, operands, rest):
                return run
            params = rest[-1] if rest and isinstance(rest[-1], dict) else {}
            timed = self._timed_run(op.name, run, params)
            for key in [key for key, stored in op.plans.copy().items() if stored is run]:
                op.plans[key] = timed
            return timed

        return timed_plan

    def _timed_run(self, name: str, run: Callable, params: dict[str, Any]) -> Callable:
        def timed(*operands: Any) -> Any:
            start = time.perf_counter()
            out = run(*operands)
            duration = 1e6 * (time.perf_counter() - start)
            inputs = [x._layout for x in operands if isinstance(x, ndarray)]
            results = [
                y for y in (out if isinstance(out, tuple) else (out,)) if isinstance(y, ndarray)
            ]
            written = [y._layout for y in results if all([y is not x for x in operands])]
            work = Work(
                lazy("kernels", "lib.flop_counts.operations")(name, inputs, written, params),
                nbytes=sum(map(_nbytes, [*inputs, *written])),
            )
            entry = Traced(
                name,
                "cpu",
                -1,
                threading.get_ident(),
                1e6 * (start - self.began),
                duration,
                work,
            )
            with self._lock:
                self._count(entry, "cpu")
            return out

        return timed


def _nbytes(layout: Layout) -> int:
    """Bytes of an array in memory: an element of an axis of stride 0 once."""
    return layout.itemsize * math.prod(
        [n for n, step in zip(layout.shape, layout.strides, strict=True) if step]
    )
