"""A step that a GPU replays as a graph does what it does kernel by kernel."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core.data import load
from retrofit_core.fusion.grouping.base import squared_distances
from retrofit_core.fusion.grouping.kmeans import seed_centres
from retrofit_core.networks.architectures import build
from retrofit_core.system import graphs
from retrofit_core.system.graphs import WARM, replayed
from retrofit_core.training.descent import Descent, descend
from retrofit_core.training.loop import train
from tests.grouping.points import generator, gram, points, positive

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


def test_a_step_in_which_the_host_reads_a_number_is_taken_all_the_same(device):
    seen = []
    taken = replayed(lambda x: seen.append(x.sum().item()), device)
    for call in range(CALLS):
        taken(torch.full((2,), float(call), device=device))
    assert seen == [2.0 * call for call in range(CALLS)]
    assert torch.ones(3, device=device).sum().item() == 3  # the device works on


@pytest.mark.cuda
def test_centres_of_k_means_are_the_same(both):
    device, phi, scores = cuda(), points(60, 5, 1), positive(60, 1)
    distances = squared_distances(gram(phi)).to(device)
    replays, eager = both(lambda: seed_centres(distances, scores.to(device), 20, 6, generator(3)))
    assert torch.equal(replays, eager)
    assert torch.equal(replays.cpu(), seed_centres(distances.cpu(), scores, 20, 6, generator(3)))


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


@pytest.mark.cuda
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_training_is_the_same(both, optimizer, precision):
    device, images = cuda(), load("digits", "train")
    words = {"crop": 1, "flip": True, "cutmix": True, "optimizer": optimizer, "precision": precision}

    def trained():
        model = build({"architecture": "cnn"}, seed=0)
        return train(model, images, torch.arange(500), epochs=3, device=device, **words), model.state_dict()

    (history, replays), (expected, eager) = both(trained)
    for ours, theirs in zip(history[1:], expected[1:], strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)  # cuDNN adds up in any order
    for name, tensor in eager.items():
        assert (replays[name] - tensor).norm() <= 0.02 * tensor.norm() + 1e-6, name
