"""Auto against plain loops: candidates called by name and measured one by one, the choice made by hand."""

import pytest
import torch

from retrofit_core import METHODS, build, train
from retrofit_core.baselines import auto
from retrofit_core.data import load
from retrofit_core.fusion.fit import Ridge
from retrofit_core.fusion.importance import Conductance
from tests.marks import each_case
from tests.networks import labels, normal, seeded
from tests.properties import assert_same_tensors, untouched

pytestmark = pytest.mark.slow

ACTIVE, ENSEMBLE = {"active": True, "repair": True}, {"head": "ensemble"}
SIZES = [64, 24, 16, 10]


def trained(classes, seed, epochs=12):
    """A digits network that has seen these classes only, and rows of theirs, some of which no training needs."""
    images = load("digits", "train")
    rows = torch.isin(images.labels, torch.tensor(classes)).nonzero()[:, 0]
    model = build({"architecture": "mlp", "sizes": SIZES}, seed=seed)
    train(model, images, rows, epochs=epochs, seed=seed)
    return model, (images.inputs(rows[:160]), images.labels[rows[:160]])


@pytest.fixture(scope="module")
def shards():
    """Two parents with five classes each, and data of each."""
    pairs = [trained(range(5), 0), trained(range(5, 10), 1)]
    return [model for model, _ in pairs], [data for _, data in pairs]


def classes_right(model, x, y):
    """{class: share of its samples that are told right}, by loops."""
    hits = {}
    with torch.no_grad():
        for sample, truth in zip(x, y.tolist(), strict=True):
            hits.setdefault(truth, []).append(int(model(sample[None]).argmax()) == truth)
    return {c: sum(told) / len(told) for c, told in hits.items()}


def mean(values):
    return sum(values) / len(values)


def is_in(sample, others):
    return any(torch.equal(sample, other) for other in others)


def divided(plan, fusion, own=()):
    """The samples at hand, each once, without those that the plan holds out; and those."""
    x, y = (torch.cat(parts) for parts in zip(fusion, *own, strict=True))
    first = [k for k in range(len(x)) if not is_in(x[k], x[:k])]
    held = [k for k in first if is_in(x[k], plan.deciding[0])]
    rest = [k for k in first if k not in held]
    assert len(held) == len(plan.deciding[0])
    return (x[rest], y[rest]), (x[held], y[held])


def by_hand(parents, fitted, held, candidates):
    """The scores of candidates and parents, and the candidates' networks; labels may be None."""
    dx, dy = held
    if dy is None:
        with torch.no_grad():
            dy = torch.stack([parent(dx).softmax(1) for parent in parents]).mean(0).argmax(1)
    fused, networks = {}, {}
    for title, (name, keywords) in candidates.items():
        networks[title] = METHODS[name](parents, fitted, device="cpu", seed=3, **keywords).model
        fused[title] = mean(classes_right(networks[title], dx, dy).values())
    alone = [mean(classes_right(parent, dx, dy).values()) for parent in parents]
    seen, missed_by_chance = len(set(dy.tolist())) / 10, 0.9 ** len(dx)
    missing = max(0, (1 - seen - missed_by_chance) / (1 - missed_by_chance))
    scores = {}
    for k, right in enumerate(alone):
        others = mean([other for j, other in enumerate(alone) if j != k])
        scores[f"parent {k}"] = (1 - missing) * right + missing * others
    return scores | fused, networks


def assert_chosen_by_hand(result, scores, networks):
    best = max(scores.values())
    chosen = next(title for title, score in scores.items() if score > best - 1e-9)
    assert result.config["candidates"].keys() == scores.keys()
    for title, score in scores.items():
        assert result.config["candidates"][title] == pytest.approx(100 * score), title
    assert result.note.startswith(f"Auto chose {chosen}:")
    assert_same_tensors(result.model, networks[chosen])


