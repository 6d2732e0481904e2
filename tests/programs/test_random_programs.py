"""Random programs give under `jit` what they give without it: results, written arguments, and the
numbers that they draw, bit for bit on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import RandomProgram

import cudamath as cm

SEEDS = 300


@pytest.fixture(autouse=True)
def cpu():
    with cm.device("cpu"):
        yield


def outcomes(program: RandomProgram, jitted: bool, calls: int = 3) -> list:
    """What several calls return and leave in their arguments."""
    source = cm.random.default_rng(program.seed)
    function = program.function(source)
    function = cm.jit(function) if jitted else function
    found = []
    for call in range(calls):
        arrays = [cm.array(a) for a in program.arrays(call)]
        results, total = function(*arrays)
        found.append([cm.asarray(x).to_numpy().copy() for x in (*results, total, *arrays)])
        # results may be written by their receiver
        for y in results:
            if y.size and 0 not in y.strides:
                y[...] = 7
    return found


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + 20):
        program = RandomProgram(seed)
        for ours, truth in zip(outcomes(program, True), outcomes(program, False), strict=True):
            for a, b in zip(ours, truth, strict=True):
                assert a.dtype == b.dtype, program
                np.testing.assert_array_equal(a, b, err_msg=repr(program))


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_random_programs_on_a_gpu(first: int) -> None:
    """On a GPU `jit` gives what the CPU gives: fused operations may round otherwise."""
    for seed in range(first, first + 20):
        program = RandomProgram(seed, length=8, draws=False)
        truth = outcomes(program, False)
        with cm.device("cuda"):
            ours = outcomes(program, True)
        for call, expected in zip(ours, truth, strict=True):
            for a, b in zip(call, expected, strict=True):
                np.testing.assert_allclose(a, b, 2e-5, 2e-5, err_msg=repr(program))
