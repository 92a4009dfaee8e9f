"""However a network spells a sum, a dropout or an operation in place, it is fused as the same network in plain words.

tests/test_twins.py says that its twins are found.
"""

import copy

import pytest
import torch
from torch import nn

from retrofit_core import ensemble
from retrofit_core.methods import METHODS
from tests.families import SPELLED, TOKENS, Turned, cached, written
from tests.marks import each_case, spread
from tests.networks import initialised, normal, seeded
from tests.properties import assert_close, assert_same_function, untouched

pytestmark = pytest.mark.slow

METHODS_OF_EACH_KIND = ("RegMean", "Average", "LP", "Ensemble-Logits", "KF-Linear", "PLeaS", "OTFusion")


def pairs(name):
    """Two networks, and the same two in plain words."""
    return [[initialised(written(code), seed) for seed in (0, 1)] for code in SPELLED[name]]


@pytest.mark.long
@each_case("name, method", spread(SPELLED, METHODS_OF_EACH_KIND, 1))
def test_networks_are_fused_as_those_in_plain_words(name, method):
    parents, plain = pairs(name)
    x = normal(60, 6)
    given = x.clone()
    with untouched(*parents):
        result, expected = (METHODS[method](pair, given, device="cpu") for pair in (parents, plain))
    assert torch.equal(given, x)
    assert_same_function(result.model, expected.model, x, 1e-8)
    for level, other in zip(result.levels, expected.levels, strict=True):
        for value in ("energy", "grouping_error", "approximation_error"):
            assert getattr(level, value) == pytest.approx(getattr(other, value), rel=1e-6, abs=1e-9, nan_ok=True), value


def test_an_ensemble_gives_each_member_the_input_as_it_was():
    def its_input(net, x):
        x -= 0.5
        x.mul_(2.0)
        return net.head(net.a(net.stem(x).relu()).relu())

    model, x = initialised(written(its_input), 1), normal(60, 6)
    plain = initialised(written(lambda net, x: net.head(net.a(net.stem((x - 0.5) * 2).relu()).relu())), 1)
    with torch.no_grad():
        assert_close(ensemble([model, model], "logits")(x.clone()), plain(x), 1e-12)


def with_linear_layers(model):
    """A copy in which transposed layers are torch's."""
    model = copy.deepcopy(model)
    for name, child in model.named_children():
        if isinstance(child, Turned):
            layer = nn.Linear(*child.weight.shape).to(child.weight)
            layer.load_state_dict({**child.state_dict(), "weight": child.weight.T})
            setattr(model, name, layer)
    return model


@each_case("method", ["RegMean", "PLeaS", "ZipIt", "Transformer-OTFusion"])
def test_a_transposed_weight_is_a_linear_layer(method):
    """Its neurons are compared, and its weights solved, as those of the same network with torch's layers."""
    parents = [seeded(seed, cached).double().eval() for seed in range(2)]
    tokens = torch.randint(0, 7, (60, TOKENS), generator=torch.Generator().manual_seed(0))
    results = [
        METHODS[method](models, tokens, device="cpu") for models in (parents, list(map(with_linear_layers, parents)))
    ]
    assert_same_function(results[0].model, results[1].model, tokens, 1e-9)
    assert results[0].config.get("layers") == results[1].config.get("layers")
