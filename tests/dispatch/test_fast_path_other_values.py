"""Replays of calls on other values: the results are those of the function as written."""

import itertools

import numpy as np
import pytest
from fake_driver import gpu
from gradient_checks import check_gradient, numbers

import cudamath as cm
from cudamath.core.dispatch.arguments import Input, Output, Temp
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Launch
from cudamath.testing import assert_close


def normalised(x, weight, bias):
    """Batch norm in training, in float64."""
    x, weight, bias = (a.astype("f8") for a in (x, weight, bias))
    mean, var = x.mean((0, 2)), x.var((0, 2))
    shape = (1, -1, 1)
    return (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5) * weight.reshape(
        shape
    ) + bias.reshape(shape)


def test_replayed_joins(device):
    rng = np.random.default_rng(3)
    for order in ("C", "F"):
        for _ in range(3):
            a, b = (
                np.asarray(rng.standard_normal((4, 5)).astype("f4"), order=order) for _ in range(2)
            )
            x, y = cm.asarray(a), cm.asarray(b)
            for axis in (0, 1, -1):
                np.testing.assert_array_equal(
                    np.asarray(cm.concat([x, y], axis=axis)), np.concatenate([a, b], axis)
                )
                np.testing.assert_array_equal(
                    np.asarray(cm.stack((x, y), axis)), np.stack([a, b], axis)
                )
                np.testing.assert_array_equal(np.asarray(cm.roll(x, 2, axis)), np.roll(a, 2, axis))
            np.testing.assert_array_equal(
                np.asarray(cm.concat([x, y], axis=None)), np.concatenate([a, b], None)
            )
            np.testing.assert_array_equal(np.asarray(cm.roll(x, -3)), np.roll(a, -3))
            np.testing.assert_array_equal(
                np.asarray(cm.roll(x[:, ::2], 1, 1)), np.roll(a[:, ::2], 1, 1)
            )
    with pytest.raises((TypeError, ValueError)):
        cm.concat([x, y], axis=1.0)
    for function in (
        lambda x, y: cm.concat([x, y]),
        lambda x, y: cm.stack([x, y], 1),
        lambda x, y: cm.roll(x * y, 1, 0),
    ):
        out, pull = cm.vjp(function, x, y)
        g = np.arange(1, out.size + 1, dtype="f4").reshape(out.shape)
        for got, wanted in zip(pull(cm.asarray(g)), cotangents(function, a, b, g), strict=True):
            np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-5)


def test_a_float_is_no_axis_after_its_integer(device):
    x = cm.ones((2, 1))
    for function in (cm.flip, cm.expand_dims, cm.squeeze):
        function(x, axis=1), function(x, 1)
        for call in (lambda f=function: f(x, axis=1.0), lambda f=function: f(x, 1.0)):
            with pytest.raises(TypeError, match="axis"):
                call()


def test_cached_views_are_views_of_the_same_key(fake):
    a = np.arange(24.0).reshape(4, 6)
    x = gpu(a)
    for _ in range(2):
        for key in (
            np.s_[1:3],
            np.s_[:, 1],
            np.s_[1:3, ::2],
            np.s_[..., 0],
            np.s_[None, 2],
            np.s_[2, None, 1:],
            np.s_[-1, -1],
            np.s_[1, 1],
            np.s_[:, np.int64(1)],
            np.s_[()],
            np.s_[0:0, 5],
            np.s_[::-1, ::-1],
            np.s_[:1, 1:1],
        ):
            view, seen = x[key], a[key] if np.ndim(a[key]) else a[*key, ...]  # a view, not a number
            assert view.shape == seen.shape and view._owner is x._owner
            assert not seen.size or (view._address - x._address, view.strides) == (
                seen.ctypes.data - a.ctypes.data,
                seen.strides,
            )
        for key in (
            np.s_[1.0:3],
            np.s_[:, 1.0],
            np.s_[1:3, ::2.0],
            np.s_[(0, 1, 2.5), 1],
            np.s_[9, 1],
            np.s_[1, 1, 1],
        ):
            with pytest.raises((IndexError, TypeError)):
                x[key]


def test_cached_rows(fake):
    for a in (
        np.arange(15, dtype="f4").reshape(3, 5),
        np.arange(24.0).reshape(4, 6)[::-1, ::2],
        np.arange(4),
        np.ones((0, 2)),
    ):
        whole = gpu(a if a.flags.c_contiguous else a.base.reshape(4, 6))
        x = whole if a.flags.c_contiguous else whole[::-1, ::2]
        for _ in range(2):
            for i in range(-len(a), len(a)):
                row, seen = x[i], a[i, ...] if a.ndim > 1 else a[i:][:1].reshape(())
                offset = seen.ctypes.data - a.ctypes.data
                assert (row.shape, row._address - x._address, row.strides) == (
                    seen.shape,
                    offset,
                    seen.strides,
                )
                assert row._owner is x._owner and row._layout.aligned == (row._address % 16 == 0)
            for wrong in (len(a), -len(a) - 1):
                with pytest.raises(
                    IndexError,
                    match=f"^index: index {wrong} is out of bounds for axis 0 with size {len(a)}",
                ):
                    x[wrong]
    with pytest.raises(IndexError, match="index: invalid|only integers"):
        x[1.0]
    with pytest.raises(IndexError, match="too many indices"):
        gpu(np.array(1.0))[0]


def test_rows_are_set(device):
    a = np.zeros((4, 3), "f4")
    x, rows = cm.asarray(a), np.arange(1, 7, dtype="f4").reshape(2, 3)
    for _ in range(2):
        for i, value in (
            (0, 7.0),
            (1, rows[0]),
            (-1, rows[1]),
            (2, rows),
            (True, 5.0),
            (0, -0.0),
            (1, 3),
            (-1, rows[0] + 1),
        ):
            if np.shape(value) == (2, 3):
                with pytest.raises(ValueError, match=r"^setitem: .*\(2, 3\)"):
                    x[i] = cm.asarray(value)
                continue
            x[i] = cm.asarray(value) if np.ndim(value) else value
            a[i] = value
            np.testing.assert_array_equal(np.asarray(x), a)
        with pytest.raises(IndexError, match="^index: index 4 is out of bounds"):
            x[4] = 1.0


