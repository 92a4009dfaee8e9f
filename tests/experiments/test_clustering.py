"""The clustering figure: groups of the parents' raw outputs under each score, against hooks and plain calls."""

import numpy as np
import pytest
import torch

from retrofit_core.experiments.clustering import agreement, clustering, histogram
from retrofit_core.experiments.results import share_below
from retrofit_core.runs import RunConfig, read_inputs
from retrofit_core.runs.parents import train_parents
from retrofit_core.training.config import TrainConfig

pytestmark = pytest.mark.slow

CNN = '{"architecture": "cnn", "widths": [6, 7, 9]}'


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> RunConfig:
    folder = tmp_path_factory.mktemp("parents")
    training = TrainConfig(arch=(CNN,), epochs=1)
    train_parents(training, folder, test=False)
    return RunConfig(
        training.files(folder),
        method="KF-Linear",
        importance="conductance",
        splits=training.splits(folder),
        samples=60,
        device="cpu",
    )


@pytest.fixture(scope="module")
def found(config):
    return clustering(config, 1, seeds=3)


def raw_outputs(config) -> torch.Tensor:
    """(rows, neurons) of both parents' second convolutions, as hooks read them."""
    inputs, outputs = read_inputs(config), []
    for model in inputs.models:
        convolutions = [module for module in model.modules() if isinstance(module, torch.nn.Conv2d)]
        hook = convolutions[1].register_forward_hook(
            lambda module, x, y: outputs.append(y.movedim(1, -1).flatten(0, -2))
        )
        with torch.no_grad():
            model(inputs.fusion[0])
        hook.remove()
    return torch.cat(outputs, 1).double()


def test_groups_are_those_of_the_parents_raw_outputs(config, found, monkeypatch):
    """The Gram matrix that k-means sees is that of the convolutions' outputs, as hooks read them."""
    seen = []
    monkeypatch.setattr("retrofit_core.experiments.clustering.KMeans", lambda: recorded)

    def recorded(gram, scores, widths, width, generator):
        seen.append((gram, scores))
        labels = torch.arange(len(gram)) % width
        return type("Groups", (), {"labels": labels})

    again = clustering(config, 1, seeds=2)
    assert all(row["mean"] == 1 for row in again["agreement"])
    z = raw_outputs(config)
    assert len(seen) == 6
    for gram, scores in seen:
        assert torch.allclose(gram, z.T @ z, rtol=1e-5)
        assert scores.sum().item() == pytest.approx(1)
    uniform, conductance = seen[0][1], seen[2][1]
    assert torch.allclose(uniform, torch.full_like(uniform, 1 / len(uniform)))
    assert not torch.allclose(uniform, conductance)


def test_the_share_of_scores_near_zero_is_exact_where_most_are_silent():
    """Bins of equal width would spread the silent neurons over the first one, from 0 to 0.3."""
    scores = np.concatenate([np.full(350, 1e-6), np.linspace(0.11, 12, 162)])
    kept = histogram(scores)
    assert sum(kept["counts"]) == 512
    assert share_below(kept, 0.1) == pytest.approx(100 * 350 / 512)


def test_agreement_is_the_adjusted_rand_index_over_all_pairs_of_seeds():
    from sklearn.metrics import adjusted_rand_score

    labels = {
        name: torch.randint(4, (3, 20), generator=torch.Generator().manual_seed(k)) for k, name in enumerate("ab")
    }
    rows = {(row["first"], row["second"]): row for row in agreement(labels)}
    assert list(rows) == [("a", "a"), ("a", "b"), ("b", "b")]
    for (first, second), row in rows.items():
        indices = [
            adjusted_rand_score(a.numpy(), b.numpy())
            for i, a in enumerate(labels[first])
            for j, b in enumerate(labels[second])
            if first != second or i < j
        ]
        assert (row["mean"], row["least"], row["most"]) == pytest.approx((np.mean(indices), min(indices), max(indices)))
