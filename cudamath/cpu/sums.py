"""Sums on the CPU of contiguous float32 and float64 arrays, compiled by LLVM: (outer, n, inner) ->
(outer, inner).

NumPy adds a vector at the rate of one core's additions, and rows at the rate of reading and writing
the total for every row. Here a vector is cut into pieces of PIECE elements, each added in as many
SIMD lanes as the machine has. Rows are added eight at a time (squares four), with the totals of a
block of columns in the nearest cache. A variance reads the array twice and writes nothing; NumPy
writes the differences from the mean and reads them again.

The accuracy is that of a pairwise sum: pieces (of a vector) and runs of rows are added like the
digits of a binary counter, so that an element takes part in about PIECE / lanes + log2(n / PIECE)
roundings, or RUN / 8 + 3 + log2(n / RUN). The order depends on the shape alone, so calls agree bit
for bit.
"""

from __future__ import annotations

import math

import numpy as np

from .lib.llvm_compiled import loop

PIECE = 512  # numbers of a vector that are added in lanes
RUN = 64  # rows that are added one after the other, by eights
BLOCK = 1024  # columns at a time
LEVELS = 48  # of the counter: enough for 2^48 pieces


# "reassoc" lets the compiler add in lanes: it chooses the order of the additions.
@loop(fastmath=("reassoc",))
def _piece(x):
    """x: (n,). The sum."""
    total = x.dtype.type(0)
    for i in range(x.size):
        total += x[i]
    return total


@loop(fastmath=("reassoc",))
def _piece_of_squares(x, mean):
    """x: (n,). The sum of (x - mean)^2."""
    total = x.dtype.type(0)
    for i in range(x.size):
        from_mean = x[i] - mean
        total += from_mean * from_mean
    return total


def _carry(levels, count, total):
    """Add the sum of piece number `count`, as the digit 1 is added to a binary number."""
    level, carry = 0, count
    while carry & 1:  # two sums of the same number of pieces become one of twice as many
        total = levels[level] + total
        carry >>= 1
        level += 1
    levels[level] = total


def _collected(levels, count):
    """The sum of all digits of the counter, which are `count`'s."""
    total = levels.dtype.type(0)
    level = 0
    while count:
        if count & 1:
            total = levels[level] + total
        count >>= 1
        level += 1
    return total


def _vector(x, levels):
    """x: (n,), levels: (LEVELS,). The sum of x."""
    count = 0
    for first in range(0, x.size, PIECE):
        _carry(levels, count, _piece(x[first : first + PIECE]))
        count += 1
    return _collected(levels, count)


def _vector_of_squares(x, mean, levels):
    """x: (n,), levels: (LEVELS,). The sum of (x - mean)^2."""
    count = 0
    for first in range(0, x.size, PIECE):
        _carry(levels, count, _piece_of_squares(x[first : first + PIECE], mean))
        count += 1
    return _collected(levels, count)


def _run_of_rows(x, first, last, left, right, out):
    """x: (n, inner). out[:right - left] = the sum of x[first:last, left:right] over the rows."""
    width = right - left
    out[:width] = 0
    whole = first + (last - first) // 8 * 8
    # Slices, because the compiler vectorises loops over indices that cannot be negative.
    for i in range(first, whole, 8):
        a, b, c, d = (
            x[i, left:right],
            x[i + 1, left:right],
            x[i + 2, left:right],
            x[i + 3, left:right],
        )
        e, f, g, h = (
            x[i + 4, left:right],
            x[i + 5, left:right],
            x[i + 6, left:right],
            x[i + 7, left:right],
        )
        for j in range(width):
            out[j] += ((a[j] + b[j]) + (c[j] + d[j])) + ((e[j] + f[j]) + (g[j] + h[j]))
    for i in range(whole, last):
        a = x[i, left:right]
        for j in range(width):
            out[j] += a[j]


