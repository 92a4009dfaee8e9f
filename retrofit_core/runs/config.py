"""Settings of a run. No torch: the command line derives its options from these fields."""

import contextlib
import dataclasses
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..catalogue import CATALOGUE
from ..system.files import key_of
from ..system.registry import known_name
from ..system.settings import AT_LEAST_ONE, COUNT, same_as, setting
from ..system.texts import changed, option_words, path, told_words
from ..training.config import TrainConfig


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines a fusion of checkpoints; shared by form, command line, Python and record."""

    models: tuple[str, ...]
    """Checkpoint files, parent 0 first"""
    data: str = same_as(TrainConfig, "data")
    method: str = setting(
        "Auto",
        f"{', '.join(CATALOGUE)}. Auto tries a few fusions and returns the best of them and of the parents. Each has options of "
        "its own (`--method NAME --help`), such as --ridge, and --grouping: hungarian, kmeans (--restarts), same_index, random.",
    )
    importance: str = setting(
        "uniform",
        "Importance score of neurons: uniform, conductance (--steps), deeplift (--fallback).",
    )
    importance_data: Literal["own", "fusion"] | None = setting(
        None,
        "Data for the scores: own (each parent's training rows; needs --splits) or fusion (the fusion samples). "
        "Default: own if --splits is given.",
    )
    """For scores, and for methods that read the parents' data"""
    fusion_from: Literal["parent0", "iid"] | None = setting(
        None,
        "Source of the fusion samples: parent0 (parent 0's training rows, as in the paper; needs --splits) or iid "
        "(all rows). Default: parent0, so pass iid if there is no --splits.",
    )
    splits: str | None = setting(None, "JSON file with each parent's training rows.", read=path)
    samples: int = setting(400, "Fusion samples, balanced over the classes.", AT_LEAST_ONE)
    augment: int = setting(0, "Number of shifted and flipped copies of each fusion sample to add.", COUNT)
    importance_samples: int = setting(400, "Samples per parent for computing importance scores.", AT_LEAST_ONE)
    seed: int = same_as(TrainConfig, "seed")
    target: str | None = setting(
        None, "Fused architecture: a preset, JSON spec or your own function. Default: parent 0's."
    )
    arch: str | None = setting(
        None,
        "Architecture of the checkpoints, if they do not record it: a preset (vgg11, vgg11-half, ...), "
        "a JSON spec, or your own function, package.module:function or FILE.py:function (importing "
        "it runs its code: name only code that you trust).",
    )
    mean: tuple[float, ...] | None = same_as(TrainConfig, "mean")
    std: tuple[float, ...] | None = same_as(TrainConfig, "std")
    size: int | None = same_as(TrainConfig, "size")
    device: str = same_as(TrainConfig, "device")
    evaluate: bool = setting(False, "Evaluate parents, ensemble, average and fused network on the test split.")
    analyse: bool = setting(False, "Also analyse the levels for the workbench's figures (needs --record).")
    options: dict[str, Any] | None = dataclasses.field(default=None, hash=False)
    """The method's settings (`Method.settings`) that differ from its defaults; None for none"""

    def __post_init__(self) -> None:
        """Bring names and options into one form, so that equal runs are equal; `check_choices` refuses unknown ones."""
        from ..fusion.importance import IMPORTANCE
        from ..methods import METHODS

        for name, table in (("method", METHODS), ("importance", IMPORTANCE)):
            with contextlib.suppress(ValueError):
                object.__setattr__(self, name, known_name(table, getattr(self, name), name))
        if self.method in METHODS and self.options is not None:
            options = METHODS[self.method].stored_options(self.options, self.importance)
            object.__setattr__(self, "options", options or None)

    def to_json(self) -> dict[str, Any]:
        """All fields in plain JSON types, so that records stay complete when defaults change."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "RunConfig":
        """The inverse of `to_json`.

        Raises:
            ValueError: unknown or missing fields.
        """
        if not isinstance(facts, dict) or not facts.get("models") or set(facts) - set(FIELDS):
            raise ValueError(f"a run's config needs 'models' and knows only {sorted(FIELDS)}. Found {facts!r:.200}.")
        lists = {name: tuple(facts[name]) for name in ("models", "mean", "std") if facts.get(name) is not None}
        return cls(**{**facts, **lists})

    def changed(self) -> dict[str, Any]:
        """The fields that differ from their defaults, in plain JSON types."""
        return json.loads(json.dumps(changed(self)))

    def key(self) -> str:
        """Ten characters, equal for two configs exactly if they are equal; the content of their files may still differ.

        Depends only on fields that differ from their defaults, so that new fields change no key.
        """
        return key_of(self.changed())

    def located(self, folder: str | Path) -> "RunConfig":
        """The same run with file names relative to the current folder instead of this one."""
        base = Path(folder)
        if base == Path():
            return self

        data = [] if self.data == "digits" else [base / Path(self.data).expanduser(), base / "data" / self.data]
        return dataclasses.replace(
            self,
            models=tuple(str(base / name) for name in self.models),
            splits=self.splits and str(base / self.splits),
            data=next((str(path) for path in data if path.exists()), self.data),
        )

    def command(self) -> str:
        """The command line that repeats this run."""
        words = [*option_words(self, ("models", "options")), *told_words(self.options or {})]
        return shlex.join(["retrofit", "fuse", *self.models, *words])


def commands(runs: Iterable[tuple[RunConfig, TrainConfig | None]]) -> str:
    """Shell lines that make runs: the training of their parents, if known, then each fusion into a record named by its key.

    Examples:
        >>> print(commands([(RunConfig(models=("a.safetensors",), splits="splits.json"), None)]))
        retrofit fuse a.safetensors --splits splits.json --record 6365e64c81
    """
    lines: dict[str, None] = {}
    for config, training in runs:
        if training is not None:
            lines[f"{training.command(Path(config.models[0]).parent)} --resume"] = None
        lines[f"{config.command()} --record {config.key()}"] = None
    return "\n".join(lines)


#: Names of a run's own settings, as opposed to options of methods.
FIELDS = tuple(field.name for field in dataclasses.fields(RunConfig))


def choice_of(decided: Mapping[str, Any]) -> str:
    """What Auto chose, from a result's `config`: "KF-Linear, conductance", or "parent 0", which none beat; "" for others."""
    candidates = decided.get("candidates") or {}
    return max(candidates, key=lambda name: candidates[name], default="")


def title_of(method: str, importance: str | None, options: Mapping[str, Any] | None) -> str:
    """A run in words: method, grouping and importance if given, and other options."""
    others = dict(options or {})
    words = [method, others.pop("grouping", None), importance]
    return ", ".join(
        [*filter(None, words), *(name if value is True else f"{name}={value}" for name, value in others.items())]
    )
