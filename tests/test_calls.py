"""Calls that cannot be meant are refused in one sentence, whichever method is called."""

import re

import numpy as np
import pytest
import torch

from retrofit_core import METHODS, fuse
from retrofit_core.cli import main
from retrofit_core.system.device import in_units
from tests.marks import each_case
from tests.networks import digits_parents, mlp, normal

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


def test_fuse_itself_asks_for_a_list_too():
    with pytest.raises(ValueError, match="not a list"):
        fuse(mlp(), X)


def test_arrays_are_as_good_as_tensors():
    labels = torch.arange(20) % 4
    outputs = [
        METHODS["KF-Linear"](pair(), data, importance="conductance", importance_data="fusion").model(X)
        for data in ((X, labels), (X.numpy(), labels.numpy()))
    ]
    assert torch.equal(*outputs)
    assert torch.equal(METHODS["Average"](pair(), X.numpy()).model(X), METHODS["Average"](pair(), X).model(X))


@pytest.mark.parametrize("name", ["KF-Linear", "OTFusion"])
def test_labels_are_whole_numbers(name):
    samples = [(X, torch.rand(20, generator=torch.Generator().manual_seed(0)))] * 2
    with pytest.raises(ValueError, match=r"'conductance': the labels are torch.float32, but classes are whole numbers"):
        METHODS[name](pair(), X, importance="conductance", importance_data=samples)


def test_names_are_found_in_any_case_and_the_nearest_is_named():
    assert METHODS["kf-linear"] is METHODS["KF-Linear"]
    with pytest.raises(ValueError, match="unknown method 'KF-Lineer'. .*Did you mean 'KF-Linear'"):
        METHODS["KF-Lineer"]
    assert "KF-Lineer" not in METHODS


def test_shares_name_their_keyword():
    with pytest.raises(ValueError, match="Ensemble-Shares .* Pass class_shares="):
        METHODS["Ensemble-Shares"](pair(), X)


def test_bytes_have_a_fitting_unit():
    assert [in_units(count) for count in (300, 12_345, 1_130_000_000)] == ["300 bytes", "12 kB", "1,130 MB"]
    with pytest.raises(ValueError, match="but the budget is 1 kB") as refusal:
        METHODS["KF-Linear"](pair(), X, memory=1000)
    assert re.search(r"needs \d+ (bytes|kB) for its sums", str(refusal.value))


@pytest.mark.slow
def test_methods_without_levels_show_no_table_of_levels(tmp_path, capsys):
    parents = digits_parents(tmp_path, widths=[4, 5, 6])
    words = ["fuse", *parents["models"], "--splits", parents["splits"], "--samples", "40", "--device", "cpu"]
    words += ["--out", str(tmp_path / "fused.safetensors"), "--overwrite"]
    assert main([*words, "--method", "lp", "--epochs", "1"]) == 0
    shown = capsys.readouterr().out
    assert "grouping" not in shown and "uniform" not in shown and "Fused 2 parents" in shown
    assert main(words) == 0
    assert "KF-Linear, uniform" in capsys.readouterr().out


def test_integer_arrays_are_no_inputs():
    with pytest.raises(ValueError, match="torch.uint8, not floating-point"):
        METHODS["KF-Linear"](pair(), np.zeros((20, 6), dtype=np.uint8))
