"""Measuring at first use: `autotune`, and how several calls are timed in turns."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.dispatch import autotune as tables
from ..core.dispatch import fast_path
from ..core.dispatch.op import registry
from ..core.dispatch.plan import Plan
from ..core.layout import Layout
from ..runtime import device as devices
from ..runtime.dry import launching
from ..runtime.interrupts import uninterrupted
from ..runtime.stream import Event, stream_of, synchronize

__all__ = ["autotune"]

FAR = 1.5  # times the fastest candidate's time: slower ones drop out, see `interleaved`


class autotune:
    """Switch on that versions of an operation are timed at its first use.

    While it is on, convolutions and matrix products of shapes that are new on this machine time
    their versions, this package's kernels and the libraries, and the fastest runs from then on.
    (PyTorch: `cudnn.benchmark`.) Off, the default, versions are chosen by predicted times. What was
    timed is kept in this machine's file of measurements, where `python -m cudamath tune` writes,
    and counts whether this is on or off. A call of new shapes takes up to some seconds more, most
    of them compilation; nothing is timed while a graph is captured. Versions may round differently,
    so results may differ in the last bits from those before.

    As a function it lasts until it is called again; as a context manager, until the end of the
    block.

    Parameters
    ----------
    enabled : bool, default True
        Whether to time.

    Examples
    --------
    >>> import cudamath as cm
    >>> with cm.cuda.autotune():
    ...     y = cm.ones((3, 4)) @ cm.ones((4, 2))
    >>> y.shape
    (3, 2)
    >>> cm.cuda.autotune(False).enabled
    False
    """

    def __init__(self, enabled: bool = True):
        if not isinstance(enabled, bool):
            raise TypeError(f"autotune: wants True or False, got {type(enabled).__name__}")
        self.enabled = enabled
        self._before = tables.measuring
        _measure(first_use if enabled else None)

    def __enter__(self) -> autotune:
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        _measure(self._before)

    def __repr__(self) -> str:
        return f"autotune({self.enabled})"


def _measure(measuring: Any) -> None:
    """Set what times plans. Plans that exist were made under the other setting."""
    if tables.measuring is not measuring:
        tables.measuring = measuring
        fast_path.forget()
        for op in registry.values():
            if hasattr(op, "plans"):
                op.plans.clear()


def first_use(
    name: str, plans: Mapping[str, Plan], layouts: Sequence[Layout]
) -> dict[str, float] | None:
    """Microseconds of plans on arrays of these layouts, timed now: `autotune` switches it on. None
    while a graph is captured, or where planning is for an assumed device. A plan that fails is
    left out."""
    with launching():
        return _timed(name, plans, layouts)


def _timed(
    name: str, plans: Mapping[str, Plan], layouts: Sequence[Layout]
) -> dict[str, float] | None:
    """`first_use`, on a stream that runs."""
    index = layouts[0].device
    if devices.is_assumed() or stream_of(index).capturing:
        return None
    new = Plan(list(layouts), []).bind(name, [], device=index)
    made = new()
    arrays = made if isinstance(made, tuple) else (made,)
    calls = {}
    for version, plan in plans.items():
        try:
            run = functools.partial(plan.bind(name, layouts), *arrays)
            run()
            synchronize()
        except (RuntimeError, ValueError):
            continue
        calls[version] = run
    if not calls:
        return None
    return {v: float(f"{1e3 * t:.4g}") for v, t in interleaved(calls, 5, 1.0).items()}


def interleaved(
    calls: Mapping[str, Callable[[], object]], rounds: int = 7, milliseconds: float = 3.0
) -> dict[str, float]:
    """Median milliseconds of device time of each call: rounds in random order under steady load.

    Those that take more than FAR times as long as the fastest drop out after a first look: they
    would let the device cool and clock higher for the others.
    """

    def turn(call: Callable[[], object], count: int) -> tuple[Event, Event]:
        call()
        start = Event().record()
        for _ in range(count):
            call()
        return start, Event().record()

    first = {}
    for name, call in calls.items():
        turn(call, 2)  # compiles, and captures what is a graph
        start, stop = turn(call, 2)
        first[name] = max(start.elapsed(stop) / 2, 1e-3)
    kept = sorted(name for name in first if first[name] <= FAR * min(first.values()))
    counts = {name: max(1, min(200, round(milliseconds / first[name]))) for name in kept}
    samples: dict[str, list[float]] = {name: [] for name in kept}
    shuffled = random.Random(0)
    for number in range(rounds + 1):
        recorded = [
            (name, turn(calls[name], counts[name])) for name in shuffled.sample(kept, len(kept))
        ]
        synchronize()
        if number:  # the first round brings the device to its steady clock
            for name, (start, stop) in recorded:
                samples[name].append(start.elapsed(stop) / counts[name])
    return {name: sorted(times)[len(times) // 2] for name, times in samples.items()}
