"""Labels of any whole-number type mean the same classes everywhere that they come in."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot
from torch.utils.data import DataLoader, Dataset, TensorDataset

from retrofit_core import METHODS, compare
from retrofit_core.data import load
from retrofit_core.fusion.samples import as_inputs
from retrofit_core.system.labels import as_labels
from retrofit_core.training.evaluation import measured
from tests.marks import each_case, spread
from tests.networks import mlp, normal

pytestmark = pytest.mark.slow


@each_case("score, dtype", spread(["conductance", "deeplift"], [torch.uint8, torch.int16], 2))
def test_scores(score, dtype):
    """With as many classes as samples, so that a mask of uint8 has a shape that fits."""
    models, x, y = [mlp((6, 5, 4)), mlp((6, 5, 4), seed=1)], normal(4, 6), torch.tensor([1, 0, 1, 3])
    expected, found = (
        METHODS["KF-Linear"](models, (x, y), importance=score, importance_data="fusion", device="cpu").levels
        for y in (y, y.to(dtype))
    )
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one.scores, other.scores)


def test_data_sets():
    digits = load("digits")
    small = replace(digits, labels=digits.labels.to(torch.uint8))
    assert small.labels.dtype == torch.int64 and torch.equal(small.labels, digits.labels)
    logits = torch.randn(100, 10, generator=torch.Generator().manual_seed(0))
    assert measured(logits, digits.labels[:100].to(torch.uint8), 10) == measured(logits, digits.labels[:100], 10)


def test_what_is_no_whole_number_is_refused_where_classes_are_needed():
    digits = load("digits")
    with pytest.raises(
        ValueError, match="labels of data set 'digits' are torch.float32, but classes are whole numbers"
    ):
        replace(digits, labels=digits.labels.float())
    assert (
        as_labels(torch.tensor([0.5])).dtype == torch.float32
    )  # fusion data whose labels nobody needs may hold anything
    assert as_labels([1, 2]).tolist() == [1, 2]


# --- forms that are no labels ----------------------------------------------------------------------------------------


class Doubling(nn.Module):
    """Takes a second input, and goes without."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(6, 4)

    def forward(self, x, scale=None):
        return self.out(x if scale is None else x * scale.sum(1, keepdim=True))


ROWS = normal(40, 6).float()
CLASSES = torch.arange(40) % 4
FORMS = {"column": CLASSES[:, None], "one-hot": one_hot(CLASSES, 4), "targets": ROWS[:, :1] * 0.3}
CALLS = {
    "a pair": lambda x, y: (x, y),
    "a loader": lambda x, y: DataLoader(TensorDataset(x, y), batch_size=16),
    "batches": lambda x, y: [(x[:20], y[:20]), (x[20:], y[20:])],
}


@each_case("call", CALLS)
@each_case("form", FORMS)
def test_targets_of_any_form_never_reach_the_network(form, call):
    """A pair is (inputs, targets), also where the forward has a second argument; who needs classes refuses other targets."""
    labels, message = FORMS[form], r"labels of shape \(40, .\), torch.* are not one whole number"
    parents, data = [Doubling(), Doubling()], CALLS[call](ROWS, labels)
    assert torch.equal(METHODS["KF-Linear"].plan(parents, data, device="cpu").task.inputs, ROWS)
    with pytest.raises(ValueError, match=f"importance 'conductance': .*{message}"):
        METHODS["KF-Linear"].plan(parents, data, importance="conductance", importance_data="fusion", device="cpu")
    with pytest.raises(ValueError, match=f"the test data: .*{message}"):
        compare(parents, ROWS, data, methods="average")


@each_case(
    "data, labelled",
    [
        (ROWS, False),
        ((ROWS, CLASSES), True),
        (TensorDataset(ROWS, CLASSES), True),
        (DataLoader(TensorDataset(ROWS, CLASSES), batch_size=7), True),
        ([(ROWS[:5], CLASSES[:5]), (ROWS[5:], CLASSES[5:])], True),
        (((ROWS[i : i + 1], CLASSES[i : i + 1]) for i in range(40)), True),
        (list(zip(ROWS, CLASSES, strict=True)), True),
        ([ROWS[:6], ROWS[6:]], False),
        ([ROWS.numpy()[:5], ROWS.numpy()[5:]], False),
    ],
)
def test_every_kind_of_fusion_data_gives_the_same_tensors(data, labelled):
    inputs, classes = as_inputs(data)
    assert torch.equal(inputs, ROWS)
    assert torch.equal(classes, CLASSES) if labelled else classes is None


def test_several_inputs_are_a_tuple_of_their_own_or_a_dict():
    scale = ROWS[:, :2]
    nested, flat = ((ROWS, scale), CLASSES), (ROWS, scale, CLASSES)
    for data in (nested, [nested], ((ROWS, scale), CLASSES.tolist()), {"x": ROWS, "scale": scale, "labels": CLASSES}):
        inputs, labels = as_inputs(data)
        assert all(map(torch.equal, inputs.values() if isinstance(inputs, dict) else inputs, (ROWS, scale)))
        assert torch.equal(labels, CLASSES)
    assert len(as_inputs(((ROWS, scale), None))[0]) == 2
    for data in (flat, [flat], TensorDataset(*flat)):
        with pytest.raises(
            ValueError, match=r"3 tensors. A pair is \(inputs, targets\); several inputs are a tuple of"
        ):
            as_inputs(data)


@each_case(
    "labels",
    [
        CLASSES.tolist(),
        list(CLASSES),
        CLASSES.numpy(),
        CLASSES.short(),
        pd.Series(CLASSES.numpy()),
    ],
)
def test_lists_of_labels_are_labels(labels):
    for data in ((ROWS, labels), [ROWS, labels], {"x": ROWS, "labels": labels}, [(ROWS, labels)], [[ROWS, labels]]):
        inputs, found = as_inputs(data)
        assert torch.equal(found, CLASSES) and found.dtype == torch.int64
        assert torch.equal(inputs["x"] if isinstance(inputs, dict) else inputs, ROWS)


class Named(Dataset):
    def __init__(self, labels):
        self.labels = labels

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return ROWS[index], self.labels[index]


def test_words_and_rows_of_other_lengths_are_refused_as_labels():
    words = ["cat", "dog"] * 20
    for data in (
        (ROWS, words),
        (ROWS, np.array(words)),
        [ROWS, words],
        {"x": ROWS, "label": words},
        Named(words),
        [(ROWS, words)],
        (ROWS, [[1], [1, 2]] * 20),
    ):
        with pytest.raises(
            ValueError, match="the labels are .* Pass one whole number for each sample, or leave them out"
        ):
            as_inputs(data)
    with pytest.raises(ValueError, match="the labels are a single number"):
        as_inputs((ROWS, torch.tensor(3)))
    with pytest.raises(ValueError, match="40 inputs but 39 labels"):
        as_inputs((ROWS, CLASSES[1:]))
    with pytest.raises(ValueError, match="fusion data must be a tensor"):
        as_inputs(np.array(words))
    assert as_inputs((ROWS, None))[1] is None and torch.equal(as_inputs((ROWS, range(40)))[1], torch.arange(40))
    assert as_inputs(Named([[0, 1]] * 40))[1].shape == (40, 2)
