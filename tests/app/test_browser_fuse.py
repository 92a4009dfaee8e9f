"""The Fuse page in a real Chromium: first picture, presets, links, and runs from their start to every kind of end."""

import http.client
import json
import os
import re
import signal
from pathlib import Path

import pytest

from retrofit_app import runs
from retrofit_app.pages.fuse.history import HEAD, ROW

from .browsing import (
    LONG,
    at_rest,
    end_workers,
    settled,
    start,
    stopped_within,
    words_of_figures,
    worker,
)

pytestmark = pytest.mark.browser


STANDING = re.compile(r"Level [2-4] of 4")  # a slow machine stops a worker behind its second level


@pytest.fixture(autouse=True)
def nothing_left_at_work(served_runs):
    yield
    end_workers(served_runs)


def test_first_picture_before_any_click_with_words_for_every_figure(open_page):
    page = open_page()
    page.get_by_role("heading", name="Two half-blind networks").wait_for()
    settled(page)
    page.locator(".js-plotly-plot .main-svg").nth(1).wait_for()
    assert page.title() == "Fuse · kf-linear"
    words = words_of_figures(page)
    assert len(words) >= 2 and all(text and any(map(str.isdigit, text)) for text in words)
    page.locator("[role=img][aria-label*='saw 5 of 10 classes']").nth(1).wait_for()
    assert page.locator("link[rel~=icon]").first.get_attribute("href").startswith(("/", ".", page.base))


def test_the_server_listens_on_the_loopback_interface_only(address):
    port = int(address.rpartition(":")[2])
    table = Path("/proc/net/tcp")
    if not table.exists():
        pytest.skip("no /proc to look into")
    lines = [line.split() for name in ("tcp", "tcp6") for line in (table.parent / name).read_text().splitlines()[1:]]
    listening = [fields[1] for fields in lines if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port]
    assert listening == [f"0100007F:{port:04X}"]


