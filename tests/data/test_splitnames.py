"""Names of splits: what stands for train, val and test, and what is a class."""

import pytest

from retrofit_core.data.splitnames import by_split, split_of
from tests.marks import each_case

#: SPLIT_KEYWORDS of Hugging Face's datasets library (data_files.py), which sorts files into splits by them.
HUGGING_FACE = {
    "train": ["train", "training"],
    "val": ["validation", "valid", "dev", "val"],
    "test": ["test", "testing", "eval", "evaluation"],
}


@each_case(("split", "word"), [(split, word) for split, words in HUGGING_FACE.items() for word in words])
def test_every_usual_word_in_any_case_and_with_words_that_say_nothing(split, word):
    for name in (word, word.title(), word.upper(), f"{word}_set", f"{word.title()}Set", f"{word}set", f"{word}-images"):
        assert split_of(name) == split, name
    assert by_split([f"a.{word}.b"], lone=True) == {split: [f"a.{word}.b"]}


@each_case("name", ["cat", "trainer", "tested", "invalid", "constraint", "tests", "train test", "", "3"])
def test_other_words_are_no_splits(name):
    assert split_of(name) is None and by_split([name], lone=True) == {}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["seg_train", "seg_test", "seg_pred"], {"train": ["seg_train"], "test": ["seg_test"]}),
        (["train2017", "val2017"], {"train": ["train2017"], "val": ["val2017"]}),
        (["train station", "bus station", "test tube"], {}),
        (["train", "train_extra"], {"train": ["train"]}),
        (["Train", "training"], {"train": ["Train", "training"]}),
    ],
)
def test_names_with_other_words_need_a_partner(names, found):
    assert by_split(names) == found
