"""Shortcuts through Numba's compiler: the same machine code, in less time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cudamath.kernels.compiler import lazy_numba, shortcuts

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")

COMPILE = """
import hashlib, sys
import cudamath as cm
from cudamath.kernels.compiler import compile as compiler, shortcuts
from cudamath.kernels.compiler.storage_types import arguments_type
from cudamath.runtime import rehearsal
if sys.argv[1] == "without":
    shortcuts.install = lambda: False
needed = []
def note(kernel, signature, _):
    needed.append((kernel, list(signature)))
    return b"\\x7fELF"
with rehearsal.rehearsing((9, 0), note, there=()), cm.device("cuda:0"):
    x = cm.ones((64, 100), dtype="bfloat16")
    cm.ml.softmax(x), cm.sort(x), x @ x.T, cm.var(x, axis=0)
print(len(needed))
for kernel, signature in needed:
    types = arguments_type(signature)
    code = compiler.compile_now(kernel, types, (9, 0, "a"))[0]
    print(kernel.__name__, hashlib.sha256(code).hexdigest())
print(shortcuts.install())
"""


@pytest.mark.slow
def test_machine_code_is_the_same_with_them_and_without():
    told = {
        how: subprocess.run(
            [sys.executable, "-c", COMPILE, how], capture_output=True, text=True, check=True
        ).stdout.split("\n")
        for how in ("with", "without")
    }
    count, *kernels, taken, _ = told["with"]
    assert int(count) == len(kernels) >= 5 and taken == "True"
    assert told["without"] == [count, *kernels, "False", ""]


def test_another_version_of_numba_cuda_stays_as_it_is(monkeypatch):
    from numba.cuda.core.postproc import PostProcessor

    run = PostProcessor.run
    shortcuts.install.cache_clear()
    monkeypatch.setattr(shortcuts, "installed", lambda: {"numba-cuda": "0.99.0"})
    try:
        assert shortcuts.install() is False and PostProcessor.run is run
    finally:
        monkeypatch.undo()
        shortcuts.install.cache_clear()


def test_the_collector_waits_while_numba_compiles(monkeypatch):
    """And collects again, whatever happens."""
    import gc

    from cudamath.kernels.compiler import compile as compiler

    assert gc.isenabled()
    with pytest.raises(KeyError), compiler._compiling_for((8, 0)):
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with compiler._compiling_for((8, 0)):
            pass
        assert not gc.isenabled()  # as it was found
    finally:
        gc.enable()
