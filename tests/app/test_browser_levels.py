"""The Levels page in a real Chromium: stepping, picking, links, Back, a phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from retrofit_app import jobs

from .analyses import analysed
from .test_browser_fuse import PATIENCE, browser, open_page, playwright, pytestmark, screenshots  # noqa: F401

MARKED = "[aria-label^='Scatter plot of the neurons of level {}']"


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("levels")
    analysed(folder, jobs.BUNDLED / "kf-linear")
    with screenshots.served(folder) as found:
        yield found


def shown(page, level: str) -> None:
    """Wait until the three cluster pictures are a level's."""
    page.wait_for_function(
        """name => document.querySelectorAll(`[aria-label^="Scatter plot of the neurons of level ${name} on"]`).length === 3
        && document.querySelectorAll('.js-plotly-plot .main-svg').length > 0""",
        arg=level, timeout=PATIENCE,
    )  # fmt: skip
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
    page.wait_for_timeout(500)


def lasso(page) -> None:
    """Draw a box around the middle of the first cluster picture."""
    plot = page.locator(MARKED.format("features.0")).first.locator(".nsewdrag").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    x, y, w, h = box["x"], box["y"], box["width"], box["height"]
    page.mouse.move(x + 0.1 * w, y + 0.1 * h)
    page.mouse.down()
    for across, down in ((0.9, 0.1), (0.9, 0.9), (0.1, 0.9), (0.1, 0.1)):
        page.mouse.move(x + across * w, y + down * h, steps=6)
    page.mouse.up()


def test_keys_buttons_and_back_step_through_the_levels(open_page):  # noqa: F811
    page = open_page("/levels?run=analysed&level=features.0")
    shown(page, "features.0")
    before = page.evaluate("history.length")
    page.locator("h1").click()
    page.keyboard.press("j")
    shown(page, "features.2")
    assert "level=" not in page.url  # the default: where most is lost
    assert page.evaluate("history.length") == before + 1
    page.keyboard.press("End")
    shown(page, "classifier")
    page.get_by_role("button", name="Previous").click()
    shown(page, "features.5")
    page.go_back()
    shown(page, "classifier")
    assert page.get_by_role("combobox", name="Level").input_value().endswith("classifier") or "classifier" in page.url
    page.get_by_text("Keyboard shortcuts").click()
    page.wait_for_timeout(1500)
    page.locator("h1").click()
    page.keyboard.press("Home")
    page.wait_for_timeout(1500)
    shown(page, "classifier")


def test_a_lasso_fills_the_table_and_stays_across_levels_and_in_a_copied_link(open_page):  # noqa: F811
    page = open_page("/levels?run=analysed&level=features.0")
    shown(page, "features.0")
    lasso(page)
    page.get_by_text("neurons picked").wait_for()
    picked = page.get_by_text("neurons picked").inner_text()
    page.wait_for_url("**pick=**")
    page.get_by_role("button", name="Next").click()
    shown(page, "features.2")
    assert "pick=" in page.url and "neurons picked" in page.get_by_text("neurons picked").inner_text()
    page.go_back()
    shown(page, "features.0")
    link = page.get_by_test_id("stCode").filter(has_text="/levels?").first.inner_text().strip()
    context = page.context.browser.new_context(viewport={"width": 1280, "height": 900})
    other = context.new_page()
    other.set_default_timeout(PATIENCE)
    other.goto(link)
    shown(other, "features.0")
    assert other.get_by_text("neurons picked").inner_text() == picked
    context.close()


def test_a_click_on_the_strip_goes_to_that_level(open_page):  # noqa: F811
    page = open_page("/levels?run=analysed")
    shown(page, "features.2")
    strip = page.locator("[aria-label^='Bars of grouping and approximation']").first.locator(".nsewdrag").first
    box = strip.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.875, box["y"] + box["height"] * 0.5)
    shown(page, "classifier")
    assert "level=classifier" in page.url


def test_nonsense_is_named_and_the_menu_keeps_the_run(open_page):  # noqa: F811
    page = open_page("/levels?run=analysed&level=99")
    page.get_by_text("Ignored level=99").wait_for()
    shown(page, "features.2")
    assert page.title() == "Levels · analysed"
    page.get_by_role("link", name="Fuse").click()
    page.wait_for_url("**/?run=analysed")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_does_not_scroll_sideways_and_every_picture_has_words(open_page, scheme):  # noqa: F811
    page = open_page("/levels?run=analysed", width=390, scheme=scheme)
    shown(page, "features.2")
    widths = page.evaluate(
        "['html', '[data-testid=stMain]', '[data-testid=stMainBlockContainer]']"
        ".map(name => document.querySelector(name)).map(e => [e.scrollWidth, e.clientWidth])"
    )
    assert all(content <= wide for content, wide in widths)
    figures = page.locator("[data-testid=stPlotlyChart] [role=figure], [data-testid=stPlotlyChart][role=figure]")
    described = [figures.nth(index).get_attribute("aria-label") for index in range(figures.count())]
    assert len(described) == page.locator(".js-plotly-plot").count() >= 6
    assert all(text and any(digit in text for digit in "0123456789") for text in described)
