"""README is short, its examples run as pasted, and they print what it says."""

import re

import pytest

from retrofit_core.catalogue import CATALOGUE
from retrofit_core.cli import main
from retrofit_core.experiments import table as read_table
from retrofit_core.experiments.claims import INFORMATIVE
from retrofit_core.experiments.report import report, summary_of_tables, verdicts
from retrofit_core.experiments.results import results_of
from retrofit_core.experiments.scales import SAYING
from retrofit_core.experiments.tables import TABLES
from tests.marks import ROOT, skip_without

skip_without("CITATION.cff", "README.md", "benchmarks", "docs/images")
README = ROOT / "README.md"
RESULTS = README.parent / "benchmarks" / "results" / "experiments"
NUMBER = re.compile(r"\d+\.\d+")


def test_it_takes_a_minute_to_read():
    text = README.read_text()
    assert len(text.splitlines()) <= 120 and len(text.split()) <= 700


def test_every_file_that_it_links_to_exists():
    for link in re.findall(r"\]\(([\w/]+\.\w+)", README.read_text()):
        assert (README.parent / link).exists(), link


def test_it_counts_the_methods():
    assert f"All {len(CATALOGUE)} methods" in README.read_text()


@pytest.mark.slow
def test_it_counts_the_papers_claims_that_hold():
    summary = summary_of_tables(report({name: results_of(name, "none", [RESULTS]) for name in TABLES}, SAYING))
    decided = summary.decided()
    informative = [claim for claim in decided if claim.group == INFORMATIVE]
    (sentence,) = re.findall(r"^Of .* claims of the paper, .*$", README.read_text(), re.MULTILINE)
    counts = []
    for claims in (decided, informative):
        agreed, undecided, contradicted = verdicts(claims)
        counts += [len(claims), agreed, contradicted, undecided]
    assert [int(number) for number in re.findall(r"\d+", sentence)] == counts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "table", "name"),
    [
        ("two, non-IID CIFAR-10 | full", "vgg11-noniid", "2-way"),
        ("two, five CIFAR-10 classes each | full", "vgg11-sharded", "2-way"),
        ("two, six and two BloodMNIST classes | quarter", "bloodmnist", "2-way"),
        ("four, non-IID CIFAR-10 | half", "vgg11-noniid", "4-way"),
        ("two, all of CIFAR-10 each | half", "vgg11-full", "2-way zero-shot"),
    ],
)
def test_its_results_are_those_of_the_reports(row, table, name):
    column = read_table(table, results=RESULTS, runs="none").column(name)
    means = [column.line(which).mean for which in ("Parent 0", "KF-Linear, conductance", "Ensemble")]
    (cells,) = re.findall(rf"^\| {re.escape(row)} \| (.*) \|$", README.read_text(), re.MULTILINE)
    assert [cell.split()[0] for cell in cells.split(" | ")] == [f"{mean:.1f}" for mean in means]


@pytest.mark.slow
def test_the_python_prints_what_it_says(capsys):
    exec(compile(block("python"), "README.md", "exec"), {})
    agrees(capsys.readouterr().out, block("text"))


@pytest.mark.slow
def test_the_commands_print_what_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for line in block("sh", 1).replace("\\\n", " ").splitlines():
        capsys.readouterr()
        assert main(line.partition("#")[0].split()[1:]) == 0
    agrees(capsys.readouterr().out, block("text", 1))


def block(kind: str, place: int = 0) -> str:
    return re.findall(rf"```{kind}\n(.*?)```", README.read_text(), re.DOTALL)[place]


def agrees(said: str, written: str) -> None:
    """The same words, and numbers that another processor's rounding explains: 5 points of an overall accuracy."""
    assert words(said) == words(written)
    overall = [[float(number) for number in NUMBER.findall(text.split("per class")[0])] for text in (said, written)]
    assert len(overall[0]) == len(overall[1])
    assert all(abs(ours - theirs) <= 5 for ours, theirs in zip(*overall, strict=True))


def words(text: str) -> list[str]:
    return NUMBER.sub("N", re.sub(r"─+", "", text)).split()
