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
