"""Labels of any whole-number type mean the same classes everywhere that they come in."""

from dataclasses import replace

import pytest
import torch

from retrofit_core.architectures import build
from retrofit_core.data import load
from retrofit_core.evaluation import evaluate, measured
from retrofit_core.importance import Conductance, DeepLift, importance_scores
from retrofit_core.labels import as_labels
from retrofit_core.levels import partition
from retrofit_core.monitor import Monitor
from retrofit_core.samples import as_tensors, parents_data
from retrofit_core.training import train
from retrofit_core.training.files import facts_of
from tests.flat import fuse
from tests.networks import mlp, normal
from tests.properties import assert_same_function

WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16]


@pytest.mark.parametrize("dtype", WHOLE)
def test_fusion_data_and_importance_data(dtype):
    models, x, y = [mlp(), mlp(seed=2)], normal(40, 6), torch.arange(40) % 4
    for data in (
        (x, y.to(dtype)),
        (x.numpy(), y.to(dtype).numpy()),
        [(x[:20], y[:20].to(dtype)), (x[20:], y[20:].to(dtype))],
    ):
        labels = as_tensors(data)[1]
        assert labels is not None and labels.dtype == torch.int64 and torch.equal(labels, y)
    assert parents_data([(x, y.to(dtype))], (x, None), 1)[0][1].dtype == torch.int64
    expected = fuse(models, x, importance="conductance", importance_data=[(x, y)] * 2)
    result = fuse(models, x, importance="conductance", importance_data=[(x, y.to(dtype))] * 2)
    assert_same_function(result.model, expected.model, x, 0)


@pytest.mark.parametrize("score", [Conductance(), DeepLift()])
@pytest.mark.parametrize("dtype", WHOLE)
def test_scores(score, dtype):
    """With as many classes as samples, so that a mask of uint8 has a shape that fits."""
    model, x, y = mlp((6, 5, 4)), normal(4, 6), torch.tensor([1, 0, 1, 3])
    levels = partition(model, x)
    expected, direct = score.scores(levels, x, y), score.scores(levels, x, y.to(dtype))
    for left, right in zip(expected.values, direct.values, strict=True):
        assert torch.equal(left, right)
    assert expected.report == direct.report
    named = importance_scores(levels, x, y.to(dtype), score)
    assert torch.equal(named.values[0], importance_scores(levels, x, y, score).values[0])


@pytest.mark.parametrize("dtype", WHOLE)
def test_data_sets(dtype):
    digits = load("digits")
    small = replace(digits, labels=digits.labels.to(dtype))
    assert small.labels.dtype == torch.int64 and torch.equal(small.labels, digits.labels)
    models = [build({"architecture": "cnn", "widths": [4, 6, 6]}, seed=0) for _ in range(2)]
    rows = torch.arange(100)
    histories = [
        train(model, images, rows, epochs=1, cutmix=True, monitor=Monitor())
        for model, images in zip(models, (digits, small), strict=True)
    ]
    assert histories[0] == histories[1]
    assert evaluate(models[0], digits, rows=rows) == evaluate(models[0], small, rows=rows)
    assert facts_of(digits, rows, {}, None) == facts_of(small, rows, {}, None)
    logits = torch.randn(100, 10, generator=torch.Generator().manual_seed(0))
    assert measured(logits, digits.labels[:100].to(dtype), 10) == measured(logits, digits.labels[:100], 10)


def test_what_is_no_whole_number_is_refused_where_classes_are_needed():
    digits = load("digits")
    with pytest.raises(
        ValueError, match="labels of data set 'digits' are torch.float32, and classes are whole numbers"
    ):
        replace(digits, labels=digits.labels.float())
    assert (
        as_labels(torch.tensor([0.5])).dtype == torch.float32
    )  # fusion data whose labels nobody needs may hold anything
    assert as_labels([1, 2]).tolist() == [1, 2]
