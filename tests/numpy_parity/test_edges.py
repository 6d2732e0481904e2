"""What nobody prepares for: operands that overlap with results, arrays without dimensions, numbers
that do not fit, wrong counts. The answers, and whether there is one, are NumPy's."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy_comparison import agree

import cudamath as cm

SQUARE = np.arange(1.0, 26).reshape(5, 5)


# -------------------- memory that is read and written


def _assign(target: Any, value: Any) -> None:
    target[...] = value


#: What changes `x`, (5, 5), while it reads x: `xp` is NumPy or cudamath.
OVERLAPS: dict[str, Callable[[Any, Any], Any]] = {
    "rows added to the next": lambda xp, x: xp.add(x[1:], x[:-1], out=x[1:]),
    "rows added to the one before": lambda xp, x: xp.add(x[:-1], x[1:], out=x[:-1]),
    "columns times the next": lambda xp, x: xp.multiply(x[:, 1:], x[:, :-1], out=x[:, 1:]),
    "+= itself upside down": lambda xp, x: x.__iadd__(x[::-1]),
    "-= itself mirrored": lambda xp, x: x.__isub__(x[:, ::-1]),
    "+= itself transposed": lambda xp, x: x.__iadd__(x.T),
    "+= its first row": lambda xp, x: x.__iadd__(x[0]),
    "+= its last column": lambda xp, x: x.__iadd__(x[:, 4:]),
    "exp of itself mirrored": lambda xp, x: xp.exp(x[:, ::-1], out=x),
    "where, upside down": lambda xp, x: xp.add(x[::-1], 1, out=x, where=x > 7),
    "assigned upside down": lambda xp, x: _assign(x, x[::-1]),
    "assigned transposed": lambda xp, x: _assign(x, x.T),
    "assigned to the next rows": lambda xp, x: _assign(x[1:], x[:-1]),
    "assigned to the rows before": lambda xp, x: _assign(x[:-1], x[1:]),
    "assigned to every second row": lambda xp, x: _assign(x[::2], x[2:]),
    "assigned its diagonal": lambda xp, x: _assign(x[1], xp.diagonal(x)),
    "copied where": lambda xp, x: xp.copyto(x, x[::-1], where=x > 5),
    "rows picked": lambda xp, x: _assign(x[:4], x[[4, 0, 0, 2]]),
    "rows picked and set": lambda xp, x: x.__setitem__([4, 1], x[[1, 4]]),
    "masked by itself": lambda xp, x: x.__setitem__(x > 9, x[x > 9][::-1]),
    "running sum": lambda xp, x: xp.cumsum(x, axis=0, out=x),
    "running sum of itself upside down": lambda xp, x: xp.cumsum(x[::-1], axis=0, out=x),
    "sum into a row": lambda xp, x: xp.sum(x, axis=0, out=x[0]),
    "sum into a column": lambda xp, x: xp.sum(x, axis=1, out=x[:, 0]),
    "maximum into a row": lambda xp, x: xp.max(x, axis=0, out=x[2]),
    "product into itself": lambda xp, x: xp.matmul(x, x, out=x),
    "product into its transpose": lambda xp, x: xp.matmul(x, x, out=x.T),
    "product into a part": lambda xp, x: xp.matmul(x[:3, :3], x[:3, 1:4], out=x[:3, 2:5]),
    "rows taken": lambda xp, x: xp.take(x, [4, 3, 2, 1, 0], axis=0, out=x),
    "clipped upside down": lambda xp, x: xp.clip(x[::-1], 3, 9, out=x),
    "sorted mirrored": lambda xp, x: x[:, ::-1].sort(axis=1),
    "put by its own numbers": lambda xp, x: xp.put(x, [0, -1, 7], x[1]),
}


@pytest.mark.parametrize(
    "name, dtype",
    [
        (name, dtype)
        for name in OVERLAPS
        for dtype in ("float64", "float32", "int16")
        if dtype != "int16" or "exp" not in name
    ],
)
def test_results_that_overlap_operands(device, name, dtype):
    change = OVERLAPS[name]
    expected, x = SQUARE.astype(dtype), cm.asarray(SQUARE.astype(dtype), copy=True)
    with np.errstate(over="ignore"):
        change(np, expected)
    change(cm, x)
    np.testing.assert_allclose(x.to_numpy(), expected, rtol=1e-5 if dtype == "float32" else 1e-12)


# -------------------- odd arguments

#: Calls (xp, a): `a` makes an array of the library's.
CALLS: list[Callable[[Any, Callable], Any]] = [
    lambda xp, a: xp.nan_to_num(a(np.array(np.nan))),
    lambda xp, a: xp.nan_to_num(a(np.array(-np.inf, "float32"))),
    lambda xp, a: xp.nanvar(a(np.array([np.inf + 1j, 1, np.nan]))),
    lambda xp, a: xp.nanstd(a(np.array([[1 + 2j, np.nan, 3 - 1j], [1j, 2, 5]])), axis=1, ddof=1),
    lambda xp, a: xp.setdiff1d(a(np.array([3, 1, 200], "uint8")), a(np.array([1, 2, 3000]))),
    lambda xp, a: xp.setdiff1d(a(np.array([True, False])), a(np.array([1.0]))),
    lambda xp, a: xp.logspace(0, 2, 3, base=a(np.array([2.0, 3]))),
    lambda xp, a: xp.logspace(a(np.array([0.0, 1])), 2, 4, base=a(np.array([2.0, 3])), axis=-1),
    lambda xp, a: xp.take_along_axis(a(np.array([[1, 2], [3, 4]])), a(np.array([3, 0])), None),
    lambda xp, a: xp.array([1, -128, 127], dtype="int8"),
    lambda xp, a: xp.array([1.75, -3], dtype="int8"),
    *[
        lambda xp, a, f=f, x=x, y=y: getattr(xp, f)(
            a(np.array(x[0], x[1])), a(np.array(y[0], y[1])), "full"
        )
        for f in ("convolve", "correlate")
        for x, y in [
            (([1, 2, 3], "int32"), ([0.5, 0.25], "float64")),
            (([1.5, 2, 3], "float16"), ([0.3], "float32")),
            (([0.5], "float32"), ([1, 2, 3], "int64")),
            (([1.5, 2], "float32"), ([1j, 2], "complex64")),
            (([True, True], "bool"), ([2, 3, 4], "uint8")),
        ]
    ],
    lambda xp, a: xp.trapezoid(a(np.array([3.0, 1, 2])), a(np.arange(12.0).reshape(4, 3) ** 2)),
    lambda xp, a: xp.trapezoid(
        a(np.array([[3.0], [1], [2]])), a(np.arange(24.0).reshape(4, 3, 2) ** 2), axis=-2
    ),
    lambda xp, a: xp.trapezoid(
        a(np.array([[3.0], [1], [2], [5]])), a(np.arange(8.0).reshape(4, 2) ** 2), axis=0
    ),
]


@pytest.mark.parametrize("call", range(len(CALLS)))
def test_answers(device, call):
    with np.errstate(invalid="ignore"):
        expected = CALLS[call](np, np.asarray)
    agree(CALLS[call](cm, cm.asarray), expected)


def test_scalars_of_arrays_without_dimensions(device):
    x = cm.asarray(SQUARE / 4)
    assert [x.item(7), x.item(-1), x.item(1, 2), x.item((1, 2))] == [2.0, 6.25, 2.0, 2.0]
    assert round(x[0, 0]) == 0 and type(round(x[0, 0])) is int and round(x[1, 1] / 4, 1) == 0.4
    assert [math.floor(x[0, 2]), math.ceil(x[0, 2]), math.trunc(-x[1, 0])] == [0, 1, -1]
    for order in ("C", "F", "A"):
        assert x.T.tobytes(order) == (SQUARE / 4).T.tobytes(order)
    for function in (round, math.trunc):
        with pytest.raises(TypeError, match=r"only 0-d arrays .*\(5, 5\)"):
            function(x)
    with pytest.raises(IndexError, match="25"):
        x.item(25)


@pytest.mark.parametrize(
    "arguments, dtype",
    [
        ((2**63, 2**63 + 3), None),
        ((2**63 - 2, 2**63 + 1), None),
        ((-3, 3), "uint8"),
        ((2**70, 2**70 + 3), None),
        ((300, 302), "int8"),
    ],
)
def test_ranges_that_do_not_fit(device, arguments, dtype):
    with pytest.raises(OverflowError, match=f"^arange: from {arguments[0]} .* {dtype or 'int64'}"):
        cm.arange(*arguments, dtype=dtype)
    assert cm.arange(2**63, 2**63 + 2, dtype="uint64").tolist() == [2**63, 2**63 + 1]
    assert cm.arange(2**63 - 2, 2**63).tolist() == [2**63 - 2, 2**63 - 1]


@pytest.mark.parametrize(
    "numbers, dtype", [([300], "int8"), ([[1, 2], [3, -1]], "uint8"), ([2**31], "int32")]
)
def test_numbers_that_do_not_fit(device, numbers, dtype):
    with pytest.raises(OverflowError):
        np.array(numbers, dtype)
    with pytest.raises(OverflowError, match=f"^array: .*{dtype}"):
        cm.array(numbers, dtype)


def test_membership_among_integers_that_no_float64_holds(device):
    signed = [2**53, 2**53 + 1, -1, 2**62 + 1, -(2**63), 2**63 - 1]
    unsigned = [2**53 + 1, 2**62, 2**64 - 1, 2**63, 2**63 - 1]
    i, u = cm.asarray(signed, "int64"), cm.asarray(unsigned, "uint64")
    assert cm.isin(i, u).tolist() == [v in unsigned for v in signed]
    assert cm.isin(u, i, invert=True).tolist() == [v not in signed for v in unsigned]
    assert cm.isin(u, cm.asarray([-1, -128], "int8")).tolist() == [False] * 5


def test_masks_are_not_lost(device):
    """NumPy's `asarray` drops the mask without a word."""
    x, masked = cm.ones(3), np.ma.array([1.0, 2, 3], mask=[0, 1, 0])
    for call in (
        lambda: cm.asarray(masked),
        lambda: x + masked,
        lambda: cm.sum(masked),
        lambda: x.__setitem__(..., masked),
    ):
        with pytest.raises(
            TypeError,
            match=r"got MaskedArray \(dtype float64, a mask would be lost: x.filled\(value\)\)",
        ):
            call()
    assert (x + masked.filled(0)).tolist() == [2, 1, 4]


