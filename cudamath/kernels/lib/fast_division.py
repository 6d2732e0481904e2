"""Division of an element's number by the counts of windows: two quotients by multiplication, where
the numbers are small enough for it.

A division by a number that the compiler does not know is some 15 instructions of 32 bits. i // d is
i m >> 32 for m = 2^32 / d, rounded up. m d - 2^32 = e makes the product too large by i e / d, which
does not reach the next quotient as long as i e < 2^32. For powers of two e is 0.
"""

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import types

u32, u64 = types.uint32, types.uint64


def reciprocal(divisor: int, most: int) -> int:
    """2^32 / divisor, rounded up; 0 where numbers up to `most` cannot be divided so."""
    up = -(-(1 << 32) // divisor)
    return up if most < 1 << 31 and (up * divisor - (1 << 32)) * most < 1 << 32 else 0


@device_function
def split(i, groups, lines, per_group, per_line):
    """(image, line in it, group in that) of group number i; per_group, per_line: the reciprocals of
    groups and lines."""
    line = u32(u64(i) * u64(per_group) >> u64(32))
    image = u32(u64(line) * u64(per_line) >> u64(32))
    return image, u32(line - image * u32(lines)), u32(i - line * u32(groups))
