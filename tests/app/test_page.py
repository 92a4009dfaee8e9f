"""The first page's logic, without a browser."""

import json
import time

import pytest
from retrofit_app import bundle, figures, jobs
from streamlit.testing.v1 import AppTest

from retrofit_core import runs
from retrofit_core.importance import IMPORTANCE
from retrofit_core.methods import METHODS

MAIN = str(jobs.BUNDLED.parent / "main.py")


def open_page(**address) -> AppTest:
    page = AppTest.from_file(MAIN, default_timeout=60)
    for name, value in address.items():
        page.query_params[name] = value
    return page.run()


def words(page: AppTest) -> str:
    return "\n".join(element.value for kind in (page.title, page.markdown, page.caption) for element in kind)


@pytest.fixture(autouse=True)
def own_runs(runs_folder):
    return runs_folder


def test_first_page_shows_the_shipped_fusion(shipped):
    page = open_page()
    assert not page.error and not page.exception and not page.warning
    assert page.title[0].value == "Two half-blind networks, one that sees it all"
    networks = shipped.metrics["networks"]
    for name in ("parent 0", "parent 1", "ensemble", "average", "fused"):
        assert figures.percent(networks[name]["accuracy"]) in words(page)
    accuracy, levels = page.dataframe[0].value, page.dataframe[1].value
    assert list(accuracy["network"]) == ["network A", "network B", "ensemble", "plain average", *list(METHODS)[:4]]
    assert len(levels) == len(shipped.levels)
    assert "PCA hides" in words(page)


def test_level_and_run_come_from_the_address_and_go_there():
    page = open_page(run="hf-gradient", level="classifier")
    assert "HF-Gradient" in words(page) and page.radio(key="level").value == "classifier"
    page.radio(key="level").set_value("features.0").run()
    assert page.query_params["level"] == "features.0"
    page.selectbox(key="run").set_value("kf-linear").run()
    assert "run" not in page.query_params  # the default


def test_nonsense_in_the_address_is_named():
    page = open_page(run="gone", level="99")
    found = " ".join(warning.value for warning in page.warning)
    assert "run=gone" in found and "level=99" in found
    assert page.title[0].value.startswith("Two half-blind")


def test_form_offers_every_method_and_importance():
    page = open_page()
    options = {box.label: box.options for box in page.selectbox}
    assert options["Method"] == list(METHODS)
    assert set(options["Importance"]) == set(IMPORTANCE)


def test_every_control_has_a_help_text():
    page = open_page()
    for kind in (page.selectbox, page.radio, page.number_input):
        assert all(control.help for control in kind)


def test_start_starts_a_worker_and_puts_the_run_into_the_address(runs_folder, sleeper):
    page = open_page()
    page.number_input[1].set_value(7)
    page.button[0].click().run()
    key = bundle.config("KF-Linear", seed=7).key()
    assert page.query_params["run"] == key
    assert (runs_folder / key / "worker.json").exists()
    assert page.button[0].label == "Cancel"
    start = next(button for button in page.button if button.label == "Start")
    assert start.disabled
    # Reload: a new session finds the run by its address.
    again = open_page(run=key)
    assert again.button[0].label == "Cancel"
    again.button[0].click().run()
    assert (runs_folder / key / "cancel").exists()


def test_start_of_a_shipped_config_opens_it(runs_folder, sleeper):
    page = open_page(run="hf-linear")
    page.button[0].click().run()
    assert "run" not in page.query_params and not runs_folder.exists()


def stopped(runs_folder, **status):
    config = bundle.config("KF-Linear", seed=8)
    folder = runs_folder / config.key()
    runs.create(folder, config)
    (folder / "status.json").write_text(json.dumps({"schema": 1, "updated": time.time(), "pid": 2**22 - 1, **status}))
    return config.key()


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (
            {"state": "failed", "error": "level 'x' is broken.", "levels_done": 1, "levels": 4},
            "Failed: level 'x' is broken. 1 of 4",
        ),
        ({"state": "cancelled", "levels_done": 2, "levels": 4}, "Cancelled. 2 of 4 levels"),
        ({"state": "running", "level": 1, "levels": 4}, "killed"),
    ],
    ids=["failed", "cancelled", "killed"],
)  # fmt: skip
def test_a_run_that_ended_early_says_why_and_can_go_on(runs_folder, sleeper, status, says):
    page = open_page(run=stopped(runs_folder, **status))
    assert says in " ".join(element.value for element in [*page.error, *page.warning])
    assert page.title[0].value.startswith("Two half-blind")  # the shipped example stays on the page
    next(button for button in page.button if button.label == "Go on with it").click().run()
    assert page.button[0].label == "Cancel"


def test_a_damaged_record_is_named_in_its_place(runs_folder):
    config = bundle.config("KF-Linear", seed=9)
    folder = runs_folder / config.key()
    runs.create(folder, config)
    (folder / "status.json").write_text(json.dumps({"schema": 1, "state": "done", "checksums": {}, "updated": 1.0}))
    (folder / "metrics.json").write_text("{}")
    page = open_page(run=config.key())
    found = page.error[0].value
    assert "missing from the record" in found and str(runs_folder) not in found


def test_a_broken_page_says_so_without_paths(monkeypatch):
    def broken(folder=None):
        raise RuntimeError("no luck")

    monkeypatch.setattr(jobs, "entries", broken)
    page = open_page()
    assert "no luck" in page.error[0].value
    assert "no luck" in page.code[0].value and "/" not in page.code[0].value
