"""A run's progress, read from its growing record: stage, losses, levels, time left. No Streamlit and no torch."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from retrofit_app.figures.words import first_up, lettered
from retrofit_core.runs.store import notes_of
from retrofit_core.system import files
from retrofit_core.system.position import Position

from .words import duration

PHASES = {
    "importance": "how much each neuron matters",
    "forward": "passing the samples through the networks",
    "grouping": "grouping the neurons",
    "fit": "fitting the level",
    "groups": "finding out which weights belong to which neuron",
    "moments": "passing the samples through the aligned networks",
    "solve": "solving for the weights",
    "teachers": "running the networks on the samples",
    "evaluate": "measuring on the test images",
    "checking images": "checking that every image can be read",
}


@dataclass
class Progress(Position):
    """A run according to events.jsonl; `follow` continues reading from `offset`."""

    offset: int = 0


def follow(folder: Path, progress: Progress) -> Progress:
    """Take in what was added to events.jsonl; half-written lines wait for the next call."""
    try:
        files.facts_of(events := folder / "events.jsonl")
        with events.open("rb") as file:
            file.seek(progress.offset)
            text = file.read()
    except OSError:
        return progress
    whole = text[: text.rfind(b"\n") + 1]
    progress.offset += len(whole)
    for line in whole.splitlines():
        with suppress(Exception):  # a damaged line can hold anything
            event = json.loads(line)
            progress.take(event, float(event.get("time", 0.0)))
    return progress


def sentence(progress: Progress, letters: str, now: float, started: float | None) -> str:
    """The line beside the bar."""
    loss = f", loss {progress.loss:.3g}" if progress.loss is not None else ""
    detail = f": {words}" if (words := _detail(progress)) else ""
    text = {
        "start": "Starting the worker…",
        "training": f"Training network {letters[progress.parent % 26]}, {progress.parent + 1} of {progress.parents}"
        f"{detail}{loss}",
        "before": f"Before the first level{detail}",
        "levels": f"Level {progress.level + 1} of {progress.levels}{detail}{loss}",
        "student": f"Training towards the networks' mean prediction{detail}{loss}",
        "evaluate": "The network is fused; measuring on the test images",
    }[progress.stage]
    left = progress.left(now)
    rest = f" · about {duration(left)} left in this stage" if left is not None else ""
    return text + (f" · {duration(now - started)}" if started else "") + rest


def _detail(progress: Progress) -> str:
    if progress.epochs:
        most = "" if progress.stage == "training" else "at most "
        return f"epoch {progress.epoch} of {most}{progress.epochs}"
    parts = f", part {progress.step + 1} of {progress.steps}" if progress.steps else ""
    # Steps with other names are importance scores.
    unknown = f"{PHASES['importance']} ({progress.name})" if parts else ""
    return PHASES.get(progress.name, unknown) + parts


def share(progress: Progress, trains: bool) -> float:
    """The filled share of the whole bar; training the networks first takes half of it."""
    base = 0.5 if trains else 0.02
    room = 0.95 - base
    return {
        "start": 0.0,
        "training": base * progress.done,
        "before": base,
        "levels": base + room * progress.done,
        "student": base + room * (progress.fused + (1 - progress.fused) * progress.done),
        "evaluate": 0.95,
    }[progress.stage]


def of_notes(folder: Path, now: float) -> tuple[float, str]:
    """For work on a finished run: the share done, and the line beside the bar, with the time left as measured."""
    notes = notes_of(folder)
    done = min((notes.get("index") or 0) / (notes.get("total") or 1), 1.0)
    seconds = now - float(notes.get("started") or now)
    left = f" · about {duration(seconds * (1 - done) / done)} left" if 0.05 < done < 1 else ""
    name = first_up(lettered(str(notes.get("name", "starting"))).rstrip(":"))
    return done, f"{name}… {duration(seconds)}{left}"
