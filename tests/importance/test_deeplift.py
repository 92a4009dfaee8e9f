"""DeepLIFT: equal to Captum, complete where its rules are exact, refused where they do not hold."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from retrofit_core.fusion.importance import DeepLift, importance_scores
from retrofit_core.fusion.importance.deeplift import uncovered
from retrofit_core.networks.levels import partition
from tests.networks import CNN_SHAPE, cnn, initialised, labels, mlp, normal
from tests.properties import assert_close, untouched


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Setting forward, backward hooks")
@pytest.mark.parametrize("make, shape", [(mlp, (6,)), (cnn, CNN_SHAPE)])
def test_equals_captum_on_the_original_model(make, shape):
    from captum.attr import LayerDeepLift

    model, x = make(), normal(6, *shape)
    levels, y = partition(model, x), labels(6, 3)
    with untouched(model):
        scores = DeepLift().scores(levels, x, y)
    for level, values in zip(levels, scores.values, strict=True):
        captum = LayerDeepLift(model, model.get_submodule(level.name)).attribute(x, torch.zeros_like(x), target=y)
        expected = captum.detach().movedim(level.axis, -1).abs().reshape(-1, level.width).sum(0) / len(x)
        assert_close(values, expected, 1e-5)


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(F.relu(self.a(x)))


class Reused(Functional):
    def __init__(self) -> None:
        super().__init__()
        self.relu, self.c = nn.ReLU(), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.relu(self.c(self.relu(self.a(x)))))


class Gelu(Functional):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.Hardswish()

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.act(self.a(x)))


@pytest.mark.parametrize(
    "kind, reason",
    [(Functional, r"the function relu\(\) in level 'b'"), (Reused, "used twice"), (Gelu, "the Hardswish 'act'")],
)
def test_places_without_a_rule_are_refused_unless_the_gradient_may_stand_in(kind, reason):
    model, x, y = initialised(kind(), 0), normal(8, 5), labels(8, 3)
    levels = partition(model, x)
    with pytest.raises(ValueError, match=f"DeepLIFT has no rule for .*{reason}.*fallback"):
        DeepLift().scores(levels, x, y)
    if kind is Reused:
        return  # Captum refuses it in any case
    scores = DeepLift(fallback="gradient").scores(levels, x, y)
    assert scores.report["without_rule"] == uncovered(levels) != []
    assert all(torch.isfinite(values).all() for values in scores.values)
    assert scores.report["completeness_gap"][0] > 1e-3  # and says by how much it misses
    via_options = importance_scores(levels, x, y, "deeplift", fallback="gradient")
    assert len(via_options.values) == 2


def test_batches_do_not_matter(monkeypatch):
    x, y = normal(9, *CNN_SHAPE), labels(9, 3)
    levels = partition(cnn(), x)
    whole = DeepLift().scores(levels, x, y)
    module = __import__("retrofit_core.fusion.importance.deeplift", fromlist=["x"])
    monkeypatch.setattr(module, "samples_per_batch", lambda *_, **__: 4)
    parts = DeepLift().scores(levels, x, y)
    for left, right in zip(whole.values, parts.values, strict=True):
        assert_close(left, right, 1e-10)
    assert whole.report["completeness_gap"] == pytest.approx(parts.report["completeness_gap"], abs=1e-9)
