"""What a node of a traced graph is: a layer, an activation function, a sum, something with parameters."""

from collections.abc import Collection
from functools import cache
from typing import Any, TypeGuard

from torch import fx, nn

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
AFFINE = (nn.Linear, *CONVOLUTIONS)
Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
AffineLayer = nn.Linear | Convolution
BatchNorm = nn.modules.batchnorm._BatchNorm
InstanceNorm = nn.modules.instancenorm._InstanceNorm
LAYERS = (*AFFINE, nn.Embedding)


def is_plain(module: object, kinds: type | tuple[Any, ...]) -> TypeGuard[Any]:
    """Whether a module is one of these kinds of torch's layers and computes what that layer does: a subclass, or a layer whose
    forward was replaced, may use its weights otherwise."""
    if not isinstance(module, kinds) or "forward" in vars(module):
        return False
    original = next(cls for cls in type(module).__mro__ if cls.__module__.startswith("torch."))
    return all(
        getattr(type(module), name, None) is getattr(original, name, None) for name in ("forward", "_conv_forward")
    )


@cache
def plain(name: str) -> str:
    """A name without case and underscores: `nn.LeakyReLU` and `F.leaky_relu` are one operation."""
    return name.replace("_", "").lower()


def words(text: str) -> set[str]:
    """A set of plain names from a string."""
    return set(map(plain, text.split()))


#: Identities in evaluation mode; active functions of these are refused when they are traced.
TRANSPARENT = words("_DropoutNd identity contiguous clone")
#: Operations that only put axes into another order.
REORDERING = words("permute transpose t swapaxes swapdims movedim moveaxis")
ACTIVATIONS = words(
    "relu gelu silu hardswish leaky_relu elu tanh sigmoid softplus relu6 mish selu celu hardtanh hardsigmoid logsigmoid "
    "softsign tanhshrink softshrink hardshrink rrelu threshold"
)
#: Functions of each entry, and of the same entry of two tensors.
ENTRYWISE = ACTIVATIONS | words(
    "exp log sqrt rsqrt abs neg pow square clamp clamp_min clamp_max clip sin cos reciprocal float double to type_as "
    "zeros_like ones_like zero fill erf log1p expm1 sign nan_to_num logical_not _DropoutNd identity"
)
BINARY = words(
    "add sub mul truediv div maximum minimum multiply subtract pow where addcmul addcdiv lerp logaddexp fmax fmin hypot "
    "gt lt ge le eq ne masked_fill fmod remainder logical_and logical_or"
)


def held(node: fx.Node) -> Any:
    """The module that a node calls, or the tensor that it reads; None for operations."""
    return node.meta.get("held")


def names(node: fx.Node) -> tuple[str, ...]:
    """The plain name of the function or method that a node calls, or of the module's class in torch and its bases."""
    if node.op == "call_module":
        return _names_of(type(held(node)))
    if node.op == "call_method":
        return (plain(str(node.target)),)
    return (plain(getattr(node.target, "__name__", "")),) if node.op == "call_function" else ()


@cache
def _names_of(kind: type[nn.Module]) -> tuple[str, ...]:
    return tuple(plain(cls.__name__) for cls in kind.__mro__ if cls.__module__.startswith("torch."))


def does(node: fx.Node, kinds: Collection[str]) -> bool:
    """Whether a node is one of these operations."""
    return any(name in kinds for name in names(node))


def operation(node: fx.Node) -> str:
    """The plain name of the function or method that a node calls, else empty."""
    return "" if node.op == "call_module" else "".join(names(node))


def is_layer(node: fx.Node) -> bool:
    """Whether a node calls a linear layer, a convolution or an embedding."""
    return isinstance(held(node), LAYERS)


def is_sum(node: fx.Node) -> bool:
    """Whether a node adds two computed tensors."""
    if operation(node) != "add":
        return False
    inputs = [arg for arg in node.args if isinstance(arg, fx.Node) and arg.op != "get_attr" and arg.meta["is_tensor"]]
    return len(inputs) == 2


def is_activation(node: fx.Node) -> bool:
    return does(node, ACTIVATIONS) or isinstance(held(node), nn.PReLU)


def is_entrywise(node: fx.Node) -> bool:
    """Whether each number of a node's output is a function of the same number of its only input, without parameters."""
    return does(node, ENTRYWISE | BINARY) and len(node.all_input_nodes) == 1


def parameter_count(node: fx.Node) -> int:
    target = held(node)
    if isinstance(target, nn.Module):
        return sum(p.numel() for p in target.parameters())
    return target.numel() if isinstance(target, nn.Parameter) else 0


def argument(node: fx.Node, name: str, position: int, default: object) -> Any:
    """An argument of a function or method, by name or position."""
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)
