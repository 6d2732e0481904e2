"""NumPy's public names: each is here, or left out for a reason that this file gives; and the
answers of those that other files do not compare with NumPy."""

from __future__ import annotations

import inspect
import io
import pickle
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_comparison import COMPLEX, CUBE, LINE, MATRIX, VECTOR, WHOLE, WILD, agree

import cudamath as cm
from benchmarks import compatibility
from cudamath.core.dispatch.op import registry

# why names are left out: benchmarks/compatibility.toml
REASONS, _, _ = compatibility.by_hand()
ABSENT = {name for name in REASONS if "." not in name}
ABSENT_METHODS = {name.partition(".")[2] for name in REASONS if name.startswith("ndarray.")}


@pytest.mark.parametrize("space", ["", "linalg", "fft"])
def test_every_name_of_numpys(space):
    theirs, ours = (getattr(np, space), getattr(cm, space)) if space else (np, cm)
    reasons = set() if space else ABSENT
    missing = {name for name in theirs.__all__ if not hasattr(ours, name)}
    assert missing - reasons == set(), "neither here nor left out for a reason"
    here = {
        name for name in reasons if not isinstance(getattr(ours, name, np), types.ModuleType)
    }  # cudamath.info is a module
    assert here == set(), "here, although there is a reason why not"


def test_every_method_of_numpys():
    theirs = {name for name in dir(np.ndarray) if not name.startswith("_")}
    missing = {name for name in theirs if not hasattr(cm.ndarray, name)}
    assert missing == ABSENT_METHODS
    operators = {name for name in dir(np.ndarray) if name.startswith("__")} - set(dir(object))
    private = {
        "__array_finalize__",
        "__array_interface__",
        "__array_struct__",
        "__array_wrap__",
        "__array_priority__",
        "__class_getitem__",
        "__delitem__",
        "__setstate__",
    }
    assert {name for name in operators if not hasattr(cm.ndarray, name)} - private == set()


def test_out_is_taken_where_numpy_takes_it():
    """`out=` of every function that NumPy lets write into an array."""
    without = set()
    for name in np.__all__:
        theirs, ours = getattr(np, name), getattr(cm, name, None)
        if not inspect.isfunction(ours) or inspect.isclass(theirs):
            continue
        try:
            options = inspect.signature(theirs).parameters
            mine = inspect.signature(ours).parameters
        except (TypeError, ValueError):
            continue
        if (
            "out" in options
            and "out" not in mine
            and not any(p.kind == p.VAR_KEYWORD for p in mine.values())
        ):
            without.add(name)
    assert without == set()


# -------------------- answers

