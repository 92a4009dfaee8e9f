"""Runs side by side: the networks they made, grouped by parents, and the references they are measured against.

Only `networks_of` decides which networks a run shows; tables and pictures use what it returns.
"""

import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from retrofit_app.figures import letter
from retrofit_core.runs.config import title_of
from retrofit_core.runs.store import FINETUNING, Work

from . import followups, methods
from .records import Entry
from .words import NONE, different, networks_words, settings

PARENT, REFERENCE, FUSED = "parent", "reference", "fused"  # roles
#: The setting that differs between seeds of one fusion.
SEED = "seed"
SHORT = 12  # letters of a value that a row's name can take
#: The setting that says how long a network was fine-tuned.
TUNING = "fine-tuning"


@dataclass(frozen=True)
class FusedNetwork:
    """A network that a run made."""

    entry: Entry
    name: str
    """Its method and what distinguishes it, for pages that show this run alone"""
    id: str
    """Its unique id in addresses"""
    facts: dict[str, Any]
    """Its measurements: accuracy, per_class, loss, calibration_error, samples; empty if there are none"""
    seconds: float | None
    """Time to make it"""
    settings: dict[str, str]
    """Everything its numbers depend on, in words"""


@dataclass(frozen=True)
class Row:
    """One network of a comparison, or several that differ only in the fusion's seed."""

    name: str
    role: str
    """PARENT, REFERENCE or FUSED"""
    id: str
    """Its id in addresses: "parent 0", "ensemble", or the first network's id"""
    each: tuple[dict[str, Any], ...]
    """Each network's measurements"""
    networks: tuple[FusedNetwork, ...] = ()
    """The networks, if runs made them"""

    @property
    def n(self) -> int:
        """How many were measured."""
        return len(self.each)

    @property
    def accuracy(self) -> float | None:
        """The mean, in per cent."""
        return self.mean("accuracy")

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the accuracies over seeds, in points; None for a single one."""
        return statistics.stdev(facts["accuracy"] for facts in self.each) if self.n > 1 else None

    @property
    def samples(self) -> int:
        """Number of test images; 0 if unmeasured."""
        return min((facts.get("samples", 0) for facts in self.each), default=0)

    @property
    def seconds(self) -> float | None:
        """The mean time to make it."""
        times = [one.seconds for one in self.networks if one.seconds is not None]
        return statistics.fmean(times) if times else None

    @property
    def per_class(self) -> list[float | None]:
        """The mean accuracy of each class; None for a class without test images."""
        return [
            None if None in values else statistics.fmean(values)
            for values in zip(*(facts["per_class"] for facts in self.each), strict=True)
        ]

    def mean(self, score: str) -> float | None:
        """A score's mean over seeds."""
        return statistics.fmean(facts[score] for facts in self.each) if self.each else None


@dataclass(frozen=True)
class Group:
    """Rows that can be compared: the same parents, measured on the same images."""

    title: str
    rows: tuple[Row, ...]
    """The compared runs' rows, in order"""
    references: tuple[Row, ...]
    """Parents, ensemble and plain average, as far as known"""
    classes: tuple[str, ...]
    """Names; () if nothing was measured"""

    @property
    def parents(self) -> list[Row]:
        """The measured parents."""
        return [row for row in self.references if row.role == PARENT]

    @property
    def best_parent(self) -> Row | None:
        """The most accurate one."""
        return max(self.parents, key=lambda row: row.accuracy or 0.0, default=None)


def networks_of(entry: Entry) -> list[FusedNetwork]:
    """The networks of a finished run: the fused one, then its fine-tuned ones, oldest first."""
    decided = settings(entry)
    if not methods.weighs(entry):
        decided.pop("importance", None)  # requested, but without effect
    decided[TUNING] = NONE
    fused = FusedNetwork(
        entry,
        title(entry),
        entry.name,
        entry.metrics.get("networks", {}).get("fused", {}),
        entry.status.get("seconds"),
        decided,
    )
    return [
        fused,
        *(
            _tuned(fused, kept)
            for kept in reversed(followups.works_of(entry, FINETUNING))
            if followups.has_network(kept)
        ),
    ]


