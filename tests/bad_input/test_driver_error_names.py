"""Errors of the driver begin with the name of the public function that the user called."""

import fake_driver
import numpy as np
import pytest
from fake_driver import gpu

import cudamath as cm

#: name -> a call of x (16, 16) float32
CALLS = {
    "add": lambda x: x + x,
    "subtract": lambda x: 1 - x,
    "exp": cm.exp,
    "maximum": lambda x: cm.maximum(x, 2),
    "sum": lambda x: x.sum(0),
    "cumsum": lambda x: cm.cumsum(x, 0),
    "softmax": lambda x: cm.ml.softmax(x),
    "linear": lambda x: cm.ml.linear(x, x),
    "matmul": lambda x: cm.matmul(x, x),
    "conv2d": lambda x: cm.ml.conv2d(x[None, None], x[None, None, :3, :3]),
    "concat": lambda x: cm.concat([x, x]),
    "copy": lambda x: x.T.copy(),
    "astype": lambda x: x.astype("float64"),
    "where": lambda x: cm.where(x, x, 1),
    "sort": lambda x: cm.sort(x),
    "zeros": lambda _: cm.zeros(5),
    "normal": lambda _: cm.random.default_rng(0).normal(size=5),
    "dropout": lambda x: cm.ml.dropout(x),
    "getitem": lambda x: x[[1, 2]],
}
#: Those that launch a kernel, and those that copy to the GPU or from there.
LAUNCHES = list(CALLS)
COPIES = {
    "asarray": lambda _: cm.asarray(np.ones(3), device="cuda"),
    "to_numpy": lambda x: x.to_numpy(),
    "item": lambda x: x[0, 0].item(),
    "tolist": lambda x: x.tolist(),
    "copy_to": lambda x: x.copy_to(np.empty((16, 16), "f4")),
}


@pytest.fixture
def x(fake):
    fake.idle = True
    with cm.device("cuda"):
        yield gpu(np.ones((16, 16), "f4"))


def begins(name, work):
    with pytest.raises((cm.cuda.CudaError, cm.cuda.OutOfMemoryError)) as caught:
        work()
    assert str(caught.value).startswith(f"{name}: "), caught.value


@pytest.mark.parametrize("name", CALLS)
def test_out_of_memory(fake, x, name):
    """At the first call, at a replay, and with a gradient around it."""
    for _ in range(3):
        limit, fake.limit = fake.limit, 0
        cm.cuda.empty_cache()
        begins(name, lambda: CALLS[name](x))
        fake.limit = limit
        CALLS[name](x)


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_refused_launch(fake, x, name):
    for _ in range(3):
        fake.fail["cuLaunchKernel"] = fake_driver.INVALID
        begins(name, lambda: CALLS[name](x))
        CALLS[name](x)


@pytest.mark.parametrize("name", COPIES)
def test_a_failed_copy(fake, x, name):
    for _ in range(3):
        fake.fail |= dict.fromkeys(["cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"], fake_driver.INVALID)
        begins(name, lambda: COPIES[name](x))
        fake.fail.clear()
        COPIES[name](x)


def test_a_failed_wait(fake, x):
    for name, work in {
        "synchronize": cm.cuda.synchronize,
        "empty_cache": cm.cuda.empty_cache,
    }.items():
        fake.fail |= dict.fromkeys(["cuStreamSynchronize", "cuCtxSynchronize"], fake_driver.INVALID)
        begins(name, work)
        fake.fail.clear()


def test_the_function_inside_of_another_is_named(fake, x):
    """The one that the user wrote, not the transform or the function around it."""

    def loss(x):
        limit, fake.limit = fake.limit, 0
        try:
            return cm.ml.softmax(x).sum()
        finally:
            fake.limit = limit

    cm.cuda.empty_cache()
    begins("softmax", lambda: cm.grad(loss)(x))
    begins("softmax", lambda: cm.vjp(loss, x))
