"""Fourier transforms on the CPU: NumPy's, in the precision of the input.

NumPy scales by 1 / n, 1 / sqrt(n) or 1 as its `norm` says; the cards give the factor itself, so the
unscaled transform is requested and multiplied, in place.
"""

import numpy as np

from ..core.dtypes import compute_dtype


def _scaled(y: np.ndarray, scale: float) -> np.ndarray:
    if scale != 1:
        y *= y.real.dtype.type(scale)
    return y


def c2c(x: np.ndarray, *, axes: tuple[int, ...], inverse: bool, scale: float) -> np.ndarray:
    """Complex to complex along `axes`, times `scale`; real numbers count as complex."""
    y = np.fft.ifftn(x, axes=axes, norm="forward") if inverse else np.fft.fftn(x, axes=axes)
    if y is x:  # no axes: NumPy returns the input itself
        y = x.astype(np.result_type(x, np.complex64))
    return _scaled(y, scale)


def r2c(
    x: np.ndarray, *, axes: tuple[int, ...], scale: float, conjugate: bool = False
) -> np.ndarray:
    """Real to complex along `axes`, times `scale`; half the frequencies along the last of them.
    conjugate: their conjugates."""
    y = _scaled(np.fft.rfftn(x, axes=axes), scale)
    return np.conjugate(y, out=y) if conjugate else y


def c2r(x: np.ndarray, *, axes: tuple[int, ...], n: int, scale: float) -> np.ndarray:
    """Half the frequencies along the last of `axes` to n real numbers, times `scale`."""
    if len(axes) > 1:
        x = np.fft.ifftn(x, axes=axes[:-1], norm="forward")
    return _scaled(np.fft.irfft(x, n, axes[-1], norm="forward"), scale)


def frequencies(*, scalars, layout, device, half, n):
    """The first `half` multiples of the step, and then those from half - n on."""
    (step,) = scalars
    wide = compute_dtype(layout.dtype).type
    whole = np.arange(layout.size)
    return (np.where(whole < half, whole, whole - n).astype(wide) * wide(step)).astype(
        layout.dtype, copy=False
    )


# -------------------- cosine and sine transforms


def _turns(n: int, first: int, stop: int, step: int, over: int, dtype: np.dtype) -> np.ndarray:
    """exp(-i pi k / (over n)), rounded once."""
    return np.exp(-1j * (np.pi / (over * n)) * np.arange(first, stop, step)).astype(
        np.result_type(dtype, np.complex64)
    )


def _signs(x: np.ndarray) -> np.ndarray:
    """Every second number negative."""
    y = x.copy()
    np.negative(y[..., 1::2], out=y[..., 1::2])
    return y


def _type_1(x: np.ndarray, sines: bool) -> np.ndarray:
    n = x.shape[-1]
    if not sines:
        return np.fft.rfft(np.concatenate([x, x[..., -2:0:-1]], -1)).real
    zero = np.zeros_like(x[..., :1])
    waves = np.fft.rfft(np.concatenate([zero, x, zero, -x[..., ::-1]], -1))
    return -waves.imag[..., 1 : n + 1]


def _type_2(x: np.ndarray) -> np.ndarray:
    n = x.shape[-1]
    order = np.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], -1)
    waves = 2 * np.fft.rfft(order) * _turns(n, 0, n // 2 + 1, 1, 2, x.dtype)
    return np.concatenate([waves.real, -waves.imag[..., (n - 1) // 2 : 0 : -1]], -1)


def _type_3(x: np.ndarray) -> np.ndarray:
    n = x.shape[-1]
    count, half = n // 2 + 1, (n + 1) // 2
    waves = np.zeros((*x.shape[:-1], count), np.result_type(x.dtype, np.complex64))
    waves.real = x[..., :count]
    waves.imag[..., 1:] = -x[..., : n - count : -1]
    waves *= np.conj(_turns(n, 0, count, 1, 2, x.dtype))
    order = np.fft.irfft(waves, n, norm="forward")
    y = np.empty_like(x)
    y[..., ::2], y[..., 1::2] = order[..., :half], order[..., half:][..., ::-1]
    return y


def _type_4(x: np.ndarray) -> np.ndarray:
    n = x.shape[-1]
    if n % 2:
        waves = np.fft.fft(x * _turns(n, 0, 2 * n, 2, 4, x.dtype), 2 * n)[..., :n]
        return 2 * (waves * _turns(n, 1, 2 * n, 2, 4, x.dtype)).real
    waves = np.fft.fft((x[..., ::2] + 1j * x[..., ::-2]) * _turns(n, 1, 2 * n, 4, 4, x.dtype))
    waves *= 2 * _turns(n, 0, 2 * n, 4, 4, x.dtype)
    y = np.empty_like(x)
    y[..., ::2], y[..., ::-2] = waves.real, -waves.imag
    return y


def cosines(
    x: np.ndarray,
    *,
    axes: tuple[int, ...],
    kind: int,
    sines: bool,
    scale: float,
    before: float,
    after: float,
) -> np.ndarray:
    """`scale` times the transform of a type along axes. Numbers at frequency 0 (of type 1: at both
    ends) have the factors `before` in x and `after` in y.

    Sine transforms are cosine transforms with the signs of every second number and the order of the
    others changed.
    """
    T = x.dtype.type
    for axis in axes:
        y = np.moveaxis(x, axis, -1)
        ends = [0, -1] if kind == 1 else [0]
        if sines and kind > 1:
            y = _signs(y) if kind == 2 else y[..., ::-1]
        if before != 1:
            y = y.copy()
            y[..., ends] *= T(before)
        y = _type_1(y, sines) if kind == 1 else (_type_2, _type_3, _type_4)[kind - 2](y)
        if after != 1:
            y[..., ends] *= T(after)
        if sines and kind > 1:
            y = y[..., ::-1] if kind == 2 else _signs(y)
        x = np.moveaxis(y, -1, axis)
    return np.multiply(x, T(scale), order="C")
