"""The compiler of the CPU's loops: what it makes of Python is what Python does."""

from __future__ import annotations

import math
import subprocess
import sys
import threading

import numpy as np
import pytest

from cudamath.cpu.lib import llvm_compiled, threads
from cudamath.cpu.lib.llvm_compiled import loop, parallel, ufunc
from cudamath.cpu.lib.llvm_compiler import emitted, prange
from cudamath.cpu.lib.llvm_numbers import CompileError, Number

F8, I8 = np.float64, np.int64
TABLE = np.array([[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]])
COEFFICIENTS = (0.5, -2.0, 3.0)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(tmp_path / "kernels"))


def same(function, *arguments):
    """The loop does to arrays what Python does."""
    ours, theirs = ([a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in "12")
    loop(function)(*ours)
    with np.errstate(all="ignore"):
        function(*theirs)
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b)


def test_arithmetic_of_whole_numbers():
    def function(x, y, out):
        for i in range(x.size):
            a, b = x[i], y[i]
            out[i, 0], out[i, 1], out[i, 2] = a + b, a - b, a * b
            out[i, 3], out[i, 4] = a // b, a % b
            out[i, 5], out[i, 6], out[i, 7] = a & b, a | b, a ^ b
            out[i, 8], out[i, 9] = a >> 2, a << 3
            out[i, 10], out[i, 11], out[i, 12] = -a, abs(a), min(a, b, 3)
            out[i, 13], out[i, 14] = a**3, max(a, b)

    pairs = [(a, b) for a in range(-9, 10) for b in range(-9, 10) if b]
    x, y = np.array(pairs, I8).T
    same(function, x.copy(), y.copy(), np.zeros((x.size, 15), I8))


def test_division_of_whole_numbers_by_zero_is_zero():
    def function(x, y, out):
        out[0], out[1] = x // y, x % y

    out = np.ones(2, I8)
    loop(function)(7, 0, out)
    assert out.tolist() == [0, 0]


def test_arithmetic_of_floats():
    def function(x, y, out):
        for i in range(x.size):
            a, b = x[i], y[i]
            out[i, 0], out[i, 1], out[i, 2], out[i, 3] = a + b, a - b, a * b, a / b
            out[i, 4], out[i, 5], out[i, 6] = a % b, a**2, -a
            out[i, 7], out[i, 8], out[i, 9] = min(a, b), max(a, b), abs(a)
            out[i, 10], out[i, 11] = (a < b) + (a == b) * 2, 1.0 if a != a else 0.5
            out[i, 12] = 1.0 if 0.0 <= a < b else 2.0

    numbers = [-math.inf, -7.5, -1.0, -0.0, 0.0, 0.3, 2.0, 1e300, math.inf, math.nan]
    x, y = (m.ravel() for m in np.meshgrid(numbers, numbers))
    keep = y != 0  # Python raises
    same(function, x[keep], y[keep], np.zeros((keep.sum(), 13)))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "u8", "f4"])
def test_numbers_of_memory_are_widened(dtype):
    """Sums of small integers do not wrap, as in Numba; float32 stays."""

    def function(x, out):
        out[0] = x[0] + x[1]
        out[1] = x[0] * x[1]

    x = np.array([100, 101], dtype)
    out = np.zeros(2, np.promote_types(dtype, "i8") if dtype[0] != "f" else dtype)
    loop(function)(x, out)
    assert out.tolist() == [201, 10100]


def test_control_flow():
    def function(n, out):
        k = 0
        for i in range(n):
            if i % 3 == 0 and i % 2 == 0:
                continue
            if i > 40 or (i > 20 and not i % 7):
                break
            j = i
            while j > 0:
                j //= 2
                k += 1
            for q in range(i, 0, -2):
                if q == 5:
                    break
                k += q
        out[0], out[1] = k, i

    for n in (1, 5, 30, 100):
        same(function, n, np.zeros(2, I8))


def test_a_value_decides_or_the_next():
    def function(x, out):
        for i in range(x.size):
            out[i] = x[i] or i + 7

    same(function, np.array([0, 3, 0, -2]), np.zeros(4, I8))


def lost(a, b):
    """0 for a small b, as floats add; b where sums may be regrouped."""
    return (a + b) - a


kept = loop(lost, fastmath=("reassoc", "nsz"))


