"""Parents of a split: one configuration, twins, several architectures, folders that hold what they say."""

import dataclasses
import json
import shlex
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from retrofit_core.cli import main
from retrofit_core.data import digits, load
from retrofit_core.networks.checkpoints import load_model
from retrofit_core.runs import RunConfig, execute, parents
from retrofit_core.runs.parents import read_training, train_parents
from retrofit_core.system.monitor import Cancelled, Monitor
from retrofit_core.training.config import TrainConfig
from tests.marks import each_case

from .data.conftest import encoded, write

SMALL = '{"architecture": "cnn", "widths": [4, 6, 6]}'
WIDER = '{"architecture": "cnn", "widths": [6, 8, 8]}'
QUICK = TrainConfig(arch=(SMALL,), epochs=2, device="cpu")


def tensors(path):
    return load_model(path)[0].state_dict()


def test_config_survives_json_and_decides_the_key():
    config = TrainConfig(arch=(SMALL, WIDER), split="dirichlet", ratio=0.5, mean=(0.5,), std=(0.2,), epochs=3)
    assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert len({config.key(), QUICK.key(), dataclasses.replace(QUICK, seed=1).key()}) == 3
    assert QUICK.files()[1] == f"parents-{QUICK.key()}/parent-1.safetensors"
    assert QUICK.splits("x") == "x/splits.json"


@pytest.mark.parametrize(("split", "epochs"), [("full", 300), ("dirichlet", 200)])
def test_the_papers_epochs_are_by_the_share_of_the_images_that_a_parent_sees(split, epochs):
    images = dataclasses.replace(load("digits", "train"), name="cifar10")
    config = TrainConfig(data="cifar10", arch=("vgg11",), split=split, parts=2, recipe="paper")
    assert [each["epochs"] for each in parents.plan(config, images).settings] == [epochs, epochs]


@each_case("facts", [[], None, {"colour": "red"}, {"arch": [1]}, {"parts": "2"}])
def test_a_config_of_other_fields_or_kinds_is_refused(facts):
    with pytest.raises(ValueError, match="a training's config"):
        TrainConfig.from_json(facts)


@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(),
        TrainConfig(arch=(SMALL, WIDER), split="dirichlet", ratio=0.3, seed=4, device="cpu", learning_rate=1e-3),
        TrainConfig(recipe="cifar", augment="crop=4,flip"),
        TrainConfig(shards="0,1,3;2,4"),
        TrainConfig(split="full", twins=True, parts=3, epochs=2, mean=(0.1,), std=(0.2,), size=8, precision="float32"),
    ],
)
def test_the_command_means_the_config(config, tmp_path):
    words = shlex.split(config.command(tmp_path))
    assert words[:2] == ["retrofit", "train"]
    with patch("retrofit_core.runs.parents.train_parents") as train:
        train.return_value = []
        assert main(words[1:]) == 0
    assert train.call_args.args == (config, tmp_path)


