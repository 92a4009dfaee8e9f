"""MedMNIST's .npz files, and archives that are none."""

import numpy as np
import pytest

from retrofit_core.data import load
from tests.marks import each_case


def arrays(n=5, side=6, seed=0, classes=8):
    draw = np.random.default_rng(seed)
    content = {}
    for split in ("train", "val", "test"):
        content[f"{split}_images"] = draw.integers(0, 256, (n, side, side, 3), dtype=np.uint8)
        content[f"{split}_labels"] = draw.integers(0, classes, (n, 1), dtype=np.uint8)
    return content


def put(folder, name="bloodmnist.npz", packed=True, **changed):
    folder.mkdir(parents=True, exist_ok=True)
    content = {key: value for key, value in (arrays() | changed).items() if value is not None}
    (np.savez_compressed if packed else np.savez)(folder / name, **content)
    return content


@pytest.mark.parametrize("packed", [True, False])
def test_splits_are_the_arrays_of_the_file(tmp_path, packed):
    content = put(tmp_path, packed=packed)
    (tmp_path / "._pathmnist.npz").write_bytes(b"left by another system")
    for split in ("train", "val", "test"):
        data = load(tmp_path, split)
        assert (data.name, data.shape, data.classes[6]) == ("bloodmnist", (3, 6, 6), "neutrophil")
        assert data.labels.tolist() == content[f"{split}_labels"][:, 0].tolist()
        assert np.array_equal(data.pixels([3, 0]).permute(0, 2, 3, 1).numpy(), content[f"{split}_images"][[3, 0]])


@each_case(
    ("changed", "message"),
    [
        ({"train_images": np.array([[["x"]]] * 5, dtype=object)}, "cannot be read .Object arrays"),
        ({"train_images": np.zeros((5, 6, 6, 3))}, r"type float64 and shape \(5, 6, 6, 3\), .* it must hold images"),
        ({"train_images": np.zeros((4, 6, 6, 3), np.uint8)}, r"shape \(4, 6, 6, 3\), .* shape \(5, 1\): it must hold"),
        ({"train_labels": np.zeros((5, 14), np.uint8)}, r"shape \(5, 14\): it must hold .* one integer for each"),
        ({"train_labels": np.array([[0], [-1], [0], [0], [0]])}, "row 1 of train_labels .* has the label -1"),
        ({"train_labels": np.array([[0], [1], [8], [0], [0]])}, "row 2 .* has the label 8, but it has 8 classes"),
        ({"train_images": None}, "is not a MedMNIST file, which holds train_images"),
    ],
)
def test_unusable_arrays(tmp_path, changed, message):
    put(tmp_path, **changed)
    with pytest.raises(ValueError, match=message):
        load(tmp_path)


def test_damaged_archives(tmp_path):
    put(tmp_path)
    path = tmp_path / "bloodmnist.npz"
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[: len(whole) // 2], whole[-100:]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="bloodmnist.npz cannot be read"):
            load(tmp_path)


def test_classes_of_an_unknown_set_are_those_of_the_training_split(tmp_path):
    arrays = {f"{split}_images": np.zeros((3, 4, 4), dtype=np.uint8) for split in ("train", "test")}
    arrays |= {"train_labels": np.array([[0], [1], [4]]), "test_labels": np.array([[0], [1], [2]])}
    np.savez(tmp_path / "anothermnist.npz", **arrays)
    assert (
        load(tmp_path, "test", mean=0.0, std=1.0).classes == load(tmp_path, mean=0.0, std=1.0).classes == tuple("01234")
    )


def test_a_set_is_known_by_its_name_without_the_size(tmp_path):
    put(tmp_path, "bloodmnist_64.npz")
    assert load(tmp_path, size=32).name == "bloodmnist"
    put(tmp_path, "pathmnist_64.npz")
    with pytest.raises(ValueError, match="several MedMNIST files .bloodmnist_64.npz, pathmnist_64.npz.: put each into"):
        load(tmp_path)
