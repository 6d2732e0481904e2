"""PTX intrinsics on a GPU, by name, against NumPy; without one they are compiled."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch.arguments import Input, Output, TensorMap
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import lazy_numba
from cudamath.runtime import device
from cudamath.testing import compile_plan

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="PTX has no meaning in the simulator")

if not lazy_numba.SIMULATOR:
    from cudamath.kernels.compiler.lazy_numba import cuda, types
    from cudamath.kernels.lib import tma_pipeline
    from cudamath.kernels.ptx import sm80 as ptx_sm80
    from cudamath.kernels.ptx import sm90 as ptx_sm90

    i32, i64, f32 = types.int32, types.int64, types.float32

BF16 = np.dtype(ml_dtypes.bfloat16)
KINDS = {
    "bf16": BF16,
    "f16": np.dtype(np.float16),
    "tf32": np.dtype(np.float32),
    "s8": np.dtype(np.int8),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
}


def on_gpu(
    kernel, inputs, outputs, args, *, block=128, grid=1, shared=0, cluster=1, capability=(9, 0)
):
    """Compile the launch; on a GPU that can, run it: the outputs as NumPy arrays, else a skip."""
    layouts = [Layout.new(x.shape, x.dtype, 0) for x in inputs]
    plan = Plan(
        [Layout.new(shape, np.dtype(dtype), 0) for shape, dtype in outputs],
        [Launch(kernel, grid, block, args, shared, cluster)],
    )
    if (
        cm.cuda.device_count() < 1
        or device.capability(0) < capability
        or capability == (9, 0) != device.capability(0)
    ):
        assert compile_plan(plan, layouts, capability)[0].spills == 0
        pytest.skip("compiled; runs on a GPU of that compute capability")
    with cm.device("cuda:0"):
        results = plan.bind("ptx", layouts)(*[cm.asarray(x) for x in inputs])
        return [y.to_numpy() for y in (results if isinstance(results, tuple) else (results,))]


def numbers(rng, shape, kind):
    """Numbers whose products and sums are exact in float32."""
    return rng.integers(-4, 5, shape).astype(np.float32).astype(KINDS[kind])


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


# -------------------- wgmma


def accumulators_out(n, kind):
    """A device function: a warpgroup's accumulators of 64 x n to out (64, n), by the layout that
    kernels/ptx/sm90.py states."""

    @cuda.jit(device=True, forceinline=True)
    def store(c, thread, out):
        row = 16 * (thread // 32) + thread % 32 // 4
        for j in range(n // 8):
            column = 8 * j + 2 * (thread % 4)
            out[row, column] = c[4 * j]
            out[row, column + 1] = c[4 * j + 1]
            out[row + 8, column] = c[4 * j + 2]
            out[row + 8, column + 1] = c[4 * j + 3]

    return store


@pytest.mark.parametrize(
    "kind, n, a_major, b_major",
    [
        ("bf16", 256, "K", "K"),
        ("bf16", 128, "M", "M"),
        ("f16", 64, "K", "M"),
        ("f16", 192, "M", "K"),
        ("tf32", 64, "K", "K"),
        ("s8", 32, "K", "K"),
        ("e4m3", 8, "K", "K"),
    ],
)
def test_wgmma(kind, n, a_major, b_major):
    """Two groups: the first overwrites, the second adds."""
    dtype, result = KINDS[kind], np.int32 if kind == "s8" else np.float32
    k = 128 // dtype.itemsize
    bytes_a, bytes_b, held = 64 * 128, n * 128, n // 2
    T = i32 if kind == "s8" else f32
    steps = [tma_pipeline.descriptor_steps(major == "M") for major in (a_major, b_major)]
    first = ptx_sm90.wgmma(
        kind, n, *steps, zero=True, trans_a=a_major == "M", trans_b=b_major == "M"
    )
    second = ptx_sm90.wgmma(kind, n, *steps, trans_a=a_major == "M", trans_b=b_major == "M")
    done = ptx_sm90.wgmma_wait(0, n // 2, T)
    base_a, base_b = (
        tma_pipeline.descriptor_base(tma_pipeline.BOX_BYTES if m == "M" else 16)
        for m in (a_major, b_major)
    )
    store = accumulators_out(n, kind)
    boxes = n // 64 if b_major == "M" else 1

    @cuda.jit(launch_bounds=(128, 1))
    def kernel(map_a, map_b, out):
        at = tma_pipeline.first_tile(cuda.shared.array(0, types.uint8))
        bar = i32(at + bytes_a + bytes_b)
        thread = i32(cuda.threadIdx.x)
        c = cuda.local.array(held, T)
        if thread == 0:
            ptx_sm90.barrier_init(bar, 1)
            ptx_sm90.fence_barrier_init()
            ptx_sm90.fence_async_shared()
            ptx_sm90.barrier_expect(bar, bytes_a + bytes_b)
            ptx_sm90.tma_load_2d(at, map_a, 0, 0, bar)
            for i in range(boxes):
                ptx_sm90.tma_load_2d(i32(at + bytes_a + i * 8192), map_b, i * 64, 0, bar)
        cuda.syncthreads()
        ptx_sm90.barrier_wait(bar, 0)
        a, b = tma_pipeline.descriptor(at, base_a), tma_pipeline.descriptor(at + bytes_a, base_b)
        first(c, 0, a, b)
        second(c, 0, a, b)
        done(c, 0)
        store(c, thread, out)

    rng = np.random.default_rng(1)
    a, b = numbers(rng, (64, k), kind), numbers(rng, (k, n), kind)
    x = a if a_major == "K" else np.ascontiguousarray(a.T)
    y = np.ascontiguousarray(b.T) if b_major == "K" else b
    maps = [
        TensorMap(Input(0), x.shape, None, (64, 64) if a_major == "M" else (64, k)),
        TensorMap(Input(1), y.shape, None, (64, 64) if b_major == "M" else (n, k)),
    ]
    (got,) = on_gpu(
        kernel, [x, y], [((64, n), result)], [*maps, Output(0)], shared=bytes_a + bytes_b + 2048
    )
    assert np.array_equal(got, 2 * exact(a, b))


@pytest.mark.parametrize("kind, b_major", [("bf16", "M"), ("f16", "K")])
def test_wgmma_with_registers(kind, b_major):
    n, k, held = 64, 64, 32
    multiply = ptx_sm90.wgmma_registers(
        kind, n, tma_pipeline.descriptor_steps(b_major == "M"), zero=True, trans_b=b_major == "M"
    )
    done, keep = ptx_sm90.wgmma_wait(0, n // 2), ptx_sm90.hold(16)
    base = tma_pipeline.descriptor_base()
    store = accumulators_out(n, kind)

    @cuda.jit(launch_bounds=(128, 1))
    def kernel(a, map_b, out):
        at = tma_pipeline.first_tile(cuda.shared.array(0, types.uint8))
        bar = i32(at + 8192)
        thread = i32(cuda.threadIdx.x)
        c = cuda.local.array(held, f32)
        registers = cuda.local.array(16, i32)
        if thread == 0:
            ptx_sm90.barrier_init(bar, 1)
            ptx_sm90.fence_barrier_init()
            ptx_sm90.fence_async_shared()
            ptx_sm90.barrier_expect(bar, 8192)
            ptx_sm90.tma_load_2d(at, map_b, 0, 0, bar)
        cuda.syncthreads()
        row, pair = 16 * (thread // 32) + thread % 32 // 4, thread % 4
        for step in range(4):  # a: (64, 32) pairs
            registers[4 * step] = a[row, 8 * step + pair]
            registers[4 * step + 1] = a[row + 8, 8 * step + pair]
            registers[4 * step + 2] = a[row, 8 * step + pair + 4]
            registers[4 * step + 3] = a[row + 8, 8 * step + pair + 4]
        ptx_sm90.barrier_wait(bar, 0)
        multiply(c, 0, registers, 0, tma_pipeline.descriptor(at, base))
        keep(registers, 0)
        done(c, 0)
        store(c, thread, out)

    rng = np.random.default_rng(2)
    a, b = numbers(rng, (64, k), kind), numbers(rng, (k, n), kind)
    y = b if b_major == "M" else np.ascontiguousarray(b.T)
    (got,) = on_gpu(
        kernel,
        [a.view(np.int32), y],
        [((64, n), np.float32)],
        [Input(0), TensorMap(Input(1), y.shape, None, (64, 64)), Output(0)],
        shared=8192 + 2048,
    )
    assert np.array_equal(got, exact(a, b))


# -------------------- TMA


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_boxes_of_every_rank(rank):
    """A box comes, is stored elsewhere, and added to what is there: outside the tensor are zeros,
    and nothing is written."""
    shape = (2, 3, 2, 5, 16)[-rank:]
    box = (1,) * (rank - 2) + (4, 16)
    load, store, add = (
        getattr(ptx_sm90, f"tma_{verb}_{rank}d") for verb in ("load", "store", "add")
    )
    commit, stored, read = (
        ptx_sm90.bulk_commit,
        ptx_sm90.bulk_wait(0),
        ptx_sm90.bulk_wait(0, read=True),
    )
    source = f"""
