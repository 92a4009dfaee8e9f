"""Networks that run the same code are cut once; each has levels of its own weights."""

import copy

import pytest
import torch
from torch import nn

from retrofit_core import METHODS
from retrofit_core.fusion.network_levels import cut_into_levels
from retrofit_core.networks.levels import code_of, compose, levels_of_twin, partition
from tests.families import FAMILIES, network
from tests.marks import each_case
from tests.networks import mlp, normal
from tests.properties import assert_close, assert_same_tensors, untouched


def changed(model):
    """A copy with other weights."""
    other, generator = copy.deepcopy(model), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1 + 0.1 * torch.rand(parameter.shape, generator=generator, dtype=parameter.dtype))
    return other


@pytest.mark.slow
@each_case("name", list(FAMILIES)[::8])
def test_levels_of_a_twin_are_those_that_it_is_cut_into_and_write_into_it(name):
    model, x = network(name)
    try:
        levels = partition(model, x[:2], "layers")
    except ValueError:
        return
    twin = changed(model)
    assert code_of(twin) == code_of(model) is not None
    own, alone = copy.deepcopy(twin), levels_of_twin(levels, model, twin)
    for level, other in zip(alone, partition(own, x[:2], "layers"), strict=True):
        assert_same_tensors(level.module, other.module)
    with untouched(model):
        for level in alone:
            if level.affine is not None:
                level.write(level.weights() * 1.5)
        outputs = compose(alone, x)
        for level in alone:
            if all(fold.has_room for fold in level.folds):
                level.put_back()
    if all(fold.has_room for level in alone for fold in level.folds):
        assert_close(twin(x), outputs, 1e-9)
    assert any((tensor != own.state_dict()[key]).any() for key, tensor in twin.state_dict().items())


class Factor:
    """A number that its text does not show."""

    def __init__(self, number):
        self.number = number

    def __repr__(self):
        return "a factor"


class Shy:
    def __repr__(self):
        raise RuntimeError("not now")


class Hidden(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.one, self.two = nn.Linear(6, 5).double(), nn.Linear(5, 4).double()
        self.factor = Factor(number)

    def forward(self, x):
        return self.two((self.one(x) * self.factor.number).relu())


def test_networks_of_other_code_are_cut_on_their_own():
    x = normal(20, 6)
    flagged = mlp()
    flagged.flag = True
    assert code_of(mlp()) == code_of(mlp(seed=3)) not in (code_of(mlp((6, 7, 4))), code_of(flagged), None)
    hooked = mlp()
    hooked[0].register_forward_hook(lambda *_: None)
    shy = mlp()
    shy.note = Shy()
    assert code_of(hooked) is None and code_of(shy) is None
    pair = [Hidden(1.0), Hidden(2.0)]
    assert code_of(pair[0]) == code_of(pair[1])
    levels = cut_into_levels(pair, x, target=None, device=x.device, boundaries="layers").parents
    for one, of_one in zip(pair, levels, strict=True):
        assert_close(compose(of_one, x), one(x), 1e-12)


def test_shared_networks_stay_one():
    net, x = mlp(), normal(30, 6)
    assert_close(METHODS["KF-Linear"]([net, net], x, ridge=0.0).model(x), net(x), 1e-9)
