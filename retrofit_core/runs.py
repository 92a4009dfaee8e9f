"""Run records: one folder per run, written by the command line, the app's worker and experiments alike.

config.json (everything needed to repeat the run), status.json (where it stands), events.jsonl, levels.parquet and
arrays.npz (finished levels), partial.safetensors (their weights, to resume), fused.safetensors, result.json and
metrics.json (at the end), analysis.json and analysis.npz (where asked for). The app only reads.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from . import analysis as analysing
from .architectures import build, fitted, parse
from .baselines import average
from .checkpoints import load_model
from .data import Images, load
from .data.augment import POLICIES, copies
from .data.sampling import balanced
from .data.splits import read_splits
from .device import MEMORY
from .evaluation import ensemble, evaluate
from .importance import IMPORTANCE
from .levels import BOUNDARIES
from .methods import METHODS, suited
from .monitor import Cancelled, Event, Monitor
from .registry import find
from .results import FusionResult, LevelReport, load_levels, save_levels, write_atomically
from .training.parents import NOTE, read_training, train_parents

SCHEMA = 1
CHOICES = {
    "importance_data": ("own", "fusion"),
    "fusion_from": ("parent0", "iid"),
    "preset": ("default", "paper"),
    "toward": ("zero", "parents"),
    "head": ("scores", "mean", "shares"),
}
STATES = ("created", "running", "done", "failed", "cancelled")
#: What a run does not ask for, so that a method need not know of it.
UNASKED = {
    "importance": "uniform", "target": None, "toward": "zero", "boundaries": "auto", "memory": MEMORY, "head": "scores",
    "preset": "default", "ridge": "auto",
}  # fmt: skip
#: Seconds between two writes of status.json: often enough for a progress bar, seldom enough for any disk.
STATUS_INTERVAL = 0.3
#: What a phase tells about itself while it lasts.
PHASE_FACTS = ("level", "levels", "parent", "parents", "epoch", "epochs", "step", "steps")
#: A running record whose status is older than this belongs to a worker that was killed.
STALE_AFTER = 60.0
#: Fields of RunConfig that records of the first version did not have.
LATER = ("augment", "auto_augment", "boundaries", "memory", "size", "analyse")
SEALED = ("config.json", "levels.parquet", "arrays.npz", "fused.safetensors", "result.json", "metrics.json")


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a fusion of checkpoints; form, command line, Python and record share it."""

    models: tuple[str, ...]
    """Checkpoint files, parent 0 first"""
    data: str = "digits"
    """Folder of a data set, or "digits" """
    method: str = "KF-Linear"
    importance: str = "uniform"
    importance_data: str | None = None
    """"own" (each parent's training rows; needs splits) or "fusion"; by default own where there are splits"""
    fusion_from: str | None = None
    """"parent0" (the paper; needs splits) or "iid"; by default parent0 where there are splits"""
    splits: str | None = None
    samples: int = 400
    augment: int = 0
    """Augmented copies of each fusion sample that are added to them"""
    auto_augment: str | None = None
    """AutoAugment policy of these copies; without one they are moved and mirrored only"""
    importance_samples: int = 400
    seed: int = 0
    preset: str = "default"
    ridge: str | float = "auto"
    toward: str = "zero"
    head: str = "scores"
    boundaries: str = "auto"
    """"auto", "preactivations", "activations", "blocks", a number of levels, or module names separated by commas"""
    memory: int | None = None
    """Bytes for the sums of a level and for kept tensors; None for the library's default"""
    target: str | None = None
    """Checkpoint, spec or preset of the fused architecture; by default parent 0's"""
    arch: str | None = None
    """Architecture of bare checkpoints whose keys and shapes do not tell"""
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    size: int | None = None
    """Images are brought to so many pixels a side; by default the data set's own size"""
    device: str = "auto"
    evaluate: bool = False
    """Also measure parents, ensemble, average and fused network on the test split"""
    analyse: bool = False
    """Also compute what the workbench's pictures of the levels need, into the record"""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types. LATER fields are left out at their defaults, so that older records stay equal to new ones."""
        facts = dataclasses.asdict(self)
        defaults = {field.name: field.default for field in dataclasses.fields(self) if field.name in LATER}
        return json.loads(json.dumps({k: v for k, v in facts.items() if k not in defaults or v != defaults[k]}))

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "RunConfig":
        """The inverse of `to_json`.

        Raises:
            ValueError: unknown or missing fields.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(facts, dict) or not facts.get("models") or set(facts) - known:
            raise ValueError(f"a run's config needs 'models' and knows only {sorted(known)}. Found {facts!r:.200}.")
        lists = {name: tuple(facts[name]) for name in ("models", "mean", "std") if facts.get(name) is not None}
        return cls(**{**facts, **lists})

    def key(self) -> str:
        """Ten characters that two runs share exactly if their configs are equal."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:10]

    def command(self) -> str:
        """The command line that repeats this run."""
        words = ["retrofit", "fuse", *self.models]
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "models" or value == field.default:
                continue
            flag = "--" + field.name.replace("_", "-")
            if value is True:
                words.append(flag)
            else:
                words += [flag, " ".join(map(str, value)) if isinstance(value, tuple) else str(value)]
        return shlex.join(words)


def read_boundaries(text: str) -> str | int | list[str]:
    """What `partition` takes, from a word, a number of levels or module names separated by commas."""
    if text.isdigit():
        return int(text)
    return text if text in ("auto", *BOUNDARIES) else text.split(",")


@dataclass(frozen=True)
class Inputs:
    """What a config names, loaded and checked."""

    models: list[nn.Module]
    train: Images
    fusion: tuple[Tensor, Tensor]
    importance: list[tuple[Tensor, Tensor]] | str | None
    """None for uniform importance, unless the run is analysed"""
    target: nn.Module | None
    shares: Tensor | None
    """(n, classes) each parent's share of each class's training rows"""
    counts: list[int] | None = None
    """Each parent's number of training rows"""


