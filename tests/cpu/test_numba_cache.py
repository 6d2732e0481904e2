"""Numba's cache on disk is a convenience: without it everything computes."""

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import math, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # as on a full disk, writing fails
import numpy as np
import cudamath as cm

cm.set_default_device("cpu")
x = cm.ones((1, 1, 4, 4), dtype="float32")
assert cm.ml.max_pool2d(x, 2).tolist() == [[[[1, 1], [1, 1]]]]
assert cm.ml.conv2d(x, x[:, :, :3, :3]).tolist() == [[[[9, 9], [9, 9]]]]
assert abs(cm.ml.gelu(x)[0, 0, 0, 0].item() - (1 + math.erf(math.sqrt(0.5))) / 2) < 1e-6
assert abs(cm.random.default_rng(0).gamma(2.0, 1.0, 10_000).mean().item() - 2) < 0.1
assert cm.ml.dropout(x, 0.5, rng=cm.random.default_rng(0)).shape == x.shape
assert cm.random.default_rng(0).permutation(4).sum().item() == 6
assert cm.nanmax(cm.asarray([1.0, math.nan, 3.0])).item() == 3
print("computed")
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_a_full_disk(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env=environment,
    )
    assert done.stdout == "computed\n", done.stderr


def test_a_cache_that_cannot_be_read(tmp_path, monkeypatch):
    from numba.core.caching import FunctionCache

    from cudamath.cpu.lib.numba_cache import njit

    def broken(*_):
        raise OSError("input/output error")

    monkeypatch.setattr(FunctionCache, "_load_overload", broken)
    monkeypatch.setattr(FunctionCache, "_save_overload", broken)

    @njit(cache=True)
    def twice(x):
        return 2 * x

    assert twice(3) == 6 and twice(1.5) == 3.0
