"""What a group and its fused neuron respond to: the images on which they are most active. Computed on demand."""

import numpy as np
import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Neurons, escaped, members_words
from retrofit_app.figures.exciting import Excited, exciting
from retrofit_app.models import activity, sources
from retrofit_app.models.activity import Activity
from retrofit_app.widgets import readings

from .parameters import LEVELS
from .view import View

ACROSS = 8  # images per neuron
MOST = 6  # most members of a group with rows


def panel(view: View) -> None:
    """Draw one group of the run: its fused neuron and its members, with the images that excite each most."""
    run = readings.grouping(view.entry, view.index)
    group = int(view.look.neuron)
    one_neuron(run)
    more = max(int(run.counts[group]) - MOST, 0)
    st.markdown(members_words(run, group) + (f" The {MOST} most important ones are shown." if more else ""))
    try:
        seen = activity.activity(view.entry, view.index)
        rows = drawn(view, run, group, seen)
    except (OSError, ValueError, KeyError) as error:
        unreadable(view, "images", error)
        return
    st.html(exciting(rows, view.palette))
    part = f"{len(seen.rows):,} of the {seen.of:,}" if len(seen.rows) < seen.of else f"all {seen.of:,}"
    st.caption(
        f"Out of {part} {escaped(seen.split)} images{', as many of each class' if len(seen.rows) < seen.of else ''}. The number "
        "is the neuron's output before the activation function (for a convolution, the largest over all "
        "positions). The bar shows where it is in the neuron's own range, and the word below names the class of "
        "the image."
    )


def unreadable(view: View, what: str, error: Exception) -> None:
    """Say why images cannot be read."""
    text = runs.without_folders(error, sources.located(view.entry.config["data"]), view.entry.base)
    widgets.why(f"The {what} are not shown: {text}")


def one_neuron(run: Neurons) -> None:
    """Draw the choice of a group, and so of its fused neuron."""
    ranked = np.argsort(-run.counts, kind="stable").tolist()
    st.selectbox(
        "A group of the run",
        [str(neuron) for neuron in ranked],
        **LEVELS.control("neuron"),
        width=260,
        format_func=lambda neuron: (
            f"{neuron}{run.class_of(int(neuron))} · {run.counts[int(neuron)]} member"
            f"{'' if run.counts[int(neuron)] == 1 else 's'}"
        ),
        help="Each group of the run becomes one neuron of the fused network. The largest groups come first. To choose "
        "another group, you can also pick neurons of it in the pictures.",
    )


def drawn(view: View, run: Neurons, group: int, seen: Activity) -> list[Excited]:
    """The fused neuron, then picked members, then the most important ones."""
    members = np.flatnonzero(run.labels == group)
    picked = set(view.rows("pick"))
    ranked = sorted(members.tolist(), key=lambda row: (row not in picked, -run.weights[row]))
    of_fused = seen.strongest(len(run.widths), group, ACROSS)

    def row(network: int, neuron: int, name: str, note: str, images: list[int], strip: bool) -> Excited:
        return Excited(
            name,
            note,
            tuple(seen.on(network, neuron, images)),
            *seen.range(network, neuron),
            classes=tuple(seen.classes[image] for image in images),
            image=activity.strip(view.entry, seen, images) if strip else "",
        )

    rows = [
        row(
            len(run.widths),
            group,
            f"fused neuron {group}",
            f"made of {len(members)} neuron{'' if len(members) == 1 else 's'}",
            of_fused,
            strip=True,
        )
    ]
    for member in ranked[:MOST]:
        parent, number = int(run.parents[member]), int(run.numbers[member])
        images = of_fused if view.look.same_images else seen.strongest(parent, number, ACROSS)
        note = f"importance {run.weights[member]:.3g} × mean"
        rows.append(row(parent, number, run.names[member], note, images, strip=not view.look.same_images))
    return rows
