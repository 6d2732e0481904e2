"""Keys: the bits of numbers, mapped so that comparing keys as unsigned integers compares the
numbers.

    unsigned, bool   the bits themselves
    signed           the sign bit flipped: the smallest number becomes 0
    float            positive: the sign bit set; negative: all bits flipped. -0.0 has the key of
                     0.0, so that they are equal to a stable sort, and every NaN has the largest key
                     of all: NaNs come last, as in NumPy

    float32          bits          key
    -inf             ff800000      007fffff
    -1.0             bf800000      407fffff
    -0.0, 0.0        80000000, 0   80000000
    1.0              3f800000      bf800000
    inf              7f800000      ff800000
    NaN              7f800001 ...  ffffffff

Kernels move the bits as they are and take the key anew whenever they compare: a few integer
operations, and -0.0 and the payload of a NaN survive. Descending order is the same on keys with all
bits flipped (``flip``).
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from ...core.dtypes import bfloat16
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import types

_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0 << 48}


class Coding(NamedTuple):
    """How elements of a dtype are sorted: the words that kernels see and the function from a word
    to its key."""

    word: np.dtype  # unsigned, as wide as an element
    key: Any  # device function (word, flip) -> key, of type K
    K: Any  # uint32 for words of up to 32 bits, uint64 for longer ones
    bits: int  # how many bits of a key count

    @property
    def no_flip(self) -> Any:
        """The argument ``flip`` of ascending order."""
        return (np.uint64 if self.word.itemsize == 8 else np.uint32)(0)


def coding(dtype: np.dtype) -> Coding:
    """The coding of a real dtype."""
    dtype = np.dtype(dtype)
    kind = "f" if dtype == bfloat16 else dtype.kind
    return _coding("u" if kind == "b" else kind, dtype.itemsize, _INFINITY.get(dtype.name, 0))


@functools.cache
def _coding(kind: str, size: int, infinity: int) -> Coding:
    width = 8 * size
    K = types.uint64 if size == 8 else types.uint32
    every, sign, infinite = K((1 << width) - 1), K(1 << (width - 1)), K(infinity)

    if kind == "u":

        @device_function
        def key(word, flip):
            return K(K(word) ^ flip)

    elif kind == "i":

        @device_function
        def key(word, flip):
            return K(K(word) ^ sign ^ flip)

    else:

        @device_function
        def key(word, flip):
            k = K(word)
            size = k & (every ^ sign)
            turned = k ^ (every if k & sign else sign)
            if size == K(0):
                turned = sign
            if size > infinite:
                turned = every
            return K(turned ^ flip)

    return Coding(np.dtype(f"u{size}"), key, K, width)


def flipped(dtype: np.dtype, descending: bool) -> Any:
    """The argument ``flip`` of a sort: all bits of a key, or none."""
    size = np.dtype(dtype).itemsize
    word = np.uint64 if size == 8 else np.uint32
    return word((1 << (8 * size)) - 1 if descending else 0)
