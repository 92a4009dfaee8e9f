"""What the form of a new fusion asks: the picks, presets of them, and how the address holds them.

No Streamlit; torch only where the address or a pick names a method, a score or a grouping, which the library knows.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import PurePath
from typing import Any

from retrofit_app.runs import methods

NETWORKS = {"shipped": "shipped pair", "train": "train new ones", "own": "my own"}
SPLITS = {
    "sharded": "sharded: no class in two parts",
    "dirichlet": "non-IID: unequal shares of every class",
    "full": "full: everyone sees everything",
    "twins": "permuted twins: one network, its neurons shuffled",
}
ARCHITECTURES = ("cnn", "mlp", "vgg11", "vgg13", "vgg16", "resnet18", "resnet34", "vit-small", "vit")
SCALES = {"0.5": "half", "1": "normal", "2": "double"}
FUSED = {"first": "as network A", **SCALES}
RECIPES = {"small": "small", "cifar": "cifar", "paper": "the paper's", "imagenet": "imagenet"}
SETTINGS = {"default": "ours", "paper": "the paper's"}
SOURCES = {"first": "network A", "all": "all networks"}
MOST_PARENTS, MOST_SAMPLES, MOST_EPOCHS, MOST_SEED, MOST_SIZE, MOST_CHANNELS = 12, 100_000, 1000, 9999, 1024, 64
LONGEST = 2000  # characters of a list of files in the address


@dataclass(frozen=True)
class Picks:
    """Everything the form asks. Fields that a choice of networks does not use keep their values and decide nothing."""

    networks: str = "train"
    data: str = "digits"
    mean: tuple[float, ...] = ()
    """Normalisation of a data set that is not known by name, one number or one a channel"""
    std: tuple[float, ...] = ()
    size: int = 0
    """Images are resized to this many pixels a side; 0 keeps their size"""
    arch: str = "cnn"
    parents: int = 2
    widths: tuple[str, ...] = ()
    """A scale for each parent; () for normal ones"""
    fused: str = "first"
    split: str = "sharded"
    ratio: float = 0.2
    recipe: str = "small"
    epochs: int = 0
    """0 for the recipe's number"""
    split_seed: int = 0
    method: str = "KF-Linear"
    grouping: str = ""
    """Instead of the method's; "" for the method's"""
    importance: str = "conductance"
    samples: int = 400
    source: str = "first"
    """Whose training images the samples are"""
    fusion_seed: int = 0
    settings: str = "default"
    options: tuple[str, ...] = ()
    """NAME=VALUE: options of method, grouping and score that differ from their defaults"""
    files: tuple[str, ...] = ()
    rows: str = ""
    """Splits file of the user's checkpoints"""
    target: str = ""
    """Fused architecture for the user's checkpoints: a preset of the library or a JSON spec"""

    @property
    def importance_used(self) -> str | None:
        """The importance, for methods that weigh neurons; the others have none."""
        return self.importance if methods.takes(self.method).importance else None

    @property
    def grouping_used(self) -> str | None:
        """The grouping, where it replaces that of a method that goes level by level; else None."""
        method = methods.table()[self.method]
        fixed = method.fixed.get("grouping")
        return self.grouping if method.takes.levels and self.grouping not in ("", fixed) else None

    def scales(self) -> tuple[str, ...]:
        """One scale for each parent, normal where none was picked."""
        return (*self.widths[: self.parents], *["1"] * (self.parents - len(self.widths)))


@dataclass(frozen=True)
class Preset:
    """A starting point of the form."""

    title: str
    sentence: str
    picks: Picks


PRESETS: dict[str, Preset] = {
    "shipped": Preset(
        "The shipped pair",
        "Two trained networks that come with the workbench, each blind to half of the digits. Nothing is trained: the "
        "fusion takes seconds.",
        Picks(networks="shipped", split_seed=1),
    ),
    "sharded": Preset(
        "Sharded digits",
        "Train two small networks, each on five digits that the other never sees; then fuse them into one that knows "
        "all ten.",
        Picks(),
    ),
    "four": Preset(
        "Non-IID, four ways",
        "Four networks get very unequal shares of every digit. Pairing neurons one to one stops at two networks; "
        "clustering them does not.",
        Picks(parents=4, split="dirichlet", samples=200),
    ),
    "twins": Preset(
        "Permuted twins",
        "One network, and the same network with its neurons in another order. Plain averaging ruins them; fusion must "
        "find the order and lose nothing.",
        Picks(split="twins", method="HF-Linear", importance="uniform"),
    ),
    "widths": Preset(
        "Different widths",
        "A network of normal width and one of half the width. They cannot be averaged at all; clustering fuses them "
        "into the first one's shape.",
        Picks(split="dirichlet", widths=("1", "0.5")),
    ),
    "compress": Preset(
        "Compress one network",
        "One network of double width, fused with nobody: its neurons are clustered into a network of normal width.",
        Picks(parents=1, split="full", widths=("2",), fused="1"),
    ),
    "own": Preset(
        "Bring your own",
        "Your checkpoints, from a folder of this machine or uploaded, and the data set they were trained on.",
        Picks(networks="own", importance="uniform"),
    ),
}
FIRST = "shipped"


