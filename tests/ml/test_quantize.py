"""Quantization: stored integers and values against their definition, products against float64,
errors."""

import numpy as np
import optree
import pytest
from quantized_reference import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    STORED,
    defined,
    eight_bits,
    flat,
    unpacked,
)

import cudamath as cm

ml = cm.ml
WAYS = [
    ("int8", {}),
    ("int8", {"axis": 0}),
    ("int8", {"axis": 1}),
    ("int8", {"axis": -1, "symmetric": False}),
    ("int8", {"group": 8}),
    ("int4", {}),
    ("int4", {"axis": 0, "symmetric": False}),
    ("int4", {"group": 16}),
    ("int4", {"group": 8, "symmetric": False}),
    ("float8_e4m3", {}),
    ("float8_e4m3", {"axis": 0}),
    ("float8_e5m2", {"axis": 0}),
    ("float8_e5m2", {"group": 32}),
]


# -------------------- quantize, dequantize


@pytest.mark.parametrize(("dtype", "how"), WAYS, ids=str)
@pytest.mark.parametrize("source", [F32, BF16, F16, F64], ids=str)
def test_definition(device, dtype, how, source):
    rng = np.random.default_rng(1)
    for shape in ((6, 32), (3, 4, 64), (1, 96), (70, 32)):
        x = (rng.standard_normal(shape) * 3 + 0.5).astype(source)
        x[0] = 0
        q = ml.quantize(cm.asarray(x), dtype, **how)
        stored, scale, zero, values = defined(x, dtype, **how)
        assert q.shape == shape and q.dtype == dtype and q.values.dtype == STORED[dtype][0]
        np.testing.assert_array_equal(q.scale.to_numpy(), scale)
        assert q.scale.dtype == F32
        assert (q.zero_point is None) == (zero is None)
        if zero is not None:
            np.testing.assert_array_equal(q.zero_point.to_numpy(), zero)
        np.testing.assert_array_equal(unpacked(q), stored)
        for target in (F32, BF16, F64):
            back = ml.dequantize(q, target)
            assert back.dtype == target
            np.testing.assert_array_equal(back.to_numpy(), values.astype(target))


def test_half_a_step_at_most(device):
    x = np.random.default_rng(2).standard_normal((64, 256)).astype(F32)
    for dtype, how in WAYS:
        if dtype.startswith("int"):
            q = ml.quantize(cm.asarray(x), dtype, **how)
            step, error = flat(x, **how)[0], np.abs(q.dequantize().to_numpy() - x)
            scale = np.broadcast_to(q.scale.to_numpy().reshape(-1)[:, None], step.shape).reshape(
                x.shape
            )
            room = (
                1.0 if q.zero_point is not None else 0.5
            )  # the range of a rounded zero point may end half a step early
            assert (error <= scale * (room + 1e-5)).all()


def test_scales_known_beforehand(device):
    x = cm.asarray(np.array([[0.5, 1.5, 2.5, -0.5], [300, -300, np.inf, np.nan]], F32))
    q = ml.quantize(x, "int8", scale=1.0)
    assert q.values.tolist() == [
        [0, 2, 2, 0],
        [127, -128, 127, 0],
    ]  # ties to even, what is too large, NaN
    q = ml.quantize(x, "int8", axis=0, scale=[0.5, 10], zero_point=[10, -5])
    assert (
        q.values.tolist() == [[11, 13, 15, 9], [25, -35, 127, -5]] and q.zero_point.dtype == np.int8
    )
    q = ml.quantize(x, "int4", scale=1.0)
    assert unpacked(q).tolist() == [[8, 10, 10, 8], [15, 0, 15, 8]]
    assert q.dequantize().tolist() == [[0, 2, 2, 0], [7, -8, 7, 0]]
    for dtype, top in (("float8_e4m3", 448), ("float8_e5m2", 57344)):
        got = (
            ml.quantize(cm.asarray(np.array([1e6, -np.inf, np.nan, 0.1], F32)), dtype, scale=1.0)
            .dequantize()
            .to_numpy()
        )
        assert got[0] == top and got[1] == -top and np.isnan(got[2]) and abs(got[3] - 0.1) < 0.01


