"""The accuracy table: what it measures on errors of known size, that it is up to date and that no
function is missing."""

import json

import numpy as np
import pytest
from records import ELEMENTWISE
from strategies import BF16, FLOATS

import cudamath as cm
from benchmarks import accuracy, outdated
from benchmarks.run import folder


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_units_in_the_last_place(dtype):
    wide = np.longdouble if dtype == np.float64 else np.float64
    exact = np.array([1.0, 1.5, 1024.0, 3.0]).astype(wide)
    unit = np.array([1.0, 1.0, 1024.0, 2.0]) * accuracy.eps(dtype)
    for error in (0.0, 1.0, 3.0):
        assert accuracy.ulps((exact + error * unit).astype(dtype), exact, dtype) == error
    assert (
        accuracy.ulps(np.ones(1, dtype), np.ones(1, wide) + wide(accuracy.eps(dtype)) / 4, dtype)
        == 0.25
    )
    tiny = 2.0**-133 if dtype == BF16 else float(np.finfo(dtype).smallest_subnormal)
    assert accuracy.ulps(np.array([0.0]).astype(dtype), np.array([tiny], wide), dtype) == 1


def test_epsilons_are_relative_to_the_largest_number():
    exact, float32 = np.array([0.5, 4.0]), np.dtype(np.float32)
    assert accuracy.epsilons([exact + [2.0**-21, 0]], [exact], float32) == 1
    assert accuracy.epsilons([np.array([np.nan, 4.0])], [exact], float32) == np.inf
    assert accuracy.epsilons([np.array([np.nan, 4.0])], [np.array([np.nan, 4.0])], float32) == 0
    assert accuracy.epsilons([np.array([1.0, 4.0])], [np.array([np.inf, 4.0])], float32) == np.inf


def test_a_wrong_function_is_seen(monkeypatch):
    """A function that is off by eight ulp gets a figure that says so, its gradient too."""
    row = next(row for row in ELEMENTWISE if row.name == "exp")
    right = accuracy.of_function(row, np.dtype(np.float32), "cpu")
    exp = cm.exp
    monkeypatch.setattr(
        cm, "exp", lambda x: exp(x) * (1 + (8 * 2.0**-23 if x.dtype == np.float32 else 0))
    )
    wrong = accuracy.of_function(row, np.dtype(np.float32), "cpu")
    assert right["value"] < 3 < 6 < wrong["value"] and right["gradient"] < 3 < 5 < wrong["gradient"]


def test_the_table_is_up_to_date():
    assert accuracy.main(["--check"]) == 0


def test_no_function_is_missing(device):
    """In this device's record, if there is one; where this fails: python -m benchmarks.accuracy
    --device cpu (or cuda). Others' are reported: test_benchmarks.py."""
    name = folder(device)
    if not (accuracy.RESULTS / name / "accuracy.json").exists():
        pytest.skip(f"no record of {name}")
    assert outdated.outdated(accuracy.RESULTS).get((name, "accuracy.json")) is None


def test_parts_make_one_record(tmp_path, monkeypatch):
    """Measured in two parts and taken together: the rows of one run, in its order."""
    chosen = [work for work in accuracy.WORK if work[1].name in ("exp", "fmod", "sqrt")]
    monkeypatch.setattr(accuracy, "WORK", chosen)
    monkeypatch.setattr(accuracy, "COUNT", 50)
    monkeypatch.setattr(accuracy, "RESULTS", tmp_path / "results")
    for out, options in (("a", ["--part", "1/2"]), ("b", ["--part", "2/2"]), ("whole", [])):
        assert accuracy.main(["--device", "cpu", "--out", str(tmp_path / out), *options]) == 0
    files = [str(tmp_path / name / "accuracy.json") for name in ("b", "a")]
    assert accuracy.main(["--take", *files]) == 0
    (taken,) = (tmp_path / "results").glob("*/accuracy.json")
    whole = json.loads((tmp_path / "whole" / "accuracy.json").read_text())
    assert json.loads(taken.read_text()) == whole and [row["op"] for row in whole["rows"][::4]] == [
        r.name for _, r in chosen
    ]
    assert (
        "| `fmod` |" in (tmp_path / "results" / "accuracy.md").read_text()
        and accuracy.main(["--check"]) == 0
    )
    with pytest.raises(ValueError, match=r"take: wants parts \[1, 2\], got \[1\]"):
        accuracy.main(["--take", files[1]])


def test_single_functions_are_put_into_a_record(tmp_path, monkeypatch):
    """The other rows stay as they are; the new ones stand in their order, with their commit."""
    chosen = [work for work in accuracy.WORK if work[1].name in ("exp", "fmod", "sqrt")]
    monkeypatch.setattr(accuracy, "COUNT", 50)
    file, options = tmp_path / "accuracy.json", ["--device", "cpu", "--out", str(tmp_path)]
    monkeypatch.setattr(accuracy, "WORK", [work for work in chosen if work[1].name != "fmod"])
    assert accuracy.main(options) == 0
    before = json.loads(file.read_text())
    monkeypatch.setattr(accuracy, "WORK", chosen)
    assert accuracy.main([*options, "--only", "fmod"]) == 0
    after = json.loads(file.read_text())
    assert [row["op"] for row in after["rows"][::4]] == [row.name for _, row in chosen]
    assert [row for row in after["rows"] if row["op"] != "fmod"] == before["rows"]
    own = {(row["commit"], row["date"]) for row in after["rows"] if row["op"] == "fmod"}
    assert own == {(before["commit"], before["date"])}
    with pytest.raises(ValueError, match="^only: no such functions: fmodd"):
        accuracy.main([*options, "--only", "fmodd"])
    file.write_text(json.dumps({**before, "device": "another"}))
    with pytest.raises(ValueError, match="^only: the record is of another, this is "):
        accuracy.main([*options, "--only", "fmod"])


def test_special_functions_are_recorded(tmp_path, monkeypatch):
    """Beside mpmath, ours and SciPy's; the table has them."""
    chosen = {name: accuracy.REGIONS[name] for name in ("erf", "sici[1]")}
    monkeypatch.setattr(accuracy, "REGIONS", chosen)
    monkeypatch.setattr(accuracy, "RESULTS", tmp_path)
    assert accuracy.main(["--device", "cpu", "--special"]) == 0
    (path,) = tmp_path.glob("*/special.json")
    rows = json.loads(path.read_text())["rows"]
    assert [(row["op"], row["dtype"]) for row in rows] == [
        (f"special.{name}", dtype) for name in chosen for dtype in ("float32", "float64")
    ]
    assert all(0 < row["value"] <= max(4, 2 * row["scipy"]) for row in rows)
    table = (tmp_path / "accuracy.md").read_text()
    assert "## Special functions beside mpmath" in table and "| `special.sici[1]` |" in table
    assert accuracy.main(["--check"]) == 0
