"""How long the workbench takes to show another level: `python benchmarks/app.py RUN` (needs Chromium); its first page:
`python benchmarks/app.py first` (as well); a landscape: `python benchmarks/app.py landscape [RUN]` (as well); the leaderboard of
all methods on the shipped run's networks: `python benchmarks/app.py leaderboard` (as well); and to list a thousand runs:
`python benchmarks/app.py listing`.

RUN is the folder of a finished record with an analysis. The workbench is served from the folder that holds it, every
level is visited twice by the Next button, and the time runs from the click until all pictures of the new level are drawn:
first visits, for which the server draws, and second ones. Beside the time stands what the page's own thread computed for it,
which other work on the machine does not change. Then 50 more switches: how much server and page grow by them.
"""

import importlib.util
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from machine import facts
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
specification = importlib.util.spec_from_file_location("screenshots", ROOT / "docs" / "screenshots.py")
assert specification is not None and specification.loader is not None
screenshots = importlib.util.module_from_spec(specification)
specification.loader.exec_module(screenshots)
#: Pictures carry their level in their alternative text, which is written together with what is drawn; all must be the new
#: level's.
DRAWN = """name => {
  const figures = [...document.querySelectorAll('.retrofit-neurons [aria-label^="Scatter plot of the neurons of level"]')];
  return figures.length > 0 && figures.every(figure => figure.getAttribute('aria-label').includes(`level ${name} on`)
    && figure.querySelector('svg[viewBox] .base *'));
}"""


#: The planes of a landscape that is being measured say how many points there are; nine are the coarse picture. The caption of
#: a whole one names its seed. The page before stays until the new pictures are there.
LANDSCAPE_DRAWN = """([seed, whole]) => {
  const drawn = one => one && (one.querySelector('.main-svg')
    || one.closest('[data-testid=stPlotlyChart]').querySelector('.main-svg'));
  const planes = [...document.querySelectorAll('[aria-label^="Unfinished picture of the"]')];
  const points = one => Number((one.getAttribute('aria-label').match(/(\\d+) of \\d+ points are/) || [0, 0])[1]);
  if (!whole && planes.length === 2 && planes.every(one => points(one) >= 9 && drawn(one))) return true;
  return document.body.innerText.includes(`(test), seed ${seed}.`)
    && ['Contours of the loss', 'Contours of the accuracy', 'Lines of loss']
      .every(words => drawn(document.querySelector(`[aria-label^="${words}"]`)));
}"""
SWITCHES, RECORDS, VISITS = 50, 1000, 3


def switches(page: Page, names: list[str], metrics: Callable[[], dict[str, float]]) -> dict[str, tuple[float, float]]:
    """Seconds from the click on Next until a level is shown, and those its thread computed; first level to last."""
    times = {}
    for name in names[1:]:
        begun, computed = time.perf_counter(), metrics()["TaskDuration"]
        step(page, "Next", name)
        seconds = time.perf_counter() - begun
        page.wait_for_timeout(1500)
        times[name] = seconds, metrics()["TaskDuration"] - computed
    return times


def step(page: Page, button: str, name: str) -> None:
    """Click, and wait for the level."""
    page.get_by_role("button", name=button).click()
    page.wait_for_function(DRAWN, arg=name, polling="raf", timeout=30_000)


def growth(page: Page, names: list[str], measure: Callable[[], tuple[float, float]]) -> None:
    """Print how many MB the server's memory and the page's heap grow by in 50 switches between two levels."""
    last = names[-2:]
    before = measure()
    for index in range(SWITCHES):
        step(page, "Previous" if index % 2 == 0 else "Next", last[index % 2])
    page.wait_for_timeout(1500)
    after = measure()
    print(
        f"{SWITCHES} switches: server {before[0]:.0f} -> {after[0]:.0f} MB, page's heap {before[1]:.0f} -> {after[1]:.0f} MB"
    )


def resident(port: str) -> float:
    """MB of memory of the server that listens on this port (Linux): the largest process that was started with it."""
    sizes = [0]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if port in (process / "cmdline").read_text().split("\0"):
                sizes += [
                    int(line.split()[1])
                    for line in (process / "status").read_text().splitlines()
                    if line.startswith("VmRSS")
                ]
        except OSError:  # it has ended meanwhile
            continue
    return max(sizes) / 1e3


def time_words(seconds: float, computed: float) -> str:
    return f"{seconds:.2f} s (page's thread {computed:.2f} s)"


def listing() -> None:
    """Print how long a list of RECORDS small records takes: read for the first time, and again when nothing has changed."""
    from retrofit_app import runs

    print(json.dumps(facts()))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for index in range(RECORDS):
            record = folder / f"{index:010x}"
            record.mkdir()
            for name in ("config.json", "status.json", "metrics.json", "result.json"):
                shutil.copy(runs.BUNDLED / "kf-linear" / name, record / name)
        for words in ("first", "again", "again"):
            begun = time.perf_counter()
            entries, _ = runs.entries(folder)
            read = time.perf_counter()
            for entry in entries:
                runs.label(entry), entry.active, entry.analysing
            shown = time.perf_counter() - read
            print(
                f"{len(entries)} runs, {words}: listed in {1e3 * (read - begun):.0f} ms, their lines in {1e3 * shown:.0f} ms"
            )


