"""retrofit data | evaluate | levels | app"""

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..runs.config import RunConfig
from ..system.extras import require
from .fields import READING, config_of, options_of
from .progress import progress
from .terminal import (
    Checkpoints,
    Json,
    Logits,
    check_checkpoints,
    command,
    networks_table,
    new_table,
    out,
    print_json,
    shell,
)

if TYPE_CHECKING:
    from ..networks.levels import Level

LAST_PORT = 65535
#: Seconds between two looks whether the server has ended, and for which it may take its time to end when it is asked to.
POLL, PATIENCE = 0.2, 10.0


@command("data")
def data_command(
    name: Annotated[str | None, typer.Argument(help="{data_sets}. Without a name: a list of them.")] = None,
    out_folder: Annotated[Path | None, typer.Option("--out", help="Folder. Default: data/NAME.")] = None,
) -> None:
    """Download a data set, or say what to download and where to put it.

    Example: `retrofit data cifar10`
    """
    from ..data import DATASETS
    from ..data.download import download

    if name is not None:
        folder = download(name, out_folder)
        out.print("Next:", shell("retrofit", "train", "--data", folder), soft_wrap=True, markup=False, highlight=False)
        return
    table = new_table("data set", "how to get it")
    for dataset, facts in DATASETS.items():
        table.add_row(dataset, facts.advice)
    out.print(table)


@command("evaluate", *options_of(RunConfig, *READING))
def evaluate_command(
    context: typer.Context,
    models: Checkpoints,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    logits: Logits = None,
    together: Annotated[bool, typer.Option("--ensemble", help="Also the mean of the networks' softmax.")] = False,
    as_json: Json = False,
) -> None:
    """Measure networks: accuracy, per class, loss, calibration error.

    Example: `retrofit evaluate fused.safetensors --data cifar10`
    """
    check_checkpoints(models)
    from ..data import load
    from ..networks.checkpoints import classes_of, load_model, read_metadata
    from ..system import device as devices
    from ..training.evaluation import ensemble, evaluate

    config = config_of(context)
    picked = devices.pick(config.device)
    measured: dict[str, dict[str, Any]] = {}
    networks = []
    with progress(as_json) as monitor:
        for path in models:
            metadata = read_metadata(path)
            pixels = [getattr(config, name) or metadata.get(name) for name in ("mean", "std", "size")]
            images = load(config.data, split, *pixels)
            order = classes_of(models, images)
            model, _ = load_model(path, config.arch, like=images, weights=config.weights, classes=order)
            networks.append(model.to(picked))
            measured[str(path)] = evaluate(model, images, monitor=monitor)
        if together:
            measured["ensemble"] = evaluate(ensemble(networks), images, monitor=monitor)
    if as_json:
        single = next(iter(measured.values())) if len(measured) == 1 else {}
        return print_json({**single, "networks": measured, "classes": list(images.classes)})
    out.print(networks_table({Path(name).name: value for name, value in measured.items()}))
    for name, value in measured.items():
        shown = ", ".join(
            f"{label} {accuracy:.1f}" if accuracy is not None else f"{label} -"
            for label, accuracy in zip(images.classes, value["per_class"], strict=True)
        )
        out.print(f"[bold]{Path(name).name}[/bold] per class: {shown}")
    return None


@command("levels", *options_of(RunConfig, "arch", "weights"))
def levels_command(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A checkpoint.")],
    boundaries: Annotated[
        str, typer.Option(help="{boundaries}, a number of levels, or module names with commas between.")
    ] = "layers",
    data: Annotated[
        str | None, typer.Option(help="A data set whose images it takes, for networks that do not say what they read.")
    ] = None,
    logits: Logits = None,
    as_json: Json = False,
) -> None:
    """Show how a network is cut into levels: by default as the closed form needs them, behind every layer.

    Example: `retrofit levels vgg11.safetensors --boundaries activations`
    """
    check_checkpoints([model])
    import torch

    from ..data import load
    from ..networks.architectures import input_shape
    from ..networks.checkpoints import load_model, read_metadata
    from ..networks.classnames import stored
    from ..networks.composites import COMPOSITES
    from ..networks.levels import Heads, cut_trace, is_branched, single_level, trace_classifier
    from ..networks.outputs import as_classifier
    from ..networks.spaces import with_spaces
    from ..runs.config import read_boundaries

    config = config_of(context)
    images = load(data, "train") if data else None
    own = stored(read_metadata(model))  # levels are the same whatever the classes of these images
    network, metadata = load_model(model, config.arch, like=images, weights=config.weights, classes=own)
    if (kind := metadata["architecture"]["architecture"]) in COMPOSITES:
        raise ValueError(
            f"{model} holds several networks ({kind}), which have levels one by one. Name the checkpoint of one of them."
        )
    example = torch.zeros(1, *(images.shape if images else input_shape(metadata["architecture"])))
    trace = trace_classifier(as_classifier(network, example), example)
    cut = read_boundaries(boundaries)
    levels = with_spaces(trace, cut_trace(trace, cut), str(model), inside=cut == "layers")
    if as_json:
        return print_json({"levels": [_describe(levels, index) for index in range(len(levels))]})
    shown = {
        "level": "level",
        "kind": "kind",
        "neurons": "neurons",
        "rows": "rows per sample",
        "parameters": "parameters",
    }
    shown |= {"stream": "stream", "adds": "adds to it"} if is_branched(levels) else {}
    shown |= {"heads": "heads"} if any(isinstance(level.blocks, Heads) for level in levels) else {}
    table = new_table("", *shown, title=str(model), figures=True)
    table.columns[1].no_wrap, table.columns[1].overflow = False, "fold"
    numbers = {level.name: str(index) for index, level in enumerate(levels, 1)}
    for number in range(1, len(levels) + 1):
        facts = _describe(levels, number - 1)
        facts["stream"] = numbers.get(facts["stream"], "")  # a name again would leave no room for the others
        table.add_row(str(number), *(str(facts[key]) for key in shown.values()))
    table.caption = "rows: for each sample" + ("; stream: the level where it begins" if "stream" in shown else "")
    out.print(table)
    if note := single_level([level.kind for level in levels]):
        out.print(note, soft_wrap=True)
    return None


