"""Kernels of quantization: versions by name, which one is chosen, and a language model with
quantized weights."""

import functools
import threading

import numpy as np
import pytest
from gradient_checks import check_resources, run_version, versions
from quantized_reference import BF16, F16, F32, F64, FORMS, STORED, defined, eight_bits

import cudamath as cm
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import lazy_numba
from cudamath.runtime.device import assume

ml = cm.ml


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize(("machine", "version"), versions("plain", "wide", "wide of 2^31"))
def test_versions(machine, version, dtype, zeros, monkeypatch):
    from cudamath.kernels.quantize import dispatch as quantize_dispatch
    from cudamath.kernels.quantize import quantize

    if zeros and not dtype.startswith("int"):
        return
    if version == "wide of 2^31":  # what so many elements and more run through
        version = "wide"
        monkeypatch.setattr(quantize, "NARROW", 1)
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
    form = functools.partial(
        quantize_dispatch.quantize, form=FORMS[dtype], inner=16, version=version
    )
    got = run_version(machine, form, x, by, *more)
    spread = np.stack([got & 15, got >> 4], -1).reshape(x.shape) if dtype == "int4" else got
    np.testing.assert_array_equal(spread.astype(F32), expected)
    form = functools.partial(
        quantize_dispatch.dequantize, form=FORMS[dtype], inner=16, dtype=BF16, version=version
    )
    back = run_version(machine, form, np.ascontiguousarray(got), by, *more)
    np.testing.assert_array_equal(
        back.astype(F32), ((expected - at) * by[:, None]).astype(BF16).astype(F32)
    )


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [BF16, F32], ids=str)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("dtype", STORED)
def test_several_groups_of_a_thread(monkeypatch, dtype, zeros, kind):
    """From a thread's group to its next: within a channel, over several, back to the first; the
    last block not whole. Every stored number."""
    from cudamath.kernels.quantize import dispatch as quantize_dispatch
    from cudamath.kernels.quantize import quantize

    if zeros and not dtype.startswith("int"):
        return
    rng = np.random.default_rng(11)
    for narrow, enough in ((1 << 31, 1), (1, 1), (1 << 31, 1 << 40)):
        monkeypatch.setattr(quantize, "NARROW", narrow)
        monkeypatch.setattr(quantize, "ENOUGH", enough)
        for outer, channels, inner in (
            (1, 1, 30_008),
            (1, 3, 8200),
            (1, 700, 24),
            (37, 5, 136),
            (9, 1000, 8),
            (1, 2, 40),
        ):
            count = outer * channels * inner
            bits = np.resize(
                rng.permutation(256).astype("u1"), count // 2 if dtype == "int4" else count
            )
            scale = rng.uniform(0.01, 2, channels).astype(F32)
            span, small = ((0, 16), "u1") if dtype == "int4" else ((-128, 128), "i1")
            zero = rng.integers(*span, channels).astype(small)
            stored = (
                np.stack([bits & 15, bits >> 4], -1).ravel()
                if dtype == "int4"
                else bits.view(STORED[dtype][0])
            )
            at = np.float32(8 if dtype == "int4" else 0)
            if zeros:
                at = np.tile(np.repeat(zero, inner), outer).astype(F32)
            expected = ((stored.astype(F32) - at) * np.tile(np.repeat(scale, inner), outer)).astype(
                kind
            )
            got = run_version(
                "gpu",
                functools.partial(
                    quantize_dispatch.dequantize,
                    form=FORMS[dtype],
                    inner=inner,
                    dtype=kind,
                    version="wide",
                ),
                bits if dtype == "int4" else bits.view(STORED[dtype][0]),
                scale,
                *[zero] * zeros,
            )
            np.testing.assert_array_equal(got.astype(F64), expected.astype(F64))


@pytest.mark.parametrize("dtype", [F32, F16, F64])
@pytest.mark.parametrize("form", ["int8", "float8_e4m3", "int4"])
@pytest.mark.parametrize(("machine", "version"), versions("plain", "rows"))
def test_rows_by_name(machine, version, form, dtype):
    from cudamath.kernels.quantize import dispatch as quantize_dispatch

    x = np.random.default_rng(12).standard_normal((3, 104)).astype(dtype)
    x[1] = 0
    planner = functools.partial(quantize_dispatch.quantize_row, form=FORMS[form], version=version)
    if version == "plain" or machine == "gpu":
        stored, by = run_version(machine, planner, x)
        expected, scale, _, _ = defined(x, form, axis=0)
        np.testing.assert_array_equal(by, scale)
        if form == "int4":
            stored = np.stack([stored & 15, stored >> 4], -1).reshape(x.shape)
        np.testing.assert_array_equal(stored.astype(F32), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, F16, F32, F64], ids=str)
