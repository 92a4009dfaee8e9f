"""Follow one example: through all networks, level by level, from the address, or drawn by hand."""

import shutil
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from retrofit_app import runs
from retrofit_app.figures import LIGHT, plain_text
from retrofit_app.figures.followed import Answer, answers, followed_words, steps
from retrofit_app.models import following, sources
from retrofit_app.widgets import readings

from .pages import clean, page_at, words

#: A three, as points from the upper left corner of a pad.
THREE = [[(43, 36), (72, 22), (100, 36), (94, 60), (72, 72), (98, 84), (104, 108), (72, 125), (40, 112)]]


@pytest.fixture(scope="module")
def entry() -> runs.Entry:
    return runs.read_entry(runs.BUNDLED / "kf-linear", shipped=True)


def test_a_parent_that_auto_kept_is_asked_once(entry, monkeypatch):
    monkeypatch.setattr(following.methods, "keeps_one", lambda _: "network A")
    assert following.names(entry) == ["parent 0", "parent 1", "average", "ensemble"]


@pytest.mark.long
def test_all_networks_answer_as_their_records_say_and_levels_as_the_analysis_says(entry):
    """Over all test images the answers give the recorded accuracies, those of the levels the accuracy after each level."""
    images, reports = sources.test_images(entry), readings.record(entry).levels
    labels, right, stopped = images.labels.tolist(), [], []
    for row, label in enumerate(labels):
        pixels = following.pixels_of(entry, row)
        right.append([answer.best == label for answer in following.answers(entry, pixels)])
        stopped.append([step.best == label for step in following.steps(entry, pixels, reports)])
    names = following.names(entry)
    assert names == ["parent 0", "parent 1", "average", "fused", "ensemble"]
    recorded = [entry.metrics["networks"][name]["accuracy"] for name in names]
    assert (100 * np.mean(right, 0)).tolist() == pytest.approx(recorded, abs=0.3)  # another machine rounds otherwise
    after = readings.overview(entry).accuracy[1:]
    assert (100 * np.mean(stopped, 0)).tolist() == pytest.approx(after, abs=0.3)
    known = following.right(entry)
    same = [
        np.mean(known[name] == np.array(column)) for name, column in zip(names, zip(*right, strict=True), strict=True)
    ]
    assert min(same) > 0.99


def test_a_drawing_becomes_an_image_as_high_as_those_of_the_data_wherever_and_however_large_it_is_drawn(entry):
    pixels = following.pixels_of_strokes(THREE, 8)
    image = np.frombuffer(pixels, np.uint8).reshape(8, 8)
    assert image[0].max() > 60 and image[7].max() > 60 and image[:, 0].max() < 60
    moved = [[(200 + 3 * x, 3 * y) for x, y in line] for line in THREE]
    assert following.pixels_of_strokes(moved, 8) == pixels
    large = np.frombuffer(following.pixels_of_strokes(THREE, 28), np.uint8).reshape(28, 28)
    rows = np.flatnonzero(large.max(1) > 30)
    assert rows[0] == 4 and rows[-1] == 23  # as MNIST has them: 20 of 28
    assert following.pixels_of_strokes([[(5.0, 5.0)]], 8)  # a dot
    assert [answer.best for answer in following.answers(entry, pixels) if answer.name == "fused"] == [3]


@pytest.mark.slow
def test_a_wheel_turns_while_the_networks_run(runs_folder, monkeypatch):
    turning, asked = [], []

    @contextmanager
    def wheel(*_, **__):
        turning.append(True)
        yield
        turning.pop()

    monkeypatch.setattr("streamlit.spinner", wheel)
    answer = following.answers
    monkeypatch.setattr(following, "answers", lambda *given: (asked.append(bool(turning)), answer(*given))[1])
    page_at(run="kf-linear", example="3")
    assert asked and all(asked)


def test_words_say_who_is_right_and_at_which_level_that_turns():
    classes, truth = ("cat", "owl"), 0

    def said(name: str, chance: float) -> Answer:
        return Answer(name, (chance, 1 - chance))

    rows = [said("parent 0", 0.9), said("parent 1", 0.2), said("fused", 0.3), said("ensemble", 0.6)]
    course = [said("conv", 0.7), said("<head>", 0.3)]
    sentence = followed_words("Test image 4", rows, course, classes, truth)
    assert "Right: A and the ensemble. Wrong: B (owl) and the fused network (owl)." in sentence
    assert sentence.endswith("lost at level 2, <head>.")
    one = followed_words("Test image 4", [rows[0], rows[2]], course, classes, truth)
    assert one.startswith("Test image 4 shows cat. Right: A. Wrong: the fused network (owl).") and one.endswith(
        "<head>."
    )
    assert followed_words("Your drawing", rows[:1], course, classes, None) == "Your drawing: A says cat."
    assert answers(rows, classes, truth, LIGHT).count("note wrong") == 2
    html = steps(course, classes, truth, "conv", LIGHT)
    assert html.count("level chosen") == 1 and "&lt;head&gt;" in html and "<head>" not in html


def test_one_network_has_neither_average_nor_ensemble(entry):
    entry = replace(entry, config=entry.config | {"models": entry.config["models"][:1]})
    assert following.names(entry) == ["parent 0", "fused"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "levels"])
def test_the_box_is_closed_until_the_address_names_an_example(runs_folder, name):
    page = page_at(name, run="kf-linear")
    assert clean(page) and "Level by level" not in words(page)
    assert "example-example" not in {each.key for each in page.selectbox}
    page = page_at(name, run="kf-linear", example="1")
    assert clean(page)
    assert "**Test image 1 shows 9**. Right: B, the fused network and the ensemble. Wrong: A (8)" in words(page)
    assert "Level by level" in words(page)
    page.selectbox(key="example-example").set_value("7").run()
    assert page.query_params["example"] == "7" and "Test image 7 shows" in words(page)
    page.selectbox(key="example-example").set_value("drawn").run()
    assert "Draw a digit in the black square." in words(page) and clean(page)


@pytest.mark.slow
def test_a_run_whose_networks_are_gone_says_so_and_the_page_stands(runs_folder):
    folder = runs_folder / "mine"
    shutil.copytree(runs.BUNDLED / "kf-linear", folder)
    config = folder / "config.json"
    config.write_text(config.read_text().replace("parent-0.safetensors", "gone.safetensors"))
    page = page_at(run="mine", example="1")
    assert not page.exception
    assert "The image cannot be followed: there is no checkpoint at runs/gone.safetensors." in plain_text(words(page))
