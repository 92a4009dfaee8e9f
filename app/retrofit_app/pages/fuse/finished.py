"""A finished run: the finding in words, who knows what, where something was lost, accuracies, downloads."""

import io
import json
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app import figures, runs, widgets
from retrofit_app.figures import Network, escaped, letter, listing, number, percent
from retrofit_app.runs import methods
from retrofit_app.shell import navigation
from retrofit_app.shell.errors import guarded
from retrofit_app.widgets import copies, pictures, readings

KNOWN_WELL = 0.8  # of the whole accuracy, below which a class counts as one where the network is weak
SEEN = 50.0  # per cent of every class right, above which a fused network sees it all
MOST_NAMED = 20  # classes up to which they are listed by name
MOST_CARDS = 4  # parents whose cards fit beside each other


def page(entry: runs.Entry, entries: list[runs.Entry]) -> None:
    """Everything of a finished run, from the finding down."""
    palette = widgets.palette()
    headline(entry, palette)
    if sentence := runs.other_version(entry):
        st.info(
            f"{escaped(sentence)} To compare, delete it in *Your runs* and run it again.", icon=":material/history:"
        )
    lost(entry, palette)
    accuracies(entry, entries, palette)
    downloads(entry)


# --- the headline ---------------------------------------------------------------------------------


def headline(entry: runs.Entry, palette: figures.Palette) -> None:
    """Title, the finding in words with its numbers, and who knows which class."""
    networks, classes = entry.metrics.get("networks"), entry.metrics.get("classes")
    parents = len(entry.config["models"])
    if not networks or not classes:
        st.title(_title(parents), anchor=False)
        st.markdown(
            f"{escaped(entry.config['method'])}. Accuracies were not measured: run `retrofit fuse … --evaluate --record`."
        )
        return
    counts = runs.class_counts(entry.config)
    tables = [networks[f"parent {index}"] for index in range(parents)]
    seen = (
        [[count > 0 for count in row] for row in counts]
        if counts
        else [[(value or 0) >= figures.KNOWN for value in table["per_class"]] for table in tables]
    )
    together = methods.keeps_parents(entry)
    halves = parents == 2 and all(first != second for first, second in zip(*seen, strict=True))
    sees = not together and halves and all((value or 0) >= SEEN for value in networks["fused"]["per_class"])
    st.title("Two half-blind networks, one that sees it all" if sees else _title(parents, together), anchor=False)
    st.markdown(_finding(entry, networks, classes, seen, halves))
    if sentence := _shortfall(entry, networks, classes, counts):
        st.warning(sentence, icon=":material/trending_down:")
    if parents > MOST_CARDS:
        return
    left = [
        figures.class_card(
            f"Network {letter(index)}",
            f"{percent(table['accuracy'])} of the test images",
            table["per_class"],
            classes,
            palette,
            seen=seen[index],
        )
        for index, table in enumerate(tables)
    ]
    fused = networks["fused"]
    what = "all of them side by side" if together else f"one network of {_size(entry)}"
    right = figures.class_card(
        "Together" if together else "Fused",
        f"{percent(fused['accuracy'])}, {what}",
        fused["per_class"],
        classes,
        palette,
        fused=True,
    )
    st.html(figures.cards(left, right, palette))
    st.caption(_provenance(entry, fused))
    st.markdown("Try: [make a new fusion](#new-fusion) of these or other networks, further down on this page.")


def _finding(
    entry: runs.Entry, networks: dict[str, Any], classes: list[str], seen: list[list[bool]], halves: bool
) -> str:
    config, fused = entry.config, networks["fused"]
    source = (
        f"{escaped(config['samples'])} of network A's training images"
        if _of_first(entry)
        else f"{escaped(config['samples'])} training images"
    )
    seconds = f", in {number(entry.status['seconds'])} s" if "seconds" in entry.status else ""
    words = []
    n = len(config["models"])
    each = [percent(networks[f"parent {index}"]["accuracy"]) for index in range(n)]
    if halves:
        words.append(
            f"Network A was trained on {_classes(classes, seen[0])}, network B on {_classes(classes, seen[1])}; so each "
            f"gets only {listing(each)} of the test images right."
        )
    else:
        who = "On their own the networks get" if n > 1 else "The network gets"
        words.append(f"{who} {listing(each)} of the test images right.")
    words.append(_made(entry, percent(fused["accuracy"]), source, seconds))
    if n > 1 and not methods.keeps_parents(entry):
        together = (
            f"running {'both' if n == 2 else 'all of them'} and averaging their predictions gives "
            f"{percent(networks['ensemble']['accuracy'])}, at {_times(n)} the cost."
        )
        average = networks.get("average")
        if average is not None and average["per_class"] == fused["per_class"]:  # the run is the average itself
            words.append(together.capitalize())
        elif average is not None:
            words.append(f"Simply averaging their weights gives {percent(average['accuracy'])}; {together}")
        else:
            words.append(together.capitalize() + " Their weights cannot be averaged: they differ in shape.")
    return " ".join(words)


