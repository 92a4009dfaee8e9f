"""Methods that combine weights or outputs need no data."""

import pytest

from retrofit_core import METHODS
from retrofit_core.cli import main
from tests.networks import digits_parents, mlp, normal
from tests.properties import assert_same_function

WITHOUT = {
    "Average": {},
    "FedAvg": {"sample_counts": [1, 3]},
    "SLERP": {},
    "Task-Arithmetic": {"base": mlp(seed=5)},
    "TIES": {"base": mlp(seed=5)},
    "DARE": {"base": mlp(seed=5)},
    "Ensemble": {},
    "Ensemble-Logits": {},
    "Ensemble-Shares": {"class_shares": [[1, 2, 3, 4], [4, 3, 2, 1]]},
}


def test_they_are_those_whose_result_does_not_depend_on_data():
    assert WITHOUT.keys() == {name for name, method in METHODS.items() if not method.takes.uses_data}


@pytest.mark.parametrize("name", WITHOUT)
def test_the_network_is_that_with_data(name):
    models, x = [mlp(), mlp(seed=2)], normal(40, 6)
    bare, given = (METHODS[name](models, *data, **WITHOUT[name]) for data in ((), (x,)))
    assert_same_function(bare.model, given.model, x, 0)
    assert METHODS[name].plan(models, **WITHOUT[name]).lines()[0] == "2 parents (Sequential), no data"
    assert "data" not in METHODS[name].help().splitlines()[2]


@pytest.mark.parametrize("name", [name for name in METHODS if name not in WITHOUT])
def test_others_ask_for_data(name):
    with pytest.raises(ValueError, match=f"^{name} fuses on data. Pass a tensor"):
        METHODS[name]([mlp(), mlp(seed=2)])


@pytest.mark.slow
def test_the_command_asks_for_no_splits(tmp_path):
    parents = digits_parents(tmp_path, widths=[4, 5, 6])
    words = ["fuse", *parents["models"], "--method", "average", "--out", str(tmp_path / "average.safetensors")]
    assert main(words) == 0
