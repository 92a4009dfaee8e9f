"""A refusal's cures as buttons: each changes the form's picks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from retrofit_app.figures import escaped
from retrofit_core.system.refusals import Cure

from . import configs, options, presets
from .parameters import Picks
from .presets import FORM

MOST = 3  # buttons

#: Cure -> its button's label for a value, and the picks with it; all other cures are options.
CURES: dict[str, tuple[Callable[[Any], str], Callable[[Picks, Any], Picks]]] = {
    "method": (lambda value: f"Use {value}", lambda picks, value: replace(picks, method=value)),
    "grouping": (lambda value: f"Use grouping {value}", lambda picks, value: replace(picks, grouping=value)),
    "importance": (lambda value: f"Use importance {value}", lambda picks, value: replace(picks, importance=value)),
    "samples": (lambda value: f"Take {value:,} samples", lambda picks, value: replace(picks, samples=value)),
    "fusion_from": (lambda _: "Take samples from all networks", lambda picks, _: replace(picks, source="all")),
    "target": (lambda _: "Fuse into the shape of A", lambda picks, _: replace(picks, fused="first", target="")),
    "parts": (lambda value: f"Take {value} networks", lambda picks, value: replace(picks, parents=value)),
    "widths": (lambda _: "Give all networks one width", lambda picks, _: replace(picks, widths="1")),
    "scale": (lambda _: "Use normal width", lambda picks, _: replace(picks, widths="1", fused="first")),
}


def buttons(cures: tuple[Cure, ...], picks: Picks) -> None:
    """Draw a button for each of the first cures."""
    for index, (name, value) in enumerate(cures[:MOST]):
        st.button(
            escaped(words(name, value, picks)),
            key=FORM.key(f"cure-{index}"),
            icon=":material/build:",
            on_click=_apply,
            args=(name, value),
            type="primary" if index == 0 else "secondary",
            help="Changes this setting of the form, as the refusal advises.",
        )


def words(name: str, value: Any, picks: Picks) -> str:
    """The label of a cure's button."""
    if name in CURES:
        return CURES[name][0](value)
    return f"Set “{options.title(configs.options(picks)[name])}” to {value}"


def cured_picks(picks: Picks, name: str, value: Any) -> Picks:
    """The picks with a cure, without options that the new method or score does not know."""
    from retrofit_core.system.texts import read_options, written_options

    if name in CURES:
        return options.settle(CURES[name][1](picks, value))[0]
    told = configs.checked_options(picks, {**read_options(list(picks.options)), name: value})
    return replace(picks, options=tuple(written_options(told)))


def _apply(name: str, value: Any) -> None:
    """A button's callback."""
    presets.choose(cured_picks(presets.last(), name, value))
