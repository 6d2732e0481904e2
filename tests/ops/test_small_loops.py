"""Small operations that call the inner loops of NumPy's ufuncs give what the ufuncs give: the same
bits, dtypes and strides, and they leave the same objects."""

import ctypes
import gc
import operator
import sys

import numpy as np
import pytest

import cudamath as cm
from cudamath.core import dtypes
from cudamath.core.array import ndarray
from cudamath.cpu.lib import llvm_objects, numpy_loops
from cudamath.ops import methods

ARITHMETIC = [
    getattr(operator, name)
    for name in "add sub mul truediv floordiv mod pow eq ne lt le gt ge and_ or_ xor".split()
]
INPLACE = [getattr(operator, name) for name in "iadd isub imul itruediv iand ior".split()]
UNARY = [operator.neg, operator.pos, operator.abs, operator.invert]
FUNCTIONS = [
    (getattr(np, name), getattr(cm, name))
    for name in "exp log sin cos tanh sqrt square abs sign floor isnan maximum hypot".split()
]
DTYPES = ["f8", "f8", "f8", "f4", "i8", "i8", "?", "u1", "c16", "i4"]
NUMBERS = [
    2, -1, 0, 7, 0.5, -0.0, float("nan"), float("inf"), 1e300, True, 10**30, 2**53 + 1, 1j,
    np.float64(1.5), np.int64(3), np.float32(0.1), np.bool_(True), np.uint8(200), np.complex128(1j),
]  # fmt: skip
SIZES = [1, 1, 2, 3, 5, 8, 0]


@pytest.fixture(scope="module", autouse=True)
def compiled():
    with cm.device("cpu"):
        methods.compile_methods()
        yield


def some_array(rng, shape=None):
    """An array of NumPy with any strides, and the same of this package."""
    dtype = np.dtype(DTYPES[rng.integers(len(DTYPES))])
    if shape is None:
        shape = tuple([SIZES[k] for k in rng.integers(len(SIZES), size=rng.integers(4))])
    wide = tuple([2 * n for n in shape])
    base = (rng.normal(size=wide) * 3).astype(dtype)
    if dtype.kind == "f" and base.size and rng.random() < 0.2:
        base.flat[rng.integers(base.size)] = [np.nan, np.inf, -np.inf, 0][rng.integers(4)]
    ours = cm.asarray(base.copy(), device="cpu")
    steps = [
        [slice(None, n), slice(n, None), slice(None, None, 2), slice(None, None, -2)] for n in shape
    ]
    key = tuple([each[rng.integers(4)] for each in steps])
    if rng.random() < 0.5:  # in order
        return np.ascontiguousarray(base[key]).reshape(shape), cm.asarray(
            np.ascontiguousarray(base[key]).reshape(shape).copy(), device="cpu"
        )
    host, x = base[key], ours[key]
    if rng.random() < 0.3 and host.ndim > 1:
        host, x = host.T, x.T
    return host, x


def beside(rng, host):
    """An array that is broadcast with another, or a number."""
    if rng.random() < 0.35:
        number = NUMBERS[rng.integers(len(NUMBERS))]
        return number, number
    shape = [n if rng.random() < 0.8 else 1 for n in host.shape]
    return some_array(
        rng, tuple(shape[rng.integers(len(shape) + 1) if rng.random() < 0.3 else 0 :])
    )


def described(result):
    if isinstance(result, (ndarray, np.ndarray)):
        strides = [s for n, s in zip(result.shape, result.strides, strict=True) if n > 1]
        host = np.asarray(result)
        return "array", host.dtype, host.shape, strides * bool(host.size), host.tobytes()
    return type(result), np.asarray(result).tobytes()


