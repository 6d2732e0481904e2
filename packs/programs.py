"""Programs whose kernels packs hold. Each runs on the default device; `packs/record.py` rehearses
them without one."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import os
import pathlib
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import cudamath as cm
from cudamath import ml

ROOT = pathlib.Path(__file__).parents[1]


def first_calls() -> None:
    """What a first session on a new machine tries."""
    rng = cm.random.default_rng(0)
    x = rng.normal(size=(512, 512), dtype="float32")
    h = x.astype("bfloat16").reshape(1, 8, 512, 64)
    for call in (
        lambda: x + 1,
        lambda: (x * 2).sum(),
        lambda: x @ x,
        lambda: cm.sort(x),
        lambda: cm.exp(x).mean(axis=0),
        lambda: x[x > 0],
        lambda: cm.linalg.solve(x, x[0]),
        lambda: cm.fft.fft(x),
        lambda: cm.cumsum(x, axis=1),
        lambda: ml.softmax(x),
        lambda: ml.layer_norm(x, 512),
        lambda: ml.conv2d(x.reshape(1, 8, 64, 512), x[:9, :8].reshape(1, 8, 3, 3)[:, :, :3, :3]),
        lambda: cm.grad(lambda a: cm.tanh(a @ a).sum())(x),
        lambda: ml.scaled_dot_product_attention(h, h, h),
    ):
        call()


def demo() -> None:
    """`python -m cudamath demo`, with fewer steps and no picture."""
    from cudamath.demo import compare, train

    for case in compare.cases():
        case.ours(*[cm.asarray(argument) for argument in case.arguments])
    train.train(train.load(), epochs=1)


#: Notebooks whose arrays have sizes that depend on values, of which a rehearsal has none.
OF_VALUES = {"10_sparse_arrays"}


def notebook(path: pathlib.Path) -> None:
    """The cells of a notebook, one after the other. What a cell shows is lost, and what it asserts
    of results is let pass: in a rehearsal there are none."""
    import matplotlib

    matplotlib.use("agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    before = os.getcwd()
    with contextlib.redirect_stdout(io.StringIO()):
        os.chdir(path.parent)
        try:
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
                if cell["cell_type"] == "code":
                    source = "".join(cell["source"]).replace("%matplotlib", "# ")
                    with contextlib.suppress(AssertionError):
                        exec(compile(source, path.name, "exec"), names)
        finally:
            os.chdir(before)


def models() -> None:
    """Steps of training and of generating with the models of `cudamath.models`."""
    from cudamath.__main__ import main

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        text = str(ROOT / "tests" / "data" / "tinyshakespeare.txt")
        out = str(pathlib.Path(folder) / "gpt2.safetensors")
        for command in (
            ["train", "gpt2", "--text", text, "--steps", "5", "--out", out],
            ["sample", "gpt2", "--prompt", "To be", "--checkpoint", out, "--count", "8"],
        ):
            if status := main(command):
                raise RuntimeError(f"{command} ended with {status}")
    _train_resnet()


def _train_resnet() -> None:
    """A step of ResNet-50's training in bfloat16, channels last, on few images."""
    from cudamath.models import resnet

    config = resnet.SIZES["resnet50"]
    params, stats = resnet.create(config, rng=cm.random.default_rng(0))
    half = {n: p.astype("bfloat16") if p.ndim > 1 else p for n, p in params.items()}
    images = cm.ones((8, 224, 224, 3), dtype="bfloat16").transpose(0, 3, 1, 2)
    labels = cm.zeros((8,), dtype="int64")
    gradient = cm.value_and_grad(resnet.loss, has_aux=True)
    (_, stats), grads = gradient(half, stats, images, labels, config)
    cm.ml.sgd_update(half, grads, lr=0.1)
    resnet.classify(half, stats, images, config)


#: Columns of a head in published models: GPT-2, BERT, ViT-B; Llama; Phi-2; Phi-3; Stable Diffusion,
#: which has 40, 80 and 160; small transformers.
HEADS = (64, 128, 80, 96, 40, 160, 32)


def attention_of_models() -> None:
    """Attention as models train it and predict by it: causal or not, keys that fill their tiles or
    do not."""
    for columns, causal, keys in itertools.product(HEADS, (False, True), (1024, 1000)):
        q = cm.ones((8, 8, keys, columns), dtype="bfloat16")
        attend = functools.partial(ml.scaled_dot_product_attention, causal=causal)
        attend(q, q, q)
        cm.vjp(attend, q, q, q)[1](q)


