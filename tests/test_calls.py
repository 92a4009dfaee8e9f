"""Calls that cannot be meant are refused in one sentence, whichever method is called."""

import pytest

from retrofit_core import METHODS
from tests.marks import each_case
from tests.networks import mlp, normal

X = normal(20, 6)


def pair():
    return [mlp(), mlp(seed=2)]


@each_case("name", METHODS)
def test_an_unknown_keyword_lists_the_methods_own(name):
    keyword = "combination_of_nothing"
    with pytest.raises(ValueError, match=f"unknown keyword of {name}: {keyword!r}. Known: .*seed"):
        METHODS[name](pair(), X, **{keyword: 1})
    with pytest.raises(ValueError, match="Did you mean 'monitor'"):
        METHODS[name](pair(), X, monitr=None)


@each_case("name", METHODS)
def test_the_parents_are_a_list_of_modules(name):
    for models, message in (
        (mlp(), "the parents are Sequential, not a list"),
        ((model for model in pair()), "the parents are generator, not a list"),
        (["a.safetensors", mlp()], "parent 0 is str, not a torch.nn.Module. Read checkpoints with load_model"),
        ([], "there is no parent to fuse"),
    ):
        with pytest.raises(ValueError, match=message):
            METHODS[name](models, X)


def test_names_are_found_in_any_case_and_the_nearest_is_named():
    assert METHODS["kf-linear"] is METHODS["KF-Linear"]
    with pytest.raises(ValueError, match="unknown method 'KF-Lineer'. .*Did you mean 'KF-Linear'"):
        METHODS["KF-Lineer"]
    assert "KF-Lineer" not in METHODS
