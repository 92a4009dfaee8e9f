"""Weights that cannot be written as they stand: computed ones are refused by whatever writes, shared ones are found."""

import re

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, remove_spectral_norm, remove_weight_norm
from torch.nn.utils import spectral_norm as old_spectral_norm
from torch.nn.utils import weight_norm as old_weight_norm

from retrofit_core.fusion.eligibility import check_inputs
from retrofit_core.methods import METHODS
from retrofit_core.networks.levels import partition
from retrofit_core.networks.symmetry import neuron_groups
from tests.flat import fuse
from tests.marks import each_case
from tests.networks import batchnorm_cnn, initialised, mlp, normal
from tests.properties import assert_close, assert_same_function

pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


def recomputed(layer):
    """A weight that a hook of our own writes before each call."""
    raw = nn.Parameter(layer.weight.detach().clone())
    del layer.weight
    layer.register_parameter("raw", raw)

    def compute(module, _):
        module.weight = module.raw / 2

    layer.register_forward_pre_hook(compute)
    layer.weight = raw.detach() / 2


def pruned(layer):
    prune.l1_unstructured(layer, "weight", 0.4)


KINDS = {
    "weight_norm": (parametrizations.weight_norm, r"\(WeightNorm\).*remove_parametrizations\(.*'2'\), 'weight'\)"),
    "old weight_norm": (old_weight_norm, r"\(weight_norm\).*remove_weight_norm\(.*'2'\), 'weight'\)"),
    "spectral_norm": (parametrizations.spectral_norm, r"\(SpectralNorm\).*remove_parametrizations"),
    "old spectral_norm": (old_spectral_norm, r"\(spectral_norm\).*remove_spectral_norm"),
    "pruning": (pruned, r"\(pruning\).*torch.nn.utils.prune.remove"),
    "own": (lambda layer: parametrize.register_parametrization(layer, "weight", Doubled()), r"\(Doubled\)"),
    "bias": (
        lambda layer: parametrize.register_parametrization(layer, "bias", Doubled()),
        r"\(Doubled\).*remove_parametrizations\(.*'2'\), 'bias'\)",
    ),
    "hook": (recomputed, r"\(its own code\)"),
}
REMOVALS = {
    "weight_norm": lambda layer: parametrize.remove_parametrizations(layer, "weight"),
    "old weight_norm": remove_weight_norm,
    "spectral_norm": lambda layer: parametrize.remove_parametrizations(layer, "weight"),
    "old spectral_norm": remove_spectral_norm,
    "pruning": lambda layer: prune.remove(layer, "weight"),
}
WRITING = sorted(set(METHODS) - {"Ensemble", "Ensemble-Logits", "Ensemble-Shares", "FedAvg"})
DATA = (normal(20, 6), torch.arange(20) % 4)


def with_computed_weight(kind: str, seed: int = 0) -> nn.Module:
    model = mlp(seed=seed)
    KINDS[kind][0](model[2])
    model.eval()
    with torch.no_grad():
        model(normal(2, 6))
    return model


@each_case("kind", KINDS)
def test_the_layer_and_the_way_out_are_named(kind):
    model = with_computed_weight(kind)
    name = "bias" if kind == "bias" else "weight"
    sentence = rf"parent 1: the {name} of layer '2' is computed from other tensors before each call.*{KINDS[kind][1]}"
    with pytest.raises(ValueError, match=r"parent 1: the \w+ of layer '2' is computed"):
        check_inputs([mlp(), model], DATA[0], target=None, least=1, method="anything")
    with pytest.raises(ValueError) as refusal:
        fuse([mlp(), model], DATA, seed=0)
    assert re.search(sentence, str(refusal.value))
    with pytest.raises(ValueError, match="the target: the"):
        fuse([mlp(), mlp(seed=1)], DATA, target=model)


@each_case("method", WRITING)
def test_every_method_that_writes_weights_refuses_computed_ones_before_any_work(method):
    model = with_computed_weight("weight_norm")
    with pytest.raises(ValueError, match="parent 0: the weight of layer '2' is computed from other tensors"):
        METHODS[method]([model, mlp(seed=1)], DATA, **({"base": mlp(seed=2)} if METHODS[method].takes.base else {}))


