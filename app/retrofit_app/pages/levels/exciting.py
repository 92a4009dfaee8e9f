"""How a group is made: its members, their mean, the fused neuron, and the images on which each is most active. Computed on
demand."""

from collections.abc import Sequence

import numpy as np
import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Neurons, escaped, letter, members_words, percent
from retrofit_app.figures.exciting import Excited, exciting, kernel, side_by_side
from retrofit_app.models import activity, sources
from retrofit_app.models.activity import Activity, attended, on_patches
from retrofit_app.widgets import example, readings

from .parameters import LEVELS
from .view import View

ACROSS = 8  # images per neuron
MOST = 6  # most members of a group with rows
LEAST = 0.005  # a smaller share of a target is not named
INPUTS, INPUTS_ALONE = 4, 256  # most inputs whose weights are drawn: of several weights each, and of one


def panel(view: View) -> None:
    """Draw how one group of the run is made: its members, their mean, and the fused neuron, with what excites each most."""
    if "heads" in view.report.grouping:  # neurons within a head have no counterparts
        heads(view)
        return
    run = readings.grouping(view.entry, view.index)
    group = int(view.look.neuron)
    one_neuron(run)
    try:
        seen = activity.activity(view.entry, view.index)
        members, fused = drawn(view, run, group, seen)
    except (OSError, ValueError, KeyError) as error:
        st.markdown(members_words(run, group))
        unreadable(view, "images", error)
        return
    words = members_words(run, group) + f" {MOST} of them are shown." * (int(run.counts[group]) > MOST)
    st.markdown(words, help=reading(seen, bool(fused.weights)))
    st.html(exciting(members, view.palette))
    if len(members) > 1:
        st.markdown(target_words(run, group))
    st.html(exciting([fused], view.palette))


def heads(view: View) -> None:
    """Draw what each fused head and the heads that it combines attend to, on the followed image or the first one."""
    row = example.image(view.entry) or 0
    try:
        *parents, fused = attended(view.entry, view.index, row)
        image = activity.strip(view.entry, (row,))
    except (OSError, ValueError, KeyError) as error:
        unreadable(view, "images", error)
        return
    every = [
        (f"{letter(network)}, head {n}", head) for network, of in enumerate(parents) for n, head in enumerate(of, 1)
    ]
    st.markdown(
        "**What do the heads attend to on this image?**",
        help="Darker: more of the class token's attention, or of all tokens' if there is none. *Shared*: how much of it goes to "
        "the same tokens as in the fused head. To see another image, follow it as an example, below.",
    )
    rows: list[list[tuple[str, str, str]]] = [[("the image", "", image)]]
    for number, head in enumerate(fused):
        members = [each for each, to in zip(every, view.report.grouping["heads"], strict=True) if to == number]
        most = float(max(each[1].max() for each in [*members, ("", head)]))
        named = [(f"fused head {number + 1}", "combines", head)]
        named += [(name, f"{100 * float(each.minimum(head).sum()):.0f} % shared", each) for name, each in members]
        rows.append([(name, note, kernel(on_patches(each)[None], most, view.palette)) for name, note, each in named])
    st.html("".join(map(side_by_side, rows)))


def reading(seen: Activity, weights: bool) -> str:
    """How to read the rows."""
    part = f"{len(seen.rows):,} of the {seen.of:,}" if len(seen.rows) < seen.of else f"all {seen.of:,}"
    alike = ", as many of each class" if len(seen.rows) < seen.of else ""
    words = (
        f"Each row: the images that excite the neuron most, of {part} {escaped(seen.split)} images{alike}. Number: its output "
        "before the activation function (of a convolution, the largest over all positions); bar: where that is in the neuron's "
        "own range; below: the image's class. The fused neuron should follow the target, the members' mean by importance."
    )
    pictures = (
        " Small pictures: incoming weights, green where positive and red where negative. The same input is at the same place in "
        "all; weights of A or B from one group of the level below are added up."
    )
    return words + pictures * weights


def shares_of(run: Neurons, group: int) -> dict[int, float]:
    """Each member's share of its group's target, the largest first."""
    rows = np.flatnonzero(run.labels == group)
    weights = run.weights[rows] if run.weights[rows].sum() > 0 else np.ones(len(rows))
    order = np.argsort(-weights, kind="stable")
    return dict(zip(rows[order].tolist(), (weights[order] / weights.sum()).tolist(), strict=True))


