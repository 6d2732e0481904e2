"""Fourier transforms: plans of cuFFT calls, and the two small kernels around them.

The idea. cuFFT computes sums; what is left to us is to show it arrays as they lie. It reads up to
three transformed axes whose strides are multiples of one another (`embed`), and one batch axis of
even steps. Any subset of the axes of a row-major array meets the first condition, so most
transforms are one call, along any axes, without a copy. What does not fit (a negative stride, a
broadcast) is made contiguous first; batch axes that do not merge into one become several calls, or,
where those would be more than MOST_CALLS, the transformed axes are moved to the end in scratch
memory.

More than three axes: groups of three, one after the other, in place.

Real transforms keep the non-negative frequencies along the last of the given axes, n // 2 + 1 of
them.

``scaled``      multiplies by 1 / n (or its root): one pass over the result, 4 or 8 bytes a time.
``scaled_vector``  the same by accesses of 16 bytes.
``hermitian``   prepares the way back to real numbers. cuFFT destroys its input there, so the input
                is copied; on the way it is scaled, and what a real signal cannot have at frequency
                0 and, for even n, n / 2 is dropped, as NumPy's transform ignores it. Then up to
                three axes are one call.
``frequencies``  what the elements of a transform are the amplitudes of.

The floor: a transform of n numbers takes about 5 n log2 n operations, so on a GPU it is bound by
memory: one read and one write for each pass that cuFFT needs (one up to some 4,096 points, two or
three beyond).
"""

import functools
import math
from typing import Any

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import Input, Output, Scalar, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.dtypes import compute_dtype, real_dtype
from ...core.layout import Layout
from ...runtime import cufft
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..compiler.storage_types import numba_type
from ..copy.dispatch import copy_part
from ..copy.parts import Part, index_type, whole
from ..lib.codec import codec
from ..lib.integers import blocks

if not SIMULATOR:
    from ..ptx.vector_access import load_vector, store_vector

THREADS = 256
MOST_CALLS = (
    16  # of the library for one transform; at some 5 us per call, more cost more than two copies
)
MOST_AXES = 3  # that cuFFT transforms at a time


# -------------------- kernels


@functools.cache
def scaled(dtype: np.dtype) -> Any:
    """x *= factor, in place; every other number (the imaginary parts) by a factor of its own."""

    @cuda.jit
    def scaled(
        x, factor, odd
    ):  # x: (n,) float32 or float64: real and imaginary parts; factor, odd: the same type
        first = cuda.blockIdx.x * (4 * THREADS) + cuda.threadIdx.x
        own = odd if first & 1 else factor  # of all numbers of the thread
        for i in range(first, min(first + 4 * THREADS, x.size), THREADS):
            x[i] = x[i] * own

    return scaled


@functools.cache
def scaled_vector(dtype: np.dtype) -> Any:
    """`scaled` by accesses of 16 bytes, four of them in flight in each thread."""
    count = 16 // dtype.itemsize

    @device_function
    def times(v, factor, odd):
        if count == 4:
            return v[0] * factor, v[1] * odd, v[2] * factor, v[3] * odd
        return v[0] * factor, v[1] * odd

    @cuda.jit
    def scaled_vector(x, factor, odd):  # x: (n,), 16-byte aligned; factor, odd: the same type
        first = cuda.blockIdx.x * (4 * THREADS) + cuda.threadIdx.x
        last = x.size // count
        if first + 3 * THREADS < last:
            a = load_vector(x, first * count, count)
            b = load_vector(x, (first + THREADS) * count, count)
            c = load_vector(x, (first + 2 * THREADS) * count, count)
            d = load_vector(x, (first + 3 * THREADS) * count, count)
            store_vector(x, first * count, times(a, factor, odd))
            store_vector(x, (first + THREADS) * count, times(b, factor, odd))
            store_vector(x, (first + 2 * THREADS) * count, times(c, factor, odd))
            store_vector(x, (first + 3 * THREADS) * count, times(d, factor, odd))
        else:
            for i in range(first, min(first + 4 * THREADS, last), THREADS):
                for k in range(i * count, (i + 1) * count):
                    x[k] = x[k] * (odd if k & 1 else factor)
        if first == 0:  # what fills no access
            for k in range(last * count, x.size):
                x[k] = x[k] * (odd if k & 1 else factor)

    return scaled_vector


