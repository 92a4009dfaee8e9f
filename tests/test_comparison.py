"""One leaderboard of many methods: same images, honest intervals, a row with its reason where a method does not apply."""

import dataclasses
import json

import numpy as np
import pytest

from retrofit_core.cli import main
from retrofit_core.data import load
from retrofit_core.methods import METHODS
from retrofit_core.runs import RunConfig, execute, leaderboard
from retrofit_core.runs.answers import difference
from retrofit_core.runs.comparison import compare_runs, configurations, title
from retrofit_core.system.monitor import Monitor
from retrofit_core.training.evaluation import evaluate
from tests.marks import each_case
from tests.networks import digits_parents


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Two untrained digits networks."""
    parents = digits_parents(tmp_path_factory.mktemp("parents"), widths=[4, 5, 6])
    return RunConfig(**parents, method="KF-Linear", samples=60, importance_samples=40, device="cpu")


@pytest.mark.slow
def test_the_numbers_are_those_of_the_runs(base, tmp_path):
    board = compare_runs(configurations(base, "kf-linear,average,ensemble", "uniform,conductance"))
    names = {"parent 0", "parent 1", "KF-Linear, uniform", "KF-Linear, conductance", "Average", "Ensemble"}
    assert {row["name"] for row in board.rows} == names
    accuracies = [row["accuracy"] for row in board.rows]
    assert accuracies == sorted(accuracies, reverse=True)
    whole = compare_runs(configurations(base, "kf-linear", "conductance"))
    ours = next(row for row in whole.rows if row["method"])
    result, metrics = execute(dataclasses.replace(base, importance="conductance", evaluate=True))
    fused = metrics["networks"]["fused"]
    assert {name: ours[name] for name in leaderboard.SCORES} == {name: fused[name] for name in leaderboard.SCORES}
    assert evaluate(result.model, load("digits", "test"))["accuracy"] == ours["accuracy"]
    best = whole.rows[0]
    assert best["difference"] == 0 and best["interval"] == (0, 0)
    assert ours["difference"] == pytest.approx(ours["accuracy"] - best["accuracy"])


def test_all_means_every_method_and_words_choose_options(base):
    configs = configurations(base, "all,zipit+repair=true+a=0.5", "uniform,conductance")
    assert {config.method for config in configs} == set(METHODS)
    assert configs[-1].options == {"repair": True, "a": 0.5}
    assert len([config for config in configs if config.method == "Average"]) == 1
    assert len([config for config in configs if config.method == "OTFusion"]) == 2
    assert len({config.key() for config in configs}) == len(configs)
    told = {"preset": "paper", "toward": "parents"}
    paper = configurations(dataclasses.replace(base, options=told), "kf-linear,otfusion", "uniform")
    assert [config.options for config in paper] == [told, None]


@each_case(
    "methods, importance, sentence",
    [
        ("kf-lineer", "uniform", "Did you mean 'KF-Linear'"),
        ("zipit+c=1", "uniform", "unknown keyword of ZipIt: 'c'"),
        ("otfusion", "captum", "unknown importance"),
        ("", "uniform", "'' is not a method of a comparison"),
        ("average,,ensemble", "uniform", "'' is not a method"),
        ("kf-linear+", "uniform", "'kf-linear.' is not a method .* options appended"),
    ],
)
def test_unknown_words_are_refused_before_any_work(base, methods, importance, sentence):
    with pytest.raises(ValueError, match=sentence):
        configurations(base, methods, importance)


def test_runs_of_other_parents_are_not_compared(base):
    with pytest.raises(ValueError, match="the same models in all runs"):
        compare_runs([base, dataclasses.replace(base, models=base.models[:1])])
    with pytest.raises(ValueError, match="nothing to compare"):
        compare_runs([])


def test_the_interval_is_that_of_resampled_images():
    """Against resampling the images themselves, and sure cases."""
    generator = np.random.default_rng(0)
    ours, best = generator.random(400) < 0.6, generator.random(400) < 0.75
    points, (low, high) = difference(ours, best)
    gaps = ours.astype(float) - best
    drawn = 100 * gaps[generator.integers(0, 400, (4000, 400))].mean(1)
    assert points == pytest.approx(100 * gaps.mean())
    assert (low, high) == pytest.approx(np.percentile(drawn, [2.5, 97.5]), abs=0.6)
    assert difference(ours, ours) == (0, (0, 0))


@pytest.mark.slow
def test_a_comparison_in_which_nothing_was_fused_ends_with_1(base, capsys):
    words = ["compare", *base.models, base.models[0], "--fusion-from", "iid", "--samples", "40"]
    assert main([*words, "--methods", "git-re-basin"]) == 1
    shown = capsys.readouterr().out
    assert "parent 0" in shown and "exactly two parents; found 3" in shown
    assert main([*words, "--methods", "git-re-basin", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["rows"][-1]["accuracy"] is None
    assert main([*words, "--methods", "git-re-basin,ensemble", "--json"]) == 0


def test_the_command_prints_and_writes_the_board(base, tmp_path, capsys):
    words = ["compare", *base.models, "--splits", str(base.splits), "--samples", "40"]
    assert main([*words, "--methods", "average,kf-linear,rebasin", "--out", str(tmp_path)]) == 2  # a typing error
    assert "Git-Re-Basin" in capsys.readouterr().err and not list(tmp_path.iterdir())
    assert main([*words, "--methods", "average,kf-linear+grouping=random", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    board = json.loads((tmp_path / "leaderboard.json").read_text())
    groupings = {row["method"]: row["grouping"] for row in board["rows"]}
    assert groupings == {None: None, "Average": None, "KF-Linear": "random"}
    for row in board["rows"]:
        assert row["name"] in shown and f"{row['accuracy']:.2f}" in shown
        assert row["interval"][0] <= row["difference"] <= row["interval"][1]


def test_a_comparison_takes_groupings_and_options_of_scores(base):
    configs = configurations(base, "hf-linear+grouping=kmeans+restarts=3", "uniform,conductance")
    assert [config.options for config in configs] == [{"grouping": "kmeans", "restarts": 3}] * 2
    assert title(configs[1]) == "HF-Linear, kmeans, conductance, restarts=3"
    for methods, scores, sentence in (
        ("kf-linear+steps=4", "uniform", "steps is a setting of importance='conductance', which is not chosen"),
        ("kf-linear", "uniform,conductance+steps=4", "append a score and its options to a method"),
        ("kf-linear+importance=luck", "uniform", "importance"),
    ):
        with pytest.raises(ValueError, match=sentence):
            configurations(base, methods, scores)
    own, *others = configurations(base, "kf-linear+importance=conductance+steps=4,kf-linear", "uniform,deeplift")
    assert (own.importance, own.options) == ("conductance", {"steps": 4})
    assert [config.importance for config in others] == ["uniform", "deeplift"]


def test_the_leaderboard_is_saved_after_every_row(base, tmp_path):
    saved = []

    def look(event):
        if event["kind"] == "phase" and "of 2" in event["name"]:
            saved.append([row["name"] for row in json.loads((tmp_path / "leaderboard.json").read_text())["rows"]])

    board = compare_runs(configurations(base, "average,regmean", "uniform"), out=tmp_path, monitor=Monitor(look))
    assert [set(names) - {"parent 0", "parent 1"} for names in saved] == [set(), {"Average"}]
    assert json.loads((tmp_path / "leaderboard.json").read_text()) == json.loads(json.dumps(board.to_json()))
