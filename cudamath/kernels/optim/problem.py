"""Optimizer steps and the norm of gradients as problems: the layouts and parameters of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ...core.specs.optimizer import Form


class DTypes(NamedTuple):
    """Of a parameter, its gradient, and its copy (None: there is none)."""

    parameter: np.dtype
    gradient: np.dtype
    copy: np.dtype | None


@dataclass(frozen=True)
class Step:
    """A step of all parameters in place: `arrays` as `form` (core/specs/optimizer.py) arranges
    them, `states` arrays per parameter. coefficients: how the rule's numbers follow from the
    learning rate and the step's number ("plain", "adam" or "lion")."""

    rule: Callable
    states: int
    arrays: tuple[Layout, ...]
    form: Form
    coefficients: str = "plain"

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The arrays without the 0-d ones."""
        return self.arrays[: len(self.arrays) - self.form.extra]

    @property
    def count(self) -> int:
        """Parameters."""
        return len(self.layouts) // (2 + self.states + self.form.copies)

    @property
    def held(self) -> bool:
        """Whether device memory holds the rule's numbers."""
        return self.form.extra > 0

    @property
    def decays(self) -> tuple[bool, ...]:
        return self.form.decays or (True,) * self.count

    @property
    def compute_dtypes(self) -> list[np.dtype]:
        return list(dict.fromkeys(compute_dtype(p.dtype) for p in self.layouts[: self.count]))

    @cached_property
    def dtypes(self) -> list[DTypes]:
        """Of each parameter. A copy of the parameter's own dtype is the parameter itself."""
        found, count = [], self.count
        for i in range(count):
            p, g = self.layouts[i].dtype, self.layouts[count + i].dtype
            w = self.layouts[(2 + self.states) * count + i].dtype if self.form.copies else p
            found.append(DTypes(p, g, None if w == p else w))
        return found


@dataclass(frozen=True)
class GradientNorm:
    """The norm of all gradients, contiguous."""

    gradients: tuple[Layout, ...]

    @property
    def total(self) -> np.dtype:
        """The dtype of the norm: float64 if any gradient is."""
        return np.dtype(np.float64 if any(g.dtype == np.float64 for g in self.gradients) else "f4")


@dataclass(frozen=True)
class Factor(GradientNorm):
    """The norm and the factor that limits it. scaling: of the loss's scale too; strict: a norm that
    is not finite raises the error flag."""

    scaling: bool
    strict: bool


@dataclass(frozen=True)
class Clip(GradientNorm):
    """The norm, and the gradients times the factor that limits it."""
