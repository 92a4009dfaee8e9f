"""Lectures that are made of slides, in a real browser: they fill a projector, and a presenter's keys go through them."""

import pytest

from .browsing import at_rest, does_not_scroll_sideways, press_until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

RUNS = "kf-linear|hf-linear|hf-gradient|kf-gradient"
#: Paths, and what is to be seen once all is revealed.
SLIDES = {
    "/?run=kf-linear&slide=1": "not clearly different from the ensemble",
    "/?run=kf-linear&slide=2": "the fit brings",
    "/?run=kf-linear&slide=3": "has the largest error",
    f"/compare?runs={RUNS}": "are tied with 93.0",
}


@pytest.mark.parametrize("width", [1280, 1920])
@pytest.mark.parametrize("path", SLIDES)
def test_a_slide_fills_a_projector(open_page, path, width):
    height = width * 9 // 16
    page = open_page(f"{path}&lecture=1&shown=99")
    page.set_viewport_size({"width": width, "height": height})
    page.get_by_role("button", name="Leave").wait_for()
    page.get_by_text(SLIDES[path]).first.wait_for()
    page.locator(":is(.retrofit-tiles,.retrofit-book,.js-plotly-plot)").first.wait_for()
    at_rest(page)
    assert page.evaluate(
        "(main => main.scrollHeight <= main.clientHeight)(document.querySelector('[data-testid=stMain]'))"
    )
    assert does_not_scroll_sideways(page) and not page.get_by_text("New fusion").first.is_visible()


@pytest.mark.long
def test_a_presenters_keys_reveal_hide_and_leave(open_page):
    page = open_page("/?run=kf-linear")
    page.get_by_text("Take it with you").wait_for()
    at_rest(page)
    press_until(page, "l", "**lecture=1**")
    page.get_by_text("How many test images").wait_for()
    press_until(page, "PageDown", "**shown=3**")
    page.get_by_text("better than A alone").wait_for()
    press_until(page, "n", "**notes=1**")
    page.get_by_text("Let the audience guess").wait_for()
    at_rest(page)
    page.keyboard.press("l")
    page.get_by_text("Take it with you").wait_for()
    assert "lecture" not in page.url and "shown" not in page.url
