"""Quantization: stored integers and values against their definition, products against float64, versions by name, errors."""

import functools

import ml_dtypes
import numpy as np
import optree
import pytest
from differences import check_resources, run_version, versions

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.core.plan import Launch
from cudamath.kernels import build
from cudamath.runtime.device import assume

ml = cm.ml
BF16, F16, F32, F64 = np.dtype(ml_dtypes.bfloat16), np.dtype("f2"), np.dtype("f4"), np.dtype("f8")
E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
STORED = {"int8": (np.dtype("i1"), -128, 127), "int4": (np.dtype("u1"), 0, 15), "float8_e4m3": (E4M3, -448, 448),
          "float8_e5m2": (E5M2, -57344, 57344)}
FORMS = {"int8": "int8", "int4": "int4", "float8_e4m3": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}
WAYS = [("int8", {}), ("int8", {"axis": 0}), ("int8", {"axis": 1}), ("int8", {"axis": -1, "symmetric": False}),
        ("int8", {"group": 8}), ("int4", {}), ("int4", {"axis": 0, "symmetric": False}), ("int4", {"group": 16}),
        ("int4", {"group": 8, "symmetric": False}), ("float8_e4m3", {}), ("float8_e4m3", {"axis": 0}),
        ("float8_e5m2", {"axis": 0}), ("float8_e5m2", {"group": 32})]


def flat(x, axis=None, group=None, **_):
    """x as (outer, channels, inner), and the shape of its scales: written from the documentation, not from the code."""
    if group is not None:
        return x.reshape(1, -1, group), (*x.shape[:-1], x.shape[-1] // group)
    if axis is None:
        return x.reshape(1, 1, -1), ()
    axis %= x.ndim
    before, after = int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis + 1:]))
    return x.reshape(before, x.shape[axis], after), (x.shape[axis],)


def defined(x, dtype, symmetric=True, **how):
    """(stored integers or floats unpacked, scale, zero point or None, values) by the definition, in float32."""
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
    return stored.reshape(x.shape), scale.reshape(shape), None if symmetric else zero.reshape(shape), values


def unpacked(q):
    values = q.values.to_numpy()
    if q.dtype == "int4":
        values = np.stack([values & 15, values >> 4], -1).reshape(q.shape)
    return values.astype(F32)


# ---------------------------------------------------------------- quantize, dequantize


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
            scale = np.broadcast_to(q.scale.to_numpy().reshape(-1)[:, None], step.shape).reshape(x.shape)
            room = 1.0 if q.zero_point is not None else 0.5  # the range of a rounded zero point may end half a step early
            assert (error <= scale * (room + 1e-5)).all()


def test_scales_known_beforehand(device):
    x = cm.asarray(np.array([[0.5, 1.5, 2.5, -0.5], [300, -300, np.inf, np.nan]], F32))
    q = ml.quantize(x, "int8", scale=1.0)
    assert q.values.tolist() == [[0, 2, 2, 0], [127, -128, 127, 0]]  # ties to even, what is too large, NaN
    q = ml.quantize(x, "int8", axis=0, scale=[0.5, 10], zero_point=[10, -5])
    assert q.values.tolist() == [[11, 13, 15, 9], [25, -35, 127, -5]] and q.zero_point.dtype == np.int8
    q = ml.quantize(x, "int4", scale=1.0)
    assert unpacked(q).tolist() == [[8, 10, 10, 8], [15, 0, 15, 8]]
    assert q.dequantize().tolist() == [[0, 2, 2, 0], [7, -8, 7, 0]]
    for dtype, top in (("float8_e4m3", 448), ("float8_e5m2", 57344)):
        got = ml.quantize(cm.asarray(np.array([1e6, -np.inf, np.nan, 0.1], F32)), dtype, scale=1.0).dequantize().to_numpy()
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
        zero = torch.from_numpy(np.asarray(0 * q.scale.to_numpy() if symmetric else q.zero_point.to_numpy()).astype("i8"))
        if axis is None:
            theirs = torch.quantize_per_tensor(torch.from_numpy(x), float(scale), int(zero), torch.qint8).int_repr().numpy()
        else:
            theirs = torch.quantize_per_channel(torch.from_numpy(x), scale, zero, axis, torch.qint8).int_repr().numpy()
        ours = q.values.to_numpy()
        # torch multiplies by the reciprocal: one step apart where x / scale is halfway between two integers
        by = np.expand_dims(q.scale.to_numpy(), 1 - axis) if axis is not None else q.scale.to_numpy()
        tie = np.abs(np.abs(x / by) % 1 - 0.5) < 1e-4
        np.testing.assert_array_equal(ours[~tie], theirs[~tie])
        assert tie.mean() < 0.01


