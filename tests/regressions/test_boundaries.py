"""Boundaries and rare arguments of functions, beside NumPy's, SciPy's and float64's."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
import scipy.special

import cudamath as cm
from cudamath.ops.shape import pattern
from cudamath.programs import gathered_products

KINDS = ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float16", "float32"]
KINDS += ["float64", "bfloat16", "bool"]


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


@pytest.mark.parametrize("wide", KINDS)
def test_casts_there_and_back_keep_what_numpy_keeps(wide):
    """In a program, too, which leaves out casts that cancel: int64 does not survive float64."""
    for narrow in KINDS:
        kind = dtype_of(narrow)
        if kind.kind in "iu":
            info = np.iinfo(kind)
            near = [info.max, info.max - 1, info.min, 1 << (info.bits - 3), 0, 1, 77]
            near += [(1 << k) + 1 for k in (7, 9, 11, 24, 53) if k < info.bits - 1]
            x = np.array(near, kind)
        else:
            x = np.array([0, 1, 2.5, 77, 100.3]).astype(kind)
        there = dtype_of(wide)
        with np.errstate(all="ignore"):
            middle = x.astype(there)
            fits = there.kind not in "iu" or x.dtype.kind in "biu" or x.astype(float).max() < 128
            if kind.kind in "iu" and there.kind not in "biu":  # what is outside has no value
                inside = middle.astype(np.float64)
                keep = (inside < 2.0 ** (info.bits - (kind.kind == "i"))) & np.isfinite(inside)
                x, middle = x[keep], middle[keep]
            expected = middle.astype(kind)
        if not fits:
            continue

        def both(x, wide=there, narrow=kind):
            y = x.astype(wide).astype(narrow)
            return cm.maximum(y, y)  # what is returned itself is never left out

        got = cm.jit(both)(cm.asarray(x, device="cpu")).to_numpy()
        np.testing.assert_array_equal(got, expected, strict=True)


@pytest.mark.parametrize("dtype", KINDS)
def test_iteration_gives_what_indexing_gives(dtype):
    x = cm.asarray(np.array([0, 1, 1]).astype(dtype_of(dtype)), device="cpu")
    for y in (x, x[::2], x[:0]):
        found = list(y)
        assert [type(v) for v in found] == [type(y[i]) for i in range(y.size)]
        assert [float(v) for v in found] == y.astype("float64").tolist()


def test_numpys_ufuncs_take_subok():
    x, out = cm.array([1.0, 4.0], device="cpu"), cm.zeros(2, device="cpu")
    for subok in (True, False):
        assert np.add(x, 1, subok=subok).tolist() == [2.0, 5.0]
        assert np.matmul(x, x, subok=subok) == 17.0
        assert np.sqrt(x, out=out, subok=subok) is out and out.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", ["cumsum", "nancumsum", "cumprod", "nancumprod"])
def test_scans_of_bfloat16_have_its_range(name):
    """2^100 and 2^-100 are far outside of float16's."""
    x = np.array([2.0**100, 2.0**100, 2.0**-100, 2.0**-99]).astype(ml_dtypes.bfloat16)
    got = getattr(cm, name)(cm.asarray(x, device="cpu")[1:])
    exact = getattr(np, name)(x[1:].astype(np.float64))
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got.to_numpy().astype(np.float64), exact.astype(x.dtype))


def test_clip_takes_its_bounds_by_one_name():
    x = np.array([1.0, 5.0, 9.0])
    for more in ({"min": 1}, {"max": 3}, {"min": 1, "max": 3}):
        with pytest.raises(ValueError, match="min"):
            np.clip(x, 2, 6, **more)
        with pytest.raises(ValueError, match="^clip: a_min, a_max and min, max are the same"):
            cm.clip(x, 2, 6, **more)
        assert cm.clip(x, **more).tolist() == np.clip(x, **more).tolist()


@pytest.mark.parametrize("arguments", [(None,), (None, 1), ("i", None), ("i,i", [1.0], None)])
def test_einsum_refuses_none(arguments):
    with pytest.raises((TypeError, ValueError), match="^einsum: "):
        cm.einsum(*arguments)


@pytest.mark.parametrize("name", ["concatenate", "stack", "hstack", "vstack", "column_stack"])
@pytest.mark.parametrize("place", [0, 1])
def test_sequences_refuse_none(name, place):
    """By the function's name, also where a fast path asks for layouts first."""
    arrays = [cm.ones(3), cm.ones(3)]
    arrays[place] = None
    with pytest.raises(TypeError, match=f"^{name}: "):
        getattr(cm, name)(arrays)
    for spread in ("meshgrid", "broadcast_arrays", "atleast_1d"):
        with pytest.raises(TypeError, match=f"^{spread}: "):
            getattr(cm, spread)(*arrays)


def test_outlines_keep_dtypes():
    like = cm.distributed.outline({"a": 1.5, "b": cm.ones((2, 3), "float16"), "c": np.int8([1])})
    assert [str(like[k].dtype) for k in "abc"] == ["float64", "float16", "int8"]
    assert [like[k].shape for k in "abc"] == [(), (2, 3), (1,)] and not like["b"].any()


