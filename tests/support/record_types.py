"""What a row of the records is: tests/support/records.py and tests/support/records_ml.py hold the
rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from strategies import eps, numbers

import cudamath as cm


class Elementwise(NamedTuple):
    """A function of one or two arrays, element by element.

    kinds: dtypes it takes: b(ool) i(nt) u(int) f(loat) c(omplex). low, high: where gradients are
    taken and accuracy is requested. ulp: allowed error in units in the last place, float32 and
    float64 (16-bit floats: rounded from float32, so 1); 0 is exact. wild: also right for every
    awkward number (NaN, infinities, signed zeros, extremes). grad: which inputs have one.
    """

    name: str
    numpy: np.ufunc
    kinds: str
    low: float = -3.0
    high: float = 3.0
    ulp: float = 0
    grad: tuple[bool, ...] = ()
    wild: bool = True

    @property
    def inputs(self) -> int:
        return self.numpy.nin

    @property
    def function(self) -> Callable[..., Any]:
        return getattr(cm, self.name)


class Array(NamedTuple):
    """A floating-point input: shape and range of its random numbers; `constant`: no gradient is
    asked of it."""

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    constant: bool = False


class Whole(NamedTuple):
    """An integer input below `stop`."""

    shape: tuple[int, ...]
    stop: int


class Row(NamedTuple):
    """name: public name. run(xp, *arrays): the call, where xp is cudamath or, if `truth` is
    missing, NumPy.

    error: allowed error in epsilons of the dtype times the largest number of the answer; 0 is
    exact. grad, second: whether first and second derivatives exist. cards: names in the registry
    that the row runs through.
    """

    name: str
    run: Callable[..., Any]
    inputs: tuple[Array | Whole, ...]
    truth: Callable[..., Any] | None = None
    error: float = 4
    grad: bool = True
    second: bool = True
    cards: tuple[str, ...] = ()

    def arrays(self, dtype: np.dtype, seed: int = 0) -> list[np.ndarray]:
        """Inputs of the row: floating-point ones in this dtype."""
        rng = np.random.default_rng([seed, *self.name.encode()])
        return [
            rng.integers(0, a.stop, a.shape)
            if isinstance(a, Whole)
            else numbers(rng, a.shape, dtype, a.low, a.high)
            for a in self.inputs
        ]

    def expected(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """The answer(s), computed in float64."""
        wide = [
            a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
            if a.dtype.kind not in "biu"
            else a
            for a in arrays
        ]
        answer = self.run(np, *wide) if self.truth is None else self.truth(*wide)
        return (
            [np.asarray(a) for a in answer]
            if isinstance(answer, (tuple, list))
            else [np.asarray(answer)]
        )

    def allowed(self, dtype: np.dtype, expected: np.ndarray) -> float:
        """The largest allowed error."""
        size = float(np.max(np.abs(expected), initial=0.0)) if expected.dtype.kind != "b" else 0.0
        return self.error * eps(dtype) * size


A, W = Array, Whole
M, V, CUBE = A((4, 6)), A((6,)), A((3, 4, 5))
IMAGE = A((2, 4, 7, 6))


def same(name: str, run: Callable[..., Any], *inputs: Any, **options: Any) -> Row:
    """A row whose call reads the same in NumPy."""
    return Row(name, run, inputs, **options)


def moves(name: str, run: Callable[..., Any], *inputs: Any, **options: Any) -> Row:
    """The same, for functions that only move elements: exact."""
    return Row(name, run, inputs, **{"error": 0, **options})
