"""Names of splits as they occur in the wild: one table for folders, parquet files and `load`'s argument."""

import re
from collections.abc import Iterable

#: The words that Hugging Face's datasets library takes for splits (SPLIT_KEYWORDS), and a few more; in any case.
NAMES = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev", "development"),
    "test": ("test", "testing", "eval", "evaluation"),
}
#: Words beside a split's name that say nothing.
PLAIN_WORDS = {"set", "data", "dataset", "image", "images", "img", "imgs", "split", "folder", "dir", "samples"}
_SPLITS = {word: split for split, words in NAMES.items() for word in words}


def split_of(name: str) -> str | None:
    """The split that a name stands for: "train" for Train, TRAINING or trainset; None for others."""
    split, rest = _read(name)
    return None if rest else split


def by_split(names: Iterable[str], lone: bool = False) -> dict[str, list[str]]:
    """Split -> the names that stand for it.

    Names of other words beside the split's count where no plain name stands for this split, and they are clear:
    the other words say nothing (train_set, test_images), or are those of another split too (seg_train, seg_test).

    Args:
        lone: the other words may be any.
    """
    read = {name: _read(name) for name in names}
    named: dict[str, list[str]] = {}
    for name, (split, rest) in read.items():
        if split and not rest:
            named.setdefault(split, []).append(name)
    plain = set(named)
    for name, (split, rest) in read.items():
        others = {other for other, its_rest in read.values() if other and its_rest == rest}
        if split and rest and split not in plain and (lone or len(others) > 1):
            named.setdefault(split, []).append(name)
    return named


def _read(name: str) -> tuple[str | None, tuple[str, ...]]:
    """The one split that a name's words name, and its other words that say something; None: no split, or several."""
    stems = []
    for word in re.findall(r"[^\W\d_]+|\d+", name):
        whole = _stem(word.casefold())
        parts = [word] if whole in _SPLITS else re.split(r"(?<=[a-z])(?=[A-Z])", word)  # TrainingFiles
        stems += [_stem(part.casefold()) for part in parts]
    splits = [_SPLITS[stem] for stem in stems if stem in _SPLITS]
    rest = tuple(stem for stem in stems if stem not in _SPLITS and stem not in PLAIN_WORDS)
    return (splits[0] if len(splits) == 1 else None), rest


def _stem(word: str) -> str:
    """trainset is train."""
    return next((word[: -len(end)] for end in PLAIN_WORDS if word.endswith(end) and word[: -len(end)] in _SPLITS), word)
