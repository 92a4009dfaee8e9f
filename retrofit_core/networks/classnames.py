"""Which class each output means: compare a checkpoint's class names with those of other networks and of the data."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

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


def check_same_classes(classes: Mapping[str, Sequence[str]]) -> None:
    """Refuse networks whose class names say that output c means another class in each.

    Args:
        classes: class names of each network, by its name; () if unknown. Numbers are compared with numbers only.
    Raises:
        ValueError: names the networks and their classes.
    """
    known = {who: names for who, names in classes.items() if names}
    for who, names in list(known.items())[1:]:
        first, have = next(iter(known.items()))
        numbered = [all(name.isdigit() for name in each) for each in (have, names)]
        if numbered[0] == numbered[1] and [*map(_plain, have)] != [*map(_plain, names)]:
            raise ValueError(
                f"{first} tells {_listed(have)} apart, and {who} {_listed(names)}: class c would be fused with another class. "
                "Give each a last layer for all classes, in one order."
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


def check_data_classes(have: Sequence[str], wanted: Sequence[str], who: str, whose: str) -> None:
    """Refuse a network that tells other classes apart than the data have, or has them in another order.

    Args:
        have, wanted: class names of its outputs and of the data. If there are none, or either side only has numbers, nothing is
            compared.
        who, whose: the network and the data, for the message.
    Raises:
        ValueError: lists both.
    """
    if are_names(have) and are_names(wanted) and [*map(_plain, have)] != [*map(_plain, wanted)]:
        raise ValueError(
            f"{who} tells {_listed(have)} apart, and {whose} has {_listed(wanted)}. Choose the data that it was trained on; if "
            "the names alone differ, write those of the checkpoint into classes.json in the data's folder: "
            '{"classes": [...]}; if the order alone differs, bring the rows of its last layer into the order of the data, and '
            "save it again with save_model(network, FILE, classes=[...])."
        )


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
