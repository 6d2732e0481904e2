"""Launches stay within what a device takes (tests/support/hardware_limits.py), also for arrays of
more lines than a grid has blocks along y."""

import numpy as np
import pytest
from fake_driver import bind, gpu
from hardware_limits import refusal

import cudamath as cm
from cudamath.core.dispatch.arguments import Input
from cudamath.kernels.compiler.lazy_numba import SIMULATOR

MANY = 70_000  # beyond 65,535


@pytest.mark.parametrize(
    "launch, why",
    [
        (((1, 1, 1), (1024, 1, 1)), ""),
        (((1 << 30, 65_535, 65_535), (32, 4, 8)), ""),
        (((1, 1, 1), (1025, 1, 1)), "beyond"),
        (((1, 1, 1), (64, 32, 1)), "more than 1024 threads"),
        (((1, 1, 1), (1, 1, 65)), "beyond"),
        (((1, 65_536, 1), (32, 1, 1)), "beyond"),
        (((1 << 31, 1, 1), (32, 1, 1)), "beyond"),
        (((1, 0, 1), (32, 1, 1)), "empty"),
        (((1, 1, 1), (32, 1, 1), (48 << 10) + 1), "shared memory"),
        (((1, 1, 1), (32, 1, 1), 200 << 10, 200 << 10), ""),
        (((1, 1, 1), (32, 1, 1), 228 << 10, 228 << 10), "shared memory"),
        (((6, 1, 1), (32, 1, 1), 0, 0, 4), "clusters"),
        (((16, 1, 1), (32, 1, 1), 0, 0, 16), "clusters"),
        (((8, 3, 1), (32, 1, 1), 0, 0, 4), ""),
    ],
)
def test_what_a_device_refuses(launch, why):
    assert why in refusal(*launch) and bool(refusal(*launch)) == bool(why)


@pytest.mark.parametrize("shape", [{"grid": (1, 65_536)}, {"block": (1, 1, 65)}, {"block": 2000}])
def test_the_fake_driver_refuses(fake, shape):
    x = gpu(np.zeros(3))
    with pytest.raises(cm.cuda.CudaError, match="CUDA_ERROR_INVALID"):
        bind(lambda x: None, [x], [], [Input(0)], **shape)(x)


LINES = {
    "fill a part": lambda x: x[:, :600].__setitem__(..., 1),
    "copy a part": lambda x: cm.copy(x[:, :600]),
    "transpose": lambda x: cm.copy(x.T),
    "tril": cm.tril,
    "roll": lambda x: cm.roll(x, 3, 0),
    "sum": lambda x: cm.sum(x, 1),
    "sum of columns": lambda x: cm.sum(x, 0),
    "argmax": lambda x: cm.argmax(x, 1),
    "cumsum": lambda x: cm.cumsum(x, 1),
    "cumsum of columns": lambda x: cm.cumsum(x, 0),
    "sort": lambda x: cm.sort(x, 1),
    "take": lambda x: cm.take(x, cm.zeros(MANY, "int32"), axis=0),
    "pad": lambda x: cm.pad(x, 1),
    "indices": lambda x: cm.indices((2, MANY, 3)),
    "softmax": lambda x: cm.ml.softmax(x.astype("float16"), -1),
    "matmul": lambda x: cm.empty((MANY, 2, 3), "float32") @ cm.empty((MANY, 3, 2), "float32"),
    "max_pool2d": lambda x: cm.ml.max_pool2d(cm.empty((MANY, 1, 4, 4)), 2),
    "group_norm": lambda x: cm.ml.group_norm(cm.empty((MANY, 4, 3), "float32"), 2),
    "batch_norm": lambda x: cm.ml.batch_norm(
        cm.empty((3, MANY, 2), "float32"), None, None, training=True
    ),
    "conv1d": lambda x: cm.ml.conv1d(
        cm.empty((MANY, 2, 8), "float32"), cm.empty((2, 2, 3), "float32")
    ),
    "resize": lambda x: (
        cm.ml.interpolate(cm.empty((MANY, 1, 4, 4), "float32"), (8, 8))
        if hasattr(cm.ml, "interpolate")
        else None
    ),
}


@pytest.mark.skipif(SIMULATOR, reason="nothing is computed")
@pytest.mark.parametrize("name", LINES)
def test_many_lines(fake, name):
    fake.poisons, fake.idle, fake.limit = False, True, 1 << 34
    with cm.device("cuda"):
        LINES[name](cm.empty((MANY, 640), "uint8"))
        cm.cuda.synchronize()
    assert fake.launches
