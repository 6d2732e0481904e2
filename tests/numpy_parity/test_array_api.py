"""The Python array API standard: its names, its inspection, and its own test suite where a checkout
of it is at hand.

`ARRAY_API_TESTS=/path/to/array-api-tests pytest tests/numpy_parity/test_array_api.py` runs that
suite (github.com/data-apis/ array-api-tests, its submodule filled in; it wants ndindex and
pytest-json-report) on the default device, at the revisions 2024.12 and 2025.12. What fails must be
listed, with its reason, in array_api_exceptions.txt.
"""

from __future__ import annotations

import inspect
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import cudamath as cm

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support"
SUITE = os.environ.get("ARRAY_API_TESTS", "")

#: Every function and constant of the revision 2025.12; extensions and methods below.
NAMES = """
e inf nan newaxis pi arange asarray empty empty_like eye from_dlpack full full_like linspace
meshgrid ones ones_like tril triu zeros zeros_like astype broadcast_arrays broadcast_shapes
broadcast_to can_cast finfo iinfo isdtype result_type abs acos acosh add asin asinh atan atan2
atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor
ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal
hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and
logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive
pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc take
take_along_axis matmul matrix_transpose tensordot vecdot concat expand_dims flip moveaxis
permute_dims repeat reshape roll squeeze stack tile unstack argmax argmin count_nonzero nonzero
searchsorted where isin unique_all unique_counts unique_inverse unique_values argsort sort
cumulative_prod cumulative_sum max mean min prod std sum var all any diff bool int8 int16 int32
int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128 __array_namespace_info__
__array_api_version__
""".split()
LINALG = """
cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power
matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot
vector_norm
""".split()
FFT = (
    "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift "
    "ifftshift".split()
)
METHODS = """
__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__
__eq__ __float__ __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__
__lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __rshift__
__setitem__ __sub__ __truediv__ __xor__ to_device dtype device mT ndim shape size T __iadd__
__isub__ __imul__ __itruediv__ __ifloordiv__ __ipow__ __imod__ __imatmul__ __iand__ __ior__
__ixor__ __ilshift__ __irshift__ __radd__ __rsub__ __rmul__ __rtruediv__ __rfloordiv__ __rpow__
__rmod__ __rmatmul__ __rand__ __ror__ __rxor__ __rlshift__ __rrshift__
""".split()


def test_no_name_is_missing():
    assert [n for n in NAMES if not hasattr(cm, n)] == []
    assert [n for n in LINALG if not hasattr(cm.linalg, n)] == []
    assert [n for n in FFT if not hasattr(cm.fft, n)] == []
    assert [n for n in METHODS if not hasattr(cm.ndarray, n)] == []


def test_namespace():
    x = cm.zeros(2)
    for space in (x.__array_namespace__(), x.__array_namespace__(api_version="2024.12")):
        assert space.__name__ == "cudamath" and space.float32 is cm.float32
        assert type(space.sum(space.asarray(x))) is not np.float64
    assert cm.__array_api_version__ == "2025.12"
    with pytest.raises(ValueError, match="__array_namespace__: unknown version '1999.01'"):
        x.__array_namespace__(api_version="1999.01")


def test_inspection(device):
    info = cm.__array_namespace_info__()
    assert info.default_device() == device and device in [d.type for d in info.devices()]
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 64,
    }
    assert info.default_dtypes() == {
        "real floating": np.float64,
        "complex floating": np.complex128,
        "integral": np.int64,
        "indexing": np.int64,
    }
    kinds = {
        "bool": 1,
        "signed integer": 4,
        "unsigned integer": 4,
        "integral": 8,
        "real floating": 2,
        "complex floating": 2,
        "numeric": 12,
        None: 13,
        ("bool", "integral"): 9,
    }
    for kind, count in kinds.items():
        found = info.dtypes(kind=kind, device=info.default_device())
        assert len(found) == count and all(
            cm.empty(1, dtype=d).dtype == name for name, d in found.items()
        )
    cm.set_default_dtype("float32")
    try:
        assert info.default_dtypes()["real floating"] == np.float32
    finally:
        cm.set_default_dtype("float64")


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
)
def test_finfo(dtype):
    import ml_dtypes

    limits = cm.finfo(dtype)
    real = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    truth = ml_dtypes.finfo(ml_dtypes.bfloat16 if real == "bfloat16" else real)
    assert limits.dtype == real and limits.bits == truth.bits
    for name in ("eps", "max", "min", "smallest_normal", "smallest_subnormal", "tiny"):
        assert type(getattr(limits, name)) is float and getattr(limits, name) == float(
            getattr(truth, name)
        )
    assert limits == cm.finfo(cm.zeros(2, dtype=dtype))