def total(a, b):
    return a + b


def test_functions_that_take_the_same_and_one_that_takes_several():
    def function(x, n, out):
        out[0] = lost(x[0], x[1]) + 10 * total(x[0], x[1])
        out[1] = total(n[0], n[1]) // 2 + 10 * total(x[0], x[1])

    same(function, np.array([0.5, 2.0]), np.array([2, 3]), np.zeros(2))


def test_a_called_function_has_its_own_flags():
    """And is another one for each type."""

    def exact(x, out):
        out[0] = lost(x[0], x[1])

    def regrouped(x, out):
        out[0] = kept(x[0], x[1])

    def both(x, out):
        out[0] = lost(x[0], x[1]) + 10 * kept(x[0], x[1])

    for dtype, large in ((np.float64, 2.0**53), (np.float32, 2.0**24)):
        x, out = np.array([large, 1.0], dtype), np.zeros(1, dtype)
        for function, expected in ((exact, 0.0), (regrouped, 1.0), (both, 10.0)):
            loop(function)(x, out)
            assert out[0] == expected, (function, dtype)


def test_functions_tables_and_tuples():
    def horner(x, coefficients):
        y = 0.0
        for c in coefficients:
            y = y * x + c
        return y

    def both(a, b=2.0):
        return a + b, (a - b, a * b)

    def function(x, out):
        for i in range(x.size):
            s, (d, p) = both(x[i], b=3.0)
            t = both(x[i])[1]
            out[i, 0], out[i, 1] = horner(x[i], COEFFICIENTS), s + d * p
            out[i, 2], out[i, 3] = t[i % 2], TABLE[i % 2, i % 3]
            out[i, 4] = len(COEFFICIENTS) + x.ndim + TABLE.shape[1]

    same(function, np.linspace(-2, 2, 7), np.zeros((7, 5)))


def test_views_slices_and_scratch():
    def function(x, out):
        rows = np.zeros((2, x.shape[2]), x.dtype)
        for k in range(x.shape[0]):
            line = np.empty(x.shape[2], x.dtype)  # its memory of the turn before is freed
            plane = x[k]
            for i in range(plane.shape[0]):
                part = x[k, i, 1:100]
                for j in range(part.size):
                    line[j] = part[j] * 2
                    rows[i % 2, j] += line[j]
            out[k, 1:3] = plane.reshape(-1)[2]
        out[0, 0] = rows[0, 0] + rows[1, 0] + x[:1].size

    same(function, np.arange(24.0).reshape(2, 3, 4), np.zeros((2, 5)))


def test_the_functions_of_the_library():
    names = "exp log sqrt sin cos tan sinh cosh tanh asin acos atan log1p expm1 erf erfc".split()
    x = np.array([0.1, 0.5, 0.9])
    for name in names:
        found = ufunc(_of(name))(x)
        truth = [getattr(math, name)(v) for v in x]
        np.testing.assert_allclose(found, truth, rtol=4e-16, err_msg=name)


def _of(name):
    return {
        "exp": _exp, "log": _log, "sqrt": _sqrt, "sin": _sin, "cos": _cos, "tan": _tan,
        "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "asin": _asin, "acos": _acos, "atan": _atan,
        "log1p": _log1p, "expm1": _expm1, "erf": _erf, "erfc": _erfc,
    }[name]  # fmt: skip


def _exp(x):
    return math.exp(x)


def _log(x):
    return math.log(x)


def _sqrt(x):
    return math.sqrt(x)


def _sin(x):
    return math.sin(x)


def _cos(x):
    return math.cos(x)


def _tan(x):
    return math.tan(x)


def _sinh(x):
    return math.sinh(x)


def _cosh(x):
    return math.cosh(x)


def _tanh(x):
    return math.tanh(x)


def _asin(x):
    return math.asin(x)


def _acos(x):
    return math.acos(x)


def _atan(x):
    return math.atan(x)


def _log1p(x):
    return math.log1p(x)


def _expm1(x):
    return math.expm1(x)


def _erf(x):
    return math.erf(x)


def _erfc(x):
    return math.erfc(x)


def _parts(x):
    m, e = math.frexp(x)
    return math.ldexp(m, e - 1) if math.isfinite(x) else m


