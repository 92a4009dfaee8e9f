"""Refusals before any training, and seconds and bytes that follow from counted work."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch

from retrofit_core.methods import METHODS
from retrofit_core.networks.architectures import build, fitted, parse
from retrofit_core.networks.checkpoints import save_model
from retrofit_core.runs import RunConfig, execute
from retrofit_core.runs.config import FIELDS
from retrofit_core.runs.estimate import estimate, pace, planned_levels, predict, seconds, work
from retrofit_core.runs.estimate.memory import fusion_memory
from retrofit_core.runs.estimate.planning import blank
from retrofit_core.training.parents import TrainConfig, train_parents
from tests.marks import each_case

ROOT = Path(__file__).parents[1]
SMALL = '{"architecture": "cnn", "widths": [4, 6, 6]}'
RESNET = '{"architecture": "resnet", "layers": [1, 1], "width": 4}'
WIDE = '{"architecture": "cnn", "widths": [8, 12, 12]}'


def pair(method="KF-Linear", training=None, **changes):
    """A run of a training's parents, and the training."""
    training = training or TrainConfig(arch=(SMALL,), device="cpu")
    config = RunConfig(models=training.files(), splits=training.splits(), method=method, device="cpu", samples=60)
    return dataclasses.replace(config, **changes), training


@pytest.fixture
def steady(monkeypatch):
    """A machine whose pace is known: no clock decides."""
    monkeypatch.setattr(work, "pace_of", lambda spec, device: pace.Pace(1e-3, 1e-5))
    monkeypatch.setattr(seconds, "step_seconds", lambda device: 1e-3)
    monkeypatch.setattr(seconds, "products_rate", lambda device, dtype: 1e10)
    work.count_work.cache_clear()
    yield
    work.count_work.cache_clear()


@pytest.mark.slow
@each_case(
    ("config", "message"),
    [
        (pair("HF-Linear", TrainConfig(arch=(SMALL,), parts=3)), r"exactly two parents.*KF-Linear works here\."),
        (pair("HF-Gradient", TrainConfig(arch=(SMALL,), parts=3)), r"exactly two parents.*KF-Gradient works here\."),
        (pair("HF-Linear", TrainConfig(arch=(SMALL, WIDE))), r"found widths \(4, 8\).*KF-Linear works here\."),
        (
            pair(training=TrainConfig(arch=("vit-small",)), options={"boundaries": "blocks"}),
            r"not affine.*KF-Gradient works here\.",
        ),
        (pair(target='{"architecture": "cnn", "widths": [20, 6, 6]}'), r"20 fused neurons for 8 parents' neurons"),
        (pair(target="mlp"), "levels"),
        (
            pair(training=TrainConfig(arch=("vit-small",)), method="KF-Gradient", importance="deeplift"),
            "DeepLIFT has no rule",
        ),
        (pair(samples=5000), r"5000 samples cannot be drawn from \d+ rows"),
        (pair(method="KF-Gradient", samples=5), "needs at least 10"),
        (pair(training=TrainConfig(parts=11)), "10 classes are too few for 11 parts"),
        (pair(training=TrainConfig(arch=("vgg99",))), "vgg99"),
        (pair(importance="deeplifd"), "Did you mean 'deeplift'"),
        (pair(options={"ridge": "strong"}), "ridge is 'strong'"),
        (
            pair(method="KF-Gradient", options={"toward": "parents"}),
            "has no setting 'toward' .* a setting of HF-Linear, KF-Linear",
        ),
        (pair(memory=1000), "budget"),
        (pair(data="nowhere"), "there is no folder nowhere"),
    ],
)
def test_what_cannot_work_is_refused_with_the_way_out(config, message, tmp_path):
    answer = estimate(*config, folder=tmp_path)
    assert answer.refusal is not None and (answer.seconds, answer.memory, answer.levels) == ((0.0, 0.0), 0, 0)
    assert answer.disk == 0
    with pytest.raises(ValueError, match=message):
        raise ValueError(answer.refusal)
    assert "\n" not in answer.refusal and str(tmp_path) not in answer.refusal


THREE, UNEVEN = TrainConfig(arch=(SMALL,), parts=3), TrainConfig(arch=(SMALL, WIDE))


