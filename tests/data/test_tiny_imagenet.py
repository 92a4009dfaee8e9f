"""Tiny-ImageNet in its authors' layout."""

import numpy as np
import pytest

from retrofit_core.data import DATASETS, load

from .conftest import encoded

IDS = ["n02", "n01", "n03"]  # the official list is not sorted either


def image(value, side=64):
    return encoded(np.full((side, side, 3), value, dtype=np.uint8))


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "tiny-imagenet-200"
    for subfolder in (*(f"train/{name}/images" for name in IDS), "val/images", "test/images"):
        (root / subfolder).mkdir(parents=True)
    for value, name in enumerate(IDS):
        (root / f"train/{name}/{name}_boxes.txt").write_text("n02_0.JPEG\t0\t0\t62\t62\n")
        for number in range(2):
            (root / f"train/{name}/images/{name}_{number}.JPEG").write_bytes(image(10 * value + number))
    for number in range(3):
        (root / f"val/images/val_{number}.JPEG").write_bytes(image(100 + number))
    (root / "test/images/test_0.JPEG").write_bytes(image(0))
    (root / "wnids.txt").write_text("\n".join(IDS))
    (root / "words.txt").write_text("n01\tgoldfish, Carassius auratus\nn02\tsalamander\nn03\tbullfrog\nn99\tnone\n")
    lines = [f"val_{number}.JPEG\t{name}\t0\t32\t44\t62\n" for number, name in ((2, "n03"), (0, "n01"), (1, "n03"))]
    (root / "val/val_annotations.txt").write_text("".join(lines))
    return root


def test_train_is_that_of_torchvision(folder):
    from torchvision.datasets import ImageFolder

    data = load(folder)
    theirs = ImageFolder(str(folder / "train"))
    assert data.labels.tolist() == theirs.targets == [0, 0, 1, 1, 2, 2]
    assert data.images[:, 0, 0, 0].tolist() == [np.asarray(theirs[row][0])[0, 0, 0] for row in range(6)]
    assert data.classes == ("goldfish, Carassius auratus", "salamander", "bullfrog")
    assert data.name == "tiny-imagenet" and data.mean == DATASETS["tiny-imagenet"].mean
    assert data.shape == (3, 64, 64)


@pytest.mark.parametrize("split", ["val", "test"])
def test_annotated_validation_images_are_also_the_test_images(folder, split):
    data = load(folder, split)
    assert data.labels.tolist() == [2, 0, 2]
    assert data.images[:, 0, 0, 0].tolist() == [102, 100, 101]


def test_validation_images_sorted_into_folders(folder):
    for number, name in enumerate(IDS):
        (folder / "val" / name).mkdir()
        (folder / f"val/images/val_{number}.JPEG").rename(folder / "val" / name / f"val_{number}.JPEG")
    (folder / "val/val_annotations.txt").unlink()
    data = load(folder, "test")
    assert data.labels.tolist() == [0, 1, 2] and data.images[:, 0, 0, 0].tolist() == [101, 100, 102]


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("wnids.txt", "", "must list every class id once"),
        ("wnids.txt", "n01\nn01", "must list every class id once"),
        ("wnids.txt", "n01\nn04", "has no folder for the class 'n04' of wnids.txt"),
        ("wnids.txt", "n01\n../train/n02", "has no folder for the class '../train/n02'"),
        ("val/val_annotations.txt", "", "lists no images"),
        ("val/val_annotations.txt", "val_0.JPEG\tn09\n", "line 1 of .* must be a file's name, a tab and one of"),
        ("val/val_annotations.txt", "val_0.JPEG\tn01\nval_1.JPEG\n", "line 2 of"),
        ("val/val_annotations.txt", "../../secret.JPEG\tn01\n", "line 1 of"),
        ("val/val_annotations.txt", "val_7.JPEG\tn01\n", "val_7.JPEG cannot be read: No such file"),
    ],
)
def test_damaged_lists(folder, path, text, message):
    (folder / path).write_text(text)
    with pytest.raises(ValueError, match=message):
        for split in ("train", "val"):
            load(folder, split)
