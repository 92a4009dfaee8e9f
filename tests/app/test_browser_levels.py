"""The Levels page in a real Chromium: stepping, picking, links, Back, a phone. The run is a shipped one."""

import re

import pytest

from .browsing import at_rest, does_not_scroll_sideways, press_until, shown, words_of_figures

pytestmark = pytest.mark.browser
RUN = "/levels?run=kf-gradient"
FIRST, LAST = "features.0", "classifier"
PICTURES = "[aria-label^='Scatter plot of the neurons of level {}']"

#: Of each step, what is nowhere else on the page.
SENTENCES = {
    "activations": "The networks see the same samples",
    "importance": "Importance says how much",
    "grouping": "groups that respond alike",
    "targets": "Each group's target is",
    "fit": "The weights of the fused level",
}


def picture(page, level: str):
    """What is drawn on, in the first cluster picture of a level."""
    plot = page.locator(PICTURES.format(level)).first.locator(".nsewdrag").first
    plot.scroll_into_view_if_needed()
    return plot


def lasso(page, level: str) -> None:
    """Draw around the middle of the first cluster picture."""
    box = picture(page, level).bounding_box()
    x, y, w, h = box["x"], box["y"], box["width"], box["height"]
    page.mouse.move(x + 0.1 * w, y + 0.1 * h)
    page.mouse.down()
    for across, down in ((0.9, 0.1), (0.9, 0.9), (0.1, 0.9), (0.1, 0.1)):
        page.mouse.move(x + across * w, y + down * h, steps=6)
    page.mouse.up()


def test_keys_buttons_and_back_step_through_the_levels(open_page):
    page = open_page(f"{RUN}&level={FIRST}")
    shown(page, FIRST)
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
    page.get_by_role("button", name="First").click()
    shown(page, FIRST)
    assert page.get_by_role("button", name="First").is_disabled()


def test_keys_can_be_switched_off(open_page):
    page = open_page(f"{RUN}&level=features.5")
    shown(page, "features.5")
    page.get_by_text("Keyboard shortcuts").click()
    page.get_by_role("button", name="Home").wait_for(state="detached")
    at_rest(page)
    page.locator("h1").click()
    page.keyboard.press("Home")
    page.keyboard.press("k")
    # Had a key counted, the level after the next one would be another.
    page.get_by_role("button", name="Next").click()
    shown(page, LAST)
    assert f"level={LAST}" in page.url


def test_a_lasso_fills_the_table_and_stays_across_levels_and_in_a_copied_link(open_page):
    page = open_page(f"{RUN}&level={FIRST}")
    shown(page, FIRST)
    lasso(page, FIRST)
    page.get_by_text("neurons picked").wait_for()
    picked = page.get_by_text("neurons picked").inner_text()
    page.wait_for_url("**pick=**")
    page.get_by_role("button", name="Next").click()
    shown(page, "features.2")
    assert "pick=" in page.url and page.get_by_text("neurons picked").is_visible()
    page.go_back()
    shown(page, FIRST)
    link = page.get_by_test_id("stCode").filter(has_text="/levels?").first.inner_text().strip()
    other = open_page(link.removeprefix(page.base))
    shown(other, FIRST)
    assert other.get_by_text("neurons picked").inner_text() == picked
    other.get_by_role("button", name="Clear pick").click()
    other.get_by_text("neurons picked").wait_for(state="detached")
    assert "pick=" not in other.url


def test_a_row_of_the_table_puts_a_ring_into_the_pictures(open_page):
    page = open_page(f"{RUN}&level={FIRST}&pick=A0-3")
    shown(page, FIRST)
    page.get_by_text("4 neurons picked").wait_for()
    table = page.locator("[data-testid=stDataFrame]").filter(has=page.locator("canvas")).first
    table.scroll_into_view_if_needed()
    box = table.bounding_box()
    page.mouse.click(box["x"] + 16, box["y"] + 53)  # the box before the first row
    page.wait_for_url("**mark=A0*")
    shown(page, FIRST)


def test_a_click_on_the_strip_goes_to_that_level(open_page):
    page = open_page(f"{RUN}&level=features.2")
    shown(page, "features.2")
    strip = page.locator("[aria-label^='Bars of grouping and approximation']").first.locator(".nsewdrag").first
    box = strip.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.875, box["y"] + box["height"] * 0.5)
    shown(page, LAST)
    assert f"level={LAST}" in page.url


def test_a_click_on_an_index_shows_its_two_groupings(open_page):
    page = open_page(f"{RUN}&level={FIRST}")
    shown(page, FIRST)
    matrix = page.locator("[aria-label^='Matrix of adjusted Rand']").first.locator(".nsewdrag").first
    matrix.scroll_into_view_if_needed()
    box = matrix.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 6)  # the first row, in the middle
    page.wait_for_url("**pair=uniform-conductance**")
    at_rest(page)
    pictures = page.locator(PICTURES.format(FIRST))
    page.wait_for_function("name => document.querySelectorAll(name).length === 2", arg=PICTURES.format(FIRST))
    assert pictures.nth(0).bounding_box()["y"] == pictures.nth(1).bounding_box()["y"]  # side by side


