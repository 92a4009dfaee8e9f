"""The first page's logic, without a browser."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from retrofit_app import bundle, figures, runs
from retrofit_app.pages.fuse import configs, going, history, parameters, presets
from retrofit_app.runs import levels, methods
from retrofit_core import save_model
from retrofit_core.fusion.grouping import GROUPINGS
from retrofit_core.fusion.importance import IMPORTANCE
from retrofit_core.methods import METHODS
from retrofit_core.networks.architectures import build
from retrofit_core.runs import create, execute, read_config
from retrofit_core.runs.store import birth_of
from tests.marks import each_case, spread

from ..test_class_names import image_folder
from .pages import MAIN, form_of, page_at, to_page

pytestmark = pytest.mark.slow


#: A method of each kind that the form treats apart.
FORMS = ("HF-Gradient", "KF-Linear", "RegMean", "Git-Re-Basin", "KD")


open_form, open_runs = partial(page_at, view="new"), partial(page_at, view="runs")


def words(page: AppTest) -> str:
    written = [element.value for kind in (page.title, page.markdown, page.caption) for element in kind]
    return "\n".join([*written, *(drawn.proto.body for drawn in page.get("html"))])


@pytest.fixture(autouse=True)
def own_runs(runs_folder):
    return runs_folder


def button(page: AppTest, key: str):
    return next(widget for widget in page.button if widget.key == key)


def keys(page: AppTest) -> set[str]:
    return {widget.key for widget in page.button}


def tiles(page: AppTest) -> str:
    """The networks' tiles."""
    return next(
        element.proto.body
        for element in page.get("html")
        if element.proto.body.startswith("<div class='retrofit-tiles'")
    )


def headers(page: AppTest) -> list[str]:
    return [header.value for header in page.header]


def errors(page: AppTest) -> str:
    return " ".join(element.value for element in [*page.error, *page.warning])


def test_first_page_shows_the_shipped_fusion(shipped):
    page = page_at()
    assert not page.error and not page.exception and not page.warning
    networks = shipped.metrics["networks"]
    assert all(figures.percent(measured["accuracy"]) in tiles(page) for measured in networks.values())
    assert "Alike groups bring +31.5 points without the fit" in words(page) and "Level 1 (" in words(page)
    labels = ["Page to send", "Network"]
    assert [download.label for download in page.get("download_button")] == labels


def test_form_offers_every_method_and_importance():
    page = open_form()
    options = page.selectbox(key="fuse-method").options
    assert options == list(METHODS)
    assert set(page.selectbox(key="fuse-importance").options) == set(IMPORTANCE)
    assert page.selectbox(key="fuse-grouping").options == ["kmeans (default)", *GROUPINGS]
    page.selectbox(key="fuse-method").set_value("OTFusion").run()
    assert "fuse-grouping" not in [control.key for control in page.selectbox]


def test_a_methods_options_are_asked_and_travel_in_the_address():
    page = open_form(method="OTFusion", importance="uniform")
    assert page.selectbox(key="fuse-option-OTFusion-solver").options == ["exact", "sinkhorn"]
    page.selectbox(key="fuse-option-OTFusion-solver").set_value("sinkhorn").run()
    page.toggle(key="fuse-option-OTFusion-repair").set_value(True).run()
    page.text_input(key="fuse-option-OTFusion-regularisation").set_value("0.1").run()
    given = {"solver": "sinkhorn", "regularisation": 0.1, "repair": True}
    _, picks, _ = form_of(page.query_params)
    assert configs.fusion(picks, None, 64, 10).options == given and not configs.fusion(picks, None, 64, 10).analyse
    assert not page.error and not button(page, "start").disabled
    page.toggle(key="fuse-option-OTFusion-repair").set_value(False).run()
    assert "repair" not in page.query_params["options"]  # as by default
    page.selectbox(key="fuse-method").set_value("KD").run()
    assert "options" not in page.query_params  # another method begins with its own defaults
    assert page.number_input(key="fuse-option-KD-temperature").value == 2.0
    assert page.number_input(key="fuse-option-KD-patience").value is None
    assert "fuse-importance" not in [box.key for box in page.selectbox]  # KD weighs no neurons


