"""Picked neurons in an address: A3.A5-9.B12."""

import re
from collections.abc import Sequence

from .rule import Parameter

#: Most neurons that a text may name: more than any level has, and few enough to list.
MOST = 50_000


def text_of(picked: Sequence[tuple[int, int]]) -> str:
    """Neurons (parent, neuron) as a text."""
    spans: list[list[int]] = []
    for parent, neuron in sorted(set(picked)):
        if spans and spans[-1][0] == parent and spans[-1][2] + 1 == neuron:
            spans[-1][2] = neuron
        else:
            spans.append([parent, neuron, neuron])
    return ".".join(f"{chr(65 + parent)}{low}" + (f"-{high}" if high > low else "") for parent, low, high in spans)


def neurons_of(text: str, parents: int) -> list[tuple[int, int]]:
    """The inverse of `text_of`.

    Raises:
        ValueError: it is not such a list, or too long.
    """
    spans = []
    for word in filter(None, text.split(".")):
        match = re.fullmatch(r"([A-Z])([0-9]{1,5})(?:-([0-9]{1,5}))?", word)
        if match is None or ord(match[1]) - 65 >= parents:
            raise ValueError("no such list of neurons (as in A3.A5-9.B12)")
        spans.append((ord(match[1]) - 65, int(match[2]), int(match[3] or match[2]) + 1))
    if sum(max(end - first, 0) for _, first, end in spans) > MOST:  # before listing them
        raise ValueError(f"it names more than {MOST:,} neurons")
    return sorted({(parent, neuron) for parent, first, end in spans for neuron in range(first, end)})


def parameter(name: str, parents: int) -> Parameter:
    """A parameter for neurons of so many parents; its value is the text in its one canonical form."""
    return Parameter(name, "", lambda text: text_of(neurons_of(text, parents)), of_run=True)
