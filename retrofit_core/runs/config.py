"""The settings of a run, and the check of its choices."""

import contextlib
import dataclasses
import hashlib
import json
import shlex
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ..data.augment import POLICIES
from ..fusion.grouping import GROUPINGS
from ..fusion.importance import IMPORTANCE
from ..methods import METHODS, methods_with
from ..networks.levels import BOUNDARIES
from ..system.registry import find, known_name
from ..system.runtime import Runtime
from ..system.settings import check_seed, option_words, settings_of
from .options import checked, written

CHOICES = {
    "importance_data": ("own", "fusion"),
    "fusion_from": ("parent0", "iid"),
}


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a fusion of checkpoints; form, command line, Python and record share it."""

    models: tuple[str, ...]
    """Checkpoint files, parent 0 first"""
    data: str = "digits"
    """Folder of a data set, or "digits" """
    method: str = "KF-Linear"
    grouping: str | None = None
    """In place of the method's own, for methods that go level by level"""
    importance: str = "uniform"
    importance_data: str | None = None
    """"own" (each parent's training rows; needs splits) or "fusion"; by default own where there are splits. Of scores, and
    of RegMean"""
    fusion_from: str | None = None
    """"parent0" (the paper; needs splits) or "iid" (all rows); by default parent0, so without splits it must be given"""
    splits: str | None = None
    samples: int = 400
    augment: int = 0
    """Augmented copies of each fusion sample that are added to them"""
    auto_augment: str | None = None
    """AutoAugment policy of these copies; without one they are moved and mirrored only"""
    importance_samples: int = 400
    seed: int = 0
    preset: str = "default"
    ridge: str | float = "auto"
    toward: str = "zero"
    head: str = "scores"
    boundaries: str = "auto"
    """"auto", "preactivations", "activations", "blocks", a number of levels, or module names separated by commas"""
    memory: int | None = None
    """Bytes for the sums of a level and for kept tensors; None for the library's default"""
    target: str | None = None
    """Checkpoint, spec or preset of the fused architecture; by default parent 0's"""
    base: str | None = None
    """Checkpoint of the parents' common ancestor, for methods that add what they learned to it"""
    arch: str | None = None
    """Architecture of bare checkpoints whose keys and shapes do not tell"""
    weights: str = "auto"
    """Of files with several: "auto", "ema", "model" or their key, see `checkpoints.load_model`"""
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    size: int | None = None
    """Images are brought to so many pixels a side; by default the data set's own size"""
    device: str = "auto"
    evaluate: bool = False
    """Also measure parents, ensemble, average and fused network on the test split"""
    analyse: bool = False
    """Also compute what the workbench's pictures of the levels need, into the record"""
    options: dict[str, Any] | None = dataclasses.field(default=None, hash=False)
    """The method's other options (`options_of`) that differ from their defaults; None for none"""

    def __post_init__(self) -> None:
        """Names as their tables write them, so that equal runs are equal; unknown ones are left to `check_choices`."""
        tables = {"method": METHODS, "importance": IMPORTANCE, "grouping": GROUPINGS}
        for name, table in tables.items():
            with contextlib.suppress(ValueError):
                if (value := getattr(self, name)) is not None:
                    object.__setattr__(self, name, known_name(table, value, name))

    def to_json(self) -> dict[str, Any]:
        """All fields in plain JSON types, so that a record stays complete when defaults change."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "RunConfig":
        """The inverse of `to_json`; what is absent, because the record is older than the field, has its default.

        Raises:
            ValueError: unknown or missing fields.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(facts, dict) or not facts.get("models") or set(facts) - names:
            raise ValueError(f"a run's config needs 'models' and knows only {sorted(names)}. Found {facts!r:.200}.")
        lists = {name: tuple(facts[name]) for name in ("models", "mean", "std") if facts.get(name) is not None}
        return cls(**{**facts, **lists})

    def key(self) -> str:
        """Ten characters that two configs share exactly if they are equal; the content of their files may still differ.

        Made of the fields that differ from their defaults, so that a new field changes no key.
        """
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        chosen = {name: value for name, value in dataclasses.asdict(self).items() if value != defaults[name]}
        return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:10]

    def command(self) -> str:
        """The command line that repeats this run."""
        options = [word for option in written(self.options) for word in ("--option", option)]
        words = option_words(self, without=["models", "options"])
        return shlex.join(["retrofit", "fuse", *self.models, *words, *options])


