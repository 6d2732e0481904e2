"""The quick tests (`pytest --quick`, `make test-quick`): a choice of the suite for two minutes.

Of the tests that need neither a GPU nor the simulator and are not marked slow:

1. Of cases that differ in their dtypes alone one runs, in float32 where it is among them.
2. Of the cases of a test that are left at most CASES run, spread evenly. Tests over the records
   (one row for each function) keep all, so every function is called and differentiated.
3. A test is skipped when it begins to compile a GPU kernel.

Hypothesis draws EXAMPLES examples. What was left out is said at the end.
"""

from __future__ import annotations

import collections
import re
from typing import Any

import numpy as np
import pytest
from record_types import Elementwise, Row

from cudamath.kernels.compiler import compile as compiler

CASES, EXAMPLES = 3, 5
MARKS = "not gpu and not multigpu and not simulator and not slow"
FLOAT32 = np.dtype(np.float32)
NAMES = r"bool|u?int(8|16|32|64)|bfloat16|float(16|32|64)|complex(64|128)|[fiu][1248]|c8|c16"
#: What is said of tests that are left out.
DTYPES, OTHERS = "in other dtypes than float32", f"beyond {CASES} cases of a test"
COMPILES = "that compile GPU kernels"


def dtype_of(value: Any) -> np.dtype | None:
    """The dtype that a test's parameter is or names; None for any other."""
    if isinstance(value, np.dtype):
        return value
    named = isinstance(value, str) and re.fullmatch(NAMES, value)
    if named or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value)
    return None


def parameters(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def without_dtypes(item: pytest.Item) -> tuple[Any, ...]:
    """What tells a test's cases apart, but for dtypes."""
    kept = [
        (name, id(value)) for name, value in parameters(item).items() if dtype_of(value) is None
    ]
    return (item.path, getattr(item, "originalname", item.name), item.parent, *kept)


def is_of_records(item: pytest.Item) -> bool:
    return any(isinstance(value, (Row, Elementwise)) for value in parameters(item).values())


def grouped(items: list[pytest.Item], key: Any) -> list[list[pytest.Item]]:
    groups = collections.defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return list(groups.values())


def in_float32(items: list[pytest.Item]) -> list[pytest.Item]:
    """Rule 1."""
    chosen = []
    for group in grouped(items, without_dtypes):
        found = [
            item for item in group if FLOAT32 in map(dtype_of, parameters(item).values())
        ] or group
        only = [
            item
            for item in found
            if all(dtype_of(v) in (None, FLOAT32) for v in parameters(item).values())
        ]
        chosen.append((only or found)[0])
    return chosen


def spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """Rule 2."""
    chosen = []
    for group in grouped(
        items, lambda item: (item.parent, getattr(item, "originalname", item.name))
    ):
        few = len(group) <= CASES or is_of_records(group[0])
        chosen += (
            group if few else [group[i * (len(group) - 1) // (CASES - 1)] for i in range(CASES)]
        )
    return chosen


def compile_nothing(*_: Any, **__: Any) -> Any:
    """Rule 3, in the place of what compiles kernels."""
    pytest.skip(COMPILES)


class Selection:
    """pytest's plugin."""

    def __init__(self, config: pytest.Config):
        self.config = config
        self.left_out: collections.Counter[str] = collections.Counter()

    def pytest_sessionstart(self) -> None:
        compiler.compile_now = compiler.compile_each = compiler.ptx_of = compile_nothing

    @pytest.hookimpl(trylast=True)  # when -m has chosen
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        before = list(items)
        for what, rule in ((DTYPES, in_float32), (OTHERS, spread)):
            chosen = set(rule(items))
            self.left_out[what] += len(items) - len(chosen)
            items[:] = [item for item in items if item in chosen]
        kept = set(items)
        self.config.hook.pytest_deselected(items=[item for item in before if item not in kept])

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):  # one of pytest-xdist's processes
            self.config.workeroutput["left_out"] = dict(self.left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Each process makes the same choice: what one left out is what all did."""
        self.left_out |= collections.Counter(getattr(node, "workeroutput", {}).get("left_out", {}))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        skipped = terminalreporter.stats.get("skipped", [])
        counts = collections.Counter(self.left_out)
        counts[COMPILES] = sum(COMPILES in str(r.longrepr) for r in skipped)
        terminalreporter.section("the quick tests left out")
        for what in (DTYPES, OTHERS, COMPILES):
            terminalreporter.line(f"{counts[what]:>6,} {what}")
        terminalreporter.line(
            "       and all that are marked slow, run on a GPU or in the simulator: `make test`"
        )
