"""Which tests cover a file of the package: those of the folder that mirrors it, whose files name
what the file defines. And which tests of these concern a bug: those that name its function, its
file, and the conditions under which it is met."""

from __future__ import annotations

import ast
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
TESTS = ROOT / "tests"
MOST = 8  # test files for a file of the package

#: Folder (or file) of the package -> folders of tests that mirror it, the nearest first.
MIRRORS = {
    "kernels": ("kernels", "ops", "ml"),
    "cpu": ("cpu", "ops", "ml"),
    "cpu/sparse": ("sparse",),
    "core/dispatch": ("dispatch", "core", "runtime"),
    "core/autograd": ("autodiff", "core"),
    "core/tracing": ("programs", "dispatch", "core"),
    "core/specs": ("ops", "core", "numpy_parity", "ml"),
    "core/specs/special": ("special", "ops"),
    "core": ("core", "dispatch", "numpy_parity"),
    "runtime": ("runtime", "dispatch"),
    "runtime/communication": ("distributed", "runtime"),
    "distributed": ("distributed", "autodiff"),
    "autodiff": ("autodiff", "regressions"),
    "ops/linalg": ("ops", "regressions", "kernels/matmul"),
    "ops": ("ops", "numpy_parity", "regressions"),
    "ml": ("ml", "regressions"),
    "batching": ("batching", "autodiff"),
    "batching/sparse": ("batching", "sparse"),
    "programs": ("programs", "dispatch"),
    "sparse": ("sparse", "kernels/sparse"),
    "special": ("special", "ops"),
    "polynomial": ("numpy_parity", "ops", "regressions"),
    "cuda": ("runtime", "dispatch"),
    "": ("ml", "ops", "core", "runtime"),
}
#: What every call comes through, and what its row of the records checks.
ALWAYS = {
    "ops": ["tests/ops/test_values.py", "tests/autodiff/test_gradients.py"],
    "cpu": ["tests/ops/test_values.py", "tests/autodiff/test_gradients.py"],
    "ml": ["tests/ops/test_values.py", "tests/autodiff/test_gradients.py"],
}


#: Tests that read sources, which execute no place: what a rule plants in a folder, they see.
READERS = {
    ("dropped synchronisation", "cudamath/kernels"): [
        f"tests/kernels/lib/test_barriers.py::test_all_threads_meet_between_{what}"
        for what in ("a_barriers_beginning_and_its_use", "what_one_writes_and_they_read")
    ],
}


def readers(rule: str, path: str) -> list[str]:
    """The tests that see a bug of this rule in a file by reading it."""
    return [t for (of, at), found in READERS.items() if of == rule and at in path for t in found]


def words_of(path: str, function: str, lines: tuple[int, int], source: str) -> dict[str, float]:
    """Words by which a test tells that it concerns a place -> how much they say: names of its
    functions, of its file (which is often a version's name), and of the conditions around it."""
    stem = pathlib.Path(path).stem
    words: dict[str, float] = {part: 1.0 for part in stem.split("_") if len(part) > 2}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If) and node.lineno <= lines[0] <= node.end_lineno:
            words |= {n.id: 2.0 for n in ast.walk(node.test) if isinstance(n, ast.Name)}
    words |= {name.lstrip("_"): 4.0 for name in function.split(".")}
    return {word: weight for word, weight in ({stem: 4.0} | words).items() if len(word) > 2}


def _folder(path: str) -> str:
    """The longest folder (or file) in MIRRORS that a file of the package lies in."""
    inside = path.removeprefix("cudamath/").removesuffix(".py")
    return max((f for f in MIRRORS if f"{inside}/".startswith(f"{f}/") or not f), key=len)


@functools.cache
def _words(path: pathlib.Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in re.findall(r"[A-Za-z_]\w+", path.read_text(encoding="utf-8")):
        counts[word] = counts.get(word, 0) + 1
    return counts


@functools.cache
def _rarity() -> dict[str, int]:
    """Word -> in how many test files it stands."""
    files: dict[str, int] = {}
    for path in TESTS.rglob("test_*.py"):
        for word in _words(path):
            files[word] = files.get(word, 0) + 1
    return files


def defined(path: str) -> set[str]:
    """What a file defines, its own name, and the names of ops and functions in its texts."""
    source = (ROOT / path).read_text(encoding="utf-8")
    tree = ast.parse(source)
    names = {pathlib.Path(path).stem}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name.lstrip("_"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"[a-z][a-z_0-9.]{3,}", node.value):
                names |= set(node.value.split("."))
    return {name for name in names if len(name) > 2}


def stems(test: pathlib.Path) -> set[str]:
    """What a test file's name may stand for: test_norm_group.py for norm, group and norm_group."""
    words = test.stem.removeprefix("test_").split("_")
    return {"_".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1)}


def tests_of(path: str) -> list[str]:
    """The test files that cover a file of the package, the likeliest first."""
    folder = _folder(path)
    names, rarity = defined(path), _rarity()
    parts = pathlib.Path(path).stem.split("_")
    own = {"_".join(parts[:end]) for end in range(1, len(parts) + 1)}
    if path.count("/") > 2:  # the family that is its folder
        own.add(pathlib.Path(path).parent.name)
    scores = {}
    for place, mirror in enumerate(MIRRORS[folder]):
        for test in sorted((TESTS / mirror).rglob("test_*.py")):
            words = _words(test)
            score = sum(min(words[n], 5) / rarity[n] for n in names if n in words)
            score /= place + 1
            if own & stems(test):
                score += 5
            if score:
                scores[str(test.relative_to(ROOT))] = score
    best = sorted(scores, key=lambda t: -scores[t])[:MOST]
    always = ALWAYS.get(folder.split("/")[0], [])
    return [*best, *(t for t in always if t not in best)]
