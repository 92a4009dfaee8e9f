"""A config's choices, checked, as its method's flat keywords; its files, loaded and checked; missing parents, trained."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Images, channel_advice, check_images, load
from ..data.augment import copies
from ..data.images import Constants
from ..data.sampling import balanced
from ..data.splits import read_splits
from ..fusion.eligibility import output_shape
from ..fusion.importance import IMPORTANCE
from ..methods import METHODS
from ..networks.architectures import build, fitted, input_shape_of, parse
from ..networks.checkpoints import load_model, read_metadata
from ..networks.classnames import check_same_classes, stored
from ..networks.outputs import check_class_scores
from ..system.monitor import Monitor
from ..system.refusals import Refusal, cures_of
from ..system.registry import find, first_line
from ..system.settings import SEED_SETTING, check_setting, settings_of
from ..system.texts import changed
from ..training.config import TrainConfig
from .config import RunConfig
from .parents import plan, read_training, train_parents

#: Fields of a run that its method takes as keywords; files become networks.
TAKEN = ("importance", "seed", "device")


def method_keywords(config: RunConfig) -> dict[str, Any]:
    """The flat keywords of a config's method, without file contents.

    Raises:
        ValueError: an unknown method, or a setting that the method does not have.
    """
    method, asked = METHODS[config.method], changed(config)
    keywords = {name: asked[name] for name in TAKEN if name in asked} | (config.options or {})
    method.check_keywords(keywords | ({"target": config.target} if "target" in asked else {}))
    return keywords


def check_choices(config: RunConfig) -> None:
    """Refuse unknown choices, and missing ones without a safe default.

    Raises:
        ValueError: names the choice and the flag.
    """
    method = METHODS[config.method]
    importance = find(IMPORTANCE, config.importance, "importance")
    keywords = method_keywords(config)
    check_setting(SEED_SETTING, config.seed)
    method.algorithm(**keywords)
    if config.analyse and not method.takes.analysis:
        raise ValueError(
            f"an analysis needs the levels of an HF or KF method, and {method.name} does not work level by level. Omit "
            f"--analyse, or choose another method."
        )
    for name in ("importance_data", "fusion_from"):
        check_setting(settings_of(RunConfig)[name], getattr(config, name))
    if config.splits is not None:
        return
    if method.takes.uses_data and (config.fusion_from or "parent0") == "parent0":
        raise Refusal(
            "fusion samples come from parent 0's training rows, which only a splits file contains. Pass --splits "
            "FILE, or --fusion-from iid to draw from all rows.",
            ("fusion_from", "iid"),
        )
    own = (config.importance_data or "own") == "own"
    if (importance.needs_data and own) or (config.importance_data == "own" and method.takes.parents_data):
        needed = f"importance {config.importance}" if importance.needs_data else config.method
        raise ValueError(
            f"{needed} reads each parent's own training rows, which only a splits file contains. Pass --splits FILE, or "
            "--importance-data fusion to use the fusion samples."
        )


@dataclass(frozen=True)
class Inputs:
    """The content of a config's files, loaded and checked."""

    models: list[nn.Module]
    train: Images
    fusion: tuple[Tensor, Tensor]
    importance: list[tuple[Tensor, Tensor]] | str | None
    """None if neither scores, method nor analysis need it"""
    target: nn.Module | None

    def keywords(self, config: RunConfig) -> dict[str, Any]:
        """The flat keywords of a config's method: `method_keywords`, and file contents that the method takes.

        Raises:
            ValueError: as in `method_keywords`.
        """
        method, keywords = METHODS[config.method], method_keywords(config)
        held: dict[str, Any] = {"target": self.target}
        if method.takes.importance or method.takes.parents_data:
            held["importance_data"] = self.importance
        return keywords | {name: value for name, value in held.items() if value is not None}


def read_inputs(config: RunConfig, training: TrainConfig | None = None) -> Inputs:
    """Load checkpoints, data and splits.

    Args:
        training: of parents that are not trained yet, in place of their checkpoints.
    Raises:
        ValueError: a file is missing or damaged, or a choice has no safe default.
    """
    check_choices(config)
    train = read_images(config, "train")
    if training is None:
        models = read_parents(config, train)
        check_fitting(models, train)
        parts = read_splits(config.splits, config.models, len(train)) if config.splits else None
    else:
        planned = plan(training, train)
        models, parts = [build(spec, seed=0) for spec in planned.specs], planned.rows
    chosen = _balanced(train, config.samples, fusion_rows(config, parts), config.seed)
    generator = torch.Generator().manual_seed(config.seed)
    pixels, labels = copies(train, chosen, config.augment, generator)
    return Inputs(
        models,
        train,
        (train.normalise(pixels), labels),
        _importance_data(config, train, parts),
        build(fitted(parse(config.target), train.shape, len(train.classes)), seed=0) if config.target else None,
    )


