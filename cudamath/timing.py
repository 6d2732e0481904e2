"""Fair wall-clock timing of alternatives, side by side.

Whoever is timed alone, or first after a pause, gets another machine than the rest: clocks, caches
and other processes change within seconds. So all alternatives are warmed up together and then take
turns in random order, round after round; what is reported is the median over the rounds with its 20
and 80 % quantiles.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import random
import time
from collections.abc import Callable, Mapping


@dataclasses.dataclass(frozen=True)
class Spread:
    """Seconds a call: the median over the rounds, and the 20 % and 80 % quantiles."""

    median: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, samples: list[float]) -> Spread:
        """The spread of some samples (at least one).

        >>> Spread.of([3.0, 1.0, 2.0, 5.0, 4.0])
        Spread(median=3.0, low=2.0, high=4.0, rounds=5)
        """
        ordered = sorted(samples)
        last = len(ordered) - 1
        low, median, high = (ordered[round(quantile * last)] for quantile in (0.2, 0.5, 0.8))
        return cls(median, low, high, len(ordered))


def nothing() -> None:
    """What `synchronize` is on the CPU."""


def batch(
    call: Callable[[], object], count: int, synchronize: Callable[[], object], wait: bool
) -> float:
    """Seconds a call, over `count` calls in a row; `wait`: until the device has finished, not only
    the host."""
    synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    if wait:
        synchronize()
    stop = time.perf_counter()
    synchronize()
    return (stop - start) / count


def interleave(
    calls: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 11,
    seconds: float = 0.02,
    warm: float = 0.1,
    most: int = 10_000,
    synchronize: Callable[[], object] = nothing,
    wait: bool = True,
) -> dict[str, Spread]:
    """Time alternatives fairly (see above).

    Args:
        calls: name -> function without arguments.
        rounds: how often each takes its turn.
        seconds: about how long one turn lasts; short calls are repeated to fill it.
        warm: seconds of running all of them before anything is timed.
        most: repetitions of a turn at most (fewer than what fills a GPU's launch queue, when only
        the host is timed). synchronize: waits for the device; called around each turn. wait: True
        times until the device has finished; False times the host alone.

    Returns:
        name -> Spread, in seconds a call.

    Raises:
        ValueError: no calls, or fewer than one round.

    >>> spread = interleave({"sum": lambda: sum(range(1000))}, rounds=3, seconds=0.001, warm=0)
    >>> 0 < spread["sum"].low <= spread["sum"].median <= spread["sum"].high
    True
    """
    if not calls or rounds < 1:
        raise ValueError(
            f"interleave: needs at least one call and one round, got {len(calls)} and {rounds}"
        )
    counts = {}
    for name, call in calls.items():
        call()  # the first call may compile
        estimate = min(batch(call, 1, synchronize, True) for _ in range(2))
        counts[name] = max(1, min(most, round(seconds / max(estimate, 1e-7))))
    deadline = time.perf_counter() + warm
    while time.perf_counter() < deadline:
        for name, call in calls.items():
            batch(call, counts[name], synchronize, wait)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    few = (
        len(calls) <= 3
    )  # then each follows each other equally often: threads of who was last may still be awake
    orders = [list(order) for order in itertools.permutations(calls)] if few else [list(calls)]
    shuffle = random.Random(0).shuffle
    collecting = gc.isenabled()
    gc.disable()  # a collection would land in somebody's turn
    try:
        for turn in range(rounds):
            if turn % len(orders) == 0:
                shuffle(orders if few else orders[0])
            for name in orders[turn % len(orders)]:
                samples[name].append(batch(calls[name], counts[name], synchronize, wait))
    finally:
        if collecting:
            gc.enable()
    return {name: Spread.of(times) for name, times in samples.items()}
