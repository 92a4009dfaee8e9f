"""A sweep in the workbench: its curve by the numbers, the worker's words, and one entry of Your runs."""

import contextlib
from functools import partial

import pytest

from retrofit_app import runs
from retrofit_app.figures import DARK, LIGHT
from retrofit_app.figures.sweep import finding, swept
from retrofit_app.runs import leaderboards, sweeps
from retrofit_core.cli import main
from retrofit_core.runs import snippets, worker

from .pages import clean, page_at, words

open_sweep = partial(page_at, "compare", view="sweep")


def row(value, accuracy: float, interval: tuple[float, float], *seeds: float) -> dict:
    difference, seeds = sum(interval) / 2, seeds or (accuracy,)
    names = [f"run-{value}-{index}" for index in range(len(seeds))]
    return {
        "value": value,
        "accuracy": accuracy,
        "difference": difference,
        "interval": list(interval),
        "reason": None,
    } | {"per_seed": list(seeds), "runs": names, "seconds": 1.0}


def curve(*rows: dict, over: str = "ridge", **accuracies: float) -> dict:
    networks = {name.replace("_", " "): {"accuracy": accuracy} for name, accuracy in accuracies.items()}
    return {"over": over, "seeds": len(rows[0]["per_seed"]), "networks": networks, "rows": list(rows)}


LOW, MIDDLE, BEST = row("0.01x", 88, (-7, -3), 87, 89), row("0.1x", 92, (-3, 1), 92, 92), row("1x", 93, (0, 0), 92, 94)
THREE = curve(LOW, MIDDLE, BEST, parent_0=86.0, parent_1=85.9, ensemble=95.0)


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_the_curve_has_the_numbers_and_its_bars_end_where_the_intervals_do(palette):
    picture = swept(THREE, palette)
    line, dots = picture.figure.to_plotly_json()["data"]
    assert line["x"] == [0.01, 0.1, 1] and line["y"] == [88, 92, 93]
    assert [y + up for y, up in zip(line["y"], line["error_y"]["array"], strict=True)] == [90, 94, 93]
    assert [y - down for y, down in zip(line["y"], line["error_y"]["arrayminus"], strict=True)] == [86, 90, 93]
    assert line["customdata"][1] == ["run-0.1x-0"] and dots["customdata"][1] == ["run-0.01x-1"]
    assert dots["y"] == [87, 89, 92, 92, 92, 94]
    layout = picture.figure.to_plotly_json()["layout"]
    assert layout["xaxis"]["type"] == "log" and layout["xaxis"]["ticktext"] == ["0.01x", "0.1x", "1x"]
    assert [note["text"] for note in layout["annotations"]] == ["ensemble 95.0", "A 86.0, B 85.9"]
    assert "ridge" in picture.alt and "0.1x 92.0" in picture.alt


def test_networks_that_are_far_off_are_not_drawn_and_a_narrow_span_is_linear():
    picture = swept(curve(row(1, 92, (-1, 1)), row(2, 92, (0, 0)), over="width", parent_0=20.0, ensemble=93.0), LIGHT)
    layout = picture.figure.to_plotly_json()["layout"]
    assert [note["text"] for note in layout["annotations"]] == ["ensemble 93.0"] and "type" not in layout["xaxis"]
    assert len(picture.figure.data) == 1  # no seeds


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            (LOW, MIDDLE, BEST),
            "ridge = 1x is highest with 93.0\N{NO-BREAK SPACE}%; clearly worse is 0.01x; the others do not clearly differ",
        ),
        ((LOW, BEST), "ridge = 1x is highest with 93.0\N{NO-BREAK SPACE}%; clearly worse is 0.01x."),
        (
            (MIDDLE, BEST),
            "No value of ridge is clearly best: 92.0\N{NO-BREAK SPACE}% to 93.0\N{NO-BREAK SPACE}% over 2 values.",
        ),
        (
            (LOW, row("10x", 93, (-1, 1)), BEST),
            "ridge = 10x and 1x are highest with 93.0\N{NO-BREAK SPACE}%; clearly worse is 0.01x.",
        ),
        ((BEST,), "ridge = 1x is highest with 93.0\N{NO-BREAK SPACE}%, so far."),
    ],
)
def test_the_finding_follows_the_intervals(rows, said):
    assert finding(curve(*rows)).startswith(said)


@pytest.mark.slow
def test_the_worker_makes_it_and_it_is_one_entry_of_your_runs(runs_folder, monkeypatch, capsys):
    jobs = []
    monkeypatch.setattr(worker, "begin", jobs.append)
    address = {"run": "hf-linear", "over": "samples", "values": "40, 20, 30"}
    page = open_sweep(**address)
    assert clean(page) and not page.get("plotly_chart")
    page.button(key="start-sweep").click().run()
    (job,) = jobs
    with contextlib.chdir(job.base):
        assert main([job.work.kind.command, *job.words, "--json"]) == 0
    page = open_sweep(**address)
    assert clean(page) and "start-sweep" not in {button.key for button in page.button}
    (work,) = (
        sweeps.sweep(entry, "samples", "20,30,40", 1) for entry in runs.entries()[0] if entry.name == "hf-linear"
    )
    assert (
        work.folder == job.work.folder and work.state == "done" and finding(work.curve) in words(page).replace("**", "")
    )
    compile(snippets.sweep_python(work.asked), "sweep", "exec")
    (kept,) = leaderboards.kept(runs.entries()[0])
    assert {entry.name for entry in kept.runs} == {name for each in work.curve["rows"] for name in each["runs"]}
    listed = page_at(view="runs", ticks=kept.name)
    assert ("Sweep: samples", "3 runs") in list(
        zip(*(listed.dataframe[0].value[name] for name in ("method", "run")), strict=True)
    )
    listed.button(key="delete").click().run()
    assert not leaderboards.kept(runs.entries()[0]) and not listed.error


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ({"values": "1, 2"}, "3 to 9 different values. Found 2 for samples. Separate them by commas."),
        ({"over": "ridge", "values": "1, 2, 3x"}, "Write all in one way"),
        ({"over": "width", "values": "0, 1, 2"}, "width is 0"),
    ],
)
def test_what_is_no_sweep_says_why_in_its_place(address, sentence, runs_folder):
    page = open_sweep(**address)
    assert not page.exception and any(sentence in info.value for info in page.info)
