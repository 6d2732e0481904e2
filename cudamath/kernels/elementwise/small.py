"""Small arrays: one kernel for all layouts, and for all dtypes that are computed in one type.

A call on a small array takes 6 us on the host and 1 on the device. So a kernel need not know
strides and dtypes: it gets them as arguments, which takes 0.7 us more there (H100, 0222be46). By
the machine code most of that is waiting: each operand's switch over dtypes ends in a conversion,
so the load of the next one began when that of the one before had come, and the usual dtype's
branch lay half a kilobyte further on for each of them. So one comparison asks whether all arrays
have the dtype that the kernel computes in; their loads then follow one another. Of the elementwise
kernels that NumPy's own tests ask for, 2,347, this leaves 654. Whole numbers are computed in int64,
which wraps to what narrower ones give (uint64 in itself); 16-bit floats in float32, as everywhere.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Scalar
from ...core.dispatch.steps import Launch
from ..compiler.decorators import applying, device_function
from ..compiler.generated import compiled
from ..compiler.lazy_numba import cuda, types
from ..lib.integers import blocks
from ..ptx.coded_access import CODES, kind, loader, storer
from .generator import NAMES, THREADS, scalar_function
from .problem import RANK, ElementwiseProblem


@device_function
def place(n, size1, size2):
    """The index of element n in three dimensions. Most arrays have one that is more than 1, which
    needs no division."""
    if n < size2:
        return types.int64(0), types.int64(0), types.int64(n)
    row = n // size2
    first = row // size1
    return types.int64(first), types.int64(row - first * size1), types.int64(n - row * size2)


@device_function
def offset(index, a, b, c):
    """The distance of an element from the first; a, b, c: bytes along the dimensions."""
    return index[0] * a + index[1] * b + index[2] * c


@device_function
def code_of(codes, i):
    """The i-th code of several: four bits of a number."""
    return types.int32((codes >> (4 * i)) & 15)


@functools.cache
def small_kernel(
    function: Any, arrays: tuple[bool, ...], reads: tuple[np.dtype, ...], output: np.dtype
) -> Any:
    """One element a thread. arrays[i]: operand i is an array, uint8 memory, else a number;
    reads: the kinds of the operands; output: of the result.

    Arguments: operands and result, codes of the arrays and the result in one number, sizes of the
    dimensions but the first, bytes along the dimensions of each array and the result, the number of
    elements. They are few, as each costs the host time.
    """
    names = NAMES[: len(arrays)]
    inputs = [n for n, array in zip(names, arrays, strict=True) if array]
    everything = [*inputs, "out"]
    parameters = [
        *names,
        "out",
        *["codes", "size1", "size2"],
        *[f"{n}_{d}" for n in everything for d in range(RANK)],
        "count",
    ]
    namespace: dict[str, Any] = {
        "cuda": cuda,
        "types": types,
        "place": place,
        "offset": offset,
        "code_of": code_of,
        "function": function,
    }

    def at(n: str) -> str:
        return f"offset(index, {', '.join(f'{n}_{d}' for d in range(RANK))})"

    def code(n: str) -> str:
        return f"code_of(codes, {everything.index(n)})"

    def loads(is_own: bool) -> str:
        lines = [
            f"        value_{n} = load_{n}({n}, {at(n)}, "
            f"{f'types.int32(own_{n})' if is_own else code(n)})\n"
            for n in inputs
        ]
        return "".join(lines) or "        pass\n"

    own = [read for read, array in zip(reads, arrays, strict=True) if array]
    namespace |= {f"load_{n}": loader(read) for n, read in zip(inputs, own, strict=True)}
    result = f"function({', '.join(f'value_{n}' if n in inputs else n for n in names)})"
    own.append(output)
    if output == np.bool_:  # the function gives a uint8
        result, output = f"types.int64({result})", np.dtype(np.int64)
    namespace["store"] = storer(output)
    namespace |= {f"own_{n}": CODES[dtype] for n, dtype in zip(everything, own, strict=True)}
    namespace["own"] = np.int32(sum(int(CODES[dtype]) << 4 * i for i, dtype in enumerate(own)))
    source = (
        f"def small({', '.join(parameters)}):\n"
        "    n = types.uint32(cuda.grid(1))\n"
        "    if n >= count:\n"
        "        return\n"
        "    index = place(n, size1, size2)\n"
        f"    to = {at('out')}\n"
        f"    if codes == own:\n{loads(True)}"
        f"    else:\n{loads(False)}"
        f"    result = {result}\n"
        "    if codes == own:\n"
        "        store(out, to, types.int32(own_out), result)\n"
        "    else:\n"
        f"        store(out, to, {code('out')}, result)\n"
    )
    return applying(function)(compiled(source, "small", namespace))


def by_codes(p: ElementwiseProblem) -> Launch:
    """Version "small"."""
    reads, output = p.kinds
    (shape, steps), formula = p.merged, p.formula
    function = scalar_function(formula.expression, reads, kind(formula.compute), output)
    missing = RANK - len(shape)
    sizes = [np.uint32(n) for n in ((1,) * missing + shape)[1:]]
    strides = [s for along in steps for s in (0,) * missing + along]
    byte = np.dtype(np.uint8)
    operands = [
        Scalar(x.index, read) if isinstance(x, Scalar) else x.view((1,), dtype=byte)
        for x, read in zip(p.arguments(lambda argument, *_: argument), reads, strict=True)
    ]
    codes = sum(int(CODES[x.dtype]) << 4 * i for i, x in enumerate(p.everything))
    return Launch(
        small_kernel(function, p.arrays, reads, output),
        blocks(p.target.size, THREADS),
        THREADS,
        [
            *operands,
            p.place.view((1,), dtype=byte),
            np.int32(codes),
            *sizes,
            *strides,
            np.uint32(p.target.size),
        ],
    )
