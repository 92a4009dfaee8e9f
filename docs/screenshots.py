"""Take the pictures of docs/images: `python docs/screenshots.py` (needs Chromium, in CHROMIUM or on the path)."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
WIDTHS = {"wide": 1280, "phone": 390}
FIRST_SCREEN = 900  # px, the height of a window


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
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", port)):
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, 15)
        server.wait()


def settle(page: Page) -> None:
    """Wait until the last picture of the page is drawn."""
    page.get_by_text("PCA hides").wait_for(timeout=60_000)
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length >= 12", timeout=60_000)
    page.wait_for_timeout(700)


def full_height(page: Page) -> int:
    """The page scrolls inside an element of its own, so a whole picture needs a window as high as its content."""
    return page.evaluate("document.querySelector('[data-testid=stMainBlockContainer]').scrollHeight") + 20


def main() -> None:
    """Light and dark, wide and narrow: the first screen and the whole page."""
    IMAGES.mkdir(exist_ok=True)
    executable = chromium()
    if executable is None:
        sys.exit("no Chromium found: install Debian's package, or name the executable in CHROMIUM.")
    with tempfile.TemporaryDirectory() as runs, served(Path(runs)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            for name, width in WIDTHS.items():
                page = browser.new_page(viewport={"width": width, "height": FIRST_SCREEN}, color_scheme=scheme)
                page.goto(address)
                settle(page)
                page.screenshot(path=IMAGES / f"fuse-{name}-{scheme}.png")
                page.set_viewport_size({"width": width, "height": full_height(page)})
                page.wait_for_timeout(900)
                page.screenshot(path=IMAGES / f"fuse-{name}-{scheme}-whole.png")
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
