"""Picked neurons as an address writes them: A3.A5-9.B12."""

from collections.abc import Sequence

from .rule import Parameter

#: Neurons that a text may name: more than any level has, and few enough to be gone through at once.
MOST = 50_000


def written(picked: Sequence[tuple[int, int]]) -> str:
    """Neurons (parent, neuron) as a text."""
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


def read(text: str, parents: int) -> list[tuple[int, int]]:
    """The inverse of `written`.

    Raises:
        ValueError: no such list, or too long a one.
    """
    neurons: set[tuple[int, int]] = set()
    count = 0
    for word in filter(None, text.split(".")):
        parent, (first, dash, last) = ord(word[0]) - 65, word[1:].partition("-")
        numbers = [first, last] if dash else [first]
        if not 0 <= parent < parents or not all(n.isascii() and n.isdigit() and len(n) < 6 for n in numbers):
            raise ValueError("no such list of neurons (as in A3.A5-9.B12)")
        count += max(int(numbers[-1]) - int(first) + 1, 0)
        if count > MOST:  # before they are made
            raise ValueError(f"it names more than {MOST:,} neurons")
        neurons.update((parent, neuron) for neuron in range(int(first), int(numbers[-1]) + 1))
    return sorted(neurons)


def parameter(name: str, parents: int) -> Parameter:
    """A parameter that names neurons of so many parents, in one way; its value is the text."""
    return Parameter(name, "", lambda text: written(read(text, parents)), of_run=True)
