"""The README's example runs as pasted."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

README = Path(__file__).parent.parent / "README.md"
#: Values and flat keywords make the same network.
SAME = """
import torch

states = [result.model.state_dict() for result in (values, words)]
assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
"""


@pytest.mark.slow
def test_the_example_runs_as_pasted(tmp_path):
    program = tmp_path / "example.py"
    program.write_text("\n".join([blocks()[0], blocks()[1], SAME]))
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        cwd=README.parent,
        env=_environment(),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    accuracies = [float(number) for number in re.findall(r"(\d+\.\d) %", done.stdout)]
    assert len(accuracies) == 3
    assert accuracies[2] > max(accuracies[:2]) + 20  # the fused network knows what both parents know


@pytest.mark.slow
def test_two_networks_of_torchvision_are_fused_with_a_loader():
    """On few and small images, and for one epoch."""
    example = blocks()[2]
    assert len(example.strip().splitlines()) <= 5
    images = torch.randn(24, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    names = {"loader": DataLoader(TensorDataset(images), batch_size=8)}
    exec(example.replace("loader)", "loader, epochs=1)"), names)
    assert torch.isfinite(names["fused"](images)).all()
    assert type(names["fused"]) is type(names["parents"][0])


def blocks() -> list[str]:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert len(examples) == 3
    return examples


def _environment():
    import os

    return {**os.environ, "PYTHONPATH": str(README.parent), "PYTHONWARNINGS": "default"}
