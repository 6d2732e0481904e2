"""Every example in the documentation is run: the code blocks of README and of the pages in
docs/, and the docstrings of all modules."""

from __future__ import annotations

import doctest
import importlib
import inspect
import operator
import os
import pathlib
import re
import runpy
import types
from collections.abc import Iterator

import pytest

import cudamath as cm

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for folder in ("cudamath", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if path.name != "__main__.py"
)

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="examples run on real devices"
)


@pytest.fixture(autouse=True)
def cpu():
    with cm.device("cpu"):
        yield


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    if name.startswith(("benchmarks.programs.twins", "benchmarks.torch_gpt2")):
        pytest.importorskip("torch", reason="these are programs of PyTorch's")
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for test in doctest.DocTestFinder().find(module):
        if test.examples:  # each run asks of a thousand files whether they have changed
            runner.run(test)
    assert runner.failures == 0, (
        f"{runner.failures} of {runner.tries} examples failed (see the output above)"
    )


def public(space: types.ModuleType) -> list[str]:
    """Names of the functions and classes that a namespace offers and cudamath defines."""
    return sorted(
        name
        for name in getattr(space, "__all__", vars(space))
        if not name.startswith("_")
        and callable(getattr(space, name))
        and str(getattr(getattr(space, name), "__module__", "")).startswith("cudamath")
    )


SPACES = {
    name: operator.attrgetter(name)(cm) if name else cm
    for name in (
        "",
        "ml",
        "linalg",
        "fft",
        "random",
        "cuda",
        "math",
        "testing",
        "data",
        "distributed",
        "emath",
        "polynomial",
        "sparse",
        "sparse.csgraph",
        "sparse.linalg",
        "special",
        "tree",
        "lib.array_utils",
        "lib.stride_tricks",
        "ml.amp",
        "ml.init",
        "ml.schedules",
    )
}


@pytest.mark.parametrize(
    ("space", "name"), [(space, name) for space in SPACES for name in public(SPACES[space])]
)
def test_public_function_is_documented(space: str, name: str) -> None:
    item = getattr(SPACES[space], name)
    text = inspect.getdoc(item)
    assert text, f"{space or 'cm'}.{name} has no docstring"
    if inspect.isfunction(item) and space not in (
        "cuda",
        "testing",
    ):  # those need a GPU, or the simulator
        assert ">>>" in text, f"{space or 'cm'}.{name} has no example"


# Kinds of remarks of numpydoc's validator that do not apply: extended summaries and "See Also" are
# not required, and examples are asked for above.
NOT_REQUIRED = {"ES01", "SA01", "EX01"}


def documented(space: types.ModuleType, name: str) -> Iterator[tuple[str, object]]:
    """(name, object) of a public function, or of a class and its public members."""
    item = getattr(space, name)
    yield name, item
    if inspect.isclass(item):
        for kind in item.__mro__:
            for key, member in vars(kind).items():
                home = member.fget if isinstance(member, property) else getattr(item, key, None)
                if not key.startswith("_") and str(getattr(home, "__module__", "")).startswith(
                    "cudamath"
                ):
                    yield f"{name}.{key}", member if isinstance(member, property) else home


@pytest.mark.parametrize("space", SPACES)
def test_docstrings_are_numpydoc(space: str) -> None:
    """Every public function, class, method and property has numpydoc's sections: each parameter
    with its type and a description, results, in order."""
    validate = pytest.importorskip("numpydoc.validate").validate
    doc_object = importlib.import_module("numpydoc.docscrape").get_doc_object
    wrong = []
    for name in public(SPACES[space]):
        for full, item in documented(SPACES[space], name):
            for code, text in validate(doc_object(item))["errors"]:
                private = re.fullmatch(r"Parameters \{'_\w+'\} not documented", text)
                if code not in NOT_REQUIRED and not private:
                    wrong.append(f"{full}: {code} {text}")
    assert not wrong, "\n".join(wrong)


def test_generators_methods_have_examples() -> None:
    methods = {
        name: item
        for kind in cm.random.Generator.__mro__[:-2]
        for name, item in vars(kind).items()
        if not name.startswith("_") and inspect.isfunction(item)
    }
    assert (
        len(methods) > 30
        and [name for name, item in methods.items() if ">>>" not in (inspect.getdoc(item) or "")]
        == []
    )


def blocks(text: str) -> list[tuple[int, str]]:
    """(line number, source) of the ```python blocks of a Markdown text."""
    return [
        (text.count("\n", 0, match.start()) + 2, match[1])
        for match in re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M)
    ]


PAGES = sorted(
    path
    for path in (ROOT / "docs").rglob("*.md")
    if not {"_build", "api", "notebooks"} & {*path.relative_to(ROOT / "docs").parts}
)


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *PAGES], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_examples_of_pages(path: pathlib.Path) -> None:
    namespace: dict[str, object] = {}
    for line, source in blocks(path.read_text(encoding="utf-8")):  # as a reader would type them
        exec(compile("\n" * (line - 1) + source, path.name, "exec"), namespace)


def test_pages_have_examples() -> None:
    counts = {path.stem: len(blocks(path.read_text(encoding="utf-8"))) for path in PAGES}
    guide = "arrays gradients machine-learning performance several-gpus reproducibility".split()
    for name in [*guide, "index", "getting-started", "from-numpy", "from-pytorch"]:
        assert counts[name], name


def test_links_of_pages_lead_somewhere() -> None:
    """Where pages are read as files: links to other files of the tree, and to their headings."""
    wrong = []
    for path in [ROOT / "README.md", *PAGES]:
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            file, _, anchor = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            if (
                "://" in link
                or {"api", "gallery", "notebooks"} & {*target.parts}
                and path != target
            ):
                continue  # those are made when the site is built, and looked at there
            if not target.exists():
                wrong.append(f"{path.name}: {link}")
            elif anchor and anchor not in anchors(target):
                wrong.append(f"{path.name}: no heading {link}")
    assert wrong == []


def anchors(path: pathlib.Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_readme_is_a_screen_and_a_half() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    figures = text[text.index("<!-- highlights: start") : text.index("<!-- highlights: end")]
    assert figures.count("\n- **") == 5


def test_table_of_old_names_is_true() -> None:
    """Every function in the table of CudaBackend, CudaMath and CudaML names exists."""
    text = (ROOT / "docs" / "howto" / "old-names.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \|$", text, re.M)
    assert len(rows) >= 30
    for old, new in rows:
        for path in re.findall(r"`(cm\.[A-Za-z_0-9.]+)", new):
            item: object = {"cm": cm}["cm"]
            for part in path.split(".")[1:]:
                assert hasattr(item, part), f"{old} is said to be {path}, which does not exist"
                item = getattr(item, part)


def test_figures_of_pages_are_the_records() -> None:
    from benchmarks import report

    page, results = report.PAGE.read_text(encoding="utf-8"), ROOT / "benchmarks" / "results"
    assert report.replaced(page, report.markdown(results)) == page, "run benchmarks.report"


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"(?:cudamath|tests|benchmarks)/[\w/]+(?:\.\w+|/)", text))
    assert len(paths) > 20
    if not (ROOT / "cudamath" / "kernels" / "conv").is_dir():
        pytest.skip("it describes folders that kernels and tests are about to have")
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def test_the_gallery_shows_programs_that_were_measured() -> None:
    """Each has a title, an origin and a speed beside NumPy's."""
    runner = runpy.run_path(str(ROOT / "docs" / "gallery.py"))
    found = runner["programs"]()
    assert len(found) >= 20 and {*found} <= {*runner["speeds"]()}
    assert all(title and origin for title, origin in found.values())
