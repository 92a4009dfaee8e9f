"""Forward hooks of parents: those that change values are part of the network, and others do no harm."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core import METHODS
from tests.flat import KINDS
from tests.marks import each_case, spread
from tests.networks import labels, normal
from tests.properties import assert_same_function, assert_same_tensors, untouched
from tests.test_contract import options_for

pytestmark = pytest.mark.slow

X, Y = normal(40, 6).float(), labels(40, 4)


class Net(nn.Module):
    """A network with a block."""

    def __init__(self):
        super().__init__()
        self.up, self.block, self.head = nn.Linear(6, 12), nn.Sequential(nn.ReLU(), nn.Linear(12, 12)), nn.Linear(12, 4)

    def forward(self, x):
        return self.head(self.block(self.up(x)).relu())


class Named(Net):
    """The same with outputs by name."""

    def forward(self, x):
        return {"logits": super().forward(x), "features": self.up(x)}


def twice(module, args):
    return (2 * args[0],)


def twice_by_keyword(module, args, kwargs):
    return (2 * args[0],), kwargs


def negated(module, args, output):
    return -output


def in_place(module, args, output):
    output.mul_(2)


def pair(make=Net):
    torch.manual_seed(0)
    return [make().eval() for _ in range(2)]


CHANGING = {
    "reads": lambda layer: layer.register_forward_pre_hook(twice),
    "reads, by keyword": lambda layer: layer.register_forward_pre_hook(twice_by_keyword, with_kwargs=True),
    "returns": lambda layer: layer.register_forward_hook(negated),
    "returns, in place": lambda layer: layer.register_forward_hook(in_place),
}
#: Methods of which the same network twice makes this network.
KEEPING = {
    "KF-Linear": {"ridge": 0.0},
    "HF-Gradient": {"epochs": 1, "weight_decay": 0.0},
    **dict.fromkeys(("OTFusion", "PLeaS", "RegMean", "Average", "Ensemble-Logits"), {}),
}


@each_case("name, path", spread(KEEPING, ["up", "block", "block.1", "head", ""], 1))
def test_hooks_that_change_values_are_part_of_the_network(name, path):
    for register in CHANGING.values():
        parent = pair()[0]
        register(parent.get_submodule(path))
        parents = [parent, copy.deepcopy(parent)]
        with untouched(*parents):
            fused = METHODS[name](parents, (X, Y), **KEEPING[name]).model
        assert_same_function(fused, parent, X, 1e-4)


@each_case("name, make", spread(KINDS, [Net, Named], 1))
def test_hooks_that_only_look_change_nothing_and_see_tensors(name, make):
    seen = []

    def look(module, args, output):
        output = output["logits"] if isinstance(output, dict) else output
        seen.append(output)
        assert output.norm().item() >= 0 and output.detach().numpy().shape

    parents, expected = pair(make), pair(make)
    for parent in parents:
        for path in ("up", "block", "head", ""):
            parent.get_submodule(path).register_forward_hook(look)
    options = options_for(name)
    with untouched(*parents):
        fused = METHODS[name](parents, (X, Y), **options).model
    plain = METHODS[name](expected, (X, Y), **options_for(name)).model
    assert_same_tensors(fused, plain, 1e-5)
    assert seen and all(type(output) is torch.Tensor for output in seen)


def test_weights_of_networks_whose_hooks_differ_are_not_averaged():
    parents = pair()
    parents[1].block.register_forward_hook(negated)
    with pytest.raises(ValueError, match="run different code: the code of parent 0 .* than parent 1 does: a hook"):
        METHODS["Average"](parents, X)
    with pytest.raises(ValueError, match="different forward hooks: 'negated' of layer 'block'"):
        METHODS["Average"](parents, None)


def test_hooks_that_collect_outside_what_the_network_reads_are_followed():
    """As transformers collects hidden states."""
    collected = []

    class Collecting(Net):
        def __init__(self):
            super().__init__()
            self.up.register_forward_hook(lambda module, args, output: collected.append(output))

        def forward(self, x):
            collected.clear()
            self.up(x)
            return self.head(self.block(collected[-1]).relu())

    parents, plain = pair(Collecting), pair()
    fused, expected = (METHODS["KF-Linear"](each, (X, Y)).model for each in (parents, plain))
    assert_same_function(fused, expected, X, 1e-5)
