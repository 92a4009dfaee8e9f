"""Where a run stands, read from its record as it grows: stage, losses, time left. No Streamlit and no torch."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retrofit_core.runs.store import notes_of

PHASES = {
    "importance": "how much each neuron matters",
    "forward": "passing the samples through the networks",
    "grouping": "grouping the neurons",
    "fit": "fitting the level",
    "groups": "finding out which weights belong to which neuron",
    "moments": "passing the samples through the aligned networks",
    "solve": "solving for the weights",
    "teachers": "asking the networks what they see on the samples",
    "evaluate": "measuring on the test images",
    "checking images": "looking whether every image can be read",
}
ENOUGH = 0.02  # share of a stage that must be done before a time left is given


@dataclass
class Progress:
    """What events.jsonl says of the latest attempt; `follow` reads on where it stopped."""

    stage: str = "start"
    """start, training, before (the first level), levels, student (of a method that trains one), evaluate or analysis"""
    begun: float = 0.0
    """When this stage began"""
    done: float = 0.0
    """Share of this stage that is done"""
    first: float = 0.0
    """Share that was done when this attempt came to it"""
    detail: str = ""
    parent: int = 0
    parents: int = 0
    level: int = -1
    levels: int = 0
    names: dict[int, str] = field(default_factory=dict)
    fused: float = 0.0
    """Share of the levels that was done when a training behind them began"""
    curves: dict[int, list[float]] = field(default_factory=dict)
    """Loss per epoch of each level's gradient fit"""
    training: dict[int, list[float]] = field(default_factory=dict)
    """Loss per epoch of each parent"""
    loss: float | None = None
    attempt: float = 0.0
    """Start of the attempt whose times these are"""
    fresh: bool = False
    """No epoch of this stage was seen yet"""
    offset: int = 0

    def left(self, now: float) -> float | None:
        """Seconds until this stage is over, at its speed so far; None as long as too little of it is done."""
        gained = self.done - self.first
        if gained < ENOUGH or now - self.begun < 1:
            return None
        return (now - self.begun) * (1 - self.done) / gained


def follow(folder: Path, progress: Progress, since: float = 0.0) -> Progress:
    """Take in what was added to events.jsonl; a line that is only half written waits for the next time.

    Args:
        since: start of the latest attempt: earlier events give losses, but no times.
    """
    try:
        with (folder / "events.jsonl").open("rb") as file:
            file.seek(progress.offset)
            text = file.read()
    except OSError:
        return progress
    whole = text[: text.rfind(b"\n") + 1]
    progress.offset += len(whole)
    for line in whole.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            _take(progress, event, since)
    return progress


def _take(progress: Progress, event: dict[str, Any], since: float) -> None:
    kind, name, now = event.get("kind"), str(event.get("name", "")), float(event.get("time", 0.0))
    if progress.attempt < since <= now:
        progress.attempt, progress.stage = since, "start"  # times are those of this attempt
    if kind == "phase" and name == "training":
        _train(progress, event, now)
    elif kind == "epoch" and "epoch" in event:
        progress.training.setdefault(progress.parent, []).append(event["loss"])
        progress.loss, progress.detail = event["loss"], f"epoch {event['epoch']} of {event['epochs']}"
        if progress.fresh:  # a training that was stopped goes on within a parent
            _advance(progress, (event["epoch"] - 1) / event["epochs"])
            progress.first, progress.fresh = progress.done, False
        _advance(progress, event["epoch"] / event["epochs"])
    elif kind == "batch":
        share = (event["epoch"] - 1 + event["index"] / max(event["total"] or 1, 1)) / event["epochs"]
        progress.detail = f"epoch {event['epoch']} of {event['epochs']}"
        _advance(progress, share)
    elif kind == "phase" and name == "distillation":
        progress.fused = progress.done
        _enter(progress, "student", now, 0.0)
    elif kind == "level":
        _enter(progress, "levels", now, event["index"] / event["total"])
        progress.level, progress.levels, progress.detail, progress.loss = event["index"], event["total"], "", None
        progress.names[event["index"]] = name
        progress.curves[event["index"]] = []
        progress.done = event["index"] / event["total"]
    elif kind == "epoch" and progress.stage == "levels":
        progress.curves[progress.level].append(event["loss"])
        progress.loss = event["loss"]
        progress.detail = f"epoch {event['index']} of at most {event['total']}"
        progress.done = (progress.level + event["index"] / event["total"]) / progress.levels
    elif kind == "epoch" and "index" in event:
        _enter(progress, "student", now, 0.0)
        progress.loss, progress.detail = event["loss"], f"epoch {event['index']} of at most {event['total']}"
        progress.done = event["index"] / event["total"]
    elif name.startswith("analysis"):
        _enter(progress, "analysis", now, 0.0)
        progress.detail = name.partition(": ")[2]
    elif kind == "phase" and name == "evaluate":
        _enter(progress, "evaluate", now, 0.0)
    elif progress.stage in ("start", "before", "levels") and (name in PHASES or (kind == "step" and name)):
        if progress.stage != "levels":
            _enter(progress, "before", now, 0.0)
        parts = f", part {event['index'] + 1} of {event['total']}" if kind == "step" and event.get("total") else ""
        # A step of another name is one of an importance score.
        progress.detail = PHASES.get(name, f"{PHASES['importance']} ({name})") + parts


