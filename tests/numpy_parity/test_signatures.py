"""Signatures of public functions and methods, compared with NumPy's: what NumPy
takes by position or by keyword is taken so here."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch import keyword_names

SPACES = {
    "": (np, cm),
    "linalg": (np.linalg, cm.linalg),
    "fft": (np.fft, cm.fft),
    "ndarray": (np.ndarray, cm.ndarray),
}
#: Parameters of NumPy's that a function does not have, and the reason.
ELSEWHERE = {
    "einsum_path": {"einsum_call": "for NumPy's own use"},
    "load": {
        "mmap_mode": "a keyword: the second parameter is a tree of the structure wanted",
        "allow_pickle": "a keyword",
        "fix_imports": "of pickles, which are not read",
        "encoding": "of pickles",
        "max_header_size": "of pickles",
    },
    "save": {"allow_pickle": "a keyword"},
    "ndarray.choose": {
        "choices": "the arguments are the choices, each or all in one",
        "out": "a keyword",
        "mode": "a keyword",
    },
}
BINDING = re.compile(
    r"unexpected keyword argument|positional-only arguments? passed as keyword|"
    r"takes .* positional argument|multiple values for argument"
)


def public_functions() -> list[tuple[str, Any, Any]]:
    """(name, NumPy's function, ours) of all functions with a signature that both have. ufuncs have
    one form of call, which `test_ufunc_keywords` looks at."""
    pairs = []
    for label, (theirs, ours) in SPACES.items():
        for name in sorted(dir(theirs)):
            function, own = getattr(theirs, name), getattr(ours, name, None)
            if name.startswith("_") or isinstance(function, (type, np.ufunc)) or own is None:
                continue
            if not callable(function) or not callable(own):
                continue
            try:
                inspect.signature(function)
            except ValueError:  # fromstring's
                continue
            pairs.append((f"{label}.{name}".lstrip("."), function, own))
    return pairs


FUNCTIONS = public_functions()


def parameters(function: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def by_position(function: Any) -> float:
    """How many arguments a function takes by position."""
    kinds = [p.kind for p in parameters(function)]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return float("inf")
    return sum(
        [
            k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            for k in kinds
        ]
    )


def test_most_functions_are_compared() -> None:
    assert len(FUNCTIONS) > 300


@pytest.mark.parametrize(("name", "theirs", "ours"), FUNCTIONS, ids=[f[0] for f in FUNCTIONS])
def test_positions(name: str, theirs: Any, ours: Any) -> None:
    """NumPy's parameters by position are ours, in this order."""
    own = [p.name for p in parameters(ours)]
    for place, p in enumerate(parameters(theirs)):
        if p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            break
        if p.name in ELSEWHERE.get(name, {}):
            continue
        assert place < by_position(ours), f"{p.name} is no argument {place}"
        if p.name in own:  # else its place is called otherwise here
            assert own.index(p.name) == place, f"{p.name} is argument {own.index(p.name)}"


@pytest.mark.parametrize(("name", "theirs", "ours"), FUNCTIONS, ids=[f[0] for f in FUNCTIONS])
def test_keywords(name: str, theirs: Any, ours: Any) -> None:
    """NumPy's keywords are taken, also as the names of arrays. What is given for them is nonsense,
    and no call may fail because of the keyword."""
    method = name.startswith("ndarray.")
    if name == "set_printoptions":  # would change them
        return
    required = [
        p for p in parameters(theirs) if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    for p in parameters(theirs):
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) or p.name in ELSEWHERE.get(
            name, {}
        ):
            continue
        given = {q.name: object() for q in [*required, p]}
        receiver = [cm.ones(3, device="cpu")] if method else []
        with np.errstate(all="ignore"):
            try:
                ours(*receiver, **given)
            except Exception as error:
                assert not BINDING.search(str(error)), f"{p.name}: {error}"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda xp, x: xp.sum(a=x, axis=0), None),
        (lambda xp, x: xp.sum(x, 0, None, None, True), None),
        (lambda xp, x: xp.max(x, 1, None, True, 2.5, x > 1), None),
        (lambda xp, x: xp.all(x, 0, None, True), None),
        (lambda xp, x: xp.mean(x, 0, "float32", None, True), None),
        (lambda xp, x: xp.std(x, 0, None, None, 1, True), None),
        (lambda xp, x: xp.nansum(x, 0, None, None, True, 3.0, x > 1), None),
        (lambda xp, x: x.var(0, None, None, 1, True), None),
        (lambda xp, x: xp.linalg.norm(x, 2, 0, True), None),
        (lambda xp, x: xp.array(object=x), None),
        (lambda xp, x: xp.take(a=x, indices=[1], axis=0), None),
        (lambda xp, x: xp.apply_along_axis(func1d=lambda v: v.sum(), axis=0, arr=x), None),
        (lambda xp, x: xp.isclose(x, x + xp.nan, 1e-5, 1e-8, True), None),
        (lambda xp, x: xp.zeros_like(x, None, "K", True, (2,)), None),
        (lambda xp, x: xp.nanargmax(a=x), None),
        (lambda xp, x: xp.fft.fft(a=x), None),
        (lambda xp, x: xp.cov(m=x), None),
    ],
)
def test_values(call: Any, expected: None) -> None:
    """The value at the second call too, which is a replay."""
    x = np.array([[1.0, 2.0], [4.0, 3.0]])
    want = call(np, x)
    with cm.device("cpu"):
        mine = cm.array(x)
        for _ in range(3):
            got = np.asarray(call(cm, mine))
            assert got.shape == np.shape(want)
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_positional_call_has_no_new_code() -> None:
    """Names are written into the code of a function; its instructions stay the same."""
    for name in ("ravel", "zeros_like"):
        function = getattr(cm, name)
        function(cm.ones(2, device="cpu"))
        code = function.__code__
        assert code.co_varnames[0] == "a" and not code.co_posonlyargcount
        assert not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)


def test_names_beside_variables_of_a_closure() -> None:
    """A parameter gets the name of a variable that a closure uses, and the other way round."""

    def function(x: int, /, y: int = 2) -> list[int]:
        a = [x, y]
        return [(lambda: a[i] + x)() for i in range(2)]

    keyword_names.accept(function, {"x": "a"})
    assert function(a=1) == function(1) == [2, 3]  # type: ignore[call-arg]
    assert function(1, y=5) == [2, 6]
    assert list(inspect.signature(function).parameters) == ["x", "y"]
