"""Pages of the API reference, written from the package: one for each public name, in chapters.

A chapter of the package's own functions is a group of source files, after the chapters of the array
API standard; a namespace (`cudamath.linalg`) is a chapter of its own. A name of a file that stands
in no chapter is an error, so that the reference cannot lack a name. `conf.py` calls `write`.
"""

from __future__ import annotations

import inspect
import pathlib
import re
import types
from collections.abc import Iterator
from typing import NamedTuple

import cudamath

#: Title -> the source files (below cudamath/) whose public names it has, in this order.
CHAPTERS = {
    "Arrays and devices": "core.array core.devices core.dtypes ops.broadcast ops.transfer",
    "Creation": """ops.creation ops.ranges ops.conversion ops.memory_map ops.index_grids""",
    "Data types": "ops.dtype_info",
    "Elementwise functions": """ops.elementwise ops.elementwise_numpy ops.integers ops.bessel
        ops.compare ops.error_state ufunc_facts""",
    "Indexing": "ops.index ops.select ops.ufunc_at ops.stride_tricks",
    "Linear algebra": "ops.linalg.products ops.linalg.norms ops.linalg.einsum",
    "Manipulation": "ops.shape ops.join ops.join_numpy ops.padding",
    "Searching": "ops.search ops.masks ops.where",
    "Sets": "ops.sets",
    "Sorting": "ops.sort",
    "Statistics and reductions": """ops.reduce ops.nan_reductions ops.statistics ops.scan
        ops.histogram""",
    "Differences, interpolation, polynomials": "ops.differences ops.interpolate ops.polynomials",
    "Files and texts": "checkpoints numpy_files ops.text_io",
    "Gradients": """autodiff.transforms autodiff.rules autodiff.recompute jacobians
        batching.transform""",
    "Programs and kernels": """programs.jit programs.control_flow programs.trace fuse custom
        core.dispatch.explain""",
}
FROM_NUMPY = "Names of NumPy"  # constants, dtypes, number classes: NumPy's own objects


class Page(NamedTuple):
    """A public name: where it is found, and the object."""

    space: str  # "" or the namespace, "ml.init"
    name: str
    item: object

    @property
    def full(self) -> str:
        """The name as a program writes it."""
        return ".".join(["cudamath", *([self.space] if self.space else []), self.name])


def public_names(space: types.ModuleType) -> list[str]:
    """What a public module offers."""
    names = getattr(space, "__all__", None) or dir(space)
    return sorted(name for name in names if not name.startswith("_"))


def namespaces(space: types.ModuleType = cudamath, path: str = "") -> Iterator[tuple[str, object]]:
    """(path, module) of each public module of the package below the root."""
    for name in public_names(space):
        item = getattr(space, name)
        if inspect.ismodule(item) and item.__name__.startswith("cudamath"):
            full = f"{path}.{name}".lstrip(".")
            yield full, item
            yield from namespaces(item, full)


def pages(space: types.ModuleType, path: str = "") -> list[Page]:
    """The public names of a module that are no modules."""
    found = [Page(path, name, getattr(space, name)) for name in public_names(space)]
    return [page for page in found if not inspect.ismodule(page.item)]


def is_ours(item: object) -> bool:
    """Whether a function or class is the package's own, with a docstring to show."""
    return callable(item) and str(getattr(item, "__module__", "")).startswith("cudamath.")


def chapters() -> dict[str, list[Page]]:
    """Title -> pages, of all public names. ValueError for a file that stands in no chapter."""
    home = {
        f"cudamath.{file}": title for title, files in CHAPTERS.items() for file in files.split()
    }
    found: dict[str, list[Page]] = {title: [] for title in CHAPTERS} | {FROM_NUMPY: []}
    for page in pages(cudamath):
        if not is_ours(page.item):
            title = FROM_NUMPY
        else:
            file = str(page.item.__module__)
            if file not in home:
                raise ValueError(f"docs/reference.py: {page.full} of {file} stands in no chapter")
            title = home[file]
        found[title].append(page)
    for path, module in namespaces():
        names = pages(module, path)  # type: ignore[arg-type]
        if names:
            found[f"cudamath.{path}"] = names
    return found


def summary(item: object) -> str:
    """The first paragraph of a docstring, as one line."""
    text = inspect.getdoc(item) or ""
    return " ".join(text.split("\n\n")[0].split())


def escaped(line: str) -> str:
    """A line of plain text with `code`: |x|, a * b and name_ mean what they say, not markup."""
    parts = re.split(r"(`+[^`]*`+)", line)
    parts[::2] = [re.sub(r"([*|]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def markup(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText: prose is escaped, and what is indented before the first
    section, formulas and programs, is shown as it is written."""
    made: list[str] = []
    section = inside = False
    for i, line in enumerate(lines):
        section = section or set(lines[min(i + 1, len(lines) - 1)].strip()) == {"-"}
        if not section and line.startswith("    "):
            made += [] if inside else ["", "::", ""]
            inside = True
            made.append(line)
            continue
        if inside and line.strip():
            made.append("")
            inside = False
        doctest = line.lstrip().startswith((">>>", "..."))
        made.append(line if doctest else escaped(line))
    return made


def heading(text: str, underline: str) -> list[str]:
    return [text, underline * len(text), ""]


def page_text(page: Page, again: bool = False) -> str:
    """The page of a function or class, in reStructuredText. again: the class has another name too,
    by which it is in the index."""
    lines = heading(page.full, "=")
    if inspect.isclass(page.item):
        lines += [f".. autoclass:: {page.full}", "   :members:"]
        lines += ["   :no-index:", ""] if again else [""]
    else:
        lines += [f".. autofunction:: {page.full}", ""]
    return "\n".join(lines)


def file_of(title: str) -> str:
    """The file name of a chapter."""
    return "".join(c if c.isalnum() else "-" for c in title.lower()).replace("--", "-")


def chapter_text(title: str, names: list[Page]) -> str:
    """The page of a chapter: its names with a line each."""
    lines = heading(title, "=")
    own = [page for page in names if is_ours(page.item)]
    others = [page for page in names if page not in own]
    if title.startswith("cudamath."):
        space = cudamath
        for part in title.split(".")[1:]:
            space = getattr(space, part)
        lines += [".. automodule:: " + title, "   :no-members:", "   :no-index:", ""]
    if own:
        lines += [".. list-table::", "   :widths: 35 65", ""]
        for page in own:
            lines += [
                f"   * - :doc:`{page.full} <{page.full}>`",
                f"     - {escaped(summary(page.item))}",
            ]
        lines += ["", ".. toctree::", "   :hidden:", ""]
        lines += [f"   {page.full}" for page in own] + [""]
    if others:
        lines += heading("Objects of other packages, constants", "-")
        lines += [", ".join(f"``{page.full}``" for page in others), ""]
    return "\n".join(lines)


def write(folder: pathlib.Path) -> None:
    """Write all pages into a folder. Pages of names that are gone go; those that are the same keep
    their time, so that Sphinx does not read them again."""
    made = {}
    contents = chapters()
    classes: set[object] = set()
    index = [*heading("API reference", "="), "Every public name, in chapters.", ""]
    index += [".. toctree::", "   :maxdepth: 1", ""]
    for title, names in contents.items():
        index.append(f"   {file_of(title)}")
        made[f"{file_of(title)}.rst"] = chapter_text(title, names)
        for page in names:
            if is_ours(page.item):
                made[f"{page.full}.rst"] = page_text(page, page.item in classes)
                classes |= {page.item} if inspect.isclass(page.item) else set()
    made["index.rst"] = "\n".join([*index, ""])
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.rst"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