def test_what_is_not_finite_hides_nothing(device):
    x = np.ones((3, 4), F32)
    x[0, 1], x[1, 2] = np.nan, np.inf
    for dtype in STORED:
        back = ml.quantize(cm.asarray(x), dtype, axis=0).dequantize().to_numpy()
        assert np.isnan(back[0]).all() and np.isnan(back[1]).any() and (back[2] == 1).all()


@pytest.mark.parametrize("symmetric", [True, False])
def test_torch_per_tensor_and_per_channel(device, symmetric):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(3).standard_normal((16, 64)).astype(F32)
    for axis in (None, 0, 1):
        q = ml.quantize(cm.asarray(x), "int8", axis=axis, symmetric=symmetric)
        scale = torch.from_numpy(q.scale.to_numpy().astype(F64))
        zero = torch.from_numpy(
            np.asarray(0 * q.scale.to_numpy() if symmetric else q.zero_point.to_numpy()).astype(
                "i8"
            )
        )
        if axis is None:
            theirs = (
                torch.quantize_per_tensor(torch.from_numpy(x), float(scale), int(zero), torch.qint8)
                .int_repr()
                .numpy()
            )
        else:
            theirs = (
                torch.quantize_per_channel(torch.from_numpy(x), scale, zero, axis, torch.qint8)
                .int_repr()
                .numpy()
            )
        ours = q.values.to_numpy()
        # torch multiplies by the reciprocal: one step apart where x / scale is halfway between two
        # integers
        by = (
            np.expand_dims(q.scale.to_numpy(), 1 - axis) if axis is not None else q.scale.to_numpy()
        )
        tie = np.abs(np.abs(x / by) % 1 - 0.5) < 1e-4
        np.testing.assert_array_equal(ours[~tie], theirs[~tie])
        assert tie.mean() < 0.01


# -------------------- float8


@pytest.mark.parametrize("kind", [E4M3, E5M2], ids=str)
def test_float8_casts(device, kind):
    every = np.arange(256, dtype=np.uint8).view(kind)
    x = cm.asarray(every)
    for target in (F32, F64, BF16, F16):
        np.testing.assert_array_equal(x.astype(target).to_numpy().astype(F32), every.astype(F32))
    finite = every.astype(F32)[np.isfinite(every.astype(F32))]
    between = np.sort(finite)
    between = (between[1:] + between[:-1]) / 2  # ties
    rng = np.random.default_rng(4)
    awkward = np.array(
        [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            448,
            464,
            465,
            1e9,
            57344,
            61440,
            61439,
            2.0**-17,
            3e-8,
            1e-40,
        ],
        F32,
    )
    spread = (rng.standard_normal(2000) * 10.0 ** rng.integers(-9, 6, 2000)).astype(F32)
    values = np.concatenate(
        [finite, between, np.nextafter(between, 1e9, dtype=F32), awkward, spread]
    )
    got = cm.asarray(values).astype(kind)
    assert got.dtype == kind
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got.to_numpy().astype(F32), values.astype(kind).astype(F32))
    assert np.signbit(cm.asarray(np.array([-0.0], F32)).astype(kind).to_numpy().astype(F32)).all()


@pytest.mark.parametrize("kind", [E4M3, E5M2], ids=str)
def test_float8_is_storage(device, kind):
    host = np.arange(12, dtype=F32).reshape(3, 4).astype(kind)
    x = cm.asarray(host)
    for got, expected in (
        (x.T, host.T),
        (x.reshape(4, 3), host.reshape(4, 3)),
        (x[1:, ::2], host[1:, ::2]),
        (x.T.copy(), host.T),
        (cm.flip(x), np.flip(host)),
        (x.view("uint8"), host.view(np.uint8)),
    ):
        np.testing.assert_array_equal(got.to_numpy().astype(F32), expected.astype(F32))
    assert kind.name in repr(x)
    with pytest.raises(TypeError, match="^add: wants"):
        x + x
    with pytest.raises(BufferError, match="no DLPack type"):
        x.__dlpack__()


