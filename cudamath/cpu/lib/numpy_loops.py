"""The inner loops of NumPy's ufuncs, which small operations call directly.

Of the quarter of a microsecond that `x + y` of eight numbers takes in NumPy, the loop over the
numbers needs a fiftieth. The rest finds out which loop to call. Here that is found out once for a
ufunc and the dtypes and classes of its operands, and kept in a table that machine code reads
(llvm_ufuncs.py).

A ufunc keeps its loops in arrays of C (PyUFuncObject, as it has been since NumPy 1.0); `loop_of`
compares what lies there with what the ufunc says of itself, and each loop with the ufunc on the
operands at hand, before either is used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from .llvm_objects import keep, numpys

ENTRIES = 1 << 10
# words of an entry: what it is for; the loop and its closure; the dtype of the result; where the
# numbers of each operand come from; whether the loop rounds alike whatever the strides; from one
# number of each operand and of the result to the next, where they lie in a row
UFUNC, FIRST, SECOND, LOOP, CLOSURE, RESULT, KIND_X, KIND_Y, EXACT, STEPS = range(10)
WORDS = 16
# where the number of an operand comes from
ARRAY, BYTES, INT_AS_DOUBLE, INT64_AS_DOUBLE, INT_AS_INT64, DOUBLE_AS_SINGLE = range(6)
VALUE = 16  # where the value lies in a float and in NumPy's scalars

FACTORS = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9

#: Ufuncs of which each result is exact or rounded correctly, so that it does not depend on the
#: order in memory (of sin there are loops for numbers in a row which round otherwise than others).
_CORRECT = frozenset(
    [np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.absolute]
    + [np.sqrt, np.square, np.maximum, np.minimum, np.floor, np.ceil, np.trunc, np.rint, np.sign]
    + [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
    + [np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert]
    + [np.logical_and, np.logical_or, np.logical_xor, np.logical_not]
    + [np.isnan, np.isinf, np.isfinite, np.signbit]
)


class _Ufunc(ctypes.Structure):
    """PyUFuncObject from behind its type."""

    _fields_ = [
        *[(name, ctypes.c_int) for name in ("nin", "nout", "nargs", "identity")],
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("closures", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_ubyte)),
    ]


def numbers_as_here() -> bool:
    """Whether the C API and NumPy's scalars are where this file has them."""
    numbers: list[Any] = [1.5, np.float64(-2.5), np.int64(-3), np.float32(0.75), np.bool_(True)]
    return numpys(2) == id(np.ndarray) and all(
        [
            type(x).__basicsize__ >= VALUE + 8
            and np.asarray(x).tobytes() == ctypes.string_at(id(x) + VALUE, np.asarray(x).itemsize)
            for x in numbers
        ]
    )


def loop_of(ufunc: np.ufunc, dtypes: tuple[np.dtype, ...]) -> tuple[int, int] | None:
    """(address, closure) of the loop for these dtypes of the operands and the result; None where
    there is none, or the ufunc lies in memory otherwise."""
    fields = _Ufunc.from_address(id(ufunc) + object.__basicsize__)
    known = ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes
    if (fields.nin, fields.nout, fields.nargs, fields.ntypes) != known:
        return None
    count = ufunc.nargs
    letters = "".join([_LETTERS[number] for number in fields.types[: count * ufunc.ntypes]])
    loops = [letters[k : k + count] for k in range(0, len(letters), count)]
    if loops != [each.replace("->", "") for each in ufunc.types]:
        return None
    wanted = "".join([d.char for d in dtypes])
    if wanted not in loops or "O" in wanted:
        return None
    k = loops.index(wanted)  # of equal ones NumPy takes the first
    address = fields.functions[k]
    return None if address is None else (address, fields.closures[k] or 0)


_LETTERS = {np.dtype(letter).num: np.dtype(letter).char for letter in np.typecodes["All"]}


