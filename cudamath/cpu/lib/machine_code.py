"""Machine code of the functions that the compiler wrote, and where it is loaded.

Many functions call the same large ones: each special function those of gamma. So a large part
(`llvm_compiler.Part`) becomes an object of its own, once in a process, which others are linked
with; small parts are inlined, as LLVM sees fit. On the disk lies everything that a function needs:
its object and those of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from ...runtime import fork
from . import code_cache, llvm_functions
from .llvm_compiler import Compiler, Part

LARGE = 80  # instructions, before they are optimised: an object of its own takes LLVM 2 ms
_engines: list[Any] = []  # they own the code
_labels: set[str] = set()  # of the large parts that are loaded
_objects: dict[str, bytes] = {}  # of large parts, by label
_parsed: dict[str, llvm.ModuleRef] = {}  # small parts, by label
_lock = fork.new_reentrant_lock()


def loaded(
    name: str, label: str, what: str, write: Callable[[Compiler], None], as_written: bool = False
) -> int:
    """The address of a function's machine code: from the disk, or compiled. name: all that it
    depends on but the sources; label: what it is called in the module where it is written; what:
    as the line on stderr calls it; as_written: whether its loops stay what they are."""

    def compile() -> bytes:
        compiler = Compiler(ir.Module(label))
        write(compiler)
        own = _object(_parsed_module(str(compiler.module)), compiler.parts, as_written)
        return _together(_objects_of(compiler.parts) | {label: own})

    with _lock:
        found = _apart(code_cache.cached(name, what, compile))
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), llvm_functions.machine())
        new = [each for each in found if each not in _labels]
        for each in new:
            engine.add_object_file(llvm.ObjectFileRef.from_data(found[each]))
        engine.finalize_object()
        _engines.append(engine)
        for each in new:
            if each != label:
                llvm.add_symbol(each, engine.get_function_address(each))
                _labels.add(each)
        return int(engine.get_function_address(label))


def _is_large(part: Part) -> bool:
    return part.size > LARGE


def _reached(parts: dict[str, Part], through: Callable[[Part], bool]) -> dict[str, Part]:
    """Parts and those that they call, by label, before their callers. through: of which parts
    the calls are followed."""
    found: dict[str, Part] = {}

    def reach(label: str, part: Part) -> None:
        if label not in found:
            if through(part):
                for each in part.parts.items():
                    reach(*each)
            found[label] = part

    for each in parts.items():
        reach(*each)
    return found


def _objects_of(parts: dict[str, Part]) -> dict[str, bytes]:
    """The objects of all large parts that these need, and theirs; callees first, for the linker
    lets a function jump straight to what it knows already."""
    found = {}
    for label, part in _reached(parts, lambda _: True).items():
        if _is_large(part):
            if label not in _objects:
                _objects[label] = _object(_own_module(part), part.parts)
            found[label] = _objects[label]
    return found


def _parsed_module(text: str) -> llvm.ModuleRef:
    parsed = llvm.parse_assembly(text)
    parsed.triple = llvm.get_default_triple()
    parsed.verify()
    return parsed


def _own_module(part: Part) -> llvm.ModuleRef:
    """A part's module, in which others see it."""
    parsed = _parsed_module(part.text)
    function = parsed.get_function(part.name)
    function.name, function.linkage = part.label, "external"
    return parsed


def _object(module: llvm.ModuleRef, parts: dict[str, Part], as_written: bool = False) -> bytes:
    """The object file of a module, with copies of the small parts that it calls. as_written: LLVM
    unrolls no loop and makes no vectors of numbers, which takes it a third of its time."""
    machine = llvm_functions.machine()
    small = {
        label: part
        for label, part in _reached(parts, lambda part: not _is_large(part)).items()
        if not _is_large(part)
    }
    for label, part in small.items():
        if label not in _parsed:
            _parsed[label] = _own_module(part)
        module.link_in(_parsed[label], preserve=True)
    for label in small:
        module.get_function(label).linkage = "internal"
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = not as_written
    options.loop_unrolling = not as_written
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return bytes(machine.emit_object(module))


def _together(objects: dict[str, bytes]) -> bytes:
    return b"".join(
        len(each).to_bytes(8, "little") + each
        for label, code in objects.items()
        for each in (label.encode(), code)
    )


def _apart(data: bytes) -> dict[str, bytes]:
    """Objects by label."""
    found, texts = {}, _texts(data)
    for label in texts:
        found[label.decode()] = next(texts)
    return found


def _texts(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        end = at + 8 + int.from_bytes(data[at : at + 8], "little")
        yield data[at + 8 : end]
        at = end
