"""benchmarks/compiler_port.py: its kernels compile, and its page shows its record."""

from __future__ import annotations

import json
import pathlib
import types

import numpy as np
import pytest

from benchmarks import compiler_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compiler-port.md"
RECORDS = sorted((ROOT / "benchmarks" / "results").glob("*/compiler_port.json"))


def test_three_kernels_of_each_kind() -> None:
    kinds = [case.kind for case in compiler_port.CASES.values()]
    assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys(kinds, 3)
    cuda = pytest.importorskip("numba.cuda")
    assert compiler_port.kernels(cuda, np.float32, np.int32).keys() == compiler_port.CASES.keys()


def test_an_array_as_words() -> None:
    x = types.SimpleNamespace(size=6, itemsize=4, ptr=64, shape=(2, 3), strides=(12, 4))
    assert compiler_port.words("numba-cuda", x) == [0, 0, 6, 4, 64, 2, 3, 12, 4]
    assert compiler_port.words("numba-cuda-mlir", x) == [64, 64, 0, 2, 3, 3, 1]


def test_the_page_shows_the_record() -> None:
    assert RECORDS
    for file in RECORDS:
        table = compiler_port.table(file.parent)
        assert table in PAGE.read_text(encoding="utf-8")
        assert json.loads(file.read_text())["kernels"].keys() == compiler_port.CASES.keys()
