"""The page Compare without a browser: runs side by side, confusions, levels, the leaderboard and its worker."""

import dataclasses
import re
import shutil
from functools import partial

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from retrofit_app import figures, runs
from retrofit_app.models import predictions
from retrofit_app.pages.compare import ranking, taking
from retrofit_app.runs import compared, leaderboards
from retrofit_core.cli import main
from retrofit_core.methods import METHODS
from retrofit_core.runs import RunConfig
from retrofit_core.runs.comparison import compare_runs, quick_first
from retrofit_core.runs.store import noted
from retrofit_core.system.monitor import Monitor
from retrofit_core.training.evaluation import as_bits

from .analyses import copied
from .pages import clean, page_at, words

pytestmark = pytest.mark.slow


SMALL = {"view": "board", "of": "kf-linear", "methods": "Average,FedAvg", "scores": "uniform"}


open_page = partial(page_at, "compare")


def tables(page: AppTest) -> list[str]:
    """The text of each table, cells separated by |."""
    bodies = [element.proto.body for element in page.get("html") if "class='retrofit-book'" in element.proto.body]
    return [re.sub(r"\|+", "|", re.sub(r"<[^>]+>", "|", body)) for body in bodies]


def pictures(page: AppTest) -> list[str]:
    """What each picture says to who does not see it."""
    return [element.proto.alt for element in page.get("plotly_chart")]


def test_a_useful_pair_is_compared_where_nothing_was_chosen(runs_folder):
    page = open_page()
    assert clean(page) and not page.query_params.get("runs")
    table, settings = tables(page)
    for name in ("HF-Linear", "KF-Linear", "network A", "network B", "ensemble", "plain average"):
        assert f"|{name}|" in table
    assert "2 cnn networks (sharded split) on digits, conductance importance, 359 test images" in table
    assert table.count("1 †") == 2 and "† A single seed" in words(page)
    assert "|grouping|hungarian|kmeans|" in settings and "ridge" not in settings
    assert "HF-Linear and KF-Linear are tied with" in words(page) and "All other settings are the same." in words(page)
    assert len(pictures(page)) == 2


def test_differences_to_the_best_parent_are_those_of_compare(runs_folder):
    """Paired over the same images, as `retrofit compare` computes them."""
    from retrofit_core.runs.comparison import compare_runs

    entries = [runs.read_entry(runs.BUNDLED / name, shipped=True) for name in ("kf-linear", "hf-gradient")]
    (group,) = compared.groups(entries, entries)
    rows = {row.id: row for row in group.every}
    gap = figures.difference(rows["hf-gradient"].each, rows["kf-linear"].each)
    config = RunConfig.from_json(entries[0].config)
    shutil.copytree(runs.BUNDLED, runs_folder)
    base = runs_folder
    located = [
        RunConfig.from_json(
            entry.config | {"models": [str(base / name) for name in config.models], "splits": str(base / "splits.json")}
        )
        for entry in entries
    ]
    board = compare_runs(located, also=[base / "kf-linear", base / "hf-gradient"])
    best, other = (next(row for row in board.rows if row["method"] == name) for name in ("KF-Linear", "HF-Gradient"))
    assert board.rows[0] is best and gap.points == pytest.approx(other["difference"])
    assert gap.ends == pytest.approx(other["interval"])


def test_order_and_layout_are_in_the_address(runs_folder):
    page = open_page(runs="kf-gradient|kf-linear|hf-gradient")
    names = re.findall(r"\|([KH]F-\w+)\|", tables(page)[0])
    assert names == ["KF-Gradient", "KF-Linear", "HF-Gradient"]
    page.selectbox(key="compare-order").set_value("accuracy").run()
    assert "accuracy" in page.query_params["order"]
    names = re.findall(r"\|([KH]F-\w+)\|", tables(page)[0])
    assert names == ["KF-Linear", "KF-Gradient", "HF-Gradient"]
    page.toggle(key="compare-every").set_value(True).run()
    assert "|samples|400|400|400|" in tables(page)[1]
    page.multiselect(key="compare-runs").set_value(["kf-gradient", "hf-linear"]).run()
    assert "kf-gradient|hf-linear" in str(page.query_params["runs"]) and clean(page)


