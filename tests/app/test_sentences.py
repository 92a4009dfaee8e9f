"""Every conclusion that a page can say, said of made-up numbers: other numbers, another sentence."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace as Made

import numpy as np
import pytest
import torch

from retrofit_app import runs
from retrofit_app.figures import LIGHT, agreement, claimed, classes, lettered, tuning
from retrofit_app.figures.diagnosis import diagnosis
from retrofit_app.figures.landscape import average_words, better_words, headline, rises_words
from retrofit_app.figures.landscape.paths import _accuracy_words
from retrofit_app.figures.paper.cells import cells
from retrofit_app.figures.sheets import split_words
from retrofit_app.learn.measured import FILE
from retrofit_app.pages.compare.table import findings
from retrofit_app.pages.fuse import configs, lost, presets
from retrofit_app.pages.fuse.parameters import Picks
from retrofit_app.pages.levels.grouping import sizes_words
from retrofit_app.runs import headline as first_page
from retrofit_app.runs import methods, paper, records
from retrofit_app.runs.compared import FUSED, PARENT, Group, Row
from retrofit_app.runs.ingredients import Ingredient, steps_of
from retrofit_app.runs.ingredients import finding as of_ingredients
from retrofit_app.runs.words import networks_words
from retrofit_core.fusion.importance import IMPORTANCE
from retrofit_core.methods import METHODS
from retrofit_core.training.evaluation import as_bits

from .pages import claims, count
from .test_diagnosis import course, levels

SPACE = "\N{NO-BREAK SPACE}"
IMAGES = 1000


def facts(accuracy: float, per_class: list[float] | None = None) -> dict:
    """A result of a network that is right on the first images."""

    right = np.arange(IMAGES) < accuracy * IMAGES / 100
    return {"accuracy": accuracy, "samples": IMAGES, "knows": as_bits(right), "per_class": per_class or [accuracy]}


def path(barrier: float, first: str = "parent 0", last: str = "parent 1") -> Made:
    return Made(barrier=barrier, first=first, last=last)


def of_paths(*barriers: float) -> str:
    return headline(Made(paths=[path(barrier, last=f"parent {index + 1}") for index, barrier in enumerate(barriers)]))


def of_average(average: float, *alone: float) -> str:
    names = {f"parent {index}": value for index, value in enumerate(alone)} | {"average": average}
    return average_words(Made(markers=[Made(name=name, accuracy=value) for name, value in names.items()]))


def of_rises(*means: float) -> str:
    rises = [Made(name=f"parent {index}", mean=mean) for index, mean in enumerate(means)]
    return rises_words(Made(rises=rises, facts={"radius": 0.5}))


def of_grid(*points: tuple[float, float], marked: tuple[float, float] = (0.5, 90.0)) -> str:
    """The words on a grid of points, each a loss and an accuracy, around one network."""
    loss, accuracy = (torch.tensor([values]) for values in zip(*points, strict=True))
    marker = Made(name="fused", loss=marked[0], accuracy=marked[1])
    finished = torch.ones_like(loss, dtype=torch.bool)
    return better_words(Made(markers=[marker], loss=loss, accuracy=accuracy, finished=finished))


def of_rows(*accuracies: float, parent: float = 50.0) -> str:
    rows = tuple(Row(f"M{index}", FUSED, f"m{index}", (facts(value),)) for index, value in enumerate(accuracies))
    best = Row("network A", PARENT, "parent 0", (facts(parent),))
    (sentence,) = findings([Group("", None, rows, (best,), ())])
    return sentence


def of_groups(*names: str) -> str:
    """What Compare says of runs of one method on networks of their own, by the runs' titles."""
    entry = runs.read_entry(runs.BUNDLED / "kf-linear", shipped=True)
    groups = []
    for name in names:
        made = Made(entry=replace(entry, title=name))
        groups.append(Group("", entry, (Row("KF", FUSED, name, (facts(90.0),), (made,)),), (), ()))
    return " ".join(findings(groups))


def of_kept(kept: str) -> str:
    """What Compare says of a run of Auto that kept a parent, network A being the best."""
    entry = runs.read_entry(runs.BUNDLED / "kf-linear", shipped=True)
    made = Made(entry=entry)
    rows = (Row(f"Auto: {kept}", FUSED, "auto", (facts(90.0),), (made,)),)
    parents = tuple(
        Row(f"network {letter}", PARENT, f"parent {index}", (facts(value),))
        for index, (letter, value) in enumerate((("A", 90.0), ("B", 70.0)))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "keeps_one", lambda entry: kept)
        (sentence,) = findings([Group("", entry, rows, parents, ())])
    return sentence


