"""Compiled elementwise loops on the CPU (cpu/lib/llvm_loops.py): NumPy's results bit for bit."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from threads import together

import cudamath as cm
from cudamath.core.dispatch import cpu_codegen
from cudamath.core.dispatch.op import registry
from cudamath.cpu.lib import llvm_loops
from cudamath.ops import ufunc

NAMES = sorted(ufunc._LOOPS)
UNARY = [name for name in NAMES if getattr(cm, name).card.nin == 1]
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.5,
    2.5,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    3e38,
    -3e38,
    1e308,
    5e-324,
]
SIZE = 70_000  # bytes are enough for memory that is kept


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """From the second call on, of arrays of any size whose memory is kept."""
    monkeypatch.setattr(cpu_codegen, "OFTEN", 2)
    with cm.device("cpu"):
        forget()
        yield
        forget()


def forget():
    for name in (*NAMES, "copy", "astype"):
        registry[name].plans.clear()


def is_compiled(run):
    """Whether a plan's function calls a loop of ours by now (perhaps inside of another
    function)."""
    cells = dict(zip(run.__code__.co_freevars, run.__closure__, strict=True))
    return (
        cells["loop"].cell_contents is not None
        if "loop" in cells
        else is_compiled(cells["run"].cell_contents)
    )


def same(got, expected):
    assert got.dtype == expected.dtype and got.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(got), expected)
    if expected.dtype.kind == "f":
        known = ~np.isnan(expected)
        assert np.array_equal(np.signbit(np.asarray(got))[known], np.signbit(expected)[known])


def numbers(dtype, which):
    """SIZE numbers of a dtype; the first are pairs of special ones, with `which` 0 and 1."""
    dtype, rng = np.dtype(dtype), np.random.default_rng(which)
    if dtype.kind == "b":
        return rng.random(SIZE) > 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, SIZE, dtype=dtype, endpoint=True)
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)))[:, which]
    with np.errstate(all="ignore"):
        return np.concatenate([pairs, 3 * rng.standard_normal(SIZE - len(pairs))]).astype(dtype)


def cases():
    """Every operation in float32, in each kind of dtypes it is for, and the four of arithmetic in
    every width."""
    for name in NAMES:
        for kind, dtype in zip("fiub", ("f4", "i4", "u1", "?"), strict=True):
            if kind in ufunc._LOOPS[name]:
                yield name, dtype
    yield from [("add", d) for d in ("f8", "i1", "i2", "i8", "u2", "u4", "u8")]
    yield from [
        ("divide", "f8"),
        ("greater", "f8"),
        ("maximum", "f8"),
        ("sqrt", "f8"),
        ("isnan", "f8"),
        ("less", "i8"),
    ]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name, dtype", list(cases()))
def test_bit_for_bit(name, dtype):
    x, y = numbers(dtype, 0), numbers(dtype, 1)
    a, b, function, exact = (
        cm.asarray(x),
        cm.asarray(y),
        getattr(cm, name),
        getattr(cm, name).card.ufunc,
    )
    given = [((a,), (x,))] if name in UNARY else [((a, b), (x, y))]
    if name not in UNARY and dtype != "?":
        number = 0.1 if dtype[0] == "f" else 3
        given += [((a, number), (x, number)), ((number, a), (number, x))]
    for ours, theirs in given:
        with np.errstate(all="ignore"):
            expected = exact(*theirs)
        for _ in range(4):  # NumPy's loop, then the compiled one both ways through the array
            same(function(*ours), expected)
        keys = [each._layout if isinstance(each, cm.ndarray) else type(each) for each in ours]
        assert is_compiled(function.card.plans[tuple(keys) if len(keys) > 1 else keys[0]])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("source", ["f4", "f8", "i1", "i4", "i8", "u1", "u4", "?"])
def test_conversions_and_copies(source):
    x = numbers(source, 0)
    a = cm.asarray(x)
    for target in ("f4", "f8", "i2", "i4", "i8", "u2", "u8", "?", "c8"):
        if source == target:
            continue
        with np.errstate(all="ignore"):
            expected = x.astype(target)
        for _ in range(4):
            same(a.astype(target), expected)
        compiled = target != "c8" and (source[0] != "f" or target[0] in "f?")
        run = registry["astype"].plans[a._layout, np.dtype(target)]
        assert ("loop" in run.__code__.co_freevars and is_compiled(run)) == compiled, target
    for _ in range(4):
        same(a.copy(), x)
        same(a[::-1].copy(), x[::-1])
        same(a.astype(source), x)
    assert is_compiled(registry["copy"].plans[a._layout,])


@pytest.mark.parametrize("shape", [(40_000,), (200, 300), (20, 50, 60), (1, 40_000, 1)])
def test_shapes_scalars_that_change_and_views(shape):
    x = np.random.default_rng(2).standard_normal(shape, dtype=np.float32)
    a = cm.asarray(x)
    for k in range(6):
        same(a * float(k), x * np.float32(k))
        same(k - a, np.float32(k) - x)
        same(a * 3, x * np.float32(3))
        same(a + a, x + x)
        same(a > k / 2, x > k / 2)
        same(
            a[..., ::-1] + a, x[..., ::-1] + x
        )  # not in C order, broadcasts, other dtypes: NumPy's loops
        same(a + a.reshape(-1)[:1], x + x.reshape(-1)[:1])
        same(a + a.astype("f8"), x + x.astype("f8"))
        same(a.astype("i4") + 1, x.astype("i4") + 1)
    held = [a * float(k) for k in range(9)]
    for k, each in enumerate(held):
        same(each, x * np.float32(k))


def test_threads_beside_each_other():
    """The loops run without Python's lock: every result has memory of its own, whichever way its
    loop went."""
    x = numbers("f4", 0)[200:]  # behind the special ones
    a, wrong = cm.asarray(x), []
    for _ in range(4):
        (a + 1.0) * 2.0

    def work(k):
        expected = (x + np.float32(k)) * np.float32(2)
        for _ in range(100):
            y = a + float(k)
            if not np.array_equal((y * 2.0).to_numpy(), expected):
                wrong.append(k)

    together(4, work)
    assert not wrong and is_compiled(cm.multiply.card.plans[a._layout, float])


def test_gradients_and_errors_stay():
    x = np.random.default_rng(3).standard_normal(40_000)
    a = cm.asarray(x)
    for _ in range(4):
        gradient = cm.grad(lambda a: ((a * a + 2.0 * a) / 3.0 - a).sum())(a)
        np.testing.assert_allclose(
            np.asarray(gradient), (2 * x + 2) / 3 - 1, rtol=1e-14, atol=1e-15
        )
        assert cm.grad(lambda c: (a * c).sum())(2.0).item() == pytest.approx(x.sum())
        with pytest.raises(ValueError, match="^add: "):
            a + a[:-1]
        assert (a + 1j).dtype == np.complex128


def test_integers_that_do_not_fit():
    x = numbers("u1", 0)
    a = cm.asarray(x)
    for _ in range(4):
        same(a > 300, x > 300)
        same(a >= -1, x >= -1)
        same(a > 7, x > 7)
        with pytest.raises(OverflowError, match="^add: .*300"):
            a + 300


def test_numba_is_not_imported_and_nothing_compiled_for_a_few_calls():
    program = (
        "import sys, cudamath as cm\ncm.set_default_device('cpu')\na = cm.ones(40_000, "
        "dtype='float32')\n"
        "for _ in range(100): a + a\nprint('llvmlite' in sys.modules)\n"
        "for _ in range(1000): a + a\nprint('llvmlite' in sys.modules, 'numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False", "True", "False"]


def test_every_loop_is_used_and_is_there():
    assert set(llvm_loops.OPERATIONS) == set(NAMES)
    for name, kinds in ufunc._LOOPS.items():
        for kind, dtype in zip("fiub", ("f4", "i4", "u1", "?"), strict=True):
            assert (llvm_loops.operation(name, np.dtype(dtype)) is not None) == (kind in kinds), (
                name,
                dtype,
            )
    assert llvm_loops.operation("add", np.dtype("f2")) is None
