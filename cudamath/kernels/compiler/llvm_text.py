"""The text of LLVM's intermediate representation, which NVVM reads, in less time: `install`.

llvmlite asks each instruction for its parts by half a dozen calls, and formats them one by one.
Here the commonest kinds of instructions are written at once, into the same text. What has metadata,
and other kinds, are left to llvmlite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Where llvmlite keeps the text of a type, and the name of a value as an operand.
_TEXT, _NAME = "_StrCaching__cached_str", "_StringReferenceCaching__cached_refstr"


def install(instructions: Any, values: Any, utils: Any) -> None:
    """Let llvmlite's modules take it."""
    write = _writers(instructions)
    own = values.Block.descr

    def describe(self: Any, buffer: list[str]) -> None:
        if type(self) is not values.Block:
            own(self, buffer)
            return
        buffer.append(f"{self._format_name()}:\n")
        for each in self.instructions:
            writer = write.get(type(each))
            if writer is None or each.metadata:
                buffer.append(f"  {each}\n")
            else:
                buffer.append(writer(each))

    values.Block.descr = describe
    _name_quickly(values.NamedValue, utils.NameScope)


def _text(kind: Any) -> str:
    """Of a type."""
    return kind.__dict__.get(_TEXT) or str(kind)


def _name(value: Any) -> str:
    """Of an operand."""
    return value.__dict__.get(_NAME) or value.get_reference()


def _writers(instructions: Any) -> dict[type, Callable[[Any], str]]:
    """By the class of an instruction, what writes its line."""

    def load(self: Any) -> str:
        (pointer,) = self.operands
        align = "" if self.align is None else f", align {self.align}"
        kinds = f"{_text(self.type)}, {_text(pointer.type)}"
        return f"  {_name(self)} = load {kinds} {_name(pointer)}{align}\n"

    def store(self: Any) -> str:
        value, pointer = self.operands
        align = "" if self.align is None else f", align {self.align}"
        what = f"{_text(value.type)} {_name(value)}"
        return f"  store {what}, {_text(pointer.type)} {_name(pointer)}{align}\n"

    def arithmetic(self: Any) -> str:
        if _text(self.type) == "void":
            return f"  {self}\n"
        operation = " ".join((self.opname, *self.flags)) if self.flags else self.opname
        operands = ", ".join([_name(each) for each in self.operands])
        return f"  {_name(self)} = {operation} {_text(self.type)} {operands}\n"

    def cast(self: Any) -> str:
        (value,) = self.operands
        what = f"{_text(value.type)} {_name(value)}"
        return f"  {_name(self)} = {self.opname} {what} to {_text(self.type)}\n"

    def compare(self: Any) -> str:
        left, right = self.operands
        operation = " ".join((self.opname, *self.flags, self.op))
        return f"  {_name(self)} = {operation} {_text(left.type)} {_name(left)}, {_name(right)}\n"

    def element(self: Any) -> str:
        what = "getelementptr inbounds" if self.inbounds else "getelementptr"
        pointer = self.pointer
        places = ", ".join([f"{_text(each.type)} {_name(each)}" for each in self.indices])
        kinds = f"{_text(self.source_etype)}, {_text(pointer.type)}"
        return f"  {_name(self)} = {what} {kinds} {_name(pointer)}, {places}\n"

    def extract(self: Any) -> str:
        whole, places = self.aggregate, ", ".join(map(str, self.indices))
        return f"  {_name(self)} = extractvalue {_text(whole.type)} {_name(whole)}, {places}\n"

    def insert(self: Any) -> str:
        whole, value, places = self.aggregate, self.value, ", ".join(map(str, self.indices))
        parts = f"{_text(whole.type)} {_name(whole)}, {_text(value.type)} {_name(value)}"
        return f"  {_name(self)} = insertvalue {parts}, {places}\n"

    def branch(self: Any) -> str:
        operands = ", ".join([f"{_text(each.type)} {_name(each)}" for each in self.operands])
        return f"  {self.opname} {operands}\n"

    return {
        instructions.LoadInstr: load,
        instructions.StoreInstr: store,
        instructions.Instruction: arithmetic,
        instructions.CastInstr: cast,
        instructions.ICMPInstr: compare,
        instructions.FCMPInstr: compare,
        instructions.GEPInstr: element,
        instructions.ExtractValue: extract,
        instructions.InsertValue: insert,
        instructions.Branch: branch,
        instructions.ConditionalBranch: branch,
    }


def _name_quickly(named: Any, scope: Any) -> None:
    """Give a value its name: most have none of their own, and get the next number."""
    name_it = named._set_name

    def set_name(self: Any, name: str) -> None:
        names = self.parent.scope
        if type(names) is not scope or not self.deduplicate_name:
            name_it(self, name)
            return
        used, numbers, found = names._useset, names._basenamemap, name
        while found in used:
            number = numbers[name] = numbers[name] + 1
            found = f"{name}.{number}"
        used.add(found)
        self._name = found

    named._set_name = set_name
