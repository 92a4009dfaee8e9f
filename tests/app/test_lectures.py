"""Lecture mode on every page that has it: slides, answers that are revealed, and the way out; without a browser."""

import pytest

from tests.marks import each_case

from .pages import clean, spoken, words

pytestmark = pytest.mark.slow


def html(page, what: str) -> str:
    return next((element.value for element in page.get("html") if f"class='{what}'" in element.value), "")


def press(page, key: str):
    return page.button(key=f"go-{key}").click().run()


def test_tiles_wait_until_they_are_revealed_one_after_the_other(runs_folder):
    page = spoken(run="kf-linear")
    tiles = html(page, "retrofit-tiles")
    assert clean(page) and "Network A: 49.6" in tiles and "Plain average: ?" in tiles and "Fused: ?" in tiles
    assert "93.0" not in tiles and "24.2" not in tiles and "93.0" not in words(page).replace("KF-Linear 93.0", "")
    assert "How many test images" in words(page) and not page.get("download_button")
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


def test_a_link_opens_the_same_slide(runs_folder):
    page = spoken(run="kf-linear", slide="2", shown="9")
    assert clean(page) and "the fit brings +43.2 points in random groups" in words(page)
    press(page, "page")
    assert clean(page) and not {"lecture", "slide", "shown"} & set(page.query_params) and page.get("download_button")
    press(page, "lecture")
    assert page.query_params["lecture"] == "1" and "How many test images" in words(page)


@each_case(("name", "address"), [("levels", {"level": "features.0"}), ("levels", {"step": "fit"}), ("landscape", {})])
def test_a_lecture_has_a_way_out_and_nothing_wrong(runs_folder, name, address):
    page = spoken(name, run="kf-linear", **address)
    assert clean(page) and clean(press(page, "page")) and "lecture" not in page.query_params
