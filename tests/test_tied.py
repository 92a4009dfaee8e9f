"""Tied layers, embedding and head or autoencoders: twins in another order are found, or refused with a way out."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core.fusion.task import Task
from retrofit_core.methods import METHODS
from tests.families import TIED
from tests.marks import each_case, spread
from tests.properties import assert_close, repair
from tests.test_twins import twins

HEAD = "tied head"


@each_case("method", ["OTFusion-Weights", "Git-Re-Basin", "ZipIt", "HF-Linear", "KF-Linear"])
def test_a_head_that_is_the_table_stays_it(method):
    """tests/test_twins.py says that the twin is found."""
    model, twin, x = twins(HEAD)
    fused = METHODS[method]([model, twin], x, device="cpu").model
    assert fused.head.weight is fused.emb.weight and fused.head.weight is not model.head.weight


@pytest.mark.slow
@each_case("name, method", spread(TIED, ["PLeaS", "RegMean"], 1))
def test_methods_that_solve_layers_by_themselves_refuse_and_what_they_name_works(name, method):
    model, twin, x = twins(name)
    with pytest.raises(ValueError, match=r"Use Git-Re-Basin, OTFusion or ZipIt, which keep it shared") as refusal:
        METHODS[method]([model, twin], x, device="cpu")
    for other in ("Git-Re-Basin", "OTFusion", "ZipIt"):
        assert other in str(refusal.value)
        with torch.no_grad():
            assert_close(METHODS[other]([model, twin], x, device="cpu").model(x), model(x), 1e-6)


def test_levels_refuse_and_one_level_by_gradient_works():
    model, twin, x = twins("autoencoder, t()")
    with pytest.raises(ValueError, match="tied weights cannot be fitted one level at a time"):
        METHODS["KF-Linear"]([model, twin], x, device="cpu")
    assert (
        METHODS["KF-Gradient"]([model, twin], x, device="cpu", boundaries=1, epochs=1).model(x).shape == model(x).shape
    )


@pytest.mark.parametrize("method", ["OTFusion", "ZipIt"])
def test_other_widths_are_refused_before_any_work(method):
    model, twin, x = twins(HEAD)
    narrow = TIED[HEAD]()
    narrow.emb, narrow.up, narrow.down = nn.Embedding(7, 5), nn.Linear(5, 6), nn.Linear(6, 5)
    narrow.head = nn.Linear(5, 7, bias=False)
    narrow.head.weight = narrow.emb.weight
    with pytest.raises(ValueError, match=r"'emb.weight' both makes and reads the neurons at .* equal widths"):
        METHODS[method]([model, twin], x, target=narrow.double(), device="cpu")


def test_repair_leaves_tied_layers_alone():
    model, _, x = twins(HEAD)
    merged = copy.deepcopy(model)
    with torch.no_grad():
        merged.up.weight.mul_(0.5)
        merged.down.weight.mul_(0.5)
    before = merged.emb.weight.detach().clone()
    task = Task.of([model, merged], x)
    (first, repaired), inputs = task.parents, task.inputs
    facts = repair(repaired, [first], inputs)
    assert facts["layers"] == 2 and torch.equal(repaired.get_parameter("emb.weight"), before)
    with torch.no_grad():
        assert_close(repaired(x), model(x), 1e-6)
