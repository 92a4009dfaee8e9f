"""Splits are read and decoded once in a process, as long as their files do not change."""

import os

import pytest

from retrofit_core.data import decoding, load, splitfiles
from tests.data.conftest import encoded, write


@pytest.fixture
def decodings(monkeypatch):
    """Names of the images that were decoded, in order."""
    names = []

    def counting(data, where, shape, fit, decoded=decoding.decoded):
        names.append(where)
        return decoded(data, where, shape, fit)

    monkeypatch.setattr(decoding, "decoded", counting)
    monkeypatch.setattr(splitfiles, "_kept", type(splitfiles._kept)())
    return names


def aged(folder, monkeypatch):
    """The folder, whose files look as if they had changed long ago."""
    monkeypatch.setattr("retrofit_core.system.files.SETTLED", -1.0)
    return folder


def test_a_split_is_decoded_once(parquet_folder, decodings, monkeypatch):
    folder = aged(parquet_folder("mine"), monkeypatch)
    first, second = load(folder), load(folder)
    assert (first.images == second.images).all() and len(decodings) == 3
    first.labels.zero_()  # no one else's
    first.pixels([0]).zero_()
    assert load(folder).labels.tolist() == [0, 1, 2] and (load(folder).images == second.images).all()
    assert load(folder, size=4).images.shape == (3, 3, 4, 4) and len(decodings) == 6


def test_a_changed_file_is_read_again(parquet_folder, pixels, decodings, monkeypatch):
    folder = aged(parquet_folder("mine"), monkeypatch)
    before = load(folder).images
    write(folder / "train.parquet", [encoded(255 - image) for image in pixels], [2, 1, 0])
    os.utime(folder / "train.parquet", ns=(0, 0))
    assert (load(folder).images == 255 - before).all() and load(folder).labels.tolist() == [2, 1, 0]


def test_what_has_just_changed_is_read_every_time(parquet_folder, decodings):
    """The next change might have the same time."""
    folder = parquet_folder("mine")
    for _ in range(2):
        load(folder, mean=0.5, std=0.5).pixels()
    assert len(decodings) == 6


def test_kept_splits_are_bounded_and_the_last_used_stay(parquet_folder, decodings, monkeypatch):
    monkeypatch.setattr(splitfiles, "KEPT", 2)
    folders = [aged(parquet_folder(name), monkeypatch) for name in ("a", "b", "c")]
    for folder in (folders[0], folders[1], folders[0], folders[2]):
        load(folder).pixels()
    assert len(decodings) == 9
    load(folders[0]).pixels()
    assert len(decodings) == 9
    load(folders[1]).pixels()
    assert len(decodings) == 12
