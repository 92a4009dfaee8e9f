"""Links, quick changes and Back in a real Chromium."""

import pytest

from .browsing import at_rest

pytestmark = pytest.mark.browser
FIELDS = ("Samples", "Number of networks", "Training seed")


def test_links_hold_their_values_quick_changes_both_stay_and_back_leads_to_earlier_ones(open_page):
    page = open_page("/?view=new&preset=sharded&parents=3&samples=350&other=1")

    def shows(*values: int) -> None:
        for name, value in zip(FIELDS, values, strict=True):
            page.locator(f"[data-testid=stNumberInputField][aria-label='{name}'][value='{value}']").wait_for()
        at_rest(page)

    shows(350, 3, 0)
    before = page.evaluate("history.length")
    # Both clicks leave the browser before the server has answered the first: the second brings the old address.
    page.evaluate(
        """names => names.forEach((name, index) => setTimeout(() =>
            [...document.querySelectorAll('[data-testid=stNumberInput]')].find(one => one.innerText.startsWith(name))
            .querySelector('[data-testid=stNumberInputStepUp]').click(), 5 * index))""",
        FIELDS[1:],
    )
    page.wait_for_url(lambda url: "parents=4" in url and "split-seed=1" in url)
    shows(350, 4, 1)
    for _ in range(page.evaluate("history.length") - before):
        page.go_back()
    page.wait_for_url(lambda url: "parents=3" in url and "split-seed" not in url)
    shows(350, 3, 0)
    page.reload()
    shows(350, 3, 0)
