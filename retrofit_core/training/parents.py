"""Parents on the parts of a split, ready to be fused: one configuration for command line, app and Python."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Images, has_split, load
from ..data.splits import SPLITS, read_splits, write_splits
from ..networks import user_code
from ..networks.architectures import build, fitted, parse
from ..networks.checkpoints import load_model, save_model
from ..networks.symmetry import shuffled
from ..system.files import Locked, write
from ..system.monitor import Cancelled, Monitor
from ..system.registry import find
from ..system.settings import check_seed
from .config import AUTO, RATIO, TrainConfig
from .evaluation import check_suits, evaluate
from .files import check_data, check_unfinished, facts_of, settings_of, state_of, trained
from .loop import check_settings
from .recipes import RECIPES, augmentation

SCHEMA = 1
NOTE = "training.json"


@dataclass(frozen=True)
class PlannedParent:
    """A training, checked before any work."""

    images: Images
    rows: list[Tensor]
    """Training rows of each parent"""
    specs: list[dict[str, Any]]
    settings: list[dict[str, Any]]
    """Arguments of `train` for each parent"""


def plan(config: TrainConfig, images: Images) -> PlannedParent:
    """Rows, architectures and settings of each parent.

    Args:
        images: the training split; only its labels and shape are read.
    Raises:
        ValueError: what is asked cannot be trained.
    """
    _check(config)
    drawn: dict[str, Any] = {"ratio": config.ratio} if config.split.lower() == "dirichlet" else {}
    if config.shards is not None:
        drawn["shards"] = _shards(config.shards)
    rows = find(SPLITS, config.split, "split")(images.labels, config.parts, seed=config.seed, **drawn)
    names = config.arch * config.parts if len(config.arch) == 1 else config.arch
    specs = [fitted(parse(name), images.shape, len(images.classes)) for name in names]
    shares = 1 if config.split.lower() == "full" else config.parts  # each part of a full split is everything
    settings = [
        settings_of(config.recipe, images, spec["architecture"], shares, _chosen(config), config.augment)
        for spec in specs
    ]
    return PlannedParent(images, rows, specs, settings)


def _shards(words: str) -> list[list[int]]:
    """Raises ValueError: words that are not numbers."""
    try:
        return [[int(label) for label in shard.split(",")] for shard in words.split(";")]
    except (ValueError, AttributeError):
        raise ValueError(
            f'--shards are the classes of each part by their numbers, as "0,1,3;2,4". Found {words!r}.'
        ) from None


def _chosen(config: TrainConfig) -> dict[str, Any]:
    """Arguments of `train` that stand in the config; None where the recipe's is meant."""
    return {name: getattr(config, name) for name in ("epochs", "batch", "learning_rate", "precision")}


def _check(config: TrainConfig) -> None:
    check_seed(config.seed)
    find(SPLITS, config.split, "split")
    find(RECIPES, config.recipe, "recipe")
    if config.augment != AUTO:
        augmentation(config.augment)
    check_settings({name: value for name, value in _chosen(config).items() if value is not None})
    if len(config.arch) not in (1, config.parts):
        raise ValueError(
            f"{len(config.arch)} architectures for {config.parts} parents: give one --arch, or one for each of them."
        )
    if config.ratio != RATIO and config.split.lower() != "dirichlet":
        raise ValueError(
            f"--ratio belongs to --split dirichlet and does nothing with --split {config.split}. Leave it out."
        )
    if config.shards is not None and config.split.lower() != "sharded":
        raise ValueError(
            f"--shards belong to --split sharded and do nothing with --split {config.split}. Leave them out."
        )
    if config.twins and (config.split.lower() != "full" or config.parts < 2 or len(set(config.arch)) > 1):
        raise ValueError(
            "--twins are one network and shuffled copies of it, which have its rows and its architecture: ask for "
            "--split full, two --parts or more, and one --arch."
        )


def train_parents(
    config: TrainConfig,
    folder: str | Path,
    *,
    only: int | None = None,
    resume: bool = False,
    test: bool = True,
    monitor: Monitor | None = None,
    compile: bool = False,
) -> list[dict[str, Any]]:
    """Train the parents into a folder: parent-*.safetensors, splits.json and training.json (the config).

    Args:
        only: train this parent alone.
        resume: keep the parents that are finished and go on with the one that was stopped; on the CPU the result is bit
            for bit that of a training that was never stopped.
        test: measure each parent on the test split, if there is one.
        monitor: besides the events of `train` it gets a phase "training" for each parent, with parent and parents.
        compile: see `train`.
    Returns:
        One dict a parent that was asked for: model (its file), class_counts, and what `evaluate` found on the test split.
    Raises:
        ValueError: what is asked cannot be trained, an image is damaged (all are decoded before the first training), or the
            folder holds another split or an unfinished training.
        Cancelled: the monitor asked for it; finished epochs are kept.
    """
    _check(config)  # before any file is read
    for arch in config.arch:  # whoever trains a network has named it
        user_code.allow(arch)
    folder, monitor = Path(folder), monitor or Monitor()
    if only is not None and not 0 <= only < config.parts:
        raise ValueError(f"--only {only}: a split of {config.parts} parts has the parents 0 to {config.parts - 1}.")
    pixels = config.mean, config.std, config.size
    images = load(config.data, "train", *pixels)
    tested = load(config.data, "test", *pixels) if test and has_split(config.data, "test") else None
    planned = plan(config, images)
    files = [Path(file) for file in config.files(folder)]
    indices = range(config.parts) if only is None else [only]
    if config.twins and only and not files[0].exists():
        raise ValueError(f"--only {only}: this parent is a twin of parent 0, which is not there yet. Train that first.")
    for spec in {json.dumps(planned.specs[index], sort_keys=True): planned.specs[index] for index in indices}.values():
        check_suits(build(spec, seed=0), images)
    for index in indices:
        check_unfinished(files[index], resume)
    keep = resume or only is not None
    _check_same_parents(folder, files, planned, keep)
    read = [planned.rows[index] for index in indices if not (resume and files[index].exists())]
    check_data(images, torch.cat(read or [torch.tensor([0])]).unique(), tested, monitor)
    begun = (folder / NOTE).exists()
    _make_folder(folder)
    _write_notes(config, folder, planned, files, keep)
    results = []
    try:
        for index in indices:
            if not (config.twins and index):
                monitor.emit("phase", name="training", parent=index, parents=1 if config.twins else config.parts)
            model, facts = _parent(config, planned, files, index, resume, monitor, compile)
            measured = evaluate(model, tested) if tested else {}
            results.append({"model": str(files[index]), "class_counts": facts["class_counts"], **measured})
    except (Cancelled, Locked):
        raise
    except Exception:
        if not begun:
            _take_back(folder, files)
        raise
    return results


