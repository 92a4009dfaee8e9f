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
    "activations": "Neurons that lie close together answer alike",
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
    press_until(page, "Home", f"**level={FIRST}**")
    shown(page, FIRST)
    assert page.get_by_role("button", name="Previous").is_disabled()


def test_keys_can_be_switched_off(open_page):
    page = open_page(f"{RUN}&level=features.5")
    shown(page, "features.5")
    page.get_by_text("Keyboard shortcuts").click()
    page.locator(".st-key-go-next kbd").first.wait_for(state="detached")
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


def test_a_click_on_the_drawn_network_goes_to_that_level(open_page):
    page = open_page(f"{RUN}&level=features.2")
    shown(page, "features.2")
    network = page.locator("[aria-label^='The networks drawn with']").first.locator(".nsewdrag").first
    box = network.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.5)
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


def test_the_cluster_pictures_stand_above_the_fold_of_a_laptop(open_page):
    page = open_page(f"{RUN}&level={FIRST}")
    page.set_viewport_size({"width": 1280, "height": 800})
    shown(page, FIRST)
    frames = page.locator(f"{PICTURES.format(FIRST)} .nsewdrag")
    boxes = [frames.nth(index).bounding_box() for index in range(3)]
    assert max(box["y"] + box["height"] for box in boxes) <= 800  # whole, not begun
    toolbar = page.locator(".st-key-toolbar").bounding_box()
    assert toolbar["y"] + toolbar["height"] <= min(box["y"] for box in boxes)
    heading = page.locator(".st-key-head-clusters-uniform").bounding_box()
    assert boxes[0]["y"] - heading["y"] - heading["height"] <= 20  # no dead space


@pytest.mark.parametrize("step", list(SENTENCES))
@pytest.mark.parametrize("width,height", [(1280, 720), (1920, 1080)])
def test_a_lecture_fills_a_projector_and_keeps_run_and_sentence(open_page, step, width, height):
    page = open_page(f"{RUN}&level={FIRST}&step={step}&lecture=1")
    page.set_viewport_size({"width": width, "height": height})
    page.get_by_role("button", name="Leave").wait_for()
    page.wait_for_function(  # drawn anew for a larger window
        "least => [...document.querySelectorAll('.js-plotly-plot text')].length"
        " && Math.max(...[...document.querySelectorAll('.js-plotly-plot')].map(one => one.clientHeight)) > least",
        arg=0.4 * height,
    )
    at_rest(page)
    assert page.evaluate(
        "(main => main.scrollHeight <= main.clientHeight)(document.querySelector('[data-testid=stMain]'))"
    )
    assert does_not_scroll_sideways(page)
    ends = page.evaluate(
        "[...document.querySelectorAll('.js-plotly-plot .xtick, .js-plotly-plot .xtitle')]"
        ".map(one => one.getBoundingClientRect().bottom)"
    )
    assert max(ends) >= 0.88 * height  # down to the last line, which is a key or none
    assert smallest_text(page) >= 16 * height / 720 * 0.97
    assert page.get_by_text(SENTENCES[step]).is_visible() and page.get_by_text("KF-Gradient 92.5").is_visible()
    assert not page.get_by_text("Keyboard shortcuts").is_visible()


def test_a_lecture_is_entered_and_left_by_a_key(open_page):
    page = open_page(f"{RUN}&level={FIRST}&lecture=1")
    page.get_by_role("button", name="Leave").wait_for()
    press_until(page, "j", "**level=features.2**")
    at_rest(page)
    page.keyboard.press("l")
    page.get_by_text("How to read this").wait_for()
    at_rest(page)
    assert "lecture" not in page.url and "level=features.2" in page.url
    press_until(page, "l", "**lecture=1**")
    page.get_by_role("button", name="Leave").click()
    page.get_by_text("How to read this").wait_for()