def test_parts_of_a_float():
    x = np.array([3.0, -0.25, 5e-324, 0.0, math.inf, -math.inf, math.nan])
    np.testing.assert_array_equal(ufunc(_parts)(x), x / 2)


def _difference(a, b):
    return a - 2.0 * b


def test_ufuncs_broadcast_and_convert():
    made = ufunc(_difference, (np.float32, np.float64))
    a, b = np.arange(12.0).reshape(3, 4)[::2], np.array([1, 2, 3, 4], np.int8)
    np.testing.assert_array_equal(made(a, b), a - 2 * b)
    np.testing.assert_array_equal(made(a.T[:, ::-1], 1.0), a.T[:, ::-1] - 2)
    out = np.zeros((2, 4))
    assert made(a, b, out=out, where=b > 2) is out and out[0].tolist() == [0, 0, -4, -5]
    assert made(np.float32(1), np.float32(2)).dtype == np.float32
    assert (made.nin, made.nout, made.__name__) == (2, 1, "_difference")


# -------------------- what is refused


def test_a_variable_keeps_its_type():
    def function(x, out):
        y = x[0]
        y = y + 1.0  # float32, then float64
        out[0] = y

    with pytest.raises(CompileError, match="y is float32, and then float64"):
        loop(function)(np.ones(1, np.float32), np.zeros(1))


def test_a_whole_number_of_the_source_becomes_a_float():
    def function(x, out):
        y = 0
        for i in range(x.size):
            y = y * 0.5 + x[i]
        out[0] = y

    same(function, np.arange(5.0), np.zeros(1))


