"""What is planned for matrix products: which kernels, copies and parts, on which capability, with
and without cuBLAS."""

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.runtime import cublas
from cudamath.runtime.device import assume
from tests.kernels.matmul.test_matmul import SIMULATED, planned


def test_how_cublas_reads_operands():
    assert cublas.matrix(3, 4, 4, 1) == cublas.Matrix(0, 4)
    assert cublas.matrix(3, 4, 9, 1) == cublas.Matrix(0, 9)
    assert cublas.matrix(3, 4, 1, 3) == cublas.Matrix(1, 3)
    assert cublas.matrix(3, 4, 8, 2) is None
    assert cublas.matrix(3, 4, 0, 1) is None  # a row, repeated
    assert cublas.matrix(3, 4, -4, 1) is None
    assert cublas.matrix(1, 5, 7, 3) == cublas.Matrix(1, 3)  # a vector with gaps
    assert cublas.matrix(5, 1, 3, 9) == cublas.Matrix(0, 3)
    assert cublas.matrix(1, 1, 0, 0) == cublas.Matrix(0, 1)
    assert cublas.matrix(3, 4, 4, 1, 12) == cublas.Matrix(0, 4, 12)


def test_products_that_share_an_operand_are_one_product():
    a = np.zeros((7, 5, 4), np.float32)
    assert len(planned(a, np.zeros((4, 3), np.float32), "tiled").steps) == 1
    assert planned(a, np.zeros((4, 3), np.float32), "tiled").steps[0].grid == (
        3,
        1,
        1,
    )  # 35 x 3: one tall matrix
    assert planned(a, np.zeros((7, 4, 3), np.float32), "tiled").steps[0].grid == (1, 7, 1)
    assert (
        len(planned(np.zeros((2, 1, 5, 4)), np.zeros((3, 4, 3)), "naive").steps) == 2
    )  # 3 products at a time
    many = np.zeros((70_000, 1, 1), np.float32)
    assert [step.grid[1] for step in planned(many, many, "naive").steps] == [65535, 70_000 - 65535]


@pytest.mark.skipif(SIMULATED, reason="planned without the simulator")
def test_k_is_split_where_tiles_are_few():
    """And odd operands are copied. float32 only: parts of 16-bit sums would be rounded."""

    def names(m, k, n, dtype=np.float32, version="simt"):
        plan = planned(np.zeros((m, k), dtype), np.zeros((k, n), dtype), version)
        return [(step.kernel.__name__, step.grid[:2]) for step in plan.steps]

    assert names(1024, 1024, 1024) == [("matmul_block", (64, 4)), ("sum_parts", (4096, 1))]
    assert names(130, 512, 130) == [("matmul_block", (4, 8)), ("sum_parts", (67, 1))]
    for few in ((2048, 2048, 2048), (1024, 1020, 1024), (128, 64, 128)):
        assert [name for name, _ in names(*few)] == ["matmul_block"]
    assert [name for name, _ in names(1024, 1024, 1024, np.float16)] == ["matmul_block"]
    assert names(1024, 1024, 1024, version="simt_async_copy") == [
        ("matmul_async", (64, 4)),
        ("sum_parts", (4096, 1)),
    ]
    assert names(1024, 1024, 1024, version="simt_async_copy_small") == [
        ("matmul_async_small", (256, 1))
    ]
    # 384 tiles are two turns of 264, whole ones or three of half the k; 256 are one; small sums are
    # not worth their way
    assert names(8192, 3072, 768, version="simt_async_copy") == [
        ("matmul_async", (384, 2)),
        ("sum_parts", (24576, 1)),
    ]
    assert names(3001, 4096, 1000, version="simt_async_copy")[0] == ("matmul_async", (192, 4))
    for one in ((2048, 2048, 2048), (8192, 128, 768), (8192, 768, 2304)):
        assert [name for name, _ in names(*one, version="simt_async_copy")] == ["matmul_async"]
    rest = names(
        513, 259, 515, version="simt_async_copy"
    )  # of 259 steps four parts have 64, and the last three are a part as well
    assert rest == [("matmul_async", (25, 4)), ("matmul_async", (25, 1)), ("sum_parts", (1033, 1))]
    odd = [
        name for name, _ in names(513, 257, 515)
    ]  # rows that do not begin at multiples of 16 bytes are copied
    assert len(odd) == 3 and odd[2] == "matmul_block" and len(names(513, 260, 516)) == 1


