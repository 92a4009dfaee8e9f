"""Heads that are fitted to what the ensemble says, against plain loops."""

import numpy as np
import pytest
import torch
from torch import nn

from retrofit_core import METHODS, fuse
from retrofit_core.fusion.targets import TEMPERATURE
from retrofit_core.inspection.analysis.analyse import analyse
from tests.marks import each_case
from tests.networks import cnn, labels, mlp, normal, shuffled
from tests.properties import assert_close, assert_same_function

X, Y = normal(20, 6), labels(20, 4)
OWN = [(normal(30, 6, seed=k), labels(30, 4)) for k in range(3)]
#: Ways of weighing the parents: options of a fusion.
WAYS = {
    "equally": {"head": "ensemble"},
    "by importance": {"head": "ensemble", "importance": "conductance", "importance_data": OWN},
}


def parents(width=40):
    return [mlp((6, width, 4), seed=k) for k in range(3)]


def by_loop(models, x, weights):
    """The log of the weighted mean softmax at the temperature, with the mean of all logits, a sample at a time."""
    rows = []
    for sample in x:
        logits = [model(sample[None])[0].detach().numpy() for model in models]
        softmax = [np.exp(z / TEMPERATURE) / np.exp(z / TEMPERATURE).sum() for z in logits]
        said = [
            TEMPERATURE * np.log(sum(w[c] * p[c] for w, p in zip(weights, softmax, strict=True)))
            for c in range(len(logits[0]))
        ]
        rows.append(np.array(said) - np.mean(said) + np.mean(logits))
    return torch.from_numpy(np.array(rows))


@each_case("options", WAYS.values())
def test_a_head_that_can_fit_them_says_what_the_ensemble_says(options):
    models = parents()
    result = METHODS["KF-Linear"](models, X, ridge=0.0, device="cpu", **options)
    weights = result.levels[-1].scores.view(3, 4)
    assert_close(result.model(X), by_loop(models, X, (weights / weights.sum(0)).tolist()), 1e-6)


@pytest.mark.parametrize("method", ["KF-Linear", "KF-Gradient"])
def test_all_its_error_is_the_distance_from_the_ensemble(method):
    """Each parent says what the ensemble says, so that nothing is lost by grouping."""
    models, fit = parents(5), {"epochs": 2} if method == "KF-Gradient" else {}
    result = METHODS[method](models, X, head="ensemble", device="cpu", **fit)
    level, targets = result.levels[-1], by_loop(models, X, [[1 / 3] * 4] * 3)
    missed = (result.model(X) - targets).square().sum().item() * level.scores.view(3, 4).sum(0)[0].item()
    assert level.cost == pytest.approx(missed, rel=1e-6)
    assert level.approximation_error == pytest.approx(missed, rel=1e-6)
    assert level.grouping_error <= 1e-12 * level.energy


@pytest.mark.slow
@each_case("method, make, x", [("HF-Linear", mlp, X), ("KF-Linear", cnn, normal(60, 2, 7, 7)), ("HF-Gradient", mlp, X)])
def test_of_shuffled_copies_it_is_their_function(method, make, x):
    """Their ensemble says what each of them says, sample by sample."""
    model = make()
    twins = [model, shuffled(model, x[:2], 3)]
    options = {"ridge": 0.0} if "Linear" in method else {"epochs": 2, "weight_decay": 0.0}
    fused = METHODS[method](twins, x, head="ensemble", device="cpu", **options).model
    assert_same_function(fused, model, x, 1e-6)


@pytest.mark.slow
def test_the_analysis_and_centred_parents_have_the_same_targets():
    models = parents(5)
    result = METHODS["KF-Linear"](models, (X, Y), head="ensemble", centre=True, device="cpu")
    analysis = analyse(models, result, (X, Y), importance_data=OWN)
    moved = [torch.tensor(mean) for mean in result.config["mean_logits"]]
    shifted = [nn.Sequential(model, Minus(mean)) for model, mean in zip(models, moved, strict=True)]
    assert_close(analysis.levels[-1].targets, by_loop(shifted, X, [[1 / 3] * 4] * 3), 1e-5)


class Minus(nn.Module):
    def __init__(self, mean):
        super().__init__()
        self.mean = mean

    def forward(self, x):
        return x - self.mean


def test_it_needs_class_scores():
    with pytest.raises(ValueError, match="head='ensemble' needs class scores.*Use head='scores'"):
        fuse([mlp((6, 5, 1), seed=k) for k in range(2)], X, head="ensemble")