def _describe(levels: "Sequence[Level]", index: int) -> dict[str, Any]:
    from ..networks.levels import Heads
    from ..networks.spaces import stream

    level, alike = levels[index], stream(levels, index)
    return {
        "level": level.name,
        "kind": f"not affine: {level.why_not_affine}" if level.why_not_affine else level.kind,
        "neurons": level.width,
        "rows per sample": level.positions,
        "parameters": level.parameters,
        "stream": levels[alike[0]].name if len(alike) > 1 else "",
        "adds to it": "yes" if level.form.adds else "",
        "heads": level.blocks.count if isinstance(level.blocks, Heads) else "",
    }


@command("app")
def app_command(
    port: Annotated[
        int, typer.Option(min=1, max=LAST_PORT, help="Port on this machine; the next free one if it is taken.")
    ] = 8501,
    browser: Annotated[bool, typer.Option(help="Open the default browser.")] = True,
    runs: Annotated[Path, typer.Option(help="Folder with run records.")] = Path("runs"),
) -> None:
    """Open the workbench in the browser. It listens on this machine only and fetches nothing from elsewhere."""
    folder = _app_folder()
    port = _free_port(port)
    flags = ["--server.address=127.0.0.1", f"--server.port={port}", "--server.headless=true"]
    # Else it collects garbage after every run of a page, 0.1 s with torch loaded, before it sends what was drawn.
    flags.append("--runner.postScriptGC=false")
    command = [sys.executable, "-m", "streamlit", "run", str(folder / "shell" / "main.py"), *flags]
    address = f"http://127.0.0.1:{port}"
    out.print(f"The workbench is at [bold]{address}[/bold] (Ctrl-C stops it; if it is restarted, the tab reconnects).")
    environment = {**os.environ, "RETROFIT_RUNS": str(runs.absolute())}
    # Streamlit reads .streamlit/config.toml from the folder in which it starts.
    with _asked_to_end() as asked, subprocess.Popen(command, cwd=folder, env=environment) as server:
        if browser and sys.stdout.isatty():
            _open_when_ready(server, port, address, asked)
        while server.poll() is None and not asked.wait(POLL):
            pass
        _end(server)


@contextmanager
def _asked_to_end() -> Iterator[threading.Event]:
    """Set by the signals that ask this command to end, so that it takes its server with it, however early they come."""
    asked = threading.Event()
    names = ("SIGINT", "SIGTERM", "SIGHUP")  # the last one is not everywhere, and `nohup` switches it off
    wanted = [getattr(signal, name) for name in names if hasattr(signal, name)]
    ignored = [each for each in wanted if each.name == "SIGHUP" and signal.getsignal(each) is signal.SIG_IGN]
    kept = {each: signal.signal(each, lambda *_: asked.set()) for each in wanted if each not in ignored}
    try:
        yield asked
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)


def _end(server: subprocess.Popen) -> None:
    """Ask it to end, and end it where it does not; the work that it started goes on."""
    server.terminate()
    try:
        server.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        server.kill()


def _app_folder() -> Path:
    require("streamlit", "app")
    spec = importlib.util.find_spec("retrofit_app")
    folder = (
        Path(spec.submodule_search_locations[0])
        if spec and spec.submodule_search_locations
        else Path(__file__).parents[2] / "app" / "retrofit_app"
    )
    if not (folder / "shell" / "main.py").exists():
        raise ValueError("the workbench is not installed. Install it with `pip install .` from the repository.")
    return folder


def _free_port(first: int) -> int:
    import socket

    ports = range(first, min(first + 50, LAST_PORT + 1))
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise ValueError(f"ports {first} to {ports[-1]} are all taken. Choose one with --port.")


def _open_when_ready(server: subprocess.Popen, port: int, address: str, asked: threading.Event) -> None:
    import socket
    import webbrowser

    for _ in range(100):
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                webbrowser.open(address)
                return
        if server.poll() is not None or asked.wait(POLL):
            return