Call = Callable[[Any, Callable[[Any], Any]], Any]
BITS = (WHOLE > 0).astype(np.uint8)
BYTES = np.arange(0, 240, 17, dtype=np.uint8)[:14].reshape(2, 7)
CALLS: dict[str, list[Call]] = {
    "bitwise_count": [
        lambda xp, a, d=d: xp.bitwise_count(a(np.array([0, 1, -1, 127, -128], d)))
        for d in ("i1", "i4", "i8")
    ],
    "packbits": [
        lambda xp, a, k=k, o=o: xp.packbits(a(BITS), k, o)
        for k in (None, 0, 1)
        for o in ("big", "little")
    ],
    "unpackbits": [
        lambda xp, a, k=k, c=c: xp.unpackbits(a(BYTES), k, c)
        for k in (None, 0, 1)
        for c in (None, 3, -5, 200)
    ],
    "ldexp": [
        lambda xp, a: xp.ldexp(a(CUBE), a(np.array([0, 1, -2, 60, -1080]))),
        lambda xp, a: xp.ldexp(a(WHOLE), 3),
        lambda xp, a: xp.ldexp(a(np.float32(CUBE)), a(np.array([0, 1, -2, 127, -149]))),
    ],
    "frexp": [
        lambda xp, a, d=d: xp.frexp(
            a(np.array([0.0, 1, -3, 1e-300, 5e-324, 1e4, np.inf, np.nan]).astype(d))
        )
        for d in ("f8", "f4")
    ]
    + [lambda xp, a: xp.frexp(a(WHOLE))],
    "spacing": [lambda xp, a, d=d: xp.spacing(a(WILD.astype(d))) for d in ("f8", "f4")],
    "poly": [
        lambda xp, a: xp.poly(a(LINE)),
        lambda xp, a: xp.poly(a(np.array([1j, -1j, 2]))),
        lambda xp, a: xp.poly(a(MATRIX[:3, :3] + 3 * np.eye(3))),
        lambda xp, a: xp.poly(a(np.zeros(0))),
    ],
    "polyadd": [
        lambda xp, a: xp.polyadd(a(LINE), a(VECTOR)),
        lambda xp, a: xp.polyadd(a(WHOLE[0]), 2),
    ],
    "polysub": [lambda xp, a: xp.polysub(a(LINE), a(VECTOR))],
    "polymul": [
        lambda xp, a: xp.polymul(a(LINE), a(VECTOR)),
        lambda xp, a: xp.polymul(a(WHOLE[0]), a(WHOLE[1])),
    ],
    "polydiv": [
        lambda xp, a: xp.polydiv(a(np.array([3.0, 5, 2, 1])), a(np.array([2.0, 1]))),
        lambda xp, a: xp.polydiv(a(np.array([1.0, 2, 1])), a(np.array([1.0, 1]))),
        lambda xp, a: xp.polydiv(a(np.array([1.0])), a(np.array([1.0, 1]))),
    ],
    "kaiser": [lambda xp, a: [xp.kaiser(m, 5.0) for m in (1, 2, 9)]],
    "matvec": [
        lambda xp, a: xp.matvec(a(CUBE), a(CUBE[:, 0])),
        lambda xp, a: xp.matvec(a(COMPLEX), a(COMPLEX[0])),
    ],
    "vecmat": [
        lambda xp, a: xp.vecmat(a(CUBE[:, :, 0]), a(CUBE)),
        lambda xp, a: xp.vecmat(a(COMPLEX[:, 0]), a(COMPLEX)),
    ],
    "cross": [
        lambda xp, a: xp.cross(a(CUBE), a(CUBE[..., ::-1]), axis=0),
        lambda xp, a: xp.cross(a(CUBE.T), a(VECTOR[:3]), axisc=0),
    ],
    "sort_complex": [
        lambda xp, a: xp.sort_complex(a(CUBE)),
        lambda xp, a: xp.sort_complex(a(COMPLEX)),
        lambda xp, a: xp.sort_complex(a(np.array([3, 1], np.int8))),
    ],
    "r_": [
        lambda xp, a: xp.r_[a(VECTOR), 0:4, 7, 0:1:3j],
        lambda xp, a: xp.r_["0,2", a(VECTOR), a(VECTOR)],
        lambda xp, a: xp.r_["1,2,0", a(VECTOR), a(VECTOR)],
        lambda xp, a: xp.r_["-1", a(MATRIX), a(MATRIX)],
    ],
    "c_": [
        lambda xp, a: xp.c_[a(VECTOR), a(MATRIX.T[:4, :2]), a(VECTOR)],
        lambda xp, a: xp.c_[a(VECTOR)],
    ],
    "mask_indices": [lambda xp, a: xp.mask_indices(4, xp.tril, 1)],
    "loadtxt": [lambda xp, a: xp.loadtxt(io.StringIO("1,2\n3,4"), delimiter=",", dtype="float32")],
    "genfromtxt": [lambda xp, a: xp.genfromtxt(["1;x", "2;3"], delimiter=";")],
    "fromstring": [lambda xp, a: xp.fromstring("1 2 3", sep=" ")],
    "asarray_chkfinite": [lambda xp, a: xp.asarray_chkfinite(a(CUBE))],
    "require": [
        lambda xp, a: xp.require(a(CUBE), "float32", "F"),
        lambda xp, a: xp.require(a(CUBE.T), None, ["C", "A"]),
    ],
    "compress": [
        lambda xp, a: xp.compress([True, False, True], a(CUBE), axis=0, out=a(np.zeros((2, 4, 5))))
    ],
    "take": [
        lambda xp, a, m=m: xp.take(a(CUBE), a(np.array([-9, 2, 7])), 1, mode=m)
        for m in ("wrap", "clip")
    ],
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_answers_are_numpys(device, name):
    for call in CALLS[name]:
        with np.errstate(all="ignore"):
            agree(call(cm, cm.asarray), call(np, np.asarray))


@settings(max_examples=60)
@given(data=st.data())
def test_divisors_and_multiples(device, data):
    dtype = np.dtype(data.draw(st.sampled_from(["i1", "u1", "i2", "i4", "u4", "i8", "u8"])))
    limits = np.iinfo(dtype)
    numbers = st.integers(int(limits.min), int(limits.max)) | st.integers(0, 9)
    x, y = (np.array(data.draw(st.lists(numbers, min_size=6, max_size=6)), dtype) for _ in range(2))
    for name in ("gcd", "lcm"):
        agree(getattr(cm, name)(cm.asarray(x), cm.asarray(y)), getattr(np, name)(x, y))
        agree(getattr(np, name)(cm.asarray(x), cm.asarray(y)), getattr(np, name)(x, y))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_packed_bits_of_a_gpu_have_numpys_shape(fake, axis):
    for n in (1, 7, 8, 9, 16, 20):
        with cm.device("cuda:0"):
            x = cm.packbits(cm.zeros((2, n), dtype="uint8"), axis)
        expected = np.packbits(np.zeros((2, n), np.uint8), axis)
        assert (x.shape, x.dtype) == (expected.shape, expected.dtype)


def test_roots(device):
    for p in ([1.0, -6, 11, -6], [0, 0, 2.0, 0, 8, 0], [1.0, 2], [3.0], [0.0], [1, 0, 1j]):
        ours, theirs = cm.roots(cm.asarray(p)).to_numpy(), np.roots(p)
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(
            np.sort_complex(ours), np.sort_complex(theirs), rtol=1e-9, atol=1e-9
        )


def test_what_writes_into_arrays(device):
    matrix = MATRIX[:3]
    x, square = cm.asarray(matrix), cm.asarray(matrix[:, :3])
    calls = [
        (lambda xp, a, o: xp.matmul(a, a.T, o), (3, 3)),
        (lambda xp, a, o: xp.dot(a, a.T, out=o), (3, 3)),
        (lambda xp, a, o: xp.cumsum(a, 1, out=o), (3, 5)),
        (lambda xp, a, o: xp.cumprod(a, 0, None, o), (3, 5)),
        (lambda xp, a, o: xp.nancumsum(a, 1, out=o), (3, 5)),
        (lambda xp, a, o: xp.outer(a[0], a[1], out=o), (5, 5)),
        (lambda xp, a, o: xp.take(a, [1, 0], 1, out=o), (3, 2)),
        (lambda xp, a, o: xp.trace(a, out=o), ()),
        (lambda xp, a, o: xp.cumulative_sum(a, axis=0, out=o), (3, 5)),
        (lambda xp, a, o: xp.fix(a, out=o), (3, 5)),
        (lambda xp, a, o: xp.vecdot(a, a, o), (3,)),
        (lambda xp, a, o: xp.fabs(a, o), (3, 5)),
        (lambda xp, a, o: xp.matvec(a, a[0], o), (3,)),
    ]
    for call, shape in calls:
        ours, theirs = cm.zeros(shape), np.zeros(shape)
        assert call(cm, x, ours) is ours
        call(np, matrix, theirs)
        agree(ours, theirs)
    with pytest.raises(ValueError, match=r"^matmul: the result of shape \(3, 3\)"):
        cm.matmul(square, square, cm.zeros(3))
    whole = cm.zeros(3, dtype="int64")
    assert cm.nanargmax(x, 1, out=whole) is whole
    agree(whole, np.nanargmax(matrix, 1))


def test_put_beyond_the_end(device):
    for mode in ("wrap", "clip"):
        ours, theirs = cm.zeros((2, 3)), np.zeros((2, 3))
        cm.put(ours, [-9, 8, 2], [1.0, 2.0, 3.0], mode=mode)
        np.put(theirs, [-9, 8, 2], [1.0, 2.0, 3.0], mode=mode)
        agree(ours, theirs)
    with pytest.raises(ValueError, match=r"^take: mode is 'raise', 'wrap' or 'clip', got 'no'"):
        cm.take(ours, [0], mode="no")


def test_clip_between_bounds_no_element_can_pass(device):
    x = np.arange(5, dtype=np.uint8)
    agree(cm.clip(cm.asarray(x), -1, 3), np.clip(x, -1, 3))
    agree(cm.clip(cm.asarray(x), -1, 300), np.clip(x, -1, 300))


def test_texts_and_files(device, tmp_path):
    x = cm.asarray(MATRIX)
    assert cm.array_repr(x) == np.array_repr(MATRIX) and cm.array_str(x, 60, 2) == np.array_str(
        MATRIX, 60, 2
    )
    assert cm.array2string(x, separator=",") == np.array2string(MATRIX, separator=",")
    cm.savetxt(tmp_path / "x.txt", x)
    agree(cm.loadtxt(tmp_path / "x.txt"), MATRIX)
    x.tofile(tmp_path / "x.bin")
    agree(cm.fromfile(tmp_path / "x.bin", count=4), MATRIX.ravel()[:4])
    assert [(i, float(v)) for i, v in cm.ndenumerate(x)] == [
        (i, float(v)) for i, v in np.ndenumerate(MATRIX)
    ]
    assert (
        list(cm.ndindex(2, 1)) == [(0, 0), (1, 0)]
        and cm.base_repr(5) == "101"
        and cm.binary_repr(5, 4) == "0101"
    )
    assert cm.iterable(x) and not cm.iterable(2)
    with pytest.raises(ValueError, match="^asarray_chkfinite: "):
        cm.asarray_chkfinite(cm.asarray(WILD))
    with pytest.raises(ValueError, match="^require: "):
        cm.require(x, requirements="CF")


def test_types_and_memory(device):
    x = cm.asarray(CUBE)
    for names in (("float32", "float64"), ("int8", "float16"), ("float32", "complex64")):
        arrays = [np.zeros(2, n) for n in names]
        assert cm.common_type(*map(cm.asarray, arrays)) == np.common_type(*arrays)
    for value in (3, -3, 300, 1e9, 2.5, True, np.zeros(2)):
        assert cm.min_scalar_type(value) == np.min_scalar_type(value)
    assert cm.min_scalar_type(x) == np.float64
    for one, other in (
        ((slice(None, None, 2),), (slice(1, None, 2),)),
        ((0,), (slice(None), 0)),
        ((..., 1), (..., 2)),
    ):
        assert cm.shares_memory(x[one], x[other]) == np.shares_memory(CUBE[one], CUBE[other])
    assert not cm.shares_memory(x, x.copy())
    assert (cm.half, cm.single, cm.double, cm.intp, cm.True_) == (
        np.half,
        np.single,
        np.double,
        np.intp,
        np.True_,
    )
    with cm.errstate(all="ignore"):
        assert np.geterr()["over"] == cm.geterr()["over"] == "ignore"
    assert (cm.seterr, cm.format_float_positional(0.5), cm.format_float_scientific(0.5)) == (
        np.seterr,
        "0.5",
        "5.e-01",
    )


def test_characters_of_dtypes():
    for kind, codes in cm.typecodes.items():
        assert [cm.zeros(1, dtype=code).dtype for code in codes] == [np.dtype(c) for c in codes]
        left_out = [np.dtype(code) for code in np.typecodes[kind] if code not in codes]
        assert all(d.kind not in "biufc" or d.char in "gG" for d in left_out)
    assert cm.mintypecode(["f", "D"]) == "D" and cm.typename("f") == "single precision"


def test_details_of_floating_point_dtypes():
    names = "epsneg nmant nexp iexp machep negep minexp maxexp tiny".split()
    for dtype in ("float16", "float32", "float64"):
        ours, theirs = cm.finfo(dtype), np.finfo(dtype)
        assert [getattr(ours, n) for n in names] == [float(getattr(theirs, n)) for n in names]
    assert cm.finfo("bfloat16").nmant == 7 and cm.finfo(1.0).bits == 64 and cm.iinfo(3).bits == 64


@pytest.mark.parametrize("value", [2.5, 3, 1j, np.float32(1.5), np.complex64(1 + 2j), True])
def test_parts_of_numbers_are_numbers(device, value):
    for name in ("real", "imag"):
        ours, theirs = getattr(cm, name)(value), getattr(np, name)(value)
        assert type(ours) is type(theirs) and ours == theirs


def test_functions_say_what_numpys_ufuncs_say(device):
    held = set(cm.typecodes["All"]) | set("->")
    for name, theirs in vars(np).items():
        if not isinstance(theirs, np.ufunc) or name == "isnat":
            continue
        ours = getattr(cm, name)
        assert isinstance(ours, cm.ufunc), name
        for fact in ("nin", "nout", "nargs", "identity", "signature"):
            assert getattr(ours, fact) == getattr(theirs, fact), (name, fact)
        assert ours.types == [loop for loop in theirs.types if set(loop) <= held], name
        assert ours.ntypes == len(ours.types), name
    assert not any(isinstance(x, cm.ufunc) for x in (cm.sum, cm.ndarray, np.add, cm.ones(2)))
    with pytest.raises(TypeError, match="^ufunc: make functions"):
        cm.ufunc()


def test_functions_have_the_types_they_name(device):
    for name in ("add", "divide", "sqrt", "isfinite", "logical_and", "frexp", "matmul", "vecdot"):
        ours = getattr(cm, name)
        for loop in ours.types:
            inputs, outputs = loop.split("->")
            found = ours(*[cm.ones((2, 2), dtype=code) for code in inputs])
            found = found if isinstance(found, tuple) else (found,)
            assert [y.dtype for y in found] == [np.dtype(code) for code in outputs], (name, loop)


def test_classes_of_numbers_that_no_array_holds(device):
    names = "longdouble clongdouble object_ str_ bytes_ void datetime64 timedelta64"
    for name in names.split():
        assert getattr(cm, name) is getattr(np, name)
        with pytest.raises(TypeError, match="^zeros: arrays of .* are not supported"):
            cm.zeros(2, dtype=getattr(cm, name))
    assert not cm.issubdtype(cm.zeros(2).dtype, cm.flexible)


def test_other_names_of_random_sample(device):
    for name in ("sample", "ranf"):
        cm.random.seed(3)
        found = getattr(cm.random, name)((2, 3))
        cm.random.seed(3)
        assert found.tolist() == cm.random.random_sample((2, 3)).tolist()


def test_bytes_of_arrays(device):
    ours = cm.asarray(CUBE)
    start = np.lib.array_utils.byte_bounds(CUBE)[0]
    for key in (np.s_[:], np.s_[:, ::-1, ::2], (1, 2), np.s_[:0]):
        bounds = cm.lib.array_utils.byte_bounds(ours[key])
        expected = np.lib.array_utils.byte_bounds(CUBE[key])
        assert [b - ours.ptr for b in bounds] == [b - start for b in expected]
    assert cm.lib.array_utils.normalize_axis_tuple(-1, 3) == (2,)


def test_gradients_of_what_is_new(device):
    for function in (
        lambda v: cm.ldexp(v, 3),
        lambda v: cm.frexp(v)[0],
        lambda v: cm.polymul(v, v[:2]),
        lambda v: cm.clip(v, -0.3, 0.9),
        lambda v: cm.cross(v[:3], v[3:6]),
        lambda v: cm.nan_to_num(v) * v,
    ):
        x, step = np.linspace(-1.1, 1.3, 6), 1e-6
        weights = np.random.default_rng(0).standard_normal(function(cm.asarray(x)).shape)

        def value(v: Any, function: Any = function, weights: Any = weights) -> Any:
            return (function(v) * cm.asarray(weights)).sum()

        slope = cm.grad(value)(cm.asarray(x)).to_numpy()
        for i in range(x.size):
            near = [float(value(cm.asarray(x + s * step * (np.arange(6) == i)))) for s in (1, -1)]
            assert slope[i] == pytest.approx((near[0] - near[1]) / (2 * step), rel=1e-5, abs=1e-6)


def test_legacy_random_names(device):
    rng = cm.random.randint(3, 7, (1000,))
    assert rng.shape == (1000,) and set(rng.tolist()) == {3, 4, 5, 6}
    assert cm.random.random_sample(5).shape == (5,)


def test_the_older_generator(device):
    """Those of the module and those of the class are one; copies, children and states as of a
    Generator."""
    cm.random.seed(11)
    one, other = cm.random.RandomState(11), cm.random.default_rng(11)
    for draw, same in (
        (lambda r: r.rand(2, 3), lambda r: r.random((2, 3))),
        (lambda r: r.randn(), lambda r: r.normal()),
        (lambda r: r.randint(5, size=4), lambda r: r.integers(5, size=4)),
        (lambda r: r.random_sample(3), lambda r: r.random(3)),
        (lambda r: r.permutation(7),) * 2,
    ):
        a, b, c = draw(one), draw(cm.random), same(other)
        assert (a.shape, a.dtype) == (b.shape, b.dtype) == (c.shape, c.dtype)
        assert a.tolist() == b.tolist() == c.tolist()
    again = pickle.loads(pickle.dumps(one))
    assert type(again) is cm.random.RandomState and again.state == one.state == other.state
    assert [child.state for child in one.spawn(2)] == [child.state for child in other.spawn(2)]
    one.seed(11)
    assert one.state == cm.random.default_rng(11).state and cm.random.default_rng(one) is one
    with pytest.raises(ValueError, match="wants a seed"):
        cm.random.RandomState(-1)


def test_seeds_of_several_numbers(device):
    """By NumPy's SeedSequence, which mixes them, and by NumPy's names of the arguments."""
    for seeds in ([1, 2, 3], (7,), np.array([5, 2**40]), *np.random.SeedSequence(4).spawn(2)):
        sequence = (
            seeds if isinstance(seeds, np.random.SeedSequence) else np.random.SeedSequence(seeds)
        )
        words = [int(w) for w in sequence.generate_state(4)]
        expected = cm.random.default_rng(sum(w << 32 * i for i, w in enumerate(words)))
        assert (
            cm.random.default_rng(seeds).state
            == cm.random.RandomState(seeds).state
            == expected.state
        )
    rng = cm.random.default_rng(3)
    assert len(rng.spawn(n_children=2)) == 2
    cm.random.seed(seed=[1, 2])
    assert cm.random.rand(3).tolist() == cm.random.default_rng([1, 2]).random(3).tolist()
    for wrong in ([1, -2], [1.5], ["x"]):
        with pytest.raises(
            TypeError,
            match=r"^random.default_rng: a seed must be an integer, or integers >= 0, got \[",
        ):
            cm.random.default_rng(wrong)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["i1", "i4", "u8", "f4", "f8"])
