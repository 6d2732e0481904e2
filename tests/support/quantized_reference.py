"""Quantization by its definition, in NumPy: what tests of it compare with."""

import ml_dtypes
import numpy as np

BF16, F16, F32, F64 = np.dtype(ml_dtypes.bfloat16), np.dtype("f2"), np.dtype("f4"), np.dtype("f8")
E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
STORED = {
    "int8": (np.dtype("i1"), -128, 127),
    "int4": (np.dtype("u1"), 0, 15),
    "float8_e4m3": (E4M3, -448, 448),
    "float8_e5m2": (E5M2, -57344, 57344),
}
FORMS = {
    "int8": "int8",
    "int4": "int4",
    "float8_e4m3": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
}


def flat(x, axis=None, group=None, **_):
    """x as (outer, channels, inner), and the shape of its scales: written from the documentation,
    not from the code."""
    if group is not None:
        return x.reshape(1, -1, group), (*x.shape[:-1], x.shape[-1] // group)
    if axis is None:
        return x.reshape(1, 1, -1), ()
    axis %= x.ndim
    before, after = int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis + 1 :]))
    return x.reshape(before, x.shape[axis], after), (x.shape[axis],)


def defined(x, dtype, symmetric=True, **how):
    """(stored integers or floats unpacked, scale, zero point or None, values) by the definition, in
    float32."""
    parts, shape = flat(x.astype(F32), **how)
    kind, low, high = STORED[dtype]
    if symmetric:
        largest = {"int8": 127, "int4": 7}.get(dtype, high)
        scale = np.abs(parts).max((0, 2)) / np.float32(largest)
        scale[scale == 0] = 1
        zero = np.float32(8 if dtype == "int4" else 0)
    else:
        least, most = np.minimum(parts.min((0, 2)), 0), np.maximum(parts.max((0, 2)), 0)
        scale = (most - least) / np.float32(high - low)
        scale[scale == 0] = 1
        zero = np.clip(low - np.rint(least / scale), low, high)[:, None]
    value = parts / scale[:, None]
    if dtype.startswith("int"):
        stored = np.clip(np.rint(value) + zero, low, high)
    else:
        stored = np.clip(value, low, high).astype(kind).astype(F32)
    values = ((stored - zero) * scale[:, None]).reshape(x.shape)
    return (
        stored.reshape(x.shape),
        scale.reshape(shape),
        None if symmetric else zero.reshape(shape),
        values,
    )


def unpacked(q):
    values = q.values.to_numpy()
    if q.dtype == "int4":
        values = np.stack([values & 15, values >> 4], -1).reshape(q.shape)
    return values.astype(F32)


def eight_bits(rng, kind, shape):
    return (
        rng.integers(-127, 128, shape) if kind == np.int8 else rng.standard_normal(shape)
    ).astype(kind)
