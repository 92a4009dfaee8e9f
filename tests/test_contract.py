"""Every method with every architecture and importance: a finite network, or a refusal that says why."""

import itertools

import pytest
import torch

from retrofit_core.architectures import ARCHITECTURES, build
from retrofit_core.fit import FITS
from retrofit_core.fusion import fuse
from retrofit_core.grouping import GROUPINGS
from retrofit_core.importance import IMPORTANCE
from tests.networks import CNN_SHAPE, VGG_SHAPE, batchnorm_cnn, labels, normal, residual
from tests.properties import untouched
from tests.test_levels import small_torchvision_vgg

SPECS = {
    "mlp": ({"sizes": [192, 9, 8, 4]}, VGG_SHAPE),
    "cnn": ({"widths": [3, 4, 5], "classes": 4, "channels": 3}, VGG_SHAPE),
    "vgg": ({"plan": [3, "M", 4, 5, "M"], "classes": 4, "size": 8}, VGG_SHAPE),
    "resnet": ({"layers": [1, 1], "width": 3, "classes": 4, "size": 8}, VGG_SHAPE),
    "vit": ({"hidden": 6, "depth": 2, "heads": 2, "mlp_width": 5, "classes": 4, "size": 8}, VGG_SHAPE),
}
NETWORKS = {
    **{
        name: (lambda seed, name=name, spec=spec: build({"architecture": name, **spec}, seed=seed), shape)
        for name, (spec, shape) in SPECS.items()
    },
    "vgg with BatchNorm": (
        lambda seed: build({"architecture": "vgg", **SPECS["vgg"][0], "batch_norm": True}, seed=seed),
        VGG_SHAPE,
    ),
    "BatchNorm, no bias": (lambda seed: batchnorm_cnn(seed=seed).float(), CNN_SHAPE),
    "torchvision vgg": (lambda seed: small_torchvision_vgg(seed % 2 == 0).float(), (3, 8, 8)),
    "residual": (lambda seed: residual(seed=seed).float(), CNN_SHAPE),
}
#: (architecture, fit or importance) -> why it is refused; everything else must work
REFUSED = {
    ("resnet", "ridge"): r"level 'layer1.0' is not affine in its weights: it holds 2 layers with parameters",
    ("vit", "ridge"): r"level 'blocks.0.attention.o' is not affine in its weights: it holds 7 layers with parameters",
    ("vit", "deeplift"): r"DeepLIFT has no rule for the function unflatten\(\) in level '(embedding|blocks.0)'",
    ("residual", "ridge"): r"level 'blocks.0' is not affine in its weights: it holds 2 layers with parameters",
}


def test_every_architecture_is_in_the_contract():
    assert ARCHITECTURES.keys() <= NETWORKS.keys()


@pytest.mark.parametrize("grouping, fit", list(itertools.product(GROUPINGS, FITS)))
@pytest.mark.parametrize("name", NETWORKS)
def test_every_method_works_or_says_why_not(name, grouping, fit):
    for importance in IMPORTANCE:
        _fused_or_refused(name, grouping, fit, importance)


@pytest.mark.parametrize("name", NETWORKS)
def test_methods_run_on_every_device(name, device):
    _fused_or_refused(name, "kmeans", "gradient", "conductance", device)


def _fused_or_refused(name, grouping, fit, importance, device="cpu"):
    make, shape = NETWORKS[name]
    same = 2 if name == "torchvision vgg" else 1  # every other one of these has BatchNorm
    parents = [make(0), make(same)]
    samples = 12
    x, y = normal(samples, *shape).float(), labels(samples, 3)
    options = {"importance": importance, "grouping": grouping, "fit": fit, "device": device}
    options |= {"importance_data": "fusion"} if importance != "uniform" else {}
    options |= {"epochs": 1} if fit == "gradient" else {}
    reason = REFUSED.get((name, fit)) or REFUSED.get((name, importance))
    with untouched(*parents):
        if reason:
            with pytest.raises(ValueError, match=reason):
                fuse(parents, (x, y), **options)
            return
        result = fuse(parents, (x, y), **options)
    fused, parent = result.model.state_dict(), parents[0].state_dict()
    assert {key: tensor.shape for key, tensor in fused.items()} == {key: tensor.shape for key, tensor in parent.items()}
    with torch.no_grad():
        outputs = result.model(x.to(next(result.model.parameters()).device))
    assert outputs.shape == (samples, result.levels[-1].width)
    assert torch.isfinite(outputs).all()
    assert all(torch.isfinite(tensor).all() for tensor in fused.values())
    for level in result.levels:
        assert level.labels.shape == level.scores.shape == (sum(level.widths),)
        assert level.grouping_error >= 0
        assert level.approximation_error >= 0
