"""Whether networks whose weights are to be averaged run the same code: their modules' settings, and what they compute.

Averaged weights run in the first network's code. Equal tensors do not show that the others run it too: eps, padding modes,
strides, attention heads and activation functions are no tensors.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..system.duplicates import duplicate
from ..system.refusals import Refusal
from .inputs import Inputs, count_of, rows_of
from .outputs import answers
from .statedicts import tensors_in

#: Settings that change nothing in evaluation mode, or that tensors show.
OF_TRAINING = {"p", "dropout", "inplace", "momentum", "affine", "elementwise_affine", "bias", "padding_idx"}
WIDTHS = {
    *("in_features", "out_features", "in1_features", "in2_features"),
    *("in_channels", "out_channels", "num_features", "num_channels", "num_parameters", "normalized_shape"),
    *("embed_dim", "kdim", "vdim", "num_embeddings", "embedding_dim", "input_size", "hidden_size", "proj_size"),
}
#: Settings that may grow with the width, and are compared only where widths are equal.
OF_WIDTHS = {"groups", "num_groups", "num_heads"}
#: Settings that torch's modules do not declare as constants.
UNDECLARED = {"num_heads", "add_zero_attn", "activation"}
DROPOUTS = (nn.modules.dropout._DropoutNd, nn.Identity)
#: Relative difference of outputs from which code differs; rounding differs by less.
DIFFERENCE = 1e-4


def parent_names(count: int) -> list[str]:
    """Names of networks in messages."""
    return [f"parent {index}" for index in range(count)]


def check_same_settings(networks: Sequence[nn.Module], names: Sequence[str]) -> None:
    """Refuse networks whose modules of the same name have other classes or settings (torch's modules; widths may differ).

    Args:
        names: of the networks, for messages.
    Raises:
        ValueError: names the first module and its setting.
    """
    modules = dict(networks[0].named_modules())
    for network, name in zip(networks[1:], names[1:], strict=True):
        for path, other in network.named_modules():
            found = _difference(modules.get(path, other), other)
            if found:
                here, there = found
                raise _refusal(f"{path!r} has {there} in {name} and {here} in {names[0]}", names[0])


@torch.no_grad()
def check_same_code(networks: Sequence[nn.Module], inputs: Inputs, names: Sequence[str]) -> None:
    """Refuse networks with other settings, and those that compute something else than the first one's code with their weights.

    The latter compares networks with tensors of equal names and shapes, unless they do not run on the inputs, which others
    report, or their outputs change from run to run. Without inputs, it refuses other forward hooks.

    Args:
        inputs: samples, of which the first two are run, or none.
        names: of the networks, for messages.
    Raises:
        ValueError: names the network.
    """
    check_same_settings(networks, names)
    if not count_of(inputs):
        for network, name in zip(networks[1:], names[1:], strict=True):
            if other := set(_hooks(network)) ^ set(_hooks(networks[0])):
                raise ValueError(
                    f"{name} and {names[0]} have different forward hooks: {min(other)[1]!r} of layer {min(other)[0]!r}. Whether "
                    "that changes what it computes shows on data only: pass some samples, or remove the hooks."
                )
        return
    stand_in = duplicate(networks[0])
    for network, name in zip(networks[1:], names[1:], strict=True):
        state, written = tensors_in(network), tensors_in(stand_in)
        if {key: tensor.shape for key, tensor in state.items()} != {key: each.shape for key, each in written.items()}:
            continue
        for key, tensor in written.items():
            tensor.copy_(state[key])
        once, again = (_outputs(network, inputs) for _ in range(2))
        if once is not None and not _differ(once, again) and _differ(once, _outputs(stand_in, inputs)):
            raise _refusal(
                f"the code of {names[0]} computes something else with the weights of {name} than {name} does: a hook or an "
                "attribute may differ",
                names[0],
            )


def _refusal(reason: str, first: str) -> Refusal:
    return Refusal(
        f"the networks run different code: {reason}. Averaged weights run in the code of {first}, which would change "
        "what the others compute. Use KF-Gradient, which matches what networks compute.",
        ("method", "KF-Gradient"),
    )


def _settings(module: nn.Module) -> dict[str, Any]:
    """The settings of one of torch's modules; empty for others, whose attributes may mean anything."""
    if not type(module).__module__.startswith("torch.nn."):
        return {}
    declared = {*getattr(module, "__constants__", ()), *UNDECLARED} - OF_TRAINING
    return {name: vars(module)[name] for name in sorted(declared) if name in vars(module)}


def _difference(first: nn.Module, other: nn.Module) -> tuple[str, str] | None:
    """How two of torch's modules differ, in words: (first, other); None if they do not."""
    kinds = [type(module) for module in (first, other)]
    if not all(kind.__module__.startswith("torch.nn.") for kind in kinds):
        return None
    if kinds[0] is not kinds[1]:
        if isinstance(first, DROPOUTS) and isinstance(other, DROPOUTS):
            return None
        return kinds[0].__name__, kinds[1].__name__
    one, two = _settings(first), _settings(other)
    same_widths = all(one.get(name) == two.get(name) for name in WIDTHS)
    for name in one.keys() | two.keys():
        if name in WIDTHS or (name in OF_WIDTHS and not same_widths):
            continue
        if one.get(name) != two.get(name):
            here, there = (getattr(value, "__name__", None) or repr(value) for value in (one.get(name), two.get(name)))
            return f"{name}={here}", f"{name}={there}"
    return None


def _hooks(model: nn.Module) -> list[tuple[str, str]]:
    """Layer and name of each forward hook."""
    tables = ("_forward_pre_hooks", "_forward_hooks")
    return [
        (path, getattr(getattr(hook, "func", hook), "__qualname__", type(hook).__name__))
        for path, module in model.named_modules()
        for table in tables
        for hook in vars(module)[table].values()
    ]


def _outputs(model: nn.Module, inputs: Inputs) -> Tensor | None:
    """(b, ...) outputs for a few samples, see `answers`."""
    with torch.random.fork_rng():
        torch.manual_seed(0)  # code that is random draws the same numbers
        return answers(model, rows_of(inputs, slice(2)))


def _differ(one: Tensor, other: Tensor | None) -> bool:
    if other is None or one.shape != other.shape:
        return True
    return bool((one - other.to(one.device)).norm() > DIFFERENCE * one.norm())  # parents may lie on several devices
