"""Arrays that are joined by the kernels that make their parts."""

from __future__ import annotations

import numpy as np
import pytest
from program_comparison import on

import cudamath as cm
from benchmarks.programs import peers

SHAPE = (6, 80)


def stacked(x, y):
    """Of another shape than the parts."""
    z = cm.exp(x - y)
    return cm.stack([z * x, z + y, cm.sin(z)])


def beside(x, y):
    """Runs of 320 bytes along the last axis."""
    z = x * y
    return cm.concatenate([z + 1, cm.tanh(z)], axis=-1), z.sum()


def used_later(x, y):
    z = x + y
    return cm.concatenate([z * 2, z * 3]).sum(0) * 2


def with_a_written_result(x, y):
    z = cm.concatenate([x * 2, x + y])
    z[0] = 7
    return z


JOINED = {
    "stacked": stacked,
    "beside": beside,
    "used later": used_later,
    "written": with_a_written_result,
}


def short(x, y):
    """Runs of 16 bytes."""
    x, y = x[:, :4].copy(), y[:, :4].copy()
    return cm.concatenate([x * y, x + y], axis=1)


def used_elsewhere(x, y):
    z = x * y
    return cm.concatenate([z, x + y]), z


def arguments(x, y):
    return cm.concatenate([x, x * y])


def twice(x, y):
    z = x * y
    return cm.concatenate([z, z])


KEPT = {
    "short": short,
    "used elsewhere": used_elsewhere,
    "arguments": arguments,
    "twice": twice,
}


def compared(function, dtype: str = "float32"):
    """The program on an emulated GPU, which gives what NumPy's functions on the CPU give."""
    rng = np.random.default_rng(5)
    x, y = (rng.normal(size=SHAPE).astype(dtype) for _ in range(2))
    with cm.device("cpu"):
        wanted = function(cm.asarray(x), cm.asarray(y))
    with on("emulated"):
        jitted = cm.jit(function)
        for _ in range(3):
            found = jitted(cm.asarray(x), cm.asarray(y))
            pairs = (
                [(found, wanted)]
                if not isinstance(found, tuple)
                else zip(found, wanted, strict=True)
            )
            for a, b in pairs:
                np.testing.assert_allclose(np.asarray(a.to_numpy()), np.asarray(b), 3e-6, 1e-6)
        (program,) = jitted.programs()
    return program


@pytest.mark.parametrize("name", JOINED)
def test_parts_are_written_where_they_are_joined(name: str) -> None:
    program = compared(JOINED[name])
    assert "concat" not in [node.name for node in program.nodes]
    assert any([note.startswith("places: 1 arrays are joined") for note in program.notes])


@pytest.mark.parametrize("name", KEPT)
def test_other_parts_are_joined_by_a_kernel(name: str) -> None:
    assert "concat" in [node.name for node in compared(KEPT[name]).nodes]


def test_the_bodies_are_joined_as_they_move() -> None:
    with on("emulated"):
        peer = peers.Jit(*peers.small()["n_body"], "cuda:0")
        peer.step()
        (program,) = peer.run.programs()
    assert [node.name.partition("(")[0] for node in program.nodes] == ["full", "fused"]