@pytest.mark.slow
@each_case(
    ("config", "message"),
    [
        (pair("Git-Re-Basin", THREE), "pairs exactly two parents; found 3. Use OTFusion, KF-Linear"),
        (pair("PLeaS", THREE), "exactly two parents"),
        (pair("Git-Re-Basin-Weights", UNEVEN), "parents of equal widths"),
        (pair("Average", UNEVEN), "weights cannot be averaged"),
        (pair("KD", options={"temperature": 0.0}), "temperature is 0.0"),
        (pair("KD", options={"start": "target"}), "start="),
        (pair("ZipIt", options={"stop_at": "features.99"}), "not a level before the head"),
        (pair("OTFusion", options={"regularisation": "strong", "solver": "sinkhorn"}), "regularisation"),
        (pair("OTFusion", options={"temperature": 2.0}), "has no setting 'temperature' .* a setting of KD"),
        (
            pair("OTFusion", importance="deeplift", training=TrainConfig(arch=(RESNET,))),
            "defined only at the ends of levels",
        ),
        (pair("KD", importance="conductance"), "has no setting 'importance'"),
        (pair("OTFusion", target='{"architecture": "cnn", "widths": [20, 6, 6]}'), "20 fused neurons for 8"),
    ],
)
def test_other_methods_refuse_by_their_own_checks(config, message, tmp_path):
    answer = estimate(*config, folder=tmp_path)
    assert answer.refusal is not None and re.search(message, answer.refusal), answer.refusal


DEEP = TrainConfig(arch=("vit-small",))


@pytest.mark.slow
@each_case(
    ("config", "cures"),
    [
        (pair("HF-Linear", THREE), [("method", "KF-Linear"), ("grouping", "kmeans")]),
        (pair(training=THREE, options={"grouping": "hungarian"}), [("grouping", "kmeans")]),
        (pair("Average", UNEVEN), [("method", "KF-Linear")]),
        (pair("Git-Re-Basin", THREE), [("method", name) for name in ("OTFusion", "KF-Linear", "KF-Gradient")]),
        (pair("SLERP", THREE), [("method", "Average")]),
        (pair("KF-Gradient", samples=5), [("method", "KF-Linear"), ("samples", 10)]),
        (pair(samples=5000), [("samples", 721)]),
        (pair(target='{"architecture": "cnn", "widths": [20, 6, 6]}'), [("target", None)]),
        (pair("KF-Gradient", DEEP, importance="deeplift"), [("importance", "conductance"), ("fallback", "gradient")]),
        (pair("KD", options={"start": "target"}), [("start", "random")]),
        (pair(data="nowhere"), []),
    ],
)
def test_a_refusal_carries_the_cures_that_work(config, cures, tmp_path):
    """Each is tried before it is named: with it, nothing is refused."""
    asked, training = config
    answer = estimate(asked, training, folder=tmp_path)
    assert answer.refusal and list(answer.cures) == cures
    for name, value in cures:
        changes = {name: value} if name in FIELDS else {"options": {**(asked.options or {}), name: value}}
        cured = dataclasses.replace(asked, **changes)
        assert not estimate(cured, training, folder=tmp_path).refusal, (name, value)


def test_levels_stand_side_by_side_whether_they_fit_or_not(tmp_path):
    first, *_, last = planned_levels(*pair(training=UNEVEN), tmp_path)
    assert ([part.width for part in first.parents], first.fused.width) == ([4, 8], 4)
    assert (first.becomes, last.becomes) == ("12 neurons in 4 groups", "10 classes stay in their places")
    levels = planned_levels(*pair("HF-Linear", UNEVEN), tmp_path)
    assert all("exactly two parents" in level.mismatch and not level.becomes for level in levels[:-1])
    first, _, _, last = planned_levels(*pair(target="mlp"), tmp_path)
    assert first.mismatch == "parent 0 has Conv2d, the fused network Linear"
    assert last.fused is None and last.mismatch == "the fused network has no such level"
    assert planned_levels(*pair("KD"), tmp_path) == ()


def test_parents_of_other_classes_are_refused(tmp_path):
    for k, classes in enumerate((10, 7)):
        spec = {"architecture": "cnn", "widths": [4, 6, 6], "classes": classes, "channels": 1, "size": 8}
        save_model(build(spec, seed=k), tmp_path / f"{k}.safetensors")
    config = RunConfig(models=("0.safetensors", "1.safetensors"), fusion_from="iid", method="KD", device="cpu")
    assert "parent 1 tells 7 classes apart" in str(estimate(config, folder=tmp_path).refusal)