def outcome(function, *arguments):
    with np.errstate(all="ignore"):
        try:
            return described(function(*arguments))
        except (TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
            return type(error)


def agree(ours, theirs):
    """Errors of NumPy may be results here, and the other way round, but not other results."""
    return ours == theirs or isinstance(theirs, type) or isinstance(ours, type)


def accepted(function, host, other):
    """Whether the package defines this operation as NumPy does: test_operators_as_numpy has the
    exceptions, which are of classes of dtypes."""
    kinds = {np.asarray(host).dtype.kind, np.asarray(other).dtype.kind}
    return not (function in (operator.floordiv, operator.mod) and "f" in kinds) and not (
        function is operator.pow and (kinds - {"f", "i"})
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(8))
def test_operators_on_any_arrays(seed):
    """The reference is NumPy; where this package differs from it by design, its own function
    without machine code."""
    rng = np.random.default_rng(seed)
    compared = 0
    for _ in range(400):
        host, x = some_array(rng)
        if rng.random() < 0.15:
            function = UNARY[rng.integers(len(UNARY))]
            ours, theirs = outcome(function, x), outcome(function, host)
            ours = outcome(function, x)
            assert agree(ours, theirs), (function, host.dtype, host.shape)
            continue
        function = ARITHMETIC[rng.integers(len(ARITHMETIC))]
        other, y = beside(rng, host)
        if not accepted(function, host, other):
            continue
        for _ in range(3):  # found in Python, entered, and by the loop
            for left, right, one, two in ((x, y, host, other), (y, x, other, host)):
                ours, theirs = outcome(function, left, right), outcome(function, one, two)
                assert agree(ours, theirs), (function, host.dtype, host.strides, other)
                compared += not isinstance(theirs, type)
    assert compared > 500


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(4))
def test_in_place_on_any_arrays(seed):
    rng = np.random.default_rng(100 + seed)
    for _ in range(300):
        host, x = some_array(rng)
        function = INPLACE[rng.integers(len(INPLACE))]
        other, y = beside(rng, host)
        if rng.random() < 0.3 and host.ndim:  # in the same memory
            key = (slice(None, None, -1), ..., slice(0, 1))[rng.integers(3)]
            other, y = host[key], x[key]
        for _ in range(3):
            ours, theirs = outcome(function, x, y), outcome(function, host, other)
            if isinstance(theirs, type) or isinstance(ours, type):
                break
            assert ours == theirs, (function, host.dtype, host.strides, other)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(4))
def test_functions_on_any_arrays(seed):
    rng = np.random.default_rng(200 + seed)
    for _ in range(200):
        host, x = some_array(rng)
        theirs, ours = FUNCTIONS[rng.integers(len(FUNCTIONS))]
        if host.dtype.kind == "c" or ours in (cm.sign,) and host.dtype.kind == "f":
            continue
        given, own = (host,), (x,)
        if theirs.nin == 2:
            other, y = beside(rng, host)
            given, own = (host, other), (x, y)
        for _ in range(3):
            assert agree(outcome(ours, *own), outcome(theirs, *given)), (theirs, host.dtype)
        if host.size and host.dtype.kind == "f" and theirs.nin == 1:
            element = host.flat[0]
            for _ in range(3):
                assert outcome(ours, element) == outcome(theirs, element)


@pytest.mark.filterwarnings("ignore")
def test_strides_of_results():
    """In the order in memory that NumPy chooses."""
    rng = np.random.default_rng(7)
    for _ in range(600):
        host, x = some_array(rng)
        other, y = beside(rng, host)
        if host.dtype != "f8" or getattr(other, "dtype", host.dtype) != "f8":
            continue
        try:
            wanted = host + other
        except ValueError:
            continue
        for _ in range(3):
            result = x + y
        if isinstance(result, ndarray) and 1 < result.ndim and result.size:
            long = [k for k, n in enumerate(wanted.shape) if n > 1]
            assert [result.strides[k] for k in long] == [wanted.strides[k] for k in long]


def test_many_operations_leave_nothing():
    """10^5 operations: as many references as before, and no memory more."""
    x, m = cm.arange(4.0, device="cpu"), cm.ones((3, 3), device="cpu")
    row, whole, two = m[0], cm.arange(4, device="cpu"), np.float64(2)

    def work(times):
        for _ in range(times):
            x + x, x * 2.0, 3 - x, x < 1, m + row, m * m[:, :1], -x, two * x, x / two
            whole + 1, whole * whole, whole == 2, x + whole
            y = x + 0.0
            y += x
            y *= 2
            y -= whole
            cm.exp(x), cm.sin(two), cm.maximum(x, 0.0), cm.sqrt(two)

    things = [x, m, row, whole, two, x._data, x._layout, x.dtype, whole.dtype, np.add, float, None]

    def changes(times):
        """Of references to each of the things, of objects, and of blocks of memory."""
        gc.collect()
        before = [sys.getrefcount(each) for each in things]
        objects, blocks = len(gc.get_objects()), sys.getallocatedblocks()
        work(times)
        gc.collect()
        after = [sys.getrefcount(each) for each in things]
        moved = [abs(b - a) for a, b in zip(before, after, strict=True)]
        return max(moved), len(gc.get_objects()) - objects, sys.getallocatedblocks() - blocks

    work(300)
    # What other tests have left (threads, caches) may change None's once; a leak is there always.
    seen = [changes(5000) for _ in range(2)]
    assert min(references for references, _, _ in seen) < 100, seen
    assert min(objects for _, objects, _ in seen) < 200, seen
    assert min(blocks for _, _, blocks in seen) < 500, seen


