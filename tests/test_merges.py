"""Soups, Fisher averaging, SLERP, task arithmetic, TIES and DARE, against formulas written out here, on small tensors."""

import copy
import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from retrofit_core import METHODS, load_model, save_model
from retrofit_core.baselines.fisher import fisher_diagonal
from retrofit_core.baselines.merging import disjoint_mean, rescaled, slerp, trimmed
from retrofit_core.cli import main
from retrofit_core.runs import RunConfig, identity
from tests.marks import each_case
from tests.networks import VGG_SHAPE, batchnorm_cnn, normal, seeded
from tests.properties import assert_close
from tests.rehearsal import rehearsal
from tests.test_rehearsal import Tied

MERGES = ("Greedy-Soup", "Fisher", "SLERP", "Task-Arithmetic", "TIES", "DARE")
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


def given_to(name: str) -> dict:
    return {"base": network(0)} if name in ARITHMETIC else {}


# --- what all of them keep -----------------------------------------------------------------------------------------------


@each_case("name", MERGES)
def test_statistics_of_batchnorm_are_averaged_and_parents_stay(name):
    models = [network(1), network(1)]  # all of them are taken into a soup
    models[1][1].running_mean += 1
    before = [copy.deepcopy(model.state_dict()) for model in models]
    fused = METHODS[name](models, (X, Y), **given_to(name)).model
    mean = (models[0][1].running_mean + models[1][1].running_mean) / 2
    assert torch.allclose(fused[1].running_mean, mean) or name == "Greedy-Soup"
    for model, state in zip(models, before, strict=True):
        assert all(torch.equal(tensor, state[key]) for key, tensor in model.state_dict().items())
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
        fused = METHODS["DARE"](models, X, base=base, drop=0.0, elect=elect, scale=0.7).model
        assert torch.equal(flat(fused), flat(same(models, X, base=base, scale=0.7, **more).model))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_scale_of_one_over_n_is_the_mean(n):
    """The default of task arithmetic, and of DARE where nothing is dropped; the word is a scale like any number."""
    models, base = parents(n), network(0)
    mean = sum(flat(model) for model in models) / n
    for name, options in (("Task-Arithmetic", {}), ("DARE", {"drop": 0.0})):
        fused = METHODS[name](models, X, base=base, **options)
        assert torch.allclose(flat(fused.model), mean, rtol=1e-12, atol=1e-14)
        assert fused.config["scale"] == "1/n"
        number = METHODS[name](models, X, base=base, scale=1 / n, **options).model
        assert torch.equal(flat(number), flat(fused.model))
    with pytest.raises(ValueError, match="scale"):
        METHODS["DARE"](models, X, base=base, scale="1/m")


def test_the_seed_decides_what_dare_drops():
    first, again, other = (METHODS["DARE"](parents(), X, base=network(0), seed=seed).model for seed in (0, 0, 1))
    assert torch.equal(flat(first), flat(again)) and not torch.equal(flat(first), flat(other))


# --- SLERP -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("angle", ["whole", "tensor"])
def test_slerp_ends_at_the_parents(angle):
    models = parents()
    for t, parent in ((0.0, models[0]), (1.0, models[1])):
        fused = METHODS["SLERP"](models, X, t=t, angle=angle).model
        for name, tensor in parent.state_dict().items():
            assert torch.equal(fused.state_dict()[name], tensor) or name.endswith("num_batches_tracked")
    with pytest.raises(ValueError, match="SLERP interpolates between exactly two parents. Found 3. Use Average"):
        METHODS["SLERP"](parents(3), X)


def test_slerp_between_parallel_vectors_is_linear():
    a = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert torch.allclose(slerp(a, 3 * a, 0.25), 1.5 * a) and torch.allclose(slerp(a, -a, 0.25), 0.5 * a)
    assert torch.isfinite(slerp(torch.zeros_like(a), a, 0.5)).all()


def test_slerp_of_each_tensor_has_angles_of_its_own():
    models = parents()
    fused = METHODS["SLERP"](models, X, t=0.3, angle="tensor").model
    for one, left, right in zip(fused.parameters(), *(model.parameters() for model in models), strict=True):
        a, b = left.detach().flatten().numpy(), right.detach().flatten().numpy()
        w = math.acos(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        expected = (math.sin(0.7 * w) * a + math.sin(0.3 * w) * b) / math.sin(w)
        assert np.allclose(one.detach().flatten().numpy(), expected)


# --- Fisher ----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_fisher_information_of_a_linear_classifier():
    """By hand: d log p_y / d W_c = ([c = y] - p_c) x, so the diagonal is E x^2 p_c (1 - p_c)."""
    model = network(4)[3]
    x = X[:, :4]
    p = (x @ model.weight.T + model.bias).softmax(1).detach()
    expected = torch.einsum("bc,bi->ci", p * (1 - p), x.square()) / len(x)
    found = fisher_diagonal(copy.deepcopy(model), x)
    assert torch.allclose(found["weight"], expected, rtol=1e-10)
    assert torch.allclose(found["bias"], (p * (1 - p)).mean(0), rtol=1e-10)
    many = x[:3].repeat(3000, 1)
    exact = fisher_diagonal(copy.deepcopy(model), x[:3])["bias"]
    drawn = fisher_diagonal(copy.deepcopy(model), many, generator=torch.Generator().manual_seed(0))["bias"]
    assert torch.allclose(drawn, exact, rtol=0.1)


class Deciding(nn.Module):
    """What it does depends on the numbers, which vmap cannot follow."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return (self.first if x.sum() > 0 else self.second)(x).relu().mean((2, 3))


class Encoding(nn.Module):
    """Attention that PyTorch fuses in evaluation mode: its encoder, attention alone, and with a trained bias of positions."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 1)
        self.attention, self.qkv = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 24)
        self.bias, self.head = nn.Parameter(torch.zeros(1, 2, 24, 24)), nn.Linear(8, 4)

    def forward(self, x):
        h = self.encoder(x.flatten(1, 2))
        h = h + self.attention(h, h, h, need_weights=False)[0]
        q, k, v = self.qkv(h).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        h = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.bias)
        return self.head(h.transpose(1, 2).flatten(2).mean(1))


