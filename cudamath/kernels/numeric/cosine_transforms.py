"""Cosine and sine transforms: a kernel before cuFFT and one after it.

The idea (Makhoul, A fast cosine transform in one and two dimensions, 1980). Let v be the even
numbers of x and then its odd ones backwards, V its Fourier transform, w(f) = exp(-i pi f / (2 n)).
Then type 2 is y[f] = w(f) V[f] + conj(w(f)) V[-f]. Along several axes the same holds for each of
them, so one Fourier transform along all of them serves: the last of the axes has half its
frequencies, V[-f] = conj(V[f]) there. Type 3 is the way back: V[f] = conj(w(f)) (x[f] - i x[n - f])
with x[n] = 0, along each axis, then v, then y.

Types 1 and 4 go along one axis. Type 1 is the transform of the mirrored numbers. Type 4 of an even
length is a complex one of half the length (Britanak, Yip, Rao, Discrete Cosine and Sine
Transforms, 2007), of an odd length one of twice the length.

Sine transforms are cosine transforms with the signs of every second number and the order of the
others changed: type 2 alternates x and reverses y, types 3 and 4 reverse x and alternate y.

``reordered``   x -> v, or v -> y
``turned``      V -> y (type 2): a thread makes y[f] and y[n - f] of one number of the half spectrum
``spectrum``    x -> V (type 3)
``mirrored``, ``chosen``  before and after type 1
``paired``, ``parted``    before and after type 4

The factors w are computed where they are used: their angle is a whole number of steps, and the step
is given as a number of the compute type and what that lacks, so an angle's rounding is put right.

The floor: x is read and y is written, 2 n numbers, and cuFFT reads and writes once or more. What
the two kernels add is v and V, 4 n numbers; so 6 n move beside cuFFT's own passes.
"""

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..compiler.storage_types import numba_type
from ..copy.parts import Part, index_type, whole
from ..lib.integers import blocks
from .fft import MOST_AXES, THREADS, Steps

PI = Fraction(math.pi) + Fraction(1.2246467991473532e-16)  # to twice the digits of float64

# -------------------- device functions


@functools.cache
def _turn(F: Any) -> Any:
    @device_function
    def turn(number, step, lacking):
        """(cos, sin) of the whole number times a step, which is step + lacking."""
        count = F(number)
        angle = count * step
        rest = cuda.fma(count, step, -angle) + count * lacking
        c, s = math.cos(angle), math.sin(angle)
        return c - s * rest, s + c * rest

    return turn


