"""The Levels page in a real Chromium: stepping, picking, links, Back, a phone. The run is a shipped one."""

import re

import pytest

from retrofit_app.address import neurons

from .browsing import PATIENCE, act_until, at_rest, press_until, shown, steady

pytestmark = pytest.mark.browser
RUN = "/levels?run=kf-gradient"
PHONE = "Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Mobile Safari/537.36"
FIRST, LAST = "features.0", "classifier"
PICTURES = ".retrofit-neurons .frame"
TIP = ".retrofit-neurons .tip"
#: Collects the heights at which cluster pictures of a lecture are seen, from now on.
SEEN = """() => { window.seen = []; const look = () => {
    if (document.querySelector('.st-key-go-page'))
        document.querySelectorAll('.retrofit-neurons .frame').forEach(one => window.seen.push(one.clientHeight))
    requestAnimationFrame(look)
}; look() }"""


def box_of(page, index: int = 0) -> dict[str, float]:
    """Where one of the cluster pictures lies in the window."""
    frame = page.locator(PICTURES).nth(index)
    frame.scroll_into_view_if_needed()
    return frame.bounding_box()


def draw_around(page, index: int = 0) -> None:
    """Draw around the middle of a cluster picture."""
    box = box_of(page, index)
    x, y, w, h = box["x"], box["y"], box["width"], box["height"]
    page.mouse.move(x + 0.1 * w, y + 0.1 * h)
    page.mouse.down()
    for across, down in ((0.9, 0.1), (0.9, 0.9), (0.1, 0.9), (0.1, 0.1)):
        page.mouse.move(x + across * w, y + down * h, steps=6)
    page.mouse.up()


def over_a_neuron(page, index: int = 0) -> str:
    """Move the pointer over one neuron of a picture, and what the tip says then."""
    box = box_of(page, index)
    for across in range(20, 80, 2):
        for down in range(15, 75, 4):
            page.mouse.move(box["x"] + box["width"] * across / 100, box["y"] + box["height"] * down / 100)
            if page.locator(TIP).is_visible():
                return page.locator(TIP).inner_text()
    raise AssertionError("no neuron was found in the picture")


def ink_of(page, layer: str) -> list[int]:
    """How many parts are drawn of each picture: of `base`, the picture itself, or of `over`, what follows the pointer."""
    parts = "layer => [...document.querySelectorAll(`.retrofit-neurons .${layer}`)].map(one => one.childElementCount)"
    return page.evaluate(parts, layer)


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
    network = page.locator("[aria-label^='The networks drawn with']").first.locator(".nsewdrag").first
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


@pytest.mark.long
def test_a_lasso_fills_the_table_and_stays_in_a_copied_link(open_page):
    page = open_page(f"{RUN}&level={FIRST}")
    shown(page, FIRST)
    draw_around(page)
    page.get_by_text("neurons picked").wait_for()
    picked = page.get_by_text("neurons picked").inner_text()
    page.wait_for_url("**pick=**")
    page.get_by_role("button", name="Next").click()
    shown(page, "features.2")
    page.get_by_text("neurons picked").wait_for(state="detached")  # there the same numbers are other neurons
    page.wait_for_url(lambda url: "pick=" not in url)
    page.go_back()
    shown(page, FIRST)
    page.get_by_text("Take it with you").click()
    code = page.get_by_test_id("stCode").filter(has_text="/levels?").first
    code.wait_for()
    link = code.inner_text().strip()
    other = open_page(link.removeprefix(page.base))
    shown(other, FIRST)
    other.get_by_text(picked, exact=True).wait_for()
    tick_first_row(other)
    shown(other, FIRST)
    other.get_by_role("button", name="Clear pick").click()
    other.get_by_text("neurons picked").wait_for(state="detached")
    other.wait_for_url(lambda url: "pick=" not in url)


def tick_first_row(page) -> None:
    """Tick the first row of the table of picked neurons."""
    table = page.locator("[data-testid=stDataFrame]").filter(has=page.locator("canvas")).first
    table.scroll_into_view_if_needed()
    box = table.bounding_box()
    page.mouse.click(box["x"] + 16, box["y"] + 53)
    page.wait_for_url("**mark=**")


@pytest.mark.long
def test_a_click_picks_shift_adds_and_escape_clears(open_page):
    page = open_page(f"{RUN}&level={FIRST}&pick=A0")
    shown(page, FIRST)
    first = re.match(r"neuron (\w+)", over_a_neuron(page))[1]
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url(lambda url: picked(url) == {first})
    at_rest(page)
    page.keyboard.press("ArrowDown")
    second = re.match(r"neuron (\w+)", page.locator(TIP).inner_text())[1]
    page.keyboard.press("Shift+Enter")
    page.wait_for_url(lambda url: picked(url) == {first, second})
    page.get_by_text("2 neurons picked").first.wait_for()
    page.keyboard.press("Escape")
    page.wait_for_url(lambda url: "pick=" not in url)


