"""What a hostile user tries: numbers at the ends of their range, NumPy's rarer habits, and mistakes
that must be named."""

from __future__ import annotations

import gc
import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy_comparison import agree

import cudamath as cm
from cudamath.core.autograd import mutation
from cudamath.models import gpt2, sampling

ml = cm.ml
ENDS = [
    -np.inf,
    -3.4e38,
    -1e38,
    -1e10,
    -100.0,
    -0.0,
    0.0,
    1e-30,
    1.0,
    100.0,
    1e30,
    3.4e38,
    np.inf,
    np.nan,
]


def slopes(function: Any, *points: Any) -> list[cm.ndarray]:
    """The gradients of the sum of function(*points)."""
    found = cm.grad(lambda *x: function(*x).sum(), argnums=tuple(range(len(points))))(*points)
    return list(found)


# -------------------- gradients at the ends of the range


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_mish_has_a_slope_at_the_lowest_numbers(device, dtype):
    """0 for the lowest numbers and 1 for the highest; NaN where mish is NaN (-inf times 0)."""
    points = cm.asarray(ENDS).astype(dtype)
    (found,) = slopes(ml.mish, points)
    x = points.astype("float64").to_numpy()
    with np.errstate(all="ignore"):
        soft = np.logaddexp(0, x)
        truth = np.tanh(soft) + x * (1 - np.tanh(soft) ** 2) / (1 + np.exp(-x))
    truth[x == np.inf] = 1
    truth[(x < -700) & np.isfinite(x)] = 0
    error = 1e-2 if dtype == "bfloat16" else 1e-5
    np.testing.assert_allclose(found.astype("float64").to_numpy(), truth, rtol=error, atol=1e-30)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_atan2_turns_as_far_from_and_as_near_to_the_origin(device, dtype):
    """Its slope is 1 / r however long r is, and 0 at the origin, where there is no angle."""
    radii, angles = np.array([1e-30, 1e-15, 1.0, 1e15, 1e30]), np.array([0.3, 2.0, -1.0, -2.5])
    y, x = (np.outer(radii, f(angles)) for f in (np.sin, np.cos))
    dy, dx = slopes(cm.atan2, cm.asarray(y).astype(dtype), cm.asarray(x).astype(dtype))
    np.testing.assert_allclose(dy.to_numpy(), np.cos(angles) / radii[:, None], rtol=1e-5)
    np.testing.assert_allclose(dx.to_numpy(), -np.sin(angles) / radii[:, None], rtol=1e-5)
    for found in slopes(cm.atan2, cm.zeros(2, dtype), cm.asarray([0.0, -0.0]).astype(dtype)):
        assert found.tolist() == [0, 0]
    twice = cm.grad(lambda y: cm.grad(lambda y: cm.atan2(y, 2.0).sum())(y).sum())(
        cm.asarray([1.0])
    )  # -2 y x / (x^2 + y^2)^2
    assert twice.tolist() == pytest.approx([-4 / 25])


@pytest.mark.parametrize("name, base", [("logaddexp", math.e), ("logaddexp2", 2.0)])
def test_logaddexp_shares_its_gradient_whatever_the_numbers(device, name, base):
    """The shares are base^x / (base^x + base^y): 1/2 of two equal numbers of any size, all of it
    for infinity."""
    x, y = (
        cm.asarray([1e30, -1e30, np.inf, 0.0, 3.0, -np.inf]),
        cm.asarray([1e30, -1e30, 0.0, np.inf, 1.0, 1.0]),
    )
    dx, dy = slopes(getattr(cm, name), x, y)
    share = base**3 / (base**3 + base)
    np.testing.assert_allclose(dx.to_numpy(), [0.5, 0.5, 1, 0, share, 0], rtol=1e-12)
    np.testing.assert_allclose(dy.to_numpy(), [0.5, 0.5, 0, 1, 1 - share, 1], rtol=1e-12)


# -------------------- what is changed between a function and its gradient