def test_names_of_one_value_and_of_several():
    """The first need no memory; what a branch, a loop or an argument's change assigns does."""

    def function(x, count, out):
        first, (second, third) = x[0], (x[1], x[2])
        kept = first
        first += 1.0
        if second > 0.0:
            branch = second
        else:
            branch = -second
        for i in range(count):
            last = x[i] * kept
            third += last
        count = count + 1
        second, swapped = branch, second
        out[0], out[1], out[2], out[3] = first, kept, branch, third
        out[4], out[5], out[6] = count, second, swapped

    for sign in (1.0, -1.0):
        same(function, sign * np.arange(1.0, 5.0), 4, np.zeros(7))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("out[0] = x.size + np.uint64(x.size)", "int64 beside uint64"),
        ("out[0] = nowhere", "there is no nowhere"),
        ("out[0] = x[0.5]", "a float is no index"),
        ("out[x[0]] = 1.0", "a float is no index"),
        ("out[0] = x[: x[0]][0]", "a float is no index"),
        ("for i in range(x[0]): out[0] = i", "a float is no index"),
        ("out[0] = print(1)", "cannot be called here"),
        ("out[0] = x[0:2:2][0]", "a slice comes last"),
        ("with x: pass", "no With here"),
        ("out[0] = [1][0]", "no List here"),
        ("out[0] = np; np = 1.0", "np is read before it is assigned"),
    ],
)
def test_errors_name_the_line(tmp_path, body, said):
    path = tmp_path / "made.py"
    path.write_text(f"import numpy as np\n\ndef function(x, out):\n    {body}\n")
    names: dict = {"__name__": "made"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with pytest.raises(CompileError, match=said) as caught:
        loop(names["function"])(np.ones(3), np.zeros(1))
    assert str(caught.value).startswith(f"{path}:4: function: ")


def test_arguments_that_are_not_taken():
    with pytest.raises(TypeError, match="take no str"):
        loop(_scaled)(np.ones(3), "2")


@pytest.mark.parametrize("turned", [lambda x: x.T, lambda x: x[:, ::2], lambda x: x[::-1]])
def test_arrays_in_another_order_are_refused(turned):
    """Also after one in C order."""
    run, x = loop(_first), np.arange(12.0).reshape(3, 4)
    run(x, np.zeros(1))
    with pytest.raises(TypeError, match="in C order"):
        run(turned(x), np.zeros(1))


def _first(x, out):
    out[0] = x[1, 0]


def _scaled(x, factor):
    for i in range(x.size):
        x[i] *= factor


# -------------------- memory, threads, processes


def test_memory_that_is_not_there():
    def function(n, out):
        scratch = np.empty(n, np.float64)
        for i in range(out.size):
            scratch[n - out.size * i - 1] = i
        for i in range(out.size):
            out[i] = scratch[n - i * i - 1]

    with pytest.raises(MemoryError):
        loop(function)(1 << 58, np.zeros(3))


def _in_parts(x, out):
    scratch = np.zeros(1)
    for i in prange(x.size):
        scratch[0] += 1
        out[i] += x[i] * 2 + (scratch[0] < 0)


def test_parts_are_all_of_it_once():
    run = parallel(_in_parts)
    for n in (0, 1, 2, 5, 1000):
        x = np.arange(float(n))
        for count in (1, 2, 3, 8, 64):
            out = np.zeros(n)
            with threads.limited(count):
                run(x, out)
            np.testing.assert_array_equal(out, 2 * x)


def test_parts_without_openmp(monkeypatch):
    monkeypatch.setattr(threads, "_team", lambda: None)
    out = np.zeros(1000)
    with threads.limited(3):
        parallel(_in_parts)(np.arange(1000.0), out)
    np.testing.assert_array_equal(out, 2 * np.arange(1000))


def test_a_thread_without_memory():
    def function(n, out):
        for i in prange(out.size):
            scratch = np.empty(n, np.float64)
            for k in range(i):
                scratch[n - out.size * k - 1] = k
            out[i] = scratch[n - i * i - 1]

    for count in (1, 4):
        with threads.limited(count), pytest.raises(MemoryError):
            parallel(function)(1 << 58, np.zeros(8))


def test_threads_of_python_call_at_once():
    run, outs = parallel(_in_parts), [np.zeros(100) for _ in range(8)]
    callers = [threading.Thread(target=run, args=(np.arange(100.0), out)) for out in outs]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert all((out == 2 * np.arange(100)).all() for out in outs)


def test_a_fork_computes_alone():
    """OpenMP's threads stay behind."""
    program = """
import os, sys, numpy as np
sys.path.insert(0, sys.argv[1])
import cudamath as cm
from cudamath.cpu.lib import threads
x = cm.ones((64, 8, 16, 16), device="cpu")
before = cm.ml.max_pool2d(x, 2).tolist()
if (child := os.fork()) == 0:
    ok = cm.ml.max_pool2d(x, 2).tolist() == before and threads.count() == 1
    os._exit(0 if ok else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    root = str(__import__("pathlib").Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", program, root], timeout=120, check=False)
    assert done.returncode == 0


def test_emitted_functions_write_llvm():
    @emitted
    def fma(b, x, y, z):
        """x y + z, rounded once."""
        return Number(x.dtype, b.fma(x.value, y.value, z.value))

    def function(x, out):
        for i in range(x.size):
            out[i] = fma(x[i], x[i], x[i])

    x, out = np.array([0.1, 1 + 2.0**-30]), np.zeros(2)
    loop(function)(x, out)
    exact = [float(math.fma(v, v, v)) if hasattr(math, "fma") else None for v in x]
    if exact[0] is not None:
        assert out.tolist() == exact
    assert abs(out - (x * x + x)).max() < 1e-15


def test_calls_do_not_compile_again(monkeypatch):
    run = loop(_scaled)
    x = np.ones(4)
    run(x, 2.0)
    monkeypatch.setattr(llvm_compiled, "_loaded", lambda *_: pytest.fail("compiled again"))
    run(np.ones(7), 3.0)
    assert x.tolist() == [2.0] * 4


def test_the_number_of_threads_is_openmp_s(monkeypatch):
    monkeypatch.setattr(threads, "_left_behind", False)
    for text, count in (("3", 3), ("2,4", 2), ("", 5), ("0", 5), ("many", 5)):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        monkeypatch.setattr(threads.host, "cores", lambda: 5)
        threads._cores.cache_clear()
        assert threads.count() == count
    threads._cores.cache_clear()


def test_a_source_that_has_changed_since_it_was_imported(tmp_path):
    path = tmp_path / "made.py"
    path.write_text("def function(x):\n    x[0] = 1\n")
    names: dict = {"__name__": "made"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    path.write_text("# a line more\n" + path.read_text())
    with pytest.raises(RuntimeError, match="has changed since it was imported"):
        loop(names["function"])(np.ones(1))
    path.unlink()
    with pytest.raises(RuntimeError, match="or is not there"):
        loop(names["function"])(np.ones(1))