class Table:
    """The loops of ufuncs on operands of some dtypes and classes, for machine code.

    An entry lies at a place that follows from its key, and displaces what was there. Its key: the
    ufunc, with 1 added where the result goes into the first operand; of each operand the dtype,
    if it is an array, or the class of a number.

    Parameters
    ----------
    run : callable
        Calls a function in silence.
    """

    def __init__(self, run: Callable):
        self.run = run
        self.memory = keep((ctypes.c_uint64 * (ENTRIES * WORDS))())
        self.held: dict[int, tuple] = {}  # place -> the objects whose addresses lie there

    @property
    def address(self) -> int:
        return ctypes.addressof(self.memory)

    def clear(self) -> None:
        """Forget all loops."""
        ctypes.memset(self.memory, 0, ctypes.sizeof(self.memory))
        self.held.clear()

    def learn(self, ufunc: np.ufunc, *operands: Any) -> None:
        """Enter the loop for these operands, or that there is none."""
        self._enter(ufunc, False, operands)

    def learn_inplace(self, ufunc: np.ufunc, *operands: Any) -> None:
        """The same for `ufunc(x, y, x)`."""
        self._enter(ufunc, True, operands)

    def _enter(self, ufunc: np.ufunc, inplace: bool, operands: tuple) -> None:
        tags = [x.dtype if isinstance(x, np.ndarray) else type(x) for x in operands]
        words = [id(ufunc) + inplace, id(tags[0]), id(tags[1]) if len(tags) > 1 else 0]
        found = self._found(ufunc, inplace, tags, operands)
        if found is None:
            words += [0] * (WORDS - len(words))
        else:
            loop, result, kinds = found
            words += [*loop, id(result), *kinds, *[ARRAY] * (2 - len(kinds)), ufunc in _CORRECT]
            steps = [x.itemsize if isinstance(x, np.ndarray) else 0 for x in operands]
            words += [*steps, result.itemsize]
        place = place_of(*words[:3])
        before = self.held.get(place)
        self.held[place] = ufunc, tags, found
        written = (ctypes.c_uint64 * len(words))(*words)
        start = ctypes.addressof(self.memory) + place * WORDS * 8
        ctypes.memmove(start, written, ctypes.sizeof(written))
        del before  # only now nothing leads to these

    def _found(
        self, ufunc: np.ufunc, inplace: bool, tags: list, operands: tuple
    ) -> tuple[tuple[int, int], np.dtype, list[int]] | None:
        """(loop, dtype of the result, kinds of the operands)."""
        if ufunc.nout != 1 or ufunc.signature is not None:
            return None
        weak = [t if t in (int, float) else np.dtype(t) for t in tags]
        *inputs, output = ufunc.resolve_dtypes((*weak, None))
        kinds = [_kind(t, d) for t, d in zip(tags, inputs, strict=True)]
        arrays = [x for x in operands if isinstance(x, np.ndarray)]
        if None in kinds or not all([d.isnative for d in (*inputs, output)]):
            return None
        if inplace and output is not tags[0] or any([not x.ndim for x in arrays]):
            return None
        loop = loop_of(ufunc, (*inputs, output))
        if loop is None or not self._agrees(loop, ufunc, inputs, output, operands):
            return None
        if not arrays and output.type not in _SCALARS:
            return None
        return loop, output, kinds  # type: ignore[return-value]

    def _agrees(
        self,
        loop: tuple[int, int],
        ufunc: np.ufunc,
        inputs: list[np.dtype],
        output: np.dtype,
        operands: tuple,
    ) -> bool:
        """Whether the loop does with these operands what the ufunc does."""
        data = [np.asarray(x, d) for x, d in zip(operands, inputs, strict=True)]
        data = [np.ascontiguousarray(x) for x in np.broadcast_arrays(*data)]
        wanted = self.run(ufunc, *data)
        out = np.zeros(data[0].shape, output)
        addresses = (ctypes.c_void_p * (len(data) + 1))(*[x.ctypes.data for x in (*data, out)])
        steps = (ctypes.c_ssize_t * (len(data) + 1))(*[x.itemsize for x in (*data, out)])
        size = ctypes.c_ssize_t(out.size)
        ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 4)(loop[0])(
            ctypes.addressof(addresses), ctypes.addressof(size), ctypes.addressof(steps), loop[1]
        )
        return np.asarray(wanted).dtype == output and np.asarray(wanted).tobytes() == out.tobytes()


#: Classes of NumPy's numbers of which machine code makes results.
_SCALARS = np.float64, np.int64, np.float32, np.bool_


def _kind(tag: Any, dtype: np.dtype) -> int | None:
    """Where a loop of this dtype finds the number of an operand; None where it must be converted in
    another way."""
    if isinstance(tag, np.dtype):
        return ARRAY if tag is dtype else None
    if tag is float:
        return {np.float64: BYTES, np.float32: DOUBLE_AS_SINGLE}.get(dtype.type)
    if tag is int:
        return {np.float64: INT_AS_DOUBLE, np.int64: INT_AS_INT64}.get(dtype.type)
    if tag is np.int64 and dtype.type is np.float64:
        return INT64_AS_DOUBLE
    return BYTES if tag in _SCALARS and dtype.type is tag else None


def place_of(ufunc: int, first: int, second: int) -> int:
    """The place in the table of an entry of which these are the first words."""
    one, two, three = FACTORS
    mixed = (ufunc * one ^ first * two ^ second * three) & (1 << 64) - 1
    return (mixed * one & (1 << 64) - 1) >> 64 - (ENTRIES.bit_length() - 1)
