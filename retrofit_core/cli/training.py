"""retrofit train | finetune"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..runs.config import RunConfig
from ..system.settings import COUNT, setting
from ..training.config import TrainConfig
from .application import command
from .checks import check_alone, check_checkpoints, check_folder, check_output, check_replaced, read_by
from .fields import READING, Json, Logits, Overwrite, Resume, argument, config_of, options_of, value_of, with_logits
from .terminal import advised, arch_words, networks_table, new_table, out, pixel_words, print_json, progress, say_next

if TYPE_CHECKING:
    from ..runs.finetunings import FinetuneConfig

#: Settings of both training and fine-tuning.
LOOP = ("epochs", "batch", "learning_rate", "precision", "augment", "seed")
#: Parameters that a record determines.
OF_RECORD = ("model", "data", "arch", "logits", "mean", "std", "size")
#: What was fine-tuned, the checkpoint, metrics of the networks before and after, and the best epoch.
FinetuneResult = tuple[str, Path, dict[str, dict[str, Any]], int]


@dataclass(frozen=True, kw_only=True)
class TrainRequest(Json, Logits, Overwrite, Resume):
    """Parameters of `retrofit train`, besides the training config."""

    only: int | None = setting(
        None, "Train only this parent, numbered from 0, for example to train each on another machine.", COUNT
    )
    out: Path = setting(Path("parents"), "Folder for the checkpoints and splits.json.")


@command("train", *options_of(TrainConfig))
def train_command(context: typer.Context, asked: TrainRequest) -> None:
    """Train parents on the parts of a split, ready to fuse.

    Example: `retrofit train --data digits --split sharded --parts 2 --out parents`
    """
    from ..training.files import AGAIN
    from ..training.parents import train_parents

    archs = context.params["arch"] or TrainConfig.arch
    config = value_of(context, TrainConfig, arch=tuple(with_logits(arch, asked.logits) or "" for arch in archs))
    check_folder(asked.out, "--out")
    with advised(AGAIN), progress(asked.json) as monitor:
        parents = train_parents(
            config, asked.out, only=asked.only, resume=asked.resume, overwrite=asked.overwrite, monitor=monitor
        )
    splits = config.splits(asked.out)
    if asked.json:
        return print_json({"parents": parents, "splits": splits})
    title = f"{Path(config.data).name}, {config.split}"
    table = new_table("parent", "test accuracy %", "training images per class", title=title)
    for row in parents:
        percent = f"{row['accuracy']:.2f}" if "accuracy" in row else "- (no test split)"
        table.add_row(Path(row["model"]).name, percent, " ".join(map(str, row["class_counts"])))
    out.print(table)
    words = ["--data", config.data, *pixel_words(config), "--splits", splits, "--out", "fused.safetensors"]
    words += arch_words(config.arch)
    return say_next("retrofit", "fuse", *config.files(asked.out), *words)


@dataclass(frozen=True, kw_only=True)
class FinetuneRequest(Json, Logits, Overwrite, Resume):
    """Parameters of `retrofit finetune`, besides those of training and of reading files."""

    model: Path | None = argument(None, "The checkpoint to fine-tune.")
    record: Path | None = setting(None, "Fine-tune the fused network of this finished run, on its whole training set.")
    out: Path | None = setting(
        None,
        "Checkpoint to write (.safetensors). With --record, a folder, by default where the workbench looks for it "
        "and shows the curve as it grows (RECORD/finetunings/KEY). To stop the work, create a file `cancel` there.",
    )


@command("finetune", *options_of(TrainConfig, *LOOP), *options_of(RunConfig, *READING))
def finetune_command(context: typer.Context, asked: FinetuneRequest) -> None:
    """Fine-tune a network with the paper's schedule: warm restarts, learning rate 3e-4, 200 epochs.

    The command writes the weights of the epoch that is best on held-out training images, or the original weights if
    none beats them.

    Example: `retrofit finetune fused.safetensors --data cifar10 --out tuned.safetensors`
    """
    if asked.record is not None:
        check_alone(context, "--record determines the networks and the data", without=OF_RECORD)
    elif asked.model is None or asked.out is None:
        raise ValueError("name a checkpoint and --out FILE.safetensors, or a finished run with --record FOLDER.")
    else:
        check_output(asked.out, None)
        _check_replaced(asked, asked.out, [asked.model, *read_by(context.params)])
        check_checkpoints([asked.model])
    from ..runs.finetunings import FinetuneConfig
    from ..training.files import chosen

    training = value_of(context, TrainConfig, arch=TrainConfig.arch)
    # Before any file is read.
    others = {"augment": training.augment, "seed": training.seed}
    config = FinetuneConfig(**chosen(training), **others)
    reading = config_of(context, models=(), augment=RunConfig.augment)  # the flag: of the training
    if asked.record is not None:
        name, file, networks, best = _finetune_record(asked, asked.record, config, training.device)
    else:
        assert asked.model is not None and asked.out is not None
        name, file, networks, best = _finetune_checkpoint(asked, asked.model, asked.out, config, reading)
    if asked.json:
        accuracy = networks.get("after", {}).get("accuracy")
        return print_json({"out": str(file), "accuracy": accuracy, "best_epoch": best, "networks": networks})
    if networks:
        out.print(networks_table(networks))
    if best == 0:
        out.print(
            f"No epoch was better than {name} on held-out training images, so {file} contains its original weights. "
            "Try a lower --learning-rate or --augment none."
        )
    else:
        out.print(f"Fine-tuned {name}, written to {file}.")
    return None


def _finetune_checkpoint(
    asked: FinetuneRequest, model: Path, file: Path, config: "FinetuneConfig", reading: RunConfig
) -> FinetuneResult:
    """Fine-tune a checkpoint and write another one."""
    import torch

    from ..data import has_split, load
    from ..networks.checkpoints import load_model, read_metadata
    from ..training.evaluation import evaluate
    from ..training.files import AGAIN, check_data, check_unfinished, finetuned, settings_of

    facts = read_metadata(model)
    pixels = [getattr(reading, name) or facts.get(name) for name in ("mean", "std", "size")]
    images = load(reading.data, "train", *pixels)
    test = load(reading.data, "test", *pixels) if has_split(reading.data, "test") else None
    network, metadata = load_model(model, reading.arch, like=images)
    architecture = metadata["architecture"]["architecture"]
    settings = settings_of("finetune", images, architecture, 1, config)
    check_unfinished(file, asked.resume)
    with advised(AGAIN), progress(asked.json) as monitor:
        check_data(images, torch.arange(len(images)), test, monitor)
        networks = {"before": evaluate(network, test)} if test else {}
        monitor.emit("phase", name=model.name)
        ways = {"size": pixels[2], "seed": config.seed, "device": reading.device, "resume": asked.resume}
        network, best = finetuned(file, network, images, settings, model.name, monitor=monitor, **ways)
        networks |= {"after": evaluate(network, test)} if test else {}
    return model.name, file, networks, best


def _finetune_record(asked: FinetuneRequest, record: Path, config: "FinetuneConfig", device: str) -> FinetuneResult:
    """Fine-tune the fused network of a finished run, in a folder that shows the progress."""
    from ..networks.checkpoints import load_model
    from ..runs import read_run
    from ..runs.finetunings import (
        TUNED,
        finetune_run,
        plan_finetuning,
        read_run_to_tune,
    )
    from ..training.files import AGAIN

    folder = asked.out or record / config.kind.folder / config.key(record)
    if folder.suffix == ".safetensors":
        raise ValueError(
            f"--out {folder}: with --record, the fine-tuning is saved in a folder, with its network as {TUNED}. Name "
            "a folder, or omit --out."
        )
    check_folder(folder, "--out")
    config.check_same(folder, record)
    _check_replaced(asked, folder / TUNED)
    config.save(folder, record)  # before anything can fail, so that the workbench knows the request
    with advised(AGAIN), progress(asked.json, folder) as monitor:
        plan = plan_finetuning(config, *read_run_to_tune(record))
        after = finetune_run(plan, folder, resume=asked.resume, device=device, monitor=monitor)
    best = load_model(folder / TUNED)[1]["best_epoch"]
    before = read_run(record).metrics.get("networks", {}).get("fused")
    networks = {name: facts for name, facts in (("before", before), ("after", after)) if facts}
    return f"the fused network of {record.name}", folder / TUNED, networks, best


def _check_replaced(asked: FinetuneRequest, file: Path, read: Sequence[str | Path] = ()) -> None:
    """Refuse to replace a file unless asked to; a finished one is kept with --resume."""
    kept = asked.overwrite or asked.resume
    check_replaced([file], overwrite=kept, read=read, other="keep it with --resume")
