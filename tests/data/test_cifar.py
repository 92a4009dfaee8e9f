"""CIFAR's pickles: what is read, and that nothing in them is ever run."""

import io
import os
import pickle
import pickletools
import struct
import tracemalloc
import warnings

import numpy as np
import pytest
import torch

from retrofit_core.data import cifar, load
from tests.marks import each_case


def batch(n=4, seed=0, classes=10, labels="labels"):
    draw = np.random.default_rng(seed)
    data = draw.integers(0, 256, (n, 3072), dtype=np.uint8)
    return {b"data": data, labels.encode(): draw.integers(0, classes, n).tolist(), b"batch_label": b"one"}


class PythonTwo(pickle._Pickler):
    """Writes bytes as Python 2 wrote its strings, which is what the official files hold."""

    def save_string(self, text):
        self.write(b"T" + struct.pack("<i", len(text)) + text)
        self.memoize(text)

    dispatch = {**pickle._Pickler.dispatch, bytes: save_string}


def dumped(content, protocol=2):
    if protocol != 2:
        return pickle.dumps(content, protocol=protocol)
    file = io.BytesIO()
    PythonTwo(file, 2).dump(content)
    return file.getvalue()


def write(path, content, protocol=2):
    path.parent.mkdir(parents=True, exist_ok=True)
    program = content if isinstance(content, bytes) else dumped(content, protocol)
    # The official files were written when numpy's own module had this name.
    path.write_bytes(program.replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"))


def cifar10(folder, **changed):
    contents = {f"data_batch_{k}": batch(seed=k) for k in range(1, 6)} | {"test_batch": batch(3, seed=9)} | changed
    for name, content in contents.items():
        write(folder / "cifar-10-batches-py" / name, content)
    return contents


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-py"])
def test_cifar10_is_read_as_its_batches_in_order(tmp_path, inner):
    contents = cifar10(tmp_path)
    train, test = load(tmp_path / inner), load(tmp_path / inner, "test")
    assert (train.name, train.shape, len(train), len(test)) == ("cifar10", (3, 32, 32), 20, 3)
    parts = [contents[f"data_batch_{k}"] for k in range(1, 6)]
    assert train.labels.tolist() == [label for part in parts for label in part[b"labels"]]
    expected = np.concatenate([part[b"data"] for part in parts])
    # Written out: a row is the red plane, then the green and the blue one, each row by row.
    for row, channel, y, x in [(0, 0, 0, 0), (5, 1, 3, 31), (19, 2, 31, 0)]:
        assert train.images[row, channel, y, x] == expected[row, channel * 1024 + y * 32 + x]
    assert train.classes[3] == "cat"


def test_cifar10_agrees_with_torchvision(tmp_path, monkeypatch):
    from torchvision.datasets import CIFAR10

    cifar10(tmp_path)
    write(tmp_path / "cifar-10-batches-py" / "batches.meta", {b"label_names": list("abcdefghij")})
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *_: True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = CIFAR10(str(tmp_path))
    assert np.array_equal(load(tmp_path).images.permute(0, 2, 3, 1).numpy(), theirs.data)
    assert load(tmp_path).labels.tolist() == theirs.targets


def test_cifar100_takes_the_fine_labels(tmp_path):
    content = batch(classes=100, labels="fine_labels") | {b"coarse_labels": [0] * 4}
    for name in ("train", "test", "meta"):
        write(tmp_path / "cifar-100-python" / name, content)
    for folder in (tmp_path, tmp_path / "cifar-100-python"):
        data = load(folder)
        assert data.name == "cifar100" and len(data.classes) == 100
        assert data.labels.tolist() == content[b"fine_labels"]
    with pytest.raises(ValueError, match="holds no val split"):
        load(tmp_path, "val")


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_all_protocols_and_text_keys(tmp_path, protocol):
    content = {key.decode(): value for key, value in batch().items()}
    write(tmp_path / "batch", content, protocol)
    pixels, labels = cifar._batch(tmp_path / "batch", "labels")
    assert np.array_equal(pixels, content["data"]) and labels.tolist() == content["labels"]


def test_fortran_order(tmp_path):
    content = batch() | {b"data": np.asfortranarray(batch()[b"data"])}
    write(tmp_path / "batch", content)
    assert np.array_equal(cifar._batch(tmp_path / "batch", "labels")[0], batch()[b"data"])


class Attack:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    "attack",
    [
        lambda marker: batch() | {b"x": Attack(os.mkdir, marker)},
        lambda marker: batch() | {b"x": Attack(eval, f"__import__('os').mkdir({marker!r})")},
        lambda marker: b"\x80\x02cbuiltins\ngetattr\ncos\nmkdir\n\x86R.",
        lambda marker: batch() | {b"x": Attack(np.save, marker, 1)},
    ],
    ids=["mkdir", "eval", "getattr", "numpy.save"],
)
def test_nothing_is_called(tmp_path, attack):
    marker = str(tmp_path / "was here")
    cifar10(tmp_path, data_batch_3=attack(marker))
    with pytest.raises(ValueError, match="data_batch_3 is damaged, or holds other Python objects .* never loaded"):
        load(tmp_path)
    assert not os.path.exists(marker)


