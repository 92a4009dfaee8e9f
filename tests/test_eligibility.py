"""Every refusal comes before any work, in a sentence that names the level and the way out."""

# ruff: noqa: E501 - the table of refusals reads best with one case a line or two
import pytest
from torch import nn

from tests.flat import fuse
from tests.marks import each_case
from tests.networks import CNN_SHAPE, cnn, initialised, labels, mlp, normal
from tests.properties import untouched

X = normal(40, 6)
IMAGES = normal(30, *CNN_SHAPE)


KF = {"grouping": "kmeans"}
GRADIENT = {"fit": "gradient", "epochs": 1}
#: Besides those that tests/test_contract.py finds of every method.
REFUSALS = {
    "numbers of levels": (
        [mlp(), mlp((6, 8, 4))],
        X,
        KF,
        r"the parents have \[3, 2\] levels and the fused network 3; they must have equally many",
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
    "one sample": ([mlp(), mlp()], X[:1], KF, "the fusion set holds 1 sample; fit='ridge' needs at least 2"),
    "nine samples": (
        [mlp(), mlp()],
        X[:9],
        GRADIENT,
        "the fusion set holds 9 samples; fit='gradient' needs at least 10",
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