@pytest.mark.long
def test_a_click_on_a_heading_makes_the_tables_follow_its_score(open_page):
    page = open_page(f"{RUN}&level={FIRST}")
    shown(page, FIRST)
    heading = page.get_by_role("button", name="Uniform", exact=True)
    assert heading.get_attribute("aria-pressed") == "false"
    act_until(page, "**score=uniform**", heading.click)
    page.locator(".retrofit-neurons .score[aria-pressed=true]").filter(has_text="Uniform").wait_for()
    page.get_by_role("button", name="Conductance", exact=True).press("Enter")
    page.wait_for_url(lambda url: "score=" not in url)  # that of the run


@pytest.mark.long
def test_pictures_are_gone_through_by_keyboard(open_page):
    page = open_page(f"{RUN}&level={FIRST}&lecture=1")
    page.get_by_role("button", name="Leave").wait_for()
    shown(page, FIRST)
    page.locator(PICTURES).nth(1).focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    one = page.locator(TIP).inner_text()
    page.keyboard.press("ArrowRight")
    other = page.locator(TIP).inner_text()
    assert one != other and one.splitlines()[1] == other.splitlines()[1]  # another neuron of the same cluster
    said = page.locator(".retrofit-neurons .said")
    assert said.inner_text() == ", ".join(other.splitlines()) and said.get_attribute("aria-live") == "polite"
    page.keyboard.press("Space")
    page.wait_for_url("**pick=**")
    assert f"level={FIRST}" in page.url and "step=" not in page.url  # the arrows did not turn the lecture's pages
    members = int(re.search(r"(\d+) members", other)[1])
    assert len(written(page.url)) == members


def picked(url: str) -> set[str]:
    """The names of the neurons that an address names, whatever else it says."""
    return set(url.partition("pick=")[2].partition("&")[0].split("."))


def written(url: str) -> list[tuple[int, int]]:
    """The neurons that an address names."""
    return neurons.neurons_of(url.partition("pick=")[2].partition("&")[0], 2)


def test_a_finger_scrolls_the_page_and_a_tap_picks(browser, address):
    context = browser.new_context(
        viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True, user_agent=PHONE
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(f"{address}{RUN}&level={FIRST}")
    shown(page, FIRST)
    boxes = [box_of(page, index) for index in range(3)]
    assert boxes[0]["x"] == boxes[1]["x"] == boxes[2]["x"]  # below each other
    box = box_of(page)
    start = page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop")
    touch = context.new_cdp_session(page)

    def send(kind: str, *points: tuple[float, float]) -> None:
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})

    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    send("touchStart", (x, y))
    for moved in range(0, 130, 10):
        send("touchMove", (x, y - moved))
    send("touchEnd")
    page.wait_for_function("start => document.querySelector('[data-testid=stMain]').scrollTop > start", arg=start)
    assert "pick=" not in page.url
    at_rest(page)
    box = box_of(page)
    for across in range(30, 80, 5):
        for down in range(20, 70, 10):
            page.touchscreen.tap(box["x"] + box["width"] * across / 100, box["y"] + box["height"] * down / 100)
            if page.locator(TIP).is_visible():
                page.wait_for_url("**pick=**")
                context.close()
                return
    raise AssertionError("no neuron was found in the picture")


@pytest.mark.long
def test_a_click_on_an_index_shows_its_two_groupings(open_page):
    page = open_page(f"{RUN}&level={FIRST}")
    shown(page, FIRST)
    matrix = page.locator("[aria-label^='Matrix of adjusted Rand']").first.locator(".nsewdrag").first
    matrix.scroll_into_view_if_needed()
    box = matrix.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 6)  # the first row, in the middle
    page.wait_for_url("**pair=uniform-conductance**")
    page.locator(".retrofit-neurons", has_text="ARI").wait_for()  # the number that was clicked
    page.locator("[aria-label^='Matrix of adjusted Rand'] .shapelayer path").nth(1).wait_for(
        state="attached"
    )  # its marks
    pictures = page.locator(PICTURES)
    page.wait_for_function("name => document.querySelectorAll(name).length === 2", arg=PICTURES)
    tops = "ones => ones.map(one => one.getBoundingClientRect().top)"
    assert steady(lambda: len({*pictures.evaluate_all(tops)}) == 1)  # side by side


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
    assert min(page.evaluate("window.seen")) > 380
    assert page.evaluate("getComputedStyle(document.querySelector('[data-testid=stMain]')).outlineStyle") == "none"


def test_a_lecture_is_entered_turned_and_left_by_keys(open_page):
    page = open_page(f"{RUN}&level={FIRST}&step=targets&lecture=1")
    page.get_by_role("button", name="Leave").wait_for()
    press_until(page, "PageDown", "**step=fit**")
    press_until(page, "PageDown", "**level=features.2**step=activations**")
    press_until(page, "PageUp", f"**level={FIRST}**step=fit**")
    press_until(page, "ArrowLeft", "**step=targets**")
    press_until(page, "End", "**level=classifier**")
    press_until(page, "Home", f"**level={FIRST}**")
    press_until(page, "j", "**level=features.2**")
    at_rest(page)
    page.keyboard.press("l")
    page.get_by_role("button", name="How to read this").wait_for()
    page.wait_for_url(lambda url: "lecture" not in url and "level=features.2" in url)
    at_rest(page)
    press_until(page, "l", "**lecture=1**")
    page.get_by_role("button", name="Leave").click()
    page.get_by_role("button", name="How to read this").wait_for()
