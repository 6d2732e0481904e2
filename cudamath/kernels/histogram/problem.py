"""The problems that planners of histograms solve."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output, Scalar
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..copy.contiguous import dense
from ..copy.fill import fill_part
from ..copy.parts import whole
from ..lib.integers import blocks
from .edges import write_edges

MOST_SHARED = 8192  # bins counted in shared memory: 32 KB
THREADS = 256


@dataclass(frozen=True)
class CountProblem:
    """How many numbers lie in each bin.

    Parameters
    ----------
    x : Layout
    kind : str
        How the bin of a number is found: "numbered", "even" or "uneven" (histogram.py).
    bins : int
    edges : Layout, optional
        The edges of the bins, the second input.
    between : dtype, optional
        That of edges between two scalars, which are the second output.
    """

    x: Layout
    kind: str
    bins: int
    edges: Layout | None = None
    between: np.dtype | None = None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to count."""
        return not (self.x.size and self.bins)

    @property
    def edge(self) -> np.dtype:
        """The dtype of edges; of numbers, where the number is the bin."""
        if self.between is not None:
            return self.between
        return self.x.dtype if self.edges is None else self.edges.dtype

    @functools.cached_property
    def outputs(self) -> list[Layout]:
        counts = self.x.like((self.bins,), np.dtype(np.int64))
        if self.between is None:
            return [counts]
        return [counts, self.x.like((self.bins + 1,), self.between)]

    def prepare(self, temps: list[Layout]) -> tuple[list[Launch], Any]:
        """(steps that set counts to 0 and make edges, the argument of the edges or None)."""
        if self.between is not None:
            launch = Launch(
                write_edges(self.between),
                blocks(self.bins + 1, THREADS),
                THREADS,
                [Scalar(0, np.float64), Scalar(1, np.float64), Output(1), Output(0)],
            )
            return [launch], Output(1)
        zero = np.uint64(0)
        steps, edges = fill_part(whole(Output(0), self.outputs[0]), zero, zero, None), None
        if self.edges is not None:
            made, edges = dense(Input(1), self.edges, self.edges.shape, self.edges.dtype, temps)
            steps = [*steps, *made]
        return steps, edges


@dataclass(frozen=True)
class RangeProblem:
    """A histogram between the smallest and the largest number.

    Parameters
    ----------
    x : Layout
        At least one number.
    bins : int
    """

    x: Layout
    bins: int

    @property
    def edge(self) -> np.dtype:
        """The dtype of edges."""
        return self.x.dtype if self.x.dtype.kind == "f" else np.dtype(np.float64)

    @functools.cached_property
    def outputs(self) -> list[Layout]:
        """Counts, edges, and a number that says whether there are no such edges."""
        x, int64 = self.x, np.dtype(np.int64)
        return [x.like((self.bins,), int64), x.like((self.bins + 1,), self.edge), x.like((), int64)]


@dataclass(frozen=True)
class SumProblem:
    """The sums of the weights where x is 0 ... bins - 1; all of x is in this range."""

    weights: Layout
    x: Layout
    bins: int