def _tuned(fused: FusedNetwork, kept: Work) -> FusedNetwork:
    """The network of a finished fine-tuning; without numbers if it is damaged."""
    facts: dict[str, Any] = {}
    seconds, unchanged = None, ""
    with suppress(ValueError):
        facts, seconds = followups.metrics(kept), float(followups.curve(kept)["seconds"])
        unchanged = " (unchanged)" if followups.is_unchanged(kept) else ""
    epochs = kept.settings.get("epochs")
    long = f"{epochs} epoch{'' if epochs == 1 else 's'}"
    others = {name: value for name, value in kept.settings.items() if name not in ("of", "epochs")}
    words = {TUNING: long, **{f"{TUNING} {name.replace('_', ' ')}": f"{value}" for name, value in others.items()}}
    return FusedNetwork(
        fused.entry,
        f"{fused.name}, fine-tuned {long}{unchanged}",
        f"{fused.id}+{kept.name}",
        facts,
        None if seconds is None or fused.seconds is None else fused.seconds + seconds,
        {**fused.settings, **words},
    )


def title(entry: Entry) -> str:
    """Method, a grouping that is not its default, importance if it weighs neurons, and options."""
    config = entry.config
    importance = config.get("importance") if methods.weighs(entry) else None
    return title_of(config["method"], importance, config.get("options")) + methods.auto_words(entry)


def groups(entries: Sequence[Entry]) -> list[Group]:
    """The compared runs grouped by what they fused, ordered by each group's first run."""
    together: dict[Any, list[Entry]] = {}
    for entry in entries:
        together.setdefault(kind(entry), []).append(entry)
    return list(map(_group, together.values()))


def kind(entry: Entry) -> tuple[Any, ...]:
    """Equal for runs whose accuracies can be compared: the content of parents and test images."""
    config, inputs = entry.config, entry.inputs
    data = config.get("data", "")
    pixels = [config.get(name) for name in ("mean", "std", "size")]
    return (*sorted(entry.networks), inputs.get(f"{data} test") or data, str(pixels))


def default(entries: Sequence[Entry], shown: Entry) -> tuple[str, ...]:
    """The runs to compare if none were chosen: the shown one, or the first shipped one if that is not finished, and another
    with the same parents if there is one."""
    finished = [entry for entry in entries if entry.state == "done"]
    first = shown if shown.state == "done" else next((entry for entry in finished if entry.shipped), finished[0])
    same = [entry.name for entry in finished if entry.name != first.name and kind(entry) == kind(first)]
    return tuple(entry.name for entry in finished if entry.name in (first.name, *same[:1]))


def _group(entries: Sequence[Entry]) -> Group:
    networks = [network for entry in entries for network in networks_of(entry)]
    measured = next((entry for entry in entries if entry.metrics.get("networks")), None)
    return Group(
        f"{networks_words(entries[0])} on {PurePath(entries[0].config.get('data', '')).name}",
        tuple(_rows(networks)),
        tuple(references(measured)) if measured else (),
        tuple(measured.metrics["classes"]) if measured else (),
    )


def _rows(networks: Sequence[FusedNetwork]) -> list[Row]:
    """One for each fusion, whatever its seed; the most accurate first."""
    together: dict[Any, list[FusedNetwork]] = {}
    for network in networks:
        alike = tuple((name, value) for name, value in network.settings.items() if name != SEED)
        together.setdefault((network.name, alike), []).append(network)
    rows = [
        Row(
            members[0].name,
            FUSED,
            members[0].id,
            # The same seeds are paired.
            tuple(
                network.facts
                for network in sorted(members, key=lambda one: one.settings.get(SEED, ""))
                if network.facts
            ),
            tuple(members),
        )
        for members in together.values()
    ]
    rows = [replace(row, name=row.name + _apart(row, rows)) for row in rows]
    return sorted(rows, key=lambda row: -(row.accuracy or 0.0))


def _apart(row: Row, rows: Sequence[Row]) -> str:
    """The one short setting that sets a row apart from those of its name, such as a sweep's: ", samples 200"; or ""."""
    of_name = [each.networks[0].settings for each in rows if each.name == row.name]
    names = [name for name in different(of_name) if name != SEED]
    value = row.networks[0].settings.get(names[0], "") if len(names) == 1 else ""
    return f", {names[0]} {value}" if 0 < len(value) <= SHORT else ""


def references(entry: Entry) -> list[Row]:
    """Parents, ensemble and average as a run measured them; a single network only itself."""
    networks, parents = entry.metrics["networks"], len(entry.config["models"])
    rows = [
        Row(f"network {letter(index)}", PARENT, f"parent {index}", (networks[f"parent {index}"],))
        for index in range(parents)
    ]
    if parents > 1:
        rows.append(Row("ensemble", REFERENCE, "ensemble", (networks["ensemble"],)))
        if "average" in networks:
            rows.append(Row("plain average", REFERENCE, "average", (networks["average"],)))
    return rows
