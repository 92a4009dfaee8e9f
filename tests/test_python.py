"""How the library reads in an interpreter: help and signatures of methods, what a result prints, how far loaders are read."""

import inspect
import pydoc
from typing import Literal

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from retrofit_core import METHODS
from retrofit_core.fusion.results import FusionResult
from retrofit_core.fusion.samples import as_inputs
from tests.marks import each_case

X = torch.rand(40, 6, generator=torch.Generator().manual_seed(0))


def pair() -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).eval() for _ in range(2)]


@each_case("name", METHODS)
def test_help_tells_every_keyword_of_a_method(name):
    """With its default, what it takes, and the publication."""
    method = METHODS[name]
    shown = method.help()
    assert method.description in shown and (inspect.getdoc(method.value) or "").splitlines()[0] in shown
    for keyword, default in method.keywords().items():
        assert f"    {keyword} = {default!r}: " in shown
    for setting, entry in method.settings().items():
        (line,) = (line for line in shown.splitlines() if line.strip().startswith(f"{setting} = "))
        assert entry.description in line
    assert 'METHODS["KF-Linear"].help()' in pydoc.plain(pydoc.render_doc(method))


def test_the_signature_tells_types_and_defaults():
    signature = inspect.signature(METHODS["Git-Re-Basin"])
    assert signature.return_annotation is FusionResult
    similarity = signature.parameters["similarity"]
    assert similarity.annotation == Literal["distance", "unsquared", "correlation"] and similarity.default == "distance"
    assert signature.parameters["repair"].annotation is bool
    assert inspect.signature(METHODS["KF-Linear"]).parameters["restarts"].annotation is int


def test_a_result_prints_as_a_short_table():
    result = METHODS["KF-Linear"](pair(), X)
    shown = repr(result)
    assert len(shown) < 500 and len(shown.splitlines()) == 4
    assert shown.startswith("FusionResult: kmeans, ridge, uniform; 2 levels")
    level = result.levels[0]
    assert f"{100 * level.grouping_error / level.energy:.2f}" in shown.splitlines()[2]
    assert "<table" in result._repr_html_() and "2 levels" in result._repr_html_()
    assert len(repr(level)) < 1000 and "tensor(" not in repr(level)
    average = METHODS["Average"](pair(), X)
    assert repr(average).startswith("FusionResult: average; no levels") and "<table" not in average._repr_html_()


class Counted(Dataset):
    """Notes which samples are asked for."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.read.append(index)
        return X[index], index % 3


@pytest.mark.parametrize("batch", [1, 4, 16, 40])
def test_a_loader_is_read_no_further_than_its_samples(batch):
    data = Counted()
    inputs, labels = as_inputs(DataLoader(data, batch_size=batch), samples=10)
    assert torch.equal(inputs, X[:10]) and labels is not None and labels.tolist() == [index % 3 for index in range(10)]
    assert data.read == list(range(-(-10 // batch) * batch))
    assert torch.equal(as_inputs((X, torch.arange(40)), samples=7)[0], X[:7])
    assert len(as_inputs(X, samples=100)[0]) == 40
