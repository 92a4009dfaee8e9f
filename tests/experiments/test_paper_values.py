"""paper.csv, which was compared with the paper's source cell by cell, by itself."""

from hashlib import sha256
from pathlib import Path

from retrofit_core.experiments import paper
from retrofit_core.experiments.paper import FIGURES, paper_values

#: Digest of the file as it was compared with the paper's source. After a change, compare the changed cells with the paper.
COMPARED = "222644432bdcabac"


def test_every_number_is_one_that_was_compared_with_the_paper():
    text = Path(paper.__file__).with_name("paper.csv").read_text(encoding="utf-8")
    assert sha256(text.encode()).hexdigest()[:16] == COMPARED
    assert all(not paper_values(name) for name in FIGURES)
