"""SIMD vectors in compiled loops on the CPU.

Numba has no vector type. Loops that keep sums in vector registers are therefore written as LLVM
vector operations, in Numba intrinsics. `Emit` provides the operations they need.
"""

from llvmlite import ir
from numba.core import cgutils

from . import processor

FEATURES = processor.features()
if FEATURES.get("avx512f"):  # bytes of a vector, and tiles that leave registers for the operands:
    VECTOR, ROWS, COLUMNS = 64, 8, 3  # 32 registers, 24 hold sums
elif FEATURES.get("avx"):
    VECTOR, ROWS, COLUMNS = 32, 4, 3  # 16 registers, 12 hold sums
else:
    VECTOR, ROWS, COLUMNS = 16, 8, 3  # NEON: 32 registers


class Emit:
    """LLVM operations on vectors and on the arguments of one call of an intrinsic."""

    def __init__(self, context, builder, types, values, dtype):
        self.context, self.builder, self.types, self.values = context, builder, types, values
        self.itemsize = dtype.bitwidth // 8
        self.lanes = VECTOR // self.itemsize
        self.vector = ir.VectorType(context.get_data_type(dtype), self.lanes)
        self.bits = ir.VectorType(ir.IntType(8 * self.itemsize), self.lanes)
        self.zero = ir.Constant(self.vector, None)

    def at(self, k, *index):
        """Pointer to the element of argument k whose index is the sum of `index` (LLVM integers or
        Python's)."""
        word = ir.IntType(64)
        total = word(0)
        for i in index:
            total = self.builder.add(total, word(i) if isinstance(i, int) else i)
        array = self.context.make_array(self.types[k])(self.context, self.builder, self.values[k])
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
        name = f"llvm.masked.{operation}.v{self.lanes}f{8 * self.itemsize}.p0"
        signature = ir.FunctionType(result, [a.type for a in arguments])
        return self.builder.call(
            cgutils.get_or_insert_function(self.builder.module, signature, name), arguments
        )

    def load_masked(self, pointer, mask):
        """The lanes of the mask from memory, 0 in the others."""
        pointer = self.builder.bitcast(pointer, self.vector.as_pointer())
        return self.masked(
            "load", self.vector, pointer, ir.IntType(32)(self.itemsize), mask, self.zero
        )

    def store_masked(self, value, pointer, mask):
        pointer = self.builder.bitcast(pointer, self.vector.as_pointer())
        self.masked("store", ir.VoidType(), value, pointer, ir.IntType(32)(self.itemsize), mask)

    def sums(self, count):
        """`count` vectors of zeros that stay in registers."""
        return [cgutils.alloca_once_value(self.builder, self.zero) for _ in range(count)]

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
