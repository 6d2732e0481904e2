"""What a newcomer would write: `jit` gives what the function gives at every call, also after what
it finds outside has changed; or it says at the first call, with the line, what to write instead.

The functions are in newcomers.py; each is called eagerly and by `jit`, four times, with a change of
global variables, attributes and NumPy arrays in between.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import random
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import newcomers
import numpy as np
import program_comparison as comparison
import pytest

import cudamath as cm
from cudamath.ops.random import module as generators

FUNCTIONS = [*newcomers.FUNCTIONS]


def shown(value: Any) -> Any:
    """A result to be compared."""
    if isinstance(value, (cm.ndarray, np.ndarray, np.generic)):
        return str(value.dtype), value.shape, value.tolist()
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(shown, value)]
    return value if isinstance(value, (int, float, str)) else type(value).__name__


def calls(name: str, wrap: Callable) -> list[Any]:
    """What four calls of a function return, leave in its argument and in its surroundings, or the
    error of the first that raises one."""
    module = importlib.reload(newcomers)
    random.seed(0), np.random.seed(0), cm.random.seed(0)
    function, out = wrap(module.FUNCTIONS[name]), []
    for k in range(4):
        x = cm.array(np.array([1.0, 2.0, 3.0]) + k)
        if k == 2:
            module.change()
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(None):
                result = function(x)
        except Exception as error:
            return [*out, (type(error).__name__, str(error))]
        out.append((shown(result), shown(x), *map(shown, module.surroundings())))
    return out


@pytest.mark.parametrize("device", ["cpu", "emulated"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_works_as_without_or_says_why(name: str, device: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with cm.device("cpu"):
            plain = calls(name, lambda f: f)
        with comparison.on(device):
            jitted = calls(name, cm.jit)
    if jitted[-1][0] == "TraceError":
        # at the first call, or at the first one that does it; with a line of the user's function
        assert len(jitted) == 1, jitted
        message = jitted[0][1]
        assert name not in newcomers.WORK, message
        found = re.search(rf"^jit: {name} .*? at (\S*newcomers\.py):(\d+): .{{40}}", message)
        assert found or "on the host" in message or "returns a" in message, message
        if found:
            code = newcomers.FUNCTIONS[name].__code__
            first = code.co_firstlineno
            lines = {line for *_, line in code.co_lines() if line} | {*newcomers.HELPERS}
            assert int(found[2]) in lines or int(found[2]) == first, message
    elif isinstance(plain[-1][0], str) and plain[-1][0].endswith("Error"):
        assert jitted[-1][0] == plain[-1][0] and jitted[:-1] == plain[:-1]
    else:
        assert name in newcomers.WORK and jitted == plain


class Layer:
    """An object whose methods are passed to `jit`."""

    def __init__(self) -> None:
        self.scale, self.calls = 1.0, 0

    def forward(self, x: Any) -> Any:
        return x * self.scale

    __call__ = forward

    def counted(self, x: Any) -> Any:
        self.calls += 1
        return x * self.scale


def scaled(x: Any, by: list) -> Any:
    return x * by[0]


def test_what_a_callable_brings_along() -> None:
    """Methods, objects that can be called, and partial functions of what changes."""
    with cm.device("cpu"):
        x = cm.ones(2)
        for wrap in (
            lambda layer: layer.forward,
            lambda layer: layer,
            lambda layer: functools.partial(Layer.forward, layer),
            lambda layer: functools.partial(layer.forward),
        ):
            layer = Layer()
            f = cm.jit(wrap(layer))
            for scale in (1.0, 1.0, 4.0, 4.0):
                layer.scale = scale
                assert f(x).tolist() == [scale] * 2
            assert f.traces == 2
        by = [2.0]
        f = cm.jit(functools.partial(scaled, by=by))
        assert f(x).tolist() == [2.0, 2.0]
        by[0] = 3.0
        assert f(x).tolist() == [3.0, 3.0]
        with pytest.raises(cm.TraceError, match=r"counted changes Layer.calls at \S*py:\d+: "):
            cm.jit(Layer().counted)(x)


def test_the_first_draw_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator behind cm.random's functions is made when it is first used: within `jit` it is
    not the function's own, which would draw the same at each call."""
    monkeypatch.setattr(generators, "_default", None)
    with cm.device("cpu"):
        f = cm.jit(lambda x: x + cm.random.normal(size=4))
        found = [f(cm.zeros(4)).tolist() for _ in range(3)]
        assert len({*map(tuple, found)}) == 3
        cm.random.seed(5)
        first = f(cm.zeros(4)).tolist()
        cm.random.seed(5)
        assert cm.random.normal(size=4).tolist() == first


def test_what_changes_is_named() -> None:
    """Traces that repeat because a variable changes are reported with its name and line."""
    module = importlib.reload(newcomers)
    with cm.device("cpu"):
        f, x = cm.jit(module.FUNCTIONS["global_number"]), cm.ones(3)
        with pytest.warns(RuntimeWarning, match=r"8 times, because SCALE, .*newcomers.py:\d+, ch"):
            for k in range(8):
                module.SCALE = float(k)
                assert f(x).tolist() == [k] * 3
        assert f.traces == 8
        f(x), f(x)
        assert f.traces == 8