def test_nan_is_no_integer(device):
    with pytest.raises(ValueError, match=r"^array: .*NaN"):
        cm.array([1.0, np.nan], dtype="int32")


def test_wrong_counts(device):
    x = cm.ones(3)
    with pytest.raises(ValueError, match=r"^grad: argnums \(0, -2\)"):
        cm.grad(lambda x, y: (x * y).sum(), argnums=(0, -2))(x, x)
    for wrong in (lambda x: x.sum(), lambda x: (x.sum(), 1, 2)):
        with pytest.raises(TypeError, match="^grad: with has_aux .* pair"):
            cm.grad(wrong, has_aux=True)(x)
        with pytest.raises(TypeError, match="^vjp: with has_aux .* pair"):
            cm.vjp(wrong, x, has_aux=True)
    with pytest.raises(TypeError, match="^elementwise: .*1 operands.*'y'"):
        cm.elementwise(lambda x, y: x + y)(x)
    with pytest.raises(TypeError, match="^linspace: num .*2.5"):
        cm.linspace(0, 1, 2.5)


def test_fused_functions_take_numpy_arrays(device):
    fused = cm.fuse(lambda tree, scale: tree["x"] * scale + tree["y"])
    x, y = np.arange(3.0), cm.ones(3)
    for tree in ({"x": x, "y": y}, {"x": x, "y": x + 1}, {"x": y, "y": x}):
        z = fused(tree, 2.0)
        assert type(z) is cm.ndarray and z.device == y.device
        np.testing.assert_array_equal(
            z.to_numpy(), np.asarray(tree["x"]) * 2.0 + np.asarray(tree["y"])
        )
    with pytest.raises(ValueError, match=r"^multiply: .*\(3,\).*\(4,\)"):
        cm.fuse(lambda x, y: x * y)(x, np.ones(4))


