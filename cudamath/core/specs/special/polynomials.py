"""Polynomials and Chebyshev series, the highest coefficient first."""

from __future__ import annotations


def horner(x, coefficients):
    """The polynomial of these coefficients at x."""
    y = 0.0
    for c in coefficients:
        y = y * x + c
    return y


def chebyshev(x, coefficients):
    """Half the first term, and T_k(x / 2) times each coefficient, by Clenshaw's recurrence."""
    last, before, now = 0.0, 0.0, 0.0
    for c in coefficients:
        last = before
        before = now
        now = x * before - last + c
    return 0.5 * (now - last)
