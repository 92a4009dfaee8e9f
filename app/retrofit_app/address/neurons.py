"""Picked neurons as an address writes them."""

from collections.abc import Sequence

from .rule import Field


def picks_text(picked: Sequence[tuple[int, int]]) -> str:
    """Neurons (parent, neuron) as the address writes them: A3.A5-9.B12."""
    words: list[str] = []
    run: list[int] = []
    for parent, neuron in [*sorted(set(picked)), (-1, -1)]:
        if run and (parent, neuron) == (run[0], run[2] + 1):
            run[2] = neuron
            continue
        if run:
            words.append(f"{chr(65 + run[0])}{run[1]}" + (f"-{run[2]}" if run[2] > run[1] else ""))
        run = [parent, neuron, neuron]
    return ".".join(words)


def picks(text: str, parents: int) -> list[tuple[int, int]] | None:
    """The inverse of `picks_text`; None for malformed text."""
    neurons: set[tuple[int, int]] = set()
    for word in filter(None, text.split(".")):
        parent, (first, dash, last) = ord(word[0]) - 65, word[1:].partition("-")
        numbers = [first, last] if dash else [first]
        if not 0 <= parent < parents or not all(n.isascii() and n.isdigit() and len(n) < 6 for n in numbers):
            return None
        neurons.update((parent, neuron) for neuron in range(int(first), int(numbers[-1]) + 1))
    return sorted(neurons)


def picks_field(parents: int) -> Field:
    """The parameter `pick`."""

    def canonical_picks(text: str) -> str | None:
        neurons = picks(text, parents)
        return picks_text(neurons) if neurons is not None else None

    return Field("pick", "", canonical_picks, "list of neurons (as in A3.A5-9.B12)")
