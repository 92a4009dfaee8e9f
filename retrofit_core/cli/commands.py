"""retrofit data | evaluate | levels | app"""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from ..networks import user_code
from ..runs.config import RunConfig
from ..system.extras import require
from ..system.settings import Range, setting
from ..system.texts import names_apart
from .application import command
from .checks import check_checkpoints
from .fields import READING, Json, Logits, argument, config_of, options_of
from .terminal import networks_table, new_table, out, print_json, progress, say, say_next, say_normalisation

if TYPE_CHECKING:
    from ..networks.levels import Level

LAST_PORT = 65535
#: Short titles for wide columns.
SHORT = {"rows per sample": "rows", "adds to it": "adds"}


@dataclass(frozen=True, kw_only=True)
class DataRequest:
    """Parameters of `retrofit data`."""

    name: str | None = argument(None, "One of {data_sets}. Omit it to list them.")
    out: Path | None = setting(None, "Destination folder. Default: data/NAME.")


@command("data")
def data_command(asked: DataRequest) -> None:
    """Download a data set, or explain what to download and where to put it.

    Example: `retrofit data cifar10`
    """
    from ..data import DATASETS
    from ..data.download import download

    if asked.name is not None:
        return say_next("retrofit", "train", "--data", download(asked.name, asked.out))
    table = new_table("data set", "how to get it")
    for dataset, facts in DATASETS.items():
        table.add_row(dataset, facts.advice)
    return out.print(table)


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(Json, Logits):
    """Parameters of `retrofit evaluate`, besides those for reading files."""

    models: tuple[Path, ...] = argument(MISSING, "Checkpoints (safetensors, or .pt with a state dict).")
    split: str = setting("test", "train, val or test.")
    ensemble: bool = setting(False, "Also evaluate the ensemble: the mean of the networks' softmax outputs.")


@command("evaluate", *options_of(RunConfig, *READING))
def evaluate_command(context: typer.Context, asked: EvaluateRequest) -> None:
    """Evaluate networks: accuracy, overall and per class, loss and calibration error.

    Example: `retrofit evaluate fused.safetensors --data cifar10`
    """
    check_checkpoints(asked.models)
    from ..data import load
    from ..networks.checkpoints import classes_of, load_model, read_metadata
    from ..system import device as devices
    from ..training.evaluation import ensemble, evaluate

    config = config_of(context)
    picked = devices.pick(config.device)
    measured: dict[str, dict[str, Any]] = {}
    networks, names = [], names_apart(["ensemble", *map(str, asked.models)])[1:]
    with progress(asked.json) as monitor:
        for path, name in zip(asked.models, names, strict=True):
            metadata = read_metadata(path)
            pixels = [getattr(config, name) or metadata.get(name) for name in ("mean", "std", "size")]
            images = load(config.data, asked.split, *pixels)
            order = classes_of(asked.models, images)
            model, _ = load_model(path, config.arch, like=images, classes=order)
            networks.append(model.to(picked))
            measured[name] = evaluate(model, images, monitor=monitor)
        if asked.ensemble:
            measured["ensemble"] = evaluate(ensemble(networks), images, monitor=monitor)
    if asked.json:
        single = next(iter(measured.values())) if len(measured) == 1 else {}
        return print_json({**single, "networks": measured, "classes": list(images.classes)})
    say_normalisation(config, asked.models, images)
    files = [Path(name).name for name in measured]
    short = [
        f"{file} ({Path(name).parent})" if files.count(file) > 1 else file
        for file, name in zip(files, measured, strict=True)
    ]
    shown = dict(zip(short, measured.values(), strict=True))
    out.print(networks_table(shown))
    for name, facts in shown.items():
        accuracies = ["-" if accuracy is None else f"{accuracy:.1f}" for accuracy in facts["per_class"]]
        listed = ", ".join(map(" ".join, zip(images.classes, accuracies, strict=True)))
        out.print(Text.assemble((name, "bold"), f" per class: {listed}"))
    return None


@dataclass(frozen=True, kw_only=True)
class LevelsRequest(Json, Logits):
    """Parameters of `retrofit levels`, besides those for reading the checkpoint."""

    model: Path = argument(MISSING, "A checkpoint.")
    boundaries: str = setting("layers", "{boundaries}, a number of levels, or comma-separated module names.")
    data: str | None = setting(
        None, "A data set with images of the network's input shape, if the checkpoint does not record that shape."
    )


