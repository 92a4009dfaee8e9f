"""Training: what it reaches, repeats, restores and refuses."""

import pytest
import torch
from torch import nn

from retrofit_core import training
from retrofit_core.architectures import build
from retrofit_core.data import load
from retrofit_core.data.splits import sharded
from retrofit_core.evaluation import evaluate
from retrofit_core.monitor import Cancelled, Monitor

CNN = {"architecture": "cnn", "widths": [4, 6, 6]}


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def test_a_shard_of_digits_is_learnt(digits):
    rows = sharded(digits.labels, 2, seed=0)[0]
    model, test = build({"architecture": "cnn"}, seed=0), load("digits", "test")
    history = training.train(model, digits, rows, epochs=12)
    known = torch.isin(test.labels, digits.labels[rows]).nonzero().flatten()
    assert evaluate(model, test, rows=known)["accuracy"] > 95
    assert history[-1]["loss"] < history[0]["loss"] and not model.training


@pytest.mark.parametrize("optimizer", training.OPTIMIZERS)
def test_optimizers_reduce_the_loss(digits, optimizer):
    model = build(CNN, seed=0)
    rate = {"adamw": 3e-3, "sgd": 0.05}[optimizer]
    settings = {"epochs": 3, "batch": 16, "optimizer": optimizer, "learning_rate": rate}
    history = training.train(model, digits, torch.arange(600), **settings)
    assert history[-1]["loss"] < 0.95 * history[0]["loss"]


def test_training_repeats_by_its_seed_and_leaves_the_global_state_alone(digits):
    def weights(seed):
        model = build(CNN, seed=0)
        model.features.append(nn.Dropout(0.5))
        training.train(model, digits, torch.arange(200), epochs=1, seed=seed, shift=1)
        return model.classifier.weight

    state = torch.get_rng_state()
    assert torch.equal(weights(1), weights(1)) and not torch.equal(weights(1), weights(2))
    assert torch.equal(torch.get_rng_state(), state)


def test_the_best_epoch_is_restored(digits, monkeypatch):
    model, states = build(CNN, seed=0), []
    qualities = iter([(50.0, -1.0), (80.0, -2.0), (80.0, -1.5), (70.0, -1.0)])

    def quality(model, *_):
        states.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return next(qualities)

    monkeypatch.setattr(training, "_quality", quality)
    history = training.train(model, digits, torch.arange(200), epochs=4)
    assert [entry["accuracy"] for entry in history] == [50, 80, 80, 70]
    assert torch.equal(model.classifier.weight, states[2]["classifier.weight"])  # equal accuracy, lower loss
    assert not torch.equal(model.classifier.weight, states[3]["classifier.weight"])


def test_without_held_out_rows_the_last_epoch_stays(digits):
    history = training.train(build(CNN, seed=0), digits, torch.arange(64), epochs=2, holdout=0)
    assert [entry["accuracy"] for entry in history] == [None, None]


def test_events_and_cancellation(digits):
    events = []
    monitor = Monitor(events.append, cancelled=lambda: len(events) == 2)
    model = build(CNN, seed=0)
    with pytest.raises(Cancelled):
        training.train(model, digits, torch.arange(100), epochs=5, monitor=monitor)
    assert [(event["kind"], event["epoch"], event["epochs"]) for event in events] == [
        ("epoch", 1, 5),
        ("epoch", 2, 5),
    ]
    assert not model.training


def test_held_out_rows_are_a_part_of_every_class(generator):
    labels = torch.tensor([0] * 50 + [1] * 20 + [2])
    kept = training._held_out(labels, 0.1, generator)
    assert torch.bincount(labels[kept], minlength=3).tolist() == [5, 2, 0]


def test_rates_rise_then_fall_and_are_never_zero():
    rates = [training._rate(step, 100, 0.1) for step in range(100)]
    assert rates[:10] == pytest.approx([k / 10 for k in range(1, 11)])
    assert rates[9:] == sorted(rates[9:], reverse=True) and 0 < rates[-1] < 1e-3
    assert all(training._rate(step, 1, 0.1) > 0 for step in range(1))


def test_shifts_move_each_image_by_its_own_offset(generator):
    pixels = torch.randint(1, 256, (64, 2, 5, 6), generator=generator, dtype=torch.uint8)
    moved = training._shifted(pixels, 1, generator)
    padded = nn.functional.pad(pixels, (1, 1, 1, 1))
    offsets = set()
    for image, result in zip(padded, moved, strict=True):
        found = [(y, x) for y in range(3) for x in range(3) if torch.equal(image[:, y : y + 5, x : x + 6], result)]
        assert len(found) == 1
        offsets.update(found)
    assert len(offsets) == 9
    assert training._shifted(pixels, 0, generator) is pixels


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": torch.tensor([], dtype=torch.int64)}, "no rows of data set 'digits'"),
        ({"epochs": 0}, "epochs >= 1"),
        ({"holdout": 1.0}, r"holdout in \[0, 1\)"),
        ({"optimizer": "adam"}, "Did you mean 'adamw'"),
        ({"rows": torch.arange(64), "learning_rate": 1e30, "optimizer": "sgd"}, "training diverged in epoch"),
    ],
)
def test_impossible_training(digits, arguments, message):
    with pytest.raises(ValueError, match=message):
        training.train(build(CNN, seed=0), digits, **{"epochs": 3, **arguments})
