"""Philox4x32-10 for kernels: random words from nothing but a counter and a key.

The idea. A classical generator walks from state to state, so number i can only be had after number
i - 1. Philox instead *encrypts the index*: ten rounds of multiply-and-xor turn a 128-bit counter
and a 64-bit key into 128 random bits. Every thread computes the numbers it needs from their
indices; nothing is stored, and the same index gives the same number in any grid, on any GPU, and on
the CPU (cpu/random.py).

    counter = (block & 2^56 - 1, attempt << 56, stream)       words 0, 1: block; words 2, 3: stream
    round     (c0, c1, c2, c3) -> (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0));
              k += W

Cost: 20 wide multiplications and 20 three-way xors for 16 bytes (the keys are the same in all
threads, and the compiler computes them once per thread), about 12 instructions a float32. An H200
issues some 27 instructions in the time in which its memory takes 4 bytes, so a uniform draw is
bound by memory, and Box-Muller about as much by one as by the other.

Numba widens uint32 products to 64 bits, which is what a round wants: `mul.wide.u32`. Everything is
cast back to uint32 explicitly; an uncast sum would go on in 64 bits.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011; checked
against the known answers published with it (tests/ops/test_random.py).
"""

import functools

import numpy as np

from ...core.dispatch.arguments import Input, Scalar
from ..compiler.lazy_numba import SIMULATOR, cuda, libdevice, types

# Device functions are inlined into their kernels; the simulator has no such option and needs none.
INLINE = {} if SIMULATOR else {"forceinline": True}

if SIMULATOR:

    def mul_hi(a, b):
        """The upper half of the 64-bit product of two uint32."""
        return types.uint32(int(a) * int(b) >> 32)

    def mul_lo(a, b):
        """The lower half."""
        return types.uint32(int(a) * int(b) & 0xFFFFFFFF)

else:
    mul_hi = libdevice.umulhi

    @cuda.jit(device=True, forceinline=True)
    def mul_lo(a, b):
        return types.uint32(a * b)


ROUNDS = 10
MULTIPLIER_0, MULTIPLIER_1 = 0xD2511F53, 0xCD9E8D57
WEYL_0, WEYL_1 = 0x9E3779B9, 0xBB67AE85  # golden ratio, sqrt(3) - 1
RETRY = 1 << 56  # added to the block number: the words of the next attempt


@cuda.jit(device=True, **INLINE)
def philox(block, stream, key):
    """block, stream, key: uint64 -> four uint32 words."""
    c0, c1 = types.uint32(block), types.uint32(block >> types.uint64(32))
    c2, c3 = types.uint32(stream), types.uint32(stream >> types.uint64(32))
    k0, k1 = types.uint32(key), types.uint32(key >> types.uint64(32))
    for _ in range(ROUNDS):
        high0, low0 = mul_hi(c0, types.uint32(MULTIPLIER_0)), mul_lo(c0, types.uint32(MULTIPLIER_0))
        high1, low1 = mul_hi(c2, types.uint32(MULTIPLIER_1)), mul_lo(c2, types.uint32(MULTIPLIER_1))
        c0, c1, c2, c3 = types.uint32(high1 ^ c1 ^ k0), low1, types.uint32(high0 ^ c3 ^ k1), low0
        k0 = types.uint32(types.uint64(k0) + types.uint64(WEYL_0))
        k1 = types.uint32(types.uint64(k1) + types.uint64(WEYL_1))
    return c0, c1, c2, c3


@cuda.jit(device=True, **INLINE)
def join(low, high):
    """Two uint32 words as one uint64."""
    return types.uint64(low) | (types.uint64(high) << types.uint64(32))


@functools.cache
def beginning(held):
    """The device function (key, stream, first) -> (key, stream, first block): by which a kernel
    knows where it begins.

    As it was told; or, `held` by a captured graph, key is an array (3,) uint64, the generator's
    cell: key, stream and the block at which this replay begins, to which the kernel's own `first`,
    counted from there, is added.
    """
    if held:

        @cuda.jit(device=True, **INLINE)
        def beginning_held(key, stream, first):
            return key[0], key[1], types.uint64(key[2] + first)

        return beginning_held

    @cuda.jit(device=True, **INLINE)
    def beginning_told(key, stream, first):
        return key, stream, first

    return beginning_told


def counter(held, index=0):
    """The three arguments of `beginning` in a plan: scalars 0 to 2 of the call; held: the key is
    input `index`, a cell."""
    return [
        Input(index).flat if held else Scalar(0, np.uint64),
        Scalar(1, np.uint64),
        Scalar(2, np.uint64),
    ]
