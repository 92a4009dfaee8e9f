"""The paper's tables of settings beside `preset="paper"` and the recipes; notebook 02 has the others."""

import pytest
import torch

from retrofit_core.methods import METHODS
from retrofit_core.training.recipes import PAPER_EPOCHS, recipe
from tests.marks import each_case
from tests.networks import mlp, normal

#: The table "Hyperparameters used for HF-Gradient and KF-Gradient", with our names.
GRADIENT = {
    "learning_rate": 1e-3,
    "epochs": 100,
    "weight_decay": 1e-4,
    "perturbation": 1.0,
    "batch_size": 32,
    "validation": 0.1,
}
#: The table of training, the same for VGGs, ViTs and ResNets.
TRAINING = {"warmup": 5, "floor": 1e-5, "learning_rate": 1e-3, "label_smoothing": 0.1, "batch": 128}


@each_case(("architecture", "data"), [key for key in PAPER_EPOCHS if key != ("mlp", "mnist")])
def test_the_recipe_has_the_table_of_training(architecture, data):
    """Of all that the paper trained; it has no perceptrons."""
    ours = recipe("paper", data, architecture=architecture)
    assert {name: ours[name] for name in TRAINING} == TRAINING


@pytest.mark.slow
@pytest.mark.parametrize("method", ["HF-Gradient", "KF-Gradient"])
def test_the_preset_has_the_table_of_the_gradient_variants(method, monkeypatch):
    optimisers, adamw = [], torch.optim.AdamW

    def recorded(*args, **options):
        optimisers.append((options["lr"], options["weight_decay"]))
        return adamw(*args, **options)

    monkeypatch.setattr(torch.optim, "AdamW", recorded)
    parents = [mlp(seed=seed) for seed in range(2)]
    result = METHODS[method](parents, normal(40, 6), preset="paper", device="cpu", patience=1)
    assert {name: result.config[name] for name in GRADIENT} == GRADIENT
    assert set(optimisers) == {(GRADIENT["learning_rate"], GRADIENT["weight_decay"])}
    assert result.config["head"] == "scores" and result.config["normalise_scores"] is False
