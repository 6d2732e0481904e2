"""Attention: values, options, gradients of both orders, errors, and each kernel version by name.

The truth is the definition written out in float64, one batch element and head at a time, and
PyTorch where it is installed.
"""

import math

import numpy as np
import pytest
from gradient_checks import (
    DTYPES,
    TOLERANCE,
    check_gradient,
    check_resources,
    check_second_order,
    numbers,
    versions,
    wide,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import cudamath as cm
from cudamath.kernels.compiler.lazy_numba import SIMULATOR
from cudamath.testing import assert_close, layout_of, simulate

attend = cm.ml.scaled_dot_product_attention


def reference(q, k, v, mask=None, causal=False, scale=None, query_lengths=None, key_lengths=None):
    """The definition; arrays of four axes."""
    q, k, v = wide(q), wide(k), wide(v)
    (batch, heads, queries, depth), (shared, keys) = q.shape, k.shape[1:3]
    out = np.zeros((batch, heads, queries, v.shape[3]))
    if mask is not None:
        mask = np.broadcast_to(
            mask if mask.dtype == bool else wide(mask), (batch, heads, queries, keys)
        )
    for b in range(batch):
        present = queries if query_lengths is None else int(np.clip(query_lengths[b], 0, queries))
        filled = keys if key_lengths is None else int(np.clip(key_lengths[b], 0, keys))
        for h in range(heads):
            for i in range(present):
                seen = filled if not causal else min(filled, i + filled - present + 1)
                if seen <= 0:
                    continue
                s = (
                    k[b, h // (heads // shared), :seen]
                    @ q[b, h, i]
                    * (depth**-0.5 if scale is None else scale)
                )
                if mask is not None:
                    m = mask[b, h, i, :seen]
                    s = np.where(m, s, -np.inf) if m.dtype == bool else s + m
                if (s == -np.inf).all():
                    continue
                p = np.exp(s - s.max())
                out[b, h, i] = p / p.sum() @ v[b, h // (heads // shared), :seen]
    return out


def operands(shape=(2, 4, 2, 7, 9, 6, 5), dtype="float64"):
    """q, k, v for (B, H, Hkv, Sq, Sk, D, Dv)."""
    batch, heads, shared, queries, keys, depth, width = shape
    return (
        numbers((batch, heads, queries, depth), dtype, 1),
        numbers((batch, shared, keys, depth), dtype, 2),
        numbers((batch, shared, keys, width), dtype, 3),
    )


def masks(shape, dtype="float64"):
    """A mask of each kind for (B, H, Hkv, Sq, Sk, D, Dv)."""
    batch, heads, _, queries, keys, *_ = shape
    some = np.random.default_rng(4)
    return {
        "none": None,
        "bool": some.random((batch, 1, queries, keys)) < 0.7,
        "row": some.random(keys) < 0.7,
        "added": numbers((heads, 1, keys), dtype, 5, scale=2),
    }


SHAPES = [
    (2, 4, 2, 7, 9, 6, 5),
    (1, 2, 2, 16, 16, 16, 16),
    (2, 3, 1, 5, 3, 1, 8),
    (1, 1, 1, 70, 130, 64, 64),
    (3, 2, 1, 1, 40, 24, 24),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values(device, shape, causal, dtype):
    q, k, v = operands(shape, dtype)
    y = attend(*map(cm.asarray, (q, k, v)), causal=causal)
    assert y.dtype == q.dtype and y.device == device or device == "cuda"
    assert_close(
        y, reference(q, k, v, causal=causal), rtol=TOLERANCE[dtype], atol=4 * TOLERANCE[dtype]
    )


@pytest.mark.parametrize("kind", ["bool", "row", "added"])
@pytest.mark.parametrize("lengths", [False, True])
def test_options(device, kind, lengths):
    shape = (3, 4, 2, 7, 9, 6, 5)
    q, k, v = operands(shape)
    mask = masks(shape)[kind]
    options = (
        {"query_lengths": np.array([7, 0, 3]), "key_lengths": np.array([5, 9, 200])}
        if lengths
        else {}
    )
    for causal in (False, True):
        y = attend(q, k, v, mask=mask, causal=causal, scale=-0.7, **options)
        assert_close(y, reference(q, k, v, mask, causal, -0.7, **options), rtol=1e-12, atol=1e-12)


def test_small_floats_take_masks_of_both_widths(device):
    q, k, v = operands(dtype="bfloat16")
    for dtype in ("bfloat16", "float32"):
        mask = numbers((7, 9), dtype, 5)
        assert_close(attend(q, k, v, mask=mask), reference(q, k, v, mask), rtol=1.6e-2, atol=3e-2)


def test_lengths_are_those_of_slices(device):
    q, k, v = operands((4, 4, 2, 6, 10, 8, 8))
    queries, keys = [6, 2, 4, 1], [10, 3, 2, 7]
    y = attend(q, k, v, causal=True, query_lengths=queries, key_lengths=keys)
    for b, (n, m) in enumerate(zip(queries, keys, strict=True)):
        part = attend(q[b : b + 1, :, :n], k[b : b + 1, :, :m], v[b : b + 1, :, :m], causal=True)
        assert_close(y[b : b + 1, :, :n], part.to_numpy(), rtol=1e-12, atol=1e-12)
        assert not y[b, :, n:].to_numpy().any()


def test_what_lies_beyond_the_lengths_is_not_looked_at(device):
    arrays = operands((2, 2, 2, 4, 8, 8, 8), "float32")
    lengths = {"query_lengths": [2, 4], "key_lengths": [3, 8]}

    def everything():
        y, pull = cm.vjp(lambda *a: attend(*a, **lengths), *arrays)
        return [a.to_numpy() for a in (y, *pull(cm.asarray(gradient)))]

    gradient = numbers((2, 2, 4, 8), "float32", 5)
    expected = everything()
    for a, n in zip((*arrays, gradient), (2, 3, 3, 2), strict=True):
        a[0, :, n:] = np.nan
    assert all(np.array_equal(a, b) for a, b in zip(everything(), expected, strict=True))


def test_rows_that_see_nothing_are_zero(device):
    q, k, v = operands((1, 2, 2, 5, 4, 3, 3))
    mask = np.ones((5, 4), bool)
    mask[2] = False
    y, pull = cm.vjp(lambda q, k, v: attend(q, k, v, mask=mask), q, k, v)
    assert not y[:, :, 2].to_numpy().any() and y[:, :, 1].to_numpy().all()
    dq, dk, dv = pull(cm.ones(y.shape))
    assert not dq[:, :, 2].to_numpy().any() and all(
        np.isfinite(d.to_numpy()).all() for d in (dq, dk, dv)
    )
    early = attend(
        q, k[:, :, :2], v[:, :, :2], causal=True
    )  # five queries, two keys: the first three see none
    assert not early[:, :, :3].to_numpy().any() and early[:, :, 3:].to_numpy().all()


@pytest.mark.parametrize(
    "shape",
    [(0, 2, 2, 3, 4, 5, 5), (2, 0, 0, 3, 4, 5, 5), (2, 2, 1, 0, 4, 5, 5), (2, 2, 1, 3, 0, 5, 6)],
    ids=str,
)
def test_empty(device, shape):
    q, k, v = operands(shape)
    y, pull = cm.vjp(lambda *a: attend(*a, causal=True), q, k, v)
    assert_close(y, np.zeros((*q.shape[:3], v.shape[3])), rtol=0)
    for d, x in zip(pull(cm.ones(y.shape)), (q, k, v), strict=True):
        assert_close(d, np.zeros(x.shape), rtol=0)


def test_fewer_axes_and_strides(device):
    q, k, v = operands((1, 3, 3, 6, 6, 4, 4))
    expected = reference(q, k, v)
    assert_close(attend(q[0], k[0], v[0]), expected[0], rtol=1e-12, atol=1e-12)
    assert_close(attend(q[0, 1], k[0, 1], v[0, 1]), expected[0, 1], rtol=1e-12, atol=1e-12)
    packed = cm.asarray(
        np.concatenate([a.transpose(0, 2, 1, 3) for a in (q, k, v)], axis=-1)
    )  # (B, S, H, 3 D)
    views = [packed[..., 4 * i : 4 * i + 4].transpose((0, 2, 1, 3)) for i in range(3)]
    assert_close(attend(*views), expected, rtol=1e-12, atol=1e-12)
    check_gradient(
        lambda p: attend(*[p[..., 4 * i : 4 * i + 4].transpose((0, 2, 1, 3)) for i in range(3)]),
        lambda p: reference(*[p[..., 4 * i : 4 * i + 4].transpose(0, 2, 1, 3) for i in range(3)]),
        packed.to_numpy(),
    )


def test_tiles_of_the_cpu_agree(monkeypatch):
    """The same numbers whether all scores fit into one tile or a single row does."""
    from cudamath.cpu import attention as cpu

    q, k, v = operands((3, 4, 2, 9, 11, 6, 5))
    rest = (None, np.array([9, 4, 0]), np.array([11, 6, 3]))
    options = {"causal": True, "scale": 0.3, "dropping": True, "scalars": (1, 2, 3, 1 << 31, 2.0)}
    whole = cpu.attention(q, k, v, *rest, **options)
    slopes = cpu.attention_grad(q[..., :5], q, k, v, *whole, *rest, **options)
    for limit in (1, 200, 500):
        monkeypatch.setattr(cpu, "LIMIT", limit)
        parts = cpu.attention(q, k, v, *rest, **options)
        for a, b in zip(
            (*parts, *cpu.attention_grad(q[..., :5], q, k, v, *whole, *rest, **options)),
            (*whole, *slopes),
            strict=True,
        ):
            assert np.array_equal(np.isinf(a), np.isinf(b))
            np.testing.assert_allclose(a[np.isfinite(a)], b[np.isfinite(b)], rtol=1e-12, atol=1e-13)


@settings(max_examples=15)
@given(
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from(["none", "bool", "row", "added"]),
)
def test_any_shape(batch, shared, repeats, queries, keys, depth, causal, kind):
    shape = (batch, shared * repeats, shared, queries, keys, depth, depth + 1)
    q, k, v = operands(shape)
    mask = masks(shape)[kind]
    with cm.device("cpu"):
        assert_close(
            attend(q, k, v, mask=mask, causal=causal),
            reference(q, k, v, mask, causal),
            rtol=1e-12,
            atol=1e-12,
        )


# -------------------- gradients


@pytest.mark.parametrize("kind", ["none", "bool", "added"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 4, 2, 5, 6, 4, 3), (1, 2, 2, 6, 4, 3, 3)], ids=str)
def test_gradients(device, shape, causal, kind):
    arrays, mask = operands(shape), masks(shape)[kind]
    if kind == "added":
        check_gradient(
            lambda q, k, v, m: attend(q, k, v, mask=m, causal=causal),
            lambda q, k, v, m: reference(q, k, v, m, causal),
            *arrays,
            mask,
        )
    else:
        check_gradient(
            lambda *a: attend(*a, mask=mask, causal=causal),
            lambda *a: reference(*a, mask, causal),
            *arrays,
        )


def test_second_order(device):
    shape = (2, 2, 1, 3, 4, 3, 2)
    check_second_order(lambda *a: attend(*a, causal=True), *operands(shape))
    check_second_order(
        lambda q, k, v, m: attend(q, k, v, mask=m, key_lengths=[4, 2]),
        *operands(shape),
        masks(shape)["added"],
    )


def test_gradients_with_lengths(device):
    lengths = {"query_lengths": [4, 2, 0], "key_lengths": [3, 6, 5]}
    for causal in (False, True):
        check_gradient(
            lambda *a, c=causal: attend(*a, causal=c, **lengths),
            lambda *a, c=causal: reference(*a, causal=c, **lengths),
            *operands((3, 2, 1, 4, 6, 3, 4)),
        )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_gradients_of_narrow_types(device, dtype):
    """Against those of the same numbers in float64."""
    arrays = operands((2, 4, 2, 40, 50, 16, 16), dtype)
    weights = numbers((2, 4, 40, 16), dtype, 7)
    narrow = cm.grad(lambda *a: (attend(*a, causal=True) * weights).sum(), (0, 1, 2))(
        *map(cm.asarray, arrays)
    )
    full = cm.grad(lambda *a: (attend(*a, causal=True) * wide(weights)).sum(), (0, 1, 2))(
        *wide(*arrays)
    )
    for a, b in zip(narrow, full, strict=True):
        assert a.dtype == arrays[0].dtype
        assert_close(a, b.to_numpy(), rtol=4 * TOLERANCE[dtype], atol=4 * TOLERANCE[dtype])


@pytest.mark.parametrize("causal", [False, True])
def test_torch_agrees(device, causal):
    torch = pytest.importorskip("torch")
    q, k, v = operands((2, 4, 2, 12, 12, 8, 8))
    weights = numbers((2, 4, 12, 8), seed=7)
    theirs = [torch.tensor(a, requires_grad=True) for a in (q, k, v)]
    y = torch.nn.functional.scaled_dot_product_attention(*theirs, is_causal=causal, enable_gqa=True)
    assert_close(attend(q, k, v, causal=causal), y.detach().numpy(), rtol=1e-12, atol=1e-12)
    expected = torch.autograd.grad((y * torch.tensor(weights)).sum(), theirs)
    found = cm.grad(lambda *a: (attend(*a, causal=causal) * weights).sum(), (0, 1, 2))(q, k, v)
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b.numpy(), rtol=1e-11, atol=1e-12)


# -------------------- dropout


def dropped(q, k, v, mask, seed):
    """The definition with `ml.dropout` of the weights."""
    s = q @ k.mT * q.shape[-1] ** -0.5 + mask
    return cm.ml.dropout(cm.ml.softmax(s), 0.4, rng=cm.random.default_rng(seed)) @ v


def test_dropout_is_that_of_the_weights(device):
    q, k, v = operands((2, 3, 3, 6, 7, 4, 4))
    mask = numbers((6, 7), seed=5)

    def ours(q, k, v, m):
        return attend(q, k, v, mask=m, dropout=0.4, rng=cm.random.default_rng(9))

    assert_close(
        ours(q, k, v, mask),
        dropped(*map(cm.asarray, (q, k, v)), mask, 9).to_numpy(),
        rtol=1e-12,
        atol=1e-12,
    )
    every = (0, 1, 2, 3)
    found = cm.grad(lambda *a: (ours(*a) ** 2).sum(), every)(q, k, v, mask)
    expected = cm.grad(lambda *a: (dropped(*a, 9) ** 2).sum(), every)(q, k, v, mask)
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b.to_numpy(), rtol=1e-11, atol=1e-12)


def test_dropout_draws_and_limits(device):
    q, k, v = operands((1, 2, 2, 4, 5, 3, 3))
    rng = cm.random.default_rng(3)
    first, second = (attend(q, k, v, dropout=0.5, rng=rng).to_numpy() for _ in range(2))
    assert not np.array_equal(first, second) and rng.state["offset"] == 2 * 10
    assert not attend(q, k, v, dropout=1.0).to_numpy().any()
    few = cm.random.default_rng(3)
    attend(*operands((1, 1, 1, 3, 5, 2, 2)), dropout=0.5, rng=few)
    assert few.state["offset"] == 4  # 15 words, four to a block
    before = cm.random.default_rng(3)
    attend(q, k, v, dropout=0.0, rng=before)
    assert before.state["offset"] == 0


def test_second_order_with_dropout(device):
    q, k, v = operands((1, 2, 1, 3, 4, 3, 2))
    check_second_order(lambda *a: attend(*a, dropout=0.3, rng=cm.random.default_rng(5)), q, k, v)


# -------------------- errors


def test_errors(device):
    q, k, v = (cm.asarray(a) for a in operands())
    name = "scaled_dot_product_attention: "
    for error, words, call in [
        (
            TypeError,
            "one floating-point dtype, got float64, float64, float32",
            lambda: attend(q, k, v.astype("float32")),
        ),
        (TypeError, "floating-point arrays, got int64", lambda: attend(q, [[1]], v)),
        (ValueError, r"got q \(2, 4, 7, 6\), k \(2, 9, 6\)", lambda: attend(q, k[:, 0], v)),
        (ValueError, r"got q \(2, 4, 7, 6\), k \(2, 2, 9, 5\)", lambda: attend(q, k[..., 1:], v)),
        (ValueError, r"v \(2, 2, 8, 5\)", lambda: attend(q, k, v[:, :, 1:])),
        (
            ValueError,
            "the 2 heads of k and v must divide the 3 of q",
            lambda: attend(q[:, 1:], k, v),
        ),
        (
            ValueError,
            "D and Dv from 1 to 256",
            lambda: attend(cm.ones((1, 1, 2, 257)), *[cm.ones((1, 1, 2, 257))] * 2),
        ),
        (ValueError, "finite scale, got nan", lambda: attend(q, k, v, scale=float("nan"))),
        (
            TypeError,
            "wants a mask of bool or float64, got int64",
            lambda: attend(q, k, v, mask=np.ones((7, 9), int)),
        ),
        (
            TypeError,
            "wants a mask of bool or float64, got float32",
            lambda: attend(q, k, v, mask=np.ones((7, 9), "f4")),
        ),
        (
            ValueError,
            r"broadcasts to the scores \(2, 4, 7, 9\), got shape \(9, 7\)",
            lambda: attend(q, k, v, mask=np.ones((9, 7))),
        ),
        (
            ValueError,
            r"got shape \(1, 2, 4, 7, 9\)",
            lambda: attend(q, k, v, mask=np.ones((1, 2, 4, 7, 9))),
        ),
        (
            TypeError,
            "integer key_lengths, got float64",
            lambda: attend(q, k, v, key_lengths=[1.0, 2.0]),
        ),
        (
            ValueError,
            r"query_lengths of shape \(2,\) for q \(2, 4, 7, 6\), got \(3,\)",
            lambda: attend(q, k, v, query_lengths=[1, 2, 3]),
        ),
        (ValueError, r"probability p in \[0, 1\], got 1.5", lambda: attend(q, k, v, dropout=1.5)),
        (
            TypeError,
            "rng as a cudamath.random.Generator, got int",
            lambda: attend(q, k, v, dropout=0.5, rng=3),
        ),
    ]:
        with pytest.raises(error, match=name + ".*" + words):
            call()


# -------------------- versions

#: causal, mask, lengths, dropout
OPTIONS = [(False, "none", False, False), (True, "bool", True, False), (True, "added", False, True)]


def run(machine, make, arrays, scalars):
    """The results of a plan, some of whose operands may be missing."""
    there = [a for a in arrays if a is not None]
    if machine == "simulator":
        return simulate(
            make(*[None if a is None else layout_of(a) for a in arrays]), *there, scalars=scalars
        )
    on_device = [None if a is None else cm.asarray(a, device="cuda") for a in arrays]
    layouts = [None if a is None else a._layout for a in on_device]
    used = [a for a in on_device if a is not None]
    out = make(*layouts).bind("version", [a._layout for a in used], len(scalars))(*used, *scalars)
    cm.cuda.synchronize()
    return tuple(o.to_numpy() for o in out)


#: In the simulator only what differs there; float16's arithmetic is float32's.
EVERYWHERE = [
    pytest.param(*p.values, dtype, *options, marks=p.marks)
    for p in versions("simt", "sm80")
    for dtype in DTYPES
    for options in OPTIONS
    if (p.values[1] == "simt" or dtype in ("float16", "bfloat16"))
    and (
        p.values[0] == "gpu"
        or dtype in ("float32", "float64")
        or dtype == "bfloat16"
        and options == OPTIONS[1]
    )
]


@pytest.mark.parametrize("machine, version, dtype, causal, kind, lengths, dropping", EVERYWHERE)
def test_versions(machine, version, dtype, causal, kind, lengths, dropping):
    """Against the CPU's functions in float64, which the tests above compare with the definition."""
    from cudamath.cpu import attention as cpu
    from cudamath.kernels.attention import dispatch as kernels

    small = (2, 1, 1, 5, 17, 5, 18) if dtype != "float64" else (1, 2, 1, 3, 9, 4, 9)
    large = {
        "simt": [(2, 4, 2, 150, 200, 64, 64), (2, 2, 1, 65, 129, 256, 80), *SHAPES],
        "sm80": [
            (2, 4, 2, 150, 200, 64, 64),
            (2, 2, 1, 65, 129, 256, 256),
            (1, 2, 2, 129, 64, 136, 136),
        ],
    }[version]
    for shape in [small] if machine == "simulator" else large:
        q, k, v = operands(shape, dtype)
        g = numbers((*q.shape[:3], v.shape[3]), dtype, 6)
        batch, queries, keys = shape[0], shape[3], shape[4]
        rest = [
            masks(shape, dtype)[kind],
            *(
                [
                    np.linspace(queries, 0, batch, dtype=np.int32),
                    np.linspace(0.6 * keys, keys, batch, dtype=np.int32),
                ]
                if lengths
                else [None] * 2
            ),
        ]
        if rest[0] is not None and rest[0].ndim < 4:
            rest[0] = rest[0][None]
        options = {"causal": causal, "scale": 0.2, "dropping": dropping}
        scalars = (12345, 7, 3, int(0.3 * 2**32), 1 / 0.7) if dropping else ()
        full = [
            a if a is None or a.dtype in (bool, np.int32) else wide(a) for a in (g, q, k, v, *rest)
        ]
        expected, expected_lse = cpu.attention(*full[1:], **options, scalars=scalars)
        y, lse = run(
            machine,
            lambda *a, o=options: kernels.attention(*a, **o, version=version),
            (q, k, v, *rest),
            scalars,
        )
        close = {"rtol": 2 * TOLERANCE[dtype], "atol": 4 * TOLERANCE[dtype]}
        assert_close(y, expected, **close, what=f"{shape}")
        assert_close(lse, expected_lse, rtol=1e-5, atol=1e-5, what=f"lse {shape}")
        narrow = y.astype(q.dtype)
        slopes = cpu.attention_grad(
            *full[:4], expected, expected_lse, *full[4:], **options, scalars=scalars
        )
        found = run(
            machine,
            lambda *a, o=options: kernels.attention_grad(*a, **o, version=version),
            (g, q, k, v, narrow, lse, *rest),
            scalars,
        )
        for a, b, what in zip(found, slopes, ("dq", "dk", "dv"), strict=True):
            size = np.abs(b).max(initial=0)
            assert_close(
                a,
                b,
                rtol=4 * TOLERANCE[dtype],
                atol=4 * TOLERANCE[dtype] * max(1, size),
                what=f"{what} {shape}",
            )


CORES = {  # (B, H, Hkv, Sq, Sk, D): what each version of the tensor cores takes
    "forward_sm90": [
        (2, 4, 4, 300, 300, 128),
        (1, 8, 2, 130, 777, 64),
        (1, 4, 1, 777, 300, 128),
        (1, 2, 2, 1, 77, 128),
        (2, 4, 2, 500, 600, 256),
        (1, 8, 2, 130, 777, 256),
        (2, 2, 2, 512, 512, 256),
        (1, 4, 4, 777, 300, 256),
        (1, 2, 1, 200, 333, 192),
        (1, 2, 1, 200, 333, 80),
        (2, 3, 3, 260, 260, 64),
        (1, 2, 2, 193, 500, 64),
        (1, 2, 2, 500, 193, 64),
        (1, 1, 1, 64, 64, 256),
        (2, 3, 3, 260, 260, 136),
        (2, 3, 3, 197, 197, 64),
        (2, 3, 3, 197, 300, 40),
        (1, 2, 2, 300, 500, 72),
        (1, 2, 2, 300, 500, 112),
        (1, 2, 2, 300, 500, 160),
    ],
    "forward_sm90_split": [
        (1, 2, 1, 300, 3000, 128),
        (1, 2, 2, 130, 2000, 64),
        (2, 4, 2, 64, 1111, 256),
        (1, 3, 3, 700, 1500, 96),
        (1, 1, 1, 1, 5000, 128),
        (1, 4, 1, 777, 700, 72),
        (1, 2, 2, 1025, 1025, 64),
        (1, 2, 2, 260, 700, 160),
    ],
    "decode_split_kv": [
        (2, 8, 2, 1, 4096, 128),
        (3, 16, 4, 2, 333, 128),
        (1, 4, 1, 4, 50, 72),
        (70, 8, 8, 1, 100, 64),
        (20, 16, 4, 4, 1000, 192),
        (80, 4, 1, 3, 600, 128),
        (1, 4, 4, 1, 5000, 64),
        (2, 8, 2, 2, 700, 256),
    ],
}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "version, shape", [(v, s) for v, shapes in CORES.items() for s in shapes], ids=str
)
def test_tensor_core_versions(version, shape, causal, dtype):
    """Against the CPU's function in float64; and twice the same bits."""
    from cudamath.cpu import attention as cpu
    from cudamath.kernels.attention import dispatch as kernels

    shape = (*shape, shape[-1])
    q, k, v = operands(shape, dtype)
    g = numbers(q.shape, dtype, 6)
    options = {"causal": causal, "scale": 0.1, "dropping": False}
    expected, expected_lse = cpu.attention(*wide(q, k, v), **options)

    def once():
        return run(
            "gpu", lambda *a: kernels.attention(*a, **options, version=version), (q, k, v), ()
        )

    (y, lse), (again, _) = once(), once()
    assert_close(y, expected, rtol=2 * TOLERANCE[dtype], atol=2 * TOLERANCE[dtype])
    assert_close(lse, expected_lse, rtol=1e-4, atol=1e-4)
    assert np.array_equal(y.view(np.uint16), again.view(np.uint16))
    if version == "forward_sm90":
        large = "_large_heads" if q.shape[3] > 128 else ""
        slopes = cpu.attention_grad(*wide(g, q, k, v), expected, expected_lse, **options)

        def back():
            return run(
                "gpu",
                lambda *a: kernels.attention_grad(*a, **options, version=f"backward_sm90{large}"),
                (g, q, k, v, y, lse),
                (),
            )

        for a, b, c, what in zip(back(), back(), slopes, ("dq", "dk", "dv"), strict=True):
            size = max(1, np.abs(c).max())
            assert_close(
                a, c, rtol=4 * TOLERANCE[dtype], atol=2 * TOLERANCE[dtype] * size, what=what
            )
            assert np.array_equal(a.view(np.uint16), b.view(np.uint16)), what


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 8, 2, 300, 500, 64),
        (2, 7, 1, 200, 200, 128),
        (1, 12, 3, 513, 513, 96),
        (1, 6, 1, 50, 1000, 40),
    ],
    ids=str,
)
def test_gradients_by_parts_of_the_heads(shape, causal, dtype):
    """Heads that share keys are split: against the CPU's function in float64; and twice the same
    bits."""
    from cudamath.cpu import attention as cpu
    from cudamath.kernels.attention import dispatch as kernels

    q, k, v = operands((*shape, shape[-1]), dtype)
    g = numbers(q.shape, dtype, 6)
    options = {"causal": causal, "scale": 0.1, "dropping": False}
    y, lse = cpu.attention(*wide(q, k, v), **options)
    slopes = cpu.attention_grad(*wide(g, q, k, v), y, lse, **options)

    def back():
        return run(
            "gpu",
            lambda *a: kernels.attention_grad(*a, **options, version="backward_sm90_split"),
            (g, q, k, v, y.astype(q.dtype), lse.astype(np.float32)),
            (),
        )

    for a, b, c, what in zip(back(), back(), slopes, ("dq", "dk", "dv"), strict=True):
        size = max(1, np.abs(c).max())
        assert_close(a, c, rtol=4 * TOLERANCE[dtype], atol=2 * TOLERANCE[dtype] * size, what=what)
        assert np.array_equal(a.view(np.uint16), b.view(np.uint16)), what


