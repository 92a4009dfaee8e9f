"""Parquet files with images: what is read and what is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from retrofit_core.data import load
from tests.marks import each_case

from .conftest import bomb, encoded, write

PLAIN = {"mean": 0.0, "std": 1.0}


def test_pixels_and_labels_are_those_written(parquet_folder, pixels):
    data = load(parquet_folder("cifar10"))
    assert data.shape == (3, 4, 6)
    assert data.labels.tolist() == [0, 1, 2]
    assert np.array_equal(data.pixels([2, 0, 2]).numpy(), pixels[[2, 0, 2]].transpose(0, 3, 1, 2))
    assert np.array_equal(data.images.numpy(), pixels.transpose(0, 3, 1, 2))


def test_grey_images_become_rgb_but_stay_grey_for_a_grey_data_set(tmp_path, pixels):
    for name, channels in (("photos", 3), ("mnist", 1)):
        write(tmp_path / name / "train.parquet", [encoded(pixels[0, :, :, 0])], [0])
        data = load(tmp_path / name, **({} if name == "mnist" else PLAIN))
        assert np.array_equal(data.images[0].numpy(), np.stack([pixels[0, :, :, 0]] * channels))


@each_case(
    ("data", "message"), [(None, "has no image bytes"), (b"hello", "cannot be decoded"), (bomb(9_000), "refused")]
)
def test_damaged_images_name_the_row(tmp_path, pixels, data, message):
    write(tmp_path / "train.parquet", [encoded(pixels[0]), data], [0, 1])
    images = load(tmp_path, **PLAIN)
    with pytest.raises(ValueError, match=f"row 1 of .* {message}"):
        images.pixels([1])
    assert images.pixels([0]).shape == (1, 3, 4, 6)


@each_case(
    ("labels", "message"),
    [
        ([0, -1, 1], "row 1 of .* has the label -1"),
        ([0, None, 1], "have type int64, 1 are missing: each row needs an integer"),
        ([0.0, 1.0, 2.0], "have type double"),
        (["a", "b", "c"], "have type string, .* needs an integer. Write the names of classes into classes.json"),
    ],
)
def test_unusable_labels(tmp_path, pixels, labels, message):
    write(tmp_path / "train.parquet", [encoded(image) for image in pixels], labels)
    with pytest.raises(ValueError, match=message):
        load(tmp_path, **PLAIN)


@pytest.mark.parametrize("keep", [0, 10, 0.5, -20])
def test_damaged_parquet_file(parquet_folder, keep):
    folder = parquet_folder("cifar10")
    path = folder / "train.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if 0 < keep < 1 else keep])
    with pytest.raises(ValueError, match=r"train.parquet is not a readable parquet file"):
        load(folder)


def hub(path, labels, value=0):
    """A file of one-coloured images."""
    write(path, [encoded(np.full((4, 4, 3), value + row, dtype=np.uint8)) for row in range(len(labels))], labels)


def test_images_that_are_names_of_files_are_not_opened(tmp_path):
    (tmp_path / "secret.png").write_bytes(encoded(np.zeros((4, 4, 3), dtype=np.uint8)))
    pq.write_table(pa.table({"image": [str(tmp_path / "secret.png")], "label": [0]}), tmp_path / "train.parquet")
    with pytest.raises(ValueError, match="have type string: they must be structs with the field 'bytes'"):
        load(tmp_path, **PLAIN)


def test_shards_are_read_in_order_and_all_there(tmp_path):
    for number in (0, 2):
        hub(tmp_path / f"train-0000{number}-of-00003.parquet", [0, 1], value=4 * number)
    with pytest.raises(ValueError, match="one of 3 files of the train split, and 2 are there: bring all of them"):
        load(tmp_path, **PLAIN)
    hub(tmp_path / "train-00001-of-00003.parquet", [0, 1], value=4)
    hub(tmp_path / "data" / "validation-00000-of-00001.parquet", [1])
    assert load(tmp_path, **PLAIN).pixels()[:, 0, 0, 0].tolist() == [0, 1, 4, 5, 8, 9]
    assert len(load(tmp_path, "val", **PLAIN)) == len(load(tmp_path, "test", **PLAIN)) == 1


def test_the_number_of_classes_is_that_of_the_training_split(tmp_path):
    hub(tmp_path / "train.parquet", [0, 1, 2, 3])
    hub(tmp_path / "test.parquet", [0, 2])
    assert load(tmp_path, "test", **PLAIN).classes == load(tmp_path, **PLAIN).classes == ("0", "1", "2", "3")
    hub(tmp_path / "test.parquet", [0, 5])
    with pytest.raises(ValueError, match="row 1 of the test split of .* has the label 5, but it has 4 classes"):
        load(tmp_path, "test", **PLAIN)