@pytest.mark.parametrize("form", STORED)
@pytest.mark.parametrize("shape", [(40, 8192), (45, 1000), (40, 24), (40, 34)], ids=str)
def test_rows_of_any_size_of_numbers(shape, form, dtype):
    """The bits of a division, over all exponents, at ties, at the ends of float32 and beyond."""
    from cudamath.kernels.quantize import dispatch as quantize_dispatch

    rng = np.random.default_rng(14)
    x = rng.standard_normal(shape, F32)
    x[1:31] = np.ldexp(x[1:31], np.linspace(-146, 126, 30).astype(int)[:, None])
    x[31] = np.clip(
        rng.integers(-254, 255, shape[1]) / 2, -127, 127
    )  # of int8, whose scale is then 1, half are ties
    x[31, 0] = 127
    x[32] = np.clip(rng.integers(-14, 15, shape[1]) / 2, -7, 7)
    x[32, 0] = -7
    x[33], x[34, 3], x[35, 5], x[36, :2] = 0, np.nan, np.inf, (np.inf, np.nan)
    x[37] = rng.integers(-190, 191, shape[1]) * np.float32(
        2.0**-149
    )  # a scale that is far from exact
    x[38] = np.where(x[38] < 0, np.float32(3e38), np.float32(2.0**-140))
    with np.errstate(all="ignore"):
        x = x.astype(dtype)
        wide = x.astype(F32)
        _, low, high = STORED[form]
        scale = np.abs(wide).max(1) / np.float32({"int8": 127, "int4": 7}.get(form, high))
        scale[scale == 0] = 1
        value = wide / scale[:, None]
        if form.startswith("int"):
            expected = np.clip(
                np.rint(np.where(np.isnan(value), 0, value)) + (8 if form == "int4" else 0),
                low,
                high,
            )
        else:
            expected = np.clip(value, low, high).astype(STORED[form][0]).astype(F32)
    # rows of int4 whose bytes are no whole accesses are the plain version's
    version = "plain" if form == "int4" and shape[1] % 4 else "rows"
    planner = functools.partial(quantize_dispatch.quantize_row, form=FORMS[form], version=version)
    stored, by = run_version("gpu", planner, x)
    np.testing.assert_array_equal(by, scale)
    if form == "int4":
        stored = np.stack([stored & 15, stored >> 4], -1).reshape(x.shape)
    np.testing.assert_array_equal(stored.astype(F32), expected)


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "bits"), [(BF16, 7), (F16, 10)], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("form", ["int8", "int4"])
def test_rows_with_every_significand_of_the_largest_number(form, dtype, bits):
    """A row is rounded by one multiply-add, with a reciprocal made for it: every number down to
    less than half a step."""
    from cudamath.kernels.quantize import dispatch as quantize_dispatch

    significands = 1 + np.arange(1 << bits) * 2.0**-bits
    for down in range(8):  # from the largest number: 127 / 2^8 is below half a step
        x = significands[:, None] * 0 + np.concatenate([significands, -significands]) * 2.0**-down
        x = np.where(np.abs(x) <= significands[:, None], x, 0)
        x = np.concatenate([x, significands[:, None] * [1, 0.5, -0.5, 0, 0, 0, 0, -1]], 1)
        for scale in (1, 2.0**6):
            numbers = (x * scale).astype(dtype)
            assert (numbers.astype(F64) == x * scale).all()
            wide = numbers.astype(F32)
            by = np.abs(wide).max(1) / np.float32({"int8": 127, "int4": 7}[form])
            expected = np.rint(wide / by[:, None]) + (8 if form == "int4" else 0)
            planner = functools.partial(quantize_dispatch.quantize_row, form=form, version="rows")
            stored, found = run_version("gpu", planner, numbers)
            np.testing.assert_array_equal(found, by)
            if form == "int4":
                stored = np.stack([stored & 15, stored >> 4], -1).reshape(x.shape)
            np.testing.assert_array_equal(stored.astype(F32), expected)


@pytest.mark.simulator
@pytest.mark.parametrize("form", ["int8", "int4"])
def test_rows_of_no_version_in_the_simulator(form):
    from cudamath.kernels.quantize import dispatch as quantize_dispatch

    x = np.random.default_rng(12).standard_normal((3, 104)).astype(F32)
    plan = quantize_dispatch.quantize_row(cm.testing.layout_of(x), form=FORMS[form])
    stored, by = cm.testing.simulate(plan, x)
    expected, scale, _, _ = defined(x, form, axis=0)
    np.testing.assert_array_equal(by, scale)
    if form == "int4":
        stored = np.stack([stored & 15, stored >> 4], -1).reshape(x.shape)
    np.testing.assert_array_equal(stored.astype(F32), expected)


