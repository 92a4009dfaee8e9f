"""DATASETS: class names, normalisation and source of known data sets.

Constants are per-channel means and standard deviations of the training pixels, scaled to 0..1.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class DataSet:
    """A known data set.

    Attributes:
        advice: completes "data set 'x' is not here: "; what to download and where to put it.
        size: default side of the images in pixels; None: as stored.
        margin: resize the shorter side to `margin` times the size before the centre crop.
        mirrors: a flipped image belongs to the same class.
    """

    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    advice: str
    size: int | None = None
    margin: float = 1.0
    mirrors: bool = True


_FETCH = (
    "`torchvision.datasets.{kind}('data/{name}', download=True)` fetches it in Python; or put {files} into a folder and give "
    "its path"
)
_IDX = "the four IDX files"
_PARQUET = "train.parquet and test.parquet (columns image, label)"


def _names(text: str) -> tuple[str, ...]:
    """Class names in label order, from a comma-separated list."""
    return tuple(name.strip() for name in text.split(","))


_DIGIT_NAMES = tuple("0123456789")
_CIFAR10 = _names("airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck")
_FASHION = _names("T-shirt/top, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag, Ankle boot")
_BLOOD = _names("basophil, eosinophil, erythroblast, immature granulocytes, lymphocyte, monocyte, neutrophil, platelet")
_CIFAR100 = _names(
    """
    apple, aquarium_fish, baby, bear, beaver, bed, bee, beetle, bicycle, bottle, bowl, boy, bridge, bus, butterfly,
    camel, can, castle, caterpillar, cattle, chair, chimpanzee, clock, cloud, cockroach, couch, crab, crocodile,
    cup, dinosaur, dolphin, elephant, flatfish, forest, fox, girl, hamster, house, kangaroo, keyboard, lamp,
    lawn_mower, leopard, lion, lizard, lobster, man, maple_tree, motorcycle, mountain, mouse, mushroom, oak_tree,
    orange, orchid, otter, palm_tree, pear, pickup_truck, pine_tree, plain, plate, poppy, porcupine, possum, rabbit,
    raccoon, ray, road, rocket, rose, sea, seal, shark, shrew, skunk, skyscraper, snail, snake, spider, squirrel,
    streetcar, sunflower, sweet_pepper, table, tank, telephone, television, tiger, tractor, train, trout, tulip,
    turtle, wardrobe, whale, willow_tree, wolf, woman, worm
    """
)

DATASETS = {
    # Measured on the training split of data/digits.py.
    "digits": DataSet(_DIGIT_NAMES, (0.3055,), (0.3759,), "it comes with scikit-learn", mirrors=False),
    "mnist": DataSet(
        _DIGIT_NAMES, (0.1307,), (0.3081,), _FETCH.format(kind="MNIST", name="mnist", files=_IDX), mirrors=False
    ),
    "fashion-mnist": DataSet(
        _FASHION, (0.2860,), (0.3530,), _FETCH.format(kind="FashionMNIST", name="fashion-mnist", files=_IDX)
    ),
    "cifar10": DataSet(
        _CIFAR10,
        (0.4914, 0.4822, 0.4465),
        (0.247, 0.2435, 0.2616),
        _FETCH.format(kind="CIFAR10", name="cifar10", files=f"the unpacked cifar-10-batches-py or {_PARQUET}"),
    ),
    "cifar100": DataSet(
        _CIFAR100,
        (0.5071, 0.4865, 0.4409),
        (0.2673, 0.2564, 0.2762),
        _FETCH.format(kind="CIFAR100", name="cifar100", files=f"the unpacked cifar-100-python or {_PARQUET}"),
    ),
    "bloodmnist": DataSet(
        _BLOOD,
        (0.795, 0.660, 0.696),
        (0.226, 0.255, 0.110),
        "download bloodmnist_64.npz from https://zenodo.org/records/10519652 into data/bloodmnist, or put "
        f"{_PARQUET} into a folder named bloodmnist, and give the folder's path",
    ),
    # Class names come from classes.json, because subsets differ.
    "tiny-imagenet": DataSet(
        (),
        (0.480, 0.448, 0.398),
        (0.276, 0.269, 0.282),
        "put train.parquet and val.parquet (columns image, label) into a folder named tiny-imagenet, and give the folder's path",
        size=64,
    ),
    "imagenet": DataSet(
        (),
        (0.485, 0.456, 0.406),  # as for torchvision's ImageNet weights
        (0.229, 0.224, 0.225),
        "download ILSVRC2012 from https://image-net.org (with an account), sort the images into "
        "imagenet/train/<class id> and imagenet/val/<class id> as torchvision does, and give the path of 'imagenet'",
        size=224,
        margin=256 / 224,
    ),
}
ALIASES = {
    "tinyimagenet200": "tiny-imagenet",
    "imagenet1k": "imagenet",
    "ilsvrc2012": "imagenet",
    "cifar10batchespy": "cifar10",
    "cifar100python": "cifar100",
}


def plain(name: str) -> str:
    """Normalise a name for comparison: 'CIFAR-10' and 'cifar_10' become 'cifar10'."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def recognise(*names: str) -> str | None:
    """The key in DATASETS of the first known name, else None."""
    by_plain_name = {plain(key): key for key in DATASETS} | ALIASES
    return next((by_plain_name[plain(name)] for name in names if plain(name) in by_plain_name), None)
