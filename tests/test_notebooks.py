"""Notebooks: executed whole from their percent sources; what is committed is what the sources say."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Reading and executing notebooks takes seconds to import: only these tests wait for it, not the collection of all.
if TYPE_CHECKING:
    import nbformat

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "notebooks").glob("*.py"))
SOURCE = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
MOST_CELLS = 39
LARGEST = 1_000_000  # bytes
ABSOLUTE = re.compile(r"/(home|root|tmp|Users|usr|opt)/|[A-Z]:\\|site-packages")  # paths of somebody's machine


def cells(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel of this interpreter that imports this checkout, whatever kernels the user has installed."""
    folder = tmp_path / "jupyter" / "kernels" / "this"
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "this", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return "this"


def test_there_is_a_notebook() -> None:
    assert "00_method" in [path.stem for path in SOURCES]


@pytest.mark.slow
@SOURCE
def test_runs_from_top_to_bottom(source: Path, kernel: str, tmp_path: Path) -> None:
    import jupytext
    from nbclient import NotebookClient

    notebook = jupytext.read(source)
    client = NotebookClient(notebook, timeout=300, kernel_name=kernel, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()  # raises CellExecutionError, with the traceback, at the first cell that fails
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert not [output for cell in notebook.cells for output in cell.get("outputs", ()) if is_trouble(output)]


@pytest.mark.slow
@SOURCE
def test_committed_notebook_is_the_executed_source(source: Path) -> None:
    """Fails after an edit of the source until `make notebooks` was run."""
    import jupytext
    import nbformat

    path = source.with_suffix(".ipynb")
    committed = nbformat.read(path, as_version=4)
    assert cells(committed) == cells(jupytext.read(source)), f"run `make notebooks`: {path.name} is out of date"
    assert len(committed.cells) <= MOST_CELLS
    code = [cell for cell in committed.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert outputs
    assert not [output for output in outputs if is_trouble(output)]
    assert committed.metadata.kernelspec.name == "python3"


@pytest.mark.slow
@SOURCE
def test_committed_notebook_is_small_and_shows_in_plain_jupyterlab(source: Path) -> None:
    import nbformat

    path = source.with_suffix(".ipynb")
    assert path.stat().st_size < LARGEST
    known = {"text/plain", "text/html", "image/png"}  # widgets and plotly figures need extensions
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    data = [output.data for cell in code for output in cell.outputs if "data" in output]
    assert {kind for bundle in data for kind in bundle} <= known
    text = "".join(output.get("text", "") for cell in code for output in cell.outputs)
    text += "".join(value for bundle in data for kind, value in bundle.items() if kind != "image/png")
    assert not ABSOLUTE.search(text)


def is_trouble(output: nbformat.NotebookNode) -> bool:
    """An exception, or a warning on the error stream."""
    return output.output_type == "error" or output.get("name") == "stderr"
