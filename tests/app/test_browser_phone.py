"""Every page on a phone, in both themes: nothing scrolls sideways, and every figure has words with its finding in numbers."""

import pytest

from retrofit_app.figures import DARK, LIGHT

from .browsing import at_rest, cut_or_touching, does_not_scroll_sideways, steady, words_of_figures

pytestmark = [pytest.mark.slow, pytest.mark.browser]

COMPARE = "/compare?runs=kf-gradient|kf-linear|hf-gradient"
LEVEL = "/levels?run=kf-gradient&level=features.2&step="
#: Path, and how many figures it has at least.
PAGES = [
    ("/?run=kf-linear", 2),
    ("/?view=new&preset=four", 0),
    pytest.param("/?view=runs", 0, marks=pytest.mark.long),
    (f"{LEVEL}grouping", 2),
    *(
        pytest.param(LEVEL + step, 2, marks=pytest.mark.long)
        for step in ("activations", "importance", "targets", "fit")
    ),
    pytest.param("/landscape?run=hf-linear", 3, marks=pytest.mark.long),
    pytest.param(COMPARE, 1, marks=pytest.mark.long),
    pytest.param("/paper", 4, marks=pytest.mark.long),
]


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"


def drawn(page, figures: int) -> None:
    page.locator("h1").first.wait_for()
    page.wait_for_function(
        "least => (plots => plots.length >= least && plots.every(one => one.querySelector('.main-svg')))"
        "([...document.querySelectorAll('.js-plotly-plot')])",
        arg=min(figures, 2),
    )
    at_rest(page)


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
@pytest.mark.parametrize(("path", "figures"), PAGES)
def test_a_page_on_a_phone_does_not_scroll_sideways_and_its_figures_have_words(open_page, path, figures, scheme):
    page = open_page(path, width=390, scheme=scheme)
    drawn(page, figures)
    assert does_not_scroll_sideways(page) and cut_or_touching(page) == []
    words = words_of_figures(page)
    assert len(words) >= figures and all(any(map(str.isdigit, text)) for text in words)
    palette = {"light": LIGHT, "dark": DARK}[scheme]
    style = "getComputedStyle(document.querySelector('{}')).{}"
    assert page.evaluate(style.format("[data-testid=stApp]", "backgroundColor")) == rgb(palette.paper)
    if page.locator(".js-plotly-plot .xtick text").count():  # lettering inside a figure follows the theme
        fill, inks = style.format(".js-plotly-plot .xtick text", "fill"), (rgb(palette.muted), rgb(palette.ink))
        assert steady(lambda: page.evaluate(fill), lambda seen: seen in inks) in inks


def test_the_papers_pictures_are_whole(open_page):
    page = open_page("/paper", width=390)
    widths = "ones => ones.map(one => one.scrollWidth - one.clientWidth)"
    for frame in (".retrofit-totals", "[class*=st-key-figure]"):
        page.locator(frame).last.wait_for()
        at_rest(page)
        assert steady(lambda frame=frame: max(page.locator(frame).evaluate_all(widths)) <= 1)
    assert cut_or_touching(page) == []


@pytest.mark.long
def test_levels_at_twice_its_size_does_not_scroll_sideways(open_page):
    page = open_page(f"{LEVEL}grouping", width=640)
    drawn(page, 3)
    assert does_not_scroll_sideways(page)


def test_tiles_stand_two_beside_each_other_and_the_fused_one_alone(open_page):
    page = open_page("/?run=kf-linear", width=390)
    page.locator(".retrofit-tiles .tile").nth(4).wait_for()
    at_rest(page)
    boxes = "ones => ones.map(one => one.getBoundingClientRect()).map(({ width, y }) => [width, y])"
    tiles = page.locator(".retrofit-tiles .tile").evaluate_all(boxes)
    assert len(tiles) == 5 and all(width > 150 for width, _ in tiles)
    assert tiles[0][1] == tiles[1][1] != tiles[3][1]


@pytest.mark.long
def test_a_fingers_targets(open_page):
    page = open_page("/?view=new&preset=sharded&method=OTFusion", width=390)
    page.locator(".st-key-fuse-bar").wait_for()
    at_rest(page)
    # Help signs are the framework's own small ones.
    controls = (
        ".stButton button, .stDownloadButton button, .stButtonGroup button, .stExpander summary, .stSelectbox input"
    )
    measured = """(main, own) => [...main.querySelectorAll(own)]
        .filter(one => one.offsetHeight > 2 && !one.matches('[data-testid=stTooltipHoverTarget], [aria-label^="Help for"]'))
        .map(one => [one.innerText, Math.round(one.getBoundingClientRect().height)])"""
    main = page.locator("[data-testid=stMain]")
    heights = steady(lambda: main.evaluate(measured, controls), lambda seen: len(seen) > 20)
    assert len(heights) > 20 and [control for control in heights if control[1] < 44] == []
