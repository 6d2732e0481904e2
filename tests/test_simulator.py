"""The threads of a block in Numba's simulator: barriers, threads that end early, errors."""

import numpy as np
import pytest

from cudamath.core.layout import Layout
from cudamath.core.plan import Input, Launch, Output, Plan
from cudamath.kernels.lazy import cuda
from cudamath.testing import simulate

pytestmark = pytest.mark.simulator


@cuda.jit
def turned(x, out):  # what a thread reads, another has written before the barrier; half of them leave before the second
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


def launched(kernel, x):
    return simulate(Plan([Layout.new(x.shape, x.dtype, 0)], [Launch(kernel, x.size // 64, 64, [Input(0), Output(0)])]), x)


def test_barriers_hold_those_who_are_left():
    x = np.arange(192)
    expected = x.reshape(3, 64)[:, ::-1] + np.where(np.arange(64) < 32, 0, 16)
    np.testing.assert_array_equal(launched(turned, x).reshape(3, 64), expected)


def test_an_error_ends_the_block():
    with pytest.raises(ValueError, match=r"tid=\[5, 0, 0\] ctaid=\[0, 0, 0\]: five"):
        launched(failing, np.arange(128))
