"""Creation and manipulation in NumPy. Functions that write into an argument return ()."""

import functools
import operator

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..core import cpu_pool
from ..core.devices import CPU
from ..core.dtypes import COMPLEX, FLOATING, compute_dtype
from ..core.fp_errors import quiet
from ..core.layout import Layout


def copy(x, *, dtype=None):
    """A contiguous copy, cast to dtype; of a complex number cast to a real one the real part
    remains."""
    dtype = x.dtype if dtype is None else dtype
    if x.dtype in COMPLEX and dtype not in COMPLEX and dtype != np.bool_:
        x = x.real
    if dtype == x.dtype:
        return x.copy()
    if dtype.kind == "f" and dtype.itemsize >= x.dtype.itemsize:
        return x.astype(dtype, order="C")
    with np.errstate(invalid="ignore", over="ignore"):  # no check for numbers out of range
        return x.astype(dtype, order="C")


def _prepare_copy(layout, *, dtype=None):
    """Large copies, into memory of the CPU pool."""
    kind = layout.dtype if dtype is None else dtype
    if not cpu_pool.large(layout.shape, kind) or (layout.dtype in COMPLEX and kind not in COMPLEX):
        return None
    supported = (
        layout.contiguous
        and layout.dtype != np.float16 != kind
        and {layout.dtype.kind, kind.kind} <= set("fiub")
    )
    # A float that does not fit an integer gives what NumPy's C compiler chose.
    plain = layout.dtype.kind != "f" or kind.kind in "fb"
    compiled = functools.partial(_converted, layout.dtype, kind) if supported and plain else None
    return operator.setitem, Layout.new(layout.shape, kind, CPU), compiled


def _converted(source, target):
    from .lib.llvm_loops import loop  # imports LLVM

    return loop("astype", source, (False,), target)


copy.prepare = _prepare_copy  # type: ignore[attr-defined]


def copy_into(target, source):
    """target[...] = source, cast."""
    target[...] = copy(source, dtype=target.dtype) if source.dtype != target.dtype else source
    return ()


def fill(target, *, scalars):
    """target[...] = the value whose bytes are the two 8-byte scalars (repeated)."""
    target[...] = np.array(scalars, np.uint64).view(target.dtype)[0]
    return ()


def full(*, layout, device, scalars):
    """A new array whose memory repeats the two 8-byte scalars. For zeros the system supplies
    cleared pages at their first use."""
    if scalars == (0, 0):
        return np.zeros(layout.shape, layout.dtype)
    return np.full(layout.shape, np.array(scalars, np.uint64).view(layout.dtype)[0])


def _full_of(*, layout, device, scalars):
    """New arrays of one number."""
    shape, dtype, new = layout.shape, layout.dtype, np.empty
    if scalars == (0, 0):
        zeros = np.zeros
        return lambda: zeros(shape, dtype)
    value = np.array(scalars, np.uint64).view(dtype)[0]

    def filled():
        out = new(shape, dtype)
        out.fill(value)
        return out

    return filled


full.with_numbers = _full_of  # type: ignore[attr-defined]


def _float_ramp(size, dtype, start, step):
    """start + i * step."""
    values = np.arange(size).astype(dtype)
    values *= dtype.type(step)
    values += dtype.type(start)
    return values


def ramp(*, layout, device, count, scalars):
    """y[i] = start + i * step for i < count, stop from there on."""
    start, step, stop = scalars
    if layout.dtype in FLOATING:
        T = compute_dtype(layout.dtype)
        values = quiet().run(_float_ramp, layout.size, T, start, step)
        values[count:] = stop
        if T == layout.dtype:
            return values
    elif layout.dtype == np.int64 and step and abs(start) + abs(step) * layout.size < 1 << 62:
        return np.arange(start, start + step * layout.size, step)
    else:  # modulo 2**64, which is right for signed and unsigned numbers of any width
        start, step = (np.uint64(v & 0xFFFFFFFFFFFFFFFF) for v in (start, step))
        values = start + np.arange(layout.size).astype(np.uint64) * step
    return values.astype(layout.dtype)


_FEW = 1 << 10  # elements of a ramp that is kept


def _ramp_of(*, layout, device, count, scalars):
    """Copies of a short ramp."""
    if layout.size > _FEW:
        return None
    return ramp(layout=layout, device=device, count=count, scalars=scalars).copy


ramp.with_numbers = _ramp_of  # type: ignore[attr-defined]


def concat(*inputs, axis, sizes):
    """The inputs one after another along axis."""
    assert len(sizes) == len(inputs)
    return np.concatenate(inputs, axis=axis)


def roll(x, *, shifts):
    """Each axis rolled by its shift."""
    return np.roll(x, shifts, range(x.ndim))


def unview(g, *, shape, view):
    """Zeros of a shape with g written where the view (shape, strides, offset in elements) lies."""
    out = np.zeros(shape, g.dtype)
    if g.size:
        inside, strides, offset = view
        as_strided(out.reshape(-1)[offset:], inside, [s * g.itemsize for s in strides])[...] = g
    return out


def pad(x, *, widths, scalars):
    """x in the middle of an array filled with one value."""
    out = np.empty(
        [before + n + after for n, (before, after) in zip(x.shape, widths, strict=True)], x.dtype
    )
    fill(out, scalars=scalars)
    out[
        tuple([slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True)])
    ] = x
    return out
