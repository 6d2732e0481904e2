"""Nothing is forgotten: every card and every public name has its row in the records, its docstring
and its example."""

from __future__ import annotations

import inspect
import pathlib
import re
import types
from typing import Any

import numpy as np
import pytest
from records import ALIASES, CREATION, ELEMENTWISE, ELSEWHERE, ROWS, Row

import cudamath as cm
import cudamath.distributed  # noqa: F401  the records name its cards
from cudamath.core.dispatch import fast_path
from cudamath.core.dispatch.op import registry

TESTS = pathlib.Path(__file__).parents[1]
SPACES = {
    "": cm,
    "ml": cm.ml,
    "linalg": cm.linalg,
    "fft": cm.fft,
    "random": cm.random,
    "special": cm.special,
    "sparse": cm.sparse,
    "sparse.csgraph": cm.sparse.csgraph,
    "sparse.linalg": cm.sparse.linalg,
    "tree": cm.tree,
    "ml.init": cm.ml.init,
    "ml.amp": cm.ml.amp,
    "ml.schedules": cm.ml.schedules,
}


def public(space: types.ModuleType) -> set[str]:
    """Names of a namespace's public functions."""
    names = getattr(space, "__all__", None) or [n for n in vars(space) if not n.startswith("_")]
    return {n for n in names if inspect.isfunction(getattr(space, n))}


def elsewhere(name: str) -> str | None:
    """The test file that a name is left to."""
    for file, names in ELSEWHERE.items():
        if name in names or any(n.endswith("*") and name.startswith(n[:-1]) for n in names):
            return file
    return None


RECORDED = (
    {row.name for row in ELEMENTWISE} | {row.name for row in ROWS} | set(CREATION) | set(ALIASES)
)


@pytest.mark.parametrize("space", SPACES)
def test_every_public_function_has_a_row(space):
    missing = set()
    for name in public(SPACES[space]):
        full = f"{space}.{name}" if space else name
        if full not in RECORDED and elsewhere(full) is None and elsewhere(name) is None:
            missing.add(full)
    assert missing == set()


def test_every_row_is_a_public_function():
    for name in RECORDED | {
        n for names in ELSEWHERE.values() for n in names if "*" not in n and " " not in n
    }:
        if name.startswith("ndarray.") or name in registry:
            continue
        item: Any = cm
        for part in name.split("."):
            assert hasattr(item, part), f"the records name cm.{name}, which does not exist"
            item = getattr(item, part)


def test_every_card_has_a_row():
    """Cards are known to rows by name; those of elementwise functions by the function's."""
    known = {row.name for row in ELEMENTWISE} | {card for row in ROWS for card in row.cards}
    missing = {name for name in registry if name not in known and elsewhere(name) is None}
    assert missing == set()
    assert known - set(registry) == set()


@pytest.mark.parametrize("row", [row for row in ROWS if row.cards], ids=lambda row: row.name)
def test_rows_run_through_their_cards(row: Row):
    """A row that names a card reaches it: forward, gradient or gradient of the gradient plans
    something there."""
    for card in registry.values():
        for memory in ("plans", "views", "known"):
            getattr(card, memory, {}).clear()
    fast_path.forget()
    with cm.device("cpu"):
        arrays: list[Any] = [cm.asarray(a) for a in row.arrays(np.dtype(np.float32))]
        row.run(cm, *arrays)
        which = [i for i, a in enumerate(arrays) if a.dtype == np.float32]

        def total(out: Any) -> cm.ndarray:
            return sum((y * y).sum() for y in (out if isinstance(out, (tuple, list)) else [out]))

        def value(*xs: cm.ndarray) -> cm.ndarray:
            full = list(arrays)
            for i, x in zip(which, xs, strict=True):
                full[i] = x
            return total(row.run(cm, *full))

        def slope(*xs: cm.ndarray) -> cm.ndarray:
            return total(cm.grad(value, tuple(range(len(which))))(*xs))

        if row.grad:
            cm.grad(slope if row.second else value, tuple(range(len(which))))(
                *[arrays[i] for i in which]
            )
    for name in row.cards:
        card = registry[name]
        assert getattr(card, "plans", None) or getattr(card, "views", None), (
            f"{row.name} never calls {name}"
        )


def test_files_named_elsewhere_test_what_they_are_named_for():
    for file, names in ELSEWHERE.items():
        text = (TESTS / file).read_text(encoding="utf-8")
        for name in names:
            word = name.split(".")[-2] if name.endswith("*") else name.split(".")[-1].split(" ")[0]
            word = {
                "to": r"\.to\(",
                "fill": "full|zeros",
                "copy_into": r"\[\.\.\.\]",
                "ramp": "arange",
                "index_put": r"\] = ",
                "where_into": r"\] = ",
                "index_put_number": r"\] = ",
            }.get(word, rf"\b{word}")
            assert re.search(word, text), f"tests/{file} does not mention {word}"


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_aliases(alias):
    def find(name: str) -> Any:
        item: Any = cm
        for part in name.split("."):
            item = getattr(item, part)
        return item

    assert find(alias) is find(ALIASES[alias])


@pytest.mark.parametrize("space", SPACES)
def test_docstrings(space):
    """Summary, and an example, in every public function."""
    for name in public(SPACES[space]):
        text = inspect.getdoc(getattr(SPACES[space], name)) or ""
        assert len(text) > 40 and ">>>" in text, f"{space}.{name}"
        assert (
            text.splitlines()[0].rstrip().endswith((".", ":", "`", ")", "]", "|"))
            or len(text.splitlines()[0]) > 20
        )


def modules() -> list[types.ModuleType]:
    import importlib

    root = pathlib.Path(cm.__file__).parent
    return [
        importlib.import_module(
            ".".join(("cudamath", *path.relative_to(root).with_suffix("").parts))
        )
        for folder in ("ops", "ml")
        for path in sorted((root / folder).rglob("*.py"))
        if path.stem != "__init__"
    ]


@pytest.mark.parametrize("module", modules(), ids=lambda m: m.__name__)
def test_all_lists_what_is_public(module):
    """`__all__` holds every public function that a file of ops or ml defines, and nothing that is
    not there."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        return
    assert [n for n in listed if not hasattr(module, n)] == []
    assert len(listed) == len(set(listed))


def test_every_function_is_reachable():
    """What `__all__` of a file in ops or ml lists can be had from a public namespace."""
    reachable = {id(item) for space in SPACES.values() for item in vars(space).values()}
    reachable |= {id(item) for item in vars(cm.ndarray).values()}
    missing = {
        f"{module.__name__}.{name}"
        for module in modules()
        for name in getattr(module, "__all__", [])
        if id(getattr(module, name)) not in reachable
    }
    assert missing == set()
