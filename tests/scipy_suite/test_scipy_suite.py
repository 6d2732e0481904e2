"""SciPy's own tests of what cudamath has pass with the import changed, but for those that are
recorded as failing. `scipy_suite.py --record` writes the record; reasons.toml says why tests may
fail."""

from __future__ import annotations

import itertools

import numpy_suite
import pytest
import scipy
from scipy_suite import FILES, SUITE

CASES = 1
#: Which share of a folder's tests runs, where all would take long.
PARTS = {"sparse": "1/4"}
FOLDERS = {
    folder: list(files)
    for folder, files in itertools.groupby(FILES, lambda file: file.split("/")[0])
}


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_other_test_fails_than_recorded(folder):
    record = numpy_suite.recorded("cpu", SUITE)
    files = FOLDERS[folder]
    here = all((SUITE.library / f"{file}.py").is_file() for file in files)
    if record["scipy"] != scipy.__version__ or not here:
        pytest.skip(f"the record is of the tests of SciPy {record['scipy']}")
    part = PARTS.get(folder, "0/1")
    results = numpy_suite.outcomes(files, cases=CASES, part=part, suite=SUITE)
    assert numpy_suite.news("cpu", results.items(), SUITE) == []
    assert sorted(results) == sorted(files)
    passes = 0
    for file, tests in results.items():
        passed = [outcome["outcome"] for outcome in tests.values()].count("passed")
        of_record = record["files"][file].passed if folder not in PARTS else 0
        assert passed or not of_record, f"{file}: no test passed"
        passes += passed
    assert passes


def test_every_file_is_recorded():
    assert sorted(numpy_suite.recorded("cpu", SUITE)["files"]) == sorted(FILES)


def test_scores_and_failures_are_of_one_run():
    failed = numpy_suite.recorded_failures("cpu", SUITE)
    for file, score in numpy_suite.recorded("cpu", SUITE)["files"].items():
        counts = {kind: len(tests) for kind, tests in failed.get(file, {}).items()}
        assert counts == {**score.failed, **score.excluded}


def test_every_reason_has_a_class():
    table = numpy_suite.reasons(SUITE)
    assert {entry["class"] for entry in table["reason"]} <= {*table["needs"], *table["differs"]}
    for score in numpy_suite.recorded("cpu", SUITE)["files"].values():
        assert set(score.failed) <= set(table["differs"])
        assert set(score.excluded) <= set(table["needs"])