@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3fn", "float8_e5m2"])
def test_products_of_many_pairs_of_8_bits(dtype):
    """Each call of `vmap` has its own matrices: integers are summed exactly, fractions count."""
    rng, kind = np.random.default_rng(2), dtype_of(dtype)
    big = rng.integers(100, 128, (2, 4, 3, 2048)) if dtype == "int8" else rng.random((2, 4, 3, 64))
    a, b = (x.astype(kind) for x in big)
    scales = rng.random((4, 3)).astype(np.float32)

    def one(a, b, s):
        return cm.ml.scaled_matmul(a, b.T, s, s, dtype="float64")

    got = cm.vmap(one)(cm.asarray(a), cm.asarray(b), cm.asarray(scales)).to_numpy()
    for i in range(4):
        exact = a[i].astype(np.float64) @ b[i].astype(np.float64).T
        exact = exact.astype(np.float32) if dtype == "int8" else exact
        exact = exact * np.float64(scales[i])[:, None] * scales[i]
        np.testing.assert_allclose(got[i], exact, rtol=2e-7 if dtype == "int8" else 1e-5)


def test_masks_see_ones():
    for mask in (lambda m, k: m == 1, lambda m, k: np.asarray(m) * [[1, 0, 2]] * 3):
        ours, theirs = cm.mask_indices(3, mask), np.mask_indices(3, mask)
        for a, b in zip(ours, theirs, strict=True):
            assert a.tolist() == b.tolist()


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
@pytest.mark.parametrize("name", ["matmul", "vecdot", "matvec"])
def test_casts_of_operands_follow_the_rule(name, casting):
    if not hasattr(np, name):
        pytest.skip("NumPy has no such function")
    kinds = ["int8", "int32", "int64", "float32", "float64", "complex64"]
    for given, dtype in itertools.product(kinds, kinds):
        x = np.eye(3, dtype=given)
        try:
            expected = getattr(np, name)(x, x, dtype=dtype, casting=casting)
        except TypeError:
            with pytest.raises(TypeError, match=f"^{name}: "):
                getattr(cm, name)(cm.array(x), cm.array(x), dtype=dtype, casting=casting)
        else:
            got = getattr(cm, name)(cm.array(x), cm.array(x), dtype=dtype, casting=casting)
            np.testing.assert_array_equal(got.to_numpy(), expected, strict=True)


def test_rotations_of_numbers_are_refused():
    x = cm.ones((4, 8), "float32")
    for cos, sin in ((1.0, 0.0), (np.ones(4), 0.0), (np.ones((4, 5)), np.ones((4, 5)))):
        with pytest.raises(ValueError, match="^rotary_embedding: wants cos and sin"):
            cm.ml.rotary_embedding(x, cm.array(cos, "float32"), cm.array(sin, "float32"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_trilinear_values_are_rounded_once(dtype):
    """Between the passes over planes and lines the numbers are float32."""
    x = np.random.default_rng(3).normal(size=(2, 3, 4, 5, 6)).astype(dtype_of(dtype))
    exact = x.astype(np.float64)
    for axis in (2, 3, 4):
        n = exact.shape[axis]
        place = np.maximum((np.arange(2 * n) + 0.5) / 2 - 0.5, 0)
        low = place.astype(int)
        high, part = np.minimum(low + 1, n - 1), place - low
        part = part.reshape((-1,) + (1,) * (4 - axis))
        exact = exact.take(low, axis) * (1 - part) + exact.take(high, axis) * part
    got = cm.ml.upsample(cm.asarray(x), scale_factor=2, mode="trilinear").to_numpy()
    error = np.abs(got.astype(np.float64) - exact)
    step = np.exp2(np.floor(np.log2(np.abs(exact))) - ml_dtypes.finfo(x.dtype).nmant)
    assert (error <= 0.5001 * step + 1e-6).all()


@pytest.mark.parametrize("name", ["bdtr", "bdtrc", "bdtri"])
def test_binomials_at_their_ends(name):
    """None and all of n, and one more."""
    k, n, p = np.meshgrid([-1.0, 0.0, 4.0, 5.0, 6.0], [5], [0.0, 0.3, 1.0])
    if name == "bdtri":
        p = p.clip(0.1, 0.9)
    got = getattr(cm.special, name)(k, n, p).to_numpy()
    np.testing.assert_allclose(got, getattr(scipy.special, name)(k, n, p), rtol=1e-13)


@pytest.mark.parametrize("dtype", [*KINDS, "complex64", "complex128"])
def test_patterns_of_fills_are_numpys_bytes(dtype):
    kind = dtype_of(dtype)
    for value in (0.0, -0.0, 0, 1, 1.0, False, True, 0j, 1j, complex(-0.0, 0.0)):
        if isinstance(value, complex) and kind.kind != "c":
            continue
        memory = np.full(16 // kind.itemsize, np.array(value, kind)).tobytes()
        found = np.array(pattern("full", value, kind), np.uint64).tobytes()
        assert found == memory, (value, found, memory)


def test_rows_are_gathered_where_that_is_less_work():
    """At the bounds that the module states, and one beyond."""
    rows, columns = gathered_products.LESS * 10, 4
    wide = gathered_products.WIDER * columns
    less = gathered_products._less
    assert less([(10, columns)], (rows, columns), wide)
    assert not less([(10, columns)], (rows, columns), wide + 1)
    assert not less([(10, columns)], (rows - 1, columns), wide)
    assert less([(5, columns)] * 2, (rows, columns), wide // 2)
