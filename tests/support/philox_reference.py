"""Random numbers as defined, in plain Python integers and float64: what the draws are compared
with."""

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
COUNTER = (0x0123456789ABCDEF, 0xFEDCBA9876543210, (1 << 40) + 3)  # key, stream, first block
M64 = (1 << 64) - 1


def philox(counter, key):
    """Random123's philox4x32_10: four 32-bit words of counter, two of key."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def block(number, stream, key):
    halves = [number & 0xFFFFFFFF, number >> 32, stream & 0xFFFFFFFF, stream >> 32]
    return philox(halves, [key & 0xFFFFFFFF, key >> 32])


def words32(n, counter=COUNTER):
    key, stream, first = counter
    return [w for b in range(-(-n // 4)) for w in block(first + b, stream, key)][:n]


def words64(n, counter=COUNTER):
    w = words32(2 * n, counter)
    return [low | high << 32 for low, high in zip(w[::2], w[1::2], strict=True)]


def reference_uniform(n, dtype, low, high):
    if dtype == np.float64:
        return np.array([low + (high - low) * (w >> 11) * 2.0**-53 for w in words64(n)])
    bits = {"float32": 24, "float16": 11, "bfloat16": 8}[dtype.name]
    u = np.array([(w >> (32 - bits)) * 2.0**-bits for w in words32(n)])
    return (low + (high - low) * u).astype(np.float32).astype(dtype)


def reference_normal(n):
    """Box-Muller in float64 from the words of a float32 draw."""
    w = np.array(words32(n + n % 4 + 4), np.float64)[: n + n % 2]
    r = np.sqrt(-2 * np.log((w[::2] + 0.5) / 2**32))
    angle = 2 * np.pi * w[1::2] / 2**32
    return np.stack([r * np.cos(angle), r * np.sin(angle)], 1).reshape(-1)[:n]


def reference_integers(n, low, high):
    """[low, high): Lemire up to 2^32 values, mask and reject beyond; attempts in the top byte of
    the block number."""
    key, stream, first = COUNTER
    count = high - low
    out = []
    for i in range(n):
        attempt = 0
        while True:
            if count <= 1 << 32:
                w = block(first + i // 4 + (attempt << 56), stream, key)[i % 4]
                value, good = (w * count) >> 32, (w * count) & 0xFFFFFFFF >= (1 << 32) % count
            else:
                w = block(first + i // 2 + (attempt << 56), stream, key)
                value = (w[2 * (i % 2)] | w[2 * (i % 2) + 1] << 32) & (
                    (1 << (count - 1).bit_length()) - 1
                )
                good = value < count
            if good:
                break
            attempt += 1
        out.append(low + value)
    return out


def reference_cipher(n, count):
    """The bijection as in CCCL's feistel_bijection: 24 rounds of VariablePhilox with cycle
    walking."""
    keys = words32(24)
    bits = (n - 1).bit_length()
    left_bits, right_bits = bits // 2, bits - bits // 2
    out = []
    for value in range(count):
        while True:
            left, right = value >> right_bits, value & ((1 << right_bits) - 1)
            for k in keys:
                product = 0xD2B74407B1CE6E93 * left & M64
                high, low = product >> 32, product & 0xFFFFFFFF
                low = (low << (right_bits - left_bits) | right >> left_bits) & 0xFFFFFFFF
                left, right = (
                    (high ^ k ^ right) & ((1 << left_bits) - 1),
                    low & ((1 << right_bits) - 1),
                )
            value = left << right_bits | right
            if value < n:
                break
        out.append(value)
    return out
