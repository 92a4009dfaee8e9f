"""The difference between two rows in points, and its interval, image by image if each network's answers are known."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import streamlit as st

from retrofit_app import figures, runs
from retrofit_app.figures.words import signed, within
from retrofit_app.models import predictions
from retrofit_app.runs.compared import FUSED, SEED, Group, Row
from retrofit_core.runs.answers import difference


@dataclass(frozen=True)
class Gap:
    """One row's lead over another, in points."""

    points: float
    interval: tuple[float, float] | None
    """95 %, paired over the same images, and over seeds; None if answers are unknown"""
    margin: float
    """Half the 95 % interval as if both were measured on different images"""

    @property
    def clear(self) -> bool:
        """Whether chance cannot explain it."""
        if self.interval is None:
            return abs(self.points) > self.margin
        low, high = self.interval
        return low > 0 or high < 0

    @property
    def words(self) -> str:
        """ "+2.8 (0.4 to 5.1)"."""
        return f"{signed(self.points)}{within(self.interval)}"


def gap(group: Group, row: Row, other: Row) -> Gap:
    """A row's lead over another of its group."""
    first, second = row.accuracy or 0.0, other.accuracy or 0.0
    images = min(row.samples, other.samples)
    return Gap(first - second, _interval(group, row, other), figures.margin(first, second, images=images))


def networks(group: Group, rows: Iterable[Row]) -> list[predictions.Network]:
    """The networks to ask for these rows."""
    return [network for row in rows for network in _networks(group, row)]


def learn(groups: Sequence[Group]) -> tuple[list[str], float]:
    """Ask all networks if that is quick.

    Returns:
        Sentences about networks that cannot be asked; the seconds it would take if it is not done, else 0.
    """
    if not all(predictions.is_at_hand(group.entry) for group in groups):
        return [], 1.0  # data elsewhere is opened only after a click
    there: list[predictions.Network] = []
    for group in groups:
        for row in group.every:
            with suppress(ValueError):  # reported when they are asked
                each = _networks(group, row)
                predictions.is_quick(each)
                there += each
    if not predictions.is_quick(there):
        return [], max(predictions.seconds(there), 1.0)
    return ask(groups), 0.0


def ask(groups: Sequence[Group]) -> list[str]:
    """Ask all networks of these groups; return a sentence for each reason why some do not answer."""
    reasons: dict[str, list[str]] = {}
    with st.spinner("Running each network on the test images…"):
        for group in groups:
            for row in group.every:
                try:
                    for network in _networks(group, row):
                        predictions.ask(network)
                except ValueError as error:
                    reasons.setdefault(str(error), []).append(row.name)
    return [f"{figures.listing(names)}: {runs.without_folders(reason)}" for reason, names in reasons.items()]


def slow(network: predictions.Network) -> bool:
    """Whether to ask a network only after a click.

    Raises:
        ValueError: it cannot be asked.
    """
    return not predictions.is_at_hand(network.entry) or not predictions.is_quick([network])


def _networks(group: Group, row: Row) -> list[predictions.Network]:
    if row.role != FUSED and not row.networks:
        file = group.entry.folder / "fused.safetensors"
        return [predictions.Network(group.entry, row.id, file, row.accuracy or 0.0)]
    return [
        predictions.Network(network.entry, "fused", network.file, network.facts["accuracy"])
        for network in sorted(row.networks, key=lambda network: network.settings.get(SEED, ""))  # same seeds are paired
        if network.facts
    ]


def _interval(group: Group, row: Row, other: Row) -> tuple[float, float] | None:
    """The interval over images, and over seeds if a row has several."""
    both = [[predictions.known(network) for network in _networks(group, each)] for each in (row, other)]
    right = [[answers.right for answers in each if answers is not None] for each in both]
    if any(None in each or not each for each in both) or len({len(one) for each in right for one in each}) != 1:
        return None
    return difference(np.stack(right[0]), np.stack(right[1]))[1]
