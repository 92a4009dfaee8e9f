"""The paper's tables of settings beside `preset="paper"`, the recipes and the vision transformers; what differs is named."""

import re
import string
from pathlib import Path

import pytest
import torch

from retrofit_core.methods import METHODS
from retrofit_core.networks.architectures.vit import SIZES, ViT
from retrofit_core.system.presets import preset_settings
from retrofit_core.training.recipes import PAPER_EPOCHS, recipe
from tests.experiments.tex_tables import literal, settings_after
from tests.marks import each_case
from tests.networks import mlp, normal

ROOT = Path(__file__).parents[2]
TRAINING = {
    "Warmup Epochs": "warmup",
    "Minimum Learning Rate": "floor",
    "Learning Rate": "learning_rate",
    "Label Smoothing": "label_smoothing",
    "Batch Size": "batch",
    "Epochs": "epochs",
}
GRADIENT = {
    "Learning Rate": "learning_rate",
    "Epochs": "epochs",
    "Weight Decay": "weight_decay",
    r"Perturbation \epsilon": "perturbation",
    "Train Batch Size": "batch_size",
    "Val Split": "validation",
}
SIZE = {
    "Patch Size": "patch",
    "Encoder Blocks": "depth",
    "Attention Heads": "heads",
    "Hidden Dimension": "hidden",
    "MLP Hidden Dimension": "mlp_width",
}
#: DEPARTURES: where (table, row, data set) our default differs from what is printed, and ours.
DIFFERENT = {
    # One recipe for all data sets.
    ("fine-tuning", "Learning Rate", "Tiny-ImageNet"): 3e-4,
    # The earlier code has the two numbers the other way round; vit-mlp1536 and vit-tiny-imagenet-mlp384 have the printed ones.
    ("vit", "MLP Hidden Dimension", "CIFAR-100"): 384,
    ("vit", "MLP Hidden Dimension", "Tiny-ImageNet"): 1536,
}


def numbers(rows: dict[str, list[str]], names: dict[str, str], column: int = 0) -> dict[str, float]:
    return {names[row]: float(cells[column]) for row, cells in rows.items() if row in names}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["HF-Gradient", "KF-Gradient"])
def test_the_preset_has_the_table_of_the_gradient_variants(tex, method, monkeypatch):
    rows = settings_after(tex, "\\label{tab:appendix-hp}")
    assert rows.pop("Hyperparameter") == ["Value"]
    optimisers, adamw = [], torch.optim.AdamW

    def recorded(*args, **options):
        optimisers.append({**options, "name": "AdamW"})
        return adamw(*args, **options)

    monkeypatch.setattr(torch.optim, "AdamW", recorded)
    parents = [mlp(seed=seed) for seed in range(2)]
    result = METHODS[method](parents, normal(40, 6), preset="paper", device="cpu", patience=1)
    assert numbers(rows, GRADIENT) == {name: result.config[name] for name in GRADIENT.values()}
    assert rows.pop("Optimizer") == [optimisers[0]["name"]]
    used = {(given["lr"], given["weight_decay"]) for given in optimisers}
    assert used == {(float(rows["Learning Rate"][0]), float(rows["Weight Decay"][0]))}
    assert rows.pop("Head Weights") == ["False"]
    assert result.config["head"] == "scores"
    # There is no such setting: neurons are grouped by their raw outputs.
    assert rows.pop("Normalize Activations") == ["False"]
    assert result.config["normalise_scores"] is False
    assert rows.keys() == GRADIENT.keys()


def test_the_preset_has_the_strengths_of_the_linear_variants(tex):
    text = re.search(r"we found \$\\lambda = (.+?)\$ for HF-Linear and \$\\lambda = (.+?)\$ for KF-Linear", tex)
    assert text
    printed = [float(literal(f"${number}$")) for number in text.groups()]
    assert printed == [preset_settings("paper", grouping, "ridge")["ridge"] for grouping in ("hungarian", "kmeans")]


@each_case(("architecture", "data"), [key for key in PAPER_EPOCHS if key != ("mlp", "mnist")])
def test_the_recipe_has_the_table_of_training(tex, architecture, data):
    """Of all that the paper trained; it has no perceptrons."""
    rows = settings_after(tex, "All base models are trained with the following hyperparameters:")
    assert rows.pop("Hyperparameter") == ["Value"]
    ours = recipe("paper", data, architecture=architecture)
    printed = numbers(rows, TRAINING)
    assert printed == {name: ours[name] for name in printed}
    assert rows.keys() == TRAINING.keys() - {"Epochs"}