def _train(progress: Progress, event: dict[str, Any], now: float) -> None:
    progress.parent, progress.parents = int(event["parent"]), int(event.get("parents", 1))
    _enter(progress, "training", now, progress.parent / progress.parents)
    progress.done, progress.loss, progress.detail = progress.parent / progress.parents, None, ""
    progress.training[progress.parent] = []


def _advance(progress: Progress, share: float) -> None:
    """Of the parent that is being trained."""
    progress.done = (progress.parent + min(share, 1.0)) / max(progress.parents, 1)


def _enter(progress: Progress, stage: str, now: float, done: float) -> None:
    if progress.stage != stage:
        progress.stage, progress.begun, progress.first, progress.done = stage, now, done, done
        progress.fresh = stage == "training"


def finished_levels(folder: Path) -> list[dict[str, Any]]:
    """The levels that are fused so far: name, neurons, both errors in per cent of the energy, seconds."""
    path = folder / "levels.parquet"
    if not path.exists():
        return []
    import pandas as pd

    try:
        table = pd.read_parquet(path)
    except Exception:  # pyarrow has several; the next poll reads the whole file
        return []
    return [
        {
            "level": row["level"],
            "neurons": f"{row['widths']} → {row['fused']}",
            "grouping": 100 * row["grouping share"],
            "approximation": 100 * row["approximation share"],
            "seconds": row["seconds"],
        }
        for _, row in table.iterrows()
    ]


def sentence(progress: Progress, letters: str, now: float, started: float | None) -> str:
    """The line beside the bar."""
    loss = f", loss {progress.loss:.3g}" if progress.loss is not None else ""
    detail = f": {progress.detail}" if progress.detail else ""
    text = {
        "start": "Starting the worker…",
        "training": f"Training network {letters[progress.parent % 26]}, {progress.parent + 1} of {progress.parents}"
        f"{detail}{loss}",
        "before": f"Before the first level{detail}",
        "levels": f"Level {progress.level + 1} of {progress.levels}{detail}{loss}",
        "student": f"Training towards what all networks say{detail}{loss}",
        "evaluate": "The fused network is there: measuring on the test images",
        "analysis": f"The network is fused; preparing the pictures{detail}",
    }[progress.stage]
    left = progress.left(now)
    about = f" · about {max(1, round(left))} s left in this stage" if left is not None and left < 5400 else ""
    return text + (f" · {now - started:.0f} s" if started else "") + about


def share(progress: Progress, trains: bool) -> float:
    """How much of the whole bar is filled; networks that are trained first take half of it."""
    base = 0.5 if trains else 0.02
    room = 0.95 - base
    return {
        "start": 0.0,
        "training": base * progress.done,
        "before": base,
        "levels": base + room * progress.done,
        "student": base + room * (progress.fused + (1 - progress.fused) * progress.done),
        "evaluate": 0.95,
        "analysis": 0.97,
    }[progress.stage]


def of_analysis(folder: Path) -> tuple[float, str]:
    """The share that is done of an analysis that is added later, and the line beside the bar."""
    notes = notes_of(folder)
    done = (notes.get("index") or 0) / (notes.get("total") or 1)
    return min(max(done, 0.0), 1.0), f"Analysing this run: {notes.get('name', '')}"