@pytest.mark.compiles
@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
@pytest.mark.parametrize("form", ["int8", "int4"])
def test_rows_compile_where_no_pairs_are_compared(form):
    from cudamath.kernels.quantize import dispatch as quantize_dispatch

    for dtype in (BF16, F16):
        x = Layout.new((64, 8192), dtype, 0)
        with assume((7, 5)):
            plan = quantize_dispatch.quantize_row(x, form=form)
        check_resources(plan, [x], (7, 5))


@pytest.mark.simulator
def test_products_in_the_simulator():
    """More rows or other dtypes than the packed kernel takes: dequantized first. And sums brought
    back to scale."""
    from cudamath.kernels.quantize import dispatch as quantize_dispatch
    from cudamath.testing import layout_of, simulate

    rng = np.random.default_rng(13)
    x, w = rng.standard_normal((3, 16)).astype(F32), rng.standard_normal((5, 16)).astype(F32)
    stored, scale, _, values = defined(w, "int8", axis=0)
    arrays = [x, stored.astype("i1"), scale]
    with assume((7, 5)):
        plan = quantize_dispatch.linear_quantized(
            *map(layout_of, arrays), None, None, None, form="int8", group=0, activation=""
        )
    np.testing.assert_allclose(simulate(plan, *arrays), x @ values.T, rtol=1e-5, atol=1e-5)
    a, b = rng.integers(-9, 9, (3, 8)).astype("i1"), rng.integers(-9, 9, (8, 5)).astype("i1")
    arrays = [a, b, np.full(3, 0.5, F32), np.array([2], F32)]
    with assume((7, 5)):
        plan = quantize_dispatch.scaled_matmul(*map(layout_of, arrays), dtype=F32)
    np.testing.assert_allclose(simulate(plan, *arrays), a.astype(F32) @ b.astype(F32), rtol=1e-6)


