"""A second process takes the kernels of a program from disk, those of fused regions included: names
and sources of what is generated must not depend on the process."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent

SOURCE = textwrap.dedent("""
    import sys
    import pytest
    sys.path.insert(0, "tests/support")
    from fake_driver import FakeDriver
    import cudamath as cm
    from cudamath.runtime import cubin_cache
    from cudamath.runtime.state import runtime

    @cm.jit
    def step(w, b, x):
        def loss(w, b):
            y = cm.tanh(x @ w + b) * 0.5 - x.mean(-1, keepdims=True)
            c, ys = cm.scan(lambda c, row: (cm.sin(c) + row, c * row), y[0], y)
            return (ys * y).sum() + c.sum()
        value, (dw, db) = cm.value_and_grad(loss, argnums=(0, 1))(w, b)
        w -= 0.1 * dw
        return value, db / (1 + abs(db))

    real, fake = runtime.compiler, FakeDriver()
    fake.idle = True

    def compiler(kernel, kinds, capability):
        real(kernel, kinds, capability)  # into the folder, or from there
        return fake.compiler(kernel, kinds, capability)

    with runtime.replaced(fake, compiler), cm.device("cuda"):
        w, b, x = cm.ones((64, 64)), cm.ones(64), cm.ones((8, 64))
        for _ in range(3):
            value, db = step(w, b, x)
        fused = [n.name for n in step.programs()[0].nodes if n.name.startswith("fused")]
        del w, b, x, value, db
        step.clear()
    counts = cubin_cache.statistics
    print(len(fused) > 1, counts["compiled"], counts["loaded_from_disk"])
    """)


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path: pathlib.Path) -> None:
    environment = {**os.environ, "CUDAMATH_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment.pop("NUMBA_ENABLE_CUDASIM", None)
    said = []
    for seed in ("1", "2"):  # of hashes, by which sets are ordered
        environment["PYTHONHASHSEED"] = seed
        command = [sys.executable, "-c", SOURCE]
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
        )
        assert ran.returncode == 0, ran.stderr[-2000:]
        said.append(ran.stdout.split())
    (fused, compiled, loaded), second = said
    assert fused == "True" and int(compiled) >= 5 and loaded == "0"
    assert second == ["True", "0", compiled]
