"""Accuracies of the form's networks: from a run that measured them, or measured here if that is quick."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import streamlit as st

from retrofit_app.figures import percent
from retrofit_app.runs import Entry
from retrofit_core.system import files

from . import checkpoints, sources

#: Most test images to measure on: five of them are half a percentage point.
IMAGES = 1000
#: Networks that need at most so many seconds are measured unasked.
QUICK = 1.0
#: Most networks whose accuracy is kept.
MOST_MEASURED = 1000


def words(picks: Any, name: str, entries: Sequence[Entry]) -> str:
    """The share of test images a network gets right; "" if that is unknown and slow to measure.

    Args:
        name: its checkpoint's name in configs.
        entries: runs, which may have measured it.
    """
    if recorded := _from_runs(picks, name, entries):
        return recorded
    key = _key(picks, name)
    try:
        if key not in _measured() and seconds(picks, name) <= QUICK:
            measure(picks, name)
    except ValueError:  # it cannot take these images: the refusal says why
        return ""
    return _measured().get(key, "")


def seconds(picks: Any, name: str) -> float:
    """The time to measure a network."""
    from retrofit_core.runs.estimate import forward_seconds

    return forward_seconds(json.dumps(checkpoints.described(name).spec)) * min(
        len(sources.images(picks, "test")), IMAGES
    )


def measure(picks: Any, name: str) -> None:
    """Measure a network and keep its accuracy in words for all sessions."""
    import torch

    from retrofit_core.networks.checkpoints import load_model
    from retrofit_core.training.evaluation import evaluate

    test = sources.images(picks, "test")
    rows = torch.randperm(len(test), generator=torch.Generator().manual_seed(0))[:IMAGES]
    network, _ = load_model(sources.located(name), like=test)  # its classes in these images' order
    accuracy = evaluate(network, test, rows=rows)["accuracy"]
    whose = "the test images" if len(rows) == len(test) else f"{len(rows):,} test images"
    measured = _measured()
    while len(measured) >= MOST_MEASURED:
        measured.pop(next(iter(measured)))
    measured[_key(picks, name)] = f"{percent(accuracy)} of {whose}"


def measure_all(picks: Any, names: Iterable[str]) -> None:
    """`measure`, for a button."""
    for name in names:
        measure(picks, name)


def _from_runs(picks: Any, name: str, entries: Sequence[Entry]) -> str:
    """The accuracy from the newest finished run with this network and these images, compared by content, not name."""
    try:
        content = files.digest(sources.located(name))
    except OSError:
        return ""
    facts = {
        "data": picks.data,
        "mean": list(picks.mean) or None,
        "std": list(picks.std) or None,
        "size": picks.size or None,
    }
    for entry in entries:
        config, inputs = entry.config, entry.inputs
        digests = [inputs.get(model) for model in config["models"]]
        if entry.shipped or content not in digests or any(config.get(key) != facts[key] for key in facts):
            continue
        network = entry.metrics.get("networks", {}).get(f"parent {digests.index(content)}")
        if network and inputs.get(f"{picks.data} test") == _digest_of_data(picks.data):
            return f"{percent(network['accuracy'])} of the test images"
    return ""


def _digest_of_data(name: str) -> str:
    from retrofit_core.data import digest

    return digest(sources.located(name), "test")


@st.cache_resource
def _measured() -> dict[tuple, str]:
    return {}


def _key(picks: Any, name: str) -> tuple:
    return *checkpoints.stamped(name), picks.data, picks.mean, picks.std, picks.size, sources.changed(picks.data)
