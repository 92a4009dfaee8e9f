"""Fine-tuning on the page Fuse without a browser, and fine-tunings on disk."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from retrofit_app import runs
from retrofit_app.runs import followups
from retrofit_app.runs.compared import networks_of
from retrofit_core.runs.finetunings import FinetuneConfig
from retrofit_core.runs.store import FINETUNING, Work
from retrofit_core.training.evaluation import as_bits

from .pages import clean, page_at, words
from .surveys import noted

pytestmark = pytest.mark.slow


SHORT = FinetuneConfig(epochs=3)


BEFORE = {"parent 0": 49.0, "parent 1": 50.0, "ensemble": 99.0, "fused": 94.0}


@pytest.fixture
def entry() -> runs.Entry:
    return runs.read_entry(runs.BUNDLED / "kf-linear", shipped=True)


@pytest.fixture
def record(runs_folder) -> Path:
    """A finished run of the user's."""
    folder = runs_folder / "mine"
    shutil.copytree(runs.BUNDLED / "kf-linear", folder)
    return folder


@pytest.fixture
def opened(monkeypatch):
    """The form's box is open: AppTest cannot open one."""
    import streamlit as st

    real = st.expander

    def expander(label, **options):
        return real(label, **{**options, "expanded": label == "Fine-tune this network"})

    monkeypatch.setattr(st, "expander", expander)


def course(accuracies=(94.0, 96.0, 95.0, 97.0), epochs=3):
    """A curve as a worker writes it, with these accuracies of epoch 0 and on."""
    best = [max(range(epoch + 1), key=lambda index: accuracies[index]) for epoch in range(len(accuracies))]
    history = [
        {"epoch": epoch, "epochs": epochs, "loss": 1.5 if epoch else None, "accuracy": accuracy, "best": best[epoch]}
        for epoch, accuracy in enumerate(accuracies)
    ]
    facts = {"data": "digits", "trained": 1295, "held_out": 143, "epochs": epochs, "seconds": 2.0}
    return facts | {"networks": {name: {"accuracy": value} for name, value in BEFORE.items()}, "history": history}


def placed(record: Path, config=SHORT, accuracy: float | None = 97.5, **changes) -> Path:
    """A fine-tuning of a record as a worker leaves it behind; without an accuracy it is not finished."""
    folder = record / FINETUNING.folder / config.key(record)
    config.save(folder, record)
    (folder / FINETUNING.growing).write_text(json.dumps(course(epochs=config.epochs, **changes)))
    if accuracy is not None:
        metrics = result(accuracy)
        (folder / FINETUNING.last).write_text(json.dumps(metrics))
        shutil.copy(record / "fused.safetensors", folder / followups.TUNED)
    return folder


def result(accuracy: float) -> dict:
    """A result of `evaluate` on the test images, right on the first ones."""
    known = as_bits(np.arange(359) < 3.59 * accuracy)
    return {
        "accuracy": accuracy,
        "per_class": [accuracy] * 10,
        "loss": 0.1,
        "calibration_error": 0.1,
        "samples": 359,
        "knows": known,
    }


def tiles(page: AppTest) -> str:
    return next(
        (element.value for element in page.get("html") if element.value.startswith("<div class='retrofit-tiles'")), ""
    ).replace("\N{NO-BREAK SPACE}", " ")


def test_one_of_a_shipped_run_is_kept_in_the_runs_folder(entry, runs_folder, sleeper):
    kept = followups.begin(entry, SHORT)
    assert kept.folder == runs_folder / FINETUNING.folder / SHORT.key(entry.folder) and kept.going
    SHORT.save(kept.folder, entry.folder)
    assert [one.name for one in followups.works_of(entry, FINETUNING)] == [kept.name]
    assert not followups.works_of(runs.read_entry(runs.BUNDLED / "hf-linear", shipped=True), FINETUNING)


def test_the_form_says_which_images_it_takes_and_the_command(record, opened):
    page = page_at(run="mine", **{"tune-epochs": "7", "tune-seed": "2"})
    assert clean(page)
    assert "all 1,438 training images" in words(page) and "it trains on 1,295, and 143 held-out images decide" in words(
        page
    )
    assert any("retrofit train --record mine --epochs 7 --seed 2" in code.value for code in page.code)
    page.number_input(key="tuning-tune_epochs").set_value(9).run()
    assert page.query_params["tune-epochs"] == "9"


