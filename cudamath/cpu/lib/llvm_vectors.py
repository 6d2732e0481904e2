"""SIMD vectors in compiled loops on the CPU.

Python has no vector type. Loops that keep sums in vector registers are therefore written as LLVM
vector operations, in `emitted` functions (llvm_compiler.py). `Emit` provides the operations they
need.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from . import processor
from .llvm_numbers import Array, Value, memory, word

FEATURES = processor.features()
if FEATURES.get("avx512f"):  # bytes of a vector, and tiles that leave registers for the operands:
    VECTOR, ROWS, COLUMNS = 64, 8, 3  # 32 registers, 24 hold sums
elif FEATURES.get("avx"):
    VECTOR, ROWS, COLUMNS = 32, 4, 3  # 16 registers, 12 hold sums
else:
    VECTOR, ROWS, COLUMNS = 16, 8, 3  # NEON: 32 registers


class Emit:
    """LLVM operations on vectors of numbers of one dtype."""

    def __init__(self, builder: ir.IRBuilder, dtype: np.dtype):
        self.builder, self.dtype, self.itemsize = builder, dtype, dtype.itemsize
        self.lanes = VECTOR // self.itemsize
        self.vector = ir.VectorType(memory(dtype), self.lanes)
        self.bits = ir.VectorType(ir.IntType(8 * self.itemsize), self.lanes)
        self.zero = ir.Constant(self.vector, None)

    def words(self, *values: Value) -> list[Any]:
        """Whole numbers as LLVM's."""
        return [word(self.builder, value) for value in values]

    def at(self, array: Array, *index: Any) -> Any:
        """Pointer to the element of an array, seen flat, whose index is the sum of `index` (LLVM
        integers or Python's)."""
        total = ir.IntType(64)(0)
        for i in index:
            total = self.builder.add(total, ir.IntType(64)(i) if isinstance(i, int) else i)
        return self.builder.gep(array.data, [total])

    def load(self, pointer, vector=None):
        vector = vector or self.vector
        return self.builder.load(
            self.builder.bitcast(pointer, vector.as_pointer()), align=self.itemsize
        )

    def store(self, value, pointer):
        self.builder.store(
            value, self.builder.bitcast(pointer, self.vector.as_pointer()), align=self.itemsize
        )

    def splat(self, scalar):
        value = self.builder.insert_element(self.zero, scalar, ir.IntType(32)(0))
        return self.shuffle(value, value, [0] * self.lanes)

    def shuffle(self, a, b, lanes):
        return self.builder.shuffle_vector(
            a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
        )

    def first(self, count, behind=0):
        """The mask of those of lanes `behind`, `behind` + 1, ... that are below `count`."""
        word = ir.VectorType(ir.IntType(64), self.lanes)
        limit = self.builder.insert_element(ir.Constant(word, None), count, ir.IntType(32)(0))
        limit = self.shuffle(limit, limit, [0] * self.lanes)
        return self.builder.icmp_signed(
            "<", ir.Constant(word, list(range(behind, behind + self.lanes))), limit
        )

    def masked(self, operation, result, *arguments):
        """LLVM's masked load or store on vectors of this kind."""
        kind = "f" if self.dtype.kind == "f" else "i"
        name = f"llvm.masked.{operation}.v{self.lanes}{kind}{8 * self.itemsize}.p0"
        signature = ir.FunctionType(result, [a.type for a in arguments])
        module = self.builder.module
        function = module.globals.get(name) or ir.Function(module, signature, name)
        return self.builder.call(function, arguments)

    def load_masked(self, pointer, mask):
        """The lanes of the mask from memory, 0 in the others."""
        pointer = self.builder.bitcast(pointer, self.vector.as_pointer())
        return self.masked(
            "load", self.vector, pointer, ir.IntType(32)(self.itemsize), mask, self.zero
        )

    def store_masked(self, value, pointer, mask):
        pointer = self.builder.bitcast(pointer, self.vector.as_pointer())
        self.masked("store", ir.VoidType(), value, pointer, ir.IntType(32)(self.itemsize), mask)

    def copy(self, target, source, count):
        """Copy so many numbers."""
        bytes_, word, bit = ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(1)
        signature = ir.FunctionType(ir.VoidType(), [bytes_, bytes_, word, bit])
        function = self.builder.module.declare_intrinsic(
            "llvm.memcpy", [bytes_, bytes_, word], signature
        )
        length = self.builder.mul(count, word(self.itemsize))
        target, source = (self.builder.bitcast(each, bytes_) for each in (target, source))
        self.builder.call(function, [target, source, length, bit(0)])

    def sums(self, count):
        """`count` vectors of zeros that stay in registers."""
        return [self.cell(self.zero) for _ in range(count)]

    def cell(self, value):
        """Memory of a value that stays in registers."""
        with self.builder.goto_entry_block():
            made = self.builder.alloca(value.type)
        self.builder.store(value, made)
        return made

    def add_product(self, total, a, b):
        product = self.builder.fmul(a, b, flags=("contract",))
        self.builder.store(
            self.builder.fadd(product, self.builder.load(total), flags=("contract",)), total
        )

    def transposed(self, rows):
        """`lanes` vectors as a square, columns for rows: blocks of 1, 2, 4, ... numbers beside the
        diagonal change places."""
        rows, lanes = list(rows), range(self.lanes)
        distance = 1
        while distance < self.lanes:
            for i in lanes:
                if not i & distance:
                    a, b = rows[i], rows[i + distance]
                    rows[i] = self.shuffle(
                        a, b, [self.lanes + j - distance if j & distance else j for j in lanes]
                    )
                    rows[i + distance] = self.shuffle(
                        a, b, [self.lanes + j if j & distance else j + distance for j in lanes]
                    )
            distance *= 2
        return rows