def test_what_is_the_same_is_not_traced_again() -> None:
    """Equal values, rebound functions' arguments, and arrays changed in place."""
    module = importlib.reload(newcomers)
    with cm.device("cpu"):
        for name in ("model_object", "global_number", "settings", "helper"):
            f = cm.jit(module.FUNCTIONS[name])
            for k in range(4):
                module.SCALE = float("3.0")  # another object of the same value
                f(cm.full(3, float(k)))
            assert f.traces == 1, name


def test_generated_code_and_the_console() -> None:
    """Functions without a file."""
    space: dict[str, Any] = {"cm": cm, "factor": 2.0, "__name__": "__main__"}
    exec(compile("def f(x): return x * factor", "<stdin>", "exec"), space)
    with cm.device("cpu"):
        f = cm.jit(space["f"])
        for value in (2.0, 2.0, 5.0):
            space["factor"] = value
            assert f(cm.ones(2)).tolist() == [value] * 2
        assert f.traces == 2
    assert "newcomers" in sys.modules


@pytest.mark.parametrize("device", ["cpu", "emulated"])
def test_what_is_put_into_an_argument(device: str) -> None:
    """A function that puts something into lists and dicts among its arguments does so at each call:
    new arrays, arrays of another place, and numbers."""

    def step(p: dict, g: Any, *, state: list) -> Any:
        for k in p["w"]:
            p["w"][k] = p["w"][k] - 0.5 * g
        p["g"], p["count"] = g, p["count"] + 1
        state[1], state[0] = state[0], state[1]
        return p["w"]["a"].sum()

    def calls(step: Callable) -> list:
        p = {"w": {"a": cm.ones(3), "b": cm.zeros(3)}, "g": cm.zeros(3), "count": 0}
        state, out = [cm.ones(2), cm.zeros(2)], []
        for k in range(3):
            g, weights, first = cm.ones(3) * k, p["w"], state[0]
            out.append(shown(step(p, g, state=state)))
            assert p["w"] is weights and p["g"] is g and state[1] is first
            out.append([shown([*p["w"].values()]), p["count"], shown(state)])
        return out

    with comparison.on(device):
        assert calls(cm.jit(step)) == calls(step)


def test_entries_of_an_argument_stay() -> None:
    """A program could not add or remove any: at the next call there would be others."""
    for change in (
        lambda p, x: p["losses"].append(x.sum()),
        lambda p, x: p.pop("losses"),
        lambda p, x: p.update(m=x),
        lambda p, x: p.update(losses=None),
    ):
        with pytest.raises(cm.TraceError, match=r"jit: <lambda> adds or removes entries .*became"):
            cm.jit(change)({"losses": [cm.ones(())]}, cm.ones(3))
    static = cm.jit(lambda p, x: x * p.scale, static_argnums=0)
    assert float(static(newcomers.Model(), cm.ones(()))) == 1.0


#: Functions in which a shape would depend on values, and what the error advises.
SHAPES: list[tuple[str, Callable]] = [
    ("index_add", lambda x, n: cm.bincount(n)),
    ("one_hot(x, n)", lambda x, n: cm.ml.one_hot(n)),
    ("range=(low, high)", lambda x, n: cm.histogram(x, 10)),
    ("x[index]", lambda x, n: cm.repeat(x, n)),
    ("static argument", lambda x, n: cm.arange(n[0])),
    ("static argument", lambda x, n: x.reshape(n[0], 2)),
    (
        "cm.arange(length)",
        lambda x, n: x[: n[0]],
    ),
    ("outside", lambda x, n: f"{x.sum()}"),
]


@pytest.mark.parametrize("advice, function", SHAPES)
def test_shapes_and_texts_that_depend_on_values(advice: str, function: Callable) -> None:
    x, n = cm.arange(6.0), cm.arange(6)
    with pytest.raises(cm.TraceError, match=re.escape(advice)):
        cm.jit(function)(x, n)


def test_what_is_advised_works() -> None:
    x, n = cm.array([0.5, 2.0, 2.5]), cm.array([1, 1, 0])
    for plain, other in (
        (lambda x, n: cm.bincount(n), lambda x, n: cm.index_add(cm.zeros(2), n, cm.ones(n.shape))),
        (lambda x, n: cm.ml.one_hot(n), lambda x, n: cm.ml.one_hot(n, 2)),
        (lambda x, n: x[n[2] : n[2] + 2], lambda x, n: x[n[2] + cm.arange(2)]),
        (
            lambda x, n: cm.histogram(x, 4)[0],
            lambda x, n: cm.histogram(x, 4, range=(0.5, 2.5))[0],
        ),
    ):
        assert cm.jit(other)(x, n).tolist() == plain(x, n).tolist()
