"""Access to single layers of a running network (RegMean, PLeaS, REPAIR, linear probe)."""

from collections.abc import Sequence

import torch
from torch import Tensor, fx, nn

from ..networks.copies import evaluating, tried
from ..networks.levels import forms
from ..networks.levels.kinds import CONVOLUTIONS, AffineLayer, held, is_plain, parameter_count
from ..networks.levels.plain import linear_of
from ..networks.levels.tracing import trace
from ..networks.levels.weights import shared_weights
from ..system import device as devices

#: Batch size.
BATCH = 100


def affine_layers(model: nn.Module) -> dict[str, AffineLayer]:
    """Linear layers and ungrouped convolutions by name, without those whose class has a forward of its own.

    A module that multiplies by its weight (inputs, outputs), as GPT-2's Conv1D, is a linear layer with that memory.
    """
    layers: dict[str, AffineLayer] = {}
    for name, module in model.named_modules():
        if is_plain(module, nn.Linear) or (is_plain(module, CONVOLUTIONS) and module.groups == 1):
            layers[name] = module
        elif multiplies(module):
            weight, *bias = module.parameters()
            layers[name] = linear_of(weight.T, *bias)
    return layers


@torch.no_grad()
def multiplies(module: nn.Module) -> bool:
    """Whether a module of others computes x @ weight + bias, with weight (inputs, outputs); it is run on random rows."""
    shapes = [(name, parameter.ndim) for name, parameter in module.named_parameters()]
    if type(module).__module__.startswith("torch.") or shapes not in ([("weight", 2), ("bias", 1)], [("weight", 2)]):
        return False
    weight, *bias = module.parameters()
    rows = torch.randn(2, len(weight), generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(weight)
    made = tried(module, rows)
    if not isinstance(made, Tensor) or any(part.shape != made.shape[1:] for part in (*weight[:1], *bias)):
        return False
    return torch.allclose(made, rows @ weight + sum(bias), 1e-3, 1e-5)


def form_of(layer: AffineLayer) -> forms.Affine:
    """A layer as a form, to read and write its weights (p, c), with the bias in the last row, like a level's."""
    return forms.Affine((layer,), (), nn.Identity())


def refuse_shared_layers(model: nn.Module, where: str, example: Tensor) -> None:
    """Refuse networks whose layers share weights, for methods that solve each layer alone.

    Args:
        where: method and network, to start the message.
        example: (B, ...) input in the network's precision.
    Raises:
        ValueError: names the tensors.
    """
    solved = {f"{name}.{part}" for name in affine_layers(model) for part in ("weight", "bias")}
    for names in shared_weights(model):
        if solved & set(names):
            raise ValueError(
                f"{where}: {' and '.join(map(repr, names))} are one tensor, but this method solves each layer on "
                "its own. Use Git-Re-Basin, OTFusion or ZipIt, which keep it shared, or give each layer its own "
                "weights."
            )
    for name in _read_outside(model, example):
        if name in solved:
            raise ValueError(
                f"{where}: {name!r} is also read outside its layer, but this method solves each layer on its own. "
                "Use Git-Re-Basin, OTFusion or ZipIt, which keep it shared, or give each use its own weights."
            )


def refuse_other_numbers(models: Sequence[nn.Module], method: str, example: Tensor) -> None:
    """Refuse networks that compute with buffers of other numbers, as where these normalise inputs, for methods that take the
    layers' inputs for those of the averaged network.

    Args:
        method: its name, to start the message.
        example: (B, ...) input in the networks' precision.
    Raises:
        ValueError: names a buffer and the numbers.
    """
    first, *others = (dict(model.named_buffers()) for model in models)
    for index, other in enumerate(others, 1):
        differ = {name for name, own in first.items() if name in other and _differ(own, other[name])}
        for name in differ and differ & _before_layers(models[0], example):
            place = (first[name] - other[name].to(first[name])).abs().argmax()
            here, there = (f"{buffer.flatten()[place].item():.4g}" for buffer in (first[name], other[name]))
            raise ValueError(
                f"{method}: parent 0 and parent {index} compute with other numbers ({name!r} holds {here} and {there}), so the "
                "layers' inputs are not those of the averaged network. Normalise data before the networks, alike for all, or "
                "use HF-Linear or KF-Linear."
            )


def _differ(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.is_floating_point() and not torch.allclose(one, other.to(one), 1e-5, 1e-6)


def _before_layers(model: nn.Module, example: Tensor) -> set[str]:
    """Buffers that the network's code reads before a layer, and those of modules that hold nothing else, before the first."""
    try:
        with evaluating(model):
            graph = trace(model, (), example.to(devices.of(model)), whole=True).graph
    except ValueError:  # its code cannot be followed
        return set()
    found, behind, plain = set[str](), set[fx.Node](), set[fx.Node]()  # plain: no parameter comes before them
    for node in reversed(graph.nodes):
        weights = [isinstance(held(read), nn.Parameter) for user in node.users for read in user.all_input_nodes]
        if any(weights) or any(user in behind or parameter_count(user) for user in node.users):
            behind.add(node)
    for node in graph.nodes:
        target = held(node)
        if node.op == "get_attr" and not isinstance(target, nn.Parameter):
            found |= {str(node.target)} if node in behind else set()
        elif parameter_count(node) or not plain.issuperset(node.all_input_nodes):
            continue
        elif isinstance(target, nn.Module):
            found |= {name for name, _ in target.named_buffers(str(node.target))}
        plain.add(node)
    return found


def _read_outside(model: nn.Module, example: Tensor) -> list[str]:
    """Parameters of called layers that the network's code also reads directly (`F.linear(h, layer.weight.t())`)."""
    try:
        with evaluating(model):
            graph = trace(model, (), example.to(devices.of(model)), whole=True).graph
    except ValueError:  # its code cannot be followed
        return []
    run = {node.target for node in graph.nodes if node.op == "call_module"}
    return [
        str(node.target) for node in graph.nodes if node.op == "get_attr" and str(node.target).rpartition(".")[0] in run
    ]
