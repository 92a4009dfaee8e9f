"""The page Compare in a real Chromium: ticks that lead to it, Back, a leaderboard that fills, a phone."""

import pytest

from .browsing import at_rest, choose, words_of_figures

pytestmark = pytest.mark.browser
PAGE = "/compare?runs=kf-gradient|kf-linear|hf-gradient"


def drawn(page, figures: int = 2) -> None:
    """So many pictures stand, and the table has its intervals."""
    page.get_by_text("(37.").first.wait_for()  # the difference of a shipped run to its best parent
    page.wait_for_function(
        "count => (plots => plots.length === count && plots.every(one => one.querySelector('.main-svg')))"
        "([...document.querySelectorAll('.js-plotly-plot')])",
        arg=figures,
    )
    at_rest(page)


def names(page) -> list[str]:
    """Of the rows of the first table, its references included."""
    return page.locator(".retrofit-book").first.locator("tbody th[scope=row]").all_inner_texts()


@pytest.mark.long
def test_ticked_runs_lead_to_the_page(open_page):
    page = open_page("/?view=runs&ticks=hf-gradient|kf-linear")
    link = page.get_by_role("link", name="Compare them side by side")
    link.wait_for()
    at_rest(page)
    link.click()
    page.wait_for_url("**/compare?*runs=*")
    drawn(page)
    assert names(page)[:2] == ["HF-Gradient", "KF-Linear"]


@pytest.mark.long
def test_the_order_is_a_step_of_back_and_comes_back_with_the_menu(open_page):
    page = open_page(PAGE)
    drawn(page)
    assert names(page)[:3] == ["KF-Gradient", "KF-Linear", "HF-Gradient"]
    choose(page, "Order", "accuracy", "accuracy", "**order=accuracy*")
    page.locator(".retrofit-book tbody tr:nth-child(2) th", has_text="KF-Linear").first.wait_for()
    page.go_back()
    page.locator(".retrofit-book tbody tr:nth-child(2) th", has_text="KF-Gradient").first.wait_for()
    at_rest(page)
    page.get_by_role("link", name="Landscape").click()
    page.wait_for_url("**/landscape*")
    at_rest(page)
    page.get_by_role("link", name="Compare").click()
    page.wait_for_url("**/compare?*runs=kf-gradient*")


def test_a_leaderboard_fills_and_is_found_again(open_page):
    page = open_page("/compare?view=board&of=kf-linear&methods=KF-Linear,Average&scores=conductance")
    page.get_by_text("2 runs").wait_for()
    at_rest(page)
    start = page.get_by_role("button", name="Start", exact=True).or_(page.get_by_role("button", name="Rank them"))
    whole = page.get_by_text("The leaderboard is complete")
    start.or_(whole).first.wait_for()
    if start.count():
        start.click()
        page.get_by_text("methods are finished").or_(whole).first.wait_for()
        page.reload()
    whole.wait_for()
    at_rest(page)
    assert [name.partition(". ")[2] for name in names(page)] == [
        "KF-Linear, toward=zero",
        "network A",
        "network B",
        "Average",
    ]
    assert any(words.startswith("Accuracy in per cent against seconds") for words in words_of_figures(page))