@pytest.mark.slow
def test_what_is_not_refused_runs(tmp_path, monkeypatch, subtests):
    monkeypatch.chdir(tmp_path)
    training = TrainConfig(arch=(SMALL,), device="cpu", epochs=1)
    options = {"KD": {"epochs": 1}, "LP": {"epochs": 1}}
    configs = {name: pair(name, training, options=options.get(name))[0] for name in METHODS}
    answers = {name: estimate(config, training) for name, config in configs.items()}
    train_parents(training, training.folder)
    for name, answer in answers.items():
        with subtests.test(name):
            if METHODS[name].takes.base:
                assert "their common ancestor, which is missing" in str(answer.refusal)
                continue
            assert (
                answer.refusal is None and 0 < answer.seconds[0] < answer.seconds[1] and answer.memory and answer.disk
            )
            if METHODS[name].takes.levels:
                assert answer.levels == 4
            result, _ = execute(configs[name])
            assert len(result.levels) == answer.levels or result.config.get("chosen") == {}  # a parent


@pytest.mark.slow
def test_checkpoints_are_judged_without_a_training(tmp_path):
    for k, widths in enumerate(([4, 6, 6], [8, 12, 12])):
        save_model(build({"architecture": "cnn", "widths": widths}, seed=k), tmp_path / f"{k}.safetensors")
    config = RunConfig(models=("0.safetensors", "1.safetensors"), fusion_from="iid", method="KF-Linear", device="cpu")
    assert estimate(config, folder=tmp_path).levels == 4
    for method in ("FedAvg", "Ensemble-Shares"):
        alike = dataclasses.replace(config, models=("0.safetensors",) * 2, method=method)
        assert "only a splits file contains" in str(estimate(alike, folder=tmp_path).refusal)
    assert "KF-Linear works here" in str(
        estimate(dataclasses.replace(config, method="HF-Linear"), folder=tmp_path).refusal
    )
    missing = dataclasses.replace(config, models=("2.safetensors",))
    assert estimate(missing, folder=tmp_path).refusal == "there is no checkpoint at 2.safetensors."


@pytest.mark.slow
def test_seconds_grow_with_the_work(steady, tmp_path):
    def most(config, training):
        return estimate(config, training, folder=tmp_path).seconds[1]

    base = most(*pair())
    more = {
        "epochs": pair(training=TrainConfig(arch=(SMALL,), device="cpu", epochs=200)),
        "parents": pair(training=TrainConfig(arch=(SMALL,), device="cpu", parts=4, split="full")),
        "gradient": pair("KF-Gradient"),
        "importance": pair(importance="conductance"),
        "measuring": pair(evaluate=True),
        "analysis": pair(analyse=True),
        "samples": pair(samples=600),
    }
    assert all(most(*run) > base for run in more.values())
    slow = most(*pair(training=TrainConfig(arch=(SMALL,), device="cpu", split="full", parts=2)))
    twins = most(*pair(training=TrainConfig(arch=(SMALL,), device="cpu", split="full", parts=2, twins=True)))
    assert twins < slow  # only one of them is trained


@pytest.mark.slow
def test_options_of_grouping_score_and_fit_count(steady, tmp_path):
    def counted(**changes):
        config, training = pair(**changes)
        return work.count_work(config, training, tmp_path).seconds["fusion"]

    assert counted(options={"restarts": 200})[1] > counted()[1]
    scored, finer = (counted(importance="conductance", options=steps)[0] for steps in (None, {"steps": 21}))
    # 11 points become 22: twice the passes of two parents, two thirds of a step each
    assert finer - scored == pytest.approx(11 * 400 * 2 * 2 / 3 * 1e-5)
    patient, hasty, tireless = (
        counted(method="KF-Gradient", options={"epochs": 40, "patience": patience}) for patience in (15, 3, None)
    )
    assert patient[1] == hasty[1] == tireless[1] and hasty[0] < patient[0] < tireless[0]
    assert tireless[0] == tireless[1]


@pytest.mark.slow
@each_case("method", METHODS)
def test_an_estimate_runs_no_method(method, tmp_path, monkeypatch):
    def run(*_):
        raise AssertionError("the method was run")

    monkeypatch.setattr(METHODS[method].value, "run", run)
    needed = {}
    if METHODS[method].takes.base:
        refused = estimate(*pair(method), folder=tmp_path).refusal
        assert refused is not None and "common ancestor, which is missing" in refused
        save_model(build(fitted(parse(SMALL), (1, 8, 8), 10), seed=0), tmp_path / "base.safetensors")
        needed = {"base": "base.safetensors"}
    assert estimate(*pair(method, **needed), folder=tmp_path).refusal is None


def test_an_ensemble_leaves_all_parents_on_disk(steady, tmp_path):
    ensemble, average = (estimate(*pair(method), folder=tmp_path).disk for method in ("Ensemble", "Average"))
    network = blank(json.dumps(fitted(parse(SMALL), (1, 8, 8), 10)))
    assert ensemble - average == 4 * sum(parameter.numel() for parameter in network.parameters())


