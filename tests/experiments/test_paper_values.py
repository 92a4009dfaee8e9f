"""paper.csv and comparison.csv, which were compared with the paper's source cell by cell, by themselves."""

import re
from hashlib import sha256
from pathlib import Path

from retrofit_core.experiments import paper
from retrofit_core.experiments.paper import FIGURES, claimed_capabilities, paper_values
from retrofit_core.methods import METHODS

#: Rows that are no method and no parent.
OTHER_ROWS = {
    "theoretical 0-time fusion",
    "ours, no fine-tuning",
    "ours, with fine-tuning",
    "adjusted Rand index to uniform",
}
NO_PERCENTS = ("runtime-vgg", "runtime-vit", "runtime-end-to-end")
THREE = ("uniform", "conductance", "deeplift")
#: Digests of the files as they were compared with the paper's source. After a change, compare the changed cells with the paper.
COMPARED = {"paper.csv": "222644432bdcabac", "comparison.csv": "192f97ca5d49f37c"}


def test_every_number_is_one_that_was_compared_with_the_paper():
    folder = Path(paper.__file__).parent
    assert {
        name: sha256((folder / name).read_text(encoding="utf-8").encode()).hexdigest()[:16] for name in COMPARED
    } == COMPARED
    assert all(not paper_values(name) for name in FIGURES)
    assert all(any(name.startswith(algorithm) for name in METHODS) for algorithm in claimed_capabilities())


def test_every_table_and_figure_of_the_paper_is_typed_in_or_has_no_result(tex):
    labels = set(re.findall(r"\\label\{((?:tab|fig):[^}]+)\}", tex))
    settings = {"tab:comparison", "tab:traininghyperparams", "tab:appendix-hp"}
    assert labels - {value.label for value in paper_values()} == {"fig:algo", *settings, *FIGURES.values()}


def test_cells_by_themselves():
    for value in paper_values():
        method, _, score = value.row.partition(", ")
        if value.row not in OTHER_ROWS and not re.fullmatch(r"Parent [0-7]", value.row):
            assert method in METHODS, value
            assert score in ("", "best", *THREE), value
            assert not score or METHODS[method].takes.importance, value
        assert value.deviation is None or value.deviation >= 0, value
        assert value.seeds is None or value.seeds > 0, value
        assert value.mean >= 0, value
        assert value.mean <= 100 or value.table in NO_PERCENTS, value


def test_the_best_scores_of_short_tables_are_those_of_the_full_ones():
    """A long table says which scores were best."""
    for short in paper_values():
        method, _, score = short.row.partition(", ")
        if score != "best" or short.table in ("bloodmnist", "inference-cost"):
            continue
        full = [
            value for value in paper_values(short.table) if value.column == short.column and value.label != short.label
        ]
        scored = [value for value in full if value.row.startswith(f"{method}, ")]
        assert len(scored) == 3
        assert short.mean == max(value.mean for value in scored), short
