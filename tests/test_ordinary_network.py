"""A fused network is an ordinary one: docs/ordinary_network.md."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.marks import ROOT, skip_without

skip_without("docs")
PAGE = (ROOT / "docs" / "ordinary_network.md").read_text()
#: In front of the page's program: whatever is imported of this package is an error.
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(("retrofit_core", "retrofit_app")))
"""


@pytest.mark.long
def test_the_page_runs_without_the_package(tmp_path):
    """Loads, exports and trains on, in a process in which the package cannot be imported."""
    net, fusing, after = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert "retrofit" in fusing and not re.search(r"(import|from) retrofit", after)
    (tmp_path / "smallnet.py").write_text(net)
    run(fusing, tmp_path, PYTHONPATH=str(Path(__file__).parents[1]))
    run(WITHOUT + after, tmp_path)
    with pytest.raises(AssertionError, match="retrofit_core"):
        run(f"{WITHOUT}\nimport retrofit_core", tmp_path, PYTHONPATH=str(Path(__file__).parents[1]))


def run(program: str, folder: Path, **environment: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=folder,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
