"""What is timed beside cuSPARSE is right, and of many structures."""

from __future__ import annotations

import os

import numpy as np
import pytest

from benchmarks import sparse

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing here is simulated"
)


def test_results_are_compared(capsys):
    assert len(sparse.MATRICES) >= 20
    assert sparse.main(["small", "band 257", "--check", "--triangular"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert len(lines) == 8 and all("error" in line and "WRONG" not in line for line in lines)


def test_a_wrong_result_is_noticed(monkeypatch, capsys):
    made = sparse.ours
    monkeypatch.setattr(sparse, "ours", lambda x: made(x * np.float32(1.001)))
    assert sparse.main(["small", "--check"]) == 1
    assert "WRONG" in capsys.readouterr().out


def test_power_laws_have_long_rows():
    lengths = np.diff(sparse.power_law(4096, 16, 0.9).indptr)
    assert lengths.max() > 30 * lengths.mean()
