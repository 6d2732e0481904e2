"""A process that compiles kernels for another one: `python -m cudamath.kernels.compiler.worker`.

It reads jobs from stdin and answers on stdout, each with its length before it, until stdin ends. It
imports this package and the compilers, and nothing of the user's. What it compiles goes into the
cache on disk, under the key that the other process names.
"""

from __future__ import annotations

import os
import sys

from ...runtime import cubin_cache
from . import compile as compiler
from . import gradients, portable, storage_types
from .worker_pool import read, write


def machine_code(job: bytes) -> bytes:
    """The machine code that a job describes, or the kernels of a gradient, as messages: b"+" and
    the answer, or b"-" and what went wrong."""
    try:
        content = portable.loads(job)
        if content[0] == "gradient":
            return b"+" + portable.dumps(gradients.messages(*content[1:]))
        key, kernel, signature, cc, seen = content
        if compiler.cache_key(kernel, signature, cc, seen) != key:
            raise RuntimeError("the sources have changed since the other process read them")
        arguments = storage_types.arguments_type(signature, seen)
        return b"+" + cubin_cache.cached_cubin(
            key, lambda: compiler.compile_now(kernel, arguments, cc)[0]
        )
    except Exception as error:  # whatever it is, the other process compiles the kernel itself
        return b"-" + f"{type(error).__name__}: {error}".encode()


def main() -> None:
    """Answer jobs until there are none."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed here
    write(answers, b"ready")
    while (job := read(sys.stdin.buffer)) is not None:
        write(answers, machine_code(job))


if __name__ == "__main__":
    main()
