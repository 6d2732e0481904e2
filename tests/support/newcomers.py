"""Functions that a newcomer would pass to `jit`: each reads values, changes what it finds outside,
draws on the host, or does what works; see tests/programs/test_honest_tracing.py."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import itertools
import logging
import math
import operator
import pickle
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cudamath as cm

SCALE, COUNT = 3.0, 0
LOG: list = []
TABLE = [1.0, 2.0, 3.0]
SETTINGS = {"k": 2.0}
HOST = np.ones(3)
STATE = np.zeros(3)
RNG = np.random.default_rng(0)
TICKET = itertools.count()
FUNCTIONS: dict[str, Callable] = {}


class Model:
    """What holds weights, and counts its calls."""

    def __init__(self) -> None:
        self.w, self.scale, self.calls = np.ones(3), 1.0, 0
        self.cache: dict = {}

    def __call__(self, x: Any) -> Any:
        return x * cm.asarray(self.w) * self.scale


class Counting(Model):
    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return x * self.calls


@dataclasses.dataclass
class Pair:
    a: Any


MODEL, COUNTING = Model(), Counting()


def change() -> None:
    """Change what the functions find outside, between two calls."""
    global SCALE, STATE
    SCALE, STATE = 7.0, np.full(3, 4.0)
    HOST[:] = 5
    SETTINGS["k"] = 9.0
    MODEL.scale, MODEL.w = 0.5, np.full(3, 2.0)
    TABLE[0] = 8.0


def surroundings() -> tuple:
    """What the functions might have changed."""
    return COUNT, len(LOG), TABLE, HOST, SETTINGS["k"], COUNTING.calls, len(MODEL.cache)


def function(f: Callable) -> Callable:
    """Put a function into the list."""
    FUNCTIONS[f.__name__] = f
    return f


def _scaled(x: Any) -> Any:
    return x * SCALE + TABLE[0]


@functools.lru_cache
def _twos() -> Any:
    return np.full(3, 2.0)


@function
def global_number(x: Any) -> Any:
    return x * SCALE


@function
def global_number_changed(x: Any) -> Any:
    global COUNT
    COUNT += 1
    return x * COUNT


@function
def list_append(x: Any) -> Any:
    LOG.append(x.sum())
    return x + len(LOG)


@function
def list_append_array(x: Any) -> Any:
    LOG.append(x * 2)
    return x


@function
def dict_state(x: Any) -> Any:
    SETTINGS["k"] = SETTINGS["k"] + 1
    return x * SETTINGS["k"]


@function
def attribute_state(x: Any) -> Any:
    return COUNTING(x)


@function
def attribute_array_rebound(x: Any) -> Any:
    MODEL.w = np.asarray([1.0, 1.0, 1.0]) * (MODEL.w[0] + 1)
    return x * cm.asarray(MODEL.w)


@function
def global_array_rebound(x: Any) -> Any:
    global STATE
    STATE = STATE + x
    return STATE * 2


@function
def cache_in_dict(x: Any) -> Any:
    if "y" not in MODEL.cache:
        MODEL.cache["y"] = x * 2
    return MODEL.cache["y"] + x


@function
def lru(x: Any) -> Any:
    return _twos() + x


@function
def numpy_global_changed(x: Any) -> Any:
    return x * cm.asarray(HOST)


@function
def numpy_global_op(x: Any) -> Any:
    return x + HOST


@function
def python_random(x: Any) -> Any:
    return x * random.random()


@function
def numpy_random(x: Any) -> Any:
    return x * np.random.rand()


@function
def numpy_random_array(x: Any) -> Any:
    return x + np.random.rand(3)


@function
def numpy_generator(x: Any) -> Any:
    return x + RNG.normal(size=3)


@function
def clock(x: Any) -> Any:
    return x * time.time()


@function
def printing(x: Any) -> Any:
    print("x", x)
    return x


@function
def fstring(x: Any) -> Any:
    return x if f"{x}" else x


@function
def logging_value(x: Any) -> Any:
    logging.getLogger("a").warning("x %s", x)
    return x + 1


@function
def asserting(x: Any) -> Any:
    assert (x >= 0).all()
    return cm.sqrt(x)


@function
def asserting_allclose(x: Any) -> Any:
    np.testing.assert_allclose(x, x)
    return x + 1


@function
def if_value(x: Any) -> Any:
    return x if x[0] > 0 else -x


@function
def while_value(x: Any) -> Any:
    while x.sum() < 100:
        x = x * 2
    return x


@function
def for_over(x: Any) -> Any:
    return sum(v for v in x)


@function
def for_range(x: Any) -> Any:
    for i in range(int(x[0])):
        x = x + i
    return x


@function
def enumerate_rows(x: Any) -> Any:
    return cm.stack([i * v for i, v in enumerate(x)])


@function
def len_zip(x: Any) -> Any:
    return cm.stack([a * b for a, b in zip(x, x, strict=True)]) * len(x)


@function
def min_max(x: Any) -> Any:
    return max(x[0], x[1])


@function
def py_max(x: Any) -> Any:
    return max(x)


@function
def sorted_py(x: Any) -> Any:
    return cm.stack(sorted(x))


@function
def and_or(x: Any) -> Any:
    return x[0] and x[1]


@function
def not_op(x: Any) -> Any:
    return not x[0]


@function
def in_op(x: Any) -> Any:
    return 1.0 in x


@function
def eq_chain(x: Any) -> Any:
    return x * (1 if x[0] == x[1] else 2)


@function
def int_index(x: Any) -> Any:
    return [10, 20, 30][int(x[0])]


@function
def list_index(x: Any) -> Any:
    return TABLE[x.argmax()]


@function
def np_function(x: Any) -> Any:
    return np.sin(x)


@function
def np_function_sum(x: Any) -> Any:
    return np.sum(x) * 2


@function
def np_array(x: Any) -> Any:
    return np.array(x) * 2


@function
def np_asarray(x: Any) -> Any:
    return np.asarray(x).mean()


@function
def math_sin(x: Any) -> Any:
    return math.sin(x[0])


@function
def round_py(x: Any) -> Any:
    return round(x[0], 2)


@function
def complex_py(x: Any) -> Any:
    return complex(x[0])


@function
def bool_py(x: Any) -> Any:
    return bool(x.any())


@function
def item(x: Any) -> Any:
    return x[1].item()


@function
def tolist(x: Any) -> Any:
    return x.tolist()


@function
def iter_unpack(x: Any) -> Any:
    a, b, c = x
    return a + b * c


@function
def mask_index(x: Any) -> Any:
    return x[x > 1]


@function
def mask_set(x: Any) -> Any:
    x[x > 1] = 0
    return x


@function
def nonzero(x: Any) -> Any:
    return cm.nonzero(x)[0]


@function
def reshape_value(x: Any) -> Any:
    return x.reshape(int(x.shape[0]))


@function
def arange_value(x: Any) -> Any:
    return cm.arange(x[0])


@function
def zeros_value(x: Any) -> Any:
    return cm.zeros(int(x[2]))


@function
def slice_value(x: Any) -> Any:
    return x[: int(x[0])]


@function
def slice_value2(x: Any) -> Any:
    return x[x.argmin() :]


@function
def index_scalar(x: Any) -> Any:
    return x[x.argmax()]


@function
def repeat_value(x: Any) -> Any:
    return cm.repeat(x, x.astype(int))


@function
def try_except(x: Any) -> Any:
    try:
        return float(x[0])
    except Exception:
        return x[0]


@function
def try_except_if(x: Any) -> Any:
    try:
        if x[0] > 0:
            return x
    except Exception:
        pass
    return -x


@function
def hash_key(x: Any) -> Any:
    return {x[0]: 1}[x[0]]


@function
def pickle_it(x: Any) -> Any:
    return pickle.loads(pickle.dumps(x))


@function
def deepcopy(x: Any) -> Any:
    return copy.deepcopy(x) * 2


@function
def copy_copy(x: Any) -> Any:
    return copy.copy(x) * 2


@function
def string_repr(x: Any) -> Any:
    s = repr(x)
    return x + len(s)


@function
def str_(x: Any) -> Any:
    return x + len(str(x[0]))


@function
def dlpack(x: Any) -> Any:
    return np.from_dlpack(x) * 2


@function
def timing(x: Any) -> Any:
    t = time.perf_counter()
    y = x + 1
    return (y, time.perf_counter() - t)


@function
def early_return(x: Any) -> Any:
    if x.ndim == 1:
        return x * 2
    return x


@function
def generator_out(x: Any) -> Any:
    return (v for v in x)


@function
def returns_list_growing(x: Any) -> Any:
    TABLE.append(1.0)
    return x * len(TABLE)


@function
def default_mutable(x: Any, acc: Any = []) -> Any:  # noqa: B006
    acc.append(1)
    return x * len(acc)


@function
def closure_counter(x: Any) -> Any:
    return x * next(TICKET)


@function
def isfinite_check(x: Any) -> Any:
    if not cm.isfinite(x).all():
        raise ValueError
    return x * 2


@function
def np_isnan_any(x: Any) -> Any:
    if np.isnan(x).any():
        raise ValueError
    return x * 2


@function
def cm_allclose(x: Any) -> Any:
    return x if cm.allclose(x, x) else -x


@function
def array_equal(x: Any) -> Any:
    return x if cm.array_equal(x, x) else -x


@function
def cm_random(x: Any) -> Any:
    return x + cm.random.normal(size=3)


@function
def cm_random_seeded(x: Any) -> Any:
    cm.random.seed(0)
    return x + cm.random.normal(size=3)


@function
def cm_rng_inside(x: Any) -> Any:
    return x + cm.random.default_rng(0).normal(size=3)


@function
def numpy_state_written(x: Any) -> Any:
    HOST[0] += 1
    return x * 1


@function
def numpy_arg_write(x: Any) -> Any:
    x[0] = 5
    return x.sum()


@function
def with_errstate(x: Any) -> Any:
    with cm.errstate(divide="raise"):
        return x / 0


@function
def unique(x: Any) -> Any:
    return cm.unique(x)


@function
def bincount(x: Any) -> Any:
    return cm.bincount(x.astype(int))


@function
def histogram(x: Any) -> Any:
    return cm.histogram(x)


@function
def where_one(x: Any) -> Any:
    return cm.where(x > 1)[0]


@function
def argwhere(x: Any) -> Any:
    return cm.argwhere(x > 1)


@function
def linspace_value(x: Any) -> Any:
    return cm.linspace(0, x[0], 3)


@function
def full_value(x: Any) -> Any:
    return cm.full(3, x[0])


@function
def power_if(x: Any) -> Any:
    return x**2 if x.mean() > 0 else x


@function
def match(x: Any) -> Any:
    match x[0]:
        case 1:
            return x
        case _:
            return x * 2


@function
def divmod_(x: Any) -> Any:
    return divmod(x[0], 2)


@function
def index_op(x: Any) -> Any:
    return TABLE[operator.index(x.astype(int)[1])]


@function
def range_arr(x: Any) -> Any:
    return [v for v in range(x.astype(int)[2])]


@function
def format_spec(x: Any) -> Any:
    return f"{x[0]:.2f}"


@function
def bytes_(x: Any) -> Any:
    return x.tobytes()


@function
def ctypes_(x: Any) -> Any:
    return x.to_numpy().ctypes.data


@function
def weak_stop(x: Any) -> Any:
    for _ in range(100):
        new = x / 2
        if abs(new - x).max() < 0.001:
            break
        x = new
    return x


@function
def sum_py(x: Any) -> Any:
    return sum(x)


@function
def any_py(x: Any) -> Any:
    return any(x > 2)


@function
def all_py(x: Any) -> Any:
    return all(x > 2)


@function
def map_float(x: Any) -> Any:
    return [float(v) for v in x]


@function
def dataclass_ret(x: Any) -> Any:
    return Pair(x * 2)


@function
def none_ret(x: Any) -> Any:
    x += 1


@function
def nested_fn(x: Any) -> Any:

    def g(y):
        return y * SCALE

    return g(x)


@function
def astype_int(x: Any) -> Any:
    return x.astype(int) // 2


@function
def view_(x: Any) -> Any:
    return x.view("int64")


@function
def del_(x: Any) -> Any:
    y = x * 2
    del x
    return y


@function
def model_object(x: Any) -> Any:
    return MODEL(x)


@function
def settings(x: Any) -> Any:
    return x * SETTINGS["k"]


@function
def helper(x: Any) -> Any:
    return _scaled(x)


@function
def nonlocal_counter(x: Any) -> Any:
    return _counted(x)


def _counter() -> Callable:
    n = 0

    def counted(x: Any) -> Any:
        nonlocal n
        n += 1
        return x * n

    return counted


_counted = _counter()


@function
def default_dict(x: Any, seen: Any = collections.defaultdict(int)) -> Any:  # noqa: B006, B008
    seen["x"] += 1
    return x * seen["x"]


@function
def function_attribute(x: Any) -> Any:
    function_attribute.calls = getattr(function_attribute, "calls", 0) + 1
    return x * function_attribute.calls


#: Those that work as they do without `jit`.
WORK = set(
    "global_number lru numpy_global_changed numpy_global_op for_over enumerate_rows len_zip "
    "np_function np_function_sum iter_unpack mask_set reshape_value index_scalar deepcopy "
    "copy_copy early_return cm_random cm_rng_inside numpy_arg_write with_errstate full_value "
    "divmod_ sum_py none_ret astype_int view_ del_ model_object settings helper nested_fn".split()
)
#: Lines of functions that these call.
HELPERS: list[int] = [
    line
    for helper_function in (Model.__call__, Counting.__call__, _scaled, _counted)
    for *_, line in helper_function.__code__.co_lines()
    if line
]
