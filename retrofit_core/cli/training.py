"""retrofit train"""

from dataclasses import dataclass
from pathlib import Path

import typer

from ..system.settings import setting
from ..training.config import TrainConfig
from .application import command
from .checks import check_alone, check_folder, check_replaced
from .fields import Json, Overwrite, options_of, value_of
from .terminal import advised, networks_table, new_table, out, print_json, progress

#: Parameters of a fine-tuning; its record determines the others.
OF_FINETUNING = ("record", "out", "overwrite", "resume", "json", "device")
LOOP = ("epochs", "batch", "learning_rate", "precision", "augment", "seed")


@dataclass(frozen=True, kw_only=True)
class TrainRequest(Json, Overwrite):
    """Parameters of `retrofit train`, besides the training config."""

    resume: bool = setting(False, "Resume where the same command stopped.")
    record: Path | None = setting(
        None,
        "Instead, fine-tune the fused network of this finished run, on its whole training set, by the paper's schedule.",
    )
    out: Path | None = setting(
        None,
        "Folder for the checkpoints and splits.json. Default: parents; with --record, where the workbench looks for it and "
        "shows the curve as it grows (RECORD/finetunings/KEY). To stop a fine-tuning, create a file `cancel` there.",
    )


@command("train", *options_of(TrainConfig))
def train_command(context: typer.Context, request: TrainRequest) -> None:
    """Train parents on the parts of a split, ready to fuse; or fine-tune the fused network of a finished run (`--record`).

    A fine-tuning keeps the weights of the epoch that is best on held-out training images, or the original weights if none
    beats them.

    Example: `retrofit train --data digits --split sharded --parts 2 --out parents`

    Example: `retrofit train --record runs/3f2a --epochs 30`
    """
    if request.record is not None:
        check_alone(context, "--record determines the networks and the data", beside=(*OF_FINETUNING, *LOOP))
        return _finetune(request, request.record, value_of(context, TrainConfig))
    from ..runs.parents import train_parents
    from ..training.files import AGAIN

    config = value_of(context, TrainConfig)
    folder = request.out or Path("parents")
    check_folder(folder, "--out")
    with advised(AGAIN), progress(request.json) as monitor:
        parents = train_parents(config, folder, resume=request.resume, overwrite=request.overwrite, monitor=monitor)
    splits = config.splits(folder)
    if request.json:
        return print_json({"parents": parents, "splits": splits})
    title = f"{Path(config.data).name}, {config.split}"
    table = new_table("parent", "test accuracy %", "training images per class", title=title)
    for row in parents:
        percent = f"{row['accuracy']:.2f}" if "accuracy" in row else "- (no test split)"
        table.add_row(Path(row["model"]).name, percent, " ".join(map(str, row["class_counts"])))
    return out.print(table)


def _finetune(request: TrainRequest, record: Path, training: TrainConfig) -> None:
    """Fine-tune the fused network of a finished run, in a folder that shows the progress."""
    from ..networks.checkpoints import load_model
    from ..runs import read_run
    from ..runs.finetunings import (
        TUNED,
        FinetuneConfig,
        finetune_run,
        plan_finetuning,
        read_run_to_tune,
    )
    from ..training.files import AGAIN, own_settings

    config = FinetuneConfig(**own_settings(training), augment=training.augment, seed=training.seed)
    folder = request.out or record / config.kind.folder / config.key(record)
    check_folder(folder, "--out")
    config.check_same(folder, record)
    check_replaced([folder / TUNED], overwrite=request.overwrite or request.resume, other="keep it with --resume")
    config.save(folder, record)  # before anything can fail, so that the workbench knows the request
    with advised(AGAIN), progress(request.json, folder) as monitor:
        plan = plan_finetuning(config, *read_run_to_tune(record))
        after = finetune_run(plan, folder, resume=request.resume, device=training.device, monitor=monitor)
    best = load_model(folder / TUNED)[1]["best_epoch"]
    before = read_run(record).metrics.get("networks", {}).get("fused")
    networks = {name: facts for name, facts in (("before", before), ("after", after)) if facts}
    if request.json:
        accuracy = networks.get("after", {}).get("accuracy")
        return print_json({"out": str(folder / TUNED), "accuracy": accuracy, "best_epoch": best, "networks": networks})
    if networks:
        out.print(networks_table(networks))
    why = f"Its weights are those of epoch {best}."
    if not best:
        why = "No epoch was better on held-out images, so it has the original weights: try a lower --learning-rate."
    return out.print(f"The fine-tuned network of {record.name} is {folder / TUNED}. {why}", soft_wrap=True)