NETWORKS = {
    "BatchNorm": (lambda: nn.Sequential(seeded(0, nn.Conv2d, 3, 2, 2).double(), batchnorm_cnn()), True),
    "tied": (lambda: seeded(0, Tied).double().eval(), True),
    "deciding": (lambda: seeded(0, Deciding).double().eval(), False),
    "attention": (lambda: seeded(0, Encoding).double().eval(), True),
}


@each_case("name", NETWORKS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_fisher_information_is_the_loops(name, device):
    """Gradients of one sample and one class at a time; samples that can go together pass the network together."""
    make, together = NETWORKS[name]
    x = normal(7, *VGG_SHAPE)
    model, expected = make().eval(), {}
    for sample in x.split(1):
        logs = model(sample).log_softmax(1)[0]
        for log in logs:
            gradients = torch.autograd.grad(log, list(model.parameters()), retain_graph=True, allow_unused=True)
            for key, g in zip(dict(model.named_parameters()), gradients, strict=True):
                expected[key] = expected.get(key, 0) + (0 if g is None else log.exp().detach() * g.square() / len(x))
    passes = []
    with rehearsal() if device == "cuda" else nullcontext():
        for samples in (x, x[:3]):
            model = make().eval().to(device)
            calls = []
            model.register_forward_hook(lambda *_, calls=calls: calls.append(1))
            found = fisher_diagonal(model, samples)
            passes.append(len(calls))
            if samples is x:
                for key, tensor in found.items():
                    assert_close(tensor.cpu(), expected[key], 1e-12)
    assert (passes[0] == passes[1]) == together


def test_fisher_averaging_is_its_formula():
    models = parents()
    fishers = [fisher_diagonal(copy.deepcopy(model), X) for model in models]
    fused = METHODS["Fisher"](models, X, floor=1e-3).model
    for name, parameter in fused.named_parameters():
        F = [fisher[name] + 1e-3 for fisher in fishers]
        theta = [dict(model.named_parameters())[name] for model in models]
        assert torch.allclose(parameter, (F[0] * theta[0] + F[1] * theta[1]) / (F[0] + F[1]), rtol=1e-10)
    own = METHODS["Fisher"](models, X, importance_data=[(X[:10], Y[:10]), (X[10:], Y[10:])]).model
    assert not torch.allclose(flat(own), flat(METHODS["Fisher"](models, X).model))


def test_what_no_answer_depends_on_is_averaged():
    models = parents()
    for model in models:
        model[3].weight.data.zero_()  # what is before the head decides nothing
    fused = METHODS["Fisher"](models, X).model
    assert torch.allclose(fused[0].weight, (models[0][0].weight + models[1][0].weight) / 2, rtol=1e-12)


# --- greedy soup -------------------------------------------------------------------------------------------------------------


def soup_by_hand(models: list[nn.Module], x: torch.Tensor, y: torch.Tensor) -> list[int]:
    """Wortsman et al., Recipe 1."""

    def accuracy(chosen: list[int]) -> float:
        mean = copy.deepcopy(models[0])
        states = [models[k].state_dict() for k in chosen]
        mean.load_state_dict({name: sum(state[name] for state in states) / len(states) for name in states[0]})
        return float((mean(x).argmax(1) == y).double().mean())

    ingredients: list[int] = []
    for k in sorted(range(len(models)), key=lambda k: -accuracy([k])):
        if not ingredients or accuracy([*ingredients, k]) >= accuracy(ingredients):
            ingredients.append(k)
    return sorted(ingredients)


@each_case("seed", range(6))
def test_a_greedy_soup_is_its_recipe(seed):
    base = network(seed)
    models = [copy.deepcopy(base) for _ in range(4)]
    generator = torch.Generator().manual_seed(seed)
    for size, model in zip((0.1, 0.2, 0.5, 2.0), models, strict=True):
        for parameter in model.parameters():
            parameter.data += size * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    result = METHODS["Greedy-Soup"](models, (X, Y))
    chosen = soup_by_hand(models, X, Y)
    assert result.config["parents"] == chosen
    assert torch.allclose(flat(result.model), sum(flat(models[k]) for k in chosen) / len(chosen), rtol=1e-12)


@each_case(
    "data, message", [(X, "have no labels"), ((X, torch.arange(30) % 6), "labels run from 0 to 5, .* have 3 classes")]
)
def test_a_greedy_soup_needs_labels_of_its_classes(data, message):
    with pytest.raises(ValueError, match=message):
        METHODS["Greedy-Soup"](parents(), data)


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
