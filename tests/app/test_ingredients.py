"""What each ingredient of a run brings: shipped with the shipped runs, measured on request for others."""

import dataclasses
import shutil
import time
from pathlib import Path

import pytest

from retrofit_app import bundle, figures, runs
from retrofit_app.figures.ingredients import gains, two_by_two
from retrofit_app.runs import ingredients
from retrofit_core.networks import user_code
from retrofit_core.runs import store
from retrofit_core.runs.comparison import configurations
from retrofit_core.runs.store import COMPARISON

from .pages import clean, page_at

SHIPPED = runs.bundle_facts()["runs"]


def shipped_entry(name: str = "kf-linear") -> runs.Entry:
    return runs.read_entry(runs.BUNDLED / name, shipped=True)


@pytest.fixture
def record(runs_folder) -> Path:
    """A finished run of the user's, without its ingredients."""
    folder = runs_folder / "mine"
    shutil.copytree(runs.BUNDLED / "kf-linear", folder, ignore=shutil.ignore_patterns(COMPARISON.folder))
    return folder


def click(page, key: str):
    return next(widget for widget in page.button if widget.key == key).click().run()


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_run_has_its_ingredients_and_they_agree_with_its_tiles(name):
    entry = shipped_entry(name)
    work, networks = ingredients.work_of(entry), entry.metrics["networks"]
    assert work.state == "done" and all(path.stat().st_size < 1e5 for path in work.folder.iterdir())
    corners, average = ingredients.read(entry)
    assert len(corners) == 4
    for facts, name in ((average, "average"), (corners[True, True], "fused")):
        assert all(facts[fact] == networks[name][fact] for fact in ("accuracy", "knows", "samples"))


def test_four_edges_are_paired_differences_and_are_drawn_with_every_accuracy():
    corners, average = ingredients.read(shipped_entry())
    edges = gains(corners)
    assert len(edges) == 4
    for (kind, also), gain in edges.items():
        before = (False, also) if kind == "groups" else (also, False)
        after = (True, also) if kind == "groups" else (also, True)
        assert gain.points == pytest.approx(corners[after]["accuracy"] - corners[before]["accuracy"])
        assert gain.ends[0] < gain.points < gain.ends[1]
    picture = two_by_two(corners, average, figures.LIGHT)
    drawn = " ".join(note.text for note in picture.figure.layout.annotations)
    for facts in (*corners.values(), average):
        assert figures.share(facts["accuracy"]) in picture.alt and figures.share(facts["accuracy"]) in drawn
    assert all(figures.number(gain.ends[0]) in drawn for gain in edges.values())


def test_what_is_compared_has_the_runs_own_options_where_they_apply():
    config = dataclasses.replace(bundle.config("KF-Gradient"), options={"epochs": 3, "restarts": 2, "preset": "paper"})
    base = ingredients.base_of(config)
    configs = configurations(base, ingredients.methods_of(config), config.importance)
    assert [each.method for each in configs] == ["Average", *["KF-Linear", "KF-Gradient"] * 2]
    assert configs[1].options == {"preset": "paper", "refit": False, "restarts": 2}
    assert configs[2].options == {"preset": "paper", "epochs": 3, "restarts": 2}
    assert configs[4].options == {"preset": "paper", "epochs": 3, "grouping": "random"}


@pytest.mark.parametrize("field", ["arch", "target"])
def test_code_that_only_a_record_names_is_not_named_to_the_worker(record, field, sleeper):
    """Its command line is what a user types, and it starts among the record's files."""
    (record.parent / "mynet.py").write_text("raise SystemExit")
    entry = runs.read_entry(record)
    entry = dataclasses.replace(entry, config={**entry.config, field: "mynet:make"})
    with pytest.raises(user_code.NotAllowed, match="'mynet:make', a function in a user's code"):
        ingredients.begin(entry)
    assert not ingredients.work_of(entry).folder.exists()


@pytest.mark.slow
def test_a_run_without_them_offers_to_measure_them_and_watches(record, sleeper):
    page = page_at(run="mine")
    assert clean(page) and any("three more fusions" in button.label for button in page.button)
    click(page, "start-ingredients")
    work = ingredients.work_of(runs.read_entry(record))
    assert work.going and store.is_going(work.folder)
    page = page_at(run="mine")
    assert "cancel-ingredients" in {widget.key for widget in page.button}


@pytest.mark.long
def test_the_worker_measures_them(record):
    entry = runs.read_entry(record)
    ingredients.begin(entry)
    work = ingredients.work_of(entry)
    wait_for(work)
    assert work.state == "done", runs.log_tail(work.folder)
    ours, shipped = (
        {corner: facts["accuracy"] for corner, facts in ingredients.read(one)[0].items()}
        for one in (entry, shipped_entry())
    )
    assert ours == pytest.approx(shipped, abs=3)
    assert [path.name for path in record.parent.iterdir() if path.is_dir()] == ["mine"]  # no runs of their own


def wait_for(work: store.Work) -> None:
    deadline = time.monotonic() + 120
    while work.going and time.monotonic() < deadline:
        time.sleep(0.2)
