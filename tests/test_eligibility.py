"""Every refusal comes before any work, in a sentence that names the level and the way out."""

# ruff: noqa: E501 - the table of refusals reads best with one case a line or two
import pytest
import torch
from torch import nn

from retrofit_core.networks.architectures import build
from tests.flat import fuse
from tests.marks import each_case
from tests.networks import CNN_SHAPE, VIT, cnn, initialised, labels, mlp, normal
from tests.properties import untouched

X = normal(40, 6)
IMAGES = normal(30, *CNN_SHAPE)


def broken(value):
    model = mlp(seed=1)
    with torch.no_grad():
        model[2].weight[1, 1] = value
    return model


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.fc = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(self.gate(x) if x.sum() > 0 else x)


HF, KF = {"grouping": "hungarian"}, {"grouping": "kmeans"}
GRADIENT = {"fit": "gradient", "epochs": 1}
#: Besides those that tests/test_contract.py finds of every method.
REFUSALS = {
    "numbers of levels": (
        [mlp(), mlp((6, 8, 4))],
        X,
        KF,
        r"the parents have \[3, 2\] levels and the fused network 3; they must have equally many",
    ),
    "numbers of attentions": (
        [build({**VIT, "depth": depth}, seed=0).double() for depth in (1, 2)],
        IMAGES,
        KF,
        r"the parents have \[8, 14\] levels and the fused network 8; they must have equally many",
    ),
    "positions": (
        [
            cnn(),
            initialised(
                nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.Flatten(), nn.Linear(45, 3)), 0
            ),
        ],
        IMAGES,
        KF,
        r"level '0': the parents have \[49, 25\] positions per sample and the fused network 49",
    ),
    "target classes": (
        [mlp(), mlp()],
        X,
        {"target": mlp((6, 8, 7, 3))},
        "the networks have 4 and 4 and 3 classes",
    ),
    "too wide": (
        [mlp(), mlp(seed=1)],
        X,
        {"target": mlp((6, 17, 7, 4))},
        "level '0': 17 fused neurons for 16 parents' neurons.*at most 16",
    ),
    "untraceable": (
        [initialised(Branches(), k) for k in range(2)],
        X[:, :4],
        KF,
        "its code branches on the data",
    ),
    "infinite target": (
        [mlp(), mlp()],
        X,
        {"target": broken(float("inf"))},
        "the target has NaN or infinity in '2.weight'",
    ),
    "one sample": ([mlp(), mlp()], X[:1], KF, "the fusion set holds 1 sample; fit='ridge' needs at least 2"),
    "nine samples": (
        [mlp(), mlp()],
        X[:9],
        GRADIENT,
        "the fusion set holds 9 samples; fit='gradient' needs at least 10",
    ),
    "unknown grouping": (
        [mlp(), mlp()],
        X,
        {"grouping": "k-means"},
        "unknown grouping 'k-means'.*Did you mean 'kmeans'",
    ),
    "unknown setting": (
        [mlp(), mlp()],
        X,
        {"learning_rat": 1},
        r"unknown keyword of fuse: 'learning_rat'. Known: .*ridge",
    ),
    "parents in parts": (
        [initialised(nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(100, 3)), 0)],
        IMAGES,
        {
            "toward": "parents",
            "target": initialised(nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(100, 3)), 0),
        },
        "level '0': a convolution is grouped in a parent or in the fused network, and not in the other",
    ),
    "importance data of one parent": (
        [mlp(), mlp()],
        X,
        {"importance": "conductance", "importance_data": [(X, labels(40, 4))]},
        "importance_data holds 1 sets for 2 parents",
    ),
    "unequal labels": ([mlp(), mlp()], (X, labels(39, 4)), KF, "40 inputs but 39 labels"),
}


@pytest.mark.slow
@each_case("case", REFUSALS)
def test_what_cannot_be_fused_is_refused_before_any_work(case, monkeypatch):
    models, data, options, sentence = REFUSALS[case]
    monkeypatch.setattr("retrofit_core.graph.fuse.Walk", _must_not_start)
    with untouched(*models), pytest.raises(ValueError, match=sentence) as refusal:
        fuse(models, data, device=options.get("device", "cpu"), **{k: v for k, v in options.items() if k != "device"})
    text = str(refusal.value)
    assert text.count("\n") == 0
    assert len(text) < 420


def _must_not_start(*_, **__):
    raise AssertionError("the work began")