def test_the_recipe_of_fine_tuning_has_the_table_but_one_rate(tex):
    rows = settings_after(tex, "\\label{appendix:finetuning-params}")
    assert rows.pop("Hyperparameter") == ["CIFAR-10/100", "Tiny-ImageNet"]
    assert rows.keys() == TRAINING.keys() - {"Warmup Epochs", "Batch Size"}
    for column, data in enumerate(("cifar100", "tiny-imagenet")):
        printed, ours = numbers(rows, TRAINING, column), recipe("finetune", data)
        different = {name for name, number in printed.items() if ours[name] != number}
        assert different == ({"learning_rate"} if data == "tiny-imagenet" else set())
    assert (
        recipe("finetune", "tiny-imagenet")["learning_rate"]
        == DIFFERENT["fine-tuning", "Learning Rate", "Tiny-ImageNet"]
    )


@pytest.mark.parametrize(
    ("column", "data", "name", "exact"),
    [(0, "CIFAR-100", "vit", "vit-mlp1536"), (1, "Tiny-ImageNet", "vit-tiny-imagenet", "vit-tiny-imagenet-mlp384")],
)
def test_the_vision_transformers_have_the_table_but_one_width(tex, column, data, name, exact):
    rows = settings_after(tex, "with the following model architecture settings:")
    assert rows.pop("Hyperparameter")[column] == data
    assert rows.keys() == SIZE.keys()
    printed = numbers(rows, SIZE, column)
    with torch.device("meta"):
        networks = {key: ViT(**SIZES[key]).spec for key in (name, exact)}
    assert printed == {size: networks[exact][size] for size in printed}
    different = {size: networks[name][size] for size, number in printed.items() if networks[name][size] != number}
    assert different == {"mlp_width": DIFFERENT["vit", "MLP Hidden Dimension", data]}


def appendices(tex: str) -> dict[str, str]:
    """Number as LaTeX gives it, such as B.1 -> title."""
    titles, letter, part = {}, 0, 0
    for kind, title in re.findall(r"\\(section|subsection)\{(.+?)\}", tex.split("\\appendix", 1)[1]):
        letter, part = (letter + 1, 0) if kind == "section" else (letter, part + 1)
        titles[string.ascii_uppercase[letter - 1] + (f".{part}" if part else "")] = title
    return titles


def test_appendices_are_cited_by_their_numbers(tex):
    titles = appendices(tex)
    cited = {}
    for path in [*(ROOT / "retrofit_core").rglob("*.py"), *(ROOT / "docs").glob("*.md")]:
        numbers = re.findall(r"App\. ([A-Z](?:\.\d)?)\b", path.read_text())
        assert set(numbers) <= titles.keys(), path
        cited[path.relative_to(ROOT).as_posix()] = {titles[number] for number in numbers}
    assert cited["retrofit_core/fusion/grouping/kmeans.py"] == {"Minimizing the Grouping Error"}
    assert cited["retrofit_core/training/recipes.py"] == {"Post-Fusion Fine-tuning Hyperparameters"}
    assert cited["retrofit_core/system/presets.py"] == {"Fusion Hyperparameters"}
    row = next(
        line for line in (ROOT / "docs" / "defaults.md").read_text().splitlines() if line.startswith("| k-means")
    )
    assert titles[re.search(r"App\. (\S+)", row)[1]] == "Minimizing the Grouping Error"


def test_the_page_of_defaults_names_the_rates_of_fine_tuning(tex):
    rows = settings_after(tex, "\\label{appendix:finetuning-params}")
    page = (ROOT / "docs" / "defaults.md").read_text().splitlines()
    (row,) = [line for line in page if line.startswith("| fine-tuning: rate")]
    ours, paper = ([float(number) for number in re.findall(r"\de-\d", cell)] for cell in row.split("|")[2:4])
    assert paper == [float(rate) for rate in rows["Learning Rate"]]
    assert ours == [recipe("finetune", "cifar10")["learning_rate"]]
