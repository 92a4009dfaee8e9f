"""CIFAR's pickles: what is read, and that only the published ones are."""

import hashlib
import os
import pickle

import numpy as np
import pytest
from torchvision import datasets

from retrofit_core.data import load

FILES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta"]


def batch(n=4, seed=0, classes=10, labels="labels"):
    draw = np.random.default_rng(seed)
    return {"data": draw.integers(0, 256, (n, 3072), dtype=np.uint8), labels: draw.integers(0, classes, n).tolist()}


def write(folder, contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(pickle.dumps(content))


def cifar10(folder, **changed):
    contents = {name: batch(seed=seed) for seed, name in enumerate(FILES[:6])}
    contents |= {"batches.meta": {"label_names": list("abcdefghij")}} | changed
    write(folder / "cifar-10-batches-py", contents)
    return contents


def cifar100(folder):
    contents = {
        name: batch(classes=100, labels="fine_labels") | {"coarse_labels": [0] * 4} for name in ("train", "test")
    }
    write(folder / "cifar-100-python", contents | {"meta": {"fine_label_names": list(map(str, range(100)))}})
    return contents


@pytest.fixture
def publish(monkeypatch):
    """Make torchvision take the files of a folder for the published ones."""

    def publish(source, folder):
        def known(name):
            return hashlib.md5((folder / source.base_folder / name).read_bytes()).hexdigest()

        for listed in ("train_list", "test_list"):
            monkeypatch.setattr(source, listed, [(name, known(name)) for name, _ in getattr(source, listed)])
        monkeypatch.setattr(source, "meta", {**source.meta, "md5": known(source.meta["filename"])})

    return publish


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-py"])
def test_cifar10_is_read_as_its_batches_in_order(tmp_path, publish, inner):
    contents = cifar10(tmp_path)
    publish(datasets.CIFAR10, tmp_path)
    train, test = load(tmp_path / inner), load(tmp_path / inner, "test")
    assert (train.name, train.shape, len(train), len(test)) == ("cifar10", (3, 32, 32), 20, 4)
    parts = [contents[f"data_batch_{k}"] for k in range(1, 6)]
    assert train.labels.tolist() == [label for part in parts for label in part["labels"]]
    assert test.labels.tolist() == contents["test_batch"]["labels"]
    expected = np.concatenate([part["data"] for part in parts])
    # Written out: a row is the red plane, then the green and the blue one, each row by row.
    for row, channel, y, x in [(0, 0, 0, 0), (5, 1, 3, 31), (19, 2, 31, 0)]:
        assert train.images[row, channel, y, x] == expected[row, channel * 1024 + y * 32 + x]
    assert train.images.is_contiguous() and train.classes[3] == "cat"


def test_cifar100_takes_the_fine_labels(tmp_path, publish):
    contents = cifar100(tmp_path)
    publish(datasets.CIFAR100, tmp_path)
    for folder in (tmp_path, tmp_path / "cifar-100-python"):
        data = load(folder)
        assert data.name == "cifar100" and len(data.classes) == 100
        assert data.labels.tolist() == contents["train"]["fine_labels"]
    with pytest.raises(ValueError, match="holds no val split"):
        load(tmp_path, "val")


class Attack:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (self.marker,)


@pytest.mark.parametrize("file", FILES)
def test_a_strangers_pickle_is_never_loaded(tmp_path, publish, file):
    """Whichever file differs, none is loaded; without `publish`, all of them differ."""
    cifar10(tmp_path)
    publish(datasets.CIFAR10, tmp_path)
    marker = str(tmp_path / "was here")
    cifar10(tmp_path, **{file: Attack(marker)})
    for split in ("train", "test"):
        with pytest.raises(
            ValueError,
            match=rf"{file} is not the published file .* torchvision.datasets.CIFAR10\(FOLDER, download=True\) downloads",
        ):
            load(tmp_path, split)
    assert not os.path.exists(marker)
