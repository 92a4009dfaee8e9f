"""`retrofit reproduce`: what it says, does and refuses."""

import re

import pytest

from retrofit_core.experiments import work as working
from retrofit_core.experiments.results import measured_in
from retrofit_core.experiments.tables import TABLES
from tests.marks import each_case
from tests.test_cli import retrofit

pytestmark = pytest.mark.slow


WORDS = ("reproduce", "vgg11-noniid", "--scale", "smoke", "--columns", "2-way", "--methods", "Parent;KF-Linear, u")


ROWS = (
    "KF-Linear, uniform, toward=zero, samples=40, seed 0",
    "KF-Linear, uniform, toward=zero, repair, samples=40, seed 0",
    "KF-Linear, uniform, toward=zero, active, samples=40, seed 0",
    "KF-Linear, uniform, toward=zero, active, repair, samples=40, seed 0",
    "KF-Linear, same_index, uniform, toward=zero, samples=40, seed 0",
    "KF-Linear, uniform, preset=paper, samples=40, seed 0",
    "KF-Linear, uniform, toward=zero, fusion_from=iid, samples=40, seed 0",
)


NAMES = ("parent 0", "parent 1", *ROWS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the command was carried out once."""
    folder = tmp_path_factory.mktemp("reproduce")
    output = retrofit(*WORDS, cwd=folder).stdout
    assert f"{len(NAMES)} units done" in output and "0 done, " in output
    assert all(name in output for name in NAMES)
    assert output.count(" %  (") == len(measured_in(folder / "runs").results) == len(NAMES)
    return folder


def test_the_same_command_does_nothing_more(folder):
    output = retrofit(*WORDS, cwd=folder).stdout
    assert ", 0 to do" in output and "0 units done" in output


def listed(output):
    """Table -> what the list says of its cells."""
    words, name = {}, ""
    for line in output.splitlines():
        name = line.split()[0] if line[1:2].strip() and line.split()[0] in TABLES else name
        words[name] = f"{words.get(name, '')} {line}"
    return words


def test_the_list_has_every_table_and_what_is_measured_of_it(folder):
    words = listed(retrofit("reproduce", "--list", cwd=folder).stdout)
    assert set(TABLES) <= set(words)
    assert re.search(r" 9 smoke", words["vgg11-noniid"]) and " none" in words["vit-full-cifar100"]


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
        ([], "name a table, or all"),
        (["widths", "--scale", "tiny"], "unknown scale 'tiny'.*smoke, small, evening, paper"),
        (["vgg11-noniid", "--columns", "3-way", "--scale", "smoke"], "unknown column '3-way'.*2-way"),
        (["vgg11-noniid", "--methods", "KFL", "--scale", "smoke"], "no row of vgg11-noniid matches --methods"),
        ([*WORDS[1:], "--device", "abacus"], "abacus"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(tmp_path, words, sentence):
    done = retrofit("reproduce", *words, cwd=tmp_path, expect=2)
    assert done.stderr.startswith("Error: ") and len(done.stderr.splitlines()) < 6
    assert re.search(sentence, " ".join(done.stderr.split()))
    assert not measured_in(tmp_path / "runs").results


def test_a_failed_unit_is_named_and_gives_another_exit_code(folder, monkeypatch):
    def fail(*_):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(working.runs, "execute", fail)
    done = retrofit(*WORDS, "--seeds", 2, cwd=folder, expect=1)
    assert (
        "Failed: KF-Linear, uniform, preset=paper, samples=40, seed 1" in done.stderr and "out of memory" in done.stderr
    )
