"""Arguments of the calls: small arrays in one library; and helpers to write a call for two
libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import timer

from .matrices import matrices

Function = Callable[[Any, Any], object]  # (library, arguments by name) -> result
Pair = tuple[Function, Function]  # cudamath's, PyTorch's


class Arguments:
    """Small arrays in one library: a, b (64, 64); v (64,); mask; places (32,) of rows; classes
    (64,); images and channels; steps: ascending; definite: a symmetric positive definite matrix;
    waves: complex; lines and taps, volumes and cubes: of convolutions in one and three dimensions;
    chances: from 0 to 1, which no call writes into; c (64, 64), which calls write into. half, brain
    (bfloat16), double, whole (int64), short (int32), bytes: (64, 64) of other dtypes; halves,
    brains: images in 16 bits, sieves: kernels. number: without dimensions; nothing: without
    elements; turned: chances transposed; strip: every other column of it. For gradients, leaves of
    the graph in PyTorch: w, k (64, 64) and (64,), photos, filters, scales, table, batches, threads
    (taps), films (volumes), blocks (cubes), positive (definite); and `matrices`."""

    def __init__(self, peer: timer.Peer):
        rng = np.random.default_rng(0)
        a, b = rng.random((64, 64), np.float32), rng.random((64, 64), np.float32)
        values: dict[str, Any] = {
            "a": a,
            "b": b,
            "v": rng.random(64, np.float32),
            "steps": np.arange(64, dtype=np.float32) / 64,
            "definite": np.float32(0.1) * a @ a.T + np.eye(64, dtype=np.float32),
            "waves": a + b * np.complex64(1j),
            "mask": rng.random((64, 64)) > 0.5,
            "places": rng.integers(0, 64, 32),
            "classes": rng.integers(0, 64, 64),
            "images": rng.random((4, 8, 8, 8), np.float32),
            "channels": rng.random(8, np.float32),
            "kernels": rng.random((8, 8, 3, 3), np.float32),
            "lines": rng.random((4, 8, 64), np.float32),
            "volumes": rng.random((2, 8, 4, 8, 8), np.float32),
            "taps": rng.random((8, 8, 3), np.float32),
            "cubes": rng.random((8, 8, 3, 3, 3), np.float32),
            "chances": rng.random((64, 64), np.float32),
            "c": rng.random((64, 64), np.float32),
            "double": rng.random((64, 64)),
            "whole": rng.integers(1, 9, (64, 64)),
            "short": rng.integers(1, 9, (64, 64), np.int32),
            "bytes": rng.integers(0, 255, (64, 64), np.uint8),
            "number": np.asarray(np.float32(0.5)),
            "nothing": np.zeros((0, 64), np.float32),
        }
        values |= matrices(rng)
        leaves = {
            "w": a,
            "k": rng.random(64, np.float32),
            "photos": values["images"],
            "filters": values["kernels"],
            "scales": values["channels"],
            "table": b,
            "batches": values["lines"],
            "threads": values["taps"],
            "films": values["volumes"],
            "blocks": values["cubes"],
            "positive": values["definite"],
        }
        ours = peer.name == "cudamath"
        for name, value in {**values, **leaves}.items():
            array = peer.array(value)
            if name == "chances":
                self.turned, self.strip = array.T, array[:, ::2]
            setattr(self, name, array if ours or name in values else array.requires_grad_())
        for name, value, dtype in (
            ("half", a, "float16"),
            ("brain", a, "bfloat16"),
            ("halves", values["images"], "float16"),
            ("brains", values["images"], "bfloat16"),
            ("sieves", values["kernels"], "float16"),
        ):
            array = peer.array(value)
            setattr(
                self, name, array.astype(dtype) if ours else array.to(getattr(peer.library, dtype))
            )
        self.trained: dict[str, Any] = {}  # what optimizers keep (gradients.py)


def same(function: Function) -> Pair:
    """One expression for both libraries."""
    return function, function


def named(
    name: str, *arrays: str, more: tuple = (), space: str = "", theirs: str = "", torch: str = ""
) -> Pair:
    """A function of the arrays of these names, and of numbers (`more`), that both libraries have:
    in a namespace of cudamath and in PyTorch's of the same name unless another (`theirs`) is given,
    perhaps under another name there (`torch`)."""

    def call(space: str, name: str) -> Function:
        def run(lib: Any, x: Any) -> object:
            where = lib
            for part in spaces:
                where = getattr(where, part)
            return getattr(where, name)(*[getattr(x, n) for n in arrays], *more)

        spaces = space.split(".") if space else []
        return run

    return call(space, name), call(theirs or space, torch or name)
