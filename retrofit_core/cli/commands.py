"""retrofit data | methods | fuse | analyse | evaluate | levels | app"""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.table import Table

from .. import device as devices
from ..analysis import Analysis
from ..checkpoints import load_model, save_model
from ..composites import COMPOSITES
from ..data import DATASETS, load
from ..data.augment import POLICIES
from ..data.download import download
from ..evaluation import ensemble, evaluate
from ..importance import IMPORTANCE
from ..levels import BOUNDARIES, Level, partition
from ..methods import METHODS, SENTENCES
from ..options import checked, options_of, read_options
from ..runs import RunConfig, analyse_record, checkpoint_metadata, execute, read_boundaries, read_config
from .terminal import (
    Arch,
    Checkpoints,
    Data,
    Device,
    Json,
    Mean,
    Seed,
    Size,
    Std,
    check_output,
    command,
    floats,
    networks_table,
    new_table,
    number,
    out,
    print_json,
    progress,
    size_in_bytes,
)

CUTS = f"{', '.join(BOUNDARIES)}, a number of levels, or module names separated by commas"


@command("data")
def data_command(
    name: Annotated[str | None, typer.Argument(help=f"{', '.join(DATASETS)}. Without a name: a list of them.")] = None,
    out_folder: Annotated[Path | None, typer.Option("--out", help="Folder. Default: data/NAME.")] = None,
) -> None:
    """Download a data set, or say what to download and where to put it.

    Example: `retrofit data cifar10`
    """
    if name is not None:
        folder = download(name, out_folder)
        out.print(f"Next: retrofit train --data {folder}", soft_wrap=True)
        return
    table = new_table("data set", "how to get it")
    for known, facts in DATASETS.items():
        table.add_row(known, facts.advice)
    out.print(table)


