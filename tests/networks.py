"""Tiny random networks in float64, and copies of them whose function is known to be the same.

Weights come from a generator of their own, so that no test depends on the order of tests.
"""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torchvision
from torch import Tensor, nn

import retrofit_core
from retrofit_core.data import load
from retrofit_core.data.splits import sharded, write_splits
from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import save_model

AFFINE = (nn.Linear, nn.Conv2d)
CNN_SHAPE = (2, 7, 7)
VGG_SHAPE = (3, 8, 8)
#: A ViT of images of CNN_SHAPE.
VIT = {
    "architecture": "vit",
    "patch": 2,
    "resize": 4,
    "hidden": 8,
    "depth": 2,
    "heads": 2,
    "mlp_width": 8,
    "channels": 2,
    "size": 7,
    "classes": 3,
}


def seeded(seed: int, make: Callable[..., nn.Module], *args: Any, **options: Any) -> nn.Module:
    """What `make` builds, whatever random numbers torch gave before: `initialised` leaves some parameters as they are made."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(*args, **options)


def initialised(model: nn.Module, seed: int) -> nn.Module:
    """The model in float64 and evaluation mode, with variance-preserving random weights and live BatchNorms."""
    generator = torch.Generator().manual_seed(seed)
    model.double().eval()
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.weight.data = torch.randn(module.weight.shape, generator=generator).double()
        elif isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            fan_in = module.weight[0].numel()
            module.weight.data = torch.randn(module.weight.shape, generator=generator).double() * (2 / fan_in) ** 0.5
            if module.bias is not None:
                module.bias.data = torch.randn(module.bias.shape, generator=generator).double() * 0.3
        elif isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            module.running_mean.normal_(generator=generator).mul_(0.3)
            module.running_var.uniform_(0.5, 2.0, generator=generator)
            if module.affine:
                module.weight.data.uniform_(0.5, 1.5, generator=generator)
                module.bias.data.normal_(generator=generator).mul_(0.2)
    return model


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Independent standard normal numbers, float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def labels(count: int, classes: int, seed: int = 0) -> Tensor:
    """Random class numbers in which every class occurs."""
    drawn = torch.randint(classes, (count,), generator=torch.Generator().manual_seed(seed))
    drawn[:classes] = torch.arange(classes)
    return drawn


def mlp(sizes: Sequence[int] = (6, 8, 7, 4), *, bias: bool = True, activation: type = nn.ReLU, seed: int = 0):
    """Linear layers with an activation between them."""
    parts: list[nn.Module] = []
    for inputs, outputs in zip(sizes[:-1], sizes[1:], strict=True):
        parts += [nn.Linear(inputs, outputs, bias=bias), activation()]
    return initialised(nn.Sequential(*parts[:-1]), seed)


def cnn(
    widths: Sequence[int] = (4, 5), classes: int = 3, *, bias: bool = True, activation: type = nn.ReLU, seed: int = 0
):
    """Padding, stride 2, overlapping and plain pooling, and a classifier that reads 2 x 2 positions a channel."""
    first, second = widths
    parts = [
        nn.Conv2d(2, first, 3, padding=1, bias=bias),  # 7 x 7
        activation(),
        nn.MaxPool2d(2, stride=1),  # 6 x 6
        nn.Conv2d(first, second, 3, stride=2, padding=1, bias=bias),  # 3 x 3
        activation(),
        nn.AvgPool2d(2, stride=1),  # 2 x 2
        nn.Flatten(),
        nn.Linear(second * 4, classes, bias=bias),
    ]
    return initialised(nn.Sequential(*parts), seed)


def batchnorm_cnn(widths: Sequence[int] = (4, 5), classes: int = 3, *, bias: bool = False, seed: int = 0):
    """BatchNorm after both convolutions and after a hidden linear layer; with or without a bias to fold it into."""
    first, second = widths
    parts = [
        nn.Conv2d(2, first, 3, padding=1, bias=bias),
        nn.BatchNorm2d(first),
        nn.ReLU(),
        nn.MaxPool2d(2),  # 3 x 3
        nn.Conv2d(first, second, 2, bias=bias),  # 2 x 2
        nn.BatchNorm2d(second),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(second * 4, 6, bias=bias),
        nn.BatchNorm1d(6),
        nn.ReLU(),
        nn.Linear(6, classes),
    ]
    return initialised(nn.Sequential(*parts), seed)


class Block(nn.Module):
    """A residual block with in-place activations and a functional sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.relu2 = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv2(self.relu1(self.conv1(x)))
        out += x
        return self.relu2(out)


class Residual(nn.Module):
    """Stem, two residual blocks, a mean over positions, a classifier."""

    def __init__(self, width: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, width, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.fc = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.blocks(self.relu(self.stem(x))).mean((2, 3)))


def residual(width: int = 4, classes: int = 3, *, seed: int = 0):
    return initialised(Residual(width, classes), seed)


def affine_layers(model: nn.Module) -> list[nn.Module]:
    """The Linear and Conv2d layers in order."""
    return [module for module in model.modules() if isinstance(module, AFFINE)]