def test_stand_ins_cannot_be_changed_by_a_pickle(tmp_path):
    """BUILD with a slot state sets attributes: on a class it would change every later reading."""
    for module, name in cifar.STAND_INS:
        program = b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"N}X\x06\0\0\0statesK\x05s\x86b."
        write(tmp_path / "batch", program)
        with pytest.raises(ValueError, match="batch is damaged"):
            cifar._batch(tmp_path / "batch", "labels")
        assert not hasattr(cifar.STAND_INS[module, name], "states")


def test_memory_is_not_filled(tmp_path):
    """The memo's highest number, and lengths beyond the file."""
    hostile = [
        b"\x80\x02Nr" + struct.pack("<I", 2**24) + b".",  # the C interpreter would make room for so many objects
        b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x.",
        b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"N.",
        b"",
        b"\x80",
        b"\x80\xff.",
    ]
    tracemalloc.start()
    try:
        for program in hostile:
            write(tmp_path / "batch", program)
            with pytest.raises(ValueError, match="batch is"):
                cifar._batch(tmp_path / "batch", "labels")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@each_case(
    ("content", "message"),
    [
        ([1, 2], "holds no table"),
        ({b"data": np.zeros((1, 3072), np.uint8)}, "needs an array 'data' and a list 'labels'"),
        ({b"data": b"x" * 3072, b"labels": [1]}, "needs an array 'data'"),
        ({b"data": np.zeros((1, 3072)), b"labels": [1]}, "no rows of 3072 unsigned bytes"),
        ({b"data": np.zeros((1, 3072), np.int8), b"labels": [1]}, "no rows of 3072 unsigned bytes"),
        ({b"data": np.zeros((1, 3071), np.uint8), b"labels": [1]}, "no rows of 3072 unsigned bytes"),
        ({b"data": np.zeros(3072, np.uint8), b"labels": [1]}, "no rows of 3072 unsigned bytes"),
        ({b"data": np.zeros((0, 3072), np.uint8), b"labels": []}, "no rows of 3072 unsigned bytes"),
        ({b"data": np.array([[{}] * 3072]), b"labels": [1]}, "no rows of 3072 unsigned bytes"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}, "holds 2 images but 1 labels"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": [-1]}, "row 0 .* has the label -1"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": [True]}, "row 0 .* has the label True"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": ["cat"]}, "row 0 .* has the label"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": [2**70]}, "row 0 .* has the label"),
    ],
)
def test_unusable_contents(tmp_path, content, message):
    write(tmp_path / "batch", content)
    with pytest.raises(ValueError, match=message):
        cifar._batch(tmp_path / "batch", "labels")


def test_labels_above_the_number_of_classes(tmp_path):
    cifar10(tmp_path, data_batch_1=batch() | {b"labels": [0, 1, 10, 2]})
    with pytest.raises(ValueError, match="row 2 of data set 'cifar10' has the label 10, but it has 10 classes"):
        load(tmp_path)


def test_damaged_anywhere_is_an_error_or_pixels(tmp_path):
    whole = dumped(batch(1))
    program = [offset for _, _, offset in pickletools.genops(whole)]
    draw = np.random.default_rng(0)
    for offset in program:
        noisy = bytearray(whole)
        noisy[offset] = draw.integers(256)
        write(tmp_path / "batch", bytes(noisy))
        try:
            pixels, labels = cifar._batch(tmp_path / "batch", "labels")
            assert pixels.shape == (1, 3072) and labels.dtype == torch.int64
        except ValueError as error:
            assert "batch" in str(error)
    for cut in range(0, len(whole), 97):
        write(tmp_path / "batch", whole[:cut])
        with pytest.raises(ValueError, match="batch is"):
            cifar._batch(tmp_path / "batch", "labels")


def test_two_data_sets_in_one_folder(tmp_path):
    cifar10(tmp_path)
    for name in ("train", "test", "meta"):
        write(tmp_path / "cifar-100-python" / name, batch(labels="fine_labels"))
    with pytest.raises(ValueError, match="holds several data sets .*give the folder of one"):
        load(tmp_path)
    assert load(tmp_path / "cifar-10-batches-py").name == "cifar10"


def test_a_missing_batch_says_so(tmp_path):
    cifar10(tmp_path / "cifar10")
    (tmp_path / "cifar10" / "cifar-10-batches-py" / "data_batch_4").unlink()
    with pytest.raises(ValueError, match="holds no train split.* For cifar10, `retrofit data cifar10` downloads"):
        load(tmp_path / "cifar10")