def test_a_presenters_keys_turn_the_steps_and_then_the_levels(open_page):
    page = open_page(f"{RUN}&level={FIRST}&step=targets&lecture=1")
    page.get_by_role("button", name="Leave").wait_for()
    press_until(page, "PageDown", "**step=fit**")
    press_until(page, "PageDown", "**level=features.2**step=activations**")
    press_until(page, "PageUp", f"**level={FIRST}**step=fit**")
    press_until(page, "ArrowLeft", "**step=targets**")


def test_home_and_end_lead_through_a_lecture(open_page):
    page = open_page(f"{RUN}&level={FIRST}&lecture=1")
    page.get_by_role("button", name="Leave").wait_for()
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
def test_what_a_pictures_menu_saves_says_where_it_comes_from(open_page, kind):
    page = open_page(f"{RUN}&level={FIRST}")
    shown(page, FIRST)
    page.locator(".st-key-menu-clusters-uniform button:visible").click()
    button = page.get_by_role("button", name=kind.upper(), exact=True)
    button.wait_for()
    at_rest(page)
    with page.expect_download() as download:
        button.click()
    saved = download.value.path().read_bytes()
    assert download.value.suggested_filename == f"kf-gradient-1-{FIRST}-clusters-uniform.{kind}"
    if kind == "png":
        assert saved.startswith(b"\x89PNG")
        return
    words = saved.decode()
    for part in ("Run kf-gradient of 20", "retrofit-workbench", "licence holds"):
        assert part in words
    height = float(re.search(r'height="([\d.]+)"', words)[1])
    figure = page.locator(PICTURES.format(FIRST)).first
    assert height == figure.locator(".js-plotly-plot").or_(figure).first.bounding_box()["height"]


def test_a_pictures_menu_has_its_numbers_a_link_and_the_command(open_page):
    page = open_page(f"{RUN}&level={FIRST}&pick=A3")
    shown(page, FIRST)
    page.locator(".st-key-menu-clusters-uniform button:visible").click()
    menu = page.locator("[data-testid=stPopoverBody]")
    menu.locator("[data-testid=stDataFrame] canvas").first.wait_for()
    with page.expect_download() as download:
        menu.get_by_role("button", name="CSV", exact=True).click()
    assert download.value.suggested_filename == f"kf-gradient-1-{FIRST}-clusters-uniform.csv"
    menu.get_by_role("tab", name="Link").click()
    menu.get_by_text("pick=A3").wait_for()
    menu.get_by_role("tab", name="Command").click()
    menu.get_by_text("retrofit fuse").first.wait_for()


def test_nonsense_is_named_and_the_menu_keeps_the_run(open_page):
    page = open_page(f"{RUN}&level=99&step=none&score=luck&seed=x&pick=%3Cb%3E")
    for word in ("level=99", "step=none", "score=luck", "seed=x", "pick=<b>"):
        page.get_by_text(f"Ignored {word}").wait_for()
    assert page.title() == "Levels · kf-gradient"
    page.get_by_role("link", name="Fuse").click()
    page.wait_for_url("**/?run=kf-gradient")


def test_on_a_phone_no_control_lies_on_another_and_no_key_is_named(open_page):
    page = open_page(f"{RUN}&level={FIRST}", width=390)
    shown(page, FIRST)
    assert page.locator("[data-testid=stMain] kbd:visible").count() == 0
    for bar in (".st-key-stepper", ".st-key-facts", ".st-key-toolbar"):
        controls = page.locator(f"{bar} > *:visible")
        boxes = [box for index in range(controls.count()) if (box := controls.nth(index).bounding_box())["width"] > 0]
        for i, one in enumerate(boxes):
            assert not any(overlap(one, other) for other in boxes[:i]), (bar, one)


def overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether two boxes share more than their edges."""
    return all(
        one[start] + 1 < other[start] + other[size] and other[start] + 1 < one[start] + one[size]
        for start, size in (("x", "width"), ("y", "height"))
    )


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
    fill = page.evaluate("getComputedStyle(document.querySelector('.js-plotly-plot .xtick text')).fill")
    assert fill == {"light": "rgb(89, 89, 85)", "dark": "rgb(169, 169, 164)"}[scheme]