@each_case(
    ("key", "given", "kept", "said"),
    [
        ("fuse-samples", 5, 10, "5 became 10"),
        ("fuse-samples", 10**7, parameters.MOST_SAMPLES, f"{10**7:,} became {parameters.MOST_SAMPLES:,}"),
        ("fuse-samples", 60, 60, ""),
        ("fuse-option-KD-epochs", -3, None, "from 0"),
    ],
)
def test_a_number_outside_its_limits_becomes_the_nearest_or_stays_and_that_is_said(key, given, kept, said):
    page = open_form(preset="sharded", method="KD")
    before = page.number_input(key=key).value
    page.number_input(key=key).set_value(given).run()
    assert page.number_input(key=key).value == (before if kept is None else kept)
    assert [said in toast.value for toast in page.toast] == [True] * bool(said)


@pytest.mark.parametrize("method", ["OTFusion", pytest.param("Auto", marks=pytest.mark.long), "KD", "Average"])
def test_a_finished_run_of_another_method_is_shown_without_empty_pictures(method, runs_folder, monkeypatch):
    config = dataclasses.replace(
        bundle.config(method),
        importance="uniform",
        samples=50,
        analyse=METHODS[method].takes.analysis,
        options={"KD": {"epochs": 2}, "Auto": {"tries": 1}}.get(method),
    )
    monkeypatch.chdir(runs.BUNDLED)
    result, metrics = execute(config, runs_folder / "mine")
    page = page_at(run="mine")
    assert not page.error and not page.exception, errors(page)
    assert ("**Auto: KF-Linear, " in words(page)) == (method == "Auto")
    networks = metrics["networks"]
    assert figures.percent(networks["fused"]["accuracy"]) in tiles(page)
    assert ("importance" in runs.details(runs.read_entry(runs_folder / "mine"))) == (method == "OTFusion")
    assert ("Where is knowledge lost?" in headers(page)) == bool(result.levels) == (method in ("OTFusion", "Auto"))
    charts = len(page.get("plotly_chart"))
    assert charts == {"OTFusion": 1, "Auto": 1, "KD": 1}.get(method, 0)
    to_page(page, "levels").run()
    assert not page.error and not page.exception
    if method == "Auto":  # the levels of the fusion that it chose
        entry = runs.read_entry(runs_folder / "mine")
        overview = levels.overview(entry)
        assert methods.score(entry) == result.config["chosen"]["importance"]
        assert overview.course[-1]["knows"] == networks["fused"]["knows"]
    elif result.levels:
        assert "fits no level, so it has no analysis" in " ".join(info.value for info in page.info)
        assert "approximation error" not in words(page)


@pytest.fixture
def used(runs_folder, shipped, sleeper):
    """Runs that the form started: a finished, a cancelled and a failed one; and data of one's own."""
    image_folder(runs_folder.parent / "data" / "animals")
    for seed, state in enumerate(("done", "cancelled", "failed")):
        page = open_form(**{"fusion-seed": str(seed + 1)})
        button(page, "start").click().run()
        folder = runs_folder / page.query_params["run"]
        if state == "done":
            shutil.copy(shipped.folder / "metrics.json", folder)
        status = {"schema": 3, "state": state, "checksums": {}, "updated": time.time()}
        (folder / "status.json").write_text(json.dumps(status))


@each_case(("preset", "method"), spread(presets.PRESETS, FORMS, 2))
def test_every_preset_can_be_started_by_a_method_or_is_refused_with_the_reason(preset, method, used):
    page = open_form(preset=preset)
    page.selectbox(key="fuse-method").set_value(method).run()
    said = [element.value for element in page.error]
    assert not page.exception and all(error.startswith("This cannot be started: ") for error in said), said
    assert page.number_input(key="fuse-samples") and button(page, "start").disabled == bool(said or preset == "own")


