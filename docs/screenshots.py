"""Take the pictures of docs/images: `python docs/screenshots.py` (needs Chromium, in CHROMIUM or on the path)."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, sync_playwright

from retrofit_app import learn

IMAGES = Path(__file__).parent / "images"
PAGES = {
    "fuse": "/",
    "levels": "/levels?step=grouping",
    "landscape": "/landscape",
    "compare": "/compare",
    "paper": "/paper",
}
#: Of each page: how the words of its last picture begin, and how many pictures it has at least.
LAST = {
    "fuse": ("Points of accuracy", 2),
    "levels": ("Bands from", 1),
    "landscape": ("Lines of loss", 3),
    "compare": ("Table of accuracy by class", 1),
    "paper": ("Dot plot of", 4),
}
#: Width and height of the windows: a laptop, a telephone held upright, a projector.
WINDOWS = {"wide": (1280, 1240), "phone": (390, 1240), "projector": (1920, 1080)}
#: A fusion that takes long enough to be seen at work.
RUNNING = "/?view=new&preset=sharded&method=KF-Gradient&samples=400&fusion-seed=7"
LARGEST = 500_000  # bytes of an image


def chromium() -> str | None:
    """Debian's Chromium, or the one named in CHROMIUM."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def served(runs: Path) -> Iterator[str]:
    """The workbench on a free port, as `retrofit app` starts it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "retrofit_core", "app", "--no-browser", "--port", str(port), "--runs", str(runs)]
    settings = {name: value for name, value in os.environ.items() if name != "RETROFIT_DATA"}  # digits only
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=settings, start_new_session=True)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", port)):
                    break
            time.sleep(0.1)
        else:
            raise RuntimeError("the workbench did not start within a minute.")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, 15)
        server.wait()


def settle(page: Page, name: str, figures: int | None = None) -> None:
    """Wait until the last picture of a page is drawn.

    Args:
        figures: how many there are at least, where that is not as usual.
    """
    words, usual = LAST[name]
    page.locator(f"[aria-label^='{words}']").last.wait_for()
    drawn(page, usual if figures is None else figures)


def drawn(page: Page, figures: int, part: str = ".main-svg") -> None:
    """Wait until there are so many figures at least, and each holds an element that a selector finds."""
    page.wait_for_function(
        "([count, part]) => (found => found.length >= count && found.every(one => one.querySelector(part)))"
        "([...document.querySelectorAll('.js-plotly-plot')])",
        arg=[figures, part],
    )
    at_rest(page)
    page.wait_for_timeout(1000)  # figures that were resized are drawn once more


def at_rest(page: Page) -> None:
    """The server has sent everything that belongs to the last click."""
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()


def shoot(page: Page, name: str) -> None:
    """Save what is seen.

    Raises:
        SystemExit: the image is too large.
    """
    image = IMAGES / f"{name}.png"
    page.screenshot(path=image)
    if image.stat().st_size > LARGEST:
        sys.exit(f"{image.name} has more than {LARGEST // 1000} kB: take a smaller window.")


def work(open_page: Callable[..., Page], address: str) -> None:
    """The form, a fusion at work, and the list of runs with the notice of it."""
    page = open_page("wide")
    page.goto(f"{address}/?view=new&preset=widths")
    page.get_by_role("button", name="Start", exact=True).wait_for()
    page.wait_for_timeout(1500)
    shoot(page, "fuse-form-wide-light")
    page.goto(address + RUNNING)
    page.get_by_role("button", name="Start", exact=True).wait_for()
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_text("Level 2 of").wait_for()
    shoot(page, "fuse-running-wide-light")
    other = open_page("wide")
    other.goto(f"{address}/?view=runs")
    other.get_by_text("fusion is").first.wait_for()
    other.locator("[data-testid=stDataFrame] canvas").nth(1).wait_for()
    other.wait_for_timeout(1500)
    shoot(other, "fuse-runs-wide-light")
    page.get_by_role("heading", name="Where is knowledge lost?").wait_for()  # nothing is left at work


def learning(open_page: Callable[..., Page]) -> None:
    """A step of the explanation, which is a file of its own."""
    with tempfile.TemporaryDirectory() as folder:
        learn.save(file := Path(folder) / "learn.html")
        page = open_page("wide")
        page.set_viewport_size({"width": 1280, "height": 720})
        page.goto(f"{file.as_uri()}#step=7")
        page.wait_for_timeout(2500)  # its curve has grown
        shoot(page, "learn-wide-light")


def main() -> None:
    """All pages with the shipped run, wide and narrow, light and dark; a lecture; the form, a fusion at work, the list."""
    IMAGES.mkdir(exist_ok=True)
    executable = chromium()
    if executable is None:
        sys.exit("no Chromium found: install Debian's package, or name the executable in CHROMIUM.")
    with tempfile.TemporaryDirectory() as runs, served(Path(runs)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])

        def open_page(window: str, scheme: Literal["light", "dark"] = "light") -> Page:
            width, height = WINDOWS[window]
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.set_default_timeout(120_000)
            return page

        for name, place in PAGES.items():
            for window in ("wide", "phone"):
                for scheme in ("light", "dark"):
                    page = open_page(window, scheme)
                    page.goto(address + place)
                    settle(page, name)
                    shoot(page, f"{name}-{window}-{scheme}")
                    page.close()
        page = open_page("projector")
        page.goto(f"{address}/levels?step=grouping&lecture=1")
        settle(page, "levels", figures=1)
        shoot(page, "lecture-light")
        page = open_page("projector")
        page.goto(f"{address}/landscape?lecture=1&shown=1")
        drawn(page, 2, ".contourlayer path")
        shoot(page, "landscape-lecture-light")
        work(open_page, address)
        learning(open_page)
        browser.close()


if __name__ == "__main__":
    main()
