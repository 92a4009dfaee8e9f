"""Train into a checkpoint: the settings, the facts in the file, the state until training is done."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Images, check_images
from ..networks.checkpoints import load_model, save_model
from ..system.files import locked
from ..system.monitor import Cancelled, Monitor
from .loop import TrainSettings, train
from .recipes import recipe
from .state import compare, digest

AGAIN = "Run the same command with --resume to continue after the last finished epoch."


def own_settings(config: Any) -> dict[str, Any]:
    """The `TrainSettings` that a `TrainConfig` or `FinetuneConfig` has in place of the recipe's."""
    names = ("epochs", "batch", "learning_rate", "precision")
    return {name: value for name in names if (value := getattr(config, name)) is not None}


def settings_of(name: str, images: Images, architecture: str, parts: int, config: Any) -> dict[str, Any]:
    """All `TrainSettings` but the seed, from a recipe; those that a config has itself replace the recipe's."""
    from_recipe = recipe(name, images.name, images.shape[1], architecture, parts, config.augment)
    settings = vars(TrainSettings(**{**from_recipe, **own_settings(config)}))
    return {name: value for name, value in settings.items() if name != "seed"}


def facts_of(images: Images, rows: Tensor, recipe: dict[str, Any], size: int | None, **files: str) -> dict[str, Any]:
    """The facts of a training for its checkpoint; the rows themselves are in the splits file."""
    return {
        "classes": list(images.classes),
        "mean": list(images.mean),
        "std": list(images.std),
        "data": images.name,
        "class_counts": torch.bincount(images.labels[rows], minlength=len(images.classes)).tolist(),
        "recipe": recipe,
        "rows": {"count": len(rows), "digest": digest({"rows": rows}), "images": images.digest(), **files},
        **({"size": size} if size else {}),
    }


def check_data(images: Images, rows: Tensor, test: Images | None, monitor: Monitor) -> None:
    """Decode every image before training.

    Args:
        rows: the training rows that will be used.
    Raises:
        ValueError: names the file or row.
    """
    if test is not None:
        check_images(test, monitor=monitor)
    check_images(images, rows, monitor)


def trained_network(
    file: Path, model: nn.Module, images: Images, rows: Tensor, run: dict[str, Any], facts: dict[str, Any], resume: bool
) -> tuple[nn.Module, int]:
    """Train a model and write its checkpoint; until it is done, a file next to it holds the state.

    Args:
        run: further arguments of `train`.
        facts: for the checkpoint, from `facts_of`.
        resume: continue from the state, or use the finished checkpoint.
    Returns:
        The model, and the epoch of its weights (0: the start), which the checkpoint stores as "best_epoch".
    Raises:
        Locked: another process trains this checkpoint.
        ValueError: the state or checkpoint is from a training with other settings or images.
        Cancelled, KeyboardInterrupt: on request, with a note that names the unwritten file.
    """
    state = state_of(file)
    if resume and file.exists() and not state.exists():
        return _finished(file, model, facts)
    try:
        with locked(file.parent, f"the checkpoint {file}", f"{file.name}.lock"):
            history = train(model, images, rows, state=state, **run)
            accuracies = [entry["accuracy"] for entry in history if entry["accuracy"] is not None]
            best = history[-1]["best"]
            save_model(model, file, **facts, validation_accuracy=max(accuracies, default=None), best_epoch=best)
            state.unlink(missing_ok=True)
    except (KeyboardInterrupt, Cancelled) as stopped:
        stopped.add_note(f"{file.name} is not written yet.")
        raise
    return model, best


def finetuned_network(
    file: Path,
    model: nn.Module,
    images: Images,
    settings: dict[str, Any],
    origin: str,
    *,
    size: int | None,
    seed: int,
    device: str,
    monitor: Monitor,
    resume: bool,
) -> tuple[nn.Module, int]:
    """Fine-tune a model on all images, and write its checkpoint; see `trained`.

    Args:
        settings: of the recipe "finetune", from `settings_of`.
        origin: where the model comes from.
        size: of the images, if it was chosen.
    """
    rows = torch.arange(len(images))
    start = {"from": origin, "from_weights": digest(model.state_dict())}
    facts = facts_of(images, rows, {"name": "finetune", **settings, "seed": seed, **start}, size)
    run = {**settings, "seed": seed, "device": device, "monitor": monitor}
    return trained_network(file, model, images, rows, run, facts, resume)


def _finished(file: Path, model: nn.Module, facts: dict[str, Any]) -> tuple[nn.Module, int]:
    """The checkpoint's network and best epoch, if it matches this training."""
    finished, metadata = load_model(file)
    stored = {name: metadata.get(name) for name in facts if name != "recipe"}
    recipe = metadata.get("recipe")
    recipe = recipe if isinstance(recipe, dict) else {}
    expected = {"architecture": getattr(model, "spec", None), **facts, **facts["recipe"]}
    del expected["recipe"]
    advice = f"Remove {file} to train it again."
    compare({"architecture": metadata["architecture"], **stored, **recipe}, expected, f"{file} was trained", advice)
    return finished, metadata["best_epoch"]


def state_of(file: Path) -> Path:
    """Path of the state of an unfinished training for `file`."""
    return file.with_suffix(".unfinished")


def check_unfinished(file: Path, resume: bool) -> None:
    """Refuse to start over while an unfinished training exists, whose work would be lost."""
    state = state_of(file)
    if state.exists() and not resume:
        raise ValueError(
            f"{state} is from a training that was stopped. {AGAIN} To start again from the beginning, remove that file."
        )
