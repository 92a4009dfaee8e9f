"""retrofit evaluate | app | learn"""

import importlib
import importlib.util
import os
import sys
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from ..networks import user_code
from ..runs.config import RunConfig
from ..system.extras import require
from ..system.settings import Range, setting
from ..system.texts import names_apart
from .application import command
from .checks import check_checkpoints, check_folder, check_replaced
from .fields import READING, Json, Overwrite, argument, config_of, options_of
from .terminal import networks_table, out, print_json, progress, say, say_normalisation

LAST_PORT = 65535


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(Json):
    """Parameters of `retrofit evaluate`, besides those for reading files."""

    models: tuple[Path, ...] = argument(MISSING, "Checkpoints (safetensors, or .pt with a state dict).")
    split: str = setting("test", "train, val or test.")


@command("evaluate", *options_of(RunConfig, *READING))
def evaluate_command(context: typer.Context, request: EvaluateRequest) -> None:
    """Evaluate networks: accuracy, overall and per class, loss and calibration error.

    Example: `retrofit evaluate fused.safetensors --data cifar10`
    """
    check_checkpoints(request.models)
    from ..data import load
    from ..networks.checkpoints import load_model, read_metadata
    from ..system import device as devices
    from ..training.evaluation import evaluate

    config = config_of(context)
    picked = devices.pick(config.device)
    measured: dict[str, dict[str, Any]] = {}
    with progress(request.json) as monitor:
        for path, name in zip(request.models, names_apart(path.name for path in request.models), strict=True):
            metadata = read_metadata(path)
            pixels = [getattr(config, name) or metadata.get(name) for name in ("mean", "std", "size")]
            images = load(config.data, request.split, *pixels)
            model, _ = load_model(path, config.arch, like=images)
            measured[name] = evaluate(model.to(picked), images, monitor=monitor)
    if request.json:
        single = next(iter(measured.values())) if len(measured) == 1 else {}
        return print_json({**single, "networks": measured, "classes": list(images.classes)})
    say_normalisation(config, request.models, images)
    out.print(networks_table(measured))
    for name, facts in measured.items():
        accuracies = ["-" if accuracy is None else f"{accuracy:.1f}" for accuracy in facts["per_class"]]
        listed = ", ".join(map(" ".join, zip(images.classes, accuracies, strict=True)))
        out.print(Text.assemble((name, "bold"), f" per class: {listed}"))
    return None


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
        (), "Results for the Paper page: a file of results, a folder of them, or a runs folder. Repeatable."
    )


@command("app")
def app_command(request: AppRequest) -> None:
    """Open the workbench in the browser. Only this machine can reach it, and it loads nothing from the internet."""
    require("streamlit", "app")
    folder, runs = app_folder(), request.runs.absolute()
    headless = not (request.browser and sys.stdout.isatty())
    flags = [f"--server.headless={str(headless).lower()}", "--server.showEmailPrompt=false"]
    # Otherwise, Streamlit collects garbage (0.1 s with torch loaded) after every run of a page, before it sends it.
    flags.append("--runner.postScriptGC=false")
    flags += [f"--server.port={request.port}"] if request.port else []
    words = [sys.executable, str(folder / "shell" / "serve.py"), "run", str(folder / "shell" / "main.py"), *flags]
    # Users run the commands shown in the workbench next to the runs folder, where data sets are in `data`.
    data = os.pathsep.join(filter(None, [str(runs.parent / "data"), os.environ.get("RETROFIT_DATA")]))
    environment = {**os.environ, "RETROFIT_RUNS": str(runs), "RETROFIT_DATA": data}
    if request.results:
        environment["RETROFIT_RESULTS"] = os.pathsep.join(str(path.absolute()) for path in request.results)
    if request.arch:
        environment[user_code.VARIABLE] = ",".join(map(user_code.absolute, request.arch))
        # Names of modules are relative to the current folder, where neither the server nor its workers are.
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    say("Ctrl-C stops the workbench; its tab reconnects after a restart.")
    sys.stdout.flush()
    os.chdir(folder)  # Streamlit reads .streamlit/config.toml from there
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


@dataclass(frozen=True, kw_only=True)
class LearnRequest(Overwrite):
    """Parameters of `retrofit learn`."""

    out: Path | None = setting(None, "Write the page to this file. Default: learn.html in your cache folder.")
    browser: bool = setting(True, "Open the default browser.")


@command("learn")
def learn_command(request: LearnRequest) -> None:
    """Open an interactive explanation of the method in the browser: one file that needs neither a server nor Python.

    You can email the file to students, or publish it on a web page.

    Example: `retrofit learn --out learn.html --no-browser`
    """
    import webbrowser

    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "retrofit-workbench", "learn.html")
    file = (request.out or usual).absolute()
    if file.is_dir():
        raise ValueError(f"--out {request.out} is a folder. Name a file, such as {file / usual.name}.")
    check_folder(file.parent, "--out")
    check_replaced([file], overwrite=request.overwrite or request.out is None)
    file.parent.mkdir(parents=True, exist_ok=True)
    folder = str(app_folder().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    importlib.import_module("retrofit_app.learn").save(file)  # the core imports nothing of the workbench by name
    say(f"The page is {file}.")
    if request.browser and sys.stdout.isatty():
        webbrowser.open(file.as_uri())