def test_iinfo_and_casts():
    for dtype in ("int8", "uint16", "int64", "uint64"):
        limits, truth = cm.iinfo(dtype), np.iinfo(dtype)
        assert (limits.bits, limits.max, limits.min, limits.dtype) == (
            truth.bits,
            truth.max,
            truth.min,
            dtype,
        )
    for a in ("bool", "int8", "uint32", "float32", "float64", "complex64"):
        for b in ("bool", "int8", "uint32", "float32", "float64", "complex64"):
            for rule in ("safe", "same_kind", "unsafe", "no"):
                assert cm.can_cast(a, b, rule) == np.can_cast(a, b, rule)
            assert cm.promote_types(a, b) == np.promote_types(a, b)
    assert cm.can_cast(cm.bfloat16, "float32") and not cm.can_cast("float32", cm.bfloat16)
    assert cm.can_cast("float64", cm.bfloat16, "same_kind") and not cm.can_cast(
        cm.bfloat16, "int32", "same_kind"
    )
    assert cm.can_cast(cm.zeros(2, dtype="int8"), "int16")
    assert cm.isdtype(cm.bfloat16, "real floating") and not cm.isdtype(
        cm.int8, ("bool", "complex floating")
    )


def exceptions(version: str, device: str) -> list[str]:
    """What may fail at a revision on a device ("cpu" or "cuda")."""
    found = []
    for line in (SUPPORT / "array_api_exceptions.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            versions, devices, test, reason = [part.strip() for part in line.split(" | ")]
            assert reason
            if versions in ("any", version) and devices in ("any", device):
                found.append(test)
    return found


def test_exceptions_are_few():
    assert 0 < len(exceptions("2024.12", "cpu")) <= 8 and len(exceptions("2025.12", "cuda")) <= 6


@pytest.mark.slow
@pytest.mark.skipif(
    not SUITE, reason="ARRAY_API_TESTS names no checkout of data-apis/array-api-tests"
)
@pytest.mark.parametrize("version", ["2024.12", "2025.12"])
def test_the_standards_own_suite(version):
    device = cm.default_device().type
    environment = {
        **os.environ,
        "ARRAY_API_TESTS_MODULE": "cudamath",
        "ARRAY_API_TESTS_VERSION": version,
        "ARRAY_API_TESTS_MAX_ARRAY_SIZE": "256",
        "PYTHONHASHSEED": "0",
        "CUDAMATH_DEVICE": device,
    }
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), str(SUPPORT), environment.get("PYTHONPATH", "")]
    )
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "array_api_tests",
            "-q",
            "-rf",
            "--tb=no",
            "--max-examples",
            "20",
            "--derandomize",
            "--disable-deadline",
            "-p",
            "no:cacheprovider",
            "-W",
            "ignore",
            "-n",
            "2",
            "-p",
            "array_api_plugin",
        ],
        cwd=SUITE,
        env=environment,
        capture_output=True,
        text=True,
    )
    failed = re.findall(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", run.stdout, re.M)
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed, run.stdout[-3000:] + run.stderr[-3000:]
    allowed = exceptions(version, device)
    assert [test for test in failed if not any(listed in test for listed in allowed)] == []
    assert int(passed[1]) >= 1355


def test_signatures_take_what_the_standard_passes():
    """By name, beyond what NumPy calls the same."""
    for name, keywords in {
        "astype": ("copy", "device"),
        "asarray": ("dtype", "device", "copy"),
        "sort": ("axis", "descending", "stable"),
        "cumulative_sum": ("axis", "dtype", "include_initial"),
        "var": ("axis", "correction", "keepdims"),
        "from_dlpack": ("device", "copy"),
        "diff": ("axis", "n", "prepend", "append"),
        "full_like": ("fill_value", "dtype", "device"),
        "linspace": ("num", "dtype", "device", "endpoint"),
        "argmax": ("axis", "keepdims"),
        "take_along_axis": ("axis",),
        "isin": ("invert",),
    }.items():
        parameters = inspect.signature(getattr(cm, name)).parameters
        assert [k for k in keywords if k not in parameters] == [], name