def test_zeros_that_nobody_may_write_to(device):
    """The imaginary parts of real numbers: what is written there would be lost."""
    x = cm.asarray(SQUARE, copy=True)
    assert x.imag.shape == (5, 5) and x.imag.dtype == x.dtype and not x.imag.any()
    for _ in range(3):
        with pytest.raises(ValueError, match="read-only"):
            x.imag[0] = 3.0
    assert x.imag.flags.c_contiguous
    z = x * 1j
    z.imag[0] = 7.0
    assert z[0, 1] == 7j


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda x: x.__setitem__(0, 1j), TypeError, "^setitem: 1j as float64"),
        (lambda x: x.fill("a"), TypeError, "^setitem: "),
        (lambda x: cm.full(2, 2**64), OverflowError, "^full: .* as uint64"),
        (lambda x: x.astype(int).fill(float("nan")), ValueError, "nan"),
        (lambda x: cm.add(x, 1, out=cm.zeros((2, 5))), ValueError, r"^add: .*\(5, 5\).*\(2, 5\)"),
        (lambda x: cm.exp(x, out=cm.zeros(5)), ValueError, r"^exp: .*\(5, 5\).*\(5,\)"),
    ],
)
def test_messages_begin_with_the_name(device, call, error, message):
    with pytest.raises(error, match=message):
        call(cm.asarray(SQUARE, copy=True))


