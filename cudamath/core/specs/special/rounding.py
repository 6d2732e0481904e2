"""Whole numbers among floating-point ones."""

from __future__ import annotations

import math


def floor(x):
    """The largest whole number up to x, as a float: compilers give an integer of 64 bits, which
    large numbers do not fit."""
    return x if not abs(x) < 4503599627370496.0 else float(math.floor(x))


SHIFT = 6755399441055744.0  # 1.5 2^52: what is added to it is rounded to a whole number


def nearest(x):
    """The whole number nearest to x."""
    return near(x) if abs(x) < 2251799813685248.0 else x


def near(x):
    """The same of numbers up to 2^51."""
    return (x + SHIFT) - SHIFT


def sign_of_order(n):
    """(-1)^n of a whole number."""
    return 1.0 - 2.0 * abs(n - 2.0 * nearest(0.5 * n))


def is_whole(x):
    """Whether x is finite and whole."""
    return abs(x) < math.inf and floor(x) == x


def modulo(x, n):
    """x less a multiple of n, a power of two: exact, where a division with a rest is slow."""
    return x - n * floor(x / n)


def is_even(x):
    """Whether a whole number is even."""
    return modulo(x, 2.0) == 0.0
