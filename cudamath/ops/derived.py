"""Distributions made of others by their definitions: compositions of gamma, Poisson, normal and uniform numbers.

CPU and GPU agree to rounding. None is differentiable.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.devices import device_of
from ..core.dtypes import INTEGER
from .discrete import Discrete
from .elementwise import exp, expm1, floor, log, log1p, maximum, sqrt
from .index import where
from .shape import astype
from .source import Parameters, Size, wanted_dtype


class Derived(Discrete):
    """The part of `Generator` whose numbers are made of those of other distributions."""

    __slots__ = ()

    def f(self, dfnum: Any, dfden: Any, size: Size = None, dtype: Any = None, device: Any = None) -> ndarray:
        """F numbers: (x / dfnum) / (y / dfden) of chi-square numbers x, y.

        dfnum, dfden: degrees of freedom, > 0; size, dtype, device and errors: as for `gamma`. Not differentiable.

        >>> import cudamath as cm
        >>> bool((cm.random.default_rng(7).f(3, 8, 5) > 0).all())
        True
        """
        return self._ratio("random.f", dfnum, dfden, None, size, dtype, device)

    def noncentral_f(self, dfnum: Any, dfden: Any, nonc: Any, size: Size = None, dtype: Any = None,
                     device: Any = None) -> ndarray:
        """Noncentral F numbers: (x / dfnum) / (y / dfden) of a noncentral and a central chi-square number.

        dfnum, dfden: degrees of freedom, > 0; nonc: of the numerator, >= 0; size, dtype, device and errors: as for `gamma`. Not
        differentiable.

        >>> import cudamath as cm
        >>> bool((cm.random.default_rng(7).noncentral_f(3, 8, 2.0, 5) > 0).all())
        True
        """
        return self._ratio("random.noncentral_f", dfnum, dfden, nonc, size, dtype, device)

    def _ratio(self, name: str, dfnum: Any, dfden: Any, nonc: Any, size: Size, dtype: Any, device: Any) -> ndarray:
        ranges = {"dfnum": "positive", "dfden": "positive", "nonc": "not negative"}
        p = Parameters(name, size, dtype, device, ranges, dfnum, dfden, 0.0 if nonc is None else nonc, composed=True)
        a, b, shift = p.values
        like: dict[str, Any] = {"size": p.shape, "dtype": p.dtype, "device": device_of(p.place)}
        above = self.chisquare(a, **like) if nonc is None else self.noncentral_chisquare(a, shift, **like)
        return p.rounded(above / a / (self.chisquare(b, **like) / b))

    def noncentral_chisquare(self, df: Any, nonc: Any, size: Size = None, dtype: Any = None, device: Any = None) -> ndarray:
        """Noncentral chi-square numbers: chi-square numbers of df + 2 k degrees of freedom, k Poisson of mean nonc / 2.

        df: > 0; nonc: >= 0, the sum of squared means; size, dtype, device and errors: as for `gamma`. Not differentiable.

        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).noncentral_chisquare(3, 2.0, 10_000)
        >>> bool(abs(x.mean() - 5) < 0.2)
        True
        """
        p = Parameters("random.noncentral_chisquare", size, dtype, device, {"df": "positive", "nonc": "not negative"}, df, nonc,
                       composed=True)
        df, nonc = p.values
        place = device_of(p.place)
        more = self.poisson(nonc / 2, size=p.shape, device=place)
        return p.rounded(self.chisquare(astype(more, p.dtype) * 2 + df, size=p.shape, dtype=p.dtype, device=place))

    def power(self, a: Any, size: Size = None, dtype: Any = None, device: Any = None) -> ndarray:
        """Numbers in [0, 1] of density a x^(a - 1): u^(1 / a) of uniform numbers u.

        a: > 0; size, dtype, device and errors: as for `gamma`. Not differentiable.

        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).power(3, 10_000)
        >>> bool(abs(x.mean() - 0.75) < 0.02)
        True
        """
        p = Parameters("random.power", size, dtype, device, {"a": "positive"}, a, composed=True)
        return p.rounded(exp(-self.standard_exponential(p.shape, p.dtype, device_of(p.place)) / p.values[0]))

    def wald(self, mean: Any, scale: Any, size: Size = None, dtype: Any = None, device: Any = None) -> ndarray:
        """Wald (inverse Gaussian) numbers: when a Brownian motion with drift first reaches a height.

        Density sqrt(scale / (2 pi x^3)) exp(-scale (x - mean)^2 / (2 mean^2 x)). mean, scale: > 0; size, dtype, device and
        errors: as for `gamma`. Not differentiable. Source: Michael, Schucany, Haas (1976), Generating random variates using
        transformations with multiple roots; the smaller root without cancellation.

        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).wald(2.0, 5.0, 10_000)
        >>> bool(abs(x.mean() - 2) < 0.1)
        True
        """
        ranges = {"mean": "positive", "scale": "positive"}
        p = Parameters("random.wald", size, dtype, device, ranges, mean, scale, composed=True)
        mu, scale = p.values
        place = device_of(p.place)
        z = self.standard_normal(p.shape, p.dtype, place)
        half = z * z * (mu / scale / 2)
        small = mu / (1 + half + sqrt(half * (half + 2)))  # the roots are mu / g and mu g
        return p.rounded(where(self.random(p.shape, p.dtype, place) * (mu + small) <= mu, small, mu * (mu / small)))

    def negative_binomial(self, n: Any, p: Any, size: Size = None, dtype: Any = None, device: Any = None) -> ndarray:
        """How many trials fail before the n-th succeeds: Poisson numbers whose means are gamma numbers.

        k with probability Gamma(k + n) / (k! Gamma(n)) p^n (1 - p)^k. n: > 0, need not be whole; p: in (0, 1], the chance of a
        success; size, dtype, device and errors: as for `poisson`. Not differentiable.

        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).negative_binomial(3, 0.5, 10_000)
        >>> bool(abs(x.mean() - 3) < 0.15)
        True
        """
        given = Parameters("random.negative_binomial", size, np.float64, device, {"n": "positive", "p": "chance"}, n, p)
        count, chance = given.values
        place = device_of(given.place)
        means = self.standard_gamma(count, given.shape, np.float64, place) * ((1 - chance) / chance)
        return self.poisson(means, given.shape, dtype, place)

    def logseries(self, p: Any, size: Size = None, dtype: Any = None, device: Any = None) -> ndarray:
        """Numbers k = 1, 2, ... with probability -p^k / (k log(1 - p)).

        p: in (0, 1); size, dtype, device and errors: as for `poisson`. Not differentiable. Source: Kemp (1981), Efficient
        generation of logarithmically distributed pseudo-random variables.

        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).logseries(0.6, 10_000)
        >>> bool(abs(x.mean() - 1.637) < 0.05)
        True
        """
        name = "random.logseries"
        given = Parameters(name, size, np.float64, device, {"p": "chance"}, p)
        if given.known["p"] is not None and np.any(given.known["p"] == 1):
            raise ValueError(f"{name}: wants p < 1")
        chance, place = given.values[0], device_of(given.place)
        kind = wanted_dtype(name, dtype, INTEGER, np.dtype(np.int64))
        u = 1 - self.random(given.shape, np.float64, place)  # in (0, 1]
        rate = log1p(-chance) if isinstance(chance, ndarray) else math.log1p(-chance)
        q = -expm1(self.random(given.shape, np.float64, place) * rate)
        tiny = float(np.finfo(np.float64).tiny)
        far = floor(1 + log(u) / log(maximum(q, tiny)))
        found = where(u <= q * q, far, where(u <= q, 2.0, 1.0))
        return astype(maximum(found, 1.0), kind)
