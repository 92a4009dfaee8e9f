"""Heads for different classes, joined: every network gets the outputs of all of them, so that class c is the same everywhere."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..system.duplicates import duplicate
from .weights import refuse_shared

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@torch.no_grad()
def joined_heads(
    networks: Sequence[nn.Module], classes: Sequence[Sequence[str]], *, head: str | None = None
) -> list[nn.Module]:
    """Copies of classifiers for different classes, each with an output for every class of any of them.

    A network's own outputs stay as they are. A class that it does not know gets the mean of its own outputs: the mean of its last
    layer's rows, which is never above the best of its own.

    Args:
        classes: of each network, in the order of its outputs. The new outputs are in the order of first appearance: those of the
            first network, then what others add.
        head: name of the last layer; default: the only linear layer or convolution with as many outputs as classes.
    Raises:
        ValueError: other numbers of networks and lists, a class twice, or no layer, or several, with as many outputs as classes.
    """
    if len(networks) != len(classes):
        raise ValueError(f"{len(networks)} networks have {len(classes)} lists of classes. Pass one for each.")
    for index, names in enumerate(classes):
        if isinstance(names, str) or len(set(names)) != len(names):
            raise ValueError(
                f"the classes of network {index} are {names!r:.200}. Pass a list in which each occurs once."
            )
    union = list(dict.fromkeys(name for names in classes for name in names))
    joined = []
    for index, (network, names) in enumerate(zip(networks, classes, strict=True)):
        wider = duplicate(network)
        _widen(wider, _head(wider, len(names), head, f"network {index}"), [*names], union)
        _rename(wider, union)
        joined.append(wider)
    return joined


def _head(network: nn.Module, outputs: int, name: str | None, who: str) -> nn.Module:
    """The last layer of a classifier."""
    layers = {
        path: module for path, module in network.named_modules() if isinstance(module, (nn.Linear, *CONVOLUTIONS))
    }
    fits = {path: layer for path, layer in layers.items() if len(layer.weight) == outputs and name in (None, path)}
    if len(fits) != 1:
        found = ", ".join(map(repr, fits)) or "none"
        raise ValueError(
            f"{who}, {type(network).__name__}, has {outputs} classes, and the layers with {outputs} outputs are {found}: which "
            f"one is the last is not known. Name it: head=NAME, one of {', '.join(map(repr, layers))}."
        )
    ((path, layer),) = fits.items()
    alone = "so the last layer cannot get more outputs alone. Give each layer its own weights."
    refuse_shared(network, path, who, alone)
    return layer


def _widen(network: Any, layer: Any, names: list[str], union: list[str]) -> None:
    """Give the last layer one output for each class of the union, and enter their number where the network states it."""

    def widened(values: Tensor) -> nn.Parameter:
        rows = [values[names.index(name)] if name in names else values.mean(0) for name in union]
        return nn.Parameter(torch.stack(rows), requires_grad=values.requires_grad)

    layer.weight = widened(layer.weight)
    if layer.bias is not None:
        layer.bias = widened(layer.bias)
    setattr(layer, "out_features" if isinstance(layer, nn.Linear) else "out_channels", len(union))
    spec = getattr(network, "spec", None)
    if isinstance(spec, dict):  # a checkpoint builds the network from it
        counts = {key: len(union) for key in ("classes", "num_classes") if key in spec}
        sizes = {"sizes": [*spec["sizes"][:-1], len(union)]} if "sizes" in spec else {}
        network.spec = {**spec, **counts, **sizes}


def _rename(network: Any, union: list[str]) -> None:
    """Enter the classes where the network names them, see `names_in`."""
    if getattr(network, "classes", None) is not None:
        network.classes = union
    config = getattr(network, "config", None)
    if config is not None and getattr(config, "id2label", None):
        config.id2label = dict(enumerate(union))
        config.label2id = {name: index for index, name in enumerate(union)}
    if hasattr(network, "num_labels"):
        network.num_labels = len(union)
