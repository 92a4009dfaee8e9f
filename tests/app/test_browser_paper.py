"""The page Paper in a real Chromium: cells, recipes, Back, the way from all tables to one, a phone."""

import pytest

from .browsing import at_rest, does_not_scroll_sideways

pytestmark = pytest.mark.browser


@pytest.mark.long
def test_a_click_opens_the_recipe_and_the_address_remembers_table_and_cell(open_page):
    page = open_page("/paper")
    page.get_by_role("button", name="VGG11 on CIFAR-10, sharded splits").click()
    page.wait_for_url("**/paper?table=vgg11-sharded")
    page.locator("[data-cell='KF-Linear, conductance|2-way']").wait_for()
    at_rest(page)
    # Beside the number, on the paper's: the whole cell counts.
    page.locator("tr", has_text="KF-Linear, conductance").locator("td").first.click()
    recipe = page.get_by_role("dialog")
    recipe.get_by_text("--methods").first.wait_for()
    assert "cell=KF-Linear%2C+conductance%7C2-way" in page.url
    at_rest(page)
    page.keyboard.press("Escape")
    recipe.wait_for(state="detached")
    page.wait_for_url("**/paper?table=vgg11-sharded")
    at_rest(page)
    page.set_viewport_size({"width": 390, "height": 844})
    assert does_not_scroll_sideways(page)
    page.go_back()
    recipe.get_by_text("--methods").first.wait_for()
