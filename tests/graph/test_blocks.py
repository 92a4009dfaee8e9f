"""The blocks of architectures, ours and one that nobody adapted: widths and positions."""

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


@pytest.mark.slow
@each_case(
    "make, shape, expected",
    [
        (lambda: build(RESNET, 0), (1, 8, 8), [(4, 64)] * 3 + [(8, 16)] * 2 + [(16, 4)] * 2 + [(32, 1)] * 2 + [(5, 1)]),
        # Embedding with the first block; the last one ends at the class token, all that the head reads.
        (lambda: build(VIT, 0), (3, 8, 8), [(12, 17), (12, 17), (12, 1), (5, 1)]),
        # The blocks without a skip go with the next one that has one.
        (
            models.mobilenet_v3_small,
            (3, 64, 64),
            [(24, 64)] * 2 + [(40, 16)] * 2 + [(48, 16)] + [(96, 4)] * 2 + [(1000, 1)],
        ),
    ],
)
def test_blocks_are_found_without_names(make, shape, expected):
    model, x = seeded(0, make).eval(), normal(3, *shape).float()
    (net,) = networks_of([model], x)
    net = in_blocks(net)
    sizes = [net.spaces.neurons.shape(layer.end).numel() for layer in net.layers]
    assert [(width, size // width) for width, size in zip(net.widths, sizes, strict=True)] == expected
    values = net.graph.input_values([x])
    with torch.no_grad():
        for layer in net.layers:
            values = net.graph.run(net.weights, {**values, **net.graph.input_values([x])}, [layer.end])
        assert torch.equal(values[net.graph.output], model(x))
