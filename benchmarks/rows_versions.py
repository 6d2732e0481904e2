"""Rows of the versions that a kernel file tells of, from naive to the limit, at one size, beside
the library.

What these rows record stands in the kernel files' headers, not in README (headers.py). In `calls`,
the names are those of the header's story, in its order; the library comes last. To add a family: a
row here, named "versions_..", and in the header the lines

    Measured (row versions_..):
    (end of what was measured)
"""

from __future__ import annotations

from typing import Any

from benchmarks.rows import Bind, Call, normal, repeated, row
from benchmarks.rows_attention import torchs
from benchmarks.rows_conv import NUMBERS, ours, shapes
from benchmarks.rows_matmul import product

SIDE = 4096
FLOPS = 2 * SIDE**3


def products(dtype: str, versions: dict[str, str]) -> dict[str, Bind]:
    """Name in the header -> a @ b by that version."""
    return {name: product(dtype, "nn", version) for name, version in versions.items()}


row(
    "versions_matmul_float32",
    "device",
    "4,096 x 4,096 x 4,096, float32",
    repeated((SIDE, SIDE), (SIDE, SIDE)),
    products(
        "float32",
        {
            "matmul_naive": "naive",
            "matmul_tiled": "tiled",
            "matmul_register": "register_tiles",
            "matmul_block": "simt",
            "matmul_async": "simt_async_copy",
            "cuBLAS": "cublas",
        },
    ),
    work=FLOPS,
    unit="FLOP",
    copies=2,
)
row(
    "versions_matmul_bfloat16",
    "device",
    "4,096 x 4,096 x 4,096, bfloat16",
    repeated((SIDE, SIDE), (SIDE, SIDE)),
    products(
        "bfloat16",
        {
            "matmul_naive": "naive",
            "matmul_tiled": "tiled",
            "matmul_register": "register_tiles",
            "matmul_mma": "sm80",
            "matmul_wgmma 64x64": "sm90 64x64",
            "matmul_wgmma 128x128": "sm90 128x128",
            "matmul_wgmma 128x128 pingpong": "sm90 128x128 pingpong",
            "matmul_wgmma 128x256": "sm90 128x256",
            "cuBLAS": "cublas",
        },
    ),
    work=FLOPS,
    unit="FLOP",
    ceiling="FLOP16",
    copies=2,
)


def attends(version: str, gradients: bool) -> Bind:
    """Causal attention, or its three gradients, by the version of that architecture."""
    names = {way: version for way in ("forward", "backward")}
    if version == "sm90":
        names = {way: f"{way}_sm90" for way in names}

    def bind(lib: Any, *arrays: Any) -> Call:
        from cudamath.core.dispatch.op import Op

        q, k, v, *g = (a.astype("bfloat16") for a in arrays)
        options = {
            "causal": True,
            "scale": q.shape[-1] ** -0.5,
            "dropping": False,
        }
        forward, backward = (
            Op(
                f"benchmark of {version}",
                cpu=f"attention.{name}",
                cuda=f"attention.dispatch.{name}",
                outputs=outputs,
            )
            for name, outputs in (("attention", 2), ("attention_grad", 3))
        )
        if not gradients:
            return lambda: forward(q, k, v, **options, version=names["forward"])
        y, lse = forward(q, k, v, **options, version=names["forward"])
        return lambda: backward(*g, q, k, v, y, lse, **options, version=names["backward"])

    return bind


HEADS, PAIRS = (4, 16, 4096, 128), 4 * 16 * 4096**2 / 2
for name, count in (("attention", 3), ("attention_gradients", 4)):
    row(
        f"versions_{name}",
        "device",
        f"4 x 16 x 4,096 x 128, causal, bfloat16{', gradients' * (count == 4)}",
        repeated(*[HEADS] * count),
        {
            **{version: attends(version, count == 4) for version in ("simt", "sm80", "sm90")},
            "torch": torchs(True, count == 4),
        },
        work=4 * 128 * PAIRS * (2.5 if count == 4 else 1),
        unit="FLOP",
        ceiling="FLOP16",
        copies=2,
    )
WHERE = {"stride": 1, "padding": 1, "dilation": 1, "groups": 1}
for numbers, versions in {
    "f32": {"conv2d_direct": "direct", "conv2d_implicit_gemm": "simt", "cuDNN": "cudnn"},
    "bf16": {
        "conv2d_implicit_gemm": "simt",
        "conv2d_mma": "sm80",
        "conv2d_wgmma": "sm90",
        "cuDNN": "cudnn",
    },
}.items():
    dtype, _bytes, order, ceiling, _names = NUMBERS[numbers]
    row(
        f"versions_conv_{dtype}",
        "device",
        f"(32, 64, 128, 128) * (128, 64, 3, 3), {dtype}",
        normal(*shapes(order, 32, 64, 128, 128, 3)),
        {name: ours("forward", WHERE, numbers, version) for name, version in versions.items()},
        work=2 * 32 * 128**2 * 128 * 64 * 9,
        unit="FLOP",
        ceiling=ceiling,
        copies=2,
    )
