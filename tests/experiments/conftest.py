"""The paper's source, for the tests of what was typed in from it."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tex(shared: Path) -> str:
    """Tests that need it are skipped where it is absent."""
    file = shared / "paper.tex"
    if not file.is_file():
        pytest.skip(f"no source of the paper at {file}")
    return file.read_text(encoding="utf-8")
