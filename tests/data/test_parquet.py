"""Parquet files with images: what is read, lazily, and what is refused."""

import io
import struct
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from retrofit_core.data import decoding, load

from .conftest import encoded, write

PLAIN = {"mean": 0.0, "std": 1.0}


def test_pixels_and_labels_are_those_written(parquet_folder, pixels):
    data = load(parquet_folder("cifar10"))
    assert data.shape == (3, 4, 6)
    assert data.labels.tolist() == [0, 1, 2]
    assert np.array_equal(data.pixels([2, 0, 2]).numpy(), pixels[[2, 0, 2]].transpose(0, 3, 1, 2))
    assert np.array_equal(data.images.numpy(), pixels.transpose(0, 3, 1, 2))


def test_hub_layout_several_files_and_column_names(tmp_path, pixels):
    for number in range(3):
        name = f"train-0000{number}-of-00003.parquet"
        write(tmp_path / "data" / name, [encoded(pixels[number])], [number], ("img", "fine_label"))
    data = load(tmp_path, **PLAIN)
    assert data.labels.tolist() == [0, 1, 2]
    assert np.array_equal(data.pixels([1, 2, 0]).numpy(), pixels[[1, 2, 0]].transpose(0, 3, 1, 2))


def test_grey_images_become_rgb_but_stay_grey_for_a_grey_data_set(tmp_path, pixels):
    for name, channels in (("photos", 3), ("mnist", 1)):
        write(tmp_path / name / "train.parquet", [encoded(pixels[0, :, :, 0])], [0])
        data = load(tmp_path / name, **({} if name == "mnist" else PLAIN))
        assert np.array_equal(data.images[0].numpy(), np.stack([pixels[0, :, :, 0]] * channels))


def test_test_split_falls_back_to_validation(tmp_path, pixels):
    write(tmp_path / "val.parquet", [encoded(pixels[0])], [0])
    assert len(load(tmp_path, "test", **PLAIN)) == 1


def test_only_wanted_rows_are_decoded_and_once(parquet_folder, monkeypatch):
    data = load(parquet_folder("cifar10"))
    decoded = []
    original = decoding.decoded
    monkeypatch.setattr(decoding, "decoded", lambda *a, **k: decoded.append(a[1]) or original(*a, **k))
    data.pixels([1, 1])
    data.pixels([1])
    assert [name.split(" of ")[0] for name in decoded] == ["row 1"]


def test_without_room_nothing_is_kept(parquet_folder, monkeypatch, pixels):
    monkeypatch.setattr(decoding, "KEPT", 0)
    data = load(parquet_folder("cifar10"))
    assert np.array_equal(data.pixels([2, 0]).numpy(), pixels[[2, 0]].transpose(0, 3, 1, 2))


def test_images_of_another_size_name_the_row(tmp_path, pixels):
    write(tmp_path / "train.parquet", [encoded(pixels[0]), encoded(pixels[1, :, :5])], [0, 1])
    data = load(tmp_path, **PLAIN)
    data.pixels([0])
    with pytest.raises(ValueError, match=r"row 1 of .* is 5x4 pixels, but row 0 is 6x4: give the size .* --size"):
        data.pixels([0, 1])
    assert load(tmp_path, **PLAIN, size=4).pixels([0, 1]).shape == (2, 3, 4, 4)


def damaged_images(pixels):
    whole = encoded(pixels)
    yield "empty", None, "row 1 of .* has no image bytes"
    yield "no image", b"hello", "row 1 of .* cannot be decoded as an image"
    yield "truncated", whole[: len(whole) // 2], "row 1 of .* cannot be decoded as an image"
    jpeg = encoded(pixels, "JPEG")
    yield "truncated jpeg", jpeg[:-30], "row 1 of .* cannot be decoded as an image"
    tiff = io.BytesIO()
    Image.fromarray(pixels).save(tiff, "TIFF")
    yield "format not wanted", tiff.getvalue(), "row 1 of .* cannot be decoded as an image"
    for side, message in ((20_000, "cannot be decoded|are refused"), (9_000, "are refused")):
        yield f"bomb {side}", bomb(side), message


def bomb(side: int) -> bytes:
    """A PNG whose header announces side x side pixels, with next to no data."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


NAMES = ["empty", "no image", "truncated", "truncated jpeg", "format not wanted", "bomb 20000", "bomb 9000"]


@pytest.mark.parametrize("case", range(len(NAMES)), ids=NAMES)
def test_damaged_images_name_the_row(tmp_path, pixels, case):
    name, data, message = list(damaged_images(pixels[0]))[case]
    assert name == NAMES[case]
    write(tmp_path / "train.parquet", [encoded(pixels[0]), data], [0, 1])
    images = load(tmp_path, **PLAIN)
    with pytest.raises(ValueError, match=message):
        images.pixels([1])
    assert images.pixels([0]).shape == (1, 3, 4, 6)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, -1, 1], "row 1 of .* has the label -1"),
        ([0, 2**60, 1], "row 1 of .* has the label"),
        ([0, None, 1], "row 1 of .* has no label"),
        ([0.0, 1.0, 2.0], "has type double: labels must be integers"),
        (["a", "b", "c"], "labels must be integers"),
    ],
)
def test_unusable_labels(tmp_path, pixels, labels, message):
    write(tmp_path / "train.parquet", [encoded(image) for image in pixels], labels)
    with pytest.raises(ValueError, match=message):
        load(tmp_path, **PLAIN)


def test_missing_columns_and_wrong_types(tmp_path, pixels):
    write(tmp_path / "train.parquet", [encoded(pixels[0])], [0], ("image", "class"))
    with pytest.raises(ValueError, match="has no column 'label', only: image, class"):
        load(tmp_path, **PLAIN)
    write(tmp_path / "train.parquet", [encoded(pixels[0])], [0], ("picture", "label"))
    with pytest.raises(ValueError, match="has no column 'image', only: picture, label"):
        load(tmp_path, **PLAIN)
    pq.write_table(pa.table({"image": ["a.png"], "label": [0]}), tmp_path / "train.parquet")
    with pytest.raises(ValueError, match="column 'image' of .* has type string"):
        load(tmp_path, **PLAIN)


def test_no_rows(tmp_path):
    empty = pa.table({"image": pa.array([], pa.struct([("bytes", pa.binary())])), "label": pa.array([], pa.int64())})
    pq.write_table(empty, tmp_path / "train.parquet")
    with pytest.raises(ValueError, match="holds no rows"):
        load(tmp_path, **PLAIN)


@pytest.mark.parametrize("keep", [0, 10, 0.5, -20])
def test_damaged_parquet_file(parquet_folder, keep):
    folder = parquet_folder("cifar10")
    path = folder / "train.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if 0 < keep < 1 else keep])
    with pytest.raises(ValueError, match=r"train.parquet is not a readable parquet file"):
        load(folder)


def test_damaged_parquet_pages(parquet_folder):
    """Noise in the pages under a right footer: an error of ours or pixels, never another exception."""
    folder = parquet_folder("cifar10")
    path = folder / "train.parquet"
    content = bytearray(path.read_bytes())
    draw = np.random.default_rng(0)
    for _ in range(30):
        noisy = content.copy()
        for offset in draw.integers(4, len(content) // 2, 8):
            noisy[offset] = draw.integers(256)
        path.write_bytes(noisy)
        try:
            assert load(folder).images.dtype == torch.uint8
        except ValueError as error:
            assert len(str(error)) > 20
