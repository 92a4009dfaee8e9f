"""Networks' answers to each test image: computed from stored checkpoints on demand and kept for all sessions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from retrofit_app.runs import Entry
from retrofit_core.system import files

from . import checkpoints, sources

#: Most test images to ask about.
IMAGES = 10_000
#: Networks with at most so many multiply-adds are asked without a click.
QUICK = 2 * 10**10
#: Most networks whose answers are kept.
MOST = 400
#: Points by which a network may miss its recorded accuracy: other machines round differently, and two images flip.
SLACK = 0.75


@dataclass(frozen=True)
class Network:
    """A network to ask."""

    entry: Entry
    """The run whose data set and parents are meant"""
    which: str
    """"parent 0", ..., "ensemble", "average", or "fused" for the one in `file`"""
    file: Path
    """A fused network's checkpoint"""
    recorded: float
    """The accuracy in its run's record"""


@dataclass(frozen=True)
class Answers:
    """A network's predicted classes, image by image, and its losses."""

    named: np.ndarray
    """(n,) int16"""
    labels: np.ndarray
    """(n,) int16, the true classes"""
    losses: np.ndarray
    """(n,) float32, each image's cross entropy"""

    @property
    def right(self) -> np.ndarray:
        """(n,) bool, which images it gets right."""
        return self.named == self.labels


def known(network: Network) -> Answers | None:
    """The kept answers; None if the network was not asked yet."""
    return _kept().get(_key(network))


def is_quick(networks: Sequence[Network]) -> bool:
    """Whether those not asked yet are small enough to ask without a click.

    Raises:
        ValueError: a checkpoint or the data set is missing, damaged or not the record's.
    """
    wanted = [network for network in networks if known(network) is None]
    each = [checkpoints.operations(str(path)) for network in wanted for path in _paths(network)]
    return not wanted or sum(each) * min(len(sources.test_images(wanted[0].entry)), IMAGES) <= QUICK


def ask(network: Network) -> Answers:
    """A network's answers, computed once.

    Raises:
        ValueError: a file is missing, damaged or not the record's.
    """
    cache = _kept()
    key = _key(network)
    if key not in cache:
        answers = _computed(network)
        while len(cache) >= MOST:
            cache.pop(next(iter(cache)), None)
        cache[key] = answers
    return cache[key]


def _computed(network: Network) -> Answers:
    import torch
    from torch.nn.functional import cross_entropy

    from retrofit_core.data.sampling import balanced
    from retrofit_core.training.evaluation import scores

    test = sources.test_images(network.entry)
    rows = torch.arange(len(test)) if len(test) <= IMAGES else balanced(test.labels, IMAGES)
    try:
        logits = scores(model(network), test, rows=rows)
    except RuntimeError as error:
        raise ValueError(f"this network does not take the images ({type(error).__name__}).") from error
    labels = test.labels[rows]
    answers = Answers(
        logits.argmax(1).numpy().astype(np.int16),
        labels.numpy().astype(np.int16),
        cross_entropy(logits, labels, reduction="none").numpy(),
    )
    accuracy = 100 * float(answers.right.mean())
    if len(rows) == len(test) and abs(accuracy - network.recorded) > SLACK:
        raise ValueError(
            f"it gets {accuracy:.1f} % here but {network.recorded:.1f} % in its record: its checkpoint or the data have changed."
        )
    return answers


def model(network: Network) -> Any:
    """The network as a module.

    Raises:
        ValueError: as `ask`.
    """
    from retrofit_core.baselines import average
    from retrofit_core.training.evaluation import ensemble

    models = [checkpoints.of_run(network.entry, path, sources.test_images(network.entry)) for path in _paths(network)]
    if network.which in ("ensemble", "average"):
        return ensemble(models) if network.which == "ensemble" else average(models)
    return models[0]


def _paths(network: Network) -> list[Path]:
    """A network's checkpoints.

    Raises:
        ValueError: one is missing, or is not the run's.
    """
    entry = network.entry
    if network.which == "fused":
        return [_there(network.file)]
    names = entry.config["models"]
    chosen = [names[int(network.which.split()[1])]] if network.which.startswith("parent ") else names
    paths = [_there(entry.base / name) for name in chosen]
    for name, path in zip(chosen, paths, strict=True):
        recorded = entry.inputs.get(name)
        if recorded and files.digest(path) != recorded:
            raise ValueError(f"the checkpoint {path.name} has changed since the run.")
    return paths


def _there(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"the checkpoint {path.name} no longer exists.")
    return path


@st.cache_resource
def _kept() -> dict[tuple[Any, ...], Answers]:
    return {}


def _key(network: Network) -> tuple[Any, ...]:
    """A key of the network's content and the images."""
    entry, source = network.entry, sources.source_of(network.entry)
    made_of = str(network.file) if network.which == "fused" else "|".join(entry.networks)
    changed = network.file.stat().st_mtime if network.which == "fused" and network.file.exists() else 0.0
    return made_of, changed, network.which, source, sources.changed(source.data)
