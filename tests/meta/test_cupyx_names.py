"""The names of cupyx.scipy that cudamath has in the modules of the same names."""

from __future__ import annotations

import json
import operator
import pathlib

import pytest

import cudamath as cm

FILE = pathlib.Path(__file__).parents[1] / "data" / "cupyx_names.json"
NAMES = {module: names.split() for module, names in json.loads(FILE.read_text())["names"].items()}
#: Names that cudamath lacks, by module, and why.
ABSENT = {
    "fft": {"get_fft_plan": "plans are kept by their layouts"},
    "sparse": {
        "get_index_dtype": "indices have the smallest dtype that holds the shape",
        "safely_cast_index_arrays": "the same",
        "matrix_transpose": "CuPy's own: A.T",
    },
    "sparse.linalg": {"spilu": "no incomplete factors"},
}
#: How many names were wanted, when CuPy had 105, 33, 20 and 62.
WANTED = {"special": 100, "fft": 33, "linalg": 20, "sparse": 50}


@pytest.mark.parametrize("module", NAMES)
def test_all_but_the_listed_names_are_here(module):
    ours = operator.attrgetter(module)(cm)
    absent = {name for name in NAMES[module] if not hasattr(ours, name)}
    assert absent == set(ABSENT.get(module, ()))


@pytest.mark.parametrize("family", WANTED)
def test_so_many_as_were_wanted(family):
    modules = [module for module in NAMES if module.split(".")[0] == family]
    here = [n for m in modules for n in NAMES[m] if n not in ABSENT.get(m, ())]
    assert len(here) >= WANTED[family]
