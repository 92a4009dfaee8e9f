"""Ticked runs: what differs between them, which one is clearly the best, and pins that outlast a session."""

from dataclasses import replace

import pandas as pd
import pytest

from retrofit_app import runs
from retrofit_app.pages.fuse import ticked
from retrofit_app.runs.settings import NONE, differing


def shipped(name: str, accuracy: float | None = 90.0, images: int = 359, **config) -> runs.Entry:
    entry = runs.read_entry(runs.BUNDLED / name, shipped=True)
    fused = {} if accuracy is None else {"fused": {"accuracy": accuracy, "samples": images}}
    return replace(entry, config=entry.config | config, metrics={"networks": fused})


def test_only_settings_that_differ_are_told():
    first, second = shipped("hf-linear"), shipped("kf-gradient", options={"restarts": 3})
    assert differing([first, first]) == {}
    assert differing([first, second]) == {
        "method": ["HF-Linear", "KF-Gradient"],
        "grouping": ["hungarian", "kmeans"],
        "fit": ["ridge", "gradient"],
    }  # the other one has no restarts at all, which makes no difference
    assert differing([second, shipped("kf-gradient", options={"restarts": 5})]) == {"restarts": ["3", "5"]}
    assert differing([first, shipped("hf-linear", fusion_from="iid")]) == {"fusion from": [NONE, "iid"]}


@pytest.mark.parametrize(
    ("others", "says"),
    [
        ([shipped("kf-linear", 92.2)], "No clear difference: kf-linear is ahead"),
        ([shipped("kf-linear", 99.0)], "kf-linear is clearly the best, with 99.0"),
        ([shipped("kf-linear", 92.2), shipped("hf-gradient", 40.0)], "not clearly better than hf-linear."),
        ([shipped("kf-linear", None)], "Too few of them were measured"),
        ([shipped("kf-linear", data="other")], "on different data sets"),
    ],
)
def test_the_best_is_named_only_where_it_clearly_is(others, says):
    runs_ticked = [shipped("hf-linear"), *others]
    assert says in ticked.finding(runs_ticked)
    distances = ticked.differences_of(runs_ticked)["to the best"].tolist()
    assert any(map(pd.isna, distances)) == (others[0].accuracy is None or others[0].config["data"] == "other")
