"""Refusals before any training, and seconds and bytes that follow from counted work."""

import dataclasses
import json
from pathlib import Path

import pytest

from retrofit_core.networks.architectures import build, fitted, parse
from retrofit_core.networks.checkpoints import save_model
from retrofit_core.runs import RunConfig
from retrofit_core.runs.config import FIELDS
from retrofit_core.runs.estimate import estimate, planned_levels, seconds
from retrofit_core.training.parents import TrainConfig
from tests.marks import each_case

ROOT = Path(__file__).parents[1]
SMALL = '{"architecture": "cnn", "widths": [4, 6, 6]}'
WIDE = '{"architecture": "cnn", "widths": [8, 12, 12]}'


def pair(method="KF-Linear", training=None, **changes):
    """A run of a training's parents, and the training."""
    training = training or TrainConfig(arch=(SMALL,), device="cpu")
    config = RunConfig(models=training.files(), splits=training.splits(), method=method, device="cpu", samples=60)
    return dataclasses.replace(config, **changes), training


@pytest.fixture
def steady(monkeypatch):
    """A machine whose rate is known: no clock decides."""
    monkeypatch.setattr(seconds, "operations_a_second", lambda device: 1e10)


@pytest.mark.slow
@each_case(
    ("config", "message"),
    [
        (pair("HF-Linear", TrainConfig(arch=(SMALL,), parts=3)), r"exactly two parents.*KF-Linear works here\."),
        (
            pair(training=TrainConfig(arch=("vit-small",)), options={"boundaries": "blocks"}),
            r"not affine.*KF-Gradient works here\.",
        ),
        (pair(target='{"architecture": "cnn", "widths": [20, 6, 6]}'), r"20 fused neurons for 8 parents' neurons"),
        (
            pair(training=TrainConfig(arch=("vit-small",)), method="KF-Gradient", importance="deeplift"),
            "DeepLIFT has no rule",
        ),
        (pair(samples=5000), r"5000 samples cannot be drawn from \d+ rows"),
        (pair(training=TrainConfig(parts=11)), "10 classes are too few for 11 parts"),
        (
            pair(method="KF-Gradient", options={"toward": "parents"}),
            "toward is a setting of fit='ridge', which is not chosen",
        ),
        (pair(memory=1000), "budget"),
        (pair(data="nowhere"), "there is no folder nowhere"),
    ],
)
def test_what_cannot_work_is_refused_with_the_way_out(config, message, tmp_path):
    answer = estimate(*config, folder=tmp_path)
    assert answer.refusal is not None and (answer.seconds, answer.memory, answer.levels) == (0.0, 0, 0)
    with pytest.raises(ValueError, match=message):
        raise ValueError(answer.refusal)
    assert "\n" not in answer.refusal and str(tmp_path) not in answer.refusal


THREE, UNEVEN = TrainConfig(arch=(SMALL,), parts=3), TrainConfig(arch=(SMALL, WIDE))


DEEP = TrainConfig(arch=("vit-small",))


@pytest.mark.slow
@each_case(
    ("config", "cures"),
    [
        (pair("HF-Linear", THREE), [("method", "KF-Linear"), ("grouping", "kmeans")]),
        (pair("Average", UNEVEN), [("method", "KF-Linear")]),
        (pair("KF-Gradient", samples=5), [("method", "KF-Linear"), ("samples", 10)]),
        (pair(samples=5000), [("samples", 721)]),
        (pair(target='{"architecture": "cnn", "widths": [20, 6, 6]}'), [("target", None)]),
        (pair("KF-Gradient", DEEP, importance="deeplift"), [("importance", "conductance"), ("fallback", "gradient")]),
        (pair("KD", options={"start": "target"}), [("start", "random")]),
        (pair(data="nowhere"), []),
    ],
)
def test_a_refusal_carries_the_cures_that_work(config, cures, tmp_path):
    """Each is tried before it is named: with it, nothing is refused."""
    asked, training = config
    answer = estimate(asked, training, folder=tmp_path)
    assert answer.refusal and list(answer.cures) == cures
    for name, value in cures:
        changes = {name: value} if name in FIELDS else {"options": {**(asked.options or {}), name: value}}
        cured = dataclasses.replace(asked, **changes)
        assert not estimate(cured, training, folder=tmp_path).refusal, (name, value)