def of_parts(
    average: float, groups: float | None, fitted: float, drawn: float | None = None, plain: float | None = None
) -> str:
    known = [Ingredient("average", False, facts(average))]
    known += [Ingredient("own", False, facts(groups))] if groups else []
    known += [Ingredient("random", True, facts(drawn))] if drawn else []
    known += [Ingredient("same_index", fit, facts(plain)) for fit in (False, True)] if plain else []
    return of_ingredients(steps_of([*known, Ingredient("own", True, facts(fitted))], "KF-Linear"))


def of_classes(*per_class: list[float]) -> str:
    parents = [
        classes.Network(f"network {name}", "parent", 0.0, each) for name, each in zip("AB", per_class, strict=True)
    ]
    return classes.origins(parents, ["cat", "dog"])


def kept(ours: list[float], second: float = 80.0) -> str:
    parent = classes.Network("A", "parent", 0.0, [90.0, second])
    return classes.forgotten([classes.Network("fused", "fused", 0.0, ours)], [parent], ["cat", "dog"])


def of_agreement(pair: float, floor: float, least: float) -> str:
    row = {"most": 1.0}
    rows = [
        {"first": "uniform", "second": "deeplift", "mean": pair, "least": pair, **row},
        *({"first": name, "second": name, "mean": floor, "least": least, **row} for name in ("uniform", "deeplift")),
    ]
    return agreement.agreement_words(rows)


def of_tuning(*accuracies: float) -> str:
    best = max(range(len(accuracies)), key=accuracies.__getitem__)
    seen = [{"epoch": epoch, "best": best, "accuracy": value} for epoch, value in enumerate(accuracies)]
    return tuning._finding(seen, {}, 2)


def of_fused(fused: float, average: float, *alone: float, seconds: float = 2.0) -> str:
    """The first page's finding."""
    entry = runs.read_entry(runs.BUNDLED / "kf-linear", shipped=True)
    entry.status["seconds"] = seconds
    networks = {f"parent {index}": facts(value) for index, value in enumerate(alone)}
    networks |= {"fused": facts(fused), "average": facts(average), "ensemble": facts(95.0)}
    entry.metrics["networks"] = {name: {**each, "per_class": [each["accuracy"]]} for name, each in networks.items()}
    return first_page.finding(entry)


def of_architectures(*names: str) -> str:
    entry = runs.read_entry(runs.BUNDLED / "kf-linear", shipped=True)
    return networks_words(replace(entry, training={"arch": list(names)}))


def of_tile(name: str, **settings: object) -> str:
    """A tile's note on the first page."""
    entry = runs.read_entry(runs.BUNDLED / "kf-linear", shipped=True)
    entry.config.update(settings)
    return next(tile.note for row in first_page.rows(entry, None) for tile in row if tile.name == name)