def _shortfall(
    entry: runs.Entry, networks: dict[str, Any], classes: list[str], counts: Sequence[Sequence[int]] | None
) -> str:
    """A sentence if one network alone is better than the fused one, and what the samples lack; else empty."""
    alone = [networks[f"parent {index}"]["accuracy"] for index in range(len(entry.config["models"]))]
    best, fused = max(range(len(alone)), key=alone.__getitem__), networks["fused"]
    if len(alone) < 2 or alone[best] <= fused["accuracy"]:
        return ""
    words = [
        f"**Network {letter(best)} alone is better**, with {percent(alone[best])}: this fusion loses "
        f"{number(alone[best] - fused['accuracy'])} points to it."
    ]
    if counts and _of_first(entry) and methods.uses_samples(entry):
        lacking = [
            escaped(name)
            for name, of_first, of_others, value in zip(
                classes, counts[0], zip(*counts[1:], strict=True), fused["per_class"], strict=True
            )
            if not of_first and any(of_others) and (value or 0) < KNOWN_WELL * fused["accuracy"]
        ]
        if lacking:
            what = f"class {lacking[0]}" if len(lacking) == 1 else f"the classes {listing(lacking)}"
            words.append(
                f"The samples are network A's images, and it has none of {what}, where the fused network is weak. With "
                "*Samples from: all networks*, below, it sees them, too."
            )
    return " ".join(words)


def _of_first(entry: runs.Entry) -> bool:
    """Whether the samples are network A's own training images."""
    return bool(entry.config.get("splits")) and entry.config.get("fusion_from") != "iid"


def _made(entry: runs.Entry, accuracy: str, source: str, seconds: str) -> str:
    """What the method did, and how good the result is."""
    config, method, n = entry.config, escaped(entry.config["method"]), len(entry.config["models"])
    weighed = f", {escaped(config.get('importance'))} importance" if methods.weighs(entry) else ""
    if methods.goes_level_by_level(entry):
        into = "fuses them, level by level, into" if n > 1 else "turns it, level by level, into"
        return f"Retrofitting {into} **one network that gets {accuracy}** ({method}{weighed}), from {source}{seconds}."
    if methods.keeps_parents(entry):
        return (
            f"Run side by side, at {_times(n)} the cost of one, they get **{accuracy}** ({method}); nothing is fused."
        )
    given = f", from {source}" if methods.uses_samples(entry) else ""
    return (
        f"{method} makes of {'them' if n > 1 else 'it'} **one network that gets {accuracy}**{weighed}{given}{seconds}."
    )


def _classes(names: list[str], has: list[bool]) -> str:
    """ "the classes 0, 1 and 4", or how many there are."""
    trained_on = [escaped(name) for name, is_known in zip(names, has, strict=True) if is_known]
    return (
        f"the classes {listing(trained_on)}"
        if len(names) <= MOST_NAMED
        else f"{len(trained_on)} of the {len(names)} classes"
    )


def _provenance(entry: runs.Entry, fused: dict[str, Any]) -> str:
    p, n = fused["accuracy"] / 100, fused["samples"]
    chance = 196 * math.sqrt(max(p * (1 - p), 1e-4) / n)
    words = [
        f"Columns: share of each class that is recognised; hollow: the network never saw that class. {n} test images, so "
        f"differences of less than about {chance * math.sqrt(2):.0f} points between two networks may be chance."
    ]
    if entry.shipped:
        facts = runs.bundle_facts()
        results = [table["fused"] for table in facts["tried"].values()]
        words.append(
            f"One split of scikit-learn's digits (seed {facts['seed']}); over the split seeds {', '.join(facts['tried'])} "
            f"{facts['typical']} gives {number(min(results))} to {percent(max(results))}, "
            f"on average {percent(sum(results) / len(results))}."
        )
    return " ".join(words)


def _size(entry: runs.Entry) -> str:
    return "A's size" if not entry.config.get("target") else "another size than A's"


