"""Task arithmetic, TIES and DARE, against formulas written out here, on small tensors."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from retrofit_core import METHODS, load_model, save_model
from retrofit_core.baselines.merging import disjoint_mean, rescaled, trimmed
from retrofit_core.cli import main
from retrofit_core.runs import RunConfig, identity
from tests.marks import each_case
from tests.properties import untouched

ARITHMETIC = ("Task-Arithmetic", "TIES", "DARE")
X = torch.randn(30, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
Y = torch.arange(30) % 3


def network(seed: int) -> nn.Module:
    """With BatchNorm, whose statistics are no parameters."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)).double()
        model[1].running_mean.normal_()
        model[1].running_var.uniform_(0.5, 2)
        model[1].weight.data.uniform_(0.5, 2)
        model[1].bias.data.normal_()
    return model.eval()


def parents(n: int = 2) -> list[nn.Module]:
    return [network(seed) for seed in range(1, n + 1)]


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


# --- what all of them keep -----------------------------------------------------------------------------------------------


@each_case("name", ARITHMETIC)
def test_statistics_of_batchnorm_are_averaged_and_parents_stay(name):
    models = [network(1), network(1)]
    models[1][1].running_mean += 1
    with untouched(*models):
        fused = METHODS[name](models, (X, Y), base=network(0)).model
    assert torch.allclose(fused[1].running_mean, models[0][1].running_mean + 0.5)
    assert not fused.training and all(parameter.requires_grad for parameter in fused.parameters())


# --- task arithmetic, TIES, DARE ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARITHMETIC)
def test_no_ancestor_is_refused_in_one_sentence(name):
    other = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double()
    with pytest.raises(ValueError, match=r"common ancestor, which is missing\. Pass base=NETWORK"):
        METHODS[name](parents(), X)
    with pytest.raises(
        ValueError, match=r"the common ancestor \(base\) is none of these parents: '0.weight' has the shape"
    ):
        METHODS[name](parents(), X, base=other)
    with pytest.raises(ValueError, match="'0.weight' is missing there"):
        METHODS[name](parents(), X, base=nn.Linear(5, 3).double())


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 4), scale=st.floats(-2, 2))
def test_task_arithmetic_is_the_ancestor_and_a_multiple_of_what_was_learned(n, scale):
    base, models = network(0), parents(n)
    expected = flat(base) + scale * sum(flat(model) - flat(base) for model in models)
    fused = METHODS["Task-Arithmetic"](models, X, base=base, scale=scale).model
    assert torch.allclose(flat(fused), expected, rtol=1e-12, atol=1e-12)


