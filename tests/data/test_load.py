"""`load`: data sets by name, folders, classes.json, normalisation; the embedded digits; `Images`."""

import json

import pytest
import torch

from retrofit_core.data import DATASETS, Images, load
from retrofit_core.data import images as module
from retrofit_core.data.datasets import recognise
from retrofit_core.data.images import in_memory


def images(pixels, **fields):
    defaults = {"classes": ("a", "b"), "name": "test", "mean": (0.5,), "std": (0.25,)}
    return Images(*in_memory(pixels, torch.zeros(len(pixels), dtype=torch.int64)), **{**defaults, **fields})


def test_digits_split_is_stratified_fixed_and_complete():
    train, test = load("digits"), load("digits", "test")
    assert (len(train), len(test)) == (1438, 359)
    assert train.images.shape == (1438, 1, 8, 8) and train.images.dtype == torch.uint8
    assert int(train.images.max()) == 255
    counts = torch.bincount(train.labels) / (torch.bincount(train.labels) + torch.bincount(test.labels))
    assert torch.allclose(counts, torch.full((10,), 0.8), atol=5e-3)
    assert torch.equal(load("digits").images, train.images)
    both = torch.cat([train.images, test.images]).flatten(1).double()
    from sklearn.datasets import load_digits

    assert sorted(map(tuple, (both / 255 * 16).round().tolist())) == sorted(map(tuple, load_digits().data))


def test_inputs_are_normalised_per_channel():
    pixels = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    x = images(pixels, mean=(0.0, 0.1, 0.5), std=(1.0, 0.1, 0.25)).inputs()
    assert x.flatten().tolist() == pytest.approx([0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mean": (0.1, 0.2)}, "mean of data set 'test' has 2 values, but its images have 3"),
        ({"std": (0.1, 0.0, 0.1)}, "numbers above zero with --std"),
        ({"mean": (float("nan"),)}, "finite numbers with --mean"),
    ],
)
def test_unusable_constants_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        images(torch.zeros(1, 3, 2, 2, dtype=torch.uint8), **fields)


@pytest.mark.parametrize("rows", [[0, 4], [-1]])
def test_rows_outside_the_data_set_are_refused(rows):
    with pytest.raises(ValueError, match=r"split has rows 0..3"):
        images(torch.zeros(4, 1, 2, 2, dtype=torch.uint8)).inputs(rows)


@pytest.mark.parametrize(
    ("name", "key"),
    [("CIFAR-10", "cifar10"), ("cifar_100", "cifar100"), ("FashionMNIST", "fashion-mnist"), ("photos", None)],
)
def test_data_sets_are_recognised_by_their_plain_names(name, key):
    assert recognise("unknown", name) == key


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere", "there is no folder nowhere"),
        (
            "data/cifar10",
            r"`torchvision.datasets.CIFAR10\('data/cifar10', download=True\)` fetches it .*; or put the unpacked cifar",
        ),
        ("MNIST", "data set 'mnist' is not at MNIST: .* put the four IDX files"),
    ],
)
def test_missing_data_set_says_where_to_put_it(source, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        load(source)


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ("{", "not readable JSON"),
        ("3", "must be a list of class names"),
        ('{"classes": [1, 2]}', "list of class names"),
        ('{"mean": [0.5]}', 'only one of "mean" and "std"'),
        ('{"mean": "x", "std": [1]}', "mean must be numbers"),
    ],
)
def test_damaged_classes_json(notes, message, parquet_folder):
    folder = parquet_folder("photos")
    (folder / "classes.json").write_text(notes)
    with pytest.raises(ValueError, match=message):
        load(folder)


def test_normalisation_comes_from_arguments_then_classes_json_then_the_name(parquet_folder):
    with pytest.raises(ValueError, match="only --mean was given"):
        load(parquet_folder("photos"), mean=0.5)
    assert load(parquet_folder("photos"), mean=0.5, std=0.2).mean == (0.5,) * 3
    folder = parquet_folder("CIFAR-10")
    assert load(folder).mean == DATASETS["cifar10"].mean
    assert load(folder).classes[0] == "airplane"
    notes = {"classes": ["cat", "dog", "cow"], "mean": [0.1, 0.2, 0.3], "std": [1, 1, 1]}
    (folder / "classes.json").write_text(json.dumps(notes))
    assert load(folder).mean == (0.1, 0.2, 0.3)
    assert load(folder).classes == ("cat", "dog", "cow")
    assert load(folder, mean=(0.5,) * 3, std=(0.5,) * 3).mean == (0.5,) * 3


def test_an_unknown_normalisation_is_measured_on_the_training_images(parquet_folder, pixels):
    """The oracle is numpy's, over all pixels of the training images; the fixture has them as (n, H, W, C)."""
    images = load(parquet_folder("photos"))
    values = images.pixels().numpy() / 255
    assert images.mean == pytest.approx(values.mean((0, 2, 3)), abs=1e-4)
    assert images.std == pytest.approx(values.std((0, 2, 3)), abs=1e-4)
    folder = parquet_folder("photos")
    (folder / "train.parquet").rename(folder / "test.parquet")
    with pytest.raises(ValueError, match="cannot be measured on its training images: .* Give --mean and --std"):
        load(folder, "test")
    stored = ((0.1, 0.2, 0.3), (1.0, 2.0, 3.0))
    images = load(folder, "test", stored=lambda: stored)
    assert (images.mean, images.std) == stored


def test_of_many_images_some_are_drawn_and_always_the_same(monkeypatch):
    pixels = torch.randint(0, 256, (500, 1, 2, 2), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    pixels[:, :, 0] = 0
    whole, values = module.normalisation(pixels.__getitem__, 500, 1), pixels.double() / 255
    assert whole[0][0] == pytest.approx(values.mean().item(), abs=1e-4)
    assert whole[1][0] == pytest.approx(values.std(correction=0).item(), abs=1e-4)
    monkeypatch.setattr(module, "MEASURED", 100)
    seen = []
    drawn = module.normalisation(lambda rows: (seen.append(rows), pixels[rows])[1], 500, 1)
    assert len(torch.cat(seen)) == 100 and drawn == module.normalisation(pixels.__getitem__, 500, 1)
    assert drawn[0][0] == pytest.approx(whole[0][0], abs=0.03)


@pytest.mark.long
def test_shared_data_sets(shared, generator):
    sizes = {"cifar10": (50000, 10000), "mnist": (60000, 10000), "bloodmnist": (11959, 3421)}
    for name, (n_train, n_test) in {**sizes, "tiny-imagenet": (16000, 5000)}.items():
        train, test = load(shared / "data" / name), load(shared / "data" / name, "test")
        assert (len(train), len(test)) == (n_train, n_test)
        assert train.name == name
        # Drawn, not strided: CIFAR-10's rows there run through the classes in turn (label = row % 10).
        x = train.inputs(torch.randperm(len(train), generator=generator)[:500])
        assert x.mean().abs() < 0.1 and (x.std() - 1).abs() < 0.1


def test_digits_have_no_validation_split():
    with pytest.raises(ValueError, match="digits has no split 'val'"):
        load("digits", "val")
