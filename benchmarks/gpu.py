"""What is measured on a GPU, in stages that stop by themselves and go on from what an earlier call left.

    python benchmarks/gpu.py --stage 3 --data shared/data --models shared/models --out OUT --from EARLIER_OUT

    1  the tests that need CUDA; fusions on CPU and GPU compared
    2  speed of every method on the VGG11 pair, beside the paper's runtimes; of training, compiled or not; of other
       networks and a landscape; what the device reaches
    3  VGG11, two non-IID parts: the paper's table, its runtimes, sizes of the fusion set, clusterings
    4  VGG11, two shards
    5  ViTs, two shards, 5,000 samples; last their runtimes with 400 and 6,000
    6  VGG11, four to eight parts

Stages 3 to 6 measure units of `retrofit reproduce --scale paper`: `retrofit report --results OUT/gpu-stage-3.json` shows
them, and notebooks do if they are in results/experiments. It prints a line a unit. How it is called where files are few
and small: README.md beside this file. `--scale smoke` tries a stage on a CPU with tiny networks in about a minute.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import torch
import training
from gpu_call import Call
from gpu_tables import STAGES, reproduce
from gpu_works import NETWORKS, works
from machine import save
from methods import PAPER, content, measured
from pairs import PAIRS

from retrofit_core import METHODS, evaluate
from retrofit_core.data import VARIABLE, load
from retrofit_core.data.sampling import balanced
from retrofit_core.experiments.scales import SCALES
from retrofit_core.methods import RETROFITTING
from retrofit_core.runs import RunConfig, read_inputs
from retrofit_core.system import device as devices
from retrofit_core.system.monitor import Cancelled
from retrofit_core.training import recipe
from retrofit_core.training.parents import TrainConfig, train_parents

ROOT = Path(__file__).parents[1]
Unit = Callable[[], dict[str, Any]]
#: What stage 2 trains, and in place of it in a smoke test.
TINY = {name: tiny for name, tiny in NETWORKS.values() if name in ("vgg11", "vit")}
#: What `read_inputs` reads with them is all that a method may take: shares of the classes, data for scores.
EVERYTHING: dict[str, Any] = {"method": "KF-Linear", "options": {"head": "shares"}, "importance": "conductance"}
TESTS_SECONDS = 300
OUTPUT = 20_000  # characters of what pytest said that the record keeps, from the end
#: The pairs have no common ancestor.
WITHOUT_ANCESTOR = tuple(name for name, method in METHODS.items() if not method.takes.base)
IMAGES = 2000  # test images of a fusion on both devices: one of them is slow


def main(arguments: list[str] | None = None, began: float | None = None) -> None:
    """Carry out a command line, whose time counts from `began`; None: from now."""
    options, began = _options(arguments), began or time.time()
    call = _call(options, began)
    for folder in (options.out, call.work):
        folder.mkdir(parents=True, exist_ok=True)
    if options.stage in STAGES:
        said = reproduce(call, options.stage, options.out, options.earlier)
    else:
        units = {1: equality, 2: speed}[options.stage](call)
        said = record(call, units, f"gpu-stage-{options.stage}.json", options.out, options.earlier)
    print(f"stage {options.stage} on {call.device}: {said}, in {time.time() - began:.0f} s", flush=True)


def record(call: Call, units: Mapping[str, Unit], name: str, out: Path, earlier: Path | None) -> str:
    """Carry out the units that earlier calls have not, with a record after each; returns how far it got."""
    settings: dict[str, Any] = {"scale": call.scale, "device": call.device.type}
    results: dict[str, dict[str, Any]] = {}
    for folder in filter(None, (earlier, out)):
        results |= _earlier(folder / name, settings)
    stopped = ""
    for unit, function in units.items():
        if unit in results and "reason" not in results[unit]:
            continue
        try:
            call.monitor.check()
            results[unit] = function()
        except Cancelled:
            stopped = unit
            break
        except Exception as error:  # one unit's defect must not cost the others their minutes
            results[unit] = {"reason": f"{type(error).__name__}: {error}"}
        print(f"{unit}: {_line(results[unit])}", flush=True)
        save(out / name, {"settings": settings, "units": results})
    refused = sum("reason" in results.get(unit, {}) for unit in units)
    done = sum(unit in results for unit in units) - refused
    end = f"stopped in '{stopped}', call it again with --from {out}" if stopped else "nothing is left to do"
    return f"{done} of {len(units)} units measured, {refused} with a reason why not; {end}"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", type=int, choices=(1, 2, *STAGES), required=True)
    parser.add_argument("--data", type=Path, help="folder of the data sets (default: data, and RETROFIT_DATA)")
    parser.add_argument("--models", type=Path, help="folder with the VGG11 pair (stages 1 and 2)")
    parser.add_argument("--out", type=Path, required=True, help="folder for results and parts")
    parser.add_argument("--from", type=Path, dest="earlier", help="what an earlier call of this stage left there")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "gpu", help="folder for what may be lost")
    parser.add_argument("--seconds", type=float, default=540, help="after which it stops (default: 540)")
    parser.add_argument("--scale", choices=SCALES, default="paper", help="of the tables (default: paper)")
    parser.add_argument("--parents", type=int, nargs="+", default=[0], help="seeds of the parents' splits (default: 0)")
    parser.add_argument("--seeds", type=int, help="fusions of the same parents (default: the scale's)")
    parser.add_argument("--processes", type=int, help="parents trained side by side (default: all on a GPU)")
    parser.add_argument("--compile", action="store_true", help="train parents with torch.compile")
    parser.add_argument(
        "--beside",
        action="store_true",
        help="other work runs on the machine: leave the seconds of fusions out (3 to 6)",
    )
    parser.add_argument("--device", help="default: CUDA if present; the CPU at smoke")
    return parser.parse_args(arguments)


def _call(options: argparse.Namespace, began: float) -> Call:
    device = devices.pick(options.device or ("cpu" if options.scale == "smoke" else None))
    if options.data:
        os.environ[VARIABLE] = str(options.data.absolute())
    return Call(
        work=options.work.absolute(),
        device=device,
        until=began + options.seconds,
        scale=options.scale,
        models=options.models,
        parents=options.parents,
        seeds=options.seeds,
        processes=options.processes or (8 if device.type == "cuda" else 1),
        compile=options.compile,
        beside=options.beside,
    )


def _earlier(record: Path, settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The results of an earlier call; none where there is no record."""
    if not record.exists():
        return {}
    content = json.loads(record.read_text())
    if content["settings"] != settings:
        raise SystemExit(f"{record} was measured with {content['settings']}, this call has {settings}.")
    return content["units"]


