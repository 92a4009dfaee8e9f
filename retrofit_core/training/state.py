"""The state of a training after an epoch, in one file, so that it can resume with equal results."""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..system import device as devices
from ..system import files
from ..system.registry import first_line
from .descent import Best

FORMAT = 3  # 3: by torch.save
Quality = tuple[float, float]  # accuracy in %, minus the loss, which breaks ties


@dataclass
class Progress:
    """What changes from epoch to epoch."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    generators: Sequence[torch.Generator]
    history: list[dict[str, Any]] = field(default_factory=list)
    """One dict per epoch, including the start"""
    best: Best = field(init=False)
    """Its quality is a `Quality`; empty if nothing is measured"""

    def __post_init__(self) -> None:
        self.best = Best(self.model)

    @property
    def epoch(self) -> int:
        """The last epoch so far; 0: the start."""
        return self.history[-1]["epoch"]

    def add(self, epoch: int, epochs: int, loss: float | None, quality: Quality | None) -> None:
        """Note an epoch; without held-out rows (no quality) it is the best so far."""
        if quality:
            self.best.offer(epoch, quality)
        best, accuracy = (self.best.epoch, quality[0]) if quality else (epoch, None)
        self.history.append({"epoch": epoch, "epochs": epochs, "loss": loss, "accuracy": accuracy, "best": best})


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Fingerprint of tensors with their names and shapes: the first 16 digits of SHA-256."""
    fingerprint = hashlib.sha256()
    for name, tensor in tensors.items():
        fingerprint.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
        fingerprint.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return fingerprint.hexdigest()[:16]


def write(path: Path, settings: dict[str, Any], progress: Progress) -> None:
    """Write the state atomically."""
    best = progress.best
    state = {
        "format": FORMAT,
        "settings": json.loads(json.dumps(settings)),  # plain types only, which `torch.load` takes
        "history": progress.history,
        "best": (best.quality, best.epoch, best.state),
        "model": progress.model.state_dict(),
        "optimizer": progress.optimizer.state_dict()["state"],
        "draws": [draw.get_state() for draw in progress.generators],
    }
    content = io.BytesIO()  # torch.save to a file hides why a disk does not take it
    torch.save(state, content)
    files.write(path, content.getvalue())


def restore(path: Path, settings: dict[str, Any], progress: Progress) -> None:
    """Restore model, optimiser, generators and history from a file; tensors keep their memory layout, which affects speed.

    Raises:
        ValueError: the file is damaged, not a training state, or was written with other settings.
    """
    advice = f"Remove {path} to begin again."
    try:
        state = torch.load(path, devices.of(progress.model), weights_only=True)
        if state["format"] != FORMAT:
            raise ValueError(f"its format is {state['format']}")
    except Exception as error:  # torch raises almost anything
        raise ValueError(
            f"{path} is not the state of a training that this version can resume ({first_line(error)}). {advice}"
        ) from error
    compare(state["settings"], settings, f"{path} was written", advice)
    progress.history[:] = state["history"]
    progress.best.quality, progress.best.epoch, progress.best.state = state["best"]
    progress.model.load_state_dict(state["model"])
    groups = progress.optimizer.state_dict()["param_groups"]
    progress.optimizer.load_state_dict({"state": state["optimizer"], "param_groups": groups})
    for generator, draw in zip(progress.generators, state["draws"], strict=True):
        generator.set_state(draw.cpu())


def compare(stored: dict[str, Any], current: dict[str, Any], what: str, advice: str) -> None:
    """Refuse to resume a training with other settings; the message names the first that differs."""
    for name in [*current, *(name for name in stored if name not in current)]:
        if stored.get(name) != current.get(name):
            raise ValueError(
                f"{what} with {name} {stored.get(name)}, this training has {current.get(name)}: resume with the "
                f"settings that it started with. {advice}"
            )
