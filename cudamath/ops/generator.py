"""The generator behind `cudamath.random`: key, stream and offset of Philox4x32-10, and the draws."""


from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.array import asarray, empty, ndarray, upload
from ..core.devices import device_of, index_of
from ..core.op import FLOATING, INTEGER, Op
from ..core.shapes import normalize_axis
from .source import MASK, Size, Source, drawn, integer, number, probability, shape_of, wanted_dtype

__all__ = ["Generator"]

_RANKED = 1024  # permutations up to this length are made by ranking keys

_uniform = Op("random.uniform", cpu="random.uniform", cuda="random.uniform")
_normal = Op("random.normal", cpu="random.normal", cuda="random.normal")
_integers = Op("random.integers", cpu="random.integers", cuda="random.integers")
_bernoulli = Op("random.bernoulli", cpu="random.bernoulli", cuda="random.bernoulli")
_permutation = Op("random.permutation", cpu="random.permutation", cuda="random.permutation")
_choice = Op("random.choice", cpu="random.choice", cuda="random.choice")


class Generator(Source):
    """A source of random arrays. Make one with `cm.random.default_rng(seed)`.

    Draws go to the default device (or `device=`) and do not depend on it. A generator may be used from several threads:
    each draw takes its own stretch of the sequence. Draws in a CUDA graph go on with the sequence at each replay, as
    the function would without a graph; a generator made inside the function begins anew each time.

    Attributes
    ----------
    state : dict
        {"key", "stream", "offset", "children"}: four integers that say everything. Assign such a dict to go back.

    >>> import cudamath as cm
    >>> rng = cm.random.default_rng(7)
    >>> before = rng.state
    >>> a = rng.integers(0, 100, 4)
    >>> rng.state = before
    >>> bool((rng.integers(0, 100, 4) == a).all())
    True
    """

    __slots__ = ()

    # ------------------------------------------------------------ continuous

    def random(self, size: Size = None, dtype: Any = None, device: Any = None) -> ndarray:
        """Uniform numbers in [0, 1): `uniform(0, 1, size, dtype)`.

        >>> import cudamath as cm
        >>> cm.random.default_rng(7).random(2, dtype="float32").dtype
        dtype('float32')
        """
        return self.uniform(0.0, 1.0, size, dtype, device)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Size = None, dtype: Any = None,
                device: Any = None) -> ndarray:
        """Uniform numbers: `low + (high - low) * u`, u uniform in [0, 1).

        u has as many random bits as the dtype holds exactly: float64 53, float32 24, float16 11, bfloat16 8.

        Parameters
        ----------
        low, high : float
            Bounds, low <= high. As in NumPy, rounding may return `high` itself when low is not 0.
        size : int or tuple of int, optional
            Shape; a 0-d array by default.
        dtype : optional
            float16, bfloat16, float32 or float64; by default the default dtype.
        device : optional
            Where to; by default the default device. The numbers are the same everywhere.

        Raises
        ------
        ValueError
            low > high, bounds that are not finite, negative sizes.
        TypeError
            Bounds that are no numbers; a dtype that is not floating-point.

        Not differentiable.

        >>> import cudamath as cm
        >>> cm.random.default_rng(7).uniform(-1, 1, (2, 3)).shape
        (2, 3)
        """
        name = "random.uniform"
        low, high = number(name, "low", low), number(name, "high", high)
        if low > high:
            raise ValueError(f"{name}: wants low <= high, got {low} and {high}")
        width = number(name, "high - low", high - low)
        shape, dtype = shape_of(name, size), wanted_dtype(name, dtype, FLOATING, dtypes.default_float())
        return self._draw(_uniform, shape, dtype, device, (low, width, 0.0))

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Size = None, dtype: Any = None,
               device: Any = None) -> ndarray:
        """Normal (Gaussian) numbers of mean `loc` and standard deviation `scale`, by Box-Muller.

        z = sqrt(-2 ln u) cos(2 pi t) and the same with sin, for two random words u and t. float32 and the 16-bit types
        are computed in float32 (|z| <= 6.77), float64 in float64 (|z| <= 8.57). The logarithm, sine and cosine are
        fixed sequences of IEEE operations, so the results are equal on all devices.

        Parameters
        ----------
        loc, scale : float
            Mean and standard deviation, scale >= 0.
        size, dtype, device
            As for `uniform`.

        Raises
        ------
        ValueError
            A negative scale; parameters that are not finite; negative sizes.
        TypeError
            Parameters that are no numbers; a dtype that is not floating-point.

        Not differentiable; `loc + scale * rng.normal(...)` is, in loc and scale.

        >>> import cudamath as cm
        >>> z = cm.random.default_rng(7).normal(size=10_000)
        >>> bool(abs(z.mean()) < 0.05 and abs(z.std() - 1) < 0.05)
        True
        """
        name = "random.normal"
        loc, scale = number(name, "loc", loc), number(name, "scale", scale)
        if scale < 0:
            raise ValueError(f"{name}: wants scale >= 0, got {scale}")
        shape, dtype = shape_of(name, size), wanted_dtype(name, dtype, FLOATING, dtypes.default_float())
        return self._draw(_normal, shape, dtype, device, (loc, scale, 0.0))

    def standard_normal(self, size: Size = None, dtype: Any = None, device: Any = None) -> ndarray:
        """Normal numbers of mean 0 and standard deviation 1: `normal(0, 1, size, dtype)`.

        >>> import cudamath as cm
        >>> cm.random.default_rng(7).standard_normal((2, 2)).shape
        (2, 2)
        """
        return self.normal(0.0, 1.0, size, dtype, device)

    def _draw(self, op: Op, shape: tuple[int, ...], dtype: np.dtype, device: Any, parameters: tuple) -> ndarray:
        place = index_of(device)
        counter = self.take(op.name, -(-math.prod(shape) // (2 if dtype == dtypes.float64 else 4)), place)
        return drawn(op, counter, parameters, shape=shape, dtype=dtype, device=place)

    # ------------------------------------------------------------ discrete

    def integers(self, low: int, high: int | None = None, size: Size = None, dtype: Any = None, endpoint: bool = False,
                 device: Any = None) -> ndarray:
        """Integers in [low, high), every one equally likely: without bias, by rejection.

        Up to 2^32 values by Lemire's multiplication, more by masking; a rejected word is replaced by one from another
        attempt's counter, so that element i still depends on i alone.

        Parameters
        ----------
        low, high : int
            Bounds; `integers(n)` means [0, n).
        size, device
            As for `uniform`.
        dtype : optional
            Any integer dtype; int64 by default.
        endpoint : bool
            Whether `high` itself may come.

        Raises
        ------
        ValueError
            low >= high (low > high with endpoint); bounds outside the dtype's range; negative sizes.
        TypeError
            Bounds that are no integers; a dtype that is not integer.

        >>> import cudamath as cm
        >>> dice = cm.random.default_rng(7).integers(1, 6, 1000, endpoint=True)
        >>> int(dice.min()), int(dice.max())
        (1, 6)
        """
        name = "random.integers"
        if high is None:
            low, high = 0, low
        low, high = integer(name, "low", low), integer(name, "high", high)
        dtype = wanted_dtype(name, dtype, INTEGER, np.dtype(np.int64))
        last = high if endpoint else high - 1
        if low > last:
            raise ValueError(f"{name}: wants low {'<=' if endpoint else '<'} high, got {low} and {high}")
        info = np.iinfo(dtype)
        if low < info.min or last > info.max:
            raise ValueError(f"{name}: wants bounds that {dtype} can hold ({info.min} to {info.max}), got {low} "
                             f"and {last}")
        shape = shape_of(name, size)
        span = last - low
        wide = span >= 1 << 32
        limits = (span, (1 << span.bit_length()) - 1) if wide else (span + 1, (1 << 32) % (span + 1))
        place = index_of(device)
        counter = self.take(name, -(-math.prod(shape) // (2 if wide else 4)), place)
        return drawn(_integers, counter, (low & MASK, *limits), shape=shape, dtype=dtype, device=place, wide=wide)

    def bernoulli(self, p: float = 0.5, size: Size = None, device: Any = None) -> ndarray:
        """True with probability `p`: a random 32-bit word is compared with p 2^32 (so p counts to 2^-33).

        Parameters
        ----------
        p : float
            In [0, 1].
        size, device
            As for `uniform`.

        Returns
        -------
        ndarray of bool

        Raises
        ------
        ValueError
            p outside [0, 1]; negative sizes.

        >>> import cudamath as cm
        >>> bool(cm.random.default_rng(7).bernoulli(1.0, 5).all())
        True
        """
        name = "random.bernoulli"
        threshold = round(probability(name, p) * (1 << 32))
        shape = shape_of(name, size)
        place = index_of(device)
        counter = self.take(name, -(-math.prod(shape) // 4), place)
        return drawn(_bernoulli, counter, (threshold, 0, 0), shape=shape, device=place)

    def _order(self, name: str, n: int, count: int, device: int) -> ndarray:
        """The first `count` elements of a random permutation of 0 .. n - 1."""
        ranked = n <= _RANKED
        counter = self.take(name, -(-n // 2) if ranked else 6, device)
        return drawn(_permutation, counter, (n,), count=count, ranked=ranked, bits=(n - 1).bit_length(), device=device)

    def permutation(self, x: Any, axis: int = 0, device: Any = None) -> ndarray:
        """A random order: of 0 .. x - 1 if `x` is an integer, else a copy of the array `x` shuffled along `axis`.

        Up to 1024 elements every order is equally likely: each element takes the rank of a random 64-bit key. Longer
        permutations are a keyed bijection (24 rounds of a small cipher): each element goes to each place equally
        often and the order looks random in every test made here, but, as 128 bits of key cannot name them, not every
        order can occur.

        Parameters
        ----------
        x : int or array
            How many, or what to shuffle (slices along `axis` stay whole).
        axis : int
            Axis to shuffle along.
        device : optional
            Where to, for an integer x. An array stays where it is.

        Raises
        ------
        ValueError
            Negative x; a 0-d array; an axis out of range.

        >>> import cudamath as cm
        >>> sorted(cm.random.default_rng(7).permutation(5).tolist())
        [0, 1, 2, 3, 4]
        """
        name = "random.permutation"
        if isinstance(x, (int, np.integer)) and not isinstance(x, bool):
            n = int(x)
            if n < 0:
                raise ValueError(f"{name}: wants an integer >= 0 or an array, got {n}")
            return self._order(name, n, n, index_of(device))
        x = asarray(x, name=name)
        if not x.ndim:
            raise ValueError(f"{name}: wants an integer or an array of at least one dimension, got a 0-d array of "
                             f"{x.dtype}")
        axis = normalize_axis(name, axis, x.ndim)
        n = x.shape[axis]
        return _along(x, self._order(name, n, n, x._layout.device), axis)

    def choice(self, a: Any, size: Size = None, replace: bool = True, p: Any = None, device: Any = None) -> ndarray:
        """Elements drawn from `a` (from 0 .. a - 1 if `a` is an integer).

        Parameters
        ----------
        a : int or 1-d array
            What to draw from.
        size, device
            As for `uniform`; an array `a` keeps its device.
        replace : bool
            Whether an element may come again.
        p : array-like, optional
            Probability of each element, adding up to 1; equal ones by default. It is read on the host: an array on a
            GPU is waited for. Without replacement, each next element is drawn with probabilities proportional to p
            among those left, on the host.

        Raises
        ------
        ValueError
            Nothing to draw from; more asked for than there is, without replacement; p of another length, negative or
            not adding up to 1; `a` of more than one dimension.

        >>> import cudamath as cm
        >>> rng = cm.random.default_rng(7)
        >>> int(rng.choice(3, p=[0, 0, 1]))
        2
        >>> sorted(rng.choice([10, 20, 30], 3, replace=False).tolist())
        [10, 20, 30]
        """
        name = "random.choice"
        array = None
        if isinstance(a, (int, np.integer)) and not isinstance(a, bool):
            n, place = int(a), index_of(device)
        else:
            array = asarray(a, name=name)
            if array.ndim != 1:
                raise ValueError(f"{name}: wants an integer or a 1-d array, got shape {array.shape}")
            n, place = array.shape[0], array._layout.device
        shape = shape_of(name, size)
        count = math.prod(shape)
        if n < 1 and count:
            raise ValueError(f"{name}: wants something to draw from, got {n} elements")
        if not replace and count > n:
            raise ValueError(f"{name}: wants at most the {n} elements there are without replacement, got size {shape}")
        if p is not None:
            index = self._weighted(name, n, shape, replace, p, place)
        elif not count:
            index = empty(shape, np.dtype(np.int64), place)
        elif replace:
            index = self.integers(0, n, shape, device=device_of(place))
        else:
            index = self._order(name, n, count, place).reshape(shape)
        return index if array is None else _along(array, index, 0)

    def _weighted(self, name: str, n: int, shape: tuple[int, ...], replace: bool, p: Any, place: int) -> ndarray:
        weights = np.asarray(p, dtype=np.float64)
        if weights.shape != (n,):
            raise ValueError(f"{name}: wants p of shape ({n},), got {weights.shape}")
        if not np.all(weights >= 0) or abs(weights.sum() - 1) > 1e-6:
            raise ValueError(f"{name}: wants p >= 0 adding up to 1, got sum {weights.sum()}, least "
                             f"{weights.min(initial=0)}")
        count = math.prod(shape)
        if replace:
            cumulative = np.cumsum(weights)
            thresholds = np.rint(cumulative / cumulative[-1] * 2.0**53).astype(np.uint64)
            counter = self.take(name, -(-count // 2), place)
            return drawn(_choice, counter, (), upload(thresholds, place), shape=shape)
        if np.count_nonzero(weights) < count:
            raise ValueError(f"{name}: wants at least {count} elements with p > 0 without replacement, "
                             f"got {np.count_nonzero(weights)}")
        # Exponential times of rate p: the order of arrival is that of successive draws (Efraimidis and Spirakis, 2006).
        u = self.uniform(size=n, dtype=np.float64, device="cpu").to_numpy()
        with np.errstate(divide="ignore"):
            order = np.argsort(-np.log1p(-u) / weights, kind="stable")
        return upload(order[:count].astype(np.int64).reshape(shape), place)


def _along(x: ndarray, index: ndarray, axis: int) -> ndarray:
    from .index import take  # a family above this one in the alphabet of imports only

    return take(x, index, axis=axis)
