"""What every score becomes: + 1e-8, normalised per level; a user's own function; refusals."""

import pytest
import torch

from retrofit_core.fusion.importance import IMPORTANCE, Conductance, Neurons, Scores
from retrofit_core.fusion.importance.scoring import importance_scores, parents_scores
from retrofit_core.graph.network import networks_of
from retrofit_core.system.monitor import Monitor
from tests.marks import each_case
from tests.networks import CNN_SHAPE, cnn, labels, mlp, normal
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


# --- conductance, which tests/graph compares with Captum's, and what the paper of the score proves --------------------


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