def test_integers_that_are_none(device):
    x = cm.ones((2, 4))
    for call in (
        lambda: cm.ml.quantize(x, axis=1.0),
        lambda: cm.ml.quantize(x, group=2.0),
        lambda: cm.ml.one_hot([1], 2.5),
    ):
        with pytest.raises(TypeError, match=r"^(quantize|one_hot): .*(1|2)\.(0|5)"):
            call()
    first = next(iter(cm.data.batches(SQUARE, np.int64(2), seed=np.uint8(3), shuffle=True)))
    assert first.shape == (2, 5)


@pytest.mark.parametrize(
    "dtype, zero, nearest",
    [("int8", 300, 127), ("int8", -129, -128), ("int4", -3, 0), ("int4", 16, 15)],
)
def test_zero_points_that_cannot_be_stored(device, dtype, zero, nearest):
    scale = cm.asarray(1.0, "float32")
    if device == "cpu":
        with pytest.raises(ValueError, match=f"^quantize: zero points of {dtype} .*{zero}"):
            cm.ml.quantize(cm.ones((2, 4)), dtype, scale=scale, zero_point=cm.asarray(zero))
    else:
        assert (
            cm.ml.quantize(
                cm.ones((2, 4)), dtype, scale=scale, zero_point=cm.asarray(zero)
            ).zero_point.item()
            == nearest
        )


def test_a_parameter_that_is_there_twice(device):
    """One launch steps all parameters at the same time."""
    x = cm.ones(3, dtype="float32")
    with pytest.raises(
        ValueError, match=r"^sgd_update: wants every parameter once .*\['a'\].* and .*\['b'\]"
    ):
        cm.ml.sgd_update(
            {"a": x, "b": x[:], "c": cm.ones(5)}, {"a": x, "b": x, "c": cm.ones(5)}, lr=0.1
        )
    assert x.tolist() == [1, 1, 1]


def test_the_default_dtype_is_meant_everywhere(device):
    whole = np.arange(6).reshape(2, 3)
    calls = {
        "linspace": lambda: cm.linspace(cm.asarray([0, 1]), 3, 4),
        "cov": lambda: cm.cov(cm.asarray(whole)),
        "corrcoef": lambda: cm.corrcoef(cm.asarray(whole)),
        "hanning": lambda: cm.hanning(4),
        "arange": lambda: cm.arange(0.0, 3.0),
        "kaiser": lambda: cm.kaiser(4, 2),
        "bartlett": lambda: cm.bartlett(0),
        "blackman": lambda: cm.blackman(3),
    }
    wide = {name: call() for name, call in calls.items()}
    cm.set_default_dtype("float32")
    try:
        narrow = {name: call() for name, call in calls.items()}
    finally:
        cm.set_default_dtype("float64")
    for name, x in wide.items():
        assert (x.dtype, narrow[name].dtype) == (np.float64, np.float32), name
        np.testing.assert_allclose(narrow[name].to_numpy(), x.to_numpy(), rtol=1e-5, atol=1e-6)