def _line(result: Mapping[str, Any]) -> str:
    """A unit's result without what does not fit on a line."""
    values = {key: value for key, value in result.items() if value is not None and not isinstance(value, list | dict)}
    words = (f"{value:.4g}" if isinstance(value, float) else str(value).partition("\n")[0] for value in values.values())
    return ", ".join(f"{key} {word}" for key, word in zip(values, words, strict=True))


def equality(call: Call) -> dict[str, Unit]:
    """Stage 1: tests, small networks by every method, the VGG11 pair by those of the paper."""
    result: dict[str, Unit] = {"tests": partial(cuda_tests, call)}
    names = ("mlp",) if call.smoke else ("mlp", "cnn")
    small = {name: partial(_trained, call, "digits", name) for name in names}
    pairs = {
        **{f"digits {name}": (make, WITHOUT_ANCESTOR) for name, make in small.items()},
        "VGG11": (partial(_pair, call), RETROFITTING),
    }
    for name, (make, methods) in pairs.items():
        for method in methods:
            for dtype in (torch.float32,) if call.smoke else (torch.float64, torch.float32):
                title = f"{name}, {method}, {str(dtype).removeprefix('torch.')}"
                result[title] = partial(on_both, call, make, method, dtype)
    return result


def speed(call: Call) -> dict[str, Unit]:
    """Stage 2: every method with uniform scores; an epoch of training; the works of `gpu_works`."""
    inputs = cache(lambda: read_inputs(_pair(call)))

    def one(method: str) -> dict[str, Any]:
        given = {"monitor": call.monitor, **_short(method, 2 if call.smoke else None)}
        row = measured(method, given, inputs(), (call.test, torch.arange(len(call.test))), call.device)
        del row["method"]
        return {**row, "paper, seconds": PAPER["seconds"].get(method)}

    ways = (False, True) if call.device.type == "cuda" else (False,)
    epochs = {
        f"training of {name}{', compiled' * compiled}": partial(epoch, call, name, compiled)
        for name in TINY
        for compiled in ways
    }
    return {**{method: partial(one, method) for method in WITHOUT_ANCESTOR}, **epochs, **works(call)}


def epoch(call: Call, name: str, compiled: bool) -> dict[str, Any]:
    """Seconds of an epoch of one of two parents, and of what comes before the first."""
    images = load(call.data)
    architecture = "vit" if name == "vit" else "vgg"
    settings = recipe("cifar" if call.smoke else "paper", images.name, images.shape[1], architecture, 2)
    start, given = time.perf_counter(), {**settings, "compile": compiled}
    network, count = TINY[name] if call.smoke else name, len(images) // 2
    each, deviation = training.seconds(network, images, call.device, count, given, call.over)
    before = time.perf_counter() - start - (training.EPOCHS + 1) * each
    return {
        "seconds": each,
        "deviation": deviation,
        "seconds before": before,
        "epochs of the paper": settings["epochs"],
    }