def packed_plan(
    rows, out, depth, dtype, group, zeros=False, version=None, kind=BF16, more=False, activation=""
):
    """A plan of a layer with packed weights and the layouts it takes."""
    from cudamath.kernels.quantize.dispatch import linear_quantized

    def new(shape, dtype):
        return Layout.new(shape, np.dtype(dtype), 0)

    scales = out * depth // group if group else out
    layouts = [
        new((rows, depth), kind),
        new((out, depth // 2 if dtype == "int4" else depth), STORED[dtype][0]),
        new((scales,), F32),
        new((scales,), "u1" if dtype == "int4" else "i1") if zeros else None,
        new((out,), kind) if more else None,
        new((rows, out), kind) if more else None,
    ]
    plan = linear_quantized(
        *layouts, form=FORMS[dtype], group=group, activation=activation, version=version
    )
    return plan, [x for x in layouts if x is not None]


def names(plan):
    return [step.kernel.__name__ for step in plan.steps if isinstance(step, Launch)]


def few_rows_of_16_bits(rows, depth):
    """What `linear` with a bias and `matmul` launch for weights that are not quantized."""
    from cudamath.kernels.matmul import dispatch as matmul_dispatch
    from cudamath.kernels.matmul import linear as matmul_linear
    from cudamath.kernels.matmul import problem as matmul_problem

    x, w, b = (Layout.new(shape, BF16, 0) for shape in ((rows, depth), (64, depth), (64,)))
    return [
        names(matmul_linear.linear(x, w, b, activation="relu")),
        names(matmul_dispatch.matmul(x, matmul_problem.transpose(w))),
    ]


@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="planned without the simulator")
def test_which_version():
    with assume((9, 0)):
        assert names(packed_plan(1, 768, 768, "int8", 0)[0]) == ["gemv"]
        assert names(packed_plan(16, 50257, 768, "int4", 128)[0]) == ["gemv"]
        assert names(packed_plan(8, 50257, 768, "int4", 128)[0]) == ["gemv_early"]
        assert names(packed_plan(1, 768, 768, "float8_e4m3", 0)[0]) == ["gemv"]
        assert names(packed_plan(1, 768, 768, "float8_e4m3", 0, kind=F16)[0]) == ["gemv_e4m3"]
        assert names(packed_plan(1, 768, 768, "int8", 0, version="gemv 8x1x2 early")[0]) == [
            "gemv_early"
        ]
        for rows, depth, group, kind in (
            (17, 768, 0, BF16),
            (1, 768, 0, F32),
            (1, 770, 0, BF16),
            (1, 768, 16, BF16),
        ):
            plan, _ = packed_plan(rows, 64, depth, "int8", group, kind=kind)
            assert (
                len(plan.steps) > 1
                and names(plan)[0].startswith("dequantize")
                and "dequantized first" in plan.why
            )
        assert few_rows_of_16_bits(16, 768) == [["gemv"], ["gemv"]]
        for rows, depth in ((17, 768), (1, 767)):
            assert all("gemv" not in found for found in few_rows_of_16_bits(rows, depth))
    with assume((8, 0)):
        assert names(packed_plan(1, 768, 768, "int4", 128)[0]) == ["gemv"]
        assert few_rows_of_16_bits(1, 768) == [["gemv"], ["gemv"]]
        assert names(packed_plan(1, 768, 768, "float8_e5m2", 0)[0]) == ["gemv"]
        assert names(packed_plan(1, 768, 768, "float8_e4m3", 0)[0]) == ["gemv"]
        assert names(packed_plan(1, 768, 768, "float8_e4m3", 0, kind=F16)[0])[0].startswith(
            "dequantize"
        )
    with assume((7, 5)):
        assert names(packed_plan(1, 768, 768, "int8", 0)[0])[0].startswith("dequantize")


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
def test_no_spills():
    with assume((9, 0)):
        for rows, dtype, group, zeros in (
            (1, "int8", 0, False),
            (16, "int4", 128, True),
            (16, "float8_e4m3", 128, False),
        ):
            plan, layouts = packed_plan(
                rows, 4096, 1024, dtype, group, zeros, more=True, activation="gelu"
            )
            check_resources(plan, layouts, (9, 0))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "version",
    [
        "gemv",
        "gemv 4x1x4",
        "gemv 16x1x2",
        "gemv 8x2x2",
        "gemv 2x4x2",
        "gemv 8x1x2 early",
        "dequantize_first",
    ],
)
@pytest.mark.parametrize(
    ("dtype", "group", "zeros"),
    [
        ("int8", 0, False),
        ("int8", 64, True),
        ("int4", 0, False),
        ("int4", 128, True),
        ("int4", 64, False),
        ("float8_e4m3", 0, False),
        ("float8_e4m3", 128, False),
        ("float8_e5m2", 0, False),
    ],
)
def test_packed_versions_on_the_gpu(version, dtype, group, zeros):
    rng = np.random.default_rng(14)
    how = {"group": group} if group else {"axis": 0}
    for rows, out, depth in ((1, 100, 640), (8, 64, 128), (9, 50, 256), (16, 77, 384)):
        for kind in (BF16, F16) if rows == 9 else (BF16,):
            wanted = (((rows, depth), kind), ((out, depth), F32), (out, kind), ((rows, out), kind))
            x, w, b, r = (rng.standard_normal(s).astype(t) for s, t in wanted)
            more = rows > 1
            plan, layouts = packed_plan(
                rows, out, depth, dtype, group, zeros, version, kind, more, "relu" if more else ""
            )
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
            np.testing.assert_allclose(
                got.astype(F64), z, rtol=tolerance, atol=tolerance * np.abs(z).max()
            )


@pytest.mark.gpu
def test_every_float8_is_widened():
    """Each of the 256 patterns alone in a row, in each place of a word and each half of a tile: NaN
    stays in its row."""
    if cm.cuda.devices()[0].capability < (8, 0):
        pytest.skip("compute capability 8.0")
    codes = np.arange(256, dtype=np.uint8)
    for place in (0, 1, 2, 3, 70, 639):
        w = np.zeros((256, 640), np.uint8)
        w[:, place] = codes
        for rows, version in ((1, "gemv"), (16, "gemv 4x2x4")):
            x = np.ones((rows, 640), BF16)
            plan, layouts = packed_plan(rows, 256, 640, "float8_e4m3", 0, version=version)
            given = [
                cm.asarray(a, device="cuda")
                for a in (x, w.view(STORED["float8_e4m3"][0]), np.ones(256, F32))
            ]
            got = plan.bind("packed", layouts)(*given).to_numpy().astype(F64)
            wanted = w[:, place].view(STORED["float8_e4m3"][0]).astype(F64)
            assert np.isnan(wanted).sum() == 2
            np.testing.assert_array_equal(got, np.broadcast_to(wanted, got.shape))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [BF16, F16], ids=str)
