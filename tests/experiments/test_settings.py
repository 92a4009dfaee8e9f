"""The paper's tables of settings beside `preset="paper"`, the recipes and the vision transformers."""

import pytest
import torch

from retrofit_core.experiments.printed_settings import (
    GRADIENT,
    TRAINING,
    printed_settings,
)
from retrofit_core.methods import METHODS
from retrofit_core.training.recipes import PAPER_EPOCHS, recipe
from tests.marks import each_case
from tests.networks import mlp, normal


def test_all_but_three_settings_are_the_papers():
    """DEPARTURES: one recipe for all data sets; the earlier code has the two widths the other way round."""
    frame = printed_settings()
    different = frame[~frame["same"]]
    assert {(line.table, line.setting, line.paper, line.ours) for line in different.itertuples()} == {
        ("fine-tuning, tiny-imagenet", "learning_rate", 1e-5, 3e-4),
        ("network vit", "mlp_width", 1536, 384),
        ("network vit-tiny-imagenet", "mlp_width", 384, 1536),
    }
    assert len(frame) == 6 + 2 + 5 + 2 * 4 + 2 * 5
    defaults = frame.set_index(["table", "setting"])["default"]
    assert (defaults["gradient fits", "perturbation"], defaults["linear fits", "lambda, kmeans"]) == (0.0, "auto")


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
