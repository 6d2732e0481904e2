"""The dtypes of the results of all functions for all dtypes of arrays, beside NumPy's, and whether
there is a result; what differs on purpose stands in benchmarks/results/numpy_differences.json."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy_calls import CALLS, values

import cudamath as cm

DTYPES = (
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 "
    "complex128"
).split()
FILE = Path(__file__).parents[2] / "benchmarks/results/numpy_differences.json"
LIST = json.loads(FILE.read_text(encoding="utf-8"))["differences"]
ON_PURPOSE = {
    (name, dtype)
    for entry in LIST
    for name, dtypes in entry.get("calls", {}).items()
    for dtype in (DTYPES if dtypes == ["*"] else dtypes)
}


def described(result: Any) -> Any:
    """The dtypes of a result, however it is nested; a number's class."""
    if isinstance(result, (tuple, list)):
        return [described(part) for part in result]
    if isinstance(result, np.poly1d):
        return "poly1d", str(result.coeffs.dtype)
    return str(result.dtype) if hasattr(result, "dtype") else type(result).__name__


def outcome(name: str, xp: Any, dtype: str) -> Any:
    """The dtypes of a call's results, or that it is refused."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return described(
                CALLS[name](xp, lambda *shape: xp.asarray(values(np.dtype(dtype), *shape)))
            )
        except Exception as error:
            # not a fault of the table
            assert isinstance(error, (TypeError, ValueError)), (name, dtype, error)
            return "refused"


def differing(name: str) -> set[tuple[str, str]]:
    return {(name, d) for d in DTYPES if outcome(name, np, d) != outcome(name, cm, d)}


@pytest.mark.parametrize("name", CALLS)
def test_dtypes(name):
    if name == "cross of planes" and np.lib.NumpyVersion(np.__version__) >= "2.5.0":
        pytest.skip("NumPy 2.5 refuses vectors of the plane; here they stay")
    for _, dtype in sorted(differing(name) - ON_PURPOSE):
        theirs, ours = outcome(name, np, dtype), outcome(name, cm, dtype)
        pytest.fail(f"{name} of {dtype}: NumPy gives {theirs}, here {ours}")


@pytest.mark.parametrize(
    "entry", [e for e in LIST if "calls" in e], ids=lambda e: e["functions"][0]
)
def test_what_is_listed_differs(entry):
    table = json.loads(FILE.with_name("compatibility.json").read_text(encoding="utf-8"))
    if np.__version__.split(".")[:2] != table["numpy"].split(".")[:2]:
        pytest.skip(f"the list is of NumPy {table['numpy']}")
    assert entry["numpy"] and entry["here"] and entry["why"]
    assert any(differing(name) for name in entry["calls"]), f"{FILE.name}: take this entry out"


def test_every_function_is_called():
    """Whatever NumPy and this package both have and works on numbers is in the table."""
    called = {name.split(" ")[0] for name in CALLS}
    functions = {
        f"{prefix}{name}"
        for prefix, theirs, ours in (
            ("", np, cm),
            ("linalg.", np.linalg, cm.linalg),
            ("fft.", np.fft, cm.fft),
        )
        for name in dir(theirs)
        if not name.startswith("_")
        and callable(getattr(theirs, name))
        and not isinstance(getattr(theirs, name), type)
        and callable(getattr(ours, name, None))
    }
    missing = functions - called - WITHOUT_NUMBERS
    assert not missing, f"add to tests/support/numpy_calls.py: {sorted(missing)}"


#: Functions of shapes, dtypes, indices, text, files and settings, and those that change an array.
WITHOUT_NUMBERS = set(
    (
        "array2string array_repr array_str asarray_chkfinite astype bartlett base_repr "
        "binary_repr blackman broadcast_shapes can_cast common_type copyto diag_indices "
        "diag_indices_from einsum_path empty fft.fftfreq fft.rfftfreq format_float_positional "
        "format_float_scientific from_dlpack frombuffer fromfile fromfunction fromiter fromregex "
        "fromstring genfromtxt get_printoptions geterr hamming hanning indices iscomplexobj "
        "isdtype isfortran isrealobj isscalar issubdtype iterable kaiser load loadtxt "
        "mask_indices may_share_memory min_scalar_type ndim ones place printoptions promote_types "
        "put put_along_axis putmask ravel_multi_index require result_type save savetxt savez "
        "savez_compressed set_printoptions seterr shape shares_memory size tril_indices "
        "tril_indices_from triu_indices triu_indices_from unravel_index zeros broadcast "
        "mintypecode nditer row_stack typename "
    ).split()
)


def test_powers_of_whole_numbers(device):
    """A float as exponent gives floats, also 2.0."""
    host = np.array([1, 2, -3])
    for y in (2, 2.0, -1.0, 0.0, 3):
        with np.errstate(all="ignore"):
            expected, found = host**y, cm.pow(cm.asarray(host), y)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-15)
    with pytest.raises(ValueError, match="^pow: integers to a negative integer power"):
        cm.pow(cm.asarray(host), -1)


def test_functions_of_whole_numbers_have_the_default_dtype(device):
    """NumPy's float64 becomes the dtype that floats have by default, other results stay."""
    x = cm.asarray([1, 4, 9])
    try:
        cm.set_default_dtype("float32")
        assert cm.sqrt(x).dtype == cm.exp(x).dtype == np.float32
        assert cm.sqrt(x).tolist() == [1, 2, 3]
        assert cm.true_divide(x, x).dtype == np.float32
        assert cm.signbit(x).dtype == np.bool_
    finally:
        cm.set_default_dtype("float64")
    assert cm.sqrt(x).dtype == np.float64


def test_places_are_of_64_bits(device):
    """Whether there are some or none, and when they are drawn by weights."""
    for at in (np.zeros(0, int), np.zeros((2, 0), int), np.array([5, 0])):
        found, expected = cm.unravel_index(cm.asarray(at), (2, 3)), np.unravel_index(at, (2, 3))
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours.to_numpy(), theirs)
    weights = np.array([0.5, 0.25, 0.25])
    drawn = cm.random.default_rng(0).choice(3, 2, replace=False, p=weights)
    assert drawn.dtype == np.random.default_rng(0).choice(3, 2, replace=False, p=weights).dtype


def test_medians_of_16_bits_in_long_and_short_lines(device):
    """Of what float16 does not hold."""
    halves = [1e5] * 1501 + [np.nan] * 7 + [3e5] * 1501
    for given in ([1e5, np.nan, 3e5], halves):
        x = cm.asarray(given, dtype="bfloat16")
        expected = np.nanmedian(np.asarray(x.astype("float64")))
        np.testing.assert_allclose(float(cm.nanmedian(x)), expected, 4e-3)


@pytest.mark.parametrize("start, stop", [(1.0, [10.0, 100.0]), ([0.5, 2.0], 2.0), (1.0, 16.0)])
def test_geomspace_of_arrays(device, start, stop):
    found, expected = cm.geomspace(start, stop, 5), np.geomspace(start, stop, 5)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-14)
