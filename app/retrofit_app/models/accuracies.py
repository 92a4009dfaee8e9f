"""Accuracies of the form's networks: from a run that measured them, or measured here if they are small."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from retrofit_app.figures import percent
from retrofit_app.runs import Entry
from retrofit_core.system import files

from . import checkpoints, sources

#: Most test images to measure on: five of them are half a percentage point.
IMAGES = 1000
#: Networks with at most so many multiply-adds for an image are measured.
QUICK = 2 * 10**7


def words(picks: Any, name: str, entries: Sequence[Entry]) -> str:
    """The share of test images a network gets right; "" if that is unknown and the network is large.

    Args:
        name: its checkpoint's name in configs.
        entries: runs, which may have measured it.
    """
    if recorded := _from_runs(picks, name, entries):
        return recorded
    facts = (picks.data, picks.mean, picks.std, picks.size, sources.changed(picks.data))
    try:
        return _measured((*checkpoints.stamped(name), *facts), picks, name)
    except ValueError:  # it cannot take these images: the refusal says why
        return ""


@st.cache_data(max_entries=1000, show_spinner=False)
def _measured(key: tuple, _picks: Any, _name: str) -> str:
    """A network's accuracy in words, kept for all sessions; "" if it is large."""
    import torch

    from retrofit_core.networks.checkpoints import load_model
    from retrofit_core.training.evaluation import evaluate

    test = sources.images(_picks, "test")
    rows = torch.randperm(len(test), generator=torch.Generator().manual_seed(0))[:IMAGES]
    if checkpoints.operations(_name) > QUICK:
        return ""
    network, _ = load_model(sources.located(_name), like=test)  # its classes in these images' order
    accuracy = evaluate(network, test, rows=rows)["accuracy"]
    whose = "the test images" if len(rows) == len(test) else f"{len(rows):,} test images"
    return f"{percent(accuracy)} of {whose}"


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