def _times(n: int) -> str:
    return "twice" if n == 2 else f"{_count(n).lower()} times"


def _title(parents: int, together: bool = False) -> str:
    if together:
        return f"{_count(parents)} networks, side by side"
    return "One network, made into another" if parents == 1 else f"{_count(parents)} networks, fused into one"


def _count(n: int) -> str:
    return {1: "One", 2: "Two", 3: "Three", 4: "Four", 5: "Five", 6: "Six"}.get(n, str(n))


# --- where it is lost -----------------------------------------------------------------------------


@st.fragment
@guarded
def lost(entry: runs.Entry, palette: figures.Palette) -> None:
    """The strip over all levels, a way into the worst one, and its neurons under two scores."""
    st.header("Where is something lost?", anchor=False)
    try:
        overview = readings.overview(entry)
        if overview.table.empty:
            without_levels(entry, palette)
            return
        worst = overview.worst
        strip = pictures.picture(entry, "strip", palette, worst)
    except ValueError as error:
        st.error(f"This run's levels are not shown: {escaped(str(error).replace(str(entry.folder), entry.name))}")
        return
    name = overview.table["level"][worst]
    widgets.chart(
        "fuse-strip",
        lambda colours: pictures.picture(entry, "strip", colours, worst),
        palette,
        lambda: overview.table,
        entry,
        heading=f"**{escaped(strip.caption)}**",
        below="",
    )
    fitted = methods.goes_level_by_level(entry)
    st.caption(
        "Blocks: a level each, with its error in per cent of the neurons' importance-weighted energy. Grouping: neurons that share a cluster "
        "are not alike. "
        + (
            "Approximation: the new level does not reach the clusters' centres."
            if fitted
            else f"{escaped(entry.config['method'])} aligns neurons and fits no level, so there is no approximation error, "
            "and no accuracy after each level."
        )
    )
    navigation.link(
        "levels",
        f"Step into level {worst + 1}, {name}",
        "The page Levels: activations, importance, grouping, targets and fit of every level.",
        level=str(name),
    )
    neurons(entry, palette, worst)


def without_levels(entry: runs.Entry, palette: figures.Palette) -> None:
    """Why there is no strip; for a method that trains a network, its loss curve."""
    st.markdown(
        f"{escaped(entry.config['method'])} does not put neurons together level by level, so there are no levels to look at."
    )
    try:
        facts = json.loads((entry.folder / "result.json").read_text())["config"]
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"result.json cannot be read ({type(error).__name__}).") from error
    curve = facts.get("curve")
    if curve:
        widgets.chart(
            "fuse-curve",
            lambda colours: figures.loss_curve(curve, colours),
            palette,
            lambda: pd.DataFrame(curve),
            entry,
            heading="**How did the training go?**",
        )


def neurons(entry: runs.Entry, palette: figures.Palette, worst: int) -> None:
    """The worst level's neurons as the run grouped them, and as another score groups them."""
    try:
        analysis = readings.analysis(entry)
        widths = readings.record(entry).levels[worst].widths
    except ValueError as error:
        st.error(f"The neurons are not shown: {escaped(str(error).replace(str(entry.folder), entry.name))}")
        return
    importance = entry.config.get("importance")
    weighed = f" ({escaped(importance)})" if methods.weighs(entry) else ""
    scores: list[str | None] = [None]
    if analysis is not None:
        scores += [score for score in analysis.levels[worst].labels if score != importance][:1]
    for column, score in zip(st.columns(2, gap="large"), scores, strict=False):
        with column:
            words = (
                f"**Level {worst + 1} as it was grouped**{weighed}"
                if score is None
                else f"**With {escaped(score)} importance**"
            )
            widgets.chart(
                f"fuse-clusters-{score or importance}",
                lambda colours, score=score: pictures.picture(
                    entry, "clusters", colours, worst, **({"score": score} if score else {})
                ),
                palette,
                lambda score=score: readings.neuron_table(entry, worst, score),
                entry,
                heading=words,
            )
    st.html(figures.cluster_key(len(widths), sum(widths), palette))


# --- accuracies -----------------------------------------------------------------------------------


