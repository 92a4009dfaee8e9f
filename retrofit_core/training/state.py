"""The state of a training after an epoch, in one safetensors file, so that it can resume with equal results.

Tensors: "model/NAME", "best/NAME" (the best epoch's model), "optimizer/PARAMETER/KEY", "draws/NUMBER" (states of random
generators). The metadata hold, as JSON, the settings ("settings"), the progress ("history", "best") and the number of
tensors.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..networks.checkpoints import read_metadata, read_tensors, write_tensors
from ..system.registry import first_line
from .descent import Best

FORMAT = 2  # 2: the history includes the start and the best epoch
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


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Fingerprint of tensors with their names and shapes: the first 16 digits of SHA-256."""
    fingerprint = hashlib.sha256()
    for name, tensor in tensors.items():
        fingerprint.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
        fingerprint.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return fingerprint.hexdigest()[:16]


def write(path: Path, settings: dict[str, Any], progress: Progress) -> None:
    """Write the state atomically."""
    tensors = {f"model/{name}": tensor for name, tensor in progress.model.state_dict().items()}
    tensors |= {f"best/{name}": tensor for name, tensor in progress.best.state.items()}
    for number, entries in progress.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{number}/{key}": value for key, value in entries.items() if isinstance(value, Tensor)}
    tensors |= {f"draws/{number}": draw.get_state() for number, draw in enumerate(progress.generators)}
    best = progress.best.quality
    facts = {"format": FORMAT, "settings": settings, "history": progress.history, "best": best, "tensors": len(tensors)}
    write_tensors(path, tensors, {"training": facts})


def restore(path: Path, settings: dict[str, Any], progress: Progress) -> None:
    """Restore model, optimiser, generators and history from a file.

    Raises:
        ValueError: the file is damaged, not a training state, or was written with other settings.
    """
    advice = f"Remove {path} to begin again."
    try:
        facts = read_metadata(path).get("training")
    except ValueError as error:
        raise ValueError(f"the state of the training is unusable: {error} {advice}") from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT or not isinstance(facts.get("settings"), dict):
        raise ValueError(f"{path} is not the state of a training that this version can resume. {advice}")
    compare(facts["settings"], settings, f"{path} was written", advice)
    try:
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}, "draws": {}}
        tensors = read_tensors(path)
        if len(tensors) != facts["tensors"]:
            raise ValueError(f"it has {len(tensors)} of {facts['tensors']} tensors")
        for name, tensor in tensors.items():
            kind, _, rest = name.partition("/")
            groups[kind][rest] = tensor
        progress.history[:] = [dict(entry, epoch=int(entry["epoch"])) for entry in facts["history"]]
        progress.model.load_state_dict(groups["model"])
        if facts["best"] is not None:
            accuracy, loss = map(float, facts["best"])
            best, present = progress.best, progress.model.state_dict()
            best.quality, best.epoch = (accuracy, loss), int(progress.history[-1]["best"])
            # In the model's memory layout, which affects speed.
            best.state = {name: torch.empty_like(value).copy_(groups["best"][name]) for name, value in present.items()}
        _restore_optimizer(progress.optimizer, groups["optimizer"])
        for number, draw in enumerate(progress.generators):
            draw.set_state(groups["draws"][str(number)])
    # On a valid file with wrong contents, torch raises almost anything.
    except (ValueError, KeyError, TypeError, RuntimeError, IndexError) as error:
        reason = first_line(error)
        raise ValueError(f"{path} does not fit this training ({reason}). {advice}") from error


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, key = name.split("/")
        parameter = parameters[int(number)]
        # In the parameter's memory layout, which affects speed.
        if tensor.shape == parameter.shape and tensor.dim():
            tensor = torch.empty_like(parameter).copy_(tensor)
        elif tensor.dim():
            raise ValueError(f"the optimiser's {name} has shape {tuple(tensor.shape)}")
        state.setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def compare(stored: dict[str, Any], current: dict[str, Any], what: str, advice: str) -> None:
    """Refuse to resume a training with other settings; the message names the first that differs."""
    for name in [*current, *(name for name in stored if name not in current)]:
        if stored.get(name) != current.get(name):
            raise ValueError(
                f"{what} with {name} {stored.get(name)}, this training has {current.get(name)}: resume with the "
                f"settings that it started with. {advice}"
            )
