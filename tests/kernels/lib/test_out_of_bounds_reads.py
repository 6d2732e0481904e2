"""Kernels whose accesses begin at borders between rows read nothing for a row beyond the last:
their own source, as Python."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from cudamath.kernels.loss import cross_entropy, cross_entropy_soft_targets

ROWS, CLASSES, WIDTH, THREADS = 3, 1001, 4, 8


class Line:
    """Memory of so many numbers, all 1, which notes where it was read."""

    def __init__(self, size):
        self.size, self.read = size, set()

    def __getitem__(self, i):
        self.read.add(int(i))
        return 1.0


def _row_reader(dtype, width, vectors, edges, tested=False):
    """Whole accesses; between borders (edges) up to the array's end."""

    def fetch(a, at, rest, step, r, outside):
        for k in range(vectors):
            begin, end = at + k * step, at + k * step + width
            for i in range(begin, min(end, a.size) if edges else end):
                if tested or k * step < rest:
                    r[k * width] = a[i]

    def take(r, first, rest, step, v, outside):
        v[:] = r[: len(v)]

    return fetch, take, vectors * width, None


def accesses_to(row, classes=CLASSES):
    """What a row's accesses read: no row beyond the last has any."""
    if row >= ROWS:
        return set()
    begin, end = row * classes // WIDTH * WIDTH, -(-(row + 1) * classes // WIDTH) * WIDTH
    return set(range(begin, min(end, ROWS * classes)))


@pytest.fixture
def as_python(monkeypatch):
    """The factories of a module give Python functions, a thread by itself."""

    def alone(*_):
        return lambda value: value

    def use(module):
        thread = SimpleNamespace(
            local=SimpleNamespace(array=lambda n, T: [0.0] * n),
            blockIdx=SimpleNamespace(x=0),
            blockDim=SimpleNamespace(x=THREADS, y=8),
            threadIdx=SimpleNamespace(x=0, y=0),
        )
        for name, stand_in in {
            "row_reader": _row_reader,
            "remaining": lambda columns, first: columns - first,
            "group_max": alone,
            "group_sum": alone,
            "cuda": thread,
            "online": lambda dtype: lambda m, total, v, held: (max(m, *v), total + held),
            "rescale": lambda dtype: lambda m, total, top: total,
            "exponential": lambda dtype: math.exp,
            "device_function": lambda function: function,
            "bounded": lambda most: lambda f: f,
        }.items():
            monkeypatch.setattr(module, name, stand_in, raising=False)
        return thread

    return use


@pytest.mark.filterwarnings("ignore:invalid value")  # the logarithm of no sum
@pytest.mark.parametrize("smooth", [False, True])
def test_cross_entropy(as_python, smooth):
    as_python(cross_entropy)
    of_row = cross_entropy.of_row.__wrapped__(
        np.dtype(np.float32), THREADS, WIDTH, True, smooth, 16
    )
    targets = np.zeros(ROWS, np.int64)
    for row in range(ROWS + 5):
        x = Line(ROWS * CLASSES)
        for lane in range(THREADS):
            of_row(x, targets, row, lane, CLASSES, 0, 0.1, [0], 1)  # all ignored
        assert x.read == accesses_to(row)


@pytest.mark.parametrize("edges, classes", [(True, CLASSES), (False, CLASSES - 1)])
def test_soft_labels(as_python, edges, classes):
    thread = as_python(cross_entropy_soft_targets)
    kernel = cross_entropy_soft_targets.soft_rows.__wrapped__(
        np.dtype(np.float32), THREADS, WIDTH, edges
    )
    for row in range(ROWS + 5):
        x, q = Line(ROWS * classes), Line(ROWS * classes)
        thread.threadIdx.y = row
        for lane in range(THREADS):
            thread.threadIdx.x = lane
            kernel(x, q, np.zeros((2, ROWS)), np.zeros((3, ROWS)), classes, ROWS, 1.0, 0.0)
        assert x.read == q.read == accesses_to(row, classes)
