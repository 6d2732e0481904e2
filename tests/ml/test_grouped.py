"""Products of groups of rows against NumPy in float64, group by group: values, gradients, errors,
each kernel by name."""

import ml_dtypes
import numpy as np
import pytest

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.runtime.device import assume

BF16 = np.dtype(ml_dtypes.bfloat16)
EPS = {np.dtype("f2"): 2.0**-11, BF16: 2.0**-8, np.dtype("f4"): 2.0**-24, np.dtype("f8"): 2.0**-53}
ENDS = [[3, 3, 11, 17], [0, 0, 0, 40], [40, 40, 40, 40], [0, 0, 0, 0], [7, 8, 9, 33]]


def grouped(x, w, ends):
    """The definition, in float64."""
    y = np.zeros((len(x), w.shape[2]))
    for matrix, start, end in zip(w, [0, *ends], ends, strict=False):
        y[start:end] = x[start:end].astype(float) @ matrix.astype(float)
    return y


def outer(x, y, ends):
    """x^T y of each group, in float64."""
    pairs = zip([0, *ends], ends, strict=False)
    return np.stack([x[a:b].astype(float).T @ y[a:b].astype(float) for a, b in pairs])


def check(got, expected, sizes, dtype):
    """Within the errors of sums in float32 (float64) and one rounding; sizes: of |terms|,
    summed."""
    got = got.to_numpy() if isinstance(got, cm.ndarray) else got
    assert got.shape == expected.shape and got.dtype == dtype
    own, inner = EPS[dtype], max(min(EPS[dtype], 2.0**-24), 2.0**-53)
    allowed = own * np.abs(expected) + inner * 50 * sizes + (dtype == np.float16) * 2.0**-25
    wrong = ~(np.abs(got.astype(float) - expected) <= allowed)
    assert not wrong.any(), (
        expected.shape,
        np.argwhere(wrong)[:5],
        got[wrong][:3],
        expected[wrong][:3],
    )