def sampled_functions() -> None:
    """Every function, in several dtypes and ranks: the calls of the compile checks."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    try:
        from compile_calls import CALLS
    finally:
        sys.path.pop(0)
    for _name, call in CALLS:
        call()


def random_cases(seed: int) -> None:
    """Calls of common functions on shapes, dtypes and orders drawn at random."""
    r = random.Random(seed)
    dtype = r.choice(("float32", "float32", "bfloat16", "bfloat16", "float16", "float64", "int64"))
    shape = [r.choice((1, 3, 7, 16, 33, 64, 100, 128, 256, 333)) for _ in range(r.randint(1, 4))]
    x, y = cm.ones(shape, dtype=dtype), cm.ones(shape, dtype=dtype)
    if len(shape) > 1 and r.random() < 0.3:
        x = cm.ones(shape[::-1], dtype=dtype).T
    if r.random() < 0.3:
        y = y[..., :1]
    axis = r.choice((None, -1, 0))
    for name in r.sample(("add", "subtract", "multiply", "maximum", "less", "equal"), 3):
        getattr(cm, name)(x, y)
    for name in r.sample(("abs", "negative", "square", "sign"), 2):
        getattr(cm, name)(x)
    for name in r.sample(("sum", "mean", "max", "min", "argmax", "any", "prod", "var"), 3):
        getattr(cm, name)(x, axis=axis)
    cm.sort(x, axis=-1), cm.argsort(x, axis=-1), cm.cumsum(x, axis=-1), cm.where(x > y, x, y)
    cm.concatenate([x, x], axis=0), cm.stack([x, x]), x[:1], x.copy(), x.astype("float32")
    if dtype == "int64":
        return
    for name in r.sample(("exp", "log", "sqrt", "tanh", "sin", "cos", "power"), 3):
        getattr(cm, name)(x, y) if name == "power" else getattr(cm, name)(x)
    for name in r.sample(("relu", "gelu", "silu", "sigmoid", "softmax", "log_softmax"), 3):
        function = getattr(ml, name)
        cm.grad(lambda a: function(a).sum())(x)  # noqa: B023
    ml.layer_norm(x, shape[-1])
    n, k, m = (r.choice((8, 33, 64, 100, 256, 512, 768)) for _ in range(3))
    a, b = cm.ones((n, k), dtype=dtype), cm.ones((m, k), dtype=dtype)
    cm.grad(lambda w: ml.linear(a, w).sum())(b), a @ b.T  # noqa: B018
    images, channels, side = r.choice((1, 8, 32)), r.choice((3, 16, 64)), r.choice((8, 28, 32, 56))
    image = cm.ones((images, channels, side, side), dtype=dtype)
    taps = cm.ones((r.choice((8, 32, 64)), channels, 3, 3), dtype=dtype)
    step = r.choice((1, 2))
    cm.vjp(lambda i, t: ml.conv2d(i, t, padding=1, stride=step).sum(), image, taps)[1](
        cm.ones((), dtype=dtype)
    )
    ml.max_pool2d(image, 2), ml.avg_pool2d(image, 2)
    if dtype != "float64":
        shape4 = (r.choice((1, 4)), r.choice((4, 12)), r.choice((64, 197, 512)), r.choice((32, 64)))
        q = cm.ones(shape4, dtype=dtype)
        causal = r.random() < 0.5
        cm.grad(lambda q: ml.scaled_dot_product_attention(q, q, q, causal=causal).sum())(q)


SEEDS = 60
#: What a user runs first, and what stands for many programs, by their names below.
FIRST = {"first calls", "demo"}
#: What many users run, by shapes of their own.
TYPICAL = {"attention of models"}
SAMPLES = ("sampled functions", "random cases")


def programs() -> Iterator[tuple[str, Callable[[], None]]]:
    """(name, program): what is recorded."""
    yield "first calls", first_calls
    yield "demo", demo
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        if path.stem not in OF_VALUES:
            yield path.stem, functools.partial(notebook, path)
    yield "models", models
    yield "attention of models", attention_of_models
    yield "sampled functions", sampled_functions
    for seed in range(SEEDS):
        yield f"random cases {seed}", functools.partial(random_cases, seed)