def read_inputs(config: RunConfig) -> Inputs:
    """Load checkpoints, data and splits.

    Raises:
        ValueError: a file is missing or broken, or a choice is open that nobody should guess.
    """
    check_choices(config)
    train = load(config.data, "train", config.mean, config.std, config.size)
    models = [load_model(path, config.arch)[0] for path in config.models]
    parts = read_splits(config.splits, config.models, len(train)) if config.splits else None
    rows = parts[0] if parts and config.fusion_from != "iid" else (torch.cat(parts).unique() if parts else None)
    chosen = _balanced(train, config.samples, rows, config.seed)
    return Inputs(
        models,
        train,
        _fusion_data(config, train, chosen),
        _importance_data(config, train, parts),
        _target(config.target, train),
        _class_shares(train, parts) if _asks_for_shares(config) else None,
        [len(part) for part in parts] if parts else None,
    )


def check_choices(config: RunConfig) -> None:
    """Refuse unknown choices, and those that are open and that nobody should guess.

    Raises:
        ValueError: names the choice and the flag.
    """
    find(METHODS, config.method, "method")
    find(IMPORTANCE, config.importance, "importance")
    for name, known in CHOICES.items():
        value = getattr(config, name)
        if value is not None and value not in known:
            raise ValueError(f"{name} is {value!r}. Known: {', '.join(known)}.")
    if config.auto_augment is not None:
        find(POLICIES, config.auto_augment, "AutoAugment policy")
        if not config.augment:
            raise ValueError("an AutoAugment policy needs augmented copies: say how many of each image with --augment.")
    if config.splits is None and (config.fusion_from or "parent0") == "parent0":
        raise ValueError(
            "fusion samples come from parent 0's training rows, which only a splits file tells. "
            "Pass --splits FILE, or --fusion-from iid to draw from all rows."
        )
    if config.splits is None and config.importance != "uniform" and (config.importance_data or "own") == "own":
        raise ValueError(
            f"importance {config.importance} is computed on each parent's own training rows, which only a splits file "
            "tells. Pass --splits FILE, or --importance-data fusion to use the fusion samples."
        )


def _balanced(images: Images, n: int, rows: Tensor | None, seed: int) -> Tensor:
    return balanced(images.labels, n, rows=rows, generator=torch.Generator().manual_seed(seed))


