"""benchmarks/gpu.py at its smallest: it measures, stops, hands on what is finished, and goes on from that elsewhere."""

import importlib
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from retrofit_core import METHODS
from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import load_model, read_tensors, save_model
from retrofit_core.system.monitor import Monitor
from tests.rehearsal import rehearsal

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
FACTS = {"classes": ["a", "b"], "best_epoch": 3}


@pytest.fixture(scope="module")
def kit():
    """The benchmarks' modules by name; they are no package, so their folder is on the path for a while."""
    sys.path.insert(0, str(BENCHMARKS))
    yield SimpleNamespace(
        **{
            name: importlib.import_module(name)
            for name in ("gpu", "gpu_call", "gpu_files", "gpu_predict", "gpu_tables")
        }
    )
    sys.path.remove(str(BENCHMARKS))
    for name in [name for name, module in sys.modules.items() if _is_a_benchmark(module)]:
        del sys.modules[name]


def _is_a_benchmark(module):
    return Path(getattr(module, "__file__", None) or "/").parent == BENCHMARKS


@pytest.fixture
def stage(kit, tmp_path):
    """stage(number, out, *words) runs one call on digits and returns its record."""

    def run(number, out, *words, work="work"):
        folders = ["--data", str(tmp_path / "none"), "--out", str(tmp_path / out), "--work", str(tmp_path / work)]
        kit.gpu.main(["--stage", str(number), "--scale", "smoke", *folders, *words])
        return json.loads((tmp_path / out / f"gpu-stage-{number}.json").read_text())

    return run


def accuracies(record):
    parents = record["units"]["noniid-2: parents"]
    fused = {unit: result["accuracy"] for unit, result in record["units"].items() if "accuracy" in result}
    return fused | {name: parents[name] for name in ("parent 0", "parent 1", "best epochs")}


@pytest.mark.long
def test_a_table_goes_on_elsewhere_and_gives_the_same(kit, stage, tmp_path, monkeypatch, capsys):
    whole = stage(3, "whole", work="whole-work")
    assert len(whole["units"]) == 25 and not any("reason" in result for result in whole["units"].values())
    first, later = tmp_path / "first", tmp_path / "later-work" / "smoke" / "noniid-2-epochs-paper-seed-0"

    with monkeypatch.context() as patch:  # the time is up while parent 1 is trained
        parent = tmp_path / "work" / "smoke" / later.name / "parent-0.safetensors"
        patch.setattr(kit.gpu_tables, "Monitor", lambda cancelled: Monitor(cancelled=parent.exists))
        assert list(stage(3, "first")["units"]) == ["plan"]
    assert f"stopped in 'noniid-2: parents', call it again with --from {first}" in capsys.readouterr().out
    assert {path.name for path in first.iterdir()} == {"gpu-stage-3.json", "weights-0.safetensors"}
    assert {tensor.dtype for tensor in read_tensors(parent).values()} == {torch.float16}

    with monkeypatch.context() as patch:  # and again after some fusions, on another machine
        taken_over, unpack = [], kit.gpu.unpack
        patch.setattr(kit.gpu, "unpack", lambda *folders: taken_over.extend(unpack(*folders)))
        patch.setattr(kit.gpu_call.Call, "over", lambda call: len(call.results) == 6)
        second = stage(3, "second", "--from", str(first), work="later-work")
    assert taken_over == [later / "parent-0.safetensors"] and (later / "parent-1.safetensors").exists()
    assert len(second["units"]) == 6

    third = stage(3, "third", "--from", str(tmp_path / "second"), work="last-work")
    assert {unit: third["units"][unit] for unit in second["units"]} == second["units"]
    assert accuracies(third) == accuracies(whole)
    with pytest.raises(SystemExit, match="epochs"):
        stage(3, "third", "--epochs", "3")