def target_words(run: Neurons, group: int) -> str:
    """How the members' outputs become the target."""
    shares = shares_of(run, group)
    named = [(f"{100 * share:.0f} % {run.names[row]}", share) for row, share in shares.items() if share >= LEAST][:MOST]
    parts, rest = [words for words, _ in named], len(shares) - len(named)
    left = 100 * max(1 - sum(share for _, share in named), 0.0)
    parts += [f"{left:.0f} % from {rest} other{'s' * (rest > 1)}"] * bool(rest)
    return f"**Target** = {' + '.join(parts)}"


def fit_words(run: Neurons, group: int, seen: Activity) -> str:
    """How well the fused neuron follows the target on the images."""
    shares = shares_of(run, group)
    outputs = np.concatenate([values.double().numpy() for values in seen.at[: len(run.widths)]], axis=1)
    target = outputs[:, list(shares)] @ list(shares.values())
    fused = seen.at[len(run.widths)][:, group].double().numpy()
    if not target.std() or not fused.std():
        return "one of both does not change"
    error = 100 * float(((fused - target) ** 2).mean() / target.var())
    return f"follows it: correlation {np.corrcoef(target, fused)[0, 1]:.2f}, error {percent(error)} of its variance"


def unreadable(view: View, what: str, error: Exception) -> None:
    """Say why images cannot be read."""
    text = runs.without_folders(error, sources.located(sources.source_of(view.entry).data), view.entry.base)
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


def drawn(view: View, run: Neurons, group: int, seen: Activity) -> tuple[list[Excited], Excited]:
    """The members, picked ones first, then the most important; and the fused neuron."""
    shares, picked = shares_of(run, group), set(view.rows("pick"))
    ranked = sorted(shares, key=lambda row: row not in picked)[:MOST]
    fused = len(run.widths)
    of_fused = seen.strongest(fused, group, ACROSS)
    followed = example.image(view.entry)
    images = sources.test_images(view.entry)
    of_example = "" if followed is None else images.classes[int(images.labels[followed])]
    said = activity.responses(view.entry, view.index, followed) if followed is not None else []
    neurons = [(int(run.parents[row]), int(run.numbers[row])) for row in ranked]
    pictures = kernels(view, [*neurons, (fused, group)])

    def row(place: int, network: int, neuron: int, name: str, note: str, images: list[int], strip: bool) -> Excited:
        values, classes = seen.on(network, neuron, images), [seen.classes[image] for image in images]
        numbers = [int(seen.rows[image]) for image in images]
        if followed is not None:
            values, classes = [float(said[network][neuron]), *values], [f"{of_example} · example", *classes]
            numbers = [followed, *numbers]
        image = activity.strip(view.entry, tuple(numbers)) if strip else ""
        colour = view.palette.parent(network) if network < fused else ""
        return Excited(
            name, note, tuple(values), *seen.range(network, neuron), tuple(classes), image, pictures[place], colour
        )

    rows = []
    for place, (member, (parent, number)) in enumerate(zip(ranked, neurons, strict=True)):
        strongest = of_fused if view.look.same_images else seen.strongest(parent, number, ACROSS)
        note = (
            f"{100 * shares[member]:.0f} % of the target" if shares[member] >= LEAST else "hardly counts in the target"
        )
        rows.append(
            row(place, parent, number, run.names[member], note, strongest, strip=not (view.look.same_images and place))
        )
    name, note = (
        f"fused neuron {group}",
        fit_words(run, group, seen) if view.report.form != "aligned" else "mean of their weights",
    )
    return rows, row(len(ranked), fused, group, name, note, of_fused, strip=not (view.look.same_images and rows))


def kernels(view: View, neurons: Sequence[tuple[int, int]]) -> list[str]:
    """A picture of the incoming weights of each neuron, a network's number and its own; "" if inputs cannot be told apart."""
    below = readings.record(view.entry).levels[view.index - 1] if view.index else None
    weights = activity.kernels(view.entry, view.index, below)
    if not weights:
        return [""] * len(neurons)
    maps = [weights[network][neuron].double().numpy() for network, neuron in neurons]
    most, count = INPUTS_ALONE if maps[-1][0].size == 1 else INPUTS, len(maps[-1])
    strongest = (
        sorted(np.argsort(-(maps[-1] ** 2).sum((1, 2)), kind="stable")[:most].tolist())
        if count > most
        else range(count)
    )
    shown = [each[list(strongest)] for each in maps]
    largest = max(float(np.abs(each).max()) for each in shown) or 1.0
    return [kernel(each, largest, view.palette) for each in shown]
