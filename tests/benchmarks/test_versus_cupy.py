"""What is measured beside CuPy is the same computation as NumPy's, in every case; families and
speeds are worked out right."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import cudamath as cm
from benchmarks import families, versus_cupy
from benchmarks.functions import CASES

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing here is simulated"
)

#: Results whose signs or order are free: compared by what they must satisfy elsewhere
#: (tests/ops/test_linalg.py).
FREE = {"qr", "eigh", "svd", "partition"}


def parts(result: object) -> list[np.ndarray]:
    """Arrays of any library, nested in tuples, as a flat list."""
    if isinstance(result, (tuple, list)):
        return [array for item in result for array in parts(item)]
    return [np.asarray(result)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.family}: {case.title}")
def test_case_is_numpys(case, device):
    arguments = case.arguments("small")
    with cm.device(device):
        ours = parts(case.bind("cudamath", cm, [cm.asarray(a.copy()) for a in arguments])())
    theirs = parts(case.bind("numpy", np, [a.copy() for a in arguments])())
    assert [a.shape for a in ours] == [a.shape for a in theirs]
    if case.random or case.title in FREE:
        return
    for one, other in zip(ours, theirs, strict=True):
        size = (
            np.max(np.abs(other), where=np.isfinite(other), initial=1.0)
            if other.dtype.kind in "fc"
            else 1
        )
        np.testing.assert_allclose(one, other, rtol=3e-4, atol=3e-5 * size)


def sample(family: str, size: str, ours: float, theirs: float) -> dict:
    return {
        "family": family,
        "title": "f",
        "size": size,
        "n": 4,
        "host": {"cudamath": ours, "cupy": theirs},
        "device": {"cudamath": ours, "cupy": 2 * theirs},
    }


def test_speeds_of_families():
    found = families.families(
        [sample("a", "small", 1, 2), sample("a", "small", 1, 8), sample("b", "large", 4, 1)]
    )
    assert found["a"] == {
        ("host", "small"): pytest.approx(4),
        ("device", "small"): pytest.approx(8),
    }
    assert found["b"] == {
        ("host", "large"): pytest.approx(0.25),
        ("device", "large"): pytest.approx(0.5),
    }
    assert found["all"][("host", "small")] == pytest.approx(4) and found["all"][
        ("host", "large")
    ] == pytest.approx(0.25)


def test_table():
    kept = {
        "commit": "abc",
        "date": "2026-01-01",
        "versions": {"cupy-cuda13x": "14.2"},
        "records": [sample("a", "small", 1, 2), sample("b", "small", 1, 8)],
    }
    lines = families.table(kept)
    assert "CuPy 14.2" in lines[0] and "`abc`" in lines[0]
    assert lines[2] == "| family | functions | host, small | device, small |"
    assert lines[-3:] == [
        "| a | 1 | 2.00 | 4.00 |",
        "| b | 1 | 8.00 | 16.00 |",
        "| all | 1 | 4.00 | 8.00 |",
    ]


def test_run_keeps_what_it_measures(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(versus_cupy, "CASES", [c for c in CASES if c.title in ("cumprod", "det")])
    monkeypatch.setitem(
        next(c for c in CASES if c.title == "det").otherwise,
        "numpy",
        lambda lib, a: lib.no_such_function(a),
    )
    assert versus_cupy.main(["--device", "cpu", "--out", str(tmp_path)]) == 1  # NumPy's det failed
    kept = json.loads((tmp_path / "cupy.json").read_text())
    assert [(r["title"], r["size"]) for r in kept["records"]] == [
        ("cumprod", s) for s in ("small", "medium", "large")
    ]
    assert all(set(r["host"]) == {"cudamath", "numpy"} for r in kept["records"])
    said = capsys.readouterr().out
    assert "det | small | failed: AttributeError" in said and "all" in said
