"""PTX instructions as Numba intrinsics, each stated once: conversions and wide loads, and how an
intrinsic is made.

Tensor cores of compute capability 8.0 and what goes with them: sm80.py. Those of 9.0:
sm90.py. In Numba's simulator the same names are plain Python functions where a meaning
without a GPU exists (conversions).
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ..compiler.lazy_numba import SIMULATOR, intrinsic, ir, types

if not SIMULATOR:
    _REGISTER = {
        types.uint16: "h",
        types.int32: "r",
        types.uint32: "r",
        types.int64: "l",
        types.uint64: "l",
        types.float32: "f",
        types.float64: "d",
    }

    def _llvm(kind: Any) -> Any:
        """LLVM's type of a number."""
        return (
            {"float32": ir.FloatType, "float64": ir.DoubleType}[kind.name]()
            if kind.name.startswith("float")
            else (ir.IntType(kind.bitwidth))
        )

    def instruction(
        name: str,
        assembly: str,
        result: Any,
        arguments: tuple,
        doc: str,
        *,
        pure: bool = True,
        convergent: bool = False,
    ) -> Any:
        """An intrinsic that emits `assembly`. $0, $1, .. are the result (one register; several for
        a tuple of types; none for None), then the arguments.

        pure: touches no memory and may be moved. convergent: all threads of a warp must meet in it.
        """
        several = isinstance(result, tuple)
        each = result[0] if several else result
        count = len(result) if several else int(result is not None)

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            returned = (
                ir.VoidType()
                if not count
                else ir.LiteralStructType([_llvm(each)] * count)
                if several
                else _llvm(each)
            )
            kind = ir.FunctionType(returned, [_llvm(a) for a in arguments])
            constraints = [f"={_REGISTER[each]}" for _ in range(count)] + [
                _REGISTER[a] for a in arguments
            ]
            constraints += [] if pure else ["~{memory}"]
            value = builder.call(
                ir.InlineAsm(kind, assembly, ",".join(constraints), side_effect=not pure),
                values,
                attrs=("convergent",) if convergent else (),
            )
            if not count:
                return context.get_dummy_value()
            if not several:
                return value
            return context.make_tuple(
                builder,
                signature.return_type,
                [builder.extract_value(value, i) for i in range(count)],
            )

        def typed(*_: Any) -> tuple[Any, Any]:
            returned = (
                types.UniTuple(each.real, count)
                if several
                else types.void
                if result is None
                else each.real
            )
            return returned(*[a.real for a in arguments]), generate

        return _intrinsic(name, len(arguments), typed, doc)

    class Registers(NamedTuple):
        """An operand of `array_instruction`: `count` consecutive elements of a cuda.local.array,
        held in registers.

        The intrinsic takes two arguments for it, the array and the index of the first of them,
        which must be known when the kernel is compiled. use: "read", "write" or "update".
        """

        kind: Any
        count: int
        use: str

    def array_instruction(name: str, assembly: str, operands: tuple, doc: str) -> Any:
        """An intrinsic on registers of local arrays. In `assembly`, <i> stands for the i-th
        operand: a scalar type, or a `Registers`, written as {$a, $b, ..}; <i:j:k> for some
        registers of it. All threads of a warp must meet in it."""
        written = [o for o in operands if isinstance(o, Registers) and o.use != "read"]
        outputs = [o.kind for o in written for _ in range(o.count)]
        inputs: list[
            Any
        ] = []  # kinds of registers that are read; those of an update are tied to an output
        constraints = [
            "=&" + _REGISTER[o.kind] if o.use == "write" else "=" + _REGISTER[o.kind]
            for o in written
            for _ in range(o.count)
        ]
        places: list[
            tuple[int, int]
        ] = []  # (number of the first register, how many or 0 for a scalar) of each operand
        at = 0
        for operand in operands:
            if not isinstance(operand, Registers):
                places.append((len(constraints), 0))
                constraints.append(_REGISTER[operand])
                inputs.append(operand)
            elif operand.use == "read":
                places.append((len(constraints), operand.count))
                constraints += [_REGISTER[operand.kind]] * operand.count
                inputs += [operand.kind] * operand.count
            else:
                places.append((at, operand.count))
                if operand.use == "update":
                    constraints += [str(at + i) for i in range(operand.count)]
                    inputs += [operand.kind] * operand.count
                at += operand.count

        def written_out(match: re.Match[str]) -> str:
            first, number = places[int(match[1])]
            if not number:
                return f"${first}"
            start, stop = (int(match[2]), int(match[3])) if match[2] else (0, number)
            return "{" + ", ".join(f"${first + i}" for i in range(start, stop)) + "}"

        assembly = re.sub(r"<(\d+)(?::(\d+):(\d+))?>", written_out, assembly)
        constraints.append("~{memory}")

        def typed(*arguments: Any) -> tuple[Any, Any]:
            given = iter(arguments)
            kinds = []
            for operand in operands:
                first = next(given)
                if isinstance(operand, Registers):
                    next(given)
                    kinds += [first, types.int64.real]
                else:
                    kinds.append(operand.real)
            return types.void(*kinds), generate

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            reads, writes = [], []
            position = 0
            for operand in operands:
                if not isinstance(operand, Registers):
                    reads.append(values[position])
                    position += 1
                    continue
                data = context.make_array(signature.args[position])(
                    context, builder, values[position]
                ).data
                places = [
                    builder.gep(
                        data, [builder.add(values[position + 1], ir.Constant(ir.IntType(64), i))]
                    )
                    for i in range(operand.count)
                ]
                if operand.use != "write":
                    reads += [builder.load(place) for place in places]
                if operand.use != "read":
                    writes += places
                position += 2
            returned = (
                ir.LiteralStructType([_llvm(k) for k in outputs])
                if len(outputs) > 1
                else (_llvm(outputs[0]) if outputs else ir.VoidType())
            )
            kind = ir.FunctionType(returned, [_llvm(k) for k in inputs])
            value = builder.call(
                ir.InlineAsm(kind, assembly, ",".join(constraints), side_effect=True),
                reads,
                attrs=("convergent",),
            )
            for i, place in enumerate(writes):
                builder.store(builder.extract_value(value, i) if len(outputs) > 1 else value, place)
            return context.get_dummy_value()

        return _intrinsic(name, sum(1 + isinstance(o, Registers) for o in operands), typed, doc)

    def _intrinsic(name: str, count: int, typed: Any, doc: str) -> Any:
        """An intrinsic `name` of `count` arguments; `typed(*types)` gives (signature, code
        generator)."""
        names = ", ".join(f"a{i}" for i in range(count))
        namespace = {"typed": typed}
        exec(f"def {name}(typingctx, {names}):\n    return typed({names})\n", namespace)
        function = namespace[name]
        function.__doc__ = doc
        return intrinsic(function)
