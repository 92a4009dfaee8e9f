"""Image folders: layouts, order, sizes, and everything that may lie in a folder."""

import struct

import numpy as np
import pytest
from PIL import Image

from retrofit_core.data import DATASETS, load
from tests.marks import each_case

from .conftest import bomb, encoded

PLAIN = {"mean": 0.0, "std": 1.0}


def colour(value, height=4, width=6):
    """An image with its value in the red plane, so that rows can be told apart."""
    pixels = np.random.default_rng(value).integers(0, 256, (height, width, 3), dtype=np.uint8)
    pixels[:, :, 0] = value
    return pixels


def put(folder, **images):
    """One file for each keyword, encoded by its suffix: cat__1.png -> folder/cat/1.png."""
    for number, (name, content) in enumerate(images.items()):
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else encoded(colour(content or number)))
    return folder


def animals(folder, split="train"):
    return put(
        folder,
        **{
            f"{split}__cat__b_dot_png": 1,
            f"{split}__cat__a_dot_png": 2,
            f"{split}__dog__c_dot_PNG": 3,
            f"{split}__ant__deep__d_dot_png": 4,
        },
    )


def test_rows_classes_and_pixels_are_those_of_torchvision(tmp_path):
    from torchvision.datasets import ImageFolder

    data = load(animals(tmp_path), **PLAIN)
    theirs = ImageFolder(str(tmp_path / "train"))
    assert list(data.classes) == theirs.classes == ["ant", "cat", "dog"]
    assert data.labels.tolist() == theirs.targets
    for row in range(4):
        assert np.array_equal(data.pixels([row])[0].permute(1, 2, 0).numpy(), np.asarray(theirs[row][0]))
    assert data.images[:, 0, 0, 0].tolist() == [4, 2, 1, 3]
    assert data.name == tmp_path.name


def test_val_and_test_take_the_classes_of_train(tmp_path):
    animals(tmp_path)
    put(tmp_path, val__dog__x_dot_png=9)
    for split in ("val", "test"):  # the validation images, where there are no test images
        data = load(tmp_path, split, **PLAIN)
        assert data.classes == ("ant", "cat", "dog") and data.labels.tolist() == [2]
    put(tmp_path, test__cat__x_dot_png=9)
    assert load(tmp_path, "test", **PLAIN).labels.tolist() == [1]
    put(tmp_path, test__horse__x_dot_png=9)
    with pytest.raises(ValueError, match="test has the class folder 'horse', but .*train has not"):
        load(tmp_path, "test", **PLAIN)


def test_imagenet_gets_its_usual_transform(tmp_path):
    from torchvision.transforms import CenterCrop, Compose, Resize

    folder = tmp_path / "imagenet"
    for name, size in (("n01__a", (300, 400)), ("n02__b", (517, 260)), ("n03__c", (100, 90))):
        put(folder, **{f"train__{name}_dot_JPEG": encoded(np.asarray(smooth(*size)), "PNG")})
    data = load(folder)
    assert data.shape == (3, 224, 224) and data.mean == DATASETS["imagenet"].mean
    assert data.classes == ("n01", "n02", "n03")
    usual = Compose([Resize(256), CenterCrop(224)])  # on Pillow images, with Pillow's own code
    for row, size in enumerate([(300, 400), (517, 260), (100, 90)]):
        expected = np.asarray(usual(smooth(*size))).transpose(2, 0, 1).astype(int)
        assert np.abs(data.images[row].numpy().astype(int) - expected).max() <= 1
    assert load(folder, size=64).shape == (3, 64, 64)