@st.fragment
@guarded
def accuracies(entry: runs.Entry, entries: list[runs.Entry], palette: figures.Palette) -> None:
    """Parents, ensemble, average and fused networks, over all and class by class."""
    networks = entry.metrics.get("networks")
    if not networks:
        return
    st.header("How good is each network?", anchor=False)
    rows = measured(entry, entries)
    shown, classes = [row for row, _ in rows], entry.metrics["classes"]

    def table() -> pd.DataFrame:
        return pd.DataFrame(
            [
                {
                    "network": row.name,
                    "accuracy %": row.accuracy,
                    "loss": facts["loss"],
                    "calibration error": facts["calibration_error"],
                }
                for row, facts in rows
            ]
        )

    def by_class() -> pd.DataFrame:
        return pd.DataFrame([{"network": row.name, **dict(zip(classes, row.per_class, strict=True))} for row in shown])

    left, right = st.columns([2, 3], gap="medium")
    with left:
        widgets.chart(
            "accuracy",
            lambda colours: figures.accuracy_bars(shown, colours),
            palette,
            table,
            entry,
            heading="**Accuracy** on the test images",
            below="",
        )
    with right:
        widgets.chart(
            "per-class",
            lambda colours: figures.class_grid(shown, classes, colours),
            palette,
            by_class,
            entry,
            heading="**Accuracy per class**, in per cent",
            below="",
        )
    st.caption(
        "Teal: fused networks of one network's size; the one that is open has a frame. Hatched: the ensemble (all "
        "networks run side by side) and the plain average of the weights, for comparison. *Table* has losses and "
        "calibration errors, too: the mean gap between confidence and accuracy over 15 bins, 0 is best."
    )


def measured(entry: runs.Entry, entries: list[runs.Entry]) -> list[tuple[Network, dict[str, Any]]]:
    """The rows of the accuracy figures: this run's networks, and the shipped fusions of the same parents."""
    networks = entry.metrics["networks"]
    rows = [
        (f"network {letter(index)}", "parent", networks[f"parent {index}"], False)
        for index in range(len(entry.config["models"]))
    ]
    rows.append(("ensemble", "reference", networks["ensemble"], False))
    if "average" in networks:
        rows.append(("plain average", "reference", networks["average"], False))
    same = [
        other
        for other in entries
        if other.shipped
        and other.metrics
        and all(other.config.get(name) == entry.config.get(name) for name in ("models", "data"))
    ]
    rows += [
        (other.config["method"], "fused", other.metrics["networks"]["fused"], other.name == entry.name)
        for other in same
    ]
    if entry.name not in [other.name for other in same]:
        rows.append(
            (
                f"this run: {entry.config['method']}" if same else entry.config["method"],
                "reference" if methods.keeps_parents(entry) else "fused",
                networks["fused"],
                True,
            )
        )
    return [
        (Network(name, role, facts["accuracy"], facts["per_class"], chosen), facts)
        for name, role, facts, chosen in rows
    ]


# --- downloads ------------------------------------------------------------------------------------


def downloads(entry: runs.Entry) -> None:
    """The fused network, the levels, the whole record, and the run as a command or Python."""
    st.header("Take it with you", anchor=False)
    name = f"{entry.name}-{entry.config['method'].lower()}"
    files = (
        (
            "Fused network",
            "fused.safetensors",
            "safetensors",
            lambda: (entry.folder / "fused.safetensors").read_bytes(),
            "The checkpoint with its configuration, classes and normalisation.",
        ),
        (
            "Levels",
            "levels.csv",
            "csv",
            lambda: levels_csv(entry),
            "One row per level: widths, errors (and their shares of the importance-weighted energy), accuracy after it, seconds.",
        ),
        (
            "Run record",
            "record.zip",
            "zip",
            lambda: record_zip(entry.folder),
            "Everything that was recorded: configuration, levels, network and measurements.",
        ),
    )
    levels = not pd.read_parquet(entry.folder / "levels.parquet", columns=["level"]).empty
    with st.container(horizontal=True):
        for label, ending, kind, read, words in files if levels else (files[0], files[2]):
            st.download_button(
                label,
                read,
                f"{name}-{ending}",
                key=f"get-{kind}",
                on_click="ignore",
                help=words,
                icon=":material/download:",
            )
    copies.of_run(entry)


def levels_csv(entry: runs.Entry) -> bytes:
    """The table of levels, as the page Levels has it, too."""
    return widgets.csv(readings.report(readings.overview(entry)), entry)


def record_zip(folder: Path) -> bytes:
    """The record's files; the worker's own notes name this machine and stay here."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            if path.is_file() and not path.name.startswith("worker."):
                archive.write(path, f"{folder.name}/{path.name}")
    return packed.getvalue()
