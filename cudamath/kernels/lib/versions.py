"""The versions of an operation as a table, and the choice among them.

Each family's `dispatch.py` lists its versions once: a name, the planner, what it supports, where it
is preferred. The module of a version is imported when the version is chosen, so a process loads
the kernels that it runs and no others.
"""

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.dispatch import autotune
from ...core.dispatch.plan import Plan
from .prediction import Machine, Work, microseconds

REACH = 4.0  # times the least expected time: versions beyond are not measured at first use


def always(_problem: Any) -> bool:
    """For a version that supports, or is preferred for, every problem."""
    return True


def never(_problem: Any) -> bool:
    """For a version that runs by its name alone, or where no other supports the problem."""
    return False


@dataclass(frozen=True)
class Version:
    """One implementation of an operation.

    Parameters
    ----------
    name : str
        By which tests, tuning tables and `cm.explain` call it.
    planner : str
        "family.module.function" below `cudamath.kernels`: takes the problem, returns a Plan, or
        None where it turns out that it cannot do it (a library without a plan).
    supports : callable
        Whether it can run a problem: dtypes, shapes, strides, capability.
    prefers : callable
        Whether it should run before the versions further down, for reasons of speed: a bool, or a
        rank. Versions of a higher rank are tried first; True is 1.
    reason : str
        Why it is preferred: `cm.explain` prints it.
    work : callable, optional
        What it does on a problem (prediction.py). Versions that state it are tried in the order of
        their predicted times, after the one whose method `problem.measured` names, if it has that,
        and after those that state none and are preferred.
    favour : float
        How many times another's predicted time its own may be, and it is still tried before: of a
        library that chooses among more kernels than a prediction knows.
    """

    name: str
    planner: str
    supports: Callable[[Any], bool] = always
    prefers: Callable[[Any], int] = always
    reason: str = ""
    work: Callable[[Any], Work] | None = None
    favour: float = 1.0

    def microseconds(self, problem: Any) -> float:
        """The predicted time on a problem."""
        if self.work is None:
            raise AssertionError(f"{self.name}: it does not state its work")
        return microseconds(self.work(problem), Machine.of(problem.device))

    def order(self, problem: Any) -> tuple[bool, float]:
        """By which versions are sorted: those to be tried first have the least."""
        if self.prefers is never:
            return True, math.inf
        if self.work is None:
            rank = self.prefers(problem)
            return not rank, -rank if rank else math.inf
        measured = getattr(problem, "measured", "")
        return not (measured and measured in self.name), self.microseconds(problem) / self.favour

    def plan(self, problem: Any) -> Plan | None:
        """The version's plan of a problem."""
        module, _, function = self.planner.rpartition(".")
        return getattr(importlib.import_module(f"cudamath.kernels.{module}"), function)(problem)


def ordered(versions: Sequence[Version], problem: Any) -> list[Version]:
    """The versions that support a problem: those to be tried first stand first."""
    able = [version for version in versions if version.supports(problem)]
    return sorted(able, key=lambda version: version.order(problem))


def timed(name: str, problem: Any, order: Sequence[Version]) -> autotune.Entry:
    """The times of versions that were measured for just this problem. While `autotune.measuring` is
    set they are measured now, those whose expected time is not far from the least."""
    key = getattr(problem, "key", "")
    if not key:
        return {}
    times = autotune.versions(name, problem.device, key)
    if times or autotune.measuring is None or len(order) < 2:
        return times
    most = REACH * min(version.microseconds(problem) for version in order)
    plans = {}
    for version in order:
        if version.microseconds(problem) <= most:
            plan = version.plan(problem)
            if plan is not None:
                plans[version.name] = plan
    if len(plans) > 1:
        times = autotune.measuring(name, plans, problem.inputs) or {}
    if times:
        autotune.keep_versions(name, problem.device, key, times)
    return times


def explained(
    version: Version,
    problem: Any,
    others: Sequence[Version],
    times: Mapping[str, float] | None = None,
) -> str:
    """Why a version runs before others: in words, and where they are known, the times."""
    words = f"{version.name}: {version.reason}"
    if times:
        known = sorted(times, key=times.__getitem__)[:3]
        return f"{words}; measured us: {', '.join(f'{n} {times[n]:.3g}' for n in known)}"
    if version.work is None:
        return words
    measured = getattr(problem, "measured", "")
    if measured and measured in version.name:
        return f"{words}; {problem.measurement.why}"
    predicted = [v for v in (version, *others) if v.work is not None][:3]
    times = [f"{v.name} {v.microseconds(problem):.3g}" for v in predicted]
    return f"{words}; predicted us: {', '.join(times)}"


def choose(
    name: str, versions: Sequence[Version], problem: Any, version: str | None = None
) -> Plan:
    """The plan of the first version that can do it, or of the one that is named.

    Raises ValueError if the named one does not exist or does not support the problem.
    """
    if version is None:
        order = ordered(versions, problem)
        times = timed(name, problem, order)
        if times:
            order.sort(key=lambda version: times.get(version.name, math.inf))
        for i, candidate in enumerate(order):
            plan = candidate.plan(problem)
            if plan is not None:
                plan.why = plan.why or explained(candidate, problem, order[i + 1 :], times)
                return plan
        raise AssertionError(f"{name}: no version supports {problem}")
    plan = named(name, versions, problem, version)
    plan.why = f"requested: {version}"
    return plan


def first(versions: Sequence[Version], problem: Any) -> Any:
    """What the first version that can do it makes of a problem: for parts of plans."""
    return next(filter(None, (v.plan(problem) for v in ordered(versions, problem))))


def named(name: str, versions: Sequence[Version], problem: Any, version: str) -> Any:
    """What the version of that name makes of a problem.

    Raises ValueError if it does not exist or does not support the problem.
    """
    choice = next((v for v in versions if v.name == version), None)
    if choice is None:
        names = ", ".join(v.name for v in versions)
        raise ValueError(f"{name}: there is no version {version!r}; there are {names}")
    plan = choice.plan(problem) if choice.supports(problem) else None
    if plan is None:
        raise ValueError(f"{name}: version {version!r} does not support {problem}")
    return plan
