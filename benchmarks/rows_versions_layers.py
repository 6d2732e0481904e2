"""Rows of the versions of layers' kernels and of random numbers, each beside a device copy (see
rows_versions.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.rows import Bind, Call, repeated, row
from benchmarks.rows_versions_memory import F32, planner, version

CHUNK = (64, 1 << 20)  # rows of neighbours to be scanned
IMAGES = (32, 64, 256, 256)
BATCH = (256, 1024, 14, 14)
PARAMETERS = 148  # arrays for an optimizer
COUNTER = (7, 0, 0)  # key, stream and first block of random numbers


def drawn(make: Callable[..., Any], scalars: Sequence[Any]) -> Bind:
    """The plan that `make` gives for the arguments' layouts, called with these run-time scalars."""

    def bind(_lib: Any, *arrays: Any) -> Call:
        layouts = [a._layout for a in arrays]
        run = make(*layouts).bind("a version", layouts, len(scalars), arrays[0]._layout.device)
        return lambda: run(*arrays, *scalars)

    return bind


def many(make: Callable[..., Any], kinds: int, scalars: Sequence[Any]) -> Bind:
    """The same of PARAMETERS arrays of each kind, none of them negative, which are cut out of the
    argument."""

    def bind(lib: Any, whole: Any) -> Call:
        length = whole.size // (PARAMETERS * kinds)
        parts = [lib.abs(whole[i * length : (i + 1) * length]) for i in range(PARAMETERS * kinds)]
        return drawn(make, scalars)(lib, *parts)

    return bind


elementwise, scan, normal = (
    planner("elementwise.dispatch.elementwise"),
    planner("scan.dispatch.scan"),
    planner("random.distributions.normal"),
)
losses, pool, embedding = (
    planner("loss.dispatch.cross_entropy"),
    planner("pool.dispatch.max_pool2d_values"),
    planner("index.dispatch.embedding"),
)
train, slope, dropout = (
    planner("norm.dispatch.batch_forward"),
    planner("norm.dispatch.batch_backward"),
    planner("random.dropout.dropout"),
)
group_slope = planner("norm.dispatch.group_norm_grad")
adam, factor = planner("optim.dispatch.adam"), planner("optim.dispatch.factor")


def crossed(name: str) -> Bind:
    """a + b.T by that version."""
    bound = drawn(
        lambda a, b: elementwise(a, b, expression="x + y", compute=F32, output=F32, version=name),
        (),
    )
    return lambda lib, a, b: bound(lib, a, b.T)


SIDE = 8192
row(
    "versions_tiles",
    "device",
    "a + b.T, 8,192 squared, float32",
    repeated((SIDE, SIDE), (SIDE, SIDE)),
    {name: crossed(name) for name in ("plain", "tiled", "tiled_vector")},
    work=12 * SIDE * SIDE,
    unit="B",
)
row(
    "versions_scan",
    "device",
    "running sums of the rows of 64 x 2^20, float32",
    repeated(CHUNK),
    {
        f"scan_{name}": version(
            lambda x, name=name: scan(x, kind="sum", axis=1, dtype=F32, version=name)
        )
        for name in ("lines", "tiles", "ring")
    },
    work=8 * CHUNK[0] * CHUNK[1],
    unit="B",
)
LAYERS = 64, 2048, 1024
row(
    "versions_scan_columns",
    "device",
    "running sums along the second axis of 64 x 2,048 x 1,024, float32",
    repeated(LAYERS),
    {
        f"scan_{name}": version(
            lambda x, name=name: scan(x, kind="sum", axis=1, dtype=F32, version=name)
        )
        for name in ("lines", "tiles", "columns")
    },
    work=8 * 64 * 2048 * 1024,
    unit="B",
)
row(
    "versions_random",
    "device",
    "2^28 normal numbers, float32",
    repeated((4,)),
    {
        name: drawn(
            lambda x, name=name: normal(shape=(1 << 28,), dtype=F32, device=x.device, version=name),
            (*COUNTER, 0.0, 1.0, 0.0),
        )
        for name in ("each", "vectors")
    },
    work=4 << 28,
    unit="B",
)
row(
    "versions_dropout",
    "device",
    "dropout of 2^27, float32",
    repeated((1 << 27,)),
    {
        name: drawn(lambda x, name=name: dropout(x, version=name), (*COUNTER, 1 << 31, 2.0))
        for name in ("each", "vectors")
    },
    work=8 << 27,
    unit="B",
)


MEAN = {"reduction": "mean", "ignore_index": -100, "label_smoothing": 0.0}