def _fusion_data(config: RunConfig, train: Images, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs and labels; all targets are computed on these inputs, so copies get targets of their own."""
    generator = torch.Generator().manual_seed(config.seed)
    pixels, labels = copies(train, rows, config.augment, generator, config.auto_augment)
    return train.normalise(pixels), labels


def _importance_data(config: RunConfig, train: Images, parts: list[Tensor] | None) -> Any:
    if config.importance == "uniform" and not config.analyse:
        return None
    if parts is None or config.importance_data == "fusion":
        return "fusion"
    rows = [_balanced(train, min(config.importance_samples, len(part)), part, config.seed) for part in parts]
    return [(train.inputs(chosen), train.labels[chosen]) for chosen in rows]


def _target(name: str | None, images: Images) -> nn.Module | None:
    if name is None:
        return None
    if Path(name).is_file():
        return load_model(name)[0]
    return build(fitted(parse(name), images.shape, len(images.classes)), seed=0)


def _asks_for_shares(config: RunConfig) -> bool:
    return config.head == "shares" or find(METHODS, config.method, "method") is METHODS["Ensemble-Shares"]


def _class_shares(train: Images, parts: list[Tensor] | None) -> Tensor:
    if parts is None:
        raise ValueError(
            "shares weigh classes by the parents' training rows, which only a splits file tells. Pass --splits."
        )
    counts = torch.stack([torch.bincount(train.labels[part], minlength=len(train.classes)) for part in parts]).double()
    return counts / counts.sum(0).clamp_min(1)


def train_missing(config: RunConfig, monitor: Monitor | None = None) -> None:
    """Train the parents of a config that are not there yet, where a training.json in their folder says how.

    What is finished stays, and a training that was stopped goes on after its last finished epoch.

    Raises:
        ValueError: training.json is damaged or says nothing of a file that is missing.
    """
    wanted = [Path(name) for name in (*config.models, *([config.splits] if config.splits else []))]
    for folder in dict.fromkeys(path.parent for path in wanted if not path.exists()):
        training = read_training(folder)
        if training is None:
            continue  # the loaders name what is missing
        known = {*map(Path, training.files(folder)), Path(training.splits(folder))}
        if strange := [path for path in wanted if path.parent == folder and path not in known and not path.exists()]:
            raise ValueError(
                f"{strange[0]} is not there, and {folder / NOTE} trains only the parents 0 to {training.parts - 1}. "
                "Name one of these."
            )
        train_parents(training, folder, resume=True, test=False, monitor=monitor)


def execute(
    config: RunConfig, folder: str | Path | None = None, monitor: Monitor | None = None
) -> tuple[FusionResult, dict[str, Any]]:
    """Run a config; with a folder write its record, going on where an earlier run of the same config stopped.

    Parents that are missing are trained first, where a training.json lies in their folder.

    Returns:
        The result, and what `measure` found (empty without `config.evaluate`).
    Raises:
        ValueError: the config cannot be run, or the folder holds another run.
        Cancelled: somebody asked for it; finished levels are kept in the record.
    """
    if config.analyse and folder is None:
        raise ValueError(
            "an analysis is kept in a run's record: name its folder (--record), or leave the analysis out."
        )
    recorder = Recorder(Path(folder), config, monitor) if folder is not None else None
    watcher = recorder.monitor if recorder else (monitor or Monitor())
    try:
        check_choices(config)
        train_missing(config, watcher)
        inputs = read_inputs(config)
        method = find(METHODS, config.method, "method")
        given = {
            "importance": config.importance,
            "importance_data": inputs.importance,
            "target": inputs.target,
            "toward": config.toward,
            "boundaries": read_boundaries(config.boundaries),
            "memory": config.memory or MEMORY,
            "head": config.head,
            "class_shares": inputs.shares,
            "sample_counts": inputs.counts,
            "preset": config.preset,
            "seed": config.seed,
            "device": config.device,
            "monitor": watcher,
            "finished": recorder.finished if recorder else (),
            "on_level": recorder.on_level if recorder else None,
            **({} if config.ridge == "auto" else {"ridge": config.ridge}),
        }
        result = method(inputs.models, inputs.fusion, **suited(config.method, given, UNASKED))
        metrics = measure(config, inputs.models, result.model, watcher) if config.evaluate else {}
        if recorder:
            analysis, why = _analysis_or_reason(config, inputs, result, watcher) if config.analyse else (None, "")
            recorder.finish(result, metrics, checkpoint_metadata(config, inputs.train), analysis, why)
        return result, metrics
    except BaseException as error:
        if recorder:
            recorder.stop(error)
        raise


def _analysis_or_reason(
    config: RunConfig, inputs: Inputs, result: FusionResult, monitor: Monitor
) -> tuple[analysing.Analysis | None, str]:
    """The fusion is finished and stays, whatever becomes of its analysis."""
    try:
        return _analyse(config, inputs, result, monitor), ""
    except (Cancelled, KeyboardInterrupt):
        return None, "the analysis was cancelled."
    except ValueError as error:
        return None, str(error)


def _analyse(config: RunConfig, inputs: Inputs, result: FusionResult, monitor: Monitor) -> analysing.Analysis:
    try:
        test = load(config.data, "test", config.mean, config.std, config.size)
    except ValueError:  # a data set of one's own need not have one
        test = None
    return analysing.analyse(
        inputs.models,
        result,
        inputs.fusion,
        importance_data=inputs.importance,
        test=test,
        boundaries=read_boundaries(config.boundaries),
        device=config.device,
        memory=config.memory or MEMORY,
        monitor=monitor,
    )


def analyse_record(folder: str | Path, monitor: Monitor | None = None) -> analysing.Analysis:
    """Add an analysis to a finished record, in place of an older one.

    Relative file names in its config are read from the current folder.

    Raises:
        ValueError: the run is not finished, or a file that it was made from is missing or another one.
    """
    run = read_run(folder)
    if run.state != "done":
        raise ValueError(f"{folder}: the run is {run.state}, and only finished runs can be analysed. Finish it first: "
                         f"retrofit fuse --resume {folder}")  # fmt: skip
    inputs = read_inputs(dataclasses.replace(run.config, analyse=True))
    found = _analyse(run.config, inputs, FusionResult.load(folder), monitor or Monitor())
    _seal_analysis(run.folder, run.status, found)
    return found


def checkpoint_metadata(config: RunConfig, images: Images) -> dict[str, Any]:
    """What travels in a fused checkpoint: class names, normalisation, data set and recipe."""
    return {
        "classes": list(images.classes),
        "mean": list(images.mean),
        "std": list(images.std),
        "data": images.name,
        **({"size": config.size} if config.size else {}),
        "recipe": {**config.to_json(), "models": [Path(path).name for path in config.models]},
    }


def measure(
    config: RunConfig, models: Sequence[nn.Module], fused: nn.Module, monitor: Monitor | None = None
) -> dict[str, Any]:
    """Accuracy, per class, loss and calibration of parents, ensemble, vanilla average and fused network (test split)."""
    test = load(config.data, "test", config.mean, config.std, config.size)
    networks = {f"parent {index}": model for index, model in enumerate(models)}
    networks["ensemble"] = ensemble(list(models))
    with contextlib.suppress(ValueError):  # different widths have no plain average
        networks["average"] = average(models)
    networks["fused"] = fused
    found = {}
    for index, (name, network) in enumerate(networks.items()):
        if monitor:
            monitor.emit("phase", name="evaluate", network=name, index=index, total=len(networks))
        found[name] = evaluate(network, test, monitor=monitor)
    return {"networks": found, "classes": list(test.classes), "data": test.name}


# --- the record ------------------------------------------------------------------------------------------------------


class Recorder:
    """Writes one run's folder while it runs."""

    def __init__(self, folder: Path, config: RunConfig, monitor: Monitor | None = None) -> None:
        self.folder = folder
        self.outer = monitor or Monitor()
        self.monitor = Monitor(self._event, self._cancelled)
        now = time.time()
        self.status: dict[str, Any] = {
            "schema": SCHEMA, "state": "running", "pid": os.getpid(), "started": now,
            "stage": "reading", "stage_started": now, "stages": {},
        }  # fmt: skip
        self._written = 0.0
        create(folder, config)
        # A file `cancel` that is here already is honoured: the user may be quicker than a worker's start. It goes away
        # when the run ends.
        self.finished = _finished_levels(folder)
        self._reports = [report for report, _ in self.finished]
        self._weights = {
            f"{index}/{name}": value for index, (_, state) in enumerate(self.finished) for name, value in state.items()
        }
        self._write_status()

    def on_level(self, index: int, report: LevelReport, weights: dict[str, Tensor]) -> None:
        """Keep a finished level, so that the run can go on after it."""
        self._reports.append(report)
        self._weights.update({f"{index}/{name}": value.cpu().clone().contiguous() for name, value in weights.items()})
        save_levels(self._reports, self.folder)
        write_atomically(self.folder / "partial.safetensors", save(self._weights, {"levels": str(len(self._reports))}))

    def finish(
        self,
        result: FusionResult,
        metrics: dict[str, Any],
        metadata: dict[str, Any],
        analysis: analysing.Analysis | None = None,
        why_not: str = "",
    ) -> None:
        """Write the result and seal the record with checksums; `why_not` says why an analysis that was asked for is missing."""
        result.save(self.folder, **metadata)
        write_atomically(self.folder / "metrics.json", json.dumps(metrics, indent=1).encode())
        (self.folder / "partial.safetensors").unlink(missing_ok=True)
        self.status.update(state="done", seconds=result.seconds, **({"analysis": why_not} if why_not else {}))
        self.status["checksums"] = _checksums(self.folder, SEALED)
        if analysis is not None:
            analysis.save(self.folder)
            self.status["checksums"] |= _checksums(self.folder, analysing.FILES)
        self._end()

    def stop(self, error: BaseException) -> None:
        """Say why the run ended early; finished levels stay."""
        cancelled = isinstance(error, (Cancelled, KeyboardInterrupt))
        message = "" if cancelled else str(error) or type(error).__name__
        self.status.update(state="cancelled" if cancelled else "failed", error=message, levels_done=len(self._reports))
        self._end()

    def _end(self) -> None:
        self._spend()
        self._write_status()
        (self.folder / "cancel").unlink(missing_ok=True)

    def _event(self, event: Event) -> None:
        self.outer.emit(**event)
        kind = event["kind"]
        if kind != "batch":  # tens of thousands in a training: for the status only
            with (self.folder / "events.jsonl").open("a") as file:
                file.write(json.dumps({"time": time.time(), **event}, default=str) + "\n")
        if kind in ("phase", "level"):
            self._enter(_stage(event))
        self.status.update({key: event[key] for key in ("loss", "name", "parent", "parents") if key in event})
        self.status.update(facts := _facts(event))
        if facts and event.get("index", 0) >= len(self.finished) * (kind == "level"):
            # Where the work of this stage began: a run that goes on does not begin at 0.
            self.status.setdefault("first", {name: self.status[name] for name in PHASE_FACTS if name in self.status})
        if event["kind"] == "level" or time.time() - self._written > STATUS_INTERVAL:
            self._write_status()

    def _enter(self, stage: str) -> None:
        """A new phase: what the last one told is over."""
        for name in PHASE_FACTS[2:]:
            self.status.pop(name, None)
        if stage != self.status["stage"]:
            if self.status["stage"] == "training":
                self.status.pop("loss", None)
            self._spend()
            self.status.pop("first", None)
            self.status["stage"] = stage

    def _spend(self) -> None:
        """Add the seconds of the current stage to `stages`."""
        now, stage = time.time(), self.status["stage"]
        spent = self.status["stages"].get(stage, 0.0) + now - self.status["stage_started"]
        self.status.update(stages={**self.status["stages"], stage: spent}, stage_started=now)

    def _cancelled(self) -> bool:
        self.outer.check()
        return (self.folder / "cancel").exists()

    def _write_status(self) -> None:
        self._written = time.time()
        self.status["updated"] = self._written
        write_atomically(self.folder / "status.json", json.dumps(self.status, default=str).encode())


def _stage(event: Event) -> str:
    """The part of a run to which a phase or level belongs: training, fusion, measuring or analysis."""
    name = str(event.get("name", "")) if event["kind"] == "phase" else ""
    if name == "evaluate":
        return "measuring"
    return name.partition(":")[0] if name.startswith(("training", "analysis")) else "fusion"


def _facts(event: Event) -> dict[str, Any]:
    """Where in its phase a run is, for the status."""
    kind = event["kind"]
    if kind == "level":
        return {"level": event["index"], "levels": event["total"]}
    if kind == "batch":
        return {"epoch": event["epoch"], "epochs": event["epochs"], "step": event["index"], "steps": event["total"]}
    if kind == "epoch" and "index" in event:  # of a gradient fit
        return {"epoch": event["index"], "epochs": event["total"]}
    if kind in ("step", "phase") and "index" in event:
        return {"step": event["index"], "steps": event["total"]}
    return {}


def create(folder: Path, config: RunConfig) -> None:
    """Make a run's folder with its config, or accept one that holds the same config.

    Raises:
        ValueError: the folder holds another run.
    """
    path = folder / "config.json"
    content = {"schema": SCHEMA, "config": config.to_json()}
    if path.exists():
        if read_config(folder) != config:
            raise ValueError(f"{folder} holds another run. Choose a new folder, or resume it with its own settings.")
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=1).encode())


