"""The Levels page's logic, without a browser."""

import json
import re
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from retrofit_app import figures, runs
from retrofit_app.models.outputs import outputs
from retrofit_app.pages.learn import page as learn
from retrofit_app.pages.levels.reading import LEARNED
from retrofit_app.runs import levels
from retrofit_app.widgets import readings
from retrofit_core.data import load
from retrofit_core.networks.checkpoints import load_model
from retrofit_core.runs.record import checksums

from .analyses import analysed, plain
from .pages import clean, page_at, words
from .test_diagnosis import course

pytestmark = pytest.mark.slow


STEPS = ("activations", "importance", "grouping", "targets", "fit")


open_page = partial(page_at, "levels")


@pytest.fixture
def record(runs_folder):
    runs_folder.mkdir()
    return analysed(runs_folder)


def drawn(page: AppTest, kind: str) -> list[dict]:
    """The page's figures whose first trace is of a kind."""
    specs = [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]
    return [spec for spec in specs if spec["data"][0]["type"] == kind]


def test_the_worst_level_is_named_and_open(record):
    page = open_page(run="analysed")
    assert clean(page)
    assert "level 2 (features.2) loses 7.5" in words(page)
    assert page.selectbox(key="levels-level").value == "features.2"
    assert page.button(key="go-previous").disabled is False


def test_the_images_behind_an_accuracy_are_told_where_it_stands(record):
    """The run's networks are measured on all test images, the accuracy after each level on a part of many."""
    entry, page = runs.read_entry(record), open_page(run="analysed")
    overview = readings.overview(entry)
    assert levels.accuracy_words(entry, overview) in words(page)
    assert "on all 359 test images." in levels.accuracy_words(entry, replace(overview, course=course([90.0] * 5, 359)))
    fused = entry.metrics["networks"]["fused"]
    fused.update(samples=10_000, accuracy=93.0)
    said = levels.accuracy_words(entry, replace(overview, course=course([90.0] * 4 + [95.0], 1000)))
    assert "on 1,000 of the 10,000 test images, as many of each class" in said
    assert f"gets {figures.percent(95)}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}1.4; on all" in said
    assert said.endswith(f"{figures.percent(93)}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.5.")


@pytest.mark.parametrize("step", STEPS)
def test_every_step_of_every_level_can_be_shown(record, step):
    page = open_page(run="analysed", step=step, level="features.0")
    for _ in range(3):
        assert clean(page), [element.value for element in [*page.error, *page.warning]]
        page.button(key="go-next").click().run()
    assert page.button(key="go-next").disabled and page.query_params["level"] == "classifier"


def test_every_step_leads_to_its_explanation_and_back(record):
    assert set(LEARNED) == set(STEPS) == set(learn.STEPS)
    for name, step in (("levels", "fit"), ("learn", "")):
        page = page_at(name, run="analysed", **({"step": step} if step else {}))
        links = [link.proto.query_string for link in page.get("page_link")]
        shown = ["at=step%3D7"] if step else [f"step={each}" for each in STEPS]
        assert all(any(part in link and "run=analysed" in link for link in links) for part in shown)


def test_a_run_without_analysis_says_what_is_missing_and_how_to_add_it(runs_folder):
    plain(runs_folder)
    page = open_page(run="plain", step="grouping")
    assert clean(page) and "has no analysis" in words(page)
    assert any("--analyse" in code.value for code in page.code)


def test_the_ribbon_is_that_of_the_chosen_score(record):
    entry = runs.read_entry(record)
    for score, says in (("conductance", ""), ("uniform", "As Uniform would group them; the run used Conductance")):
        page = open_page(run="analysed", level="features.0", score=score)
        (ribbon,) = drawn(page, "sankey")
        expected = figures.ribbon(readings.grouping(entry, 0, score), figures.LIGHT, readings.grouping(entry, 0))
        assert ribbon["data"][0]["link"]["value"] == list(expected.figure.data[0].link.value)
        assert clean(page) and says in words(page)


