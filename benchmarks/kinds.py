"""Closed form of networks beside VGGs and ResNets on digits: parents of five classes each, their ensemble, and what is fused.

    python benchmarks/kinds.py                     all networks, one line each; a few minutes a network on one core
    python benchmarks/kinds.py --only regnet

Networks of torchvision, small, for images of 8 x 8. 400 samples of all classes, or of parent 0's. Accuracies on 359 test images.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch
import torchvision
from torch import nn
from torchvision.models.convnext import CNBlockConfig, ConvNeXt
from torchvision.models.regnet import BlockParams, RegNet

from retrofit_core import METHODS, evaluate
from retrofit_core.data import Images, load
from retrofit_core.data.splits import sharded
from retrofit_core.training.evaluation import ensemble

SAMPLES, EPOCHS = 400, 15


def regnet() -> nn.Module:
    """Grouped convolutions, each with a gate."""
    blocks = BlockParams([1, 1], [32, 64], [8, 8], [1.0, 1.0], [1, 2], se_ratio=0.25)
    model = RegNet(blocks, num_classes=10)
    model.stem[0] = nn.Conv2d(1, 32, 3, padding=1, bias=False)  # type: ignore[index, operator]
    return model


def convnext() -> nn.Module:
    """Depthwise convolutions, LayerNorms over channels, layer scales."""
    model = ConvNeXt([CNBlockConfig(32, 64, 1), CNBlockConfig(64, None, 1)], num_classes=10, layer_scale=0.1)
    model.features[0][0] = nn.Conv2d(1, 32, 2, stride=2)  # type: ignore[index, operator]
    return model


def squeezenet() -> nn.Module:
    """Concatenations, and a last convolution behind which positions are averaged."""
    model = torchvision.models.squeezenet1_1(num_classes=10)
    fire = list(model.features)
    model.features = nn.Sequential(nn.Conv2d(1, 64, 3, padding=1), nn.ReLU(), *fire[3:5], nn.MaxPool2d(2), *fire[6:8])
    model.classifier[1] = nn.Conv2d(256, 10, 1)
    return model


def shufflenet() -> nn.Module:
    """Channels that are split, shuffled and put side by side again."""
    model = torchvision.models.shufflenet_v2_x0_5(num_classes=10)
    model.conv1[0], model.maxpool = nn.Conv2d(1, 24, 3, padding=1, bias=False), nn.Identity()
    return model


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "regnet": regnet,
    "convnext": convnext,
    "squeezenet": squeezenet,
    "shufflenet": shufflenet,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="some networks")
    images, test = load("digits", "train"), load("digits", "test")
    for name in parser.parse_args().only:
        print(json.dumps({"network": name, **measured(NETWORKS[name], images, test)}), flush=True)


def measured(make: Callable[[], nn.Module], images: Images, test: Images) -> dict[str, Any]:
    """Accuracies, and seconds of the fusions."""
    parts = sharded(images.labels, 2, seed=0)
    parents = [trained(make, images, rows, seed) for seed, rows in enumerate(parts)]
    own = [(images.inputs(rows[:SAMPLES]), images.labels[rows[:SAMPLES]]) for rows in parts]
    rows = torch.randperm(len(images.labels), generator=torch.Generator().manual_seed(0))[:SAMPLES]
    data = {"all classes": (images.inputs(rows), images.labels[rows]), "parent 0's": own[0]}
    facts: dict[str, Any] = {
        "parents": [accuracy(parent, test) for parent in parents],
        "ensemble": accuracy(ensemble(parents), test),
        "average": accuracy(METHODS["Average"](parents, own[0], device="cpu").model, test),
    }
    for where, samples in data.items():
        for method in ("HF-Linear", "KF-Linear"):
            for importance in ("uniform", "conductance"):
                more = {"importance_data": own} if importance == "conductance" else {}
                start = time.perf_counter()
                fused = METHODS[method](parents, samples, importance=importance, device="cpu", **more).model
                seconds = round(time.perf_counter() - start, 1)
                facts[f"{method}, {importance}, samples of {where}"] = [accuracy(fused, test), seconds]
    return facts


def trained(make: Callable[[], nn.Module], images: Images, rows: torch.Tensor, seed: int) -> nn.Module:
    """A network that has seen these images only."""
    torch.manual_seed(seed)
    model, x, y = make().train(), images.inputs(rows), images.labels[rows]
    steps = EPOCHS * -(-len(x) // 64)
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimiser.step()
            schedule.step()
    return model.eval()


def accuracy(model: nn.Module, test: Images) -> float:
    return round(evaluate(model, test)["accuracy"], 1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
