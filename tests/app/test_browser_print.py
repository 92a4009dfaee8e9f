"""Pages on paper, and what a keyboard's focus looks like."""

import pytest

from .browsing import at_rest

pytestmark = [pytest.mark.slow, pytest.mark.browser]
SHEET = 1104  # px, the room on a sheet of style.css


@pytest.mark.parametrize("path", ["/", "/levels"])
def test_a_page_prints_whole_without_its_menu(open_page, path):
    page = open_page(path)
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    at_rest(page)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": SHEET, "height": 1593})
    assert page.get_by_test_id("stSidebar").is_hidden()
    assert page.evaluate("getComputedStyle(document.querySelector('.stMain')).overflowY") == "visible"
    assert page.evaluate("document.documentElement.scrollHeight") > 1200, "the whole page, not a window of it"
    page.wait_for_function("most => document.documentElement.scrollWidth <= most", arg=SHEET)
    assert all(one.bounding_box()["width"] > 200 for one in page.locator(".retrofit-neurons .base").all())


def test_a_focused_link_does_not_look_like_the_shown_page(open_page):
    page = open_page("/")
    link = page.get_by_role("link", name="Landscape").first
    page.get_by_role("link", name="Levels").first.focus()
    page.keyboard.press("Tab")
    look = "link => [getComputedStyle(link).backgroundColor, getComputedStyle(link).outlineStyle]"
    assert link.evaluate(look) == ["rgba(0, 0, 0, 0)", "solid"]
