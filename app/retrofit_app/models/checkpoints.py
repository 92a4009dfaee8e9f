"""The networks that can be fused: facts about checkpoints, read once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import lettered
from retrofit_core.system import files

from .sources import located


@dataclass(frozen=True)
class Checkpoint:
    """What the form shows about a network."""

    name: str
    spec: dict[str, Any]
    """Its architecture"""
    parameters: int
    counts: tuple[int, ...]
    """Training images per class, if the file says so"""
    accuracy: float | None
    """On held-out images, if the file says so"""


def described(name: str, arch: str = "") -> Checkpoint:
    """Facts about a checkpoint.

    Args:
        arch: its architecture if the user named it; then only the file is read, and nothing is built.
    Raises:
        ValueError: it is missing or damaged, or its architecture is unknown.
    """
    return _described(*stamped(name), arch)


def stamped(name: str) -> tuple[str, str]:
    """A checkpoint's path and digest: a key for caches."""
    path = located(name)
    try:
        return path, files.digest(path)
    except OSError:
        return path, ""


@st.cache_resource(max_entries=1000, show_spinner="Reading the checkpoint…")
def _described(path: str, content: str, arch: str) -> Checkpoint:
    from retrofit_core.networks.checkpoints import load_model, read_metadata, read_tensors

    metadata = read_metadata(path)
    stored = metadata.get("architecture")
    if arch:
        spec = stored if isinstance(stored, dict) else {"architecture": arch}
        parameters = sum(tensor.numel() for tensor in read_tensors(Path(path)).values() if tensor.is_floating_point())
    else:
        model, metadata = load_model(path)
        spec, parameters = metadata["architecture"], sum(value.numel() for value in model.parameters())
    counts = metadata.get("class_counts")
    return Checkpoint(
        Path(path).name,
        spec,
        parameters,
        tuple(counts) if isinstance(counts, list) and all(isinstance(count, int) for count in counts) else (),
        accuracy if isinstance(accuracy := metadata.get("validation_accuracy"), float) else None,
    )


def form_words(text: str) -> str:
    """A library error reworded for the form, which has no command-line options and names networks by letters, without this
    machine's folders."""
    text = runs.without_folders(text)
    said, named, _ = text.partition(" (also of `retrofit app`;")
    if named:
        return said.replace("name it: --arch", "start the workbench with: retrofit app --arch") + "."
    problem, advice, _ = lettered(text).partition(": name it with --arch")
    if advice:
        return f"{problem}. Name it below, under “Architecture”."
    return problem.replace(
        "Pass --splits FILE, or --importance-data fusion to use the fusion samples.",
        "Choose uniform importance, or networks with a splits file.",
    )
