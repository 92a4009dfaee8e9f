"""One more result breaks no notebook: its code and its assertions hold, whichever row of whichever column came in at a fuller
scale."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import jupytext
import pytest

from retrofit_core.experiments.bundles import write_bundle
from retrofit_core.experiments.cells import Cell
from retrofit_core.experiments.scales import SCALES
from retrofit_core.experiments.tables import TABLES
from tests.experiments.made_up import bundle_of
from tests.marks import each_case
from tests.notebooks.running import SOURCES

RECORDS = Path(__file__).parents[2] / "benchmarks" / "results" / "experiments"
TABLE = re.compile(r'^\w+ = table\(\s*"([\w-]+)"', re.MULTILINE)
#: Metrics that a made-up result has; landscapes, clusterings and histograms are whole studies.
MADE_UP = ("accuracy", "part", "seconds", "processor_seconds", "operations")
#: Of CIFAR-10: rows of one scale are compared image by image.
TEST_IMAGES = 10_000
READING = [source for source in SOURCES if TABLE.search(source.read_text())]


def one_of_each_column(name: str, at: int) -> list[Cell]:
    """The cell of one method in each column at the fullest scale, with trained parents."""
    cells = [cell for cell in TABLES[name].cells(SCALES["paper"], 1) if is_single(cell)]
    columns = dict.fromkeys(cell.column for cell in cells)
    of_column = [[cell for cell in cells if cell.column == column] for column in columns]
    return [same[at % len(same)] for same in of_column]


def is_single(cell: Cell) -> bool:
    """Whether its number is one that a made-up result has: of one network, not of a landscape."""
    return cell.metric[0] == "part" or (len(cell.metric) == 1 and cell.metric[0] in MADE_UP)


def executed(source: Path, **parameters: Any) -> None:
    """A notebook's code in this process, without pictures of its pictures."""
    notebook = jupytext.read(source)
    names: dict[str, Any] = {"__name__": "notebook"}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                exec(compile(cell.source, source.name, "exec"), names)  # noqa: S102
                if "parameters" in cell.metadata.get("tags", ()):
                    names.update(parameters)


@pytest.mark.slow
@pytest.mark.parametrize("at", [7, pytest.param(0, marks=pytest.mark.long)])
@each_case("source", READING)
def test_one_result_at_a_fuller_scale_breaks_no_notebook(source: Path, at: int, tmp_path: Path) -> None:
    cells = [cell for name in TABLE.findall(source.read_text()) for cell in one_of_each_column(name, at)]
    facts = {"accuracy": 99.0, "per_part": [99.0, 99.0], "processor_seconds": 1.0, "operations": 1e9}
    facts["known"] = [True] * TEST_IMAGES
    write_bundle(tmp_path / "one.json", bundle_of(cells, lambda cell: facts))
    executed(source, RESULTS=(str(RECORDS), str(tmp_path / "one.json")), RUNS=str(tmp_path / "runs"))
