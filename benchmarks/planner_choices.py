"""The rates of versions moved so that choices by them lose little: for benchmarks/planner.py.

Rates that predict times well choose well where one version is far ahead of the others. Where two
are close, a bias of a tenth in one of them decides, and it always decides alike. So the rates that
the least squares found (planner_fit.py) are the start, and what is made small from there is

    sum over problems of sum_i (w_i log(time_i / least time) + TRUE * log(predicted_i / time_i)^2)
        + HELD * |log rates - start|^2

with w_i = exp(-log(predicted_i) / SOFT), scaled to the sum 1: a version is chosen the more surely,
the further its prediction is below the others. The second part keeps predictions true: choices
alone would let the rates of all versions grow together. It is bent and weighted as in the fit,
which takes FAR, FAINT and SLOW from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from cudamath.kernels.lib.prediction import OVERLAP, Rates

SOFT = 0.05  # of logarithms of predicted times
TRUE = 0.1  # weight of a prediction's distance from the time, in logarithms
HELD = 0.1  # weight of a rate's distance from the start
MOST = 1.0  # logarithm of a loss beyond which it counts no more
FAR = 0.7  # logarithm of a ratio beyond which a prediction's distance counts no more than linearly
FAINT, SLOW = 0.3, 3.0  # weight of times so many times the least


class Choice(NamedTuple):
    """A version that could run on a problem: its kind of rates, launches, microseconds that
    arithmetic and memory take by rates of 1, how many times its prediction exceeds the median, and
    the measured time."""

    rates: str
    launches: float
    arithmetic: float
    memory: float
    beyond: float
    time: float


def choosing(rates: Mapping[str, Rates], problems: Iterable[Sequence[Choice]]) -> dict[str, Rates]:
    """The rates, moved for choices among the versions of each problem."""
    several = [choices for choices in problems if len(choices) > 1]
    kinds = sorted({choice.rates for choices in several for choice in choices})
    if not kinds:
        return dict(rates)
    table, start = _table(several, kinds), np.log([rates[kind][:3] for kind in kinds])
    found = minimize(
        _loss,
        start.ravel(),
        args=(start, table),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500, "ftol": 1e-12, "gtol": 1e-7},
    )
    moved = np.exp(found.x).reshape(start.shape)
    near = {
        kind: rates[kind]._replace(
            launch=float(f"{launch:.4g}"), cycle=float(f"{cycle:.4g}"), byte=float(f"{byte:.4g}")
        )
        for kind, (launch, cycle, byte) in zip(kinds, moved, strict=True)
    }
    return {**rates, **near}


class _Table(NamedTuple):
    """Choices as arrays (problems, versions); `kind`: their rates' row. There are fewer versions
    than columns where `there` is False."""

    kind: np.ndarray
    there: np.ndarray
    launches: np.ndarray
    arithmetic: np.ndarray
    memory: np.ndarray
    beyond: np.ndarray
    lost: np.ndarray
    time: np.ndarray  # its logarithm
    weight: np.ndarray  # of its distance from the prediction


def _table(several: Sequence[Sequence[Choice]], kinds: Sequence[str]) -> _Table:
    rows = {kind: i for i, kind in enumerate(kinds)}
    most = max(map(len, several))
    numbers = np.ones((6, len(several), most))
    weight = np.zeros((len(several), most))
    kind, there = np.zeros((len(several), most), int), np.zeros((len(several), most), bool)
    for i, choices in enumerate(several):
        least = min(choice.time for choice in choices)
        for j, c in enumerate(choices):
            kind[i, j], there[i, j] = rows[c.rates], True
            weight[i, j] = FAINT if c.time > SLOW * least else 1.0
            lost, beyond = min(math.log(c.time / least), MOST), math.log(c.beyond)
            work = c.launches, c.arithmetic, c.memory
            numbers[:, i, j] = *work, beyond, lost, math.log(c.time)
    return _Table(kind, there, *numbers, weight)


def _loss(at: np.ndarray, start: np.ndarray, table: _Table) -> tuple[float, np.ndarray]:
    """What is made small, and its gradient by logarithms of rates."""
    rates = np.exp(at.reshape(start.shape))[table.kind]
    launches = rates[..., 0] * table.launches
    parts = (rates[..., 1:] * np.stack([table.arithmetic, table.memory], -1)) ** OVERLAP
    both = parts.sum(-1)
    together = both ** (1 / OVERLAP)
    predicted = launches + together
    scores = np.where(table.there, -(np.log(predicted) + table.beyond) / SOFT, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    lost = np.where(table.there, table.lost, 0)
    expected = (weights * lost).sum(1, keepdims=True)
    apart = np.log(predicted) - table.time
    near = np.clip(apart, -FAR, FAR)
    distance = table.weight * near * (2 * apart - near)
    # slopes by the logarithm of the predicted time
    by_logarithm = -weights * (lost - expected) / SOFT + TRUE * 2 * table.weight * near
    share = np.stack([launches, *(parts * (together / both)[..., None]).transpose(2, 0, 1)], -1)
    slopes = np.zeros(start.shape)
    np.add.at(slopes, table.kind, by_logarithm[..., None] * share / predicted[..., None])
    away = at.reshape(start.shape) - start
    total = expected.sum() + TRUE * distance.sum() + HELD * (away**2).sum()
    return total, (slopes + 2 * HELD * away).ravel()
