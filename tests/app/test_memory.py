"""What is kept in memory: bounded by bytes, made once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
import torch

from retrofit_app import memory, runs
from retrofit_app.models import checkpoints
from retrofit_app.widgets import readings
from tests.marks import each_case

KIBI = 2**10


def test_the_least_recently_used_values_go_when_there_are_too_many_bytes():
    made = []

    @memory.cached(10 * KIBI)
    def array(name: str, size: int) -> np.ndarray:
        made.append(name)
        return np.zeros(size, dtype=np.uint8)

    first = array("a", 4 * KIBI)
    array("b", 4 * KIBI)
    assert array("a", 4 * KIBI) is first and made == ["a", "b"]
    array("c", 4 * KIBI)  # b goes
    array("a", 4 * KIBI)
    assert made == ["a", "b", "c"]
    array("b", 4 * KIBI)
    huge = array("huge", 100 * KIBI)  # alone
    assert array("huge", 100 * KIBI) is huge and made == ["a", "b", "c", "b", "huge"]


def test_named_arguments_and_failures_are_not_kept():
    calls = []

    @memory.cached(KIBI)
    def value(key: list, *, _hidden: int) -> int:
        calls.append(_hidden)
        if _hidden == 0:
            raise ValueError("not yet")
        return _hidden

    with pytest.raises(ValueError, match="not yet"):
        value([1, {"a": 2}], _hidden=0)
    assert [value([1, {"a": 2}], _hidden=hidden) for hidden in (1, 2)] == [1, 1] and calls == [0, 1]


def test_what_sessions_ask_for_at_once_is_made_once():
    made, asked = [], threading.Barrier(4)

    @memory.cached(KIBI)
    def value(key: int) -> int:
        made.append(key)
        return key

    def ask(_: int) -> int:
        asked.wait()
        return value(1)

    with ThreadPoolExecutor(4) as sessions:
        assert list(sessions.map(ask, range(4))) == [1] * 4
    assert made == [1]


@each_case(
    ("value", "least", "most"),
    [
        (np.zeros(1000), 8000, 8000),
        (torch.zeros(1000), 4000, 4000),
        ({"a": [torch.zeros(250)] * 2, "b": None}, 1000, 1300),
        (pd.DataFrame({"x": np.zeros(1000)}), 8000, 8300),
        (go.Figure(go.Scatter(x=list(range(1000)), y=[0.5] * 1000)), 60_000, 80_000),
        ("x" * 1000, 1000, 1100),
    ],
)
def test_weights(value, least, most):
    assert least <= memory.weight(value) <= most


def test_networks_and_records_weigh_what_their_arrays_do(shipped):
    model = checkpoints.model(str(runs.BUNDLED / "parent-0.safetensors"))
    bytes_of_weights = sum(tensor.nbytes for tensor in model.state_dict().values())
    assert bytes_of_weights <= memory.weight(model) <= 3 * bytes_of_weights + 50_000
    grams = sum(level.gram.nbytes for level in shipped.levels)
    assert memory.weight(readings.record(runs.read_entry(shipped.folder, shipped=True))) >= grams
