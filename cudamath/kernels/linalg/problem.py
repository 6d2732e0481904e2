"""The problems that planners of decompositions solve. Arrays are never empty here (ops/linalg sees
to that); the batch axes of all inputs are the same."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.layout import Layout
from .plan_builder import INT32, batch, in_columns, real_like


@dataclass(frozen=True)
class TriangularProblem:
    """a x = b for a triangular a, (..., n, n), of which one triangle is read; b: (..., n, k).

    Parameters
    ----------
    a, b : Layout
    lower : bool
    unit : bool
        Whether the diagonal is taken as ones.
    """

    a: Layout
    b: Layout
    lower: bool
    unit: bool

    @property
    def x(self) -> Layout:
        """The result, in columns."""
        return in_columns(self.b)

    @property
    def systems(self) -> int:
        return batch(self.b)


@dataclass(frozen=True)
class FactoredProblem:
    """a x = b from LU factors. a: (..., n, n), packed; b: (..., n, k); pivots: (..., n), 0-based,
    in C order."""

    a: Layout
    b: Layout
    pivots: Layout

    @property
    def x(self) -> Layout:
        """The result, in columns."""
        return in_columns(self.b)

    @property
    def systems(self) -> int:
        return batch(self.b)


@dataclass(frozen=True)
class LUProblem:
    """P A = L U of a: (..., m, n).

    Parameters
    ----------
    a : Layout
    packed : bool
        Whether the results are the packed factors and pivots, or P, L and U.
    """

    a: Layout
    packed: bool

    @property
    def outputs(self) -> list[Layout]:
        *lead, m, n = self.a.shape
        k = min(m, n)
        if self.packed:
            return [in_columns(self.a), self.a.like((*lead, k), INT32)]
        return [in_columns(self.a.like((*lead, *shape))) for shape in ((m, m), (m, k), (k, n))]


@dataclass(frozen=True)
class QRProblem:
    """A = Q R of a: (..., m, n).

    Parameters
    ----------
    a : Layout
    complete : bool
        Whether Q has m columns, or min(m, n).
    vectors : bool
        Whether Q is a result, beside R.
    """

    a: Layout
    complete: bool
    vectors: bool

    @property
    def k(self) -> int:
        """The columns of Q."""
        m, n = self.a.shape[-2:]
        return m if self.complete else min(m, n)

    @property
    def outputs(self) -> list[Layout]:
        *lead, m, n = self.a.shape
        r = self.a.like((*lead, self.k, n))
        return [in_columns(self.a.like((*lead, m, self.k))), r] if self.vectors else [r]


@dataclass(frozen=True)
class HermitianProblem:
    """Eigenvalues of a: (..., n, n), of which one triangle is read, and its eigenvectors.

    Parameters
    ----------
    a : Layout
    upper : bool
    vectors : bool
    """

    a: Layout
    upper: bool
    vectors: bool

    @property
    def outputs(self) -> list[Layout]:
        w = real_like(self.a, self.a.shape[:-1])
        return [w, in_columns(self.a)] if self.vectors else [w]


@dataclass(frozen=True)
class SVDProblem:
    """A = U S V^H of a: (..., m, n).

    Parameters
    ----------
    a : Layout
    full : bool
        Whether U and V^H are square.
    vectors : bool
        Whether they are results, beside the singular values.
    """

    a: Layout
    full: bool
    vectors: bool

    @property
    def k(self) -> int:
        """The number of singular values."""
        return min(self.a.shape[-2:])

    @property
    def outputs(self) -> list[Layout]:
        """u, s, vh in C order, or s."""
        *lead, m, n = self.a.shape
        s = real_like(self.a, (*lead, self.k))
        if not self.vectors:
            return [s]
        rows, columns = (m, n) if self.full else (self.k, self.k)
        return [self.a.like((*lead, m, rows)), s, self.a.like((*lead, columns, n))]
