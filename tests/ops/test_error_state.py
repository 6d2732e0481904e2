"""errstate: floating-point errors that are warned about or raised on request, beside NumPy's."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.devices import device_of
from cudamath.runtime import kernel_errors

ONE, NIL, HUGE, NOTHING = np.ones(3), np.zeros(3), np.full(3, 1e300), np.full(3, np.nan)
ENDLESS = np.full(3, np.inf)
MIXED = np.array([1.0, np.nan, np.inf])

#: Calls of (module, array), with and without errors.
CALLS = {
    "1 / 0": lambda m, a: a(ONE) / a(NIL),
    "1 / 0.0": lambda m, a: a(ONE) / 0.0,
    "0 / 0": lambda m, a: a(NIL) / a(NIL),
    "log 0": lambda m, a: m.log(a(NIL)),
    "log -1": lambda m, a: m.log(-a(ONE)),
    "sqrt -1": lambda m, a: m.sqrt(-a(ONE)),
    "overflow": lambda m, a: a(HUGE) * a(HUGE),
    "exp": lambda m, a: m.exp(a(HUGE)),
    "inf - inf": lambda m, a: a(ENDLESS) - a(ENDLESS),
    "inf + 1": lambda m, a: a(ENDLESS) + 1,
    "nan + 1": lambda m, a: a(NOTHING) + 1,
    "some": lambda m, a: a(MIXED) * 2,
    "some log": lambda m, a: m.log(a(MIXED)),
    "fine": lambda m, a: m.exp(a(ONE)) / 2,
    "integers": lambda m, a: a(np.arange(3)) // a(np.zeros(3, int)),
    "integers by ones": lambda m, a: a(np.arange(3)) // a(np.ones(3, int)),
    "sum": lambda m, a: m.sum(a(np.full(3, 1.7e308))),
    "reciprocal": lambda m, a: m.reciprocal(a(NIL)),
    "power": lambda m, a: a(HUGE) ** 2,
    "float32": lambda m, a: m.exp(a(np.full(3, 100, "f4"))),
}


def raised(m, a, call):
    try:
        with m.errstate(all="raise", under="ignore"):
            call(m, a)
    except FloatingPointError as error:
        return str(error).split(" encountered")[0]
    return None


@pytest.mark.parametrize("name", CALLS)
def test_errors_are_numpys(name):
    expected = raised(np, np.asarray, CALLS[name])
    assert raised(cm, cm.asarray, CALLS[name]) == expected
    with cm.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        CALLS[name](cm, cm.asarray)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with cm.errstate(all="warn"):
            CALLS[name](cm, cm.asarray)
    messages = [str(w.message).split(" encountered")[0] for w in seen]
    assert messages == ([expected] if expected else [])
    assert all(w.category is RuntimeWarning for w in seen)


def test_silent_by_default():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in CALLS.values():
            call(cm, cm.asarray)


def test_the_line_of_the_call():
    with cm.errstate(all="warn"), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        line = sys._getframe().f_lineno + 1
        cm.asarray(ONE) / 0
    assert [(w.filename, w.lineno) for w in seen] == [(__file__, line)]


def test_only_what_is_asked_for():
    with cm.errstate(divide="raise"):
        cm.sqrt(cm.asarray(-ONE))
        with cm.errstate(divide="ignore", invalid="raise"):
            with pytest.raises(FloatingPointError, match="^invalid value encountered in sqrt$"):
                cm.sqrt(cm.asarray(-ONE))
        with pytest.raises(FloatingPointError, match="^divide by zero encountered in divide$"):
            cm.asarray(ONE) / 0
    cm.asarray(ONE) / 0


def test_the_inner_context_decides(device):
    x = cm.asarray([-1.0, 0.0])
    with cm.errstate(all="raise"):
        with cm.errstate(invalid="ignore"):
            assert cm.isnan(cm.sqrt(x)).tolist() == [True, False]
            with pytest.raises(FloatingPointError, match="divide by zero"):
                1.0 / x
            with cm.errstate(all="ignore"):
                assert cm.isinf(1.0 / x).tolist() == [False, True]
        with pytest.raises(FloatingPointError, match="invalid value"):
            cm.sqrt(x)
    assert cm.isnan(cm.sqrt(x)).any()


@pytest.mark.parametrize("errstate", [np.errstate, cm.errstate])
def test_as_a_decorator(errstate):
    """Each call is in the context, calls inside of calls too."""
    module = np if errstate is np.errstate else cm

    @errstate(divide="raise")
    def inverse(x, deeper=2):
        """One over x."""
        if deeper:
            inverse(x + 1, deeper - 1)
        return 1.0 / x

    assert (inverse.__name__, inverse.__doc__) == ("inverse", "One over x.")
    for value in (2.0, 1.0):
        assert inverse(module.asarray([value])).tolist() == [1 / value]
    for value in (0.0, -1.0, -2.0):
        with pytest.raises(FloatingPointError, match="^divide by zero encountered in divide$"):
            inverse(module.asarray([value]))
    assert np.geterr()["divide"] == "warn" and cm.isinf(1.0 / cm.asarray([0.0])).all()


def test_inside_of_functions_that_were_called_before():
    """A call that is replayed reports as well."""
    x = cm.asarray([0.0, 1.0])
    for _ in range(4):
        cm.average(x, weights=x)
    for _ in range(2):
        with pytest.raises(FloatingPointError), cm.errstate(all="raise"):
            cm.var(x, correction=2)


def test_kernels_report(monkeypatch):
    """On a GPU too (in the simulator), with the host waiting."""
    from simulated_gpu import simulated_gpu

    with simulated_gpu(monkeypatch), cm.errstate(all="raise"):
        with pytest.raises(FloatingPointError, match="^divide by zero"):
            cm.asarray(ONE) / cm.asarray(NIL)
        cm.asarray(ONE) / cm.asarray(ONE)


test_kernels_report = pytest.mark.simulator(test_kernels_report)


def warned(call):
    with warnings.catch_warnings(record=True) as seen, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        call()
    return [w.category for w in seen], [w.filename for w in seen]


@pytest.mark.parametrize(
    "call",
    [
        lambda m, a: a([1j, 2]).astype(float),
        lambda m, a: a([1j, 2]).astype("i4"),
        lambda m, a: a([1j, 2]).astype("c8"),
        lambda m, a: a([1j, 2]).astype(bool),
        lambda m, a: m.sum(a([1j, 2]), out=a(0.0)),
        lambda m, a: m.mean(a([])),
        lambda m, a: m.mean(a([[], []]), axis=1),
        lambda m, a: m.mean(a([[], []]), axis=0),
        lambda m, a: m.var(a([1.0]), ddof=1),
        lambda m, a: m.std(a([1.0, 2.0]), ddof=1),
        pytest.param(
            lambda m, a: m.cross(a([1.0, 2.0]), a([1.0, 3.0])),
            marks=pytest.mark.skipif(
                np.lib.NumpyVersion(np.__version__) >= "2.5.0",
                reason="NumPy 2.5 refuses vectors of the plane",
            ),
        ),
        lambda m, a: m.polyfit(a([1.0, 1.0, 1.0]), a([1.0, 2.0, 3.0]), 1),
        lambda m, a: m.real(a([1j])).astype(float),
    ],
)
def test_warnings_that_need_no_values(call):
    """NumPy's warnings about dtypes and shapes, each time, at the user's line."""
    expected, _ = warned(lambda: call(np, np.asarray))
    for _ in range(4):
        categories, files = warned(lambda: call(cm, cm.asarray))
        assert categories == expected[: len(categories)] and bool(categories) == bool(expected)
        assert set(files) <= {__file__}


# -------------------- errors that kernels find

#: Calls of (module, array) that NumPy refuses at once.
REFUSED = {
    "inv": (np.linalg.LinAlgError, lambda m, a: m.linalg.inv(a(np.zeros((2, 2))))),
    "cholesky": (np.linalg.LinAlgError, lambda m, a: m.linalg.cholesky(a(-np.eye(2)))),
    "matrix_power": (
        np.linalg.LinAlgError,
        lambda m, a: m.linalg.matrix_power(a(np.zeros((2, 2))), -1),
    ),
    "take": (IndexError, lambda m, a: m.take(a(ONE), a(np.array([7])))),
    "fancy": (IndexError, lambda m, a: a(ONE)[a(np.array([0, -4]))]),
    "write": (IndexError, lambda m, a: a(ONE.copy()).__setitem__(a(np.array([3])), 1.0)),
    "digitize": (ValueError, lambda m, a: m.digitize(a(ONE), a(np.array([0.0, 2.0, 1.0])))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_call_itself_raises(device, name):
    kind, call = REFUSED[name]
    with pytest.raises(kind):
        call(np, np.asarray)
    with cm.errstate(device="raise"), pytest.raises(kind):
        call(cm, cm.asarray)
    x = cm.array([1.0, 2.0])  # nothing is left for a later call
    assert (x + 1).tolist() == [2.0, 3.0]


def test_the_call_waits_for_its_device(fake):
    """What its kernels find while the call waits, it raises; a call without that does not wait."""
    fake.idle = True  # launches do nothing
    x = cm.asarray(ONE, device="cuda:0")

    def find():
        kernel_errors.view(0)[0] = kernel_errors.ticket("take")

    def later():
        with fake.lock, device_of(0):
            fake.enqueue(cm.cuda.current_stream().handle, find)

    later()
    late = x.copy()
    with pytest.raises(IndexError, match="^take: an index is out of range"):
        late.tolist()
    with cm.errstate(device="raise"):
        later()
        with pytest.raises(IndexError, match="^take: an index is out of range"):
            x.copy()


def test_the_next_wait_raises_without_it(device):
    if cm.default_device() == "cpu":
        pytest.skip("the CPU raises at once")
    with cm.errstate(device="raise"), cm.errstate(device="ignore"):
        late = cm.take(cm.asarray(ONE), cm.asarray(np.array([7])))
    with pytest.raises(IndexError, match="take: an index is out of range"):
        late.tolist()


def test_modes_of_device():
    with pytest.raises(ValueError, match="errstate: device must be 'raise' or 'ignore'"):
        cm.errstate(device="warn")
