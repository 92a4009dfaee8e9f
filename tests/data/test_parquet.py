"""Parquet files with images: what is read, lazily, and what is refused."""

import json

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
        ([0, 2**60, 1], "row 1 of .* has the label"),
        ([0, None, 1], "row 1 of .* has no label"),
        ([0.0, 1.0, 2.0], "has type double: labels must be integers"),
        ([b"a", b"b", b"c"], "has type binary: labels must be integers, or names"),
        ([[0, 1], [1], [2]], "has type list.*: labels must be integers, or names"),
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


def hub(path, labels, names=None, column="label", kind=None, value=0):
    """A file as `Dataset.to_parquet` of Hugging Face's datasets library writes it, class names in its schema."""
    images = [
        {"bytes": encoded(np.full((4, 4, 3), value + row, dtype=np.uint8)), "path": None} for row in range(len(labels))
    ]
    table = pa.table({"image": images, column: pa.array(labels, kind)})
    if names:
        feature = {"names": names, "_type": "ClassLabel"}
        facts = {"info": {"features": {"image": {"_type": "Image"}, column: feature}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(facts)})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


@each_case(
    ("name", "split"),
    [
        ("validation-00000-of-00001.parquet", "val"),
        ("Train.parquet", "train"),
        ("train_00000.parquet", "train"),
        ("cifar-train.parquet", "train"),
        ("test/0000.parquet", "test"),
    ],
)
def test_files_are_named_as_elsewhere(tmp_path, name, split):
    hub(tmp_path / name, [0, 1])
    assert load(tmp_path, split, **PLAIN).labels.tolist() == [0, 1]
    if split != "train":
        assert len(load(tmp_path, "test", **PLAIN)) == 2
        with pytest.raises(ValueError, match="holds no train split, only"):
            load(tmp_path, **PLAIN)


def test_shards_are_all_there_and_of_one_name(tmp_path):
    for number in (0, 2):
        hub(tmp_path / f"train-0000{number}-of-00003.parquet", [0, 1])
    with pytest.raises(ValueError, match="one of 3 files of the train split, and number 1 is missing"):
        load(tmp_path, **PLAIN)
    hub(tmp_path / "train-00001-of-00003.parquet", [0, 1])
    assert len(load(tmp_path, **PLAIN)) == 6
    hub(tmp_path / "Training-0.parquet", [0, 1])
    with pytest.raises(ValueError, match="several train splits, 'Training' and 'train'"):
        load(tmp_path, **PLAIN)


@each_case("column", ["Label", "labels", "fine_label", "target", "class", "y", "Category", "class_id"])
def test_usual_columns_of_labels(tmp_path, column):
    hub(tmp_path / "train.parquet", [1, 0], column=column)
    assert load(tmp_path, **PLAIN).labels.tolist() == [1, 0]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_labels_that_are_names_count_by_the_training_split(tmp_path, kind):
    hub(tmp_path / "train-0-of-2.parquet", ["dog", "cat", "owl"], kind=kind)
    hub(tmp_path / "train-1-of-2.parquet", ["ant"], kind=kind)
    hub(tmp_path / "test.parquet", ["owl", "dog"], kind=kind)  # alone it would count them 1, 0
    assert load(tmp_path, **PLAIN).labels.tolist() == [2, 1, 3, 0]
    test = load(tmp_path, "test", **PLAIN)
    assert test.labels.tolist() == [3, 2] and test.classes == ("ant", "cat", "dog", "owl")
    hub(tmp_path / "test.parquet", ["owl", "elk"], kind=kind)
    with pytest.raises(
        ValueError, match="row 1 of .*test.parquet is of the class 'elk', and the training split has only"
    ):
        load(tmp_path, "test", **PLAIN)


def test_class_names_stand_in_the_metadata(tmp_path):
    hub(tmp_path / "train.parquet", [0, 2], ["cat", "dog", "fox", "owl"])
    hub(tmp_path / "validation.parquet", [0, 1], ["owl", "cat"])  # counted otherwise there
    assert load(tmp_path, **PLAIN).classes == ("cat", "dog", "fox", "owl")
    test = load(tmp_path, "test", **PLAIN)
    assert test.classes == ("cat", "dog", "fox", "owl") and test.labels.tolist() == [3, 0]
    hub(tmp_path / "train.parquet", [0, 4], ["cat", "dog", "fox", "owl"])
    with pytest.raises(ValueError, match="row 1 .* label 4, but it has 4 classes"):
        load(tmp_path, **PLAIN)


@pytest.mark.parametrize(
    "notes", [b"{", b"[]", b'{"info": 3}', b'{"info": {"features": {"label": {"names": [1, 2]}}}}']
)
def test_other_metadata_are_passed_over(tmp_path, notes):
    hub(tmp_path / "train.parquet", [0, 1])
    table = pq.read_table(tmp_path / "train.parquet").replace_schema_metadata({"huggingface": notes})
    pq.write_table(table, tmp_path / "train.parquet")
    assert load(tmp_path, **PLAIN).classes == ("0", "1")


def test_the_number_of_classes_is_that_of_the_training_split(tmp_path):
    hub(tmp_path / "train.parquet", [0, 1, 2, 3])
    hub(tmp_path / "test.parquet", [0, 2])
    assert load(tmp_path, "test", **PLAIN).classes == load(tmp_path, **PLAIN).classes == ("0", "1", "2", "3")
    hub(tmp_path / "test.parquet", [0, 5])
    with pytest.raises(ValueError, match="row 1 of the test split of .* has the label 5, but it has 4 classes"):
        load(tmp_path, "test", **PLAIN)


@pytest.mark.parametrize("labels", [[-1, -1], pa.nulls(2, pa.int64()), pa.nulls(2, pa.string())])
def test_test_files_without_labels_are_passed_over(tmp_path, labels):
    hub(tmp_path / "train.parquet", [0, 1, 2])
    hub(tmp_path / "test.parquet", labels)
    with pytest.raises(ValueError, match="holds no test split, only train"):
        load(tmp_path, "test", **PLAIN)
    hub(tmp_path / "validation.parquet", [0, 1, 2])
    assert len(load(tmp_path, "test", **PLAIN)) == 3
    hub(tmp_path / "test.parquet", [-1, 0])
    with pytest.raises(ValueError, match="row 0 of .*test.parquet has the label -1"):
        load(tmp_path, "test", **PLAIN)


@pytest.mark.parametrize(("train", "test"), [(["a", "b"], [0, 1]), ([0, 1], ["a", "b"])])
def test_names_and_numbers_are_not_compared(tmp_path, train, test):
    hub(tmp_path / "train.parquet", train)
    hub(tmp_path / "test.parquet", test)
    with pytest.raises(ValueError, match="numbers"):
        load(tmp_path, "test", **PLAIN)
    if test == [0, 1]:  # unless these have names
        hub(tmp_path / "test.parquet", test, ["b", "a"])
        assert load(tmp_path, "test", **PLAIN).labels.tolist() == [1, 0]


def test_columns_that_may_all_be_labels_are_refused(tmp_path):
    table = pa.table({"image": [{"bytes": b"x"}], "target": [0], "class": [1]})
    pq.write_table(table, tmp_path / "train.parquet")
    with pytest.raises(
        ValueError, match="several columns that may be labels .target, class.: call the right one 'label'"
    ):
        load(tmp_path, **PLAIN)


def test_booleans_are_two_classes(tmp_path):
    hub(tmp_path / "train.parquet", [True, False, True])
    assert load(tmp_path, **PLAIN).labels.tolist() == [1, 0, 1]
