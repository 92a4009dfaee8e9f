"""From the form's picks to the run they describe: configs, split, levels, or the refusal."""

from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import letter, percent
from retrofit_app.models import checkpoints, sources
from retrofit_app.runs.records import spec_words
from retrofit_core.system.refusals import Cure, cures_of

from . import configs
from .parameters import Picks

NO_FILES = (
    "No networks yet: name two or more checkpoints to fuse, or one to compress. If you have none, the preset “Sharded "
    "digits” trains two in under a minute."
)


@dataclass(frozen=True)
class Plan:
    """What Start would do."""

    config: Any = None
    """A `RunConfig`, or None if the picks make none"""
    training: Any = None
    """A `TrainConfig`, or None if nothing is trained"""
    refusal: str = ""
    cures: tuple[Cure, ...] = ()
    """Settings with values that would avoid the refusal"""
    lacking: str = ""
    """What the user has yet to give, in place of a refusal"""
    counts: tuple[tuple[int, ...], ...] = ()
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """A line about each network"""


def plan(picks: Picks) -> Plan:
    """What Start would do with these picks; errors that users can cause become the refusal."""
    so_far = Plan()
    try:
        of = picks if picks.networks != "shipped" else Picks()
        images, test = sources.images(of), sources.images(of, "test")
        size = prod(images.shape), len(images.classes)
        so_far = replace(so_far, classes=tuple(images.classes))
        training = configs.training(picks, *size)
        counts = _counts(picks, training)
        so_far = replace(
            so_far,
            training=training,
            counts=counts,
            notes=(_data_words(images, len(test)), *_network_words(picks, training)),
        )
        if picks.networks == "own" and not picks.files:
            return replace(so_far, lacking=NO_FILES)
        config = configs.fusion(picks, training, *size)
        so_far = replace(so_far, config=config)
        folder = runs.home(config.to_json())
        paths = [folder / name for name in config.models]
        stamps = tuple(path.stat().st_mtime if path.exists() else 0.0 for path in paths)
        refusal, cures = _refusal((config.key(), training and training.key(), stamps), config, training, folder)
        return replace(so_far, refusal=checkpoints.form_words(refusal), cures=cures)
    except ValueError as error:
        return replace(so_far, refusal=checkpoints.form_words(str(error)), cures=cures_of(error))
    except OSError as error:  # an impossible path, or one without permission
        return replace(so_far, refusal=f"a file or folder that is named above cannot be read ({error.strerror}).")


@st.cache_data(max_size=2**22, show_spinner=False)
def _refusal(key: tuple[Any, ...], _config: Any, _training: Any, _folder: Path) -> tuple[str, tuple[Cure, ...]]:
    """Why a config cannot work, with settings that would; ("", ()) if it can. Kept until a checkpoint changes."""
    from retrofit_core.runs.inputs import check_run

    try:
        check_run(_config, _training, _folder)
    except ValueError as error:
        return str(error), cures_of(error)
    return "", ()


def _counts(picks: Picks, training: Any) -> tuple[tuple[int, ...], ...]:
    """Each network's training images per class; empty if unknown."""
    if picks.networks == "shipped":
        return tuple(map(tuple, runs.class_counts(_shipped()) or ()))
    if picks.networks == "own":
        return _counts_of_files(picks)
    return _counts_of_split(training.to_json(), picks, sources.changed(picks.data))


def _shipped() -> runs.Entry:
    """A fusion of the shipped networks."""
    return runs.read_entry(runs.BUNDLED / runs.bundle_facts()["first"], shipped=True)


@st.cache_data(max_size=2**20, show_spinner=False)
def _counts_of_split(training: dict[str, Any], _picks: Picks, changed: float) -> tuple[tuple[int, ...], ...]:
    import torch

    from retrofit_core.runs.parents import plan as plan_training
    from retrofit_core.training.config import TrainConfig

    images = sources.images(_picks)
    rows = plan_training(TrainConfig.from_json(training), images).rows
    classes = len(images.classes)
    return tuple(tuple(torch.bincount(images.labels[part], minlength=classes).tolist()) for part in rows)


def _counts_of_files(picks: Picks) -> tuple[tuple[int, ...], ...]:
    if not picks.rows:
        counts = [checkpoints.described(name, picks.code).counts for name in picks.files]
        return tuple(counts) if counts and all(counts) else ()
    import torch

    from retrofit_core.data.splits import read_splits

    images = sources.images(picks)
    rows = read_splits(sources.located(picks.rows), [Path(name).name for name in picks.files], len(images))
    return tuple(tuple(torch.bincount(images.labels[part], minlength=len(images.classes)).tolist()) for part in rows)


def _data_words(images: Any, test: int) -> str:
    channels, height, width = images.shape
    colour = "grey" if channels == 1 else "colour" if channels == 3 else f"{channels} channels"
    return (
        f"{images.name}: {len(images)} training and {test} test images of {height} × {width} pixels, {colour}, "
        f"{len(images.classes)} classes."
    )


def _network_words(picks: Picks, training: Any) -> list[str]:
    """Accuracy and shape of existing networks."""
    if picks.networks == "shipped":
        return ["Both networks are cnn with 16, 32 and 32 channels."]
    if picks.networks == "own":
        return [_checkpoint_words(index, name, picks) for index, name in enumerate(picks.files)]
    ready = all(Path(sources.located(name)).is_file() for name in training.files())
    return ["These networks are already trained, so only the fusion remains."] * ready


def _checkpoint_words(index: int, name: str, picks: Picks) -> str:
    checkpoint = checkpoints.described(name, picks.code)
    words = [
        f"{letter(index)}, {checkpoint.name}: {spec_words(checkpoint.spec)}",
        f"{checkpoint.parameters:,} parameters",
    ]
    if checkpoint.counts:
        words.append(f"trained on {sum(count > 0 for count in checkpoint.counts)} of {len(checkpoint.counts)} classes")
    if checkpoint.accuracy is not None:
        words.append(f"{percent(checkpoint.accuracy)} of held-out images")
    return " · ".join(words)
