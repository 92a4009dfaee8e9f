"""Runs are checked before any training: their levels, or the refusal with the way out."""

import dataclasses

import pytest

from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import save_model
from retrofit_core.runs import RunConfig
from retrofit_core.runs.config import FIELDS
from retrofit_core.runs.planning import check_run
from retrofit_core.system.refusals import Refusal
from retrofit_core.training.config import TrainConfig
from tests.marks import each_case

SMALL = '{"architecture": "cnn", "widths": [4, 6, 6]}'
WIDE = '{"architecture": "cnn", "widths": [8, 12, 12]}'


def pair(method="KF-Linear", training=None, **changes):
    """A run of a training's parents, and the training."""
    training = training or TrainConfig(arch=(SMALL,), device="cpu")
    config = RunConfig(models=training.files(), splits=training.splits(), method=method, device="cpu", samples=60)
    return dataclasses.replace(config, **changes), training


@pytest.mark.slow
@each_case(
    ("config", "message"),
    [
        (pair(training=TrainConfig(parts=11)), "10 classes are too few for 11 parts"),
        (
            pair(method="KF-Gradient", options={"toward": "parents"}),
            "toward is a setting of fit='ridge', which is not chosen",
        ),
        (pair(memory=1000), "budget"),
    ],
)
def test_what_cannot_work_is_refused_with_the_way_out(config, message, tmp_path):
    with pytest.raises(Refusal, match=message) as refused:
        check_run(*config, folder=tmp_path)
    assert "\n" not in str(refused.value) and str(tmp_path) not in str(refused.value)


THREE, UNEVEN = TrainConfig(arch=(SMALL,), parts=3), TrainConfig(arch=(SMALL, WIDE))


@pytest.mark.slow
@each_case(
    ("config", "cures"),
    [
        (pair("HF-Linear", THREE), [("method", "KF-Linear"), ("grouping", "kmeans")]),
        (pair("Average", UNEVEN), [("method", "KF-Linear")]),
        (pair("KF-Gradient", samples=5), [("method", "KF-Linear"), ("samples", 10)]),
        (pair(samples=5000), [("samples", 721)]),
        (pair(target='{"architecture": "cnn", "widths": [20, 6, 6]}'), [("target", None)]),
        (pair("KD", options={"start": "target"}), [("start", "random")]),
        (pair(data="nowhere"), []),
    ],
)
def test_a_refusal_carries_the_cures_that_work(config, cures, tmp_path):
    """Each is tried before it is named: with it, nothing is refused."""
    asked, training = config
    with pytest.raises(Refusal) as refused:
        check_run(asked, training, tmp_path)
    assert list(refused.value.cures) == cures
    for name, value in cures:
        changes = {name: value} if name in FIELDS else {"options": {**(asked.options or {}), name: value}}
        check_run(dataclasses.replace(asked, **changes), training, tmp_path)


def test_parents_of_other_classes_are_refused(tmp_path):
    for k, classes in enumerate((10, 7)):
        spec = {"architecture": "cnn", "widths": [4, 6, 6], "classes": classes, "channels": 1, "size": 8}
        save_model(build(spec, seed=k), tmp_path / f"{k}.safetensors")
    config = RunConfig(models=("0.safetensors", "1.safetensors"), fusion_from="iid", method="KD", device="cpu")
    with pytest.raises(Refusal, match="parent 1 tells 7 classes apart"):
        check_run(config, folder=tmp_path)


@pytest.mark.slow
def test_checkpoints_are_judged_without_a_training(tmp_path):
    for k, widths in enumerate(([4, 6, 6], [8, 12, 12])):
        save_model(build({"architecture": "cnn", "widths": widths}, seed=k), tmp_path / f"{k}.safetensors")
    config = RunConfig(models=("0.safetensors", "1.safetensors"), fusion_from="iid", method="KF-Linear", device="cpu")
    check_run(config, folder=tmp_path)
    alike = {"models": ("0.safetensors",) * 2}
    for changes, message in (
        ({**alike, "method": "FedAvg"}, "only a splits file contains"),
        ({"method": "HF-Linear"}, r"KF-Linear works here\."),
        ({"models": ("2.safetensors",)}, r"^there is no checkpoint at 2.safetensors\.$"),
    ):
        with pytest.raises(Refusal, match=message):
            check_run(dataclasses.replace(config, **changes), folder=tmp_path)