def test_labelled_data_of_each_parent_decide_by_accuracy(shards):
    parents, own = shards
    data = {"importance": "conductance", "importance_data": own}
    options = {"importance_data": own, "tries": 4, "seed": 3, "device": "cpu"}
    with untouched(*parents):
        result = METHODS["Auto"](parents, own[0], **options)
    fitted, held = divided(METHODS["Auto"].plan(parents, own[0], **options), own[0], own)
    centred = {**ACTIVE, "centre": True}
    of_parents = [
        (x[rows], y[rows]) for x, y in own for rows in [[k for k in range(len(x)) if not is_in(x[k], held[0])]]
    ]
    candidates = {
        "KF-Linear, conductance, active, repair": ("KF-Linear", {**data, **ACTIVE}),
        "KF-Linear, uniform, active, repair, ensemble": ("KF-Linear", {**ACTIVE, **ENSEMBLE}),
        "KF-Linear, conductance, active, repair, centre": ("KF-Linear", {**data, **centred}),
        "KF-Linear, uniform, active, repair, centre, ensemble": ("KF-Linear", {**centred, **ENSEMBLE}),
        "Average": ("Average", {}),
        "RegMean": ("RegMean", {"importance_data": of_parents}),
    }
    assert_chosen_by_hand(result, *by_hand(parents, fitted, held, candidates))
    assert "Left out" not in result.note and "are right" in result.note


@each_case("labelled", [True, False])
def test_samples_of_one_parent_do_not_make_it_the_best(shards, labelled):
    """There the parent itself is nearly always right, and no sample shows what it does not know."""
    parents, own = shards
    candidates = {
        "KF-Linear, uniform, active, repair, ensemble": ("KF-Linear", {**ACTIVE, **ENSEMBLE}),
        "KF-Linear, uniform, active, repair, centre, ensemble": ("KF-Linear", {**ACTIVE, "centre": True, **ENSEMBLE}),
        "HF-Linear, uniform, ensemble": ("HF-Linear", ENSEMBLE),
        "Average": ("Average", {}),
        "RegMean": ("RegMean", {}),
    }
    options = {"seed": 3, "device": "cpu"}
    given = own[0] if labelled else own[0][0]
    result = METHODS["Auto"](parents, given, **options)
    fitted, held = divided(METHODS["Auto"].plan(parents, given, **options), own[0])
    if not labelled:
        fitted, held = fitted[0], (held[0], None)
    scores, networks = by_hand(parents, fitted, held, candidates)
    assert_chosen_by_hand(result, scores, networks)
    assert scores["parent 0"] < 0.7 < max(scores.values())
    assert ("are right" if labelled else "as the ensemble says") in result.note
    assert "(conductance needs labelled data of each parent)" in result.note


def test_a_parent_that_is_far_ahead_is_returned():
    """Of a network that has learned and one that has not, on samples of all classes, which neither saw."""
    (strong, _), weak = trained(range(10), 0), build({"architecture": "mlp", "sizes": SIZES}, seed=1)
    weak.fc3.weight.data *= 100  # it is sure of itself, and so any mean is spoilt
    test = load("digits", "test")
    data = test.inputs(torch.arange(200)), test.labels[:200]
    result = METHODS["Auto"]([weak, strong], data, device="cpu")
    scores = result.config["candidates"]
    assert result.note.startswith("Auto chose parent 1: ") and scores["parent 1"] == max(scores.values())
    assert_same_tensors(result.model, strong)
    assert result.model is not strong and result.levels == [] and result.config["chosen"] == {}
    smaller = build({"architecture": "mlp", "sizes": [64, 8, 8, 10]}, seed=5)
    shrunk = METHODS["Auto"]([strong, weak], data, target=smaller, device="cpu")
    assert not any(name.startswith("parent") for name in shrunk.config["candidates"])
    assert shrunk.model.state_dict()["fc1.weight"].shape == (8, 64)


def test_from_few_samples_it_takes_kf_linear_and_says_that_nothing_decided(shards):
    """Fewer than 30 would decide: no sample is held out."""
    parents, own = shards
    few = [(x[:58], y[:58]) for x, y in own]
    options = {"importance_data": few, "device": "cpu"}
    result = METHODS["Auto"](parents, few[0], **options)
    both = torch.cat([x for x, _ in few]), torch.cat([y for _, y in few])
    same = METHODS["KF-Linear"](parents, both, importance="conductance", **options)
    assert_same_tensors(result.model, same.model)
    assert list(result.config["candidates"]) == ["KF-Linear, conductance"] and len(result.levels) == 3
    assert result.note.startswith("Auto took KF-Linear, conductance without a choice: fewer than 30 samples")


