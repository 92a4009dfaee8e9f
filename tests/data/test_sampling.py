"""Balanced samples."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrofit_core.data.sampling import balanced


@given(st.data())
def test_counts_are_as_equal_as_the_classes_allow(data):
    labels = torch.tensor(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=60)))
    rows = torch.tensor(data.draw(st.lists(st.integers(0, len(labels) - 1), min_size=1, unique=True)))
    n = data.draw(st.integers(1, len(rows)))
    seed = data.draw(st.integers(0, 5))
    drawn = balanced(labels, n, rows=rows, generator=torch.Generator().manual_seed(seed))
    assert len(set(drawn.tolist())) == n
    assert set(drawn.tolist()) <= set(rows.tolist())
    available = torch.bincount(labels[rows], minlength=5)
    counts = torch.bincount(labels[drawn], minlength=5)
    # A class below the largest count by more than one must have given all its rows.
    short = counts < counts.max() - 1
    assert torch.equal(counts[short], available[short])


def test_draws_depend_on_the_generator_only(generator):
    labels = torch.arange(1000) % 10
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = balanced(labels, 50, generator=generator)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(first, balanced(labels, 50, generator=generator))
    assert torch.equal(first, balanced(labels, 50, generator=generator.manual_seed(0)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 11}, "11 samples cannot be drawn from 10 rows: take 1 to 10"),
        ({"n": 0}, "take 1 to 10"),
        ({"n": 3, "rows": torch.tensor([1, 2])}, "3 samples cannot be drawn from 2 rows"),
        ({"n": 1, "rows": torch.tensor([10])}, r"not all in 0..9"),
        ({"n": 1, "rows": torch.tensor([-1])}, r"not all in 0..9"),
    ],
)
def test_impossible_draws(arguments, message):
    with pytest.raises(ValueError, match=message):
        balanced(torch.zeros(10, dtype=torch.int64), **arguments)