@command("fuse")
def fuse_command(
    models: Annotated[list[Path] | None, typer.Argument(help="Parents; the first one gives the architecture.")] = None,
    data: Data = "digits",
    method: Annotated[str, typer.Option(help=f"{', '.join(METHODS)}: HF pairs two equal parents, KF clusters any number "
                                        "of any width; Linear is the closed form.")] = "KF-Linear",
    importance: Annotated[str, typer.Option(help=f"What a neuron counts: {', '.join(IMPORTANCE)}.")] = "uniform",
    importance_data: Annotated[str | None, typer.Option(help="own: each parent's training rows (needs --splits); fusion: "
                                                        "the fusion samples. Default: own where there are splits.")] = None,
    fusion_from: Annotated[str | None, typer.Option(help="parent0: parent 0's training rows (the paper; needs --splits); "
                                                    "iid: all rows. Default: parent0 where there are splits.")] = None,
    splits: Annotated[Path | None, typer.Option(help="JSON file that tells which rows each parent was trained on.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="Fusion samples, balanced over the classes.")] = 400,
    augment: Annotated[int, typer.Option(min=0, help="Add so many augmented copies of each fusion sample.")] = 0,
    auto_augment: Annotated[str | None, typer.Option(help=f"AutoAugment policy of these copies: {', '.join(POLICIES)}. "
                                                     "Default: moved and mirrored only.")] = None,
    importance_samples: Annotated[int, typer.Option(min=1, help="Samples per parent for the importance.")] = 400,
    seed: Seed = 0,
    preset: Annotated[str, typer.Option(help="default, or paper: the paper's hyper-parameters.")] = "default",
    ridge: Annotated[str, typer.Option(help="auto, a multiple of the mean input energy such as 0.1x, or lambda "
                                    "on sums as in the paper.")] = "auto",
    toward: Annotated[str, typer.Option(help="Where the ridge pulls: zero, or parents (their own weights).")] = "zero",
    head: Annotated[str, typer.Option(help="Targets of the class head: scores (weighted by importance), mean, or shares "
                                      "(of the training rows per class; needs --splits).")] = "scores",
    boundaries: Annotated[str, typer.Option(help=f"Where levels end: auto (pre-activations; for Gradient blocks), {CUTS}.")
                          ] = "auto",
    memory: Annotated[str | None, typer.Option(help="Memory for sums and kept tensors, e.g. 2GB; what does not fit is "
                                               "computed again. Default: 8GB.")] = None,
    target: Annotated[str | None, typer.Option(help="Fused architecture: a checkpoint, preset or JSON spec. Default: "
                                               "parent 0's.")] = None,
    arch: Arch = None,
    mean: Mean = None,
    std: Std = None,
    size: Size = None,
    device: Device = "auto",
    out_file: Annotated[Path | None, typer.Option("--out", help="Fused checkpoint (.safetensors).")] = None,
    record: Annotated[Path | None, typer.Option(help="Also write a run record into this folder; the workbench shows it.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, repeatable: what this method alone can be told; "
                                                     "`retrofit methods NAME` lists it.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this record folder; takes its settings.")] = None,
    evaluate_: Annotated[bool, typer.Option("--evaluate", help="Measure parents, ensemble, average and fused network on "
                                            "the test split.")] = False,
    analyse: Annotated[bool, typer.Option("--analyse", help="Also compute what the workbench's pictures of the levels need "
                                          "(with --record).")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Fuse parents into one network.

    Example: `retrofit fuse a.safetensors b.safetensors --data cifar10 --splits splits.json --method kf-linear
    --importance conductance --samples 400 --out fused.safetensors`
    """
    if resume is not None:
        config = read_config(resume)
    elif not models:
        raise ValueError("name at least one checkpoint, or a record folder with --resume.")
    else:
        config = RunConfig(
            models=tuple(map(str, models)), data=data, method=method, importance=importance,
            importance_data=importance_data, fusion_from=fusion_from, splits=str(splits) if splits else None,
            samples=samples, importance_samples=importance_samples, seed=seed, preset=preset,
            ridge=ridge if ridge == "auto" or ridge.endswith("x") else number(ridge, "--ridge"), toward=toward, head=head,
            boundaries=boundaries, memory=size_in_bytes(memory), target=target, arch=arch,
            mean=floats(mean), std=floats(std), size=size, augment=augment,
            auto_augment=auto_augment, device=device, evaluate=evaluate_, analyse=analyse,
            options=checked(method, read_options(option or [])),
        )  # fmt: skip
    folder = record or resume
    check_output(out_file, folder)
    with progress(as_json) as monitor:
        result, metrics = execute(config, folder, monitor)
    if out_file is not None:
        images = load(config.data, "train", config.mean, config.std, config.size)
        save_model(result.model, out_file, **checkpoint_metadata(config, images))
    networks = metrics.get("networks", {})
    if as_json:
        frame = result.to_frame()
        return print_json({
            "out": str(out_file) if out_file else None, "record": str(folder) if folder else None,
            "seconds": result.seconds, "config": config.to_json(), "levels": json.loads(frame.to_json(orient="records") or "[]"),
            "importance": result.importance, "networks": networks,
            **({"accuracy": networks["fused"]["accuracy"]} if networks else {}),
        })  # fmt: skip
    out.print(_levels_table(result.levels, f"{config.method}, {config.importance}"))
    for report in result.importance:
        if gaps := report.get("completeness_gap"):
            out.print(
                f"completeness gap of the {config.importance} per level: " + " ".join(f"{gap:.1%}" for gap in gaps)
            )
    if networks:
        out.print(networks_table(networks))
    where = f", written to {out_file}" if out_file else ""
    out.print(f"Fused {len(config.models)} parents in {result.seconds:.1f} s{where}.")
    if out_file and not networks:
        out.print(f"Next: retrofit evaluate {out_file} --data {config.data}", soft_wrap=True)
    return None


@command("methods")
def methods_command(
    name: Annotated[
        str | None, typer.Argument(help="One method, to list its options. Without a name: all methods.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the methods, or the options of one.

    Example: `retrofit methods otfusion`
    """
    if name is None:
        if as_json:
            return print_json(SENTENCES)
        table = new_table("method", "what it does")
        table.caption = "`retrofit methods NAME` lists what a method can be told with --option"
        for known, sentence in SENTENCES.items():
            table.add_row(known, sentence)
        out.print(table)
        return None
    options = options_of(name)
    if as_json:
        facts = {key: (value.default, value.known, value.help) for key, value in options.items()}
        return print_json(
            {key: dict(zip(("default", "takes", "help"), fact, strict=True)) for key, fact in facts.items()}
        )
    table = new_table("option", "default", "takes", "what it does", title=name)
    for key, value in options.items():
        table.add_row(key, json.dumps(value.default), value.known, value.help)
    out.print(table)
    return None


@command("analyse")
def analyse_command(
    records: Annotated[list[Path], typer.Argument(help="Folders of finished runs, as written by fuse --record.")],
    as_json: Json = False,
) -> None:
    """Add to finished runs what the workbench's pictures of the levels need, as `fuse --analyse` does.

    Checkpoints and data that a run names without a full path are looked for in the current folder.

    Example: `retrofit analyse runs/*`
    """
    found = {}
    with progress(as_json) as monitor:
        for record in records:
            found[str(record)] = analyse_record(record, monitor)
    if as_json:
        return print_json({"records": {
            name: {"levels": [level.name for level in analysis.levels], "accuracy": analysis.accuracy,
                   "samples": analysis.samples, "missing": analysis.missing, "seconds": analysis.seconds}
            for name, analysis in found.items()
        }})  # fmt: skip
    for name, analysis in found.items():
        out.print(_analysis_table(analysis, name))
        for what, why in analysis.missing.items():
            out.print(f"No {what}: {why}", soft_wrap=True)
    return None


def _analysis_table(analysis: Analysis, title: str) -> Table:
    table = new_table("level", "kept %", "accuracy %", title=title)
    table.caption = (
        "kept: variance of the parents' neurons that their fused neurons explain, on average; accuracy: had the fusion "
        f"stopped after the level, on {analysis.samples} test images"
    )
    accuracy = [f"{value:.2f}" for value in analysis.accuracy] or ["-"] * (len(analysis.levels) + 1)
    table.add_row("(the ensemble)", "", accuracy[0])
    for level, value in zip(analysis.levels, accuracy[1:], strict=True):
        table.add_row(level.name, f"{100 * level.kept.mean().item():.1f}", value)
    return table


def _levels_table(levels: Sequence[Any], title: str) -> Table:
    table = new_table("level", "kind", "parents", "fused", "grouping", "approx.", "form", "seconds", title=title)
    table.caption = "grouping and approximation error in % of the parents' importance-weighted energy"
    for level in levels:
        energy = level.energy or 1.0
        table.add_row(
            level.name, level.kind, "+".join(map(str, level.widths)), str(level.width),
            f"{100 * level.grouping_error / energy:.2f}", f"{100 * level.approximation_error / energy:.2f}", level.form,
            f"{sum(level.seconds.values()):.2f}",
        )  # fmt: skip
    return table


@command("evaluate")
def evaluate_command(
    models: Checkpoints,
    data: Data = "digits",
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    arch: Arch = None,
    mean: Mean = None,
    std: Std = None,
    size: Size = None,
    device: Device = "auto",
    together: Annotated[bool, typer.Option("--ensemble", help="Also the mean of the networks' softmax.")] = False,
    as_json: Json = False,
) -> None:
    """Measure networks: accuracy, per class, loss, calibration error.

    Example: `retrofit evaluate fused.safetensors --data cifar10`
    """
    place = devices.pick(device)
    found: dict[str, dict[str, Any]] = {}
    networks = []
    with progress(as_json) as monitor:
        for path in models:
            model, metadata = load_model(path, arch)
            images = load(data, split, floats(mean) or metadata.get("mean"), floats(std) or metadata.get("std"),
                          size or metadata.get("size"))  # fmt: skip
            networks.append(model.to(place))
            found[str(path)] = evaluate(model, images, monitor=monitor)
        if together:
            found["ensemble"] = evaluate(ensemble(networks), images, monitor=monitor)
    if as_json:
        one = next(iter(found.values())) if len(found) == 1 else {}
        return print_json({**one, "networks": found, "classes": list(images.classes)})
    out.print(networks_table({Path(name).name: value for name, value in found.items()}))
    for name, value in found.items():
        shown = ", ".join(
            f"{label} {accuracy:.1f}" if accuracy is not None else f"{label} -"
            for label, accuracy in zip(images.classes, value["per_class"], strict=True)
        )
        out.print(f"[bold]{Path(name).name}[/bold] per class: {shown}")
    return None


@command("levels")
def levels_command(
    model: Annotated[Path, typer.Argument(help="A checkpoint.")],
    boundaries: Annotated[str, typer.Option(help=f"{CUTS}.")] = "preactivations",
    arch: Arch = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Show how a network is cut into levels.

    Example: `retrofit levels vgg11.safetensors --boundaries activations`
    """
    network, metadata = load_model(model, arch)
    if (kind := metadata["architecture"]["architecture"]) in COMPOSITES:
        raise ValueError(
            f"{model} holds several networks ({kind}), which have levels one by one. Name the checkpoint of one of them."
        )
    levels = partition(network, _example(metadata["architecture"]), read_boundaries(boundaries))
    if as_json:
        return print_json({"levels": [_describe(level) for level in levels]})
    table = new_table("level", "kind", "neurons", "rows per sample", "parameters", title=str(model))
    for level in levels:
        table.add_row(*map(str, _describe(level).values()))
    out.print(table)
    return None


def _describe(level: Level) -> dict[str, Any]:
    kind = level.kind if level.affine is not None else f"not affine: {level.why_not_affine}"
    return {"level": level.name, "kind": kind, "neurons": level.width, "rows per sample": level.positions,
            "parameters": level.parameters}  # fmt: skip


def _example(spec: dict[str, Any]) -> torch.Tensor:
    if "sizes" in spec:
        return torch.zeros(1, spec["sizes"][0])
    return torch.zeros(1, spec.get("channels", 3), spec.get("size", 32), spec.get("size", 32))


@command("app")
def app_command(
    port: Annotated[int, typer.Option(help="Port on this machine; the next free one if it is taken.")] = 8501,
    browser: Annotated[bool, typer.Option(help="Open the default browser.")] = True,
    runs: Annotated[Path, typer.Option(help="Folder with run records.")] = Path("runs"),
) -> None:
    """Open the workbench in the browser. It listens on this machine only and fetches nothing from elsewhere."""
    script = _app_script()
    port = _free_port(port)
    flags = ["--server.address=127.0.0.1", f"--server.port={port}", "--server.headless=true"]
    command = [sys.executable, "-m", "streamlit", "run", str(script), *flags]
    address = f"http://127.0.0.1:{port}"
    out.print(f"The workbench is at [bold]{address}[/bold] (Ctrl-C stops it; if it is restarted, the tab reconnects).")
    environment = {**os.environ, "RETROFIT_RUNS": str(runs.absolute())}
    # Streamlit reads .streamlit/config.toml from the folder in which it starts.
    with subprocess.Popen(command, cwd=script.parent, env=environment) as server:
        try:
            if browser and sys.stdout.isatty():
                _open_when_ready(server, port, address)
            server.wait()
        except KeyboardInterrupt:
            server.terminate()
            server.wait()


def _app_script() -> Path:
    found = importlib.util.find_spec("retrofit_app")
    folder = (
        Path(found.submodule_search_locations[0])
        if found and found.submodule_search_locations
        else Path(__file__).parents[2] / "app"
    )
    if not (folder / "main.py").exists():
        raise ValueError("the workbench is not installed. Install it with `pip install .` from the repository.")
    return folder / "main.py"


def _free_port(wanted: int) -> int:
    import socket

    for port in range(wanted, wanted + 50):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise ValueError(f"ports {wanted} to {wanted + 49} are all taken. Choose one with --port.")


def _open_when_ready(server: subprocess.Popen, port: int, address: str) -> None:
    import socket
    import webbrowser

    for _ in range(100):
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                webbrowser.open(address)
                return
        if server.poll() is not None:
            return
        time.sleep(0.2)
