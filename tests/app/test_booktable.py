"""Tables of results: the same digits on the page, in CSV and LaTeX."""

import csv
import io
import re

import pytest

from retrofit_app.figures import DARK, LIGHT
from retrofit_app.figures.booktable import Column, Line, Table, ranked

TABLE = Table(
    "Networks",
    (
        Column("network", is_number=False),
        Column("accuracy %", "On <test> images"),
        Column("to best"),
        Column("run", is_number=False),
    ),
    (
        Line((), heading="2 networks & digits"),
        Line(("KF_Linear", "93.0", "+43.5 (\N{MINUS SIGN}1.0 to 2.0)", "a|b"), frozenset({1})),
        Line(("HF-Linear", "91.6", "", "=1+1")),
        Line(("network A", "49.6", "", ""), is_reference=True),
        Line(("network B", "49.3", "", ""), is_reference=True),
    ),
    ("† One seed.",),
)


def test_every_notation_has_the_digits_of_the_page():
    shown = re.findall(r"\d+\.\d", re.sub(r"<[^>]+>", " ", TABLE.html(LIGHT)))
    assert shown == ["93.0", "43.5", "1.0", "2.0", "91.6", "49.6", "49.3"]
    for text in (TABLE.csv(), TABLE.latex()):
        assert re.findall(r"\d+\.\d", text) == shown


def test_what_is_best_is_bold_and_said_to_who_does_not_see_it():
    assert "<b>93.0</b><span class='unseen'> (best)</span>" in TABLE.html(DARK)
    assert r"\textbf{93.0}" in TABLE.latex()


def test_cells_cannot_break_out():
    page = TABLE.html(LIGHT)
    assert "On &lt;test&gt; images" in page and "a|b" in page
    assert r"KF\_Linear" in TABLE.latex() and r"2 networks \& digits" in TABLE.latex()
    rows = list(csv.reader(io.StringIO(TABLE.csv())))
    assert rows[2][-1] == "'=1+1" and rows[1][3] == "+43.5 (-1.0 to 2.0)"
    assert {len(row) for row in rows} == {5} and rows[0][0] == "group"


def test_latex_is_set_with_booktabs():
    text = TABLE.latex()
    assert text.splitlines()[1] == r"\begin{tabular}{lrrl}"
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 2, 1]
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {3}


@pytest.mark.parametrize(
    ("values", "best"), [([1, 3, 3], {1, 2}), ([1, None, 2], {2}), ([None, 2], set()), ([2, 2], set())]
)
def test_the_best_of_some(values, best):
    assert ranked(values) == best