@functools.cache
def hermitian(dtype: np.dtype, index: Any) -> Any:
    """y = x * factor, real where the spectrum of a real signal is real. y may be x.

    With other axes that are transformed back at once, of `count` and `count2` numbers (1: none) at
    steps of `step` and `step2`, it is made what such a spectrum is: half the sum of the number and
    of the conjugate of the one at the negative frequencies. Its transform is the real part of x's.
    y must not be x then."""
    C = numba_type(dtype)
    F = types.float32 if dtype.itemsize == 8 else types.float64

    @cuda.jit
    def hermitian(x, y, half, inner, even, count, step, count2, step2, factor):
        """x, y: (outer * half * inner,) complex, where `half` counts the frequencies; even: 1 if
        the last is n / 2."""
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        if i < index(x.size):
            frequency = (i // index(inner)) % index(half)
            v = x[i]
            real = v.real * factor
            imag = v.imag * factor
            if frequency == index(0) or (even == 1 and frequency == index(half) - index(1)):
                imag = F(0)
                if count > 1 or count2 > 1:
                    k = (i // index(step)) % index(count)
                    k2 = (i // index(step2)) % index(count2)
                    other = i
                    if k > index(0):
                        other = other - k * index(step) + (index(count) - k) * index(step)
                    if k2 > index(0):
                        other = other - k2 * index(step2) + (index(count2) - k2) * index(step2)
                    w = x[other]
                    real = (v.real + w.real) * (factor * F(0.5))
                    imag = (v.imag - w.imag) * (factor * F(0.5))
            y[i] = C(complex(real, imag))

    return hermitian


@functools.cache
def frequencies_of(dtype: np.dtype) -> Any:
    """out[i] = i step below `half`, (i - n) step from there on; one thread per element."""
    _, store, T = codec(dtype)

    @cuda.jit
    def frequencies(out, half, n, step):  # out: (m,); step: of the compute type
        i = cuda.grid(1)
        if i < out.size:
            out[i] = store(T(i if i < half else i - n) * step)

    return frequencies


def frequencies(*, layout: Layout, device: int, half: int, n: int) -> Plan:
    """The first `half` multiples of the step, the scalar, and then those from half - n on."""
    return Plan(
        [layout],
        [
            Launch(
                frequencies_of(layout.dtype),
                blocks(layout.size, THREADS),
                THREADS,
                [Output(0), half, n, Scalar(0, compute_dtype(layout.dtype))],
            )
        ],
    )


def _scaling(argument: Any, layout: Layout, scale: float, conjugate: bool = False) -> list[Launch]:
    """`scaled` over a contiguous result, if there is anything to do; with conjugate, of complex
    numbers, which are turned into their conjugates on the way."""
    if scale == 1 and not conjugate or not layout.size:
        return []
    dtype = real_dtype(layout.dtype)
    count = layout.nbytes // dtype.itemsize
    kernel = scaled(dtype) if SIMULATOR else scaled_vector(dtype)
    return [
        Launch(
            kernel,
            blocks(count if SIMULATOR else layout.nbytes // 16 + 1, 4 * THREADS),
            THREADS,
            [
                argument.view((count,), dtype=dtype),
                dtype.type(scale),
                dtype.type(-scale if conjugate else scale),
            ],
        )
    ]


# -------------------- what cuFFT can read


def _walk(sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], int] | None:
    """(embed, step) of the transformed axes of an array, strides in elements; None if they do not
    nest."""
    step = here = strides[-1] if sizes[-1] > 1 else 1
    if step < 1:
        return None
    embed = [sizes[0]]
    for k in range(len(sizes) - 1, 0, -1):
        outer = strides[k - 1] if sizes[k - 1] > 1 else here * sizes[k]
        if outer % here or outer < here * sizes[k]:
            return None
        embed.insert(1, outer // here)
        here = outer
    return tuple(embed), step


def _calls(
    source: Part, target: Part, axes: tuple[int, ...], inverse: bool, n: int | None = None
) -> list[Call] | None:
    """The calls that transform `source` into `target` along at most three axes (ascending); None if
    cuFFT cannot.

    n: the logical length of the last axis; by default the source's.
    """
    x, y = source.layout, target.layout
    if any(s % x.itemsize for s in x.strides):
        return None
    steps_x, steps_y = (tuple([s // a.itemsize for s in a.strides]) for a in (x, y))
    read, write = (
        _walk(tuple([a.shape[i] for i in axes]), tuple([s[i] for i in axes]))
        for a, s in ((x, steps_x), (y, steps_y))
    )
    if read is None or write is None:
        return None
    rest = [i for i in range(x.ndim) if i not in axes]
    batches, *walks = shapes.collapse(
        *(tuple([s[i] for i in rest]) for s in (x.shape, steps_x, steps_y))
    )
    if any(s < 1 for walk in walks for s in walk):
        return None
    inner = batches.index(max(batches)) if batches else -1
    starts = [(0, 0)]
    for i, (size, a, b) in enumerate(zip(batches, *walks, strict=True)):
        if i != inner:
            starts = [(p + j * a, q + j * b) for p, q in starts for j in range(size)]
    real = (
        x.dtype.kind == "f"
    )  # cuFFT reads pairs of real numbers: they must be aligned like complex ones
    if len(starts) > MOST_CALLS or real and (not x.aligned or any(p % 2 for p, _ in starts)):
        return None
    if y.dtype.kind == "f" and any(q % 2 for _, q in starts):
        return None
    sizes = (*[x.shape[i] for i in axes[:-1]], n or x.shape[axes[-1]])
    batch = batches[inner] if batches else 1
    step_x, step_y = (
        walk[inner] if batches else math.prod(a.shape)
        for walk, a in zip(walks, (x, y), strict=True)
    )
    spec = cufft.Spec(
        cufft.KINDS[x.dtype, y.dtype],
        sizes,
        cufft.Walk(*read, step_x),
        cufft.Walk(*write, step_y),
        batch,
    )
    run = cufft.transform(spec, inverse)
    return [Call(run, [_at(source, p), _at(target, q)]) for p, q in starts]


def _at(part: Part, elements: int) -> Any:
    """A part's argument, that many elements on."""
    layout, offset = part.layout, part.offset + elements * part.layout.itemsize
    return part.argument.view(layout.shape, layout.strides, layout.dtype, offset)


def _last(layout: Layout, axes: tuple[int, ...]) -> Layout:
    """The layout seen with these axes moved to the end."""
    order = (*[i for i in range(layout.ndim) if i not in axes], *axes)
    return layout.view(
        tuple([layout.shape[i] for i in order]), tuple([layout.strides[i] for i in order])
    )


class Steps:
    """Steps and scratch of a plan under construction."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.temps: list[Layout] = []

    def temp(self, layout: Layout) -> Part:
        """New scratch memory, row-major."""
        self.temps.append(layout.like())
        return whole(Temp(len(self.temps) - 1), self.temps[-1])

    def copy(self, source: Part, target: Part) -> Part:
        self.steps += copy_part(source, target)
        return target

    def one(
        self,
        source: Part,
        target: Part,
        axes: tuple[int, ...],
        inverse: bool = False,
        n: int | None = None,
    ) -> None:
        """Transform along at most three axes; what cuFFT cannot read or write as it lies goes
        through scratch memory."""
        calls = _calls(source, target, axes, inverse, n)
        if calls is None:
            straight = whole(source.argument, source.layout.like())
            alike = source.layout.dtype == target.layout.dtype
            if (
                _calls(straight, target, axes, inverse, n) is not None
            ):  # only the source is in the way
                copied = self.copy(source, target if alike else self.temp(source.layout))
                calls = _calls(copied, target, axes, inverse, n)
            else:
                views = [
                    part._replace(layout=_last(part.layout, axes)) for part in (source, target)
                ]
                source_copy = self.copy(views[0], self.temp(views[0].layout))
                output = source_copy if alike else self.temp(views[1].layout)
                self.one(
                    source_copy,
                    output,
                    tuple(range(source.layout.ndim - len(axes), source.layout.ndim)),
                    inverse,
                    n,
                )
                self.copy(output, views[1])
                return
        self.steps += calls or []

    def complex(self, source: Part, target: Part, axes: tuple[int, ...], inverse: bool) -> None:
        """Complex transform along any axes; `target` is row-major, and may be `source`."""
        axes = tuple(sorted(axes))
        for first in range(0, len(axes), MOST_AXES):
            self.one(source, target, axes[first : first + MOST_AXES], inverse)
            source = target
        if source is not target:
            self.copy(source, target)


# -------------------- planners


def c2c(x: Layout, *, axes: tuple[int, ...], inverse: bool, scale: float) -> Plan:
    """Complex to complex along `axes`, times `scale`. Real numbers become complex in the result's
    memory."""
    out = x.like(dtype=np.result_type(x.dtype, np.complex64))
    if not out.size:
        return Plan([out], [])
    work, source, target = Steps(), whole(Input(0), x), whole(Output(0), out)
    work.complex(
        source if x.dtype == out.dtype else work.copy(source, target), target, axes, inverse
    )
    return Plan([out], [*work.steps, *_scaling(Output(0), out, scale)], work.temps)


def r2c(x: Layout, *, axes: tuple[int, ...], scale: float, conjugate: bool = False) -> Plan:
    """Real to complex along `axes`, times `scale`; half the frequencies along the last of them.
    conjugate: their conjugates."""
    last = axes[-1]
    out = x.like(
        (*x.shape[:last], x.shape[last] // 2 + 1, *x.shape[last + 1 :]),
        np.result_type(x.dtype, np.complex64),
    )
    if not out.size:
        return Plan([out], [])
    work, source, target = Steps(), whole(Input(0), x), whole(Output(0), out)
    if last == max(axes) and len(axes) <= MOST_AXES:
        work.one(source, target, tuple(sorted(axes)))
    else:
        work.one(source, target, (last,))
        work.complex(target, target, axes[:-1], False)
    return Plan([out], [*work.steps, *_scaling(Output(0), out, scale, conjugate)], work.temps)


def c2r(x: Layout, *, axes: tuple[int, ...], n: int, scale: float) -> Plan:
    """Half the frequencies along the last of `axes` (n // 2 + 1) to n real numbers, times
    `scale`."""
    last = axes[-1]
    out = x.like((*x.shape[:last], n, *x.shape[last + 1 :]), real_dtype(x.dtype))
    if not out.size:
        return Plan([out], [])
    work, source = Steps(), whole(Input(0), x)
    spectrum = work.temp(x)
    at_once = len(axes) <= MOST_AXES and last == max(axes)
    others = axes[:-1] if at_once else ()
    if len(axes) > 1 and not at_once:
        work.complex(source, spectrum, axes[:-1], True)
        source = spectrum
    elif not x.contiguous:
        source = work.copy(source, work.temp(x) if others else spectrum)
    inner, half = math.prod(x.shape[last + 1 :]), x.shape[last]
    mirrored = [(x.shape[a], math.prod(x.shape[a + 1 :])) for a in others]
    mirrored += [(1, 1)] * (MOST_AXES - 1 - len(mirrored))
    work.steps.append(
        Launch(
            hermitian(x.dtype, index_type(x.size)),
            blocks(x.size, THREADS),
            THREADS,
            [
                source.argument.flat,
                spectrum.argument.flat,
                half,
                inner,
                1 - n % 2,
                *mirrored[0],
                *mirrored[1],
                out.dtype.type(scale),
            ],
        )
    )
    work.one(spectrum, whole(Output(0), out), (*sorted(others), last), n=n)
    return Plan([out], work.steps, work.temps)