def made(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", list(EPS), ids=str)
@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_values(device, ends, dtype):
    rng = np.random.default_rng(1)
    for inner, columns in ((24, 40), (5, 3), (72, 16)):
        x, w = made(rng, (40, inner), dtype), made(rng, (4, inner, columns), dtype)
        expected, sizes = grouped(x, w, ends), grouped(abs(x), abs(w), ends)
        check(cm.ml.grouped_matmul(x, w, ends), expected, sizes, dtype)
        for _ in range(2):  # the second time as layouts seen before
            check(
                cm.ml.grouped_matmul(cm.asarray(x), cm.asarray(w), cm.asarray(ends)),
                expected,
                sizes,
                dtype,
            )
        turned = cm.asarray(np.ascontiguousarray(w.swapaxes(1, 2)))
        check(
            cm.ml.grouped_matmul(cm.asarray(x), turned.mT, np.array(ends, np.int32)),
            expected,
            sizes,
            dtype,
        )
        steps = cm.asarray(np.repeat(w, 2, 2))[:, :, ::2]
        check(
            cm.ml.grouped_matmul(cm.asarray(np.asfortranarray(x)), steps, ends),
            expected,
            sizes,
            dtype,
        )


@pytest.mark.parametrize("dtype", list(EPS), ids=str)
def test_gradients(device, dtype):
    rng = np.random.default_rng(2)
    x, w, g = made(rng, (40, 24), dtype), made(rng, (4, 24, 32), dtype), made(rng, (40, 32), dtype)
    for ends in ENDS:
        _, pull = cm.vjp(
            lambda x, w, ends=ends: cm.ml.grouped_matmul(x, w, ends), cm.asarray(x), cm.asarray(w)
        )
        to_x, to_w = pull(cm.asarray(g))
        turned = w.swapaxes(1, 2)
        check(to_x, grouped(g, turned, ends), grouped(abs(g), abs(turned), ends), dtype)
        check(to_w, outer(x, g, ends), outer(abs(x), abs(g), ends), dtype)


def test_nothing(device):
    for shape, groups, columns in (((0, 8), 2, 8), ((5, 0), 2, 8), ((5, 8), 0, 8), ((5, 8), 2, 0)):
        x, w = cm.ones(shape, "float32"), cm.ones((groups, shape[1], columns), "float32")
        ends = [0] * groups if groups else cm.zeros(0, "int32")
        gradients = cm.grad(lambda x, w, ends=ends: cm.ml.grouped_matmul(x, w, ends).sum(), (0, 1))(
            x, w
        )
        assert (cm.ml.grouped_matmul(x, w, ends).to_numpy() == np.zeros((shape[0], columns))).all()
        assert [float(abs(one).sum()) for one in gradients] == [0, 0] and gradients[
            1
        ].shape == w.shape


def test_errors(device):
    x, w = cm.ones((6, 4), "float32"), cm.ones((2, 4, 3), "float32")
    with pytest.raises(
        TypeError, match="^grouped_matmul: wants x and weight of one dtype, got float32 and float64"
    ):
        cm.ml.grouped_matmul(x, w.astype("float64"), [3, 6])
    with pytest.raises(TypeError, match="^grouped_matmul: wants integer ends, got float"):
        cm.ml.grouped_matmul(x, w, [3.0, 6.0])
    with pytest.raises(TypeError, match="^grouped_matmul: wants floating-point x, got int"):
        cm.ml.grouped_matmul(x.astype("int32"), w, [3, 6])
    for wrong in ((x[0], w, [3, 6]), (x, w[0], [3, 6]), (x[:, 1:], w, [3, 6]), (x, w, [3, 4, 6])):
        with pytest.raises(ValueError, match=r"^grouped_matmul: wants x \(rows, in\), weight"):
            cm.ml.grouped_matmul(*wrong)
    for ends in ([3, 7], [3, 2], [-1, 6]):
        with pytest.raises(IndexError, match="grouped_matmul"):
            cm.ml.grouped_matmul(x, w, ends).to_numpy()
        with pytest.raises(IndexError, match="grouped_"):
            cm.grad(
                lambda w, ends=ends: cm.ml.grouped_matmul(cm.ones((6, 4), "float32"), w, ends).sum()
            )(w).to_numpy()


# -------------------- kernels, each by name


def planned(which, version, x, other, ends):
    """The plan for NumPy arrays as they would lie on a GPU."""
    from cudamath.kernels.matmul import grouped as matmul_grouped

    with assume((9, 0)):
        return getattr(matmul_grouped, which)(
            *[Layout.of(a.shape, a.strides, a.dtype, 0, True) for a in (x, other, ends)],
            version=version,
        )


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", [np.dtype("f4"), BF16], ids=str)
def test_in_the_simulator(dtype):
    rng = np.random.default_rng(3)
    x, w, y, ends = (
        made(rng, (19, 17), dtype),
        made(rng, (2, 17, 5), dtype),
        made(rng, (19, 5), dtype),
        np.array([2, 18]),
    )
    check(
        cm.testing.simulate(planned("grouped_matmul", "tiled", x, w, ends), x, w, ends),
        grouped(x, w, ends),
        grouped(abs(x), abs(w), ends),
        dtype,
    )
    check(
        cm.testing.simulate(planned("grouped_outer", "tiled", x, y, ends), x, y, ends),
        outer(x, y, ends),
        outer(abs(x), abs(y), ends),
        dtype,
    )
    for which, other, wrong in (("grouped_matmul", w, [2, 20]), ("grouped_outer", y, [2, 1])):
        with pytest.raises(IndexError):
            cm.testing.simulate(
                planned(which, "tiled", x, other, np.array(wrong)), x, other, np.array(wrong)
            )


def run(which, version, x, other, ends):
    """A kernel by name on the GPU's arrays."""
    from cudamath.kernels.matmul import grouped as matmul_grouped

    layouts = [a._layout for a in (x, other, ends)]
    return getattr(matmul_grouped, which)(*layouts, version=version).bind(which, layouts)(
        x, other, ends
    )


VERSIONS = [
    "tiled",
    *[f"sm90 {tile}" for tile in ("64x64", "64x128", "128x64", "128x128", "64x256", "128x256")],
]


@pytest.mark.gpu
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dtype", [np.dtype("f2"), BF16], ids=str)
def test_versions_on_the_gpu(version, dtype):
    """Groups within a tile, over several, empty, of one row, beginning anywhere; rows of nobody;
    what a neighbour has that is not finite stays there; k, m and n that end within a tile; both
    ways in which weights may lie."""
    rng = np.random.default_rng(4)
    with cm.device("cuda:0"):
        if version != "tiled" and cm.cuda.devices()[0].capability != (9, 0):
            pytest.skip("compute capability 9.0")
        for rows, inner, columns, ends in (
            (700, 136, 264, [1, 1, 65, 193, 400, 690]),
            (700, 64, 512, [0, 128, 256, 512, 699, 700]),
            (70, 200, 72, [0] * 6),
            (130, 8, 8, [130] * 6),
            (3, 776, 40, [1, 2, 2, 3, 3, 3]),
            (3000, 96, 520, [*range(17, 2900, 101)]),
        ):
            x, y = made(rng, (rows, inner), dtype), made(rng, (rows, columns), dtype)
            w = made(rng, (len(ends), inner, columns), dtype)
            where = cm.asarray(np.array(ends, np.int32))
            expected, sizes = grouped(x, w, ends), grouped(abs(x), abs(w), ends)
            check(
                run("grouped_matmul", version, cm.asarray(x), cm.asarray(w), where),
                expected,
                sizes,
                dtype,
            )
            turned = cm.asarray(np.ascontiguousarray(w.swapaxes(1, 2))).mT
            check(
                run("grouped_matmul", version, cm.asarray(x), turned, where), expected, sizes, dtype
            )
            got = run("grouped_outer", version, cm.asarray(x), cm.asarray(y), where)
            check(got, outer(x, y, ends), outer(abs(x), abs(y), ends), dtype)
            again = run("grouped_outer", version, cm.asarray(x), cm.asarray(y), where)
            assert got.to_numpy().tobytes() == again.to_numpy().tobytes()
        ends = [100, 150, 200]
        x, y, w = (
            made(rng, (210, 64), dtype),
            made(rng, (210, 64), dtype),
            made(rng, (3, 64, 64), dtype),
        )
        x[100:150], y[120:150], x[205] = np.nan, np.inf, np.nan
        where = cm.asarray(np.array(ends))
        got = [
            run(which, version, cm.asarray(x), cm.asarray(other), where).to_numpy().astype(float)
            for which, other in (("grouped_matmul", w), ("grouped_outer", y))
        ]
        assert (
            np.isnan(got[0][100:150]).all()
            and np.isfinite(got[0][:100]).all()
            and np.isfinite(got[0][150:]).all()
        )
        assert np.isnan(got[1][1]).all() and np.isfinite(got[1][[0, 2]]).all()


@pytest.mark.gpu
def test_what_is_planned():
    """16-bit numbers go to the tensor cores of 9.0; a wrong end is an error there too."""
    with cm.device("cuda:0"):
        if cm.cuda.devices()[0].capability != (9, 0):
            pytest.skip("compute capability 9.0")
        x, w = cm.ones((64, 64), BF16), cm.ones((2, 64, 64), BF16)
        assert "sm90" in cm.explain(cm.ml.grouped_matmul, x, w, cm.asarray([30, 64]))
        assert "tiled" in cm.explain(
            cm.ml.grouped_matmul, x.astype("float32"), w.astype("float32"), cm.asarray([30, 64])
        )
        for ends in ([30, 65], [30, 20], [-1, 64]):
            with pytest.raises(IndexError, match="grouped_matmul"):
                cm.ml.grouped_matmul(x, w, ends).to_numpy()
            with pytest.raises(IndexError, match="grouped_"):
                cm.grad(
                    lambda w, ends=ends: cm.ml.grouped_matmul(
                        cm.ones((64, 64), BF16), w, ends
                    ).sum()
                )(w).to_numpy()
