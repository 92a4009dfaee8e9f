"""What the form of a new fusion asks: its parameters, each declared once.

No Streamlit; torch only where the address or a pick names a method, a score or a grouping, which the library knows.
"""

from dataclasses import dataclass

from retrofit_app.address.readers import Series, number, one_of, path
from retrofit_app.address.rule import declared
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


def _grouping(text: str) -> str:
    return one_of(methods.groupings)(text) if text else ""


def _option(text: str) -> str:
    """An option by its form only; `options.settle` asks whether the method takes it."""
    if "=" not in text.strip("="):
        raise ValueError("it is a list of NAME=VALUE, separated by |")
    return path(text)


#: A number, or one for each channel.
NUMBERS = Series(",", number(), MOST_CHANNELS)


@dataclass(frozen=True)
class Picks:
    """Everything the form asks. Fields that a choice of networks does not use keep their values and decide nothing."""

    networks: str = declared("train", one_of(NETWORKS))
    data: str = declared("digits", path)
    mean: tuple[float, ...] = declared((), NUMBERS)
    """Normalisation of a data set that is not known by name, one number or one a channel"""
    std: tuple[float, ...] = declared((), NUMBERS)
    size: int = declared(0, number(0, MOST_SIZE, digits=0))
    """Images are resized to this many pixels a side; 0 keeps their size"""
    arch: str = declared("cnn", one_of(ARCHITECTURES))
    parents: int = declared(2, number(1, MOST_PARENTS, digits=0))
    widths: tuple[str, ...] = declared((), Series(",", one_of(SCALES), MOST_PARENTS))
    """A scale for each parent; () for normal ones"""
    fused: str = declared("first", one_of(FUSED))
    split: str = declared("sharded", one_of(SPLITS))
    ratio: float = declared(0.2, number(0.01, 1, digits=2))
    recipe: str = declared("small", one_of(RECIPES))
    epochs: int = declared(0, number(0, MOST_EPOCHS, digits=0))
    """0 for the recipe's number"""
    split_seed: int = declared(0, number(0, MOST_SEED, digits=0))
    method: str = declared("KF-Linear", one_of(methods.table))
    grouping: str = declared("", _grouping)
    """Instead of the method's; "" for the method's"""
    importance: str = declared("conductance", one_of(methods.importances))
    samples: int = declared(400, number(10, MOST_SAMPLES, digits=0))
    source: str = declared("first", one_of(SOURCES))
    """Whose training images the samples are"""
    fusion_seed: int = declared(0, number(0, MOST_SEED, digits=0))
    settings: str = declared("default", one_of(SETTINGS))
    options: tuple[str, ...] = declared((), Series("|", _option))
    """NAME=VALUE: options of method, grouping and score that differ from their defaults"""
    files: tuple[str, ...] = declared((), Series("|"))
    rows: str = declared("", path)
    """Splits file of the user's checkpoints"""
    code: str = declared("", path)
    """Architecture of the user's checkpoints, where they do not say it: a factory of his own, or what `--arch` takes else"""
    target: str = declared("", path)
    """Fused architecture for the user's checkpoints: a preset of the library or a JSON spec"""
    base: str = declared("", path)
    """Checkpoint of the common ancestor of the user's checkpoints"""

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