@pytest.mark.skipif(SIMULATED, reason="planned without the simulator")
def test_without_cublas(monkeypatch):
    monkeypatch.setattr("cudamath.runtime.cublas.available", lambda: False)

    def name(shape, dtype, capability):
        x = np.zeros(shape, dtype)
        return planned(x, x, None, capability).steps[-1].kernel.__name__

    blocks = {name((2048, 2048), np.float32, (7, 5)), name((2048, 2048), np.int32, (9, 0))}
    assert blocks <= {"matmul_block", "matmul_register"}  # which take as long
    assert {name((2048, 2048), np.float32, c) for c in ((8, 0), (9, 0))} == {"matmul_async"}
    assert [name((400, 64, 64), np.float32, c) for c in ((7, 5), (9, 0))] == [
        "matmul_small",
        "matmul_async_small",
    ]
    assert name((40, 40), np.float32, (9, 0)) == "matmul_tiled"


@pytest.mark.skipif(SIMULATED, reason="planned without the simulator")
@pytest.mark.parametrize("dtype", [np.float16, cm.bfloat16, np.int8, np.float64])
@pytest.mark.parametrize("shape", [(64, 64), (2048, 2048), (40, 128, 128)])
def test_a_device_of_before_8_0_has_no_tensor_cores_of_ours(shape, dtype, monkeypatch):
    """Its tensor cores have neither these instructions nor asynchronous copies: no plan takes them,
    and by name they are refused."""
    monkeypatch.setattr("cudamath.runtime.cublas.available", lambda: False)
    x = np.zeros(shape, dtype)
    for version in ("sm80", "sm90"):
        with pytest.raises(ValueError, match=f"matmul: version '{version}' does not support"):
            planned(x, x, version, (7, 5))
    for step in planned(x, x, None, (7, 5)).steps:
        name = step.kernel.__name__
        assert not any(word in name for word in ("mma", "async")), name
    assert "mma" in planned(x, x, "sm80", (8, 0)).steps[-1].kernel.__name__


@pytest.mark.skipif(SIMULATED, reason="planned without the simulator")
def test_asynchronous_copies_need_neighbours():
    """Rows may begin anywhere, but an operand whose numbers are apart along both axes is copied
    first."""

    def names(a, b):
        return [step.kernel.__name__ for step in planned(a, b, "simt_async_copy").steps]

    a, b = np.zeros((513, 57), np.float32), np.zeros((57, 515), np.float32)
    assert names(a, b) == names(b.T, a.T) == ["matmul_async"]
    apart = np.zeros((513, 114), np.float32)[:, ::2]
    assert len(names(apart, b)) == 2 and len(names(b.T, apart.T)) == 2
    assert [name for name in names(np.zeros((3, 0), np.float32), np.zeros((0, 2), np.float32))] == [
        "matmul_naive"
    ]
    with pytest.raises(ValueError, match="^matmul: version .simt_async_copy. does not support"):
        planned(np.zeros((3, 4)), np.zeros((4, 2)), "simt_async_copy")


