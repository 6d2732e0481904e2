"""Discrete distributions of `cudamath.random.Generator`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core import dtypes
from ...core.array import ndarray
from ...core.asarray import asarray, upload
from ...core.devices import CPU, device_of, index_of
from ...core.dispatch.checks import require
from ...core.dispatch.fast_path import fast_path
from ...core.dispatch.op import FLOATING, INTEGER, INTEGER_OR_BOOL, REAL, Op
from ...core.shapes import as_integer, normalize_axis
from ...core.typing import ArrayLike, DeviceLike, DTypeLike
from ..elementwise import ceil, clip, log1p
from ..join import stack
from ..reduce import argmax
from ..shape import astype
from .ahead import drawn_ahead
from .bit_stream import (
    MASK,
    Parameters,
    Size,
    drawn,
    filled,
    on_host,
    probability,
    shape_for,
    shape_of,
    wanted_dtype,
    whole_draw,
)
from .continuous import Continuous

_INT64 = np.dtype(np.int64)
_LARGEST = 2.0**63 - 1024  # the largest float64 below 2^63

_integers = Op("random.integers", cpu="random.integers", cuda="random.distributions.integers")
_bounded = Op(
    "random.integers (bounds by element)",
    cpu="rejection_samplers.bounded",
    cuda="random.rejection_samplers.bounded",
)
_bernoulli = Op("random.bernoulli", cpu="random.bernoulli", cuda="random.distributions.bernoulli")
_chances = Op(
    "random.bernoulli (chances by element)",
    cpu="random.chances",
    cuda="random.bernoulli_array.chances",
)
_poisson = Op(
    "random.poisson", cpu="rejection_samplers.poisson", cuda="random.rejection_samplers.poisson"
)
_binomial = Op(
    "random.binomial", cpu="rejection_samplers.binomial", cuda="random.rejection_samplers.binomial"
)
_geometric = Op("random.geometric", cpu="random.geometric", cuda="random.distributions.geometric")


def _range_of(dtype: np.dtype) -> tuple[np.dtype, int, int]:
    """The dtype that integers of another one are drawn in, bools as bytes, and the least and
    largest of them."""
    if dtype.kind == "b":
        return np.dtype(np.uint8), 0, 1
    info = np.iinfo(dtype)
    return dtype, int(info.min), int(info.max)


class Discrete(Continuous):
    """The discrete half of `Generator`."""

    __slots__ = ()

    # -------------------- integers

    @drawn_ahead(2)
    @fast_path("low?", "high?", source="self")
    def integers(
        self,
        low: ArrayLike,
        high: ArrayLike | None = None,
        size: Size = None,
        dtype: DTypeLike | None = None,
        endpoint: bool = False,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw integers in [low, high), every one equally likely.

        They are unbiased, by rejection.

        Up to 2^32 values by Lemire's multiplication, more by masking; a rejected word is replaced
        by one from another attempt's counter, so that element i still depends on i alone. Array
        bounds are always drawn by masking.

        Parameters
        ----------
        low : int or array of integers
            Bounds; `integers(n)` means [0, n).
        high : int or array of integers, optional
            Bounds; `integers(n)` means [0, n).
        size : int or tuple of int, optional
            Shape; by default what the bounds broadcast to, a 0-d array for ints.
        dtype : dtype_like, optional
            Any integer dtype, or bool, whose bounds are 0 and 1; int64 by default.
        endpoint : bool, default False
            Whether `high` itself may come.
        device : device_like, optional
            Where to; by default that of array bounds, else the default device.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Low >= high (low > high with endpoint); bounds outside the dtype's range; negative
            sizes; bounds that do not broadcast. Arrays on a GPU are not looked at.
        TypeError
            Bounds that are not integers; a dtype that is neither integer nor bool.

        Examples
        --------
        >>> import cudamath as cm
        >>> dice = cm.random.default_rng(7).integers(1, 6, 1000, endpoint=True)
        >>> int(dice.min()), int(dice.max())
        (1, 6)
        >>> cm.random.default_rng(7).integers([1, 10, 100], [2, 11, 101])
        array([  1,  10, 100], device='cpu')
        """
        name = "random.integers"
        if high is None:
            low, high = 0, low
        dtype = wanted_dtype(name, dtype, INTEGER_OR_BOOL, _INT64)
        if _sized(low) or _sized(high):
            return self._integers_between(name, low, high, size, dtype, endpoint, device)
        low, high = as_integer(name, "low", low), as_integer(name, "high", high)
        last = high if endpoint else high - 1
        if low > last:
            raise ValueError(
                f"{name}: wants low {'<=' if endpoint else '<'} high, got {low} and {high}"
            )
        kind, least, most = _range_of(dtype)
        if low < least or last > most:
            raise ValueError(
                f"{name}: wants bounds that {dtype} can hold ({least} to {most}), got {low} and "
                f"{last}"
            )
        shape = shape_of(name, size)
        span = last - low
        wide = span >= 1 << 32
        limits = (
            (span, (1 << span.bit_length()) - 1) if wide else (span + 1, (1 << 32) % (span + 1))
        )
        place = index_of(device)
        blocks, rest = -(-math.prod(shape) // (2 if wide else 4)), (low & MASK, *limits)
        out = drawn(
            _integers,
            self.take(name, blocks, place),
            rest,
            shape=shape,
            dtype=kind,
            device=place,
            wide=wide,
        )
        if kind != dtype:
            return astype(out, dtype)
        return out

    def _integers_between(
        self,
        name: str,
        low: Any,
        high: Any,
        size: Size,
        dtype: np.dtype,
        endpoint: bool,
        device: Any,
    ) -> ndarray:
        """Bounds of which at least one is an array."""
        named, (kind, least, most) = {"low": low, "high": high}, _range_of(dtype)
        bounds = [
            x if isinstance(x, ndarray) else on_host(name, what, x) for what, x in named.items()
        ]
        for what, x in zip(named, bounds, strict=True):
            if x.dtype not in INTEGER:
                raise TypeError(
                    f"{name}: wants {what} as integers, got {x.dtype} of shape {x.shape}"
                )
        ours = [x for x in bounds if isinstance(x, ndarray)]
        place = index_of(device) if device is not None or not ours else ours[0]._layout.device
        shape = shape_for(name, size, [x.shape for x in bounds])
        if all(not isinstance(x, ndarray) or x._layout.device == CPU for x in bounds):
            first, after = map(np.asarray, bounds)
            if np.any(first > after if endpoint else first >= after):
                raise ValueError(
                    f"{name}: wants low {'<=' if endpoint else '<'} high, got {low} and {high}"
                )
            if (
                first.size
                and after.size
                and (first.min() < least or int(after.max()) - (not endpoint) > most)
            ):
                raise ValueError(
                    f"{name}: wants bounds that {dtype} can hold ({least} to {most}), got {low} "
                    f"and {high}"
                )
        start, stop = (_cast(x, np.uint64, place) for x in bounds)  # modulo 2^64
        width = stop - start if endpoint else stop - start - np.uint64(1)
        arrays = [filled(x, shape) for x in (start, width)]
        counter = self.take(name, math.prod(shape), place)
        out = drawn(
            _bounded,
            counter,
            (0, 0),
            *arrays,
            shape=shape,
            dtype=kind,
            device=place,
            given=(True, True),
        )
        return astype(out, dtype, copy=False)

    @fast_path("p?", source="self")
    def bernoulli(
        self, p: Any = 0.5, size: Size = None, device: DeviceLike | None = None
    ) -> ndarray:
        """Draw an array of bool, True with probability `p`.

        A random 32-bit word is compared with p 2^32, so that p counts to 2^-33.

        Parameters
        ----------
        p : float or array, default 0.5
            In [0, 1].
        size : int or tuple of int, optional
            Shape; by default what the parameters broadcast to, a 0-d array for floats.
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
            P outside [0, 1]; negative sizes; p that does not broadcast to `size`. Arrays on a GPU
            are not looked at.

        Examples
        --------
        >>> import cudamath as cm
        >>> bool(cm.random.default_rng(7).bernoulli(1.0, 5).all())
        True
        """
        name = "random.bernoulli"
        if isinstance(p, ndarray) and size is None and device is None:
            if (
                p._layout.device >= 0 and p._layout.contiguous and p.dtype in REAL and p.ndim
            ):  # the kernel reads it as it is
                return drawn(_chances, self.take(name, -(-p.size // 4), p._layout.device), (), p)
        if _sized(p):
            p = Parameters(
                name, size, None, device, {"p": "probability"}, p, default=dtypes.float64
            ).full(0, dtypes.float64)
            return drawn(_chances, self.take(name, -(-p.size // 4), p._layout.device), (), p)
        threshold = round(probability(name, p) * (1 << 32))
        shape, place = shape_of(name, size), index_of(device)
        blocks = -(-math.prod(shape) // 4)
        return drawn(
            _bernoulli, self.take(name, blocks, place), (threshold, 0, 0), shape=shape, device=place
        )

    # -------------------- counts

    def _counted(self, op: Op, p: Parameters, *values: Any) -> ndarray:
        """A draw of whole numbers; values: floats or arrays of the draw's shape, float64."""
        arrays = [x for x in values if isinstance(x, ndarray)]
        scalars = [0.0 if isinstance(x, ndarray) else x for x in (*values, 0.0)[:2]]
        given = tuple([isinstance(x, ndarray) for x in (*values, 0.0)[:2]])
        blocks, what = (
            math.prod(p.shape),
            {"shape": p.shape, "dtype": p.result, "device": p.place, "given": given},
        )
        return drawn(op, self.take(p.name, blocks, p.place), tuple(scalars), *arrays, **what)

    @fast_path("lam?", source="self")
    def poisson(
        self,
        lam: ArrayLike = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Poisson samples with mean `lam`: k with probability lam^k exp(-lam) / k!.

        By search for means below 10, else by Hörmann's rejection PTRS. Each element draws from a
        subsequence of its own (`kernels/random/rejection_samplers.py`); what decides is computed in
        IEEE operations, so all devices give the same numbers.

        Parameters
        ----------
        lam : float or array, default 1.0
            In 0 .. 9e18.
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

        References
        ----------
        .. [1] Hörmann, "The transformed rejection method for generating Poisson random variables",
           1993.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).poisson(4.0, 10_000)
        >>> x.dtype, bool(abs(x.mean() - 4) < 0.1)
        (dtype('int64'), True)
        """
        if isinstance(lam, ndarray) and size is None and device is None and lam._node is None:
            if (
                lam._layout.device >= 0 and lam._layout.contiguous and lam.dtype in REAL
            ):  # the kernel reads means as they are
                kind, given = wanted_dtype("random.poisson", dtype, INTEGER, _INT64), (True, False)
                return drawn(
                    _poisson,
                    self.take("random.poisson", lam.size, lam._layout.device),
                    (0.0, 0.0),
                    lam,
                    shape=lam.shape,
                    dtype=kind,
                    device=lam._layout.device,
                    given=given,
                )
        p = Parameters(
            "random.poisson",
            size,
            dtype,
            device,
            {"lam": "a mean"},
            lam,
            category=INTEGER,
            default=_INT64,
        )
        return self._counted(_poisson, p, p.full(0, dtypes.float64))

    @fast_path("n?", "p?", source="self")
    def binomial(
        self,
        n: ArrayLike,
        p: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Binomial samples: how many of `n` trials succeed, each with probability `p`.

        By search where n min(p, 1 - p) is below 10, else by Hörmann's rejection BTRS; as for
        `poisson`, all devices give the same numbers.

        Parameters
        ----------
        n : int or array of whole numbers
            In 0 .. 2^53.
        p : float or array
            In [0, 1].
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
            N or p out of range, n not whole; sizes as for `uniform`.
        TypeError
            Parameters that are not numbers; a dtype that is not integer.

        References
        ----------
        .. [1] Hörmann, "The generation of binomial random variates", 1993.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).binomial(100, 0.3, 10_000)
        >>> bool(abs(x.mean() - 30) < 0.3)
        True
        """
        q = Parameters(
            "random.binomial",
            size,
            dtype,
            device,
            {"n": "a count", "p": "probability"},
            n,
            p,
            category=INTEGER,
            default=_INT64,
        )
        return self._counted(_binomial, q, q.full(0, dtypes.float64), q.full(1, dtypes.float64))

    @fast_path("p?", source="self")
    def geometric(
        self,
        p: Any,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw geometric samples.

        They are the trials, from 1, at which an event of probability `p` first happens: each is the
        next whole number above an exponential number of rate -ln(1 - p). Numbers beyond int64
        become the largest one.

        Parameters
        ----------
        p : array_like
            Probability, in (0, 1].
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
            `p` is outside (0, 1], or the size is not valid.
        TypeError
            `p` is not a number, or the dtype is not an integer dtype.

        Notes
        -----
        All devices give the same numbers.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).geometric(0.25, 10_000)
        >>> int(x.min()), bool(abs(x.mean() - 4) < 0.15)
        (1, True)
        """
        q = Parameters(
            "random.geometric",
            size,
            dtype,
            device,
            {"p": "chance"},
            p,
            category=INTEGER,
            default=_INT64,
        )
        (p,) = q.values
        if q.arrays:
            e = self.standard_exponential(q.shape, dtypes.float64, device_of(q.place))
            return asarray(clip(ceil(e / -log1p(-p)), 1.0, _LARGEST), q.result)
        blocks, what = (
            -(-math.prod(q.shape) // 2),
            {"shape": q.shape, "dtype": q.result, "device": q.place},
        )
        return drawn(_geometric, self.take(q.name, blocks, q.place), (_rate(p), 0.0, 0.0), **what)

    @whole_draw
    def multinomial(
        self,
        n: ArrayLike,
        pvals: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """How many of `n` trials end in each of k outcomes of probabilities `pvals`.

        One binomial draw an outcome, of the trials that are left.

        Parameters
        ----------
        n : int or array of whole numbers
            In 0 .. 2^53.
        pvals : array-like, (..., k)
            Probabilities, adding up to 1 along the last axis; what the first k - 1 leave is the
            last one's. They are read on the host: an array on a GPU is waited for.
        size : int or tuple of int, optional
            Shape of the draws; by default what n and the leading axes of pvals broadcast to.
        dtype : dtype_like, optional
            Any integer dtype; int64 by default. Numbers that it cannot hold wrap.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.

        Returns
        -------
        ndarray
            Shape (*size, k).

        Raises
        ------
        ValueError
            Pvals outside [0, 1] or adding up to more than 1; no outcomes; n out of range; shapes
            that do not broadcast.
        TypeError
            A dtype that is not integer.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).multinomial(20, [0.2, 0.3, 0.5], size=4)
        >>> x.shape, bool((x.sum(-1) == 20).all())
        ((4, 3), True)
        """
        name = "random.multinomial"
        chances = on_host(name, "pvals", pvals, np.float64)
        if not chances.ndim or not chances.shape[-1]:
            raise ValueError(
                f"{name}: wants pvals of at least one outcome, got shape {chances.shape}"
            )
        outside = ~((chances >= 0) & (chances <= 1))
        before = np.cumsum(chances, -1) - chances  # of the outcomes before each
        if outside.any() or np.any(before[..., -1] > 1 + 1e-12):
            kind = getattr(pvals, "dtype", chances.dtype)
            raise ValueError(
                f"{name}: wants pvals in [0, 1] adding up to 1, got {kind} of shape "
                f"{chances.shape}, largest sum "
                f"{chances.sum(-1).max()}, least {chances.min()}"
            )
        rest = np.maximum(1 - before, 0)
        given = np.where(
            rest > 0, np.minimum(chances / np.where(rest > 0, rest, 1), 1), 0
        )  # given that none before came
        q = Parameters(
            name,
            size,
            dtype,
            device,
            {"n": "a count", "pvals": "probability"},
            n,
            given[..., 0],
            category=INTEGER,
            default=_INT64,
        )
        left = int(q.values[0]) if isinstance(q.values[0], float) else asarray(q.values[0], _INT64)
        columns = []
        for j in range(chances.shape[-1] - 1):
            p = float(given[j]) if given.ndim == 1 else given[..., j]
            columns.append(self.binomial(left, p, q.shape, _INT64, device_of(q.place)))
            left = left - columns[-1]
        columns.append(
            filled(
                left if isinstance(left, ndarray) else asarray(left, _INT64, device_of(q.place)),
                q.shape,
            )
        )
        return asarray(stack(columns, axis=-1), q.result)

    @fast_path("logits", source="self")
    def categorical(
        self, logits: ArrayLike, size: Size = None, axis: int = -1, device: DeviceLike | None = None
    ) -> ndarray:
        """Draw indices along an axis, each with a probability proportional to exp(logits).

        By the Gumbel-max trick.

        argmax(logits + g), g independent Gumbel samples: the logits need not be normalised, and
        -inf never comes.

        Parameters
        ----------
        logits : array of a floating-point dtype
            16-bit ones are widened to float32.
        size : int or tuple of int, optional
            Shape of the draws for each distribution; by default one.
        axis : int, default -1
            The axis of the outcomes.
        device : device_like, optional
            Device of the result. The default is the default device.

        Returns
        -------
        ndarray of int64
            Shape (*size, *shape of logits without the axis).

        Raises
        ------
        ValueError
            No outcomes; an axis out of range; negative sizes.
        TypeError
            Logits that are not floating-point.

        Examples
        --------
        >>> import cudamath as cm
        >>> int(cm.random.default_rng(7).categorical(cm.array([-cm.inf, 0.0, -cm.inf])))
        1
        """
        name = "random.categorical"
        if not isinstance(logits, ndarray):
            logits = asarray(logits, device=device, name=name)
        logits = require(name, logits, FLOATING)
        axis = normalize_axis(name, axis, logits.ndim)
        if not logits.shape[axis]:
            raise ValueError(
                f"{name}: wants at least one outcome along axis {axis}, got shape {logits.shape}"
            )
        lead = shape_of(name, size)
        noise = self.gumbel(
            0.0, 1.0, (*lead, *logits.shape), dtypes.compute_dtype(logits.dtype), logits.device
        )
        return argmax(noise + logits, axis=axis + len(lead))


def _sized(x: Any) -> bool:
    """Whether a parameter is an array rather than a number."""
    return bool(getattr(x, "shape", ())) or isinstance(x, (list, tuple))


def _rate(p: float) -> float:
    """Of the exponential samples whose next whole number is the trial at which something of
    probability p first happens."""
    return -math.log1p(-p) if p < 1 else math.inf


def _cast(x: Any, dtype: Any, place: int) -> ndarray:
    """Integers in another integer dtype, modulo its size, on a device."""
    if isinstance(x, ndarray):
        return asarray(x, dtype, device_of(place))
    return upload(x.astype(dtype), place)
