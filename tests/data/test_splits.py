"""Splits: what every drawn split keeps, and files of splits."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core.data.splits import SPLITS, dirichlet, full, read_splits, sharded, write_splits
from retrofit_core.system.registry import find
from tests.marks import each_case

label_sets = st.lists(st.integers(0, 6), min_size=1, max_size=80).map(torch.tensor)


def assert_partition(parts, n_rows):
    """Disjoint, together all rows, ascending."""
    assert torch.cat(parts).sort().values.tolist() == list(range(n_rows))
    assert all(torch.equal(part, part.sort().values) and part.dtype == torch.int64 for part in parts)


@given(label_sets, st.integers(1, 6), st.integers(0, 99))
def test_sharded_parts_share_no_class(labels, n_parts, seed):
    present = set(labels.tolist())
    if n_parts > len(present):
        message = "are too few for|cannot be split"
        with pytest.raises(ValueError, match=message):
            sharded(labels, n_parts, seed=seed)
        return
    parts = sharded(labels, n_parts, seed=seed)
    assert_partition(parts, len(labels))
    classes = [set(labels[part].tolist()) for part in parts]
    assert sum(map(len, classes)) == len(present) == len(set().union(*classes))
    assert max(map(len, classes)) - min(map(len, classes)) <= 1


@given(label_sets, st.integers(1, 6), st.integers(0, 99), st.floats(0.01, 1))
def test_dirichlet_parts_are_a_partition(labels, n_parts, seed, ratio):
    try:
        parts = dirichlet(labels, n_parts, seed=seed, ratio=ratio)
    except ValueError as error:
        assert "got no rows" in str(error) or "cannot be split" in str(error)
        return
    assert len(parts) == n_parts
    assert_partition(parts, len(labels))


@pytest.mark.parametrize("name", SPLITS)
def test_splits_repeat_by_their_seed(name):
    labels = torch.arange(500) % 10
    split = find(SPLITS, name, "split")

    def drawn(seed):
        return torch.cat(split(labels, 3, seed=seed)).tolist()

    assert drawn(1) == drawn(1)
    assert drawn(1) == drawn(np.random.default_rng(1))
    assert (drawn(1) != drawn(2)) == (name != "full")


def test_dirichlet_shares_follow_the_concentrations():
    """Over many classes a part has the mean share 1/n_parts, with the spread of the Dirichlet draws."""
    labels = torch.arange(400).repeat(100)
    parts = dirichlet(labels, 2, seed=0)
    shares = torch.bincount(labels[parts[0]], minlength=400) / 100
    assert shares.mean().item() == pytest.approx(0.5, abs=0.05)
    # Beta(1, 5) or Beta(5, 1), half each: means 1/6 and 5/6, variance of each 5/252.
    assert shares.var().item() == pytest.approx((1 / 3) ** 2 + 5 / 252, rel=0.15)


@each_case(
    ("call", "message"),
    [
        (lambda labels: dirichlet(labels, 2, ratio=0), r"in \(0, 1\]. Found 0"),
        (lambda labels: sharded(labels, 4), "3 classes are too few for 4 parts"),
        (
            lambda labels: sharded(labels, 2, shards=[[0], [1]]),
            r"each of the classes \[0, 1, 2\] once. Found \[\[0\], \[1\]",
        ),
        (lambda labels: sharded(labels, 2, shards=[[0, 1, 2]]), "each of 2 parts"),
        (lambda labels: full(labels, 0), "cannot be split into 0 parts"),
        (lambda labels: dirichlet(labels, 99), "cannot be split into 99 parts"),
    ],
)
def test_impossible_splits(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.tensor([0, 1, 2, 0, 1, 2]))


FILES = ["a.safetensors", "b.safetensors"]


@pytest.fixture
def split_file(tmp_path):
    labels = torch.arange(20) % 4
    parts = sharded(labels, 2)
    write_splits(tmp_path / "s.json", parts, labels, model_files=FILES, split="sharded", training_set="toy")
    return tmp_path / "s.json", parts


def test_written_splits_are_read_back(split_file, tmp_path):
    path, parts = split_file
    assert [rows.tolist() for rows in read_splits(path, FILES, 20)] == [rows.tolist() for rows in parts]
    content = json.loads(path.read_text())
    assert content["parts"][0]["n_train"] == 10 and sum(content["parts"][0]["class_counts"]) == 10
    assert list(tmp_path.iterdir()) == [path]  # no temporary file is left


def test_parts_are_matched_by_file_name_else_by_order(split_file):
    path, parts = split_file
    swapped = read_splits(path, ["x/b.safetensors", "y/a.safetensors"], 20)
    assert [rows.tolist() for rows in swapped] == [parts[1].tolist(), parts[0].tolist()]
    renamed = read_splits(path, ["c.safetensors", "d.safetensors"], 20)
    assert [rows.tolist() for rows in renamed] == [rows.tolist() for rows in parts]
    assert read_splits(path, ["b.safetensors"], 20)[0].tolist() == parts[1].tolist()
    with pytest.raises(
        ValueError, match="parts of a.safetensors, b.safetensors, and the checkpoints are a.safetensors, c.safetensors"
    ):
        read_splits(path, ["a.safetensors", "c.safetensors"], 20)
    with pytest.raises(ValueError, match="the checkpoints are c, d, e"):
        read_splits(path, ["c", "d", "e"], 20)


@each_case(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ('{"parts": []}', 'has no "parts"'),
        ('{"parts": [{"model": "a"}, {}]}', 'part 0 of .* has no "train_rows"'),
        ('{"parts": [{"train_rows": [0, 1.5]}, {"train_rows": [2]}]}', 'part 0 .* has no "train_rows"'),
        ('{"parts": [{"train_rows": [0]}, {"train_rows": [20]}]}', "part 1 .* has row 20, .* rows 0..19"),
        ('{"parts": [{"train_rows": [1, 1]}, {"train_rows": [2]}]}', "names 1 of its rows twice"),
        ('{"parts": [{"train_rows": [0, 1]}, {"train_rows": [1]}]}', "parts overlap in 1 rows"),
        ('{"parts": [{"train_rows": [0]}]}', "has parts of None, and the checkpoints are"),
    ],
)
def test_damaged_split_files(tmp_path, content, message):
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_splits(tmp_path / "s.json", FILES, 20)


def test_missing_split_file_and_overlap_in_a_full_split(tmp_path):
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_splits(tmp_path / "none.json", FILES, 20)
    labels = torch.zeros(5, dtype=torch.int64)
    write_splits(tmp_path / "s.json", full(labels, 2), labels, split="full")
    assert [len(rows) for rows in read_splits(tmp_path / "s.json", FILES, 5)] == [5, 5]


def test_shards_that_are_said_are_the_parts():
    labels = torch.tensor([2, 0, 1, 1, 3, 0])
    first, second = sharded(labels, 2, seed=5, shards=[[3, 0], [1, 2]])
    assert first.tolist() == [1, 4, 5] and second.tolist() == [0, 2, 3]