@functools.cache
def _walk(index: Any, near: bool) -> Any:
    """near: the numbers of the axis lie side by side."""

    @device_function
    def walk(rest, gap, size):
        """(number of the axis, what is above it, what is below it) of an element's number; gap:
        elements between this axis and the one before, which was below it."""
        inner = index(0)
        if not near:
            above = index(rest // gap)
            inner = index(rest - above * gap)
            rest = above
        above = index(rest // size)
        return index(rest - above * size), above, inner

    return walk


# -------------------- types 2 and 3


@functools.cache
def reordered(dtype: np.dtype, index: Any, near: tuple[bool, ...], back: bool, sines: bool) -> Any:
    """Even numbers and then odd ones backwards, along each axis; or the way back."""
    T, count = numba_type(dtype), len(near)
    walk0, walk1, walk2 = (_walk(index, each) for each in (*near, True, True)[:3])

    @device_function
    def source(k, size):
        if back:
            return index(size - (k + index(1)) // index(2)) if k & 1 else index(k // index(2))
        double = index(k * index(2))
        return double if double < size else index((size - k) * index(2) - index(1))

    @cuda.jit
    def reordered(x, y, gap0, size0, step0, gap1, size1, step1, gap2, size2, step2):
        """x, y: (n,), of the axes, from the last one on: gap, as `walk` takes it, size, step in
        elements. One thread per element of y."""
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        if i < index(x.size):
            k, above, _ = walk0(i, index(gap0), index(size0))
            j = source(k, index(size0))
            place = index(i - k * index(step0) + j * index(step0))
            odd = k if back else j
            if count > 1:
                k, above, _ = walk1(above, index(gap1), index(size1))
                j = source(k, index(size1))
                place = index(place - k * index(step1) + j * index(step1))
                odd = index(odd + (k if back else j))
            if count > 2:
                k, above, _ = walk2(above, index(gap2), index(size2))
                j = source(k, index(size2))
                place = index(place - k * index(step2) + j * index(step2))
                odd = index(odd + (k if back else j))
            v = x[place]
            if sines and odd & 1:
                v = T(-v)
            y[i] = v

    return reordered


@functools.cache
def turned(dtype: np.dtype, index: Any, near: tuple[bool, ...], sines: bool) -> Any:
    """The half spectrum of reordered numbers -> their transform of type 2."""
    F, count = numba_type(dtype), len(near)
    walk0, walk1, walk2 = (_walk(index, each) for each in (*near, True, True)[:3])
    turn, signs = _turn(F), 1 << (count - 1)

    @cuda.jit
    def turned(
        z,
        y,
        half,
        factor,
        edge,
        gap0,
        size0,
        angle0,
        lacking0,
        gap1,
        size1,
        step1,
        wide1,
        angle1,
        lacking1,
        gap2,
        size2,
        step2,
        wide2,
        angle2,
        lacking2,
    ):
        """z: (m,) complex, `half` frequencies along the last axis; y: (n,); edge: the factor of
        frequency 0 of each axis; step, wide: steps in z and y. One thread per element of z."""
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        if i < index(z.size):
            k0, above, inner = walk0(i, index(gap0), index(half))
            base = index(above * index(size0) * index(gap0) + inner)
            c0, s0 = turn(k0, angle0, lacking0)
            c1, s1, c2, s2 = F(1), F(0), F(1), F(0)
            k1 = k2 = index(0)
            own = F(factor)
            if count > 1:
                k1, above, _ = walk1(above, index(gap1), index(size1))
                c1, s1 = turn(k1, angle1, lacking1)
                if k1 == index(0):
                    own = own * edge
                if sines:
                    last = index(size1 - 1)
                    base = index(base - k1 * index(wide1) + (last - k1) * index(wide1))
            if count > 2:
                k2, above, _ = walk2(above, index(gap2), index(size2))
                c2, s2 = turn(k2, angle2, lacking2)
                if k2 == index(0):
                    own = own * edge
                if sines:
                    last = index(size2 - 1)
                    base = index(base - k2 * index(wide2) + (last - k2) * index(wide2))
            real, imag = F(0), F(0)
            for sign in range(signs):
                c, s, place = c0, -s0, i
                if count > 1:
                    t = s1 if sign & 1 else -s1
                    c, s = c * c1 - s * t, c * t + s * c1
                    if sign & 1 and k1 > index(0):
                        other = index(index(size1) - k1)
                        place = index(place - k1 * index(step1) + other * index(step1))
                if count > 2:
                    t = s2 if sign & 2 else -s2
                    c, s = c * c2 - s * t, c * t + s * c2
                    if sign & 2 and k2 > index(0):
                        other = index(index(size2) - k2)
                        place = index(place - k2 * index(step2) + other * index(step2))
                v = z[place]
                real = real + (c * v.real - s * v.imag)
                imag = imag + (c * v.imag + s * v.real)
            place = index(size0 - 1) - k0 if sines else k0
            first = own * edge if k0 == index(0) else own
            y[index(base + place * index(gap0))] = real * first
            other = index(index(size0) - k0)
            if k0 > index(0) and other != k0:
                place = k0 - index(1) if sines else other
                y[index(base + place * index(gap0))] = -imag * own

    return turned


@functools.cache
def spectrum(dtype: np.dtype, index: Any, near: tuple[bool, ...], sines: bool) -> Any:
    """x -> the half spectrum of the reordered result of type 3."""
    F, count = numba_type(dtype), len(near)
    C = types.complex64 if dtype.itemsize == 4 else types.complex128
    walk0, walk1, walk2 = (_walk(index, each) for each in (*near, True, True)[:3])
    turn, subsets = _turn(F), 1 << count

    @device_function
    def moved(k, size, flipped):
        """Where x[k], or x[n - k], of an axis lies."""
        if sines and flipped:
            return index(k - index(1)) if k > index(0) else k
        if sines:
            return index(size - k - index(1))
        return index(size - k) if flipped else k

    @cuda.jit
    def spectrum(
        x,
        z,
        half,
        factor,
        edge,
        gap0,
        size0,
        angle0,
        lacking0,
        gap1,
        size1,
        wide1,
        angle1,
        lacking1,
        gap2,
        size2,
        wide2,
        angle2,
        lacking2,
    ):
        """x: (n,); z: (m,) complex, `half` frequencies along the last axis; edge: the factor of
        number 0 of each axis; wide: steps in x. One thread per element of z."""
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        if i < index(z.size):
            k0, above, inner = walk0(i, index(gap0), index(half))
            base = index(above * index(size0) * index(gap0) + inner)
            c, s = turn(k0, angle0, lacking0)
            own = F(factor)
            if k0 == index(0):
                own = own * edge
            k1 = k2 = index(0)
            if count > 1:
                k1, above, _ = walk1(above, index(gap1), index(size1))
                c1, s1 = turn(k1, angle1, lacking1)
                c, s = c * c1 - s * s1, c * s1 + s * c1
                if k1 == index(0):
                    own = own * edge
            if count > 2:
                k2, above, _ = walk2(above, index(gap2), index(size2))
                c2, s2 = turn(k2, angle2, lacking2)
                c, s = c * c2 - s * s2, c * s2 + s * c2
                if k2 == index(0):
                    own = own * edge
            real, imag = F(0), F(0)
            for subset in range(subsets):
                place = index(base + moved(k0, index(size0), subset & 1) * index(gap0))
                there = not (subset & 1 and k0 == index(0))
                if count > 1:
                    there = there and not (subset & 2 and k1 == index(0))
                    place_1 = moved(k1, index(size1), subset & 2)
                    place = index(place - k1 * index(wide1) + place_1 * index(wide1))
                if count > 2:
                    there = there and not (subset & 4 and k2 == index(0))
                    place_2 = moved(k2, index(size2), subset & 4)
                    place = index(place - k2 * index(wide2) + place_2 * index(wide2))
                if there:
                    v = x[place]
                    turns = (subset & 1) + ((subset >> 1) & 1) + ((subset >> 2) & 1)  # of -i
                    if turns == 0:
                        real = real + v
                    elif turns == 1:
                        imag = imag - v
                    elif turns == 2:
                        real = real - v
                    else:
                        imag = imag + v
            real, imag = real * own, imag * own
            z[i] = C(complex(c * real - s * imag, c * imag + s * real))

    return spectrum


# -------------------- types 1 and 4, along one axis


@functools.cache
def mirrored(dtype: np.dtype, index: Any, near: bool, sines: bool) -> Any:
    """x0 ... xn-1 ... x1, or for sines 0, x0 ... xn-1, 0, -xn-1 ... -x0."""
    T, walk = numba_type(dtype), _walk(index, near)

    @cuda.jit
    def mirrored(x, v, gap, size, long, edge):
        """x: (n,); v: (m,), `long` numbers along the axis; edge: the factor of x's ends."""
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        if i < index(v.size):
            k, above, inner = walk(i, index(gap), index(long))
            base = index(above * index(size) * index(gap) + inner)
            if sines:
                number = T(0)
                if index(0) < k and k <= index(size):
                    number = x[index(base + (k - index(1)) * index(gap))]
                elif k > index(size) + index(1):
                    number = T(-x[index(base + (index(long) - k - index(1)) * index(gap))])
                v[i] = number
            else:
                j = k if k < index(size) else index(index(long) - k)
                number = x[index(base + j * index(gap))]
                v[i] = number * edge if j == index(0) or j == index(size - 1) else number

    return mirrored


@functools.cache
def chosen(dtype: np.dtype, index: Any, near: bool, sines: bool) -> Any:
    """The real parts, or for sines the imaginary ones but for frequency 0, negative."""
    walk = _walk(index, near)

    @cuda.jit
    def chosen(z, y, gap, size, half, factor, edge):
        """z: (m,) complex, `half` frequencies along the axis; y: (n,); edge: factor of the ends."""
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        if i < index(y.size):
            k, above, inner = walk(i, index(gap), index(size))
            base = index(above * index(half) * index(gap) + inner)
            if sines:
                y[i] = -z[index(base + (k + index(1)) * index(gap))].imag * factor
            else:
                number = z[index(base + k * index(gap))].real * factor
                y[i] = number * edge if k == index(0) or k == index(size - 1) else number

    return chosen


@functools.cache
def paired(dtype: np.dtype, index: Any, near: bool, sines: bool) -> Any:
    """Numbers 2 j and n - 1 - 2 j as one complex number, turned; of an odd length each number
    turned, and zeros after them."""
    F, walk, turn = numba_type(dtype), _walk(index, near), _turn(numba_type(dtype))
    C = types.complex64 if dtype.itemsize == 4 else types.complex128

    @cuda.jit
    def paired(x, z, gap, size, long, angle, lacking):
        """x: (n,); z: (m,) complex, `long` numbers along the axis: half or twice the size; angle:
        pi / (4 size)."""
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        if i < index(z.size):
            k, above, inner = walk(i, index(gap), index(long))
            base = index(above * index(size) * index(gap) + inner)
            last = index(size - 1)
            a, b = F(0), F(0)
            if long < size:
                low = index(k * index(2))
                high = index(last - low)
                if sines:
                    low, high = high, low
                a = x[index(base + low * index(gap))]
                b = x[index(base + high * index(gap))]
                c, s = turn(index(k * index(4) + index(1)), angle, lacking)
            else:
                if k < index(size):
                    a = x[index(base + (index(last - k) if sines else k) * index(gap))]
                c, s = turn(index(k * index(2)), angle, lacking)
            z[i] = C(complex(a * c + b * s, b * c - a * s))

    return paired


@functools.cache
def parted(dtype: np.dtype, index: Any, near: bool, sines: bool) -> Any:
    """Twice the real or imaginary part of the turned transform of `paired`."""
    F, walk, turn = numba_type(dtype), _walk(index, near), _turn(numba_type(dtype))

    @cuda.jit
    def parted(z, y, gap, size, long, angle, lacking, factor):
        """z: (m,) complex; y: (n,). One thread per element of y."""
        i = index(index(cuda.blockIdx.x) * index(THREADS) + index(cuda.threadIdx.x))
        if i < index(y.size):
            k, above, inner = walk(i, index(gap), index(size))
            base = index(above * index(long) * index(gap) + inner)
            odd = k & 1 and long < size
            j = k
            if long < size:
                j = index((index(size) - k) // index(2)) if odd else index(k // index(2))
                c, s = turn(index(j * index(4)), angle, lacking)
            else:
                c, s = turn(index(k * index(2) + index(1)), angle, lacking)
            v = z[index(base + j * index(gap))]
            number = v.real * s - v.imag * c if odd else v.real * c + v.imag * s
            if sines and k & 1:
                number = -number
            y[i] = number * (factor * F(2))

    return parted


# -------------------- planner


def _angles(dtype: np.dtype, step: Fraction) -> list[Any]:
    """A step as a number of the dtype and what that lacks."""
    near = dtype.type(float(step))
    return [near, dtype.type(float(step - Fraction(float(near))))]


def _launch(kernel: Any, size: int, source: Part, target: Part, *more: Any) -> Launch:
    arguments = [source.argument.flat, target.argument.flat, *more]
    return Launch(kernel, blocks(size, THREADS), THREADS, arguments)


def cosines(
    x: Layout,
    *,
    axes: tuple[int, ...],
    kind: int,
    sines: bool,
    scale: float,
    before: float,
    after: float,
) -> Plan:
    """`scale` times the transform of a type along axes: one, or up to three of types 2 and 3.

    Numbers at frequency 0 (of type 1: at both ends) have the factors `before` in x and `after` in
    y."""
    out = x.like()
    if not out.size:
        return Plan([out], [])
    work, source, target = Steps(), whole(Input(0), x), whole(Output(0), out)
    if not x.contiguous:
        source = work.copy(source, work.temp(x))
    dtype = x.dtype
    factors = [dtype.type(each) for each in (scale, before, after)]
    if kind in (2, 3):
        _of_types_2_and_3(work, source, target, tuple(sorted(axes)), kind == 3, sines, factors)
    else:
        (axis,) = axes
        make = _of_type_1 if kind == 1 else _of_type_4
        make(work, source, target, axis, sines, factors)
    return Plan([out], work.steps, work.temps)


def _of_types_2_and_3(
    work: Steps,
    source: Part,
    target: Part,
    axes: tuple[int, ...],
    back: bool,
    sines: bool,
    factors: list[Any],
) -> None:
    x, last = source.layout, axes[-1]
    dtype, scale, before, after = x.dtype, *factors
    half = x.shape[last] // 2 + 1
    shape = (*x.shape[:last], half, *x.shape[last + 1 :])
    waves = work.temp(x.like(shape, np.result_type(dtype, np.complex64)))
    index = index_type(max(x.size, waves.layout.size))
    outward = axes[::-1]
    ends = [x.ndim, *outward[:-1]]
    gaps = [math.prod(x.shape[a + 1 : end]) for a, end in zip(outward, ends, strict=True)]
    near = tuple(gap == 1 for gap in gaps)
    absent = MOST_AXES - len(axes)
    moves, here, way = [], [], []
    for number, (axis, gap) in enumerate(zip(outward, gaps, strict=True)):
        n, step = x.shape[axis], math.prod(x.shape[axis + 1 :])
        there = math.prod(shape[axis + 1 :])
        angles = _angles(dtype, PI / (2 * n))
        moves += [gap, n, step]
        here += [gap, n, *([there, step] if number else []), *angles]
        way += [gap, n, *([step] if number else []), *angles]
    moves += [1, 1, 1] * absent
    zeros = [dtype.type(0)] * 2
    if back:
        kernel = spectrum(dtype, index, near, sines)
        ending = [1, 1, 1, *zeros] * absent
        work.steps.append(
            _launch(kernel, waves.layout.size, source, waves, half, scale, before, *way, *ending)
        )
        order = work.temp(x)
        work.one(waves, order, axes, n=x.shape[last])
        kernel = reordered(dtype, index, near, True, sines)
        work.steps.append(_launch(kernel, x.size, order, target, *moves))
    else:
        kernel = reordered(dtype, index, near, False, sines)
        work.steps.append(_launch(kernel, x.size, source, target, *moves))
        work.one(target, waves, axes)
        kernel = turned(dtype, index, near, sines)
        ending = [1, 1, 1, 1, *zeros] * absent
        twice = dtype.type(2) * scale
        work.steps.append(
            _launch(kernel, waves.layout.size, waves, target, half, twice, after, *here, *ending)
        )


def _longer(x: Layout, axis: int, size: int, kind: np.dtype) -> Layout:
    return x.like((*x.shape[:axis], size, *x.shape[axis + 1 :]), kind)


def _of_type_1(
    work: Steps, source: Part, target: Part, axis: int, sines: bool, factors: list[Any]
) -> None:
    x, (scale, before, after) = source.layout, factors
    n, gap = x.shape[axis], math.prod(x.shape[axis + 1 :])
    long = 2 * (n + 1 if sines else n - 1)
    order = work.temp(_longer(x, axis, long, x.dtype))
    waves = work.temp(_longer(x, axis, long // 2 + 1, np.result_type(x.dtype, np.complex64)))
    index = index_type(order.layout.size + x.size)
    kernel = mirrored(x.dtype, index, gap == 1, sines)
    work.steps.append(_launch(kernel, order.layout.size, source, order, gap, n, long, before))
    work.one(order, waves, (axis,))
    kernel = chosen(x.dtype, index, gap == 1, sines)
    work.steps.append(_launch(kernel, x.size, waves, target, gap, n, long // 2 + 1, scale, after))


def _of_type_4(
    work: Steps, source: Part, target: Part, axis: int, sines: bool, factors: list[Any]
) -> None:
    x, scale = source.layout, factors[0]
    n, gap = x.shape[axis], math.prod(x.shape[axis + 1 :])
    long = 2 * n if n % 2 else n // 2
    pairs = work.temp(_longer(x, axis, long, np.result_type(x.dtype, np.complex64)))
    index = index_type(2 * x.size)
    angles = _angles(x.dtype, PI / (4 * n))
    kernel = paired(x.dtype, index, gap == 1, sines)
    work.steps.append(_launch(kernel, pairs.layout.size, source, pairs, gap, n, long, *angles))
    work.one(pairs, pairs, (axis,))
    kernel = parted(x.dtype, index, gap == 1, sines)
    work.steps.append(_launch(kernel, x.size, pairs, target, gap, n, long, *angles, scale))