def test_one_run_alone_has_its_references_and_its_files(runs_folder):
    page = open_page(runs="hf-gradient")
    assert clean(page) and "ensemble" in tables(page)[0] and "There is only one row" in words(page)
    assert {"CSV", "Markdown", "LaTeX"} <= {element.proto.label for element in page.get("download_button")}
    assert "at least one method" in words(open_page(view="board", methods=","))


def test_seeds_stand_together_or_apart(runs_folder):
    for seed in (5, 6):
        copied(f"seed-{seed}", seed=seed)
    page = open_page(runs="seed-5|seed-6|hf-linear")
    assert clean(page) and "|2|0.0|" in tables(page)[0]  # two seeds of the same numbers
    page.toggle(key="compare-apart").set_value(True).run()
    assert "KF-Linear, seed 5" in tables(page)[0] and "KF-Linear, seed 6" in tables(page)[0]


def test_a_network_that_is_gone_or_changed_does_not_answer_for_the_old_one(runs_folder):
    file = copied() / "fused.safetensors"
    file.unlink()
    assert clean(open_page(runs="mine|kf-linear"))  # intervals come from the records
    asked = predictions.Network(runs.read_entry(file.parent), "fused", file, 93.0)
    with pytest.raises(ValueError, match="fused.safetensors no longer exists"):
        predictions.ask(asked)
    shutil.copy(runs.BUNDLED / "parent-0.safetensors", file)
    with pytest.raises(ValueError, match="its checkpoint or the data have changed"):
        predictions.ask(asked)


def test_the_comparison_is_copied_with_its_fine_tunings(runs_folder):
    entry = runs.read_entry(runs.BUNDLED / "kf-linear", shipped=True)
    (fused,) = compared.networks_of(entry)
    tuning = {"epochs": 3, "batch": 32, "learning_rate": 0.01, "precision": "float32", "augment": "auto", "seed": 0}
    tuned = dataclasses.replace(fused, tuning=tuning, file=runs_folder / "0123456789" / "tuned.safetensors")
    command, python = taking.texts([fused, tuned])
    assert [line.split()[1] for line in command.splitlines()] == ["train", "compare", "finetune"]
    assert "--epochs 3" in command
    assert "compare_runs(configs" in python


def board_of(**address) -> leaderboards.Leaderboard:
    entries, _ = runs.entries()
    entry = next(entry for entry in entries if entry.name == address["of"])
    return leaderboards.leaderboard(entry, address["methods"].split(","), address["scores"].split(","), entries)


def test_the_plan_counts_what_is_there_and_what_cannot_be(runs_folder):
    page = open_page(view="board", of="kf-linear", methods="KF-Linear,Average,LP", scores="conductance")
    assert clean(page), [element.value for element in [*page.error, *page.warning]]
    assert "**3 runs**: 1 is already done, 2 to do." in words(page)
    table = tables(page)[0]
    assert "|1. KF-Linear, toward=zero|" in table and "Average|24.2" in table  # the run knows it
    assert "LP|" not in table and "Not run yet: LP. Measured with the run, but not timed yet: Average." in words(page)
    assert page.button(key="start-board").label == "Start"


@pytest.mark.parametrize("view", ["runs", "board", "sweep"])
def test_a_view_keeps_the_choices_of_the_others_without_a_word(view, runs_folder):
    page = open_page(view=view, runs="kf-linear|hf-linear", of="kf-linear", methods="LP", scores="uniform", seeds="2")
    assert clean(page) and page.query_params["runs"] == "kf-linear|hf-linear", [each.value for each in page.warning]


def test_some_of_each_family_are_chosen_and_each_has_its_line(runs_folder):
    page = open_page(view="board")
    assert clean(page)
    every = leaderboards.families(list(METHODS))
    assert sorted(name for names in every.values() for name in names) == sorted(METHODS)
    assert "Others" not in every and all(set(names) & {*leaderboards.USUAL} for names in every.values())
    assert "9 runs" in words(page)


def test_equal_accuracies_share_a_place(runs_folder):
    methods = "HF-Linear,KF-Linear,HF-Gradient,Ensemble"
    page = open_page(view="board", of="kf-linear", methods=methods, scores="conductance")
    places = dict(re.findall(r"\|(\d)\. ([KH]F-[^|]+)\|", tables(page)[0])[::-1])
    assert (
        places == {"2": "HF-Linear, toward=zero", "4": "HF-Gradient"}
        and "|2. KF-Linear, toward=zero|" in tables(page)[0]
    )
    assert "of single networks HF-Linear, toward=zero and KF-Linear, toward=zero are first with 93.0" in words(page)


