"""The workbench as a user sees it, in a real Chromium."""

import importlib.util
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (requirements-dev.txt)")
ROOT = Path(__file__).parents[2]
specification = importlib.util.spec_from_file_location("screenshots", ROOT / "docs" / "screenshots.py")
screenshots = importlib.util.module_from_spec(specification)
specification.loader.exec_module(screenshots)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(screenshots.chromium() is None, reason="no Chromium found (Debian's package, or CHROMIUM=path)"),
]
PATIENCE = 180_000  # ms; a shared machine may be slow


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def address(runs_folder) -> Iterator[str]:
    with screenshots.served(runs_folder) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=screenshots.chromium(), args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def open_page(browser, address):
    """Pages that fail the test on any request to another host."""
    pages, elsewhere = [], []

    def make(path: str = "/", width: int = 1280, scheme: str = "light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: None if request.url.startswith((address, "data:", "blob:", "ws" + address[4:]))
                else elsewhere.append(request.url))  # fmt: skip
        page.goto(address + path)
        pages.append(page)
        return page

    yield make
    for page in pages:
        page.close()
    assert not elsewhere


LONG = "preset=shipped&method=KF-Gradient&samples=300"  # takes long enough to be watched


def settled(page) -> None:
    """The whole page is drawn: its last line stands."""
    page.get_by_role("heading", name="Your runs").wait_for()
    page.wait_for_timeout(700)


def start(open_page, seed: int):
    """A page on which the long fusion was started."""
    page = open_page(f"/?{LONG}&fusion-seed={seed}")
    settled(page)
    page.get_by_role("button", name="Start", exact=True).or_(page.get_by_role("button", name="Open that run")).click()
    page.wait_for_url("**run=*")
    return page


def key(page) -> str:
    return page.url.partition("run=")[2].partition("&")[0]


def worker(folder: Path) -> int:
    return json.loads((folder / "worker.json").read_text())["pid"]


def test_first_picture_before_any_click_with_words_for_every_figure(open_page):
    page = open_page()
    page.get_by_role("heading", name="Two half-blind networks").wait_for()
    settled(page)
    assert page.title() == "Fuse · kf-linear"
    figures = page.locator("[data-testid=stPlotlyChart] [role=figure], [data-testid=stPlotlyChart][role=figure]")
    described = [figures.nth(index).get_attribute("aria-label") for index in range(figures.count())]
    assert len(described) == page.locator(".js-plotly-plot").count() >= 4
    assert all(text and any(digit in text for digit in "0123456789") for text in described)
    assert page.locator("[role=img][aria-label*='knows 5 of 10 classes']").count() == 2


def test_the_server_listens_on_the_loopback_interface_only(address):
    port = int(address.rpartition(":")[2])
    table = Path("/proc/net/tcp")
    if not table.exists():
        pytest.skip("no /proc to look into")
    lines = [line.split() for name in ("tcp", "tcp6") for line in (table.parent / name).read_text().splitlines()[1:]]
    listening = [fields[1] for fields in lines if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port]
    assert listening == [f"0100007F:{port:04X}"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_in_both_themes_does_not_scroll_sideways(open_page, scheme):
    page = open_page("/?preset=four", width=390, scheme=scheme)
    settled(page)
    page.locator(".js-plotly-plot .ytick text").first.wait_for()
    widths = page.evaluate(
        "['html', '[data-testid=stMain]', '[data-testid=stMainBlockContainer]']"
        ".map(name => document.querySelector(name)).map(e => [e.scrollWidth, e.clientWidth])"
    )
    assert all(content <= shown for content, shown in widths)
    background = page.evaluate("getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 22, 20)"}[scheme]
    # Lettering inside a figure must follow the theme.
    fill = page.evaluate("getComputedStyle(document.querySelector('.js-plotly-plot .ytick text')).fill")
    assert fill == {"light": "rgb(89, 89, 85)", "dark": "rgb(169, 169, 164)"}[scheme]


def test_presets_by_mouse_go_into_the_address_and_a_fresh_window_shows_them(open_page):
    page = open_page()
    settled(page)
    page.get_by_role("button", name="Non-IID, four ways").or_(
        page.get_by_role("radio", name="Non-IID, four ways")
    ).click()
    page.wait_for_url("**preset=four*")
    page.get_by_role("rowheader", name="network D").wait_for()
    again = open_page(page.url[page.url.index("/?") :])
    again.get_by_role("rowheader", name="network D").wait_for()
    counts = "document.querySelector('.retrofit-split').innerText"
    assert again.evaluate(counts) == page.evaluate(counts)


def test_nonsense_in_the_address_is_named_and_the_page_stands(open_page):
    page = open_page("/?run=gone&preset=nope&parents=many")
    settled(page)
    for word in ("run=gone", "preset=nope", "parents=many"):
        page.get_by_text(f"Ignored {word}").wait_for()
    page.get_by_role("heading", name="Two half-blind networks").wait_for()


def test_a_run_from_start_to_result_with_reload_and_second_tab(open_page, runs_folder):
    page = start(open_page, 11)
    run = key(page)
    page.get_by_text("Level 1 of 4").wait_for()
    pid = worker(runs_folder / run)
    page.reload(wait_until="commit")
    result = page.get_by_text("this run: KF-Gradient").first
    # a fast machine may be done before the page is back
    page.get_by_text("of 4: ").first.or_(result).wait_for()
    second = open_page(f"/?run={run}")
    for tab in (page, second):
        tab.get_by_text("this run: KF-Gradient").first.wait_for()
        assert tab.get_by_role("button", name="Cancel").count() == 0
    assert worker(runs_folder / run) == pid
    assert (runs_folder / run / "metrics.json").exists()
    third = start(open_page, 11)  # the same work: the form offers the run that exists
    assert key(third) == run and worker(runs_folder / run) == pid
    with third.expect_download() as found:
        third.get_by_role("button", name="Levels", exact=True).click()
    assert found.value.suggested_filename == f"{run}-kf-gradient-levels.csv"
    assert Path(found.value.path()).read_text().startswith("level,")


def test_cancel_then_go_on(open_page, runs_folder):
    page = start(open_page, 12)
    page.get_by_text("Level 2 of 4").wait_for()
    page.get_by_role("button", name="Cancel").click()
    begun = time.time()
    page.get_by_text("levels were finished and are kept").wait_for()
    assert time.time() - begun < 15
    status = json.loads((runs_folder / key(page) / "status.json").read_text())
    assert status["state"] == "cancelled" and status["levels_done"] >= 1
    page.get_by_role("button", name="Go on with it").click()
    page.get_by_text("this run: KF-Gradient").first.wait_for()


def test_a_killed_worker_is_reported(open_page, runs_folder):
    page = start(open_page, 13)
    page.get_by_text("Level 1 of 4").wait_for()
    os.kill(worker(runs_folder / key(page)), signal.SIGKILL)
    page.get_by_text("The worker was killed by SIGKILL").wait_for()
    page.get_by_role("button", name="Back to the shipped example").click()
    page.get_by_role("heading", name="Two half-blind networks").wait_for()


def test_networks_are_trained_first_and_the_losses_come_live(open_page, runs_folder):
    page = open_page("/?preset=sharded&epochs=4&arch=mlp")
    settled(page)
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_text("Training network").wait_for()
    page.get_by_role("heading", name="Where is something lost?").wait_for()
    config = json.loads((runs_folder / key(page) / "config.json").read_text())["config"]
    assert all((runs_folder / name).exists() for name in [*config["models"], config["splits"]])
