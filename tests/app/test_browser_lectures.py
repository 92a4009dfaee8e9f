"""Lectures in a real browser: they fill a projector, and a presenter's keys go through them."""

import pytest

from .browsing import (
    at_rest,
    cut_or_touching,
    does_not_scroll_sideways,
    fits_its_window,
    press_until,
    smallest_text,
    steady,
)

pytestmark = [pytest.mark.slow, pytest.mark.browser]

LEVEL = "/levels?run=kf-gradient&level=features.0"
#: Of each step, what is nowhere else on the page.
SENTENCES = {
    "activations": "Neurons that respond alike to the same samples",
    "importance": "Importance says how much",
    "grouping": "neurons become",
    "targets": "Each group's target is",
    "fit": "the weights that bring the fused level close to its targets",
}
#: Paths, and what is to be seen once all is revealed.
SLIDES = {
    "/?run=kf-linear&slide=1&shown=99": ("clearly better than A alone",),
    "/?run=kf-linear&slide=2&shown=99": ("the fit brings +43.2",),
    "/?run=kf-linear&slide=3&shown=99": ("of accuracy",),
    "/landscape?run=hf-linear&slide=2&shown=1": ("The highest barrier is between", "HF-Linear 93.0"),
    **{f"{LEVEL}&step={step}": (words, "KF-Gradient 92.5") for step, words in SENTENCES.items()},
}
#: Those that are not among the long tests.
FEW = ("slide=1", "step=grouping")
#: Where the pictures of such a page end.
ENDS = """() => Math.max(...[...document.querySelectorAll(
    '.js-plotly-plot .xtick, .js-plotly-plot .xtitle, .js-plotly-plot .sankey')]
    .map(one => one.getBoundingClientRect().bottom))"""


@pytest.mark.parametrize("width", [1280, pytest.param(1920, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if any(part in path for part in FEW) else pytest.mark.long) for path in SLIDES],
)
def test_a_slide_fills_a_projector(open_page, path, width):
    height = width * 9 // 16
    page = open_page(f"{path}&lecture=1")
    page.set_viewport_size({"width": width, "height": height})
    page.get_by_role("button", name="Leave").wait_for()
    page.get_by_text(SLIDES[path][0]).first.wait_for()
    page.locator(":is(.retrofit-tiles,.retrofit-book,.js-plotly-plot)").first.wait_for()
    at_rest(page)
    if path.startswith(("/levels", "/landscape")):  # down to the last line, drawn anew for a larger window
        page.wait_for_function(f"least => ({ENDS})() > least", arg=0.88 * height)
        least = 16 * height / 720 * 0.97
        assert steady(lambda: smallest_text(page), lambda size: size >= least) >= least
        assert cut_or_touching(page) == []
    for words in SLIDES[path]:
        page.get_by_text(words).first.wait_for()
    assert fits_its_window(page) and does_not_scroll_sideways(page)
    assert not any(page.get_by_text(words).first.is_visible() for words in ("New fusion", "Keyboard shortcuts"))


def test_two_rows_of_networks_fit_a_slide(open_page):
    """As four networks have."""
    page = open_page("/?run=kf-linear&lecture=1&shown=9")
    page.set_viewport_size({"width": 1280, "height": 720})
    tiles = page.locator(".retrofit-tiles")
    tiles.wait_for()
    at_rest(page)
    tiles.evaluate("tiles => { tiles.append(tiles.children[0].cloneNode(true)); tiles.style.setProperty('--rows', 2) }")
    assert fits_its_window(page)


@pytest.mark.long
def test_a_presenters_keys_reveal_hide_and_leave(open_page):
    page = open_page("/?run=kf-linear")
    page.get_by_text("Take it with you").wait_for()
    at_rest(page)
    press_until(page, "l", "**lecture=1**")
    page.get_by_text("How many test images").wait_for()
    press_until(page, "PageDown", "**shown=3**")
    page.get_by_text("better than A alone").wait_for()
    press_until(page, "PageDown", "**slide=2**")
    page.keyboard.press("Escape")
    page.get_by_text("Take it with you").wait_for()
    page.wait_for_url(lambda url: "lecture" not in url and "shown" not in url)