@each_case(
    ("config", "message"),
    [
        (TrainConfig(arch=(SMALL, SMALL, SMALL)), "3 architectures for 2 parents: give one --arch"),
        (
            TrainConfig(split="full", shards="0;1"),
            "--shards belong to --split sharded and have no effect with --split full",
        ),
        (TrainConfig(shards="0,1;2"), "each of the classes .* once. Found"),
        (TrainConfig(twins=True), "--twins are one network .* --split full"),
        (
            TrainConfig(data="the folder cannot be created", learning_rate=-1.0),
            "learning_rate is -1.0",
        ),
        (TrainConfig(parts=11), "10 classes are too few for 11 parts"),
        (
            TrainConfig(arch=('{"architecture":"mlp","sizes":[32,24]}',)),
            "does not take the images of data set 'digits'",
        ),
        (
            TrainConfig(arch=('{"architecture":"cnn","classes":5}',)),
            "the network has 5 classes, data set 'digits' has 10",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused_before_any_file(config, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        train_parents(config, tmp_path / "parents")
    assert not (tmp_path / "parents").exists()


def test_the_checkpoint_says_how_images_were_augmented_and_which_epoch_it_is(tmp_path):
    config = dataclasses.replace(QUICK, epochs=1, augment="crop=1,cutmix")
    train_parents(config, tmp_path, only=0, test=False)
    facts = load_model(config.files(tmp_path)[0])[1]
    recipe = {name: facts["recipe"][name] for name in ("crop", "flip", "policy", "cutmix")}
    assert recipe == {"crop": 1, "flip": False, "policy": None, "cutmix": True}
    assert facts["best_epoch"] == 1 and read_training(tmp_path) == config


@pytest.mark.slow
def test_twins_are_shuffled_and_share_function_and_rows(tmp_path):
    config = dataclasses.replace(QUICK, split="full", twins=True, parts=3)
    trained = train_parents(config, tmp_path)
    models = [load_model(row["model"])[0] for row in trained]
    x = load("digits", "test").inputs()
    expected = models[0](x)
    for twin in models[1:]:
        assert torch.allclose(twin(x), expected, atol=1e-4)
        hidden = [
            name for name, value in twin.state_dict().items() if not torch.equal(value, models[0].state_dict()[name])
        ]
        assert len(hidden) == 7  # all but the classifier's bias
    assert any(
        not torch.equal(one, other) for one, other in zip(models[1].parameters(), models[2].parameters(), strict=True)
    )
    assert trained[0]["class_counts"] == trained[1]["class_counts"] == trained[2]["class_counts"]
    facts = load_model(trained[1]["model"])[1]
    assert facts["recipe"]["twin_of"] == "parent-0.safetensors" and facts["validation_accuracy"] is not None
    before = tensors(trained[1]["model"])
    assert train_parents(config, tmp_path, resume=True) == trained
    assert all(torch.equal(value, before[name]) for name, value in tensors(trained[1]["model"]).items())


@pytest.mark.slow
def test_a_cancelled_training_names_what_is_missing_and_goes_on_bit_for_bit(tmp_path):
    train_parents(QUICK, tmp_path / "straight")

    def stop(event):
        if event["kind"] == "epoch" and (tmp_path / "stopped" / "parent-0.safetensors").exists():
            raise Cancelled

    with pytest.raises(Cancelled) as stopped:
        train_parents(QUICK, tmp_path / "stopped", monitor=Monitor(stop))
    assert stopped.value.__notes__ == ["parent-1.safetensors is not written yet."]
    with pytest.raises(ValueError, match="To start again from the beginning, remove that file"):
        train_parents(QUICK, tmp_path / "stopped")
    train_parents(QUICK, tmp_path / "stopped", resume=True)
    for name in ("parent-0.safetensors", "parent-1.safetensors"):
        left, right = (tensors(tmp_path / folder / name) for folder in ("straight", "stopped"))
        assert all(torch.equal(left[key], right[key]) for key in left)
    assert not list((tmp_path / "stopped").glob("*.unfinished"))


@pytest.mark.parametrize("stopped", [False, True])
def test_parents_of_other_images_are_not_taken_over(tmp_path, monkeypatch, stopped):
    """The data set was written over under its name: rows and labels are the same, the images are not."""

    def stop(event):
        if stopped and event["kind"] == "epoch":
            raise Cancelled

    with pytest.raises(Cancelled) if stopped else nullcontext():
        train_parents(QUICK, tmp_path, only=0, monitor=Monitor(stop))
    read = digits.read

    def inverted(split):
        pixels, labels, shape = read(split)
        return lambda rows: 255 - pixels(rows), labels, shape

    monkeypatch.setattr(digits, "read", inverted)
    with pytest.raises(ValueError, match=r"with (images|rows) .*[Rr]emove .*parent-0"):
        train_parents(QUICK, tmp_path, only=0, resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"parts": 2}, {"seed": 1}, {"split": "full"}])
def test_parents_of_another_split_are_neither_mixed_nor_overwritten(changes, tmp_path):
    before = dataclasses.replace(QUICK, parts=3, epochs=1)
    train_parents(before, tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(
        ValueError, match="holds parent-0.safetensors, .* of another split .* choose another --out folder"
    ):
        train_parents(dataclasses.replace(before, **changes), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files
    train_parents(dataclasses.replace(before, epochs=2), tmp_path)  # the same split may be trained again


def test_a_stray_parent_is_no_part_of_a_new_training(tmp_path):
    (tmp_path / "parent-2.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="holds parent-2.safetensors of another split"):
        train_parents(QUICK, tmp_path)


@pytest.mark.parametrize("content", ["{", '{"schema": 9, "training": {}}', '{"schema": 1, "training": {"colour": 1}}'])
def test_a_damaged_note_is_named(content, tmp_path):
    (tmp_path / parents.NOTE).write_text(content)
    with pytest.raises(ValueError, match=r"training.json cannot be used: .*Remove the folder"):
        read_training(tmp_path)
    assert read_training(tmp_path / "nowhere") is None


# --- all data are looked at before any training: damaged images, classes of one split only; nothing -------------------


def picture(label, row, kind="PNG"):
    pixels = np.random.default_rng(row).integers(0, 100, (16, 16, 3), dtype=np.uint8)
    pixels[..., label % 3] += 100
    return encoded(pixels, kind)


@pytest.fixture
def photos(tmp_path):
    """Four classes, eight training and two test images each."""
    for split, count in (("train", 8), ("val", 2)):
        for label, name in enumerate(("ant", "bee", "cat", "dog")):
            folder = tmp_path / "photos" / split / name
            folder.mkdir(parents=True)
            for row in range(count):
                (folder / f"{row}.jpg").write_bytes(picture(label, row, "JPEG"))
    return tmp_path / "photos"


def config(data, **settings):
    return TrainConfig(data=str(data), arch=(SMALL,), epochs=1, device="cpu", **settings)


def halve(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def refused(config, folder, message, **settings):
    """No epoch was trained, and no folder is there."""
    events = []
    with pytest.raises(ValueError, match=message):
        train_parents(config, folder, monitor=Monitor(events.append), **settings)
    assert not [event for event in events if event["kind"] in ("batch", "epoch")]
    assert not folder.exists()


@pytest.mark.parametrize("name", ["train/ant/3.jpg", "train/dog/7.jpg", "val/cat/1.jpg"])
def test_a_truncated_image_is_found_before_any_training(photos, tmp_path, name):
    halve(photos / name)
    refused(config(photos), tmp_path / "out", f"^[^ ]*{name} cannot be decoded as an image")


def table(path, labels):
    write(path, [picture(label, row) for row, label in enumerate(labels)], labels)


def test_a_class_of_the_test_split_alone_is_refused_and_one_that_it_lacks_is_not(tmp_path):
    data = tmp_path / "tables"
    table(data / "train.parquet", [0, 1, 2, 3] * 4)
    table(data / "test.parquet", [0, 1, 2] * 2)  # the highest is absent
    assert [row["class_counts"] for row in train_parents(config(data), tmp_path / "good")]
    assert load(data, "test").classes == ("0", "1", "2", "3")
    table(data / "test.parquet", [0, 1, 2, 4])
    refused(config(data), tmp_path / "out", "row 3 of the test split of .* has the label 4, but it has 4 classes")


def test_a_fusion_looks_at_the_test_images_first(photos, tmp_path):
    folder = tmp_path / "parents"
    train_parents(config(photos), folder)
    halve(photos / "val/cat/1.jpg")
    files = config(photos).files(folder)
    run = RunConfig(
        files, str(photos), splits=str(folder / "splits.json"), method="KF-Linear", evaluate=True, samples=8
    )
    events = []
    with pytest.raises(ValueError, match=r"val/cat/1.jpg cannot be decoded"):
        execute(run, monitor=Monitor(events.append))
    assert not [event for event in events if event["kind"] == "level"]
    for name in files:  # they would be trained again
        Path(name).unlink()
    with pytest.raises(ValueError, match=r"val/cat/1.jpg cannot be decoded"):
        execute(run, monitor=Monitor(events.append))
    (photos / "val").rename(photos / ".val")
    with pytest.raises(ValueError, match="holds no test split, only train"):
        execute(run, monitor=Monitor(events.append))
    assert not any(Path(name).exists() for name in files)


def test_without_a_test_split_parents_are_trained_and_not_measured(tmp_path, capsys):
    table(tmp_path / "tables" / "train.parquet", [0, 1] * 8)
    words = ["--data", str(tmp_path / "tables"), "--epochs", "1", "--out"]
    assert main(["train", "--arch", SMALL, *words, str(tmp_path / "out")]) == 0
    assert "no test split" in capsys.readouterr().out
