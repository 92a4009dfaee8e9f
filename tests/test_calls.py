"""Calls that cannot be meant are refused in one sentence, whichever method is called."""

import pytest
import torch

from retrofit_core import METHODS
from retrofit_core.cli import main
from retrofit_core.fusion.grouping.assignment import assigned
from tests.marks import each_case
from tests.networks import digits_parents, mlp, normal
from tests.properties import assert_same_function

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


# --- methods that combine weights or outputs need no data -------------------------------------------------------------


WITHOUT = ("Average", "Ensemble", "Ensemble-Logits")


def test_they_are_those_whose_result_does_not_depend_on_data():
    assert set(WITHOUT) == {name for name, method in METHODS.items() if not method.takes.uses_data}


@pytest.mark.parametrize("name", WITHOUT)
def test_the_network_is_that_with_data(name):
    models, x = [mlp(), mlp(seed=2)], normal(40, 6)
    bare, given = (METHODS[name](models, *data) for data in ((), (x,)))
    assert_same_function(bare.model, given.model, x, 0)
    assert METHODS[name].plan(models).lines()[0] == "2 parents (Sequential), no data"
    assert "data" not in METHODS[name].help().splitlines()[2]


@pytest.mark.parametrize("name", [name for name in METHODS if name not in WITHOUT])
def test_others_ask_for_data(name):
    with pytest.raises(ValueError, match=f"^{name} fuses on data. Pass a tensor"):
        METHODS[name]([mlp(), mlp(seed=2)])


@pytest.mark.slow
def test_the_command_asks_for_no_splits(tmp_path):
    parents = digits_parents(tmp_path, widths=[4, 5, 6])
    words = ["fuse", *parents["models"], "--method", "average", "--out", str(tmp_path / "average.safetensors")]
    assert main(words) == 0


# --- sums that overflow are refused in a sentence of ours that names the place, whichever method makes ----------------


METHODS_WITH_SUMS = (
    *("HF-Linear", "KF-Linear", "HF-Gradient", "KF-Gradient", "OTFusion", "Transformer-OTFusion"),
    *("Git-Re-Basin", "ZipIt", "PLeaS", "RegMean"),
)


@pytest.mark.slow
@each_case("dtype, scale", [(torch.float32, 1e22), (torch.float64, 1e170)])
@each_case("method", METHODS_WITH_SUMS)
def test_overflowing_sums_are_refused(method, dtype, scale):
    """Where the networks' own numbers are too large; such samples are refused before any work."""
    parents = [mlp(seed=seed).to(dtype) for seed in (0, 1)]
    for parent in parents:
        with torch.no_grad():
            next(parent.parameters()).mul_(scale)
    options = {"epochs": 1} if method.endswith("Gradient") else {}
    with pytest.raises(ValueError, match="at '.*' sums over the fusion data overflow or hold NaN"):
        METHODS[method](parents, normal(40, 6).to(dtype), device="cpu", **options)


def test_costs_that_are_not_finite_are_refused():
    for wrong in (float("inf"), float("nan")):
        with pytest.raises(ValueError, match="costs of matching neurons overflow"):
            assigned(torch.tensor([[0.0, wrong], [1.0, 2.0]]))
