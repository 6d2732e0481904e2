"""Cosine and sine of one number together: a GPU reduces it by multiples of pi once for both."""

from __future__ import annotations

import math


def cos_and_sin(x):
    return math.cos(x), math.sin(x)