def _take_back(folder: Path, files: list[Path]) -> None:
    """Remove the notes of a training of which there is nothing, and the folder if nothing else is in it."""
    if not any(file.exists() or state_of(file).exists() for file in files):
        for name in (NOTE, "splits.json"):
            (folder / name).unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()


def _parent(
    config: TrainConfig,
    planned: PlannedParent,
    files: list[Path],
    index: int,
    resume: bool,
    monitor: Monitor,
    compile: bool,
) -> tuple[nn.Module, dict[str, Any]]:
    """One parent, trained or permuted, and the facts in its checkpoint."""
    settings, rows, spec = planned.settings[index], planned.rows[index], planned.specs[index]
    recipe = {
        "name": config.recipe,
        **settings,
        "seed": config.seed,
        "split": config.split,
        "part": index,
        "parts": config.parts,
        **({"ratio": config.ratio} if config.ratio != RATIO else {}),
        **({"twin_of": files[0].name} if config.twins and index else {}),
    }
    facts = facts_of(planned.images, rows, recipe, config.size, file="splits.json")
    seed = (config.seed * 1000 + index) % 2**63
    if config.twins and index:
        first, metadata = load_model(files[0])
        model = shuffled(first, planned.images.inputs([0]), torch.Generator().manual_seed(seed))
        save_model(
            model,
            files[index],
            architecture=spec,
            **facts,
            **{name: metadata.get(name) for name in ("validation_accuracy", "best_epoch")},
        )
        return model, facts
    run = {**settings, "seed": seed, "device": config.device, "monitor": monitor, "compile": compile}
    model = build(spec, seed=seed)
    model, _ = trained(files[index], model, planned.images, rows, run, facts, resume)
    return model, facts


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out {folder}: no such folder can be made: {error.strerror}.") from error


def _write_notes(config: TrainConfig, folder: Path, planned: PlannedParent, files: list[Path], keep: bool) -> None:
    """Write splits.json and training.json before the training, so that a stopped one has them too."""
    splits = folder / "splits.json"
    described = f"{config.split}, {config.parts} parts, seed {config.seed}"
    described += f", ratio {config.ratio}" if config.ratio != RATIO else ""
    write_splits(
        splits,
        planned.rows,
        planned.images.labels,
        model_files=files,
        split=described,
        training_set=f"{planned.images.name} train",
    )
    if not (keep and (folder / NOTE).exists()):
        write_training(config, folder)


def _check_same_parents(folder: Path, files: list[Path], planned: PlannedParent, keep: bool) -> None:
    """Refuse to mix parents of two splits in one folder, and to write over those of another one."""
    splits, present = folder / "splits.json", set(folder.glob("parent-*.safetensors"))
    other = splits.exists() and (keep or present) and not _is_split(splits, files, planned)
    if other or present - set(files):
        raise ValueError(
            f"{folder} holds {', '.join(sorted(path.name for path in present)) or splits.name} of another split than this "
            "command's (data, --split, --parts and --seed decide it): repeat the command that it was made with, choose "
            "another --out folder, or remove it."
        )


def _is_split(path: Path, files: list[Path], planned: PlannedParent) -> bool:
    """Whether a splits file gives these parents their rows; a damaged one does not."""
    try:
        stored = read_splits(path, files, len(planned.images))
    except ValueError:
        return False
    return all(torch.equal(left, right) for left, right in zip(stored, planned.rows, strict=True))


def write_training(config: TrainConfig, folder: str | Path) -> None:
    """Write training.json, whole or not at all."""
    write(Path(folder) / NOTE, json.dumps({"schema": SCHEMA, "training": config.to_json()}, indent=1))


def read_training(folder: str | Path) -> TrainConfig | None:
    """The config of the parents in a folder; None where no training.json lies there.

    Raises:
        ValueError: the file is broken or of another schema.
    """
    path = Path(folder) / NOTE
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA:
            raise ValueError(f"it has schema {content['schema']}, this version reads {SCHEMA}")
        return TrainConfig.from_json(content["training"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).rstrip(".") if isinstance(error, ValueError) else type(error).__name__
        raise ValueError(f"{path} cannot be used: {reason}. Remove the folder to train its parents again.") from error
