"""Arrays that share memory with the result: in place, as `out=`, in assignments. A kernel reads
what NumPy had not yet written; and what was planned for arrays apart must not serve arrays that
overlap."""

import numpy as np
import pytest
from simulated_gpu import simulated_gpu

import cudamath as cm

#: Statements on x (12,), y (12,) of the same memory or of its own, a(...) that makes an array, and
#: the module m.
STATEMENTS = """
x += y; x -= y[::-1]
x[1:] -= y[:-1]
x[:-1] *= y[1:]
x[::2] = y[1::2]; x[1::2] += y[::2]
x[:] = y[::-1]
x[2:] = y[:10]
x[1:][::-1] = y[:-1]
x.reshape(3, 4)[...] = y.reshape(4, 3).T
x.reshape(3, 4).T[...] = y.reshape(4, 3)
x.reshape(3, 4)[1:] = y.reshape(3, 4)[:-1]
x.reshape(3, 4)[...] += y.reshape(3, 4)[0]
x.reshape(3, 4)[:, 1:] += y.reshape(3, 4)[:, :-1]
x[a([5, 0, 3])] = y[1:4]
x[a([5, 0, 3])] = y[a([3, 5, 0])]
x[a([5, 0, 3])] += y[:3]
x.reshape(3, 4)[a([2, 0, 1]), a([2, 0, 1])] = y[:3]
x.reshape(3, 4)[a([2, 0, 1])] = y.reshape(3, 4)[::-1]
x[x > 3] = y[y > 3][:int((x > 3).sum())][::-1] if int((y > 3).sum()) >= int((x > 3).sum()) else 1
m.add(x[1:], y[:-1], out=x[1:])
m.multiply(y[:6], y[6:], out=x[3:9])
m.negative(y[:-1], out=x[1:])
m.sqrt(y[::-1], out=x, where=y > 3) if x.dtype.kind == "f" else None
m.clip(y, 2, 5, out=x[::-1])
m.cumsum(y[:-1], out=x[1:])
m.cumsum(y[::-1], out=x)
m.take(y, a([3, 2, 1, 0] * 3), out=x)
m.sum(y.reshape(3, 4), axis=0, out=x[:4]) if x.dtype.kind != "u" else None
m.max(y.reshape(3, 4), axis=1, out=x[1:4])
m.outer(y[:3], y[3:7], out=x.reshape(3, 4))
m.matmul(y[:9].reshape(3, 3), y[3:].reshape(3, 3).T, out=x[:9].reshape(3, 3))
m.where(y > 3, y[::-1], x); m.copyto(x, y[::-1])
m.copyto(x[1:], y[:-1], where=a([True, False] * 5 + [True]))
m.putmask(x, y > 3, y[::-1])
m.put(x, a([0, 1, 2]), y[9:])
m.fill_diagonal(x[:9].reshape(3, 3), y[:3])
m.put_along_axis(x.reshape(3, 4), a([[0], [1], [2]]), y.reshape(3, 4)[:, 1:2], 1)
m.add.at(x, a([0, 0, 1]), y[:3])
m.maximum.at(x, a([2, 1, 0]), y[1:4])
x[::-1].sort(); x.reshape(3, 4)[:, ::2].sort(axis=1)
x.reshape(3, 4).T.sort(axis=0)
""".strip().splitlines()


def ran(statement, module, dtype, shared):
    """x after the statement, with y a view of x or an array of its own."""

    def array(values):
        return np.array(values) if module is np else cm.asarray(values, copy=True)

    x = array((np.arange(12) * 5 % 12 + 1).astype(dtype))
    y = x if shared == "x" else x[::-1] if shared else array(np.arange(12)[::-1].astype(dtype))
    exec(statement, {"m": module, "a": array, "x": x, "y": y})
    return x if module is np else x.to_numpy()


def check(
    statement, dtype, how=(None, "x", "reversed", None, "x")
):  # what is remembered of one must not serve the other
    for shared in how:
        expected = ran(statement, np, dtype, shared)
        np.testing.assert_allclose(
            ran(statement, cm, dtype, shared), expected, rtol=1e-6, err_msg=f"y: {shared}"
        )


@pytest.mark.parametrize("statement", STATEMENTS)
def test_as_numpy(device, statement):
    for dtype in ("f4", "i8", "u1"):
        check(statement, dtype)


#: What takes the simulator seconds, or what it lacks, is left to GPUs.
_SLOW = "matmul(", ".at(", "max(", "x > 3", "y > 3", "sort("


@pytest.mark.simulator
def test_on_a_gpu_in_the_simulator(monkeypatch):
    with simulated_gpu(monkeypatch):
        for statement in STATEMENTS:
            if not any(slow in statement for slow in _SLOW):
                check(statement, "f4", (None, "x"))


def cascade(module):
    """A mask that reaches into what it changes from 16 bytes before, of the same layout; bytes read
    as a mask, backwards."""
    bools = np.arange(64) == 8
    mine = np.array(bools) if module is np else cm.asarray(bools, copy=True)
    mine[16:][mine[:-16] if module is cm else mine[:-16].copy()] = (
        True  # NumPy's is read while it changes
    )
    numbers = (np.arange(64) == 40).astype("i1")
    numbers = numbers if module is np else cm.asarray(numbers, copy=True)
    numbers[::-1][numbers.view(bool) if module is cm else numbers.view(bool).copy()] = 1
    return [np.asarray(x if module is np else x.to_numpy()) for x in (mine, numbers)]


def check_cascade():
    for found, expected in zip(cascade(cm), cascade(np), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_masks_in_the_memory_that_they_change(device):
    check_cascade()


@pytest.mark.simulator
def test_masks_in_the_memory_that_they_change_on_a_simulated_gpu(monkeypatch):
    with simulated_gpu(monkeypatch):
        check_cascade()


class Foreign:
    """An array as another library hands it over: each time it is taken, with an owner of its
    own."""

    def __init__(self, x):
        self.__cuda_array_interface__, self.x = x.__cuda_array_interface__, x


def placed(module, name, x, places, values):
    """x with other numbers at places."""
    if name == "put":
        module.put(x, places, values)
    elif name == "add.at":
        module.add.at(x, places, values)
    elif name == "a number":
        x[places] = 0
    else:
        x[places] = values
    return x


@pytest.mark.simulator
@pytest.mark.parametrize("name", ["put", "add.at", "a number", "setitem"])
def test_places_in_foreign_memory_that_is_written(monkeypatch, name):
    """Two imports of one memory: nothing says that they are one but their addresses. Nor does what
    is remembered of others."""
    numbers, values = np.array([3, 0, 1, 2, 5, 4, 7, 6]), np.arange(8)[::-1].copy()
    expected = placed(np, name, numbers.copy(), numbers.copy(), values)
    with simulated_gpu(monkeypatch):
        for _ in range(2):
            own = cm.asarray(numbers, copy=True)
            placed(cm, name, own, cm.asarray(numbers, copy=True), cm.asarray(values))
            one = cm.asarray(numbers, copy=True)
            x, places = (cm.asarray(Foreign(one)) for _ in range(2))
            assert x._owner is not places._owner and x._data == places._data
            placed(cm, name, x, places, cm.asarray(values))
            for found in (own, one):
                np.testing.assert_array_equal(found.to_numpy(), expected)
