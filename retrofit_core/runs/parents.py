"""Train parents on the parts of a split: one configuration for command line, app and Python."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Images, has_split, load
from ..data.splits import SPLITS, read_splits, write_splits
from ..fusion.permutation import permuted
from ..networks.architectures import build, fitted, parse
from ..networks.checkpoints import load_model, save_model
from ..system.files import json_of, write
from ..system.monitor import Monitor
from ..system.registry import find
from ..system.settings import SEED_SETTING, check_setting
from ..training.config import AUTO, RATIO, TrainConfig
from ..training.evaluation import check_suits, evaluate
from ..training.files import check_data, check_unfinished, facts_of, own_settings, settings_of, trained_network
from ..training.loop import TrainSettings
from ..training.recipes import RECIPES, augmentation

SCHEMA = 1
NOTE = "training.json"


@dataclass(frozen=True)
class PlannedParent:
    """A validated training plan."""

    images: Images
    rows: list[Tensor]
    """Training rows of each parent"""
    specs: list[dict[str, Any]]
    settings: list[dict[str, Any]]
    """Arguments of `train` for each parent"""


def plan(config: TrainConfig, images: Images) -> PlannedParent:
    """Plan the rows, architecture and settings of each parent.

    Args:
        images: the training split; reads only its labels and shape.
    Raises:
        ValueError: invalid settings.
    """
    _check(config)
    drawn: dict[str, Any] = {"ratio": config.ratio} if config.split.lower() == "dirichlet" else {}
    if config.shards is not None:
        drawn["shards"] = _shards(config.shards)
    rows = find(SPLITS, config.split, "split")(images.labels, config.parts, seed=config.seed, **drawn)
    names = config.arch * config.parts if len(config.arch) == 1 else config.arch
    specs = [fitted(parse(name), images.shape, len(images.classes)) for name in names]
    shares = 1 if config.split.lower() == "full" else config.parts  # each part of a full split has all rows
    settings = [settings_of(config.recipe, images, spec["architecture"], shares, config) for spec in specs]
    return PlannedParent(images, rows, specs, settings)


def _shards(words: str) -> list[list[int]]:
    """Raises ValueError: not numbers."""
    try:
        return [[int(label) for label in shard.split(",")] for shard in words.split(";")]
    except (ValueError, AttributeError):
        raise ValueError(
            f'--shards are the classes of each part by their numbers, as "0,1,3;2,4". Found {words!r}.'
        ) from None


def _check(config: TrainConfig) -> None:
    check_setting(SEED_SETTING, config.seed)
    find(SPLITS, config.split, "split")
    find(RECIPES, config.recipe, "recipe")
    if config.augment != AUTO:
        augmentation(config.augment)
    TrainSettings(**own_settings(config))
    if len(config.arch) not in (1, config.parts):
        raise ValueError(
            f"{len(config.arch)} architectures for {config.parts} parents: give one --arch, or one for each of them."
        )
    if config.ratio != RATIO and config.split.lower() != "dirichlet":
        raise ValueError(
            f"--ratio belongs to --split dirichlet and has no effect with --split {config.split}. Leave it out."
        )
    if config.shards is not None and config.split.lower() != "sharded":
        raise ValueError(
            f"--shards belong to --split sharded and have no effect with --split {config.split}. Leave them out."
        )
    if config.twins and (config.split.lower() != "full" or config.parts < 2 or len(set(config.arch)) > 1):
        raise ValueError(
            "--twins are one network and shuffled copies of it, which have its rows and its architecture: use "
            "--split full, at least two --parts, and one --arch."
        )


def train_parents(
    config: TrainConfig,
    folder: str | Path,
    *,
    only: int | None = None,
    resume: bool = False,
    overwrite: bool = True,
    test: bool = True,
    monitor: Monitor | None = None,
) -> list[dict[str, Any]]:
    """Train the parents into a folder: parent-*.safetensors, splits.json and training.json (the config).

    Args:
        only: train only this parent.
        resume: keep finished parents and continue the interrupted one; on the CPU the result is bitwise that of an
            uninterrupted training.
        overwrite: replace finished parents.
        test: measure each parent on the test split, if there is one.
        monitor: gets the events of `train`, and a phase "training" per parent, with parent and parents.
    Returns:
        One dict per requested parent: model (its file), class_counts, and the result of `evaluate` on the test split.
    Raises:
        ValueError: invalid settings, a damaged image (all are decoded before the first training), or the folder holds
            another split, an unfinished training, or finished parents that are not to be replaced.
        Cancelled: on the monitor's request; finished epochs are kept.
    """
    _check(config)  # before reading any file
    folder, monitor = Path(folder), monitor or Monitor()
    pixels = config.mean, config.std, config.size
    images = load(config.data, "train", *pixels)
    tested = load(config.data, "test", *pixels) if test and has_split(config.data, "test") else None
    planned = plan(config, images)
    files = [Path(file) for file in config.files(folder)]
    indices = range(config.parts) if only is None else [only]
    for spec in {json.dumps(planned.specs[index], sort_keys=True): planned.specs[index] for index in indices}.values():
        check_suits(build(spec, seed=0), images)
    for index in indices:
        check_unfinished(files[index], resume)
    keep = resume or only is not None
    _check_same_parents(folder, files, planned, keep)
    if not (resume or overwrite) and (finished := [files[index] for index in indices if files[index].exists()]):
        raise ValueError(
            f"--out: {finished[0]} exists. Keep finished parents with --resume, train them again with --overwrite, "
            "or name another folder."
        )
    read = [planned.rows[index] for index in indices if not (resume and files[index].exists())]
    check_data(images, torch.cat(read or [torch.tensor([0])]).unique(), tested, monitor)
    folder.mkdir(parents=True, exist_ok=True)
    _write_notes(config, folder, planned, files, keep)
    results = []
    for index in indices:
        if not (config.twins and index):
            monitor.emit("phase", name="training", parent=index, parents=1 if config.twins else config.parts)
        model, facts = _parent(config, planned, files, index, resume, monitor)
        measured = evaluate(model, tested) if tested else {}
        results.append({"model": str(files[index]), "class_counts": facts["class_counts"], **measured})
    return results


def _parent(
    config: TrainConfig,
    planned: PlannedParent,
    files: list[Path],
    index: int,
    resume: bool,
    monitor: Monitor,
) -> tuple[nn.Module, dict[str, Any]]:
    """One parent, trained or permuted, and its checkpoint's facts."""
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
        model = permuted(first, planned.images.inputs([0]), seed)
        save_model(
            model,
            files[index],
            architecture=spec,
            **facts,
            **{name: metadata.get(name) for name in ("validation_accuracy", "best_epoch")},
        )
        return model, facts
    run = {**settings, "seed": seed, "device": config.device, "monitor": monitor}
    model = build(spec, seed=seed)
    model, _ = trained_network(files[index], model, planned.images, rows, run, facts, resume)
    return model, facts


