"""`cudamath.random`: random arrays by Philox4x32-10, the same numbers from the same seed on every
device.

    rng = cm.random.default_rng(7)
    rng.normal(size=(2, 3))

A generator is three numbers: key and stream (128 bits together, from the seed) and an offset, which
every draw moves on. Element i of a draw is a function of (key, stream, offset, i) alone: on the CPU
and on any GPU, whatever the grid. Uniforms, integers, Bernoulli trials, choices and permutations
are equal bit for bit; so are normals, whose logarithm, sine and cosine are this package's own.
(`kernels/random/distributions.py` explains how.)
"""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.array import ndarray
from ...core.dispatch.deferred_code import deferred
from ...core.shapes import as_integer
from ...core.typing import ArrayLike, DeviceLike, DTypeLike, Shape
from ...runtime.stream import refuse_capture
from .bit_stream import MASK
from .generator import Generator

__all__ = [
    "Generator",
    "RandomState",
    "bernoulli",
    "beta",
    "binomial",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "default_rng",
    "dirichlet",
    "exponential",
    "f",
    "gamma",
    "geometric",
    "gumbel",
    "hypergeometric",
    "integers",
    "laplace",
    "logistic",
    "lognormal",
    "logseries",
    "multinomial",
    "multivariate_normal",
    "negative_binomial",
    "noncentral_chisquare",
    "noncentral_f",
    "normal",
    "pareto",
    "permutation",
    "permuted",
    "poisson",
    "power",
    "rand",
    "randint",
    "randn",
    "random",
    "random_sample",
    "ranf",
    "rayleigh",
    "sample",
    "seed",
    "shuffle",
    "standard_cauchy",
    "standard_exponential",
    "standard_gamma",
    "standard_normal",
    "standard_t",
    "student_t",
    "triangular",
    "uniform",
    "vonmises",
    "wald",
    "weibull",
    "zipf",
]


def default_rng(seed: Any = None) -> Generator:
    """A new generator.

    Parameters
    ----------
    seed : int, sequence of ints, numpy.random.SeedSequence or Generator, Generator, optional
        0 <= seed < 2^128: its low and high 64 bits are the key and the stream, so that different
        seeds have nothing in common. Several: 128 bits that NumPy's SeedSequence mixes from them.
        None: from the operating system's entropy. A generator is returned as it is.

    Returns
    -------
    Generator
        The generator.

    Raises
    ------
    ValueError
        A seed out of range.
    TypeError
        A seed that is no integer, or integers.
    RuntimeError
        None while a CUDA graph is captured.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.random.default_rng(7).integers(0, 1000, 3)
    array([954, 750, 114], device='cpu')
    """
    if isinstance(seed, Generator):
        return seed
    whole = seed is None or isinstance(seed, int)  # which needs no import of numpy.random
    if not whole and isinstance(seed, np.random.Generator | np.random.RandomState):  # draws one
        return default_rng(int.from_bytes(seed.bytes(16)))
    if seed is None:
        refuse_capture(
            "random.default_rng",
            "its entropy would be the same at every replay; make the generator outside",
        )
        seed = int.from_bytes(os.urandom(16))
    if (
        hasattr(seed, "generate_state")
        or isinstance(seed, list | tuple | range)
        or isinstance(seed, np.ndarray)
        and seed.ndim
    ):
        seed = _mixed(seed)
    seed = as_integer("random.default_rng", "a seed", seed)
    if not 0 <= seed < 1 << 128:
        raise ValueError(f"random.default_rng: wants a seed in [0, 2^128), got {seed}")
    return Generator(seed & MASK, seed >> 64)


def _mixed(seeds: Any) -> int:
    """128 bits of a SeedSequence, or of the one that integers make."""
    if not hasattr(seeds, "generate_state"):
        try:
            seeds = np.random.SeedSequence(seeds)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"random.default_rng: a seed must be an integer, or integers >= 0, got {seeds!r} "
                f"({error})"
            ) from None
    return int.from_bytes(seeds.generate_state(4).astype("<u4").tobytes(), "little")


