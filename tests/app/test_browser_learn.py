"""The page Learn in a browser: the explanation, live, in the workbench's theme, at the step that the address names."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_explanation_runs_within_the_workbench(open_page, scheme, width):
    said = []
    page = open_page("/learn?at=step%3D2", width=width, scheme=scheme)
    page.on("pageerror", lambda error: said.append(str(error)))
    frame = page.frame_locator("iframe[srcdoc]")
    frame.locator("html[data-theme]").wait_for()
    root = frame.locator("html")
    assert root.get_attribute("data-theme") == scheme
    assert root.get_attribute("data-state") == "step=2"
    frame.locator("main h1, main h2, h1").first.wait_for()
    assert page.frame_locator("iframe").get_by_role("heading", level=1).is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert not said