@pytest.mark.skipif(SIMULATED, reason="planned without the simulator")
def test_what_is_planned_for_tensor_cores():
    """Copies only where rows do not begin at multiples of 16 bytes; stores by TMA only where C's
    rows do."""
    from cudamath.kernels.matmul.sm90_tiles import Choice, choices, contenders

    def names(a, b, version):
        return [step.kernel.__name__ for step in planned(a, b, version).steps]

    def zeros(*shape):
        return np.zeros(shape, np.float16)

    for a, b, copies in (
        (zeros(64, 64), zeros(64, 64), 0),
        (zeros(64, 64).T, zeros(64, 64).T, 0),
        (zeros(64, 63), zeros(63, 64), 1),
        (zeros(64, 63).T, zeros(64, 61), 2),
        (zeros(3, 64, 64), zeros(64, 64), 0),
        (zeros(64, 128)[:, ::2], zeros(64, 64), 1),
        (zeros(64, 128)[:, :64], zeros(64, 64), 0),
        (zeros(64)[:, None], zeros(1, 64), 0),
    ):
        for version, kernel in (("sm80", "matmul_mma"), ("sm90", "matmul_wgmma")):
            found = names(a, b, version)
            assert found[-1] == kernel and len(found) == copies + 1, (
                a.shape,
                a.strides,
                b.strides,
                found,
            )
    assert names(zeros(64, 512), zeros(512, 64), "sm90 64x64 split 4") == [
        "matmul_wgmma",
        "add_splits_early",
    ]
    assert names(zeros(64, 512), zeros(512, 64), "sm90 64x64 split 8") == [
        "matmul_wgmma",
        "add_splits_early",
    ]
    for text in (
        "128x256",
        "64x256 pingpong",
        "64x64 split 4",
        "128x128 pingpong split 2",
        "64x64 share 4",
    ):
        assert str(Choice.parse(text)) == text
    for m, k, n in ((4096, 4096, 4096), (16, 4096, 4096), (1, 1, 1), (100_000, 64, 8)):
        ranked = choices(m, k, n, 1, 132)
        assert len(ranked) >= 6 and len({*ranked}) == len(ranked)
        timed = contenders(m, k, n, 1, 132)
        assert len({*timed}) == len(timed) and timed[0] == ranked[0]
    assert all(c.share == 1 for c in contenders(4096, 4096, 4096, 1, 132))
    assert any(c.share > 1 for c in contenders(64, 4096, 4096, 1, 132))


@pytest.mark.skipif(SIMULATED, reason="planned without the simulator")
@pytest.mark.parametrize("version", ["sm80", "sm90"])
@pytest.mark.parametrize("dtype", [np.float16, cm.bfloat16, np.float64], ids=str)
def test_tf32_says_nothing_of_other_dtypes(dtype, version):
    """Only float32 is rounded for tensor cores."""
    from cudamath.kernels.matmul import dispatch

    if (dtype, version) == (np.float64, "sm90"):
        pytest.skip("wgmma has no float64")
    x = Layout.new((256, 256), np.dtype(dtype), 0)

    def steps(tf32):
        with assume((9, 0)):
            plan = dispatch.matmul(x, x, tf32=tf32, version=version)
        return [(step.kernel.__name__, step.grid, step.shared) for step in plan.steps]

    assert steps(True) == steps(False)


def test_little_products_are_not_worth_a_call_of_cublas(monkeypatch):
    from cudamath import runtime
    from cudamath.kernels.matmul import dispatch

    monkeypatch.setattr(runtime.cublas, "available", lambda: True)
    with assume((9, 0)):

        def chosen(m, k, n, dtype="f4", batch=()):
            a, b = (Layout.new((*batch, *shape), np.dtype(dtype), 0) for shape in ((m, k), (k, n)))
            return dispatch.matmul(a, b).why.split(":")[0]

        assert {
            chosen(1, 64, 1),
            chosen(64, 64, 64),
            chosen(64, 64, 64, "f8"),
            chosen(128, 16, 100),
        } == {"tiled"}
        assert {chosen(2000, 2000, 2000, dtype) for dtype in ("f8", "c8")} == {"cublas"}
        assert chosen(1000, 64, 1000) == "cublas"  # few terms of many sums
        assert {chosen(16, 16, 16, batch=batch) for batch in ((4,), (2, 66))} == {"tiled"}
