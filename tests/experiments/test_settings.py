"""The paper's tables of settings, as typed in, beside `preset="paper"`, the recipes and the vision transformers."""

import pytest
import torch

from retrofit_core.experiments.printed_settings import (
    GRADIENT,
    LINEAR,
    TRAINING,
    TRANSFORMERS,
    TUNING,
    printed_settings,
)
from retrofit_core.methods import METHODS
from retrofit_core.training.recipes import PAPER_EPOCHS, recipe
from tests.experiments.tex_tables import settings_after
from tests.marks import each_case
from tests.networks import mlp, normal

OF_GRADIENT = "\\label{tab:appendix-hp}"
OF_TRAINING = "All base models are trained with the following hyperparameters:"
OF_TUNING = "\\label{appendix:finetuning-params}"
OF_NETWORKS = "with the following model architecture settings:"
#: Rows as printed, and our names.
NAMES = {
    "Warmup Epochs": "warmup",
    "Minimum Learning Rate": "floor",
    "Learning Rate": "learning_rate",
    "Label Smoothing": "label_smoothing",
    "Batch Size": "batch",
    "Epochs": "epochs",
    "Weight Decay": "weight_decay",
    r"Perturbation \epsilon": "perturbation",
    "Train Batch Size": "batch_size",
    "Val Split": "validation",
    "Patch Size": "patch",
    "Encoder Blocks": "depth",
    "Attention Heads": "heads",
    "Hidden Dimension": "hidden",
    "MLP Hidden Dimension": "mlp_width",
}


@pytest.mark.parametrize(
    ("start", "titles", "typed"),
    [
        (OF_GRADIENT, ["Value"], [GRADIENT]),
        (OF_TRAINING, ["Value"], [TRAINING]),
        (OF_TUNING, ["CIFAR-10/100", "Tiny-ImageNet"], list(TUNING.values())),
        (OF_NETWORKS, ["CIFAR-100", "Tiny-ImageNet"], list(TRANSFORMERS.values())),
    ],
)
def test_what_is_typed_in_is_printed(tex, start, titles, typed):
    rows = settings_after(tex, start)
    assert rows.pop("Hyperparameter") == titles
    for column, settings in enumerate(typed):
        assert {NAMES[row]: float(cells[column]) for row, cells in rows.items() if row in NAMES} == settings


def test_the_strengths_are_those_of_the_text(tex):
    assert r"we found $\lambda = 10^{-3}$ for HF-Linear and $\lambda = 10$ for KF-Linear" in tex
    assert LINEAR == {"hungarian": 1e-3, "kmeans": 10}


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
def test_the_preset_has_the_table_of_the_gradient_variants(tex, method, monkeypatch):
    rows = settings_after(tex, OF_GRADIENT)
    optimisers, adamw = [], torch.optim.AdamW

    def recorded(*args, **options):
        optimisers.append((options["lr"], options["weight_decay"]))
        return adamw(*args, **options)

    monkeypatch.setattr(torch.optim, "AdamW", recorded)
    parents = [mlp(seed=seed) for seed in range(2)]
    result = METHODS[method](parents, normal(40, 6), preset="paper", device="cpu", patience=1)
    assert {name: result.config[name] for name in GRADIENT} == GRADIENT
    assert rows["Optimizer"] == ["AdamW"] and set(optimisers) == {(GRADIENT["learning_rate"], GRADIENT["weight_decay"])}
    assert rows["Head Weights"] == ["False"] and result.config["head"] == "scores"
    # There is no such setting: neurons are grouped by their raw outputs.
    assert rows["Normalize Activations"] == ["False"] and result.config["normalise_scores"] is False
