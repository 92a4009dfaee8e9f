"""paper.csv and comparison.csv, which were compared with the paper's source cell by cell, by themselves."""

from hashlib import sha256
from pathlib import Path

from retrofit_core.experiments import paper
from retrofit_core.experiments.paper import FIGURES, claimed_capabilities, paper_values
from retrofit_core.methods import METHODS

#: Digests of the files as they were compared with the paper's source. After a change, compare the changed cells with the paper.
COMPARED = {"paper.csv": "222644432bdcabac", "comparison.csv": "192f97ca5d49f37c"}


def test_every_number_is_one_that_was_compared_with_the_paper():
    folder = Path(paper.__file__).parent
    assert {
        name: sha256((folder / name).read_text(encoding="utf-8").encode()).hexdigest()[:16] for name in COMPARED
    } == COMPARED
    assert all(not paper_values(name) for name in FIGURES)
    assert all(any(name.startswith(algorithm) for name in METHODS) for algorithm in claimed_capabilities())