def test_few_rows_times_16_bits(kind):
    from cudamath.kernels.matmul.gemv_plan import gemv_same

    rng = np.random.default_rng(15)
    for rows, out, depth in ((1, 100, 640), (8, 64, 72), (16, 77, 384)):
        for version in ("gemv", "gemv 16x1x2", "gemv 4x2x4"):
            x, w, b, r = (
                rng.standard_normal(s).astype(kind)
                for s in ((rows, depth), (out, depth), (out,), (rows, out))
            )
            there = [cm.asarray(a, device="cuda") for a in (x, w, b, r)]
            layouts = [a._layout for a in there]
            got = (
                gemv_same(*layouts, activation="relu", version=version)
                .bind("same", layouts)(*there)
                .to_numpy()
            )
            z = np.maximum(x.astype(F64) @ w.astype(F64).T + b.astype(F64), 0) + r.astype(F64)
            tolerance = {F16: 2.0**-10, BF16: 2.0**-7}[kind]
            np.testing.assert_allclose(
                got.astype(F64), z, rtol=tolerance, atol=tolerance * np.abs(z).max()
            )


@pytest.mark.gpu
@pytest.mark.parametrize(
    "tile",
    ["128x256", "128x192", "128x128", "128x128 pingpong", "64x256 pingpong", "64x128", "64x64"],
)
@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3", "float8_e5m2"])
def test_scaled_tiles_on_the_gpu(tile, dtype):
    from cudamath.kernels.quantize.dispatch import scaled_matmul

    if cm.cuda.devices()[0].capability != (9, 0):
        pytest.skip("compute capability 9.0")
    rng = np.random.default_rng(16)
    kind = STORED[dtype][0]
    for m, n, k, rows, columns in (
        (200, 264, 400, 200, 264),
        (64, 128, 1024, 64, 128),
        (201, 263, 401, 201, 263),
        (67, 261, 90, 1, 261),
        (300, 2, 31, 300, 1),
        (1, 1, 3, 1, 1),
    ):
        a, b = eight_bits(rng, kind, (m, k)), eight_bits(rng, kind, (n, k))
        sa, sb = (rng.random(rows) * 0.01).astype(F32), (rng.random(columns) * 0.01).astype(F32)
        there = [cm.asarray(v, device="cuda") for v in (a, b, sa, sb)]
        there[1] = there[1].T
        layouts = [v._layout for v in there]
        got = (
            scaled_matmul(*layouts, dtype=BF16, version=f"sm90 {tile}")
            .bind("scaled", layouts)(*there)
            .to_numpy()
        )
        z = a.astype(F64) @ b.astype(F64).T * sa[:, None] * sb
        np.testing.assert_allclose(got.astype(F64), z, rtol=2.0**-7, atol=2.0**-8 * np.abs(z).max())


@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="tensor cores have no simulator")
def test_when_float8_is_summed_before_it_is_scaled():
    """Rows that TMA cannot store, with a bias; float32 results are summed exactly, without tensor
    cores."""
    from cudamath.kernels.quantize.dispatch import scaled_matmul

    with assume((9, 0)):
        for stored in ("int8", "float8_e4m3"):
            assert names(
                scaled_matmul(*scaled_layouts(32, 63, 128, stored=stored), dtype=BF16)
            ) == ["matmul_wgmma"]
            odd = scaled_matmul(*scaled_layouts(32, 63, 127, stored=stored), dtype=BF16)
            assert names(odd) == ["pitched", "matmul_wgmma"]
        plan = scaled_matmul(*scaled_layouts(32, 63, 128, bias=True), dtype=BF16)
        assert (
            names(plan)[-2:] == ["matmul_wgmma", "rescale"]
            and "their scales afterwards" in plan.why
        )
        assert "matmul_wgmma" not in names(scaled_matmul(*scaled_layouts(32, 63, 128), dtype=F32))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2"])
def test_sums_and_then_their_scales_on_the_gpu(dtype):
    """Also rows that TMA cannot store, and operands that it cannot read."""
    from cudamath.kernels.quantize.dispatch import scaled_matmul

    if cm.cuda.devices()[0].capability != (9, 0):
        pytest.skip("compute capability 9.0")
    rng = np.random.default_rng(17)
    kind = STORED[dtype][0]
    for m, n, k in ((200, 263, 401), (1, 1, 3), (130, 264, 400)):
        a, b = eight_bits(rng, kind, (m, k)), eight_bits(rng, kind, (n, k))
        sa, sb = (rng.random(m) * 0.01).astype(F32), (rng.random(n) * 0.01).astype(F32)
        there = [cm.asarray(v, device="cuda") for v in (a, b, sa, sb)]
        there[1] = there[1].T
        layouts = [v._layout for v in there]
        plan = scaled_matmul(*layouts, dtype=BF16, version="sm90_sums")
        assert names(plan)[-2:] == ["matmul_wgmma", "rescale"]
        z = a.astype(F64) @ b.astype(F64).T * sa[:, None] * sb
        got = plan.bind("scaled", layouts)(*there).to_numpy()
        np.testing.assert_allclose(got.astype(F64), z, rtol=2.0**-7, atol=2.0**-8 * np.abs(z).max())


