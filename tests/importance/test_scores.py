"""What every score becomes: + 1e-8, normalised per level; a user's own function; refusals."""

import pytest
import torch

from retrofit_core.fusion.importance import IMPORTANCE, Conductance, Neurons, Scores
from retrofit_core.fusion.importance.scoring import importance_scores, parents_scores
from retrofit_core.graph.network import networks_of
from retrofit_core.system.monitor import Monitor
from tests.marks import each_case
from tests.networks import CNN_SHAPE, cnn, labels, mlp, normal, residual
from tests.properties import assert_close, untouched


def raw(score, model, x, y):
    (net,) = networks_of([model], x)
    neurons = Neurons.of(net)
    score.check(neurons)
    return score.scores(neurons, x, y, monitor=Monitor())


@pytest.mark.slow
@each_case("name", IMPORTANCE)
def test_scores_are_positive_and_sum_to_one_per_level(name, device):
    model, x, y = cnn().to(device), normal(12, *CNN_SHAPE).to(device), labels(12, 3).to(device)
    with untouched(model):
        scores = importance_scores(model, x, y, name)
    assert [len(values) for values in scores.values] == [4, 5, 3]
    for values in scores.values:
        assert values.device.type == device.type
        assert values.dtype == torch.float64
        assert (values > 0).all()
        assert values.sum().item() == pytest.approx(1)
    unscaled_scores = importance_scores(model, x, y, name, normalise_scores=False)
    for values, unscaled in zip(scores.values, unscaled_scores.values, strict=True):
        assert_close(values, unscaled / unscaled.sum(), 1e-12)


def test_what_is_no_score_is_refused():
    model, x, y = mlp(), normal(3, 6), labels(3, 2)
    with pytest.raises(ValueError, match="unknown importance 'conductence'.*Did you mean 'conductance'"):
        importance_scores(model, x, y, "conductence")
    with pytest.raises(ValueError, match="importance 'conductance' needs labels"):
        importance_scores(model, x, None, "conductance")

    def returning(*values):
        return lambda neurons, x, y: Scores([torch.as_tensor(value).double() for value in values])

    ones = [torch.ones(8), torch.ones(7), torch.ones(4)]
    with pytest.raises(ValueError, match="returned 2 tensors for 3 levels"):
        importance_scores(model, x, y, returning(*ones[:2]))
    with pytest.raises(ValueError, match=r"returned shape \(7,\) for level '0'; it has 8 neurons"):
        importance_scores(model, x, y, returning(ones[1], ones[1], ones[2]))
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="negative or non-finite scores for level '2'"):
            importance_scores(model, x, y, returning(ones[0], ones[1] * bad, ones[2]))


@pytest.mark.slow
def test_each_parent_is_scored_on_its_own_data():
    parents = [cnn(seed=k) for k in range(2)]
    data = [(normal(12, *CNN_SHAPE, seed=k), labels(12, 3).roll(k)) for k in range(2)]
    scores = parents_scores(networks_of(parents, data[0][0]), Conductance(data=data), data, Monitor())
    for parent, (x, y), parent_scores in zip(parents, data, scores, strict=True):
        expected = importance_scores(parent, x, y, Conductance())
        for values, wanted in zip(parent_scores.values, expected.values, strict=True):
            assert torch.equal(values, wanted)


# --- conductance in one pass against Captum level by level, and what the paper of the score proves --------------------


NETWORKS = {"mlp": (mlp, (6,)), "cnn": (cnn, CNN_SHAPE), "residual": (residual, CNN_SHAPE)}


@pytest.mark.slow
@each_case("steps", [1, 10])
@each_case("name", NETWORKS)
def test_equals_captum_level_by_level(name, steps):
    """C37: LayerConductance with its Gauss-Legendre rule, |.| before the sums; where a layer's module holds what it makes."""
    from captum.attr import LayerConductance

    make, shape = NETWORKS[name]
    model, x = make(), normal(7, *shape)
    (net,) = networks_of([model], x)
    y = labels(7, net.widths[-1])
    scores, compared = raw(Conductance(steps=steps), model, x, y), 0
    for layer, axis, values in zip(net.layers, net.axes, scores.values, strict=True):
        if layer.end is not layer.operations[0].node:
            continue
        captum = LayerConductance(model, model.get_submodule(layer.name)).attribute(
            x, torch.zeros_like(x), target=y, n_steps=steps, method="gausslegendre"
        )
        expected = captum.detach().movedim(axis, -1).abs().flatten(0, -2).sum(0) / len(x)
        assert_close(values, expected, 1e-5 if name == "residual" else 1e-9)
        compared += 1
    assert compared >= 2


def test_batches_do_not_matter(monkeypatch, device):
    model, x = cnn().to(device), normal(9, *CNN_SHAPE).to(device)
    y = labels(9, 3).to(device)
    whole = raw(Conductance(), model, x, y)
    monkeypatch.setattr(Neurons, "batch", lambda *_, **__: 2)
    parts = raw(Conductance(), model, x, y)
    for left, right in zip(whole.values, parts.values, strict=True):
        assert_close(left, right, 1e-12)
    assert whole.report["completeness_gap"] == pytest.approx(parts.report["completeness_gap"])


@pytest.mark.slow
def test_completeness_gap_shrinks_with_the_steps():
    """C34: signed attributions of a level that cuts the network sum to f_y(x) - f_y(0) as the steps grow."""
    model, x, y = cnn(), normal(20, *CNN_SHAPE), labels(20, 3)
    gaps = {steps: raw(Conductance(steps=steps), model, x, y).report["completeness_gap"] for steps in (2, 20, 400)}
    for level in range(len(gaps[2])):
        assert gaps[400][level] < 0.3 * gaps[20][level] < 0.3 * gaps[2][level]
    assert max(gaps[400]) < 5e-3


# --- deepLIFT: complete where its rules are exact, refused where they do not hold (equal to Captum: tests/graph) ------
