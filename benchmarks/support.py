"""Helpers that benchmarks share with the tests: the records, one row for each function, and their
arguments.

The tests' helper modules are in the folders of `pythonpath` in pyproject.toml.
"""

from __future__ import annotations

import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]

sys.path += [
    path
    for folder in PYTEST["ini_options"]["pythonpath"]
    if (path := str((ROOT / folder).resolve())) not in sys.path
]

from record_types import Array, Elementwise, Row, Whole
from records import ELEMENTWISE, ROWS
from records_ml import attention, softmax, standard
from special_domains import REGIONS, linear, powers
from special_truth import of_function as of_special
from special_truth import regions as special_regions
from strategies import FLOATS, eps, kind, numbers

__all__ = [
    "ELEMENTWISE",
    "FLOATS",
    "REGIONS",
    "ROWS",
    "Array",
    "Elementwise",
    "Row",
    "Whole",
    "attention",
    "eps",
    "kind",
    "linear",
    "numbers",
    "of_special",
    "powers",
    "softmax",
    "special_regions",
    "standard",
]