def test_a_change_of_settings_forgets_the_loops():
    x = cm.arange(4.0, device="cpu")
    for _ in range(3):
        assert (x + 1).dtype == np.float64
    for clear in dtypes.forget:
        clear()
    for _ in range(3):
        assert (x + 1).tolist() == [1, 2, 3, 4]


def test_another_layout_of_ufuncs_is_refused(monkeypatch):
    """No loop is found where a ufunc's fields do not agree with what it says of itself."""
    double = np.dtype(np.float64)
    assert numpy_loops.loop_of(np.add, (double,) * 3)
    shifted = type(
        "Shifted",
        (ctypes.Structure,),
        {"_fields_": [("more", ctypes.c_int), *numpy_loops._Ufunc._fields_]},
    )
    monkeypatch.setattr(numpy_loops, "_Ufunc", shifted)
    assert numpy_loops.loop_of(np.add, (double,) * 3) is None


def test_numbers_elsewhere_are_refused(monkeypatch):
    assert numpy_loops.numbers_as_here()
    monkeypatch.setattr(numpy_loops, "VALUE", numpy_loops.VALUE - 8)
    assert not numpy_loops.numbers_as_here()
    assert llvm_objects.supported()


def test_a_loop_that_computes_otherwise_is_not_entered(monkeypatch):
    table = numpy_loops.Table(lambda f, *a: f(*a))
    x = np.arange(1.0, 4)
    monkeypatch.setattr(
        numpy_loops, "loop_of", lambda ufunc, dtypes: LOOPS(np.subtract, dtypes), raising=True
    )
    table.learn(np.add, x, x)
    assert [found for _, _, found in table.held.values()] == [None]


LOOPS = numpy_loops.loop_of


def test_flags_of_the_processor_stay_here():
    """What a loop has raised is not told by a later operation of NumPy."""
    x, none = cm.asarray([1.0, 0.0], device="cpu"), cm.zeros(2, device="cpu")
    number = np.float64(2)
    for _ in range(3):
        x / none, cm.log(none - x), cm.exp(x * 1e300), cm.arange(2, device="cpu") // 0
        with np.errstate(all="raise"):
            assert number * 3 == 6 and np.sqrt(number) > 1 and np.add([1.0], [2.0])[0] == 3
            assert np.float32(1) + np.float32(1) == 2 and np.arange(3.0).astype(int).sum() == 3


def test_where_of_one_condition():
    """A condition that is an element means what an array without dimensions means."""
    x = cm.arange(3.0, device="cpu")
    for condition, arguments in (
        (x[1] > 0.5, (1, -1)),
        (x[1] < 0.5, (1.5, -1)),
        (np.bool_(True), (2.0, 3)),
        (np.float64(0), (2, 3)),
    ):
        wanted = np.where(condition, *arguments)
        for _ in range(3):
            result = cm.where(condition, *arguments)
            assert type(result) is ndarray and not result.shape
            assert result.dtype == wanted.dtype and result.tolist() == wanted.tolist()
    for condition in (np.bool_(True), np.bool_(False)):
        for _ in range(3):
            result = cm.where(condition, x, 7.0)
            assert result.tolist() == np.where(condition, np.arange(3.0), 7.0).tolist()


