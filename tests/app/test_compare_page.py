"""The page Compare without a browser: runs side by side."""

import re
from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from .analyses import copied
from .pages import clean, page_at, words

pytestmark = pytest.mark.slow


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
    assert len(pictures(page)) == 1


def test_the_chosen_runs_are_in_the_address_and_the_best_is_first(runs_folder):
    page = open_page(runs="kf-gradient|kf-linear|hf-gradient")
    assert re.findall(r"\|([KH]F-\w+)\|", tables(page)[0]) == ["KF-Linear", "KF-Gradient", "HF-Gradient"]
    page.multiselect(key="compare-runs").set_value(["kf-gradient", "hf-linear"]).run()
    assert "kf-gradient|hf-linear" in str(page.query_params["runs"]) and clean(page)


def test_one_run_alone_has_its_references_and_its_files(runs_folder):
    page = open_page(runs="hf-gradient")
    assert clean(page) and "ensemble" in tables(page)[0] and "There is only one row" in words(page)
    assert {"CSV", "LaTeX"} <= {element.proto.label for element in page.get("download_button")}


def test_seeds_stand_together(runs_folder):
    for seed in (5, 6):
        copied(f"seed-{seed}", seed=seed)
    page = open_page(runs="seed-5|seed-6|hf-linear")
    assert clean(page) and "|2|0.0|" in tables(page)[0]  # two seeds of the same numbers
