"""The page Compare without a browser: runs side by side."""

from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from .analyses import copied
from .pages import clean, page_at, words

pytestmark = pytest.mark.slow


open_page = partial(page_at, "compare")


def pictures(page: AppTest) -> list[str]:
    """What each picture says to who does not see it."""
    return [element.proto.alt for element in page.get("plotly_chart")]


def test_a_useful_pair_is_compared_where_nothing_was_chosen(runs_folder):
    page = open_page()
    assert clean(page) and not page.query_params.get("runs")
    table, settings = (each.value for each in page.dataframe)
    rows = [
        "HF-Linear, conductance, toward=zero",
        "KF-Linear, conductance, toward=zero",
        "network A",
        "network B",
        "ensemble",
        "plain average",
    ]
    assert list(table["network"]) == rows
    assert "2 cnn networks (sharded split) on digits, 359 test images" in words(page)
    assert list(table["seeds"]) == ["1", "1", "", "", "", ""] and list(table["accuracy %"])[:2] == ["93.0", "93.0"]
    assert list(settings.loc["grouping"]) == ["hungarian", "kmeans"] and "ridge" not in settings.index
    said = "HF-Linear, conductance, toward=zero and KF-Linear, conductance, toward=zero are tied with"
    assert said in words(page) and "All other settings are the same." in words(page)
    assert len(pictures(page)) == 1


def test_the_chosen_runs_are_in_the_address_and_the_best_is_first(runs_folder):
    page = open_page(runs="kf-gradient|kf-linear|hf-gradient")
    assert list(page.dataframe[0].value["run"])[:3] == [
        f"{name} (shipped)" for name in ("kf-linear", "kf-gradient", "hf-gradient")
    ]
    assert "not clearly ahead of KF-Gradient" in words(page)
    page.multiselect(key="compare-runs").set_value(["kf-gradient", "hf-linear"]).run()
    assert "kf-gradient|hf-linear" in str(page.query_params["runs"]) and clean(page)


def test_one_run_alone_has_its_references(runs_folder):
    page = open_page(runs="hf-gradient")
    assert (
        clean(page)
        and "ensemble" in list(page.dataframe[0].value["network"])
        and "There is only one row" in words(page)
    )


def test_seeds_stand_together(runs_folder):
    for seed in (5, 6):
        copied(f"seed-{seed}", seed=seed)
    page = open_page(runs="seed-5|seed-6|hf-linear")
    table = page.dataframe[0].value
    assert clean(page) and ("2", "0.0") in set(zip(table["seeds"], table["sd"], strict=True))  # of the same numbers
