"""SciPy's functions beside CuPy's and JAX's: the draws, that every row is right on the CPU, and
that a wrong one is noticed."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import numpy as np
import pytest

import cudamath as cm
from benchmarks import scipy_libraries, scipy_rows

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing here is simulated"
)
FAMILIES = [*scipy_rows.FAMILIES]


def test_a_seed_gives_the_same_cases() -> None:
    """Families do not disturb each other, and every function comes in both dtypes."""
    everything = scipy_libraries.drawn(FAMILIES, 2, 5)
    once = scipy_libraries.drawn(FAMILIES, 1, 5)
    assert once == everything[: len(once)]
    assert scipy_libraries.drawn(["fft"], 1, 5) == [each for each in once if each[0] == "fft"]
    assert once != scipy_libraries.drawn(FAMILIES, 1, 6)
    json.dumps(everything)
    for family in FAMILIES:
        dtypes: dict[str, set[str]] = {}
        for name, case in once:
            if name == family:
                dtypes.setdefault(case["name"], set()).add(case["dtype"])
        assert set(map(len, dtypes.values())) == {2}, family
        assert len(dtypes) >= 20, family


def test_special_functions_are_all_here() -> None:
    """All public names but those of which SciPy has no truth any more."""
    public = {name for name in dir(cm.special) if not name.startswith("_")}
    without = {"btdtr", "btdtri", "sph_harm", "jn"}
    assert {*scipy_rows.SPECIAL, *scipy_rows.ALONG} == public - without


def test_sizes_are_of_every_order() -> None:
    draw = random.Random(0)
    sizes = [scipy_rows.elements(draw, 1 << 10, 1 << 26) for _ in range(400)]
    assert min(sizes) >= 1 << 10 and max(sizes) <= 1 << 26
    for power in range(10, 26, 4):
        assert sum(1 << power <= n < 1 << (power + 4) for n in sizes) > 50


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_right(family: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "rows.json"
    arguments = [family, "--check", "--most", "3000", "--record", str(record)]
    if cm.cuda.device_count():
        pytest.skip("the CPU's test")
    assert scipy_libraries.main(arguments) == 0, capsys.readouterr().out
    rows = json.loads(record.read_text())
    assert len(rows) == len(scipy_libraries.drawn([family], 1, 1, 3000))
    assert not any(row["wrong"] or "failed" in row for row in rows)
    assert {"family", "case", "errors", "missing"} <= {*rows[0]}


@pytest.mark.parametrize(
    ("family", "name"), [("special", "erf"), ("fft", "rfft"), ("linalg", "lu"), ("sparse", "A @ A")]
)
def test_a_wrong_result_is_noticed(family: str, name: str, monkeypatch: Any) -> None:
    cases = scipy_libraries.drawn([family], 1, 1, 3000)
    case = next(case for _, case in cases if case["name"] == name)
    assert not scipy_libraries.run(family, case, device="cpu")["wrong"]
    made = scipy_libraries.ours

    def wrong(work: Any, device: str) -> Any:
        arrays = [each * each.dtype.type(1.001) for each in work.arrays if each.dtype.kind == "f"]
        rest = [each for each in work.arrays if each.dtype.kind != "f"]
        if family == "sparse":
            arrays = [arrays[0], *rest[:2], arrays[1], rest[2]]
        return made(work._replace(arrays=tuple(arrays)), device)

    if family == "fft":
        assert scipy_rows.fft(case).arrays[0].dtype.kind == "f"
    monkeypatch.setattr(scipy_libraries, "ours", wrong)
    assert scipy_libraries.run(family, case, device="cpu")["wrong"]


def test_infinities_count() -> None:
    work = scipy_rows.Work(abs, (), elementwise=True)
    exact = np.array([1.0, np.inf, np.nan])
    assert scipy_libraries.error(work, exact.copy(), exact) == 0
    assert scipy_libraries.error(work, np.array([1.0, -np.inf, np.nan]), exact) == np.inf
    assert scipy_libraries.error(work, np.array([np.nan, np.inf, np.nan]), exact) == np.inf
    assert scipy_libraries.error(work, np.array([1.0, np.inf, 0.0]), exact) == np.inf


def test_the_summary_names_the_least() -> None:
    rows = [
        {
            **{"family": "fft", "case": {"name": str(ratio)}, "wrong": False},
            **{"times": {"ours": 10.0, "cupy": 10 * ratio}, "ratios": {"cupy": ratio}},
        }
        for ratio in (4.0, 0.5, 1.0, 2.0)
    ]
    rows.append({"family": "fft", "case": {}, "failed": "no memory"})
    text = scipy_libraries.told(rows)
    assert "fft, cupy      4 cases, geometric mean 1.414" in text and "failed 1" in text
    least = [each for each in text.splitlines() if "least" in each]
    assert ["0.50 <" in least[0], "1.00 {" in least[1], "2.00 {" in least[2]] == [True] * 3


def test_the_command_lists_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert scipy_libraries.main(["fft", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 50
    chosen = ["--only", "vstack", "tocsc", "--skip", "tocsc"]
    assert scipy_libraries.main(["sparse", "--list", *chosen]) == 0
    assert ['"vstack"' in each for each in capsys.readouterr().out.splitlines()] == [True] * 2
    with pytest.raises(SystemExit):
        scipy_libraries.main(["nothing"])
    assert "no family nothing; there are special" in capsys.readouterr().err
