"""Rows of attention in bfloat16 and float16: forward and gradients at 16,384 tokens of 2,048 numbers, sequences of various
lengths, decoding with a cache of keys and values, and fused beside unfused.

torch is asked in both of its fused back ends, cuDNN's and FlashAttention-2; the row keeps the one that is faster there.
Gradients are counted as five products of the forward's two; "causal" as half of them.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from benchmarks.rows import Bind, Call, repeated, row

TOKENS, WIDTH = 16384, 2048


def ours(causal: bool, dtype: str = "bfloat16", lengths: bool = False) -> Bind:
    """cudamath, forward. lengths: the fourth argument, of queries and keys."""

    def bind(lib: Any, *arrays: Any) -> Call:
        q, k, v = (a.astype(dtype) for a in arrays[:3])
        options = {"query_lengths": arrays[3], "key_lengths": arrays[3]} if lengths else {}
        return lambda: lib.ml.scaled_dot_product_attention(q, k, v, causal=causal, **options)

    return bind


def our_gradients(causal: bool, dtype: str = "bfloat16") -> Bind:
    """cudamath, the three gradients."""

    def bind(lib: Any, *arrays: Any) -> Call:
        q, k, v, g = (a.astype(dtype) for a in arrays)
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


def torchs(causal: bool, gradients: bool = False, dtype: str = "bfloat16", lengths: bool = False) -> Bind:
    """torch: the better one of its back ends. lengths: as nested tensors, without what lies beyond them, or with all of it
    (if causal, no query sees it)."""

    def bind(lib: Any, *arrays: Any) -> Call:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        attend = lib.nn.functional.scaled_dot_product_attention
        tensors = [a.to(getattr(lib, dtype)) for a in (arrays[:3] if lengths else arrays)]
        how = {"is_causal": causal, "enable_gqa": tensors[0].shape[1] != tensors[1].shape[1]}
        ways = [(tensors, how)]
        if lengths:
            sizes = arrays[3].tolist()
            begins = lib.tensor([0, *np.cumsum(sizes)], device=tensors[0].device)
            nested = [lib.nested.nested_tensor_from_jagged(
                lib.cat([x[i, :, :n].transpose(0, 1) for i, n in enumerate(sizes)]), begins).transpose(1, 2) for x in tensors]
            ways.append((nested, {"is_causal": causal}))
        calls: list[Call] = []
        for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
            if gradients:
                inputs = [a.detach().requires_grad_() for a in tensors[:3]]
                try:
                    with sdpa_kernel(backend):
                        y = attend(*inputs, **how)
                except RuntimeError:  # a back end that refuses these operands
                    continue
                calls.append(functools.partial(lib.autograd.grad, y, inputs, tensors[3], retain_graph=True))
                continue
            for operands, options in ways:
                def call(backend: Any = backend, operands: Any = operands, options: Any = options) -> object:
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
            row(name, "device", f"attention, {text}", repeated(*[shape] * 3),
                {"cudamath": ours(causal), "torch": torchs(causal)}, work=flops, unit="FLOP", ceiling="FLOP16")
            row(name + "_gradients", "device", f"gradients of attention, {text}", repeated(*[shape] * 4),
                {"cudamath": our_gradients(causal), "torch": torchs(causal, True)}, work=2.5 * flops, unit="FLOP",
                ceiling="FLOP16")

for depth in (64, 128):
    shape = 4, WIDTH // depth, 4096, depth
    flops, text = 2 * TOKENS * WIDTH * 4096, f"f16, {'x'.join(map(str, shape))}, causal"
    row(f"attention_f16_{depth}", "device", f"attention, {text}", repeated(*[shape] * 3),
        {"cudamath": ours(True, "float16"), "torch": torchs(True, dtype="float16")}, work=flops, unit="FLOP", ceiling="FLOP16")
    row(f"attention_f16_{depth}_gradients", "device", f"gradients of attention, {text}", repeated(*[shape] * 4),
        {"cudamath": our_gradients(True, "float16"), "torch": torchs(True, True, "float16")}, work=2.5 * flops, unit="FLOP",
        ceiling="FLOP16")

SHARED = 2, 32, 4096, 128
row("attention_grouped", "device", "attention, bf16, 2x32x4096x128, 8 heads of keys, causal",
    repeated(SHARED, *[(2, 8, 4096, 128)] * 2), {"cudamath": ours(True), "torch": torchs(True)},
    work=2 * 64 * 4096**2 * 128, unit="FLOP", ceiling="FLOP16")

row("attention_grouped_gradients", "device", "gradients of attention, bf16, 2x32x4096x128, 8 heads of keys, causal",
    repeated(SHARED, *[(2, 8, 4096, 128)] * 2, SHARED), {"cudamath": our_gradients(True), "torch": torchs(True, True)},
    work=5 * 64 * 4096**2 * 128, unit="FLOP", ceiling="FLOP16")

LENGTHS = np.array([4096, 512, 3000, 1024, 2048, 4000, 700, 1500], np.int32)
row("attention_lengths", "device", "attention, bf16, 8x16x4096x128, lengths from 512 to 4,096, causal",
    lambda rng: (*repeated(*[(8, 16, 4096, 128)] * 3)(rng), LENGTHS),
    {"cudamath": ours(True, lengths=True), "torch": torchs(True, lengths=True)},
    work=2 * 16 * 128 * float((LENGTHS.astype(float) ** 2).sum()), unit="FLOP", ceiling="FLOP16")

row("attention_unfused", "device", "attention, bf16, 4x16x4096x64, beside torch unfused", repeated(*[(4, 16, 4096, 64)] * 3),
    {"cudamath": ours(False), "torch": unfused}, work=4 * 64 * 4096**2 * 64, unit="FLOP", ceiling="FLOP16")

for batch in (1, 8, 16, 64):
    cache = batch, 8, 4096, 128
    row(f"attention_decode_{batch}", "device", f"decoding, bf16, {batch}x32x1x128 with {'x'.join(map(str, cache))}",
        repeated((batch, 32, 1, 128), cache, cache), {"cudamath": ours(False), "torch": torchs(False)},
        work=4 * batch * 8 * 4096 * 128, unit="B", copies=max(2, (200 << 20) // (4 * batch * 8 * 4096 * 128)), hide_host=True)

row("host_attention", "host", "attention, 1x4x64x64", repeated(*[(1, 4, 64, 64)] * 3), {
    "cudamath": lambda lib, q, k, v: lambda: lib.ml.scaled_dot_product_attention(q, k, v, causal=True),
    "torch": lambda lib, q, k, v: lambda: lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)})