def test_operations_of_a_step_are_those_of_the_layers():
    """Three passes, two operations a multiplication: 64 positions of the first two convolutions, 16 of the third."""
    layers = 64 * 9 * 1 * 4 + 64 * 9 * 4 * 6 + 16 * 9 * 6 * 6 + 4 * 6 * 10
    spec = json.dumps(fitted(parse(SMALL), (1, 8, 8), 10))
    assert pace.operations(spec) == 3 * 2 * layers


def test_training_is_counted_step_by_step(steady, tmp_path):
    """1437 rows, a tenth held out, batches of 64: 20 steps of 1 + 0.5 ms and 1293 images of 10 us, each epoch."""
    training = TrainConfig(arch=(SMALL,), split="full", parts=1, epochs=100, device="cpu")
    counted = work.count_work(*pair(training=training), tmp_path)
    assert counted.seconds["training"][0] == pytest.approx(
        100 * (0.021 * 1.5 + 0.01293 + 0.1 * 1437 * 1e-5 / 3), rel=0.03
    )


def test_parents_that_are_there_take_no_time(steady, tmp_path):
    config, training = pair()
    before = estimate(config, training, folder=tmp_path)
    for file in training.files():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    work.count_work.cache_clear()
    assert estimate(config, training, folder=tmp_path).seconds[1] < before.seconds[1]


def past_run(config, training, counted, times, stages=None):
    """A finished run of these stages (all), each of which took so many times longer than counted."""
    taken = {
        stage: times * least for stage, (least, _) in counted.seconds.items() if stage in (stages or counted.seconds)
    }
    return {"config": config.to_json(), "training": training.to_json(), "stages": taken}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("times", "least", "most"),
    [
        ([1.8], 1 / predict.LEARNT, 1.8 * predict.LEARNT),  # the machine may have been busy, or it is so slow
        ([90], 1 / predict.LEARNT, predict.SPREAD * predict.LEARNT),  # it stood still
        ([3, 3, 3], 3 / predict.LEARNT, 3 * predict.LEARNT),
        ([0.2, 0.2, 0.2, 9], 0.2 / predict.LEARNT, 0.2 * predict.LEARNT),  # the newest count
        ([1, 6, 1], 1 / predict.LEARNT, predict.SPREAD * predict.LEARNT),
    ],
)
def test_earlier_runs_of_the_method_correct_the_prediction(steady, tmp_path, times, least, most):
    config, training = pair()
    counted = work.count_work(config, training, tmp_path, True)
    nothing = [{}, {"config": {"colour": 1}}]
    raw = estimate(config, training, nothing, tmp_path).seconds
    assert raw == estimate(config, training, (), tmp_path).seconds
    past = nothing + [past_run(config, training, counted, each) for each in times]
    learnt = estimate(config, training, past, tmp_path).seconds
    factors = (least * predict.SPREAD, most / predict.SPREAD)
    for before, after, start, factor in zip(raw, learnt, predict.START, factors, strict=True):
        fixed = start + counted.reading
        assert after - fixed == pytest.approx(factor * (before - fixed))


def test_trainings_are_learnt_from_runs_of_every_method(steady, tmp_path):
    """But a run of another method says nothing of how long the fusion takes."""
    config, training = pair()
    counted = work.count_work(config, training, tmp_path, True)
    other = dataclasses.replace(config, method="HF-Linear")
    raw = estimate(config, training, (), tmp_path).seconds
    fusions = [past_run(other, training, counted, 5, ["fusion"])] * 3
    assert estimate(config, training, fusions, tmp_path).seconds == raw
    trainings = [past_run(other, training, counted, 0.1, ["training"])] * 3
    assert estimate(config, training, trainings, tmp_path).seconds[1] < raw[1] - counted.seconds["training"][1]


