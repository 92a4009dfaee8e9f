"""Execute the notebooks again: `python docs/notebooks.py [NAME...]` (`make notebooks` for all; needs Chromium for static images).

Each `notebooks/NAME.py` becomes an executed `NAME.ipynb`, with a static image beside each Plotly figure, for viewers that
draw none, and the digest of the results that it was executed on. Its first picture, made small, is
`images/notebooks/NAME.png`, which docs/notebooks.md shows.
"""

import base64
import hashlib
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jupytext
import kaleido
import nbformat
import plotly.graph_objects as go
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).parents[1] / "notebooks"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "experiments"
PLOTLY, PNG = "application/vnd.plotly.v1+json", "image/png"
#: Seconds for one cell, and the width in px of a static image, which JupyterLab shows until the mouse is over it.
PATIENCE, WIDTH = 600, 820
COLOURS = 128  # of a static image
LARGEST = 1_000_000  # bytes of an executed notebook
PICTURES, SMALL, FEW = Path(__file__).parent / "images" / "notebooks", 560, 255  # width in px, and colours
RARE = Image.Quantize.MAXCOVERAGE  # keeps the colours of small marks


def execute(source: Path, parameters: dict[str, Any] | None = None, kernel: str = "python3") -> nbformat.NotebookNode:
    """A notebook from its percent source, executed in its folder.

    Args:
        parameters: other values for names of the cell tagged "parameters".
    Raises:
        ValueError: a parameter that the notebook does not have.
        CellExecutionError: a cell failed; the message holds its traceback.
    """
    notebook = jupytext.read(source)
    if parameters:
        _set(notebook, parameters, source.name)
    folder = {"metadata": {"path": str(source.parent)}}
    client = NotebookClient(notebook, timeout=PATIENCE, kernel_name=kernel, resources=folder)
    client.startup_timeout = PATIENCE  # a kernel of a busy machine may take more than the usual minute
    client.execute()
    return notebook


def _set(notebook: nbformat.NotebookNode, parameters: dict[str, Any], name: str) -> None:
    """Give names of the parameters' cell other values."""
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
    for parameter, value in parameters.items():
        line = re.compile(rf"^{parameter} = .*$", re.MULTILINE)
        cell = next((cell for cell in tagged if line.search(cell.source)), None)
        if cell is None:
            raise ValueError(f"{name} has no parameter {parameter!r} in a cell tagged 'parameters'.")
        words = f"{parameter} = {value!r}"
        cell.source = line.sub(lambda _: words, cell.source)  # noqa: B023 - called at once


def with_images(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with a static image in each output that holds a Plotly figure."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            figure = output.get("data", {}).get(PLOTLY)
            if figure is not None:
                drawn = go.Figure(data=figure["data"], layout=figure["layout"])
                image = kaleido.calc_fig_sync(drawn, opts={"format": "png", "width": WIDTH})
                output.data[PNG] = base64.b64encode(_small(image)).decode()
    return notebook


def without_guards(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook without the cells that assert what its text says."""
    notebook.cells = [cell for cell in notebook.cells if "guard" not in cell.metadata.get("tags", ())]
    return notebook


def _small(image: bytes) -> bytes:
    """A PNG with few colours, a quarter of its size."""
    with io.BytesIO() as buffer:
        Image.open(io.BytesIO(image)).convert("RGB").quantize(COLOURS).save(buffer, "PNG", optimize=True)
        return buffer.getvalue()


def keep_picture(notebook: nbformat.NotebookNode, path: Path) -> None:
    """A notebook's first picture, small; a file of an earlier one is removed where there is none."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    first = next((output.data[PNG] for output in outputs if PNG in output.get("data", {})), None)
    if first is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.open(io.BytesIO(base64.b64decode(first))).convert("RGB")
    height = round(image.height * SMALL / image.width)
    image.resize((SMALL, height), Image.Resampling.LANCZOS).quantize(FEW, RARE).save(path, "PNG", optimize=True)


def digest_of_results(source: Path) -> str:
    """Of the results of the tables that a notebook names."""
    digest, text = hashlib.sha256(), source.read_text()
    for path in sorted(RESULTS.glob("*.csv")):
        if f'"{path.stem}"' in text:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def browser() -> Iterator[None]:
    """One Chromium for all static images."""
    kaleido.start_sync_server()
    try:
        yield
    finally:
        kaleido.stop_sync_server()


def main(names: list[str]) -> None:
    """Execute some notebooks, or all."""
    sources = [FOLDER / f"{name}.py" for name in names] or sorted(FOLDER.glob("*.py"))
    with browser():
        for source in sources:
            notebook = without_guards(with_images(execute(source)))
            notebook.metadata["results"] = digest_of_results(source)
            path = source.with_suffix(".ipynb")
            nbformat.write(notebook, path)
            keep_picture(notebook, PICTURES / f"{source.stem}.png")
            size = path.stat().st_size
            print(f"{path.name}: {len(notebook.cells)} cells, {size / 1000:,.0f} kB")
            if size > LARGEST:
                raise SystemExit(f"{path.name} is larger than {LARGEST / 1000:,.0f} kB: draw less, or smaller.")


if __name__ == "__main__":
    main(sys.argv[1:])