def smooth(height, width):
    """A photograph-like image: noise at a twentieth of the size, enlarged."""
    noise = np.random.default_rng(height).integers(0, 256, (height // 20, width // 20, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


def test_sizes_that_differ_need_a_size(tmp_path):
    put(tmp_path, train__a__1_dot_png=1, train__b__2_dot_png=encoded(colour(2, 8, 5)))
    data = load(tmp_path, **PLAIN)
    with pytest.raises(ValueError, match=r"b/2.png is 5x8 pixels, but row 0 is 6x4: give one size .* with --size"):
        data.images  # noqa: B018
    assert load(tmp_path, size=4, **PLAIN).images.shape == (2, 3, 4, 4)


def modes():
    grey = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10
    rgb = np.stack([grey] * 3, axis=2)
    alpha = np.dstack([rgb, grey])
    palette = Image.fromarray(grey).convert("P")
    palette.info["transparency"] = bytes(range(256))
    yield "grey", Image.fromarray(grey)
    yield "16 bits", Image.fromarray(grey.astype(np.uint16) * 257)
    yield "palette", palette
    yield "alpha", Image.fromarray(alpha)
    yield "grey with alpha", Image.fromarray(alpha).convert("LA")
    yield "one bit", Image.fromarray(grey > 100)


@each_case("kind", [name for name, _ in modes()])
def test_every_kind_of_png_becomes_the_same_rgb(tmp_path, kind):
    image = dict(modes())[kind]
    (tmp_path / "train" / "a").mkdir(parents=True)
    image.save(tmp_path / "train" / "a" / "1.png")
    put(tmp_path, train__b__2_dot_png=1)
    grey = np.asarray(dict(modes())["grey"])
    expected = np.where(grey > 100, 255, 0) if kind == "one bit" else grey
    assert np.array_equal(load(tmp_path, **PLAIN).pixels([0])[0].numpy(), np.stack([expected] * 3))


def hostile(pixels=None):
    jpeg = encoded(colour(1, 40, 60), "JPEG")
    yield "truncated jpeg", jpeg[: len(jpeg) // 2], "cannot be decoded as an image"
    yield "text", b"hello, I am a photograph", "cannot be decoded as an image"
    yield "empty", b"", "cannot be decoded as an image"
    yield "bomb", bomb(9_000), "is 9000x9000 pixels: more than .* are refused"
    yield "larger bomb", bomb(50_000), "cannot be decoded|are refused"
    yield "elongated", elongated(), "far too elongated to be resized"
    yield "tiff by another name", encoded(colour(1), "TIFF"), "cannot be decoded as an image"
    yield "bmp of negative sizes", b"BM" + struct.pack("<I4xI3i2H28x", 100, 54, 40, -6, -4, 1, 24), "cannot be decoded"


def elongated():
    """1 x 100,000 pixels: its shorter side at 224 pixels would make the longer one 22 million."""
    return encoded(np.zeros((100_000, 1, 3), dtype=np.uint8))


@pytest.mark.slow
@each_case("case", [name for name, *_ in hostile()])
@each_case("row", [0, 1])
def test_hostile_files_are_named(tmp_path, case, row):
    _, content, message = next(one for one in hostile() if one[0] == case)
    names = ("a", "b") if row == 0 else ("b", "a")
    put(tmp_path, **{f"train__{names[0]}__bad_dot_jpg": content, f"train__{names[1]}__good_dot_png": 1})
    with pytest.raises(ValueError, match=f"bad.jpg.*({message})"):
        load(tmp_path, size=224, **PLAIN).images  # noqa: B018


def test_a_single_class_folder_is_the_wrong_folder(tmp_path):
    put(tmp_path, train__photos__cat__1_dot_png=1, train__photos__dog__1_dot_png=1)
    with pytest.raises(
        ValueError, match="single class folder 'photos': give the folder whose subfolders are the classes"
    ):
        load(tmp_path, **PLAIN)


def test_classes_json_renames_but_must_name_all(tmp_path):
    animals(tmp_path)
    (tmp_path / "classes.json").write_text('{"classes": ["Ameise", "Katze", "Hund"], "mean": [0.5], "std": [0.5]}')
    assert load(tmp_path).classes == ("Ameise", "Katze", "Hund")
    (tmp_path / "classes.json").write_text('["one", "two", "three", "four"]')
    with pytest.raises(ValueError, match="classes.json names 4 classes, but the data set has 3"):
        load(tmp_path, **PLAIN)


def test_classes_json_reads_grey_images_with_one_channel(tmp_path):
    animals(tmp_path)
    colour = load(tmp_path).images
    (tmp_path / "classes.json").write_text('{"channels": 1}')
    grey = load(tmp_path)
    assert len(grey.mean) == 1 and grey.images.shape == (len(colour), 1, *colour.shape[2:])
    (tmp_path / "classes.json").write_text('{"channels": 2}')
    with pytest.raises(ValueError, match=r"classes.json must be .* 1 \(grey\) or 3 \(colour\)"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["test", "val"])
def test_without_training_images_there_is_something_to_evaluate_and_nothing_to_train(tmp_path, name):
    put(tmp_path, **{f"{name}__{kind}__1_dot_png": 1 for kind in ("cat", "dog")})
    assert load(tmp_path, "test", **PLAIN).classes == ("cat", "dog")
    with pytest.raises(ValueError, match="holds no train split, only (test|val).*. Add the missing images"):
        load(tmp_path, **PLAIN)


def test_what_systems_leave_behind_is_no_data_at_any_depth(tmp_path):
    from retrofit_core.data import digest

    for split, count in (("train", 3), ("test", 2)):
        rows = [(kind, row) for kind in ("cat", "dog") for row in range(count)]
        put(tmp_path, **{f"{split}__{kind}__{row}_dot_png": 10 + row for kind, row in rows})
    before = [digest(tmp_path, split) for split in ("train", "test")]
    junk = [
        ".git/objects/a.png",
        "train/cat/.ipynb_checkpoints/1-checkpoint.png",
        "train/dog/._1.jpg",
        "train/dog/.DS_Store",
        "test/@eaDir/1.jpg",
        "test/cat/deep/.cache/1.tif",
    ]
    for name in junk:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"no image")
    assert load(tmp_path, **PLAIN).classes == ("cat", "dog")
    assert [len(load(tmp_path, split, **PLAIN).images) for split in ("train", "test")] == [6, 4]
    assert [digest(tmp_path, split) for split in ("train", "test")] == before
