"""Random programs on a GPU in Numba's simulator: traced, simplified, fused, and replayed as a CUDA
graph of the fake driver."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import RandomProgram
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.runtime.state import runtime

pytestmark = pytest.mark.simulator


#: Their kernels are not made for the simulator.
NOT_THERE = ("step",)


@pytest.fixture
def gpu(monkeypatch):
    with simulated_gpu(monkeypatch):
        yield


@pytest.mark.parametrize("seed", range(40))
def test_a_program_gives_what_the_cpu_gives(gpu, seed: int) -> None:
    program = RandomProgram(seed, length=8, draws=False, without=NOT_THERE)
    with cm.device("cpu"):
        function = program.function(cm.random.default_rng(seed))
        expected = []
        for call in range(3):
            arrays = [cm.array(a) for a in program.arrays(call)]
            results, total = function(*arrays)
            expected.append([np.array(x) for x in (*results, total, *arrays)])
    jitted = cm.jit(program.function(cm.random.default_rng(seed)))
    for call in range(3):
        arrays = [cm.array(a) for a in program.arrays(call)]
        results, total = jitted(*arrays)
        for a, b in zip((*results, total, *arrays), expected[call], strict=True):
            np.testing.assert_allclose(
                a.to_numpy(), b, 2e-5, 2e-5, err_msg=repr((program, jitted.programs()[0].notes))
            )
    assert jitted.traces == 1
    assert runtime.driver.calls["cuGraphLaunch"] == 1  # the first call traced, the second ran
