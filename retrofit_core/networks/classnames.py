"""Which class each output means: compare a checkpoint's class names with those of other networks and of the data."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .copies import watching
from .outputs import answers

LISTED = 30  # names listed in an error


def stored(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The class names in a checkpoint's metadata, in the order of its outputs; () if it has none."""
    names = metadata.get("classes")
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        return ()
    return tuple(names) if len({_plain(name) for name in names}) == len(names) else ()


def are_names(classes: Sequence[str]) -> bool:
    """Whether classes have names rather than numbers."""
    return bool(classes) and list(classes) != [str(number) for number in range(len(classes))]


def check_same_classes(classes: Mapping[str, Sequence[str]], *, any_order: bool = False) -> None:
    """Refuse networks whose class names say that output c means another class in each.

    Args:
        classes: class names of each network, by its name; () if unknown. Numbers are compared with numbers only.
        any_order: the outputs are brought into one order later.
    Raises:
        ValueError: names the networks and their classes.
    """
    known = {who: names for who, names in classes.items() if names}
    for who, names in list(known.items())[1:]:
        first, have = next(iter(known.items()))
        numbered = [all(name.isdigit() for name in each) for each in (have, names)]
        order = sorted if any_order else list
        if numbered[0] == numbered[1] and order(map(_plain, have)) != order(map(_plain, names)):
            raise ValueError(
                f"{first} tells {_listed(have)} apart, and {who} {_listed(names)}: class c would be fused with another class. "
                "Give all of them the same classes in one order: retrofit_core.joined_heads(networks, classes) gives each the "
                "outputs of all."
            )


def names_in(model: nn.Module) -> tuple[str, ...]:
    """The class names that a network carries: `classes`, or the labels in the config of Hugging Face; () if it has none."""
    labels = getattr(getattr(model, "config", None), "id2label", None)
    if isinstance(labels, Mapping) and not all(str(label).startswith("LABEL_") for label in labels.values()):
        return tuple(str(labels[key]) for key in sorted(labels))
    return stored({"classes": getattr(model, "classes", None)})


def _plain(name: str) -> str:
    """A name without case, spaces, underscores and hyphens."""
    return "".join(letter for letter in name.casefold() if letter not in " _-")


def bring_into_order(
    model: nn.Module, have: Sequence[str], wanted: Sequence[str], example: Tensor, who: str, whose: str
) -> bool:
    """Reorder a network's outputs in place, so that output c is class `wanted[c]`.

    Args:
        have: current names of its outputs. If there are none, or either side only has numbers, nothing is done.
        example: (B, ...) inputs to check the new order on.
        who, whose: the network and the owner of the wanted names, for the error message.
    Returns:
        Whether the order changed.
    Raises:
        ValueError: the classes differ, or the outputs cannot be reordered; the message lists both.
    """
    first, second = [_plain(name) for name in have], [_plain(name) for name in wanted]
    if first == second or not have:
        return False
    if sorted(first) != sorted(second):
        if not (are_names(have) and are_names(wanted)):
            return False
        raise ValueError(
            f"{who} tells {_listed(have)} apart, and {whose} has {_listed(wanted)}. Choose the data that it was "
            "trained on; if "
            "the names alone differ, write those of the checkpoint into classes.json in the data's folder: "
            '{"classes": [...]}.'
        )
    order = torch.tensor([first.index(name) for name in second])
    if answers(model, example) is None:
        return False  # it cannot take such inputs: refused on use
    if not _reordered(model, order, example):
        raise ValueError(
            f"{who} has the classes in the order {_listed(have)}, {whose} in the order {_listed(wanted)}, and the "
            "rows of the network's last layer cannot be put into that order. Bring its outputs into that order in "
            "Python, and save it again with save_model(network, FILE, classes=[...])."
        )
    return True


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def _reordered(model: nn.Module, order: Tensor, example: Tensor) -> bool:
    """Reorder the rows of the last layer or, if that does not reorder the outputs, of all layers of that width."""
    layers = {path: module for path, module in model.named_modules() if _rows(module) == len(order)}
    ran = dict[str, nn.Module]()
    with watching(layers, lambda path, *_: ran.setdefault(path, layers[path])):
        before = answers(model, example)
    if before is None or before.dim() < 2 or before.shape[1] != len(order):
        return False
    last = list(ran.values())
    for chosen in (last[-1:], last):
        _permute(chosen, order)
        after = answers(model, example)
        if after is not None and torch.allclose(
            after, before[:, order], rtol=1e-4, atol=1e-5 * float(before.abs().max())
        ):
            return True
        _permute(chosen, order.argsort())
    return False


def _rows(module: nn.Module) -> int:
    """Rows of a module's own matrix or kernel; 0 without one."""
    weight = module._parameters.get("weight")
    return 0 if weight is None or weight.dim() < 2 else len(weight)


def _permute(layers: Sequence[nn.Module], order: Tensor) -> None:
    with torch.no_grad():
        for layer in layers:
            for name in ("weight", "bias"):
                values = layer._parameters.get(name)
                if values is not None:
                    values.copy_(values[order.to(values.device)])
