"""The page Landscape in a real Chromium: measuring one, lines, Back, a phone."""

import pytest

from .browsing import act_until, at_rest

pytestmark = pytest.mark.browser
PAGE = "/landscape?run=hf-linear"


def drawn(page) -> None:
    """Both planes and the line stand."""
    page.wait_for_function(
        "(plots => plots.length === 3 && plots.every(one => one.querySelector('.main-svg')))"
        "([...document.querySelectorAll('.js-plotly-plot')])"
    )
    at_rest(page)


@pytest.mark.long
def test_a_landscape_is_measured_found_again_after_a_reload_and_shown(open_page):
    page = open_page(f"{PAGE}&resolution=5&images=32")
    drawn(page)
    page.get_by_text("Measure another landscape of this run").click()
    page.get_by_text("61 evaluations").or_(page.get_by_text("98 evaluations")).first.wait_for()
    page.get_by_role("button", name="Start", exact=True).or_(page.get_by_role("button", name="Show it")).click()
    page.wait_for_url("**map=*")
    page.reload()
    page.get_by_text("5 × 5 points, 32 images of digits").wait_for()
    drawn(page)
    # In the list beside the shipped one.
    page.get_by_role("combobox", name="Landscape").wait_for()


@pytest.mark.long
def test_another_line_is_drawn_and_back_returns(open_page):
    page = open_page(PAGE)
    drawn(page)
    act_until(page, "**path=1*", lambda: page.get_by_text("A – fused").click())
    page.get_by_text("From A to fused in a straight line").wait_for()
    page.go_back()
    page.get_by_text("From A to B in a straight line").wait_for()
