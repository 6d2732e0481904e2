"""The tiles of cuDNN's plans, which nobody documents, as their times show them, and whether they
choose better than the library does: for benchmarks/planner.py."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from unittest import mock

from benchmarks.planner_fit import (
    Sample,
    fit,
    fitted,
    libraries,
    machine_of,
    plan_that_runs,
    plans_that_run,
    seen,
    supporting,
    using,
)
from cudamath.kernels.conv import work
from cudamath.kernels.conv.problem import Problem
from cudamath.kernels.conv.work import PlanTiles

SIDES = (16, 32, 64, 128, 256)
LARGEST = 256 * 128  # numbers of a tile
FEW = 6  # measurements below which nothing is said of a plan
WILD = 0.4  # standard deviation of the logarithm beyond which a plan's times are not predicted


def tiles_of_plans(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, PlanTiles]]:
    """The tiles of each family of cuDNN's plans with which predicted times are closest to those
    measured: kind of problems -> family -> tiles. Plans by a transform have no tiles."""
    seen_of: dict[tuple[str, str], list[tuple[Mapping[str, Any], Problem, float]]] = {}
    for record in records:
        with machine_of(record["device"]):
            if record["family"] != "conv":
                continue
            problem, _ = supporting("conv", record["case"])
            for name, family in plans_that_run(record["times"]).items():
                kind = work.plans_kind(problem), family
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


# -------------------- against the library's own choice

SHUFFLES, FOLDS = 2, 6  # of problems into parts, of which each is predicted by the others
GAIN = 0.02  # least mean of the logarithm of own by predicted choice with which tiles are shipped


class Choices(NamedTuple):
    """The times of the plan that the library ranks first, and of the one that runs by predicted
    times, by the least time of all its plans."""

    own: float
    predicted: float


def held_out(
    records: Sequence[Mapping[str, Any]], shuffles: int = SHUFFLES, folds: int = FOLDS
) -> dict[str, list[Choices]]:
    """Kind of problems -> what is chosen for each by tiles and rates of other problems."""
    several = [r for r in records if r["family"] == "conv" and plans_that_run(r["times"])]
    found: dict[str, list[Choices]] = {}
    for shuffle in range(shuffles):
        shuffled = random.Random(shuffle).sample(several, len(several))
        for fold in range(folds):
            train = [r for i, r in enumerate(shuffled) if i % folds != fold]
            tiles = tiles_of_plans(train)
            with mock.patch.object(work, "tiles_of_cudnn", lambda tiles=tiles: tiles), libraries():
                rates, _ = fitted(train)
                for record in shuffled[fold::folds]:
                    with machine_of(record["device"]), using(rates):
                        problem, _ = supporting("conv", record["case"])
                        choice = plan_that_runs(problem, record["times"])
                    times = [record["times"][name] for name in plans_that_run(record["times"])]
                    choices = Choices(times[0] / min(times), record["times"][choice] / min(times))
                    found.setdefault(work.plans_kind(problem), []).append(choices)
    return found


def gain(choices: Sequence[Choices]) -> float:
    """The mean of the logarithm of the time of the library's choice by that of the predicted."""
    return statistics.mean(math.log(c.own / c.predicted) for c in choices)


def tiles_that_help(
    records: Sequence[Mapping[str, Any]], judged: Mapping[str, Sequence[Choices]]
) -> dict[str, dict[str, PlanTiles]]:
    """The tiles of the kinds in which a predicted choice is better on problems that it has not
    seen. In the others the library's own order stands."""
    tiles = tiles_of_plans(records)
    return {kind: plans for kind, plans in tiles.items() if gain(judged[kind]) > GAIN}


def judgement(judged: Mapping[str, Sequence[Choices]]) -> str:
    """What --tiles prints of the held-out choices: geometric means and the worst of each kind."""
    lines = [f"{'kind of problems':28s}    n     own   worst  predicted   worst    gain"]
    for kind, choices in sorted(judged.items()):
        columns = [
            f"{statistics.geometric_mean(ratios):7.3f} {max(ratios):7.2f}"
            for ratios in zip(*choices, strict=True)
        ]
        helps = "" if gain(choices) > GAIN else "   the library's order stands"
        lines.append(
            f"{kind:28s} {len(choices):4d} {'    '.join(columns)} {gain(choices):+7.3f}{helps}"
        )
    return "\n".join(lines)