@command("levels", *options_of(RunConfig, "arch"))
def levels_command(context: typer.Context, asked: LevelsRequest) -> None:
    """Show how a network is cut into levels. By default, a level ends after every layer, as the closed form needs.

    Example: `retrofit levels vgg11.safetensors --boundaries activations`
    """
    check_checkpoints([asked.model])
    import torch

    from ..data import load
    from ..networks.architectures import input_shape
    from ..networks.checkpoints import load_model, read_metadata
    from ..networks.classnames import stored
    from ..networks.composites import COMPOSITES
    from ..networks.levels import cut_trace, read_boundaries, single_level, trace_classifier
    from ..networks.outputs import as_classifier
    from ..networks.spaces import with_spaces

    config = config_of(context)
    images = load(asked.data, "train") if asked.data else None
    classes = stored(read_metadata(asked.model))  # levels do not depend on the classes of these images
    network, metadata = load_model(asked.model, config.arch, like=images, classes=classes)
    if (kind := metadata["architecture"]["architecture"]) in COMPOSITES:
        raise ValueError(
            f"{asked.model} contains several networks ({kind}), each with its own levels. Name the checkpoint of one "
            "of them."
        )
    example = torch.zeros(1, *(images.shape if images else input_shape(metadata["architecture"])))
    trace = trace_classifier(as_classifier(network, example), example)
    cut = read_boundaries(asked.boundaries)
    levels = with_spaces(trace, cut_trace(trace, cut), str(asked.model), inside=cut == "layers")
    descriptions = [_describe(levels, index) for index in range(len(levels))]
    if asked.json:
        return print_json({"levels": descriptions})
    # Leave out empty columns.
    columns = [name for name in descriptions[0] if any(facts[name] != "" for facts in descriptions)]
    titles = (SHORT.get(name, name) for name in columns)
    table = new_table("", *titles, title=str(asked.model), figures=True)
    table.columns[1].no_wrap, table.columns[1].overflow = False, "fold"
    numbers = {level.name: str(number) for number, level in enumerate(levels, 1)}
    for number, facts in enumerate(descriptions, 1):
        facts["stream"] = numbers.get(facts["stream"], "")  # a name would be too wide
        table.add_row(str(number), *(str(facts[name]) for name in columns))
    table.caption = "rows: per sample" + ("; stream: the level where it begins" if "stream" in columns else "")
    out.print(table)
    if note := single_level([level.kind for level in levels]):
        say(note)
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


@dataclass(frozen=True, kw_only=True)
class AppRequest:
    """Parameters of `retrofit app`."""

    port: int | None = setting(None, "Port on this machine. Default: 8501, or the next free one.", Range(1, LAST_PORT))
    browser: bool = setting(True, "Open the default browser.")
    runs: Path = setting(Path("runs"), "Folder with run records.")
    arch: tuple[str, ...] = setting(
        (),
        "Your own function, package.module:function or FILE.py:function, whose networks the workbench may build (importing "
        "it runs its code). Repeatable.",
    )
    results: tuple[Path, ...] = setting(
        (), "Results for the Paper page: a bundle, a folder of bundles, or a runs folder. Repeatable."
    )


@command("app")
def app_command(asked: AppRequest) -> None:
    """Open the workbench in the browser. Only this machine can reach it, and it loads nothing from the internet."""
    require("streamlit", "app")
    if strange := [arch for arch in asked.arch if not user_code.is_own(arch)]:
        raise ValueError(
            f"--arch {strange[0]} names no function of yours: write package.module:function, or FILE.py:function."
        )
    folder, runs = app_folder(), asked.runs.absolute()
    headless = not (asked.browser and sys.stdout.isatty())
    flags = [f"--server.headless={str(headless).lower()}", "--server.showEmailPrompt=false"]
    # Otherwise, Streamlit collects garbage (0.1 s with torch loaded) after every run of a page, before it sends it.
    flags.append("--runner.postScriptGC=false")
    flags += [f"--server.port={asked.port}"] if asked.port else []
    words = [sys.executable, str(folder / "shell" / "serve.py"), "run", str(folder / "shell" / "main.py"), *flags]
    # Users run the commands shown in the workbench next to the runs folder, where data sets are in `data`.
    data = os.pathsep.join(filter(None, [str(runs.parent / "data"), os.environ.get("RETROFIT_DATA")]))
    environment = {**os.environ, "RETROFIT_RUNS": str(runs), "RETROFIT_DATA": data}
    if asked.results:
        environment["RETROFIT_RESULTS"] = os.pathsep.join(str(path.absolute()) for path in asked.results)
    if asked.arch:
        environment[user_code.VARIABLE] = ",".join(map(user_code.absolute, asked.arch))
        # Names of modules are relative to the current folder, where neither the server nor its workers are.
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    say("Ctrl-C stops the workbench; its tab reconnects after a restart.")
    sys.stdout.flush()
    os.chdir(folder)  # Streamlit reads .streamlit/config.toml from there
    if os.name == "nt":  # where a process cannot become another one
        raise typer.Exit(subprocess.call(words, env=environment))
    os.execve(sys.executable, words, environment)


def app_folder() -> Path:
    """Folder of the installed workbench, or of the repository's.

    Raises:
        ValueError: it is in neither.
    """
    spec = importlib.util.find_spec("retrofit_app")
    places = spec and spec.submodule_search_locations
    folder = Path(places[0]) if places else Path(__file__).parents[2] / "app" / "retrofit_app"
    if not (folder / "shell" / "main.py").exists():
        raise ValueError("the workbench is not installed. Install it with `pip install .` from the repository.")
    return folder
