"""The Levels page in a real Chromium: stepping, picking, links, Back. The run is a shipped one."""

import pytest

from .browsing import act_until, at_rest, press_until, shown

pytestmark = pytest.mark.browser
RUN = "/levels?run=kf-gradient"
FIRST, LAST = "features.0", "classifier"
#: Collects the heights at which the ribbon of a lecture is seen, from now on.
SEEN = """() => { window.seen = []; const look = () => {
    if (document.querySelector('.st-key-go-page'))
        document.querySelectorAll('.js-plotly-plot:has(.sankey)').forEach(one => window.seen.push(one.clientHeight))
    requestAnimationFrame(look)
}; look() }"""


@pytest.mark.long
def test_keys_buttons_clicks_and_back_step_through_the_levels(open_page):
    page = open_page(f"{RUN}&level={FIRST}")
    shown(page, FIRST)
    assert page.title() == "Levels · kf-gradient"
    before = page.evaluate("history.length")
    page.locator("h1").click()
    page.keyboard.press("j")
    shown(page, "features.2")
    assert page.evaluate("history.length") == before + 1
    page.keyboard.press("End")
    shown(page, LAST)
    page.get_by_role("button", name="Previous").click()
    shown(page, "features.5")
    page.keyboard.press("k")
    shown(page, "features.2")
    page.go_back()
    shown(page, "features.5")
    press_until(page, "Home", f"**level={FIRST}**")
    shown(page, FIRST)
    page.locator("button:disabled", has_text="Previous").first.wait_for()
    network = page.locator("[aria-label^='Points of accuracy']").first.locator(".nsewdrag").first
    network.scroll_into_view_if_needed()
    box = network.bounding_box()
    last = box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.5
    act_until(page, f"**level={LAST}**", lambda: page.mouse.click(*last))
    shown(page, LAST)
    page.get_by_text("Keyboard shortcuts").click()
    page.locator(".st-key-go-next kbd").first.wait_for(state="detached")
    at_rest(page)
    page.locator("h1").click()
    page.keyboard.press("Home")
    # Had the key counted, the level before would be another.
    page.get_by_role("button", name="Previous").click()
    shown(page, "features.5")


def test_a_lecture_begins_at_its_size_and_has_no_frame(open_page):
    """It was drawn small and jumped; a click on the background left a frame of the focus around the page."""
    page = open_page(f"{RUN}&level={FIRST}")
    page.set_viewport_size({"width": 1920, "height": 1080})
    shown(page, FIRST)
    page.mouse.click(1900, 1000)
    page.evaluate(SEEN)
    press_until(page, "l", "**lecture=1**")
    page.get_by_role("button", name="Leave").wait_for()
    shown(page, FIRST)
    page.wait_for_function("window.seen.length > 0")
    assert min(page.evaluate("window.seen")) > 480
    assert page.evaluate("getComputedStyle(document.querySelector('[data-testid=stMain]')).outlineStyle") == "none"


def test_a_lecture_is_entered_turned_and_left_by_keys(open_page):
    page = open_page(f"{RUN}&level={FIRST}&step=targets&lecture=1")
    page.get_by_role("button", name="Leave").wait_for()
    press_until(page, "PageDown", "**step=fit**")
    press_until(page, "PageDown", "**level=features.2**step=activations**")
    press_until(page, "ArrowLeft", f"**level={FIRST}**step=fit**")
    press_until(page, "j", "**level=features.2**")
    at_rest(page)
    page.keyboard.press("l")
    page.get_by_text("How to read this").wait_for()
    page.wait_for_url(lambda url: "lecture" not in url and "level=features.2" in url)
    at_rest(page)
    press_until(page, "l", "**lecture=1**")
    page.get_by_role("button", name="Leave").click()
    page.get_by_text("How to read this").wait_for()
