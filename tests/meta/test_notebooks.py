"""The notebooks run from top to bottom, on the CPU, each in under a minute."""

from __future__ import annotations

import os
import pathlib
import time

import pytest

NOTEBOOKS = sorted((pathlib.Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="notebooks run on real devices"
)


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    monkeypatch.setenv("CUDAMATH_DEVICE", "cpu")
    tree = str(path.parents[1])  # also where cudamath is not installed but run from its tree
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [tree, os.environ.get("PYTHONPATH")]))
    )
    notebook = nbformat.read(path, as_version=4)
    start = time.perf_counter()
    nbclient.NotebookClient(
        notebook,
        timeout=60,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    assert time.perf_counter() - start < 60
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    assert not any(
        output.output_type == "error" for cell in cells for output in cell.get("outputs", [])
    )
