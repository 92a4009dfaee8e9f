"""What decides a run, and which choices are known."""

import dataclasses
import hashlib
import json
import shlex
from dataclasses import dataclass
from typing import Any

from ..data.augment import POLICIES
from ..importance import IMPORTANCE
from ..levels import BOUNDARIES
from ..methods import METHODS, needs_own_data
from ..options import checked, written
from ..ranges import check_ranges
from ..registry import find

CHOICES = {
    "importance_data": ("own", "fusion"),
    "fusion_from": ("parent0", "iid"),
    "preset": ("default", "paper"),
    "toward": ("zero", "parents"),
    "head": ("scores", "mean", "shares"),
}


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a fusion of checkpoints; form, command line, Python and record share it."""

    models: tuple[str, ...]
    """Checkpoint files, parent 0 first"""
    data: str = "digits"
    """Folder of a data set, or "digits" """
    method: str = "KF-Linear"
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
    arch: str | None = None
    """Architecture of bare checkpoints whose keys and shapes do not tell"""
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
    """What the method alone can be told (`options.options_of`), where that differs from its defaults; None for nothing"""

    def to_json(self) -> dict[str, Any]:
        """All fields in plain JSON types, so that a record says what was done whatever the defaults become."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "RunConfig":
        """The inverse of `to_json`; what is absent, because the record is older than the field, has its default.

        Raises:
            ValueError: unknown or missing fields.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(facts, dict) or not facts.get("models") or set(facts) - known:
            raise ValueError(f"a run's config needs 'models' and knows only {sorted(known)}. Found {facts!r:.200}.")
        lists = {name: tuple(facts[name]) for name in ("models", "mean", "std") if facts.get(name) is not None}
        return cls(**{**facts, **lists})

    def key(self) -> str:
        """Ten characters that two configs share exactly if they are equal; the files they name may still differ.

        Made of what differs from the defaults, so that a new field changes no key.
        """
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        chosen = {name: value for name, value in dataclasses.asdict(self).items() if value != defaults[name]}
        return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:10]

    def command(self) -> str:
        """The command line that repeats this run."""
        words = ["retrofit", "fuse", *self.models]
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "models" or value == field.default:
                continue
            if field.name == "options":
                words += [word for option in written(value) for word in ("--option", option)]
                continue
            flag = "--" + field.name.replace("_", "-")
            if value is True:
                words.append(flag)
            else:
                words += [flag, " ".join(map(str, value)) if isinstance(value, tuple) else str(value)]
        return shlex.join(words)


def read_boundaries(text: str) -> str | int | list[str]:
    """What `partition` takes, from a word, a number of levels or module names separated by commas."""
    if text.isdigit():
        return int(text)
    return text if text in ("auto", *BOUNDARIES) else text.split(",")


def check_choices(config: RunConfig) -> None:
    """Refuse unknown choices, and those that are open and that nobody should guess.

    Raises:
        ValueError: names the choice and the flag.
    """
    find(METHODS, config.method, "method")
    find(IMPORTANCE, config.importance, "importance")
    checked(config.method, config.options or {})
    check_ranges(seed=config.seed, **({} if config.memory is None else {"memory": config.memory}))
    for name, known in CHOICES.items():
        value = getattr(config, name)
        if value is not None and value not in known:
            raise ValueError(f"{name} is {value!r}. Known: {', '.join(known)}.")
    if config.auto_augment is not None:
        find(POLICIES, config.auto_augment, "AutoAugment policy")
        if not config.augment:
            raise ValueError("an AutoAugment policy needs augmented copies: say how many of each image with --augment.")
    if config.splits is None and (config.fusion_from or "parent0") == "parent0":
        raise ValueError(
            "fusion samples come from parent 0's training rows, which only a splits file tells. "
            "Pass --splits FILE, or --fusion-from iid to draw from all rows."
        )
    if config.splits is None and config.importance != "uniform" and (config.importance_data or "own") == "own":
        raise ValueError(
            f"importance {config.importance} is computed on each parent's own training rows, which only a splits file "
            "tells. Pass --splits FILE, or --importance-data fusion to use the fusion samples."
        )
    if config.splits is None and config.importance_data == "own" and needs_own_data(config.method):
        raise ValueError(
            f"{config.method} is to look at each parent's own training rows, which only a splits file tells. Pass --splits "
            "FILE, or leave --importance-data out to use the fusion samples."
        )
