"""NumPy's own tests pass with the import changed, but for those that are recorded as failing.

Here CASES cases of each test run. `numpy_suite.py` runs all of them, and with --record writes to
results/ what is expected; why a test may fail is in reasons.toml.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import numpy_suite
import pytest

CASES = 1
#: The test files by folder; those of a folder run in one process.
FOLDERS = {
    folder: list(files)
    for folder, files in itertools.groupby(numpy_suite.FILES, lambda file: file.split("/")[0])
}


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_other_test_fails_than_recorded(folder, device):
    record = numpy_suite.recorded(device)
    if record is None:
        pytest.skip(f"no record for {device}: numpy_suite.py --device {device} --record writes it")
    files = FOLDERS[folder]
    here = all((numpy_suite.SUITE.library / f"{file}.py").is_file() for file in files)
    if record["numpy"] != np.__version__ or not here:
        pytest.skip(f"the record is of the tests of NumPy {record['numpy']}")
    results = numpy_suite.outcomes(files, device, CASES)
    assert numpy_suite.news(device, results.items()) == []
    assert sorted(results) == sorted(files)
    for file, tests in results.items():
        passed = sum(outcome["outcome"] == "passed" for outcome in tests.values())
        assert passed or not record["files"][file].passed, f"{file}: no test passed"


def test_every_file_is_recorded():
    assert sorted(numpy_suite.recorded("cpu")["files"]) == sorted(numpy_suite.FILES)


def test_scores_and_failures_are_of_one_run():
    failed = numpy_suite.recorded_failures("cpu")
    for file, score in numpy_suite.recorded("cpu")["files"].items():
        counts = {kind: len(tests) for kind, tests in failed.get(file, {}).items()}
        assert counts == {**score.failed, **score.excluded}


def test_every_reason_has_a_class():
    table = numpy_suite.reasons()
    classes = {*table["needs"], *table["differs"]}
    assert {entry["class"] for entry in table["reason"]} <= classes
    for score in numpy_suite.recorded("cpu")["files"].values():
        assert set(score.failed) <= set(table["differs"])
        assert set(score.excluded) <= set(table["needs"])


def test_a_failure_gets_the_class_of_the_first_entry_that_fits():
    refused = {
        "error": "TypeError",
        "text": "zeros: arrays of object are not supported",
        "line": "",
    }
    assert numpy_suite.reason("lib/tests/test_x::test_y", refused) == "objects"
    wrong = {"error": "AssertionError", "text": "1 is not 2", "line": "assert 1 == 2"}
    assert numpy_suite.reason("lib/tests/test_x::test_y", wrong) == "defect"


# -------------------- the harness itself

SOURCE = """
import numpy as np
import numpy._core.umath as ncu
from numpy import array, nditer
from numpy._core.numeric import ones
from numpy.testing import assert_equal, assert_array_equal, assert_raises
import pytest

MADE = np.arange(3.0)

class TestArrays:
    data = array([1, 2])

    def test_imports(self):
        for module in ("np.zeros", "ones", "ncu.add", "np._core.numeric.ones"):
            function = eval(module)
            assert function.__module__.startswith("cudamath"), module
        assert np.zeros(2).shape == (2,)

    @pytest.mark.parametrize("x", [np.ones(2), [np.ones(2)], {"x": np.ones(2)}])
    def test_parameters(self, x):
        while not isinstance(x, np.ndarray):
            x = x[0] if isinstance(x, list) else x["x"]
        assert type(x).__module__.startswith("cudamath") and x.sum() == 2

    def test_attributes_and_globals(self):
        assert isinstance(MADE, np.ndarray) and isinstance(self.data, np.ndarray)
        assert MADE.sum() == 3 and hasattr(MADE, "device")

    def test_comparisons_see_a_difference(self):
        assert_equal((np.ones(2), [np.zeros(1)]), (np.ones(2), [np.zeros(1)]))
        with assert_raises(AssertionError):
            assert_equal((np.ones(2), 1), (np.array([1.0, 2.0]), 1))
        with assert_raises(AssertionError):
            assert_array_equal(np.ones(2), np.ones(2, "f4"), strict=True)

    def test_absent_name(self):
        nditer(MADE)

    def test_absent_attribute(self):
        np.nditer

    def test_wrong_value(self):
        assert_equal(np.ones(2), np.zeros(2))

    def test_numpys_own(self):
        assert np.float64(3.0) == 3.0
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory):
    """The outcomes of SOURCE."""
    file = tmp_path_factory.mktemp("suite") / "test_source.py"
    file.write_text(SOURCE)
    path = str(file.with_suffix(""))
    return numpy_suite.outcomes([path])[path]


@pytest.mark.parametrize(
    "test, outcome",
    {
        "imports": "passed",
        "parameters": "passed",
        "attributes_and_globals": "passed",
        "comparisons_see_a_difference": "passed",
        "absent_name": "failed",
        "absent_attribute": "failed",
        "wrong_value": "failed",
        "numpys_own": "numpy",
    }.items(),
)
def test_the_harness(harness, test, outcome):
    found = {
        entry["outcome"]
        for name, entry in harness.items()
        if re.fullmatch(rf"TestArrays::test_{test}(\[.*\])?", name)
    }
    assert found == {outcome}


def test_the_harness_says_why(harness):
    absent = harness["TestArrays::test_absent_attribute"]
    assert (absent["error"], absent["text"]) == ("AttributeError", "cudamath has no numpy.nditer")
    assert (
        harness["TestArrays::test_wrong_value"]["line"] == "assert_equal(np.ones(2), np.zeros(2))"
    )
