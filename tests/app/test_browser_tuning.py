"""Fine-tuning in a real Chromium: from Start to the result, found again after a reload."""

import pytest

from .browsing import act_until, at_rest, does_not_scroll_sideways

pytestmark = [pytest.mark.long, pytest.mark.browser]
PAGE = "/?run=hf-gradient&tune-epochs=2"


def test_a_network_is_fine_tuned_found_again_after_a_reload_and_shown(open_page):
    page = open_page(PAGE)
    page.get_by_text("Fine-tune this network").wait_for()
    at_rest(page)
    page.get_by_text("Fine-tune this network").click()
    page.get_by_text("all 1,438 training images").wait_for()
    start = page.get_by_role("button", name="Start", exact=True).or_(page.get_by_role("button", name="Show it"))
    act_until(page, "**tuned=*", start.click)
    page.reload()
    page.get_by_role("button", name="Fine-tuned network").wait_for()
    phone = open_page(page.url.removeprefix(page.base), width=390)
    phone.get_by_role("button", name="Fine-tuned network").wait_for()
    at_rest(phone)
    assert does_not_scroll_sideways(phone)