def check_run(config: RunConfig, training: TrainConfig | None = None, folder: str | Path = ".") -> None:
    """Check a run before any work, by its method's own checks.

    Args:
        training: of the parents, if they are to be trained.
        folder: folder that file names in the config are relative to.
    Raises:
        Refusal: the run cannot work; it has the cures of the error.
    """
    folder = Path(folder).absolute()
    try:
        inputs = read_inputs(config.located(folder), training)
        METHODS[config.method].plan(inputs.models, inputs.fusion, **(inputs.keywords(config) | {"device": "cpu"}))
    except ValueError as error:
        raise Refusal(str(error).replace(f"{folder}/", ""), *cures_of(error)) from error


def read_images(config: RunConfig, split: str) -> Images:
    """A split of a run's data. If neither config nor data set have the normalisation, the checkpoints do.

    Raises:
        ValueError: as in `load`; or checkpoints with different normalisations.
    """
    return load(
        config.data, split, config.mean, config.std, config.size, stored=lambda: _stored_constants(config.models)
    )


def _stored_constants(models: Sequence[str | Path]) -> Constants | None:
    """Mean and standard deviation stored in checkpoints; None if none has them.

    Raises:
        ValueError: different values.
    """
    constants: dict[Constants, str] = {}
    for model in models:
        if Path(model).exists():
            facts = read_metadata(model)
            if isinstance(facts.get("mean"), list) and isinstance(facts.get("std"), list):
                constants.setdefault((tuple(facts["mean"]), tuple(facts["std"])), Path(model).name)
    if len(constants) > 1:
        said = "; ".join(f"{name}: {list(mean)}, {list(std)}" for (mean, std), name in constants.items())
        raise ValueError(
            f"the networks were trained on images with different normalisations ({said}). Choose one with --mean and "
            "--std."
        )
    return next(iter(constants), None)


def read_parents(config: RunConfig, images: Images) -> list[nn.Module]:
    """The networks of a config's checkpoints.

    Raises:
        ValueError: a file is missing or damaged, or has other classes.
    """
    models = [read_network(config, path, images) for path in config.models]
    check_same_classes({str(path): stored(read_metadata(path)) for path in config.models})
    return models


def read_network(config: RunConfig, path: str | Path, images: Images) -> nn.Module:
    """A checkpoint's network."""
    return load_model(path, config.arch, like=images)[0]


def check_fitting(models: Sequence[nn.Module], images: Images) -> None:
    """Refuse networks that do not take these images or have another number of classes.

    Raises:
        ValueError: names what the network takes and what the data set has.
    """
    example, advice = torch.zeros(1, *images.shape), "Choose the data set that it was trained on"
    for index, model in enumerate(models):
        try:
            classes = output_shape(model, example, f"parent {index}")
        except ValueError as error:
            reason = first_line(error)
            with suppress(ValueError, AttributeError):
                if (taken := input_shape_of(model)) != images.shape:
                    reason = f"it takes images of {' x '.join(map(str, taken))} values"
            raise ValueError(
                f"parent {index} does not take the images of {images.name}, which have "
                f"{' x '.join(map(str, images.shape))} values: {reason}. {advice}, or bring its images to that size."
                f"{channel_advice(images)}"
            ) from error
        check_class_scores(
            classes, f"parent {index}: an accuracy", "Fuse such networks in Python: METHODS[NAME](networks, data)."
        )
        if classes != (len(images.classes),):
            raise ValueError(
                f"parent {index} tells {' x '.join(map(str, classes))} classes apart, and {images.name} has "
                f"{len(images.classes)}. {advice}."
            )


def fusion_rows(config: RunConfig, parts: Sequence[Tensor] | None) -> Tensor | None:
    """The training rows to draw fusion samples from; None for all.

    Args:
        parts: each parent's rows, if there are splits.
    """
    if not parts:
        return None
    return torch.cat(list(parts)).unique() if config.fusion_from == "iid" else parts[0]


def _balanced(images: Images, n: int, rows: Tensor | None, seed: int) -> Tensor:
    return balanced(images.labels, n, rows=rows, generator=torch.Generator().manual_seed(seed))


def _importance_data(config: RunConfig, train: Images, parts: list[Tensor] | None) -> Any:
    needed = METHODS[config.method].takes.parents_data or IMPORTANCE[config.importance].needs_data
    if not needed and not config.analyse:
        return None
    if parts is None or config.importance_data == "fusion":
        return "fusion"
    rows = [_balanced(train, min(config.importance_samples, len(part)), part, config.seed) for part in parts]
    return [(train.inputs(chosen), train.labels[chosen]) for chosen in rows]


def train_missing(config: RunConfig, monitor: Monitor | None = None) -> None:
    """Train missing parents of a config if their folder has a training.json.

    Keeps finished parents, and resumes an interrupted training after its last finished epoch.

    Raises:
        NotAllowed: training.json names user code that this process's user did not name.
        ValueError: training.json is damaged.
    """
    needed = [Path(name) for name in (*config.models, *([config.splits] if config.splits else []))]
    for folder in dict.fromkeys(path.parent for path in needed if not path.exists()):
        training = read_training(folder)
        if training is None:
            continue  # loading reports what is missing
        if config.evaluate:
            check_images(read_images(config, "test"), monitor=monitor)  # report problems before the training
        train_parents(training, folder, resume=True, test=False, monitor=monitor)
