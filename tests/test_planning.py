"""Runs are checked before any training: their levels, or the refusal with the way out."""

import dataclasses

import pytest

from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import save_model
from retrofit_core.runs import RunConfig
from retrofit_core.runs.inputs import check_run
from retrofit_core.system.refusals import Refusal
from retrofit_core.training.config import TrainConfig
from tests.marks import each_case

SMALL = '{"architecture": "cnn", "widths": [4, 6, 6]}'


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
        (pair("HF-Linear", TrainConfig(arch=(SMALL,), parts=3)), "two parents"),
    ],
)
def test_what_cannot_work_is_refused_with_the_way_out(config, message, tmp_path):
    with pytest.raises(Refusal, match=message) as refused:
        check_run(*config, folder=tmp_path)
    assert "\n" not in str(refused.value) and str(tmp_path) not in str(refused.value)


@pytest.mark.slow
def test_a_refusal_carries_the_cures_of_the_error(tmp_path):
    asked, training = pair(samples=5000)
    with pytest.raises(Refusal) as refused:
        check_run(asked, training, tmp_path)
    assert refused.value.cures == (("samples", 721),)
    check_run(dataclasses.replace(asked, samples=721), training, tmp_path)


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
    with pytest.raises(Refusal, match=r"^there is no checkpoint at 2.safetensors\.$"):
        check_run(dataclasses.replace(config, models=("2.safetensors",)), folder=tmp_path)
