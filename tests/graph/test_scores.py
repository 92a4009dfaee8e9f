"""Scores of the neurons of a graph, against Captum on the network's own modules."""

import pytest
import torch
from torch import nn

from retrofit_core.fusion.importance import Conductance, DeepLift, as_importance
from retrofit_core.fusion.importance.scoring import parents_scores
from retrofit_core.graph.network import networks_of
from retrofit_core.methods import METHODS
from retrofit_core.system.monitor import Monitor
from tests.marks import each_case
from tests.networks import initialised, labels, normal


def convolutions():
    """A chain of modules, each once, with max pooling; and the modules at whose outputs its layers end."""
    layers = [
        nn.Conv2d(2, 5, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(5, 4, 2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(4, 3),
    ]
    model = initialised(nn.Sequential(*layers), 0)
    return model, (model[0], model[3], model[6])


def scored(importance, model, x, y):
    return parents_scores(networks_of([model], x), importance, [(x, y)], Monitor())[0]


def by_captum(attribute, x, axis=1):
    """|attributions| summed over positions, averaged over samples, plus 1e-8, as shares."""
    values = attribute.detach().movedim(axis, -1).flatten(0, -2).abs().sum(0) / len(x) + 1e-8
    return values / values.sum()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conductance", "deeplift"])
def test_attributions_are_those_of_captum(kind):
    from captum.attr import LayerConductance, LayerDeepLift

    (model, layers), x, y = convolutions(), normal(9, 2, 7, 7), labels(9, 3)
    found = scored(
        Conductance(data="fusion", steps=5) if kind == "conductance" else DeepLift(data="fusion"), model, x, y
    )
    for layer, values in zip(layers, found.values, strict=True):
        if kind == "conductance":
            expected = LayerConductance(model, layer).attribute(x, torch.zeros_like(x), target=y, n_steps=5)
        else:
            expected = LayerDeepLift(model, layer).attribute(x, torch.zeros_like(x), target=y)
        torch.testing.assert_close(values, by_captum(expected, x), rtol=1e-6, atol=1e-9)


def test_a_function_of_ones_own_sees_the_tensors_and_their_gradients():
    def gradients(neurons, x, y):
        tensors = neurons(x)
        found = torch.autograd.grad(tensors[-1].gather(1, y[:, None]).sum(), tensors)
        return [g.movedim(p.axis, -1).flatten(0, -2).abs().sum(0) for g, p in zip(found, neurons.places, strict=True)]

    (model, layers), x, y = convolutions(), normal(9, 2, 7, 7), labels(9, 3)
    found = scored(as_importance(gradients, data="fusion"), model, x, y)
    seen = []
    for layer in layers:
        layer.register_forward_hook(lambda _, __, output: seen.append(output))
    for g, values in zip(torch.autograd.grad(model(x).gather(1, y[:, None]).sum(), seen), found.values, strict=True):
        torch.testing.assert_close(values, by_captum(g * len(x), x), rtol=1e-9, atol=1e-12)


OVERLAPPING = nn.MaxPool2d(3, 2, 1)


@pytest.mark.slow
@each_case(
    "after", [(nn.ReLU(), nn.MaxPool2d(2)), (nn.MaxPool2d(2), nn.ReLU()), (OVERLAPPING,), (nn.ReLU(), nn.Tanh())]
)
def test_contributions_sum_to_the_change_of_the_logit(after):
    """Also where one rule directly follows another, and where windows overlap, which Captum itself does not do."""
    layers = [nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.Conv2d(5, 4, 3, padding=1), *after, nn.Flatten()]
    inputs = nn.Sequential(*layers).double()(normal(1, 2, 6, 6)).shape[1]
    model = initialised(nn.Sequential(*layers, nn.Linear(inputs, 3)), 0)
    report = scored(DeepLift(data="fusion"), model, normal(9, 2, 6, 6), labels(9, 3)).report
    assert report["without_rule"] == [] and max(report["completeness_gap"]) < 1e-12


def test_operations_without_a_rule_are_refused_unless_the_gradient_may_stand_in():
    model, x, y = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 3)).double(), normal(9, 4), labels(9, 3)
    with pytest.raises(ValueError, match=r"no rule for gelu\(\) in '1'.*fallback='gradient'"):
        METHODS["KF-Linear"]([model, model], (x, y), importance="deeplift", importance_data="fusion")
    report = scored(DeepLift(data="fusion", fallback="gradient"), model, x, y).report
    assert report["without_rule"] == ["gelu() in '1'"] and report["completeness_gap"][-1] < 1e-9
