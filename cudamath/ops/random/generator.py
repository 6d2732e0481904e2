"""The generator behind `cudamath.random`: all its distributions, and those of several
dimensions."""

from __future__ import annotations

import numpy as np

from ...core import dtypes
from ...core.array import ndarray
from ...core.asarray import asarray, upload
from ...core.devices import device_of, index_of
from ...core.dispatch.checks import as_numbers
from ...core.dispatch.fast_path import fast_path
from ...core.dispatch.op import FLOATING
from ...core.typing import ArrayLike, DeviceLike, DTypeLike
from ..elementwise import exp
from ..linalg.products import matmul
from ..reduce import max as largest
from ..reduce import sum as total
from .bit_stream import Parameters, Size, on_host, shape_of, wanted_dtype, whole_draw
from .bit_stream import drawn as drawn
from .bit_stream import probability as probability
from .composed import Derived

__all__ = ["Generator"]


class Generator(Derived):
    """A source of random arrays, made with `cm.random.default_rng(seed)`.

    Draws go to the default device (or to `device`) and do not depend on it. Several threads may use
    one generator: each draw takes its own part of the sequence. Draws in a CUDA graph continue the
    sequence at each replay, as the function would without a graph; a generator that is made inside
    the function begins again each time.

    A forked process continues the sequence from where its parent was: both draw the same numbers,
    as with NumPy's generators. Give each process a generator of its own (`spawn`).

    Parameters
    ----------
    key : int
        First 64 bits of the seed.
    stream : int, default 0
        Last 64 bits of the seed.

    Attributes
    ----------
    state : dict
        {"key", "stream", "offset", "children"}: four integers that say everything. Assign such a
        dict to go back.

    Examples
    --------
    >>> import cudamath as cm
    >>> rng = cm.random.default_rng(7)
    >>> before = rng.state
    >>> a = rng.integers(0, 100, 4)
    >>> rng.state = before
    >>> bool((rng.integers(0, 100, 4) == a).all())
    True
    """

    __slots__ = ()

    @fast_path("alpha", source="self")
    def dirichlet(
        self,
        alpha: ArrayLike,
        size: Size = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Dirichlet samples: points of k coordinates >= 0 that add up to 1.

        Gamma samples of shapes `alpha`, divided by their sum; computed from their logarithms, so
        that small shapes are right too.

        Parameters
        ----------
        alpha : array, (..., k)
            > 0.
        size : int or tuple of int, optional
            Shape of the draws, before the shape of alpha.
        dtype : dtype_like, optional
            Dtype float16, bfloat16, float32 or float64; by default that of array parameters, else
            the default dtype.
        device : device_like, optional
            Where to create the array; by default where array parameters are, else the default
            device. The samples are the same on every device.

        Returns
        -------
        ndarray
            Shape (*size, *alpha.shape).

        Raises
        ------
        ValueError
            Alpha without an axis, or not > 0; negative sizes.
        TypeError
            A dtype that is not floating-point.

        Notes
        -----
        The function is not differentiable.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).dirichlet([1.0, 2.0, 3.0], 4)
        >>> x.shape, bool((abs(x.sum(-1) - 1) < 1e-12).all())
        ((4, 3), True)
        """
        name = "random.dirichlet"
        shape = alpha.shape if hasattr(alpha, "shape") else on_host(name, "alpha", alpha).shape
        if not shape:
            raise ValueError(f"{name}: wants alpha of at least one dimension, got {alpha}")
        full = (*shape_of(name, size), *shape)
        p = Parameters(name, full, dtype, device, {"alpha": "positive"}, alpha, composed=True)
        x = self._gamma(p, 0, True)
        e = exp(x - largest(x, axis=-1, keepdims=True)) if shape[-1] else x
        return p.rounded(e / total(e, axis=-1, keepdims=True))

    @whole_draw
    def multivariate_normal(
        self,
        mean: ArrayLike,
        cov: ArrayLike,
        size: Size = None,
        check_valid: str = "warn",
        tol: float = 1e-8,
        *,
        method: str = "svd",
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw normal vectors of mean `mean` and covariance `cov`.

        Mean + z A, where A^T A = cov and z is standard normal.

        Parameters
        ----------
        mean : array-like, (k,)
            On a GPU or not.
        cov : array-like, (k, k)
            Symmetric, without negative eigenvalues. It is read and factored on the host, in
            float64: an array on a GPU is waited for.
        size : int or tuple of int, optional
            Shape of the draws.
        check_valid : {"warn", "raise", "ignore"}, default "warn"
            What to do if cov is not a covariance within `tol`.
        tol : float, default 1e-8
            Absolute and relative.
        method : {"svd", "eigh", "cholesky"}, default "svd"
            How A is found: sqrt(S) V^T, sqrt(W) V^T, or the transposed Cholesky factor (for
            definite cov only).
        dtype : dtype_like, optional
            Dtype float16, bfloat16, float32 or float64; by default that of array parameters, else
            the default dtype.
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
            Shapes that do not fit; check_valid or method unknown; a covariance that is none, with
            "raise".
        TypeError
            A dtype that is not floating-point.
        numpy.linalg.LinAlgError
            A cov that has no Cholesky factor.

        Notes
        -----
        Gradient: with respect to `mean`.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.default_rng(7).multivariate_normal([1.0, -1.0], [[2.0, 0.6], [0.6, 1.0]], 20_000)
        >>> x.shape, bool(abs((x[:, 0] * x[:, 1]).mean() + 1 - 0.6) < 0.06)
        ((20000, 2), True)
        """  # noqa: E501
        import warnings

        name = "random.multivariate_normal"
        if check_valid not in ("warn", "raise", "ignore"):
            raise ValueError(
                f"{name}: wants check_valid as 'warn', 'raise' or 'ignore', got {check_valid!r}"
            )
        if method not in ("svd", "eigh", "cholesky"):
            raise ValueError(f"{name}: wants method as 'svd', 'eigh' or 'cholesky', got {method!r}")
        place = (
            mean._layout.device
            if isinstance(mean, ndarray) and device is None
            else index_of(device)
        )
        given = (
            mean.dtype
            if isinstance(mean, ndarray) and mean.dtype in FLOATING
            else dtypes.default_float()
        )
        kind = wanted_dtype(name, dtype, FLOATING, given)
        centre = asarray(mean, kind, device_of(place), name=name)
        host = on_host(name, "cov", cov, np.float64)
        (tol,) = as_numbers(name, "tol as a real number", tol)
        k = centre.shape[0] if centre.ndim == 1 else -1
        if host.shape != (k, k):
            raise ValueError(
                f"{name}: wants mean of shape (k,) and cov of shape (k, k), got {centre.shape} "
                f"and {host.shape}"
            )
        if method == "cholesky":
            factor, back = np.linalg.cholesky(host).T, host
        elif method == "eigh":
            weights, vectors = np.linalg.eigh(host)
            factor = np.sqrt(np.abs(weights))[:, None] * vectors.T
            back = (vectors * weights.clip(0)) @ vectors.T
        else:
            _, weights, rows = np.linalg.svd(host)
            factor = np.sqrt(weights)[:, None] * rows
            back = (rows.T * weights) @ rows
        if check_valid != "ignore" and not (
            np.allclose(back, host, tol, tol) and np.allclose(host, host.T, tol, tol)
        ):
            if check_valid == "raise":
                raise ValueError(
                    f"{name}: wants a symmetric cov without negative eigenvalues, got {host}"
                )
            warnings.warn(
                f"{name}: cov is not symmetric, or has negative eigenvalues",
                RuntimeWarning,
                stacklevel=2,
            )
        z = self.normal(
            0.0, 1.0, (*shape_of(name, size), k), dtypes.compute_dtype(kind), device_of(place)
        )
        x = matmul(z, upload(factor.astype(z.dtype), place))
        return asarray(x + centre, kind)
