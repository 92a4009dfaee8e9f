"""The advice for two equal ResNets and for parents with a common ancestor says what the records say, by plain loops."""

import json
from statistics import mean, stdev

import pytest

from retrofit_core import METHODS
from tests.marks import ROOT, skip_without

skip_without("benchmarks/results", "docs", "README.md")
PAGE = (ROOT / "docs" / "which_method.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: Student's t at 97.5 %, by degrees of freedom, from a printed table.
T = {8: 2.306, 11: 2.201, 35: 2.030}


def rows(name: str) -> list[dict]:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))["rows"]


def with_interval(differences: list[float]) -> str:
    reach = T[len(differences) - 1] * stdev(differences) / len(differences) ** 0.5
    middle = mean(differences)
    return f"{middle:+.1f} ({middle - reach:+.1f} to {middle + reach:+.1f})"


#: Lines of the decision tree -> which pairs.
PAIRS = {
    "three blocks": lambda row: row["kind"] in ("digits", "CIFAR-10"),
    "ResNet-18 without BatchNorm": lambda row: "ResNet-18" in row["kind"] and row["norm"] == "none",
    "ResNet-18 with BatchNorm": lambda row: "ResNet-18" in row["kind"] and row["norm"] == "BatchNorm",
}


@pytest.mark.parametrize("label", PAIRS)
def test_the_advice_for_resnets_is_that_of_their_pairs(label):
    pairs = list(filter(PAIRS[label], rows("resnets")))
    cells = []
    for origin in ("parent 0", "all"):
        differences = [row[f"KF-Linear, {origin}"] - row[f"HF-Linear, {origin}"] for row in pairs]
        cells.append(f"{with_interval(differences)}; {sum(difference > 0 for difference in differences)}")
    assert f"| {label} | {len(pairs)} | {' | '.join(cells)} |" in PAGE


#: Merges in the table of the decision tree -> their options there.
MERGES = {
    "RegMean": "RegMean",
    "HF-Linear, two parents": "HF-Linear",
    "TIES, published options": "TIES scale=1 density=0.2",
    "Task-Arithmetic, published scale": "Task-Arithmetic scale=0.4",
    "DARE, published options": "DARE scale=0.4 drop=0.9",
}


def ahead_of_average(name: str, keep) -> list[float]:
    """A mean difference for each ancestor; networks with BatchNorm have the statistics of the samples."""
    by_ancestor: dict[tuple, list[float]] = {}
    for row in filter(keep, rows("ancestors")):
        found = {label: row["accuracies"].get(label) for label in (name, "Average")}
        for label in found:
            found[label] = row["accuracies"].get(f"{label}, statistics re-estimated", found[label])
        if found[name] is not None:
            ancestor = (row["seed"], row["network"], row["ancestor"])
            by_ancestor.setdefault(ancestor, []).append(found[name] - found["Average"])
    return [mean(differences) for differences in by_ancestor.values()]


@pytest.mark.parametrize("label", MERGES)
def test_the_advice_for_a_common_ancestor_is_that_of_its_draws(label):
    parts = [
        ahead_of_average(MERGES[label], lambda row, one=strength: row["ancestor"] == one)
        for strength in ("weak", "strong")
    ]
    assert [len(part) for part in parts] == [12, 12]
    if label == "RegMean":
        assert f"RegMean ({mean(parts[0]):+.1f})" in README
    assert f"| {label} | {with_interval(parts[0])} | {mean(parts[1]):+.1f} |" in PAGE


@pytest.mark.parametrize("name", ["TIES", "DARE", "Task-Arithmetic"])
def test_defaults_of_the_sums_are_those_that_one_seed_chose_and_help_says_what_they_lose(name):
    options = [label for label in rows("ancestors")[0]["accuracies"] if label.startswith(name) and "," not in label]
    means = {label: mean(ahead_of_average(label, lambda row: row["seed"] == 0)) for label in options}
    best, method = max(means, key=means.get), METHODS[name]
    if name == "Task-Arithmetic":  # one over n, which is Average, is no row of the record: every other scale loses
        assert means[best] < 0 and method.keywords()["scale"] == "1/n"
        lost = [mean(ahead_of_average("Task-Arithmetic scale=0.4", bool))]
    else:
        chosen = dict(word.split("=") for word in best.split()[1:])
        assert {option: str(method.keywords()[option]).removesuffix(".0") for option in chosen} == chosen
        published = {"TIES": "TIES scale=1 density=0.2", "DARE": "DARE scale=0.4 drop=0.9"}[name]
        lost = [mean(ahead_of_average(label, bool)) for label in (best, published)]
    said = " ".join(method.help().split())
    assert all(f"{abs(points):.1f}" in said for points in lost) and "Average on 24 ancestors" in said
