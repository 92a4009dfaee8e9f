"""Fine-tunings of finished runs: settings, plan and execution.

Each fine-tuning has its own folder (`store.FollowUp`): curve.json grows with every epoch, tuned.safetensors is the network, and
metrics.json, written last, has its `evaluate` results on the test split.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ..data import Images
from ..networks.checkpoints import load_model
from ..system import files
from ..system.device import on_device
from ..system.monitor import Event, Monitor
from ..system.settings import AT_LEAST_ONE, SEED, Range, Value, setting
from ..system.texts import option_words
from ..training.evaluation import check_suits, evaluate, evaluate_parents
from ..training.files import check_data, check_unfinished, finetuned_network, settings_of
from ..training.loop import held_out_mask
from ..training.recipes import AUTO, RECIPES
from .execute import test_images
from .finished import Finished, read_finished
from .store import FINETUNING, FollowUp, Kind, read_json

CURVE, TUNED, METRICS = FINETUNING.growing, "tuned.safetensors", FINETUNING.last
RECIPE = RECIPES["finetune"]


@dataclass(frozen=True)
class FinetuneConfig(Value, FollowUp):
    """Settings that repeat a fine-tuning of a run's fused network with the paper's schedule."""

    kind: ClassVar[Kind] = FINETUNING

    epochs: int = setting(
        RECIPE["epochs"],
        "passes over the training images; the learning rate restarts after 10, 30, 70 and 150",
        AT_LEAST_ONE,
    )
    batch: int = setting(RECIPE["batch"], "batch size", AT_LEAST_ONE)
    learning_rate: float = setting(RECIPE["learning_rate"], "peak learning rate", Range(0, 1, without_low=True))
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        RECIPE["precision"], "of matrix products; auto: bfloat16 if it is faster"
    )
    augment: str = setting(
        AUTO,
        "augmentation of the images: auto (the usual one for the data set), none, or a list",
    )
    seed: int = setting(0, "determines the held-out images, the order of images and their augmentation", SEED)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "FinetuneConfig":
        """The inverse of `to_json`.

        Raises:
            ValueError: missing or invalid content.
        """
        try:
            return cls(**{entry.name: content[entry.name] for entry in fields(cls) if entry.name in content})
        except (TypeError, ValueError) as error:
            raise ValueError(f"these are not settings of a fine-tuning: {error}") from error

    def words(self) -> list[str]:
        """The options of `retrofit train --record` that differ from their defaults, without record and output."""
        return option_words(self)


@dataclass(frozen=True, eq=False)
class FinetunePlan:
    """A validated fine-tuning, before any training."""

    config: FinetuneConfig
    run: Finished
    images: Images
    """The whole training split of the run's data"""
    settings: dict[str, Any]
    """Arguments of `train`"""

    @property
    def rows(self) -> Tensor:
        """(n,) all row numbers."""
        return torch.arange(len(self.images))

    @property
    def held_out(self) -> Tensor:
        """(m,) held-out rows, which choose the epoch to keep."""
        draw = torch.Generator().manual_seed(self.config.seed)
        return held_out_mask(self.images.labels, self.settings["holdout"], draw).nonzero().flatten()


def read_run_to_tune(record: str | Path, base: str | Path = ".") -> tuple[Finished, Images]:
    """A finished run and its whole training split.

    Args:
        base: folder that file names in the run's config are relative to.
    Raises:
        ValueError: the run is not finished, or one of its files is missing or has changed.
    """
    run = read_finished(record, base)
    images = run.images("train")
    check_suits(run.fused, images)
    return run, images


def plan_finetuning(config: FinetuneConfig, run: Finished, images: Images) -> FinetunePlan:
    """The plan of a finished run's fine-tuning, see `read_run_to_tune`."""
    return FinetunePlan(config, run, images, settings_of("finetune", images, "", 1, config))


