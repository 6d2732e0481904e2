"""`cudamath.polynomial`: the polynomial classes of `numpy.polynomial`, the lowest power first, on
arrays of any device.

A series is NumPy's own: its coefficients, few as they are, lie on the host as float64, and so
arithmetic, derivatives, integrals, conversions and printing are NumPy's. What meets arrays is here:
a series of an array is computed where the array is, by the recurrence of its basis, and roots and
sampled points come back as arrays.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy import polynomial as bases
from numpy.polynomial import polyutils

from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.typing import ArrayLike

__all__ = ["Chebyshev", "Hermite", "HermiteE", "Laguerre", "Legendre", "Polynomial"]

Series = TypeVar("Series", bound="_Series")


def _host(x: Any) -> Any:
    """Points and weights of a fit as NumPy sees them."""
    return x.to_numpy() if isinstance(x, ndarray) else x


class _Series:
    """What differs from NumPy's series: arrays in, arrays out."""

    coef: np.ndarray
    domain: np.ndarray
    window: np.ndarray

    def __init__(self, coef: Any, domain: Any = None, window: Any = None, symbol: str = "x"):
        super().__init__(_host(coef), _host(domain), _host(window), symbol)  # type: ignore[call-arg]

    def __call__(self, arg: Any) -> Any:
        """The series at `arg`: an array or a list gives an array, a number a number, a series a
        series. Gradient: by parts."""
        if not isinstance(arg, (int, float, complex, np.generic, _Series)):
            arg = asarray(arg)
        shift, scale = polyutils.mapparms(self.domain, self.window)
        if (shift, scale) != (0, 1):
            arg = shift + scale * arg
        return self._val(arg, self.coef)  # type: ignore[attr-defined]

    @classmethod
    def fit(
        cls: type[Series],
        x: ArrayLike,
        y: ArrayLike,
        deg: Any,
        domain: Any = None,
        rcond: float | None = None,
        full: bool = False,
        w: ArrayLike | None = None,
        window: Any = None,
        symbol: str = "x",
    ) -> Any:
        """Fit a series of a degree to points by least squares, on the host.

        `cm.polyfit` stays on the device.

        Parameters
        ----------
        x : array_like
            Real coordinates of the points.
        y : array_like
            Values at the points.
        deg : object
            Degree, or the degrees of the terms.
        domain : object, optional
            Interval that is mapped to `window`, as in NumPy.
        rcond : float, optional
            Singular values up to `rcond` times the largest one count as 0.
        full : bool, default False
            Whether the quality of the fit is returned as well.
        w : array_like, optional
            Weights of the residuals.
        window : object, optional
            Interval to which `domain` is mapped, as in NumPy.
        symbol : str, default "x"
            Name of the variable in printed polynomials.

        Returns
        -------
        series or tuple
            The series, or with `full` the pair (series, quality).
        """
        return super().fit(  # type: ignore[misc]
            _host(x),
            _host(y),
            deg,
            _host(domain),
            rcond,
            full,
            _host(w),
            _host(window),
            symbol,
        )

    @classmethod
    def fromroots(cls: type[Series], roots: ArrayLike, *args: Any, **kwargs: Any) -> Series:
        """The series with these roots.

        Parameters
        ----------
        roots : array_like
            Roots of the series.
        *args : object
            Positional arguments of NumPy's `fromroots`.
        **kwargs : object
            Keyword arguments of NumPy's `fromroots`.

        Returns
        -------
        series
            The series.
        """
        return super().fromroots(_host(roots), *args, **kwargs)  # type: ignore[misc]

    def roots(self) -> ndarray:
        """Where the series is 0, as an array on the default device.

        Returns
        -------
        ndarray
            The result.
        """
        return asarray(super().roots())  # type: ignore[misc]

    def linspace(self, n: int = 100, domain: Any = None) -> tuple[ndarray, ndarray]:
        """(x, y): n points evenly spaced over the domain, and the series there.

        Parameters
        ----------
        n : int, default 100
            Number of points.
        domain : object, optional
            Interval that is mapped to `window`, as in NumPy.

        Returns
        -------
        tuple of ndarray
            The arrays.
        """
        low, high = self.domain if domain is None else _host(domain)
        x = asarray(np.linspace(low, high, n))
        return x, self(x)


