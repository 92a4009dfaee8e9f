"""The result as a table and as a folder; the principal components of the cluster picture."""

import json

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import nn

from retrofit_core import METHODS
from retrofit_core.fusion.results import FusionResult, principal_components
from retrofit_core.networks.architectures import build
from tests.flat import fuse
from tests.marks import each_case
from tests.networks import mlp, normal
from tests.properties import assert_close


@pytest.fixture(scope="module")
def result():
    parents = [build({"architecture": "mlp", "sizes": [6, 8, 7, 4]}, seed=k) for k in range(2)]
    return fuse(parents, normal(40, 6).float(), device="cpu", grouping="hungarian")


@pytest.fixture(scope="module")
def gradient_result():
    return fuse([mlp(seed=k) for k in range(2)], normal(40, 6), device="cpu", fit="gradient", epochs=2)


def test_the_table_has_one_row_per_level(result):
    table = result.to_frame()
    assert table["level"].tolist() == ["fc1", "fc2", "fc3"]
    assert table["kind"].tolist() == ["Linear"] * 3
    assert table["widths"].tolist() == ["8 + 8", "7 + 7", "4 + 4"]
    assert table["fused"].tolist() == [8, 7, 4]
    assert table["rows"].tolist() == [40] * 3
    for row, level in zip(table.to_dict("records"), result.levels, strict=True):
        assert row["grouping error"] == level.grouping_error
        assert row["approximation share"] * level.energy == pytest.approx(level.approximation_error)
        assert row["seconds"] == pytest.approx(sum(level.seconds.values()))
        assert 0 <= row["grouping share"] <= 1


@pytest.mark.parametrize("kind", ["result", "gradient_result"])
def test_a_saved_fusion_comes_back(kind, request, tmp_path):
    saved = request.getfixturevalue(kind)
    saved.save(tmp_path / "run", note="a fact")
    model = mlp(seed=5) if kind == "gradient_result" else None  # no architecture of ours: the caller gives the module
    back = FusionResult.load(tmp_path / "run", model)
    x = normal(9, 6).to(next(saved.model.parameters()).dtype)
    assert torch.equal(back.model(x), saved.model(x))
    assert back.config == json.loads(json.dumps(saved.config))
    assert back.seconds == saved.seconds
    assert back.importance == saved.importance
    for left, right in zip(back.levels, saved.levels, strict=True):
        assert json.dumps(left.to_dict()) == json.dumps(right.to_dict())  # as text: NaN equals NaN
        assert left.widths == right.widths
        for name in ("labels", "scores", "gram", "coordinates"):
            assert torch.equal(getattr(left, name), getattr(right, name))
    assert not list((tmp_path / "run").glob("*.tmp"))


BREAKS = {
    "no folder": lambda folder: [path.unlink() for path in folder.iterdir()],
    "no facts": lambda folder: (folder / "result.json").unlink(),
    "half of the facts": lambda folder: (folder / "result.json").write_text('{"config": {'),
    "other facts": lambda folder: (folder / "result.json").write_text('{"config": {}}'),
    "facts in a list": lambda folder: (folder / "result.json").write_text("[]"),
    "no levels": lambda folder: (folder / "levels.parquet").unlink(),
    "half of the levels": lambda folder: _halve(folder / "levels.parquet"),
    "no arrays": lambda folder: (folder / "arrays.npz").unlink(),
    "half of the arrays": lambda folder: _halve(folder / "arrays.npz"),
    "pickled arrays": lambda folder: np.savez(folder / "arrays.npz", **{"0/labels": np.array([{}], dtype=object)}),
    "no weights": lambda folder: (folder / "fused.safetensors").unlink(),
    "half of the weights": lambda folder: _halve(folder / "fused.safetensors"),
}


def _halve(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@each_case("given_model", [False, True])
@each_case("how", BREAKS)
def test_a_broken_folder_is_refused_in_a_sentence(how, given_model, result, tmp_path):
    result.save(tmp_path)
    BREAKS[how](tmp_path)
    model = build({"architecture": "mlp", "sizes": [6, 8, 7, 4]}, seed=0) if given_model else None
    with pytest.raises(ValueError, match=str(tmp_path)):
        FusionResult.load(tmp_path, model)


def test_a_model_that_does_not_fit_is_refused(result, tmp_path):
    result.save(tmp_path)
    with pytest.raises(ValueError, match="does not fit the model passed"):
        FusionResult.load(tmp_path, mlp())


def test_components_are_those_of_the_points():
    """PCA over neurons from their Gram matrix, double-centred; equal to scikit-learn's up to signs."""
    z = normal(50, 9) + 3.0  # a mean far from zero, which centring must remove
    components, shares = principal_components(z.T @ z)
    pca = PCA(3).fit(z.T.numpy())
    expected = torch.from_numpy(pca.transform(z.T.numpy()))
    assert_close(components.abs(), expected.abs(), 1e-9)
    assert_close(shares, torch.from_numpy(pca.explained_variance_ratio_), 1e-9)
    assert (components.gather(0, components.abs().argmax(0, keepdim=True)) > 0).all()


def test_few_neurons_and_no_variance_have_components_too():
    points, shares = principal_components(torch.ones(2, 2))
    assert points.shape == (2, 3)
    assert shares.tolist() == [0, 0, 0]
    points, shares = principal_components(torch.eye(2))
    assert_close(shares, torch.tensor([1.0, 0, 0]), 1e-9)


def test_neurons_know_their_parent(result):
    assert result.levels[2].parents.tolist() == [0] * 4 + [1] * 4
    assert result.levels[0].coordinates.shape == (16, 3)
    assert 0 < result.levels[0].explained.sum() <= 1


def test_a_saved_network_of_ones_own_is_asked_for_by_its_argument(tmp_path):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(6, 8), nn.Linear(8, 4)

        def forward(self, x):
            return self.two(self.one(x).relu())

    result = METHODS["KF-Linear"]([Own(), Own()], torch.randn(40, 6, generator=torch.Generator().manual_seed(0)))
    result.save(tmp_path)
    with pytest.raises(ValueError, match=r"FusionResult.load\('.*', model=NETWORK\)") as refusal:
        FusionResult.load(tmp_path)
    assert "arch" not in str(refusal.value).replace("architecture", "")
    again = FusionResult.load(tmp_path, model=Own())
    assert all(
        torch.equal(tensor, result.model.state_dict()[name]) for name, tensor in again.model.state_dict().items()
    )