@pytest.mark.parametrize("kind", REMOVALS)
def test_the_way_out_works(kind):
    model = with_computed_weight(kind)
    with torch.no_grad():
        expected = model(DATA[0])
    REMOVALS[kind](model[2])
    assert_close(model(DATA[0]), expected, 1e-12)
    fused = fuse([model, model], DATA, grouping="hungarian", ridge=0).model
    assert_same_function(model, fused, DATA[0], 1e-8)


def test_a_student_may_not_compute_its_weights():
    """New weights would be written into what is computed, and the student would start as a copy of its model."""
    with pytest.raises(ValueError, match="the target: the weight of layer '2' is computed"):
        METHODS["KD"]([mlp(), mlp(seed=1)], DATA, target=with_computed_weight("spectral_norm"), epochs=1)


@each_case("kind", KINDS)
def test_neuron_groups_are_not_found_in_computed_weights(kind):
    with pytest.raises(ValueError, match=r"Sequential: the \w+ of layer '2' is computed from other tensors"):
        neuron_groups(with_computed_weight(kind), normal(2, 6))


@pytest.mark.parametrize("kind", ["weight_norm", "old weight_norm", "spectral_norm", "old spectral_norm", "pruning"])
def test_a_level_with_a_computed_weight_is_not_affine_and_keeps_its_batchnorm(kind):
    model = batchnorm_cnn()
    KINDS[kind][0](model[4])
    levels = partition(model.eval(), normal(2, 2, 7, 7))
    assert [len(level.folds) for level in levels] == [1, 0, 1, 0]
    assert levels[1].affine is None


class Standardised(nn.Conv2d):
    """Computes its weight inside its forward."""

    def forward(self, x):
        return nn.functional.conv2d(x, self.weight - self.weight.mean((1, 2, 3), keepdim=True), self.bias)


def test_a_layer_with_a_forward_of_its_own_is_not_affine():
    model = initialised(nn.Sequential(Standardised(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(75, 2)), 0)
    levels = partition(model, normal(2, 2, 7, 7), leaves=["0"])
    assert levels[0].affine is None
    assert "Standardised has a forward of its own" in levels[0].why_not_affine


# --- shared weights ---------------------------------------------------------------------------------------------------


def three_convolutions(tie: str) -> nn.Module:
    """BatchNorm behind each convolution, the second and third of one shape and, by `tie`, with a tensor in common."""
    parts = [nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()]
    for _ in range(2):
        parts += [nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()]
    model = initialised(nn.Sequential(*parts, nn.Flatten(), nn.Linear(196, 3)), 0)
    if tie == "weight":
        model[6].weight = model[3].weight
    elif tie == "memory":
        model[6].weight = nn.Parameter(model[3].weight.detach())
    elif tie == "norm":
        model[7].bias = model[4].bias
    return model


@pytest.mark.parametrize("tie, levels", [("weight", "'3' and '6'"), ("norm", "'6' and '10'")])
def test_a_tie_behind_batchnorm_is_found_before_folding(tie, levels):
    model, x = three_convolutions(tie), normal(30, 2, 7, 7)
    with pytest.raises(ValueError, match=f"parent 0: levels {levels} share the weights .* fit it by gradient"):
        fuse([model, model], x, grouping="hungarian", ridge=0)
    together = partition(model, x[:2], ["2", "8"])  # both uses in one level
    assert [len(level.folds) for level in together] == [1, 0, 0]


def test_a_tie_behind_batchnorm_inside_one_level_is_kept():
    model, x = three_convolutions("weight"), normal(30, 2, 7, 7)
    fused = fuse([model, model], x, grouping="hungarian", fit="gradient", boundaries=["2", "8"], epochs=1).model
    assert fused[6].weight is fused[3].weight
    assert_same_function(model, fused, x, 1e-8)


@pytest.mark.parametrize("tie", ["none", "memory"])
def test_without_a_tie_self_fusion_behind_batchnorm_is_exact(tie):
    """Parameters that view the same memory are apart in every copy, so they can be fitted apart."""
    model, x = three_convolutions(tie), normal(40, 2, 7, 7)
    fused = fuse([model, model], x, grouping="hungarian", ridge=0).model
    assert_same_function(model, fused, x, 1e-7)
