"""The methods of ndarray in machine code do what those in Python do, and what NumPy does."""

import gc
import inspect
import itertools
import operator
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.array import ndarray
from cudamath.core.recording import insiders
from cudamath.core.scalar import inside
from cudamath.cpu.lib import llvm_objects
from cudamath.ops import methods, subscript

KEYS = [
    0, 3, -1, np.int64(2), slice(1, 3), slice(None, None, -1), None, ..., (), (1, 2),
    (-1, np.int64(0)), (slice(None), 1), (1, slice(0, 2)), (None, 2), (..., 0),
    (slice(None), None, 0), (0, ..., None), [0, 2], True, np.bool_(False), 1.5, "a", (0, 1, 2, 3),
    99, (0, -99), slice(0, 0), (slice(2), 0.5),
]  # fmt: skip
DTYPES = ["f8", "f4", "i8", "i4", "u1", "?", "c16", "f2"]
VALUES = [
    1, 2.5, True, -1, 300, 1e300, np.float64(2), np.float32(3), np.int64(-4), np.bool_(1), 2j, "a",
    float("nan"), 2**70, None, [1, 2, 3],
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Machine code in the class, as after some thousand operations."""
    with cm.device("cpu"):
        methods.compile_methods()
        assert type(ndarray.__dict__["__getitem__"]).__name__ == "method_descriptor"
        yield


def outcome(function, *arguments):
    """What a call gives: values, dtype and class, or the class of the error."""
    with np.errstate(all="ignore"):
        try:
            result = function(*arguments)
        except Exception as error:
            return type(error)
    if isinstance(result, ndarray):
        return "array", result.dtype, result.shape, result.to_numpy().tobytes()
    if isinstance(result, np.ndarray):
        return "array", result.dtype, result.shape, result.tobytes()
    return type(result), result if result == result else "nan"


def pair(dtype, shape=(4, 3)):
    host = (np.arange(np.prod(shape)).reshape(shape) % 5).astype(dtype)
    return host, cm.asarray(host.copy(), device="cpu")


@pytest.mark.parametrize("dtype", DTYPES)
def test_reads_as_numpy(dtype):
    for shape, key in itertools.product([(4, 3), (5,), (2, 3, 2)], KEYS):
        host, x = pair(dtype, shape)
        if type(key) in (bool, np.bool_):
            assert outcome(operator.getitem, x, key) == outcome(subscript.getitem, x, key)
            continue
        assert outcome(operator.getitem, x, key) == outcome(operator.getitem, host, key), key


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_elements_for_which_numpy_has_no_class(dtype):
    x = cm.asarray([[1.5, 2.0]], device="cpu").astype(dtype)
    element, own = x[0, 1], subscript.getitem(x, (0, 1))
    assert type(element) is type(own) and isinstance(element, ndarray)
    assert element.dtype == dtype and float(element) == 2.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore")
def test_writes_as_python_does(dtype):
    for key, value in itertools.product(KEYS, VALUES):
        _, x = pair(dtype)
        _, y = pair(dtype)
        assert outcome(operator.setitem, x, key, value) == outcome(subscript.setitem, y, key, value)
        assert x.to_numpy().tobytes() == y.to_numpy().tobytes(), (key, value)


@pytest.mark.parametrize(
    "write",
    [
        lambda a: a.__setitem__(slice(1, 5), a[0:4]),
        lambda a: a.__setitem__(slice(0, 4), a[1:5]),
        lambda a: a.__setitem__(slice(None), a[::-1]),
        lambda a: a.__setitem__(slice(0, 4), a[0:8:2]),
        lambda a: a.__setitem__(slice(None), a),
        lambda a: a.reshape(2, 4).__setitem__((slice(None), 0), a[:2]),
        lambda a: a.reshape(2, 4).__setitem__(0, a.reshape(2, 4)[0, ::-1]),
        lambda a: a.reshape(2, 2, 2).__setitem__(..., a.reshape(2, 2, 2)[:, ::-1]),
        lambda a: operator.iadd(a[2:5], 1),
        lambda a: operator.setitem(a, slice(2, 5), operator.imul(a[2:5], 3)),
        lambda a: operator.setitem(a, a > 3, a[a > 3][::-1]),
        lambda a: operator.setitem(a, [0, 1], a[[1, 0]]),
    ],
)
def test_writes_to_memory_that_is_read(write):
    host, x = np.arange(8.0), cm.arange(8.0, device="cpu")
    write(host)
    write(x)
    np.testing.assert_array_equal(x.to_numpy(), host)


OPERATORS = [
    getattr(operator, name)
    for name in "add sub mul truediv floordiv mod pow eq ne lt le gt ge and_ or_ xor".split()
]
OPERANDS = [2, -3, 0.5, True, np.float64(1.5), np.int64(3), np.float32(2), np.bool_(1), 1j, 10**30]


@pytest.mark.parametrize("function", OPERATORS, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore")
def test_operators_as_numpy(function):
    for left, right in itertools.product(["f8", "i8", "?"], repeat=2):
        (a, x), (b, y) = pair(left), pair(right)
        for _ in range(2):  # the second time by machine code
            assert outcome(function, x, y) == outcome(function, a, b), (left, right)
            assert outcome(function, x, y[0]) == outcome(function, a, b[0])
            assert outcome(function, x, x) == outcome(function, a, a)
    for dtype, other in itertools.product(["f8", "i8"], OPERANDS):
        a, x = pair(dtype)
        for _ in range(2):
            for ours, theirs in (((x, other), (a, other)), ((other, x), (other, a))):
                result, wanted = outcome(function, *ours), outcome(function, *theirs)
                assert result == wanted or isinstance(wanted, type), (dtype, other)


def test_operators_in_place():
    for function in (operator.iadd, operator.isub, operator.imul):
        for other in (2, 0.5, np.float64(2), np.arange(3.0)):
            a, x = pair("f8")
            y = cm.asarray(other, device="cpu") if isinstance(other, np.ndarray) else other
            for _ in range(2):
                assert function(x, y) is x
                function(a, other)
            np.testing.assert_array_equal(x.to_numpy(), a)
    _, x = pair("i8")
    for _ in range(2):
        with pytest.raises(TypeError, match="add: "):
            x += 0.5


def test_read_only_memory_is_not_written():
    host = np.zeros(4)
    host.flags.writeable = False
    x = cm.asarray(host, device="cpu", copy=False)
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1.0
        with pytest.raises(ValueError, match="read-only"):
            x += 1.0
    assert not host.any()


def test_gradients_are_recorded():
    def loss(x):
        y = x[1:] * x[0] + x[0] ** 2 - x[1:]
        return (y @ y + 2.0 * y.sum() - (-y).sum()) / x[0]

    x = cm.asarray([1.5, 2.0, -1.0], device="cpu")
    value, grad = cm.value_and_grad(loss)(x)
    h = 1e-6
    for i in range(3):
        e = np.zeros(3)
        e[i] = h
        up, down = loss(x + cm.asarray(e)), loss(x - cm.asarray(e))
        assert abs(float(grad[i]) - (float(up) - float(down)) / (2 * h)) < 1e-6
    assert float(value) == pytest.approx(float(loss(x)))


def test_floating_point_errors_pass_in_silence(recwarn):
    x = cm.asarray([0.0, 1e308], device="cpu")
    for _ in range(3):
        1 / x, x * 1e10, x / x, x - 1e308 * x, np.float64(1) / x, cm.log(-x), x @ x
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def test_objects_are_released():
    x = cm.asarray(np.ones((3, 3)), device="cpu")
    y = x[0]
    watched = x, y, x._data, x._layout, y._layout, None

    def more_references() -> list[int]:
        gc.collect()
        before = [sys.getrefcount(o) for o in watched]
        for _ in range(2000):
            x[1], x[1, 2], x[:, 0], x + x, x + 1.0, 2.0 * x, x @ x, -x, np.float64(2) * x, x < 1
            x[0, 0] = 1.0
            x[1] = y
            x[0] += 1.0
            x.__iadd__(0.0)
            cm.exp(y), cm.maximum(y, 0.0)
        gc.collect()
        return [sys.getrefcount(o) - n for o, n in zip(watched, before, strict=True)]

    # what is compiled meanwhile refers to things for good, once: a leak would be there every time
    rounds = [more_references() for _ in range(3)]
    assert any(all(abs(n) < 500 for n in more) for more in rounds), rounds
    view = weakref.ref(x[0])
    gc.collect()
    assert view() is None


def test_threads():
    """Operators share a context; a thread that finds it taken goes the slow way."""
    x = cm.asarray(np.arange(3.0), device="cpu")
    wrong = []

    def work():
        for k in range(3000):
            y = (x * float(k) + x)[1]
            if y != k + 1.0:
                wrong.append((k, y))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_more_layouts_than_places_in_the_table():
    for n in range(1, 3000):
        x = cm.zeros((n, 2), device="cpu")
        assert x[:, 0].shape == (n,) and (x + x).shape == (n, 2)
        assert x[0:1].strides == np.zeros((n, 2))[0:1].strides


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore")
def test_masks_and_index_arrays(dtype):
    """Read and written as by NumPy; indices out of range change nothing."""
    for shape, key in itertools.product(
        [(4, 3), (5,), (0, 3)],
        [[0, 2], [-1, 0, 0], [7], [[0, 1], [1, 0]], [True, False, True, True], [False] * 5],
    ):
        host, x = pair(dtype, shape)
        places = np.array(key)
        ours = cm.asarray(places, device="cpu")
        assert outcome(operator.getitem, x, ours) == outcome(operator.getitem, host, places)
        for value in (1, 2.5, True, np.float64(3), 300, float("nan")):
            (_, x), (_, y) = pair(dtype, shape), pair(dtype, shape)
            result = outcome(operator.setitem, x, ours, value)
            assert result == outcome(subscript.setitem, y, ours, value), (key, value)
            assert x.to_numpy().tobytes() == y.to_numpy().tobytes()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)], ids=str)
@pytest.mark.parametrize(
    "key",
    [[5], [-9], [0, 1], np.zeros(0, "i8"), np.zeros((0, 2), "i8"), np.ones(7, "?"),
     np.ones((0, 5), "?"), np.ones((3, 0), "?"), np.zeros((2, 2), "i8")],
    ids=str,
)  # fmt: skip
def test_places_in_arrays_without_elements(shape, key):
    """Those that there are not are refused as ever."""
    key = np.asarray(key)

    def written(x, key):
        x[key] = 2
        return x

    for dtype in ("f8", "i8", "?"):
        for function in (operator.getitem, written):
            (a, x), k = pair(dtype, shape), cm.asarray(key, device="cpu")
            for _ in range(2):
                assert outcome(function, x, k) == outcome(function, a, key), dtype


def test_a_key_in_the_memory_that_is_written():
    """The key is what it was before the assignment, whatever order NumPy writes in."""
    host, x = np.array([1, 2, 0]), cm.asarray([1, 2, 0], device="cpu")
    host[host.copy()] = 5
    x[x] = 5
    assert x.tolist() == host.tolist()
    host, x = np.array([True, False, True]), cm.asarray([True, False, True], device="cpu")
    host[host[::-1].copy()] = False
    x[x[::-1]] = False
    assert x.tolist() == host.tolist()


def test_views_have_a_base():
    x = cm.zeros((3, 4), device="cpu")
    assert x[1].base is x and x[1:][0].base is x and x[1][2:].base is x
    assert x.base is None and (x + x).base is None and x[x > 0].base is None


WITHOUT_MEMORY = """
import _testcapi
import numpy as np
import cudamath as cm
from cudamath.ops import methods

with cm.device("cpu"):
    methods.compile_methods()
    x, places = cm.arange(12.0).reshape(3, 4), cm.asarray([0, 2])
    y = x + 1
    calls = [
        lambda: x[1:],
        lambda: x[0],
        lambda: x[1, 2],
        lambda: x[places],
        lambda: x + y,
        lambda: 2.0 * x,
        lambda: -x,
        lambda: x.__iadd__(0.0),
    ]
    missing = 0
    for number, call in enumerate(calls):
        expected = np.array(call())
        for first in range(25):
            for count in (1, 2, 4):
                found = None
                _testcapi.set_nomemory(first, first + count)
                try:
                    found = call()
                except MemoryError:
                    missing += 1
                finally:
                    _testcapi.remove_mem_hooks()
                assert found is None or np.array_equal(found, expected), (number, first)
assert missing
"""


def test_python_has_no_memory():
    """The right answer or MemoryError, whichever allocations of objects fail."""
    pytest.importorskip("_testcapi")
    done = subprocess.run([sys.executable, "-c", WITHOUT_MEMORY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_other_layouts_of_objects_are_refused(monkeypatch):
    """Where a field lies elsewhere than assumed, nothing is compiled."""

    class Shadow:
        __slots__ = ("a", "__dict__")

    assert llvm_objects.supported()
    assert set(llvm_objects.offsets_of(Shadow, ("a",))) == {"a"}
    for field in ("TYPE", "SIZE", "ITEMS", "DATA", "AXES", "SHAPE", "STRIDES", "BASE", "DESCR"):
        with monkeypatch.context() as patch:
            patch.setattr(llvm_objects, field, getattr(llvm_objects, field) + 8)
            assert not llvm_objects.supported(), field
    with monkeypatch.context() as patch:
        patch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
        assert not llvm_objects.supported()


def test_nobody_is_inside_afterwards():
    """The list that machine code looks at is empty when no function of the package runs."""
    with inside():
        assert insiders
    assert not insiders


@pytest.mark.parametrize(
    "name, parameters",
    {
        "__getitem__": ["key"],
        "__setitem__": ["key", "value"],
        "__add__": ["other"],
        "__neg__": [],
    }.items(),
)
def test_methods_have_signatures(name, parameters):
    methods.compile_methods()
    assert [*inspect.signature(getattr(cm.ndarray, name)).parameters][1:] == parameters


def test_more_operands_than_a_ufunc_has_are_told():
    """Also after calls that have made it quick."""
    methods.compile_methods()
    x = cm.arange(3.0, device="cpu")
    for _ in range(4):
        assert (np.float64(2) * x).tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(TypeError, match="^multiply: "):
        x.__array_ufunc__(np.multiply, "__call__", np.float64(2), x, 3)


def test_calls_with_too_few_or_many_arguments_are_told():
    methods.compile_methods()
    x = cm.arange(3.0, device="cpu")
    for arguments, words in (((), "missing 2"), ((1,), "missing 1"), ((1, 2, 3), "4 were given")):
        with pytest.raises(TypeError, match=rf"^ndarray\.__setitem__\(\) .*{words}"):
            x.__setitem__(*arguments)
