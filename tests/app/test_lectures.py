"""Lecture mode on every page that has it: slides, answers that are revealed, notes, and the way out; without a browser."""

import json
import shutil

import pytest
from streamlit.testing.v1 import AppTest

from retrofit_app import runs
from retrofit_app.figures import LIGHT, Difference
from retrofit_app.figures.waterfall import Step, waterfall
from retrofit_app.runs import followups
from retrofit_core.runs.finetunings import FinetuneConfig
from retrofit_core.runs.store import FINETUNING

from .pages import MAIN, clean, page_at, to_page, words

pytestmark = pytest.mark.slow


def spoken(name: str = "", /, **address: str):
    """A page in lecture mode, in a window of 1280 x 720."""
    page = AppTest.from_file(MAIN, default_timeout=120)
    page.session_state["enlarged"] = 1.0  # as a browser tells it
    for word, value in {"lecture": "1", **address}.items():
        page.query_params[word] = value
    return (to_page(page, name) if name else page).run()


def html(page, what: str) -> str:
    return next((element.value for element in page.get("html") if f"class='{what}'" in element.value), "")


def press(page, key: str):
    return page.button(key=f"go-{key}").click().run()


def keys(page) -> set[str]:
    return {button.key for button in page.button}


def test_tiles_wait_until_they_are_revealed_one_after_the_other(runs_folder):
    page = spoken(run="kf-linear")
    tiles = html(page, "retrofit-tiles")
    assert clean(page) and "Network A: 49.6" in tiles and "Plain average: ?" in tiles and "Fused: ?" in tiles
    assert "93.0" not in tiles and "24.2" not in tiles and "93.0" not in words(page).replace("KF-Linear 93.0", "")
    assert "How many test images" in words(page) and "fuse-new" not in keys(page)
    tiles = html(press(page, "PageDown"), "retrofit-tiles")
    assert "Plain average: 24.2" in tiles and "Fused: ?" in tiles and page.query_params["shown"] == "1"
    for _ in range(2):
        press(page, "Right")
    assert "Ensemble: 95.8" in html(page, "retrofit-tiles") and "better than A alone" in words(page)
    press(page, "Right")  # all is revealed: to the next slide, which hides its own
    assert clean(page) and page.query_params["slide"] == "2" and "shown" not in page.query_params
    press(page, "Left")
    assert page.query_params["shown"] == "3" and "Ensemble: 95.8" in html(page, "retrofit-tiles")
    press(page, "all")
    assert "Fused: ?" in html(page, "retrofit-tiles")


def test_a_link_opens_the_same_slide_and_notes_are_for_the_presenter(runs_folder):
    page = spoken(run="kf-linear", slide="2", shown="9", notes="1")
    assert clean(page) and "the fit brings" in words(page) and "One row after the other" in words(page)
    press(page, "turn-notes")
    assert "One row after the other" not in words(page) and "notes" not in page.query_params
    press(page, "page")
    assert clean(page) and not {"lecture", "slide", "shown"} & set(page.query_params) and "fuse-new" in keys(page)
    press(page, "lecture")
    assert page.query_params["lecture"] == "1" and "How many test images" in words(page)


def test_controls_of_a_fine_tuning_are_a_slide(runs_folder):
    record = runs_folder / "mine"
    shutil.copytree(runs.BUNDLED / "kf-linear", record)
    config = FinetuneConfig(epochs=3, controls=True)
    folder = record / FINETUNING.folder / config.key(record)
    config.save(folder, record)
    facts = json.loads((record / "metrics.json").read_text())["networks"]["fused"]
    for place, accuracy in ((folder, 97.0), (folder / followups.CONTROLS / "scratch", 60.0)):
        place.mkdir(parents=True, exist_ok=True)
        history = [{"epoch": 0, "accuracy": 50.0, "best": 0, "loss": None}]
        curve = {"networks": {}, "history": history, "held_out": 1, "trained": 1, "epochs": 3, "seconds": 1.0}
        (place / FINETUNING.growing).write_text(json.dumps(curve))
        (place / FINETUNING.last).write_text(json.dumps(facts | {"accuracy": accuracy}))
        shutil.copy(record / "fused.safetensors", place / followups.TUNED)
    page = spoken(run="mine", slide="4", shown="1")
    tiles = html(page, "retrofit-tiles")
    assert clean(page) and "A new network: 60.0" in tiles and "Fused network: ?" in tiles
    assert "The same training for all" in words(press(page, "PageDown"))


def test_runs_side_by_side_are_revealed_row_by_row(runs_folder):
    page = spoken("compare", runs="kf-linear|hf-gradient")
    table = html(page, "retrofit-book")
    assert clean(page) and table.count("?") == 6 and "network A" in table and "ensemble" in table
    assert "Runs" not in {box.label for box in page.multiselect} and "is the best with" not in words(page)
    assert html(press(page, "PageDown"), "retrofit-book").count("?") == 3
    press(page, "PageDown")
    assert "?" not in html(page, "retrofit-book") and "is the best with" in words(page)
    press(page, "page")
    assert clean(page) and "lecture" not in page.query_params and page.multiselect


def test_a_leaderboard_is_revealed_from_its_last_place(runs_folder):
    page = spoken("compare", view="board", of="kf-linear", methods="Average,Ensemble", scores="conductance")
    table = html(page, "retrofit-book")
    assert clean(page), [element.value for element in [*page.error, *page.warning]]
    assert "1. ?" in table and "4. ?" in table and "Ensemble" not in table and "Who is first?" in words(page)
    table = html(press(page, "PageDown"), "retrofit-book")
    assert "4. Average" in table and "1. ?" in table
    press(page, "all")
    assert "1. Ensemble" in html(page, "retrofit-book") and "Ensemble is first" in words(page)


def test_views_without_a_lecture_have_no_way_into_one(runs_folder):
    for view in ("new", "runs"):
        assert "go-lecture" not in keys(page_at(view=view, lecture="1"))


def test_a_row_that_is_hidden_keeps_its_place():
    steps = [
        Step("a", 0.0, 20.0),
        Step("b", 20.0, 80.0, Difference(60.0, (50.0, 70.0))),
        Step("c", 0.0, 70.0, None, control=True),
    ]
    whole, part = (waterfall(steps, "", LIGHT, shown=shown).figure.to_plotly_json() for shown in (None, 1))
    assert len(part["data"][0]["x"]) == 1 and whole["layout"]["yaxis"]["range"] == part["layout"]["yaxis"]["range"]
    assert (
        part["layout"]["yaxis"]["ticktext"] == ["a", "b", "c"] and part["layout"]["margin"] == whole["layout"]["margin"]
    )
