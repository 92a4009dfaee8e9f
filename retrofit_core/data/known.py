"""DATASETS: class names, normalisation and where to get the data sets known by name.

Constants are means and standard deviations of the training pixels scaled to 0..1, one a channel.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set by its name; `advice` completes "data set 'x' is not here: "."""

    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    advice: str


_IDX = "put the four IDX files of torchvision's {name} (packed or not) into {folder}/raw and give the path of '{root}'"
_PARQUET = "put train.parquet and test.parquet (columns image, label) into a folder named {name} and give its path"
_DIGIT_NAMES = tuple("0123456789")
_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_BLOOD = (
    "basophil", "eosinophil", "erythroblast", "immature granulocytes", "lymphocyte", "monocyte", "neutrophil",
    "platelet",
)  # fmt: skip
_CIFAR100 = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl",
    "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair",
    "chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin",
    "elephant", "flatfish", "forest", "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp",
    "lawn_mower", "leopard", "lion", "lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain",
    "mouse", "mushroom", "oak_tree", "orange", "orchid", "otter", "palm_tree", "pear", "pickup_truck",
    "pine_tree", "plain", "plate", "poppy", "porcupine", "possum", "rabbit", "raccoon", "ray", "road",
    "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper", "snail", "snake", "spider",
    "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank", "telephone", "television",
    "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf",
    "woman", "worm",
)  # fmt: skip

DATASETS = {
    # Measured on the training split of data/digits.py.
    "digits": DataSet(_DIGIT_NAMES, (0.3055,), (0.3759,), "it comes with scikit-learn"),
    "mnist": DataSet(_DIGIT_NAMES, (0.1307,), (0.3081,), _IDX.format(name="MNIST", folder="mnist/MNIST", root="mnist")),
    "fashion-mnist": DataSet(
        _FASHION,
        (0.2860,),
        (0.3530,),
        _IDX.format(name="FashionMNIST", folder="fashion-mnist/FashionMNIST", root="fashion-mnist"),
    ),
    "cifar10": DataSet(_CIFAR10, (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616), _PARQUET.format(name="cifar10")),
    "cifar100": DataSet(
        _CIFAR100, (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762), _PARQUET.format(name="cifar100")
    ),
    "bloodmnist": DataSet(_BLOOD, (0.795, 0.660, 0.696), (0.226, 0.255, 0.110), _PARQUET.format(name="bloodmnist")),
    # Class names come from the folder's classes.json: subsets differ.
    "tiny-imagenet": DataSet((), (0.480, 0.448, 0.398), (0.276, 0.269, 0.282), _PARQUET.format(name="tiny-imagenet")),
}


def plain(name: str) -> str:
    """A data set's name as it is compared: 'CIFAR-10' and 'cifar_10' are 'cifar10'."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def recognise(*names: str) -> str | None:
    """The key in DATASETS of the first name that is known, else None."""
    by_plain_name = {plain(key): key for key in DATASETS}
    return next((by_plain_name[plain(name)] for name in names if plain(name) in by_plain_name), None)
