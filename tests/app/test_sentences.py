"""Every conclusion that a page can say, said of made-up numbers: other numbers, another sentence."""

import json
import re
from pathlib import Path
from types import SimpleNamespace as Made

import numpy as np
import pytest

from retrofit_app import runs
from retrofit_app.figures import LIGHT, claimed, ingredients, lettered
from retrofit_app.figures.landscape import headline
from retrofit_app.figures.paper.cells import cells
from retrofit_app.learn.measured import FILE
from retrofit_app.pages.compare.table import findings
from retrofit_app.pages.fuse import configs, presets
from retrofit_app.pages.fuse.parameters import Picks
from retrofit_app.runs import headline as first_page
from retrofit_app.runs import methods, paper
from retrofit_app.runs.compared import FUSED, PARENT, Group, Row
from retrofit_core.fusion.importance import IMPORTANCE
from retrofit_core.methods import METHODS
from retrofit_core.training.evaluation import as_bits

from .pages import claims, count

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


def of_rows(*accuracies: float, parent: float = 50.0) -> str:
    rows = tuple(Row(f"M{index}", FUSED, f"m{index}", (facts(value),)) for index, value in enumerate(accuracies))
    best = Row("network A", PARENT, "parent 0", (facts(parent),))
    (sentence,) = findings([Group("", rows, (best,), ())])
    return sentence


def of_parts(plain: float | None, groups: float, drawn: float | None, fitted: float) -> str:
    """Random groups without and with the fit are `plain` and `drawn`."""
    known = {(False, False): plain, (True, False): groups, (False, True): drawn, (True, True): fitted}
    return ingredients.finding({corner: facts(value) for corner, value in known.items() if value is not None})


def of_fused(fused: float, average: float, *alone: float, seconds: float = 2.0) -> str:
    """The first page's finding."""
    entry = runs.read_entry(runs.BUNDLED / "kf-linear", shipped=True)
    entry.status["seconds"] = seconds
    networks = {f"parent {index}": facts(value) for index, value in enumerate(alone)}
    networks |= {"fused": facts(fused), "average": facts(average), "ensemble": facts(95.0)}
    entry.metrics["networks"] = {name: {**each, "per_class": [each["accuracy"]]} for name, each in networks.items()}
    return first_page.finding(entry)


SAID = [
    (of_paths(0.004), "no barrier", "highest"),
    (of_paths(2.0), "loss rises by 2.00", "lowest"),
    (of_paths(2.0, 0.5), "The lowest, 0.50", "no barrier"),
    (of_rows(90, 70), "M0 gets 90.0 %, clearly ahead of M1", "tied"),
    (of_rows(90, 89.9), "M0 gets 90.0 %, not clearly ahead of M1", "tied"),
    (of_rows(90, 90), "M0 and M1 are tied with 90.0 %", "gets"),
    (of_rows(90, 70, parent=95), "clearly worse than the best parent", "better"),
    (of_rows(90, 70, parent=90), "a tie with the best parent", "clearly better"),
    (of_parts(20, 50, 80, 90), "Alike groups bring +30.0 points without the fit and +10.0 with it", "chance"),
    (of_parts(20, 50, 80, 90), "the fit brings +60.0 points in random groups and +40.0 in alike ones.", "chance"),
    (of_parts(20, 50, 80, 80.1), "and +0.1 with it (may be chance)", "then"),
    (of_parts(None, 70, None, 50), "The fit brings \N{MINUS SIGN}20.0 points in alike ones.", "groups bring"),
    (of_fused(90, 20, 50, 55), "clearly better than B alone", "A alone"),
    (of_fused(90, 20, 60, 55), "clearly better than A alone", "the plain average"),
    (of_fused(90, 58, 60, 55), "clearly better than the plain average (itself better than B) by 32.0 points", "which beats"),
    (of_fused(90, 55.1, 60, 55), "clearly better than A alone", "itself"),  # by one image
    (of_fused(90, 20, 60, 55, seconds=0.027), "in 0.027 s", "0.0 s"),
    (of_fused(50, 20, 60, 55), "clearly worse than A alone", "better than A"),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "says", "is_silent_of"), SAID)
def test_a_conclusion_follows_from_the_numbers(sentence, says, is_silent_of):
    words = sentence.replace(SPACE, " ").replace("**", "")
    assert says in words and is_silent_of not in words, words
    if "**" not in sentence and not sentence.startswith(("Rise", "The same", "Some mixtures")):
        assert count(claims(claimed(words))[0]) <= 15, words


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
    columns = paper.table("vgg11-noniid", paper.read(paper.stamp())[0]["vgg11-noniid"]).columns
    rows = [line.row for column in columns for line in column.all_lines]
    table = cells(
        columns, rows, LIGHT, dict.fromkeys([column.name for column in columns], ""), {c.name: {} for c in columns}
    )
    said.add(re.sub(r"data-cell='[^']*'|title='[^']*'", "", table))
    assert "Network A" in table and len(said) > 60
    assert not [text for text in said if re.search(r"cluster|centroid|\bparent \d", text, re.IGNORECASE)]
