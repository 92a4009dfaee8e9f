"""`retrofit reproduce`: what it says, does and refuses."""

import re

import pytest

from retrofit_core.experiments import work as working
from retrofit_core.experiments.results import results_of
from tests.marks import each_case
from tests.test_cli import retrofit

pytestmark = pytest.mark.slow


WORDS = ("reproduce", "vgg11-noniid", "--scale", "smoke", "--columns", "2-way", "--methods", "Parent;KF-Linear, u")


ROWS = (
    "Parent 0",
    "Parent 1",
    "KF-Linear, uniform",
    "KF-Linear, uniform, REPAIR",
    "KF-Linear, uniform, by activity",
    "KF-Linear, uniform, by activity, REPAIR",
    "KF-Linear, uniform, neuron i with neuron i",
    "KF-Linear, uniform, paper's settings",
    "KF-Linear, uniform, all data",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the command was carried out once."""
    folder = tmp_path_factory.mktemp("reproduce")
    output = retrofit(*WORDS, cwd=folder).stdout
    assert f"{len(ROWS)} cells done" in output and "0 done, " in output
    assert all(f"{row} (vgg11-noniid, 2-way, smoke, seed 0): " in " ".join(output.split()) for row in ROWS)
    assert {result.row for result in results_of("vgg11-noniid", folder / "runs")} == set(ROWS)
    return folder


def test_the_same_command_does_nothing_more(folder):
    output = retrofit(*WORDS, cwd=folder).stdout
    assert ", 0 to do" in output and "0 cells done" in output


def test_where_nothing_is_measured_the_projects_own_results_are_reported(folder, tmp_path):
    shipped = tmp_path / "benchmarks" / "results"
    shipped.mkdir(parents=True)
    (shipped / "experiments").symlink_to(folder / "runs")
    done = retrofit("reproduce", "vgg11-noniid", "--report", "--scale", "smoke", cwd=tmp_path)
    assert done.stdout.count("| smoke, digits") == 3 and "Using the project's" in " ".join(done.stderr.split())
    assert not retrofit("reproduce", "vgg11-noniid", "--report", "--scale", "smoke", cwd=folder).stderr


@each_case(
    ("words", "sentence"),
    [
        (["vgg11-nonid"], "unknown table 'vgg11-nonid'.*Did you mean 'vgg11-noniid'"),
        ([], "name a table, or all: vgg11-noniid, .*beyond"),
        (["widths", "--scale", "tiny"], "unknown scale 'tiny'.*smoke, small, evening, paper"),
        (["vgg11-noniid", "--columns", "3-way", "--scale", "smoke"], "unknown column '3-way'.*2-way"),
        (["vgg11-noniid", "--methods", "KFL", "--scale", "smoke"], "no row of vgg11-noniid matches --methods"),
        ([*WORDS[1:], "--device", "abacus"], "abacus"),
        (["vgg11-noniid", "--report", "--results", "none.csv"], "none.csv holds no results"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(tmp_path, words, sentence):
    done = retrofit("reproduce", *words, cwd=tmp_path, expect=2)
    assert done.stderr.startswith("Error: ") and len(done.stderr.splitlines()) < 6
    assert re.search(sentence, " ".join(done.stderr.split()))
    assert not results_of("vgg11-noniid", tmp_path / "runs")


def test_a_failed_cell_is_named_and_gives_another_exit_code(folder, monkeypatch):
    def fail(*_):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(working, "execute", fail)
    done = retrofit(*WORDS, "--seeds", 2, cwd=folder, expect=1)
    assert (
        "Failed: KF-Linear, uniform, paper's settings (vgg11-noniid, 2-way, smoke, seed 1)"
        in " ".join(done.stderr.split())
        and "out of memory" in done.stderr
    )
