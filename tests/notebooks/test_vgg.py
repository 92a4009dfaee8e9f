"""The walk through the method, and the notebooks whose tables train VGGs."""

from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.running import (
    ROOT,
    SOURCES,
    VGG,
    runs_from_top_to_bottom,
)


@pytest.mark.long
@pytest.mark.parametrize(
    "source", [source for source in SOURCES if source.name.startswith(VGG)], ids=lambda path: path.stem
)
def test_runs_from_top_to_bottom(source: Path, kernel: str, results: str, executing: Any) -> None:
    runs_from_top_to_bottom(source, kernel, results, executing)


def test_a_parameter_that_a_notebook_lacks_is_named(executing: Any) -> None:
    with pytest.raises(ValueError, match="10_vgg11_noniid.py has no parameter 'SCALES'"):
        executing.execute(ROOT / "notebooks" / "10_vgg11_noniid.py", {"SCALES": "smoke"})
