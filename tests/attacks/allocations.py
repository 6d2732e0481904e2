"""Memory of the CPU runs out: each allocation of NumPy's arrays fails in turn. MemoryError or the
right answer; arguments and generators are as before, and the next call is right."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import warnings

import numba
import numpy as np
from public_calls import calls, outputs
from thread_state import left_behind, outside

from cudamath.ops.random.module import default_generator


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler (NEP 49)."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("ctx", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    ]


_SET_HANDLER = 304  # its place in NumPy's table of functions


def _functions():
    """malloc, calloc, realloc and free of a handler, in machine code: NumPy calls them with errors
    set. Their first argument is the address of two numbers: the requests so far, and which one
    fails."""
    libc, word = ctypes.CDLL(None), ctypes.c_size_t
    c_malloc, c_calloc, c_realloc, c_free = (
        libc.malloc,
        libc.calloc,
        libc.realloc,
        libc.free,
    )
    for function, count in ((c_malloc, 1), (c_calloc, 2), (c_realloc, 2), (c_free, 1)):
        function.argtypes, function.restype = [word] * count, word
    c_free.restype = None
    number, pointer, nothing = numba.types.uintp, numba.types.voidptr, numba.types.void

    @numba.njit
    def refused(state):
        counts = numba.carray(state, (2,), np.int64)
        counts[0] += 1
        return counts[0] == counts[1]

    @numba.cfunc(number(pointer, number))
    def malloc(state, n):
        return number(0) if refused(state) else c_malloc(max(n, number(1)))

    @numba.cfunc(number(pointer, number, number))
    def calloc(state, n, size):
        return number(0) if refused(state) else c_calloc(max(n, number(1)), max(size, number(1)))

    @numba.cfunc(number(pointer, number, number))
    def realloc(state, address, n):
        return number(0) if refused(state) else c_realloc(address, max(n, number(1)))

    @numba.cfunc(nothing(pointer, number, number))
    def free(state, address, n):
        c_free(address)

    return malloc, calloc, realloc, free


class Allocator:
    """NumPy's memory from the C library, which gives none at the `fails`-th request."""

    def __init__(self):
        self.functions = _functions()
        self.state = np.zeros(2, np.int64)  # requests so far, and which one fails
        addresses = [function.address for function in self.functions]
        self.handler = _Handler(b"failing", 1, self.state.ctypes.data, *addresses)

    def begin(self, fails=0):
        self.state[:] = 0, fails

    @property
    def count(self):
        return int(self.state[0])

    @contextlib.contextmanager
    def installed(self):
        api = ctypes.pythonapi
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        api.PyCapsule_New.restype = ctypes.py_object
        api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        table = api.PyCapsule_GetPointer(np._core._multiarray_umath._ARRAY_API, None)
        entry = ctypes.c_void_p.from_address(table + _SET_HANDLER * ctypes.sizeof(ctypes.c_void_p))
        set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(entry.value)
        before = set_handler(
            api.PyCapsule_New(ctypes.addressof(self.handler), b"mem_handler", None)
        )
        try:
            yield
        finally:
            set_handler(before)


@functools.cache
def allocator():
    """One, for as long as there are arrays whose memory it gave."""
    return Allocator()


def attack(under):
    for call in under.endless(calls()):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                work = call.prepare("cpu")
                expected = [x.tobytes() for x in outputs(work())]
            except Exception:
                continue
            attack_one(under, call.name, work, expected)


def attack_one(under, name, work, expected):
    memory = allocator()
    with memory.installed():
        memory.begin()
        work()
        count = memory.count
        for k in range(1, count + 1):
            if not under.goes_on:
                return
            position = default_generator().state
            before = outside()
            memory.begin(k)
            words, got = "", None
            try:
                got = work()
            except MemoryError:
                if default_generator().state != position:
                    words = "moved the generator"
            except BaseException as error:
                words = f"raises {type(error).__name__}: {error}"
            finally:
                memory.begin()
            under.tried += 1
            if got is not None and [x.tobytes() for x in outputs(got)] != expected:
                words = "another answer"
            if not words and (left := left_behind(before)):
                words = f"leaves {left}"
            if not words and [x.tobytes() for x in outputs(work())] != expected:
                words = "another answer afterwards"
            if words:
                under.violation(f"{name}, allocation {k} of {count}: {words}")
                return