def test_a_pick_goes_into_the_address_and_the_preview_follows():
    page = open_form(preset="sharded")

    def strip() -> str:
        return next(html.proto.body for html in page.get("html") if "class='retrofit-split" in html.proto.body)

    before = strip()
    page.number_input(key="fuse-split_seed").set_value(3).run()
    assert page.query_params["split-seed"] == "3" and strip() != before
    page.number_input(key="fuse-parents").set_value(5).run()
    assert page.query_params["parents"] == "5" and strip().count("<th scope='row'") == 5
    assert page.query_params["preset"] == "sharded"
    assert "Train two small networks" not in words(page), "the preset's sentence is about other networks"
    page.number_input(key="fuse-split_seed").set_value(0).run()
    assert "split-seed" not in page.query_params  # as in the preset


@each_case(
    ("address", "says", "label", "picks"),
    [
        ({"preset": "four", "method": "HF-Linear"}, "hungarian", "Use grouping kmeans", {"grouping": "kmeans"}),
        ({"preset": "widths", "method": "HF-Gradient"}, "widths", "Use grouping kmeans", {"grouping": "kmeans"}),
        ({"preset": "sharded", "data": "../data/animals"}, "400 samples", "Take 16 samples", {"samples": 16}),
        ({"preset": "sharded", "parents": "11", "samples": "100"}, "10 classes", "Take 10 networks", {"parents": 10}),
        ({"preset": "twins", "widths": "1,0.5"}, "one width", "Give all networks one width", {"widths": "1"}),
        ({"preset": "own", "files": "gone.safetensors"}, "no checkpoint", "", {}),
    ],
)
def test_what_cannot_work_is_refused_before_the_start_and_one_click_makes_it_work(address, says, label, picks, used):
    page = open_form(**address)
    message = next(error.value for error in page.error if error.value.startswith("This cannot be started"))
    assert says in message and button(page, "start").disabled and str(runs.runs_folder()) not in message
    if label:
        assert button(page, "fuse-cure-0").label == label
        button(page, "fuse-cure-0").click().run()
        assert not page.error and not page.warning and not button(page, "start").disabled, errors(page)
        chosen = form_of(page.query_params)[1]
        assert {name: getattr(chosen, name) for name in picks} == picks


def test_start_starts_a_worker_and_puts_the_run_into_the_address(runs_folder, sleeper):
    page = open_form(preset="sharded")
    button(page, "start").click().run()
    key = page.query_params["run"]
    held = page_at(run=stopped(runs_folder, state="cancelled", level=1, levels=4))
    button(held, "again").click().run()
    assert f"run {key} is still running" in errors(held)
    config = read_config(runs_folder / key)
    assert config.analyse and config.evaluate and (runs_folder / config.models[0]).with_name("training.json").exists()
    # The same work by hand has the same key.
    preset, picks, _ = form_of({"preset": "sharded"})
    assert preset == "sharded" and configs.fusion(picks, configs.training(picks, 64, 10), 64, 10).key() == key
    again = page_at(run=key)  # a reload: a new session finds the run by its address
    assert again.title[0].value == "Your fusion is in progress"
    assert "view" not in page.query_params and "start" not in keys(again)  # Start shows the progress
    button(again, "cancel").click().run()
    assert (runs_folder / key / "cancel").exists()
    other = open_form(preset="twins")
    assert button(other, "start").disabled and "still in progress" in " ".join(info.value for info in other.info)