def ties_by_hand(vectors: np.ndarray, density: float) -> np.ndarray:
    """Yadav et al., Algorithm 1, entry by entry."""
    n, p = vectors.shape
    kept = np.zeros_like(vectors)
    for k in range(n):
        largest = sorted(range(p), key=lambda j: -abs(vectors[k, j]))[: max(1, round(density * p))]
        kept[k, largest] = vectors[k, largest]
    merged = np.zeros(p)
    for j in range(p):
        positive, negative = kept[kept[:, j] > 0, j], kept[kept[:, j] < 0, j]
        chosen = positive if positive.sum() > -negative.sum() else negative
        merged[j] = chosen.mean() if len(chosen) else 0
    return merged


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 4), p=st.integers(1, 12), density=st.floats(0.01, 1), seed=st.integers(0, 1000))
def test_ties_is_its_algorithm(n, p, density, seed):
    vectors = torch.randn(n, p, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    merged = disjoint_mean(trimmed(vectors, density))
    assert np.allclose(merged.numpy(), ties_by_hand(vectors.numpy(), density))


@pytest.mark.slow
def test_dare_keeps_the_expectation_and_drops_so_many():
    vectors = torch.randn(2, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    generator, draws = torch.Generator().manual_seed(3), 4000
    total, zeros = torch.zeros_like(vectors), 0.0
    for _ in range(draws):
        kept = rescaled(vectors, 0.75, generator)
        total += kept
        zeros += (kept == 0).double().mean().item()
        assert torch.allclose(kept[kept != 0], 4 * vectors[kept != 0])
    # an entry's deviation is sqrt(drop / (1 - drop)) = sqrt(3) times its size; six of them are allowed
    assert ((total / draws - vectors).abs() <= 6 * vectors.abs() * math.sqrt(3 / draws)).all()
    assert abs(zeros / draws - 0.75) < 0.01


def test_dare_without_dropping_is_task_arithmetic_or_ties_untrimmed():
    models, base = parents(3), network(0)
    for elect, same in ((False, METHODS["Task-Arithmetic"]), (True, METHODS["TIES"])):
        more = {"density": 1.0} if elect else {}
        for scale in ({}, {"scale": 0.7}):
            fused = METHODS["DARE"](models, X, base=base, drop=0.0, elect=elect, **scale).model
            assert torch.equal(flat(fused), flat(same(models, X, base=base, **scale, **more).model))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_usual_scale_is_that_of_the_mean(n):
    """That of task arithmetic, and of DARE where nothing is dropped; the word is a scale like any number."""
    models, base = parents(n), network(0)
    mean = sum(flat(model) for model in models) / n
    for name, options in (("Task-Arithmetic", {}), ("DARE", {"drop": 0.0})):
        fused = METHODS[name](models, X, base=base, **options)
        assert torch.allclose(flat(fused.model), mean, rtol=1e-12, atol=1e-14)
        assert fused.config["scale"] == "auto"
        number = METHODS[name](models, X, base=base, scale=1 / n, **options).model
        assert torch.equal(flat(number), flat(fused.model))
    with pytest.raises(ValueError, match="scale"):
        METHODS["DARE"](models, X, base=base, scale="1/n")


def test_the_seed_decides_what_dare_drops():
    first, again, other = (METHODS["DARE"](parents(), X, base=network(0), seed=seed).model for seed in (0, 0, 1))
    assert torch.equal(flat(first), flat(again)) and not torch.equal(flat(first), flat(other))


# --- on the command line -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two networks trained on from one."""
    folder = tmp_path_factory.mktemp("merges")
    assert main(["train", "--out", str(folder), "--epochs", "1", "--arch", "mlp"]) == 0
    models = [load_model(folder / f"parent-{index}.safetensors")[0] for index in range(2)]
    base = METHODS["Average"](models, torch.zeros(1, 1, 8, 8)).model
    save_model(base, folder / "base.safetensors")
    return folder


@pytest.mark.slow
def test_an_ancestor_on_the_command_line_and_in_records(trained, capsys):
    files = [str(trained / f"parent-{index}.safetensors") for index in range(2)]
    out, base = str(trained / "fused.safetensors"), str(trained / "base.safetensors")
    words = [
        "fuse",
        *files,
        "--splits",
        str(trained / "splits.json"),
        "--samples",
        "40",
        "--method",
        "ties",
        "--out",
        out,
    ]
    assert main([*words, "--base", "nothing.pt"]) == 2
    assert "there is no checkpoint at nothing.pt" in capsys.readouterr().err
    assert main([*words, "--base", base, "--record", str(trained / "record"), "--evaluate"]) == 0
    models = [load_model(file)[0] for file in files]
    expected = METHODS["TIES"](models, torch.zeros(1, 1, 8, 8), base=load_model(base)[0]).model
    assert torch.equal(flat(load_model(out)[0]), flat(expected))


def test_the_ancestors_content_is_part_of_a_runs_identity(tmp_path):
    for name, seed in (("a", 1), ("b", 2), ("base", 0), ("again", 0), ("other", 5)):
        save_model(network(seed), tmp_path / f"{name}.safetensors")
    models = tuple(str(tmp_path / f"{name}.safetensors") for name in "ab")
    keys = [
        identity(RunConfig(models, method="TIES", base=base and str(tmp_path / f"{base}.safetensors"))).key()
        for base in ("base", "again", "other", None)
    ]
    assert keys[0] == keys[1] and len(set(keys)) == 3