def finetune_run(
    plan: FinetunePlan,
    folder: str | Path,
    *,
    resume: bool = False,
    device: str = "auto",
    monitor: Monitor | None = None,
) -> dict[str, Any]:
    """Run a fine-tuning in its folder, and measure the network.

    Args:
        resume: continue after the last finished epoch, and keep what is finished.
    Returns:
        The content of metrics.json: `evaluate` results of the network on the test split; {} if there is none.
    Raises:
        ValueError: the folder holds another fine-tuning, or an unfinished one without `resume`; or as `train`.
        Cancelled: on the monitor's request; finished epochs are kept.
    """
    folder, monitor = Path(folder), monitor or Monitor()
    plan.config.check_same(folder, plan.run.folder)
    check_unfinished(folder / TUNED, resume)
    test = test_images(plan.run.config, required=False)
    check_data(plan.images, plan.rows, test, monitor)
    plan.config.save(folder, plan.run.folder)
    if resume and (folder / METRICS).exists() and (folder / TUNED).exists():
        return read_json(folder / METRICS)
    (folder / METRICS).unlink(missing_ok=True)  # rewritten at the end
    monitor.emit("phase", name="measuring the networks before")
    curve = (read_json(folder / CURVE) if resume else {}) or {
        "data": plan.images.name,
        "trained": len(plan.images) - len(plan.held_out),
        "held_out": len(plan.held_out),
        "epochs": plan.config.epochs,
        "networks": _measured(plan, device, monitor),
        "history": [],
        "seconds": 0.0,
    }
    watcher = _watcher(folder / CURVE, curve, monitor)
    monitor.emit("phase", name="fine-tuning")
    ways = {"size": plan.run.config.size, "seed": plan.config.seed, "device": device, "resume": resume}
    origin = f"fused.safetensors of {plan.run.folder.name}"
    tuned, _ = finetuned_network(
        folder / TUNED, plan.run.fused, plan.images, plan.settings, origin, monitor=watcher, **ways
    )
    monitor.emit("phase", name="measuring on the test images")
    metrics = {} if test is None else evaluate(on_device(tuned, device), test, monitor=monitor)
    files.write(folder / METRICS, json.dumps(metrics, indent=1))
    return metrics


def read_tuned(folder: str | Path) -> nn.Module:
    """The network of a finished fine-tuning.

    Raises:
        ValueError: missing, not finished, or damaged.
    """
    if not Path(folder).is_dir():
        raise ValueError(
            f"there is no fine-tuning {Path(folder).name} (any more). Choose another one, or run it again."
        )
    if not (Path(folder) / METRICS).exists():
        raise ValueError(f"the fine-tuning {Path(folder).name} is not finished. Finish it first: --resume.")
    return load_model(Path(folder) / TUNED)[0]


def _watcher(path: Path, curve: dict[str, Any], monitor: Monitor) -> Monitor:
    """A monitor that keeps each epoch in curve.json, which it writes at once, and reports progress."""
    before, start = float(curve["seconds"]), time.perf_counter()

    def write() -> None:
        curve["seconds"] = before + time.perf_counter() - start
        files.write(path, json.dumps(curve))

    def take(event: Event) -> None:
        monitor.emit(**event)
        if event["kind"] == "batch":
            steps = event["epochs"] * event["total"]
            done = (event["epoch"] - 1) * event["total"] + event["index"]
            monitor.emit("step", name="fine-tuning", index=done, total=steps)
        elif event["kind"] in ("history", "epoch"):
            new = {name: value for name, value in event.items() if name != "kind"}
            curve["history"] = event["entries"] if event["kind"] == "history" else [*curve["history"], new]
            write()

    def asked() -> bool:
        monitor.check()  # raises on a request to stop
        return False

    write()
    return Monitor(take, asked)


def _measured(plan: FinetunePlan, device: str, monitor: Monitor) -> dict[str, Any]:
    """`evaluate` results on the held-out images before the training, for parents, ensemble and the fused network."""
    rows = plan.held_out
    networks = evaluate_parents(plan.run.parents, plan.images, rows=rows, device=device, monitor=monitor)
    if len(plan.run.parents) == 1:
        del networks["ensemble"]
    networks["fused"] = evaluate(on_device(plan.run.fused, device), plan.images, rows=rows, monitor=monitor)
    return networks
