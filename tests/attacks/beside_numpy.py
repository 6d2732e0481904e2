"""Random calls beside NumPy: any dtype, extreme values, odd layouts, sizes of zero, writing, keys
of all kinds, overlapping results, where the answer is exact: integers, comparisons, elements that
are moved or selected. (The others are in tests/ops/test_values.py.)"""

from __future__ import annotations

import warnings

import numpy as np
from records import ELEMENTWISE
from strategies import awkward, kind, numbers, of_kinds

import cudamath as cm
from cudamath.core.devices import default_device

#: Exact whatever the values: which elements go where.
SELECTS = ["max", "min", "argmax", "argmin", "any", "all", "count_nonzero", "flip", "ravel"]
#: Exact for integers, which wrap.
ADDS = ["sum", "prod", "cumsum", "cumprod", "diff"]
#: Of infinity, by the array API's rules: tests/ops/test_values.py has them.
DIFFER = ["floor_divide"]
LAYOUTS = ["plain", "reversed", "every second", "transposed", "broadcast", "offset"]


def view(chance, x):
    """The same elements in memory of another order, in an array of the same shape."""
    way = chance.choice(LAYOUTS)
    if not x.ndim or way == "plain":
        return x
    axis = chance.randrange(x.ndim)
    if way == "reversed":
        return np.flip(np.ascontiguousarray(np.flip(x, axis)), axis)
    if way == "every second":
        wide = np.repeat(x, 2, axis)
        return wide[(slice(None),) * axis + (slice(None, None, 2),)]
    if way == "transposed":
        order = chance.sample(range(x.ndim), x.ndim)
        return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    if way == "broadcast" and x.shape[axis]:
        first = x[(slice(None),) * axis + (slice(0, 1),)]
        return np.broadcast_to(first, x.shape)
    memory = np.empty(x.size + 3, x.dtype)
    memory[3:] = x.ravel()
    return memory[3:].reshape(x.shape)


def drawn(chance, dtype, shape=None):
    if shape is None:
        shape = tuple(chance.choice([0, 1, 1, 2, 3, 5, 17]) for _ in range(chance.randrange(4)))
    rng = np.random.default_rng(chance.randrange(1 << 30))
    if chance.random() < 0.6:
        return rng.choice(awkward(dtype), shape).astype(dtype)
    return np.asarray(numbers(rng, shape, dtype)).astype(dtype)


def ours(x):
    """The same array here; on the CPU with the same strides."""
    shared = default_device() == "cpu" and x.flags.writeable and x.size
    return cm.asarray(x, copy=False) if shared else cm.asarray(x)


def differs(got, expected, ulp=0.0):
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{got.dtype} {got.shape} instead of {expected.dtype} {expected.shape}"
    if kind(expected.dtype) in "fc":
        with np.errstate(all="ignore"):
            same = (got == expected) | (np.isnan(got) & np.isnan(expected))
            if ulp:
                size = np.spacing(np.maximum(abs(got), abs(expected)))
                same |= abs(got - expected) <= ulp * abs(size)
    else:
        same = got == expected
    if np.all(same):
        return ""
    place = tuple(int(i) for i in np.argwhere(~np.atleast_1d(same))[0])
    return f"{np.atleast_1d(got)[place]!r} instead of {np.atleast_1d(expected)[place]!r}"


def compare(under, words, here, there, ulp=0.0):
    """Both calls: what NumPy answers, ours answers. What NumPy refuses, ours may answer, or refuse
    by one of the errors that name a wrong argument."""
    under.tried += 1
    try:
        expected = there()
    except Exception:
        expected = None
    try:
        got = here()
        if under.device == "cuda":
            cm.cuda.synchronize()  # kernels find indices out of range: their error comes here
    except (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError) as error:
        if expected is not None:
            under.violation(f"{words}: {type(error).__name__}: {error}")
        return
    except BaseException as error:
        under.violation(f"{words}: {type(error).__name__}: {error}")
        return
    if expected is not None and (wrong := differs(got, expected, ulp)):
        under.violation(f"{words}: {wrong}")


def elementwise(under):
    chance = under.chance
    row = chance.choice([row for row in ELEMENTWISE if row.wild and row.name not in DIFFER])
    dtype = chance.choice([t for t in of_kinds(row.kinds) if t.kind != "V"])
    if row.ulp and (dtype.kind in "fc" or under.device == "cuda"):
        return  # NumPy's own answers are units in the last place apart: tests/ops/test_values.py
    x = drawn(chance, dtype)
    xs = [
        view(chance, x),
        *(view(chance, drawn(chance, dtype, x.shape)) for _ in range(row.inputs - 1)),
    ]
    words = f"{row.name} {dtype} {[a.strides for a in xs]} {xs[0].shape}"
    compare(under, words, lambda: row.function(*map(ours, xs)), lambda: row.numpy(*xs))


