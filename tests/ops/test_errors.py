"""Mistakes: the class of the error, the name of the function in front, and what was seen in the
message. Nothing is lost."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from records import ELEMENTWISE, ROWS
from strategies import COMPLEX, DTYPES, kind

import cudamath as cm

ml = cm.ml


def ones(*shape: int, dtype: Any = np.float64) -> cm.ndarray:
    return cm.ones(shape, dtype)


# -------------------- elementwise


@pytest.mark.parametrize("row", [r for r in ELEMENTWISE if r.inputs == 2], ids=lambda r: r.name)
def test_shapes_that_do_not_broadcast(device, row):
    dtype = "int64" if "f" not in row.kinds else "float64"
    x, y = ones(2, 3, dtype=dtype), ones(4, dtype=dtype)
    for a, b in ((x, y), (y, x), (x, np.ones(4, dtype)), (np.ones((2, 3), dtype), y)):
        with pytest.raises(ValueError, match=rf"^{row.name}: (?=.*\(2, 3\))(?=.*\(4,\))"):
            row.function(a, b)


@pytest.mark.parametrize("row", ELEMENTWISE, ids=lambda r: r.name)
def test_dtypes_that_are_not_taken(device, row):
    for dtype in DTYPES:
        if kind(dtype) not in row.kinds and not (
            row.name == "conj" or (row.name, kind(dtype)) in {("pow", "b"), ("exp2", "c")}
        ):
            with pytest.raises(TypeError, match=rf"^{row.name}: .*{dtype}"):
                row.function(*[cm.ones(3, dtype)] * row.inputs)


@pytest.mark.parametrize("row", ELEMENTWISE, ids=lambda r: r.name)
def test_what_is_no_array(device, row):
    for wrong in ("text", object(), None, {"a": 1}, [[1, 2], [3]]):
        with pytest.raises((TypeError, ValueError), match=f"^{row.name}: "):
            row.function(*[wrong] * row.inputs)
    with pytest.raises(TypeError):
        row.function()


def test_operators_name_their_function(device):
    with pytest.raises(ValueError, match=r"^add: .*\(2,\).*\(3,\)"):
        ones(2) + ones(3)
    with pytest.raises(TypeError, match="^bitwise_and: .*float64"):
        ones(2) & ones(2)
    with pytest.raises(TypeError, match="^floor_divide: .*complex128"):
        _ = ones(2, dtype=complex) // 1
    with pytest.raises(ValueError, match=r"^matmul: .*\(2, 3\).*\(2, 3\)"):
        ones(2, 3) @ ones(2, 3)


# -------------------- everything else: (call, class, name, words)

X = ones
MISTAKES: list[tuple[Any, type[Exception], str, str]] = [
    # axes
    (lambda: cm.sum(X(2, 3), axis=2), ValueError, "sum", "axis 2.*2 dimensions"),
    (lambda: cm.sum(X(2, 3), axis=(0, -2)), ValueError, "sum", "repeated"),
    (lambda: cm.mean(X(2, 3), axis=-3), ValueError, "mean", "axis -3"),
    (lambda: cm.max(X(2), axis="x"), TypeError, "max", "integer"),
    (lambda: cm.argmax(X(2, 3), axis=5), ValueError, "argmax", "axis 5"),
    (lambda: ml.softmax(X(2, 3), axis=2), ValueError, "softmax", "axis 2"),
    (lambda: cm.expand_dims(X(2), axis=3), ValueError, "expand_dims", "axis 3"),
    (lambda: cm.flip(X(2), axis=1), ValueError, "flip", "axis 1"),
    (lambda: cm.concat([X(2), X(2)], axis=1), ValueError, "concat", "axis 1"),
    (lambda: cm.moveaxis(X(2, 3), 0, 2), ValueError, "moveaxis", "axis 2"),
    (lambda: cm.roll(X(2), 1, axis=1), ValueError, "roll", "axis 1"),
    (lambda: cm.take(X(2), [0], axis=1), ValueError, "take", "axis 1"),
    # nothing to choose from
    (lambda: cm.max(X(0)), ValueError, "max", r"\(0,\)"),
    (lambda: cm.argmin(X(3, 0), axis=1), ValueError, "argmin", r"\(3, 0\)"),
    # shapes
    (lambda: cm.matmul(X(2, 3), X(4, 5)), ValueError, "matmul", r"\(2, 3\).*\(4, 5\)"),
    (lambda: cm.matmul(X(2, 3), 1.0), ValueError, "matmul", r"\(\)"),
    (lambda: cm.matmul(X(2, 3, 4), X(3, 4, 5)), ValueError, "matmul", r"\(2, 3, 4\).*\(3, 4, 5\)"),
    (lambda: cm.vecdot(X(2, 3), X(2, 4)), ValueError, "vecdot", r"\(2, 3\).*\(2, 4\)"),
    (
        lambda: cm.tensordot(X(2, 3), X(4, 5), axes=1),
        ValueError,
        "tensordot",
        r"\(2, 3\).*\(4, 5\)",
    ),
    (lambda: cm.gemm(X(2, 3), X(2, 3)), ValueError, "gemm", r"\(2, 3\).*\(2, 3\)"),
    (lambda: cm.gemv(X(2, 3), X(2)), ValueError, "gemv", r"\(2, 3\).*\(2,\)"),
    (lambda: cm.inner(X(2, 3), X(2, 4)), ValueError, "inner", r"\(2, 3\).*\(2, 4\)"),
    (lambda: cm.inner(X(3), X(2, 2, 4)), ValueError, "inner", r"\(3,\).*\(2, 2, 4\)"),
    (lambda: cm.exp(X(3), where=X(2) > 0), ValueError, "exp", r"where: .*\(2,\).*\(3,\)"),
    (lambda: cm.reshape(X(2, 3), (4, 2)), ValueError, "reshape", r"6.*\(4, 2\)"),
    (lambda: cm.reshape(X(2, 3), (-1, -1)), ValueError, "reshape", "-1"),
    (lambda: cm.reshape(X(2, 3), (2.0, 3)), TypeError, "reshape", "integer"),
    (lambda: cm.squeeze(X(2, 3), axis=0), ValueError, "squeeze", r"\(2, 3\)"),
    (lambda: cm.broadcast_to(X(2, 3), (2, 4)), ValueError, "broadcast_to", r"\(2, 3\).*\(2, 4\)"),
    (lambda: cm.concat([X(2, 3), X(2, 4)]), ValueError, "concat", r"\(2, 3\).*\(2, 4\)"),
    (lambda: cm.concat([]), ValueError, "concat", ""),
    (lambda: cm.stack([X(2), X(3)]), ValueError, "stack", r"\(2,\).*\(3,\)"),
    (lambda: cm.split(X(5), 2), ValueError, "split", "5"),
    (lambda: cm.permute_dims(X(2, 3), (0, 0)), ValueError, "permute_dims", "repeated"),
    (lambda: cm.matrix_transpose(X(2)), ValueError, "matrix_transpose", r"\(2,\)"),
    (lambda: cm.diagonal(X(2)), ValueError, "diagonal", r"\(2,\)"),
    (lambda: cm.where(X(2) > 0, X(3), X(4)), ValueError, "where", r"\(2,\).*\(3,\).*\(4,\)"),
    (lambda: cm.index_add(X(3), [[0]], X(1)), ValueError, "index_add", r"\(1, 1\)"),
    (
        lambda: cm.take_along_axis(X(2, 3), cm.asarray([0])),
        ValueError,
        "take_along_axis",
        r"\(1,\).*\(2, 3\)",
    ),
    (lambda: cm.repeat(X(3), [1, 2]), ValueError, "repeat", r"\(2,\)"),
    (lambda: cm.tile(X(3), -1), ValueError, "tile", "-1"),
    (lambda: cm.pad(X(3), -1), ValueError, "pad", ""),
    (lambda: ml.linear(X(2, 3), X(5, 4)), ValueError, "linear", r"\(2, 3\).*\(5, 4\)"),
    (
        lambda: ml.conv2d(X(1, 3, 5, 5), X(2, 4, 3, 3)),
        ValueError,
        "conv2d",
        r"\(1, 3, 5, 5\).*\(2, 4, 3, 3\)",
    ),
    (lambda: ml.conv2d(X(3, 5, 5), X(2, 3, 3, 3)), ValueError, "conv2d", r"\(3, 5, 5\)"),
    (lambda: ml.max_pool2d(X(1, 1, 2, 2), 3), ValueError, "max_pool2d", r"\(1, 1, 2, 2\)"),
    (lambda: ml.batch_norm(X(2, 3), X(4), X(4)), ValueError, "batch_norm", r"\(2, 3\).*\(4,\)"),
    (lambda: ml.layer_norm(X(2, 3), 4), ValueError, "layer_norm", r"\(4,\).*\(2, 3\)"),
    (lambda: ml.rms_norm(X(2, 3), 3, X(4)), ValueError, "rms_norm", r"\(2, 3\).*\(4,\)"),
    (
        lambda: ml.cross_entropy(X(2, 3), cm.zeros(3, "int64")),
        ValueError,
        "cross_entropy",
        r"\(2, 3\).*\(3,\)",
    ),
    (lambda: ml.mlp(None, X(5, 3), None, X(2, 5), None), TypeError, "mlp", "None"),
    (lambda: ml.mlp(X(4, 3), X(5, 3), None, None, None), TypeError, "mlp", "None"),
    (lambda: ml.mse_loss(X(2), X(2, 1)), ValueError, "mse_loss", r"\(2,\).*\(2, 1\)"),
    (
        lambda: ml.sgd_update({"a": X(2)}, {"a": X(3)}, lr=0.1),
        ValueError,
        "sgd_update",
        r"\(2,\).*\(3,\)",
    ),
    # dtypes
    (lambda: ml.softmax(cm.arange(3)), TypeError, "softmax", "int64"),
    (lambda: ml.conv2d(X(1, 1, 3, 3, dtype="int32"), X(1, 1, 1, 1)), TypeError, "conv2d", "int32"),
    (lambda: ml.embedding(X(3), X(4, 2)), TypeError, "embedding", "float64"),
    (
        lambda: ml.cross_entropy(cm.zeros((2, 3), "int32"), cm.zeros(2, "int64")),
        TypeError,
        "cross_entropy",
        "int32",
    ),
    (lambda: ml.layer_norm(cm.arange(3), 3), TypeError, "layer_norm", "int64"),
    (lambda: cm.take(X(3), [0.5]), TypeError, "take", "float64"),
    (lambda: cm.astype(X(3), "U3"), TypeError, "astype", "U3"),
    (lambda: cm.var(X(2, dtype=complex), dtype="float64"), TypeError, "var", "complex128"),
    (lambda: cm.arange(3, dtype="bool"), TypeError, "arange", "bool"),
    # indices
    (lambda: cm.take(X(3), [3]).tolist(), IndexError, "(take|index)", ""),
    (lambda: X(3)[5], IndexError, "index", "5.*size 3"),
    (lambda: X(3)[0, 0], IndexError, "index", "1-dimensional"),
    (lambda: X(3)["a"], IndexError, "index", "'a'"),
    (lambda: X(3)[0.5], IndexError, "index", "0.5"),
    (lambda: X(3)[[0.5]], IndexError, "index", "float64"),
    (lambda: X(3)[cm.asarray([True, False])], IndexError, "index", "3.*2"),
    (lambda: X(3)[cm.asarray([0, 7])].tolist(), IndexError, "index", ""),
    (
        lambda: X(2, 3)[cm.asarray([0, 1]), cm.asarray([0, 1, 2])],
        IndexError,
        "index",
        r"\(2,\).*\(3,\)",
    ),
    (lambda: ml.embedding(cm.asarray([4]), X(4, 2)).tolist(), IndexError, "embedding", ""),
    # values
    (lambda: cm.zeros(-1), ValueError, "zeros", "-1"),
    (lambda: cm.zeros((2, 2.5)), TypeError, "zeros", "2.5"),
    (lambda: cm.arange(0, 1, 0), ZeroDivisionError, "arange", "step"),
    (lambda: cm.arange(0, float("inf")), ValueError, "arange", "inf"),
    (lambda: cm.linspace(0, 1, -2), ValueError, "linspace", "-2"),
    (lambda: cm.logspace(0, 1, -2), ValueError, "logspace", "-2"),
    (lambda: cm.full_like(X(2), 300, dtype="int8"), OverflowError, "full_like", "300"),
    (lambda: cm.from_dlpack([1]), TypeError, "from_dlpack", "list"),
    (lambda: cm.asarray(1 << 70), OverflowError, "asarray", str(1 << 70)),
    (lambda: cm.asarray(300, "int8"), OverflowError, "asarray", "300"),
    (lambda: cm.asarray(np.ones(2, ">f4"), copy=False), ValueError, "asarray", "without a copy"),
    (lambda: cm.set_matmul_precision("low"), ValueError, "set_matmul_precision", "low"),
    (lambda: ml.activation(X(2), "none"), ValueError, "activation", "none"),
    (lambda: ml.gelu(X(2), approximate="x"), ValueError, "gelu", "'x'"),
    (
        lambda: ml.cross_entropy(X(2, 3), cm.zeros(2, "int64"), reduction="x"),
        ValueError,
        "cross_entropy",
        "'x'",
    ),
    (lambda: ml.conv2d(X(1, 1, 3, 3), X(1, 1, 1, 1), stride=0), ValueError, "conv2d", "0"),
    (lambda: ml.conv2d(X(1, 3, 3, 3), X(2, 1, 1, 1), groups=2), ValueError, "conv2d", "2"),
    (lambda: ml.dropout(X(2), 1.5), ValueError, "dropout", "1.5"),
    (lambda: cm.random.default_rng(0).normal(0, -1.0), ValueError, "random.normal", "-1"),
    (lambda: cm.random.default_rng(0).integers(3, 3), ValueError, "random.integers", "3"),
    (lambda: X(2, 3).item(), ValueError, "item", r"\(2, 3\)"),
    (lambda: cm.result_type(), ValueError, "result_type", ""),
    # assignment
    (lambda: X(3).__setitem__(slice(0, 2), X(3)), ValueError, "setitem", r"\(3,\).*\(2,\)"),
    (lambda: X(3).__setitem__(7, 1), IndexError, "index", "7"),
    (lambda: cm.broadcast_to(X(3), (2, 3)).__setitem__(0, 1), ValueError, "setitem", r"\(2, 3\)"),
    # what should be a function, said where it is given
    *[
        (
            lambda f=f: f(X(3)),
            TypeError,
            f.__name__,
            r"wants a function.*, got float64 of shape \(3,\)",
        )
        for f in (
            cm.elementwise,
            cm.fuse,
            cm.checkpoint,
            cm.custom_vjp,
            cm.grad,
            cm.value_and_grad,
            cm.vjp,
            cm.vectorize,
        )
    ],
    (lambda: cm.vjp("sin", X(3)), TypeError, "vjp", "wants a function, got str 'sin'"),
    (
        lambda: cm.jvp(None, (X(3),), (X(3),)),
        TypeError,
        "jvp",
        "wants a function, got NoneType None",
    ),
    (
        lambda: cm.elementwise(abs, gradients=[1.0]),
        TypeError,
        "elementwise",
        "as gradients, got float 1.0",
    ),
    (
        lambda: cm.reduction(X(3), 0.0),
        TypeError,
        "reduction",
        r"a function of scalars as combine, got float64 of shape \(3,\)",
    ),
    (lambda: cm.reduction(max, 0.0, each=2), TypeError, "reduction", "as each, got int 2"),
    (lambda: cm.reduction(max, 0.0, last=2), TypeError, "reduction", "as last, got int 2"),
    (lambda: cm.custom_vjp(abs).defvjp(abs, 1), TypeError, "custom_vjp", "as backward, got int 1"),
]

#: What is made of other functions speaks for itself; by name, without what comes behind it in the
#: other mistakes.
WHOLE, MASK = cm.ones((2, 3), "uint8", device="cpu"), np.ones((2, 3), bool)
OWN_NAMES: list[tuple[Any, type[Exception], str]] = [
    *[
        (lambda f=f, x=x: f(x, axis=5), ValueError, f.__name__)
        for f in (
            cm.nansum,
            cm.nanprod,
            cm.nanmax,
            cm.nanmin,
            cm.nanmean,
            cm.nanvar,
            cm.nanstd,
            cm.nanargmax,
            cm.nanargmin,
            cm.nanmedian,
            cm.ptp,
            cm.average,
        )
        for x in (WHOLE, np.ones((2, 3)))
    ],
    *[
        (lambda f=f: f(WHOLE, axis=5, where=MASK), ValueError, f.__name__)
        for f in (cm.mean, cm.var, cm.std, cm.nanvar)
    ],
    *[
        (lambda f=f: f(np.ones((2, 3), "c8"), axis="a"), TypeError, f.__name__)
        for f in (cm.var, cm.std, cm.nanvar, cm.nanstd)
    ],
    *[
        (lambda f=f: f(WHOLE, mean=np.ones(7)), ValueError, f.__name__)
        for f in (cm.var, cm.std, cm.nanvar, cm.nanstd)
    ],
    *[
        (lambda f=f: f(WHOLE, initial=1 << 70), OverflowError, f.__name__)
        for f in (cm.sum, cm.prod, cm.max, cm.min, cm.nanmax)
    ],
    (lambda: cm.max(WHOLE, where=MASK, initial=1 << 70), OverflowError, "max"),
    *[
        (lambda f=f: f(WHOLE[:0]), ValueError, f.__name__)
        for f in (cm.ptp, cm.nanmax, cm.nanargmin)
    ],
    (lambda: cm.cov(WHOLE, np.ones((2, 7))), ValueError, "cov"),
    (lambda: cm.corrcoef(np.ones((2, 2, 2))), ValueError, "corrcoef"),
    (lambda: cm.select([MASK], [WHOLE], 300), OverflowError, "select"),
    (lambda: cm.select([MASK], [np.ones(5)]), ValueError, "select"),
    (lambda: cm.piecewise(WHOLE, [MASK], [300]), OverflowError, "piecewise"),
    (lambda: cm.piecewise(WHOLE, [MASK[:, :2]], [3]), ValueError, "piecewise"),
    (lambda: cm.clip(WHOLE, np.ones(2), None), ValueError, "clip"),
    *[
        (lambda f=f: f(WHOLE, out=cm.ones(4, device="cpu")), ValueError, f.__name__)
        for f in (cm.fabs, cm.fix, cm.spacing)
    ],
    (lambda: cm.float_power(WHOLE, np.ones(5)), ValueError, "float_power"),
    (lambda: cm.divmod(WHOLE, np.ones(5)), ValueError, "divmod"),
    (lambda: cm.allclose(WHOLE, np.ones(5)), ValueError, "allclose"),
    (lambda: cm.isrealobj("text"), TypeError, "isrealobj"),
    (lambda: cm.flatnonzero(None), TypeError, "flatnonzero"),
    (lambda: cm.sort_complex(1.5), ValueError, "sort_complex"),
    (lambda: cm.outer(WHOLE, WHOLE, out=3), TypeError, "outer"),
    (lambda: cm.conj(WHOLE, out=3), TypeError, "conj"),
    (lambda: cm.trapezoid([1.0, 2.0], 3.0), ValueError, "trapezoid"),
    (lambda: cm.diag_indices(2.5), TypeError, "diag_indices"),
    (lambda: cm.mask_indices(None, cm.triu), TypeError, "mask_indices"),
    (lambda: cm.rot90(WHOLE, 1.5), TypeError, "rot90"),
    *[
        (lambda f=f: f(WHOLE, dtype="x"), TypeError, f.__name__)
        for f in (
            cm.trace,
            cm.linalg.trace,
            cm.asanyarray,
            cm.ascontiguousarray,
            cm.asfortranarray,
            cm.asarray_chkfinite,
        )
    ],
    (lambda: cm.indices((2, 3), dtype="x"), TypeError, "indices"),
    *[
        (lambda f=f: f([1.0], [2.0], axis=5), ValueError, f.__name__)
        for f in (cm.linspace, cm.logspace, cm.geomspace)
    ],
    (lambda: cm.fromfunction(None, (2, 3)), TypeError, "fromfunction"),
    (lambda: cm.fromfunction(cm.add, None), TypeError, "fromfunction"),
    (lambda: cm.arange([1.0, 2.0]), TypeError, "arange"),
    (lambda: cm.arange(cm.ones(3)), ValueError, "arange"),
    *[
        (lambda f=f: f("3"), TypeError, f.__name__)
        for f in (cm.bartlett, cm.hanning, cm.hamming, cm.blackman)
    ],
    *[
        (lambda f=f: f(3.5), ValueError, f.__name__)
        for f in (cm.bartlett, cm.hanning, cm.hamming, cm.blackman)
    ],
    (lambda: cm.kaiser(3, "x"), TypeError, "kaiser"),
    *[(lambda f=f: f(WHOLE, None), TypeError, f.__name__) for f in (cm.choose, cm.select)],
    (lambda: cm.piecewise(WHOLE, None, [1]), TypeError, "piecewise"),
    (lambda: cm.ravel_multi_index(None, (2, 3)), TypeError, "ravel_multi_index"),
    (lambda: cm.lexsort(None), TypeError, "lexsort"),
    (lambda: cm.linalg.multi_dot(3), TypeError, "multi_dot"),
    (lambda: cm.linalg.lu_solve(WHOLE[:1], WHOLE), TypeError, "lu_solve"),
    (lambda: cm.linalg.tensorinv(np.ones((2, 3))), ValueError, "tensorinv"),
    (lambda: cm.linalg.tensorinv(np.zeros((2, 2)), 1), np.linalg.LinAlgError, "tensorinv"),
    (lambda: cm.linalg.tensorsolve(np.ones(3), np.ones(1)), np.linalg.LinAlgError, "tensorsolve"),
    (lambda: cm.compress([True], WHOLE, axis=5), ValueError, "compress"),
    *[
        (lambda key=key: cm.add_at(cm.ones(2, device="cpu"), key, 1), IndexError, "add_at")
        for key in (1.5, 7, [7])
    ],
    *[
        (lambda f=f: f(3, 0, WHOLE), TypeError, f.__name__)
        for f in (cm.apply_along_axis, cm.apply_over_axes)
    ],
    (lambda: cm.explain(3), TypeError, "explain"),
    (lambda: cm.mask_indices(3, 3), TypeError, "mask_indices"),
    (lambda: cm.linspace(WHOLE, np.ones(5)), ValueError, "linspace"),
    (lambda: cm.polyfit([1.0], [1.0], 1.5), TypeError, "polyfit"),
    (lambda: cm.insert(WHOLE, [1.5], 3), IndexError, "insert"),
    (lambda: cm.insert(WHOLE, 1.5, 3), TypeError, "insert"),
    (lambda: cm.size(WHOLE, 5), IndexError, "size"),
    (lambda: cm.round(WHOLE, np.ones(2)), TypeError, "round"),
    (lambda: WHOLE.copy_to([1]), TypeError, "copy_to"),
    (lambda: cm.ones((2, 3), device="cpu").sort(None), TypeError, "sort"),
    (lambda: cm.ones((2, 3), device="cpu").partition(1, None), TypeError, "partition"),
    (lambda: ml.activation(WHOLE, []), ValueError, "activation"),
    *[
        (lambda f=f: f(np.ones((2, 3), "c8"), dtype="f4"), TypeError, f.__name__)
        for f in (cm.var, cm.nanstd, cm.nanmean)
    ],
    (lambda: cm.conj(np.ones(3), cm.ones(4)), ValueError, "conj"),
    *[
        (lambda f=f: getattr(cm, f).reduce(WHOLE, where=MASK), ValueError, f"{f}.reduce")
        for f in ("fmax", "subtract")
    ],
    (lambda: cm.identity(-1), ValueError, "identity"),
    (lambda: cm.frombuffer(b"abc", "i2"), ValueError, "frombuffer"),
    (lambda: cm.full(3, [1, 2]), ValueError, "full"),
]


@pytest.mark.parametrize(
    ("call", "error", "name"), OWN_NAMES, ids=[f"{m[2]}-{i}" for i, m in enumerate(OWN_NAMES)]
)
def test_what_is_made_of_others_names_itself(call, error, name):
    with cm.device("cpu"), pytest.raises(error, match=f"^{name}: "):
        call()


CHANGES_IN_PLACE = {
    "put": lambda x: cm.put(x, 0, 5),
    "copyto": lambda x: cm.copyto(x, 5),
    "place": lambda x: cm.place(x, [[True]], [5]),
    "putmask": lambda x: cm.putmask(x, [[True]], 5),
    "put_along_axis": lambda x: cm.put_along_axis(x, [[0]], 5, axis=1),
    "fill_diagonal": lambda x: cm.fill_diagonal(x, 5),
    "add_at": lambda x: cm.add_at(x, 0, 4),
    "multiply_at": lambda x: cm.multiply_at(x, 0, 5),
    "maximum_at": lambda x: cm.maximum_at(x, 0, 5),
    "minimum_at": lambda x: cm.minimum_at(x, 0, -5),
}


@pytest.mark.parametrize("name", CHANGES_IN_PLACE)
def test_changes_in_place_are_not_lost(device, name):
    """Not in a copy of a list or a number. A NumPy array is on the CPU whatever the default device
    is, and changed itself."""
    for given in ([[1.0]], 1.0, np.float64(1.0), np.ones((1, 1), ">f8")):
        with pytest.raises(
            TypeError,
            match=f"^{name}: wants an ndarray of this package, .* got {type(given).__name__}",
        ):
            CHANGES_IN_PLACE[name](given)
    x = np.ones((1, 1))
    CHANGES_IN_PLACE[name](x)
    assert x.tolist() == [[-5.0 if name == "minimum_at" else 5.0]]
    x.flags.writeable = False
    with pytest.raises(ValueError, match=f"^{name}: .*read-only"):
        CHANGES_IN_PLACE[name](x)


@pytest.mark.parametrize(
    ("call", "error", "name", "words"),
    MISTAKES,
    ids=[f"{m[2]}-{i}" for i, m in enumerate(MISTAKES)],
)
def test_mistakes(device, call, error, name, words):
    with pytest.raises(error, match=f"^{name}.*: .*{words}"):
        call()
        if device == "cuda":
            cm.cuda.synchronize()


#: Rows whose call does arithmetic on its arguments before the function sees them, and one that is
#: another's name.
NOT_DIRECT = (
    *("ndarray.__getitem__", "where", "real", "imag", "matmul", "ml.activation"),
    *("sparse.csc_array", "sparse.linalg.spsolve_triangular"),  # made of a csr_array
)


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r.grad and r.name not in NOT_DIRECT], ids=lambda r: r.name
)
def test_rows_refuse_what_is_no_array(device, row):
    """Text where an array belongs: TypeError that names the function called."""
    arrays: list[Any] = [cm.asarray(a) for a in row.arrays(np.dtype(np.float64))]
    arrays[0] = "text"
    with pytest.raises(TypeError, match=f"^{row.name.split('.')[-1]}(_tanh)?: "):
        row.run(cm, *arrays)


# -------------------- devices


@pytest.mark.parametrize("wrong", ["gpu", "cuda:x", "cuda:-1", "", 1.5, None.__class__, "CPU"])
def test_devices_that_are_none(wrong):
    for call in (
        lambda: cm.device(wrong),
        lambda: cm.zeros(2, device=wrong),
        lambda: cm.ones(2).to(wrong),
    ):
        with pytest.raises(cm.cuda.DeviceError, match="^device: "):
            call()


def test_devices_that_are_not_there():
    for wrong in ("cuda:99", 99):
        with pytest.raises(cm.cuda.DeviceError, match="99"):
            cm.zeros(2, device=wrong)
        with pytest.raises(cm.cuda.DeviceError, match="99"):
            cm.cuda.set_device(99)
    if cm.cuda.device_count() == 0:
        with pytest.raises(cm.cuda.DeviceError, match="not found.*install"):
            cm.zeros(2, device="cuda")


@pytest.mark.gpu
def test_mixed_devices():
    x, y = cm.ones(2, device="cpu"), cm.ones(2, device="cuda")
    for call in (
        lambda: x + y,
        lambda: cm.concat([x, y]),
        lambda: cm.matmul(x, y),
        lambda: cm.where(x > 0, x, y),
        lambda: ml.mse_loss(x, y),
        lambda: y.__iadd__(x),
        lambda: y.__setitem__(0, x[:1]),
    ):
        with pytest.raises(cm.cuda.DeviceError, match=r"^\w+: (?=.*cpu)(?=.*cuda:0)"):
            call()
    assert (y + np.ones(2)).device == "cuda"  # host objects go where the array is
    y[0] = x[0]  # as does the scalar that an element on the host is
    assert (y + x[1]).tolist() == [2.0, 2.0] and (y + x[1]).device == "cuda"


@pytest.mark.multigpu
def test_mixed_gpus():
    x, y = cm.ones(2, device="cuda:0"), cm.ones(2, device="cuda:1")
    with pytest.raises(cm.cuda.DeviceError, match=r"^add: .*cuda:0.*\(2,\).*cuda:1"):
        x + y
    assert (x.to("cuda:1") + y).tolist() == [2.0, 2.0]


# -------------------- too much memory


def test_too_large_an_array_on_the_cpu():
    with cm.device("cpu"):
        for call in (
            lambda: cm.zeros(1 << 55),
            lambda: cm.ones((1 << 30, 1 << 30)),
            lambda: cm.empty((1 << 40, 1 << 40)),
        ):
            with pytest.raises((MemoryError, ValueError)):
                call()


@pytest.mark.gpu
def test_too_large_an_array_on_a_gpu():
    """The error says what was requested; afterwards the pool is what it was."""
    with cm.device("cuda"):
        x = cm.ones(1000)
        gc.collect()  # what earlier tests left in cycles would be freed in between
        cm.cuda.synchronize()
        before = cm.cuda.memory_stats()
        for call in (
            lambda: cm.empty(1 << 45, "uint8"),
            lambda: cm.zeros(1 << 42),
            lambda: cm.broadcast_to(x, (1 << 32, 1000)) + 1,
        ):
            with pytest.raises(cm.cuda.OutOfMemoryError, match="TiB"):
                call()
        cm.cuda.synchronize()
        after = cm.cuda.memory_stats()
        assert after["allocated"] == before["allocated"]
        assert float(x.sum()) == 1000.0


def test_a_failed_call_leaves_its_inputs(device):
    x, y = cm.asarray([1.0, 2.0]), cm.asarray([1.0, 2.0, 3.0])
    for call in (
        lambda: x + y,
        lambda: x.__iadd__(y),
        lambda: x.__setitem__(slice(None), y),
        lambda: cm.concat([x, y], axis=1),
    ):
        with pytest.raises((ValueError, IndexError)):
            call()
    assert (x.tolist(), y.tolist()) == ([1.0, 2.0], [1.0, 2.0, 3.0])


def test_complex_numbers_are_not_rounded_down(device):
    for dtype in COMPLEX:
        z = cm.ones(3, dtype)
        for function in (cm.floor, cm.hypot, cm.heaviside, cm.digitize, cm.quantile):
            with pytest.raises(TypeError, match=f"{dtype}"):
                function(*[z] * (1 if function is cm.floor else 2))
