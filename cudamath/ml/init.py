"""`cudamath.ml.init`: initial values of parameters, with the fans and gains of torch.nn.init."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.array import ndarray
from ..core.dispatch.checks import as_numbers, speaks_for
from ..core.dispatch.op import FLOATING, Op
from ..core.public_names import public_dir
from ..core.scalar import inside
from ..core.shapes import normalize_shape
from ..core.typing import DeviceLike, DTypeLike
from ..ops.creation import full
from ..ops.linalg.spectral import qr
from ..ops.random.generator import Generator
from ..ops.random.module import default_generator
from ..ops.shape import diagonal
from ..ops.where import where

__all__ = [
    "constant",
    "kaiming_normal",
    "kaiming_uniform",
    "normal",
    "ones",
    "orthogonal",
    "trunc_normal",
    "uniform",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

__dir__ = public_dir(__name__)

Shape = int | Sequence[int]


def _fans(name: str, shape: Shape) -> tuple[tuple[int, ...], int, int]:
    """(shape, fan_in, fan_out) of a weight of shape (out, in, *kernel)."""
    shape = normalize_shape(name, shape)
    if len(shape) < 2:
        raise ValueError(
            f"{name}: wants a shape of at least two dimensions (out, in, ...), got {shape}"
        )
    receptive = math.prod(shape[2:])
    return shape, shape[1] * receptive, shape[0] * receptive


def _gain(name: str, nonlinearity: str, a: float) -> float:
    if type(a) not in (int, float):
        (a,) = as_numbers(name, "a as a real number", a)
    gains = {
        "linear": 1.0,
        "sigmoid": 1.0,
        "tanh": 5 / 3,
        "relu": math.sqrt(2),
        "selu": 0.75,
        "leaky_relu": math.sqrt(2 / (1 + a * a)),
    }
    if nonlinearity not in gains:
        raise ValueError(
            f"{name}: wants nonlinearity to be one of {', '.join(gains)}, got {nonlinearity!r}"
        )
    return gains[nonlinearity]


def _kaiming(
    name: str, shape: Shape, a: float, mode: str, nonlinearity: str
) -> tuple[tuple[int, ...], float]:
    shape, fan_in, fan_out = _fans(name, shape)
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"{name}: wants mode 'fan_in' or 'fan_out', got {mode!r}")
    fan = fan_in if mode == "fan_in" else fan_out
    return shape, _gain(name, nonlinearity, a) / math.sqrt(max(fan, 1))


def _generator(name: str, rng: Generator | None) -> Generator:
    if rng is not None and not hasattr(
        rng, "uniform"
    ):  # whatever draws numbers as one does will do
        raise TypeError(
            f"{name}: wants rng as a cm.random.Generator, got {type(rng).__name__} {rng!r:.60}"
        )
    return default_generator() if rng is None else rng


@speaks_for("kaiming_normal")
def kaiming_normal(
    shape: Shape,
    *,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    dtype: DTypeLike = "float32",
    device: DeviceLike | None = None,
    rng: Generator | None = None,
) -> ndarray:
    """Draw normal values of standard deviation gain / sqrt(fan).

    This keeps the variance through layers with that nonlinearity.

    fan_in = shape[1] prod(shape[2:]), fan_out = shape[0] prod(shape[2:]); gain = sqrt(2 / (1 +
    a^2)) for leaky_relu of slope `a`, and so sqrt(2) by default, as for relu.

    Parameters
    ----------
    shape : sequence of int
        (out, in, *kernel): two or more dimensions.
    a : float, default 0.0
        Negative slope of the leaky_relu that follows.
    mode : {"fan_in", "fan_out"}, default "fan_in"
        Whether to keep the variance forward or backward.
    nonlinearity : str, default "leaky_relu"
        Linear, sigmoid, tanh, relu, leaky_relu or selu.
    dtype : floating-point dtype, default "float32"
        The default is float32.
    device : device_like, optional
        Where; the default device unless given.
    rng : cm.random.Generator, optional
        What draws; by default the generator behind the functions of `cm.random`.

    Returns
    -------
    ndarray
        Of that shape and dtype; the same values from the same seed on every device.

    Raises
    ------
    ValueError
        Fewer than two dimensions; an unknown mode or nonlinearity.
    TypeError
        A dtype that is not floating-point.

    Notes
    -----
    Gradient: none: initial values are constants.

    References
    ----------
    .. [1] He et al., "Delving deep into rectifiers", 2015.

    Examples
    --------
    >>> import cudamath as cm
    >>> w = cm.ml.init.kaiming_normal((256, 128), rng=cm.random.default_rng(0))
    >>> abs(float(w.std()) - (2 / 128) ** 0.5) < 0.002
    True
    """
    shape, std = _kaiming("kaiming_normal", shape, a, mode, nonlinearity)
    return _generator("kaiming_normal", rng).normal(0.0, std, shape, dtype, device)


@speaks_for("kaiming_uniform")
def kaiming_uniform(
    shape: Shape,
    *,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    dtype: DTypeLike = "float32",
    device: DeviceLike | None = None,
    rng: Generator | None = None,
) -> ndarray:
    """Draw uniform values in (-b, b), b = gain sqrt(3 / fan).

    The standard deviation is that of `kaiming_normal`.

    Parameters
    ----------
    shape : sequence of int
        (out, in, *kernel): two or more dimensions.
    a : float, default 0.0
        Negative slope of the leaky_relu that follows.
    mode : {"fan_in", "fan_out"}, default "fan_in"
        Whether to keep the variance forward or backward.
    nonlinearity : str, default "leaky_relu"
        Linear, sigmoid, tanh, relu, leaky_relu or selu.
    dtype : floating-point dtype, default "float32"
        The default is float32.
    device : device_like, optional
        Where; the default device unless given.
    rng : cm.random.Generator, optional
        What draws; by default the generator behind the functions of `cm.random`.

    Returns
    -------
    ndarray
        Of that shape and dtype; the same values from the same seed on every device.

    Raises
    ------
    ValueError
        Fewer than two dimensions; an unknown mode or nonlinearity.
    TypeError
        A dtype that is not floating-point.

    Notes
    -----
    The gradient is that of `kaiming_normal`.

    Examples
    --------
    >>> import cudamath as cm
    >>> w = cm.ml.init.kaiming_uniform((64, 3, 5, 5))
    >>> float(abs(w).max()) <= (6 / 75) ** 0.5
    True
    """
    shape, std = _kaiming("kaiming_uniform", shape, a, mode, nonlinearity)
    bound = math.sqrt(3) * std
    return _generator("kaiming_uniform", rng).uniform(-bound, bound, shape, dtype, device)


@speaks_for("xavier_normal")
def xavier_normal(
    shape: Shape,
    *,
    gain: float = 1.0,
    dtype: DTypeLike = "float32",
    device: DeviceLike | None = None,
    rng: Generator | None = None,
) -> ndarray:
    """Normal values of standard deviation gain sqrt(2 / (fan_in + fan_out)).

    Parameters
    ----------
    shape : sequence of int
        (out, in, *kernel): two or more dimensions.
    gain : float, default 1.0
        Factor for the nonlinearity that follows, >= 0.
    dtype : floating-point dtype, default "float32"
        The default is float32.
    device : device_like, optional
        Where; the default device unless given.
    rng : cm.random.Generator, optional
        What draws; by default the generator behind the functions of `cm.random`.

    Returns
    -------
    ndarray
        Array of that shape and dtype. The same seed gives the same values on every device.

    Raises
    ------
    ValueError
        Fewer than two dimensions; an unknown mode or nonlinearity.
    TypeError
        A dtype that is not floating-point.

    Notes
    -----
    Gradient: as for `kaiming_normal`.

    References
    ----------
    .. [1] Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
       networks", 2010.

    Examples
    --------
    >>> import cudamath as cm
    >>> w = cm.ml.init.xavier_normal((300, 200), rng=cm.random.default_rng(0))
    >>> abs(float(w.std()) - (2 / 500) ** 0.5) < 0.002
    True
    """
    shape, fan_in, fan_out = _fans("xavier_normal", shape)
    return _generator("xavier_normal", rng).normal(
        0.0, gain * math.sqrt(2 / max(fan_in + fan_out, 1)), shape, dtype, device
    )


@speaks_for("xavier_uniform")
def xavier_uniform(
    shape: Shape,
    *,
    gain: float = 1.0,
    dtype: DTypeLike = "float32",
    device: DeviceLike | None = None,
    rng: Generator | None = None,
) -> ndarray:
    """Uniform values in (-b, b), b = gain sqrt(6 / (fan_in + fan_out)).

    Parameters
    ----------
    shape : sequence of int
        (out, in, *kernel): two or more dimensions.
    gain : float, default 1.0
        >= 0, a factor for the nonlinearity that follows; all else, Returns, Raises,.
    dtype : floating-point dtype, default "float32"
        The default is float32.
    device : device_like, optional
        Where; the default device unless given.
    rng : cm.random.Generator, optional
        What draws; by default the generator behind the functions of `cm.random`.

    Returns
    -------
    ndarray
        Of that shape and dtype; the same values from the same seed on every device.

    Raises
    ------
    ValueError
        Fewer than two dimensions; an unknown mode or nonlinearity.
    TypeError
        A dtype that is not floating-point.

    Notes
    -----
    The gradient is that of `xavier_normal`.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(abs(cm.ml.init.xavier_uniform((300, 200))).max()) <= (6 / 500) ** 0.5
    True
    """
    shape, fan_in, fan_out = _fans("xavier_uniform", shape)
    bound = gain * math.sqrt(6 / max(fan_in + fan_out, 1))
    return _generator("xavier_uniform", rng).uniform(-bound, bound, shape, dtype, device)


@speaks_for("normal")
def normal(
    shape: Shape,
    *,
    mean: float = 0.0,
    std: float = 1.0,
    dtype: DTypeLike = "float32",
    device: DeviceLike | None = None,
    rng: Generator | None = None,
) -> ndarray:
    """Normal values of this mean and standard deviation, float32 by default.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the result, one length or several, >= 0.
    mean : float, default 0.0
        Mean and standard deviation, std >= 0.
    std : float, default 1.0
        Mean and standard deviation, std >= 0.
    dtype : floating-point dtype, default "float32"
        The default is float32.
    device : device_like, optional
        Where; the default device unless given.
    rng : cm.random.Generator, optional
        What draws; by default the generator behind the functions of `cm.random`.

    Returns
    -------
    ndarray
        Array of that shape.

    Raises
    ------
    ValueError
        A length or the standard deviation is negative.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.init.normal((2, 3), std=0.02).dtype
    dtype('float32')
    """
    return _generator("normal", rng).normal(mean, std, shape, dtype, device)


@speaks_for("uniform")
def uniform(
    shape: Shape,
    *,
    low: float = 0.0,
    high: float = 1.0,
    dtype: DTypeLike = "float32",
    device: DeviceLike | None = None,
    rng: Generator | None = None,
) -> ndarray:
    """Uniform values in [low, high), float32 by default.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the result, one length or several, >= 0.
    low : float, default 0.0
        Bounds of the values, low <= high.
    high : float, default 1.0
        Bounds of the values, low <= high.
    dtype : floating-point dtype, default "float32"
        The default is float32.
    device : device_like, optional
        Where; the default device unless given.
    rng : cm.random.Generator, optional
        What draws; by default the generator behind the functions of `cm.random`.

    Returns
    -------
    ndarray
        Array of that shape.

    Raises
    ------
    ValueError
        A length is negative, or `low` is greater than `high`.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> w = cm.ml.init.uniform((2, 3), low=-0.1, high=0.1)
    >>> float(abs(w).max()) <= 0.1
    True
    """
    return _generator("uniform", rng).uniform(low, high, shape, dtype, device)


@speaks_for("trunc_normal")
def trunc_normal(
    shape: Shape,
    *,
    mean: float = 0.0,
    std: float = 1.0,
    low: float = -2.0,
    high: float = 2.0,
    dtype: DTypeLike = "float32",
    device: DeviceLike | None = None,
    rng: Generator | None = None,
) -> ndarray:
    """Normal values of this mean and standard deviation, truncated to [low, high].

    A uniform number is sent through the inverse of the distribution function: the same numbers on
    CPU and GPU.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the result, one length or several, >= 0.
    mean : float, default 0.0
        Mean and standard deviation of the distribution before it is truncated, std > 0.
    std : float, default 1.0
        Mean and standard deviation of the distribution before it is truncated, std > 0.
    low : float, default -2.0
        Bounds of the values, low < high.
    high : float, default 2.0
        Bounds of the values, low < high.
    dtype : floating-point dtype, default "float32"
        The default is float32.
    device : device_like, optional
        Where; the default device unless given.
    rng : cm.random.Generator, optional
        What draws; by default the generator behind the functions of `cm.random`.

    Returns
    -------
    ndarray
        Array of that shape.

    Raises
    ------
    ValueError
        A length is negative, the bounds or the standard deviation are not valid, or the bounds are
        so far out that in float64 nothing of the distribution lies between them.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> rng = cm.random.default_rng(0)
    >>> w = cm.ml.init.trunc_normal((1000,), std=0.02, low=-0.04, high=0.04, rng=rng)
    >>> float(abs(w).max()) <= 0.04, 0.016 < float(w.std()) < 0.019
    (True, True)
    """
    if not low < high or not std > 0:
        raise ValueError(
            f"trunc_normal: wants low < high and std > 0, got low={low}, high={high}, std={std}"
        )
    first, last = (math.erf((bound - mean) / (std * math.sqrt(2))) for bound in (low, high))
    if first == last:
        raise ValueError(
            f"trunc_normal: nothing of a normal distribution of mean {mean} and std {std} lies in "
            f"{low} ... {high}"
        )
    shape = normalize_shape("trunc_normal", shape)
    dtype = _floating("trunc_normal", dtype)
    generator = _generator("trunc_normal", rng)
    start = generator._offset
    try:
        with inside():
            p = generator.uniform(first, last, shape, "float64", device)
        scalars = (std * math.sqrt(2), float(mean), float(low), float(high))
        return _truncated(p, scalars=scalars, dtype=dtype)
    except BaseException:
        generator.return_to(start)
        raise


_truncated = Op(
    "trunc_normal", cpu="truncated_normal.truncated", cuda="random.truncated_normal.truncated"
)


@speaks_for("orthogonal")
def orthogonal(
    shape: Shape,
    *,
    gain: float = 1.0,
    dtype: DTypeLike = "float32",
    device: DeviceLike | None = None,
    rng: Generator | None = None,
) -> ndarray:
    """Draw a matrix whose rows (or columns, if there are fewer) are orthogonal.

    The matrix (out, in * kernel), seen in `shape`, has rows of the length `gain`. It is the factor
    Q of a normal matrix, drawn uniformly from all such matrices.

    Parameters
    ----------
    shape : int or sequence of int
        Shape (out, in, *kernel) of two or more dimensions.
    gain : float, default 1.0
        Length of the rows or columns.
    dtype : floating-point dtype, default "float32"
        The default is float32.
    device : device_like, optional
        Where; the default device unless given.
    rng : cm.random.Generator, optional
        What draws; by default the generator behind the functions of `cm.random`.

    Returns
    -------
    ndarray
        Array of that shape.

    Raises
    ------
    ValueError
        There are fewer than two dimensions.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The result is a constant and has no gradient.

    References
    ----------
    .. [1] Saxe, McClelland & Ganguli (2014).

    Examples
    --------
    >>> import cudamath as cm
    >>> w = cm.ml.init.orthogonal((3, 5), rng=cm.random.default_rng(0))
    >>> bool(abs(w @ w.T - cm.eye(3, dtype="float32")).max() < 1e-6)
    True
    """
    shape, _, _ = _fans("orthogonal", shape)
    dtype = _floating("orthogonal", dtype)
    rows, columns = shape[0], math.prod(shape[1:])
    wide = dtypes.compute_dtype(dtype)
    generator = _generator("orthogonal", rng)
    start = generator._offset
    try:
        a = generator.normal(0.0, 1.0, (max(rows, columns), min(rows, columns)), wide, device)
        q, r = qr(a)
        q = q * where(diagonal(r) < 0, -1, 1).astype(wide)  # else not all are equally likely
        q = q if rows >= columns else q.T
        return (q.reshape(shape) * gain).astype(dtype, copy=False)
    except BaseException:
        generator.return_to(start)
        raise


def _floating(name: str, dtype: Any) -> np.dtype:
    dtype = dtypes.as_dtype(dtype, name)
    if dtype not in FLOATING:
        raise TypeError(f"{name}: wants a floating-point dtype, got {dtype}")
    return dtype


def _full(name: str, shape: Shape, value: float, dtype: Any, device: Any) -> ndarray:
    return full(normalize_shape(name, shape), value, _floating(name, dtype), device=device)


@speaks_for("constant")
def constant(
    shape: Shape, value: float, *, dtype: DTypeLike = "float32", device: DeviceLike | None = None
) -> ndarray:
    """Make an array of one value, float32 by default.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the result, one length or several, >= 0.
    value : float
        Value of every element.
    dtype : floating-point dtype, default "float32"
        The default is float32.
    device : device_like, optional
        Where; the default device unless given.

    Returns
    -------
    ndarray
        Array of that shape.

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        The dtype is not supported.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.init.constant(2, 0.5)
    array([0.5, 0.5], dtype=float32, device='cpu')
    """
    return _full("init.constant", shape, value, dtype, device)


def zeros(
    shape: Shape, *, dtype: DTypeLike = "float32", device: DeviceLike | None = None
) -> ndarray:
    """Make an array of zeros, float32 by default.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the result, one length or several, >= 0.
    dtype : floating-point dtype, default "float32"
        The default is float32.
    device : device_like, optional
        Where; the default device unless given.

    Returns
    -------
    ndarray
        Array of that shape.

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        The dtype is not supported.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.init.zeros(2)
    array([0., 0.], dtype=float32, device='cpu')
    """
    return _full("init.zeros", shape, 0.0, dtype, device)


def ones(
    shape: Shape, *, dtype: DTypeLike = "float32", device: DeviceLike | None = None
) -> ndarray:
    """Make an array of ones, float32 by default.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the result, one length or several, >= 0.
    dtype : floating-point dtype, default "float32"
        The default is float32.
    device : device_like, optional
        Where; the default device unless given.

    Returns
    -------
    ndarray
        Array of that shape.

    Raises
    ------
    ValueError
        A length is negative.
    TypeError
        The dtype is not supported.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.init.ones(2)
    array([1., 1.], dtype=float32, device='cpu')
    """
    return _full("init.ones", shape, 1.0, dtype, device)