def test_levels_stand_side_by_side(tmp_path):
    first, *_, last = planned_levels(*pair(training=UNEVEN), tmp_path)
    assert ([part.width for part in first.parents], first.fused.width) == ([4, 8], 4)
    assert (first.becomes, last.becomes) == ("12 neurons in 4 groups", "10 classes stay in their places")
    with pytest.raises(ValueError, match="exactly two parents"):
        planned_levels(*pair("HF-Linear", UNEVEN), tmp_path)
    assert planned_levels(*pair("KD"), tmp_path) == ()


def test_parents_of_other_classes_are_refused(tmp_path):
    for k, classes in enumerate((10, 7)):
        spec = {"architecture": "cnn", "widths": [4, 6, 6], "classes": classes, "channels": 1, "size": 8}
        save_model(build(spec, seed=k), tmp_path / f"{k}.safetensors")
    config = RunConfig(models=("0.safetensors", "1.safetensors"), fusion_from="iid", method="KD", device="cpu")
    assert "parent 1 tells 7 classes apart" in str(estimate(config, folder=tmp_path).refusal)


@pytest.mark.slow
def test_checkpoints_are_judged_without_a_training(tmp_path):
    for k, widths in enumerate(([4, 6, 6], [8, 12, 12])):
        save_model(build({"architecture": "cnn", "widths": widths}, seed=k), tmp_path / f"{k}.safetensors")
    config = RunConfig(models=("0.safetensors", "1.safetensors"), fusion_from="iid", method="KF-Linear", device="cpu")
    assert estimate(config, folder=tmp_path).levels == 4
    for method in ("FedAvg", "Ensemble-Shares"):
        alike = dataclasses.replace(config, models=("0.safetensors",) * 2, method=method)
        assert "only a splits file contains" in str(estimate(alike, folder=tmp_path).refusal)
    assert "KF-Linear works here" in str(
        estimate(dataclasses.replace(config, method="HF-Linear"), folder=tmp_path).refusal
    )
    missing = dataclasses.replace(config, models=("2.safetensors",))
    assert estimate(missing, folder=tmp_path).refusal == "there is no checkpoint at 2.safetensors."


@pytest.mark.slow
def test_seconds_grow_with_the_work(steady, tmp_path):
    def taken(config, training):
        return estimate(config, training, tmp_path).seconds

    def trained(**settings):
        return taken(*pair(training=TrainConfig(**{"arch": (SMALL,), "device": "cpu", **settings})))

    base = taken(*pair())
    for more in ({"epochs": 200}, {"parts": 4, "split": "full"}, {"arch": (WIDE,)}):
        assert trained(**more) > base
    for more in ({"method": "KF-Gradient"}, {"method": "KD"}, {"evaluate": True}, {"analyse": True}, {"samples": 600}):
        assert taken(*pair(**more)) > base
    for chosen, options in (({"importance": "conductance"}, {"steps": 21}), ({"method": "KD"}, {"epochs": 900})):
        assert taken(*pair(**chosen, options=options)) > taken(*pair(**chosen)) > base
    assert trained(split="full", twins=True) < trained(split="full")  # only one of them is trained
    config, training = pair()
    for file in training.files():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    assert taken(config, training) < base


def test_operations_of_a_pass_are_those_of_the_layers():
    """Two operations a multiplication: 64 positions of the first two convolutions, 16 of the third."""
    layers = 64 * 9 * 1 * 4 + 64 * 9 * 4 * 6 + 16 * 9 * 6 * 6 + 4 * 6 * 10
    spec = json.dumps(fitted(parse(SMALL), (1, 8, 8), 10))
    assert seconds.operations(spec) == 2 * layers
