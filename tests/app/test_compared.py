"""Runs side by side: groups, seeds, references, the default pair, fine-tuned networks."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from retrofit_app import figures, runs
from retrofit_app.runs import compared
from retrofit_core.runs.answers import difference
from retrofit_core.training.evaluation import as_bits


def shipped(name: str, **changes) -> runs.Entry:
    """A shipped run, as if its method had its defaults."""
    entry = runs.read_entry(runs.BUNDLED / name, shipped=True)
    return replace(entry, config=entry.config | {"options": None} | changes)


def measured(entry: runs.Entry, accuracy: float, **changes) -> runs.Entry:
    """A run of another seed or method, of another accuracy."""
    networks = entry.metrics["networks"]
    fused = networks["fused"] | {"accuracy": accuracy, "per_class": [accuracy] * 10}
    return replace(
        entry,
        folder=entry.folder.with_name("-".join(map(str, [entry.name, *changes.values()]))),
        config=entry.config | changes,
        metrics=entry.metrics | {"networks": networks | {"fused": fused}},
    )


def test_runs_of_the_same_parents_stand_together_with_their_references():
    first, second = shipped("hf-linear"), shipped("kf-gradient")
    other = replace(shipped("kf-linear"), inputs=first.inputs | {"parent-0.safetensors": "another"})
    groups = compared.groups([first, other, second])
    assert [[row.id for row in group.rows] for group in groups] == [["hf-linear", "kf-gradient"], ["kf-linear"]]
    assert [row.name for row in groups[0].references] == ["network A", "network B", "ensemble", "plain average"]
    assert groups[0].best_parent.name == "network A"
    assert groups[0].title == "2 cnn networks (sharded split) on digits"


def test_seeds_are_one_row_with_mean_and_deviation():
    first = shipped("kf-linear")
    seeds = [measured(first, 80.0, seed=1), measured(first, 90.0, seed=2)]
    (group,) = compared.groups([*seeds, shipped("hf-linear")])
    single, row = group.rows
    assert (row.accuracy, row.n, row.name) == (85.0, 2, "KF-Linear, conductance")
    assert row.deviation == pytest.approx(50**0.5) and row.per_class == [85.0] * 10
    assert single.n == 1 and single.deviation is None


def test_the_default_is_a_pair_of_one_set_of_parents():
    entries = [shipped(name) for name in runs.bundle_facts()["runs"]]
    assert compared.default(entries, entries[1]) == ("hf-linear", "kf-linear")
    lone = replace(entries[0], folder=entries[0].folder.with_name("lone"), inputs={})
    assert compared.default([*entries, lone], lone) == ("lone",), "the open run, beside its own parents"
    going = replace(lone, status={**lone.status, "state": "running"})
    assert compared.default([*entries, going], going) == ("hf-linear", "kf-linear")
    assert compared.default([lone], lone) == ("lone",)


def test_rows_of_one_name_say_the_setting_that_differs(runs_folder):
    entry = shipped("kf-linear")
    fewer = replace(entry, folder=runs_folder / "fewer", config=entry.config | {"samples": 50})
    (group,) = compared.groups([entry, fewer])
    assert [row.name for row in group.rows] == [
        "KF-Linear, conductance, samples 400",
        "KF-Linear, conductance, samples 50",
    ]


def test_fine_tuned_networks_are_rows_behind_their_run(runs_folder):
    folder = runs_folder / "mine"
    shutil.copytree(runs.BUNDLED / "kf-linear", folder)
    entry = runs.read_entry(folder)
    tuned = folder / "finetunings" / "0123456789"
    tuned.mkdir(parents=True)
    (tuned / "settings.json").write_text(json.dumps({"epochs": 10, "batch": 32, "of": "x"}))
    facts = entry.metrics["networks"]["fused"] | {"accuracy": 97.5}
    (tuned / "metrics.json").write_text(json.dumps(facts))
    curve = {"networks": {}, "history": [], "held_out": 1, "trained": 1, "epochs": 10, "seconds": 5.0}
    (tuned / "curve.json").write_text(json.dumps(curve))
    (group,) = compared.groups([entry])
    after, fused = group.rows
    assert after.name == f"{fused.name}, fine-tuned 10 epochs" and after.accuracy == 97.5
    assert after.seconds == pytest.approx(fused.seconds + 5.0)
    assert after.networks[0].settings["fine-tuning"] == "10 epochs" and fused.networks[0].settings["fine-tuning"] == "–"
    (tuned / "metrics.json").write_text("{")
    (group,) = compared.groups([entry])
    assert group.rows[1].n == 0  # damaged: a row without numbers


def test_means_over_seeds_have_the_interval_of_reports():
    """Over images and seeds, by the function of the report: seeds that disagree widen it, in whatever order they come."""
    generator = np.random.default_rng(0)
    right = [generator.random((3, 200)) < np.array(shares)[:, None] for shares in ([0.9, 0.7, 0.8], [0.5, 0.6, 0.7])]
    facts = [
        [{"accuracy": 100 * each.mean(), "samples": 200, "knows": as_bits(each)} for each in side] for side in right
    ]
    gap = figures.difference(*facts)
    points, interval = difference(*right)
    assert gap.points == pytest.approx(points) and gap.ends == interval
    low, high = difference(right[0].mean(0) > 0.5, right[1].mean(0) > 0.5)[1]
    assert interval[1] - interval[0] > high - low
    assert figures.difference(*[[{**each, "knows": ""} for each in side] for side in facts]).ends is None