def reductions(under):
    chance = under.chance
    name = chance.choice(SELECTS + ADDS)
    dtype = chance.choice(
        [t for t in of_kinds("biuf" if name in SELECTS else "biu") if t.kind != "V"]
    )
    x = view(chance, drawn(chance, dtype))
    options = {}
    if x.ndim and name not in ("ravel",) and chance.random() < 0.7:
        options["axis"] = chance.randrange(-x.ndim, x.ndim)
    if name in ("diff",) and x.ndim == 0:
        return
    if name in ("max", "min", "sum", "prod", "any", "all") and chance.random() < 0.3:
        options["keepdims"] = True
    words = f"{name} {dtype} {x.shape} {x.strides} {options}"
    compare(
        under,
        words,
        lambda: getattr(cm, name)(ours(x), **options),
        lambda: getattr(np, name)(x, **options),
    )


def sorting(under):
    chance = under.chance
    dtype = chance.choice([t for t in of_kinds("biuf") if t.kind != "V"])
    x = view(chance, drawn(chance, dtype))
    if not x.ndim:
        return
    axis = chance.randrange(-x.ndim, x.ndim)
    words = f"{dtype} {x.shape} {x.strides} axis {axis}"
    compare(under, f"sort {words}", lambda: cm.sort(ours(x), axis), lambda: np.sort(x, axis))
    compare(
        under,
        f"argsort {words}",
        lambda: cm.argsort(ours(x), axis),
        lambda: np.argsort(x, axis, kind="stable"),
    )


def key_of(chance, shape):
    """A key of any kind for an array of this shape."""
    key, used = [], 0
    for n in shape:
        way = chance.randrange(6)
        if way == 0:
            break
        if way == 1 and n:
            key.append(chance.randrange(-n, n))
        elif way == 2:
            key.append(np.array([chance.random() < 0.5 for _ in range(n)], bool))
        elif way == 3 and n:
            key.append([chance.randrange(-n, n) for _ in range(3)])
        elif way == 4:
            key.append(None)
        else:
            key.append(
                slice(
                    *(chance.choice([None, -7, -2, -1, 0, 1, 2, 9]) for _ in range(2)),
                    chance.choice([None, 1, 2, -1, -2]),
                )
            )
        used += 1
    if chance.random() < 0.2:
        key.insert(chance.randrange(len(key) + 1), ...)
    return tuple(key)


def indexing(under):
    chance = under.chance
    dtype = chance.choice([t for t in of_kinds("biufc") if t.kind != "V"])
    x = drawn(chance, dtype)
    key = key_of(chance, x.shape)
    words = f"{dtype} {x.shape}[{key}]"
    compare(under, words, lambda: ours(x)[key], lambda: np.asarray(x[key]))
    theirs, mine = x.copy(), cm.asarray(x.copy())
    value = drawn(chance, dtype, ())[()]

    def write(array):
        array[key] = value
        return array

    compare(under, f"{words} = {value!r}", lambda: write(mine), lambda: write(theirs))


def overlapping(under):
    """Results written over what they are computed from, elsewhere in the same memory."""
    chance = under.chance
    dtype = chance.choice([np.dtype(t) for t in ("i4", "f4", "u1", "f8")])
    n, shift = chance.choice([3, 40, 1000]), chance.choice([1, 2, 7])
    base = drawn(chance, dtype, (n + shift,))
    name = chance.choice(["add", "multiply", "maximum", "subtract"])
    forward = chance.random() < 0.5

    def run(xp, memory):
        source, target = (memory[:n], memory[shift:]) if forward else (memory[shift:], memory[:n])
        getattr(xp, name)(source, source, out=target)
        return memory

    compare(
        under,
        f"{name} {dtype} {n} moved by {shift}",
        lambda: run(cm, cm.asarray(base.copy())),
        lambda: run(np, base.copy()),
    )


KINDS = elementwise, reductions, sorting, indexing, overlapping


def attack(under):
    with warnings.catch_warnings(), np.errstate(all="ignore"), cm.device(under.device):
        warnings.simplefilter("ignore")
        while under.goes_on:
            under.chance.choice(KINDS)(under)
