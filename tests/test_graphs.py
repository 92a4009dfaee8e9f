"""A step that a GPU replays as a graph does what it does kernel by kernel."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core.system import graphs
from retrofit_core.system.graphs import WARM, replayed
from retrofit_core.training.descent import Descent, descend
from tests.grouping.points import generator

CALLS = WARM + 4


def cuda():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device("cuda")


@pytest.fixture
def both(monkeypatch):
    """both(work) -> what it returns with graphs, and without."""

    def run(work):
        with_graphs = work()
        with monkeypatch.context() as patch:
            patch.setattr(graphs, "_on_gpu", lambda step, _: step)
            return with_graphs, work()

    return run


def test_each_call_is_a_step_with_its_own_inputs(device):
    total = torch.zeros(3, device=device)

    def step(x, factor):
        total.add_(x * factor)
        return total.sum()

    taken = replayed(step, device)
    expected = torch.zeros(3)
    for call in range(CALLS):
        x, factor = torch.full((3,), float(call)), torch.tensor(call % 3 - 1.0)
        expected += x * factor
        assert taken(x.to(device), factor.to(device)).item() == expected.sum().item()
    for size in (1, 3, 1, 1, 1, 1, 1, 1):  # inputs of other shapes between them
        expected += torch.ones(size)
        assert taken(torch.ones(size, device=device), torch.ones((), device=device)).item() == expected.sum().item()
    assert total.tolist() == expected.tolist()


@pytest.mark.cuda
@pytest.mark.parametrize("training_mode", [False, True])
def test_fits_by_gradient_are_the_same(both, training_mode):
    device, draw = cuda(), generator(0)
    x, y = torch.randn(50, 8, generator=draw).to(device), torch.randn(50, 4, generator=draw).to(device)
    start = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Linear(16, 4)).to(device)

    def fit():
        module = copy.deepcopy(start)
        loss = lambda samples: (module(x[samples]) - y[samples]).square().mean()  # noqa: E731
        curve = descend(
            module,
            50,
            loss,
            lambda samples: loss(samples).item(),
            Descent(epochs=6, batch_size=7),
            generator=generator(1),
            training_mode=training_mode,
            smallest_batch=2,
        )
        return curve, module.state_dict()

    (curve, replays), (expected, eager) = both(fit)
    assert curve == expected and curve[-1]["validation"] != curve[0]["validation"]
    for name, tensor in eager.items():
        assert torch.equal(replays[name], tensor), name
