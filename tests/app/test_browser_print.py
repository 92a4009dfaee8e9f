"""Pages on paper, and what a keyboard's focus looks like."""

import pytest

from .browsing import at_rest, steady

pytestmark = [pytest.mark.slow, pytest.mark.browser]
SHEET, SHEET_HEIGHT = 1104, 1593  # px, the room on a sheet of style.css


@pytest.mark.parametrize(
    ("path", "width"),
    [("/levels", 1920), *(pytest.param(path, 1280, marks=pytest.mark.long) for path in ("/", "/landscape"))],
)
def test_a_page_prints_whole_without_its_menu(open_page, path, width):
    page = open_page(path, width)
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    at_rest(page)
    on_paper(page)
    assert page.get_by_test_id("stSidebar").is_hidden()
    assert page.evaluate("getComputedStyle(document.querySelector('.stMain')).overflowY") == "visible"
    page.wait_for_function("document.documentElement.scrollHeight > 1000")  # the whole page, not a window of it
    page.wait_for_function("most => document.documentElement.scrollWidth <= most", arg=SHEET)

    def boxes(name: str) -> list[list[float]]:
        return page.locator(name).evaluate_all(
            "ones => ones.map(one => one.getBoundingClientRect()).map(({ y, width }) => [y, width])"
        )

    assert steady(lambda: all(width > 200 for _, width in boxes(".js-plotly-plot .sankey")))
    planes = ".st-key-planes .stPlotlyChart"
    assert steady(lambda: all(y == boxes(planes)[0][0] and width > 500 for y, width in boxes(planes)))


@pytest.mark.long
def test_learn_prints_all_its_steps(open_page):
    page = open_page("/learn")
    frame = page.frame_locator(".st-key-learn iframe")
    frame.locator("main h1").wait_for()
    page.frames[1].evaluate("dispatchEvent(new Event('beforeprint'))")
    on_paper(page)

    def whole() -> bool:
        last = frame.locator("#handout article").last.bounding_box()
        box = page.locator(".st-key-learn iframe").bounding_box()
        return box["y"] == 0 and last["y"] % (SHEET_HEIGHT / 2) < 1 and last["y"] + last["height"] <= box["height"] + 1

    assert steady(whole)
    assert frame.locator("#handout article").last.evaluate("one => one.scrollHeight - one.clientHeight") < 2


def on_paper(page):
    """Lay a page out as a browser does for paper."""
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": SHEET, "height": SHEET_HEIGHT})


@pytest.mark.long
def test_a_focused_link_does_not_look_like_the_shown_page(open_page):
    page = open_page("/")
    link = page.get_by_role("link", name="Landscape").first
    at_rest(page)  # a page that is still drawn takes the focus away
    look = "link => [getComputedStyle(link).backgroundColor, getComputedStyle(link).outlineStyle]"

    def focused() -> list[str]:
        page.get_by_role("link", name="Levels").first.focus()
        page.keyboard.press("Tab")
        return link.evaluate(look)

    wanted = ["rgba(0, 0, 0, 0)", "solid"]
    assert steady(focused, lambda seen: seen == wanted) == wanted