# ---------------------------------------------------------------- float8


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
    awkward = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 465, 1e9, 57344, 61440, 61439, 2.0**-17, 3e-8, 1e-40],
                       F32)
    spread = (rng.standard_normal(2000) * 10.0 ** rng.integers(-9, 6, 2000)).astype(F32)
    values = np.concatenate([finite, between, np.nextafter(between, 1e9, dtype=F32), awkward, spread])
    got = cm.asarray(values).astype(kind)
    assert got.dtype == kind
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got.to_numpy().astype(F32), values.astype(kind).astype(F32))
    assert np.signbit(cm.asarray(np.array([-0.0], F32)).astype(kind).to_numpy().astype(F32)).all()


@pytest.mark.parametrize("kind", [E4M3, E5M2], ids=str)
def test_float8_is_storage(device, kind):
    host = np.arange(12, dtype=F32).reshape(3, 4).astype(kind)
    x = cm.asarray(host)
    for got, expected in ((x.T, host.T), (x.reshape(4, 3), host.reshape(4, 3)), (x[1:, ::2], host[1:, ::2]),
                          (x.T.copy(), host.T), (cm.flip(x), np.flip(host)), (x.view("uint8"), host.view(np.uint8))):
        np.testing.assert_array_equal(got.to_numpy().astype(F32), expected.astype(F32))
    assert kind.name in repr(x)
    with pytest.raises(TypeError, match="^add: wants"):
        x + x
    with pytest.raises(BufferError, match="no DLPack type"):
        x.__dlpack__()


# ---------------------------------------------------------------- products


@pytest.mark.parametrize(("dtype", "how"), [w for w in WAYS if w[1].get("axis") in (None, 0)], ids=str)
@pytest.mark.parametrize("kind", [F32, BF16, F16, F64], ids=str)
def test_linear_with_packed_weights(device, dtype, how, kind):
    """x is not rounded: the layer with the dequantized weight, in float64."""
    rng = np.random.default_rng(5)
    tolerance = {F64: 1e-6, F32: 2e-6, F16: 2.0**-10, BF16: 2.0**-7}[kind]  # float64 too: weights are float32 numbers
    for rows, inner, out in (((1,), 96, 40), ((), 64, 9), ((2, 5), 128, 24), ((9,), 160, 8), ((40,), 64, 33), ((0,), 32, 8)):
        x, w = rng.standard_normal((*rows, inner)).astype(kind), rng.standard_normal((out, inner)).astype(F32)
        b, r = rng.standard_normal(out).astype(kind), rng.standard_normal((*rows, out)).astype(kind)
        q = ml.quantize(cm.asarray(w), dtype, **how)
        product = x.astype(F64) @ defined(w, dtype, **how)[3].astype(F64).T
        for bias, residual, activation in ((None, None, None), (b, r, "relu"), (b, None, "silu")):
            got = ml.linear(cm.asarray(x), q, None if bias is None else cm.asarray(bias), activation=activation,
                            residual=None if residual is None else cm.asarray(residual))
            z = product + (0 if bias is None else bias.astype(F64))
            z = {None: z, "relu": np.maximum(z, 0), "silu": z / (1 + np.exp(-z))}[activation]
            z = z + (0 if residual is None else residual.astype(F64))
            assert got.shape == (*rows, out) and got.dtype == kind
            if got.size:
                np.testing.assert_allclose(got.to_numpy().astype(F64), z, rtol=tolerance, atol=tolerance * np.abs(z).max())


