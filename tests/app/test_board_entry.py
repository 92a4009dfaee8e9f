"""A leaderboard is one entry of Your runs: it opens to its runs, and is deleted and brought back with them."""

import json
from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from retrofit_app import runs
from retrofit_app.pages.fuse import history, trash
from retrofit_app.runs import leaderboards

from .analyses import copied
from .pages import page_at, words

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


def test_a_filter_finds_it_by_its_runs():
    assert listed(open_runs(filter="leaderboard")) == [("Leaderboard", "3 runs")]
    assert ("Leaderboard", "3 runs") in listed(open_runs(filter="made1"))
    assert ("Leaderboard", "3 runs") not in listed(open_runs(filter="own"))


def test_a_ticked_one_stands_for_its_runs_and_leads_to_its_ranking():
    page = open_runs(ticks="comparisons/0123456789")
    assert "1 ticked" in words(page)
    links = {link.proto.label: link.proto.query_string for link in page.main.get("page_link")}
    assert "view=board" in links["Open the leaderboard"] and "runs=" in links["Compare them side by side"]


def test_it_is_deleted_and_brought_back_with_its_runs(board):
    page = open_runs(ticks="comparisons/0123456789")
    page.button(key="delete").click().run()
    assert "A leaderboard with 3 runs was deleted." in words(page) and not page.error
    assert not board.exists() and [run for _, run in listed(page)][0] == "own" and not kept()
    page.button(key="undo").click().run()
    assert ("Leaderboard", "3 runs") in listed(page) and board.exists() and len(kept()[0].runs) == 3


def test_a_later_deletion_is_the_one_that_is_undone():
    page = open_runs(ticks="comparisons/0123456789")
    page.button(key="delete").click().run()
    page = open_runs(ticks="own")
    page.button(key="delete").click().run()
    assert "Run own was deleted." in words(page) and not leaderboards.deleted()
    trash.restore()
    assert [entry.name for entry in runs.entries()[0] if not entry.shipped] == ["own"]


def test_a_run_that_was_there_before_stands_for_itself():
    assert any(run == "own" for _, run in listed(open_runs()))


def test_one_that_lacks_rows_is_interrupted(board):
    (board / "leaderboard.json").write_text(json.dumps({"rows": [{"name": "A", "method": None}]}))
    assert kept()[0].state == "interrupted" and "interrupted" in open_runs().dataframe[0].value["state"].tolist()


def test_a_start_notes_the_runs_that_it_makes(runs_folder, monkeypatch):
    monkeypatch.setattr("retrofit_core.runs.worker.begin", lambda job: None)
    entries = runs.entries()[0]
    entry = next(entry for entry in entries if entry.name == "kf-linear")
    made = leaderboards.leaderboard(entry, ["KF-Linear", "Average"], ["conductance"], entries)
    leaderboards.start(made)
    note = json.loads((made.folder / "settings.json").read_text())
    (average,) = [run for run in made.runs if run.entry is None]
    assert note["made"] == [average.config.key()] and note["of"] == "kf-linear" and note["runs"] == 2


def test_what_all_listed_runs_share_is_said_once(runs_folder):
    page = open_runs()
    assert not {"data", "samples", "networks"} & set(page.dataframe[0].value) and "seed" in page.dataframe[0].value
    assert "All of them: conductance importance, 2 (sharded) networks, the data digits and 400 samples." in words(page)
    page = open_runs(filter="shipped")
    assert "seed" not in page.dataframe[0].value and "400 samples and seed 0" in words(page)