def _run_of_squares(x, first, last, left, right, mean, out):
    """x: (n, inner), mean: (inner,). out[:right - left] = the sum of (x - mean)^2 over those
    rows."""
    width = right - left
    out[:width] = 0
    m = mean[left:right]
    whole = first + (last - first) // 4 * 4
    for i in range(first, whole, 4):
        a, b, c, d = (
            x[i, left:right],
            x[i + 1, left:right],
            x[i + 2, left:right],
            x[i + 3, left:right],
        )
        for j in range(width):
            p, q, r, s = a[j] - m[j], b[j] - m[j], c[j] - m[j], d[j] - m[j]
            out[j] += (p * p + q * q) + (r * r + s * s)
    for i in range(whole, last):
        a = x[i, left:right]
        for j in range(width):
            p = a[j] - m[j]
            out[j] += p * p


def _add(part, total):
    """part: (m,) or longer, total: (m,): total = part + total."""
    for j in range(total.size):
        total[j] = part[j] + total[j]


def _rows(x, mean, squares, levels, out):
    """x: (n, inner), mean: (inner,), levels: (LEVELS, BLOCK), out: (inner,). The sums of x, or (x -
    mean)^2, over n."""
    n, inner = x.shape
    for left in range(0, inner, BLOCK):
        right = min(left + BLOCK, inner)
        width = right - left
        count = 0
        for first in range(0, n, RUN):
            last = min(first + RUN, n)
            level, carry = 0, count
            while carry & 1:
                carry >>= 1
                level += 1
            total = levels[level]  # the digits below are all 1 and carry into this one
            if squares:
                _run_of_squares(x, first, last, left, right, mean, total)
            else:
                _run_of_rows(x, first, last, left, right, total)
            for below in range(level):
                _add(levels[below], total[:width])
            count += 1
        total = out[left:right]
        total[:] = 0
        level = 0
        while count:
            if count & 1:
                _add(levels[level], total)
            count >>= 1
            level += 1


@loop
def sums_of_lines(x, divisor, out):
    """x: (outer, n, 1), out: (outer, 1): out = sum of x over n / divisor."""
    lines, by = x.reshape(x.shape[0], x.shape[1]), x.dtype.type(divisor)
    levels = np.empty(LEVELS, x.dtype)
    for o in range(x.shape[0]):
        out[o, 0] = _vector(lines[o], levels) / by


@loop
def sums_of_rows(x, divisor, out):
    """x: (outer, n, inner), out: (outer, inner): out = sum of x over n / divisor."""
    inner, by = x.shape[2], x.dtype.type(divisor)
    levels = np.empty((LEVELS, min(inner, BLOCK)), x.dtype)
    for o in range(x.shape[0]):
        _rows(x[o], out[o], False, levels, out[o])
        for j in range(inner):
            out[o, j] /= by


@loop
def variances_of_lines(x, divisor, centred, root, out):
    """x: (outer, n, 1), out: (outer, 1): out = sum of (x - mean of x)^2 over n / divisor, or its
    root; the mean counts as 0 unless `centred`."""
    lines, by = x.reshape(x.shape[0], x.shape[1]), x.dtype.type(divisor)
    size, levels = x.dtype.type(x.shape[1]), np.empty(LEVELS, x.dtype)
    for o in range(x.shape[0]):
        mean = _vector(lines[o], levels) / size if centred else x.dtype.type(0)
        variance = _vector_of_squares(lines[o], mean, levels) / by
        out[o, 0] = math.sqrt(variance) if root else variance


@loop
def variances_of_rows(x, divisor, centred, root, out):
    """x: (outer, n, inner), out: (outer, inner): as `variances_of_lines`."""
    n, inner = x.shape[1], x.shape[2]
    size, by = x.dtype.type(n), x.dtype.type(divisor)
    levels = np.empty((LEVELS, min(inner, BLOCK)), x.dtype)
    means = np.empty(inner, x.dtype)
    for j in range(inner):
        means[j] = 0
    for o in range(x.shape[0]):
        if centred:
            _rows(x[o], means, False, levels, means)
            for j in range(inner):
                means[j] /= size
        _rows(x[o], means, True, levels, out[o])
        for j in range(inner):
            out[o, j] = math.sqrt(out[o, j] / by) if root else out[o, j] / by
