"""The README's example runs as pasted."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.slow
def test_the_example_runs_as_pasted(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert len(blocks) == 1
    program = tmp_path / "example.py"
    program.write_text(blocks[0])
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=README.parent,
                          env=_environment(), timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    accuracies = [float(found) for found in re.findall(r"(\d+\.\d) %", done.stdout)]
    assert len(accuracies) == 3
    assert accuracies[2] > max(accuracies[:2]) + 20  # the fused network knows what both parents know


def test_every_file_that_the_map_names_exists():
    listing = re.search(r"## The map of the code\n\n```text\n(.*?)```", README.read_text(), re.S)
    assert listing
    named = re.findall(r"^(?:  )?([\w./-]+\.(?:py|md|txt|ipynb)|[\w/-]+/)\s", listing[1], re.M)
    folder, missing = "", []
    for line in listing[1].splitlines():
        name = line.split()[0] if line.split() else ""
        if not line.startswith(" "):
            folder = name if name.endswith("/") else ""
            path = name
        else:
            path = folder + name
        if name and not (README.parent / path).exists():
            missing.append(path)
    assert named and not missing


def _environment():
    import os

    return {**os.environ, "PYTHONPATH": str(README.parent), "PYTHONWARNINGS": "default"}
