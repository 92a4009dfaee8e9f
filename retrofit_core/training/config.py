"""Settings for training parents. No torch: the command line derives its options from these fields."""

import dataclasses
import json
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..system.files import key_of
from ..system.settings import AT_LEAST_ONE, SEED, setting, settings_of
from ..system.texts import floats, option_words

#: The data set's usual augmentation.
AUTO = "auto"
RATIO = 0.2


@dataclass(frozen=True)
class TrainConfig:
    """Everything that determines the parents of one split; shared by form, command line, Python and record."""

    data: str = setting(
        "digits",
        "Folder of a data set (one folder of images per class, parquet, IDX, CIFAR or MedMNIST "
        'files), or "digits", which is built in.',
    )
    arch: tuple[str, ...] = setting(
        ("cnn",),
        "cnn, mlp, a preset such as vgg11-half, a JSON spec, or your own function, "
        "package.module:function or FILE.py:function (importing it runs its code: name only code that you trust). "
        "Give it once for all parents, or once for each.",
    )
    split: str = setting("sharded", "How to divide the rows among the parents: full, dirichlet, sharded.")
    parts: int = setting(2, "Number of parents.", AT_LEAST_ONE)
    ratio: float = setting(
        RATIO, "For a dirichlet split: how equal the parts are, from above 0 (very unequal) to 1 (equal)."
    )
    """Smallest concentration over largest"""
    shards: str | None = setting(
        None, 'For a sharded split: the classes of each part, such as "0,1,3;2,4". Default: drawn with the seed.'
    )
    twins: bool = setting(
        False, "Train only parent 0; the other parents are copies of it with shuffled neurons (needs --split full)."
    )
    recipe: str = setting(
        "small",
        "small, cifar, paper, short, imagenet. small has no augmentation; paper has the paper's epochs for the number of "
        "parts.",
    )
    epochs: int | None = setting(None, "Passes over the training rows. Default: the recipe's.", AT_LEAST_ONE)
    batch: int | None = setting(None, "Batch size. Default: the recipe's.", AT_LEAST_ONE)
    learning_rate: float | None = setting(None, "Peak learning rate. Default: the recipe's.")
    precision: str | None = setting(
        None, "float32, bfloat16, or auto (bfloat16 if it is faster). Default: the recipe's."
    )
    augment: str = setting(
        AUTO,
        "Augmentation of the images: auto (the usual one for known data sets, none for others), none, or a list of "
        "crop=PIXELS, flip, policy=NAME and cutmix, such as crop=4,flip.",
    )
    seed: int = setting(0, "Random seed; the same seed gives the same numbers.", SEED)
    mean: tuple[float, ...] | None = setting(
        None,
        'Channel means for the normalisation, if the data set is not a known one, e.g. "0.5 0.5 0.5".',
        read=floats,
    )
    std: tuple[float, ...] | None = setting(None, "Channel standard deviations, in the same format.", read=floats)
    size: int | None = setting(
        None, "Size of the images in pixels: the shorter side is resized to it, and the centre cropped."
    )
    device: str = setting("auto", "auto (CUDA if available), cpu, cuda, cuda:1, ...")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_json(cls, facts: object) -> "TrainConfig":
        """The inverse of `to_json`.

        Raises:
            ValueError: unknown fields, or values of the wrong type.
        """
        settings = settings_of(cls)
        if not isinstance(facts, dict) or facts.keys() - settings.keys():
            raise ValueError(f"a training's config knows only {sorted(settings)}. Found {facts!r:.200}.")
        wrong = [name for name, value in facts.items() if not settings[name].takes(value)]
        if wrong:
            raise ValueError(f"a training's config cannot have {wrong[0]} {facts[wrong[0]]!r:.80}.")
        return cls(**{name: settings[name].normalised(value) for name, value in facts.items()})

    def key(self) -> str:
        """Ten characters, equal for two trainings exactly if their configs are."""
        return key_of(self.to_json())

    @cached_property
    def folder(self) -> str:
        """The parents' folder, relative to the runs folder."""
        return f"parents-{self.key()}"

    def files(self, folder: str | Path | None = None) -> tuple[str, ...]:
        """The parents' checkpoints, as `RunConfig.models` names them."""
        return tuple(str(Path(folder or self.folder, f"parent-{index}.safetensors")) for index in range(self.parts))

    def splits(self, folder: str | Path | None = None) -> str:
        """The splits file, as `RunConfig.splits` names it."""
        return str(Path(folder or self.folder, "splits.json"))

    def command(self, folder: str | Path | None = None) -> str:
        """The command line that trains these parents into a folder."""
        return shlex.join(["retrofit", "train", *option_words(self), "--out", str(folder or self.folder)])
