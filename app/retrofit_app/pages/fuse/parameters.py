"""The parameters of the form of a new fusion, each declared once.

No Streamlit; torch only if the address or a pick names a method, a score or a grouping, which only the library knows.
"""

from dataclasses import dataclass

from retrofit_app.address.readers import Series, one_of, path
from retrofit_app.address.rule import amount, choice, declared, text
from retrofit_app.runs import methods

NETWORKS = {"shipped": "shipped pair", "train": "train new ones", "own": "my own"}
SPLITS = {
    "sharded": "own classes (sharded)",
    "dirichlet": "unequal (non-IID)",
    "full": "all images (full)",
    "twins": "permuted twins",
}
ARCHITECTURES = ("cnn", "mlp", "vgg11", "vgg13", "vgg16", "resnet18", "resnet34", "vit-small", "vit")
SCALES = {"0.5": "half", "1": "normal", "2": "double"}
#: Scales of the networks; the last one is that of all further ones.
WIDTHS = {**SCALES, "1,0.5": "A normal, others half"}
FUSED = {"first": "as network A", **SCALES}
RECIPES = {"small": "small", "cifar": "cifar", "paper": "the paper's", "imagenet": "imagenet"}
SETTINGS = {"default": "ours", "paper": "the paper's"}
SOURCES = {"first": "network A", "all": "all networks"}
MOST_PARENTS, MOST_SAMPLES, MOST_EPOCHS, MOST_SEED, MOST_SIZE = 12, 100_000, 1000, 9999, 1024

#: Help texts of the form's fields.
HELP = {
    "preset": "Starting points. Everything below can be changed afterwards.",
    "networks": "Fuse the two networks that come with the workbench, train new ones first, or take your own.",
    "data": "digits comes with scikit-learn. Others are found in `data` beside the runs folder and in the folders that "
    "RETROFIT_DATA names. You can also type the path of a folder.",
    "size": "Resizes images to this many pixels per side. Leave it empty to keep their size.",
    "arch": "What the networks look like. cnn and mlp train in seconds on digits; the others are meant for larger images.",
    "parents": "How many networks are trained and fused. HF methods pair two; KF methods take any number.",
    "widths": "Neurons of the networks' hidden layers, compared with the usual number.",
    "fused": "Neurons of the hidden layers of the network that comes out.",
    "split": "Who is trained on which images. Own classes: each class goes to one network only. Unequal: the networks have "
    "unequal shares of every class. All images: every network sees all of them. Permuted twins: one network, and a copy of it "
    "with shuffled neurons.",
    "ratio": "How even the unequal shares are: smallest over largest concentration of the split. At 1 they are drawn alike, and "
    "smaller numbers are more unequal.",
    "recipe": "How the networks are trained. small has no augmentation and few epochs; the others are for larger image sets.",
    "epochs": "Passes over the images. The default is the recipe's own number.",
    "split_seed": "Decides who gets which images, and the networks' first weights. The same seed gives the same networks.",
    "method": "The first four are the paper's. HF pairs the neurons of two equal networks one to one, KF groups them; Linear "
    "fits each level in closed form, Gradient by gradient descent. The others are for comparison; Auto tries a few "
    "fusions and keeps the best. The line below says what the chosen method does.",
    "grouping": "Decides which neurons form a group. Each method has its own grouping; you can choose another one.",
    "importance": "How much each neuron counts in the grouping: its share in the network's decisions, or the same for all.",
    "samples": "Training images that the fusion sees, balanced over the classes. The paper uses 400.",
    "source": "Whose training images the fusion sees. The paper takes network A's. If A lacks images of some class, the "
    "images of all networks may work better.",
    "fusion_seed": "Decides which samples are drawn and where groupings start. The same seed gives the same numbers.",
    "settings": "Defaults of the options below: ours, or those of the paper's tables.",
    "code": "A name such as vgg11-half, or a function of yours that returns the network. "
    "Importing a module runs its code, so your functions have to be named when the workbench starts: "
    "retrofit app --arch mynet.py:make.",
    "target": "Empty for network A's architecture; otherwise a name such as vgg11-half or a JSON object, as in `retrofit fuse "
    "--target`.",
    "rows": "A splits file says which training images each network saw, so that importance uses each network's own images. "
    "Leave it empty if you have none.",
}


def _grouping(text: str) -> str:
    return one_of(methods.groupings)(text) if text else ""


def _option(text: str) -> str:
    """Check only an option's form; `options.settle` checks whether the method takes it."""
    if "=" not in text.strip("="):
        raise ValueError("it is a list of NAME=VALUE, separated by |")
    return path(text)


@dataclass(frozen=True)
class Picks:
    """Everything the form asks. Fields that a choice of networks does not use keep their values without effect."""

    networks: str = declared("train", one_of(NETWORKS))
    data: str = declared("digits", path)
    size: int = amount(0, 0, MOST_SIZE, "Pixels per side", placeholder="as they are")
    """Resize images to this many pixels per side; 0 keeps their size"""
    arch: str = choice("cnn", ARCHITECTURES, "Architecture")
    parents: int = amount(2, 1, MOST_PARENTS, "Number of networks")
    widths: str = choice("1", WIDTHS, "Widths")
    fused: str = choice("first", FUSED, "Fused width")
    split: str = choice("sharded", SPLITS, "Split")
    ratio: float = amount(0.2, 0.01, 1.0, "Evenness", digits=2, step=0.05, format="%.2f")
    recipe: str = choice("small", RECIPES, "Training recipe")
    epochs: int = amount(0, 0, MOST_EPOCHS, "Training epochs", placeholder="default")
    """0 for the recipe's number"""
    split_seed: int = amount(0, 0, MOST_SEED, "Training seed")
    method: str = declared("KF-Linear", one_of(methods.table))
    grouping: str = declared("", _grouping)
    """Replaces the method's; "" keeps it"""
    importance: str = declared("conductance", one_of(methods.importances))
    samples: int = amount(400, 10, MOST_SAMPLES, "Samples", step=50)
    source: str = choice("first", SOURCES, "Samples from")
    """Whose training images are the samples"""
    fusion_seed: int = amount(0, 0, MOST_SEED, "Fusion seed")
    settings: str = choice("default", SETTINGS, "Defaults")
    options: tuple[str, ...] = declared((), Series("|", _option))
    """NAME=VALUE: options of method, grouping and score that differ from their defaults"""
    files: tuple[str, ...] = declared((), Series("|"))
    rows: str = text("Splits file (if you have one)", "splits.json")
    """Splits file of the user's checkpoints"""
    code: str = declared("", path)
    """Architecture of the user's checkpoints, if they do not say it: the user's own factory, or another value of `--arch`"""
    target: str = text("Fused architecture", "as network A")
    """Fused architecture for the user's checkpoints: a library preset or a JSON spec"""

    @property
    def importance_used(self) -> str | None:
        """The importance, for methods that weigh neurons; None for others."""
        return self.importance if methods.takes(self.method).importance else None

    @property
    def grouping_used(self) -> str | None:
        """The grouping if it replaces that of a method that goes level by level; else None."""
        method = methods.table()[self.method]
        fixed = method.fixed.get("grouping")
        return self.grouping if method.takes.levels and self.grouping not in ("", fixed) else None

    def scales(self) -> tuple[str, ...]:
        """One scale per parent."""
        first, *others = self.widths.split(",")
        return (first, *(others or [first]) * (self.parents - 1))
