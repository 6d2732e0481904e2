"""Rows of function transformations: gradients of each sample, and a Hessian.

`work` is the floor in bytes: what goes in is read and the result is written once.
"""

from __future__ import annotations

from typing import Any

from benchmarks.rows import Call, jitted, normal, row

SAMPLES, CHANNELS, CLASSES = 512, 16, 10
FLAT = CHANNELS * 13 * 13
PARAMETERS = CHANNELS * 9 + CHANNELS + CLASSES * FLAT


def _ours(cm: Any, images: Any, targets: Any, conv: Any, bias: Any, head: Any) -> Call:
    def loss(p: Any, image: Any, target: Any) -> Any:
        conv, bias, head = p
        h = cm.ml.relu(cm.ml.conv2d(image[None], conv, bias))
        h = cm.ml.max_pool2d(h, 2).reshape(-1)
        return ((head @ h - target) ** 2).sum()

    run = cm.jit(cm.vmap(cm.grad(loss), (None, 0, 0)))
    return lambda: run((conv, bias, head), images, targets)


def _torchs(torch: Any, images: Any, targets: Any, conv: Any, bias: Any, head: Any) -> Call:
    f = torch.nn.functional

    def loss(p: Any, image: Any, target: Any) -> Any:
        conv, bias, head = p
        h = f.relu(f.conv2d(image[None], conv, bias))
        h = f.max_pool2d(h, 2).reshape(-1)
        return ((head @ h - target) ** 2).sum()

    run = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))
    return lambda: run((conv, bias, head), images, targets)


row(
    "per_sample_gradients",
    "device",
    f"gradients of each of {SAMPLES} samples, a convolution and a layer",
    normal(
        (SAMPLES, 1, 28, 28),
        (SAMPLES, CLASSES),
        (CHANNELS, 1, 3, 3),
        (CHANNELS,),
        (CLASSES, FLAT),
    ),
    {"cudamath": _ours, "torch": _torchs},
    work=4 * SAMPLES * (28 * 28 + PARAMETERS),
    unit="B",
)


def _function(lib: Any, a: Any) -> Any:
    return lambda x: (lib.tanh(a @ x) ** 2).sum() + lib.exp(-x * x).sum()


def _hessian(cm: Any, a: Any, x: Any) -> Call:
    run = cm.jit(cm.hessian(_function(cm, a)))
    return lambda: run(x)


def _torch_hessian(torch: Any, a: Any, x: Any) -> Call:
    run = torch.func.hessian(_function(torch, a))
    return lambda: run(x)


row(
    "hessian",
    "device",
    "Hessian of a function of 100 numbers",
    normal((100, 100), (100,)),
    {
        "cudamath": _hessian,
        "torch": _torch_hessian,
        "jax": jitted(lambda jax: lambda a, x: jax.hessian(_function(jax.numpy, a))(x)),
    },
    work=4 * (100 * 100 * 2 + 100),
    unit="B",
)