def read_config(folder: str | Path) -> RunConfig:
    """The config of a run's folder.

    Raises:
        ValueError: missing, broken, or of another schema.
    """
    path = Path(folder) / "config.json"
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} is not a run record: config.json is missing or broken.") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        found = content.get("schema") if isinstance(content, dict) else None
        raise ValueError(f"{folder}: the record has schema {found}, this version reads {SCHEMA}.")
    return RunConfig.from_json(content["config"])


def _finished_levels(folder: Path) -> list[tuple[LevelReport, dict[str, Tensor]]]:
    """The levels that an interrupted run finished: as many as both the reports and the weights hold."""
    path = folder / "partial.safetensors"
    if not path.exists():
        return []
    try:
        reports, weights = load_levels(folder), load_file(str(path))
    except Exception:  # a damaged remnant is no reason to refuse: the run starts afresh
        return []
    states: list[dict[str, Tensor]] = [{} for _ in reports]
    for key, value in weights.items():
        index, _, name = key.partition("/")
        if int(index) < len(states):
            states[int(index)][name] = value
    finished = list(zip(reports, states, strict=True))
    return finished[: next((i for i, (_, state) in enumerate(finished) if not state), len(finished))]


def _checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


def _seal_analysis(folder: Path, status: dict[str, Any], analysis: analysing.Analysis) -> None:
    """Write an analysis into a sealed record: unsealed first, so that a kill in between leaves a record without one."""
    sums = {name: sum_ for name, sum_ in status["checksums"].items() if name not in analysing.FILES}
    status = {key: value for key, value in status.items() if key != "analysis"} | {"checksums": sums}
    write_atomically(folder / "status.json", json.dumps(status).encode())
    analysis.save(folder)
    status["checksums"] = sums | _checksums(folder, analysing.FILES)
    write_atomically(folder / "status.json", json.dumps(status).encode())