def test_gradients_of_packed_weights(device):
    rng = np.random.default_rng(6)
    x, b, r = (cm.asarray(rng.standard_normal(s)) for s in ((2, 3, 32), 8, (2, 3, 8)))
    w = rng.standard_normal((8, 32)).astype(F32)
    for dtype, how in (("int8", {"axis": 0}), ("int4", {"group": 16}), ("int4", {"group": 8, "symmetric": False})):
        q = ml.quantize(cm.asarray(w), dtype, **how)
        dense = cm.asarray(defined(w, dtype, **how)[3].astype(F64))

        def loss(x, b, r, weight):
            return (ml.linear(x, weight, b, activation="silu", residual=r) ** 2).sum()

        ours, dense_grads = (cm.grad(lambda x, b, r, w=weight: loss(x, b, r, w), (0, 1, 2))(x, b, r) for weight in (q, dense))
        for got, expected in zip(ours, dense_grads, strict=True):
            np.testing.assert_allclose(got.to_numpy(), expected.to_numpy(), rtol=1e-10, atol=1e-10)

        def slope(weight, loss=loss):
            return lambda x: (cm.grad(lambda x: loss(x, b, r, weight))(x) ** 2).sum()

        np.testing.assert_allclose(cm.grad(slope(q))(x).to_numpy(), cm.grad(slope(dense))(x).to_numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [F32, BF16, F16], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3", "float8_e5m2"])
def test_linear_on_8_bits(device, dtype, kind):
    """x quantized row by row or by a given scale, multiplied exactly."""
    rng = np.random.default_rng(7)
    for rows, inner, out in (((5,), 64, 16), ((2, 3), 100, 24), ((), 32, 7), ((70,), 128, 40)):
        x, w = rng.standard_normal((*rows, inner)).astype(kind), rng.standard_normal((out, inner)).astype(F32)
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
                mine = np.clip(np.rint(value), -128, 127) if dtype == "int8" else np.clip(
                    value, *STORED[dtype][1:]).astype(STORED[dtype][0]).astype(F32)
            z = (mine.astype(F64) @ stored.T) * own.astype(F64)[:, None] * by + b.astype(F64)
            # float8: sums keep some 14 bits on compute capability 9.0
            tolerance = {F32: 2e-6 if dtype == "int8" else 2.0**-11, F16: 2.0**-10, BF16: 2.0**-7}[kind]
            np.testing.assert_allclose(got.to_numpy().astype(F64), z.reshape(*rows, out), rtol=tolerance,
                                       atol=tolerance * np.abs(z).max())
            assert got.dtype == kind


def test_straight_through(device):
    rng = np.random.default_rng(8)
    x, w, b, g = (rng.standard_normal(s).astype(F32) for s in ((3, 16), (8, 16), 8, (3, 8)))
    q = ml.quantize(cm.asarray(w), "int8", axis=0)
    dx, db = cm.grad(lambda x, b: (ml.linear_quantized(x, q, b) * cm.asarray(g)).sum(), (0, 1))(cm.asarray(x), cm.asarray(b))
    np.testing.assert_allclose(dx.to_numpy(), g @ defined(w, "int8", axis=0)[3], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(db.to_numpy(), g.sum(0), rtol=1e-5)


def eight_bits(rng, kind, shape):
    return (rng.integers(-127, 128, shape) if kind == np.int8 else rng.standard_normal(shape)).astype(kind)


@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3", "float8_e5m2"])
def test_scaled_matmul(device, dtype):
    rng = np.random.default_rng(9)
    kind = STORED[dtype][0]
    for m, k, n in ((5, 64, 16), (130, 100, 264), (1, 32, 7), (0, 4, 8)):
        a, b = eight_bits(rng, kind, (m, k)), eight_bits(rng, kind, (n, k))
        for one in (True, False):
            sa, sb = (np.asarray(rng.random(() if one else count) * 0.01 + 0.01, F32) for count in (m, n))
            for target in (BF16, F16, F32):
                for bias in (None, rng.standard_normal(n).astype(target)):
                    got = ml.scaled_matmul(cm.asarray(a), cm.asarray(b).T, cm.asarray(sa), cm.asarray(sb),
                                           None if bias is None else cm.asarray(bias), dtype=target)
                    z = a.astype(F64) @ b.astype(F64).T * (sa if one else sa[:, None]).astype(F64) * sb.astype(F64)
                    z = z if bias is None else z + bias.astype(F64)
                    tolerance = {F32: 2e-6 if dtype == "int8" else 2.0**-11, F16: 2.0**-10, BF16: 2.0**-7}[target]
                    assert got.shape == (m, n) and got.dtype == target
                    np.testing.assert_allclose(got.to_numpy().astype(F64), z, rtol=tolerance,
                                               atol=tolerance * np.abs(z).max(initial=0))


# ---------------------------------------------------------------- trees and files


def test_a_node_of_trees(device, tmp_path):
    w = cm.asarray(np.random.default_rng(10).standard_normal((8, 64)).astype(F32))
    params = {"a": ml.quantize(w, "int4", group=32), "b": ml.quantize(w, "float8_e4m3", axis=0),
              "c": ml.quantize(w, "int8", symmetric=False)}
    leaves, structure = optree.tree_flatten(params)
    assert [leaf.dtype.name for leaf in leaves] == ["uint8", "float32", "float8_e4m3fn", "float32", "int8", "float32", "int8"]
    again = optree.tree_unflatten(structure, leaves)
    assert repr(again["a"]) == "Quantized((8, 64), int4, group=32)" and repr(again["c"]).endswith("with zero points)")
    assert again["a"].nbytes == 8 * 32 + 8 * 2 * 4 and again["b"].ndim == 2
    pytest.importorskip("safetensors")
    cm.save(tmp_path / "packed.safetensors", params)
    found = cm.load(tmp_path / "packed.safetensors", like=params)
    for name, q in params.items():
        np.testing.assert_array_equal(found[name].dequantize().to_numpy(), q.dequantize().to_numpy())
        assert found[name].device == q.device
    np.testing.assert_array_equal(params["a"].to("cpu").dequantize().to_numpy(), params["a"].dequantize().to_numpy())


# ---------------------------------------------------------------- errors


def test_errors(device):
    x, q = cm.zeros((4, 6), "float32"), ml.quantize(cm.ones((4, 6), "float32"), axis=0)
    for message, call in (
            (r"dtype is one of int8, int4, .*, got 'int3'", lambda: ml.quantize(x, "int3")),
            ("wants floating-point arrays, got int64", lambda: ml.quantize([1, 2]))):
        with pytest.raises(TypeError, match="^quantize: " + message):
            call()
    for message, call in (
            (r"an empty array of shape \(0, 3\)", lambda: ml.quantize(cm.zeros((0, 3), "float32"))),
            (r"axis 2 of an array of shape \(4, 6\)", lambda: ml.quantize(x, axis=2)),
            (r"group=4 does not divide the last axis of shape \(4, 6\)", lambda: ml.quantize(x, group=4)),
            (r"group=3 takes no axis but 0 of a matrix, got axis=1", lambda: ml.quantize(x, group=3, axis=1)),
            (r"int4 wants an even number along the last axis, got shape \(4, 3\)", lambda: ml.quantize(x[:, :3], "int4")),
            ("float8_e4m3 has no zero points", lambda: ml.quantize(x, "float8_e4m3", symmetric=False)),
            ("a zero_point wants a scale", lambda: ml.quantize(x, zero_point=3)),
            (r"wants a scale of shape \(4,\), got \(6,\)", lambda: ml.quantize(x, axis=0, scale=cm.ones(6))),
            (r"wants a zero_point of shape \(\), got \(1,\)", lambda: ml.quantize(x, scale=1.0, zero_point=[1]))):
        with pytest.raises(ValueError, match="^quantize: .*" + message):
            call()
    with pytest.raises(TypeError, match="^dequantize: wants what quantize returns, got ndarray"):
        ml.dequantize(x)
    with pytest.raises(TypeError, match="^dequantize: wants a floating-point dtype, got int32"):
        ml.dequantize(q, "int32")
    with pytest.raises(ValueError, match=r"^linear: wants x .* got \(2, 5\) and \(4, 6\)"):
        ml.linear(cm.zeros((2, 5)), q)
    with pytest.raises(ValueError, match="^linear: a quantized weight .* wants axis=0 or groups, got axis=1"):
        ml.linear(x, ml.quantize(cm.ones((4, 6)), axis=1))
    with pytest.raises(ValueError, match=r"^linear: .* wants a bias of shape \(4,\), got \(6,\)"):
        ml.linear(x, q, cm.zeros(6, "float32"))


def test_errors_of_products_of_8_bits(device):
    x, q = cm.zeros((4, 6), "float32"), ml.quantize(cm.ones((4, 6), "float32"), axis=0)
    with pytest.raises(TypeError, match="^linear_quantized: the weight is what quantize returns, got ndarray"):
        ml.linear_quantized(x, x)
    with pytest.raises(TypeError, match="^linear_quantized: int4 weights are for linear"):
        ml.linear_quantized(x, ml.quantize(x, "int4"))
    with pytest.raises(TypeError, match="^linear_quantized: x float32 wants a bias of its dtype, got float64"):
        ml.linear_quantized(x, q, cm.zeros(4, "float64"))
    for message, call in (
            ("wants a symmetric weight", lambda: ml.linear_quantized(x, ml.quantize(x, group=3))),
            ("wants a symmetric weight", lambda: ml.linear_quantized(x, ml.quantize(x, symmetric=False))),
            (r"wants x .* got \(4, 5\) and \(4, 6\)", lambda: ml.linear_quantized(x[:, :5], q)),
            (r"wants a bias of shape \(4,\), got \(6,\)", lambda: ml.linear_quantized(x, q, cm.zeros(6, "float32"))),
            (r"x's scale is one number, got shape \(4,\)", lambda: ml.linear_quantized(x, q, scale=cm.ones(4)))):
        with pytest.raises(ValueError, match="^linear_quantized: .*" + message):
            call()
    a, b, one = cm.ones((2, 4), "int8"), cm.ones((4, 3), "int8"), cm.asarray(1.0, "float32")
    for message, call in (
            ("wants two matrices of int8 or of one float8 dtype, got int8 and float8_e5m2",
             lambda: ml.scaled_matmul(a, b.astype("float32").astype("float8_e5m2"), one, one)),
            ("got float32 and float32", lambda: ml.scaled_matmul(x, x.T, one, one)),
            ("the result is floating-point, got int32", lambda: ml.scaled_matmul(a, b, one, one, dtype="int32")),
            ("scale_b is float32, got float64", lambda: ml.scaled_matmul(a, b, one, one.astype("float64"))),
            ("a result of bfloat16 wants a bias of its dtype, got float32",
             lambda: ml.scaled_matmul(a, b, one, one, cm.zeros(3, "float32")))):
        with pytest.raises(TypeError, match="^scaled_matmul: .*" + message):
            call()
    for message, call in (
            (r"wants a \(m, k\) and b \(k, n\), got \(2, 4\) and \(2, 4\)", lambda: ml.scaled_matmul(a, a, one, one)),
            (r"want a scale_a of shape \(\) or \(2,\), got \(3,\)", lambda: ml.scaled_matmul(a, b, cm.ones(3, "float32"), one)),
            (r"wants a bias of shape \(3,\), got \(2,\)",
             lambda: ml.scaled_matmul(a, b, one, one, cm.zeros(2, "float32"), dtype="float32"))):
        with pytest.raises(ValueError, match="^scaled_matmul: .*" + message):
            call()


# ---------------------------------------------------------------- versions by name


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize(("machine", "version"), versions("plain", "wide"))
def test_versions(machine, version, dtype, zeros):
    from cudamath.kernels import quantize

    if zeros and not dtype.startswith("int"):
        return
    rng = np.random.default_rng(11)
    x = (rng.standard_normal((4, 16)) * 4).astype(F32)
    x[1, :4] = [np.nan, 1e4, -1e4, 0]
    _, scale, zero, _ = defined(np.nan_to_num(x), dtype, symmetric=not zeros, axis=0)
    kind, low, high = STORED[dtype]
    by = np.minimum(scale, 0.05).astype(F32)
    at = np.float32(8 if dtype == "int4" else 0) if zero is None else zero[:, None]
    value = x / by[:, None]
    if dtype.startswith("int"):
        expected = np.clip(np.rint(np.nan_to_num(value, nan=0.0)) + at, low, high)
    else:
        expected = np.clip(value, low, high).astype(kind).astype(F32)
    more = [] if zero is None else [zero.astype("u1" if dtype == "int4" else "i1")]
    form = functools.partial(quantize.quantize, form=FORMS[dtype], inner=16, version=version)
    got = run_version(machine, form, x, by, *more)
    spread = np.stack([got & 15, got >> 4], -1).reshape(x.shape) if dtype == "int4" else got
    np.testing.assert_array_equal(spread.astype(F32), expected)
    form = functools.partial(quantize.dequantize, form=FORMS[dtype], inner=16, dtype=BF16, version=version)
    back = run_version(machine, form, np.ascontiguousarray(got), by, *more)
    np.testing.assert_array_equal(back.astype(F32), ((expected - at) * by[:, None]).astype(BF16).astype(F32))


@pytest.mark.parametrize("form", ["int8", "float8_e4m3"])
@pytest.mark.parametrize(("machine", "version"), versions("plain", "rows"))
def test_rows_by_name(machine, version, form):
    from cudamath.kernels import quantize

    x = np.random.default_rng(12).standard_normal((3, 100)).astype(F32)
    x[1] = 0
    planner = functools.partial(quantize.quantize_row, form=FORMS[form], version=version)
    if version == "plain" or machine == "gpu":
        stored, by = run_version(machine, planner, x)
        expected, scale, _, _ = defined(x, form, axis=0)
        np.testing.assert_array_equal(by, scale)
        np.testing.assert_array_equal(stored.astype(F32), expected)


@pytest.mark.simulator
def test_products_in_the_simulator():
    """More rows or other dtypes than the packed kernel takes: dequantized first. And sums brought back to scale."""
    from cudamath.kernels import linear_quantized, scaled_matmul
    from cudamath.testing import layout_of, simulate

    rng = np.random.default_rng(13)
    x, w = rng.standard_normal((3, 16)).astype(F32), rng.standard_normal((5, 16)).astype(F32)
    stored, scale, _, values = defined(w, "int8", axis=0)
    arrays = [x, stored.astype("i1"), scale]
    with assume((7, 5)):
        plan = linear_quantized.linear_quantized(*map(layout_of, arrays), None, None, None, form="int8", group=0, activation="")
    np.testing.assert_allclose(simulate(plan, *arrays), x @ values.T, rtol=1e-5, atol=1e-5)
    a, b = rng.integers(-9, 9, (3, 8)).astype("i1"), rng.integers(-9, 9, (8, 5)).astype("i1")
    arrays = [a, b, np.full(3, 0.5, F32), np.array([2], F32)]
    with assume((7, 5)):
        plan = scaled_matmul.scaled_matmul(*map(layout_of, arrays), dtype=F32)
    np.testing.assert_allclose(simulate(plan, *arrays), a.astype(F32) @ b.astype(F32), rtol=1e-6)


def packed_plan(rows, out, depth, dtype, group, zeros=False, version=None, kind=BF16, more=False, activation=""):
    """A plan of a layer with packed weights and the layouts it takes."""
    from cudamath.kernels.linear_quantized import linear_quantized

    def new(shape, dtype):
        return Layout.new(shape, np.dtype(dtype), 0)

    scales = out * depth // group if group else out
    layouts = [new((rows, depth), kind), new((out, depth // 2 if dtype == "int4" else depth), STORED[dtype][0]),
               new((scales,), F32), new((scales,), "u1" if dtype == "int4" else "i1") if zeros else None,
               new((out,), kind) if more else None, new((rows, out), kind) if more else None]
    plan = linear_quantized(*layouts, form=FORMS[dtype], group=group, activation=activation, version=version)
    return plan, [x for x in layouts if x is not None]


def names(plan):
    return [step.kernel.__name__ for step in plan.steps if isinstance(step, Launch)]


@pytest.mark.skipif(build.SIMULATOR, reason="planned without the simulator")
def test_which_version():
    with assume((9, 0)):
        assert names(packed_plan(1, 768, 768, "int8", 0)[0]) == ["gemv"]
        assert names(packed_plan(16, 50257, 768, "int4", 128)[0]) == ["gemv"]
        assert names(packed_plan(1, 768, 768, "float8_e4m3", 0)[0]) == ["gemv_e4m3"]
        for rows, depth, group, kind in ((17, 768, 0, BF16), (1, 768, 0, F32), (1, 770, 0, BF16), (1, 768, 16, BF16)):
            plan, _ = packed_plan(rows, 64, depth, "int8", group, kind=kind)
            assert len(plan.steps) > 1 and names(plan)[0].startswith("dequantize") and "dequantized first" in plan.why
    with assume((8, 0)):
        assert names(packed_plan(1, 768, 768, "float8_e5m2", 0)[0]) == ["gemv"]
        assert names(packed_plan(1, 768, 768, "float8_e4m3", 0)[0])[0].startswith("dequantize")
    with assume((7, 5)):
        assert names(packed_plan(1, 768, 768, "int8", 0)[0])[0].startswith("dequantize")


@pytest.mark.slow
@pytest.mark.skipif(build.SIMULATOR, reason="the simulator does not compile")
def test_no_spills():
    with assume((9, 0)):
        for rows, dtype, group, zeros in ((1, "int8", 0, False), (16, "int4", 128, True)):
            plan, layouts = packed_plan(rows, 4096, 1024, dtype, group, zeros, more=True, activation="gelu")
            check_resources(plan, layouts, (9, 0))


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["gemv", "gemv 4x1", "gemv 16x1", "gemv 8x2", "gemv 4x4", "steps"])
@pytest.mark.parametrize(("dtype", "group", "zeros"), [
    ("int8", 0, False), ("int8", 64, True), ("int4", 0, False), ("int4", 128, True), ("int4", 64, False),
    ("float8_e4m3", 0, False), ("float8_e4m3", 128, False), ("float8_e5m2", 0, False)])
def test_packed_versions_on_the_gpu(version, dtype, group, zeros):
    rng = np.random.default_rng(14)
    how = {"group": group} if group else {"axis": 0}
    for rows, out, depth in ((1, 100, 640), (8, 64, 128), (9, 50, 256), (16, 77, 384)):
        for kind in (BF16, F16) if rows == 9 else (BF16,):
            wanted = (((rows, depth), kind), ((out, depth), F32), (out, kind), ((rows, out), kind))
            x, w, b, r = (rng.standard_normal(s).astype(t) for s, t in wanted)
            more = rows > 1
            plan, layouts = packed_plan(rows, out, depth, dtype, group, zeros, version, kind, more, "relu" if more else "")
            q = ml.quantize(cm.asarray(w, device="cuda"), dtype, symmetric=not zeros, **how)
            given = [cm.asarray(x, device="cuda"), q.values, q.scale.reshape(-1)]
            given += [q.zero_point.reshape(-1)] if zeros else []
            given += [cm.asarray(b, device="cuda"), cm.asarray(r, device="cuda")] if more else []
            run = plan.bind("packed", layouts)
            got, again = run(*given).to_numpy(), run(*given).to_numpy()
            np.testing.assert_array_equal(got.view("u2"), again.view("u2"))
            z = x.astype(F64) @ defined(w, dtype, symmetric=not zeros, **how)[3].astype(F64).T
            z = np.maximum(z + b.astype(F64), 0) + r.astype(F64) if more else z
            tolerance = {F16: 2.0**-10, BF16: 2.0**-7}[kind]
            np.testing.assert_allclose(got.astype(F64), z, rtol=tolerance, atol=tolerance * np.abs(z).max())


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [BF16, F16], ids=str)
def test_few_rows_times_16_bits(kind):
    from cudamath.kernels.linear_quantized import gemv_same

    rng = np.random.default_rng(15)
    for rows, out, depth in ((1, 100, 640), (8, 64, 72), (16, 77, 384)):
        for version in ("gemv", "gemv 16x1", "gemv 4x4"):
            x, w, b, r = (rng.standard_normal(s).astype(kind) for s in ((rows, depth), (out, depth), (out,), (rows, out)))
            there = [cm.asarray(a, device="cuda") for a in (x, w, b, r)]
            layouts = [a._layout for a in there]
            got = gemv_same(*layouts, activation="relu", version=version).bind("same", layouts)(*there).to_numpy()
            z = np.maximum(x.astype(F64) @ w.astype(F64).T + b.astype(F64), 0) + r.astype(F64)
            tolerance = {F16: 2.0**-10, BF16: 2.0**-7}[kind]
            np.testing.assert_allclose(got.astype(F64), z, rtol=tolerance, atol=tolerance * np.abs(z).max())


@pytest.mark.gpu
@pytest.mark.parametrize("tile", ["128x256", "128x192", "128x128", "128x128 pingpong", "64x256 pingpong", "64x128", "64x64"])
@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3", "float8_e5m2"])
def test_scaled_tiles_on_the_gpu(tile, dtype):
    from cudamath.kernels.scaled_matmul import scaled_matmul

    if cm.cuda.devices()[0].capability != (9, 0):
        pytest.skip("compute capability 9.0")
    rng = np.random.default_rng(16)
    kind = STORED[dtype][0]
    for m, n, k in ((200, 264, 400), (64, 128, 1024)):
        a, b = eight_bits(rng, kind, (m, k)), eight_bits(rng, kind, (n, k))
        sa, sb = (rng.random(m) * 0.01).astype(F32), (rng.random(n) * 0.01).astype(F32)
        there = [cm.asarray(v, device="cuda") for v in (a, b, sa, sb)]
        there[1] = there[1].T
        layouts = [v._layout for v in there]
        got = scaled_matmul(*layouts, dtype=BF16, version=f"wgmma {tile}").bind("scaled", layouts)(*there).to_numpy()
        z = a.astype(F64) @ b.astype(F64).T * sa[:, None] * sb
        np.testing.assert_allclose(got.astype(F64), z, rtol=2.0**-7, atol=2.0**-8 * np.abs(z).max())


# ---------------------------------------------------------------- a language model


def test_a_language_model(device):
    """A small GPT that has learnt a text: its loss with quantized weights is nearly the same, and it writes the text."""
    from cudamath.models import gpt2, quantized, sampling, training

    config = gpt2.Config(vocabulary=32, context=32, layers=2, heads=2, width=64)
    text = np.tile(np.random.default_rng(17).permutation(32)[:23], 40)
    at = np.arange(8)[:, None] * 11 + np.arange(33)
    tokens, targets = text[at[:, :-1]], text[at[:, 1:]]
    trainer = training.Trainer(gpt2.loss, gpt2.create(config), config, schedule=3e-3, dtype="float32")
    for _ in range(60):
        trainer.step(tokens, targets)
    params = trainer.params

    def loss(params):
        scores = gpt2.logits(params, gpt2.forward(params, cm.asarray(tokens), config), config)
        return float(ml.cross_entropy(scores.reshape((-1, 32)), cm.asarray(targets.reshape(-1))))

    exact = loss(params)
    assert exact < 1
    for dtype, options, worse in (("int8", {}, 0.01), ("float8_e4m3", {}, 0.1), ("int4", {"group": 32}, 0.3)):
        packed = quantized.quantize(params, dtype, **options)
        assert sum(isinstance(x, ml.Quantized) for x in packed.values()) == 4 * 2 + 1
        assert abs(loss(packed) - exact) < worse * exact, (dtype, loss(packed), exact)
    assert quantized.quantize(params, "int4")["lm_head.weight"].group == 64
    half = ml.amp.cast(params, "bfloat16")
    for weights in (params, quantized.quantize(half), quantized.quantize(half, "int4", group=32)):
        written = sampling.generate(weights, text[None, :8], 20, config, temperature=0).to_numpy()
        np.testing.assert_array_equal(written[0], text[8:28])
