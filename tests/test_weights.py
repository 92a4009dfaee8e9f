"""Weights that cannot be written as they stand: computed ones are refused by whatever writes, shared ones are found."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, remove_weight_norm
from torch.nn.utils import weight_norm as old_weight_norm

from retrofit_core.methods import METHODS
from tests.families import TIED
from tests.flat import fuse
from tests.marks import each_case, spread
from tests.networks import initialised, labels, mlp, normal
from tests.properties import assert_close, assert_same_function
from tests.test_contract import options_for
from tests.test_twins import twins

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")]


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
    "weight_norm": parametrizations.weight_norm,
    "old weight_norm": old_weight_norm,
    "pruning": pruned,
    "bias": lambda layer: parametrize.register_parametrization(layer, "bias", Doubled()),
    "hook": recomputed,
}
REMOVALS = {
    "weight_norm": lambda layer: parametrize.remove_parametrizations(layer, "weight"),
    "old weight_norm": remove_weight_norm,
    "pruning": lambda layer: prune.remove(layer, "weight"),
}
WRITING = sorted(set(METHODS) - {"Ensemble", "Ensemble-Logits"})
DATA = (normal(20, 6), torch.arange(20) % 4)


def with_computed_weight(kind: str, seed: int = 0) -> nn.Module:
    model = mlp(seed=seed)
    KINDS[kind](model[2])
    model.eval()
    with torch.no_grad():
        model(normal(2, 6))
    return model


@each_case("kind", KINDS)
def test_the_layer_and_the_way_out_are_named(kind):
    model = with_computed_weight(kind)
    sentence = rf"the {'bias' if kind == 'bias' else 'weight'} of layer '2' is computed from .* Make it plain first: "
    with pytest.raises(ValueError, match=f"parent 1: {sentence}"):
        fuse([mlp(), model], DATA, seed=0)
    with pytest.raises(ValueError, match=f"the target: {sentence}"):
        fuse([mlp(), mlp(seed=1)], DATA, target=model)


@each_case("method", WRITING)
def test_every_method_that_writes_weights_refuses_computed_ones_before_any_work(method):
    model = with_computed_weight("weight_norm")
    with pytest.raises(ValueError, match="parent 0: the weight of layer '2' is computed from other tensors"):
        METHODS[method]([model, mlp(seed=1)], DATA)


@pytest.mark.parametrize("kind", REMOVALS)
def test_the_way_out_works(kind):
    model = with_computed_weight(kind)
    with torch.no_grad():
        expected = model(DATA[0])
    REMOVALS[kind](model[2])
    assert_close(model(DATA[0]), expected, 1e-12)
    fused = fuse([model, model], DATA, grouping="hungarian", ridge=0).model
    assert_same_function(model, fused, DATA[0], 1e-8)


# --- shared weights ---------------------------------------------------------------------------------------------------


def three_convolutions(tie: str) -> nn.Module:
    """BatchNorm behind each convolution, the second and third of one shape and, by `tie`, with a tensor in common."""
    parts = [nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()]
    for _ in range(2):
        parts += [nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()]
    model = initialised(nn.Sequential(*parts, nn.Flatten(), nn.Linear(196, 3)), 0)
    if tie == "weight":
        model[6].weight = model[3].weight
    else:
        model[7].bias = model[4].bias
    return model


@pytest.mark.parametrize("tie", ["weight", "norm"])
def test_tied_tensors_behind_batchnorm_stay_tied_in_a_closed_form(tie):
    model, x = three_convolutions(tie), normal(30, 2, 7, 7)
    fused = fuse([model, model], x, grouping="hungarian", ridge=0).model
    assert fused[6].weight is fused[3].weight if tie == "weight" else fused[7].bias is fused[4].bias
    assert_same_function(model, fused, x, 1e-7)


# --- tied layers, embedding and head or autoencoders: twins in another order are found, or refused with ---------------


HEAD = "tied head"


@each_case("method", ["OTFusion", "Git-Re-Basin", "ZipIt", "HF-Linear", "KF-Linear"])
def test_a_head_that_is_the_table_stays_it(method):
    """tests/test_twins.py says that the twin is found."""
    model, twin, x = twins(HEAD)
    fused = METHODS[method]([model, twin], x, device="cpu").model
    assert fused.head.weight is fused.emb.weight and fused.head.weight is not model.head.weight


@each_case("name, method", spread(TIED, ["PLeaS", "RegMean"], 1))
def test_methods_that_solve_layers_by_themselves_refuse_and_what_they_name_works(name, method):
    model, twin, x = twins(name)
    with pytest.raises(ValueError, match=r"Use Git-Re-Basin, OTFusion or ZipIt, which keep it shared") as refusal:
        METHODS[method]([model, twin], x, device="cpu")
    for other in ("Git-Re-Basin", "OTFusion", "ZipIt"):
        assert other in str(refusal.value)
        with torch.no_grad():
            assert_close(METHODS[other]([model, twin], x, device="cpu").model(x), model(x), 1e-6)


# --- loRA: factors are not averaged apart; merged networks are fused as plain ones ------------------------------------


class AsModules(nn.Module):
    """As peft builds it: dicts of layers by the adapter's name."""

    def __init__(self, base):
        super().__init__()
        self.base_layer, self.scaling = base, 0.5
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, 2, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, base.out_features, bias=False)})

    def forward(self, x):
        return self.base_layer(x) + self.scaling * self.lora_B["default"](self.lora_A["default"](x))


def adapted(seed):
    net = mlp((6, 8, 7, 3), seed=0)  # from one checkpoint, as adapters are
    net[2] = AsModules(net[2])
    adapters = initialised(copy.deepcopy(net), seed)
    state = {name: value for name, value in adapters.state_dict().items() if "lora" in name}
    net.double().load_state_dict(state, strict=False)
    return net.eval()


@each_case("method", WRITING)
def test_every_method_that_writes_weights_refuses_factors_before_any_work(method):
    parents = [adapted(seed) for seed in (1, 2)]
    with pytest.raises(ValueError, match=r"(parent 0|ancestor): '2' holds an adapter, whose factors .*Merge"):
        METHODS[method](parents, (normal(20, 6), labels(20, 3)), **options_for(method))


def test_networks_of_peft_are_to_be_merged_first():
    parents = [adapted(seed) for seed in (1, 2)]
    for parent in parents:
        parent.peft_config, parent.merge_and_unload = {"default": SimpleNamespace(peft_type="LORA")}, None
    with pytest.raises(ValueError, match=r"Merge them into the weights first, as model.merge_and_unload\(\)"):
        METHODS["KF-Linear"](parents, (normal(20, 6), labels(20, 3)))
