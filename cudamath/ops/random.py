"""`cudamath.random`: random arrays by Philox4x32-10, the same numbers from the same seed on every device.

    rng = cm.random.default_rng(7)
    rng.normal(size=(2, 3))

A generator is three numbers: key and stream (128 bits together, from the seed) and an offset, which every draw moves
on. Element i of a draw is a function of (key, stream, offset, i) alone: on the CPU and on any GPU, whatever the grid.
Uniforms, integers, Bernoulli trials, choices and permutations are equal bit for bit; so are normals, whose logarithm,
sine and cosine are this package's own. (`kernels/random.py` tells how.)
"""

from __future__ import annotations

import secrets
from typing import Any

from ..core.array import ndarray
from ..runtime.stream import refuse_capture
from .generator import Generator
from .source import MASK, Size, integer

__all__ = ["Generator", "bernoulli", "choice", "default_rng", "integers", "normal", "permutation", "rand", "randn",
           "random", "seed", "standard_normal", "uniform"]


def default_rng(seed: int | Generator | None = None) -> Generator:
    """A new generator.

    Parameters
    ----------
    seed : int, Generator or None
        0 <= seed < 2^128: its low and high 64 bits are the key and the stream, so that different seeds have nothing in
        common. None: from the operating system's entropy. A generator is returned as it is.

    Raises
    ------
    ValueError
        A seed out of range.
    TypeError
        A seed that is no integer.
    RuntimeError
        None while a CUDA graph is captured.

    >>> import cudamath as cm
    >>> cm.random.default_rng(7).integers(0, 1000, 3)
    array([954, 750, 114])
    """
    if isinstance(seed, Generator):
        return seed
    if seed is None:
        refuse_capture("random.default_rng", "its entropy would be the same at every replay; make the generator outside")
        seed = secrets.randbits(128)
    seed = integer("random.default_rng", "a seed", seed)
    if not 0 <= seed < 1 << 128:
        raise ValueError(f"random.default_rng: wants a seed in [0, 2^128), got {seed}")
    return Generator(seed & MASK, seed >> 64)


_default: Generator | None = None


def default_generator() -> Generator:
    """The generator behind the functions of this module; seeded by the operating system unless `seed` was called."""
    global _default
    if _default is None:
        _default = default_rng()
    return _default


def seed(n: int | None = None) -> None:
    """Start the module's generator anew from a seed (see `default_rng`).

    >>> import cudamath as cm
    >>> cm.random.seed(3)
    >>> a = cm.random.rand(4)
    >>> cm.random.seed(3)
    >>> bool((a == cm.random.rand(4)).all())
    True
    """
    default_generator().state = default_rng(n).state


def random(size: Size = None, dtype: Any = None, device: Any = None) -> ndarray:
    """Uniform numbers in [0, 1) from the module's generator: see `Generator.random`.

    >>> import cudamath as cm
    >>> cm.random.random(3).shape
    (3,)
    """
    return default_generator().random(size, dtype, device)


def uniform(low: float = 0.0, high: float = 1.0, size: Size = None, dtype: Any = None, device: Any = None) -> ndarray:
    """Uniform numbers in [low, high) from the module's generator: see `Generator.uniform`.

    >>> import cudamath as cm
    >>> bool((cm.random.uniform(2, 3, 100) >= 2).all())
    True
    """
    return default_generator().uniform(low, high, size, dtype, device)


def normal(loc: float = 0.0, scale: float = 1.0, size: Size = None, dtype: Any = None, device: Any = None) -> ndarray:
    """Normal numbers from the module's generator: see `Generator.normal`.

    >>> import cudamath as cm
    >>> cm.random.normal(10, 0, 2)
    array([10., 10.])
    """
    return default_generator().normal(loc, scale, size, dtype, device)


def standard_normal(size: Size = None, dtype: Any = None, device: Any = None) -> ndarray:
    """Normal numbers of mean 0 and deviation 1 from the module's generator: see `Generator.normal`.

    >>> import cudamath as cm
    >>> cm.random.standard_normal((2, 3)).shape
    (2, 3)
    """
    return default_generator().normal(0.0, 1.0, size, dtype, device)


def integers(low: int, high: int | None = None, size: Size = None, dtype: Any = None, endpoint: bool = False,
             device: Any = None) -> ndarray:
    """Integers in [low, high) from the module's generator: see `Generator.integers`.

    >>> import cudamath as cm
    >>> bool((cm.random.integers(5, size=100) < 5).all())
    True
    """
    return default_generator().integers(low, high, size, dtype, endpoint, device)


def bernoulli(p: float = 0.5, size: Size = None, device: Any = None) -> ndarray:
    """True with probability p, from the module's generator: see `Generator.bernoulli`.

    >>> import cudamath as cm
    >>> cm.random.bernoulli(0.0, 3)
    array([False, False, False])
    """
    return default_generator().bernoulli(p, size, device)


def permutation(x: Any, axis: int = 0, device: Any = None) -> ndarray:
    """A random order of 0 .. x - 1, or of the array x along an axis: see `Generator.permutation`.

    >>> import cudamath as cm
    >>> sorted(cm.random.permutation(4).tolist())
    [0, 1, 2, 3]
    """
    return default_generator().permutation(x, axis, device)


def choice(a: Any, size: Size = None, replace: bool = True, p: Any = None, device: Any = None) -> ndarray:
    """Elements drawn from `a`, from the module's generator: see `Generator.choice`.

    >>> import cudamath as cm
    >>> int(cm.random.choice([4, 5, 6], p=[0, 1, 0]))
    5
    """
    return default_generator().choice(a, size, replace, p, device)


def rand(*shape: int, dtype: Any = None, device: Any = None) -> ndarray:
    """Uniform numbers in [0, 1) of this shape: `random(shape)`.

    >>> import cudamath as cm
    >>> cm.random.rand(2, 3).shape
    (2, 3)
    """
    return default_generator().random(shape, dtype, device)


def randn(*shape: int, dtype: Any = None, device: Any = None) -> ndarray:
    """Normal numbers of mean 0 and deviation 1 of this shape: `standard_normal(shape)`.

    >>> import cudamath as cm
    >>> cm.random.randn(2, 3).shape
    (2, 3)
    """
    return default_generator().normal(0.0, 1.0, shape, dtype, device)
