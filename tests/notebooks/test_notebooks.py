"""Every notebook runs at the scale `smoke`; what is committed is what its source says; each table and figure has one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from retrofit_core.experiments.configs import cells_of
from retrofit_core.experiments.tables import TABLES
from retrofit_core.experiments.work import missing, run
from tests.marks import ROOT, each_case

# Reading and executing notebooks takes seconds to import: only these tests wait for it, not the collection of all.
if TYPE_CHECKING:
    import nbformat

SOURCES = sorted((ROOT / "notebooks").glob("*.py"))
MOST_CELLS = 39
LARGEST = 1_000_000  # bytes
#: What every notebook that reads results is given; they are measured before, on digits, in seconds.
SMOKE = {"SCALE": "smoke", "RESULTS": ()}
#: Of long tables a part is measured: columns by name, rows by their beginnings.
FEW_ROWS = ("Parent", "Ensemble", "Average", "LP", "HF-Gradient, uniform", "KF-Gradient, uniform", "HF-Linear, uniform")
FEW_ROWS += (
    "KF-Linear, uniform",
    "KF-Linear, conductance",
    "OTFusion, uniform",
    "Transformer-OTFusion-Weights, uniform",
)
FEWEST_ROWS = ("Parent", "Ensemble", "KF-Gradient, uniform", "Transformer-OTFusion-Weights, uniform")
#: The tables that a notebook reads.
READ = re.compile(r'\btable\(\s*"([\w-]+)"')
PART: dict[str, dict[str, tuple[str, ...]]] = {
    "02_settings": {"ROWS": ("Parent", "Ensemble", "KF-Linear")},
    "10_vgg11_noniid": {"COLUMNS": ("2-way",)},
    "11_vgg11_sharded": {"COLUMNS": ("2-way",)},
    "12_vgg11_full": {"ROWS": FEW_ROWS},
    "13_widths": {"COLUMNS": ("1x, 1x", "1x, 0.5x")},
    "15_bloodmnist": {"ROWS": FEW_ROWS},
    "20_vit_sharded_cifar100": {"COLUMNS": ("2-way",)},
    "21_vit_full_cifar100": {"COLUMNS": ("2-way zero-shot", "2-way fine-tuned"), "ROWS": FEWEST_ROWS},
    "22_vit_sharded_tiny_imagenet": {"ROWS": ("Parent", "Ensemble", "KF-Gradient, uniform")},
    "23_vit_full_tiny_imagenet": {"ROWS": ("Parent", "KF-Gradient, uniform")},
    "90_ablation": {"COLUMNS": ("MLP, non-IID", "ViT, non-IID")},
    "91_beyond": {
        "COLUMNS": ("MLP, non-IID", "ResNet-18, sharded"),
        "ROWS": (
            "Parent",
            "Ensemble",
            "HF-Gradient, uniform",
            "HF-Linear, uniform",
            "KF-Linear, cond",
        ),
    },
    "30_resnet50_imagenet": {"COLUMNS": ("joint", "joint, 1k samples", "joint, 25k samples")},
}
#: What notebooks that read no results are given instead, to be as quick.
QUICK: dict[str, dict[str, Any]] = {
    "60_text": {"STEPS": 20, "TOGETHER": 10, "SEQUENCES": 8, "TEST": 4, "FILES": 20, "WIDTHS": (64, 80), "RECORD": None}
}
#: What JupyterLab shows as it comes: Plotly's own wheel brings the extension for its figures, beside which a static image lies.
KINDS = {"text/plain", "text/html", "text/markdown", "image/png", "application/vnd.plotly.v1+json"}
ABSOLUTE = re.compile(r"/(home|root|tmp|Users|usr|opt)/|[A-Z]:\\|site-packages")  # paths of somebody's machine


@pytest.mark.long
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_runs_from_top_to_bottom(source: Path, kernel: str, results: str, executing: Any) -> None:
    """Every cell in its order, without an exception or a warning."""
    parameters = QUICK.get(source.stem)
    if parameters is None and "parameters" in (text := source.read_text()):
        part = dict(PART.get(source.stem, {}))
        rows = part.pop("ROWS", ("",))
        measure(set(READ.findall(text)), results, part.get("COLUMNS"), rows)
        parameters = {**SMOKE, "RUNS": results, **part}
    notebook = executing.execute(source, parameters, kernel)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert not [output for cell in notebook.cells for output in cell.get("outputs", ()) if _is_trouble(output)]


def measure(tables: Iterable[str], runs: str, columns: Sequence[str] | None, rows: tuple[str, ...]) -> None:
    """Measure what is missing, as `retrofit reproduce --scale smoke` does."""
    cells = [cell for name in tables for cell in cells_of(TABLES[name], "smoke")]
    wanted = [cell for cell in cells if (columns is None or cell.column in columns) and cell.row.startswith(rows)]
    assert not run(missing(wanted, runs), runs, device="cpu")


@pytest.mark.slow
@each_case("source", SOURCES)
def test_committed_notebooks_are_the_executed_sources_and_show_in_plain_jupyterlab(
    source: Path, executing: Any
) -> None:
    """Fails after an edit of the source or of results until `make notebooks` was run: then each asserts its claim anew.

    No widgets, a static image beside each figure, no path of anybody's machine.
    """
    import jupytext
    import nbformat

    path = source.with_suffix(".ipynb")
    committed = nbformat.read(path, as_version=4)
    assert _cells(committed) == _cells(executing.without_guards(jupytext.read(source))), (
        f"run `make notebooks`: {path.name} is out of date"
    )
    assert len(committed.cells) <= MOST_CELLS and path.stat().st_size < LARGEST
    code = [cell for cell in committed.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert outputs and not [output for output in outputs if _is_trouble(output)]
    assert committed.metadata.kernelspec.name == "python3"
    if source.stem not in QUICK:  # which read no results
        assert committed.metadata.results == executing.digest_of_results(source), (
            f"run `make notebooks`: {path.name} has old results"
        )
    data = [output.data for output in outputs if "data" in output]
    assert {kind for bundle in data for kind in bundle} <= KINDS  # widgets need an extension
    assert all("image/png" in bundle for bundle in data if "application/vnd.plotly.v1+json" in bundle)
    text = "".join(output.get("text", "") for output in outputs)
    text += "".join(str(value) for bundle in data for kind, value in bundle.items() if kind != "image/png")
    assert not ABSOLUTE.search(text)


@pytest.mark.slow
def test_a_parameter_that_a_notebook_lacks_is_named(executing: Any) -> None:
    with pytest.raises(ValueError, match="10_vgg11_noniid.py has no parameter 'SCALES'"):
        executing.execute(ROOT / "notebooks" / "10_vgg11_noniid.py", {"SCALES": "smoke"})


def test_every_table_and_figure_has_a_notebook_that_names_its_labels() -> None:
    texts = [source.read_text() for source in SOURCES]
    for name, table in TABLES.items():
        reads = re.compile(rf'^\w+ = table\(\s*"{name}"', re.MULTILINE)
        matching = [
            text for text in texts if reads.search(text) and all(f"`{label}`" in text for label in table.labels)
        ]
        assert len(matching) == 1, name
        assert "What agrees, what does not, and why" in matching[0]


def test_the_page_names_each_notebook_and_shows_the_pictures_that_there_are() -> None:
    page = (ROOT / "docs" / "notebooks.md").read_text()
    assert re.findall(r"\(\.\./notebooks/(\w+)\.ipynb\)", page) == [source.stem for source in SOURCES]
    pictures = sorted((ROOT / "docs" / "images" / "notebooks").glob("*.png"))
    assert sorted(re.findall(r"\(images/notebooks/(\w+)\.png\)", page)) == [picture.stem for picture in pictures]
    assert sum(picture.stat().st_size for picture in pictures) < LARGEST


def _cells(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def _is_trouble(output: nbformat.NotebookNode) -> bool:
    """An exception, or a warning on the error stream."""
    return output.output_type == "error" or output.get("name") == "stderr"
