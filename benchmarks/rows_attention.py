"""Rows of attention in bfloat16: forward and gradients at 16,384 tokens of 2,048 numbers, and decoding with a cache.

torch is asked in both of its fused back ends, cuDNN's and FlashAttention-2; the row keeps the one that is faster there.
Gradients are counted as five products of the forward's two; "causal" as half of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rows import Bind, Call, row

TOKENS, WIDTH = 16384, 2048


def heads(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    """Arguments: normal numbers in float32 (the rows round them to bfloat16)."""
    return lambda rng: tuple(rng.standard_normal(shape, dtype=np.float32) for shape in shapes)


def ours(causal: bool) -> Bind:
    """cudamath, forward."""

    def bind(lib: Any, q: Any, k: Any, v: Any, *_: Any) -> Call:
        q, k, v = (a.astype("bfloat16") for a in (q, k, v))
        return lambda: lib.ml.scaled_dot_product_attention(q, k, v, causal=causal)

    return bind


def our_gradients(causal: bool) -> Bind:
    """cudamath, the three gradients."""

    def bind(lib: Any, *arrays: Any) -> Call:
        q, k, v, g = (a.astype("bfloat16") for a in arrays)
        _, pull = lib.vjp(lambda *a: lib.ml.scaled_dot_product_attention(*a, causal=causal), q, k, v)
        return lambda: pull(g)

    return bind


def faster(torch: Any, calls: list[Call]) -> Call:
    """The call that takes less time; one that its back end refuses is left out."""
    found: list[tuple[float, int, Call]] = []
    for call in calls:
        try:
            for _ in range(3):
                call()
        except RuntimeError:
            continue
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            call()
        end.record()
        torch.cuda.synchronize()
        found.append((begin.elapsed_time(end), len(found), call))
    return min(found)[2]


def torchs(causal: bool, gradients: bool = False) -> Bind:
    """torch: the better one of its back ends."""

    def bind(lib: Any, *arrays: Any) -> Call:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        attend = lib.nn.functional.scaled_dot_product_attention
        tensors = [a.bfloat16() for a in arrays]
        how = {"is_causal": causal, "enable_gqa": tensors[0].shape[1] != tensors[1].shape[1]}
        calls: list[Call] = []
        for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
            if gradients:
                inputs = [a.detach().requires_grad_() for a in tensors[:3]]
                with sdpa_kernel(backend):
                    y = attend(*inputs, **how)
                calls.append(functools.partial(lib.autograd.grad, y, inputs, tensors[3], retain_graph=True))
            else:
                def call(backend: Any = backend) -> object:
                    with sdpa_kernel(backend):
                        return attend(*tensors[:3], **how)

                calls.append(call)
        return faster(lib, calls)

    return bind


for depth in (64, 128, 256):
    for length in (1024, 4096, 16384):
        for causal in (False, True):
            shape = TOKENS // length, WIDTH // depth, length, depth
            flops = 4 * TOKENS * WIDTH * length / (2 if causal else 1)
            text = f"bf16, {'x'.join(map(str, shape))}{', causal' if causal else ''}"
            name = f"attention_{depth}_{length}{'_causal' if causal else ''}"
            row(name, "device", f"attention, {text}", heads(*[shape] * 3), {"cudamath": ours(causal), "torch": torchs(causal)},
                work=flops, unit="FLOP", ceiling="FLOP16")
            if depth <= 128:
                row(name + "_gradients", "device", f"gradients of attention, {text}", heads(*[shape] * 4),
                    {"cudamath": our_gradients(causal), "torch": torchs(causal, True)}, work=2.5 * flops, unit="FLOP",
                    ceiling="FLOP16")

SHARED = 2, 32, 4096, 128
row("attention_grouped", "device", "attention, bf16, 2x32x4096x128, 8 heads of keys, causal",
    heads(SHARED, *[(2, 8, 4096, 128)] * 2), {"cudamath": ours(True), "torch": torchs(True)},
    work=2 * 64 * 4096**2 * 128, unit="FLOP", ceiling="FLOP16")

for batch in (1, 8, 64):
    cache = batch, 8, 4096, 128
    row(f"attention_decode_{batch}", "device", f"decoding, bf16, {batch}x32x1x128 with {'x'.join(map(str, cache))}",
        heads((batch, 32, 1, 128), cache, cache), {"cudamath": ours(False), "torch": torchs(False)},
        work=4 * batch * 8 * 4096 * 128, unit="B", copies=max(2, (200 << 20) // (4 * batch * 8 * 4096 * 128)))

row("host_attention", "host", "attention, 1x4x64x64", heads(*[(1, 4, 64, 64)] * 3), {
    "cudamath": lambda lib, q, k, v: lambda: lib.ml.scaled_dot_product_attention(q, k, v, causal=True),
    "torch": lambda lib, q, k, v: lambda: lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)})