def test_expressions_simulated(dtype):
    """What the GPU computes of the new elementwise functions, against NumPy, extremes included."""
    from cudamath.core.layout import Layout
    from cudamath.kernels.elementwise.dispatch import elementwise
    from cudamath.testing import simulate

    kind = np.dtype(dtype)

    def run(expression: str, output: Any, *arrays: np.ndarray) -> np.ndarray:
        plan = elementwise(
            *[Layout.new(a.shape, kind, 0) for a in arrays],
            expression=expression,
            compute=kind,
            output=np.dtype(output),
        )
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return simulate(plan, *arrays)

    with np.errstate(all="ignore"):
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            x = np.array(
                [limits.min, limits.max, limits.max, 0, 1, limits.min, 12, 90, limits.max - 1, 6],
                kind,
            )
            y = np.array(
                [
                    limits.max,
                    limits.min,
                    limits.max,
                    limits.min,
                    limits.min,
                    0,
                    18,
                    35,
                    7,
                    limits.min,
                ],
                kind,
            )
            for name in ("gcd", "lcm"):
                np.testing.assert_array_equal(
                    run(registry[name].expression(kind), kind, x, y), getattr(np, name)(x, y)
                )
            np.testing.assert_array_equal(run("popcount(x)", "u1", x), np.bitwise_count(x))
            return
        x = np.array([0, -0.0, 1, -3, np.inf, -np.inf, np.nan, 1e-40, 1e30, 0.1], kind)
        y = np.array([3, 2, -200, 60, 4, 5, 3, 20, -5000, -149], kind)
        np.testing.assert_array_equal(run("ldexp(x, y)", kind, x, y), np.ldexp(x, y.astype(int)))
        exponents = np.array(
            [2**62, 2, -(2**62), 60, 2**62, -(2**62), 2**63 - 1, 20, -(2**63), -149]
        )  # read as they are
        mixed = elementwise(
            Layout.new(x.shape, kind, 0),
            Layout.new(x.shape, exponents.dtype, 0),
            expression="ldexp(x, y)",
            compute=kind,
            output=kind,
        )
        np.testing.assert_array_equal(simulate(mixed, x, exponents), np.ldexp(x, exponents))
        np.testing.assert_array_equal(run("exponent(x)", kind, x), np.frexp(x)[1])
        low, high = np.full_like(x, -1), np.full_like(x, 2)
        for card, given, expected in (
            ("clip", (x, low, high), np.clip(x, low, high)),
            ("isposinf", (x,), np.isposinf(x)),
            ("isneginf", (x,), np.isneginf(x)),
            ("median", (x, y), x),
            ("nan_to_num", (x, low, np.full_like(x, np.finfo(kind).max)), np.nan_to_num(x, nan=-1)),
            ("quantile", (low, high, np.full_like(x, 0.25)), np.full_like(x, -0.25)),
        ):
            got = run(registry[card].expression(kind), expected.dtype, *given)
            np.testing.assert_array_equal(got, expected, err_msg=card)