def first_page() -> None:
    """Print how long a new server takes to answer, and then, visit by visit, the first page: its tiles with the headline,
    its first figure, and the last of them."""
    print(json.dumps(facts()))
    begun = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        screenshots.served(Path(folder)) as address,
        sync_playwright() as playwright,
    ):
        print(f"the server answers after {time.perf_counter() - begun:.1f} s")
        browser = playwright.chromium.launch(executable_path=screenshots.chromium(), args=["--no-sandbox"])
        for visit in range(1, VISITS + 1):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            begun = time.perf_counter()
            page.goto(address)
            seconds = []
            for selector in (
                ".retrofit-tiles",
                ".js-plotly-plot .main-svg",
                "[aria-label^='Scatter plot of the neurons']",
            ):
                page.locator(selector).first.wait_for(timeout=60_000)
                seconds.append(time.perf_counter() - begun)
            print(
                "visit {}: tiles {:.1f} s, first figure {:.1f} s, neurons {:.1f} s".format(visit, *seconds), flush=True
            )
            screenshots.at_rest(page)  # the next visitor comes when the server has done its work for this one
            page.close()
        browser.close()


def landscape(run: Path | None) -> None:
    """Print how long a landscape at the form's defaults takes, from the press of Start: its first coarse picture (nine points,
    drawn), and the whole of it, drawn; of the shipped run, or of a record of one's own.

    The shipped run has its landscape already, so that another seed is asked for, which is the same work.
    """
    print(json.dumps(facts()))
    with (
        tempfile.TemporaryDirectory() as folder,
        screenshots.served(run.parent if run else Path(folder)) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=screenshots.chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(3_600_000)
        seed = int(time.time()) % 1_000_000  # one that was not measured before
        page.goto(f"{address}/landscape?seed={seed}" + (f"&run={run.name}" if run else ""))
        box = page.get_by_text("Measure another landscape of this run").or_(
            page.get_by_text("Measure a landscape of this run")
        )
        box.wait_for()
        start = page.get_by_role("button", name="Start", exact=True)
        screenshots.at_rest(page)
        if not start.count():
            box.click()
        start.wait_for()
        screenshots.at_rest(page)
        print(page.get_by_text("evaluations of").inner_text().replace("\n", " "))
        begun = time.perf_counter()
        start.click()
        for words in ("coarse picture", "whole"):
            page.wait_for_function(LANDSCAPE_DRAWN, arg=[seed, words == "whole"], polling=50)
            print(f"{words}: {time.perf_counter() - begun:.1f} s after Start", flush=True)
        browser.close()


def leaderboard() -> None:
    """Print how long the leaderboard of every method takes, on the networks and settings of the shipped run: until it can be
    started, and from the press of Start until its first row that was not there, and its last."""
    print(json.dumps(facts()))
    with (
        tempfile.TemporaryDirectory() as folder,
        screenshots.served(Path(folder)) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=screenshots.chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(3_600_000)
        begun = time.perf_counter()
        page.goto(f"{address}/compare?view=board&of=kf-linear")
        start = page.get_by_role("button", name="Start", exact=True)
        start.wait_for()
        print(f"{page.get_by_text('are to be made').inner_text()}\nsaid after {time.perf_counter() - begun:.1f} s")
        screenshots.at_rest(page)
        before = page.locator(".retrofit-book").inner_text().count("not run yet")
        begun = time.perf_counter()
        start.click()
        page.wait_for_function(
            "count => document.querySelector('.retrofit-book').innerText.split('not run yet').length - 1 < count",
            arg=before,
        )
        print(f"first row: {time.perf_counter() - begun:.1f} s after Start", flush=True)
        page.get_by_text("Everything is there").wait_for()
        print(f"whole: {time.perf_counter() - begun:.1f} s")
        browser.close()


def main() -> None:
    """Print what was measured and write nothing."""
    if sys.argv[1:2] == ["landscape"]:
        landscape(Path(sys.argv[2]).absolute() if sys.argv[2:] else None)
        return
    others = {"listing": listing, "first": first_page, "leaderboard": leaderboard}
    if len(sys.argv) == 2 and sys.argv[1] in others:
        others[sys.argv[1]]()
        return
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
        inspector = page.context.new_cdp_session(page)
        inspector.send("Performance.enable", {"timeDomain": "threadTicks"})

        def metrics() -> dict[str, float]:
            return {row["name"]: row["value"] for row in inspector.send("Performance.getMetrics")["metrics"]}

        def measure() -> tuple[float, float]:
            inspector.send("HeapProfiler.collectGarbage")
            return resident(address.rpartition(":")[2]), metrics()["JSHeapUsedSize"] / 1e6

        first = switches(page, names, metrics)
        page.locator("h1").click()
        page.keyboard.press("Home")
        page.wait_for_function(DRAWN, arg=names[0], timeout=60_000)
        page.wait_for_timeout(1500)
        second = switches(page, names, metrics)
        for name in names[1:]:
            print(f"{name:24} first {time_words(*first[name])}, again {time_words(*second[name])}")
        for words, times in (("first", first), ("again", second)):
            print(f"median {words}: {time_words(*map(statistics.median, zip(*times.values(), strict=True)))}")
        growth(page, names, measure)
        browser.close()


if __name__ == "__main__":
    main()