class Polynomial(_Series, bases.Polynomial):  # type: ignore[misc]
    """Powers of x: coef[0] + coef[1] x + coef[2] x^2 + ...; see `numpy.polynomial.Polynomial`.

    Parameters
    ----------
    coef : object
        Coefficients, the lowest order first.
    domain : object, optional
        Interval that is mapped to `window`, as in NumPy.
    window : object, optional
        Interval to which `domain` is mapped, as in NumPy.
    symbol : str, default "x"
        Name of the variable in printed polynomials.

    Examples
    --------
    >>> import cudamath as cm
    >>> p = cm.polynomial.Polynomial([1, 0, 2])
    >>> p(cm.array([0.0, 1.0, 3.0])).tolist(), p.deriv().coef.tolist()
    ([1.0, 3.0, 19.0], [0.0, 4.0])
    """


class Chebyshev(_Series, bases.Chebyshev):  # type: ignore[misc]
    """Chebyshev's polynomials of the first kind; see `numpy.polynomial.Chebyshev`.

    Parameters
    ----------
    coef : object
        Coefficients, the lowest order first.
    domain : object, optional
        Interval that is mapped to `window`, as in NumPy.
    window : object, optional
        Interval to which `domain` is mapped, as in NumPy.
    symbol : str, default "x"
        Name of the variable in printed polynomials.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.polynomial.Chebyshev([0, 0, 1])(cm.array([0.5, 1.0])).tolist()
    [-0.5, 1.0]
    """


class Legendre(_Series, bases.Legendre):  # type: ignore[misc]
    """Legendre's polynomials; see `numpy.polynomial.Legendre`.

    Parameters
    ----------
    coef : object
        Coefficients, the lowest order first.
    domain : object, optional
        Interval that is mapped to `window`, as in NumPy.
    window : object, optional
        Interval to which `domain` is mapped, as in NumPy.
    symbol : str, default "x"
        Name of the variable in printed polynomials.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.polynomial.Legendre([0, 0, 1])(cm.array([0.0, 1.0])).tolist()
    [-0.5, 1.0]
    """


class Hermite(_Series, bases.Hermite):  # type: ignore[misc]
    """The physicists' Hermite polynomials; see `numpy.polynomial.Hermite`.

    Parameters
    ----------
    coef : object
        Coefficients, the lowest order first.
    domain : object, optional
        Interval that is mapped to `window`, as in NumPy.
    window : object, optional
        Interval to which `domain` is mapped, as in NumPy.
    symbol : str, default "x"
        Name of the variable in printed polynomials.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.polynomial.Hermite([0, 0, 1])(cm.array([0.0, 1.0])).tolist()
    [-2.0, 2.0]
    """


class HermiteE(_Series, bases.HermiteE):  # type: ignore[misc]
    """The probabilists' Hermite polynomials; see `numpy.polynomial.HermiteE`.

    Parameters
    ----------
    coef : object
        Coefficients, the lowest order first.
    domain : object, optional
        Interval that is mapped to `window`, as in NumPy.
    window : object, optional
        Interval to which `domain` is mapped, as in NumPy.
    symbol : str, default "x"
        Name of the variable in printed polynomials.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.polynomial.HermiteE([0, 0, 1])(cm.array([0.0, 2.0])).tolist()
    [-1.0, 3.0]
    """


class Laguerre(_Series, bases.Laguerre):  # type: ignore[misc]
    """Laguerre's polynomials; see `numpy.polynomial.Laguerre`.

    Parameters
    ----------
    coef : object
        Coefficients, the lowest order first.
    domain : object, optional
        Interval that is mapped to `window`, as in NumPy.
    window : object, optional
        Interval to which `domain` is mapped, as in NumPy.
    symbol : str, default "x"
        Name of the variable in printed polynomials.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.polynomial.Laguerre([0, 1])(cm.array([0.0, 3.0])).tolist()
    [1.0, -2.0]
    """
