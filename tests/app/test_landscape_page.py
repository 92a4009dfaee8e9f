"""The page Landscape without a browser, and its landscapes on disk."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from retrofit_app import runs
from retrofit_app.runs import followups
from retrofit_core.inspection.landscape import Landscape
from retrofit_core.runs.landscapes import LandscapeConfig
from retrofit_core.runs.store import LANDSCAPE, Work
from tests.marks import each_case

from .pages import clean, page_at, words
from .surveys import SPANNING, noted, placed

pytestmark = pytest.mark.slow

SMALL = LandscapeConfig(SPANNING, None, Landscape(resolution=5, images=32))


open_page = partial(page_at, "landscape")


def pictures(page: AppTest) -> list[dict]:
    return [json.loads(element.proto.spec) for element in page.get("plotly_chart")]


@pytest.fixture
def entry() -> runs.Entry:
    return runs.read_entry(runs.BUNDLED / "kf-linear", shipped=True)


@pytest.fixture
def record(runs_folder) -> Path:
    """A finished run of the user's, without landscapes."""
    folder = runs_folder / "mine"
    shutil.copytree(runs.BUNDLED / "kf-linear", folder, ignore=shutil.ignore_patterns(LANDSCAPE.folder))
    return folder


def test_a_shipped_run_shows_its_landscape_before_any_click(runs_folder):
    page = open_page()
    assert clean(page) and len(pictures(page)) == 3
    for fact in (
        "highest barrier is between",
        "is the plain average: 23.4",
        "on all 359 test images, as on Fuse, the average has 24.2",
        "15 × 15 points, 256 images of digits (test), seed 0",
        "No BatchNorm",
        "a network that knows nothing is the flattest of all",
    ):
        assert fact in words(page)


@pytest.mark.parametrize("name", runs.bundle_facts()["runs"])
def test_every_shipped_run_has_the_landscape_of_the_forms_defaults(name):
    entry = runs.read_entry(runs.BUNDLED / name, shipped=True)
    (kept,) = followups.works_of(entry, LANDSCAPE)
    assert kept.state == "done" and kept.name == LandscapeConfig(SPANNING).key(entry.folder)


def test_the_form_says_what_it_takes_before_it_starts(record):
    page = open_page(run="mine")
    assert clean(page), [element.value for element in [*page.error, *page.warning]]
    assert "**298 evaluations** of 256 images each." in words(page)
    assert any("retrofit landscape --record mine" in code.value for code in page.code)
    assert not page.button(key="start-landscape").disabled
    page.selectbox(key="landscape-resolution").set_value("7").run()
    assert page.query_params["resolution"] == "7" and "**122 evaluations**" in words(page)


@each_case(
    ("word", "name", "says"),
    [
        ("third", "average", "are on one line"),
        ("third", "parent 1", "three different networks"),
        ("third", "fine-tuned", "no such network of this run"),
        ("second", "aligned parent 1", "no such network of this run"),
    ],
)
def test_networks_that_span_no_plane_are_refused_before_the_start(record, word, name, says):
    page = open_page(run="mine", **{word: name})
    assert says in page.warning[0].value
    assert "one line" not in says or "start-landscape" not in {button.key for button in page.button}


def test_start_makes_a_worker_and_cancel_asks_it_to_stop(record, sleeper):
    page = open_page(run="mine", resolution="5", images="32")
    page.button(key="start-landscape").click().run()
    assert not page.exception
    key = page.query_params["map"]
    assert key == SMALL.key(record)
    folder = record / LANDSCAPE.folder / key
    assert Work(LANDSCAPE, folder).going and "Starting the worker" in page.get("progress")[0].proto.text
    page.button(key="cancel-landscape").click().run()
    assert (folder / "cancel").exists() and page.button(key="cancel-landscape").label == "Cancelling…"
    with pytest.raises(runs.Busy, match="the landscape"):
        other = LandscapeConfig(SPANNING, None, Landscape(resolution=7))
        followups.begin(runs.read_entry(record), other)
    with pytest.raises(ValueError, match="still running"):
        runs.delete(record)


def test_how_an_unfinished_landscape_ended_is_said_and_it_is_measured_again(record, sleeper):
    key = SMALL.key(record)
    shutil.rmtree(record / LANDSCAPE.folder, ignore_errors=True)
    noted(placed(record, key=key), "cancelled")
    SMALL.save(record / LANDSCAPE.folder / key, record)
    page = open_page(run="mine")
    assert not page.exception and not pictures(page) and "nothing of it is shown" in page.warning[0].value
    page.button(key="landscape-again").click().run()
    (kept,) = followups.works_of(runs.read_entry(record), LANDSCAPE)
    assert kept.going and kept.has_content and "Starting the worker" in page.get("progress")[0].proto.text


def test_of_several_landscapes_one_is_chosen_and_can_be_deleted(record):
    for index in range(2):
        folder = placed(record, key=f"000000000{index}", seed=index)
        os.utime(folder / "settings.json", (1000 + index, 1000 + index))
    page = open_page(run="mine")
    page.selectbox(key="landscape-map").set_value("0000000000").run()
    assert page.query_params["map"] == "0000000000" and clean(page)
    page = open_page(run="mine")
    assert page.selectbox(key="landscape-map").value == folder.name
    page.button(key="landscape-delete").click().run()
    assert clean(page) and not folder.exists() and "seed 3" in words(page)


def test_a_shipped_landscape_cannot_be_deleted(runs_folder, entry):
    assert "landscape-delete" not in {button.key for button in open_page(run="kf-linear").button}
    with pytest.raises(ValueError, match="came with the workbench"):
        followups.delete(followups.works_of(entry, LANDSCAPE)[0], entry)
