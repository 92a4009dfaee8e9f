"""LoRA: factors are not averaged apart; merged networks are fused as plain ones."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from retrofit_core.methods import METHODS
from retrofit_core.networks.symmetry import neuron_groups
from tests.marks import each_case, spread
from tests.networks import initialised, labels, mlp, normal
from tests.properties import assert_close
from tests.test_contract import options_for
from tests.test_weights import WRITING


class AsModules(nn.Module):
    """As peft builds it: dicts of layers by the adapter's name."""

    def __init__(self, base):
        super().__init__()
        self.base_layer, self.scaling = base, 0.5
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, 2, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, base.out_features, bias=False)})

    def forward(self, x):
        return self.base_layer(x) + self.scaling * self.lora_B["default"](self.lora_A["default"](x))

    def merged(self):
        plain = copy.deepcopy(self.base_layer)
        plain.weight.data += self.scaling * self.lora_B["default"].weight @ self.lora_A["default"].weight
        return plain


class AsParameters(nn.Linear):
    """As loralib builds it: a layer with two more parameters."""

    def __init__(self, base):
        super().__init__(base.in_features, base.out_features)
        self.weight, self.bias = base.weight, base.bias
        self.lora_A = nn.Parameter(torch.zeros(2, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, 2))

    def forward(self, x):
        return super().forward(x) + x @ self.lora_A.T @ self.lora_B.T

    def merged(self):
        plain = nn.Linear(self.in_features, self.out_features)
        plain.weight = nn.Parameter(self.weight.detach() + self.lora_B.detach() @ self.lora_A.detach())
        plain.bias = self.bias
        return plain


class AsOthers(AsModules):
    """As diffusion models name them."""

    def __init__(self, base):
        super().__init__(base)
        self.lora_down, self.lora_up = self.lora_A["default"], self.lora_B["default"]
        del self.lora_A, self.lora_B

    def forward(self, x):
        return self.base_layer(x) + self.lora_up(self.lora_down(x))


class Peft(nn.Module):
    """What peft's wrapper shows of itself."""

    def __init__(self, model):
        super().__init__()
        self.base_model, self.peft_config = model, {"default": SimpleNamespace(peft_type="LORA")}

    def forward(self, x):
        return self.base_model(x)

    def merge_and_unload(self):
        for name, module in list(self.base_model.named_modules()):
            if isinstance(module, (AsModules, AsParameters)):
                self.base_model.set_submodule(name, module.merged())
        return self.base_model


def adapted(kind, seed):
    net = mlp((6, 8, 7, 3), seed=0)  # from one checkpoint, as adapters are
    net[2] = kind(net[2])
    adapters = initialised(copy.deepcopy(net), seed)
    state = {name: value for name, value in adapters.state_dict().items() if "lora" in name}
    net.double().load_state_dict(state, strict=False)
    return net.eval()


@pytest.mark.slow
@each_case("method, kind", spread(WRITING, [AsModules, AsParameters, AsOthers], 1))
def test_every_method_that_writes_weights_refuses_factors_before_any_work(kind, method):
    parents = [adapted(kind, seed) for seed in (1, 2)]
    with pytest.raises(
        ValueError, match=r"(parent 0|ancestor): layer '2' holds 'lora_\w+' and 'lora_\w+', whose factors .*Merge"
    ):
        METHODS[method](parents, (normal(20, 6), labels(20, 3)), **options_for(method, parents, 3))


@pytest.mark.slow
@each_case("method", WRITING)
def test_networks_of_peft_are_fused_once_they_are_merged(method):
    parents = [Peft(adapted(AsModules, seed)) for seed in (1, 2)]
    x, y = normal(40, 6), labels(40, 3)
    with pytest.raises(ValueError, match=r"Merge them into the weights first: model.merge_and_unload\(\)"):
        METHODS[method](parents, (x, y), **options_for(method, parents, 3))
    before = [parent(x) for parent in parents]
    merged = [parent.merge_and_unload() for parent in parents]
    plain = []
    for net in merged:
        plain.append(mlp((6, 8, 7, 3)))
        plain[-1].load_state_dict(net.state_dict())
    for net, outputs in zip(merged, before, strict=True):
        assert_close(net(x), outputs, 1e-12)
    results = [METHODS[method](nets, (x, y), **options_for(method, nets, 3)).model for nets in (merged, plain)]
    assert_close(results[0](x), results[1](x), 1e-12)


def test_a_part_that_can_be_merged_is_named():
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = Peft(adapted(AsModules, 1)), nn.Linear(3, 2).double()

        def forward(self, x):
            return self.head(self.body(x))

    x = normal(10, 6)
    with pytest.raises(ValueError, match=r"model.get_submodule\('body'\).merge_and_unload\(\)"):
        METHODS["Average"]([Classifier(), Classifier()], x)
    with pytest.raises(ValueError, match="merge_and_unload"):
        neuron_groups(Classifier(), x[:1])


@pytest.mark.parametrize("method", ["Ensemble-Logits"])
def test_methods_that_only_run_parents_take_them(method):
    parents, x = [adapted(AsModules, seed) for seed in (1, 2)], normal(10, 6)
    fused = METHODS[method](parents, x, device="cpu").model
    assert_close(fused(x), (parents[0](x) + parents[1](x)) / 2, 1e-12)
