"""The threads of a block in Numba's simulator: barriers, threads that end early, errors."""

import numpy as np
import pytest

from cudamath.core.dispatch.arguments import Input, Output
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.kernels.compiler.lazy_numba import cuda
from cudamath.testing import simulate

pytestmark = pytest.mark.simulator


@cuda.jit
def turned(
    x,
    out,
    # what a thread reads, another has written before the barrier; half of them leave before the
    # second
):
    shared, i = cuda.shared.array(64, np.int64), cuda.threadIdx.x
    at = cuda.blockIdx.x * 64 + i
    shared[i] = x[at]
    cuda.syncthreads()
    value = shared[63 - i]
    if i < 32:
        out[at] = value
        return
    cuda.syncthreads()
    out[at] = value + cuda.syncthreads_count(i % 2)


@cuda.jit
def failing(x, out):  # one thread fails while the others wait for it
    if cuda.threadIdx.x == 5:
        raise ValueError("five")
    cuda.syncthreads()
    out[cuda.grid(1)] = x[cuda.grid(1)]


@cuda.jit
def hasty(
    x, out
):  # barriers are missing: what a neighbour writes is read at once, twice, with one barrier between
    shared, i = cuda.shared.array((3, 64), np.int64), cuda.threadIdx.x
    for k in range(3):
        shared[k, i] = -1
    cuda.syncthreads()
    for k in range(1, 3):
        shared[k, i] = i
        out[cuda.blockIdx.x, k - 1, i] = shared[k, (i + 1) % 64]
        cuda.syncthreads()


def warps(x, out):  # the two halves of a block wait each for its own
    thread = threads()
    shared, i = cuda.shared.array(64, np.int64), cuda.threadIdx.x
    shared[i] = x[i]
    thread.meet(i // 32, 32)
    out[i] = shared[i ^ 31]


def alone(x, out):  # one more than come
    threads().meet(0, 65)


def threads():
    import greenlet

    return greenlet.getcurrent()


def launched(kernel, x):
    return simulate(
        Plan(
            [Layout.new(x.shape, x.dtype, 0)],
            [Launch(kernel, x.size // 64, 64, [Input(0), Output(0)])],
        ),
        x,
    )


def test_barriers_hold_those_who_are_left():
    x = np.arange(192)
    expected = x.reshape(3, 64)[:, ::-1] + np.where(np.arange(64) < 32, 0, 16)
    np.testing.assert_array_equal(launched(turned, x).reshape(3, 64), expected)


def test_an_error_ends_the_block():
    with pytest.raises(ValueError, match=r"tid=\[5, 0, 0\] ctaid=\[0, 0, 0\]: five"):
        launched(failing, np.arange(128))


def test_a_missing_barrier_shows_on_either_side():
    plan = Plan(
        [Layout.new((1, 2, 64), np.dtype("i8"), 0)], [Launch(hasty, 1, 64, [Input(0), Output(0)])]
    )
    forwards, backwards = simulate(plan, np.arange(64))[0]
    seen = (forwards == -1).sum(), (backwards == -1).sum()
    assert sorted(seen) == [1, 63]  # one that had written, or all but one


def test_parts_of_a_block_meet():
    x = np.arange(64) ** 2
    np.testing.assert_array_equal(launched(cuda.jit(warps), x), x.reshape(2, 32)[:, ::-1].ravel())


def test_threads_that_wait_in_vain_are_an_error():
    with pytest.raises(RuntimeError, match="wait for others that do not come"):
        launched(cuda.jit(alone), np.arange(64))


@cuda.jit
def voting(x, out):  # the first warp has left
    if cuda.threadIdx.x >= 32:
        for _ in range(2):  # votes of one barrier are not those of the next
            out[0] = cuda.syncthreads_count(cuda.threadIdx.x == 40)
            out[1] = cuda.syncthreads_and(cuda.threadIdx.x > 31)
            out[2] = cuda.syncthreads_and(cuda.threadIdx.x > 32)
            out[3] = cuda.syncthreads_or(cuda.threadIdx.x == 63)
            out[4] = cuda.syncthreads_or(cuda.threadIdx.x == 64)


def test_those_vote_who_are_left():
    assert launched(voting, np.arange(64))[:5].tolist() == [1, 1, 0, 1, 0]
