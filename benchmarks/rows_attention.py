"""Rows of attention in bfloat16 and float16: forward and gradients at 16,384 tokens of 2,048
numbers, sequences of various lengths, decoding with a cache of keys and values, and fused beside
unfused.

torch runs with both of its fused back ends, cuDNN's and FlashAttention-2; the row keeps the faster
one. Gradients count as five products where the forward pass counts two; "causal" as half of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.rows import Bind, Call, faster, repeated, row

TOKENS, WIDTH = 16384, 2048


def ours(causal: bool, dtype: str = "bfloat16", lengths: bool = False) -> Bind:
    """cudamath, forward. lengths: the fourth argument, of queries and keys."""

    def bind(lib: Any, *arrays: Any) -> Call:
        q, k, v = (a.astype(dtype) for a in arrays[:3])
        options = {"query_lengths": arrays[3], "key_lengths": arrays[3]} if lengths else {}
        return lambda: lib.ml.scaled_dot_product_attention(q, k, v, causal=causal, **options)

    return bind


def our_gradients(causal: bool, dtype: str = "bfloat16", lengths: bool = False) -> Bind:
    """cudamath, the three gradients; lengths: the fifth argument."""

    def bind(lib: Any, *arrays: Any) -> Call:
        q, k, v, g = (a.astype(dtype) for a in arrays[:4])
        options = {"query_lengths": arrays[4], "key_lengths": arrays[4]} if lengths else {}
        _, pull = lib.vjp(
            lambda *a: lib.ml.scaled_dot_product_attention(*a, causal=causal, **options), q, k, v
        )
        return lambda: pull(g)

    return bind


def jagged(torch: Any, tensors: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """As nested tensors, without what lies beyond the lengths; all of them with the same places of
    their parts."""
    begins = torch.tensor([0, *np.cumsum(sizes)], device=tensors[0].device)
    parts = ([x[i, :, :n].transpose(0, 1) for i, n in enumerate(sizes)] for x in tensors)
    return [
        torch.nested.nested_tensor_from_jagged(torch.cat(each), begins).transpose(1, 2).detach()
        for each in parts
    ]


def torchs(
    causal: bool, gradients: bool = False, dtype: str = "bfloat16", lengths: bool = False
) -> Bind:
    """torch: the better one of its back ends. lengths (the last argument): as nested tensors, or,
    if causal, with all that lies beyond them, which no query sees; the gradient of a result there
    must be zero."""

    def bind(lib: Any, *arrays: Any) -> Call:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        attend = lib.nn.functional.scaled_dot_product_attention
        tensors = [a.to(getattr(lib, dtype)) for a in (arrays[:-1] if lengths else arrays)]
        how = {"is_causal": causal, "enable_gqa": tensors[0].shape[1] != tensors[1].shape[1]}
        ways = [(tensors, how)] if causal or not lengths else []
        if lengths:
            ways.append((jagged(lib, tensors, arrays[-1].tolist()), {"is_causal": causal}))
        calls: list[Call] = []
        for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
            for operands, options in ways:
                if gradients:
                    inputs = [a.detach().requires_grad_() for a in operands[:3]]
                    try:
                        with sdpa_kernel(backend):
                            y = attend(*inputs, **options)
                    except RuntimeError:  # a back end that refuses these operands
                        continue
                    calls.append(
                        functools.partial(
                            lib.autograd.grad, y, inputs, operands[3], retain_graph=True
                        )
                    )
                    continue

                def call(
                    backend: Any = backend, operands: Any = operands, options: Any = options
                ) -> object:
                    with sdpa_kernel(backend):
                        return attend(*operands[:3], **options)

                calls.append(call)
        return faster(lib, calls)

    return bind


def unfused(lib: Any, *arrays: Any) -> Call:
    """torch, three operations that store all scores."""
    q, k, v = (a.bfloat16() for a in arrays)
    return lambda: lib.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


for depth in (64, 128, 256):
    for length in (1024, 4096, 16384):
        for causal in (False, True):
            shape = TOKENS // length, WIDTH // depth, length, depth
            flops = 4 * TOKENS * WIDTH * length / (2 if causal else 1)
            text = f"bf16, {'x'.join(map(str, shape))}{', causal' if causal else ''}"
            name = f"attention_{depth}_{length}{'_causal' if causal else ''}"
            row(
                name,
                "device",
                f"attention, {text}",
                repeated(*[shape] * 3),
                {"cudamath": ours(causal), "torch": torchs(causal)},
                work=flops,
                unit="FLOP",
                ceiling="FLOP16",
            )
            row(
                name + "_gradients",
                "device",
                f"gradients of attention, {text}",
                repeated(*[shape] * 4),
                {"cudamath": our_gradients(causal), "torch": torchs(causal, True)},
                work=2.5 * flops,
                unit="FLOP",
                ceiling="FLOP16",
            )

for depth in (64, 128, 256):
    shape = 4, WIDTH // depth, 4096, depth
    flops, text = 2 * TOKENS * WIDTH * 4096, f"f16, {'x'.join(map(str, shape))}, causal"
    row(
        f"attention_f16_{depth}",
        "device",
        f"attention, {text}",
        repeated(*[shape] * 3),
        {"cudamath": ours(True, "float16"), "torch": torchs(True, dtype="float16")},
        work=flops,
        unit="FLOP",
        ceiling="FLOP16",
    )
    row(
        f"attention_f16_{depth}_gradients",
        "device",
        f"gradients of attention, {text}",
        repeated(*[shape] * 4),
        {"cudamath": our_gradients(True, "float16"), "torch": torchs(True, True, "float16")},
        work=2.5 * flops,
        unit="FLOP",
        ceiling="FLOP16",
    )

for depth, name in (
    (128, "attention_grouped"),
    (64, "attention_grouped_64"),
    (256, "attention_grouped_256"),
):
    heads = 4096 // depth
    shape, shared = (2, heads, 4096, depth), (2, heads // 4, 4096, depth)
    text = f"attention, bf16, {'x'.join(map(str, shape))}, {heads // 4} heads of keys, causal"
    row(
        name,
        "device",
        text,
        repeated(shape, shared, shared),
        {"cudamath": ours(True), "torch": torchs(True)},
        work=4 * heads * 4096**2 * depth,
        unit="FLOP",
        ceiling="FLOP16",
    )
    row(
        f"{name}_gradients",
        "device",
        f"gradients of {text}",
        repeated(shape, shared, shared, shape),
        {"cudamath": our_gradients(True), "torch": torchs(True, True)},
        work=10 * heads * 4096**2 * depth,
        unit="FLOP",
        ceiling="FLOP16",
    )

LENGTHS = np.array([4096, 512, 3000, 1024, 2048, 4000, 700, 1500], np.int32)


def varied(depth: int, gradients: bool) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    """Arguments: sequences of LENGTHS in arrays as long as the longest; the gradient of what lies
    beyond is zero."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        *inputs, g = repeated(*[(8, WIDTH // depth, 4096, depth)] * 4)(rng)
        for i, length in enumerate(LENGTHS):
            g[i, :, length:] = 0
        return (*inputs, *[g] * gradients, LENGTHS)

    return make


