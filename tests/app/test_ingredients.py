"""What each ingredient of a run brings: shipped with the shipped runs, measured on request for others."""

import dataclasses
import shutil
import time
from pathlib import Path

import pytest

from retrofit_app import bundle, figures, runs
from retrofit_app.figures.waterfall import waterfall
from retrofit_app.runs import ingredients
from retrofit_app.runs.ingredients import finding, steps_of
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
    known = {(each.groups, each.fitted): each for each in ingredients.read(work)}
    assert len(known) == 8
    for key, name in (((ingredients.AVERAGE, False), "average"), ((ingredients.OWN, True), "fused")):
        assert all(known[key].facts[fact] == networks[name][fact] for fact in ("accuracy", "knows", "samples"))


def test_steps_go_from_the_average_over_groups_to_the_fit_and_controls_are_compared_with_it():
    steps = steps_of(ingredients.read(ingredients.work_of(shipped_entry())), "KF-Linear")
    assert [step.name for step in steps] == [
        "Plain average",
        "+ groups, no fit",
        "+ fit: KF-Linear",
        "Same-index groups",
        "Random groups (one draw)",
        "Uniform importance",
    ]
    for above, step in zip(steps[:2], steps[1:3], strict=True):
        low, high = step.brings.ends
        assert step.start == above.accuracy and step.brings.points == pytest.approx(step.accuracy - above.accuracy)
        assert low < step.brings.points < high
    assert all(step.brings.points == pytest.approx(step.accuracy - steps[2].accuracy) for step in steps[3:])
    picture = waterfall(steps, finding(steps), figures.LIGHT)
    assert all(figures.number(step.accuracy) in picture.alt for step in steps)
    assert finding(steps) == (
        "Groups bring +55.2 points (same-index groups +34.8), then the fit +13.6; random groups instead: \N{MINUS SIGN}1.9."
    )


def test_what_is_compared_has_the_runs_own_options_where_they_apply():
    config = dataclasses.replace(bundle.config("KF-Gradient"), options={"epochs": 3, "restarts": 2, "preset": "paper"})
    base = ingredients.base_of(config)
    configs = configurations(base, ingredients.methods_of(config), config.importance)
    assert [each.method for each in configs] == ["Average"] + ["KF-Linear", "KF-Gradient"] * 3 + ["KF-Gradient"]
    assert configs[-1].importance == "uniform" and configs[-1].options == configs[2].options
    own, control = configs[2].options, configs[4].options
    assert own == {"preset": "paper", "epochs": 3, "restarts": 2}
    assert control == {"preset": "paper", "epochs": 3, "grouping": "same_index"}
    assert configs[1].options == {"preset": "paper", "refit": False, "restarts": 2}


@pytest.mark.slow
def test_a_run_without_them_offers_to_measure_them_and_watches(record, sleeper):
    page = page_at(run="mine")
    assert clean(page) and any("6 more fusions" in button.label for button in page.button)
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
        {(each.groups, each.fitted): each.facts["accuracy"] for each in ingredients.read(ingredients.work_of(one))}
        for one in (entry, shipped_entry())
    )
    assert ours == pytest.approx(shipped, abs=3)
    assert [path.name for path in record.parent.iterdir() if path.is_dir()] == ["mine"]  # no runs of their own


def wait_for(work: store.Work) -> None:
    deadline = time.monotonic() + 120
    while work.going and time.monotonic() < deadline:
        time.sleep(0.2)
