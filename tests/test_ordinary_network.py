"""A fused network is an ordinary one: docs/ordinary_network.md, and every method's network without this package."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from retrofit_core import METHODS
from tests.marks import ROOT, skip_without

skip_without("docs")
PAGE = (ROOT / "docs" / "ordinary_network.md").read_text()
#: In front of the page's program: whatever is imported of this package is an error.
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(("retrofit_core", "retrofit_app")))
"""
#: Those that hold all parents in a module of this package.
ENSEMBLES = {"Ensemble", "Ensemble-Logits"}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu().mean((2, 3)))


@pytest.fixture(scope="module")
def parents() -> list[Net]:
    torch.manual_seed(0)
    made = [Net(), Net()]
    for parent in made:
        parent(torch.randn(64, 1, 8, 8))  # statistics of its own
    return [parent.eval() for parent in made]


@pytest.fixture(scope="module")
def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(40, 1, 8, 8, generator=generator), torch.randint(10, (40,), generator=generator)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in METHODS if name not in ENSEMBLES])
def test_every_method_gives_a_network_of_the_parents_own_class(name, parents, data):
    needed = {"base": Net()} if METHODS[name].takes.base else {}
    needed |= {"sample_counts": [1, 1]} if name == "FedAvg" else {}
    quick = {"epochs": 1} if "epochs" in METHODS[name].keywords() else {}
    fused = METHODS[name](parents, data, **needed, **quick).model
    shapes = [[(key, tensor.shape) for key, tensor in network.state_dict().items()] for network in (fused, parents[0])]
    assert type(fused) is Net and shapes[0] == shapes[1]
    for module in fused.modules():
        assert not type(module).__module__.startswith("retrofit_core")
        assert not (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)
    again = Net()
    again.load_state_dict(fused.state_dict())
    assert torch.equal(again.eval()(data[0]), fused.eval()(data[0]))


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
