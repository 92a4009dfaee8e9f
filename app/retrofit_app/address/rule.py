"""Parameters of a page: one pure rule for the address, its last reading, and the widgets.

The address is the truth: it is written once for each change, by the callback of the widget that was used. Where it moved
without us (a link, Back, an edit by hand), it wins over the widgets; where it did not, the widgets win.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Longer values are nonsense or not worth a link.
LONGEST = 1500
Query = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Field:
    """One parameter of the address."""

    name: str
    default: str
    read: Callable[[str], str | None]
    """The value in its canonical form, or None where it has none"""
    what: str
    """What it names, for the line that says why it was ignored: "level of this run" """


@dataclass(frozen=True)
class Settled:
    """What a page shows, what its address should say, and what was ignored."""

    values: dict[str, str]
    address: dict[str, str]
    """Without defaults: clean addresses stay clean"""
    ignored: list[str]
    """A sentence for each value that was not understood"""
    moved: bool
    """The widgets hold something that the address does not say yet"""


def option(name: str, options: Sequence[str], default: str, what: str) -> Field:
    """A parameter with a list of possible values."""
    return Field(name, default, lambda text: text if text in options else None, what)


def settle(fields: Sequence[Field], url: Query, seen: Query, widgets: Mapping[str, Any]) -> Settled:
    """Whether the address or the widget decides, field by field.

    Args:
        url: the address as it is; a name that stands there twice counts with its last value.
        seen: the address as it was last read or written; empty on a new visit.
        widgets: what was chosen in widgets since the page was last shown. (What they merely hold may be another run's
            default.)
    """
    values, ignored, moved = {}, [], False
    for field in fields:
        texts = list(url.get(field.name, ()))
        asked = read(field, texts[-1]) if texts else None
        if texts and asked is None:
            ignored.append(
                f"Ignored {field.name}={texts[-1][:60]} in the address: no such {field.what}. "
                f"Shown instead: {field.default or 'none'}."
            )
        elif len(texts) > 1:
            ignored.append(f"{field.name} stands {len(texts)} times in the address: the last one counts.")
        held = widgets.get(field.name)
        held = read(field, held) if isinstance(held, str) else None
        same = texts == list(seen.get(field.name, ()))
        if same and held is not None:
            values[field.name] = held
            moved |= held != (asked if asked is not None else field.default)
        else:
            values[field.name] = asked if asked is not None else field.default
    return Settled(values, canonical(fields, values), ignored, moved)


def read(field: Field, text: str) -> str | None:
    """A value in its canonical form, or None."""
    return field.read(text) if len(text) <= LONGEST else None


def canonical(fields: Sequence[Field], values: Mapping[str, str]) -> dict[str, str]:
    """The parameters that differ from their defaults, in the fields' order."""
    return {field.name: values[field.name] for field in fields if values[field.name] != field.default}


def merged(url: Query, fields: Sequence[Field], address: Mapping[str, str]) -> dict[str, str]:
    """The whole address after a change of these fields: one value a name, others keep theirs."""
    names = {field.name for field in fields}
    return {**{name: texts[-1] for name, texts in url.items() if texts and name not in names}, **address}