def cuda_tests(call: Call) -> dict[str, Any]:
    """The tests marked `cuda`, each file of them that can be imported there."""
    report = call.work / "tests.xml"
    files = ["tests/test_device.py"] if call.smoke else ["tests", "--ignore=tests/app"]
    # A machine with other packages may warn of other things; that is no difference between the devices.
    flags = ["-q", "-m", "cuda", "-W", "default", "--continue-on-collection-errors", f"--junitxml={report}"]
    words = [sys.executable, "-m", "pytest", *files, *flags, "-p", "no:cacheprovider"]
    limit = min(TESTS_SECONDS, call.until - time.time())
    start = time.perf_counter()
    report.unlink(missing_ok=True)
    with (call.work / "tests.txt").open("w+", encoding="utf-8") as said:
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(words, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT, timeout=limit, check=False)
        said.seek(0)
        output = said.read()[-OUTPUT:]
    if not report.exists():
        return {"reason": f"pytest did not end within {limit:.0f} s", "output": output}
    cases = list(ElementTree.parse(report).iter("testcase"))
    of_kind = {
        kind: [case for case in cases if case.find(kind) is not None] for kind in ("failure", "error", "skipped")
    }
    names = {
        kind: [f"{case.get('classname')}::{case.get('name')}" for case in of_one] for kind, of_one in of_kind.items()
    }
    return {
        "passed": len(cases) - sum(map(len, names.values())),
        "failed": len(names["failure"]),
        "not run": len(names["error"]),
        "skipped": len(names["skipped"]),
        "seconds": time.perf_counter() - start,
        "names": names["failure"] + names["error"],
        "output": output,
    }


def on_both(call: Call, make: Any, method: str, dtype: torch.dtype) -> dict[str, Any]:
    """One fusion on the CPU and on the device: how far apart weights, groups and accuracy are."""
    config = make()
    inputs, test = read_inputs(config), load(config.data, "test")
    rows = balanced(test.labels, min(IMAGES, len(test)))
    x, y = inputs.fusion
    models = [copy.deepcopy(model).to(dtype) for model in inputs.models]
    scores = {"importance": "conductance"} if METHODS[method].takes.importance else {}
    keywords = {**content(method, inputs), **scores, **_short(method, 5), "monitor": call.monitor}
    weights, groups, result = [], [], {}
    for device in (torch.device("cpu"), call.device):
        fused = METHODS[method](models, (x.to(dtype), y), device=device, **keywords)
        weights.append(torch.cat([w.detach().double().cpu().flatten() for w in fused.model.state_dict().values()]))
        groups.append([level.labels.cpu() for level in fused.levels])
        side = "accuracy" if result else "accuracy on the CPU"
        result[side] = evaluate(fused.model.float(), test, rows=rows, monitor=call.monitor)["accuracy"]
    apart = (weights[1] - weights[0]).norm() / weights[0].norm()
    other = sum(not torch.equal(left, right) for left, right in zip(*groups, strict=True))
    return {"relative difference": apart.item(), **result, "levels with other groups": other}


def _short(method: str, epochs: int | None) -> dict[str, Any]:
    """So many epochs for the methods that go by gradient."""
    return {"epochs": epochs} if epochs and "epochs" in METHODS[method].keywords() else {}


def _pair(call: Call) -> RunConfig:
    """The VGG11 pair, with every input that a method may take; in a smoke test a tiny pair."""
    if call.smoke:
        return _trained(call, call.data, TINY["vgg11"])
    if call.models is None:
        raise ValueError("--models is not given: the folder with the VGG11 pair.")
    name = next(iter(PAIRS.values()))[0]
    models = tuple(str(call.models / f"{name}-{index}.safetensors") for index in (0, 1))
    return RunConfig(models, call.data, splits=str(call.models / f"{name}-splits.json"), **EVERYTHING)


def _trained(call: Call, data: str, architecture: str) -> RunConfig:
    """Two small networks on shards, trained for a few epochs on the CPU."""
    training = TrainConfig(data, (architecture,), epochs=5, device="cpu")
    folder = call.work / f"pair-{training.key()}"
    train_parents(training, folder, resume=True, test=False, monitor=call.monitor)
    return RunConfig(
        training.files(folder),
        data,
        splits=training.splits(folder),
        samples=call.samples,
        importance_samples=call.samples,
        **EVERYTHING,
    )


if __name__ == "__main__":
    main(began=psutil.Process().create_time())  # imports take seconds
