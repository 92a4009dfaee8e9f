"""Track the progress of long work from its events, for terminal, notebooks, records and workbench."""

import time
from dataclasses import dataclass, field
from typing import Any

from .monitor import Event

#: Share of a stage that must be done before the time left is estimated.
ENOUGH = 0.02
#: Stages whose share counts levels or networks, not steps of the current phase.
COUNTED = ("training", "levels", "student")


@dataclass
class Position:
    """Progress according to the events so far; `take` processes the next one."""

    unit: str = ""
    """Unit of an experiment"""
    stage: str = "start"
    """start, training, before (the first level), levels, student (of a method that trains one) or evaluate"""
    begun: float = 0.0
    """When this stage began, in seconds since 1970"""
    done: float = 0.0
    """Share of this stage that is done"""
    first: float = 0.0
    """Share that was already done when this attempt reached the stage"""
    phase: str = ""
    """What is being done, and to what"""
    name: str = ""
    """Name of the phase or its step"""
    step: int = 0
    steps: int = 0
    """Steps of the phase; 0 if it has none"""
    epoch: int = 0
    epochs: int = 0
    parent: int = 0
    parents: int = 0
    level: int = -1
    levels: int = 0
    names: dict[int, str] = field(default_factory=dict)
    """Names of the levels so far"""
    fused: float = 0.0
    """Share of the levels that was done when a student's training began"""
    loss: float | None = None
    accuracy: float | None = None
    """In %, on held-out images"""
    fresh: bool = False
    """Whether this attempt has not yet worked on anything of this training"""

    @property
    def share(self) -> float:
        """Progress for a bar, from 0 to 1."""
        return self.done if self.stage in COUNTED else self.step / max(self.steps, 1)

    @property
    def words(self) -> str:
        """Level, phase and progress in words, without the unit."""
        level = self.names.get(self.level, "")
        counted = self.stage == "levels" and not (level and self.phase.startswith(level))
        far = f"{100 * self.step / self.steps:.0f} %" if self.steps else ""
        parts = (
            f"level {self.level + 1} of {self.levels}" if counted else "",
            self.phase,
            f"epoch {self.epoch} of {self.epochs}" if self.epochs else far,
        )
        return ", ".join(filter(None, parts))

    @property
    def measured(self) -> str:
        """Loss and accuracy of the last epoch."""
        loss = f"loss {self.loss:.4g}" if self.loss is not None else ""
        return loss + (f", held out {self.accuracy:.2f} %" if self.accuracy is not None else "")

    def left(self, now: float) -> float | None:
        """Seconds until this stage ends, at its speed so far; None if too little is done."""
        gained = self.done - self.first
        if gained < ENOUGH or now - self.begun < 1:
            return None
        return (now - self.begun) * (1 - self.done) / gained

    def facts(self) -> dict[str, Any]:
        """The stage, and known level, network and epoch, in plain JSON types."""
        known: dict[str, Any] = {"stage": self.stage}
        known |= {"level": self.level, "levels": self.levels} if self.levels else {}
        known |= {"parent": self.parent, "parents": self.parents} if self.stage == "training" and self.parents else {}
        return known | ({"epoch": self.epoch, "epochs": self.epochs} if self.epochs else {})

    def take(self, event: Event, now: float | None = None) -> None:
        """Process an event.

        Args:
            now: its time in seconds since 1970; None: now.
        """
        kind, now = event["kind"], time.time() if now is None else now
        if kind == "phase":
            self._take_phase(event, now)
        elif kind == "level":
            self._enter("levels", now, event["index"] / event["total"])
            self._clear()
            self.level, self.levels, self.phase = event["index"], event["total"], ""
            self.names[self.level] = str(event.get("name", ""))
            self.done = self.level / self.levels
        elif kind == "epoch":
            self._take_epoch(event, now)
        elif kind == "batch":
            self.step, self.steps = event["index"], event["total"] or 0
            self.epoch, self.epochs = event["epoch"], event["epochs"]
            if self.stage in ("start", "before"):  # training of a single network
                self._enter("training", now, 0.0)
            self._advance((self.epoch - 1 + self.step / max(self.steps, 1)) / self.epochs, now)
        elif kind in ("step", "evaluate"):
            if kind == "step" and event.get("name") and self.stage in ("start", "before", "levels"):
                if self.stage == "start":
                    self._enter("before", now, 0.0)
                self.name = str(event["name"])
            self.step, self.steps = event["index"], event.get("total") or 0

    def _take_phase(self, event: Event, now: float) -> None:
        name = str(event.get("name", ""))
        whose = f"parent {event['parent']} of {event['parents']}" if "parents" in event else ""
        of_what = " ".join(str(event[key]) for key in ("level", "network", "name") if key in event)
        if "unit" in event:
            self.unit, self.stage, self.level, self.levels, of_what = name, "start", -1, 0, ""
        self._clear()
        self.phase, self.name = ", ".join(filter(None, (of_what, whose))), name
        if name == "training":
            self.parent, self.parents = int(event["parent"]), int(event.get("parents", 1))
            self._enter("training", now, self.parent / self.parents)
            self.done = self.parent / self.parents
        elif name == "distillation":
            self.fused = self.done
            self._enter("student", now, 0.0)
        elif name == "evaluate":
            self._enter("evaluate", now, 0.0)
        elif self.stage in ("start", "training"):
            self._enter("before", now, 0.0)

    def _take_epoch(self, event: Event, now: float) -> None:
        self.loss, self.accuracy = event["loss"], event.get("accuracy")
        if "epochs" in event:  # training
            self.epoch, self.epochs = event["epoch"], event["epochs"]
            self._advance(self.epoch / self.epochs, now)
            return
        self.epoch, self.epochs = event["index"], event["total"]  # gradient fit
        if self.stage == "levels":
            self.done = (self.level + self.epoch / self.epochs) / self.levels
        else:
            self._enter("student", now, 0.0)
            self.done = self.epoch / self.epochs

    def _clear(self) -> None:
        """Forget the previous phase."""
        self.name, self.loss, self.accuracy = "", None, None
        self.step = self.steps = self.epoch = self.epochs = 0

    def _advance(self, share: float, now: float) -> None:
        """Set the progress from the current parent's share; what an earlier attempt did, and the time before the first step,
        tell nothing of the speed."""
        self.done = (self.parent + min(share, 1.0)) / max(self.parents, 1)
        if self.fresh:
            self.first, self.begun, self.fresh = self.done, now, False

    def _enter(self, stage: str, now: float, done: float) -> None:
        if self.stage != stage:
            self.stage, self.begun, self.first, self.done = stage, now, done, done
            self.fresh = stage == "training"