def scaled_layouts(m, n, k, outer=True, bias=False, kind=BF16, stored="float8_e4m3"):
    """Layouts of a product of 8-bit numbers, b transposed."""
    a, b = (Layout.new((rows, k), STORED[stored][0], 0) for rows in (m, n))
    scales = [Layout.new((size,), F32, 0) for size in ((m, n) if outer else (1, 1))]
    return [a, b.view((k, n), (1, k)), *scales, *[Layout.new((n,), kind, 0)] * bias]


@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="tensor cores have no simulator")
def test_when_cublaslt_multiplies_float8(monkeypatch):
    from cudamath.core.dispatch import autotune
    from cudamath.kernels.quantize import dispatch as quantize_dispatch
    from cudamath.runtime import cublas

    asked = []
    monkeypatch.setattr(cublas, "multiplies_float8", lambda outer: asked.append(outer) or True)
    monkeypatch.setattr(cublas, "gemm_float8", lambda *sizes, **more: lambda *_: (sizes, more))
    monkeypatch.setattr(
        autotune,
        "lookup",
        lambda op, device, kind, sizes, is_candidate: autotune.Decision(
            next(v.name for v in quantize_dispatch.SCALED_MATMUL if is_candidate(v.name)),
            f"{op} {kind} {sizes}",
        ),
    )

    def plan(*given, dtype=BF16, **more):
        return quantize_dispatch.scaled_matmul(*scaled_layouts(*given, **more), dtype=dtype)

    with assume((9, 0)):
        found = plan(32, 64, 128, bias=True)
        assert found.why == "scaled_matmul float8_e4m3fn (32, 128, 64)" and not names(found)
        (step,) = found.steps
        assert [(a.kind, a.index) for a in step.args] == [
            ("x", 0),
            ("x", 1),
            ("y", 0),
            ("x", 2),
            ("x", 3),
            ("x", 4),
        ]
        sizes, more = step.fn()
        assert sizes == (
            32,
            64,
            128,
            cublas.Matrix(0, 128),
            cublas.Matrix(1, 128),
            BF16,
        ) and more == {
            "outer": True,
            "bias": True,
        }
        assert not plan(1, 64, 128, outer=False).steps[0].fn()[1]["outer"] and asked == [
            True,
            False,
        ]
        for other in (
            plan(32, 64, 120),
            plan(32, 72, 128),
            plan(32, 64, 128, stored="float8_e5m2"),
            plan(32, 64, 128, stored="int8"),
        ):
            assert names(other)[-1] == "matmul_wgmma" and len(asked) == 2
        a, *rest = scaled_layouts(32, 64, 128)
        apart = a.view((32, 128), (256, 2))  # which no library reads as it lies
        found = quantize_dispatch.scaled_matmul(apart, *rest, dtype=BF16)
        assert "matmul_wgmma" in names(found) and len(asked) == 2
        monkeypatch.setattr(autotune, "lookup", lambda *_: None)
        assert names(plan(32, 64, 128)) == ["matmul_wgmma"]
        assert not names(plan(4096, 4096, 128)) and "many tiles" in plan(4096, 4096, 128).why
        monkeypatch.setattr(cublas, "multiplies_float8", lambda outer: False)
        timed = quantize_dispatch.contenders(
            *scaled_layouts(32, 64, 128), None, Layout.new((32, 64), BF16, 0)
        )
        assert len(timed) == 7 and all(v.startswith("sm90 ") for v in timed)
    with assume((8, 0)):
        assert names(plan(32, 64, 128))[-1] == "rescale"