@each_case("targets", ["sigmoids", "several labels", "one number a pixel"])
def test_what_is_no_class_is_refused(shards, targets):
    """Networks trained for several labels a sample, and dense ones; an argmax over their outputs means nothing."""
    parents, own = shards
    x, y = own[0]
    several = torch.nn.functional.one_hot(y, 10).float()
    several[:, 0] = 1
    nets = {
        "sigmoids": [torch.nn.Sequential(parent, torch.nn.Sigmoid()) for parent in parents],
        "several labels": parents,
        "one number a pixel": [torch.nn.Conv2d(1, 2, 1) for _ in range(2)],
    }[targets]
    with pytest.raises(ValueError, match="Auto .*KF-Linear|not one whole number"):
        METHODS["Auto"](nets, (x, several) if targets == "several labels" else x)


def test_held_out_samples_are_balanced_and_a_share(shards):
    parents, own = shards
    x, y = torch.cat([pair[0] for pair in own]), torch.cat([pair[1] for pair in own])
    for share, count in ((0.25, 80), (0.5, 160), (0.001, 0), (0.99, 317)):
        inputs, truth = METHODS["Auto"].plan(parents, (x, y), held_out=share).deciding
        assert len(inputs) == count
        if count == 80:
            assert torch.bincount(truth).tolist() == [8] * 10
    assert len(METHODS["Auto"].plan(parents, x).deciding[0]) == 80


def test_networks_without_a_closed_form_get_the_gradient_fit():
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.states, self.head = torch.nn.GRU(6, 5, batch_first=True), torch.nn.Linear(5, 3)

        def forward(self, x):
            return self.head(self.states(x)[0][:, -1])

    parents = [seeded(seed, Recurrent) for seed in (0, 1)]
    result = METHODS["Auto"](parents, (normal(150, 7, 6).float(), labels(150, 3)), device="cpu")
    assert (
        "KF-Gradient, uniform" in result.config["candidates"]
        and "HF-Linear, uniform, ensemble" in result.config["left_out"]
    )


def test_where_nothing_can_be_tried_one_sentence_says_why():
    parents = [build({"architecture": "mlp", "sizes": [64, 8, 10]}, seed=0), build({"architecture": "cnn"}, seed=1)]
    x = normal(30, 1, 8, 8).float()
    with pytest.raises(
        ValueError, match="no fusion accepts these networks. KF-Gradient: .* KD and Ensemble only run"
    ) as refused:
        METHODS["Auto"](parents, x)
    ways_out = [method for _, method in refused.value.cures]
    assert ways_out == ["KD", "Ensemble"]
    for method in ways_out:
        METHODS[method](parents, x, **({"epochs": 1} if method == "KD" else {}))


@pytest.mark.long
@each_case("stage", ["run", "scores"])
def test_a_candidates_exception_is_noted_and_the_others_are_tried(stage, monkeypatch):
    """A fault of ours or of a network's code, in either part of the work; the gradient fit stands in for all closed forms."""
    parents = [build({"architecture": "mlp", "sizes": [64, 8, 10]}, seed=seed) for seed in (0, 1)]
    x, y = normal(150, 1, 8, 8).float(), labels(150, 10)

    def failing(original):
        def fails(self, *args, **options):
            if stage == "run" and not isinstance(self.fit, Ridge):
                return original(self, *args, **options)
            raise IndexError("a fault\nof many lines")

        return fails

    owner, name = (Conductance, "scores") if stage == "scores" else (auto.Retrofit, stage)
    monkeypatch.setattr(owner, name, failing(getattr(owner, name)))
    result = METHODS["Auto"](parents, (x, y), importance_data=[(x, y)] * 2, device="cpu")
    left_out, tried = result.config["left_out"], result.config["candidates"]
    assert set(left_out.values()) == {"failed: IndexError: a fault"} and "Left out: " in result.config["choice"]
    if stage == "run":
        assert "KF-Gradient, uniform" in tried and all(
            title.startswith("KF-Linear") for title in left_out if "HF" not in title
        )
    else:
        assert any(title.startswith("KF-Linear, uniform") for title in tried)
