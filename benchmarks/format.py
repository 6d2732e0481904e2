"""Formatting of figures for people."""

from __future__ import annotations

#: The line under the title of a page of records.
WRITTEN = "Written by `python -m benchmarks.report` from the records in this folder."


def duration(seconds: float) -> str:
    """A time with its unit, three digits.

    >>> duration(4.218e-06), duration(0.0372), duration(2.5)
    ('4.22 us', '37.2 ms', '2.5 s')
    """
    for factor, unit in ((1e6, "us"), (1e3, "ms")):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"