def test_what_cublaslt_is_told(monkeypatch):
    """Described once; the operands and their scales exchanged; an address is set where it is
    another one than before."""
    import ctypes

    from cudamath.runtime import cublas

    class Bindings:
        class MatmulDescAttribute:
            TRANSA, TRANSB, EPILOGUE, FAST_ACCUM, A_SCALE_MODE, B_SCALE_MODE, BIAS_DATA_TYPE = (
                range(7)
            )
            A_SCALE_POINTER, B_SCALE_POINTER, BIAS_POINTER = 17, 18, 8

        class MatmulPreferenceAttribute:
            REDUCTION_SCHEME_MASK, MAX_WORKSPACE_BYTES = 3, 1

        matmul_heuristic_result_dtype = np.dtype("u8")
        cuBLASLtError = RuntimeError
        told, layouts, products, found = {}, [], [], 1

        def matmul_desc_create(self, compute, scale):
            return 5

        def matmul_desc_set_attribute(self, description, number, address, size):
            self.told.setdefault(number, []).append(
                int.from_bytes(ctypes.string_at(address, size), "little")
            )

        def matrix_layout_create(self, *layout):
            self.layouts.append(layout)
            return len(self.layouts)

        def matmul_preference_create(self):
            return 6

        def matmul_preference_set_attribute(self, *_):
            pass

        matmul_preference_destroy = matmul_preference_set_attribute

        def matmul_algo_get_heuristic(self, *given):
            ctypes.c_int32.from_address(given[-1]).value = self.found

        def matmul(self, *given):
            self.products.append(given)

    class Handle:
        light, workspace, light_workspace, lock = 3, 4, 5, threading.Lock()

    class Stream:
        ptr = 9

    lt = Bindings()
    monkeypatch.setattr(cublas, "_lt_bindings", lambda: lt)
    monkeypatch.setattr(cublas, "handle", lambda stream: Handle)
    product = cublas.gemm_float8(
        32, 64, 128, cublas.Matrix(0, 128), cublas.Matrix(1, 144), BF16, outer=True, bias=True
    )
    product(Stream(), 100, 200, 300, 11, 22, 33)
    product(Stream(), 100, 200, 300, 11, 24, 33)
    assert lt.told == {
        0: [1],
        1: [0],
        2: [4],
        3: [1],
        4: [3],
        5: [3],
        6: [14],
        18: [11],
        17: [22, 24],
        8: [33],
    }
    assert lt.layouts == [(28, 128, 32, 128), (28, 128, 64, 144), (14, 64, 32, 64)]
    for given in lt.products:  # B, A, C, C of row-major matrices
        assert (
            given[0:2] == (3, 5)
            and given[3:7] == (200, 2, 100, 1)
            and given[8:12] == (300, 3, 300, 3)
        )
        assert given[13:] == (5, cublas.WORKSPACE, 9)
    lt.found = 0
    with pytest.raises(
        cublas.CudaError,
        match=r"\(32, 128\) @ \(128, 64\) float8_e4m3 to bfloat16: cuBLASLt has no algorithm",
    ):
        cublas.gemm_float8(
            32, 64, 128, cublas.Matrix(0, 128), cublas.Matrix(1, 128), BF16, outer=False, bias=False
        )(Stream(), 100, 200, 300, 11, 22)


@pytest.mark.gpu
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("kind", [BF16, F16], ids=str)
def test_float8_by_cublaslt(kind, outer, bias):
    from cudamath.kernels.quantize.dispatch import scaled_matmul
    from cudamath.runtime import cublas

    if cm.cuda.devices()[0].capability != (9, 0) or not cublas.multiplies_float8(outer):
        pytest.skip("compute capability 9.0, cuBLASLt from 12.9")
    rng = np.random.default_rng(16)
    for m, n, k in ((200, 272, 400), (1024, 128, 1024)):
        a, b = (eight_bits(rng, STORED["float8_e4m3"][0], (rows, k)) for rows in (m, n))
        scales = [(rng.random(size) * 0.01).astype(F32) for size in ((m, n) if outer else (1, 1))]
        add = [rng.standard_normal(n).astype(kind)] * bias
        there = [cm.asarray(v, device="cuda") for v in (a, b, *scales, *add)]
        there[1] = there[1].T
        layouts = [v._layout for v in there]
        run = scaled_matmul(*layouts, dtype=kind, version="cublaslt").bind("scaled", layouts)
        z = a.astype(F64) @ b.astype(F64).T * scales[0][:, None] * scales[1] + sum(
            v.astype(F64) for v in add
        )
        for _ in range(2):
            got = run(*there).to_numpy().astype(F64)
            np.testing.assert_allclose(got, z, rtol=2.0**-7, atol=2.0**-8 * np.abs(z).max())
            there = [v.copy() if v.ndim == 1 else v for v in there]  # scales elsewhere in memory


@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="tensor cores have no simulator")
def test_a_layer_of_float8_by_cublaslt_without_a_gpu(monkeypatch):
    """Within the plan of the layer the product finds its arrays where they are there."""
    from cudamath.kernels.quantize import dispatch as quantize_dispatch
    from cudamath.runtime import cublas

    monkeypatch.setattr(cublas, "multiplies_float8", lambda outer: True)
    monkeypatch.setattr(cublas, "gemm_float8", lambda *sizes, **more: lambda *_: more)
    x, w = Layout.new((2048, 512), BF16, 0), Layout.new((2048, 512), STORED["float8_e4m3"][0], 0)
    scale, bias = Layout.new((2048,), F32, 0), Layout.new((2048,), BF16, 0)
    with assume((9, 0)):
        plan = quantize_dispatch.linear_8_bits(x, w, scale, None, bias, form="float8_e4m3fn")
    first, product = plan.steps
    assert first.kernel.__name__.startswith("quantize_rows") and product.fn() == {
        "outer": True,
        "bias": True,
    }
    assert [(a.kind, a.index) for a in product.args] == [
        ("t", 0),
        ("x", 1),
        ("y", 0),
        ("t", 1),
        ("x", 2),
        ("x", 3),
    ]