@torch.no_grad()
def layer_outputs(model: nn.Sequential, x: Tensor) -> list[Tensor]:
    """What each layer gives."""
    found = []
    for module in model:
        x = module(x)
        if isinstance(module, AFFINE):
            found.append(x)
    return found


@torch.no_grad()
def rewired(model: nn.Module, members: Sequence[Tensor], shares: Sequence[Tensor]) -> nn.Module:
    """A Sequential whose hidden neuron i of layer l is old neuron members[l][i], its outgoing weights scaled by shares.

    With shares that add up to 1 over the copies of each old neuron the function stays the same.
    """
    twin = copy.deepcopy(model)
    layers = affine_layers(twin)
    norms = {}
    previous = None
    for module in twin:
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            norms[previous] = module
        elif isinstance(module, AFFINE):
            previous = module
    for layer, after, chosen, share in zip(layers[:-1], layers[1:], members, shares, strict=True):
        old = layer.weight.shape[0]
        _take(layer, chosen)
        if layer in norms:
            _take_norm(norms[layer], chosen)
        each = after.weight.shape[1] // old  # positions per channel where a Linear reads a flattened convolution
        weight = after.weight.reshape(after.weight.shape[0], old, each, -1)[:, chosen]
        weight = weight * share[None, :, None, None]
        after.weight = nn.Parameter(weight.reshape(after.weight.shape[0], len(chosen) * each, *after.weight.shape[2:]))
        if isinstance(after, nn.Linear):
            after.in_features = len(chosen) * each
        else:
            after.in_channels = len(chosen)
    return twin


def _take(layer: nn.Module, chosen: Tensor) -> None:
    layer.weight = nn.Parameter(layer.weight[chosen].clone())
    if layer.bias is not None:
        layer.bias = nn.Parameter(layer.bias[chosen].clone())
    setattr(layer, "out_features" if isinstance(layer, nn.Linear) else "out_channels", len(chosen))


def _take_norm(norm: nn.Module, chosen: Tensor) -> None:
    norm.weight, norm.bias = nn.Parameter(norm.weight[chosen].clone()), nn.Parameter(norm.bias[chosen].clone())
    norm.running_mean, norm.running_var = norm.running_mean[chosen].clone(), norm.running_var[chosen].clone()
    norm.num_features = len(chosen)


def permuted(model: nn.Module, seed: int = 7) -> nn.Module:
    """The same function with the hidden neurons of every layer in another order."""
    generator = torch.Generator().manual_seed(seed)
    widths = [layer.weight.shape[0] for layer in affine_layers(model)[:-1]]
    orders = [torch.randperm(width, generator=generator) for width in widths]
    return rewired(model, orders, [torch.ones(width).double() for width in widths])


def shuffled(model: nn.Module, x: Any, seed: int = 7) -> nn.Module:
    """The same of any network whose neurons can be followed; x is what it is run on."""
    twin = retrofit_core.permuted(model, x, seed)
    assert torch.allclose(twin(x), model(x), atol=1e-9)
    return twin


def widened(model: nn.Module, extra: int = 3, seed: int = 5) -> nn.Module:
    """Net2Wider (Chen et al. 2016): `extra` hidden neurons per layer are copies, outgoing weights divided.

    The function stays the same.
    """
    generator = torch.Generator().manual_seed(seed)
    members, shares = [], []
    for layer in affine_layers(model)[:-1]:
        width = layer.weight.shape[0]
        copies = torch.randint(width, (extra,), generator=generator)
        chosen = torch.cat([torch.arange(width), copies])
        members.append(chosen)
        shares.append(1 / torch.bincount(chosen).double()[chosen])
    return rewired(model, members, shares)


def digits_parents(folder: Path, **spec: Any) -> dict[str, Any]:
    """Checkpoints of two untrained small networks and the splits of a sharded pair, as fields of a run's config."""
    labels = load("digits").labels
    files = [folder / f"parent-{k}.safetensors" for k in range(2)]
    for k, file in enumerate(files):
        save_model(build({"architecture": "cnn", "widths": [4, 6, 6], **spec}, seed=k), file)
    write_splits(folder / "splits.json", sharded(labels, 2), labels, model_files=files, split="sharded")
    return {"models": tuple(map(str, files)), "splits": str(folder / "splits.json")}


def small_torchvision_vgg(batch_norm: bool) -> nn.Module:
    """torchvision's class and forward with its layers made small."""
    with torch.device("meta"):  # its own classifier has 120 million weights
        model = torchvision.models.VGG(nn.Identity(), num_classes=4, init_weights=False)
    model.features = torchvision.models.vgg.make_layers([4, "M", 5, "M", 6, 6, "M"], batch_norm=batch_norm)
    model.classifier = nn.Sequential(
        nn.Linear(6 * 49, 12),
        nn.ReLU(True),
        nn.Dropout(),
        nn.Linear(12, 8),
        nn.ReLU(True),
        nn.Dropout(),
        nn.Linear(8, 4),
    )
    return initialised(model, 0).float()
