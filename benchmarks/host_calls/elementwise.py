"""Arithmetic, comparisons, functions of every element."""

from __future__ import annotations

from .arguments import Pair, named, same

CALLS: dict[str, Pair] = {
    "a + b": same(lambda lib, x: x.a + x.b),
    "a + v": same(lambda lib, x: x.a + x.v),
    "a * 2.0": same(lambda lib, x: x.a * 2.0),
    "a ** 2": same(lambda lib, x: x.a**2),
    "a > b": same(lambda lib, x: x.a > x.b),
    "exp(a)": same(lambda lib, x: lib.exp(x.a)),
    "sqrt(a)": same(lambda lib, x: lib.sqrt(x.a)),
    "maximum(a, b)": same(lambda lib, x: lib.maximum(x.a, x.b)),
    "where(mask, a, b)": same(lambda lib, x: lib.where(x.mask, x.a, x.b)),
    "clip(a, 0, 1)": same(lambda lib, x: lib.clip(x.a, 0.2, 0.8)),
    "a.astype(float16)": (lambda lib, x: x.a.astype("float16"), lambda lib, x: x.a.half()),
    "isnan(a)": same(lambda lib, x: lib.isnan(x.a)),
    "a += b": same(lambda lib, x: x.a.__iadd__(x.b)),
    "1 / a": same(lambda lib, x: 1.0 / x.a),
    "-a": same(lambda lib, x: -x.a),
    "a == 0": same(lambda lib, x: x.a == 0.0),
    "a % 2": same(lambda lib, x: x.a % 2.0),
    "~mask": same(lambda lib, x: ~x.mask),
    "abs(a)": same(lambda lib, x: abs(x.a)),
    "2 ** a": same(lambda lib, x: 2.0**x.a),
    "round(a, 2)": (lambda lib, x: lib.round(x.a, 2), lambda lib, x: lib.round(x.a, decimals=2)),
    "sinc(a)": same(lambda lib, x: lib.sinc(x.a)),
    "nan_to_num(a)": same(lambda lib, x: lib.nan_to_num(x.a)),
    "isclose(a, b)": same(lambda lib, x: lib.isclose(x.a, x.b)),
    "logaddexp(a, b)": same(lambda lib, x: lib.logaddexp(x.a, x.b)),
    "where(mask, a, 0)": same(lambda lib, x: lib.where(x.mask, x.a, 0.0)),
    "positive(a)": (lambda lib, x: lib.positive(x.a), lambda lib, x: lib.clone(x.a)),  # PyTorch's returns a itself
    "conj(waves)": (lambda lib, x: lib.conj(x.waves), lambda lib, x: lib.conj_physical(x.waves)),
    "real(waves)": same(lambda lib, x: lib.real(x.waves)),
    "imag(waves)": same(lambda lib, x: lib.imag(x.waves)),
    "abs(waves)": same(lambda lib, x: lib.abs(x.waves)),
    "~classes": same(lambda lib, x: ~x.classes),
    "logical_not(mask)": same(lambda lib, x: lib.logical_not(x.mask)),
    "a -= b": same(lambda lib, x: x.a.__isub__(x.b)),
    "float_power(a, 2)": same(lambda lib, x: lib.float_power(x.a, 2)),
    "ldexp(a, classes)": same(lambda lib, x: lib.ldexp(x.a, x.classes)),
    "waves * 2j": same(lambda lib, x: x.waves * 2j),
    "waves + 1": same(lambda lib, x: x.waves + 1),
}
CALLS |= {f"{name}(a)": named(name, "a") for name in (
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sin", "cos", "tan", "ceil", "floor", "trunc",
    "log", "log2", "log10", "log1p", "expm1", "exp2", "sign", "signbit", "square", "reciprocal", "isfinite", "isinf",
    "deg2rad", "angle", "fix", "frexp", "isneginf", "isposinf")}
CALLS |= {f"{name}(a)": named(name, "a", torch=torch) for name, torch in {
    "radians": "deg2rad", "degrees": "rad2deg", "rint": "round"}.items()}
CALLS |= {f"{name}(a, b)": named(name, "a", "b") for name in (
    "subtract", "multiply", "divide", "remainder", "floor_divide", "pow", "minimum", "fmax", "fmin", "fmod", "atan2", "hypot",
    "copysign", "nextafter", "logaddexp2", "heaviside", "greater", "less", "greater_equal", "less_equal", "equal", "not_equal")}
CALLS |= {f"{name}(classes, classes)": named(name, "classes", "classes") for name in (
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm")}
CALLS |= {f"{name}(mask, mask)": named(name, "mask", "mask") for name in ("logical_and", "logical_or", "logical_xor")}