CHANGES: dict[str, Any] = {
    "+=": lambda x: x.__iadd__(1),
    "setitem": lambda x: x.__setitem__(0, 9),
    "a view": lambda x: x[1:].__imul__(2),
    "out=": lambda x: cm.sin(x, out=x),
    "sort": lambda x: x[::-1].sort(),
    "flat": lambda x: setattr(x, "flat", 0),
    "real": lambda x: setattr(x, "real", 0),
    "copyto": lambda x: cm.copyto(x, 0.0),
    "add_at": lambda x: cm.add_at(x, [0], 1),
    "sgd": lambda x: ml.sgd_update([x], [cm.ones_like(x)], lr=0.1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_vjp_keeps_must_not_change(device, name):
    """Neither the arguments nor constants, also outside of every function: a wrong gradient without
    a word otherwise."""
    x, w = cm.arange(4.0), cm.arange(4.0) + 1
    _, pull = cm.vjp(lambda x: (x * x * w).sum(), x)
    assert pull(cm.asarray(1.0))[0].tolist() == [0, 4, 12, 24]
    for changed in (x, w):
        _, pull = cm.vjp(lambda x: (x * x * w).sum(), x)
        CHANGES[name](changed)
        with pytest.raises(
            RuntimeError,
            match=f"^{'square' if changed is x else 'multiply'}: .*changed in place after",
        ):
            pull(cm.asarray(1.0))
    _, pull = cm.vjp(lambda x: (x * 3).sum(), x)  # nothing of x is needed
    CHANGES[name](x)
    assert pull(cm.asarray(1.0))[0].tolist() == [3, 3, 3, 3]


REFUSED: dict[str, Any] = {
    "number": lambda x: x.__setitem__(..., 300),
    "of a view": lambda x: x.__setitem__(slice(2), 300),
    "fill": lambda x: x.fill(300),
    "mask": lambda x: x.__setitem__(x > 1, 300),
    "places": lambda x: x.__setitem__([0, 1], 300),
    "a tuple": lambda x: x.__setitem__((cm.asarray([1]),), [300]),
    "shape": lambda x: x.__setitem__(slice(2), [1, 2, 3]),
    "+=": lambda x: x.__iadd__(cm.ones(3, "int8")),
    "out=": lambda x: cm.add(x, 1.5, out=x),
    "put": lambda x: cm.put(x, [0], 300),
    "copyto": lambda x: cm.copyto(x, [1, 2, 3]),
    "add_at": lambda x: cm.add_at(x, [0, 1], [1, 2, 3]),
    "along": lambda x: cm.put_along_axis(x, cm.asarray([0, 1]), [1, 2, 3], 0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_was_refused_has_changed_nothing(device, name):
    """Neither the numbers nor what may still be differentiated."""
    x = cm.arange(4, dtype="int8")
    for _ in range(2):  # also by what is remembered of such calls
        _, pull = cm.vjp(lambda v: (v * x).sum(), cm.ones(4))
        with pytest.raises((ValueError, TypeError, OverflowError)):
            REFUSED[name](x)
        assert pull(cm.asarray(1.0))[0].tolist() == x.tolist() == [0, 1, 2, 3]
        x[...] = x + 0


def test_gradients_lie_apart(device):
    """Of what is added, each gets the same gradient; to add to one in place (gradients of many
    batches) changes no other."""
    w = cm.arange(4.0)
    p = {"a": cm.ones(4), "b": cm.zeros(4), "c": cm.zeros((2, 2)), "d": cm.zeros(2)}

    def loss(p: dict) -> cm.ndarray:
        return ((p["a"] + p["b"] + p["c"].reshape(4) + cm.concat([p["d"], p["d"]])) * w).sum()

    total = cm.grad(loss)(p)
    for _ in range(2):
        for name, g in cm.grad(loss)(p).items():
            total[name] += g
    assert {name: g.ravel().tolist() for name, g in total.items()} == {
        "a": [0, 3, 6, 9],
        "b": [0, 3, 6, 9],
        "c": [0, 3, 6, 9],
        "d": [6, 12],
    }
    for function in (lambda x: x, lambda x: x + 0, lambda x: x.reshape(2, 2)):
        y, pull = cm.vjp(function, w)
        given = cm.ones(y.shape)
        (g,) = pull(given)
        g += 1
        assert given.ravel().tolist() == [1, 1, 1, 1] and w.tolist() == [0, 1, 2, 3]


def test_changes_are_noted_as_long_as_a_pull_lives(device):
    x = cm.arange(4.0)
    gc.collect()
    assert not mutation.holders
    _, first = cm.vjp(lambda x: (x * x).sum(), x)
    _, second = cm.vjp(lambda x: (x * x).sum(), x)
    del second
    assert (
        cm.grad(lambda y: (y * y).sum())(x).tolist() == [0, 2, 4, 6] and len(mutation.holders) == 1
    )
    x += 1
    assert cm.grad(lambda y: (y * y).sum())(x).tolist() == [2, 4, 6, 8]  # this one began afterwards
    with pytest.raises(RuntimeError, match="changed in place"):
        first(cm.asarray(1.0))
    del first
    x += 1
    assert not mutation.holders


# -------------------- NumPy's habits


@pytest.mark.parametrize("k", [-1, 0, 2])
def test_triangles_of_a_vector(device, k):
    """Every row is the vector."""
    for f, g in ((cm.tril, np.tril), (cm.triu, np.triu)):
        for x in (np.arange(1.0, 5), np.arange(8)[::-2], np.zeros(0)):
            agree(f(cm.asarray(x), k), g(x, k))
        with pytest.raises(ValueError, match=rf"^{f.__name__}: .*\(\)"):
            f(cm.asarray(1.0), k)
    weights = np.arange(9.0).reshape(3, 3)
    assert (
        cm.grad(lambda x: (cm.tril(x) * cm.asarray(weights)).sum())(cm.ones(3)).tolist()
        == np.tril(weights).sum(0).tolist()
    )


_RULES = ["no", "equiv", "safe", "same_kind", "unsafe"]


@pytest.mark.parametrize("casting", _RULES)
@pytest.mark.parametrize("name", ["add", "divide", "sqrt", "less", "bitwise_and"])
def test_casting_rules(device, name, casting):
    """What NumPy computes under a rule, and where it refuses to, for arrays, numbers, out= and
    dtype=."""
    ours, theirs = getattr(cm, name), getattr(np, name)
    calls = answers = 0
    for kind in ("?", "i2", "i8", "f4", "f8"):
        for other in ("f4", "i8", 2, 2.5)[: 4 if theirs.nin == 2 else 1]:
            for options in (
                {},
                {"dtype": "f4"},
                {"dtype": "i4"},
                {"out": "i4"},
                {"out": "f4"},
                {"out": "?", "dtype": "f8"},
            ):
                if casting in ("no", "equiv") and not isinstance(other, str):
                    continue  # there NumPy refuses numbers of any dtype but the array's default
                found = []
                for function, make in (
                    (theirs, np.asarray),
                    (ours, lambda a: cm.asarray(a, copy=True)),
                ):
                    operands = [make(np.array([1, 0, 1], kind))]
                    if theirs.nin == 2:
                        operands.append(
                            make(np.array([1, 2, 3], other)) if isinstance(other, str) else other
                        )
                    more: dict[str, Any] = dict(options)
                    if "out" in more:
                        more["out"] = make(np.zeros(3, more["out"]))
                    try:
                        with np.errstate(all="ignore"):
                            found.append(function(*operands, casting=casting, **more))
                    except TypeError as error:
                        assert function is theirs or str(error).startswith(f"{name}: "), error
                        found.append(None)
                calls += 1
                if found[0] is None or found[1] is None:
                    assert found[0] is found[1], (kind, other, options, found)
                elif not (
                    casting == "unsafe" and np.dtype(options.get("out", "f4")).kind == "i"
                ):  # infinity as an integer
                    answers += 1
                    agree(found[1], found[0])
    assert 0 < calls and (answers or casting in ("no", "equiv"))


def test_rules_that_are_none_and_rules_for_copies(device):
    with pytest.raises(ValueError, match="^add: casting is .*'maybe'"):
        cm.add(1, 2, casting="maybe")
    with pytest.raises(ValueError, match="^copyto: casting is .*'maybe'"):
        cm.copyto(cm.zeros(2), 1, casting="maybe")
    for name in ("concat", "concatenate", "stack", "vstack", "hstack"):
        for more in (
            {},
            {"dtype": "f4"},
            {} if name in ("vstack", "hstack") else {"out": cm.zeros((2, 2))},
        ):
            for _ in range(2):
                with pytest.raises(ValueError, match=f"^{name}: casting is .*'maybe'"):
                    getattr(cm, name)([cm.zeros(2), cm.zeros(2)], casting="maybe", **more)
                getattr(cm, name)([cm.zeros(2), cm.zeros(2)])


@pytest.mark.parametrize("name", ["concatenate", "stack", "vstack", "hstack"])
def test_casting_rules_of_joins(device, name):
    """As NumPy judges: of each array and the result's dtype, whether that is given, or is what
    `out` has, or is neither."""
    answers = []
    for kinds in itertools.product(("i4", "i8", "f4", "f8", "?"), repeat=2):
        for casting in _RULES:
            options = [{}, {"dtype": "f4"}, {"dtype": "i8"}]
            options += [{"out": "f4"}, {"out": "i4"}, {"out": "f8"}] * (
                name in ("concatenate", "stack")
            )
            for more in options:
                found: list[Any] = []
                for xp in (np, cm):
                    given = dict(more)
                    if "out" in given:
                        given["out"] = xp.zeros(
                            4 if name == "concatenate" else (2, 2), dtype=given["out"]
                        )
                    arrays = [
                        xp.asarray(np.array(values, kind))
                        for values, kind in zip(([1, 0], [2, 1]), kinds, strict=True)
                    ]
                    try:
                        found.append(getattr(xp, name)(arrays, casting=casting, **given))
                    except TypeError as error:
                        assert xp is np or str(error).startswith(f"{name}: "), error
                        found.append(None)
                if found[0] is None or found[1] is None:
                    assert found[0] is found[1], (kinds, casting, more, found)
                else:
                    agree(found[1], found[0])
                answers.append(found[0] is None)
    assert any(answers) and not all(answers)


@pytest.mark.parametrize(
    "value", [[1, 2], [1], (1,), [], np.array([1.0]), np.array([[1]]), range(2), "array"], ids=str
)
def test_fill_takes_one_number(device, value):
    """As NumPy's: neither sequences nor arrays with axes, even if they would broadcast."""
    x = cm.zeros((2, 2))
    value = cm.ones(2) if isinstance(value, str) else value
    with pytest.raises(ValueError, match=r"^fill: wants one number .*\(2, 2\)"):
        x.fill(value)
    assert not x.to_numpy().any()
    for number in (3, 3.0, True, np.float32(3), np.array(3), cm.asarray(3.0)):
        x.fill(number)
        assert x.tolist() == [[float(number)] * 2] * 2
    with pytest.raises(ValueError, match=r"^copyto: .*\(3,\).* broadcast view"):
        cm.copyto(cm.broadcast_to(cm.zeros(1), (3,)), cm.ones(3))
    for rule in _RULES:
        assert _copied(np, np.asarray, rule) == _copied(cm, cm.asarray, rule)
    x = cm.asarray([1.5, 2.5])
    assert np.add(x, 1, casting="unsafe", dtype="int64").tolist() == [2, 3]
    assert cm.pow(x, 2, casting="unsafe", dtype="int32").tolist() == [1, 4]
    assert cm.add(x, 1, out=x, casting="safe") is x and x.tolist() == [2.5, 3.5]
    assert cm.grad(lambda x: cm.multiply(x, 3, casting="unsafe", dtype="float32").sum())(
        x
    ).tolist() == [3, 3]


def _copied(xp: Any, make: Any, rule: str) -> list[Any]:
    found = []
    for source, target in (("f4", "f8"), ("f8", "f4"), ("f8", "i4"), ("i4", "i4"), ("i4", "i8")):
        dst = make(np.zeros(2, target))
        try:
            xp.copyto(dst, make(np.array([1, 2], source)), casting=rule)
            found.append(dst.tolist())
        except TypeError:
            found.append("refused")
    return found


def test_parts_of_complex_numbers_are_assigned(device):
    base = np.arange(6).reshape(2, 3) * (1 + 2j)
    for kind in ("complex64", "complex128"):
        theirs, ours = base.astype(kind), cm.asarray(base.astype(kind), copy=True)
        for x in (theirs, ours):
            x.real = 7
            x.imag[0] = -1
            x[:, ::-2].imag = [[3, 4]]
            x.T.real = np.arange(6.0).reshape(3, 2)
        agree(ours, theirs)
    x = cm.zeros(3)
    x.real = [1, 2, 3]
    assert x.tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match=r"^imag: float64 of shape \(3,\)"):
        x.imag = 1
    with pytest.raises(ValueError, match=r"^setitem: .*\(2,\).*\(3,\)"):
        x.real = [1, 2]
    with pytest.raises(RuntimeError, match="^setitem: .*gradient"):
        cm.grad(lambda x: (setattr(x, "real", 1), x.sum())[1])(x)


# -------------------- mistakes that are named


NO_DTYPE: dict[str, Any] = {
    "zeros": lambda d: cm.zeros(3, d),
    "full": lambda d: cm.full(3, 1.0, d),
    "zeros_like": lambda d: cm.zeros_like(cm.ones(2), d),
    "arange": lambda d: cm.arange(3, dtype=d),
    "linspace": lambda d: cm.linspace(0, 1, 3, dtype=d),
    "asarray": lambda d: cm.asarray([1], d),
    "astype": lambda d: cm.ones(2).astype(d),
    "view": lambda d: cm.ones(2).view(d),
    "sum": lambda d: cm.sum(cm.ones(2), dtype=d),
    "mean": lambda d: cm.mean(cm.ones(2), dtype=d),
    "var": lambda d: cm.var(cm.ones(2), dtype=d),
    "cov": lambda d: cm.cov([[1.0, 2.0]], dtype=d),
    "concat": lambda d: cm.concat([cm.ones(2)], dtype=d),
    "einsum": lambda d: cm.einsum("i->", cm.ones(2), dtype=d),
    "add": lambda d: cm.add(cm.ones(2), 1, dtype=d),
    "matmul": lambda d: cm.matmul(cm.eye(2), cm.eye(2), dtype=d),
    "can_cast": lambda d: cm.can_cast(d, "float32"),
    "finfo": lambda d: cm.finfo(d),
    "isdtype": lambda d: cm.isdtype(d, "bool"),
    "fftfreq": lambda d: cm.fft.fftfreq(4, dtype=d),
    "one_hot": lambda d: ml.one_hot(cm.asarray([0]), 2, dtype=d),
    "random.normal": lambda d: cm.random.default_rng(0).normal(size=2, dtype=d),
    "init.zeros": lambda d: ml.init.zeros(2, dtype=d),
    "cast": lambda d: ml.amp.cast(cm.ones(2), d),
    "result_type": lambda d: cm.result_type(d),
    "set_default_dtype": lambda d: cm.set_default_dtype(d),
    "frombuffer": lambda d: cm.frombuffer(b"12345678", d),
    "fromiter": lambda d: cm.fromiter([1], d),
}


@pytest.mark.parametrize("name", NO_DTYPE)
def test_dtypes_that_are_none_are_named(device, name):
    for wrong in ("float23", "U3", "datetime64[s]", object(), [("a", "i4")], 7):
        if name == "result_type" and wrong == 7:  # a number has a dtype
            continue
        if name == "finfo" and wrong == 7:  # as in NumPy, but not one of those numbers
            with pytest.raises(ValueError, match="^finfo: wants a floating-point or complex"):
                cm.finfo(wrong)
            continue
        with pytest.raises(TypeError, match=rf"^{name}: ") as caught:
            NO_DTYPE[name](wrong)
        assert (
            "is not a dtype" in str(caught.value)
            or "are not supported" in str(caught.value)
            or name == "matmul"
        )


def test_indices_out_of_range_name_their_function():
    x = cm.zeros(3)
    for name, call in {
        "index_add": lambda: cm.index_add(x, [5], [1.0]),
        "add_at": lambda: cm.add_at(x, [5], 1.0),
        "multiply_at": lambda: cm.multiply_at(x, [-4], 1.0),
        "maximum_at": lambda: cm.maximum_at(x, [5], 1.0),
        "minimum_at": lambda: cm.minimum_at(x, [5], 1.0),
    }.items():
        with pytest.raises(
            IndexError, match=rf"^{name}: index (5|-4) is out of bounds for axis 0 with size 3"
        ):
            call()
    assert x.tolist() == [0, 0, 0]


# -------------------- language models


def test_scores_that_are_no_numbers(device):
    """On the CPU they are an error; a GPU is not waited for: there the class is -1."""
    rng = cm.random.default_rng(0)
    for bad in ([1.0, np.nan, 2.0], [-np.inf] * 3, [np.inf, 1.0, 2.0], [np.nan] * 3):
        scores = cm.asarray([[0.0, 5.0, 1.0], bad], "float32")
        for options in ({}, {"top_p": 0.9}, {"temperature": 0.5}):
            if device == "cpu":
                with pytest.raises(ValueError, match=r"^choose: .*\(2, 3\).*NaN"):
                    sampling.choose(scores, rng, **options)
            else:
                first, second = sampling.choose(scores, rng, **options).tolist()
                assert 0 <= first < 3 and second == -1
    if device == "cpu":
        with pytest.raises(ValueError, match=r"^choose: .*\(1, 2\).*NaN"):
            sampling.choose(cm.asarray([[1.0, np.nan]]), rng, temperature=0)
    assert sampling.choose(cm.asarray([[-np.inf, 0.0, -np.inf]]), rng, top_k=2).tolist() == [1]
    for shape in ((3,), (2, 0), (1, 2, 3)):
        with pytest.raises(ValueError, match=r"^choose: wants scores \(rows, classes\)"):
            sampling.choose(cm.zeros(shape), rng)


def test_what_a_language_model_is_given():
    config = gpt2.Config(vocabulary=16, context=4, layers=1, heads=1, width=8)
    params = gpt2.create(config)
    listed = gpt2.forward(params, [[1, 2]], config)
    assert (
        listed.shape == (1, 2, 8)
        and listed.tolist() == gpt2.forward(params, cm.asarray([[1, 2]]), config).tolist()
    )
    for wrong, error, seen in (
        ([1, 2], ValueError, r"\(2,\)"),
        ([[1] * 5], ValueError, r"\(1, 5\)"),
        ([[0.5]], TypeError, "float64"),
        ("text", TypeError, "asarray|str"),
    ):
        with pytest.raises(error, match=f"^(gpt2.forward|asarray): .*{seen}"):
            gpt2.forward(params, wrong, config)
    with pytest.raises(ValueError, match=r"^gpt2.Config: "):
        gpt2.Config(width=7, heads=2)


# -------------------- sizes, sequences, numbers


@pytest.mark.parametrize(
    "shape", [2**60, 2**64, (2**40, 2**40), (2**32, 2**32), (1,) * 65, (0, 2**63)], ids=str
)
def test_arrays_that_no_memory_holds(device, shape):
    """They are refused before anything is allocated, however large the product."""
    for name in ("zeros", "empty", "ones"):
        with pytest.raises(ValueError, match=f"^{name}: .*too large"):
            getattr(cm, name)(shape)
    with pytest.raises(ValueError, match="^full: .*too large"):
        cm.full(shape, 1.0)
    with pytest.raises(ValueError, match="too large"):
        cm.broadcast_to(cm.zeros(1), shape if isinstance(shape, tuple) else (shape,))


def test_eye_of_no_memory(device):
    with pytest.raises(ValueError, match="^eye: .*too large"):
        cm.eye(2**32)


@pytest.mark.parametrize(
    "name", ["concat", "concatenate", "stack", "vstack", "hstack", "dstack", "column_stack"]
)
def test_sequences_that_are_none(device, name):
    for wrong, seen in (
        (3, "int 3"),
        (None, "NoneType"),
        (cm.asarray(1.5), r"float64 of shape \(\)"),
        (2.5, "float"),
    ):
        with pytest.raises(TypeError, match=f"^{name}: wants a sequence of arrays, got .*{seen}"):
            getattr(cm, name)(wrong)


def test_counts_that_are_no_integers(device):
    x = cm.arange(4.0)
    for call, name in (
        (lambda: cm.split(x, 2.5), "split"),
        (lambda: cm.split(x, [1.5]), "split"),
        (lambda: cm.topk(x, 2.0), "topk"),
        (lambda: cm.array_split(x, "2"), "array_split"),
        (lambda: cm.roll(x, "1"), "roll"),
        (lambda: cm.roll(x, [None], axis=(0,)), "roll"),
        (lambda: cm.percentile(x, "a"), "percentile"),
        (lambda: cm.quantile(x, [[0.1], [0.2, 0.3]]), "quantile"),
        (lambda: cm.astype(x, x), "astype"),
        (lambda: cm.zeros(2, x), "zeros"),
    ):
        with pytest.raises(TypeError, match=f"^{name}: "):
            call()


def test_shifts_in_arrays(device):
    x = np.arange(12.0).reshape(3, 4)
    for shift, axis in (
        (np.array(5), None),
        (np.int64(-2), 1),
        (np.array([1, 2]), (0, 1)),
        (np.array([1, 1]), (0, 0)),
    ):
        agree(cm.roll(cm.asarray(x), shift, axis=axis), np.roll(x, shift, axis=axis))
    assert cm.roll(cm.arange(3), cm.asarray(1)).tolist() == [2, 0, 1]


def test_differences_of_sets_keep_their_numbers(device):
    """Whatever dtype the other set has: float64 holds no 2^64 - 1."""
    whole = np.array([2**64 - 1, 5, 0, 5], np.uint64)
    agree(cm.setdiff1d(cm.asarray(whole), 1.5), np.setdiff1d(whole, 1.5))
    agree(
        cm.setdiff1d(cm.asarray(whole), cm.asarray([0.0]), assume_unique=True),
        np.array([2**64 - 1, 5, 5], np.uint64),
    )
    agree(cm.setdiff1d([4, 1, 3, 4], [3]), np.setdiff1d([4, 1, 3, 4], [3]))


# -------------------- files


def test_checkpoints_with_a_flipped_bit(tmp_path):
    """Damage in the header is an error of load's, or leaves arrays: never another exception."""
    pytest.importorskip("safetensors")
    path = tmp_path / "x.safetensors"
    cm.save(
        path, {"w": cm.arange(3.0), "more": [cm.ones(2, "bfloat16"), 7, None, (cm.asarray([1j]),)]}
    )
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    errors = 0
    for at in range(header):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 7
        path.write_bytes(damaged)
        try:
            cm.load(path)
        except (TypeError, ValueError) as error:
            assert str(error).startswith("load: "), error
            errors += 1
    assert errors > header // 2


def test_memory_that_is_read_only_is_not_lent_to_write():
    """DLPack says so from version 1.0 on; before, NumPy refuses, and so do we."""
    host = np.arange(3.0)
    host.flags.writeable = False
    x = cm.asarray(host, device="cpu")
    assert not np.from_dlpack(x).flags.writeable
    with pytest.raises(BufferError, match="^__dlpack__: .*read-only"):
        x.__dlpack__()


def test_read_only_arrays_stay_as_they_are():
    host = np.arange(3.0)
    host.flags.writeable = False
    x = cm.asarray(host, device="cpu")
    for change in (
        lambda: x.__setitem__(0, 5),
        lambda: x.__setitem__([0, 1], 5),
        lambda: x.__setitem__(x > 0, 5),
        x.sort,
        lambda: x.fill(1),
        lambda: cm.copyto(x, 1.0),
        lambda: cm.random.default_rng(0).shuffle(x),
    ):
        with pytest.raises(
            ValueError,
            match=r"^(setitem|copyto|random\.shuffle): assignment destination is read-only: ",
        ):
            change()
    for name, change in {
        "add": lambda: x.__iadd__(1),
        "add_at": lambda: cm.add_at(x, [0], 1),
    }.items():
        with pytest.raises(ValueError, match=f"^{name}: .*read-only"):
            change()
    assert host.tolist() == [0, 1, 2]


def test_more_decimals_than_a_number_has(device):
    x = cm.asarray([1.5, -np.inf, np.nan, 5e-324])
    np.testing.assert_array_equal(cm.round(x, 400).to_numpy(), x.to_numpy())


def test_trees_that_hold_themselves(tmp_path):
    pytest.importorskip("safetensors")
    tree: dict[str, Any] = {"w": cm.zeros(2)}
    tree["again"] = tree
    with pytest.raises(ValueError, match="^save: .*holds itself"):
        cm.save(tmp_path / "x.safetensors", tree)
    assert not list(tmp_path.iterdir())
