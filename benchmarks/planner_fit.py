"""The rates of versions, fitted to measured times: for benchmarks/planner.py."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.planner_cases import FAMILIES, Case
from cudamath.kernels.conv import work
from cudamath.kernels.conv.problem import Problem
from cudamath.kernels.conv.work import PlanTiles
from cudamath.kernels.lib.prediction import (
    OVERLAP,
    Machine,
    Rates,
    Work,
    median,
    seconds,
)
from cudamath.kernels.lib.versions import Version
from cudamath.runtime import cudnn
from cudamath.runtime.device import assume

PRIOR = Rates(3.0, 1.5, 1.3)
TRUST = 0.1  # weight of the prior of each logarithm, of one measurement's
FAINT = 0.3  # weight of a time far from the fastest
FAR = 0.7  # logarithm of a ratio beyond which a measurement counts no more than linearly
LIMITS = ((0.5, 60.0), (0.9, 300.0), (0.6, 60.0))  # of the three rates


class Sample(NamedTuple):
    """A measured time, microseconds, and what the version did; weight: of its logarithm; least:
    whether it took that time at least."""

    work: Work
    machine: Machine
    time: float
    weight: float = 1.0
    least: bool = False


def machine_of(device: Mapping[str, Any]) -> assume:
    """The context of a device that a record describes."""
    return assume(
        tuple(device["capability"]),
        device["multiprocessors"],
        device["name"],
        l2_cache=device["l2_cache"],
        memory_bandwidth=device["memory_bandwidth"],
        clock=device["clock"],
    )


def seen(record: Mapping[str, Any]) -> Machine:
    """The device of a record, in its context; cold: what it measured found no operand in a
    cache."""
    machine = Machine.of(0)
    return machine._replace(cache=0) if record.get("cold") else machine


def supporting(family: str, case: Case) -> tuple[Any, dict[str, Version]]:
    """The problem of a case, and the versions that support it, by name."""
    problem = FAMILIES[family].problem(case)
    able = [v for v in FAMILIES[family].versions(problem) if v.supports(problem)]
    return problem, {version.name: version for version in able}


def plans_that_run(times: Iterable[str]) -> dict[str, str]:
    """Of the names in a record those of cuDNN's plans that may run, each the first of its family:
    name -> family."""
    plans = [name.partition(" ")[2] for name in times if name.startswith("cudnn ")]
    return {f"cudnn {name}": family for family, name in cudnn.first_of_families(plans).items()}


def part_of_library(problem: Any, name: str) -> Work | None:
    """What a plan of a library does, by the name that records have: "cudnn PLAN". None if nobody
    knows its tiles."""
    family = cudnn.family_of(name.partition(" ")[2])
    tiles = work.tiles_of_cudnn().get(work.plans_kind(problem), {}).get(family)
    return None if tiles is None else work.cudnn_plan(problem, family, tiles)


def work_of(name: str, problem: Any, able: Mapping[str, Version]) -> Work | None:
    """What a version did to which a record ascribes a time, or a plan of a library. None if it
    states no work."""
    if name.startswith("cudnn "):
        return part_of_library(problem, name)
    if name == "cudnn":  # without a plan's name: by the library's own choice
        return work.cudnn_choice(problem)
    version = able.get(name)
    return None if version is None or version.work is None else version.work(problem)


#: Versions whose work is that of another, which the rates choose: they would chase themselves.
BORROWING = ("pointwise_images", "whole_channels")


def samples(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Sample]]:
    """The measurements of records by kind of rates, and by the words that kinds begin with: those
    of "simt" are those of "simt forward" and others together.

    Records: device, family, case, times (by version), in "beyond" times that versions take at
    least, and "cold" (see `seen`)."""
    found: dict[str, list[Sample]] = {}
    for record in records:
        with machine_of(record["device"]):
            problem, able = supporting(record["family"], record["case"])
            best, machine = min(record["times"].values()), seen(record)
            several = [
                *[(*each, False) for each in record["times"].items()],
                *[(*each, True) for each in record.get("beyond", {}).items()],
            ]
            run = plans_that_run(record["times"])
            for name, time, least in several:
                does = work_of(name, problem, able)
                if does is None or name.startswith("cudnn ") and name not in run:
                    continue
                if name in BORROWING and not does.rates.startswith("pointwise_cublas"):
                    continue
                weight = FAINT if time > 3 * best else 1.0
                words = does.rates.split()
                for count in range(1, len(words) + 1):
                    sample = Sample(does, machine, time, weight, least)
                    found.setdefault(" ".join(words[:count]), []).append(sample)
    return found


def fit(measured: Sequence[Sample], prior: Rates = PRIOR) -> Rates:
    """The rates with the least squares of the logarithms of predicted by measured time, of which
    far ones count linearly, beside the prior's."""
    one = Rates(1.0, 1.0, 1.0)
    parts = np.array([seconds(s.work, s.machine, one) for s in measured]) * 1e6
    launches = np.array([s.work.launches for s in measured], float)
    times = np.log([s.time for s in measured])
    weights, least = (
        np.array([getattr(s, name) for s in measured]) for name in ("weight", "least")
    )
    start, low, high = np.log(np.array(prior[:3])), *np.log(np.array(LIMITS)).T

    def logarithms(at: np.ndarray) -> np.ndarray:
        launch, cycle, byte = np.exp(at)
        together = (parts * [cycle, byte]) ** OVERLAP
        return np.log(launch * launches + together.sum(1) ** (1 / OVERLAP))

    def residuals(at: np.ndarray) -> np.ndarray:
        apart = logarithms(at) - times
        apart = np.where(least, np.minimum(apart, 0), apart)
        size = np.abs(apart)
        bent = np.where(size < FAR, size, np.sqrt(np.maximum(FAR * (2 * size - FAR), 0)))
        return np.concatenate([np.sqrt(weights) * bent * np.sign(apart), TRUST**0.5 * (at - start)])

    at, damping = start.copy(), 1.0
    left = residuals(at)
    for _ in range(200):
        step = 1e-5
        slopes = np.stack([(residuals(at + step * e) - left) / step for e in np.eye(3)], 1)
        normal = slopes.T @ slopes
        move = np.linalg.solve(normal + damping * np.eye(3), -slopes.T @ left)
        after = np.clip(at + move, low, high)
        new = residuals(after)
        if new @ new < left @ left:
            done = left @ left - new @ new < 1e-10
            at, left, damping = after, new, damping / 3
            if done:
                break
        else:
            damping *= 4
            if damping > 1e9:
                break
    found = [float(f"{value:.4g}") for value in np.exp(at)]
    exact = [s for s in measured if not s.least]
    squares = sum(math.log(median(s.work, s.machine, Rates(*found)) / s.time) ** 2 for s in exact)
    width = math.sqrt((squares + prior.spread**2) / (len(exact) + 1))
    return Rates(*found, float(f"{width:.3g}"))