@pytest.mark.parametrize("step", list(SENTENCES))
def test_a_lecture_fits_a_projector_and_is_left_by_a_key(open_page, step):
    page = open_page(f"{RUN}&level={FIRST}&step={step}&lecture=1")
    page.set_viewport_size({"width": 1280, "height": 720})
    page.get_by_role("button", name="Leave").wait_for()
    page.locator(".js-plotly-plot .main-svg").nth(1).wait_for()
    at_rest(page)
    assert page.evaluate(
        "(main => main.scrollHeight <= main.clientHeight)(document.querySelector('[data-testid=stMain]'))"
    )
    assert smallest_text(page) >= 16
    assert page.get_by_text(SENTENCES[step]).count() == 0 and not page.get_by_text("Keyboard shortcuts").is_visible()
    page.keyboard.press("j")
    page.wait_for_url("**level=features.2**")
    at_rest(page)
    page.keyboard.press("l")
    page.get_by_text(SENTENCES[step]).wait_for()
    at_rest(page)
    assert "lecture" not in page.url and "level=features.2" in page.url
    page.keyboard.press("l")
    page.wait_for_url("**lecture=1**")
    page.get_by_role("button", name="Leave").click()
    page.get_by_text(SENTENCES[step]).wait_for()


def test_home_and_end_lead_through_a_lecture(open_page):
    page = open_page(f"{RUN}&level={FIRST}&lecture=1")
    page.get_by_role("button", name="Leave").wait_for()
    assert page.locator(".st-key-go-first:visible, .st-key-go-last:visible").count() == 0  # room for the pictures
    press_until(page, "End", "**level=classifier**")
    press_until(page, "Home", "**level=features.0**")


def smallest_text(page) -> float:
    """Pixels of the smallest lettering that is seen; a picture's foot, which only its file shows, is none."""
    return page.evaluate(
        """() => Math.min(...[...document.querySelectorAll('[data-testid=stMain] *')].filter(one => {
            const box = one.getBoundingClientRect();
            return [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())
                && box.width > 0 && box.height > 0 && box.right > 0
                && !one.closest('.gtitle, [data-testid=stMaterialIcon], style');
        }).map(one => parseFloat(getComputedStyle(one).fontSize)))"""
    )


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_what_the_camera_saves_says_where_it_comes_from(open_page, kind):
    page = open_page(f"{RUN}&level={FIRST}")
    shown(page, FIRST)
    if kind == "png":
        page.get_by_role("radio", name="PNG").click()
        page.wait_for_url("**format=png**")
        shown(page, FIRST)
    figure = page.locator(PICTURES.format(FIRST)).first
    figure.hover()
    with page.expect_download() as download:
        figure.locator(".modebar-btn").first.click()
    saved = download.value.path().read_bytes()
    assert download.value.suggested_filename == f"kf-gradient-1-{FIRST}-clusters-uniform.{kind}"
    if kind == "png":
        assert saved.startswith(b"\x89PNG")
        return
    words = saved.decode()
    for part in ("Run kf-gradient of 20", "retrofit-workbench", "licence holds"):
        assert part in words
    height = float(re.search(r'height="([\d.]+)"', words)[1])
    assert height == figure.locator(".js-plotly-plot").or_(figure).first.bounding_box()["height"]


def test_nonsense_is_named_and_the_menu_keeps_the_run(open_page):
    page = open_page(f"{RUN}&level=99&step=none&score=luck&seed=x&pick=%3Cb%3E")
    for word in ("level=99", "step=none", "score=luck", "seed=x", "pick=<b>"):
        page.get_by_text(f"Ignored {word}").wait_for()
    assert page.title() == "Levels · kf-gradient"
    page.get_by_role("link", name="Fuse").click()
    page.wait_for_url("**/?run=kf-gradient")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_does_not_scroll_sideways_and_every_picture_of_every_step_has_words(open_page, scheme):
    page = open_page(f"{RUN}&level=features.2", width=390, scheme=scheme)
    shown(page, "features.2")
    for number, step in enumerate(("activations", "importance", "grouping", "targets", "fit"), 1):
        page.get_by_text(f"{number} {step}", exact=True).click()
        page.get_by_text(SENTENCES[step]).wait_for()
        at_rest(page)
        assert does_not_scroll_sideways(page), step
        words = words_of_figures(page)
        assert len(words) >= 4 and all(text and any(map(str.isdigit, text)) for text in words), step
    fill = page.evaluate("getComputedStyle(document.querySelector('.js-plotly-plot .ytick text')).fill")
    assert fill == {"light": "rgb(89, 89, 85)", "dark": "rgb(169, 169, 164)"}[scheme]
