"""Continuous distributions of `cudamath.random.Generator`: kernels for numbers as parameters,
compositions for arrays.

With floats as parameters one kernel draws and scales. With arrays the standard distribution is
drawn and scaled by ordinary operations, in which gradients flow to the parameters. Both draw the
same words, so the results are those of the floats, to rounding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ...core import dtypes
from ...core.array import ndarray
from ...core.dispatch.fast_path import fast_path
from ...core.dispatch.op import Op
from ...core.typing import ArrayLike, DeviceLike, DTypeLike
from ..elementwise import exp, expm1, log, sqrt
from ..out_argument import deliver, target_of
from ..where import where
from .ahead import drawn_ahead
from .bit_stream import Parameters, Size, Source, drawn, shape_of

_uniform = Op("random.uniform", cpu="random.uniform", cuda="random.distributions.uniform")
_normal = Op("random.normal", cpu="random.normal", cuda="random.distributions.normal")
_tail = Op("random.tail", cpu="random.tail", cuda="random.distributions.tail")
_gamma = Op("random.gamma", cpu="rejection_samplers.gamma", cuda="random.rejection_samplers.gamma")
_beta = Op("random.beta", cpu="rejection_samplers.beta", cuda="random.rejection_samplers.beta")


def _filled(name: str, draw: Callable[..., ndarray], size: Size, dtype: Any, out: Any) -> ndarray:
    """An array filled with the numbers of draw(size, dtype, device)."""
    target = target_of(name, out)
    fits = (size is None or shape_of(name, size) == target.shape) and (
        dtype is None or dtypes.as_dtype(dtype, name) == target.dtype
    )
    if not fits:
        raise ValueError(
            f"{name}: size {size} and dtype {dtype} do not match out of shape {target.shape} and "
            "dtype "
            f"{target.dtype}"
        )
    return deliver(name, draw(target.shape, target.dtype, target.device), target)


class Continuous(Source):
    """The continuous half of `Generator`."""

    __slots__ = ()

    def _fill(self, op: Op, p: Parameters, parameters: tuple, **more: Any) -> ndarray:
        """One draw with floats as parameters."""
        blocks = -(-math.prod(p.shape) // (2 if p.dtype == dtypes.float64 else 4))
        return drawn(
            op,
            self.take(p.name, blocks, p.place),
            parameters,
            shape=p.shape,
            dtype=p.dtype,
            device=p.place,
            **more,
        )

    def _located(
        self, op: Op, kind: str, loc: Any, scale: Any, size: Size, dtype: Any, device: Any
    ) -> ndarray:
        """loc + scale * (a standard draw of the kind)."""
        p = Parameters(
            f"random.{kind}",
            size,
            dtype,
            device,
            {"loc": "any", "scale": "not negative"},
            loc,
            scale,
        )
        more: dict[str, Any] = {"kind": kind} if op is _tail else {}
        if not p.arrays:
            return self._fill(op, p, (*p.values, 0.0), **more)
        return _scaled(self._fill(op, p, (0.0, 1.0, 0.0), **more), *p.values)

    # -------------------- uniform, normal

    @drawn_ahead(0)
    @fast_path(source="self")
    def random(
        self,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
        *,
        out: ndarray | None = None,
    ) -> ndarray:
        """Draw uniform samples in [0, 1): `uniform(0, 1, size, dtype)`.

        Parameters
        ----------
        size : int or tuple of int, optional
            Shape of the result. The default is a single number, an array without dimensions.
        dtype : dtype_like, optional
            Dtype float16, bfloat16, float32 or float64; by default that of array parameters, else
            the default dtype.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.
        out : ndarray, optional
            Array that receives the result.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Low > high, bounds that are not finite, negative sizes, parameters that do not broadcast
            to `size`. Arrays on a GPU are not looked at.
        TypeError
            Bounds that are not numbers; a dtype that is not floating-point.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.default_rng(7).random(2, dtype="float32").dtype
        dtype('float32')
        """
        if out is not None:
            return _filled("random.random", self.random, size, dtype, out)
        return self.uniform(0.0, 1.0, size, dtype, device)

    @drawn_ahead(2)
    @fast_path("low?", "high?", source="self")
    def uniform(
        self,
        low: Any = 0.0,
        high: Any = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Uniform samples: `low + (high - low) * u`, u uniform in [0, 1).

        u has as many random bits as the dtype holds exactly: float64 53, float32 24, float16 11,
        bfloat16 8.

        Parameters
        ----------
        low : float or array, default 0.0
            Bounds, low <= high. As in NumPy, rounding may return `high` itself when low is not 0.
        high : float or array, default 1.0
            Bounds, low <= high. As in NumPy, rounding may return `high` itself when low is not 0.
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
            Low > high, bounds that are not finite, negative sizes, parameters that do not broadcast
            to `size`. Arrays on a GPU are not looked at.
        TypeError
            Bounds that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        Gradient: with respect to array bounds.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.default_rng(7).uniform(-1, 1, (2, 3)).shape
        (2, 3)
        >>> cm.random.default_rng(7).uniform([0.0, 10.0], [1.0, 20.0]).shape
        (2,)
        """
        name = "random.uniform"
        p = Parameters(name, size, dtype, device, {"low": "any", "high": "any"}, low, high)
        low, high = p.values
        p.ordered("low", "high")
        if not p.arrays:
            if not math.isfinite(high - low):
                raise ValueError(f"{name}: wants a finite high - low, got {low} and {high}")
            return self._fill(_uniform, p, (low, high - low, 0.0))
        return low + (high - low) * self._fill(_uniform, p, (0.0, 1.0, 0.0))

    @drawn_ahead(2)
    @fast_path("loc?", "scale?", source="self")
    def normal(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Normal (Gaussian) samples with mean `loc` and standard deviation `scale`, by Box-Muller.

        z = sqrt(-2 ln u) cos(2 pi t) and the same with sin, for two random words u and t. float32
        and the 16-bit types are computed in float32 (|z| <= 6.77), float64 in float64 (|z| <=
        8.57). The logarithm, sine and cosine are fixed sequences of IEEE operations, so the results
        are equal on all devices.

        Parameters
        ----------
        loc : float or array, default 0.0
            Mean and standard deviation, scale >= 0.
        scale : float or array, default 1.0
            Mean and standard deviation, scale >= 0.
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
            A negative scale; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        Gradient: with respect to array parameters (loc + scale z).

        Examples
        --------
        >>> import cudamath as cm
        >>> z = cm.random.default_rng(7).normal(size=10_000)
        >>> bool(abs(z.mean()) < 0.05 and abs(z.std() - 1) < 0.05)
        True
        """
        return self._located(_normal, "normal", loc, scale, size, dtype, device)

    @drawn_ahead(0)
    @fast_path(source="self")
    def standard_normal(
        self,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
        *,
        out: ndarray | None = None,
    ) -> ndarray:
        """Draw normal samples of mean 0 and standard deviation 1: `normal(0, 1, size, dtype)`.

        Parameters
        ----------
        size : int or tuple of int, optional
            Shape of the result. The default is a single number, an array without dimensions.
        dtype : dtype_like, optional
            Dtype float16, bfloat16, float32 or float64; by default that of array parameters, else
            the default dtype.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.
        out : ndarray, optional
            Array that receives the result.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Low > high, bounds that are not finite, negative sizes, parameters that do not broadcast
            to `size`. Arrays on a GPU are not looked at.
        TypeError
            Bounds that are not numbers; a dtype that is not floating-point.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.default_rng(7).standard_normal((2, 2)).shape
        (2, 2)
        """
        if out is not None:
            return _filled("random.standard_normal", self.standard_normal, size, dtype, out)
        return self._located(_normal, "normal", 0.0, 1.0, size, dtype, device)

    @drawn_ahead(2)
    @fast_path("mean?", "sigma?", source="self")
    def lognormal(
        self,
        mean: ArrayLike = 0.0,
        sigma: ArrayLike = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw the exponentials of normal samples.

        Parameters
        ----------
        mean : array_like, default 0.0
            Mean of the normal samples.
        sigma : array_like, default 1.0
            Standard deviation of the normal samples, >= 0.
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
            A negative scale; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        The function is differentiable with respect to array parameters.

        Examples
        --------
        >>> import cudamath as cm
        >>> bool((cm.random.default_rng(7).lognormal(size=5) > 0).all())
        True
        """
        name = "random.lognormal"
        p = Parameters(
            name,
            size,
            dtype,
            device,
            {"mean": "any", "sigma": "not negative"},
            mean,
            sigma,
            composed=True,
        )
        if p.arrays:
            return p.rounded(exp(_scaled(self._fill(_normal, p, (0.0, 1.0, 0.0)), *p.values)))
        p.dtype = p.result  # which one kernel gives at once
        return self._fill(_tail, p, (*p.values, 0.0), kind="lognormal")

    # -------------------- functions of one word

    @drawn_ahead(1)
    @fast_path("scale?", source="self")
    def exponential(
        self,
        scale: ArrayLike = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Exponential samples with mean `scale`: -scale ln u.

        Density exp(-x / scale) / scale, x >= 0.

        Both tails are resolved: the smallest numbers are scale times 1.2e-10 (float64: 5.6e-17),
        the largest 22.9 (37.4). The same bits on all devices.

        Parameters
        ----------
        scale : float or array, default 1.0
            Not negative.
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
            A negative scale; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        Gradient: with respect to an array `scale`.

        Examples
        --------
        >>> import cudamath as cm
        >>> bool(abs(cm.random.default_rng(7).exponential(2.0, 10_000).mean() - 2) < 0.1)
        True
        """
        return self._located(_tail, "exponential", 0.0, scale, size, dtype, device)

    @drawn_ahead(0)
    @fast_path(source="self")
    def standard_exponential(
        self,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
        *,
        method: str = "inv",
        out: ndarray | None = None,
    ) -> ndarray:
        """Draw exponential samples of mean 1: `exponential(1, size, dtype)`.

        Parameters
        ----------
        size : int or tuple of int, optional
            Shape of the result. The default is a single number, an array without dimensions.
        dtype : dtype_like, optional
            Dtype float16, bfloat16, float32 or float64; by default that of array parameters, else
            the default dtype.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.
        method : str, default "inv"
            "inv", by the logarithm of uniform samples. "zig", NumPy's other one, gives the same.
        out : ndarray, optional
            Array that receives the result.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            The method is unknown.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.default_rng(7).standard_exponential((2, 2)).shape
        (2, 2)
        """
        if method not in ("inv", "zig"):
            raise ValueError(
                f"random.standard_exponential: method is 'inv' or 'zig', got {method!r}"
            )
        if out is not None:
            return _filled(
                "random.standard_exponential", self.standard_exponential, size, dtype, out
            )
        return self.exponential(1.0, size, dtype, device)

    @fast_path("loc?", "scale?", source="self")
    def laplace(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw Laplace (double exponential) samples.

        Density: exp(-|x - loc| / scale) / (2 scale).

        Parameters
        ----------
        loc : float or array, default 0.0
            Mean.
        scale : float or array, default 1.0
            Scale, >= 0.
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
            A negative scale; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        The function is differentiable with respect to array parameters. All devices give the same
        bits.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.default_rng(7).laplace(0, 1, 3).shape
        (3,)
        """
        return self._located(_tail, "laplace", loc, scale, size, dtype, device)

    @fast_path("loc?", "scale?", source="self")
    def logistic(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw logistic samples: loc + scale ln(u / (1 - u)).

        Parameters
        ----------
        loc : float or array, default 0.0
            Mean.
        scale : float or array, default 1.0
            Scale, >= 0.
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
            A negative scale; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        The function is differentiable with respect to array parameters. All devices give the same
        bits.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.default_rng(7).logistic(size=3).shape
        (3,)
        """
        return self._located(_tail, "logistic", loc, scale, size, dtype, device)

    @fast_path("loc?", "scale?", source="self")
    def gumbel(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw Gumbel (largest extreme value) samples: loc - scale ln(-ln u).

        The mean is loc + 0.5772 scale.

        Parameters
        ----------
        loc : float or array, default 0.0
            Mode.
        scale : float or array, default 1.0
            Scale, >= 0.
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
            A negative scale; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        The function is differentiable with respect to array parameters. All devices give the same
        bits.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.default_rng(7).gumbel(size=3).shape
        (3,)
        """
        return self._located(_tail, "gumbel", loc, scale, size, dtype, device)

    @fast_path("loc?", "scale?", source="self")
    def cauchy(
        self,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw Cauchy (Lorentz) samples: loc + scale tan(2 pi t).

        Parameters
        ----------
        loc : float or array, default 0.0
            Median.
        scale : float or array, default 1.0
            Half width at half maximum, >= 0.
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
            A negative scale; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        The function is differentiable with respect to array parameters. All devices give the same
        bits.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.default_rng(7).cauchy(size=3).shape
        (3,)
        """
        return self._located(_tail, "cauchy", loc, scale, size, dtype, device)

    @fast_path(source="self")
    def standard_cauchy(
        self, size: Size = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None
    ) -> ndarray:
        """Draw Cauchy samples about 0 of scale 1: `cauchy(0, 1, size, dtype)`.

        Parameters
        ----------
        size : int or tuple of int, optional
            Shape of the result. The default is a single number, an array without dimensions.
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
            Low > high, bounds that are not finite, negative sizes, parameters that do not broadcast
            to `size`. Arrays on a GPU are not looked at.
        TypeError
            Bounds that are not numbers; a dtype that is not floating-point.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.default_rng(7).standard_cauchy(3).shape
        (3,)
        """
        return self.cauchy(0.0, 1.0, size, dtype, device)

    @fast_path("scale?", source="self")
    def rayleigh(
        self,
        scale: ArrayLike = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw Rayleigh samples, lengths of normal vectors in the plane: scale sqrt(-2 ln u).

        Parameters
        ----------
        scale : float or array, default 1.0
            Scale, >= 0.
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
            A negative scale; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        The function is differentiable with respect to an array `scale`. All devices give the same
        bits.

        Examples
        --------
        >>> import cudamath as cm
        >>> bool((cm.random.default_rng(7).rayleigh(2.0, 5) > 0).all())
        True
        """
        return self._located(_tail, "rayleigh", 0.0, scale, size, dtype, device)

    @fast_path("a?", source="self")
    def weibull(
        self,
        a: Any,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Weibull samples with shape `a`: (-ln u)^(1/a).

        Multiply by a scale for the two-parameter form.

        Parameters
        ----------
        a : float or array
            > 0.
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
            A negative scale; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        Gradient: with respect to an array `a`. CPU and GPU agree to rounding.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.default_rng(7).weibull(2.0, 3).shape
        (3,)
        """
        p = Parameters("random.weibull", size, dtype, device, {"a": "positive"}, a, composed=True)
        (a,) = p.values
        if not p.arrays:
            return p.rounded(self._fill(_tail, p, (0.0, 1.0, 1 / a), kind="weibull"))
        return p.rounded(exp(log(self._fill(_tail, p, (0.0, 1.0, 0.0), kind="exponential")) / a))

    @fast_path("a?", source="self")
    def pareto(
        self,
        a: Any,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw Pareto II (Lomax) samples with shape `a`: u^(-1/a) - 1, as NumPy.

        Add 1 for the classical Pareto distribution.

        Parameters
        ----------
        a : float or array
            Shape parameter, > 0.
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
            A negative scale; parameters that are not finite; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        The function is differentiable with respect to an array `a`. CPU and GPU agree to rounding.

        Examples
        --------
        >>> import cudamath as cm
        >>> bool((cm.random.default_rng(7).pareto(3.0, 5) > 0).all())
        True
        """
        p = Parameters("random.pareto", size, dtype, device, {"a": "positive"}, a, composed=True)
        (a,) = p.values
        if not p.arrays:
            return p.rounded(self._fill(_tail, p, (0.0, 1.0, 1 / a), kind="pareto"))
        return p.rounded(expm1(self._fill(_tail, p, (0.0, 1.0, 0.0), kind="exponential") / a))

    @fast_path("left?", "mode?", "right?", source="self")
    def triangular(
        self,
        left: Any,
        mode: Any,
        right: Any,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Triangular samples: a density that rises from `left` to `mode` and falls to `right`.

        left + sqrt(u (right - left) (mode - left)) up to u = (mode - left) / (right - left), then
        right - sqrt((1 - u) (right - left) (right - mode)).

        Parameters
        ----------
        left, mode, right : float or array
            Left <= mode <= right, left < right.
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
            Parameters in another order; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not floating-point.

        Notes
        -----
        Gradient: with respect to array parameters.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).triangular(-1, 0, 2, 1000)
        >>> bool(x.min() >= -1 and x.max() <= 2)
        True
        """
        name = "random.triangular"
        p = Parameters(
            name,
            size,
            dtype,
            device,
            dict.fromkeys(("left", "mode", "right"), "any"),
            left,
            mode,
            right,
            composed=True,
        )
        left, mode, right = p.values
        p.ordered("left", "mode")
        p.ordered("mode", "right")
        p.ordered("left", "right", strictly=True)
        u = self._fill(_uniform, p, (0.0, 1.0, 0.0))
        width = right - left
        return p.rounded(
            where(
                u * width < mode - left,
                left + sqrt(u * (width * (mode - left))),
                right - sqrt((1 - u) * (width * (right - mode))),
            )
        )

    # -------------------- gamma and what is made of it

    def _gamma(self, p: Parameters, index: int, log: bool, factor: float = 1.0) -> ndarray:
        """Gamma samples with scale 1 (log: their logarithms); the shape is parameter `index` times
        a factor."""
        x = p.full(index, dtypes.compute_dtype(p.dtype))
        given = isinstance(x, ndarray)
        arrays = (x * factor if factor != 1 else x,) if given else ()
        wide = p.dtype == dtypes.float64
        counter = self.take(p.name, math.prod(p.shape) * (2 if wide else 1), p.place)
        return drawn(
            _gamma,
            counter,
            (0.0 if given else x * factor, 0.0),
            *arrays,
            shape=p.shape,
            dtype=p.dtype,
            device=p.place,
            given=(given, False),
            log=log,
        )

    @fast_path("shape?", source="self")
    def standard_gamma(
        self,
        shape: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
        *,
        out: ndarray | None = None,
    ) -> ndarray:
        """Draw gamma samples of scale 1: `gamma(shape, 1, size, dtype)`.

        Parameters
        ----------
        shape : float or array
            Not negative. A shape of 0 gives 0.
        size : int or tuple of int, optional
            Shape; by default what the parameters broadcast to, a 0-d array for floats.
        dtype : dtype_like, optional
            Dtype float16, bfloat16, float32 or float64; by default that of array parameters, else
            the default dtype.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.
        out : ndarray, optional
            Array that receives the result.

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

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.default_rng(7).standard_gamma(2.5, 3).shape
        (3,)
        """
        if out is not None:
            return _filled(
                "random.standard_gamma",
                functools.partial(self.standard_gamma, shape),
                size,
                dtype,
                out,
            )
        return self.gamma(shape, 1.0, size, dtype, device)

    @fast_path("shape?", "scale?", source="self")
    def gamma(
        self,
        shape: ArrayLike,
        scale: ArrayLike = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Gamma samples: density x^(shape - 1) exp(-x / scale) / (Gamma(shape) scale^shape).

        By Marsaglia and Tsang's rejection. Each element draws from a subsequence of its own, so
        that it depends neither on the grid nor on the attempts of others
        (`kernels/random/rejection_samplers.py` explains how).

        Parameters
        ----------
        shape : float or array
            Not negative. A shape of 0 gives 0.
        scale : float or array, default 1.0
            Not negative. A shape of 0 gives 0.
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
        Gradient: with respect to an array `scale` (not to `shape`). CPU and GPU agree bit for bit
        for shapes >= 1, to rounding below. Small shapes have numbers too small for the dtype, which
        become 0: of shape 0.05 one float32 in 170 (`beta` and `dirichlet` work with logarithms and
        lose none).

        References
        ----------
        .. [1] Marsaglia and Tsang, "A simple method for generating gamma variables", TOMS 2000.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).gamma(3.0, 2.0, 10_000)
        >>> bool(abs(x.mean() - 6) < 0.2)
        True
        """
        p = Parameters(
            "random.gamma",
            size,
            dtype,
            device,
            {"shape": "not negative", "scale": "not negative"},
            shape,
            scale,
        )
        return _scaled(self._gamma(p, 0, False), 0.0, p.values[1])

    @fast_path("df?", source="self")
    def chisquare(
        self,
        df: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw chi-square samples with `df` degrees of freedom: 2 gamma(df / 2).

        Parameters
        ----------
        df : array_like
            Degrees of freedom, > 0.
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

        Examples
        --------
        >>> import cudamath as cm
        >>> bool((cm.random.default_rng(7).chisquare(3, 5) > 0).all())
        True
        """
        p = Parameters("random.chisquare", size, dtype, device, {"df": "positive"}, df)
        return 2.0 * self._gamma(p, 0, False, 0.5)

    @fast_path("a?", "b?", source="self")
    def beta(
        self,
        a: ArrayLike,
        b: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Beta samples: x / (x + y) of gamma samples x, y of shapes `a` and `b`.

        Shapes below 1, whose gamma samples may be too small for a float, go by logarithms. CPU and
        GPU agree bit for bit for shapes >= 1, to rounding below.

        Parameters
        ----------
        a, b : float or array
            > 0.
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
        >>> x = cm.random.default_rng(7).beta(2, 3, 10_000)
        >>> bool(abs(x.mean() - 0.4) < 0.02)
        True
        """
        p = Parameters(
            "random.beta",
            size,
            dtype,
            device,
            {"a": "positive", "b": "positive"},
            a,
            b,
            composed=True,
        )
        parameters = [p.full(index, p.dtype) for index in (0, 1)]
        given = tuple(isinstance(x, ndarray) for x in parameters)
        counter = self.take(
            p.name, math.prod(p.shape) * (3 if p.dtype == dtypes.float64 else 2), p.place
        )
        return drawn(
            _beta,
            counter,
            tuple(0.0 if there else x for x, there in zip(parameters, given, strict=True)),
            *[x for x in parameters if isinstance(x, ndarray)],
            shape=p.shape,
            dtype=p.result,
            device=p.place,
            given=given,
        )

    @fast_path("df?", source="self")
    def standard_t(
        self,
        df: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw Student's t samples with `df` degrees of freedom: z sqrt(df / chisquare(df)).

        Z sqrt(df / chisquare(df)). df > 0.

        Parameters
        ----------
        df : array_like
            Degrees of freedom, > 0.
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
        The function is not differentiable with respect to `df`.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.default_rng(7).standard_t(5, 3).shape
        (3,)
        """
        return self.student_t(df, 0.0, 1.0, size, dtype, device)

    @fast_path("df?", "loc?", "scale?", source="self")
    def student_t(
        self,
        df: Any,
        loc: Any = 0.0,
        scale: Any = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw Student's t samples about `loc`: loc + scale standard_t(df).

        Parameters
        ----------
        df : array_like
            Degrees of freedom, > 0.
        loc : array_like, default 0.0
            Centre.
        scale : float or array, default 1.0
            Scale, >= 0.
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
        The function is differentiable with respect to arrays `loc` and `scale`, and not to `df`.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.default_rng(7).student_t(5, 1.0, 2.0, 3).shape
        (3,)
        """
        ranges = {"df": "positive", "loc": "any", "scale": "not negative"}
        p = Parameters(
            "random.student_t", size, dtype, device, ranges, df, loc, scale, composed=True
        )
        (df, _, _), (_, loc, scale) = p.constants(), p.values
        z = self._fill(_normal, p, (0.0, 1.0, 0.0))
        return p.rounded(_scaled(z * sqrt(df * 0.5 / self._gamma(p, 0, False, 0.5)), loc, scale))


def _scaled(z: ndarray, loc: Any, scale: Any) -> ndarray:
    """loc + scale z, without the operations that change nothing."""
    if not (isinstance(scale, float) and scale == 1):
        z = z * scale
    return z if isinstance(loc, float) and loc == 0 else z + loc
