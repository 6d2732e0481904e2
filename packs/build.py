"""Build packs of kernels: `python -m packs.build [--capabilities 8.0,9.0] [--levels x86_64_v3]
[--out dist]`.

For each architecture, what the list (`cudamath/kernels/compiler/kernel_list.jsonl`) asks for is
compiled on all cores, packed, and put into a wheel, `cudamath-kernels-sm90` and so on. Machine code
goes through a cache of its own (`build/kernels`), so that a build that was stopped goes on where it
was. A kernel's key contains the bytecode of its source: a pack serves one version of Python, which
the wheel's name tells. The functions of the CPU (functions.py) come in wheels for levels of
processors, those that this machine can run.
"""

from __future__ import annotations

import argparse
import base64
import functools
import hashlib
import os
import pathlib
import sys
import sysconfig
import time
import zipfile

from cudamath import __version__, warm_up
from cudamath.cpu.lib import processor
from cudamath.kernels.compiler import cache_key, kernel_list
from cudamath.kernels.compiler.target import architecture, target
from cudamath.runtime import cubin_cache, kernel_packs

from . import functions
from .record import CAPABILITIES

MOST = 60 << 20  # bytes of a wheel


def build(
    capability: tuple[int, int], out: pathlib.Path, calls: list, workers: int = 0
) -> tuple[pathlib.Path, int, list[str]]:
    """(the wheel of an architecture, how many kernels are in it, what could not be compiled)."""
    errors: list[str] = []
    wanted = list(kernel_list.wanted(calls, capability, errors))
    name = architecture(target(capability))
    with warm_up.progress(name) as done:
        requests = [(each.kernel, each.signature) for each in wanted]
        errors += warm_up.compile_all(requests, capability, workers, done)
    kernels = {}
    for each in wanted:
        if (code := cubin_cache.stored_cubin(each.key)) is not None:
            kernels[cache_key.source_key(each.key)] = code
    out.mkdir(parents=True, exist_ok=True)
    pack = out / (name + kernel_packs.SUFFIX)
    kernel_packs.write(pack, name, kernels)
    try:
        return wheel(pack, name, out), len(kernels), errors
    finally:
        pack.unlink()


def build_functions(
    level: processor.Level, out: pathlib.Path, workers: int = 0
) -> tuple[pathlib.Path, int, list[str]]:
    """The same for the CPU's functions and a level of processors."""
    folder = cubin_cache.cache_directory() / level.name
    errors = functions.compile_functions(level, folder, workers)
    pack, count = functions.write(level, folder, out)
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    try:
        return wheel(pack, level.name, out, system), count, errors
    finally:
        pack.unlink()


def wheel(pack: pathlib.Path, name: str, out: pathlib.Path, system: str = "any") -> pathlib.Path:
    """The wheel of a package that holds a pack and nothing else. system: as wheels name it."""
    package = kernel_packs.package_name(name)
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    info = f"{package}-{__version__}.dist-info"
    path = out / f"{package}-{__version__}-{python}-none-{system}.whl"
    files = {
        f"{package}/__init__.py": b'"""Kernels of cudamath, compiled ahead."""\n',
        f"{package}/{pack.name}": pack.read_bytes(),
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: {__version__}\n"
            f"Summary: Kernels of cudamath for {name}, compiled ahead\n"
            f"License: Apache-2.0\nRequires-Dist: cudamath=={__version__}\n"
        ).encode(),
        f"{info}/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: cudamath\nRoot-Is-Purelib: true\n"
            f"Tag: {python}-none-{system}\n"
        ).encode(),
    }
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data)
    return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def main() -> int:
    """Build the packs; 1 if a kernel could not be compiled or a wheel is too large."""
    parser = argparse.ArgumentParser(prog="python -m packs.build")
    usual = ",".join(f"{a}.{b}" for a, b in CAPABILITIES)
    parser.add_argument("--capabilities", default=usual, help=f"default: {usual}")
    levels = ",".join(each.name for each in processor.runnable())
    parser.add_argument("--levels", default=levels, help=f"default: {levels or 'none'}")
    parser.add_argument("--out", default="dist", type=pathlib.Path, help="default: dist")
    parser.add_argument("--workers", default=0, type=int, help="default: one for each core")
    arguments = parser.parse_args()
    os.environ.setdefault("CUDAMATH_CACHE_DIR", str(pathlib.Path("build/kernels").absolute()))
    os.environ["CUDAMATH_KERNEL_PACKS"] = "0"  # all are compiled from the sources at hand
    calls, good = kernel_list.calls(), True
    builds = [
        functools.partial(build, warm_up.capability_of(text), arguments.out, calls)
        for text in filter(None, arguments.capabilities.split(","))
    ] + [
        functools.partial(build_functions, processor.LEVELS[name], arguments.out)
        for name in filter(None, arguments.levels.split(","))
    ]
    for make in builds:
        start = time.monotonic()
        path, count, errors = make(workers=arguments.workers)
        size = path.stat().st_size
        print(
            f"{path}: {count} kernels, {size / (1 << 20):.1f} MiB, "
            f"{(time.monotonic() - start) / 60:.1f} minutes",
            flush=True,
        )
        for error in errors:
            print(f"not in the pack: {error}", file=sys.stderr)
        if size > MOST:
            print(f"{path} is larger than {MOST >> 20} MiB", file=sys.stderr)
        good = good and not errors and size <= MOST
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
