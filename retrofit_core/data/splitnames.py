"""Common names of splits: one table for folders, parquet files and `load`'s argument."""

import re
from collections.abc import Iterable

#: The split keywords of Hugging Face's datasets library (SPLIT_KEYWORDS), and a few more; in any case.
NAMES = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev", "development"),
    "test": ("test", "testing", "eval", "evaluation"),
}
#: Words next to a split's name that carry no meaning.
PLAIN_WORDS = {"set", "data", "dataset", "image", "images", "img", "imgs", "split", "folder", "dir", "samples"}
_SPLITS = {word: split for split, words in NAMES.items() for word in words}


def split_of(name: str) -> str | None:
    """The split that a name means: "train" for Train, TRAINING or trainset; None for others."""
    split, rest = _read(name)
    return None if rest else split


def by_split(names: Iterable[str], lone: bool = False) -> dict[str, list[str]]:
    """Split -> the names that mean it.

    Plain names include those with meaningless words (train_set, test_images). Other words are accepted if the split has no
    plain name and another split has the same words (seg_train, seg_test).

    Args:
        lone: accept any other words.
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
    """The split among a name's words (None: none or several), and its other meaningful words."""
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