def test_other_hosts_and_origins_are_refused(address):
    port = int(address.rpartition(":")[2])

    def upgrade(host: str, origin: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request(
            "GET",
            "/_stcore/stream",
            headers={
                "Host": host,
                "Origin": origin,
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
                "Sec-WebSocket-Version": "13",
            },
        )
        status = connection.getresponse().status
        connection.close()
        return status

    same_host = f"127.0.0.1:{port}"
    assert upgrade(same_host, f"http://{same_host}") == 101
    assert upgrade("evil.example", "http://evil.example") == upgrade(same_host, "http://evil.example") == 403


@pytest.mark.long
def test_the_views_are_steps_of_back(open_page):
    page = open_page()
    settled(page)
    page.get_by_role("radio", name="New fusion").or_(page.get_by_role("button", name="New fusion")).click()
    page.wait_for_url("**view=new*")
    page.get_by_role("heading", name="New fusion").wait_for()
    at_rest(page)
    page.get_by_role("radio", name="Your runs").or_(page.get_by_role("button", name="Your runs")).click()
    page.wait_for_url("**view=runs*")
    page.get_by_role("heading", name="Your runs").wait_for()
    at_rest(page)
    page.go_back()
    page.get_by_role("heading", name="New fusion").wait_for()
    at_rest(page)
    page.go_back()
    page.get_by_role("heading", name="Two half-blind networks").wait_for()
    assert "view" not in page.url


def test_a_run_from_start_to_result_with_reload_and_second_tab(open_page, served_runs):
    page = open_page()
    run = start(page, 11)
    result = page.get_by_role("heading", name="Two half-blind networks")
    at_work = page.get_by_text("of 4: ").first.or_(result).first  # a busy machine may be done before the page is drawn
    at_work.wait_for()
    pid = worker(served_runs / run)
    page.reload(wait_until="commit")
    at_work.wait_for()
    second = open_page(f"/?run={run}")
    for tab in (page, second):
        tab.get_by_role("heading", name="Two half-blind networks").wait_for()
        tab.get_by_role("button", name="Cancel").wait_for(state="detached")
    assert worker(served_runs / run) == pid
    assert (served_runs / run / "metrics.json").exists()
    assert start(second, 11) == run and worker(served_runs / run) == pid  # the form offers the run that exists
    settled(second)
    with second.expect_download() as download:
        second.get_by_role("button", name="Network", exact=True).click()
    assert download.value.suggested_filename == f"{run}-kf-gradient-fused.safetensors"
    assert Path(download.value.path()).read_bytes() == (served_runs / run / "fused.safetensors").read_bytes()


@pytest.mark.long
def test_a_toast_leaves_the_page_its_styles(open_page):
    page = open_page("/?view=new&preset=sharded")
    field = page.get_by_role("spinbutton", name="Number of networks")
    field.fill("99")
    field.press("Enter")
    page.get_by_test_id("stToast").wait_for()
    at_rest(page)
    styled = "[...document.querySelectorAll('style')].some(one => one.textContent.includes('.retrofit-tiles'))"
    assert page.evaluate(styled)


@pytest.mark.long
def test_a_cancelled_run_says_how_far_it_came_and_is_run_again(open_page, served_runs):
    page = open_page()
    run = start(page, 12)
    process = stopped_within(served_runs / run, 2)
    page.get_by_text(STANDING).wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancelling…").wait_for()
    os.kill(process, signal.SIGCONT)
    page.get_by_text("levels were fused").wait_for()
    status = json.loads((served_runs / run / "status.json").read_text())
    assert status["state"] == "cancelled" and status["level"] >= 1
    page.get_by_role("button", name="Run again").click()
    page.get_by_text("of 4: ").first.or_(page.get_by_role("heading", name="Two half-blind networks")).wait_for()


@pytest.mark.long
def test_a_killed_worker_is_reported_and_its_run_can_be_deleted_and_brought_back(open_page, served_runs):
    page = open_page()
    run = start(page, 13)
    process = stopped_within(served_runs / run, 2)
    page.get_by_text(STANDING).wait_for()
    os.kill(process, signal.SIGKILL)
    page.get_by_text("The worker was killed by SIGKILL").wait_for()
    page.get_by_text("levels were fused").wait_for()
    settled(page)
    page.goto(f"{page.base}/?view=runs&run={run}")
    settled(page)
    names = [entry.name for entry in sorted(runs.entries(served_runs)[0], key=lambda entry: entry.shipped)]
    table = page.locator("[data-testid=stDataFrame] .dvn-scroller").first
    table.click(position={"x": 16, "y": HEAD + ROW * (names.index(run) + 0.5)})
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete this run for good").click()
    page.get_by_text("1 ticked").wait_for(state="detached")
    assert not (served_runs / run).exists()


def test_tables_and_the_bar_of_the_form_are_whole_and_a_wide_table_on_a_phone_says_that_it_goes_on(open_page):
    """The last column was cut off, and what lies below the bar shone through it."""
    page = open_page("/?view=runs")
    cue = "Number(getComputedStyle(document.querySelector('.stDataFrame'), '::after').opacity)"
    scroller = page.locator("[data-testid=stDataFrame] .dvn-scroller")
    scroller.wait_for()
    page.wait_for_function("(one => one.scrollWidth <= one.clientWidth)(document.querySelector('.dvn-scroller'))")
    page.wait_for_function(f"{cue} === 0")
    page.goto(f"{page.base}/?view=new&preset=sharded")
    settled(page)
    page.wait_for_function(
        "(one => one && getComputedStyle(one).backgroundColor === 'rgb(255, 255, 255)')"
        "(document.querySelector('div:has(> .st-key-fuse-action)'))"
    )
    phone = open_page("/?view=runs", width=390)
    phone.locator("[data-testid=stDataFrame] .dvn-scroller").wait_for()
    phone.wait_for_function(f"{cue} === 1")
    phone.evaluate("(one => one.scrollTo(one.scrollWidth, 0))(document.querySelector('.dvn-scroller'))")
    phone.wait_for_function(f"{cue} === 0")


@pytest.mark.long
def test_ticks_and_opening_in_the_list_of_runs(open_page, served_runs):
    page = open_page("/?view=runs")
    names = [entry.name for entry in sorted(runs.entries(served_runs)[0], key=lambda entry: entry.shipped)]
    settled(page)
    table = page.locator("[data-testid=stDataFrame] .dvn-scroller").first

    def click(x: int, name: str) -> None:
        """On a row of the table, once: a second click would take its tick away."""
        table.wait_for()
        at_rest(page)
        table.click(position={"x": x, "y": HEAD + ROW * (names.index(name) + 0.5)})

    click(16, "hf-gradient")
    page.get_by_text("1 ticked").wait_for()
    click(16, "kf-gradient")
    page.get_by_text("2 ticked").wait_for()
    click(66, "kf-gradient")  # the middle of Open
    page.wait_for_url("**run=kf-gradient*")
    page.get_by_role("heading", name="Two half-blind networks").wait_for()
    assert "view" not in page.url


@pytest.mark.long
def test_a_run_outlives_its_server_and_the_next_one_finds_it(open_page, screenshots, served_runs):
    with screenshots.served(served_runs) as other:
        run = start(page := open_page(base=other), 14)
        page.get_by_text("of 4: ").first.wait_for()  # a slow page may miss the first level
        pid = worker(served_runs / run)
    page.get_by_text("The workbench was stopped. Start it again with retrofit app").wait_for()
    later = open_page(f"/?run={run}")
    later.get_by_text("of 4: ").first.or_(later.get_by_role("heading", name="Two half-blind networks").first).wait_for()
    assert worker(served_runs / run) == pid
    elsewhere = open_page(f"/?{LONG}&fusion-seed=15")  # other work has to wait, and says for what
    elsewhere.get_by_text("only one can run at a time").or_(
        elsewhere.locator("button:enabled", has_text="Start")
    ).first.wait_for()


@pytest.mark.long
def test_networks_are_trained_first_and_the_losses_come_live(open_page, served_runs):
    page = open_page("/?view=new&preset=sharded&epochs=4&arch=mlp&samples=50&importance=uniform")
    settled(page)
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_text("Training network").wait_for()
    page.get_by_role("heading", name="Where is knowledge lost?").wait_for()
    run = page.url.partition("run=")[2].partition("&")[0]
    config = json.loads((served_runs / run / "config.json").read_text())["config"]
    assert all((served_runs / name).exists() for name in [*config["models"], config["splits"]])
