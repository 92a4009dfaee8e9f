"""What every score becomes: + 1e-8, normalised per level; a user's own function; refusals."""

import pytest
import torch

from retrofit_core.fusion.importance import IMPORTANCE, Conductance, Scores, importance_scores
from retrofit_core.fusion.importance.parents import parents_scores
from retrofit_core.networks.levels import partition
from retrofit_core.system.monitor import Cancelled, Monitor
from tests.marks import each_case
from tests.networks import CNN_SHAPE, cnn, labels, mlp, normal
from tests.properties import assert_close, untouched


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
    raw = importance_scores(model, x, y, name, normalise_scores=False)
    for values, unscaled in zip(scores.values, raw.values, strict=True):
        assert_close(values, unscaled / unscaled.sum(), 1e-12)


def test_what_is_no_score_is_refused():
    model, x, y = mlp(), normal(3, 6), labels(3, 2)
    with pytest.raises(ValueError, match="unknown importance 'conductence'.*Did you mean 'conductance'"):
        importance_scores(model, x, y, "conductence")
    with pytest.raises(ValueError, match="importance 'conductance' needs labels"):
        importance_scores(model, x, None, "conductance")

    def returning(*values):
        return lambda levels, x, y: Scores([torch.as_tensor(value).double() for value in values])

    ones = [torch.ones(8), torch.ones(7), torch.ones(4)]
    with pytest.raises(ValueError, match="returned 2 tensors for 3 levels"):
        importance_scores(model, x, y, returning(*ones[:2]))
    with pytest.raises(ValueError, match=r"returned shape \(7,\) for level '0'; it has 8 neurons"):
        importance_scores(model, x, y, returning(ones[1], ones[1], ones[2]))
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="negative or non-finite scores for level '2'"):
            importance_scores(model, x, y, returning(ones[0], ones[1] * bad, ones[2]))


@pytest.mark.parametrize("name", ["conductance", "deeplift"])
def test_attributions_report_steps_and_can_be_cancelled(name):
    x, y = normal(5, 6), labels(5, 4)
    levels = partition(mlp(), x)
    events = []
    importance_scores(levels, x, y, name, monitor=Monitor(events.append))
    assert {event["name"] for event in events} == {name}
    with pytest.raises(Cancelled):
        importance_scores(levels, x, y, name, monitor=Monitor(cancelled=lambda: True))


def test_each_parent_is_scored_on_its_own_data():
    parents = [partition(cnn(seed=k), normal(2, *CNN_SHAPE)) for k in range(2)]
    data = [(normal(12, *CNN_SHAPE, seed=k), labels(12, 3).roll(k)) for k in range(2)]
    scores = parents_scores(parents, Conductance(data=data), data, torch.device("cpu"), Monitor())
    for levels, (x, y), parent_scores in zip(parents, data, scores, strict=True):
        expected = importance_scores(levels, x, y, Conductance())
        for values, wanted in zip(parent_scores.values, expected.values, strict=True):
            assert torch.equal(values, wanted)