# -------------------- products


@pytest.mark.parametrize(
    ("dtype", "how"), [w for w in WAYS if w[1].get("axis") in (None, 0)], ids=str
)
@pytest.mark.parametrize("kind", [F32, BF16, F16, F64], ids=str)
def test_linear_with_packed_weights(device, dtype, how, kind):
    """x is not rounded: the layer with the dequantized weight, in float64."""
    rng = np.random.default_rng(5)
    tolerance = {F64: 1e-6, F32: 2e-6, F16: 2.0**-10, BF16: 2.0**-7}[
        kind
    ]  # float64 too: weights are float32 numbers
    for rows, inner, out in (
        ((1,), 96, 40),
        ((), 64, 9),
        ((2, 5), 128, 24),
        ((9,), 160, 8),
        ((40,), 64, 33),
        ((0,), 32, 8),
    ):
        x, w = (
            rng.standard_normal((*rows, inner)).astype(kind),
            rng.standard_normal((out, inner)).astype(F32),
        )
        b, r = rng.standard_normal(out).astype(kind), rng.standard_normal((*rows, out)).astype(kind)
        q = ml.quantize(cm.asarray(w), dtype, **how)
        product = x.astype(F64) @ defined(w, dtype, **how)[3].astype(F64).T
        for bias, residual, activation in ((None, None, None), (b, r, "relu"), (b, None, "silu")):
            got = ml.linear(
                cm.asarray(x),
                q,
                None if bias is None else cm.asarray(bias),
                activation=activation,
                residual=None if residual is None else cm.asarray(residual),
            )
            z = product + (0 if bias is None else bias.astype(F64))
            z = {None: z, "relu": np.maximum(z, 0), "silu": z / (1 + np.exp(-z))}[activation]
            z = z + (0 if residual is None else residual.astype(F64))
            assert got.shape == (*rows, out) and got.dtype == kind
            if got.size:
                np.testing.assert_allclose(
                    got.to_numpy().astype(F64), z, rtol=tolerance, atol=tolerance * np.abs(z).max()
                )


def test_gradients_of_packed_weights(device):
    rng = np.random.default_rng(6)
    x, b, r = (cm.asarray(rng.standard_normal(s)) for s in ((2, 3, 32), 8, (2, 3, 8)))
    w = rng.standard_normal((8, 32)).astype(F32)
    for dtype, how in (
        ("int8", {"axis": 0}),
        ("int4", {"group": 16}),
        ("int4", {"group": 8, "symmetric": False}),
    ):
        q = ml.quantize(cm.asarray(w), dtype, **how)
        dense = cm.asarray(defined(w, dtype, **how)[3].astype(F64))

        def loss(x, b, r, weight):
            return (ml.linear(x, weight, b, activation="silu", residual=r) ** 2).sum()

        ours, dense_grads = (
            cm.grad(lambda x, b, r, w=weight: loss(x, b, r, w), (0, 1, 2))(x, b, r)
            for weight in (q, dense)
        )
        for got, expected in zip(ours, dense_grads, strict=True):
            np.testing.assert_allclose(got.to_numpy(), expected.to_numpy(), rtol=1e-10, atol=1e-10)

        def slope(weight, loss=loss):
            return lambda x: (cm.grad(lambda x: loss(x, b, r, weight))(x) ** 2).sum()

        np.testing.assert_allclose(
            cm.grad(slope(q))(x).to_numpy(),
            cm.grad(slope(dense))(x).to_numpy(),
            rtol=1e-9,
            atol=1e-9,
        )


