"""Distributions made of others by their definitions: compositions of gamma, Poisson, normal and
uniform samples.

CPU and GPU agree to rounding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.array import ndarray
from ...core.asarray import asarray
from ...core.devices import device_of
from ...core.dispatch.fast_path import fast_path
from ...core.dtypes import INTEGER
from ...core.typing import ArrayLike, DeviceLike, DTypeLike
from ..creation import full
from ..elementwise import (
    arcsin,
    clip,
    exp,
    expm1,
    floor,
    hypot,
    isnan,
    log,
    log1p,
    logical_not,
    maximum,
    minimum,
    sin,
    sqrt,
)
from ..masks import flatnonzero
from ..search import searchsorted
from ..shape import astype, broadcast_to, reshape
from ..where import where
from .bit_stream import Parameters, Size, wanted_dtype, whole_draw
from .permutations import Orders


class Derived(Orders):
    """The part of `Generator` whose numbers are made of those of other distributions."""

    __slots__ = ()

    @fast_path("dfnum?", "dfden?", source="self")
    def f(
        self,
        dfnum: ArrayLike,
        dfden: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw F samples: (x / dfnum) / (y / dfden) of chi-square samples x and y.

        Parameters
        ----------
        dfnum : array_like
            Degrees of freedom of the numerator, > 0.
        dfden : array_like
            Degrees of freedom of the denominator, > 0.
        size : int or tuple of int, optional
            Shape; by default what the parameters broadcast to, a 0-d array for floats.
        dtype : dtype_like, optional
            Dtype float16, bfloat16, float32 or float64; by default that of array parameters, else
            the default dtype.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Negative parameters; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        The function is not differentiable.

        Examples
        --------
        >>> import cudamath as cm
        >>> bool((cm.random.default_rng(7).f(3, 8, 5) > 0).all())
        True
        """
        return self._ratio("random.f", dfnum, dfden, None, size, dtype, device)

    @fast_path("dfnum?", "dfden?", "nonc?", source="self")
    def noncentral_f(
        self,
        dfnum: ArrayLike,
        dfden: ArrayLike,
        nonc: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw noncentral F samples.

        (x / dfnum) / (y / dfden) of a noncentral chi-square sample x and a central one y.

        Parameters
        ----------
        dfnum : array_like
            Degrees of freedom of the numerator, > 0.
        dfden : array_like
            Degrees of freedom of the denominator, > 0.
        nonc : array_like
            Noncentrality of the numerator, >= 0.
        size : int or tuple of int, optional
            Shape; by default what the parameters broadcast to, a 0-d array for floats.
        dtype : dtype_like, optional
            Dtype float16, bfloat16, float32 or float64; by default that of array parameters, else
            the default dtype.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Negative parameters; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        The function is not differentiable.

        Examples
        --------
        >>> import cudamath as cm
        >>> bool((cm.random.default_rng(7).noncentral_f(3, 8, 2.0, 5) > 0).all())
        True
        """
        return self._ratio("random.noncentral_f", dfnum, dfden, nonc, size, dtype, device)

    def _ratio(
        self, name: str, dfnum: Any, dfden: Any, nonc: Any, size: Size, dtype: Any, device: Any
    ) -> ndarray:
        ranges = {"dfnum": "positive", "dfden": "positive", "nonc": "not negative"}
        p = Parameters(
            name,
            size,
            dtype,
            device,
            ranges,
            dfnum,
            dfden,
            0.0 if nonc is None else nonc,
            composed=True,
        )
        a, b, shift = p.constants()
        like: dict[str, Any] = {"size": p.shape, "dtype": p.dtype, "device": device_of(p.place)}
        above = (
            self.chisquare(a, **like)
            if nonc is None
            else self.noncentral_chisquare(a, shift, **like)
        )
        return p.rounded(above / a / (self.chisquare(b, **like) / b))

    @fast_path("df?", "nonc?", source="self")
    def noncentral_chisquare(
        self,
        df: ArrayLike,
        nonc: Any,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw noncentral chi-square samples.

        They are chi-square samples of df + 2 k degrees of freedom, where k is Poisson of mean nonc
        / 2.

        Parameters
        ----------
        df : array_like
            Degrees of freedom, > 0.
        nonc : array_like
            Noncentrality, the sum of the squared means, >= 0.
        size : int or tuple of int, optional
            Shape; by default what the parameters broadcast to, a 0-d array for floats.
        dtype : dtype_like, optional
            Dtype float16, bfloat16, float32 or float64; by default that of array parameters, else
            the default dtype.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Negative parameters; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        The function is not differentiable.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).noncentral_chisquare(3, 2.0, 10_000)
        >>> bool(abs(x.mean() - 5) < 0.2)
        True
        """
        p = Parameters(
            "random.noncentral_chisquare",
            size,
            dtype,
            device,
            {"df": "positive", "nonc": "not negative"},
            df,
            nonc,
            composed=True,
        )
        df, nonc = p.values
        place = device_of(p.place)
        more = self.poisson(nonc / 2, size=p.shape, device=place)
        return p.rounded(
            self.chisquare(
                astype(more, p.dtype) * 2 + df, size=p.shape, dtype=p.dtype, device=place
            )
        )

    @fast_path("a?", source="self")
    def power(
        self,
        a: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw numbers in [0, 1] of density a x^(a - 1): u^(1 / a) of uniform samples u.

        Parameters
        ----------
        a : array_like
            Exponent, > 0.
        size : int or tuple of int, optional
            Shape; by default what the parameters broadcast to, a 0-d array for floats.
        dtype : dtype_like, optional
            Dtype float16, bfloat16, float32 or float64; by default that of array parameters, else
            the default dtype.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Negative parameters; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        The function is differentiable with respect to an array `a`.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).power(3, 10_000)
        >>> bool(abs(x.mean() - 0.75) < 0.02)
        True
        """
        p = Parameters("random.power", size, dtype, device, {"a": "positive"}, a, composed=True)
        return p.rounded(
            exp(-self.standard_exponential(p.shape, p.dtype, device_of(p.place)) / p.values[0])
        )

    @fast_path("mean?", "scale?", source="self")
    def wald(
        self,
        mean: ArrayLike,
        scale: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw Wald (inverse Gaussian) samples.

        They are the times at which a Brownian motion with drift first reaches a height. Density:
        sqrt(scale / (2 pi x^3)) exp(-scale (x - mean)^2 / (2 mean^2 x)).

        Parameters
        ----------
        mean : array_like
            Mean, > 0.
        scale : float or array
            Scale, > 0.
        size : int or tuple of int, optional
            Shape; by default what the parameters broadcast to, a 0-d array for floats.
        dtype : dtype_like, optional
            Dtype float16, bfloat16, float32 or float64; by default that of array parameters, else
            the default dtype.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Negative parameters; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        The function is not differentiable.

        References
        ----------
        .. [1] Michael, Schucany, Haas (1976), Generating random variates using transformations with
           multiple roots; the smaller root without cancellation.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).wald(2.0, 5.0, 10_000)
        >>> bool(abs(x.mean() - 2) < 0.1)
        True
        """
        ranges = {"mean": "positive", "scale": "positive"}
        p = Parameters("random.wald", size, dtype, device, ranges, mean, scale, composed=True)
        mu, scale = p.constants()
        place = device_of(p.place)
        z = self.standard_normal(p.shape, p.dtype, place)
        half = z * z * (mu / scale / 2)
        small = mu / (1 + half + sqrt(half * (half + 2)))  # the roots are mu / g and mu g
        return p.rounded(
            where(
                self.random(p.shape, p.dtype, place) * (mu + small) <= mu, small, mu * (mu / small)
            )
        )

    @fast_path("n?", "p?", source="self")
    def negative_binomial(
        self,
        n: ArrayLike,
        p: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw the number of failures before the n-th success.

        K has the probability Gamma(k + n) / (k! Gamma(n)) p^n (1 - p)^k. The samples are Poisson
        samples whose means are gamma samples.

        Parameters
        ----------
        n : array_like
            Number of successes, > 0. It need not be whole.
        p : array_like
            Probability of a success, in (0, 1].
        size : int or tuple of int, optional
            Shape; by default what the parameters broadcast to, a 0-d array for floats.
        dtype : dtype_like, optional
            Any integer dtype; int64 by default. Numbers that it cannot hold wrap.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Lam negative or above 9e18; sizes as for `uniform`. Arrays on a GPU are not looked at.
        TypeError
            Lam that is not a number; a dtype that is not integer.

        Notes
        -----
        The function is not differentiable.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).negative_binomial(3, 0.5, 10_000)
        >>> bool(abs(x.mean() - 3) < 0.15)
        True
        """
        given = Parameters(
            "random.negative_binomial",
            size,
            np.float64,
            device,
            {"n": "positive", "p": "chance"},
            n,
            p,
        )
        count, chance = given.values
        place = device_of(given.place)
        dtype = wanted_dtype("random.negative_binomial", dtype, INTEGER, np.dtype(np.int64))
        means = self.standard_gamma(count, given.shape, np.float64, place) * ((1 - chance) / chance)
        return self.poisson(means, given.shape, dtype, place)

    @fast_path("p?", source="self")
    def logseries(
        self,
        p: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw numbers k = 1, 2, ... with probability -p^k / (k log(1 - p)).

        Parameters
        ----------
        p : array_like
            Parameter in (0, 1).
        size : int or tuple of int, optional
            Shape; by default what the parameters broadcast to, a 0-d array for floats.
        dtype : dtype_like, optional
            Any integer dtype; int64 by default. Numbers that it cannot hold wrap.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Lam negative or above 9e18; sizes as for `uniform`. Arrays on a GPU are not looked at.
        TypeError
            Lam that is not a number; a dtype that is not integer.

        Notes
        -----
        The function is not differentiable.

        References
        ----------
        .. [1] Kemp (1981), Efficient generation of logarithmically distributed pseudo-random
           variables.

        Examples
        --------
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

    @whole_draw
    def zipf(
        self,
        a: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw Zipf samples k = 1, 2, ..., up to 2^63, with probability k^-a / zeta(a).

        Each is found by inversion: k is the last number whose tail sum_{j >= k} j^-a reaches a
        uniform number. It is looked up in a table, and beyond the table computed by the expansion
        of the tail, which has float64's accuracy there.

        Parameters
        ----------
        a : array_like
            Exponent, > 1, a number or an array of few different ones. The call waits for an array
            on a GPU.
        size : int or tuple of int, optional
            Shape; by default what the parameters broadcast to, a 0-d array for floats.
        dtype : dtype_like, optional
            Any integer dtype; int64 by default. Numbers that it cannot hold wrap.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Lam negative or above 9e18; sizes as for `uniform`. Arrays on a GPU are not looked at.
        TypeError
            Lam that is not a number; a dtype that is not integer.

        Notes
        -----
        The function is not differentiable.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).zipf(4.0, 10_000)
        >>> bool(abs((x == 1).mean() - 0.924) < 0.01)
        True
        """
        name = "random.zipf"
        given = Parameters(name, size, np.float64, device, {"a": "positive"}, a)
        kind = wanted_dtype(name, dtype, INTEGER, np.dtype(np.int64))
        if given.known["a"] is not None and np.any(np.less_equal(given.known["a"], 1)):
            raise ValueError(f"{name}: wants a > 1")
        return astype(self._by_parameters(given, _zipf), kind)

    @whole_draw
    def hypergeometric(
        self,
        ngood: ArrayLike,
        nbad: ArrayLike,
        nsample: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw hypergeometric samples.

        They are the numbers of good items among nsample drawn without replacement from ngood good
        and nbad bad ones. Each is found by inversion, in a table of the sums of probabilities.

        Parameters
        ----------
        ngood : array_like
            Number of good items, >= 0, a number or an array of few different ones. The call waits
            for arrays on a GPU.
        nbad : array_like
            Number of bad items, as `ngood`.
        nsample : array_like
            Number of items drawn, at most ngood + nbad.
        size : int or tuple of int, optional
            Shape; by default what the parameters broadcast to, a 0-d array for floats.
        dtype : dtype_like, optional
            Any integer dtype; int64 by default. Numbers that it cannot hold wrap.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Lam negative or above 9e18; sizes as for `uniform`. Arrays on a GPU are not looked at.
        TypeError
            Lam that is not a number; a dtype that is not integer.

        Notes
        -----
        The function is not differentiable.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).hypergeometric(15, 5, 10, 10_000)
        >>> bool(abs(x.mean() - 7.5) < 0.05)
        True
        """
        name = "random.hypergeometric"
        ranges = {"ngood": "a count", "nbad": "a count", "nsample": "a count"}
        given = Parameters(name, size, np.float64, device, ranges, ngood, nbad, nsample)
        good, bad, taken = given.known.values()
        if (
            good is not None
            and bad is not None
            and taken is not None
            and np.any(np.add(good, bad) < taken)
        ):
            raise ValueError(
                f"{name}: wants nsample <= ngood + nbad, got {taken}, {good} and {bad}"
            )
        kind = wanted_dtype(name, dtype, INTEGER, np.dtype(np.int64))
        return astype(self._by_parameters(given, _hypergeometric), kind)

    def _by_parameters(self, given: Parameters, draw: Callable[..., ndarray]) -> ndarray:
        """draw(u, numbers) of uniform float64 numbers u for each combination of the parameters'
        values."""
        u = self.random(given.shape, np.float64, device_of(given.place))
        if not given.arrays:
            return draw(u, *given.values)
        values = [
            np.broadcast_to(x.to_numpy() if isinstance(x, ndarray) else x, given.shape).ravel()
            for x in given.values
        ]
        found, which = np.unique(np.stack(values, axis=1), axis=0, return_inverse=True)
        place = asarray(which.reshape(given.shape), device=u.device)
        y = u
        for i, numbers in enumerate(found.tolist()):
            y = where(place == i, draw(u, *numbers), y)
        return y

    @whole_draw
    def vonmises(
        self,
        mu: ArrayLike,
        kappa: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw von Mises samples: angles from -pi to pi.

        Density: exp(kappa cos(x - mu)) / (2 pi I0(kappa)).

        Parameters
        ----------
        mu : array_like
            Mean direction.
        kappa : array_like
            Concentration, >= 0.
        size : int or tuple of int, optional
            Shape; by default what the parameters broadcast to, a 0-d array for floats.
        dtype : dtype_like, optional
            Dtype float16, bfloat16, float32 or float64; by default that of array parameters, else
            the default dtype.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Negative parameters; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        The function is differentiable with respect to an array `mu` (not to `kappa`). The call
        waits for the device: rejected samples are drawn again until none is rejected.

        References
        ----------
        .. [1] Best and Fisher (1979), Efficient simulation of the von Mises distribution, written
           without cancellation for large and small kappa.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).vonmises(1.0, 4.0, 10_000)
        >>> bool(abs(x.mean() - 1) < 0.03)
        True
        """
        p = Parameters(
            "random.vonmises",
            size,
            dtype,
            device,
            {"mu": "any", "kappa": "not negative"},
            mu,
            kappa,
            composed=True,
        )
        place = device_of(p.place)
        centre, k = (
            reshape(broadcast_to(x, p.shape), (-1,))
            if isinstance(x, ndarray)
            else full((math.prod(p.shape),), x, dtype=p.dtype, device=place)
            for x in (p.values[0], p.constants()[1])
        )
        k = clip(k, 1e-30, float(np.finfo(p.dtype).max) / 16)  # no sum below overflows
        root = hypot(1, 2 * k)
        total = 1 + root + sqrt(2 * (1 + root))
        rho = 2 * k / total
        apart = (1 + 1 / (root + 2 * k) + sqrt(2 * (1 + root))) / total  # 1 - rho
        reach = apart * apart / (2 * rho)  # r - 1, where r = (1 + rho^2) / (2 rho)

        def tries(reach: ndarray, k: ndarray) -> tuple[ndarray, ndarray]:
            u, v, side = (self.random(k.shape, p.dtype, place) for _ in range(3))
            z = sin(u * (math.pi / 2)) ** 2 * 2  # 1 - cos(pi u)
            h = reach * z / (reach + 2 - z)  # 1 - cos of the angle
            y, v = k * (reach + h), 1 - v
            good = (y * (2 - y) >= v) | (log(y / v) + 1 - y >= 0) | isnan(k)  # of NaN come NaN
            angle = 2 * arcsin(sqrt(minimum(h / 2, 1)))
            return where(side < 0.5, -angle, angle), good

        x, good = tries(reach, k)
        bad = flatnonzero(logical_not(good))
        while bad.size:
            x[bad], good = tries(reach[bad], k[bad])
            bad = bad[logical_not(good)]
        x = x + centre
        x = x - floor((x + math.pi) / (2 * math.pi)) * (2 * math.pi)
        return p.rounded(reshape(x, p.shape))


_ZIPF_TABLE = 4096


@functools.lru_cache(maxsize=16)
def _zipf_tails(a: float) -> np.ndarray:
    """sum_{j >= k} j^-a for k = 1, ..., _ZIPF_TABLE: from the Euler-Maclaurin expansion of what
    lies beyond."""
    n = float(_ZIPF_TABLE + 1)
    beyond = (
        n ** (1 - a) / (a - 1)
        + n**-a / 2
        + a * n ** (-a - 1) / 12
        - a * (a + 1) * (a + 2) * n ** (-a - 3) / 720
    )
    terms = np.arange(_ZIPF_TABLE, 0, -1, dtype=np.float64) ** -a
    return np.cumsum(np.append(beyond, terms))[:0:-1]


def _zipf(u: ndarray, a: float) -> ndarray:
    tails = _zipf_tails(a)
    least = 2.0 ** (63 * (1 - a)) / (a - 1)
    v = least + (1 - u) * (float(tails[0]) - least)
    k = maximum(searchsorted(asarray(-tails, device=u.device), -v, side="right"), 1)
    y = exp(
        log(v * (a - 1)) / (1 - a)
    )  # where the integral from y on is v; the sum is smaller by a / 24 y^(-a - 1)
    far = minimum(floor(y - a / 24 / y + 0.5), 2.0**63 - 1024)
    return where(k < _ZIPF_TABLE, astype(k, np.float64), far)


@functools.lru_cache(maxsize=16)
def _hypergeometric_sums(good: float, bad: float, taken: float) -> tuple[float, np.ndarray]:
    """(the least number, the sums of the probabilities of the numbers from there on, without the
    last, which is 1). Numbers whose probability is below float64's grain are left out."""
    least, most = max(0.0, taken - bad), min(taken, good)
    likely = min(max(math.floor((taken + 1) * (good + 1) / (good + bad + 2)), least), most)
    whole = good + bad
    spread = (
        math.sqrt(taken * good / whole * bad / whole * (whole - taken) / max(whole - 1, 1))
        if whole
        else 0.0
    )
    reach = math.ceil(40 * spread) + 40
    up = np.arange(likely, min(most, likely + reach))  # k -> k + 1
    down = np.arange(likely, max(least, likely - reach), -1)  # k -> k - 1
    above = np.cumprod((good - up) * (taken - up) / ((up + 1) * (bad - taken + up + 1)))
    below = np.cumprod(down * (bad - taken + down) / ((good - down + 1) * (taken - down + 1)))
    sums = np.cumsum(np.concatenate([below[::-1], [1.0], above]))
    return likely - below.size, sums[:-1] / sums[-1]


def _hypergeometric(u: ndarray, good: float, bad: float, taken: float) -> ndarray:
    least, sums = _hypergeometric_sums(good, bad, taken)
    return astype(searchsorted(asarray(sums, device=u.device), u, side="right"), np.float64) + least
