"""Follow one example in a real Chromium: opened by a click, carried from page to page, drawn by hand."""

import pytest

from .browsing import at_rest, does_not_scroll_sideways
from .test_example import THREE

pytestmark = pytest.mark.browser
BOX = ".st-key-example-box"


def test_a_click_follows_an_example_and_the_next_page_shows_it(open_page):
    page = open_page("/?run=kf-linear")
    page.locator(f"{BOX} summary").click()  # once: a second click would close it again
    page.wait_for_url("**example=1")
    page.locator(".retrofit-followed .level").nth(3).wait_for()
    page.get_by_role("link", name="Levels", exact=True).click()
    page.wait_for_url("**/levels?**example=1")
    page.locator(".retrofit-followed .chosen").wait_for()
    at_rest(page)
    page.go_back()
    page.go_back()
    page.locator(f"{BOX} .retrofit-followed").wait_for(state="detached")


@pytest.mark.long
def test_a_digit_drawn_on_a_phone_is_answered(open_page):
    page = open_page("/levels?run=kf-linear&example=drawn", width=390)
    pad = page.locator(f"{BOX} canvas[role=img]")
    pad.scroll_into_view_if_needed()
    at_rest(page)
    box = pad.bounding_box()
    (x, y), *rest = ((box["x"] + x, box["y"] + y) for x, y in THREE[0])
    page.mouse.move(x, y)
    page.mouse.down()
    for x, y in rest:
        page.mouse.move(x, y, steps=4)
    page.mouse.up()
    page.get_by_text("Your drawing").filter(has_text="the fused network says 3").wait_for()
    assert does_not_scroll_sideways(page)
    at_rest(page)
    page.get_by_role("button", name="Clear", exact=True).click()
    page.get_by_text("Draw a digit in the black square").wait_for()
