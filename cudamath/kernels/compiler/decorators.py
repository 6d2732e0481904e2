"""Decorators for device functions, and the numbers of a warp."""

from __future__ import annotations

from typing import Any

from .lazy_numba import SIMULATOR, cuda, intrinsic, types

#: Decorates a device function. LLVM inlines it; Numba's own inline="always" gives the same code 3
#: to 5 times as slowly.
device_function = cuda.jit(device=True) if SIMULATOR else cuda.jit(device=True, forceinline=True)
#: For a kernel whose products and sums are rounded one by one: what it computes depends on its
#: operands alone. A compiler is told so for all of a kernel; a function tells the kernels that
#: apply it (`applying`).
rounding = cuda.jit if SIMULATOR else cuda.jit(fma=False)
rounding_function = (
    device_function if SIMULATOR else cuda.jit(device=True, forceinline=True, fma=False)
)
WARP = 32
FULL = 0xFFFFFFFF  # all lanes of a warp take part in the shuffle


def bounded(threads: int | tuple[int, int]):
    """Decorates kernels launched with at most `threads` threads per block, among which the compiler
    shares registers; a pair: (threads, blocks that a multiprocessor must hold)."""
    return cuda.jit if SIMULATOR else cuda.jit(launch_bounds=threads)


def applying(function: Any) -> Any:
    """Decorates kernels that apply this device function: they round where it does."""
    return cuda.jit if getattr(function, "targetoptions", {}).get("fma", True) else rounding


if not SIMULATOR:

    @intrinsic
    def not_inlined(typingctx):
        """The device function that calls this one is called where others call it: long code that
        is used in several places is compiled, and lies in the caches of instructions, once."""

        def generate(context, builder, sig, values):
            builder.function.attributes.add("noinline")
            return context.get_dummy_value()

        return types.void(), generate