def test_a_start_makes_a_worker_cancel_asks_it_and_a_reload_finds_it(record, opened, sleeper):
    page = page_at(run="mine", **{"tune-epochs": "3"})
    page.button(key="start-tuning").click().run()
    assert not page.exception
    key = page.query_params["tuned"]
    assert key == SHORT.key(record)
    folder = record / FINETUNING.folder / key
    again = page_at(run="mine", tuned=key)
    assert clean(again) and "Starting the worker" in again.get("progress")[0].proto.text
    again.button(key="cancel-tuning").click().run()
    assert (folder / "cancel").exists()
    with pytest.raises(runs.Busy, match="the fine-tuning"):
        followups.begin(runs.read_entry(record), FinetuneConfig(epochs=4))
    with pytest.raises(ValueError, match="still running"):
        runs.delete(record)
    with pytest.raises(ValueError, match="still running"):
        followups.delete(Work(FINETUNING, folder), runs.read_entry(record))


def test_a_finished_one_says_what_it_brought(record):
    placed(record)
    page = page_at(run="mine")
    said = words(page).replace("\N{NO-BREAK SPACE}", " ")
    assert clean(page) and "keeping epoch 3: **97.5 %** ± 1.6 of 359 test images" in said
    assert "than before" in said and "the ensemble" in said


def test_the_result_is_a_tile_beside_the_others_and_one_of_several_is_chosen(record):
    assert "Fine-tuned" not in tiles(page_at(run="mine"))
    placed(record)
    other = FinetuneConfig(epochs=3, seed=5)
    placed(record, other, accuracy=96.0)
    page = page_at(run="mine", tuned=SHORT.key(record))
    assert "Fine-tuned: 97.5" in tiles(page) and "fused, then 3 epochs" in tiles(page)
    assert [network.facts["accuracy"] for network in networks_of(runs.read_entry(record))][1:] == [97.5, 96.0]
    page.selectbox(key="tuning-tuned").set_value(other.key(record)).run()
    assert clean(page) and "Fine-tuned: 96.0" in tiles(page)  # the tile follows the list below it


@pytest.mark.parametrize(
    ("start", "advice"),
    [(96.0, "A lower learning rate may help"), (100, "already gets every one of these images right")],
)
def test_one_that_kept_the_start_says_everywhere_that_nothing_changed(record, monkeypatch, start, advice):
    monkeypatch.setitem(BEFORE, "fused", start)
    placed(record, accuracy=94.0, accuracies=(start, 95.0, 96.0, 96.0))
    page = page_at(run="mine", tuned=SHORT.key(record))
    assert "so the network stays as it was" in words(page) and advice in words(page)
    assert "as fused: no epoch was better" in tiles(page) and "fused, then" not in tiles(page)
    assert networks_of(runs.read_entry(record))[1].name.endswith("fine-tuned 3 epochs (unchanged)")


@pytest.mark.parametrize(
    ("state", "error", "said"),
    [
        ("cancelled", "", "the finished epochs are kept"),
        ("failed", "training diverged in epoch 2.", "Not finished: training diverged in epoch 2."),
        ("running", "", "The worker was ended before it had finished"),
    ],
)
def test_how_an_unfinished_one_ended_is_said_and_it_can_go_on(record, sleeper, state, error, said):
    noted(placed(record, accuracy=None, accuracies=(94.0, 96.0)), state, error)
    page = page_at(run="mine")
    sentences = [element.value for element in [*page.warning, *page.error]]
    assert not page.exception and len(sentences) == 1 and said in sentences[0]
    page.button(key="tuning-again").click().run()
    assert not page.exception and followups.works_of(runs.read_entry(record), FINETUNING)[0].going


def test_one_can_be_deleted(record):
    folder = placed(record)
    page = page_at(run="mine", tuned=folder.name)
    page.button(key="fine-tuning-delete").click().run()
    assert clean(page) and not folder.exists() and "tuned" not in page.query_params