def bias(measured: Sequence[Sample], rates: Rates) -> float:
    """The mean of the logarithm of predicted by measured time."""
    ratios = [math.log(median(s.work, s.machine, rates) / s.time) for s in measured if not s.least]
    return float(np.mean(ratios)) if ratios else 0.0


# -------------------- tiles of a library's plans

SIDES = (16, 32, 64, 128, 256)
LARGEST = 256 * 128  # numbers of a tile
FEW = 6  # measurements below which nothing is said of a plan
WILD = 0.4  # standard deviation of the logarithm beyond which a plan's times are not predicted


#: Kinds of problems of which cuDNN's plans get tiles: those where, of problems that were held out,
#: the plan chosen by them was faster than the library's first, or as fast. In parts of the time of
#: the best plan, chosen and first: 32-bit forward 1.15 and 1.24 (in another division 1.17, 1.24),
#: 16-bit weight gradients 1.31 and 1.43 (1.43, 1.43). Not so 16-bit input gradients (1.20, 1.07),
#: 32-bit weight gradients (1.93, 1.07) and 32-bit input gradients (1.23, 1.22); 16-bit forward the
#: two never differ.
PREDICTABLE = ("cudnn_plan forward 32-bit", "cudnn_plan weight 16-bit")


def tiles_of_plans(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, PlanTiles]]:
    """The tiles of each family of cuDNN's plans with which predicted times are closest to those
    measured: kind of problems (of PREDICTABLE) -> family -> tiles. Plans by a transform have none.
    """
    seen_of: dict[tuple[str, str], list[tuple[Mapping[str, Any], Problem, float]]] = {}
    for record in records:
        with machine_of(record["device"]):
            if record["family"] != "conv":
                continue
            problem, _ = supporting("conv", record["case"])
            for name, family in plans_that_run(record["times"]).items():
                kind = work.plans_kind(problem), family
                if kind[0] not in PREDICTABLE:
                    continue
                seen_of.setdefault(kind, []).append((record, problem, record["times"][name]))
    found: dict[str, dict[str, PlanTiles]] = {}
    for (kind, family), measured in sorted(seen_of.items()):
        if len(measured) < FEW:
            continue
        spread, tiles = min(
            (_spread(family, measured, tiles), tiles) for tiles in _possible_tiles(kind)
        )
        if spread < WILD:
            found.setdefault(kind, {})[family] = tiles
    return found


def _possible_tiles(kind: str) -> list[PlanTiles]:
    """Tiles that plans of a kind may have."""
    residents = (1, 2) if kind.endswith("16-bit") else (1, 2, 4)
    return [
        PlanTiles(rows, columns, resident, split)
        for rows in SIDES
        for columns in SIDES
        for resident in residents
        for split in (True, False)
        if 512 < rows * columns <= LARGEST
    ]


def _spread(
    family: str,
    measured: Sequence[tuple[Mapping[str, Any], Problem, float]],
    tiles: PlanTiles,
) -> float:
    """How far times are from predictions by these tiles, after a fit of each kind of rates."""
    kinds: dict[str, list[Sample]] = {}
    for record, problem, time in measured:
        with machine_of(record["device"]):
            does = work.cudnn_plan(problem, family, tiles)
            kinds.setdefault(does.rates, []).append(Sample(does, seen(record), time))
    squares = sum(len(samples) * fit(samples).spread ** 2 for samples in kinds.values())
    return math.sqrt(squares / len(measured))
