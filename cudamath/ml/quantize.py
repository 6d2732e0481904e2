"""Quantization: numbers as int8, int4 or float8 with scales, and products of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import optree

from ..core import dtypes
from ..core.array import ndarray
from ..core.devices import CPU
from ..core.dispatch.checks import coerce, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING, INTEGER, Op
from ..core.shapes import as_integer, normalize_axis
from ..core.typing import ArrayLike, DeviceLike, DTypeLike
from ..ops.compare import equal
from ..ops.linalg import products as linalg_products
from ..ops.shape import in_order, reshape
from ..ops.where import where

__all__ = ["Quantized", "dequantize", "linear_quantized", "quantize", "scaled_matmul"]

#: What may be requested -> (form: how it is stored, largest number of symmetric ones)
_FORMS = {
    "int8": ("int8", 127.0),
    "int4": ("int4", 7.0),
    "float8_e4m3": ("float8_e4m3fn", 448.0),
    "float8_e5m2": ("float8_e5m2", 57344.0),
}
_NAMES = {form: name for name, (form, _) in _FORMS.items()}
#: lowest and highest stored integer
_RANGES = {"int8": (-128, 127), "int4": (0, 15)}

_quantize = Op("quantize", cpu="quantize.quantize", cuda="quantize.dispatch.quantize")
_quantize_rows = Op(
    "quantize (rows)", cpu="quantize.quantize_row", cuda="quantize.dispatch.quantize_row"
)
_ROW = 1 << 15  # numbers of a row that one block of threads holds in registers
_dequantize = Op("dequantize", cpu="quantize.dequantize", cuda="quantize.dispatch.dequantize")


class Quantized:
    """A quantized array, as returned by `quantize`.

    `dequantize`, `linear` and `linear_quantized` accept it. It is a node of parameter trees
    (optree): its arrays are leaves, so that it can be saved, moved and passed to graphs like any
    tree.

    A node of parameter trees (optree): its arrays are leaves, so that it can be saved, moved and
    passed to graphs like any tree.

    Parameters
    ----------
    values : ndarray
        Dtype int8 or float8 of the array's shape. For "int4" uint8, two numbers per byte along the
        last axis, the first in the low half, each as 0 .. 15.
    scale : ndarray
        Scales in float32: () for the whole array, (channels,) for an axis, (.., n / group) for
        groups of the last axis.
    zero_point : ndarray or None
        Zero points of the shape of `scale`, int8 (uint8 for "int4"). None if the quantization is
        symmetric.
    dtype : str
        "int8", "int4", "float8_e4m3" or "float8_e5m2".
    axis : int or None
        Axis whose slices have scales of their own.
    group : int or None
        Size of the groups of the last axis that have scales of their own.
    shape : tuple of int
        Shape of the array.

    Attributes
    ----------
    values : ndarray
        int8 or float8 of the array's shape; for "int4" uint8, two numbers per byte along the last
        axis, the first in the low half, each as 0 .. 15.
    scale : ndarray
        float32: () for the whole array, (channels,) for an axis, (.., n / group) for groups of the
        last axis.
    zero_point : ndarray or None
        Like scale, int8 (uint8 for "int4"); None if symmetric.
    dtype : str
        "int8", "int4", "float8_e4m3" or "float8_e5m2".
    axis, group : int or None
        What has scales of its own.
    shape : tuple of int

    Examples
    --------
    >>> import cudamath as cm
    >>> q = cm.ml.quantize(cm.array([[1.0, -2.0], [127.0, 63.5]]), axis=0)
    >>> q
    Quantized((2, 2), int8, axis=0)
    >>> q.nbytes, q.dequantize().tolist()[1]
    (12, [127.0, 64.0])
    """

    __slots__ = ("values", "scale", "zero_point", "dtype", "axis", "group", "shape")

    def __init__(
        self,
        values: ndarray,
        scale: ndarray,
        zero_point: ndarray | None,
        dtype: str,
        axis: int | None,
        group: int | None,
        shape: tuple[int, ...],
    ):
        self.values, self.scale, self.zero_point = values, scale, zero_point
        self.dtype, self.axis, self.group, self.shape = dtype, axis, group, shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def device(self) -> Any:
        """Device of the arrays."""
        return self.values.device

    @property
    def nbytes(self) -> int:
        """Bytes of stored numbers, scales and zero points."""
        return sum(a.nbytes for a in (self.values, self.scale, self.zero_point) if a is not None)

    def dequantize(self, dtype: DTypeLike = "float32") -> ndarray:
        """Return the array in a floating-point dtype: see `dequantize`.

        Parameters
        ----------
        dtype : dtype_like, default "float32"
            Dtype of the result.

        Returns
        -------
        ndarray
            The array.
        """
        return dequantize(self, dtype)

    def to(self, device: DeviceLike) -> Quantized:
        """Return the same quantized array on a device.

        Parameters
        ----------
        device : device_like
            Name of the device.

        Returns
        -------
        Quantized
            Quantized array on that device.
        """
        return optree.tree_map(lambda a: a.to(device), self)  # type: ignore[arg-type, return-value]

    def __repr__(self) -> str:
        more = [
            f"{name}={value}"
            for name, value in (("axis", self.axis), ("group", self.group))
            if value is not None
        ]
        more += ["with zero points"] * (self.zero_point is not None)
        return f"Quantized({', '.join([str(self.shape), self.dtype, *more])})"


def complaint(
    values: Any, scale: Any, zero_point: Any, dtype: Any, axis: Any, group: Any, shape: Any
) -> str:
    """What is wrong with the parts of a quantized array, "" if they fit: kernels find a number's
    scale by the shapes alone. values, scale, zero_point: anything with `shape` and `dtype`."""
    if not isinstance(dtype, str) or dtype not in _FORMS:
        return f"its dtype is one of {', '.join(_FORMS)}, got {dtype!r:.60}"
    if type(shape) is not tuple or not all(type(n) is int and n > 0 for n in shape):
        return f"its shape has lengths above 0, got {shape!r:.60}"
    if group is not None and not (
        type(group) is int and group > 0 and shape and shape[-1] % group == 0
    ):
        return f"group={group!r:.60} does not divide the last axis of shape {shape}"
    if axis is not None and not (type(axis) is int and 0 <= axis < len(shape) and group is None):
        return f"axis={axis!r:.60}, group={group} is no way to share the scales of shape {shape}"
    if dtype == "int4" and not (shape and shape[-1] % 2 == 0):
        return f"int4 wants an even number along the last axis, got shape {shape}"
    form = _FORMS[dtype][0]
    stored = {"int4": np.dtype(np.uint8), "int8": np.dtype(np.int8)}.get(form)
    scales = _scales_shape(shape, axis, group)
    if zero_point is not None and stored is None:
        return f"{dtype} has no zero points"
    for what, part, wanted, wanted_shape in (
        (
            "values",
            values,
            stored or np.dtype(getattr(dtypes, dtype)),
            (*shape[:-1], shape[-1] // 2) if form == "int4" else shape,
        ),
        ("a scale", scale, np.dtype(np.float32), scales),
        ("zero points", zero_point, stored, scales),
    ):
        if part is None and what == "zero points":
            continue
        kind, lengths = getattr(part, "dtype", None), getattr(part, "shape", None)
        if kind != wanted or lengths != wanted_shape:
            return (
                f"{dtype} of shape {shape} with axis={axis}, group={group} wants {what} of "
                f"{wanted}, shape {wanted_shape}, got {kind} of shape {lengths}"
            )
    return ""


def _require_fit(name: str, q: Quantized) -> None:
    problem = complaint(q.values, q.scale, q.zero_point, q.dtype, q.axis, q.group, q.shape)
    if problem:
        raise ValueError(f"{name}: the quantized array is none: {problem}")


def _scales_shape(shape: tuple[int, ...], axis: int | None, group: int | None) -> tuple[int, ...]:
    if group is not None:
        return (*shape[:-1], shape[-1] // group)
    return () if axis is None else (shape[axis],)


def _opened(q: Any) -> tuple[tuple, tuple, tuple[str, ...]]:
    return (
        (q.values, q.scale, q.zero_point),
        (q.dtype, q.axis, q.group, q.shape),
        ("values", "scale", "zero_point"),
    )


def _closed(more: Any, arrays: Any) -> Any:
    return Quantized(*arrays, *more)


optree.register_pytree_node(
    Quantized,  # type: ignore[arg-type]
    _opened,
    _closed,
    namespace=optree.registry.__GLOBAL_NAMESPACE,
)


def _inner(shape: tuple[int, ...], axis: int | None, group: int | None) -> int:
    """How many neighbours share a scale before the next one's begin."""
    if group is not None:
        return group
    return int(np.prod(shape if axis is None else shape[axis + 1 :], dtype=np.int64))


