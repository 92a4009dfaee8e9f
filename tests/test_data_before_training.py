"""All data are looked at before any training: damaged images, classes of one split only; nothing half-written stays."""

from pathlib import Path

import numpy as np
import pytest

from retrofit_core.cli import main
from retrofit_core.data import load
from retrofit_core.runs import RunConfig, execute
from retrofit_core.system.monitor import Monitor
from retrofit_core.training.parents import TrainConfig, train_parents

from .data.conftest import encoded, write

SMALL = '{"architecture": "cnn", "widths": [4, 6, 6]}'


def picture(label, row, kind="PNG"):
    pixels = np.random.default_rng(row).integers(0, 100, (16, 16, 3), dtype=np.uint8)
    pixels[..., label % 3] += 100
    return encoded(pixels, kind)


@pytest.fixture
def photos(tmp_path):
    """Four classes, eight training and two test images each."""
    for split, count in (("Train", 8), ("valid", 2)):
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


@pytest.mark.parametrize("name", ["Train/ant/3.jpg", "Train/dog/7.jpg", "valid/cat/1.jpg"])
def test_a_truncated_image_is_found_before_any_training(photos, tmp_path, name):
    halve(photos / name)
    refused(config(photos), tmp_path / "out", f"^[^ ]*{name} cannot be decoded as an image")


def test_several_are_named_at_once_and_progress_is_shown(photos, tmp_path):
    for name in ("Train/ant/3.jpg", "Train/dog/7.jpg"):
        halve(photos / name)
    plain = config(photos, mean=(0.5,), std=(0.5,))  # else they are measured, and the first one stops that
    refused(plain, tmp_path / "out", "ant/3.jpg cannot .*dog/7.jpg cannot")
    events = []
    for name in ("Train/ant/3.jpg", "Train/dog/7.jpg"):
        (photos / name).write_bytes(picture(0, 3, "JPEG"))
    train_parents(config(photos), tmp_path / "out", monitor=Monitor(events.append))
    kinds = [event["kind"] for event in events]
    assert "step" in kinds and kinds.index("step") < kinds.index("batch")


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
    table(data / "train.parquet", [0, 1, 3] * 4)
    table(data / "test.parquet", [0, 1, 3, 2])
    refused(config(data), tmp_path / "out", "row 3 of the test split .* of the class '2', but no training image is")


def test_a_fusion_looks_at_the_test_images_first(photos, tmp_path):
    folder = tmp_path / "parents"
    train_parents(config(photos), folder)
    halve(photos / "valid/cat/1.jpg")
    files = config(photos).files(folder)
    run = RunConfig(
        files, str(photos), splits=str(folder / "splits.json"), method="KF-Linear", evaluate=True, samples=8
    )
    events = []
    with pytest.raises(ValueError, match=r"valid/cat/1.jpg cannot be decoded"):
        execute(run, monitor=Monitor(events.append))
    assert not [event for event in events if event["kind"] == "level"]
    for name in files:  # they would be trained again
        Path(name).unlink()
    with pytest.raises(ValueError, match=r"valid/cat/1.jpg cannot be decoded"):
        execute(run, monitor=Monitor(events.append))
    (photos / "valid").rename(photos / ".valid")
    with pytest.raises(ValueError, match="holds no test split, only train"):
        execute(run, monitor=Monitor(events.append))
    assert not any(Path(name).exists() for name in files)


def test_without_a_test_split_parents_are_trained_and_not_measured(tmp_path, capsys):
    table(tmp_path / "tables" / "train.parquet", [0, 1] * 8)
    words = ["--data", str(tmp_path / "tables"), "--epochs", "1", "--out"]
    assert main(["train", "--arch", SMALL, *words, str(tmp_path / "out")]) == 0
    assert "no test split" in capsys.readouterr().out
    parent = str(tmp_path / "out/parent-0.safetensors")
    assert main(["finetune", parent, *words, str(tmp_path / "tuned.safetensors")]) == 0
