"""The result as a table and as a folder; the principal components of the cluster picture."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from retrofit_core.fusion.results import FusionResult, principal_components
from retrofit_core.networks.architectures import build
from tests.flat import fuse
from tests.marks import each_case
from tests.networks import normal
from tests.properties import assert_close


@pytest.fixture(scope="module")
def result():
    parents = [build({"architecture": "mlp", "sizes": [6, 8, 7, 4]}, seed=k) for k in range(2)]
    return fuse(parents, normal(40, 6).float(), device="cpu", grouping="hungarian")


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


BREAKS = {
    "no folder": lambda folder: [path.unlink() for path in folder.iterdir()],
    "half of the facts": lambda folder: (folder / "result.json").write_text('{"config": {'),
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
