"""A leaderboard is one entry of Your runs: it opens to its runs, and is deleted with them."""

import json
from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from retrofit_app import runs
from retrofit_app.pages.fuse import history
from retrofit_app.runs import leaderboards

from .analyses import copied
from .pages import page_at

pytestmark = pytest.mark.slow


open_runs = partial(page_at, view="runs")


METHODS = ("HF-Linear", "KF-Linear", "KF-Gradient")


@pytest.fixture(autouse=True)
def board(runs_folder):
    """The runs of a finished leaderboard, and one of the user's own."""
    for number, name in enumerate([*(f"made{index}" for index in range(3)), "own"]):
        copied(name, seed=20 + number, method=METHODS[number % 3])
    folder = runs_folder / "comparisons" / "0123456789"
    folder.mkdir(parents=True)
    asked = {"of": "kf-linear", "methods": ",".join(METHODS), "scores": "conductance", "runs": 3}
    (folder / "settings.json").write_text(json.dumps(asked | {"made": ["made0", "made1", "made2"]}))
    rows = [{"name": name, "method": name} for name in METHODS] + [{"name": "A", "method": None}]
    (folder / "leaderboard.json").write_text(json.dumps({"rows": rows}))
    return folder


def listed(page: AppTest) -> list[tuple[str, str]]:
    table = page.dataframe[0].value
    return list(zip(table["method"], table["run"], strict=True))


def kept() -> list[leaderboards.KeptBoard]:
    return leaderboards.kept(runs.entries()[0])


def test_its_runs_are_one_row_that_opens_to_them():
    page = open_runs()
    assert not page.exception and ("Leaderboard", "3 runs") in listed(page)
    assert {run for _, run in listed(page)} & {"made0", "made1", "made2"} == set() and len(listed(page)) == 2 + 4
    page = open_runs(opened="comparisons/0123456789")
    index = listed(page).index(("Leaderboard", "3 runs"))
    below = listed(page)[index + 1 : index + 4]
    assert sorted(run for _, run in below) == ["made0", "made1", "made2"]
    assert all(method.startswith(history.INDENT) for method, _ in below) and len(listed(page)) == 2 + 4 + 3
    assert page.dataframe[0].value["open"][index] == "Close"


def test_it_is_deleted_with_its_runs(board):
    page = open_runs(ticks="comparisons/0123456789")
    page.button(key="delete").click().run()
    assert not page.error
    assert not board.exists() and [run for _, run in listed(page)][0] == "own" and not kept()


def test_a_run_that_was_there_before_stands_for_itself():
    assert any(run == "own" for _, run in listed(open_runs()))