@pytest.mark.parametrize("kind", [F32, BF16, F16], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3", "float8_e5m2"])
def test_linear_on_8_bits(device, dtype, kind):
    """x quantized row by row or by a given scale, multiplied exactly."""
    rng = np.random.default_rng(7)
    for rows, inner, out in (((5,), 64, 16), ((2, 3), 100, 24), ((), 32, 7), ((70,), 128, 40)):
        x, w = (
            rng.standard_normal((*rows, inner)).astype(kind),
            rng.standard_normal((out, inner)).astype(F32),
        )
        b = rng.standard_normal(out).astype(kind)
        q = ml.quantize(cm.asarray(w), dtype, axis=0)
        stored, by = unpacked(q).astype(F64), q.scale.to_numpy().astype(F64)
        for scale in (None, 0.03 if dtype == "int8" else 0.01):
            got = ml.linear_quantized(cm.asarray(x), q, cm.asarray(b), scale=scale)
            lines = x.reshape(-1, inner)
            if scale is None:
                mine, own, _, _ = defined(lines, dtype, axis=0)
            else:
                own = np.float32(scale).repeat(len(lines))
                value = lines.astype(F32) / own[:, None]
                mine = (
                    np.clip(np.rint(value), -128, 127)
                    if dtype == "int8"
                    else np.clip(value, *STORED[dtype][1:]).astype(STORED[dtype][0]).astype(F32)
                )
            z = (mine.astype(F64) @ stored.T) * own.astype(F64)[:, None] * by + b.astype(F64)
            # float8: sums keep some 14 bits on compute capability 9.0
            tolerance = {F32: 2e-6 if dtype == "int8" else 2.0**-11, F16: 2.0**-10, BF16: 2.0**-7}[
                kind
            ]
            np.testing.assert_allclose(
                got.to_numpy().astype(F64),
                z.reshape(*rows, out),
                rtol=tolerance,
                atol=tolerance * np.abs(z).max(),
            )
            assert got.dtype == kind


@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3", "float8_e5m2"])
def test_linear_on_8_bits_of_an_empty_batch(device, dtype):
    """As `linear`, also with a scale known beforehand and where a gradient is taken."""
    for axis in (0, None):
        q = ml.quantize(cm.ones((6, 8), "float32"), dtype, axis=axis)
        for shape in ((0, 8), (2, 0, 8), (0, 3, 8)):
            x, b = cm.zeros(shape, BF16), cm.ones(6, BF16)
            for scale in (None, 0.1):
                y, pull = cm.vjp(
                    lambda x, b, q=q, scale=scale: ml.linear_quantized(x, q, b, scale=scale), x, b
                )
                dx, db = pull(cm.ones_like(y))
                assert (
                    (y.shape, y.dtype)
                    == (ml.linear(x, q, b).shape, BF16)
                    == ((*shape[:-1], 6), BF16)
                )
                assert dx.shape == shape and db.tolist() == [0.0] * 6


def test_straight_through(device):
    rng = np.random.default_rng(8)
    x, w, b, g = (rng.standard_normal(s).astype(F32) for s in ((3, 16), (8, 16), 8, (3, 8)))
    q = ml.quantize(cm.asarray(w), "int8", axis=0)
    dx, db = cm.grad(lambda x, b: (ml.linear_quantized(x, q, b) * cm.asarray(g)).sum(), (0, 1))(
        cm.asarray(x), cm.asarray(b)
    )
    np.testing.assert_allclose(
        dx.to_numpy(), g @ defined(w, "int8", axis=0)[3], rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(db.to_numpy(), g.sum(0), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3", "float8_e5m2"])
def test_scaled_matmul(device, dtype):
    rng = np.random.default_rng(9)
    kind = STORED[dtype][0]
    for m, k, n in ((5, 64, 16), (130, 100, 264), (1, 32, 7), (0, 4, 8)):
        a, b = eight_bits(rng, kind, (m, k)), eight_bits(rng, kind, (n, k))
        for one in (True, False):
            sa, sb = (
                np.asarray(rng.random(() if one else count) * 0.01 + 0.01, F32) for count in (m, n)
            )
            for target in (BF16, F16, F32):
                for bias in (None, rng.standard_normal(n).astype(target)):
                    got = ml.scaled_matmul(
                        cm.asarray(a),
                        cm.asarray(b).T,
                        cm.asarray(sa),
                        cm.asarray(sb),
                        None if bias is None else cm.asarray(bias),
                        dtype=target,
                    )
                    z = (
                        a.astype(F64)
                        @ b.astype(F64).T
                        * (sa if one else sa[:, None]).astype(F64)
                        * sb.astype(F64)
                    )
                    z = z if bias is None else z + bias.astype(F64)
                    tolerance = {
                        F32: 2e-6 if dtype == "int8" else 2.0**-11,
                        F16: 2.0**-10,
                        BF16: 2.0**-7,
                    }[target]
                    assert got.shape == (m, n) and got.dtype == target
                    np.testing.assert_allclose(
                        got.to_numpy().astype(F64),
                        z,
                        rtol=tolerance,
                        atol=tolerance * np.abs(z).max(initial=0),
                    )


# -------------------- trees and files


def test_a_node_of_trees(device, tmp_path):
    w = cm.asarray(np.random.default_rng(10).standard_normal((8, 64)).astype(F32))
    params = {
        "a": ml.quantize(w, "int4", group=32),
        "b": ml.quantize(w, "float8_e4m3", axis=0),
        "c": ml.quantize(w, "int8", symmetric=False),
    }
    leaves, structure = optree.tree_flatten(params)
    assert [leaf.dtype.name for leaf in leaves] == [
        "uint8",
        "float32",
        "float8_e4m3fn",
        "float32",
        "int8",
        "float32",
        "int8",
    ]
    again = optree.tree_unflatten(structure, leaves)
    assert repr(again["a"]) == "Quantized((8, 64), int4, group=32)" and repr(again["c"]).endswith(
        "with zero points)"
    )
    assert again["a"].nbytes == 8 * 32 + 8 * 2 * 4 and again["b"].ndim == 2
    pytest.importorskip("safetensors")
    cm.save(tmp_path / "packed.safetensors", params)
    found = cm.load(tmp_path / "packed.safetensors", like=params)
    for name, q in params.items():
        np.testing.assert_array_equal(
            found[name].dequantize().to_numpy(), q.dequantize().to_numpy()
        )
        assert found[name].device == q.device
    np.testing.assert_array_equal(
        params["a"].to("cpu").dequantize().to_numpy(), params["a"].dequantize().to_numpy()
    )


# -------------------- errors


def test_errors(device):
    x, q = cm.zeros((4, 6), "float32"), ml.quantize(cm.ones((4, 6), "float32"), axis=0)
    for message, call in (
        (r"dtype is one of int8, int4, .*, got 'int3'", lambda: ml.quantize(x, "int3")),
        ("wants floating-point arrays, got int64", lambda: ml.quantize([1, 2])),
    ):
        with pytest.raises(TypeError, match="^quantize: " + message):
            call()
    for message, call in (
        (r"an empty array of shape \(0, 3\)", lambda: ml.quantize(cm.zeros((0, 3), "float32"))),
        ("axis 2 is out of bounds for an array of 2 dimensions", lambda: ml.quantize(x, axis=2)),
        (
            r"group=4 does not divide the last axis of shape \(4, 6\)",
            lambda: ml.quantize(x, group=4),
        ),
        (
            r"group=3 takes no axis but 0 of a matrix, got axis=1",
            lambda: ml.quantize(x, group=3, axis=1),
        ),
        (
            r"int4 wants an even number along the last axis, got shape \(4, 3\)",
            lambda: ml.quantize(x[:, :3], "int4"),
        ),
        ("float8_e4m3 has no zero points", lambda: ml.quantize(x, "float8_e4m3", symmetric=False)),
        ("a zero_point wants a scale", lambda: ml.quantize(x, zero_point=3)),
        (
            r"wants a scale of shape \(4,\), got \(6,\)",
            lambda: ml.quantize(x, axis=0, scale=cm.ones(6)),
        ),
        (
            r"wants a zero_point of shape \(\), got \(1,\)",
            lambda: ml.quantize(x, scale=1.0, zero_point=[1]),
        ),
    ):
        with pytest.raises(ValueError, match="^quantize: .*" + message):
            call()
    with pytest.raises(TypeError, match="^dequantize: wants what quantize returns, got ndarray"):
        ml.dequantize(x)
    with pytest.raises(TypeError, match="^dequantize: wants a floating-point dtype, got int32"):
        ml.dequantize(q, "int32")
    with pytest.raises(ValueError, match=r"^linear: wants x .* got \(2, 5\) and \(4, 6\)"):
        ml.linear(cm.zeros((2, 5)), q)
    with pytest.raises(
        ValueError, match="^linear: a quantized weight .* wants axis=0 or groups, got axis=1"
    ):
        ml.linear(x, ml.quantize(cm.ones((4, 6)), axis=1))
    with pytest.raises(ValueError, match=r"^linear: .* wants a bias of shape \(4,\), got \(6,\)"):
        ml.linear(x, q, cm.zeros(6, "float32"))


def test_errors_of_products_of_8_bits(device):
    x, q = cm.zeros((4, 6), "float32"), ml.quantize(cm.ones((4, 6), "float32"), axis=0)
    with pytest.raises(
        TypeError, match="^linear_quantized: the weight is what quantize returns, got ndarray"
    ):
        ml.linear_quantized(x, x)
    with pytest.raises(TypeError, match="^linear_quantized: int4 weights are for linear"):
        ml.linear_quantized(x, ml.quantize(x, "int4"))
    with pytest.raises(
        TypeError, match="^linear_quantized: x float32 wants a bias of its dtype, got float64"
    ):
        ml.linear_quantized(x, q, cm.zeros(4, "float64"))
    for message, call in (
        ("wants a symmetric weight", lambda: ml.linear_quantized(x, ml.quantize(x, group=3))),
        (
            "wants a symmetric weight",
            lambda: ml.linear_quantized(x, ml.quantize(x, symmetric=False)),
        ),
        (r"wants x .* got \(4, 5\) and \(4, 6\)", lambda: ml.linear_quantized(x[:, :5], q)),
        (
            r"wants a bias of shape \(4,\), got \(6,\)",
            lambda: ml.linear_quantized(x, q, cm.zeros(6, "float32")),
        ),
        (
            r"x's scale is one number, got shape \(4,\)",
            lambda: ml.linear_quantized(x, q, scale=cm.ones(4)),
        ),
    ):
        with pytest.raises(ValueError, match="^linear_quantized: .*" + message):
            call()
    a, b, one = cm.ones((2, 4), "int8"), cm.ones((4, 3), "int8"), cm.asarray(1.0, "float32")
    for message, call in (
        (
            "wants two matrices of int8 or of one float8 dtype, got int8 and float8_e5m2",
            lambda: ml.scaled_matmul(a, b.astype("float32").astype("float8_e5m2"), one, one),
        ),
        ("got float32 and float32", lambda: ml.scaled_matmul(x, x.T, one, one)),
        (
            "the result is floating-point, got int32",
            lambda: ml.scaled_matmul(a, b, one, one, dtype="int32"),
        ),
        (
            "scale_b is float32, got float64",
            lambda: ml.scaled_matmul(a, b, one, one.astype("float64")),
        ),
        (
            "a result of bfloat16 wants a bias of its dtype, got float32",
            lambda: ml.scaled_matmul(a, b, one, one, cm.zeros(3, "float32")),
        ),
    ):
        with pytest.raises(TypeError, match="^scaled_matmul: .*" + message):
            call()
    for message, call in (
        (
            r"wants a \(m, k\) and b \(k, n\), got \(2, 4\) and \(2, 4\)",
            lambda: ml.scaled_matmul(a, a, one, one),
        ),
        (
            r"want a scale_a of shape \(\) or \(2,\), got \(3,\)",
            lambda: ml.scaled_matmul(a, b, cm.ones(3, "float32"), one),
        ),
        (
            r"wants a bias of shape \(3,\), got \(2,\)",
            lambda: ml.scaled_matmul(a, b, one, one, cm.zeros(2, "float32"), dtype="float32"),
        ),
    ):
        with pytest.raises(ValueError, match="^scaled_matmul: .*" + message):
            call()
