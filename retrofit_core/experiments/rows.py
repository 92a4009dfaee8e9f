"""Rows of tables in words, such as "KF-Linear, conductance, all data", and their fusions."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from ..catalogue import CATALOGUE
from ..system.registry import find, known_name

PARENT = "Parent "
SCORES = ("uniform", "conductance", "deeplift")
#: Row of the best of several scores, in the paper's short tables.
BEST = "best"
#: Words after method and score in rows that the paper does not have, and their options.
OPTIONS: dict[str, dict[str, Any]] = {
    "paper's settings": {"preset": "paper"},
    "towards parents": {"toward": "parents", "ridge": "0.1x"},
    "REPAIR": {"repair": True},
    "by activity": {"active": True},
    "random groups": {"grouping": "random"},
    "neuron i with neuron i": {"grouping": "same_index"},
    "not projected": {"project": False},
    "not refitted": {"refit": False},
    "ridge 0.001x": {"ridge": "0.001x"},
    "ridge 0.1x": {"ridge": "0.1x"},
    "a fresh start": {"perturbation": 1.0},
    "weighted loss": {"weighted_loss": True},
    "scores as they are": {"normalise_scores": False},
    "scores at the head alone": {"scored": "head"},
    "head without scores": {"head": "mean"},
}
#: The paper's names of methods that are options of others.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "Transformer-OTFusion-Weights": ("Transformer-OTFusion", {"mode": "weights"}),
}
#: Words that are not options of the method.
OF_ALL_DATA = "all data"
OTHER_PARENT_FIRST = "samples of B"


@dataclass(frozen=True)
class Row:
    """A parsed row."""

    parent: int | None = None
    """A parent itself"""
    method: str = ""
    importance: str = "uniform"
    changes: tuple[str, ...] = ()

    @property
    def variant(self) -> tuple[str, dict[str, Any]]:
        """The name and options of the method that makes it; `method` is the paper's name."""
        return VARIANTS.get(self.method, (self.method, {}))

    @property
    def is_random(self) -> bool:
        """Whether its numbers depend on the fusion's seed."""
        return self.parent is None and self.method not in ("Average", "Ensemble")


@cache
def read_row(name: str) -> Row:
    """Parse a row.

    Raises:
        ValueError: words are no method, score or change.
    """
    if name.startswith(PARENT):
        return Row(int(name.removeprefix(PARENT)))
    method, *others = name.split(", ")
    known_name(CATALOGUE, VARIANTS.get(method, (method,))[0], "method")
    scores = [word for word in others if word in SCORES]
    changes = tuple(word for word in others if word not in SCORES and word != BEST)
    for word in changes:
        find({**OPTIONS, OF_ALL_DATA: {}, OTHER_PARENT_FIRST: {}}, word, "change of a row")
    return Row(None, method, scores[0] if scores else "uniform", changes)


def rows_by_score(rows: tuple[str, ...]) -> tuple[str, ...]:
    """The rows, with each "best" replaced by one row per score."""
    written: list[str] = []
    for name in rows:
        if name.endswith(f", {BEST}"):
            written += [f"{name.removesuffix(BEST)}{score}" for score in SCORES]
        else:
            written.append(name)
    return tuple(dict.fromkeys(written))