SAID = [
    (records._spec_words("cnn"), "cnn", "-"),
    (records._spec_words('{"architecture": "cnn", "widths": [8, 16, 16]}'), "cnn 8-16-16", "{"),
    (of_architectures("cnn", '{"architecture": "cnn", "widths": [8]}'), "2 cnn and cnn 8 networks", ","),
    (of_architectures("cnn", "cnn"), "2 cnn networks", "and"),
    (sizes_words(np.array([2, 2])), "Every group has 2 neurons.", "argest"),  # Hungarian pairs
    (sizes_words(np.array([1, 1])), "Every group has 1 neuron.", "alone"),
    (sizes_words(np.array([1, 3])), "Largest group: 3 neurons; 1 is alone", "Every"),
    (of_tile("Ensemble"), "runs both networks", "twice"),  # of any widths
    (of_tile("Fused", target="parent-1.safetensors"), "the chosen size", "another"),  # which may be A's
    (of_paths(0.004), "no barrier", "highest"),
    (of_paths(2.0), "loss rises by 2.00", "lowest"),
    (of_paths(2.0, 0.5), "The lowest, 0.50", "no barrier"),
    (of_average(40, 50, 60), "worse than either", "better"),
    (of_average(55, 50, 60), "between worst and best", "either"),
    (of_average(70, 50, 60), "better than either", "worst"),
    (of_average(70, 50, 60, 65), "better than all of them", "worst"),
    (of_average(40, 50, 60, 65), "worse than all of them", "better"),
    (of_rises(0.1, 0.4), "least around A (0.10 on average), most around B (0.40)", "every network"),
    (of_rises(0.1, 0.1), "0.10 on average around every network", "least"),
    (of_rises(0.1), "around A", "most"),
    (of_rises(-0.1, 0.1), "where it falls, there is no basin", "every"),
    (of_rises(0.1, 0.2), "least around A", "basin"),
    (of_grid((0.3, 95.0), (0.9, 90.0)), "loss 0.30 (fused 0.50) and accuracy 95.0 % (fused 90.0 %).", "another"),
    (of_grid((0.3, 80.0), (0.9, 95.0)), "accuracy 95.0 % (fused 90.0 %) at another point.", "fused."),
    (of_grid((0.3, 80.0), (0.9, 85.0)), "loss 0.30 (fused 0.50).", "accuracy"),
    (_accuracy_words([90.0, 85.5]), "never falls below both, 90.0 % and 85.5 % at the ends", "falls to"),
    (_accuracy_words([90.0, 86.0, 85.5]), "never falls below both", "falls to"),
    (_accuracy_words([90.0, 60.0, 85.5]), "falls to 60.0 %", "never"),
    (of_rows(90, 70), "M0 is the best with 90.0 %, clearly ahead of M1", "tied"),
    (of_rows(90, 89.9), "M0 is the best with 90.0 %, but not clearly ahead of M1", "tied"),
    (of_rows(90, 90), "M0 and M1 are tied with 90.0 %", "best with"),
    (of_rows(90, 80, 80), "M1 and M2, which are tied", "not clearly"),
    (of_rows(90, 70, parent=95), "clearly worse than the best parent", "better"),
    (of_rows(90, 70, parent=90), "a tie with the best parent", "clearly better"),
    (of_groups("one", "two"), "KF (one) gets 90.0 %. KF (two) gets 90.0 %.", "KF gets"),
    (of_groups("one"), "KF gets 90.0 %.", "one"),
    (of_kept("network A"), "Auto: network A gets 90.0 %; it is the best parent itself", "tie"),
    (of_kept("network B"), "a tie with the best parent (network A)", "itself"),  # which is as good
    (of_parts(20, None, 90), "Groups and fit together bring +70.0 points", "then the fit"),
    (of_parts(20, 70, 90), "Groups bring +50.0 points, then the fit +20.0.", "\N{MINUS SIGN}"),
    (of_parts(70, 20, 10), "Groups bring \N{MINUS SIGN}50.0 points, then the fit \N{MINUS SIGN}10.0", "+"),
    (of_parts(20, 70, 90, 95), "; random groups instead: +5.0.", "chance"),
    (of_parts(2, 70, 70.1, 70.2), "fit +0.1 (may be chance); random groups instead: +0.1", "\N{MINUS SIGN}"),
    (of_parts(20, 70, 90, 80), "; random groups instead: \N{MINUS SIGN}10.0.", "+10"),
    (of_parts(20, 70, 90, plain=50), "Groups bring +50.0 points (same-index groups +30.0), then the fit", "chance"),
    (split_words([[10, 0], [10, 9]], "ab", "AB"), "Most unequal: B saw 9 images of class b, A 0.", "%"),  # may be the same images
    (split_words([[10, 1], [10, 0]], "ab", "AB"), "A saw 1 image of class b, B 0", "images of"),
    (of_classes([90.0, 0.0], [0.0, 90.0]), "Network A knows cat best and network B knows dog best", "No parent"),
    (of_classes([90.0, 90.0], [90.0, 90.0]), "No parent is ahead", "best"),
    (kept([95.0, 85.0]), "Fused: every class at least as well", "forg"),
    (kept([95.0, 70.0]), "no class forgotten; most lost on dog: 70 %", "forgotten:"),
    (kept([95.0, 2.0]), "forgotten: dog", "at least"),
    (kept([95.0, 2.0], 40.0), "Fused: most lost on dog: 2 %, where that class's best parent gets 40 %", "forg"),
    (classes._mistakes(np.array([[3, 1], [0, 2]]), ["cat", "dog"], "network A"), "Network A gets 5 of 6", "network A"),
    (of_agreement(0.3, 0.8, 0.7), "these scores do group differently", "chance"),
    (of_agreement(0.75, 0.8, 0.7), "may be the chance of another start", "do group"),
    (of_agreement(0.75, 0.8, 0.7), "Two seeds of one score agree with 0.80 (0.70 to 1.00)", "no better"),
    (of_agreement(0.75, 1.0, 1.0), "the whole difference comes from the scores", "chance"),
    (of_agreement(1.0, 1.0, 1.0), "All scores give the same groups", "least"),
    (of_fused(90, 20, 50, 55), "clearly better than B alone", "A alone"),
    (of_fused(90, 20, 60, 55), "clearly better than A alone", "the plain average"),
    (of_fused(90, 58, 60, 55), "clearly better than the plain average (itself better than B) by 32.0 points", "which beats"),
    (of_fused(90, 55.1, 60, 55), "clearly better than A alone", "itself"),  # by one image
    (of_fused(90, 20, 60, 55, seconds=0.027), "in 0.027 s", "0.0 s"),
    (of_fused(50, 20, 60, 55), "clearly worse than A alone", "better than A"),
    (lost.step_words(0, "a", "Level 1 (a) loses 2.0 points of accuracy"), "Step into level 1, a", "error"),
    (lost.step_words(1, "b", "No level clearly loses accuracy; the largest drop at level 1 (a)"), "b: the largest error", "1"),
    (diagnosis(levels((0.2, 0), (0.1, 0)), course([90, 70, 90], IMAGES)), "Level 1 (layer0) loses 20.0", "chance"),
    (diagnosis(levels((0.14, 0), (0.19, 0)), course([90, 70, 90], IMAGES)), "is 14.0 % of its neurons' energy; level 2", "small"),
    (diagnosis(levels((0.2, 0), (0.1, 0)), course([90, 91, 92], IMAGES)), "No level loses accuracy", "loses 2"),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "says", "is_silent_of"), SAID)