def test_a_busy_machine_may_take_longer(steady, tmp_path, monkeypatch):
    config, training = pair()
    idle, busy = (estimate(config, training, (), tmp_path, crowding) for crowding in (1.0, 3.0))
    assert busy.seconds == (idle.seconds[0], pytest.approx(3 * idle.seconds[1]))
    for load, expected in ((0.0, 1.0), (4.0, 3.0), (400.0, predict.MOST_CROWDED)):
        monkeypatch.setattr(predict.psutil, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        monkeypatch.setattr(predict.os, "cpu_count", lambda: 4)
        assert predict.crowding() == expected


def test_seconds_of_other_methods_are_counted_or_said_to_be_unknown(steady, tmp_path):
    """KD trains a student on 60 samples; of an alignment only the passes are counted until it has been run here."""
    config, training = pair("KD", options={"epochs": 10})

    def least(epochs: int) -> float:
        counted = work.count_work(dataclasses.replace(config, options={"epochs": epochs}), training, tmp_path)
        return counted.seconds["fusion"][0]

    assert least(20) - least(10) == pytest.approx(10 * (2 * 1e-3 + 54 * 1e-5 + 6 * 1e-5 / 3))  # two batches of 32
    budget = work.count_work(dataclasses.replace(config, options={"epochs": 1000, "budget": 0.1}), training, tmp_path)
    assert budget.seconds["fusion"][1] < 0.2
    config = dataclasses.replace(config, method="OTFusion", options=None)
    assert estimate(*pair("Average"), folder=tmp_path).whole and not estimate(config, training, folder=tmp_path).whole
    past = [{"config": config.to_json(), "training": training.to_json(), "stages": {"fusion": 40.0}}]
    before, after = estimate(config, training, folder=tmp_path), estimate(config, training, past, tmp_path)
    assert after.whole and after.seconds[1] - before.seconds[1] == pytest.approx(80, abs=1)


@pytest.mark.slow
def test_memory_holds_networks_data_and_the_largest_level(steady, tmp_path):
    def memory(**changes):
        return estimate(*pair(**changes), folder=tmp_path).memory

    vgg = {"training": TrainConfig(arch=("vgg11",), device="cpu")}
    parameters = sum(p.numel() for p in blank(json.dumps(fitted(parse("vgg11"), (1, 8, 8), 10))).parameters())
    assert memory(**vgg) - memory() > 3 * 4 * parameters
    assert memory(method="KF-Gradient", samples=600) > memory(method="KF-Gradient", samples=60)


@pytest.mark.slow
def test_memory_of_a_large_fusion_is_a_little_more_than_was_measured():
    """Two ResNet-50s at 224 x 224, measured by benchmarks/memory.py --large; also what the record holds beside it."""
    record = json.loads((ROOT / "benchmarks" / "results" / "memory-resnet50.json").read_text())
    spec = fitted(parse("resnet50"), (3, 224, 224), 1000) | {"imagenet_stem": True}
    network, image = blank(json.dumps(spec)), torch.zeros(1, 3, 224, 224)
    algorithm, task = METHODS["KF-Linear"].prepare([network, network], image.expand(25, -1, -1, -1))
    levels = algorithm.plan(task).levels
    for row in record["accounted"]:
        expected = fusion_memory(levels, algorithm.fit, row["samples"], row["budget, bytes"])
        assert expected + row["samples"] * 2 * image.numel() == row["bytes"]  # half precision
        if run := record["runs"].get(str(row["samples"])):
            assert run["peak bytes"] <= row["bytes"] <= 1.1 * run["peak bytes"]


@pytest.mark.slow
@pytest.mark.parametrize("analyse", [False, True])
def test_disk_is_what_a_run_leaves(analyse, tmp_path, monkeypatch):
    config, training = pair(importance="conductance", analyse=analyse, training=TrainConfig(epochs=1, device="cpu"))
    monkeypatch.chdir(tmp_path)
    estimated = estimate(config, training, folder=tmp_path).disk
    train_parents(training, training.folder)
    execute(config, config.key())
    left = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert 0.6 < estimated / left < 1.6
    trained = sum(Path(tmp_path, name).stat().st_size for name in training.files())
    work.count_work.cache_clear()
    assert estimated - estimate(config, training, folder=tmp_path).disk == pytest.approx(trained, rel=0.1)


@pytest.mark.slow
def test_large_networks_are_counted_and_small_ones_run(monkeypatch):
    """Doubled widths are four times the work, and nothing is run to find that out."""
    monkeypatch.setattr(pace, "step_seconds", lambda device: 1e-4)
    monkeypatch.setattr(pace, "update_seconds", lambda device: 1e-9)
    monkeypatch.setattr(pace, "products_rate", lambda device, dtype: 1e11)
    pace.pace_of.cache_clear()
    measured = []
    monkeypatch.setattr(pace, "_measured", lambda spec, device, counted: measured.append(spec) or counted)
    specs = {name: json.dumps(fitted(parse(name), (3, 32, 32), 10)) for name in ("cnn", "vgg16", "vgg16-double")}
    paces = {name: pace.pace_of(spec, "cpu") for name, spec in specs.items()}
    pace.pace_of.cache_clear()
    assert measured == [specs["cnn"]]
    assert paces["vgg16"].per_image == pytest.approx(pace.operations(specs["vgg16"]) / 1e11 / pace.EFFICIENCY)
    assert paces["vgg16-double"].per_image == pytest.approx(4 * paces["vgg16"].per_image, rel=0.1)