def test_start_makes_a_worker_that_can_be_cancelled(runs_folder, sleeper):
    page = open_page(**SMALL)
    page.button(key="start-board").click().run()
    assert not page.exception
    made = board_of(**SMALL)
    assert made.going and made.state == "running" and made.at_work and made.at_work.name == "Average"
    assert "0 of 2 methods are finished" in page.get("progress")[0].proto.text
    assert "|Average|at work …|" in tables(page)[0]
    page.button(key="cancel-board").click().run()
    assert (made.folder / "cancel").exists() and page.button(key="cancel-board").label == "Cancelling…"
    with pytest.raises(runs.Busy, match="the leaderboard"):
        leaderboards.start(board_of(**SMALL | {"methods": "LP"}))


def test_the_words_of_the_worker_make_these_runs(runs_folder, monkeypatch):
    """The command line reads them as the same configurations, in the folder where the parents lie."""
    jobs, seen = [], {}
    monkeypatch.setattr("retrofit_core.runs.worker.begin", jobs.append)
    made = board_of(of="kf-linear", methods="KF-Linear,Average", scores="conductance,uniform")
    leaderboards.start(made)
    (job,) = jobs
    assert job.base == runs.BUNDLED and job.runs == runs_folder and job.work.folder == made.folder
    monkeypatch.setattr(
        "retrofit_core.runs.comparison.compare_runs", lambda configs, **rest: seen.update(configs=configs, **rest)
    )
    monkeypatch.chdir(job.base)
    with pytest.raises(AttributeError):  # there is no leaderboard to print
        main(["compare", *job.words])
    assert quick_first(seen["configs"]) == [run.config for run in made.runs]
    assert list(seen["also"]) == [runs.BUNDLED / "kf-linear"] and seen["records"] == runs_folder


def test_a_leaderboard_grows_row_by_row_and_ends_whole(runs_folder, monkeypatch):
    """The worker's own work, done here: records, rows with intervals, and what is there is not made again."""
    made, rows_after = board_of(**SMALL), []

    def look(event) -> None:
        if event["kind"] == "phase" and "of 2" in str(event.get("name")):
            rows_after.append(len(board_of(**SMALL).measured))

    monkeypatch.chdir(made.home)
    with noted(made.folder, Monitor(look)) as monitor:
        compare_runs([run.config for run in made.runs], records=runs_folder, out=made.folder, monitor=monitor)
    assert rows_after == [2, 3]  # both parents, then the first method
    again = board_of(**SMALL)
    assert again.state == "done" and all(run.done for run in again.runs)
    page = open_page(**SMALL)
    assert clean(page) and "The leaderboard is complete." in words(page) and "2 are already done" in words(page)
    table = tables(page)[0]
    assert re.search(r"\|\d\. Average\|[\d.]+\|−[\d.]+ \(−[\d.]+ to −[\d.]+\)\|", table), table
    assert any(text.startswith("Accuracy in per cent against seconds. ") for text in pictures(page))


def row(method: str, right: float, rank: int = 1) -> ranking.BoardRow:
    """A method that gets the first of 400 images right."""
    bits = as_bits(np.arange(400) < 4 * right)
    return ranking.BoardRow(method, method, {"accuracy": right, "samples": 400, "knows": bits}, rank=rank)


def test_what_a_class_should_notice_is_computed_from_the_numbers():
    rows = [row("KF-Linear", 93.0), row("Random-Linear", 91.0), row("Git-Re-Basin", 86.0), row("PLeaS", 84.0)]
    assert ranking.noticed(rows) == (
        "Random groups with the fit (91) beat Git-Re-Basin (86) and PLeaS (84); KF-Linear (93) is clearly ahead of them."
    )
    close = [row("KF-Linear", 91.0), row("Random-Linear", 91.0), row("PLeaS", 90.75)]
    assert ranking.noticed(close) == ""  # nothing is clearly beaten
    average = [row("KF-Linear", 90.0), row("Average", 90.0), row("TIES", 80.0)]
    assert (
        ranking.noticed(average) == "The plain average (90) beats TIES (80); KF-Linear (90) is not clearly ahead of it."
    )
    assert ranking.noticed([row("Random-Linear", 91.0), row("TIES", 50.0, rank=0)]) == ""  # not measured