@pytest.mark.long
def test_every_method_is_timed_once_and_again_if_it_failed(kit, stage, capsys, monkeypatch):
    real = kit.gpu.measured

    def failing(name, *rest):
        if name == "ZipIt":
            raise ImportError("a package is missing")
        return real(name, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(kit.gpu, "measured", failing)
        first = stage(2, "out")["units"]
    assert first["ZipIt"] == {"reason": "ImportError: a package is missing"}
    lines = capsys.readouterr().out.splitlines()
    timed = [name for name, method in METHODS.items() if not method.takes.base]  # the pairs have no common ancestor
    assert len(lines) == len(timed) + 1
    assert f"{len(timed) - 1} of {len(timed)} units measured, 1 with a reason" in lines[-1]
    record = stage(2, "out")
    rows, machine = record["units"], record["machine"]
    assert {**rows, "ZipIt": None} == {**first, "ZipIt": None}  # the others are not measured again
    assert list(rows) == timed and all(row["repeats"] == 3 and row["seconds"] > 0 for row in rows.values())
    assert rows["KF-Linear"]["paper, seconds"] == 78.3 and rows["KD"]["paper, seconds"] is None
    assert machine["torch"] == torch.__version__ and (machine["gpu"] is None) == (not torch.cuda.is_available())


def test_a_difference_between_devices_is_seen(kit, tmp_path, monkeypatch):
    real, results = METHODS["HF-Linear"], []

    class Crooked:
        def __getattr__(self, name):
            return getattr(real, name)

        def __call__(self, *arguments, **keywords):
            results.append(real(*arguments, **keywords))
            if len(results) == 2:
                next(results[1].model.parameters()).data.mul_(1.01)
                results[1].levels[0].labels.copy_(results[1].levels[0].labels.flip(0))
            return results[-1]

    call = kit.gpu_call.Call("digits", None, tmp_path, torch.device("cpu"), float("inf"), smoke=True)
    config = kit.gpu._trained(call, "digits", '{"architecture": "mlp", "sizes": [64, 8, 10]}')
    same = kit.gpu.on_both(call, lambda: config, "HF-Linear", torch.float32)
    monkeypatch.setitem(METHODS, "HF-Linear", Crooked())
    other = kit.gpu.on_both(call, lambda: config, "HF-Linear", torch.float32)
    assert (same["relative difference"], same["levels with other groups"]) == (0, 0)
    assert 1e-4 < other["relative difference"] < 1e-2 and other["levels with other groups"] == 1


@pytest.mark.slow
def test_what_pytest_said_is_kept_also_where_its_time_was_up(kit, tmp_path):
    call = kit.gpu_call.Call("digits", None, tmp_path, torch.device("cpu"), time.time() + 300, smoke=True)
    result = kit.gpu.cuda_tests(call)
    assert result["failed"] == 0 and "test_device.py" in result["output"]
    call.until = time.time() + 0.2
    assert kit.gpu.cuda_tests(call)["reason"] == "pytest did not end within 0 s"


def test_vits_have_the_papers_samples_and_the_longest_work_last(kit, tmp_path):
    call = kit.gpu_call.Call("digits", None, tmp_path, torch.device("cpu"), float("inf"), smoke=False)
    units = kit.gpu_tables.units((kit.gpu_tables.VIT,), call)
    assert list(units)[-1] == "vit-sharded-2: time with 6000 samples"
    fusions = [unit.args[3]["samples"] for unit in units.values() if unit.func is kit.gpu_tables.fused]
    assert fusions and set(fusions) == {5000}
    (plain, *_) = (
        unit.args[3]["samples"]
        for unit in kit.gpu_tables.units((kit.gpu_tables.NONIID,), call).values()
        if unit.func is kit.gpu_tables.fused
    )
    assert plain == 400


@pytest.fixture
def checkpoints(tmp_path):
    files = [tmp_path / "base" / f"table-{k}" / "parent-0.safetensors" for k in range(3)]
    for seed, file in enumerate(files):
        save_model(build({"architecture": "mlp", "sizes": [40, 30, 10]}, seed=seed), file, **FACTS)
    return files


def test_checkpoints_survive_their_parts(kit, checkpoints, tmp_path, monkeypatch):
    base, other = tmp_path / "base", tmp_path / "other"
    monkeypatch.setattr(kit.gpu_files, "LARGEST", 2500)  # bytes: the first layer has 2,400 of them as float16
    assert kit.gpu_files.pack(checkpoints, base, tmp_path) == []
    parts = sorted(tmp_path.glob("weights-*"))
    assert len(parts) == 4 and all(sum(t.nbytes for t in read_tensors(part).values()) <= 2500 for part in parts)
    assert len(kit.gpu_files.unpack(tmp_path, other)) == 3
    for file in checkpoints:
        (expected, _), (model, metadata) = load_model(file), load_model(other / file.relative_to(base))
        assert metadata["best_epoch"] == 3
        for name, tensor in expected.state_dict().items():
            assert torch.equal(model.state_dict()[name], tensor.half().float())
    assert kit.gpu_files.unpack(tmp_path, other) == []  # what is there stays as it is


def test_checkpoints_that_do_not_fit_are_named_and_incomplete_ones_left(kit, checkpoints, tmp_path, monkeypatch):
    monkeypatch.setattr(kit.gpu_files, "LARGEST", 2500)
    monkeypatch.setattr(kit.gpu_files, "MOST", 2)
    assert kit.gpu_files.pack(checkpoints, tmp_path / "base", tmp_path) == checkpoints[1:]
    (tmp_path / "weights-1.safetensors").unlink()
    assert kit.gpu_files.unpack(tmp_path, tmp_path / "other") == []


def test_a_tensor_larger_than_a_part_is_refused(kit, checkpoints, tmp_path, monkeypatch):
    monkeypatch.setattr(kit.gpu_files, "LARGEST", 2000)
    with pytest.raises(ValueError, match=r"fc1.weight has 2,400 bytes, a part holds 2,000"):
        kit.gpu_files.pack(checkpoints, tmp_path / "base", tmp_path)


def test_halving_keeps_facts_and_whole_numbers(kit, tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(build({"architecture": "vgg", "plan": [4, "M"], "size": 4, "batch_norm": True}, seed=0), path, **FACTS)
    kit.gpu_files.halve(path)
    tensors = read_tensors(path)
    assert {str(tensor.dtype) for tensor in tensors.values()} == {"torch.float16", "torch.int64"}
    assert load_model(path)[1]["best_epoch"] == 3


def test_a_prediction_goes_by_launches_operations_and_bytes(kit):
    predict = kit.gpu_predict
    with rehearsal(predict.Clocks()) as clocks:
        x = torch.ones(2000, 2000, dtype=torch.float64).to("cuda")
        before = clocks.row()["predicted, seconds"]
        y = x @ x
        product = 2 * 2000**3 / (67e12 * predict.REACHED)
        assert clocks.row()["predicted, seconds"] - before == pytest.approx(predict.LAUNCH + product)
        y + x  # launched while the product is worked on
        sum_ = 3 * x.nbytes / (predict.MEMORY * predict.REACHED)
        assert clocks.row()["predicted, seconds"] - before == pytest.approx(predict.LAUNCH + product + sum_)
        y[0, 0].item()
        assert clocks.row()["predicted, seconds"] - before == pytest.approx(
            predict.LAUNCH + product + sum_ + predict.WAIT
        )
    assert clocks.operations == 2 * 2000**3 and clocks.busy == pytest.approx(product + sum_)


def test_predictions_are_a_record(kit, tmp_path, monkeypatch, capsys):
    predict = kit.gpu_predict
    fusions = dict([next(iter(predict.fusions(None).items()))])
    monkeypatch.setattr(predict, "fusions", lambda _: fusions)
    monkeypatch.setattr(predict, "RESULTS", tmp_path)
    kit.gpu.main(["--predict"])
    record = json.loads((tmp_path / "gpu-predicted.json").read_text())
    (name, row), said = next(iter(record["rows"].items())), capsys.readouterr().out
    assert name == "CNN of 4 levels, HF-Linear" and said.startswith(f"{name}: ")
    assert row["predicted, seconds"] > row["launches"] * record["constants"]["launch, seconds"]
    assert row["most waits"][0].keys() == {"cause", "line", "times"} and "assumptions" in record["constants"]["sources"]
    with pytest.raises(SystemExit):
        kit.gpu.main(["--stage", "1"])