def _write_notes(config: TrainConfig, folder: Path, planned: PlannedParent, files: list[Path], keep: bool) -> None:
    """Write splits.json and training.json before training, so that an interrupted one has them too."""
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
    """Refuse to mix parents of two splits in one folder, or to overwrite those of another split."""
    splits, present = folder / "splits.json", set(folder.glob("parent-*.safetensors"))
    same = not splits.exists() or not (keep or present)
    with suppress(ValueError):  # a damaged splits file is another one
        stored = [] if same else read_splits(splits, files, len(planned.images))
        same = same or all(map(torch.equal, stored, planned.rows))
    if not same or present - set(files):
        raise ValueError(
            f"{folder} holds {', '.join(sorted(path.name for path in present)) or splits.name} of another split "
            "(data, --split, --parts and --seed determine it): repeat the command that made it, choose another "
            "--out folder, or remove it."
        )


def write_training(config: TrainConfig, folder: str | Path) -> None:
    """Write training.json atomically."""
    write(Path(folder) / NOTE, json.dumps({"schema": SCHEMA, "training": config.to_json()}, indent=1))


def read_training(folder: str | Path) -> TrainConfig | None:
    """The config of the parents in a folder; None without a training.json.

    Raises:
        ValueError: the file is damaged or has another schema.
    """
    path = Path(folder) / NOTE
    if not path.exists():
        return None
    try:
        content = json_of(path)
        if content["schema"] != SCHEMA:
            raise ValueError(f"it has schema {content['schema']}, this version reads {SCHEMA}")
        return TrainConfig.from_json(content["training"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error).rstrip(".") if isinstance(error, ValueError) else type(error).__name__
        raise ValueError(f"{path} cannot be used: {reason}. Remove the folder to train its parents again.") from error