@dataclass(frozen=True)
class Run:
    """A run record as it stands on disk."""

    folder: Path
    config: RunConfig
    status: dict[str, Any]
    levels: list[LevelReport]
    metrics: dict[str, Any]

    @cached_property
    def analysis(self) -> analysing.Analysis | None:
        """What the pictures of the levels need; None where it was not asked for or not finished. Read when asked for."""
        sealed = analysing.FILES[0] in self.status.get("checksums", {})
        return analysing.Analysis.load(self.folder) if sealed else None

    @property
    def state(self) -> str:
        """One of STATES, or "interrupted" for a running one whose worker has gone silent."""
        if self.status["state"] == "running" and time.time() - self.status.get("updated", 0) > STALE_AFTER:
            return "interrupted"
        return self.status["state"]


def read_run(folder: str | Path) -> Run:
    """Read a record; one that is done must have the checksums with which it was sealed.

    Raises:
        ValueError: a file is missing, damaged or of another schema.
    """
    folder = Path(folder)
    config, status = read_config(folder), read_status(folder)
    levels, metrics = [], {}
    if status["state"] == "done":
        try:
            names = dict.fromkeys([*SEALED, *status["checksums"]])
            damaged = [
                name for name, sum_ in _checksums(folder, names).items() if status["checksums"].get(name) != sum_
            ]
        except OSError as error:
            raise ValueError(f"{folder}: {Path(str(error.filename)).name} is missing from the record.") from error
        if damaged:
            raise ValueError(f"{folder}: {', '.join(damaged)} changed after the run was finished. Run it again.")
        metrics = json.loads((folder / "metrics.json").read_text())
    if (folder / "levels.parquet").exists():
        levels = load_levels(folder)
    return Run(folder, config, status, levels, metrics)


def read_status(folder: str | Path) -> dict[str, Any]:
    """status.json, or {"state": "created"} before the worker wrote one.

    Raises:
        ValueError: broken.
    """
    path = Path(folder) / "status.json"
    if not path.exists():
        return {"state": "created"}
    try:
        status = json.loads(path.read_text())
        if status["schema"] != SCHEMA or status["state"] not in STATES:
            raise KeyError("schema")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}: status.json is broken or of another schema.") from error
    return status


def list_runs(folder: str | Path) -> tuple[list[Run], list[str]]:
    """All readable records below a folder, newest first, and one sentence for each that was set aside."""
    good, problems = [], []
    for path in sorted(Path(folder).glob("*/config.json")):
        try:
            good.append(read_run(path.parent))
        except ValueError as error:
            problems.append(str(error).replace(str(path.parent), path.parent.name))
    return sorted(good, key=lambda run: run.status.get("started", 0), reverse=True), problems