def test_lists_and_ends_that_are_recorded_keep_the_gradient(device):
    x = cm.asarray([2.0, 3.0])
    for function, expected in (
        (lambda x: cm.asarray([x[0], x[1] * 2]).sum(), [1, 2]),
        (lambda x: (cm.array([[x[0], 3.0], [x[1], 1]]) ** 2).sum(), [4, 6]),
        (lambda x: cm.asarray([x, (1.0, x[0])], dtype="float32")[:, 1].sum(), [1, 1]),
        (lambda x: cm.concat([[x[0], x[1]], [1.0]]).prod(), [3, 2]),
        (lambda x: cm.linspace(x[0], x[1], 3).sum(), [1.5, 1.5]),
        (lambda x: cm.linspace(x[0], 5, 2)[0], [1, 0]),
        (lambda x: cm.logspace(x[0], 0.0, 2, base=cm.e)[0] / cm.exp(2), [1, 0]),
        (lambda x: cm.geomspace(x[0], 8.0, 3)[1], [1, 0]),
        (lambda x: cm.sum([x[0], x[1] * x[1]]), [1, 6]),
        (lambda x: ([x[1], 1.0] * x).sum(), [3, 3]),
    ):
        assert cm.grad(function)(x).round(12).tolist() == expected
    assert cm.asarray([x[0], 1.0]).tolist() == [2, 1]
    with pytest.raises(ValueError, match="shape"):
        cm.grad(lambda x: cm.asarray([x, x[0]]).sum())(x)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.__setitem__(slice(2), [300, 1]),
        lambda x: x.__setitem__([0, 1], [300, 1]),
        lambda x: x.fill(-129),
        lambda x: x.__setitem__(cm.asarray([0]), [300]),
        lambda x: cm.put(x, [0], [300]),
        lambda x: x.__setitem__(x > 1, [200, 1]),
    ],
)
def test_assigned_numbers_that_do_not_fit(device, change):
    x = cm.asarray([1, 2, 3], "int8")
    with pytest.raises(OverflowError, match="^(setitem|put|full): "):
        change(x)
    assert x.tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="^setitem: "):
        cm.zeros(2)[:] = [1j, 2]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, s: cm.ml.softplus(x, s),
        lambda x, s: cm.ml.layer_norm(x, 5, eps=s),
        lambda x, s: cm.ml.huber_loss(x, x * 2, delta=s),
        lambda x, s: cm.ml.scaled_dot_product_attention(x, x, x, scale=s),
        lambda x, s: cm.ml.cross_entropy(x, np.arange(5), label_smoothing=s),
        lambda x, s: cm.ml.celu(x, s),
    ],
)
def test_numbers_whose_gradient_would_be_lost(device, call):
    x = cm.asarray(SQUARE / 25)
    assert call(x, cm.asarray(0.5)).size
    with pytest.raises(TypeError, match="wants a number where it got float64 .* would be lost"):
        cm.grad(lambda s: call(x, s).sum())(0.5)
    assert cm.grad(lambda s: call(x, cm.stop_gradient(s)).sum() + s * 2)(0.5).item() == 2.0
    with pytest.raises(TypeError, match="^(ml[.])?pad: wants a number"):
        cm.grad(lambda s: cm.pad(x, 1, constant_values=s).sum())(0.5)
    for name, lost in (
        ("quantile", lambda s: cm.quantile(x, s)),
        ("percentile", lambda s: cm.percentile(x, [3, s]).sum()),
        ("nanquantile", lambda s: cm.nanquantile(x, s, axis=0).sum()),
        ("kaiser", lambda s: cm.kaiser(3, s).sum()),
        ("arange", lambda s: cm.arange(0, 3, s).sum()),
        ("arange", lambda s: cm.arange(s, 3).sum()),
    ):
        with pytest.raises(
            TypeError, match=f"^{name}: wants a number where it got float64 .* would be lost"
        ):
            cm.grad(lost)(0.5)
        assert lost(cm.asarray(0.5)).ndim == 0
    with pytest.raises(TypeError, match="^vectorize: <lambda> has no gradient"):
        cm.grad(lambda x: cm.vectorize(lambda v: v * 2)(x).sum())(x)


@pytest.mark.parametrize("edge_order", [1, 2])
def test_the_gradient_of_a_distance_between_places(device, edge_order):
    """All slopes fall as 1 / h."""
    x = cm.asarray(SQUARE**1.5, "float32")
    slopes = cm.gradient(x, 0.5, axis=1, edge_order=edge_order).to_numpy()
    g = cm.grad(lambda h: cm.gradient(x, h, axis=1, edge_order=edge_order).sum())(0.5)
    np.testing.assert_allclose(g.item(), -slopes.sum(dtype=float) / 0.5, rtol=1e-5)


def test_the_deviation_of_equal_numbers_has_the_gradient_zero(device):
    """As in torch, not 0 / 0."""
    x = np.array([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]])
    for function in (cm.std, cm.nanstd):
        g = cm.grad(lambda x, function=function: function(x, axis=1, ddof=1).sum())(
            cm.asarray(x)
        ).to_numpy()
        np.testing.assert_allclose(
            g, [[0, 0, 0], (x[1] - x[1].mean()) / (2 * x[1].std(ddof=1))], rtol=1e-12
        )