def body(at, bar, x, y):
    load(at, x, 0, 2{", 1" * (rank - 2)}, bar)
    wait(bar, 0)
    fence()
    store(y, 0, 1{", 0" * (rank - 2)}, at)
    commit()
    stored()
    add(y, 0, 3{", 0" * (rank - 2)}, at)
    commit()
    read()
    stored()
"""
    space = {
        "load": load,
        "store": store,
        "add": add,
        "commit": commit,
        "stored": stored,
        "read": read,
        "wait": ptx_sm90.barrier_wait,
        "fence": ptx_sm90.fence_async,
    }
    exec(source, space)
    body = cuda.jit(device=True)(space["body"])

    @cuda.jit
    def kernel(x, y, zeros):
        at = tma_pipeline.first_tile(cuda.shared.array(0, types.uint8))
        bar = i32(at + 4 * 64)
        if cuda.threadIdx.x == 0:
            ptx_sm90.barrier_init(bar, 1)
            ptx_sm90.fence_barrier_init()
            ptx_sm90.barrier_expect(bar, 4 * 64)
            ptx_sm90.prefetch_map(x)
            for i in range(zeros.size):
                zeros[i] = f32(0)
            ptx_sm90.fence_async()
            body(at, bar, x, y)

    x = np.random.default_rng(rank).standard_normal(shape).astype(np.float32)
    maps = [TensorMap(a, shape, None, box, swizzle=0) for a in (Input(0), Output(0))]
    (got,) = on_gpu(
        kernel, [x], [(shape, np.float32)], [*maps, Output(0).flat], block=32, shared=3072
    )
    expected = np.zeros(shape, np.float32)
    rows = np.zeros((4, 16), np.float32)
    rows[:3] = x[(1,) * (rank - 2)][2:]
    target = expected[(0,) * (rank - 2)]
    target[1:5] += rows
    target[3:5] += rows[:2]
    assert np.array_equal(got, expected)


def test_im2col():
    """Channels of eight consecutive pixels, shifted by a filter's offsets; outside the image are
    zeros."""
    images, height, width, channels = 2, 4, 5, 8

    @cuda.jit
    def kernel(x, out):
        at = tma_pipeline.first_tile(cuda.shared.array(0, types.uint8))
        bar = i32(at + 256)
        if cuda.threadIdx.x == 0:
            ptx_sm90.barrier_init(bar, 1)
            ptx_sm90.fence_barrier_init()
            ptx_sm90.barrier_expect(bar, 256)
            ptx_sm90.tma_load_im2col_4d(
                at, x, 0, 2, -1, 1, bar, 2, 0
            )  # pixels from (h -1, w 2) of image 1, filter (0, 2)
        cuda.syncthreads()
        ptx_sm90.barrier_wait(bar, 0)
        for i in range(64):
            out[i] = ptx_sm80.bits_float(ptx_sm80.load_shared(i32(at + 4 * i)))

    x = (
        np.random.default_rng(3)
        .standard_normal((images, height, width, channels))
        .astype(np.float32)
    )
    # a 3 x 3 filter, padding 1: corners -1 and 1 - 2 = -1
    tensor = TensorMap(
        Input(0), x.shape, None, (8, channels), swizzle=0, lower=(-1, -1), upper=(-1, -1)
    )
    (got,) = on_gpu(kernel, [x], [((64,), np.float32)], [tensor, Output(0)], block=32, shared=2048)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    pixels = [
        (1, h, w) for h in range(height) for w in range(width)
    ]  # where the filter's window begins, in padded terms
    first = pixels.index((1, 0, 3))
    expected = [padded[n, h + 0, w + 2] for n, h, w in pixels[first : first + 8]]
    assert np.array_equal(got.reshape(8, 8), np.array(expected))


def test_a_cluster_shares_what_one_block_loads():
    @cuda.jit
    def kernel(x, out):
        at = tma_pipeline.first_tile(cuda.shared.array(0, types.uint8))
        bar, ready = i32(at + 1024), i32(at + 1032)
        rank = ptx_sm90.cluster_rank()
        thread = i32(cuda.threadIdx.x)
        if thread == 0:
            ptx_sm90.barrier_init(bar, 1)
            ptx_sm90.barrier_init(ready, 2)
            ptx_sm90.fence_barrier_init()
            ptx_sm90.barrier_expect(bar, 512)
        ptx_sm90.cluster_sync()
        if thread < 2:
            ptx_sm90.barrier_arrive_at(ready, thread)  # each block tells both
        ptx_sm90.barrier_wait_cluster(ready, 0)
        if thread == 0:  # each block loads half of the rows, for both
            ptx_sm90.tma_load_2d_multicast(i32(at + rank * 256), x, 0, i32(rank * 4), bar, 3)
        ptx_sm90.barrier_wait(bar, 0)
        for i in range(128):
            out[cuda.blockIdx.x, i] = ptx_sm80.bits_float(ptx_sm80.load_shared(i32(at + 4 * i)))
        ptx_sm90.cluster_sync()

    x = np.random.default_rng(4).standard_normal((8, 16)).astype(np.float32)
    tensor = TensorMap(Input(0), x.shape, None, (4, 16), swizzle=0)
    (got,) = on_gpu(
        kernel,
        [x],
        [((4, 128), np.float32)],
        [tensor, Output(0)],
        block=32,
        grid=4,
        shared=3072,
        cluster=2,
    )
    assert np.array_equal(got, np.broadcast_to(x.reshape(-1), (4, 128)))


def test_clusters_of_several_sizes():
    """A kernel launched with one size after another has each time the one that was requested."""

    @cuda.jit
    def kernel(out):
        rank = ptx_sm90.cluster_rank()
        if cuda.threadIdx.x == 0:
            out[cuda.blockIdx.x] = rank

    for size in (2, 4, 2):
        (got,) = on_gpu(kernel, [], [((8,), np.int32)], [Output(0)], block=32, grid=8, cluster=size)
        np.testing.assert_array_equal(got, np.arange(8) % size)


def test_bulk_copies():
    finished = ptx_sm90.bulk_wait(0)

    @cuda.jit
    def kernel(x, out, sums):
        at = tma_pipeline.first_tile(cuda.shared.array(0, types.uint8))
        bar = i32(at + 256)
        if cuda.threadIdx.x == 0:
            ptx_sm90.barrier_init(bar, 1)
            ptx_sm90.fence_barrier_init()
            ptx_sm90.barrier_expect(bar, 256)
            ptx_sm90.bulk_load(at, ptx_sm80.global_address(x), 256, bar)
            ptx_sm90.barrier_wait(bar, 0)
            for i in range(sums.size):
                sums[i] = f32(1)
            ptx_sm90.fence_async()
            ptx_sm90.bulk_store(ptx_sm80.global_address(out), at, 256)
            ptx_sm90.bulk_add_float(ptx_sm80.global_address(sums), at, 256)
            ptx_sm90.bulk_commit()
            finished()

    x = np.random.default_rng(5).standard_normal(64).astype(np.float32)
    copy, sums = on_gpu(
        kernel,
        [x],
        [((64,), np.float32)] * 2,
        [Input(0), Output(0), Output(1)],
        block=32,
        shared=2048,
    )
    assert np.array_equal(copy, x) and np.array_equal(sums, x + np.float32(1))


# -------------------- mma.sync


@pytest.mark.parametrize("kind", ["bf16", "f16", "tf32", "s8"])
def test_mma(kind):
    """A warp multiplies 16 x k by k x 8; fragments come by ldmatrix, which moves 16-bit pairs
    whatever they hold."""
    dtype = KINDS[kind]
    k = 32 // dtype.itemsize  # rows of 32 bytes
    multiply = ptx_sm80.mma(kind)
    T = i32 if kind == "s8" else f32

    @cuda.jit
    def kernel(a, b, out):
        """a: (16, 8), b: (8, 8) int32: rows of 32 bytes along k."""
        tile_a = cuda.shared.array((16, 8), i32, alignment=16)
        tile_b = cuda.shared.array((8, 8), i32, alignment=16)
        lane = i32(cuda.threadIdx.x)
        at_a, at_b = ptx_sm80.shared_address(tile_a), ptx_sm80.shared_address(tile_b)
        # 16 bytes a copy: 32 of A, 16 of B
        ptx_sm80.copy_16(i32(at_a + 16 * lane), ptx_sm80.global_address(a) + 16 * lane)
        ptx_sm80.copy_16_or_zero(
            i32(at_b + 16 * (lane & 15)), ptx_sm80.global_address(b) + 16 * (lane & 15), 16
        )
        ptx_sm80.copy_commit()
        arrived()
        cuda.syncthreads()
        x, y, c = cuda.local.array(4, i32), cuda.local.array(2, i32), cuda.local.array(4, T)
        x[0], x[1], x[2], x[3] = ptx_sm80.load_matrix_4(
            i32(at_a + (lane & 15) * 32 + (lane >> 4) * 16)
        )
        y[0], y[1] = ptx_sm80.load_matrix_2(i32(at_b + (lane & 7) * 32 + ((lane >> 3) & 1) * 16))
        for i in range(4):
            c[i] = T(1)
        multiply(c, 0, x, 0, y, 0)
        row, column = lane >> 2, 2 * (lane & 3)
        out[row, column], out[row, column + 1], out[row + 8, column], out[row + 8, column + 1] = (
            c[0],
            c[1],
            c[2],
            c[3],
        )

    arrived = ptx_sm80.copy_wait(0)
    rng = np.random.default_rng(6)
    a, b = numbers(rng, (16, k), kind), numbers(rng, (k, 8), kind)
    (got,) = on_gpu(
        kernel,
        [a.view(np.int32), np.ascontiguousarray(b.T).view(np.int32)],
        [((16, 8), np.int32 if kind == "s8" else np.float32)],
        [Input(0), Input(1), Output(0)],
        block=32,
        capability=(8, 0),
    )
    assert np.array_equal(got, exact(a, b) + 1)


def test_fragments_there_and_back():
    """ldmatrix with and without transposition, stmatrix, movmatrix: a 16 x 16 tile and its
    transposed blocks."""

    @cuda.jit
    def kernel(x, same, flipped, moved):
        """x and the results: (16, 8) int32: 16 x 16 numbers of 16 bits."""
        tile = cuda.shared.array((16, 8), i32, alignment=16)
        other = cuda.shared.array((16, 8), i32, alignment=16)
        lane = i32(cuda.threadIdx.x)
        for i in range(4):
            tile[lane >> 1, (lane & 1) * 4 + i] = x[lane >> 1, (lane & 1) * 4 + i]
        cuda.syncthreads()
        row = i32((lane & 15) * 32 + (lane >> 4) * 16)
        here, there = (
            i32(ptx_sm80.shared_address(tile) + row),
            i32(ptx_sm80.shared_address(other) + row),
        )
        a, b, c, d = ptx_sm80.load_matrix_4(here)
        for result in range(3):
            if result == 0:
                ptx_sm80.store_matrix_4(there, a, b, c, d)
            elif result == 1:
                e, f, g, h = ptx_sm80.load_matrix_4_transposed(here)
                ptx_sm80.store_matrix_4(there, e, f, g, h)
            else:
                ptx_sm80.store_matrix_4_transposed(
                    there,
                    ptx_sm80.transpose_tile(a),
                    ptx_sm80.transpose_tile(b),
                    ptx_sm80.transpose_tile(c),
                    ptx_sm80.transpose_tile(d),
                )
            cuda.syncthreads()
            for i in range(4):
                v = other[lane >> 1, (lane & 1) * 4 + i]
                if result == 0:
                    same[lane >> 1, (lane & 1) * 4 + i] = v
                elif result == 1:
                    flipped[lane >> 1, (lane & 1) * 4 + i] = v
                else:
                    moved[lane >> 1, (lane & 1) * 4 + i] = v
            cuda.syncthreads()

    x = np.arange(256, dtype=np.uint16).reshape(16, 16)
    got = on_gpu(
        kernel,
        [x.view(np.int32)],
        [((16, 8), np.int32)] * 3,
        [Input(0), Output(0), Output(1), Output(2)],
        block=32,
    )
    same, flipped, moved = (y.view(np.uint16) for y in got)
    blocks = x.reshape(2, 8, 2, 8).swapaxes(1, 3).reshape(16, 16)
    assert np.array_equal(same, x) and np.array_equal(flipped, blocks) and np.array_equal(moved, x)


def test_conversions_and_functions():
    @cuda.jit
    def kernel(x, packed, out):
        """x: (n,); packed: (2, n); out: (12, n)."""
        i = cuda.grid(1)
        v, w = x[i], x[(i + 1) % x.size]
        b, h = ptx_sm80.pack_bf16(v, w), ptx_sm80.pack_f16(v, w)
        packed[0, i], packed[1, i] = b, h
        out[0, i], out[1, i] = ptx_sm80.unpack_bf16(b)
        out[2, i], out[3, i] = ptx_sm80.unpack_f16(h)
        out[4, i], out[5, i] = ptx_sm80.exp2(v), ptx_sm80.log2(abs(v))
        out[6, i], out[7, i] = ptx_sm80.reciprocal(v), ptx_sm80.tanh(v)
        out[8, i], out[9, i] = ptx_sm80.maximum(v, w), ptx_sm80.round_tf32(v)
        out[10, i] = ptx_sm80.shuffle_xor_float(v, 1)
        out[11, i] = f32(ptx_sm80.any_lane(i32(i == 40)))

    x = np.random.default_rng(7).standard_normal(64).astype(np.float32)
    y = np.roll(x, -1)
    packed, out = on_gpu(
        kernel,
        [x],
        [((2, 64), np.int32), ((12, 64), np.float32)],
        [Input(0), Output(0), Output(1)],
        block=64,
        capability=(8, 0),
    )
    for row, dtype in enumerate((BF16, np.dtype(np.float16))):
        pairs = np.stack([x, y], -1).astype(dtype)
        assert np.array_equal(packed[row], pairs.view(np.int32)[:, 0])
        assert np.array_equal(out[2 * row : 2 * row + 2].T, pairs.astype(np.float32))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(out[4], np.exp2(wide), rtol=3e-7)
    np.testing.assert_allclose(out[5], np.log2(np.abs(wide)), rtol=1e-6, atol=3e-7)
    np.testing.assert_allclose(out[6], 1 / wide, rtol=3e-7)
    np.testing.assert_allclose(out[7], np.tanh(wide), rtol=2.0**-10)
    assert np.array_equal(out[8], np.maximum(x, y))
    np.testing.assert_allclose(out[9], wide, rtol=2.0**-11)
    assert not (out[9].view(np.uint32) & 0x1FFF).any()
    assert np.array_equal(out[10], x.reshape(-1, 2)[:, ::-1].reshape(-1))
    assert np.array_equal(out[11], np.repeat([0, 1], 32))


def test_between_blocks():
    """A block waits for the one before it: released numbers are seen; an atomic counter hands out
    each place once."""

    @cuda.jit
    def kernel(out, order, turn):
        """out, order: (blocks,); turn: (2,) int32."""
        mine = i32(cuda.blockIdx.x)
        flag = ptx_sm80.global_address(turn)
        order[mine] = ptx_sm80.atomic_add(flag + 4, 1)
        while ptx_sm80.load_acquire(flag) != mine:
            pass
        out[mine] = 1 if mine == 0 else out[mine - 1] + 1
        ptx_sm80.fence_gpu()
        ptx_sm80.store_release(flag, i32(mine + 1))

    @cuda.jit
    def clear(turn):
        turn[0], turn[1] = 0, 0

    plan = Plan(
        [Layout.new((8,), np.dtype(np.int32), 0)] * 2 + [Layout.new((2,), np.dtype(np.int32), 0)],
        [Launch(clear, 1, 1, [Output(2)]), Launch(kernel, 8, 1, [Output(0), Output(1), Output(2)])],
    )
    if cm.cuda.device_count() < 1:
        compile_plan(plan, [], (8, 0))
        pytest.skip("compiled; runs on a GPU")
    with cm.device("cuda:0"):
        out, order, _ = (y.to_numpy() for y in plan.bind("ptx", [], 0, 0)())
    assert np.array_equal(out, np.arange(1, 9)) and np.array_equal(np.sort(order), np.arange(8))
