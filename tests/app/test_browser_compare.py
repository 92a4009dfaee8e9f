"""The page Compare in a real Chromium: ticks that lead to it, Back."""

import pytest

from retrofit_app.pages.fuse.history import HEAD, ROW

from .browsing import at_rest

pytestmark = pytest.mark.browser
PAGE = "/compare?runs=kf-gradient|kf-linear|hf-gradient"


def drawn(page, figures: int = 1) -> None:
    """So many pictures stand."""
    page.wait_for_function(
        "count => (plots => plots.length === count && plots.every(one => one.querySelector('.main-svg')))"
        "([...document.querySelectorAll('.js-plotly-plot')])",
        arg=figures,
    )
    at_rest(page)


@pytest.mark.long
def test_ticked_runs_lead_to_the_page(open_page):
    page = open_page("/?view=runs")
    table = page.locator("[data-testid=stDataFrame] .dvn-scroller").first
    for row in (1, 2):
        table.wait_for()
        at_rest(page)
        table.click(position={"x": 16, "y": HEAD + ROW * (row + 0.5)})
        page.get_by_text(f"{row} ticked").wait_for()
    link = page.get_by_role("link", name="Compare them side by side")
    link.wait_for()
    at_rest(page)
    link.click()
    page.wait_for_url("**/compare?*runs=*")
    drawn(page)
