"""IDX files: both layouts, packed or not, and what is refused."""

import gzip
import struct

import pytest
import torch

from retrofit_core.data import load
from tests.marks import each_case

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def idx(*sizes, body=None, magic=None):
    total = torch.Size(sizes).numel()
    header = struct.pack(f">{1 + len(sizes)}I", magic or 0x800 + len(sizes), *sizes)
    return header + (bytes(i % 10 for i in range(total)) if body is None else body)


def put(folder, images=None, labels=None, packed=False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in ((IMAGES, images or idx(3, 4, 4)), (LABELS, labels or idx(3))):
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


@each_case("packed", [True, False])
@each_case("subfolder", ["", "raw", "MNIST/raw"])
def test_layouts(tmp_path, packed, subfolder):
    put(tmp_path / "mnist" / subfolder, packed=packed)
    data = load(tmp_path / "mnist")
    assert data.shape == (1, 4, 4) and data.name == "mnist" and data.labels.tolist() == [0, 1, 2]
    assert data.images[1, 0, 0].tolist() == [6, 7, 8, 9]


def test_name_comes_from_the_folder_of_raw(tmp_path):
    put(tmp_path / "FashionMNIST" / "raw")
    assert load(tmp_path).name == "fashion-mnist"
    assert load(tmp_path / "FashionMNIST" / "raw").classes[0] == "T-shirt/top"


@pytest.mark.slow
@each_case(
    ("files", "message"),
    [
        ({"images": idx(3, 4, 4)[:-1]}, "not a whole IDX file .* 0x00000803 and the size 3x4x4"),
        ({"images": idx(3, 4, 4) + bytes(50_000_000)}, "not a whole IDX file"),
        ({"images": idx(3, 4, 4)[:9]}, "cannot be read"),
        ({"images": idx(3, 4, 4, magic=0x801)}, "not a whole IDX file .* 0x00000801"),
        ({"labels": idx(3, magic=0xD01)}, "not a whole IDX file of unsigned bytes with 1 dim.* 0x00000d01"),
        ({"labels": idx(4)}, "holds 3 images but .* holds 4 labels"),
        ({"images": idx(2**31, 2**31, 2**31, body=b"")}, "cannot be read"),
        ({"images": idx(2**20, 2**20, 2**10, body=b"")}, "cannot be read|not a whole"),
        ({"images": idx(0, 4, 4)}, "not a whole IDX file"),
        ({"labels": idx(3, body=bytes([0, 250, 1]))}, "row 1 of data set 'mnist' has the label 250"),
    ],
)
def test_damaged_files(tmp_path, files, message):
    put(tmp_path / "mnist", packed=True, **files)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "mnist")


def test_damaged_gzip(tmp_path):
    put(tmp_path / "mnist", packed=True)
    path = tmp_path / "mnist" / f"{IMAGES}.gz"
    whole = path.read_bytes()
    for content in (b"not gzip", whole[:-12], whole[:20] + b"\xff" * 5 + whole[25:]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="cannot be read|not a whole"):
            load(tmp_path / "mnist")
