"""The pack of the CPU's functions for a level of processors (`cudamath/cpu/lib/processor.py`): what
`python -m cudamath warm-up --device cpu` compiles, for the level in place of this machine.

The functions are called while they are compiled. So a level's pack is built where they can run.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

from cudamath.cpu.lib import code_cache, processor
from cudamath.runtime import kernel_packs


def compile_functions(level: processor.Level, folder: pathlib.Path, workers: int = 0) -> list[str]:
    """Compile for a level what is not in the folder yet; what went wrong."""
    environment = os.environ | {
        processor.VARIABLE: level.name,
        "CUDAMATH_CACHE_DIR": str(folder.absolute()),
        "CUDAMATH_KERNEL_PACKS": "0",
    }
    command = [sys.executable, "-m", "cudamath", "warm-up", "--device", "cpu"]
    done = subprocess.run(
        [*command, "--workers", str(workers)],
        env=environment,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    return [] if done.returncode == 0 else [f"functions for {level.name}"]


def write(
    level: processor.Level, folder: pathlib.Path, out: pathlib.Path
) -> tuple[pathlib.Path, int]:
    """(the pack of what the folder holds, how many functions that is)."""
    functions = dict(code_cache.entries(folder))
    pack = out / (level.name + kernel_packs.SUFFIX)
    out.mkdir(parents=True, exist_ok=True)
    kernel_packs.write(pack, level.name, functions)
    return pack, len(functions)
