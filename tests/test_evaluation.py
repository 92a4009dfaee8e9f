"""Accuracy, loss, calibration and ensembles, against definitions written out."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from retrofit_core import build
from retrofit_core.cli import main
from retrofit_core.data import Images, load
from retrofit_core.data.images import in_memory
from retrofit_core.networks.checkpoints import save_model
from retrofit_core.training import evaluation
from retrofit_core.training.evaluation import calibration_error, ensemble, evaluate, scores
from tests.marks import each_case


class Constant(nn.Module):
    """The same logits for every image."""

    def __init__(self, *logits):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))

    def forward(self, images):
        return self.logits.expand(len(images), -1)


@pytest.fixture
def images():
    """Five 1x1 images with grey values 0..4 and labels 0, 1, 1, 0, 0; class 2 has no images."""
    pixels = torch.arange(5, dtype=torch.uint8).view(5, 1, 1, 1)
    labels = torch.tensor([0, 1, 1, 0, 0])
    return Images(*in_memory(pixels, labels), ("a", "b", "c"), "toy", (0.0,), (1 / 255,))


def by_grey_value(x):
    """Wrong on images 2 and 4: predicts 0, 1, 2, 0, 1."""
    return torch.nn.functional.one_hot(torch.tensor([0, 1, 2, 0, 1])[x.flatten().round().long()], 3) * 2.0


@pytest.mark.parametrize("batch", [1, 2, 500])
def test_measures_are_those_of_their_definitions(images, batch):
    result = evaluate(by_grey_value, images, batch)
    logits = by_grey_value(images.inputs())
    assert result["accuracy"] == pytest.approx(60)
    assert result["per_class"] == [pytest.approx(200 / 3), pytest.approx(50), None]
    assert result["loss"] == pytest.approx(cross_entropy(logits, images.labels).item())
    assert result["samples"] == 5


def test_a_batch_that_does_not_fit_is_made_smaller(monkeypatch):
    """Where many images run together, and not where the caller says how many."""
    monkeypatch.setattr(evaluation, "SMALL_BATCH", 2)
    monkeypatch.setattr(evaluation, "_batch_on", lambda device, images: 30)
    digits, sizes = load("digits", "test"), []

    def small(x):
        sizes.append(len(x))
        if len(x) > 7:
            raise torch.OutOfMemoryError
        return x.flatten(1)[:, :10]

    assert torch.equal(scores(small, digits), digits.inputs().flatten(1)[:, :10])
    assert sizes[:2] == [30, 7] and max(sizes[2:]) == 7
    with pytest.raises(torch.OutOfMemoryError):
        scores(small, digits, 30)


def test_rows(images):
    result = evaluate(by_grey_value, images, rows=torch.tensor([2, 4, 0]))
    assert result["accuracy"] == pytest.approx(100 / 3) and result["samples"] == 3
    with pytest.raises(ValueError, match="no rows of data set"):
        evaluate(by_grey_value, images, rows=torch.tensor([], dtype=torch.int64))


def test_calibration_error_against_a_loop(generator):
    logits = 3 * torch.randn(500, 4, generator=generator)
    labels = torch.randint(4, (500,), generator=generator)
    confidence, predicted = logits.double().softmax(1).max(1)
    wanted = 0.0
    for k in range(15):
        inside = (confidence > k / 15) & (confidence <= (k + 1) / 15)
        if inside.any():
            accuracy = (predicted == labels)[inside].double().mean()
            wanted += inside.double().mean() * (accuracy - confidence[inside].mean()).abs()
    assert calibration_error(logits, labels) == pytest.approx(float(wanted), abs=1e-12)


def test_mode_is_kept_and_modules_run_in_eval_mode(images):
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 3), nn.Dropout(0.9)).train()
    assert torch.equal(scores(model, images), scores(model, images))
    assert model.training and model[2].training


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Conv2d(3, 3, 1), r"does not take the images of data set 'toy' \(1x1x1\)"),
        (
            Constant(1.0, 2.0),
            "the network has 2 classes, data set 'toy' has 3: its outputs need one column for each class",
        ),
        (Constant(1.0, 2.0, float("nan")), "gives NaN or infinity on data set 'toy'"),
    ],
)
def test_models_that_do_not_suit_the_data(images, model, message):
    with pytest.raises(ValueError, match=message):
        evaluate(model, images)


def test_a_model_of_another_precision_is_told_how_to_be_converted(images):
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 3)).double()
    with pytest.raises(ValueError, match=r"weights are torch.float64, images are torch.float32. .*model.float\(\)"):
        evaluate(model, images)


FIRST, SECOND = (2.0, 0.0, -1.0), (0.0, 1.0, 3.0)
X = torch.zeros(4, 1, 1, 1)


def test_softmax_ensemble_gives_log_of_the_mean_probabilities():
    outputs = ensemble([Constant(*FIRST), Constant(*SECOND)])(X)
    wanted = (torch.tensor(FIRST).softmax(0) + torch.tensor(SECOND).softmax(0)) / 2
    assert torch.allclose(outputs.exp(), wanted.expand(4, 3))
    assert torch.allclose(outputs.softmax(1), outputs.exp())


def test_logits_ensemble_and_own_function():
    models = [Constant(*FIRST), Constant(*SECOND)]
    assert torch.allclose(ensemble(models, "logits")(X)[0], torch.tensor([1.0, 0.5, 1.0]))


@each_case(
    ("arguments", "message"),
    [
        (([],), "at least one model"),
        (([Constant(1.0)], "softmx"), "unknown combination of an ensemble 'softmx'.*Did you mean 'softmax'"),
    ],
)
def test_impossible_ensembles(arguments, message):
    with pytest.raises(ValueError, match=message):
        ensemble(*arguments)


# --- checkpoints that do not state how their images were normalised: the command line says what it took ---------------


def test_evaluate_says_which_normalisation_it_took(tmp_path, capsys):
    model = build({"architecture": "cnn"}, seed=0)
    torch.save(model.state_dict(), tmp_path / "bare.pt")
    save_model(model, tmp_path / "stated.safetensors", mean=[0.3], std=[0.4])
    assert main(["evaluate", str(tmp_path / "bare.pt"), "--arch", "cnn"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "bare.pt does not record its own" in words and "--mean and --std" in words
    assert main(["evaluate", str(tmp_path / "stated.safetensors")]) == 0
    assert "Normalisation" not in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "bare.pt"), "--arch", "cnn", "--mean", "0", "--std", "1"]) == 0
    assert "Normalisation" not in capsys.readouterr().out
