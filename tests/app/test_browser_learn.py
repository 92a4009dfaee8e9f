"""The page Learn in a browser: the explanation, live, in the workbench's theme, at the step that the address names."""

import pytest

from .browsing import steady

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_explanation_runs_within_the_workbench(open_page, scheme, width):
    said = []
    page = open_page("/learn?at=step%3D2", width=width, scheme=scheme)
    page.on("pageerror", lambda error: said.append(str(error)))
    frame = page.frame_locator("iframe")
    frame.get_by_text("2 of 9").wait_for()
    assert frame.locator("html").get_attribute("data-theme") == scheme
    assert frame.get_by_role("heading", level=1).is_visible()
    assert steady(lambda: page.evaluate("(one => one.scrollWidth <= one.clientWidth)(document.documentElement)"))
    assert not said


def test_the_address_keys_and_the_window_are_the_explanations(open_page):
    """Steps are steps of Back, a reload and a copied link bring back what was shown, and a lecture fills the window."""
    page = open_page("/learn")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    frame = page.frame_locator("iframe")
    place = frame.locator("#place")
    place.get_by_text("1 of 9").wait_for()
    page.mouse.click(60, 850)  # beside the frame
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**/learn?at=step%3D2")
    page.keyboard.press("j")
    page.wait_for_url("**/learn?at=step%3D3")
    frame.get_by_role("radio", name="second layer").check()
    page.wait_for_url("**/learn?at=step%3D3%26level%3D2")
    page.reload()
    place.get_by_text("3 of 9").wait_for()
    assert frame.get_by_role("radio", name="second layer").is_checked()
    page.go_back()
    page.go_back()
    place.get_by_text("2 of 9").wait_for()
    page.keyboard.press("l")
    page.wait_for_url("**lecture**")
    window = {"x": 0, "y": 0, "width": 1280, "height": 900}
    assert steady(page.locator("iframe").bounding_box, lambda box: box == window) == window
    page.keyboard.press("Escape")
    frame.get_by_role("link", name="9").click()
    frame.get_by_role("button", name="Copy link").click()
    link = f"{page.base}/learn?at=step%3D9"
    assert steady(lambda: page.evaluate("navigator.clipboard.readText()"), lambda text: text == link) == link