# --- the address ----------------------------------------------------------------------------------


def _one_of(names: Mapping[str, Any] | tuple[str, ...]) -> Callable[[str], str]:
    return _one_of_table(lambda: names)


def _one_of_table(table: Callable[[], Mapping[str, Any] | tuple[str, ...]]) -> Callable[[str], str]:
    """A reader of names from a table that is looked at when a name is read."""

    def read(text: str) -> str:
        names = table()
        if text not in names:
            raise ValueError(f"it is one of {', '.join(names)}")
        return text

    return read


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text[:12]) <= most:
            raise ValueError(f"it is a whole number from {least} to {most}")
        return int(text)

    return read


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 1:
        raise ValueError("it is a number from 0.01 to 1")
    return round(value, 2)


def _scales(text: str) -> tuple[str, ...]:
    scales = tuple(text.split(","))
    if len(scales) > MOST_PARENTS or set(scales) - set(SCALES):
        raise ValueError(f"it is a list of {', '.join(SCALES)}, one for each network")
    return scales


def _numbers(text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(word) for word in text.split(",") if word.strip())
    except ValueError:
        values = (math.nan,)
    if not all(map(math.isfinite, values)) or len(values) > MOST_CHANNELS:
        raise ValueError("it is a list of numbers such as 0.49,0.48,0.45")
    return values


def _path(text: str) -> str:
    if len(text) > LONGEST or "\0" in text:
        raise ValueError(f"it is a path of up to {LONGEST} characters")
    return text


def _words(text: str) -> tuple[str, ...]:
    """Options by their form only; `fuse_options.settle` asks whether the method takes them."""
    words = tuple(filter(None, _path(text).split("|")))
    if not all("=" in word.strip("=") for word in words):
        raise ValueError("it is a list of NAME=VALUE, separated by |")
    return words


READERS: dict[str, Callable[[str], Any]] = {
    "networks": _one_of(NETWORKS),
    "data": _path,
    "mean": _numbers,
    "std": _numbers,
    "size": _whole(0, MOST_SIZE),
    "arch": _one_of(ARCHITECTURES),
    "parents": _whole(1, MOST_PARENTS),
    "widths": _scales,
    "fused": _one_of(FUSED),
    "split": _one_of(SPLITS),
    "ratio": _ratio,
    "recipe": _one_of(RECIPES),
    "epochs": _whole(0, MOST_EPOCHS),
    "split_seed": _whole(0, MOST_SEED),
    "method": _one_of_table(methods.table),
    "grouping": _one_of_table(methods.groupings),
    "importance": _one_of_table(methods.importances),
    "samples": _whole(10, MOST_SAMPLES),
    "source": _one_of(SOURCES),
    "fusion_seed": _whole(0, MOST_SEED),
    "settings": _one_of(SETTINGS),
    "options": _words,
    "files": lambda text: tuple(filter(None, _path(text).split("|"))),
    "rows": _path,
    "target": _path,
}
#: Parameters of the address that belong to the form.
NAMES = ("preset", *(name.replace("_", "-") for name in READERS))


def read_address(address: Mapping[str, str]) -> tuple[str, Picks, list[str]]:
    """The preset, the picks, and a sentence for each parameter that was not understood and left out."""
    ignored = []
    preset = address.get("preset", FIRST)
    if preset not in PRESETS:
        ignored.append(f"Ignored preset={preset[:60]} in the address: no such preset. Shown instead: {FIRST}.")
        preset = FIRST
    picked = {}
    for name, read in READERS.items():
        text = address.get(name.replace("_", "-"))
        if text is None:
            continue
        try:
            picked[name] = read(text)
        except ValueError as error:
            default = _written(getattr(PRESETS[preset].picks, name)) or "nothing"
            shown = f"{name.replace('_', '-')}={text[:60]}"
            ignored.append(f"Ignored {shown} in the address: {error}. Shown instead: {default}.")
    return preset, replace(PRESETS[preset].picks, **picked), ignored


def write_address(preset: str, picks: Picks) -> dict[str, str]:
    """The inverse of `read_address`; what is as in the preset is left out."""
    base = PRESETS[preset].picks
    named = {} if preset == FIRST else {"preset": preset}
    changed = {
        field.name: getattr(picks, field.name)
        for field in fields(Picks)
        if getattr(picks, field.name) != getattr(base, field.name)
    }
    return named | {name.replace("_", "-"): _written(value, name) for name, value in changed.items()}


def _written(value: Any, name: str = "") -> str:
    if isinstance(value, tuple):
        return ("|" if name in ("files", "options") else ",").join(map(str, value))
    return str(value)


def title(path: str) -> str:
    """A data set or a file by its last name, without the folders it lies in."""
    return PurePath(path).name or path
