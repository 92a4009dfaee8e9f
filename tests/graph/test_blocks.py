"""The blocks of architectures that the paper fuses, ours and torchvision's, which nobody adapted: widths and positions."""

import pytest
import torch
from torchvision import models

from retrofit_core.graph.blocks import in_blocks
from retrofit_core.graph.network import networks_of
from retrofit_core.networks.architectures import build
from tests.marks import each_case
from tests.networks import normal, seeded

RESNET = {"architecture": "resnet", "width": 4, "classes": 5, "channels": 1, "size": 8}
VIT = {
    "architecture": "vit",
    "patch": 2,
    "hidden": 12,
    "depth": 3,
    "heads": 3,
    "mlp_width": 20,
    "classes": 5,
    "size": 8,
}
VGG = {"architecture": "vgg", "plan": [3, "M", 4, "M", 4, 5, "M", 5, "M"], "channels": 1, "size": 8}
OF_STAGES = [(64, 256)] * 3 + [(128, 64)] * 2 + [(256, 16)] * 2 + [(512, 4)] * 2 + [(1000, 1)]


@pytest.mark.slow
@each_case(
    "make, shape, expected",
    [
        (lambda: build(RESNET, 0), (1, 8, 8), [(4, 64)] * 3 + [(8, 16)] * 2 + [(16, 4)] * 2 + [(32, 1)] * 2 + [(5, 1)]),
        # Embedding with the first block; the last one ends at the class token, all that the head reads.
        (lambda: build(VIT, 0), (3, 8, 8), [(12, 17), (12, 17), (12, 1), (5, 1)]),
        # No blocks: one layer each.
        (lambda: build(VGG, 0), (1, 8, 8), [(3, 256), (4, 64), (4, 16), (5, 16), (5, 4), (10, 1)]),
        # Its tokens are normalised before one of them is selected.
        (lambda: models.VisionTransformer(16, 8, 3, 4, 16, 24), (3, 16, 16), [(16, 5)] * 3 + [(1000, 1)]),
        # Stem, of which the pooling is a part, blocks, head.
        (models.resnet18, (3, 64, 64), OF_STAGES),
        # The blocks without a skip go with the next one that has one.
        (
            models.mobilenet_v3_small,
            (3, 64, 64),
            [(24, 64)] * 2 + [(40, 16)] * 2 + [(48, 16)] + [(96, 4)] * 2 + [(1000, 1)],
        ),
        (
            models.convnext_tiny,
            (3, 64, 64),
            [(96, 256)] * 3 + [(192, 64)] * 3 + [(384, 16)] * 9 + [(768, 4)] * 3 + [(1000, 1)],
        ),
    ],
)
def test_blocks_are_found_without_names(make, shape, expected):
    model, x = seeded(0, make).eval(), normal(3, *shape).float()
    (net,) = networks_of([model], x)
    net = in_blocks(net)
    sizes = [net.spaces.neurons.shape(layer.end).numel() for layer in net.layers]
    assert [(width, size // width) for width, size in zip(net.widths, sizes, strict=True)] == expected
    values = net.graph.given([x])
    with torch.no_grad():
        for layer in net.layers:
            values = net.graph.run(net.weights, {**values, **net.graph.given([x])}, [layer.end])
        assert torch.equal(values[net.graph.output], model(x))