class RandomState(Generator):
    """A `Generator` with the methods of NumPy's older class of this name.

    Its numbers are those of `default_rng(seed)`.

    Parameters
    ----------
    seed : int, sequence of ints, numpy.random.SeedSequence or Generator, Generator, optional
        0 <= seed < 2^128: its low and high 64 bits are the key and the stream, so that different
        seeds have nothing in common. Several: 128 bits that NumPy's SeedSequence mixes from them.
        None: from the operating system's entropy. A generator is returned as it is.

    Raises
    ------
    ValueError
        A seed out of range.
    TypeError
        A seed that is no integer, or integers.
    RuntimeError
        None while a CUDA graph is captured.

    Examples
    --------
    >>> import cudamath as cm
    >>> rng = cm.random.RandomState(7)
    >>> rng.randn(2, 3).shape, rng.randint(10, size=4).shape
    ((2, 3), (4,))
    """

    __slots__ = ()

    def __init__(self, seed: Any = None):
        found = default_rng(seed)
        super().__init__(found._key, found._stream)

    def seed(self, seed: Any = None) -> None:
        """Start again from a seed (see `default_rng`).

        Parameters
        ----------
        seed : object, optional
            Seed, as for `default_rng`.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.seed(3)
        >>> a = cm.random.rand(4)
        >>> cm.random.seed(3)
        >>> bool((a == cm.random.rand(4)).all())
        True
        """
        self.state = default_rng(seed).state

    def rand(
        self, *shape: int, dtype: DTypeLike | None = None, device: DeviceLike | None = None
    ) -> ndarray:
        """Draw uniform samples in [0, 1) of a shape: `random(shape)`.

        Parameters
        ----------
        *shape : int
            Lengths of the axes.
        dtype : dtype_like, optional
            Dtype of the result.
        device : device_like, optional
            Device of the result. The default is the default device.

        Returns
        -------
        ndarray
            The result.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.rand(2, 3).shape
        (2, 3)
        """
        return self.random(shape, dtype, device)

    def randn(
        self, *shape: int, dtype: DTypeLike | None = None, device: DeviceLike | None = None
    ) -> ndarray:
        """Draw normal samples of mean 0 and deviation 1 of a shape: `standard_normal(shape)`.

        Parameters
        ----------
        *shape : int
            Lengths of the axes.
        dtype : dtype_like, optional
            Dtype of the result.
        device : device_like, optional
            Device of the result. The default is the default device.

        Returns
        -------
        ndarray
            The result.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.randn(2, 3).shape
        (2, 3)
        """
        return self.normal(0.0, 1.0, shape, dtype, device)

    def randint(
        self,
        low: ArrayLike,
        high: ArrayLike | None = None,
        size: Shape | None = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> ndarray:
        """Draw integers in [low, high), or in [0, low): NumPy's older name of `integers`.

        `integers(low, high, size)` by NumPy's older name.

        Parameters
        ----------
        low : array_like
            Lower bound of the integers, or the upper bound if `high` is None.
        high : array_like, optional
            Upper bound of the integers, which is exclusive.
        size : int or sequence of int, optional
            Shape of the result. The default is the shape to which the parameters broadcast.
        dtype : dtype_like, optional
            Dtype of the result.
        device : device_like, optional
            Device of the result. The default is the default device.

        Returns
        -------
        ndarray
            The result.

        Examples
        --------
        >>> import cudamath as cm
        >>> x = cm.random.randint(10, size=100)
        >>> bool((x >= 0).all() and (x < 10).all())
        True
        """
        return self.integers(low, high, size, np.int64 if dtype is None else dtype, device=device)

    def random_sample(
        self, size: Shape | None = None, *, device: DeviceLike | None = None
    ) -> ndarray:
        """Draw uniform samples in [0, 1): NumPy's older name of `random`.

        Parameters
        ----------
        size : int or sequence of int, optional
            Shape of the result. The default is the shape to which the parameters broadcast.
        device : device_like, optional
            Device of the result. The default is the default device.

        Returns
        -------
        ndarray
            The result.

        Examples
        --------
        >>> import cudamath as cm
        >>> cm.random.random_sample((2, 3)).shape
        (2, 3)
        """
        return self.random(size, device=device)


_default: RandomState | None = None


def default_generator() -> RandomState:
    """The generator behind the functions of this module; seeded by the operating system unless
    `seed` was called."""
    global _default
    if _default is None:
        _default = RandomState()
    return _default


def _of_module(name: str) -> Callable[..., Any]:
    """The function that draws by a method of the module's generator. It is written out with the
    method's parameters: to pass on *args and **kwargs would cost the host a tenth of a draw."""
    method = getattr(RandomState, name)
    draw: Any = functools.update_wrapper(deferred(name, _bind, method), method)
    draw.__module__, draw.__qualname__ = (
        __name__,
        name,
    )  # where pickle finds it, and what Python's own errors call it
    draw.__wrapped__ = types.MethodType(method, RandomState)  # its signature has no self
    return draw


def _bind(draw: types.FunctionType, method: Callable) -> Callable:
    """Give a function of the module its code, and return it."""
    name = draw.__name__
    parameters = list(inspect.signature(method).parameters.values())[1:]
    bare = inspect.Signature([p.replace(annotation=p.empty) for p in parameters])
    written: dict[Any, str] = {
        inspect.Parameter.KEYWORD_ONLY: "{0}={0}",
        inspect.Parameter.VAR_POSITIONAL: "*{0}",
    }
    passed = ", ".join([written.get(p.kind, "{0}").format(p.name) for p in parameters])
    namespace = draw.__globals__
    namespace.update(_method=method, _generator=default_generator)
    made: dict[str, Any] = {}
    source = f"def {name}{bare}:\n    return _method(_generator(), {passed})"
    exec(
        compile(source, "<cudamath random>", "exec"), namespace, made
    )  # whose name says to user_place that it is ours
    template = made[name]
    # the code last: from then on another thread may call the function
    draw.__defaults__, draw.__kwdefaults__ = template.__defaults__, template.__kwdefaults__
    draw.__code__ = template.__code__
    return draw


bernoulli = _of_module("bernoulli")
beta = _of_module("beta")
binomial = _of_module("binomial")
categorical = _of_module("categorical")
cauchy = _of_module("cauchy")
chisquare = _of_module("chisquare")
choice = _of_module("choice")
dirichlet = _of_module("dirichlet")
exponential = _of_module("exponential")
f = _of_module("f")
gamma = _of_module("gamma")
geometric = _of_module("geometric")
gumbel = _of_module("gumbel")
hypergeometric = _of_module("hypergeometric")
integers = _of_module("integers")
laplace = _of_module("laplace")
logistic = _of_module("logistic")
lognormal = _of_module("lognormal")
logseries = _of_module("logseries")
multinomial = _of_module("multinomial")
multivariate_normal = _of_module("multivariate_normal")
negative_binomial = _of_module("negative_binomial")
noncentral_chisquare = _of_module("noncentral_chisquare")
noncentral_f = _of_module("noncentral_f")
normal = _of_module("normal")
pareto = _of_module("pareto")
permutation = _of_module("permutation")
permuted = _of_module("permuted")
poisson = _of_module("poisson")
power = _of_module("power")
rand = _of_module("rand")
randint = _of_module("randint")
randn = _of_module("randn")
random = _of_module("random")
ranf = sample = random_sample = _of_module("random_sample")
rayleigh = _of_module("rayleigh")
seed = _of_module("seed")
shuffle = _of_module("shuffle")
standard_cauchy = _of_module("standard_cauchy")
standard_exponential = _of_module("standard_exponential")
standard_gamma = _of_module("standard_gamma")
standard_normal = _of_module("standard_normal")
standard_t = _of_module("standard_t")
student_t = _of_module("student_t")
triangular = _of_module("triangular")
uniform = _of_module("uniform")
vonmises = _of_module("vonmises")
wald = _of_module("wald")
weibull = _of_module("weibull")
zipf = _of_module("zipf")