STATEMENTS = [
    "v{a} = v{b} + v{c}", "v{a} = v{b} - v{c}", "v{a} = v{b} * v{c}", "v{a} = v{b} / v{c}",
    "v{a} = v{b} * {n}", "v{a} = {n} - v{b}", "v{a} = v{b} + s{c}", "v{a} = s{b} * v{c}",
    "v{a} += v{b}", "v{a} -= {n}", "v{a} *= s{b}", "v{a} /= v{b}", "v{a} = v{b}[::-1]",
    "v{a} = v{b}.T", "v{a} = v{b}[1:]", "v{a} = v{b}[:, None]", "v{a} = -v{b}", "v{a} = abs(v{b})",
    "s{a} = v{b}[{i}]", "s{a} = v{b}[{i}, {j}]", "v{a}[{i}] = {n}", "v{a}[{i}] += s{b}",
    "v{a}[{i}, ...] = v{b}[{j}]", "s{a} = s{b} + s{c}", "s{a} = s{b} * {n}", "v{a} = v{b} < v{c}",
    "v{a} = np.where(v{b} > {n}, v{c}, s{a})", "v{a} = np.maximum(v{b}, v{c})", "s{a} += v{b}[{i}]",
    "v{a} = np.sqrt(np.abs(v{b}))", "v{a} = np.exp(v{b} * 0.1)", "s{a} = np.sin(s{b})",
    "v{a} = (v{b} + 0) ** 2", "v{a} = v{b} == v{c}", "v{a} = v{b} & (v{c} > 0)",
    "s{a} = v{b}.max()",
    "v{a} = v{b}.copy()", "v{a} = v{b}.reshape(-1)", "v{a} = np.asarray(s{b}) + v{c}",
    "v{a}[:] = v{b}", "v{a}[v{b} > {n}] = {n}", "v{a} = v{b}[v{b} > {n}]", "t{a} = v{b}",
]  # fmt: skip


def a_program(rng):
    """Statements about three arrays v, three numbers s and three further names t of arrays."""
    lines = []
    for k in rng.integers(len(STATEMENTS), size=rng.integers(2, 16)):
        a, b, c, i, j = rng.integers(3, size=5)
        n = [0, 1, 2, -1, 0.5, 3.0][rng.integers(6)]
        lines.append(STATEMENTS[k].format(a=a, b=b, c=c, i=i - 1, j=j, n=n))
    return lines


def ran(lines, module, starts):
    """What the names are after each line that did not fail, and which failed."""
    copied = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in starts.items()}
    names = {
        name: module.asarray(x) if isinstance(x, np.ndarray) else x for name, x in copied.items()
    }
    failed = []
    with np.errstate(all="ignore"):
        for k, line in enumerate(lines):
            try:
                exec(line, {"np": module}, names)
            except (ValueError, TypeError, IndexError):
                failed.append(k)
    return {name: described(x) for name, x in sorted(names.items())}, failed


def differing_program(seed):
    """The lines of a random program whose names are others than with NumPy, or None."""
    rng = np.random.default_rng(seed)
    starts = {}
    for k in range(3):
        shape = [(3,), (3, 3), (3, 1), (), (1, 3)][rng.integers(5)]
        kind = "f8 f8 i8 ?".split()[rng.integers(4)]
        starts[f"v{k}"] = np.asarray((rng.normal(size=shape) * 3).round(1)).astype(kind)
        starts[f"s{k}"] = [np.float64(1.5), np.int64(2), np.bool_(True)][rng.integers(3)]
    lines = a_program(rng)
    ours, theirs = ran(lines, cm, starts), ran(lines, np, starts)
    return None if ours == theirs else (seed, lines, starts, ours, theirs)


@pytest.mark.filterwarnings("ignore")
def test_random_programs():
    differing = [found for seed in range(1500) if (found := differing_program(seed))]
    assert not differing, differing[0]


def test_operators_are_in_a_profile():
    """A profile sees the operators that are machine code otherwise."""
    x = cm.arange(4.0, device="cpu")

    def work():
        y = x * 2.0 + x
        y += x
        return -y @ x, cm.sqrt(x)

    for _ in range(4):
        work()
    with cm.cuda.profile() as profile:
        for _ in range(3):
            work()
    counts = {row["name"]: row["count"] for row in profile.stats()}
    assert counts == {"multiply": 3, "add": 6, "negative": 3, "matmul": 3, "sqrt": 3}
    assert type(vars(ndarray)["__add__"]).__name__ == "method_descriptor"