def test_own_checkpoints_are_described_before_anything_runs():
    files = "|".join(str(runs.BUNDLED / name) for name in bundle.PARENTS)
    page = open_form(preset="own", files=files)
    assert not page.error, errors(page)
    assert "A, parent-0.safetensors: cnn 16-32-32" in words(page) and "5 of 10 classes" in words(page)
    assert words(page).count("of held-out images") == 2
    assert not button(page, "start").disabled and page.selectbox(key="fuse-importance").value == "uniform"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (
            {"architecture": "mlp", "sizes": [784, 8, 10]},
            "network A does not take the images of digits, which have 1 x 8 x 8 values: it takes images of 784 values",
        ),
        ({"architecture": "mlp", "sizes": [64, 8, 7]}, "network A tells 7 classes apart, and digits has 10"),
    ],
)
def test_a_wrong_data_set_is_named_before_the_start(runs_folder, spec, says):
    runs_folder.mkdir()
    save_model(build(spec, seed=0), runs_folder / "a.safetensors")
    page = open_form(preset="own", files="a.safetensors|a.safetensors")
    assert says in errors(page) and "mat1" not in errors(page) and button(page, "start").disabled


def test_a_run_that_cannot_be_read_is_a_line_that_can_be_deleted(runs_folder, shipped):
    damage = {
        "config.json": ["{", "[" * 100_000, {"schema": 3}, {"schema": 3, "config": {"models": 1}, "inputs": {}}],
        "status.json": ["[]", {"schema": 3, "state": []}, {"schema": 3, "state": "running", "started": "noon"}],
        "metrics.json": [{"networks": []}, {"networks": {"fused": {"accuracy": "good"}}}],
    }
    for name, contents in damage.items():
        for number, content in enumerate(contents):
            folder = shutil.copytree(shipped.folder, runs_folder / f"bad-{name}-{number}")
            content = json.dumps(content) if isinstance(content, dict) else content
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    for number, worker in enumerate([{"pid": "x"}, {"pid": -1}, {"pid": 10**30}, {"pid": 1, "birth": []}]):
        key = stopped(runs_folder, seed=number, state="running")
        (runs_folder / key / "worker.json").write_text(json.dumps(worker))
        (runs_folder / key / "events.jsonl").write_text('{"kind": "epoch"}\n[]\n{"kind": "level", "time": "noon"}\n')
    page, bad = open_runs(), len(list(runs_folder.glob("bad-*")))
    lines = [element.value for element in page.markdown if "cannot be read" in element.value]
    assert len(lines) == bad == 9 and f"{bad} more cannot be read" in words(page) and not errors(page)
    button(page, "delete-bad-status.json-0").click().run()
    assert not (runs_folder / "bad-status.json-0").exists() and not errors(page)
    for view in ("result", "new"):
        page = page_at(view=view, run=key)
        assert "could not be shown" not in errors(page) and not page.exception


def test_runs_that_are_not_at_work_can_be_deleted(runs_folder, sleeper, monkeypatch):
    key, at_work = (stopped(runs_folder, seed=seed, state="cancelled", level=1, levels=4) for seed in (8, 9))
    table = history.table

    def ticked(entries):  # AppTest ticks no rows
        table(entries)
        return [entry for entry in entries if entry.name in (key, at_work, "kf-linear")]

    monkeypatch.setattr(history, "table", ticked)
    page = open_runs(run=key)
    runs.run_again(runs_folder / at_work)  # after the page was drawn
    button(page, "delete").click().run()
    assert not (runs_folder / key).exists() and (runs_folder / at_work).exists() and "run" not in page.query_params
    assert f"Not deleted: run {at_work} is still running" in errors(page)
    assert page.title[0].value == "Your runs" and key not in listed(page)


@pytest.mark.parametrize("at_work", [False, True])
def test_a_run_whose_folder_is_deleted_while_it_is_shown_says_so(runs_folder, at_work):
    name = stopped(runs_folder, state="running", started=time.time())
    if at_work:
        facts = {"pid": os.getpid(), "birth": birth_of(os.getpid()), "started": 1.0, "work": "fuse"}
        (runs_folder / name / "worker.json").write_text(json.dumps(facts))
    page = page_at(run=name)
    assert ("in progress" in page.title[0].value) == at_work
    shutil.rmtree(runs_folder / name)
    assert not going.is_going(runs_folder / name)
    page.run()
    assert f"Run {name} no longer exists: its folder was deleted" in errors(page) and "run" not in page.query_params