def quantize(
    x: ArrayLike,
    dtype: DTypeLike = "int8",
    *,
    axis: int | None = None,
    group: int | None = None,
    symmetric: bool = True,
    scale: ArrayLike | None = None,
    zero_point: ArrayLike | None = None,
) -> Quantized:
    """Quantize an array to 8- or 4-bit numbers with scales.

    stored = clip(round(x / scale) + zero_point), x is about (stored - zero_point) * scale

    Parameters
    ----------
    x : array, not empty
        Floating-point array.
    dtype : "int8", "int4", "float8_e4m3" or "float8_e5m2", default "int8"
        Dtype of the stored numbers: "int8", "int4", "float8_e4m3" or "float8_e5m2".
    axis : int, optional
        Each index along this axis has a scale of its own: 0 for the output channels of a weight
        (out, in). By default one scale serves the whole array.
    group : int, optional
        Instead, every `group` neighbours along the last axis have one; it divides that axis. (For a
        weight (out, in) axis=0 may be given as well.).
    symmetric : bool, default True
        Without zero points: stored integers are -127 .. 127 (int4: -7 .. 7) and 0 is 0. Otherwise
        lowest and highest number, and 0, determine the 256 (16) steps. float8 is always symmetric.
    scale, zero_point : array, optional
        Known beforehand: scale float32 of shape (), (channels,) or (.., n / group), zero_point
        likewise of integers that can be stored (-128 .. 127; int4: 0 .. 15; on a GPU, where looking
        would wait, others become the nearest of these). By default the largest absolute number
        becomes the largest stored one.

    Returns
    -------
    Quantized
        The quantized array.

    Raises
    ------
    TypeError
        X is not floating-point, another dtype is requested, or axis or group is not an integer.
    ValueError
        X is empty; axis or group that do not fit; int4 with an odd last axis; scales of another
        shape; zero points for float8, or out of range.

    Notes
    -----
    Gradient: none: the result is a constant. Rounding is to the nearest, ties to even, in float32;
    what is out of range becomes the nearest number in it. A NaN or infinity makes the scale that is
    computed from it NaN or infinite, and with it the values of all that share it NaN; where scales
    are given a NaN becomes 0 (float8: stays), an infinity the largest number. Where all numbers are
    0, the scale is 1. Deterministic; the same integers on CPU and GPU.

    References
    ----------
    .. [1] Jacob et al., "Quantization and training of neural networks for efficient
       integer-arithmetic-only inference", 2017.

    Examples
    --------
    >>> import cudamath as cm
    >>> q = cm.ml.quantize([[0.0, 1.0, 2.54, -1.27]], "int8")
    >>> q.values.tolist()
    [[0, 50, 127, -64]]
    >>> cm.ml.quantize(cm.ones((2, 128)), "int4", group=64).scale.shape
    (2, 2)
    """
    try:
        name = dtype if isinstance(dtype, str) else _NAMES.get(np.dtype(dtype).name, str(dtype))
    except TypeError:  # nothing that NumPy reads as one
        name = ""
    if name not in _FORMS:
        raise TypeError(f"quantize: dtype is one of {', '.join(_FORMS)}, got {dtype!r}")
    form, largest = _FORMS[name]
    x = require("quantize", x, FLOATING)
    if not x.size:
        raise ValueError(f"quantize: an empty array of shape {x.shape} has no scale")
    group = None if group is None else as_integer("quantize", "group", group)
    axis, shape = _sharing(x, axis, group)
    if form == "int4" and (x.ndim == 0 or x.shape[-1] % 2):
        raise ValueError(
            f"quantize: int4 wants an even number along the last axis, got shape {x.shape}"
        )
    if not form.startswith("int") and (zero_point is not None or not symmetric):
        raise ValueError(f"quantize: {name} has no zero points")
    if scale is None and zero_point is not None:
        raise ValueError("quantize: a zero_point wants a scale")
    x = in_order("quantize", x, "C")
    inner = _inner(x.shape, axis, group)
    zero: ndarray | None = None
    if scale is not None:
        scale, zero = _given(x, scale, zero_point, shape, name, form)
    elif (
        symmetric
        and inner <= _ROW
        and math.prod(shape) * inner == x.size
        and (form != "int4" or inner % 2 == 0)
    ):
        values, scale = _quantize_rows(
            reshape(x, (-1, inner)), form=form
        )  # whatever has a scale is a row
        stored = (*x.shape[:-1], x.shape[-1] // 2) if form == "int4" else x.shape
        return Quantized(
            reshape(values, stored), reshape(scale, shape), None, name, axis, group, x.shape
        )
    else:
        scale, zero = _range(x, form, largest, shape, inner, symmetric)
    values = _quantize(
        x, _flat(scale), None if zero is None else _flat(zero), form=form, inner=inner
    )
    return Quantized(values, scale, zero, name, axis, group, x.shape)


def _sharing(x: ndarray, axis: int | None, group: int | None) -> tuple[int | None, tuple[int, ...]]:
    """(the axis whose indices have a scale each, None with groups; the shape of the scales)."""
    if axis is not None:
        axis = normalize_axis("quantize", axis, x.ndim)
    if group is None:
        return axis, _scales_shape(x.shape, axis, None)
    if x.ndim == 0 or group < 1 or x.shape[-1] % group:
        raise ValueError(
            f"quantize: group={group} does not divide the last axis of shape {x.shape}"
        )
    if axis is not None and (axis, x.ndim) != (0, 2):
        raise ValueError(
            f"quantize: group={group} takes no axis but 0 of a matrix, got axis={axis} of shape "
            f"{x.shape}"
        )
    return None, _scales_shape(x.shape, None, group)


def _given(
    x: ndarray, scale: Any, zero_point: Any, shape: tuple[int, ...], name: str, form: str
) -> tuple[ndarray, ndarray | None]:
    """Scales and zero points that are known beforehand, checked, as they are stored."""
    scale, zero = coerce("quantize", (x, scale))[1].astype("float32"), None
    if zero_point is not None:
        zero = require("quantize", coerce("quantize", (x, zero_point))[1], INTEGER, "zero points")
        lowest, highest = _RANGES[form]
        if (
            zero._layout.device == CPU
            and zero.size
            and not lowest <= int(zero.min()) <= int(zero.max()) <= highest
        ):
            raise ValueError(
                f"quantize: zero points of {name} are in {lowest} .. {highest}, got "
                f"{int(zero.min())} to "
                f"{int(zero.max())}"
            )
        zero = zero.clip(lowest, highest).astype("int8" if form == "int8" else "uint8")
    for what, found in (("scale", scale), ("zero_point", zero)):
        if found is not None and found.shape != shape:
            raise ValueError(
                f"quantize: x {x.shape} wants a {what} of shape {shape}, got {found.shape}"
            )
    return scale, zero


def _flat(scale: ndarray) -> ndarray:
    return reshape(in_order("quantize", scale, "C"), (scale.size,))


def _range(
    x: ndarray, form: str, largest: float, shape: tuple[int, ...], inner: int, symmetric: bool
) -> tuple[ndarray, ndarray | None]:
    """(scale, zero points) from the largest, or from the lowest and the highest number of each
    channel."""
    channels = math.prod(shape)
    parts = reshape(x, (-1, channels, inner))
    if symmetric:
        scale = abs(parts).max((0, 2)).astype("float32") / largest
        return reshape(where(equal(scale, 0), 1.0, scale), shape), None
    lowest, highest = _RANGES[form]
    low = parts.min((0, 2)).astype("float32").clip(None, 0.0)
    high = parts.max((0, 2)).astype("float32").clip(0.0, None)
    scale = (high - low) / float(highest - lowest)
    scale = where(equal(scale, 0), 1.0, scale)
    zero = (
        (lowest - (low / scale).round())
        .clip(lowest, highest)
        .astype("int8" if form == "int8" else "uint8")
    )
    return reshape(scale, shape), reshape(zero, shape)


def dequantize(q: Quantized, dtype: DTypeLike = "float32") -> ndarray:
    """The values that a quantized array stands for: (stored - zero_point) * scale.

    Parameters
    ----------
    q : Quantized
        Quantized array.
    dtype : floating-point dtype of the result, default "float32"
        Floating-point dtype of the result.

    Returns
    -------
    ndarray
        Of q's shape. Computed in float32, rounded once.

    Raises
    ------
    TypeError
        Q is not quantized, or dtype is not floating-point.

    Notes
    -----
    Gradient: none.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.dequantize(cm.ml.quantize([1.0, -0.5, 0.25], "float8_e4m3")).tolist()
    [1.0, -0.5, 0.25]
    """
    if not isinstance(q, Quantized):
        raise TypeError(f"dequantize: wants what quantize returns, got {type(q).__name__}")
    wanted = dtypes.as_dtype(dtype, "dequantize")
    if wanted not in FLOATING:
        raise TypeError(f"dequantize: wants a floating-point dtype, got {wanted}")
    how = wanted, q.dtype, q.axis, q.group, q.shape
    return _dequantized(*how, q.values, q.scale, q.zero_point)


@fast_path("values", "scale", "zero_point")
def _dequantized(
    wanted: np.dtype,
    dtype: str,
    axis: int | None,
    group: int | None,
    shape: tuple[int, ...],
    values: ndarray,
    scale: ndarray,
    zero_point: ndarray | None = None,
) -> ndarray:
    """`dequantize` of the quantized array of these parts."""
    _require_fit("dequantize", Quantized(values, scale, zero_point, dtype, axis, group, shape))
    zero = None if zero_point is None else _flat(zero_point)
    inner = _inner(shape, axis, group)
    form = _FORMS[dtype][0]
    return _dequantize(values, _flat(scale), zero, form=form, inner=inner, dtype=wanted)


# -------------------- products


def _through(
    g: ndarray, values: ndarray, scale: ndarray, zero: ndarray | None, form: str, group: int
) -> ndarray:
    """The gradient with respect to x of x dequantize(w)^T."""
    inner = group or (values.size * (2 if form == "int4" else 1)) // scale.size
    return linalg_products.matmul(
        g, _dequantize(values, scale, zero, form=form, inner=inner, dtype=g.dtype)
    )


def _packed_x(
    g: ndarray,
    _y: Any,
    _x: Any,
    values: ndarray,
    scale: ndarray,
    zero: ndarray | None,
    _bias: Any,
    _residual: Any,
    *,
    form: str,
    group: int,
    **_: Any,
) -> ndarray:
    return _through(g, values, scale, zero, form, group)


def _packed_bias(
    g: ndarray,
    _y: Any,
    _x: Any,
    _values: Any,
    _scale: Any,
    _zero: Any,
    _bias: Any,
    _residual: Any,
    **_: Any,
) -> ndarray:
    return g.sum(tuple(range(g.ndim - 1)))


def _packed_residual(
    g: ndarray,
    _y: Any,
    _x: Any,
    _values: Any,
    _scale: Any,
    _zero: Any,
    _bias: Any,
    _residual: Any,
    **_: Any,
) -> ndarray:
    return g


def _packed_none(
    _g: Any,
    _y: Any,
    _x: Any,
    _values: Any,
    _scale: Any,
    _zero: Any,
    _bias: Any,
    _residual: Any,
    **_: Any,
) -> None:
    return None


def _8_bits_x(
    g: ndarray,
    _y: Any,
    _x: Any,
    values: ndarray,
    scale: ndarray,
    _own: Any,
    _bias: Any,
    *,
    form: str,
) -> ndarray:
    return _through(g, values, scale, None, form, 0)


def _8_bits_bias(
    g: ndarray, _y: Any, _x: Any, _values: Any, _scale: Any, _own: Any, _bias: Any, **_: Any
) -> ndarray:
    return g.sum(tuple(range(g.ndim - 1)))


def _8_bits_none(
    _g: Any, _y: Any, _x: Any, _values: Any, _scale: Any, _own: Any, _bias: Any, **_: Any
) -> None:
    return None


_linear_quantized = Op(
    "linear (quantized weight)",
    cpu="quantize.linear_quantized",
    cuda="quantize.dispatch.linear_quantized",
    vjp=(_packed_x, _packed_none, _packed_none, _packed_none, _packed_bias, _packed_residual),
)
_linear_8_bits = Op(
    "linear_quantized",
    cpu="quantize.linear_8_bits",
    cuda="quantize.dispatch.linear_8_bits",
    vjp=(_8_bits_x, _8_bits_none, _8_bits_none, _8_bits_none, _8_bits_bias),
)
_scaled = Op("scaled_matmul", cpu="quantize.scaled_matmul", cuda="quantize.dispatch.scaled_matmul")


def packed_linear(
    x: ndarray, weight: Quantized, bias: ndarray | None, residual: ndarray | None, activation: str
) -> ndarray:
    """What `linear` does with a quantized weight; operands of one dtype and of shapes that fit."""
    _require_fit("linear", weight)
    if weight.axis not in (None, 0):
        raise ValueError(
            f"linear: a quantized weight (out, in) wants axis=0 or groups, got axis={weight.axis}"
        )
    zero = None if weight.zero_point is None else _flat(weight.zero_point)
    operands = (
        in_order("linear", x, "C"),
        weight.values,
        _flat(weight.scale),
        zero,
        bias,
        residual,
    )
    return _linear_quantized(
        *operands, form=_FORMS[weight.dtype][0], group=weight.group or 0, activation=activation
    )


def linear_quantized(
    x: ArrayLike,
    weight: Quantized,
    bias: ArrayLike | None = None,
    *,
    scale: ArrayLike | None = None,
) -> ndarray:
    """The fully connected layer on 8-bit numbers.

    X, too, is quantized to the weight's kind before the product.

    y = (quantize(x) @ weight.values.mT) * scale of x * scale of weight + bias

    Parameters
    ----------
    x : array (..., in)
        Floating-point array.
    weight : Quantized (out, in)
        Dtype int8 or float8, symmetric, with axis=0 or one scale.
    bias : array (out,), dtype of `x`, optional
        Added to the result.
    scale : array (), optional
        X's, known beforehand from typical data (static). By default each row of x gets its own
        (dynamic): its largest absolute number becomes the largest stored one.

    Returns
    -------
    ndarray
        (..., out), of x's dtype.

    Raises
    ------
    TypeError
        X or bias is not floating-point or of different dtypes, weight is not quantized, or is int4.
    ValueError
        Shapes that do not fit; a weight with groups or zero points.

    Notes
    -----
    Gradient: of x as if nothing had been rounded ("straight through"): g @ dequantize(weight); of
    bias; the weight is constant.

    Accuracy: int8 is multiplied and summed exactly. float8 is summed by the tensor cores of compute
    capability 9.0, which keep some 14 bits, and in float32 elsewhere. The function is
    deterministic. On 9.0 rows are quantized by one kernel and multiplied by another, which also
    scales, adds and rounds once.

    References
    ----------
    .. [1] Dettmers et al., "LLM.int8(): 8-bit matrix multiplication for transformers at scale",
       2022 (without its outliers).

    Examples
    --------
    >>> import cudamath as cm
    >>> w = cm.ml.quantize([[1.0, -1.0], [0.5, 0.0]], axis=0)
    >>> cm.ml.linear_quantized(cm.array([[127.0, 63.0]], dtype="float32"), w).tolist()
    [[64.0, 63.5]]
    """
    if not isinstance(weight, Quantized):
        raise TypeError(
            f"linear_quantized: the weight is what quantize returns, got {type(weight).__name__}"
        )
    if weight.dtype == "int4":
        raise TypeError("linear_quantized: int4 weights are for linear, which leaves x as it is")
    if (
        weight.axis not in (None, 0)
        or weight.group is not None
        or weight.zero_point is not None
        or weight.ndim != 2
    ):
        raise ValueError(
            "linear_quantized: wants a symmetric weight (out, in) with axis=0 or one scale, got "
            f"{weight}"
        )
    how = weight.dtype, weight.axis, weight.shape
    return _of_8_bits(*how, x, weight.values, weight.scale, bias, scale)


@fast_path("x", "values", "weight_scale", "bias", "scale")
def _of_8_bits(
    dtype: str,
    axis: int | None,
    shape: tuple[int, ...],
    x: Any,
    values: ndarray,
    weight_scale: ndarray,
    bias: Any = None,
    scale: Any = None,
) -> ndarray:
    """`linear_quantized` with the weight of these parts."""
    _require_fit(
        "linear_quantized", Quantized(values, weight_scale, None, dtype, axis, None, shape)
    )
    x, *rest = coerce("linear_quantized", (x, bias) if bias is not None else (x,), FLOATING)
    if any(a.dtype != x.dtype for a in rest):
        raise TypeError(
            f"linear_quantized: x {x.dtype} wants a bias of its dtype, got {rest[0].dtype}"
        )
    if not x.ndim or x.shape[-1] != shape[1]:
        raise ValueError(
            f"linear_quantized: wants x (..., in) and weight (out, in), got {x.shape} and {shape}"
        )
    if rest and rest[0].shape != shape[:1]:
        raise ValueError(
            f"linear_quantized: weight {shape} wants a bias of shape {shape[:1]}, "
            f"got {rest[0].shape}"
        )
    own = None
    if scale is not None:
        own = coerce("linear_quantized", (x, scale), FLOATING)[1].astype("float32")
        if own.shape != ():
            raise ValueError(f"linear_quantized: x's scale is one number, got shape {own.shape}")
        own = reshape(own, (1,))
    return _linear_8_bits(
        in_order("linear_quantized", x, "C"),
        values,
        _flat(weight_scale),
        own,
        rest[0] if rest else None,
        form=_FORMS[dtype][0],
    )


@fast_path("a", "b", "scale_a", "scale_b", "bias")
def scaled_matmul(
    a: ArrayLike,
    b: ArrayLike,
    scale_a: ArrayLike,
    scale_b: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    dtype: DTypeLike = "bfloat16",
) -> ndarray:
    """Multiply two matrices of int8 or float8 and scale: (a @ b) * scale_a * scale_b + bias.

    (a @ b) * scale_a * scale_b + bias.

    Parameters
    ----------
    a, b : array (m, k), (k, n)
        Both int8, float8_e4m3 or float8_e5m2. On GPUs fastest where k is contiguous in both: b is
        the transpose of a matrix (n, k), as weights are stored.
    scale_a : array () or (m,), float32
        Scales of the rows of `a`.
    scale_b : array () or (n,), float32
        Scales of the columns of `b`.
    bias : array (n,), dtype of the result, optional
        Added to the result.
    dtype : floating-point dtype of the result, default "bfloat16"
        Floating-point dtype of the result.

    Returns
    -------
    ndarray
        (m, n).

    Raises
    ------
    TypeError
        Dtypes other than these, or different ones of a and b.
    ValueError
        Shapes that do not fit.

    Notes
    -----
    Gradient: none. Accuracy: int8 is summed exactly (modulo 2^32); float8 see `linear_quantized`.
    Rounded once. The function is deterministic.

    References
    ----------
    .. [1] Torch._scaled_mm; Micikevicius et al., "FP8 formats for deep learning", 2022.

    Examples
    --------
    >>> import cudamath as cm
    >>> a, b = cm.full((1, 3), 100, "int8"), cm.full((3, 1), 100, "int8")
    >>> scales = cm.asarray(0.01, "float32"), cm.asarray(0.5, "float32")
    >>> cm.ml.scaled_matmul(a, b, *scales, dtype="float32").tolist()
    [[150.0]]
    """
    wanted = dtypes.as_dtype(dtype, "scaled_matmul")
    if wanted not in FLOATING:
        raise TypeError(f"scaled_matmul: the result is floating-point, got {wanted}")
    a, b, scale_a, scale_b, *rest = coerce(
        "scaled_matmul",
        (a, b, scale_a, scale_b, *((bias,) if bias is not None else ())),
        dtypes.HELD,
    )
    eight = (dtypes.float8_e4m3, dtypes.float8_e5m2, np.int8)
    if a.dtype != b.dtype or a.dtype not in eight:
        raise TypeError(
            f"scaled_matmul: wants two matrices of int8 or of one float8 dtype, got {a.dtype} and "
            f"{b.dtype}"
        )
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"scaled_matmul: wants a (m, k) and b (k, n), got {a.shape} and {b.shape}")
    for what, scale, count in (("scale_a", scale_a, a.shape[0]), ("scale_b", scale_b, b.shape[1])):
        if scale.dtype != np.float32:
            raise TypeError(f"scaled_matmul: {what} is float32, got {scale.dtype}")
        if scale.shape not in ((), (count,)):
            raise ValueError(
                f"scaled_matmul: a {a.shape} and b {b.shape} want a {what} of shape () or "
                f"({count},), "
                f"got {scale.shape}"
            )
    if rest and rest[0].dtype != wanted:
        raise TypeError(
            f"scaled_matmul: a result of {wanted} wants a bias of its dtype, got {rest[0].dtype}"
        )
    if rest and rest[0].shape != (b.shape[1],):
        raise ValueError(
            f"scaled_matmul: b {b.shape} wants a bias of shape ({b.shape[1]},), got {rest[0].shape}"
        )
    return _scaled(a, b, _flat(scale_a), _flat(scale_b), rest[0] if rest else None, dtype=wanted)
