"""benchmarks/gpu.py at its smallest: it measures, stops, hands on what is finished, and goes on from that elsewhere."""

import importlib
import json
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from retrofit_core import METHODS, data
from retrofit_core.experiments import scales
from retrofit_core.experiments.bundles import Bundle, read_bundle
from retrofit_core.experiments.results import Result
from retrofit_core.experiments.runner import run
from retrofit_core.experiments.setting import settings
from retrofit_core.experiments.tables import TABLES
from retrofit_core.networks.architectures import build
from retrofit_core.networks.checkpoints import load_model, read_tensors, save_model
from retrofit_core.system import extras
from retrofit_core.system.monitor import Cancelled, Monitor
from tests.marks import ROOT, skip_without
from tests.test_cli import retrofit

skip_without("benchmarks")
BENCHMARKS = ROOT / "benchmarks"
FACTS = {"classes": ["a", "b"], "best_epoch": 3}


@pytest.fixture(scope="module")
def kit():
    """The benchmarks' modules by name; they are no package, so their folder is on the path for a while."""
    sys.path.insert(0, str(BENCHMARKS))
    yield SimpleNamespace(
        **{name: importlib.import_module(name) for name in ("gpu", "gpu_call", "gpu_files", "gpu_tables", "gpu_works")}
    )
    sys.path.remove(str(BENCHMARKS))
    for name in [name for name, module in sys.modules.items() if _is_a_benchmark(module)]:
        del sys.modules[name]


def _is_a_benchmark(module):
    return Path(getattr(module, "__file__", None) or "/").parent == BENCHMARKS


@pytest.fixture
def stage(kit, tmp_path):
    """stage(number, out, *words) runs one call on digits and returns its results' file."""

    def run(number, out, *words, work="work"):
        folders = ["--out", str(tmp_path / out), "--work", str(tmp_path / work)]
        kit.gpu.main(["--stage", str(number), "--scale", "smoke", *folders, *words])
        return tmp_path / out / f"gpu-stage-{number}.json"

    return run


def numbers(bundle):
    """By unit, everything in results but when, where and how fast."""
    return {
        key: (
            result.refusal,
            result.correct,
            result.inputs,
            {name: value for name, value in result.metrics.items() if not name.endswith("seconds")},
        )
        for key, result in read_bundle(bundle).results.items()
    }


@pytest.fixture
def two_tables(kit, monkeypatch):
    """A stage of a table and its runtimes, with a gradient fit and few other rows."""
    rows = ("Parent", "Ensemble", "Average", "KF-Linear, conductance", "KF-Gradient, uniform", "HF-Gradient, uniform")
    of_stage = kit.gpu_tables.cells_of

    def few(call, *table):
        return [cell for cell in of_stage(call, *table) if cell.row.startswith(rows)]

    monkeypatch.setattr(kit.gpu_tables, "cells_of", few)
    monkeypatch.setitem(kit.gpu_tables.STAGES, 3, (("vgg11-noniid", ("2-way",)), ("runtime-vgg", ())))


@pytest.mark.long
def test_a_table_goes_on_elsewhere_and_gives_the_same(kit, stage, tmp_path, two_tables, monkeypatch, capsys):
    whole = numbers(stage(3, "whole", work="whole-work"))
    assert f"{len(whole)} of {len(whole)} units measured, 0 failed; nothing is left to do" in capsys.readouterr().out
    first, second = tmp_path / "first", tmp_path / "second"

    train = kit.gpu_tables.train_parents
    with monkeypatch.context() as patch:  # the time is up while parent 1 is trained

        def until_parent_1(config, folder, *, only, monitor, **ways):
            stopped = Monitor(cancelled=lambda: bool(only))
            return train(config, folder, only=only, monitor=stopped, **ways)

        patch.setattr(kit.gpu_tables, "train_parents", until_parent_1)
        assert numbers(stage(3, "first")) == {}
    assert f"call it again with --from {first}" in capsys.readouterr().out
    assert {path.name for path in first.iterdir()} == {"gpu-stage-3.json", "state-1-of-1.tar"}

    trained = []
    with monkeypatch.context() as patch:  # and again in the second level of a gradient fit, on another machine
        patch.setattr(
            kit.gpu_tables, "train_parents", lambda *rest, **ways: trained.append(ways["only"]) or train(*rest, **ways)
        )
        patch.setattr(kit.gpu_tables, "run", run_until_the_second_level_of_a_gradient_fit)
        some = numbers(stage(3, "second", "--from", str(first), work="second-work"))
    assert trained == [1] and 0 < len(some) < len(whole)
    assert some.items() <= whole.items()

    path, work = stage(3, "third", "--from", str(second), work="third-work"), tmp_path / "third-work" / "runs"
    attempts = [result.metrics.pop("attempts", 1) for result in read_bundle(path).results.values()]
    assert attempts.count(2) == 2 and {**numbers(path), **some} == numbers(path)
    for file in work.glob("parents-*/*.safetensors"):
        assert {tensor.dtype for tensor in read_tensors(file).values()} == {torch.float16}
    resumed = numbers(path)
    for _, _, _, metrics in resumed.values():
        metrics.pop("attempts", None)
    assert resumed == whole

    unchanged = path.read_bytes()
    assert stage(3, "third", "--from", str(second), work="fourth-work").read_bytes() == unchanged
    shown = retrofit("report", "vgg11-noniid", "runtime-vgg", "--results", path, cwd=tmp_path).stdout
    assert "smoke" in shown and "KF-Linear, conductance" in shown


