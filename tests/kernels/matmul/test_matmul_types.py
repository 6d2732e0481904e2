"""Matrix products in other dtypes than their operands': int8 summed to int32, results in a dtype
requested, TF32."""

import numpy as np
import pytest

import cudamath as cm
from tests.kernels.matmul.test_matmul import LAYOUTS, SIZES, laid_out, on_gpu, wide


def int8(rng, *shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def test_int8_summed_to_int32(device):
    rng = np.random.default_rng(12)
    for left, right in (
        ((3, 5), (5, 4)),
        ((70, 130), (130, 33)),
        ((2, 1, 9, 20), (3, 20, 7)),
        ((40,), (40, 3)),
        ((3, 0), (0, 2)),
        ((0, 4), (4, 2)),
    ):
        a, b = int8(rng, *left), int8(rng, *right)
        got = cm.matmul(cm.asarray(a), cm.asarray(b), dtype="int32")
        assert got.dtype == np.int32 and np.array_equal(
            got.to_numpy(), a.astype(np.int64) @ b.astype(np.int64)
        )
    most = np.full((1, 140_000), -128, np.int8)  # beyond 2^31: wraps, as int32 does
    expected = np.array([[140_000 * 128 * 128 - (1 << 32)]])
    assert np.array_equal(
        cm.matmul(cm.asarray(most), cm.asarray(most.T), dtype=np.int32).to_numpy(), expected
    )


def test_dtype_of_the_result(device):
    a = np.arange(6).reshape(2, 3)
    for own, wanted in (
        ("i4", "f4"),
        ("f4", "f8"),
        ("f8", "f4"),
        ("i1", "i2"),
        ("?", "i1"),
        ("f4", "c8"),
        ("i1", "i1"),
    ):
        x = a.astype(own)
        got = cm.matmul(cm.asarray(x), cm.asarray(x.T.copy()), dtype=wanted)
        assert got.dtype == wanted and np.array_equal(
            got.to_numpy(), x.astype(wanted) @ x.T.astype(wanted)
        )
    with pytest.raises(TypeError, match="^matmul: operands of float32 cannot become int32"):
        cm.matmul(cm.ones((2, 2), "float32"), cm.ones((2, 2), "float32"), dtype="int32")


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["sm90 64x128", "sm90 64x128 split 2", "sm80", "cast"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_int8_versions_on_the_gpu(version, layout):
    from cudamath.kernels.matmul.dispatch import matmul_int32

    rng = np.random.default_rng(13)
    with cm.device("cuda:0"):
        if version.startswith("sm90") and cm.cuda.devices()[0].capability != (9, 0):
            pytest.skip("compute capability 9.0")
        for m, k, n in SIZES:
            a, b = (x.view(np.int8) for x in laid_out(rng, m, k, n, layout, np.dtype("i1")))
            p, q = on_gpu(a), on_gpu(b)
            got = matmul_int32(p._layout, q._layout, version=version).bind(
                "matmul", [p._layout, q._layout]
            )(p, q)
            assert np.array_equal(got.to_numpy(), a.astype(np.int64) @ b.astype(np.int64)), (
                m,
                k,
                n,
            )


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["sm80", "sm90 64x128", "cublas"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tf32(version, layout):
    """Inputs rounded (by wgmma: cut) to 10 bits, sums in float32; and not to fewer, nor kept at
    23."""
    from cudamath.kernels.matmul.dispatch import matmul

    rng = np.random.default_rng(11)
    with cm.device("cuda:0"):
        if version.startswith("sm90") and cm.cuda.devices()[0].capability != (9, 0):
            pytest.skip("compute capability 9.0")
        for m, k, n in ((130, 12, 132), (256, 40, 256), (513, 33, 4), (129, 9, 127)):
            a, b = laid_out(rng, m, k, n, layout, np.dtype("f4"))
            p, q = on_gpu(a), on_gpu(b)
            got = matmul(p._layout, q._layout, tf32=True, version=version).bind(
                "matmul", [p._layout, q._layout]
            )(p, q)
            size = np.abs(wide(a)) @ np.abs(wide(b))
            error = (np.abs(wide(got.to_numpy()) - wide(a) @ wide(b)) / size).max()
            assert 2.0**-18 < error < 2 * 2.0**-10, (m, k, n, error)
