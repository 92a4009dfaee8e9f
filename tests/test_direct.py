"""The engine against benchmarks/direct.py: activations of all samples, pseudo-inverses, scikit-learn's k-means."""

import importlib.util
from pathlib import Path

import pytest
import torch

from retrofit_core.networks.levels import partition
from tests.flat import fuse
from tests.marks import each_case
from tests.networks import CNN_SHAPE, cnn, mlp, normal
from tests.properties import assert_same_function

SOURCE = Path(__file__).parents[1] / "benchmarks" / "direct.py"
specification = importlib.util.spec_from_file_location("direct", SOURCE)
direct = importlib.util.module_from_spec(specification)
specification.loader.exec_module(direct)


@pytest.mark.slow
@each_case("grouping", ["hungarian", "kmeans"])
@each_case("name", ["mlp", "cnn"])
def test_the_direct_form_gives_the_same_network(name, grouping, device):
    make, shape = {"mlp": (mlp, (6,)), "cnn": (cnn, CNN_SHAPE)}[name]
    parents, x = [make(seed=k) for k in range(2)], normal(150, *shape)
    draw = torch.Generator().manual_seed(1)
    scores = [
        [torch.rand(level.width, generator=draw).double() + 0.1 for level in partition(model, x[:2])]
        for model in parents
    ]
    pending = iter(scores)
    # many starts of few neurons: both find the best clustering
    options = {"restarts": 200} if grouping == "kmeans" else {}
    data = (x, torch.zeros(len(x), dtype=torch.long))
    result = fuse(
        parents,
        data,
        grouping=grouping,
        ridge=0,
        importance=lambda levels, x, y: next(pending),
        importance_data="fusion",
        normalise_scores=False,
        device=device,
        **options,
    )
    expected = direct.fuse_directly(parents, x, scores, grouping=grouping, restarts=200)
    assert_same_function(result.model.cpu(), expected, normal(50, *shape, seed=5), 1e-6)