@pytest.mark.gpu
@pytest.mark.parametrize("causal, lengths", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("kind", ["bool", "row", "added", "float32"])
@pytest.mark.parametrize("version", ["forward_sm90", "forward_sm90_split"])
def test_masks_on_tensor_cores(version, kind, causal, lengths):
    """Masks of each kind, rows without a key that is seen, and rows and keys that do not fill their
    tiles."""
    from cudamath.cpu import attention as cpu
    from cudamath.kernels.attention import dispatch as kernels

    for shape in [
        (2, 4, 2, 300, 500, 128, 128),
        (1, 2, 2, 193, 130, 64, 64),
        (1, 1, 1, 70, 200, 256, 256),
    ][: 1 if version.endswith("split") else 3]:
        q, k, v = operands(shape, "bfloat16")
        mask = masks(shape, "float32" if kind == "float32" else "bfloat16")[
            "added" if kind == "float32" else kind
        ]
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape).copy()
        if kind == "bool":
            mask[:, :, 5] = False
        elif kind == "float32":
            mask[..., 3:70] = -np.inf
        batch, queries, keys = shape[0], shape[3], shape[4]
        sizes = (
            [
                np.linspace(queries, queries // 2, batch, dtype=np.int32),
                np.linspace(keys, keys // 3, batch, dtype=np.int32),
            ]
            if lengths
            else [None, None]
        )
        options = {"causal": causal, "scale": 0.1, "dropping": False}
        exact = mask if mask.dtype == bool else wide(mask)
        expected, expected_lse = cpu.attention(*wide(q, k, v), exact, *sizes, **options)
        y, lse = run(
            "gpu",
            lambda *a, o=options: kernels.attention(*a, **o, version=version),
            (q, k, v, mask, *sizes),
            (),
        )
        assert_close(y, expected, rtol=3e-2, atol=3e-2, what=f"{shape}")
        assert_close(lse, expected_lse, rtol=1e-4, atol=1e-4, what=f"lse {shape}")


@pytest.mark.parametrize(
    "shape, strides, version",
    [
        ((1, 1, 1600, 1500), None, "wgmma"),
        ((2, 4, 1600, 1500), None, "wgmma"),
        ((2, 1, 1, 1500), None, "wgmma"),
        ((1, 1, 1600, 1499), None, "mma"),  # rows that do not begin at a pair
        ((1, 1, 1600, 1), None, "mma"),  # the same for all keys
        (
            (1, 1, 1600, 1500),
            (2_400_000, 2_400_000, 1, 1600),
            "mma",
        ),  # columns that do not follow each other
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["bool", "float16", "float32"])
def test_version_for_a_mask(shape, strides, version, dtype):
    """Masks whose pairs of columns can be read at once go to the version of compute capability
    9.0."""
    from cudamath.core.layout import Layout
    from cudamath.kernels.attention import dispatch as kernels
    from cudamath.runtime.device import assume

    dtype = np.dtype(dtype)
    keys = 1499 if shape[3] == 1499 else 1500
    q, k = (Layout.new((2, 4, n, 64), np.dtype(np.float16), 0) for n in (1600, keys))
    mask = Layout.new(shape, dtype, 0)
    if strides is not None:
        mask = Layout.of(shape, tuple(dtype.itemsize * s for s in strides), dtype, 0)
    with assume((9, 0)):
        plan = kernels.attention(q, k, k, mask, None, None, causal=False, scale=0.1, dropping=False)
    assert plan.steps[-1].kernel.__name__ == f"attention_{version}"


def test_splits():
    """Parts of a head's keys: enough to fill the device, few enough for one wave, never below what
    is worth a block."""
    from cudamath.kernels.attention.decode_split_kv import LEAST, splits_of

    for heads, keys, room in [
        (8, 4096, 264),
        (64, 4096, 264),
        (512, 4096, 264),
        (1, 10, 264),
        (8, 65536, 264),
        (1, 10**6, 2),
    ]:
        n = splits_of(heads, keys, room)
        assert 1 <= n <= max(1, -(-keys // LEAST))
        assert n == 1 or heads * n <= room  # these fit into one wave
        assert heads * (n + 1) > room or n == max(1, -(-keys // LEAST))  # and leave little room


def test_queues_of_decoding():
    from cudamath.kernels.attention.decode_split_kv import queues

    for size, tma, resident in [
        (1 << 20, True, 2),
        ((1 << 28) - 1, True, 2),
        (1 << 28, False, 1),
        (1 << 29, False, 2),
    ]:
        assert queues(True, size) == (tma, resident, 192 << 10)
        assert queues(False, size) == (False, 2, 128 << 10)


@pytest.mark.gpu
@pytest.mark.parametrize("below", [1, 1 << 19], ids=["two blocks", "one block"])
def test_decoding_without_tma(monkeypatch, below):
    """What large caches take, on small ones."""
    from cudamath.cpu import attention as cpu
    from cudamath.kernels.attention import dispatch as kernels

    monkeypatch.setattr("cudamath.kernels.attention.decode_split_kv.TMA_BELOW", below)
    options = {"causal": True, "scale": 0.1, "dropping": False}
    for shape in [(2, 8, 2, 1, 400, 128), (2, 8, 4, 3, 300, 64)]:
        q, k, v = operands((*shape, shape[-1]), "bfloat16")
        assert 1 << 19 <= k.nbytes + v.nbytes < 1 << 20
        expected, _ = cpu.attention(*wide(q, k, v), **options)
        y, _ = run(
            "gpu",
            lambda *a: kernels.attention(*a, **options, version="decode_split_kv"),
            (q, k, v),
            (),
        )
        assert_close(y, expected, rtol=2 * TOLERANCE["bfloat16"], atol=2 * TOLERANCE["bfloat16"])


@pytest.mark.simulator
@pytest.mark.parametrize("causal", [False, True])
def test_tiles_in_shared_memory_simulated(causal):
    """Version "simt", forwards and backwards: several tiles of queries and keys, heads that share
    keys. The truth is the definition and its derivative in float64."""
    from cudamath.kernels.attention import dispatch as kernels

    q, k, v = operands((1, 2, 1, 70, 67, 5, 6))
    how = {"causal": causal, "scale": 0.4, "dropping": False, "version": "simt"}
    y, lse = simulate(kernels.attention(*map(layout_of, (q, k, v)), **how), q, k, v)
    assert_close(y, reference(q, k, v, causal=causal, scale=0.4), rtol=1e-12, atol=1e-12)
    g = numbers(y.shape, "float64", 6)
    plan = kernels.attention_grad(*map(layout_of, (g, q, k, v, y, lse)), **how)
    assert [step.kernel.__name__ for step in plan.steps][-1] == "attention_grad_keys"
    dq, dk, dv = simulate(plan, g, q, k, v, y, lse)
    scores = 0.4 * q @ k.mT
    if causal:
        late = np.arange(67) > np.arange(70)[:, None] + 67 - 70
        scores = np.where(late, -np.inf, scores)
    top = scores.max(-1, keepdims=True)
    p = np.exp(scores - np.where(np.isinf(top), 0, top))
    p /= np.where(np.isinf(top), 1, p.sum(-1, keepdims=True))  # a query may see no key
    slope = g @ v.mT
    slope = 0.4 * p * (slope - (p * slope).sum(-1, keepdims=True))
    assert_close(dq, slope @ k, rtol=1e-11, atol=1e-12)
    assert_close(dk, (slope.mT @ q).sum(1, keepdims=True), rtol=1e-11, atol=1e-12)
    assert_close(dv, (p.mT @ g).sum(1, keepdims=True), rtol=1e-11, atol=1e-12)


def side_by_side(*arrays):
    """The arrays (B, H, S, D) in memory of (B, S, H, D), as products leave them."""
    order = (0, 2, 1, 3)
    return tuple(np.ascontiguousarray(x.transpose(order)).transpose(order) for x in arrays)


@pytest.mark.simulator
def test_results_lie_as_the_operands_simulated():
    """Heads that lie side by side do so in the results, and their numbers are the same."""
    from cudamath.kernels.attention import dispatch as kernels

    plain = operands((2, 4, 2, 5, 6, 3, 4))
    how = {"causal": True, "scale": 0.4, "dropping": False, "version": "simt"}
    g = numbers((2, 4, 5, 4), "float64", 6)
    found = []
    for q, k, v, h in ((*plain, g), side_by_side(*plain, g)):
        y, lse = simulate(kernels.attention(*map(layout_of, (q, k, v)), **how), q, k, v)
        plan = kernels.attention_grad(*map(layout_of, (h, q, k, v, y, lse)), **how)
        found.append((y, lse, *simulate(plan, h, q, k, v, y, lse)))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
    y, lse, *gradients = found[1]
    assert lse.flags.c_contiguous
    for x in (y, *gradients):
        assert x.transpose(0, 2, 1, 3).flags.c_contiguous and not x.flags.c_contiguous


RESULTS = {
    "C order": ((2, 3, 5, 8), (0, 1, 2, 3), True),
    "heads side by side": ((2, 3, 5, 8), (0, 2, 1, 3), False),
    "batches inside": ((2, 3, 5, 8), (2, 0, 1, 3), False),
    "one head": ((2, 1, 5, 8), (0, 2, 1, 3), True),
    "one query": ((2, 3, 1, 8), (0, 2, 1, 3), True),
    "rows that are columns": ((2, 3, 5, 8), (0, 1, 3, 2), True),
}


@pytest.mark.parametrize("name", RESULTS)
def test_layout_of_results(name):
    from cudamath.kernels.attention.problem import result_like

    shape, order, plain = RESULTS[name]
    back = np.argsort(order)
    x = np.zeros([shape[i] for i in order], np.float32).transpose(back)
    out = result_like(layout_of(x), 4)
    assert out.shape == (*shape[:3], 4) and out.nbytes == 4 * math.prod(out.shape)
    assert out.contiguous is plain
    if not plain:
        assert out.strides == np.zeros([out.shape[i] for i in order], "f4").transpose(back).strides
    # parts of one array, and what is repeated
    packed = np.zeros((2, 5, 3, 4, 8), np.float32)[:, :, 1].transpose(0, 2, 1, 3)
    assert result_like(layout_of(packed)).strides == (640, 32, 128, 4)
    repeated = np.broadcast_to(np.zeros((2, 1, 5, 8), np.float32), (2, 4, 5, 8))
    assert result_like(layout_of(repeated)).contiguous


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "shape",
    [(2, 12, 12, 128, 128, 64, 64), (2, 8, 2, 200, 333, 96, 96), (1, 4, 4, 65, 65, 256, 256)],
)
def test_results_lie_as_the_operands(shape, dtype):
    """The same bits as of operands in C order, in the order of axes that these have."""
    plain = operands(shape, dtype)
    g = numbers((*plain[0].shape[:3], shape[-1]), dtype, 6)
    found = []
    for across in (False, True):
        q, k, v, h = [cm.asarray(x, device="cuda") for x in (*plain, g)]
        if across:
            moved = [x.transpose((0, 2, 1, 3)).copy() for x in (q, k, v, h)]
            q, k, v, h = [x.transpose((0, 2, 1, 3)) for x in moved]
        y, pull = cm.vjp(lambda *a: attend(*a, causal=True), q, k, v)
        found.append((y, *pull(h)))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(wide(a.to_numpy()), wide(b.to_numpy()))
    y, dq, *_ = found[1]
    assert y.transpose((0, 2, 1, 3))._layout.contiguous
    assert dq.transpose((0, 2, 1, 3))._layout.contiguous


@pytest.mark.simulator
def test_merged_parts_simulated():
    """Parts of the keys, one of which a row does not see, and a row that sees none."""
    from cudamath.kernels.attention.merge import HIDDEN, attention_merge

    rng = np.random.default_rng(2)
    scores, values = rng.normal(size=(3, 4, 6)) * 3, rng.normal(size=(4, 6, 8))
    scores[1, 0], scores[:, 2] = -np.inf, -np.inf  # by part, row, key
    marks = np.zeros((3, 4, 2), np.float32)
    marks[..., 0] = np.where(np.isneginf(scores).all(2), HIDDEN, scores.max(2) * np.log2(np.e))
    shifted = np.exp2(scores * np.log2(np.e) - np.maximum(marks[..., :1], -1e4).astype("f8"))
    marks[..., 1] = shifted.sum(2)
    parts = np.einsum("prk,rkd->prd", shifted, values).astype("f4")
    y, lse = np.zeros(32, np.float32), np.zeros(4, np.float32)
    attention_merge(np.dtype("f4"))[1, 32](parts.ravel(), marks.ravel(), y, lse, 3, 4, 8)
    total = np.exp(scores).sum((0, 2))
    expected = np.einsum("prk,rkd->rd", np.exp(scores), values) / np.where(total, total, 1)[:, None]
    np.testing.assert_allclose(y.reshape(4, 8), expected, rtol=1e-5, atol=1e-6)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(lse, np.where(total > 0, np.log(total), np.inf), rtol=1e-5)


@pytest.mark.simulator
def test_added_parts_simulated():
    from cudamath.kernels.attention.merge import attention_sum

    parts, out = np.random.default_rng(2).normal(size=(2, 3, 7)).astype("f4"), np.zeros(14, "f4")
    attention_sum(np.dtype("f4"))[1, 32](parts.ravel(), out, 3, 7, np.float32(0.5))
    np.testing.assert_allclose(out.reshape(2, 7), 0.5 * parts.sum(1), rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(SIMULATOR, reason="plans of a GPU")
def test_parts_of_heads_and_their_order():
    """Divisors of the heads that share keys; where a block has few tiles of queries, no two of a
    head of keys run at the same time."""
    from cudamath.core.layout import Layout
    from cudamath.kernels.attention.problem import Problem
    from cudamath.kernels.attention.tiles_sm90 import head_splits, heads_together
    from cudamath.runtime.device import assume

    with assume((9, 0)):
        for repeats in (2, 7, 8, 12):
            for shares, keys in ((1, 300), (2, 4000), (8, 9000)):
                q = Layout.new((1, shares * repeats, keys, 64), np.dtype(np.float16), 0)
                k = Layout.new((1, shares, keys, 64), np.dtype(np.float16), 0)
                p = Problem(q, k, k, None, None, None, None, False, 0.1, False)
                splits = head_splits(p)
                assert 1 < splits <= repeats and repeats % splits == 0
        q, k = (Layout.new((32, 4, n, 32), np.dtype(np.float16), 0) for n in (64, 7969))
        p = Problem(q, k, k, None, None, None, None, False, 0.1, False)
        assert heads_together(p, 128, 63, 1) == 128
        assert heads_together(p, 128, 63, 64) == 8


@pytest.mark.skipif(SIMULATOR, reason="plans of a GPU")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("depth", [40, 64, 128, 192, 256])
def test_parts_of_keys(causal, depth):
    """Each part has keys if not causal, and tiles of two warpgroups where three would have rows to
    spare."""
    from cudamath.core.layout import Layout
    from cudamath.kernels.attention.problem import Problem
    from cudamath.kernels.attention.tiles_sm90 import cycles_of, splits_of, tiles_of
    from cudamath.runtime.device import assume

    for rows, keys in ((1, 3000), (300, 777), (3000, 4097), (197, 100_000)):
        q, k = (Layout.new((1, 2, n, depth), np.dtype(np.float16), 0) for n in (rows, keys))
        p = Problem(q, k, k, None, None, None, None, causal, 0.1, False)
        with assume((9, 0)):
            tile, splits = splits_of(p)
            assert tile.split and 1 < splits <= 64
            steps = -(-keys // tile.keys)
            assert (splits - 1) * -(-steps // splits) < steps
            fastest = min(tiles_of(p), key=lambda tile: cycles_of(p, tile))
        if rows == 197 and depth <= 64:
            assert fastest.consumers == 2


@pytest.mark.compiles
def test_resources():
    """What test_compile.py does not compile: the largest depth, and the gradient's smaller one."""
    from compiled_facts import compile_plan

    from cudamath.core.layout import Layout
    from cudamath.kernels.attention import dispatch as kernels
    from cudamath.runtime.device import assume

    q, small = (Layout.new((2, 4, 128, depth), np.dtype(np.float16), 0) for depth in (256, 64))
    lse = Layout.new((2, 4, 128), np.dtype(np.float32), 0)
    options = {"causal": True, "scale": 0.1, "dropping": False}
    inputs = [small] * 5 + [lse]
    with assume((9, 0)):
        forward, backward = (
            kernels.attention(q, q, q, **options, version="forward_sm90"),
            kernels.attention_grad(*inputs, **options, version="backward_sm90"),
        )
    check_resources(forward, [q, q, q], (9, 0))
    found = compile_plan(backward, inputs, (9, 0))
    assert {
        f.kernel: f.spills <= (32 if f.kernel == "attention_grad_wgmma" else 0) for f in found
    } == dict.fromkeys(
        ("attention_grad_prepare", "attention_grad_wgmma", "attention_grad_finish"), True
    )


@pytest.mark.compiles
@pytest.mark.parametrize(
    "capability, below", [((8, 0), 0), ((9, 0), 1 << 28), ((9, 0), 1), ((12, 0), 0)], ids=str
)
def test_resources_of_decoding(capability, below, monkeypatch):
    """With TMA and without; on 9.0 also two tiles of queries, and whole results instead of
    parts."""
    monkeypatch.setattr("cudamath.kernels.attention.decode_split_kv.TMA_BELOW", below)
    from cudamath.core.layout import Layout
    from cudamath.kernels.attention import dispatch as kernels
    from cudamath.runtime.device import assume

    cases = [(1, 4, 128, 4096), (70, 16, 64, 200)]
    for batch, repeats, depth, keys in cases if capability == (9, 0) else cases[:1]:
        q, k = (
            Layout.new((batch, heads, n, depth), np.dtype(np.float16), 0)
            for heads, n in ((4 * repeats, 1), (4, keys))
        )
        with assume(capability):
            plan = kernels.attention(q, k, k, causal=True, scale=0.1, dropping=False)
        assert plan.steps[0].kernel.__name__ == "attention_decode" and len(plan.steps) == (
            2 if batch == 1 else 1
        )
        assert max(step.shared for step in plan.steps) <= 99 << 10
        check_resources(plan, [q, k, k], capability)


@pytest.mark.parametrize("depths", [(257, 8), (8, 257), (0, 8), (8, 0)])
def test_heads_of_no_or_too_many_numbers(depths):
    """Of q and k, and of v."""
    d, dv = depths
    with cm.device("cpu"):
        q, k, v = cm.zeros((1, 1, 3, d)), cm.zeros((1, 1, 4, d)), cm.zeros((1, 1, 4, dv))
        with pytest.raises(ValueError, match="wants D and Dv from 1 to 256, got"):
            cm.ml.scaled_dot_product_attention(q, k, v)
