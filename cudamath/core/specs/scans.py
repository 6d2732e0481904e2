"""The scans (running sums, products, maxima, minima): each one once, for the GPU, the CPU and the
public functions. Nothing here imports Numba: device functions are plain functions of numbers.

A comparison x != x is true for NaN alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .complex_order import at_least

#: Every scan by its name: the parameter `kind` of the op.
SCANS: dict[str, Scan] = {}


class Scan:
    """A scan: y[i] = x[0] combine ... combine x[i].

    Attributes
    ----------
    name : str
        The parameter `kind` of the op.
    chooses : bool
        Results are elements: they are not added, and integers are not widened.
    neutral : int
        The number that changes nothing: what the totals of sums and products begin with, and what
        stands for a NaN if `skips_nan`.
    skips_nan : bool
        NaNs change nothing.
    """

    chooses = False
    neutral = 0

    def __init__(self, name: str, skips_nan: bool = False):
        self.name, self.skips_nan = name, skips_nan
        SCANS[name] = self

    def start(self, dtype: np.dtype) -> Any:
        """The total of no elements, for totals of this dtype."""
        raise NotImplementedError

    def combine(self, A: Any, kind: str, device: Callable) -> Callable:
        """The function of two totals of type A, a type of that kind, which `device` makes a device
        function."""
        raise NotImplementedError

    def numpy(self, x: np.ndarray, axis: int, dtype: np.dtype) -> np.ndarray:
        """The same on the CPU, in the compute dtype of the results."""
        raise NotImplementedError


class Sum(Scan):
    """Running sums."""

    def start(self, dtype):
        # Not 0.0, to which -0.0 adds up to 0.0: NumPy's sums begin with the first element.
        return {"f": -0.0, "c": complex(-0.0, -0.0)}.get(dtype.kind, 0)

    def combine(self, A, kind, device):
        def combine(a, b):
            return A(a + b)

        return combine

    def numpy(self, x, axis, dtype):
        run = np.nancumsum if self.skips_nan else np.cumsum
        return run(x.astype(np.float32) if x.dtype.kind == "V" else x, axis=axis, dtype=dtype)


class Product(Scan):
    """Running products."""

    neutral = 1

    def start(self, dtype):
        return 1

    def combine(self, A, kind, device):
        def combine(a, b):
            return A(a * b)

        return combine

    def numpy(self, x, axis, dtype):
        run = np.nancumprod if self.skips_nan else np.cumprod
        return run(x.astype(np.float32) if x.dtype.kind == "V" else x, axis=axis, dtype=dtype)


class Extreme(Scan):
    """Running maxima or minima; from a NaN on NaN, or NaNs lose if `skips_nan`."""

    chooses = True

    def __init__(self, name: str, ufunc: np.ufunc, largest: bool, skips_nan: bool = False):
        super().__init__(name, skips_nan)
        self.ufunc, self.largest = ufunc, largest

    def start(self, dtype):
        if dtype.kind in "iu":
            return np.iinfo(dtype).min if self.largest else np.iinfo(dtype).max
        if self.skips_nan:
            return math.nan  # the result as long as there are only NaNs
        limit = -math.inf if self.largest else math.inf
        return complex(limit, limit) if dtype.kind == "c" else limit

    def combine(self, A, kind, device):
        reaches = at_least(device, kind, self.largest)

        if self.skips_nan:

            def combine(a, b):
                return a if reaches(a, b) or b != b else b

        else:

            def combine(a, b):
                return a if reaches(a, b) or a != a else b

        return combine

    def numpy(self, x, axis, dtype):
        return self.ufunc.accumulate(x.astype(dtype, copy=False), axis=axis)


SUM, NANSUM = Sum("sum"), Sum("nansum", skips_nan=True)
PROD, NANPROD = Product("prod"), Product("nanprod", skips_nan=True)
MAX, MIN = Extreme("max", np.maximum, True), Extreme("min", np.minimum, False)
NANMAX = Extreme("nanmax", np.fmax, True, skips_nan=True)
NANMIN = Extreme("nanmin", np.fmin, False, skips_nan=True)