@pytest.mark.gpu
def test_a_layer_of_float8_by_cublaslt():
    """Large enough for cuBLASLt; again; and from a graph."""
    rng = np.random.default_rng(18)
    x, w, b = (rng.standard_normal(s).astype(F32) for s in ((2048, 512), (2048, 512), (2048,)))
    with cm.device("cuda"):
        q = ml.quantize(cm.asarray(w), "float8_e4m3", axis=0)
        bias = cm.asarray(b).astype("bfloat16")
        for half in (x.astype(BF16), (x * 3).astype(BF16)):
            stored, by, _, _ = defined(half.astype(F32), "float8_e4m3", axis=0)
            z = (
                stored.astype(F64)
                @ q.values.to_numpy().astype(F64).T
                * by[:, None]
                * q.scale.to_numpy()
            )
            z = z + bias.to_numpy().astype(F64)
            there = cm.asarray(half)
            for _ in range(2):
                got = ml.linear_quantized(there, q, bias).to_numpy().astype(F64)
                np.testing.assert_allclose(got, z, rtol=2.0**-7, atol=2.0**-7 * np.abs(z).max())
            layer = cm.cuda.graph(lambda a: ml.linear_quantized(a, q, bias))
            replayed = [layer(there[:1920]) for _ in range(3)][-1].to_numpy().astype(F64)
            np.testing.assert_array_equal(
                replayed, ml.linear_quantized(there[:1920], q, bias).to_numpy().astype(F64)
            )
            np.testing.assert_allclose(
                replayed, z[:1920], rtol=2.0**-7, atol=2.0**-7 * np.abs(z).max()
            )


# -------------------- a language model


def test_a_language_model(device):
    """A small GPT that has learnt a text: its loss with quantized weights is nearly the same, and
    it writes the text."""
    from cudamath.models import gpt2, quantized, sampling, training

    config = gpt2.Config(vocabulary=32, context=32, layers=2, heads=2, width=64)
    text = np.tile(np.random.default_rng(17).permutation(32)[:23], 40)
    at = np.arange(8)[:, None] * 11 + np.arange(33)
    tokens, targets = text[at[:, :-1]], text[at[:, 1:]]
    trainer = training.Trainer(
        gpt2.loss, gpt2.create(config), config, schedule=3e-3, dtype="float32"
    )
    for _ in range(60):
        trainer.step(tokens, targets)
    params = trainer.params

    def loss(params):
        scores = gpt2.logits(params, gpt2.forward(params, cm.asarray(tokens), config), config)
        return float(ml.cross_entropy(scores.reshape((-1, 32)), cm.asarray(targets.reshape(-1))))

    exact = loss(params)
    assert exact < 1
    for dtype, options, worse in (
        ("int8", {}, 0.01),
        ("float8_e4m3", {}, 0.1),
        ("int4", {"group": 32}, 0.3),
    ):
        packed = quantized.quantize(params, dtype, **options)
        assert sum(isinstance(x, ml.Quantized) for x in packed.values()) == 4 * 2 + 1
        assert abs(loss(packed) - exact) < worse * exact, (dtype, loss(packed), exact)
    assert quantized.quantize(params, "int4")["lm_head.weight"].group == 64
    half = ml.amp.cast(params, "bfloat16")
    for weights in (params, quantized.quantize(half), quantized.quantize(half, "int4", group=32)):
        written = sampling.generate(weights, text[None, :8], 20, config, temperature=0).to_numpy()
        np.testing.assert_array_equal(written[0], text[8:28])


@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the kernel's instructions have no simulator")
@pytest.mark.parametrize("rows", [1, 3, 16])
def test_few_rows_are_counted_by_x(rows):
    """And not by the weight: one of another depth would make the kernel store more rows than y
    has."""
    from cudamath.core.dispatch.arguments import Input
    from cudamath.kernels.matmul.gemv_plan import gemv_launch

    x = Layout.new((rows, 4096), np.dtype(F16), 0)
    with assume((9, 0)):
        for depth in (4096, 256):
            places = (Input(1), Input(2), None)
            launch = gemv_launch(x, 512, depth, "int8", 0, "", places, None, None, 1, "gemv")
            assert [int(n) for n in launch.args[-5:-2]] == [rows, 512, depth]
