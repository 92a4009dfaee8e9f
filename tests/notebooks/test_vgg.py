"""The walk through the method, and the notebooks whose tables train VGGs."""

from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.running import (
    ROOT,
    SOURCES,
    VGG,
    committed_is_small_and_shows_in_plain_jupyterlab,
    committed_is_the_executed_source,
    runs_from_top_to_bottom,
)

pytestmark = pytest.mark.slow
SOURCE = pytest.mark.parametrize(
    "source", [each for each in SOURCES if each.name.startswith(VGG)], ids=lambda path: path.stem
)


@SOURCE
def test_runs_from_top_to_bottom(source: Path, kernel: str, results: str, executing: Any) -> None:
    runs_from_top_to_bottom(source, kernel, results, executing)


@SOURCE
def test_committed_notebook_is_the_executed_source(source: Path, executing: Any) -> None:
    committed_is_the_executed_source(source, executing)


@SOURCE
def test_committed_notebook_is_small_and_shows_in_plain_jupyterlab(source: Path) -> None:
    committed_is_small_and_shows_in_plain_jupyterlab(source)


def test_a_parameter_that_a_notebook_lacks_is_named(executing: Any) -> None:
    with pytest.raises(ValueError, match="10_vgg11_noniid.py has no parameter 'SCALES'"):
        executing.execute(ROOT / "notebooks" / "10_vgg11_noniid.py", {"SCALES": "smoke"})
