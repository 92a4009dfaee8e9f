"""What the browser tests wait for and look at. Nothing here sleeps: they wait until the page says something."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from retrofit_app import runs

PATIENCE = 120_000  # ms; a shared machine may be slow
#: A fusion of the shipped pair that takes long enough to be watched.
LONG = "view=new&preset=shipped&method=KF-Gradient&samples=150"
FIGURES = "[data-testid=stPlotlyChart] [role=figure], [data-testid=stPlotlyChart][role=figure]"


def at_rest(page: Any) -> None:
    """The server has sent everything that belongs to the last click."""
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()


def settled(page: Any) -> None:
    """The first page is whole: its views stand above it, and the server has sent the rest."""
    page.locator(".st-key-fuse-bar").wait_for()
    at_rest(page)


def press_until(page: Any, key: str, url: str) -> None:
    """Press a key that may be pressed twice until the address says so: a page that is being drawn takes no notice of it."""
    from playwright.sync_api import TimeoutError as PlaywrightTimeout

    for _ in range(PATIENCE // 5_000):
        at_rest(page)
        page.keyboard.press(key)
        try:
            page.wait_for_url(url, timeout=5_000)
            return
        except PlaywrightTimeout:
            continue
    raise AssertionError(f"{key} does not lead to {url}; the address is {page.url}")


def act_until(page: Any, url: str, act: Callable[[], None]) -> None:
    """Do something until the address says so: a control that is being drawn anew takes no notice of a fast hand."""
    from playwright.sync_api import TimeoutError as PlaywrightTimeout

    for wait in (5_000, 15_000, PATIENCE):
        page.set_default_timeout(wait)
        try:
            act()
            page.wait_for_url(url)
            break
        except PlaywrightTimeout:
            if wait == PATIENCE:
                raise
            page.keyboard.press("Escape")  # an open list would be closed by the next click
        finally:
            page.set_default_timeout(PATIENCE)
    at_rest(page)


def shown(page: Any, level: str) -> None:
    """A level's ribbon is drawn."""
    page.locator(f"[aria-label^='Bands from'][aria-label*=' of level {level}:'] .sankey-link").first.wait_for()
    at_rest(page)


def start(page: Any, seed: int) -> str:
    """Start the long fusion from the form and return the run's name."""
    page.goto(f"{page.base}/?{LONG}&fusion-seed={seed}")
    settled(page)
    page.get_by_role("button", name="Start", exact=True).or_(page.get_by_role("button", name="Open that run")).click()
    page.wait_for_url("**run=*")
    return page.url.partition("run=")[2].partition("&")[0]


def steady(look: Callable[[], Any], wanted: Callable[[Any], bool] = bool) -> Any:
    """What is seen once it is as wanted, or else after ten seconds: a page that is at rest may still be laid out."""
    end = time.monotonic() + 10
    while not wanted(seen := look()) and time.monotonic() < end:
        time.sleep(0.1)
    return seen


def does_not_scroll_sideways(page: Any) -> bool:
    """Neither the page nor the parts of it that could scroll on their own."""
    parts = (
        "['html', '[data-testid=stMain]', '[data-testid=stMainBlockContainer]']"
        ".map(name => document.querySelector(name)).every(one => one.scrollWidth <= one.clientWidth)"
    )
    return steady(lambda: page.evaluate(parts))


def fits_its_window(page: Any) -> bool:
    """Nothing of it has to be scrolled to."""
    inner = "(main => main.scrollHeight <= main.clientHeight)(document.querySelector('[data-testid=stMain]'))"
    return steady(lambda: page.evaluate(inner))


def cut_or_touching(page: Any) -> list[str]:
    """Choices that their fields cut, texts of a figure that touch, and texts that its edge cuts."""
    found = """() => [...document.querySelectorAll('[data-testid=stMain] input')]
            .filter(one => one.offsetHeight > 2 && one.scrollWidth > one.clientWidth + 1).map(one => one.value)
        .concat([...document.querySelectorAll('.js-plotly-plot')].flatMap(plot => {
            const frame = plot.getBoundingClientRect();
            const boxes = [...plot.querySelectorAll('text:not(.gtitle)')]
                .map(one => [one.textContent, one.getBoundingClientRect()])
                .filter(([words, box]) => words.trim() && box.width > 0);
            const cut = boxes.filter(([, box]) => box.left < frame.left - 2 || box.right > frame.right + 2);
            const touching = boxes.flatMap(([words, one], index) => boxes.slice(index + 1).filter(([, other]) =>
                Math.min(one.right, other.right) > Math.max(one.left, other.left)
                && Math.min(one.bottom, other.bottom) > Math.max(one.top, other.top) + 2)
                .map(([others]) => [`${words} and ${others}`]));
            return [...cut, ...touching].map(([words]) => words);
        }))"""
    return steady(lambda: page.evaluate(found), lambda words: not words)


def smallest_text(page: Any) -> float:
    """Pixels of the smallest lettering that is seen; a picture's foot, which only its file shows, is none."""
    return page.evaluate(
        """() => Math.min(...[...document.querySelectorAll('[data-testid=stMain] *')].filter(one => {
            const box = one.getBoundingClientRect();
            return [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())
                && box.width > 0 && box.height > 0 && box.right > 0
                && !one.closest('.gtitle, [data-testid=stMaterialIcon], style');
        }).map(one => parseFloat(getComputedStyle(one).fontSize)))"""
    )


def words_of_figures(page: Any) -> list[str]:
    """The text that stands for each figure, drawn by Plotly or by ourselves; every figure has one."""
    labels = "ones => ones.map(one => one.getAttribute('aria-label') || '')"

    def look() -> tuple[list[str], int]:
        return page.locator(FIGURES).evaluate_all(labels), page.locator(".js-plotly-plot").count()

    words, drawn = steady(look, lambda seen: len(seen[0]) == seen[1])
    assert len(words) == drawn
    return words


def end_workers(folder: Path) -> None:
    """End what a test left at work: workers outlive page and server."""
    for entry in runs.entries(folder)[0]:
        if not entry.shipped and entry.active:
            os.kill(worker(entry.folder), signal.SIGKILL)


def worker(run: Path) -> int:
    """The process that writes a run; it says so soon after its start."""
    deadline = time.monotonic() + PATIENCE / 1000
    while not (run / "worker.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return json.loads((run / "worker.json").read_text())["pid"]


def stopped_within(run: Path, level: int) -> int:
    """The process that writes a run, standing still from one of its levels (counted from 1) on, until it is sent SIGCONT.

    A page that is slow because the machine is would otherwise find the run at its end.
    """
    deadline = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError, KeyError):
            status = json.loads((run / "status.json").read_text())
            assert status["state"] not in ("done", "failed"), (
                f"the run was {status['state']} before its level {level} was seen"
            )
            if status.get("level", 0) + 1 >= level:
                process = worker(run)
                os.kill(process, signal.SIGSTOP)
                return process
        time.sleep(0.005)
    raise AssertionError(f"level {level} was not reached within {PATIENCE // 1000} s")