_FILLED = [
    (0.0, "f4"),
    (-0.0, "f4"),
    (0, "i1"),
    (True, "?"),
    (1, "f8"),
    (1.0, "f8"),
    (-1, "i1"),
    (2.5, "i4"),
    (2**64 - 1, "u8"),
    (1 << 63, "u8"),
    (-(1 << 63), "i8"),
    (complex(1, 0.0), "c8"),
    (complex(1, -0.0), "c8"),
]


def test_fills_with_other_values_are_distinct(fake):
    x = gpu(np.ones((2, 3), "f4"))
    for _ in range(2):
        for (value, dtype), place in itertools.product(_FILLED, ("like", "new")):
            y = (
                cm.full_like(x, value, dtype)
                if place == "like"
                else cm.full((2, 3), value, dtype, device=x.device)
            )
            memory = np.array(
                [a for a in fake.launches[-1][-1] if not isinstance(a, tuple)][:2]
            )  # as the kernel gets it
            assert (
                y.dtype == dtype
                and memory.tobytes() == np.full(16 // y.itemsize, value, dtype).tobytes()
            )
        for make, like in (
            (cm.ones_like, x),
            (cm.zeros_like, x),
            (cm.ones_like, x[:, 1:]),
            (cm.zeros_like, x.T),
        ):
            y = make(like)
            assert (
                y.dtype == np.float32
                and y._layout.aligned
                and fake.launches[-1][-1][0][1][4] == y.ptr
            )
        assert cm.ones_like(x, dtype="int8").dtype == np.int8 and cm.ones_like(
            x, shape=(4,)
        ).shape == (4,)
        assert [str(cm.full((2, 3), 2, device=f"cuda:{i}").device) for i in (1, 0)] == [
            "cuda:1",
            "cuda:0",
        ]
        assert [cm.full((2,), value, device="cuda:0").dtype for value in (1, 1.0, True)] == [
            np.int64,
            np.float64,
            np.bool_,
        ]


@pytest.mark.parametrize(("value", "dtype"), _FILLED)
def test_replayed_fills(device, value, dtype):
    x = cm.ones((2, 3), "float32")
    for _ in range(2):
        for y in (cm.full_like(x, value, dtype), cm.full((2, 3), value, dtype)):
            assert np.asarray(y).tobytes() == np.full((2, 3), value, dtype).tobytes()


@pytest.mark.parametrize(
    ("function", "right", "wrong"),
    [
        (cm.fft.fft, {"n": 2}, {"n": 2.0}),
        (cm.fft.rfft, {"n": 2}, {"n": 2.0}),
        (cm.fft.irfft, {"n": 2}, {"n": 2.0}),
        (cm.fft.ifft, {"axis": 1}, {"axis": 1.0}),
        (cm.fft.fftn, {"s": (2, 4)}, {"s": (2.0, 4)}),
        (cm.fft.rfft2, {"axes": (0, 1)}, {"axes": (0, 1.0)}),
        (cm.fft.fftn, {"s": 2, "axes": 1}, {"s": 2, "axes": 1.0}),
    ],
)
def test_a_float_is_no_length_after_its_integer(device, function, right, wrong):
    x = cm.ones((4, 4))
    function(x, **right), function(x, **right)
    with pytest.raises(TypeError, match=f"^{function.__name__}: "):
        function(x, **wrong)


# of a matrix, a vector of floating-point numbers and one of integers, alike in both libraries
FUNCTIONS = {
    "places": lambda lib, a, v, p: a[p],
    "places from the end": lambda lib, a, v, p: a[-1 - p],
    "a view's places": lambda lib, a, v, p: a[:, 1][p],
    "roll": lambda lib, a, v, p: lib.roll(a, 3),
    "roll a view": lambda lib, a, v, p: lib.roll(a[1:, 1:], 1),
    "roll by nothing": lambda lib, a, v, p: lib.roll(a, 24),
    "repeat": lambda lib, a, v, p: lib.repeat(a, 2),
    "repeat rows": lambda lib, a, v, p: lib.repeat(a, 3, 0),
    "repeat in a view": lambda lib, a, v, p: lib.repeat(a[:, 1:3], 2, axis=1),
    "repeat by [2]": lambda lib, a, v, p: lib.repeat(v, [2]),
    "repeat by no times": lambda lib, a, v, p: lib.repeat(v, 0),
    "tile": lambda lib, a, v, p: lib.tile(a, (2, 3)),
    "tile more axes": lambda lib, a, v, p: lib.tile(v, [2, 1, 2]),
    "tile a view": lambda lib, a, v, p: lib.tile(a[:, ::2], 2),
    "astype": lambda lib, a, v, p: (a * 3).astype("int32") * v,
    "astype of a view": lambda lib, a, v, p: a.T.astype(float).astype(a.dtype)[0],
    "astype to its own": lambda lib, a, v, p: a.astype("f8", copy=False) * 2,
    "norm": lambda lib, a, v, p: lib.linalg.norm(a),
    "norm of a view": lambda lib, a, v, p: lib.linalg.norm(a[:, 1:3].T, keepdims=True),
    "fftshift": lambda lib, a, v, p: lib.fft.fftshift(v),
    "cumulative_sum": lambda lib, a, v, p: (
        lib.cumulative_sum(a, axis=1) if lib is cm else lib.cumsum(a, axis=1)
    ),
    "digitize": lambda lib, a, v, p: lib.digitize(a, lib.arange(5) / 4 - 0.5) + a,
    "ravel": lambda lib, a, v, p: lib.ravel(a) * lib.ravel(a[1:, ::2].T)[0],
    "ifftshift": lambda lib, a, v, p: (
        lib.fft.ifftshift(a) * lib.fft.fftshift(a) - lib.fft.fftshift(a, axes=1)
    ),
    "broadcast_arrays": lambda lib, a, v, p: (
        lib.broadcast_arrays(a, v)[1] * lib.broadcast_arrays(v[:1], a)[0]
    ),
    "vector_norm": lambda lib, a, v, p: (
        lib.linalg.vector_norm(a.T, axis=1) if lib is cm else lib.linalg.norm(a.T, axis=1)
    ),
    "concatenate": lambda lib, a, v, p: lib.concatenate([a, a.T.reshape((4, 6))], 1),
    "column_stack": lambda lib, a, v, p: lib.column_stack([v[:4], a]),
    "dstack": lambda lib, a, v, p: lib.dstack((a, a[::-1])),
    "reshape": lambda lib, a, v, p: lib.reshape(a, (2, -1, 3)) * lib.reshape(a.T, (2, 4, 3)),
    "trace": lambda lib, a, v, p: lib.trace(a),
    "trace above": lambda lib, a, v, p: lib.trace(a, 1),
    "trace below": lambda lib, a, v, p: lib.trace(a.T, offset=-2, axis1=1, axis2=0),
    "trace of integers": lambda lib, a, v, p: lib.trace(p.reshape((2, 2))),
    "outer": lambda lib, a, v, p: lib.outer(v, v[:4]),
    "outer of a matrix": lambda lib, a, v, p: lib.outer(a.T, v),
    "outer of two dtypes": lambda lib, a, v, p: lib.outer(p, v),
    "kron": lambda lib, a, v, p: lib.kron(a, v[:2]),
    "vecdot": lambda lib, a, v, p: lib.vecdot(v, v + 1),
    "vecdot of rows": lambda lib, a, v, p: lib.vecdot(a, a * a),
    "vecdot of columns": lambda lib, a, v, p: lib.vecdot(a, a * a, axis=0),
    "vecdot of one with many": lambda lib, a, v, p: lib.vecdot(v, a),
    "a number first": lambda lib, a, v, p: lib.maximum(0.25, a) + lib.subtract(2, v),
    "vdot": lambda lib, a, v, p: lib.vdot(a, a * 2),
    "vdot of integers": lambda lib, a, v, p: lib.vdot(p, p) * v,
    "products by einsum": lambda lib, a, v, p: lib.einsum("i,j->ij", v, v[:4]),
    "products of rows by einsum": lambda lib, a, v, p: lib.einsum("ij,ij->ij", a, a * 2),
    "products by einsum, turned": lambda lib, a, v, p: lib.einsum("i,j->ji", v, a[0]),
    "cross": lambda lib, a, v, p: lib.linalg.cross(a[:, :3], a[:, 3:]),
    "cross of columns": lambda lib, a, v, p: lib.linalg.cross(a[:3], a[1:], axis=0),
    "diff": lambda lib, a, v, p: lib.diff(a),
    "diff of columns, twice": lambda lib, a, v, p: lib.diff(a, 2, axis=0),
    "trapezoid": lambda lib, a, v, p: lib.trapezoid(a),
    "meshgrid": lambda lib, a, v, p: lib.meshgrid(v, a[0, ::2])[1] * 2,
    "meshgrid of rows": lambda lib, a, v, p: lib.meshgrid(v, a[0, ::2], indexing="ij")[0],
    "angle": lambda lib, a, v, p: lib.angle(a - 0.5) * a,
    "angle of complex numbers": lambda lib, a, v, p: lib.angle(a + v * 1j),
    "expand_dims": lambda lib, a, v, p: lib.expand_dims(a, 1) * 2,
    "expand_dims in two places": lambda lib, a, v, p: lib.expand_dims(a.T, axis=(0, -1)) * 2,
    "squeeze": lambda lib, a, v, p: lib.squeeze(a[:, None, ::2], axis=1) * 2,
    "permute": lambda lib, a, v, p: lib.permute_dims(a, (1, 0)) * 2,
    "permute by a list": lambda lib, a, v, p: lib.transpose(a[None], [2, 0, 1]) * 2,
    "swapaxes": lambda lib, a, v, p: a[1:].swapaxes(0, -1) * 2,
    "moveaxis": lambda lib, a, v, p: lib.moveaxis(a[:, :, None], 0, -1) * 2,
    "flip": lambda lib, a, v, p: lib.flip(a, 1) * 2,
    "flip all": lambda lib, a, v, p: lib.flip(a[1:]) * 2,
    "rot90": lambda lib, a, v, p: lib.rot90(a, 3) * 2,
    "diagonal": lambda lib, a, v, p: lib.diagonal(a, 1) * 2,
    "unstack": lambda lib, a, v, p: lib.unstack(a, axis=1)[2] * 2,
    "hstack": lambda lib, a, v, p: lib.hstack([a, a * 2]),
    "hstack of vectors": lambda lib, a, v, p: lib.hstack((v, a[0])),
    "vstack": lambda lib, a, v, p: lib.vstack([v, a, v * 2]),
    "take_along_axis": lambda lib, a, v, p: lib.take_along_axis(a, p[:, None], axis=1),
    "sum over two axes": lambda lib, a, v, p: a.reshape((2, 2, 6)).sum((0, 2)),
    "places of columns": lambda lib, a, v, p: a[:, p],
    "places of the last axis": lambda lib, a, v, p: a[None][:, :, p - 4],
    "clip": lambda lib, a, v, p: lib.clip(a, -0.5, 0.75),
    "cumsum": lambda lib, a, v, p: lib.cumsum(a),
    "cumsum of rows": lambda lib, a, v, p: lib.cumsum(a, axis=1, dtype="f8"),
    "cumprod": lambda lib, a, v, p: lib.cumprod(v[::2]),
    "searchsorted": lambda lib, a, v, p: lib.searchsorted(lib.sort(v), a),
    "searchsorted from the right": lambda lib, a, v, p: lib.searchsorted(
        lib.sort(p), p.reshape((2, 2)) * 0 + 2, side="right"
    ),
    "rfft and back": lambda lib, a, v, p: lib.fft.irfft(lib.fft.rfft(v) * (1 - 2j)),
    "rfft of columns": lambda lib, a, v, p: abs(lib.fft.rfft(a, axis=0, norm="ortho")),
    "fft2": lambda lib, a, v, p: lib.fft.ifft2(lib.fft.fft2(a, [4, 5]) * 1j).imag,
    "fft of real numbers": lambda lib, a, v, p: abs(lib.fft.fft(v)),
    "fft of real rows, filled up": lambda lib, a, v, p: lib.fft.fft(a[:, ::2], 5).imag,
    "ifft of real columns": lambda lib, a, v, p: lib.fft.ifft(a, axis=0, norm="ortho").real,
    "fft of integers": lambda lib, a, v, p: lib.fft.fft2(p.reshape((2, 2))).real * v[0],
    "linspace": lambda lib, a, v, p: lib.linspace(-1, 2, 7),
    "tril": lambda lib, a, v, p: lib.tril(a, 1),
    "triu": lambda lib, a, v, p: lib.triu(a, 1),
    "triu of a view": lambda lib, a, v, p: lib.triu(a[:, ::2]),
    "linspace without its end": lambda lib, a, v, p: lib.linspace(
        0.0, 1.0, 5, False, dtype="float32"
    ),
    "arange": lambda lib, a, v, p: lib.arange(7),
    "arange of floats": lambda lib, a, v, p: lib.arange(7.0),
    "arange as float32": lambda lib, a, v, p: lib.arange(-3, 9, 2, dtype="float32"),
    "arange as int8": lambda lib, a, v, p: lib.arange(-3, 9, 2, dtype="int8"),
    "zeros": lambda lib, a, v, p: lib.zeros((3, 2), dtype="int16"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_replayed_numpy_functions(device, name):
    """As NumPy has it, call after call, with a call of the same function on other layouts in
    between; then a gradient."""
    function = FUNCTIONS[name]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        a, v, p = (
            rng.standard_normal((4, 6)).astype("f4"),
            rng.standard_normal(6).astype("f4"),
            rng.permutation(4),
        )
        x, w, q = map(cm.asarray, (a, v, p))
        expected = function(np, a, v, p)
        for _ in range(2):
            got = function(cm, x, w, q)
            assert got.shape == expected.shape and got.dtype == expected.dtype
            np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-5, atol=1e-6)
            function(cm, x.astype("f8"), w.astype("f8"), q)
        got += 1  # nobody else's memory
        np.testing.assert_allclose(
            np.asarray(function(cm, x, w, q)), expected, rtol=1e-5, atol=1e-6
        )
    if name.startswith(("arange", "linspace", "searchsorted")) or name in (
        "zeros",
        "trace of integers",
    ):
        return

    def total(lib, a, v):
        return (function(lib, a, v, p if lib is np else q) ** 2).sum()

    found = cm.grad(lambda x, w: total(cm, x, w), argnums=(0, 1))(x.astype("f8"), w.astype("f8"))
    wide = [a.astype("f8"), v.astype("f8")]
    for number, gradient in enumerate(found):
        for at in np.ndindex(*gradient.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [each.copy() for each in wide]
                moved[number][at] += step
                ends.append(total(np, *moved))
            np.testing.assert_allclose(
                np.asarray(gradient)[at], (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-8
            )


def test_replayed_image_functions_and_row_sums(device):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, rows, places = (
            rng.standard_normal((2, 3, 4, 6)),
            rng.standard_normal((5, 3, 4, 6)),
            rng.integers(-2, 2, 5),
        )
        sums = x.copy()
        np.add.at(sums, places, rows)
        images, added, where = map(cm.asarray, (x, rows, places))
        windows = x.reshape((2, 3, 2, 2, 2, 3))
        for _ in range(2):
            np.testing.assert_allclose(
                np.asarray(cm.index_add(images, where, added)), sums, rtol=1e-12
            )
            np.testing.assert_allclose(
                np.asarray(cm.ml.adaptive_avg_pool2d(images, 2)), windows.mean((3, 5)), rtol=1e-12
            )
            np.testing.assert_array_equal(
                np.asarray(cm.ml.adaptive_max_pool2d(images, 2)), windows.max((3, 5))
            )
            np.testing.assert_array_equal(
                np.asarray(cm.ml.upsample(images, scale_factor=2)), x.repeat(2, 2).repeat(2, 3)
            )
            np.testing.assert_array_equal(
                np.asarray(cm.ml.upsample(images, (8, 6))), x.repeat(2, 2)
            )
            assert cm.ml.adaptive_avg_pool2d(images, (1, 2)).shape == (2, 3, 1, 2)
            assert cm.ml.upsample(images, scale_factor=0.5).shape == (2, 3, 2, 3)
    _, pull = cm.vjp(lambda x, rows: cm.index_add(x, where, rows), images, added)
    g = cm.asarray(rng.standard_normal(x.shape))
    of_x, of_rows = pull(g)
    np.testing.assert_array_equal(np.asarray(of_x), np.asarray(g))
    np.testing.assert_array_equal(np.asarray(of_rows), np.asarray(g)[places])


@pytest.mark.parametrize("dtype", ["?", "i2", "u8", "f2", "f4", "f8", "c8"])
def test_numbers_from_a_gpu_one_after_the_other(fake, dtype):
    values = np.array([[0, 1], [3, 7]]).astype(dtype)
    x = gpu(values)
    for _ in range(2):
        for i, j in np.ndindex(2, 2):
            got = x[i, j].item()
            assert got == values[i, j].item() and type(got) is type(values[i, j].item())
    assert x.item(3) == x.item(1, 1) == values.item(3)
    assert complex(gpu(values[0, 0])) == complex(values[0, 0])
    with pytest.raises(ValueError, match="^item: wants an array of one element"):
        x.item()


def test_masks_set_numbers(device):
    for seed in range(3):
        a = np.random.default_rng(seed).standard_normal((5, 7)).astype("f4")
        for value in (0, -1.5, np.float32(2), True):
            x, y = cm.asarray(a, copy=True), a.copy()
            x[x > 0], y[y > 0] = value, value
            x[x[:, 0] < 0], y[y[:, 0] < 0] = 3, 3
            x[:, ::2][x[:, ::2] < -1], y[:, ::2][y[:, ::2] < -1] = 4, 4
            np.testing.assert_array_equal(np.asarray(x), y)


@pytest.mark.parametrize("dtype", ["?", "i1", "u4", "i8", "f2", "f4", "f8", "c8"])
def test_masks_set_numbers_of_any_dtype(device, dtype):
    """As numbers of the array's dtype, whatever they are given as; one that an integer cannot hold
    is an error."""
    a = np.arange(35).reshape(5, 7).astype(dtype)
    mask = np.arange(35).reshape(5, 7) % 3 == 1
    whole, floating = np.dtype(dtype).kind in "iu", np.dtype(dtype).kind in "fc"
    for value in (
        0,
        1,
        100,
        True,
        0.0,
        2.5,
        np.float64(1.5),
        *((-3, np.inf, 2**60 + 1) if floating else ()),
    ):
        for got, where in (
            (cm.asarray(a, copy=True), mask),
            (cm.asarray(a.T, copy=True).T, mask),
            (cm.asarray(a, copy=True), mask[:, 0]),
            (cm.asarray(a, copy=True)[:, ::2], mask[:, ::2]),
        ):
            expected = np.asarray(got).copy()
            with np.errstate(over="ignore"):
                got[cm.asarray(where)], expected[where] = value, value
            np.testing.assert_array_equal(np.asarray(got), expected)
    if whole:
        x = cm.asarray(a, copy=True)
        with pytest.raises(OverflowError):
            x[cm.asarray(mask)] = 2**70
        np.testing.assert_array_equal(np.asarray(x), a)


def cotangents(function, a, b, g):
    """Gradients of <g, function(a, b)>, linear in each, by its values on unit matrices in
    float64."""
    with cm.device("cpu"):

        def value(x, y):
            return float(
                (
                    np.asarray(function(cm.asarray(x.astype("f8")), cm.asarray(y.astype("f8")))) * g
                ).sum()
            )

        base = value(a * 0, b), value(a, b * 0)
        for place, (fixed, zero) in enumerate(((b, base[0]), (a, base[1]))):
            found = np.zeros(a.shape)
            for at in np.ndindex(*a.shape):
                unit = np.zeros(a.shape)
                unit[at] = 1
                found[at] = (value(unit, fixed) if place == 0 else value(fixed, unit)) - zero
            yield found


def test_replayed_batch_norm_training(device):
    """With and without running statistics, whose layouts are those of weight and bias; then with a
    gradient."""
    for seed in range(3):
        x, w, b = (
            numbers((6, 3, 4), "float32", seed),
            numbers((3,), "float32", seed + 5),
            numbers((3,), "float32", seed + 9),
        )
        ax, aw, ab = map(cm.asarray, (x, w, b))
        expected = normalised(x, w, b)
        mean, var = x.astype("f8").mean((0, 2)), x.astype("f8").var((0, 2), ddof=1)
        for given, momentum in (((), 1), ((aw, ab), 0.1)):
            y, new_mean, new_var = cm.ml.batch_norm(
                ax, *(given or (None, None)), aw, ab, training=True
            )
            assert_close(y, expected, rtol=1e-4, atol=1e-5)
            old = (0, 0) if momentum == 1 else (w, b)
            assert_close(new_mean, old[0] * (1 - momentum) + mean * momentum, rtol=1e-4, atol=1e-5)
            assert_close(new_var, old[1] * (1 - momentum) + var * momentum, rtol=1e-4, atol=1e-5)
    wide_x, wide_w, wide_b = (a.astype("f8") for a in (x, w, b))
    check_gradient(
        lambda x, w, b: cm.ml.batch_norm(x, weight=w, bias=b, training=True)[0] ** 3,
        lambda x, w, b: normalised(x, w, b) ** 3,
        wide_x,
        wide_w,
        wide_b,
    )


SEEN_BEFORE = {
    "max_pool2d": (
        lambda ml, x, w, b: ml.max_pool2d(x, 3, 2, 1),
        lambda f, x, w, b: f.max_pool2d(x, 3, 2, 1),
    ),
    "conv_transpose2d": (
        lambda ml, x, w, b: (
            ml.conv_transpose2d(x, w.swapaxes(0, 1), stride=2, padding=1)
            * ml.conv_transpose2d(x, w.swapaxes(0, 1), b, stride=2, padding=1)
        ),
        lambda f, x, w, b: (
            f.conv_transpose2d(x, w.swapaxes(0, 1), stride=2, padding=1)
            * f.conv_transpose2d(x, w.swapaxes(0, 1), b, stride=2, padding=1)
        ),
    ),
    "adaptive_avg_pool2d": (
        lambda ml, x, w, b: ml.adaptive_avg_pool2d(x, 1),
        lambda f, x, w, b: f.adaptive_avg_pool2d(x, 1),
    ),
    "adaptive_max_pool2d": (
        lambda ml, x, w, b: ml.adaptive_max_pool2d(x, 1),
        lambda f, x, w, b: f.adaptive_max_pool2d(x, 1),
    ),
    "glu": (
        lambda ml, x, w, b: ml.glu(x[:, :2], 1) * ml.glu(x[:, 1:], -3),
        lambda f, x, w, b: f.glu(x[:, :2], 1) * f.glu(x[:, 1:], -3),
    ),
    "avg_pool2d": (lambda ml, x, w, b: ml.avg_pool2d(x, 2), lambda f, x, w, b: f.avg_pool2d(x, 2)),
    "conv2d": (
        lambda ml, x, w, b: ml.conv2d(x, w, b, padding=1),
        lambda f, x, w, b: f.conv2d(x, w, b, padding=1),
    ),
    "conv2d without bias": (
        lambda ml, x, w, b: (
            ml.conv2d(x, w, stride=2) * ml.conv2d(x, w, stride=(2, 2), padding="valid")
        ),
        lambda f, x, w, b: (
            f.conv2d(x, w, stride=2) * f.conv2d(x, w, stride=(2, 2), padding="valid")
        ),
    ),
    "prelu": (
        lambda ml, x, w, b: ml.prelu(x, b[:3]) + ml.prelu(x, b[0]),
        lambda f, x, w, b: f.prelu(x, b[:3]) + f.prelu(x, b[0]),
    ),
    "layer_norm": (
        lambda ml, x, w, b: (
            ml.layer_norm(x, 8, eps=1e-3) * ml.layer_norm(x, (3, 8, 8), x[0], x[1])
            + ml.layer_norm(x[..., ::2], 4, b).sum()
        ),
        lambda f, x, w, b: (
            f.layer_norm(x, (8,), eps=1e-3) * f.layer_norm(x, (3, 8, 8), x[0], x[1])
            + f.layer_norm(x[..., ::2], (4,), b).sum()
        ),
    ),
    "layer_norm with a residual": (
        lambda ml, x, w, b: (lambda y, h: y * h)(*ml.layer_norm(x, 8, residual=x[::-1] * 2)),
        lambda f, x, w, b: (lambda h: f.layer_norm(h, (8,)) * h)(x + x.flip(0) * 2),
    ),
    "rms_norm with a residual": (
        lambda ml, x, w, b: (lambda y, h: y * h)(
            *ml.rms_norm(x, 8, x[0, 0, 0], 1e-3, residual=x[::-1] * 2)
        ),
        lambda f, x, w, b: (lambda h: f.rms_norm(h, (8,), x[0, 0, 0], 1e-3) * h)(x + x.flip(0) * 2),
    ),
    "group_norm": (
        lambda ml, x, w, b: (
            ml.group_norm(x, 3) * ml.group_norm(x, 1, b[:3], b[1:], 1e-3)
            + ml.instance_norm(x, b[:3])
        ),
        lambda f, x, w, b: (
            f.group_norm(x, 3) * f.group_norm(x, 1, b[:3], b[1:], 1e-3)
            + f.instance_norm(x, weight=b[:3])
        ),
    ),
    "rms_norm": (
        lambda ml, x, w, b: ml.rms_norm(x, 8) + ml.rms_norm(x[..., :4], 4, b, 1e-3).sum(),
        lambda f, x, w, b: f.rms_norm(x, (8,)) + f.rms_norm(x[..., :4], (4,), b, 1e-3).sum(),
    ),
    "conv1d": (
        lambda ml, x, w, b: (
            ml.conv1d(x[..., 1], w[..., 2], padding=1)
            + ml.conv1d(x[..., 0], w[..., 0], b, padding=1)
        ),
        lambda f, x, w, b: (
            f.conv1d(x[..., 1], w[..., 2], padding=1) + f.conv1d(x[..., 0], w[..., 0], b, padding=1)
        ),
    ),
    "conv3d": (
        lambda ml, x, w, b: (
            ml.conv3d(x.reshape((1, 2, 3, 8, 8)), w.reshape((6, 2, 3, 3, 1))[:, :, :2], stride=2)
            + ml.conv3d(x[:, :, None], w[:, :, None], b).sum()
            + ml.conv3d(
                x.reshape((2, 3, 2, 4, 8)),
                w.reshape((4, 3, 3, 3, 1)),
                b,
                stride=(2, 1, 2),
                padding=1,
            ).sum()
            + ml.conv3d(
                x.reshape((1, 2, 3, 8, 8)), w.reshape((6, 2, 3, 3, 1)), padding="same"
            ).sum()
        ),
        lambda f, x, w, b: (
            f.conv3d(x.reshape((1, 2, 3, 8, 8)), w.reshape((6, 2, 3, 3, 1))[:, :, :2], stride=2)
            + f.conv3d(x[:, :, None], w[:, :, None], b).sum()
            + f.conv3d(
                x.reshape((2, 3, 2, 4, 8)),
                w.reshape((4, 3, 3, 3, 1)),
                b,
                stride=(2, 1, 2),
                padding=1,
            ).sum()
            + f.conv3d(x.reshape((1, 2, 3, 8, 8)), w.reshape((6, 2, 3, 3, 1)), padding="same").sum()
        ),
    ),
    "conv_transpose1d": (
        lambda ml, x, w, b: (
            ml.conv_transpose1d(x[..., 1], w[:3, :, 0], stride=2, padding=1)
            + ml.conv_transpose1d(x[..., 1], w[:3, :, 0], b[:3], stride=2, padding=1)
        ),
        lambda f, x, w, b: (
            f.conv_transpose1d(x[..., 1], w[:3, :, 0], stride=2, padding=1)
            + f.conv_transpose1d(x[..., 1], w[:3, :, 0], b[:3], stride=2, padding=1)
        ),
    ),
    # of two volumes and of one; filters that lie as they are taken, and some that are copied
    "conv_transpose3d": (
        lambda ml, x, w, b: (
            ml.conv_transpose3d(
                x.reshape((2, 3, 2, 4, 8)), w.reshape((3, 4, 3, 3, 1)), padding=1
            ).sum()
            + ml.conv_transpose3d(
                x.reshape((1, 2, 3, 8, 8)), w.reshape((2, 6, 3, 3, 1))[:, :, 1:], stride=2
            )
            + ml.conv_transpose3d(
                x.reshape((1, 2, 3, 8, 8)), w.reshape((2, 6, 3, 3, 1))[:, 1:5], b, padding=(1, 1, 0)
            ).sum()
        ),
        lambda f, x, w, b: (
            f.conv_transpose3d(
                x.reshape((2, 3, 2, 4, 8)), w.reshape((3, 4, 3, 3, 1)), padding=1
            ).sum()
            + f.conv_transpose3d(
                x.reshape((1, 2, 3, 8, 8)), w.reshape((2, 6, 3, 3, 1))[:, :, 1:], stride=2
            )
            + f.conv_transpose3d(
                x.reshape((1, 2, 3, 8, 8)), w.reshape((2, 6, 3, 3, 1))[:, 1:5], b, padding=(1, 1, 0)
            ).sum()
        ),
    ),
    "max_pool1d": (
        lambda ml, x, w, b: (
            ml.max_pool1d(x[1], 2) + ml.max_pool1d(x[1], 2, dilation=1, ceil_mode=True)
        ),
        lambda f, x, w, b: (
            f.max_pool1d(x[1], 2) + f.max_pool1d(x[1], 2, dilation=1, ceil_mode=True)
        ),
    ),
    "adaptive_avg_pool1d": (
        lambda ml, x, w, b: ml.adaptive_avg_pool1d(x[1], 4) - ml.adaptive_avg_pool1d(x[0], 1),
        lambda f, x, w, b: f.adaptive_avg_pool1d(x[1], 4) - f.adaptive_avg_pool1d(x[0], 1),
    ),
    "max_pool3d": (
        lambda ml, x, w, b: (
            ml.max_pool3d(x[None], 2, 1) + ml.max_pool3d(x.swapaxes(0, 2)[None], 2, 1).sum()
        ),
        lambda f, x, w, b: (
            f.max_pool3d(x[None], 2, 1) + f.max_pool3d(x.swapaxes(0, 2)[None], 2, 1).sum()
        ),
    ),
    "avg_pool3d": (
        lambda ml, x, w, b: (
            ml.avg_pool3d(x[None], 2, 1) + ml.avg_pool3d(x.swapaxes(0, 2)[None], 2, 1).sum()
        ),
        lambda f, x, w, b: (
            f.avg_pool3d(x[None], 2, 1) + f.avg_pool3d(x.swapaxes(0, 2)[None], 2, 1).sum()
        ),
    ),
    "avg_pool1d": (
        lambda ml, x, w, b: ml.avg_pool1d(x[1], 3, 2, 1),
        lambda f, x, w, b: f.avg_pool1d(x[1], 3, 2, 1),
    ),
    "pad": (
        lambda ml, x, w, b: (
            ml.pad(x, (1, 2)) * ml.pad(x, (0, 3), value=2.0) + ml.pad(x, (3, 0, 0, 0), value=-1)
        ),
        lambda f, x, w, b: (
            f.pad(x, (1, 2)) * f.pad(x, (0, 3), value=2.0) + f.pad(x, (3, 0, 0, 0), value=-1)
        ),
    ),
    "linear": (
        lambda ml, x, w, b: ml.linear(
            x.reshape((-1, 3)), w.reshape((4, -1))[:, :3], b, activation="relu"
        ),
        lambda f, x, w, b: f.relu(f.linear(x.reshape((-1, 3)), w.reshape((4, -1))[:, :3], b)),
    ),
    "mse_loss": (
        lambda ml, x, w, b: ml.mse_loss(x, x * 2),
        lambda f, x, w, b: f.mse_loss(x, x * 2),
    ),
    "l1_loss": (lambda ml, x, w, b: ml.l1_loss(x, x * 3), lambda f, x, w, b: f.l1_loss(x, x * 3)),
    "huber_loss": (
        lambda ml, x, w, b: ml.huber_loss(x, x * 3, delta=1.5) + ml.huber_loss(x, x * 3),
        lambda f, x, w, b: f.huber_loss(x, x * 3, delta=1.5) + f.huber_loss(x, x * 3),
    ),
    "smooth_l1_loss": (
        lambda ml, x, w, b: (
            ml.smooth_l1_loss(x, x * 3, beta=0.5) + ml.smooth_l1_loss(x, x * 3, beta=0)
        ),
        lambda f, x, w, b: (
            f.smooth_l1_loss(x, x * 3, beta=0.5) + f.smooth_l1_loss(x, x * 3, beta=0)
        ),
    ),
    "bce_with_logits": (
        lambda ml, x, w, b: ml.bce_with_logits(x, x * x),
        lambda f, x, w, b: f.binary_cross_entropy_with_logits(x, x * x),
    ),
    "binary_cross_entropy": (
        lambda ml, x, w, b: ml.binary_cross_entropy(
            ml.sigmoid(x), ml.sigmoid(x * 2), reduction="sum"
        ),
        lambda f, x, w, b: f.binary_cross_entropy(f.sigmoid(x), f.sigmoid(x * 2), reduction="sum"),
    ),
    "kl_div": (
        lambda ml, x, w, b: ml.kl_div(x, x * 2, reduction="sum", log_target=True),
        lambda f, x, w, b: f.kl_div(x, x * 2, reduction="sum", log_target=True),
    ),
    "batch_norm": (
        lambda ml, x, w, b: ml.batch_norm(x, b[:3], b[1:] * b[1:]),
        lambda f, x, w, b: f.batch_norm(x, b[:3], b[1:] * b[1:]),
    ),
    "batch_norm with weight": (
        lambda ml, x, w, b: ml.batch_norm(x, b[:3], b[1:] * b[1:], b[:3], b[1:]),
        lambda f, x, w, b: f.batch_norm(x, b[:3], b[1:] * b[1:], b[:3], b[1:]),
    ),
}


@pytest.mark.parametrize("name", SEEN_BEFORE)
def test_replays_on_other_values(device, name):
    """The second and third call skip the checks of the first."""
    torch = pytest.importorskip("torch")
    ours, theirs = SEEN_BEFORE[name]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        values = [
            rng.standard_normal(shape).astype("f4") for shape in ((2, 3, 8, 8), (4, 3, 3, 3), (4,))
        ]
        arrays = [cm.asarray(v) for v in values]
        expected = theirs(torch.nn.functional, *map(torch.from_numpy, values)).numpy()
        np.testing.assert_allclose(np.asarray(ours(cm.ml, *arrays)), expected, rtol=1e-4, atol=1e-5)
    gradient = cm.grad(lambda x: (ours(cm.ml, x, *arrays[1:]) ** 2).sum())(arrays[0])
    leaf = torch.from_numpy(values[0]).requires_grad_()
    (theirs(torch.nn.functional, leaf, *map(torch.from_numpy, values[1:])) ** 2).sum().backward()
    np.testing.assert_allclose(np.asarray(gradient), leaf.grad.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "letters",
    [
        "ij,jk->ik",
        "ij,jk->ki",
        "bij,bjk->bik",
        "ijk,kl->ijl",
        "ij,kj->ik",
        "ij,ij->i",
        "ij,jk->i",
        "ii,ij->j",
        "i,j->ij",
    ],
)
def test_replayed_einsum(device, letters):
    sizes = dict(zip("bijkl", (3, 4, 4 if letters.startswith("ii") else 5, 6, 7), strict=True))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        a, b = (
            rng.standard_normal([sizes[s] for s in term]).astype("f4")
            for term in letters.split("->")[0].split(",")
        )
        x, y = cm.asarray(a), cm.asarray(b)
        expected = np.einsum(letters, a.astype("f8"), b.astype("f8"))
        np.testing.assert_allclose(
            np.asarray(cm.einsum(letters, x, y)), expected, rtol=1e-4, atol=1e-5
        )
        np.testing.assert_allclose(
            np.asarray(cm.einsum(letters, x, y, dtype="float64")), expected, rtol=1e-6, atol=1e-7
        )
    g = cm.grad(lambda x: cm.einsum(letters, x, y).sum())(x)
    for at in np.ndindex(*a.shape):  # linear in x
        unit = np.zeros(a.shape)
        unit[at] = 1
        np.testing.assert_allclose(
            np.asarray(g)[at], np.einsum(letters, unit, b.astype("f8")).sum(), rtol=1e-3, atol=1e-4
        )


def test_replayed_clip_between_arrays(device):
    for seed in range(3):
        a, b, c = np.random.default_rng(seed).standard_normal((3, 7, 5)).astype("f4")
        low, high = np.minimum(b, c), np.maximum(b, c)
        np.testing.assert_array_equal(
            np.asarray(cm.clip(*map(cm.asarray, (a, low, high)))), np.clip(a, low, high)
        )
    g = cm.grad(lambda x: cm.clip(x, cm.asarray(low), cm.asarray(high)).sum())(cm.asarray(a))
    np.testing.assert_array_equal(np.asarray(g), ((a > low) & (a < high)).astype("f4"))


@pytest.mark.parametrize(
    "options",
    [{}, {"reduction": "sum", "ignore_index": 2}, {"label_smoothing": 0.1}, {"reduction": "none"}],
    ids=str,
)
@pytest.mark.parametrize("more", [(), (4,)], ids=["classes", "places"])
def test_replayed_cross_entropy(device, options, more):
    torch = pytest.importorskip("torch")
    for seed in range(3):
        rng = np.random.default_rng(seed)
        logits, targets = (
            rng.standard_normal((6, 5, *more)).astype("f4"),
            rng.integers(0, 5, (6, *more)),
        )
        x = cm.asarray(logits)
        expected = torch.nn.functional.cross_entropy(
            torch.from_numpy(logits), torch.from_numpy(targets), **options
        )
        got = cm.ml.cross_entropy(x, cm.asarray(targets), **options)
        np.testing.assert_allclose(np.asarray(got), expected.numpy(), rtol=1e-5, atol=1e-6)
        if "label_smoothing" not in options:
            expected = torch.nn.functional.nll_loss(
                torch.from_numpy(logits), torch.from_numpy(targets), **options
            )
            got = cm.ml.nll_loss(x, cm.asarray(targets), **options)
            np.testing.assert_allclose(np.asarray(got), expected.numpy(), rtol=1e-5, atol=1e-6)
    gradient = cm.grad(lambda x: cm.ml.cross_entropy(x, cm.asarray(targets), **options).sum())(x)
    leaf = torch.from_numpy(logits).requires_grad_()
    torch.nn.functional.cross_entropy(leaf, torch.from_numpy(targets), **options).sum().backward()
    np.testing.assert_allclose(np.asarray(gradient), leaf.grad.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2, 0)])
def test_plans_of_some_outputs(fake, wanted):
    def powers(x, scratch, one, two, three):
        scratch[...] = x * x
        one[...], two[...], three[...] = x, scratch, x * scratch

    x = gpu(np.arange(4.0))
    arguments = [Input(0), Temp(0), Output(0), Output(1).view((4,)), Output(2)]
    plan = Plan([x._layout] * 3, [Launch(powers, 1, 32, arguments)], [x._layout])
    found = plan.only(wanted).bind("powers", [x._layout])(x)
    found = found if isinstance(found, tuple) else (found,)
    assert [y.tolist() for y in found] == [(np.arange(4.0) ** (i + 1)).tolist() for i in wanted]


def test_replayed_quantized_layers(device):
    """Other numbers each time; what is wrong with a weight or an option is still seen;
    gradients."""
    rng = np.random.default_rng(4)
    for dtype, how in (
        ("int8", {"axis": 0}),
        ("int4", {"group": 16}),
        ("float8_e4m3", {"axis": 0}),
        ("int8", {"axis": 0, "symmetric": False}),
    ):
        for _ in range(3):
            x, w, b, r = (
                rng.standard_normal(s).astype("f4") for s in ((3, 32), (32, 32), (32,), (3, 32))
            )
            q = cm.ml.quantize(cm.asarray(w), dtype, **how)
            exact = x.astype("f8") @ np.asarray(q.dequantize("float64")).T
            given = [cm.asarray(v) for v in (x, b, r)]
            assert_close(cm.ml.linear(given[0], q), exact, rtol=1e-5, atol=1e-5)
            got = cm.ml.linear(given[0], q, given[1], activation="relu", residual=given[2])
            assert_close(got, np.maximum(exact + b, 0) + r, rtol=1e-5, atol=1e-5)
            assert_close(
                cm.ml.linear(given[0].T.copy().T, q, given[1]), exact + b, rtol=1e-5, atol=1e-5
            )
            if dtype != "int4" and q.zero_point is None:
                for scale in (None, cm.asarray(0.04, "float32")):
                    known = [
                        np.asarray(cm.ml.linear_quantized(given[0], q, given[1], scale=scale))
                        for _ in range(2)
                    ]
                    np.testing.assert_array_equal(*known)
        with pytest.raises(ValueError, match="activation"):
            cm.ml.linear(given[0], q, activation="")
        out, pull = cm.vjp(lambda x, q=q: cm.ml.linear(x, q), given[0])
        assert_close(
            pull(cm.ones((3, 32), "float32"))[0],
            np.ones((3, 32)) @ np.asarray(q.dequantize("float64")),
            rtol=1e-5,
            atol=1e-5,
        )
    columns = cm.ml.quantize(cm.asarray(w), "int8", axis=1)  # with scales of the same shape
    assert cm.ml.quantize(cm.asarray(w), "int8", axis=0).scale._layout is columns.scale._layout
    for layer in (cm.ml.linear, cm.ml.linear_quantized):
        layer(given[0], cm.ml.quantize(cm.asarray(w), "int8", axis=0))
        with pytest.raises(ValueError, match="axis"):
            layer(given[0], columns)
