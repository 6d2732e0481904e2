"""The examples gallery, written from tests/programs/: a page for each program, and their list.

The programs are those of textbooks and tutorials which the tests run with NumPy and with this
package. `conf.py` calls `write`.
"""

from __future__ import annotations

import ast
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests" / "programs"
RECORDS = sorted((ROOT / "benchmarks" / "results").glob("*/numpy_programs.json"))


def programs() -> dict[str, tuple[str, str]]:
    """The title of each program, and where it comes from."""
    found = {}
    for path in sorted(PROGRAMS.glob("*.py")):
        if path.name.startswith(("test_", "_")):
            continue
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        title, _, rest = text.partition("\n\n")
        found[path.stem] = (" ".join(title.split()).rstrip("."), " ".join(rest.split()))
    return found


def speeds() -> dict[str, float]:
    """The speed of each program on the CPU beside NumPy's, by the newest record."""
    newest = max(map(json.loads, (path.read_text(encoding="utf-8") for path in RECORDS)), key=_date)
    return {each["title"]: each["numpy"] / each["cudamath"] for each in newest["programs"]}


def _date(record: dict) -> str:
    return record["date"]


def write(target: pathlib.Path) -> None:
    """The pages, in a folder below docs/."""
    target.mkdir(exist_ok=True)
    found, measured = programs(), speeds()
    pages = {
        name: "\n".join(
            [
                f"# {title}",
                "",
                origin,
                "",
                "`main(np)` runs with NumPy, `main(numpy)`, and on a GPU or the CPU with this "
                "package, `main(cudamath)`: the tests hold the results beside each other.",
                "",
                f"```{{literalinclude}} ../../tests/programs/{name}.py",
                ":language: python",
                "```",
                "",
            ]
        )
        for name, (title, origin) in found.items()
    }
    rows = [
        f"| [{title}]({name}.md) | {measured[name]:.2f} |" for name, (title, _) in found.items()
    ]
    pages["index"] = "\n".join(
        [
            "# Examples gallery",
            "",
            "Programs of textbooks and tutorials, not written for this package. Each is a function "
            "of the module that it calls `np`, and gives the same results with NumPy and with "
            "cudamath, on both devices. More: the [notebooks](../notebooks.md).",
            "",
            "| program | speed on the CPU (NumPy = 1) |",
            "|---|---:|",
            *rows,
            "",
            "```{toctree}",
            ":hidden:",
            "",
            *found,
            "```",
            "",
        ]
    )
    for path in target.glob("*.md"):
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        path = target / f"{name}.md"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
