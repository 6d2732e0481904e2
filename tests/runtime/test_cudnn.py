"""cuDNN's convolutions: what they hold, and when they release it."""

from __future__ import annotations

import gc
import subprocess
import sys
import types
import weakref

import numpy as np
import pytest

from cudamath.runtime import cudnn


class Graph:
    """What `Convolution` needs of a graph of cuDNN's front end."""

    def get_workspace_size(self) -> int:
        return 64


def test_graphs_are_released_before_the_process_ends():
    graph = Graph()
    released = weakref.ref(graph)
    convolution = cudnn.Convolution(graph, "forward")
    del graph
    assert released() is not None and convolution.workspace == 64
    cudnn._release_graphs()
    gc.collect()
    assert released() is None


PROGRAM = """
import cudamath as cm
from cudamath.runtime import cudnn
x = cm.random.default_rng(0).normal(size=(4, 8, 16, 16), dtype="float32")
tensor = cudnn.Tensor((4, 8, 16, 16), (2048, 256, 16, 1))
filters = cudnn.Tensor((8, 8, 3, 3), (72, 9, 3, 1))
sides = dict.fromkeys(("stride", "before", "after", "dilation"), (1, 1))
kept = cudnn.convolution("forward", x.dtype, tensor, filters, tensor, **sides)
assert kept is not None
"""


@pytest.mark.gpu
def test_a_process_that_used_cudnn_ends_without_a_report_of_leaks():
    if not cudnn.available():
        pytest.skip("cuDNN or its front end is missing")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "nanobind" not in done.stderr


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sums_are_of_float32_unless_of_float64(monkeypatch, dtype):
    """What a graph is asked for; the bindings are stand-ins."""
    asked = {}

    def graph(**options):
        asked.update(options)
        raise LookupError

    kinds = types.SimpleNamespace(**{name: name for name in ("DOUBLE", "FLOAT", "HALF")})
    bindings = types.SimpleNamespace(data_type=kinds, backend_graph=graph)
    monkeypatch.setattr(cudnn, "_bindings", lambda: bindings)
    monkeypatch.setattr(cudnn, "handle", lambda _: types.SimpleNamespace(raw=0))
    monkeypatch.setattr(cudnn.streams, "stream_of", lambda _: None)
    build = cudnn._builder(
        "forward", np.dtype(dtype), *[None] * 3, *[(1, 1)] * 4, bias=False, tf32=False, device=0
    )
    with pytest.raises(LookupError):
        build(())
    summed = "DOUBLE" if dtype == "float64" else "FLOAT"
    assert asked["compute_data_type"] == asked["intermediate_data_type"] == summed
    assert asked["io_data_type"] == {"float16": "HALF", "float32": "FLOAT"}.get(dtype, "DOUBLE")
