"""Random orders and choices: the part of `cudamath.random.Generator` that shuffles and draws from
arrays."""

from __future__ import annotations

import math
from collections.abc import MutableSequence
from typing import Any

import numpy as np

from ...core.array import empty, ndarray
from ...core.asarray import asarray, upload
from ...core.devices import device_of, index_of
from ...core.dispatch.fast_path import fast_path
from ...core.dispatch.lazy_import import lazy
from ...core.dispatch.op import Op
from ...core.dtypes import FLOATING
from ...core.fp_errors import silence
from ...core.shapes import normalize_axis
from ...core.typing import ArrayLike, DeviceLike
from ..index import _check_writable, take, take_along_axis
from ..out_argument import deliver, receiver
from ..sort import argsort
from .bit_stream import Size, drawn, on_host, shape_of, whole_draw
from .discrete import Discrete

_RANKED = 1024  # permutations up to this length are made by ranking keys
_WEIGHED = (
    1024,
    {np.dtype(np.float32), np.dtype(np.float64)},
)  # probabilities up to so many, of these, are used where they are
_INT64 = np.dtype(np.int64)

_permutation = Op(
    "random.permutation", cpu="random.permutation", cuda="random.distributions.permutation"
)
_choice = Op("random.choice (thresholds)", cpu="random.choice", cuda="random.distributions.choice")
_thresholds = Op("random.choice", cpu="random.thresholds", cuda="random.distributions.thresholds")


