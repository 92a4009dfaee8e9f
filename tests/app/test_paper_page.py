"""The page Paper without a browser: the paper's cells beside ours, recipes, filters, and what a package without records says."""

import json
import re
from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from retrofit_app.figures.paper.questions import QUESTIONS, answer, answer_words
from retrofit_app.runs import paper
from retrofit_core.experiments import table
from retrofit_core.experiments.report import summary_of, verdicts

from .pages import clean, page_at, words

pytestmark = pytest.mark.slow


CELL = "KF-Linear, conductance|2-way"


@pytest.fixture(autouse=True)
def no_results_of_this_machine(runs_folder):
    """The records that come with the project alone."""


open_page = partial(page_at, "paper", view="table")


def shown(page: AppTest) -> dict[str, list[str]]:
    """Row -> its words, of the table of cells."""
    (drawn,) = page.get("bidi_component")
    html = json.loads(drawn.proto.json)["html"]
    rows = re.findall(r"<tr[^>]*><th scope='row'[^>]*>(.*?)</th>(.*?)</tr>", html)
    return {name: re.sub(r"(<[^>]+>)+", "|", cells).strip("|").split("|") for name, cells in rows}


def recorded(name: str, column: str):
    """A column as a notebook has it."""
    return table(name, results=paper.RECORDS, runs="none").column(column)


def code(page: AppTest) -> list[str]:
    return [block.value for block in page.code]


def test_the_papers_numbers_stand_beside_ours_with_the_difference():
    page = open_page()
    assert clean(page)
    line = recorded("vgg11-noniid", "2-way").line("KF-Linear, conductance")
    row = shown(page)[line.row]
    row[2:] = map(str.strip, row[2:])  # a badge may stand before a number
    assert row[:2] == [f"{line.paper.mean:.1f}", " (best)"] and f"{line.mean:.1f}" in row
    assert f"\N{MINUS SIGN}{-line.difference:.1f}" in row


def test_every_table_can_be_opened():
    for name in paper.names():
        page = open_page(table=name)
        assert clean(page), name
        assert shown(page), name


def test_the_scale_is_said_in_words():
    def head(**address: str) -> str:
        return open_page(**address).get("bidi_component")[0].proto.json

    assert "cifar10 for cifar100" in head(table="vit-sharded-cifar100")
    assert "<small>evening</small>" in head(table="vgg11-noniid")


def test_a_cell_opens_its_recipe_from_the_record():
    page = open_page(table="vgg11-noniid", cell="PLeaS|2-way")
    column = recorded("vgg11-noniid", "2-way")
    first = column.results("PLeaS")[0]
    assert code(page)[0] == column.command("PLeaS", paper.runs_folder().name)
    assert first.machine in words(page)
    fusions = page.dataframe[0].value
    assert list(fusions["accuracy"]) == [round(result.value, 2) for result in column.results("PLeaS")]


def test_an_unmeasured_cell_has_the_command_that_measures_it():
    page = open_page(table="widths", cell="KF-Linear, uniform|4x, 4x")
    assert "measure" in shown(page)["KF-Linear, uniform"]
    assert code(page) == ["retrofit reproduce widths --scale small --columns '4x, 4x' --methods 'KF-Linear, uniform'"]


def test_all_tables_have_the_summary_of_the_report():
    page = page_at("paper")
    assert clean(page)
    read, _ = paper.read(paper.stamp())
    known = summary_of([column for name in paper.names() for column in paper.table(name, read[name]).every])
    agreed, undecided, contradicted = verdicts(known.decided())
    assert f"Of {known.numbers} numbers that the paper prints, {known.measured()} are measured." in words(page)
    assert f"{agreed} agreed, {undecided} undecided, {contradicted} contradicted" in words(page)
    html = json.loads(page.get("bidi_component")[0].proto.json)["html"]
    for group in ([claim for claim in known.decided() if claim.group == name] for name in ("informative", "easy")):
        assert "{} agreed, {} undecided, {} contradicted".format(*verdicts(group)) in html
    assert "data-cell='vgg11-noniid'" in html
    failed = re.findall(r"^- .+: (\d+) of \d+$", words(page), re.MULTILINE)
    assert sum(map(int, failed)) == contradicted


def test_five_questions_are_answered_by_setting_with_every_column_once():
    page = page_at("paper")
    read, _ = paper.read(paper.stamp())
    known = summary_of([column for name in paper.names() for column in paper.table(name, read[name]).every])
    charts = {chart.proto.alt.partition(". ")[2] for chart in page.get("plotly_chart")}
    assert len(QUESTIONS) == 5
    for question in QUESTIONS.values():
        claims = answer(question, known)
        assert f"**{question.words}**" in words(page) and (answer_words(claims) in charts or not claims)
        for row, (badge, claim) in claims.items():
            same = [
                each
                for count in known.counts
                for each in count.claims
                if count.badge == badge and f"{count.table}, {each.column}" == row and question.asks(each)
            ]
            assert claim.paper == max(each.paper for each in same)
        ahead = sum(claim.interval[0] > 0 for _, claim in claims.values())
        assert sum(map(int, re.findall(r"(\d+) ahead", answer_words(claims)))) == ahead


def test_a_package_without_records_says_where_they_are(monkeypatch, tmp_path):
    monkeypatch.setattr(paper, "RECORDS", tmp_path / "none")
    page = open_page(cell=CELL)
    assert "start retrofit app --results FOLDER" in page.info[0].value
    assert shown(page)["KF-Linear, conductance"][0] == "86.6"
    assert code(page)[0].startswith("retrofit reproduce vgg11-noniid --scale small")


def test_results_elsewhere_are_read_and_damaged_ones_named(monkeypatch, tmp_path):
    here = paper.RECORDS
    monkeypatch.setattr(paper, "RECORDS", tmp_path / "none")
    (tmp_path / "damaged.csv").write_text("a,b\n1,2\n")
    monkeypatch.setenv(paper.VARIABLE, f"{here / 'widths.csv'}:{tmp_path / 'damaged.csv'}")
    page = open_page(table="widths")
    assert "damaged.csv does not hold results" in page.warning[0].value
    assert "Nothing is measured" not in words(page)
