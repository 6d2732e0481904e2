"""Arrays that share memory with the result: in place, as `out=`, in assignments. A kernel reads what NumPy had not yet
written; and what was planned for arrays apart must not serve arrays that overlap."""

import numpy as np
import pytest
from simulated_gpu import simulated_gpu

import cudamath as cm

#: Statements on x (12,), y (12,) of the same memory or of its own, a(...) that makes an array, and the module m.
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


def check(statement, dtype, how=(None, "x", "reversed", None, "x")):  # what is remembered of one must not serve the other
    for shared in how:
        expected = ran(statement, np, dtype, shared)
        np.testing.assert_allclose(ran(statement, cm, dtype, shared), expected, rtol=1e-6, err_msg=f"y: {shared}")


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
