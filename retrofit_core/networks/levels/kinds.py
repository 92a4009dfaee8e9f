"""Kinds of nodes in a traced graph: affine layers, activation functions, sums, layers with parameters."""

import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules.dropout import _DropoutNd

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
AFFINE = (nn.Linear, *CONVOLUTIONS)
Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
AffineLayer = nn.Linear | Convolution
BatchNorm = nn.modules.batchnorm._BatchNorm
LAYERS = (*AFFINE, nn.Embedding)
#: Identities in evaluation mode, such as dropout modules; `tracing` removes the functional ones.
TRANSPARENT = (_DropoutNd, nn.Identity)


def words(text: str) -> set[str]:
    """A set of names from a string."""
    return set(text.split())


#: Activation functions, as modules and as functions.
ACTIVATIONS = tuple(
    getattr(nn, name)
    for name in words(
        "ReLU GELU SiLU Hardswish LeakyReLU ELU Tanh Sigmoid Softplus ReLU6 Mish SELU CELU Hardtanh Hardsigmoid "
        "LogSigmoid Softsign Tanhshrink Softshrink Hardshrink RReLU Threshold PReLU"
    )
)
ACTIVATION_FUNCTIONS = words(
    "relu gelu silu hardswish leaky_relu elu tanh sigmoid softplus relu6 mish selu celu hardtanh hardsigmoid logsigmoid "
    "softsign tanhshrink softshrink hardshrink rrelu threshold"
)
#: Functions of each entry, and of the same entry of two tensors.
ENTRYWISE = ACTIVATION_FUNCTIONS | words(
    "exp log sqrt rsqrt abs neg pow square clamp clamp_min clamp_max clip sin cos reciprocal float double to type_as "
    "zeros_like ones_like threshold erf log1p expm1 sign nan_to_num logical_not"
)
BINARY = words(
    "add sub mul truediv div maximum minimum multiply subtract pow where addcmul addcdiv lerp logaddexp fmax fmin hypot "
    "gt lt ge le eq ne masked_fill fmod remainder logical_and logical_or"
)
ADDITIONS = {operator.add, operator.iadd, torch.add}


def is_preactivation(node: fx.Node, modules: dict[Any, Any]) -> bool:
    if node.op == "call_module":
        return isinstance(modules[node.target], LAYERS)
    return is_sum(node)


def is_channelwise(layer: nn.Module) -> bool:
    """Whether a convolution is depthwise with one output per channel."""
    return isinstance(layer, CONVOLUTIONS) and layer.groups == layer.in_channels == layer.out_channels


def is_sum(node: fx.Node) -> bool:
    """Whether a node adds two computed tensors."""
    is_sum = (node.op == "call_function" and node.target in ADDITIONS) or (node.op, node.target) == (
        "call_method",
        "add",
    )
    inputs = [arg for arg in node.args if isinstance(arg, fx.Node) and arg.op != "get_attr" and arg.meta["is_tensor"]]
    return is_sum and len(inputs) == 2


def is_activation(node: fx.Node, modules: dict[Any, Any]) -> bool:
    if node.op == "call_module":
        return isinstance(modules[node.target], ACTIVATIONS)
    return operation(node) in ACTIVATION_FUNCTIONS


def is_entrywise(node: fx.Node, modules: dict[Any, Any]) -> bool:
    """Whether each number of a node's output is a function of the same number of its only input, without parameters."""
    if node.op == "call_module":
        return isinstance(modules[node.target], (*ACTIVATIONS, *TRANSPARENT)) and not parameter_count(node, modules)
    return operation(node) in ENTRYWISE | BINARY and len(node.all_input_nodes) == 1


def operation(node: fx.Node) -> str:
    """The name of the function or method that a node calls, else empty."""
    if node.op == "call_method":
        return str(node.target)
    return getattr(node.target, "__name__", "") if node.op == "call_function" else ""


def has_parameters(nodes: Iterable[fx.Node], modules: dict[Any, Any]) -> bool:
    return any(parameter_count(node, modules) for node in nodes)


def parameter_count(node: fx.Node, modules: dict[Any, Any]) -> int:
    target = modules.get(node.target) if node.op in ("call_module", "get_attr") else None
    if isinstance(target, nn.Module):
        return sum(p.numel() for p in target.parameters())
    return target.numel() if isinstance(target, nn.Parameter) else 0


def argument(node: fx.Node, name: str, position: int, default: object) -> Any:
    """An argument of a function or method, by name or position."""
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)