def targets(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Logits (N, C, D) and classes (N, D)."""
    return (
        rng.standard_normal((16384, 4096, 1), dtype=np.float32),
        rng.integers(0, 4096, (16384, 1)),
    )


def indices(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Row numbers and the rows."""
    return rng.integers(0, 50257, 65536), rng.standard_normal((50257, 768), dtype=np.float32)


row(
    "versions_loss",
    "device",
    "cross entropy of 16,384 x 4,096, float32",
    targets,
    {
        name: version(lambda x, t, name=name: losses(x, t, **MEAN, version=name))
        for name in ("plain", "rows")
    },
    work=4 * 16384 * 4096,
    unit="B",
)


def vocabulary(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Logits and classes of a language model."""
    return (
        rng.standard_normal((4096, 50257, 1), dtype=np.float32),
        rng.integers(0, 50257, (4096, 1)),
    )


def in_bfloat16(name: str) -> Bind:
    """That version, of logits of 16 bits."""
    bound = drawn(lambda x, t: losses(x, t, **MEAN, version=name), ())
    return lambda lib, x, t: bound(lib, x.astype("bfloat16"), t)


row(
    "versions_loss_long",
    "device",
    "cross entropy of 4,096 x 50,257, bfloat16",
    vocabulary,
    {name: in_bfloat16(name) for name in ("rows", "long_rows")},
    work=2 * 4096 * 50257,
    unit="B",
)
row(
    "versions_embedding",
    "device",
    "65,536 rows of 50,257 x 768, float32",
    indices,
    {
        label: version(lambda i, w, name=name: embedding(i, w, version=name))
        for label, name in (("plain", "plain"), ("rows", "rows"), ("long", "long_rows"))
    },
    work=8 * 65536 * 768,
    unit="B",
)
WINDOW = {
    "size": (128, 128),
    "kernel": (3, 3),
    "stride": (2, 2),
    "padding": (1, 1),
    "dilation": (1, 1),
}
row(
    "versions_pool",
    "device",
    "max_pool2d of 32 x 64 x 256 x 256, 3 x 3, stride 2, float32",
    repeated(IMAGES),
    {
        name: version(lambda x, name=name: pool(x, **WINDOW, version=name))
        for name in ("plain", "overlapping_rows")
    },
    work=5 * 32 * 64 * 256 * 256,
    unit="B",
)
CHANNELS = [BATCH[1:2]] * 4
row(
    "versions_batch_norm",
    "device",
    "batch norm in training of 256 x 1,024 x 14 x 14, float32",
    repeated(BATCH, *CHANNELS),
    {
        name: version(lambda x, w, *_, name=name: train(x, w, None, 0.1, 1e-5, False, version=name))
        for name in ("plain", "split_channels")
    },
    work=12 * 256 * 1024 * 14 * 14,
    unit="B",
)
row(
    "versions_batch_norm_grad",
    "device",
    "gradient of batch norm, 256 x 1,024 x 14 x 14, float32",
    repeated(BATCH, BATCH, *CHANNELS),
    {
        name: version(lambda g, x, w, *_, name=name: slope(g, x, w, None, False, version=name))
        for name in ("plain", "split_channels")
    },
    work=20 * 256 * 1024 * 14 * 14,
    unit="B",
)
PLANES = (64, 256, 64, 64)  # in 32 groups
STATISTICS = (PLANES[0] * 32,)
row(
    "versions_norm_group_grad",
    "device",
    "gradient of group norm, 32 groups, 64 x 256 x 64 x 64, float32",
    repeated(PLANES, PLANES, PLANES[1:2], STATISTICS, STATISTICS),
    {
        name: version(
            lambda g, x, w, m, s, name=name: group_slope(
                g, x, w, m, s, groups=32, biased=True, version=name
            )
        )
        for name in ("plain", "long_groups", "cluster")
    },
    work=12 * 64 * 256 * 64 * 64,
    unit="B",
)
row(
    "versions_optim",
    "device",
    f"Adam, 2^26 parameters in {PARAMETERS} arrays, float32",
    repeated((1 << 28,)),
    {
        name: many(
            lambda *x, name=name: adam(*x, version=name),
            4,
            (1e-3, 1.0, 0.0, 0.1, 0.999, 0.001, 1.0, 1e-8),
        )
        for name in ("one", "many")
    },
    work=28 << 26,
    unit="B",
)
row(
    "versions_clip",
    "device",
    f"norm of 2^27 gradients in {PARAMETERS} arrays, float32",
    repeated((1 << 27,)),
    {
        name: many(lambda *x, name=name: factor(*x, version=name), 1, (1.0,))
        for name in ("one", "many")
    },
    work=4 << 27,
    unit="B",
)