for name, depth, dtype, causal in (
    ("", 128, "bfloat16", True),
    ("_full", 128, "bfloat16", False),
    ("_64", 64, "bfloat16", True),
    ("_256", 256, "bfloat16", True),
    ("_f16", 128, "float16", True),
):
    flops = 4 * WIDTH * float((LENGTHS.astype(float) ** 2).sum()) / (2 if causal else 1)
    text = (
        f"attention, {'f16' if dtype == 'float16' else 'bf16'}, 8x{WIDTH // depth}x4096x{depth}, "
        "lengths from 512 to 4,096"
        f"{', causal' * causal}"
    )
    row(
        f"attention_lengths{name}",
        "device",
        text,
        varied(depth, False),
        {"cudamath": ours(causal, dtype, True), "torch": torchs(causal, False, dtype, True)},
        work=flops,
        unit="FLOP",
        ceiling="FLOP16",
    )
    row(
        f"attention_lengths{name}_gradients",
        "device",
        f"gradients of {text}",
        varied(depth, True),
        {
            "cudamath": our_gradients(causal, dtype, True),
            "torch": torchs(causal, True, dtype, True),
        },
        work=2.5 * flops,
        unit="FLOP",
        ceiling="FLOP16",
    )

row(
    "attention_unfused",
    "device",
    "attention, bf16, 4x16x4096x64, beside torch unfused",
    repeated(*[(4, 16, 4096, 64)] * 3),
    {"cudamath": ours(False), "torch": unfused},
    work=4 * 64 * 4096**2 * 64,
    unit="FLOP",
    ceiling="FLOP16",
)

for batch in (1, 8, 16, 64):
    cache = batch, 8, 4096, 128
    row(
        f"attention_decode_{batch}",
        "device",
        f"decoding, bf16, {batch}x32x1x128 with {'x'.join(map(str, cache))}",
        repeated((batch, 32, 1, 128), cache, cache),
        {"cudamath": ours(False), "torch": torchs(False)},
        work=4 * batch * 8 * 4096 * 128,
        unit="B",
        copies=max(2, (200 << 20) // (4 * batch * 8 * 4096 * 128)),
        hide_host=True,
    )

row(
    "host_attention",
    "host",
    "attention, 1x4x64x64",
    repeated(*[(1, 4, 64, 64)] * 3),
    {
        "cudamath": lambda lib, q, k, v: (
            lambda: lib.ml.scaled_dot_product_attention(q, k, v, causal=True)
        ),
        "torch": lambda lib, q, k, v: (
            lambda: lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        ),
    },
)