def run_until_the_second_level_of_a_gradient_fit(units, root, **options):
    """The runner with a clock that strikes there."""
    late, name = [], [""]

    def watch(event):
        if event["kind"] == "phase" and "unit" in event:
            name[0] = event["name"]
        late.extend([event] * (event["kind"] == "level" and event["index"] == 1 and "Gradient" in name[0]))

    with suppress(Cancelled):
        run(units, root, **options, monitor=Monitor(watch, lambda: bool(late)))


@pytest.mark.long
def test_every_method_is_timed_once_and_again_if_it_failed(kit, stage, capsys, monkeypatch):
    real = kit.gpu.measured

    def failing(name, *rest):
        if name == "ZipIt":
            raise ImportError("a package is missing")
        return real(name, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(kit.gpu, "measured", failing)
        first = json.loads(stage(2, "out").read_text())["units"]
    assert first["ZipIt"] == {"reason": "ImportError: a package is missing"}
    lines = capsys.readouterr().out.splitlines()
    timed = [name for name, method in METHODS.items() if not method.takes.base]  # the pairs have no common ancestor
    trainings = [f"training of {name}" for name in kit.gpu.TINY]  # compiled ones need a GPU
    works = ["KF-Linear, two ViTs", "KF-Linear, two ResNet-18s", "landscape", "ceilings"]
    count = len(timed) + len(trainings) + len(works)
    assert len(lines) == count + 1 and f"{count - 1} of {count} units measured, 1 with a reason" in lines[-1]
    record = json.loads(stage(2, "out").read_text())
    rows, machine = record["units"], record["machine"]
    assert {**rows, "ZipIt": None} == {**first, "ZipIt": None}  # the others are not measured again
    assert list(rows) == timed + trainings + works
    assert all(row["seconds"] > 0 for name, row in rows.items() if name != "ceilings")
    assert all(value > 0 for value in rows["ceilings"].values())
    assert all(rows[name]["repeats"] == 3 for name in timed)
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

    call = kit.gpu_call.Call(tmp_path, torch.device("cpu"), float("inf"), scale="smoke")
    config = kit.gpu._trained(call, "digits", '{"architecture": "mlp", "sizes": [64, 8, 10]}')
    same = kit.gpu.on_both(call, lambda: config, "HF-Linear", torch.float32)
    monkeypatch.setitem(METHODS, "HF-Linear", Crooked())
    other = kit.gpu.on_both(call, lambda: config, "HF-Linear", torch.float32)
    assert (same["relative difference"], same["levels with other groups"]) == (0, 0)
    assert 1e-4 < other["relative difference"] < 1e-2 and other["levels with other groups"] == 1


@pytest.mark.slow
def test_what_pytest_said_is_kept_also_where_its_time_was_up(kit, tmp_path):
    call = kit.gpu_call.Call(tmp_path, torch.device("cpu"), time.time() + 300, scale="smoke")
    result = kit.gpu.cuda_tests(call)
    assert result["failed"] == 0 and "test_device.py" in result["output"]
    call.until = time.time() + 0.2
    assert kit.gpu.cuda_tests(call)["reason"] == "pytest did not end within 0 s"


def test_vits_have_the_papers_samples_and_the_longest_work_last(kit, tmp_path):
    call = kit.gpu_call.Call(tmp_path, torch.device("cpu"), float("inf"))
    cells = [(table[0], cell) for table in kit.gpu_tables.STAGES[5] for cell in kit.gpu_tables.cells_of(call, *table)]
    samples = [
        (name, cell.column, unit.run.samples) for name, cell in cells for unit in cell.units if hasattr(unit, "run")
    ]
    assert set(samples[:-10]) == {("vit-sharded-cifar100", "2-way", 5000)}
    assert samples[-10:] == [("runtime-vit", f"{n} samples", n) for n in (400, 6000) for _ in range(5)]
    assert len({unit.source for _, cell in cells for unit in cell.units}) == 1  # two parents, trained once
    for number, tables in kit.gpu_tables.STAGES.items():
        for name, columns in tables:
            assert set(columns) <= {column.name for column in TABLES[name].columns}, number
    # The paper's rows come before ours, of all seeds.
    more = [
        cell.row in TABLES["vgg11-noniid"].more_rows
        for cell in kit.gpu_tables.cells_of(call, "vgg11-noniid", ("2-way",))
    ]
    assert more == sorted(more) and any(more)


def test_results_on_cifar10_in_place_of_cifar100_are_in_the_report_of_the_paper_scale(kit, tmp_path, monkeypatch):
    monkeypatch.setattr(scales, "is_on_disk", lambda name: name == "cifar10")
    call = kit.gpu_call.Call(tmp_path, torch.device("cpu"), float("inf"))
    (table,) = (TABLES[name] for name, _ in kit.gpu_tables.STAGES[5][:1])
    cell = next(cell for cell in kit.gpu_tables.cells_of(call, table.name, ("2-way",)) if cell.row == "Ensemble")
    (unit,) = cell.units
    assert unit.source.data_set == "cifar10"
    result = Result(unit.key(), unit.to_json(), "", "", {}, metrics={"accuracy": 50.0})
    (column,) = settings(table, Bundle({result.key: result}), [scales.scale_of("paper")], columns=["2-way"])
    assert column.badge == "paper, cifar10 for cifar100" and column.measured == 1
    with pytest.raises(ValueError, match="cifar100"):  # the command itself takes no other data
        data.load(TABLES[table.name].cells(scales.scale_of("paper"))[0].units[0].source.data_set)


def test_a_missing_package_is_no_refusal_and_is_tried_again(kit, stage, tmp_path, two_tables, monkeypatch):
    monkeypatch.setattr(kit.gpu_tables, "cells_of", lambda call, *table: otfusion(call))
    real = extras.import_module

    def missing(name):
        if name == "ot":
            raise ModuleNotFoundError("no ot", name="ot")
        return real(name)

    with monkeypatch.context() as patch:
        patch.setattr(extras, "import_module", missing)
        assert len(numbers(stage(3, "out"))) == 2  # the parents
    assert len(numbers(stage(3, "out"))) == 3


@pytest.mark.long
def test_seconds_beside_other_work_are_no_runtimes(kit, stage, two_tables, monkeypatch):
    monkeypatch.setattr(kit.gpu_tables, "cells_of", lambda call, *table: otfusion(call))
    results = read_bundle(stage(3, "out", "--beside")).results.values()
    times = {"fusion" in result.unit: {name for name in result.metrics if "seconds" in name} for result in results}
    assert times == {True: {"all_seconds"}, False: {"seconds", "all_seconds"}}


def otfusion(call):
    cells = TABLES["vgg11-noniid"].cells(scales.scale_of(call.scale), 1)
    return [cell for cell in cells if cell.column == "2-way" and cell.row == "OTFusion, uniform"]


@pytest.fixture
def checkpoints(tmp_path):
    files = [tmp_path / "base" / f"table-{k}" / "parent-0.safetensors" for k in range(3)]
    for seed, file in enumerate(files):
        save_model(build({"architecture": "mlp", "sizes": [40, 30, 10]}, seed=seed), file, **FACTS)
    return files


def test_files_survive_their_parts_to_the_byte(kit, checkpoints, tmp_path, monkeypatch):
    base, other = tmp_path / "base", tmp_path / "other"
    monkeypatch.setattr(kit.gpu_files, "LARGEST", 5000)
    assert kit.gpu_files.pack(checkpoints, base, tmp_path) == []
    parts = sorted(tmp_path.glob("state-*"))
    assert len(parts) > 3 and all(part.stat().st_size <= 5000 for part in parts)
    (other / "table-1").mkdir(parents=True)
    (other / "table-1" / "parent-0.safetensors").write_bytes(b"what is there stays as it is")
    assert len(kit.gpu_files.unpack(tmp_path, other)) == 2
    for file in (checkpoints[0], checkpoints[2]):
        assert (other / file.relative_to(base)).read_bytes() == file.read_bytes()
    assert (other / "table-1" / "parent-0.safetensors").read_bytes().startswith(b"what")
    parts[1].unlink()
    with pytest.raises(ValueError, match="Bring the other parts too"):
        kit.gpu_files.unpack(tmp_path, tmp_path / "another")
    assert kit.gpu_files.pack([], base, tmp_path) == [] and not list(tmp_path.glob("state-*"))


def test_files_that_do_not_fit_are_named(kit, checkpoints, tmp_path, monkeypatch):
    size = checkpoints[0].stat().st_size + kit.gpu_files.HEADERS
    monkeypatch.setattr(kit.gpu_files, "MOST", tarfile.RECORDSIZE + 2 * size)
    assert kit.gpu_files.pack(checkpoints, tmp_path / "base", tmp_path) == checkpoints[2:]
    assert sum(part.stat().st_size for part in tmp_path.glob("state-*")) <= kit.gpu_files.MOST


def test_halving_keeps_facts_and_whole_numbers(kit, tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(build({"architecture": "vgg", "plan": [4, "M"], "size": 4, "batch_norm": True}, seed=0), path, **FACTS)
    kit.gpu_files.halve(path)
    tensors = read_tensors(path)
    assert {str(tensor.dtype) for tensor in tensors.values()} == {"torch.float16", "torch.int64"}
    assert load_model(path)[1]["best_epoch"] == 3
