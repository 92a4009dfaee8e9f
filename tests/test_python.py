"""How the library reads in an interpreter: help and signatures of methods, what a result prints, how far loaders are read."""

import inspect
import pydoc

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from retrofit_core import METHODS
from retrofit_core.fusion.results import FusionResult, principal_components
from retrofit_core.fusion.samples import as_inputs
from retrofit_core.networks.architectures import build
from tests.flat import KINDS, fuse
from tests.marks import each_case
from tests.networks import mlp, normal
from tests.properties import assert_close

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


# --- plans, which print as lines that fit on a screen -----------------------------------------------------------------


def plan_of(name, models, **keywords):
    return METHODS[name].plan(models, (normal(40, 6), torch.arange(40) % 4), **keywords)


@pytest.mark.long
@each_case("name", KINDS)
def test_every_plan_fits_on_a_screen(name):
    """Of a network with more levels than a screen has lines."""
    plan = plan_of(name, [mlp((6, *[8] * 32, 4), seed=seed) for seed in (1, 2)])
    lines = str(plan).splitlines()
    assert lines == repr(plan).splitlines() and 1 <= len(lines) <= 30 and max(map(len, lines)) <= 120
    assert lines[0].startswith("2 parents (") and lines[0].endswith("40 samples of 6")


def test_a_plan_names_the_neurons_of_its_levels():
    shown = str(plan_of("KF-Linear", [mlp((6, 8, 4)), mlp((6, 9, 4), seed=2)], target=mlp((6, 5, 4), seed=3)))
    assert "8 + 9 -> 5" in shown and "4 + 4 -> 4" in shown


# --- the result as a table and as a folder; the principal components of the cluster picture ---------------------------


@pytest.fixture(scope="module")
def result():
    parents = [build({"architecture": "mlp", "sizes": [6, 8, 7, 4]}, seed=k) for k in range(2)]
    return fuse(parents, normal(40, 6).float(), device="cpu", grouping="hungarian")


def test_the_table_has_one_row_per_level(result):
    table = result.to_frame()
    assert table["level"].tolist() == ["fc1", "fc2", "fc3"]
    assert table["widths"].tolist() == ["8 + 8", "7 + 7", "4 + 4"]
    assert table["fused"].tolist() == [8, 7, 4]
    for row, level in zip(table.to_dict("records"), result.levels, strict=True):
        assert row["grouping error"] == level.grouping_error
        assert row["approximation share"] * level.energy == pytest.approx(level.approximation_error)


BREAKS = {
    "result.json": lambda file: file.write_text('{"config": {'),
    "arrays.npz": lambda file: np.savez(file, **{"0/labels": np.array([{}], dtype=object)}),  # pickled
    "fused.safetensors": lambda file: file.write_bytes(file.read_bytes()[:100]),
}


@each_case("name", BREAKS)
def test_a_broken_folder_is_refused_in_a_sentence(name, result, tmp_path):
    result.save(tmp_path)
    for broken in (BREAKS[name], lambda file: file.unlink()):
        broken(tmp_path / name)
        with pytest.raises(ValueError, match=str(tmp_path)):
            FusionResult.load(tmp_path)


def test_components_are_those_of_the_points():
    """PCA over neurons from their Gram matrix, double-centred; equal to scikit-learn's up to signs."""
    z = normal(50, 9) + 3.0  # a mean far from zero, which centring must remove
    components, shares = principal_components(z.T @ z)
    from sklearn.decomposition import PCA

    pca = PCA(3).fit(z.T.numpy())
    expected = torch.from_numpy(pca.transform(z.T.numpy()))
    assert_close(components.abs(), expected.abs(), 1e-9)
    assert_close(shares, torch.from_numpy(pca.explained_variance_ratio_), 1e-9)
    assert (components.gather(0, components.abs().argmax(0, keepdim=True)) > 0).all()