def listed(page: AppTest) -> list[str]:
    """Names in the table of runs."""
    return [name.removesuffix(" (shipped)") for name in page.dataframe[0].value["run"]]


def test_own_runs_come_before_shipped_ones(runs_folder, shipped):
    assert "no runs of your own yet" in words(open_runs())
    shutil.copytree(shipped.folder, runs_folder / "mine")
    page = open_runs()
    assert listed(page) == ["mine", *runs.bundle_facts()["runs"]]


def stopped(runs_folder, seed=8, **status):
    config = bundle.config("KF-Linear", seed=seed)
    folder = runs_folder / config.key()
    create(folder, config)
    (folder / "status.json").write_text(json.dumps({"schema": 3, "updated": time.time(), "pid": 2**22 - 1, **status}))
    return config.key()


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (
            {"state": "failed", "error": "level 'x' is broken.", "level": 1, "levels": 4},
            "Failed: level 'x' is broken. 1 of 4",
        ),
        ({"state": "cancelled", "level": 2, "levels": 4}, "Cancelled. 2 of 4 levels"),
        ({"state": "running", "level": 1, "levels": 4}, "was killed"),
    ],
    ids=["failed", "cancelled", "interrupted"],
)
def test_a_run_that_ended_early_says_why_and_can_be_run_again(runs_folder, sleeper, status, says):
    page = page_at(run=stopped(runs_folder, **status))
    assert says in " ".join(element.value for element in [*page.error, *page.warning])
    button(page, "again").click().run()
    assert page.title[0].value == "Your fusion is in progress" and "cancel" in keys(page)


def test_a_run_of_another_version_is_flagged(runs_folder, shipped):
    folder = runs_folder / "mine"
    shutil.copytree(shipped.folder, folder)
    status = json.loads((folder / "status.json").read_text())
    for version, flagged in (("0.0.1", True), (runs.library(), False)):
        (folder / "status.json").write_text(json.dumps(status | {"version": version}))
        page = page_at(run="mine")
        messages = " ".join(info.value for info in page.info)
        assert ("Version 0.0.1 of the library made this run" in messages) == flagged and not page.error
        assert f"retrofit-workbench {version}" in runs.source(runs.read_entry(folder))


def test_the_first_picture_is_painted_without_torch(runs_folder, shipped):
    """Importing torch takes seconds; what stands above the fold must not wait for it, whatever runs are listed."""
    for run_state, changed in (("done", {"importance": "uniform"}), ("cancelled", {"method": "Average"})):
        folder = runs_folder / run_state
        shutil.copytree(shipped.folder, folder)
        status = json.loads((folder / "status.json").read_text())
        (folder / "status.json").write_text(json.dumps(status | {"state": run_state}))
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"config": config["config"] | changed}))
    code = """
import sys
import streamlit as st
from streamlit.testing.v1 import AppTest

def chart(*given, **options):
    painted.append((options["key"], "torch" in sys.modules))
    return real(*given, **options)

real, painted = st.plotly_chart, []
st.plotly_chart = chart
assert not AppTest.from_file(sys.argv[1], default_timeout=100).run().exception
print(painted[0])
"""
    process = subprocess.run(
        [sys.executable, "-c", code, MAIN], capture_output=True, text=True, timeout=200, check=True
    )
    assert process.stdout.splitlines()[-1] == "('ingredients', False)"


def test_a_broken_page_says_so_without_paths(monkeypatch):
    def broken(folder=None):
        raise RuntimeError("no luck")

    monkeypatch.setattr(runs, "entries", broken)
    page = page_at()
    assert "no luck" in page.error[0].value
    assert "no luck" in page.code[0].value and "/" not in page.code[0].value
