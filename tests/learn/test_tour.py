"""What a reader can do on the page Learn, done in Chromium."""

import json
import re

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.browser]
STEPS = 9


@pytest.fixture
def tour(browser, tmp_path_factory):
    """open(address, **viewport) -> a page that shows this step; no script may fail on it."""
    from retrofit_app.learn import save

    file = tmp_path_factory.mktemp("learn") / "learn.html"
    save(file)
    contexts, errors = [], []

    def open(address: str = "", width: int = 1280, height: int = 720, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(f"{file.as_uri()}#{address}")
        page.wait_for_selector("#stage h1")
        return page

    yield open
    for context in contexts:
        context.close()
    assert not errors


def state(page) -> dict:
    """The step's state, once the next frame is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return json.loads(page.evaluate("() => JSON.stringify(Tour.page.state)"))


def turned(page, address: str) -> dict:
    """The state at another address of the same page."""
    page.goto(re.sub("#.*", "", page.url) + f"#{address}")
    return state(page)


def choose(page, label: str) -> None:
    page.get_by_role("radio", name=label, exact=True).check()
    state(page)


@pytest.mark.parametrize("width", [1280, 390])
def test_every_step_fits_the_screen_with_its_answer(tour, width):
    """And a phone never scrolls sideways."""
    page = tour(width=width, height=720)
    for number in range(1, STEPS + 1):
        turned(page, f"step={number}&guess=1")
        height, room, across = page.evaluate(
            "() => { const s = document.getElementById('stage');"
            " return [s.scrollHeight, s.clientHeight, document.documentElement.scrollWidth]; }"
        )
        assert across <= width and (width == 390 or height <= room + 1), (number, height, room, across)


def test_questions_ask_before_they_tell(tour):
    """Each question hides its number until it is answered, marks the right answer and can be asked again."""
    page, asked = tour(), 0
    for number in range(1, STEPS + 1):
        turned(page, f"step={number}")
        if not page.locator(".question").count():
            continue
        asked += 1
        assert page.inner_text(".verdict") == ""
        page.click(".answers button >> nth=0")
        assert state(page)["guess"] == 1 and page.locator(".answers .right").count() == 1, number
        assert page.inner_text(".verdict") != ""
        page.click("text=Ask again")
        assert state(page)["guess"] == 0 and page.inner_text(".verdict") == ""
    assert asked >= 6


def test_neurons_are_sorted_by_hand(tour):
    page = tour("step=2&guess=2")
    tiles = page.locator(".eight >> nth=1").locator(".tile")
    assert state(page)["order"] == "43507612"
    first, last = tiles.nth(0).bounding_box(), tiles.nth(7).bounding_box()
    page.mouse.move(first["x"] + 20, first["y"] + 20)
    page.mouse.down()
    page.mouse.move(last["x"] + 30, last["y"] + 30, steps=4)
    page.mouse.up()
    assert state(page)["order"] == "23507614", "dragged onto each other, two neurons change places"
    tiles.nth(1).focus()
    page.keyboard.press("Enter")
    tiles.nth(4).focus()
    page.keyboard.press("Enter")
    assert state(page)["order"] == "27503614", "picked one after the other, too"
    page.click("text=Sort for me")
    state(page)
    assert "8 of 8" in page.inner_text(".figure")
    assert "average 50.0" in page.text_content("svg.chart")


def test_groups_are_made_by_dragging_and_by_keys(tour):
    page = tour("step=4")
    neuron, target = page.locator(".neuron >> nth=0").bounding_box(), page.locator(".target >> nth=2").bounding_box()
    page.mouse.move(neuron["x"] + neuron["width"] / 2, neuron["y"] + neuron["height"] / 2)
    page.mouse.down()
    page.mouse.move(target["x"] + 8, target["y"] + 8, steps=5)
    page.mouse.up()
    assert state(page)["groups"] == "21230123"
    page.locator(".neuron >> nth=1").focus()
    page.keyboard.press("4")
    assert state(page)["groups"] == "23230123"
    costs = [float(text) for text in page.locator(".bars b").all_inner_texts()]
    page.click("button:text-is('k-means')")
    state(page)
    assert float(page.locator(".bars b >> nth=0").inner_text()) == costs[2] < costs[1]
    choose(page, "A, B and C")
    assert page.locator("button:text-is('Hungarian')").first.is_disabled()
    assert page.locator(".neuron").count() == 12


def test_what_is_said_of_the_fit_follows_from_its_accuracy(tour):
    page = tour()
    sentences = {
        "groups=random&ridge=-2": "After two levels",
        "groups=random&ridge=0": "So strong a ridge",  # 25 %
        "groups=KF&ridge=-2": "both ways end alike",
    }
    for address, says in sentences.items():
        turned(page, f"step=7&{address}")
        assert [each for each in sentences.values() if each in page.inner_text("#stage")] == [says]


def test_the_sandbox_says_what_cannot_be_done(tour):
    page = tour("step=9&parents=3&method=HF")
    assert "Hungarian pairs exactly two parents" in page.inner_text(".figure")
    choose(page, "k-means (KF)")
    assert page.locator(".plane").count() == 6 and page.locator(".errors p").count() == 4
    choose(page, "the ensemble's answer")
    assert state(page)["head"] == "ensemble" and "0.0 %" in page.inner_text(".errors p >> nth=3")
    choose(page, "none: average in groups")
    assert page.get_by_role("radio", name="the ensemble's answer").is_disabled()
    assert "Without a fit, outputs are averages" in page.inner_text(".words")
    choose(page, "Which method when")
    assert "KF-Linear: 6 seconds" in page.inner_text(".sheet")


@pytest.mark.long
def test_an_address_brings_back_what_was_shown(tour):
    page = tour("step=9&regime=all&parents=3&width=12&method=same-index&score=uniform&fused=12&count=40&ridge=-3")
    held = state(page)
    other = tour(page.url.split("#")[1])
    assert state(other) == held and held["parents"] == 3 and held["count"] == 40
    for address in ("step=x", "step=4&groups=99", "step=9&parents=7&method=magic", "step=2&order=00000000"):
        turned(other, address)  # the fixture asserts that nothing fails


def test_keys_lead_through_the_tour(tour):
    page = tour("step=1")
    for key, number in (("j", 2), ("ArrowRight", 3), ("PageDown", 4), ("k", 3), ("ArrowLeft", 2), ("PageUp", 1)):
        page.keyboard.press(key)
        assert page.inner_text("#place").startswith(f"{number} of"), key
    page.keyboard.press("l")
    assert page.locator("header").is_hidden() and "lecture=1" in (state(page), page.url)[1]
    for number, is_answered in ((1, 1), (2, 0), (2, 1), (3, 0)):  # an open question is answered before the page turns
        page.keyboard.press("ArrowRight")
        assert bool(state(page)["guess"]) == bool(is_answered) and page.inner_text("#place").startswith(f"{number} of")
    page.keyboard.press("Escape")
    assert page.locator("header").is_visible()
    theme = page.evaluate("() => document.documentElement.dataset.theme")
    page.keyboard.press("d")
    assert page.evaluate("() => document.documentElement.dataset.theme") != theme


def test_the_handout_has_every_step_and_no_answers(tour):
    page = tour("step=3&guess=1", color_scheme="dark")
    verdict = page.inner_text(".verdict")
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    handout = page.locator("#handout")
    assert handout.locator("article").count() == STEPS and handout.locator(".question").count() >= 6
    assert handout.locator(":is(.right, .wrong)").count() == 0 and verdict not in handout.text_content()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "light", "paper is white"
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert page.locator("#handout article").count() == 0
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"


def test_three_networks_bring_twelve_neurons_and_one_method(tour):
    page = tour("step=4&parents=3")
    words = page.inner_text(".words")
    assert "the parents bring 12" in words and "beat k-means below" in words
    tops = page.evaluate(
        "() => { location.hash = 'step=9&parents=3';"
        " return new Promise((done) => setTimeout(() => done([...document.querySelectorAll('.planes .picture')]"
        ".map((one) => one.getBoundingClientRect().top)), 600)); }"
    )
    assert len(tops) == 6 and len(set(tops)) == 1, "all pictures begin at one height"


@pytest.mark.parametrize("width", [1121, 1440])
def test_nothing_covers_or_cuts_a_number_of_the_step_importance(tour, width):
    page = tour("step=5&guess=1", width=width, height=830)
    covered = """() => [...document.querySelectorAll('.four .tile')].some((tile) =>
        tile.children[2].getBoundingClientRect().bottom > tile.children[1].getBoundingClientRect().top + 1)"""
    state(page)
    assert not page.evaluate(covered)
    assert page.evaluate("() => { const s = document.getElementById('stage'); return s.scrollWidth <= s.clientWidth; }")
