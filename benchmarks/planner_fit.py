"""The rates of versions, fitted to measured times: for benchmarks/planner.py."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from benchmarks.planner_cases import FAMILIES, Case
from benchmarks.planner_choices import FAINT, FAR, SLOW, Choice, choosing
from cudamath.kernels.conv import work
from cudamath.kernels.lib import prediction
from cudamath.kernels.lib.prediction import (
    OVERLAP,
    Machine,
    Rates,
    Work,
    kind_with_rates,
    median,
    seconds,
)
from cudamath.kernels.lib.versions import Version, never
from cudamath.runtime import cublas, cudnn
from cudamath.runtime.device import assume

PRIOR = Rates(3.0, 1.5, 1.3)
TRUST = 0.1  # weight of the prior of each logarithm, of one measurement's
RELATED = 1.0  # the same of a prior that is a fit to measurements of related versions
DOUBT = 1.0  # spread of what a library does: nobody knows its kernels
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


def plan_that_runs(problem: Any, times: Mapping[str, float]) -> str:
    """The name in a record of the one of a library's plans that runs by the rates in use, as
    `cudnn.convolution` chooses it."""
    names = {family: name for name, family in plans_that_run(times).items()}
    best = next(iter(names))
    better = cudnn.faster(best, names, work.times_of_cudnn(problem))
    return names[better[0] if better else best]


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
BORROWING = (
    "pointwise_images",
    "whole_channels",
    "windows_matmul",
    "windows_of_images",
    "tap_products",
)


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
            times, run = {**record["times"]}, plans_that_run(record["times"])
            if run:  # what the library ranks first, whatever ran when this was measured
                times["cudnn"] = times[next(iter(run))]
            several = [
                *[(*each, False) for each in times.items()],
                *[(*each, True) for each in record.get("beyond", {}).items()],
            ]
            for name, time, least in several:
                does = work_of(name, problem, able)
                if does is None or name.startswith("cudnn ") and name not in run:
                    continue
                if name in BORROWING and not does.rates.startswith("pointwise_cublas"):
                    continue
                weight = FAINT if time > SLOW * best else 1.0
                words = does.rates.split()
                for count in range(1, len(words) + 1):
                    sample = Sample(does, machine, time, weight, least)
                    found.setdefault(" ".join(words[:count]), []).append(sample)
    return found


def fit(measured: Sequence[Sample], prior: Rates = PRIOR, trust: float = TRUST) -> Rates:
    """The rates with the least squares of the logarithms of predicted by measured time, of which
    far ones count linearly, beside the prior's, with this weight."""
    one = Rates(1.0, 1.0, 1.0)
    parts = np.array([seconds(s.work, s.machine, one) for s in measured]) * 1e6
    launches = np.array([s.work.launches for s in measured], float)
    times = np.log([s.time for s in measured])
    weights, least = (
        np.array([getattr(s, name) for s in measured]) for name in ("weight", "least")
    )
    start, low, high = np.log(np.array(prior[:3])), *np.log(np.array(LIMITS)).T

    powers, roots = parts**OVERLAP, np.sqrt(weights)

    def residuals(at: np.ndarray) -> np.ndarray:
        """Of logarithms of rates (..., 3)."""
        together = np.exp(OVERLAP * at[..., 1:]) @ powers.T
        predicted = np.exp(at[..., :1]) * launches + together ** (1 / OVERLAP)
        apart = np.log(predicted) - times
        apart = np.where(least, np.minimum(apart, 0), apart)
        size = np.abs(apart)
        bent = np.where(size < FAR, size, np.sqrt(np.maximum(FAR * (2 * size - FAR), 0)))
        beside = trust**0.5 * (at - start)
        return np.concatenate([roots * np.copysign(bent, apart), beside], axis=-1)

    at, damping, step, slopes = start.copy(), 1.0, 1e-5, None
    left = residuals(at)
    for _ in range(200):
        if slopes is None:  # a move further on
            slopes = (residuals(at + step * np.eye(3)) - left).T / step
            normal, down = slopes.T @ slopes, -slopes.T @ left
        move = np.linalg.solve(normal + damping * np.eye(3), down)
        if move @ down < 1e-8:  # what the slopes promise
            break
        after = np.clip(at + move, low, high)
        new = residuals(after)
        if new @ new < left @ left:
            done = left @ left - new @ new < 1e-8
            at, left, damping, slopes = after, new, damping / 3, None
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


# -------------------- all kinds

FEW_PLANS = 3  # measurements below which no time of a library's plan is predicted
OWN = 40  # measurements from which on a kind needs none of the kinds that its name begins


@contextlib.contextmanager
def libraries(there: bool = True) -> Iterator[None]:
    """As if cuBLAS and cuDNN were installed, or were not."""
    with (
        mock.patch.object(cublas, "available", lambda: there),
        mock.patch.object(cudnn, "available", lambda: there),
    ):
        yield


def fitted(
    records: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Rates], dict[str, tuple[int, float]]]:
    """The rates of each kind of version by which choices lose little, and (measurements, bias of
    predictions by the rates of least squares). A kind of which bounds alone are known has no rates
    of its own."""
    rates: dict[str, Rates] = {}
    left = {}
    with libraries():
        for name, several in sorted(samples(records).items()):
            own = [sample for sample in several if sample.work.rates == name]
            measured = own if len(own) >= OWN else several
            exact = sum(not sample.least for sample in measured)
            if exact >= (FEW_PLANS if "_plan " in name else 1):
                rates[name] = fit(measured, *prior_of(name, rates))
                left[name] = (exact, bias(measured, rates[name]))
        with using(rates):
            return choosing(rates, [choices(record, rates) for record in records]), left


def choices(record: Mapping[str, Any], rates: Mapping[str, Rates]) -> list[Choice]:
    """What could have run on the problem of a record: none where a version states no work."""
    found = []
    with machine_of(record["device"]):
        machine = seen(record)
        problem, able = supporting(record["family"], record["case"])
        times = {name: time for name, time in record["times"].items() if name.split()[0] in able}
        plans = plans_that_run(times)
        for name in {each.split()[0]: each for each in times}:
            version, does = able[name], work_of(name, problem, able)
            time = times.get(name)
            if plans and name == "cudnn":
                does, time = work.cudnn(problem), times[plan_that_runs(problem, times)]
            if does is None or time is None or version.prefers is never:
                return []
            kind = kind_with_rates(does.rates)
            if kind not in rates:  # bounds alone are known of it
                continue
            arithmetic, memory = seconds(does, machine, Rates(1.0, 1.0, 1.0))
            beyond = math.exp(rates[kind].spread ** 2 / 2) / version.favour
            found.append(Choice(kind, does.launches, 1e6 * arithmetic, 1e6 * memory, beyond, time))
    return found


def prior_of(name: str, rates: Mapping[str, Rates]) -> tuple[Rates, float]:
    """What is expected of a kind of version before its measurements, and its weight. A library,
    whose kernels nobody knows, does what it does for the kinds that the name begins with. A plan of
    it is called as it is, also where the plan was measured on large problems alone."""
    if "_plan" in name:
        library = rates.get(name.split("_plan")[0])
        return PRIOR._replace(launch=library.launch) if library else PRIOR, TRUST
    above = name.rpartition(" ")[0]
    while above and above not in rates:
        above = above.rpartition(" ")[0]
    if above.startswith("cudnn "):
        return rates[above]._replace(spread=DOUBT), RELATED
    return PRIOR, TRUST


def using(rates: Mapping[str, Rates]) -> Any:
    """The context in which predictions go by these rates."""
    return mock.patch.object(prediction, "_fitted", lambda: rates)
