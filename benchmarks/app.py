"""How long the workbench takes to show another level: `python benchmarks/app.py RUN` (needs Chromium).

RUN is the folder of a finished record with an analysis. The workbench is served from the folder that holds it, every
level is visited twice by the Next button, and the time runs from the click until all pictures of the new level are drawn:
first visits, for which the server draws, and second ones.
"""

import importlib.util
import json
import statistics
import sys
import time
from pathlib import Path

from machine import facts
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
specification = importlib.util.spec_from_file_location("screenshots", ROOT / "docs" / "screenshots.py")
assert specification is not None and specification.loader is not None
screenshots = importlib.util.module_from_spec(specification)
specification.loader.exec_module(screenshots)
#: Pictures carry their level in their alternative text; all three must be the new level's, and drawn.
DRAWN = """name => {
  const figures = [...document.querySelectorAll('[aria-label^="Scatter plot of the neurons of level"]')];
  return figures.length > 0 && figures.every(figure => figure.getAttribute('aria-label').includes(`level ${name} on`)
    && (figure.querySelector('.scatterlayer') || figure.closest('[data-testid=stPlotlyChart]').querySelector('.scatterlayer')));
}"""


def switches(page: Page, names: list[str]) -> dict[str, float]:
    """Seconds from the click on Next until a level is shown, from the first level to the last."""
    found = {}
    for name in names[1:]:
        begun = time.perf_counter()
        page.get_by_role("button", name="Next").click()
        page.wait_for_function(DRAWN, arg=name, polling="raf", timeout=30_000)
        found[name] = time.perf_counter() - begun
        page.wait_for_timeout(1500)
    return found


def main() -> None:
    """Print a line per level and write nothing."""
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "analysis.json").exists():
        sys.exit("name the folder of one finished record with an analysis: python benchmarks/app.py RUN")
    run = Path(sys.argv[1]).absolute()
    names = [level["name"] for level in json.loads((run / "analysis.json").read_text())["levels"]]
    with screenshots.served(run.parent) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=screenshots.chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        begun = time.perf_counter()
        page.goto(f"{address}/levels?run={run.name}&level={names[0]}")
        page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=60_000)
        strip = time.perf_counter() - begun
        page.wait_for_function(DRAWN, arg=names[0], timeout=60_000)
        print(json.dumps(facts()))
        print(f"cold: strip {strip:.1f} s, first level {time.perf_counter() - begun:.1f} s")
        page.wait_for_timeout(3000)
        first = switches(page, names)
        page.get_by_role("button", name="First").click()
        page.wait_for_function(DRAWN, arg=names[0], timeout=60_000)
        page.wait_for_timeout(1500)
        second = switches(page, names)
        for name in names[1:]:
            print(f"{name:24} first {first[name]:.2f} s, again {second[name]:.2f} s")
        print(
            f"median: first {statistics.median(first.values()):.2f} s, again {statistics.median(second.values()):.2f} s"
        )
        browser.close()


if __name__ == "__main__":
    main()