class Orders(Discrete):
    """The part of `Generator` that puts arrays in random order and draws from them."""

    __slots__ = ()

    def _order(self, name: str, n: int, count: int, device: int) -> ndarray:
        """The first `count` elements of a random permutation of 0 .. n - 1."""
        ranked = n <= _RANKED
        counter = self.take(name, -(-n // 2) if ranked else 6, device)
        return drawn(
            _permutation,
            counter,
            (n,),
            count=count,
            ranked=ranked,
            bits=(n - 1).bit_length(),
            device=device,
        )

    @fast_path("x?", source="self")
    def permutation(self, x: ArrayLike, axis: int = 0, device: DeviceLike | None = None) -> ndarray:
        """Return a random order of 0 .. x - 1, or a shuffled copy of an array.

        Else a copy of the array `x` shuffled along `axis`.

        Up to 1024 elements every order is equally likely: each element takes the rank of a random
        64-bit key. Longer permutations are a keyed bijection (24 rounds of a small cipher): each
        element goes to each position equally often and the order looks random in every test made
        here, but, as 128 bits of key cannot name them, not every order can occur.

        Parameters
        ----------
        x : int or array
            How many, or what to shuffle (slices along `axis` stay whole).
        axis : int, default 0
            Axis to shuffle along.
        device : device_like, optional
            Where to, for an integer x. An array stays where it is.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Negative x; a 0-d array; an axis out of range.

        Examples
        --------
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
        return self._shuffled(name, asarray(x, name=name), axis)

    def _shuffled(self, name: str, x: ndarray, axis: int) -> ndarray:
        if not x.ndim:
            raise ValueError(
                f"{name}: wants an integer or an array of at least one dimension, got a 0-d array "
                "of "
                f"{x.dtype}"
            )
        axis = normalize_axis(name, axis, x.ndim)
        n = x.shape[axis]
        return take(x, self._order(name, n, n, x._layout.device), axis=axis)

    @fast_path("x", source="self")
    def permuted(
        self,
        x: ArrayLike,
        axis: int | None = None,
        device: DeviceLike | None = None,
        *,
        out: ndarray | None = None,
    ) -> ndarray:
        """Return a copy of an array whose slices along an axis are each shuffled by themselves.

        Each slice takes the order of random 64-bit keys: every order is equally likely.

        Parameters
        ----------
        x : array_like
            Array of any shape and dtype.
        axis : int, optional
            Axis of the slices. None shuffles all elements together.
        device : device_like, optional
            Device of the result for an object that is not an array yet.
        out : ndarray, optional
            Array of x's shape that receives the result. It may be `x` itself.

        Returns
        -------
        ndarray
            The shuffled copy.

        Raises
        ------
        ValueError
            The array has no dimensions, the axis is out of range, or `out` has another shape.
        TypeError
            `out` has another dtype.

        Notes
        -----
        The gradient is g in the original order.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).permuted([[1, 2, 3], [4, 5, 6]], axis=1)
        >>> cm.sort(x, axis=1).tolist()
        [[1, 2, 3], [4, 5, 6]]
        """
        name = "random.permuted"
        x = x if isinstance(x, ndarray) else asarray(x, device=device, name=name)
        if not x.ndim:
            raise ValueError(
                f"{name}: wants an array of at least one dimension, got a 0-d array of {x.dtype}"
            )
        if out is not None:
            receiver(name, x, out)  # before a number is drawn
        if axis is None:
            y = self._shuffled(name, x.reshape(-1), 0).reshape(x.shape)
        else:
            axis = normalize_axis(name, axis, x.ndim)
            keys = self.integers(0, 1 << 64, x.shape, np.uint64, device=x.device)
            y = take_along_axis(x, argsort(keys, axis=axis), axis=axis)
        return y if out is None else deliver(name, y, out)

    @whole_draw
    def shuffle(self, x: ndarray | MutableSequence, axis: int = 0) -> None:
        """Shuffle an array in place along `axis`, or a list; slices stay whole.

        See `permutation`.

        Parameters
        ----------
        x : ndarray or MutableSequence
            Array of any shape and dtype; a list of anything takes the order of an array of its
            length.
        axis : int, default 0
            Axis of the operation. A list has one.

        Raises
        ------
        TypeError
            `x` is neither a cudamath array nor a list (`permutation` takes anything and returns a
            copy).
        ValueError
            A 0-d array; an axis out of range; memory that is read-only.
        RuntimeError
            An array whose gradient is being recorded.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.arange(5)
        >>> cm.random.default_rng(7).shuffle(x)
        >>> sorted(x.tolist())
        [0, 1, 2, 3, 4]
        """
        name = "random.shuffle"
        if isinstance(x, MutableSequence):
            normalize_axis(name, axis, 1)
            order = self._order(name, len(x), len(x), index_of(None)).tolist()
            for place, item in enumerate([x[i] for i in order]):
                x[place] = item
            return
        if not isinstance(x, ndarray):
            raise TypeError(
                f"{name}: wants a cudamath array or a list, which it shuffles in place, got "
                f"{type(x).__name__}; "
                "permutation returns a shuffled copy"
            )
        _check_writable(name, x)
        x[...] = self._shuffled(name, x, axis)

    @fast_path("a?", "p", source="self")
    def choice(
        self,
        a: ArrayLike,
        size: Size = None,
        replace: bool = True,
        p: ArrayLike | None = None,
        axis: int = 0,
        shuffle: bool = True,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw elements from `a` (from 0 .. a - 1 if `a` is an integer).

        Parameters
        ----------
        a : int or array
            What to draw from; of an array, slices along `axis`.
        size : int or tuple of int, optional
            Shape; by default what the parameters broadcast to, a 0-d array for floats. ; an array
            `a` keeps its device.
        replace : bool, default True
            Whether an element may come again.
        p : array-like, optional
            Probability of each element, adding up to 1 (within NumPy's tolerance: the root of the
            dtype's epsilon, float64 and lists 1e-6); equal ones by default. What they add up to is
            made 1. Up to 1024 of float32 or float64 in an array on the GPU are used there; others
            are read on the host: an array on a GPU is waited for. Without replacement, each next
            element is drawn with probabilities proportional to p among those left, on the host.
        axis : int, default 0
            Axis to draw along.
        shuffle : bool, default True
            For NumPy's sake; the order of what is drawn is random in any case.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device. ; an array `a` keeps its device.

        Returns
        -------
        ndarray
            The result.

        Raises
        ------
        ValueError
            Nothing to draw from; more samples than elements without replacement; a 0-d array; p of
            another length, negative or not adding up to 1 (used on the GPU: at the next
            synchronising call).

        Examples
        --------
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
            if not array.ndim:
                raise ValueError(
                    f"{name}: wants an integer or an array of at least one dimension, got a 0-d "
                    "array of "
                    f"{array.dtype}"
                )
            axis = normalize_axis(name, axis, array.ndim)
            n, place = array.shape[axis], array._layout.device
        shape = shape_of(name, size)
        count = math.prod(shape)
        if n < 1 and count:
            raise ValueError(f"{name}: wants something to draw from, got {n} elements")
        if not replace and count > n:
            raise ValueError(
                f"{name}: wants at most the {n} elements there are without replacement, got size "
                f"{shape}"
            )
        if p is not None:
            index = self._weighted(name, n, shape, replace, p, place)
        elif not count:
            index = empty(shape, _INT64, place)
        elif replace:
            index = self.integers(0, n, shape, device=device_of(place))
        else:
            index = self._order(name, n, count, place).reshape(shape)
        return index if array is None else take(array, index, axis=axis)

    def _weighted(
        self, name: str, n: int, shape: tuple[int, ...], replace: bool, p: Any, place: int
    ) -> ndarray:
        count, x = math.prod(shape), p._layout if isinstance(p, ndarray) and replace else None
        if (
            x is not None
            and (x.device, x.shape) == (place, (n,))
            and 0 < n <= _WEIGHED[0]
            and x.dtype in _WEIGHED[1]
        ):
            bounds = _thresholds(p)
        else:
            floating = (
                isinstance(p, (ndarray, np.ndarray)) and p.dtype in FLOATING
            )  # whose dtype says how well they add up
            weights = on_host(name, "p", p, None if floating else np.float64)
            if weights.shape != (n,):
                raise ValueError(f"{name}: wants p of shape ({n},), got {weights.shape}")
            bounds = weights = lazy("cpu", "random.thresholds" if replace else "random.checked")(
                weights
            )
        if replace:
            bounds = bounds if isinstance(bounds, ndarray) else upload(bounds, place)
            return drawn(_choice, self.take(name, -(-count // 2), place), (), bounds, shape=shape)
        if (found := np.count_nonzero(weights)) < count:
            raise ValueError(
                f"{name}: wants at least {count} elements with p > 0 without replacement, got "
                f"{found}"
            )
        # Exponential times of rate p: the order of arrival is that of successive draws (Efraimidis
        # and Spirakis, 2006).
        u = self.uniform(size=n, dtype=np.float64, device="cpu").to_numpy()
        with silence():
            order = np.argsort(-np.log1p(-u) / weights, kind="stable")
        return upload(order[:count].astype(np.int64).reshape(shape), place)