def read_boundaries(text: str) -> str | int | list[str]:
    """What `partition` takes, from a word, a number of levels or module names separated by commas."""
    if text.isdigit():
        return int(text)
    return text if text in ("auto", *BOUNDARIES) else text.split(",")


def method_keywords(config: RunConfig) -> dict[str, Any]:
    """The flat keywords of a config's method, apart from the content of its files.

    Raises:
        ValueError: an unknown method, or a field that is set and that the method does not have.
    """
    method = find(METHODS, config.method, "method")
    defaults = {field.name: field.default for field in dataclasses.fields(RunConfig)}
    names = ("grouping", "importance", "preset", "ridge", "toward", "head", "target", "base", "seed", "device")
    keywords = {name: getattr(config, name) for name in names}
    keywords |= {
        "boundaries": read_boundaries(config.boundaries),
        "memory": config.memory or settings_of(Runtime)["memory"].default,
    }
    defaults["memory"] = settings_of(Runtime)["memory"].default
    suited = method.suited(keywords, defaults, methods_with)
    for name in ("target", "base"):  # networks, once their files are read
        suited.pop(name, None)
    return suited | (config.options or {})


def all_keywords(
    config: RunConfig,
    *,
    importance_data: Any,
    target: nn.Module | None,
    base: nn.Module | None,
    shares: Tensor | None,
    counts: list[int] | None,
) -> dict[str, Any]:
    """The flat keywords of a config's method: `method_keywords`, and the content of its files that the method takes.

    Args:
        importance_data, target, base, shares, counts: see `Inputs`.
    Raises:
        ValueError: as `method_keywords`.
    """
    method, keywords = find(METHODS, config.method, "method"), method_keywords(config)
    takes = method.takes
    held = {
        "importance_data": (importance_data, takes.importance or takes.parents_data),
        "target": (target, target is not None),
        "base": (base, base is not None),
        "class_shares": (shares, shares is not None),
        "sample_counts": (counts, method.algorithm(**keywords).needs_counts),
    }
    return keywords | {name: value for name, (value, taken) in held.items() if taken}


def config_options(config: RunConfig, options: dict[str, Any]) -> dict[str, Any] | None:
    """A method's options for `RunConfig.options`: checked, without those at their defaults.

    Beside a preset, which has defaults of its own, all are kept.

    Raises:
        ValueError: as `checked`.
    """
    fields = [field.name for field in dataclasses.fields(RunConfig)]
    different = checked(config.method, options, fields, grouping=config.grouping, importance=config.importance)
    return different if config.preset == "default" else options or None


def needs_parents_data(config: RunConfig) -> bool:
    """Whether a run uses each parent's own data: for scores, or for the method itself."""
    takes = find(METHODS, config.method, "method").takes
    return takes.parents_data or find(IMPORTANCE, config.importance, "importance").needs_data


def check_choices(config: RunConfig) -> None:
    """Refuse unknown choices, and open ones that have no safe default.

    Raises:
        ValueError: names the choice and the flag.
    """
    method = find(METHODS, config.method, "method")
    importance = find(IMPORTANCE, config.importance, "importance")
    if config.grouping is not None:
        find(GROUPINGS, config.grouping, "grouping")
    config_options(config, config.options or {})
    check_seed(config.seed)
    if config.memory is not None:
        Runtime(memory=config.memory)
    method.algorithm(**method_keywords(config))
    for name, words in CHOICES.items():
        value = getattr(config, name)
        if value is not None and value not in words:
            raise ValueError(f"{name} is {value!r}. Known: {', '.join(words)}.")
    if config.auto_augment is not None:
        find(POLICIES, config.auto_augment, "AutoAugment policy")
        if not config.augment:
            raise ValueError("an AutoAugment policy needs augmented copies: say how many of each image with --augment.")
    if config.splits is None and (config.fusion_from or "parent0") == "parent0":
        raise ValueError(
            "fusion samples come from parent 0's training rows, which only a splits file tells. "
            "Pass --splits FILE, or --fusion-from iid to draw from all rows."
        )
    if config.splits is None and importance.needs_data and (config.importance_data or "own") == "own":
        raise ValueError(
            f"importance {config.importance} is computed on each parent's own training rows, which only a splits file "
            "tells. Pass --splits FILE, or --importance-data fusion to use the fusion samples."
        )
    if config.splits is None and config.importance_data == "own" and method.takes.parents_data:
        raise ValueError(
            f"{config.method} is to look at each parent's own training rows, which only a splits file tells. Pass --splits "
            "FILE, or leave --importance-data out to use the fusion samples."
        )
