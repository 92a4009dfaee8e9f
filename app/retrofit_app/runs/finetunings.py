"""Fine-tunings of runs on disk: which there are, their curves and numbers, and starting the worker that does one."""

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from . import jobs, keeping
from .records import Entry

FOLDER, CURVE, METRICS, TUNED = "finetunings", "curve.json", "metrics.json", "tuned.safetensors"


@dataclass(frozen=True)
class Kept(keeping.Kept):
    """A fine-tuning of a run, finished or not."""

    KIND: ClassVar[str] = "finetune"
    FOLDER: ClassVar[str] = FOLDER
    GROWING: ClassVar[str] = CURVE
    LAST: ClassVar[str] = METRICS

    @property
    def curve(self) -> dict[str, Any]:
        """Its course as the worker writes it: `networks` before and `history`, both on the held-out images.

        Raises:
            ValueError: it is damaged.
        """
        return self._read(CURVE, {"networks", "history", "held_out", "trained", "epochs", "seconds"})

    @property
    def metrics(self) -> dict[str, Any]:
        """Of the network of a finished one, what a run's metrics say of its fused network; {} where there were no test
        images.

        Raises:
            ValueError: it is damaged.
        """
        return self._read(METRICS, set())

    def _read(self, name: str, needed: set[str]) -> dict[str, Any]:
        try:
            content = dict(json.loads((self.folder / name).read_text()))
            missing = needed - content.keys()
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(
                f"{name} of the fine-tuning {self.name} cannot be read ({type(error).__name__})."
            ) from error
        if missing:
            raise ValueError(f"{name} of the fine-tuning {self.name} has no {', '.join(sorted(missing))}.")
        return content


def kept(entry: Entry) -> list[Kept]:
    """The fine-tunings of a run, the one that was begun last first."""
    return Kept.of(entry)


def finetune(entry: Entry, config: Any) -> Kept:
    """Start the worker that fine-tunes a run's fused network or goes on with it, or return the one that is done.

    Args:
        config: a `FinetuneConfig`.
    Raises:
        Busy: other work is going on.
        ValueError: the runs folder cannot be written to, or the run is not finished.
    """
    wanted = Kept.at(entry, config.key(entry.folder), config.to_json())
    device = entry.config.get("device") or "auto"
    keeping.begin(
        wanted, lambda runs: jobs.finetuning(config, entry.folder, entry.base, wanted.folder, runs, device), entry
    )
    return wanted