_FORKED = """
import os, sys
import numpy as np
import cudamath as cm

cm.set_default_device("cpu")
x = np.random.default_rng(0).random((2, 3, 8, 8))

def work():
    wide = cm.ml.upsample(x, scale_factor=2, mode="bilinear")
    return [cm.ml.max_pool2d(x, 2).to_numpy(), wide.to_numpy(), cm.sum(x).item()]

before = work()
child = os.fork()
if not child:
    os._exit(7 if all(np.array_equal(a, b) for a, b in zip(work(), before)) else 8)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_computes_on():
    """Numba's threads stay behind, and OpenMP would end the process that asks for them."""
    done = subprocess.run(
        [sys.executable, "-c", _FORKED], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 7, done.stderr


_FORKED_BESIDE_TORCH = """
import os, signal
import torch
import cudamath as cm

cm.set_default_device("cpu")
torch.ones(600, 600) @ torch.ones(600, 600)  # OpenMP has threads now; a fork leaves them behind
child = os.fork()
if not child:
    signal.alarm(60)
    y = cm.ml.conv2d(cm.ones((1, 1, 5, 5)), cm.ones((1, 1, 3, 3)))
    os._exit(7 if y.tolist() == [[[[9.0] * 3] * 3]] else 8)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_of_a_process_that_used_torch_computes_on():
    """What a worker of PyTorch's DataLoader is: Numba's first loop there would wait for ever for
    PyTorch's threads."""
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", _FORKED_BESIDE_TORCH], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 7, done.stderr


_NOWHERE = """
import cudamath as cm

cm.set_default_device("cpu")
print(cm.ml.max_pool2d(cm.ones((1, 1, 4, 4)), 2).sum())
"""


def test_nowhere_to_keep_what_is_compiled():
    """Each process compiles anew."""
    done = subprocess.run(
        [sys.executable, "-c", _NOWHERE],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"CUDAMATH_CACHE_DIR": os.devnull + "/kernels"},
    )
    assert not done.returncode, done.stderr
    assert done.stdout.split() == ["4.0"]


@pytest.mark.filterwarnings("error")
def test_layers_warn_of_nothing(device):
    """What is not finite passes in silence, as on a GPU: training with loss scaling meets it on
    purpose."""
    ml = cm.ml
    x = cm.asarray(
        np.array([[np.inf, 1, -2, 3e38], [-np.inf, np.nan, 3e38, -3e38], [1, 2, 3, 4]], np.float32)
    )
    w, b = cm.asarray(np.array([[1, np.inf, 0, -1]] * 4, np.float32)), cm.ones(4, "float32")
    for layer in (
        lambda x: ml.layer_norm(x, 4, b, b),
        lambda x: ml.rms_norm(x, 4, b),
        lambda x: ml.group_norm(x, 2),
        lambda x: ml.batch_norm(x, training=True)[0],
        lambda x: ml.linear(x, w, b, activation="gelu"),
        lambda x: ml.mlp(x, w, b, w, b),
        lambda x: ml.scaled_dot_product_attention(x, x, x),
        lambda x: ml.rotary_embedding(x, *ml.rotary_tables(cm.arange(3), 4)),
        lambda x: ml.softmax(x),
        lambda x: ml.cross_entropy(x, np.array([0, 1, 2])),
        lambda x: ml.dropout(x, 0.5),
        lambda x: ml.conv1d(x[None], w[None, :3, :2]),
        lambda x: ml.upsample(x[None], 7, mode="linear"),
        lambda x: ml.linear(x, ml.quantize(w)),
    ):
        y, pull = cm.vjp(layer, x)
        assert pull(cm.full_like(y, np.inf))[0].shape == x.shape


@pytest.mark.parametrize(
    "dtype, number", [("i4", 10**20), ("i4", 1 << 40), ("u1", 300), ("u1", -1), ("i8", 1 << 63)]
)
def test_numbers_that_integers_cannot_hold_in_functions_of_floats(device, dtype, number):
    """They need not: the function computes in floating point."""
    x = np.array([1, 2, 7], dtype)
    for function in (
        lambda m, x: x / number,
        lambda m, x: number / x,
        lambda m, x: m.arctan2(x, number),
        lambda m, x: m.copysign(x, number),
        lambda m, x: m.hypot(number, x),
    ):
        for _ in range(2):
            want, got = function(np, x), function(cm, cm.asarray(x))
            assert got.dtype == want.dtype
            np.testing.assert_allclose(
                got.to_numpy(), want, rtol=2e-3 if want.dtype == "f2" else 1e-6
            )