def test_a_conclusion_follows_from_the_numbers(sentence, says, is_silent_of):
    words = sentence.replace(SPACE, " ").replace("**", "")
    assert says in words and is_silent_of not in words, words
    if "**" not in sentence and not sentence.startswith(("Rise", "The same", "Some mixtures")):
        assert count(claims(claimed(words))[0]) <= 15, words


def test_a_columns_words_are_those_of_rows_that_it_shows():
    """Most rows of `1k samples` that the paper lacks are of another scale than all that it prints."""
    table = paper.table("fusion-set-size", paper.read()[0])
    column = next(each for each in table.at(paper.FULLEST) if each.name == "1k samples")
    printed = [line for line in column.lines if line.paper is not None]
    assert any(not line.badge for line in printed)
    marked = paper.contradicted(column)
    scales = {line.row: line.badge for line in printed}
    assert set(marked) == {"KF-Gradient, conductance"} and scales["KF-Gradient, uniform"], (
        marked,
        scales,
    )  # compared at another


def test_the_cheat_sheet_of_learn_says_what_was_measured():
    """Sentences of steps/sandbox.js about the numbers beside them."""
    sheet = json.loads(FILE.read_text())
    fusions = ("kf", "hf", "gradient", "activity", "activity repair", "kf uniform")
    for of in sheet.values():
        assert all(of["ensemble"] >= of[name] for name in fusions if name in of), "nothing in this table beats it"
    different = [sheet["skewed"], sheet["sharded"]]
    assert all(of["kf"] > of["best"] and of["kf"] - 2 < of["hf"] <= of["kf"] for of in different), (
        "HF is nearly as good"
    )
    assert sheet["four"]["best"] > sheet["four"]["activity"] > sheet["four"]["kf"], (
        "compare with the best; activity helps"
    )
    times = (FILE.parent / "steps" / "sandbox.js").read_text()
    assert "6 seconds on two cores" in times and "in 203 seconds" in times
    assert "took 203 and 166\nseconds, the closed form 6." in Path("docs/which_method.md").read_text()
    same = sheet["same"]
    assert same["kf uniform"] < same["activity repair"] < same["best"], "fails; loses less; keep the best"
    assert all(of["average"] < 20 for of in sheet.values()), "never for networks trained apart"


def test_pages_say_network_group_and_target_whatever_the_library_calls_them():
    picks = [Picks(method=method, importance=score) for method in METHODS for score in IMPORTANCE]
    said = {method.sentence for method in methods.table().values()}
    said |= {lettered(setting.help) for each in picks for setting in configs.options(each).values()}
    said |= {preset.sentence for preset in presets.PRESETS.values()}
    columns = paper.table("vgg11-noniid", paper.read()[0]).at(paper.FULLEST)
    rows = [line.row for column in columns for line in column.all_lines]
    table = cells(
        columns, rows, LIGHT, dict.fromkeys([column.name for column in columns], ""), {c.name: {} for c in columns}
    )
    said.add(re.sub(r"data-cell='[^']*'|title='[^']*'", "", table))
    assert "Network A" in table and len(said) > 60
    assert not [text for text in said if re.search(r"cluster|centroid|\bparent \d", text, re.IGNORECASE)]