def test_a_run_without_a_fit_does_not_speak_of_one(record):
    result = json.loads((record / "result.json").read_text())
    result["config"]["refit"] = False
    (record / "result.json").write_text(json.dumps(result))
    status = json.loads((record / "status.json").read_text())
    status["checksums"] |= checksums(record, ["result.json"])
    (record / "status.json").write_text(json.dumps(status))
    page = open_page(run="analysed", level="classifier", step="fit")
    assert clean(page) and "Nothing is fitted in this run" in words(page)
    assert not re.search("ridge|closed form|the fit misses", words(page), re.IGNORECASE)


def test_a_gradient_fit_shows_its_curve(runs_folder):
    runs_folder.mkdir()
    analysed(runs_folder, runs.BUNDLED / "kf-gradient")
    page = open_page(run="analysed", step="fit")
    assert "epochs of gradient descent" in words(page) and clean(page)


def test_a_damaged_analysis_is_named_in_its_place(record):
    (record / "analysis.npz").write_bytes(b"broken")
    page = open_page(run="analysed")
    assert page.error and str(record.parent) not in page.error[0].value


def test_the_target_is_the_weighted_mean_of_the_members(record):
    entry = runs.read_entry(record)
    grouped, answers = readings.grouping(entry, 1), outputs(entry, 1)
    cluster = int(np.argmax(grouped.counts))
    members = np.flatnonzero(grouped.labels == cluster)
    picture = figures.members_and_target(grouped, cluster, answers, figures.LIGHT)
    target = np.average(answers[:, members], axis=1, weights=grouped.weights[members])
    *dots, line = picture.figure.data
    assert len(dots) == min(len(members), 6) and list(line.y) == sorted(line.y)
    assert min(line.y) == pytest.approx(target.min()) and max(line.y) == pytest.approx(target.max())
    assert "Does it reach its target?" not in words(open_page(run="analysed", step="targets"))
    fitted = words(open_page(run="analysed", step="fit"))
    assert "Does it reach its target?" in fitted


def test_outputs_of_the_last_level_are_the_networks_own_and_a_changed_network_is_refused(record):
    images, entry = load("digits", "test"), runs.read_entry(record)
    with torch.no_grad():
        logits = [load_model(runs.BUNDLED / f"parent-{n}.safetensors")[0](images.inputs()) for n in range(2)]
    assert outputs(entry, 3) == pytest.approx(torch.cat(logits, dim=1).numpy(), abs=1e-4)
    copy = shutil.copytree(record, record.parent / "copy")
    path = copy / "config.json"
    facts = json.loads(path.read_text())
    own = [f"own-{name}" for name in facts["config"]["models"]]
    facts["inputs"] |= {new: facts["inputs"][old] for new, old in zip(own, facts["config"]["models"], strict=True)}
    facts["config"]["models"] = own
    path.write_text(json.dumps(facts))
    for name in own:
        shutil.copy(runs.BUNDLED / "parent-1.safetensors", record.parent / name)
    with pytest.raises(ValueError, match="own-parent-0.safetensors is not the network that this run fused"):
        outputs(runs.read_entry(copy), 0)


def test_neurons_of_the_last_level_have_the_names_of_their_classes(record):
    entry = runs.read_entry(record)
    assert readings.grouping(entry, 3).classes == tuple("0123456789") and not readings.grouping(entry, 2).classes
    named = replace(readings.grouping(entry, 3), classes=("cat", "dog", *"23456789"))
    assert named.names[:3] == ["A0 (cat)", "A1 (dog)", "A2"]
    for step in ("grouping", "targets"):
        assert "almost no error" in words(open_page(run="analysed", level="classifier", step=step))
        assert "almost no error" not in words(open_page(run="analysed", level="features.0", step=step))


def test_a_run_whose_own_score_is_not_among_the_analysed_ones_is_shown(runs_folder):
    runs_folder.mkdir()
    run_folder = analysed(runs_folder, without="conductance")
    page = open_page(run=run_folder.name, level="classifier", step="grouping")
    assert clean(page), [error.value for error in page.error]
    assert "one for each class" in words(page)
