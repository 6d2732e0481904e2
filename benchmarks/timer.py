"""Fair timing of one operation in several libraries, on one device, in one process.

Host cost and CPU time come from cudamath.timing (turns in random order, median over the rounds).
Time on the GPU comes from CUDA events around a turn of calls (cudamath, torch and CuPy all work in
CUDA's default stream).

The device is kept busy from the first turn to the last: a GPU that was idle clocks higher than one
at its power limit, and the first library after a pause would be up to a tenth faster. Calls cycle
through copies of their arguments that together exceed the L2 cache, so that no operand is read from
a cache that a real program would not find filled. If the device needs less time than the host takes
to launch, a row can set `hide_host`: the turn is then queued behind large products until all of its
launches have been issued, so that only the device is timed.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import cudamath as cm
from cudamath.runtime.stream import Event, elapsed, synchronize
from cudamath.timing import Spread, interleave

LARGE = 8192  # side of the products behind which short calls are queued: 1.5 ms each on an H200
QUEUED = 60  # calls that fit into the driver's queue even if each is a dozen launches


class Peer:
    """A library to measure: how to give it an array, and how to time it. ImportError if it cannot
    run here.

    `library` is the module whose functions the rows call.
    """

    name: str
    library: Any
    default_stream = True  # works in CUDA's default stream, where events can time it

    def array(self, values: np.ndarray) -> Any:
        """These values as the library's array on the device under test."""
        raise NotImplementedError


class Cudamath(Peer):
    """cudamath itself."""

    name = "cudamath"
    library = cm

    def __init__(self, device: str):
        self.device = device

    def array(self, values: np.ndarray) -> Any:
        return cm.asarray(values, device=self.device)


class NumPy(Peer):
    """NumPy: on the CPU only."""

    name = "numpy"
    library = np

    def __init__(self, device: str):
        if device != "cpu":
            raise ImportError("NumPy has no GPU")

    def array(self, values: np.ndarray) -> Any:
        return values


class Torch(Peer):
    """PyTorch, eager."""

    name = "torch"

    def __init__(self, device: str):
        import torch

        self.library = torch
        self.device = device
        if device != "cpu" and not torch.cuda.is_available():
            raise ImportError("this torch has no CUDA")

    def array(self, values: np.ndarray) -> Any:
        return self.library.from_numpy(values).to(self.device)


class CuPy(Peer):
    """CuPy: on a GPU only."""

    name = "cupy"

    def __init__(self, device: str):
        if device == "cpu":
            raise ImportError("CuPy has no CPU")
        import cupy

        self.library = cupy

    def array(self, values: np.ndarray) -> Any:
        return self.library.asarray(values)


class Jax(Peer):
    """JAX, each function jitted by the row. It keeps its own streams, so rows timed by events leave
    it out."""

    name = "jax"
    default_stream = False

    def __init__(self, device: str):
        import jax

        platform = "cpu" if device == "cpu" else "gpu"
        try:
            self.place = jax.devices(platform)[0]
        except RuntimeError as error:
            raise ImportError(f"this JAX has no {platform}") from error
        self.library = jax

    def array(self, values: np.ndarray) -> Any:
        return self.library.device_put(values, self.place)


def peers(device: str, *names: str) -> tuple[list[Peer], dict[str, str]]:
    """(the libraries that can run on this device, cudamath first; name -> why another cannot);
    names: import these alone."""
    there: list[Peer] = []
    absent = {}
    for kind in (Cudamath, NumPy, Torch, CuPy, Jax):
        if names and kind.name not in names:
            continue
        try:
            there.append(kind(device))
        except ImportError as error:
            absent[kind.name] = str(error)
    return there, absent


def turns(calls: Sequence[Callable[[], object]]) -> Callable[[], None]:
    """One function that runs these calls in turn (the same operation on copies of its
    arguments)."""
    walk = itertools.cycle(calls).__next__

    def call() -> None:
        walk()()

    return call


def on_device(
    calls: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 15,
    seconds: float = 0.01,
    warm: float = 0.5,
    hide_host: bool = False,
) -> dict[str, Spread]:
    """Time on the GPU, by events, seconds a call.

    Args:
        calls: name -> function without arguments that works in CUDA's default stream.
        rounds: how often each takes its turn.
        seconds: about how long one turn lasts.
        warm: seconds of steady load before anything is timed.
        hide_host: let short calls wait in the queue until their turn is complete (at most QUEUED of
        them).

    Returns:
        name -> Spread.

    Raises:
        ValueError: there are no calls.
    """
    if not calls:
        raise ValueError("on_device: no calls")
    ahead = dict.fromkeys(calls, 0)  # large products queued before a turn

    def turn(call: Callable[[], object], count: int, products: int = 0) -> tuple[Event, Event]:
        for _ in range(products):
            large @ large
        call()  # fills the queue, so that the first timed launch does not wait for the host
        start = Event().record()
        for _ in range(count):
            call()
        return start, Event().record()

    counts = {}
    for name, call in calls.items():
        turn(call, 2)
        synchronize()
        counts[name] = max(2, round(seconds / max(elapsed(*turn(call, 3)) / 3e3, 1e-6)))
    if hide_host:
        large = cm.random.normal(size=(LARGE, LARGE), dtype="float32", device="cuda").astype(
            "bfloat16"
        )
        product = interleave({"": lambda: large @ large}, rounds=3, synchronize=synchronize)[
            ""
        ].median
        for name, call in calls.items():
            counts[name] = min(counts[name], QUEUED)
            host_time = interleave(
                {"": call},
                rounds=3,
                seconds=0.002,
                warm=0,
                most=counts[name],
                synchronize=synchronize,
                wait=False,
            )[""].median
            ahead[name] = math.ceil(1.5 * (counts[name] + 1) * host_time / product)
    deadline = time.perf_counter() + warm
    while time.perf_counter() < deadline:
        for name, call in calls.items():
            turn(call, counts[name], ahead[name])
        synchronize()
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    shuffle = random.Random(0).shuffle
    for _ in range(rounds):
        shuffle(order)
        recorded = [(name, turn(calls[name], counts[name], ahead[name])) for name in order]
        synchronize()
        for name, (start, stop) in recorded:
            samples[name].append(elapsed(start, stop) / 1e3 / counts[name])
    return {name: Spread.of(times) for name, times in samples.items()}
