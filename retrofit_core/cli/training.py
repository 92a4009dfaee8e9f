"""retrofit train | finetune"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..runs.config import RunConfig
from ..system.monitor import Cancelled
from ..training.config import TrainConfig
from .fields import READING, config_of, options_of, value_of
from .progress import progress
from .terminal import (
    INTERRUPTED,
    Json,
    Logits,
    arch_words,
    check_alone_with_record,
    check_checkpoints,
    check_folder,
    check_output,
    command,
    err,
    networks_table,
    new_table,
    out,
    pixel_words,
    print_json,
    shell,
    with_logits,
)

if TYPE_CHECKING:
    from ..runs.finetunings import FinetuneConfig

#: What training and fine-tuning have in common.
LOOP = ("epochs", "batch", "learning_rate", "precision", "augment", "seed")
Resume = Annotated[bool, typer.Option("--resume", help="Go on where the same command was stopped.")]


@command("train", *options_of(TrainConfig))
def train_command(
    context: typer.Context,
    only: Annotated[int | None, typer.Option(min=0, help="Train this parent alone (from 0); others elsewhere.")] = None,
    out_folder: Annotated[Path, typer.Option("--out", help="Folder for the checkpoints and splits.json.")] = Path(
        "parents"
    ),
    resume: Resume = False,
    logits: Logits = None,
    as_json: Json = False,
) -> None:
    """Train parents on the parts of a split, ready to be fused.

    Example: `retrofit train --data digits --split sharded --parts 2 --out parents`
    """
    from ..training.parents import train_parents

    archs = context.params["arch"] or TrainConfig.arch
    config = value_of(context, TrainConfig, arch=tuple(with_logits(arch, logits) or "" for arch in archs))
    check_folder(out_folder, "--out")
    with progress(as_json) as monitor, _interruption_explained():
        parents = train_parents(config, out_folder, only=only, resume=resume, monitor=monitor)
    splits = config.splits(out_folder)
    if as_json:
        return print_json({"parents": parents, "splits": splits})
    table = new_table(
        "parent", "test accuracy %", "training images per class", title=f"{Path(config.data).name}, {config.split}"
    )
    for row in parents:
        percent = f"{row['accuracy']:.2f}" if "accuracy" in row else "- (no test split)"
        table.add_row(Path(row["model"]).name, percent, " ".join(map(str, row["class_counts"])))
    out.print(table)
    next_words = ["retrofit", "fuse", *config.files(out_folder), "--data", config.data, *pixel_words(config)]
    next_words += ["--splits", splits, "--importance", "conductance", "--out", "fused.safetensors"]
    next_words += arch_words(config.arch)
    out.print("Next:", shell(*next_words), soft_wrap=True, markup=False, highlight=False)
    return None


@command("finetune", *options_of(TrainConfig, *LOOP), *options_of(RunConfig, *READING))
def finetune_command(
    context: typer.Context,
    model: Annotated[Path | None, typer.Argument(help="The checkpoint to train on.")] = None,
    record: Annotated[
        Path | None, typer.Option(help="A finished run: its fused network, on its whole training set.")
    ] = None,
    out_path: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Checkpoint to write (.safetensors). With --record a folder, by default where the workbench looks for it "
            "(RECORD/finetunings/KEY); it shows the curve as it grows, and a file `cancel` there stops the work.",
        ),
    ] = None,
    resume: Resume = False,
    logits: Logits = None,
    as_json: Json = False,
) -> None:
    """Train a network on with the paper's schedule: warm restarts, learning rate 3e-4, 200 epochs.

    Of the epochs and the network as it came, the one that is best on held-out training images is written.

    Example: `retrofit finetune fused.safetensors --data cifar10 --out tuned.safetensors`
    """
    if record is not None:
        check_alone_with_record(context, ("model", "data", "arch", "logits", "weights", "mean", "std", "size"))
    elif model is None or out_path is None:
        raise ValueError("name a checkpoint and --out FILE.safetensors, or a finished run with --record FOLDER.")
    else:
        check_output(out_path, None)
        check_checkpoints([model])
    import torch

    from ..data import has_split, load
    from ..networks.checkpoints import load_model, read_metadata
    from ..runs.finetunings import FinetuneConfig
    from ..training.evaluation import evaluate
    from ..training.files import check_data, check_unfinished, facts_of, settings_of, trained
    from ..training.loop import check_settings
    from ..training.recipes import augmentation
    from ..training.state import digest

    training, reading = value_of(context, TrainConfig, arch=TrainConfig.arch), config_of(context, models=())
    chosen = {name: getattr(training, name) for name in ("epochs", "batch", "learning_rate", "precision")}
    given = {name: value for name, value in chosen.items() if value is not None}
    if record is not None:
        config = FinetuneConfig(**given, augment=training.augment, seed=training.seed)
        return _finetune_record(record, config, out_path, resume, training.device, as_json)
    assert model is not None and out_path is not None
    # Before any file is read.
    check_settings(given)
    if training.augment != TrainConfig.augment:
        augmentation(training.augment)
    facts = read_metadata(model)
    pixels = [getattr(reading, name) or facts.get(name) for name in ("mean", "std", "size")]
    images = load(reading.data, "train", *pixels)
    test = load(reading.data, "test", *pixels) if has_split(reading.data, "test") else None
    network, metadata = load_model(model, reading.arch, like=images, weights=reading.weights)
    spec = metadata["architecture"]
    settings = settings_of("finetune", images, spec["architecture"], 1, chosen, training.augment)
    check_unfinished(out_path, resume)
    origin = {"from": model.name, "from_weights": digest(network.state_dict())}
    rows = torch.arange(len(images))
    facts = facts_of(images, rows, {"name": "finetune", **settings, "seed": training.seed, **origin}, pixels[2])
    with progress(as_json) as monitor, _interruption_explained():
        check_data(images, rows, test, monitor)
        networks = {"before": evaluate(network, test)} if test else {}
        monitor.emit("phase", name=model.name)
        run = {**settings, "seed": training.seed, "device": training.device, "monitor": monitor}
        network, best = trained(out_path, network, images, rows, run, facts, resume)
        networks |= {"after": evaluate(network, test)} if test else {}
    return _say_tuned(model.name, out_path, networks, best, as_json)


def _finetune_record(
    record: Path, config: "FinetuneConfig", out_folder: Path | None, resume: bool, device: str, as_json: bool
) -> None:
    """Fine-tune the fused network of a finished run, in a folder that shows how far it is."""
    from ..networks.checkpoints import load_model
    from ..runs import read_run
    from ..runs.finetunings import TUNED, finetune_run, plan_finetuning, read_run_to_tune
    from ..runs.store import noted

    folder = out_folder or record / config.kind.folder / config.key(record)
    if folder.suffix == ".safetensors":
        raise ValueError(
            f"--out {folder}: a run's fine-tuning is kept in a folder, with its network as {TUNED}. Name a folder, or omit --out."
        )
    check_folder(folder, "--out")
    config.check_same(folder, record)
    config.save(folder, record)  # before anything can fail: whoever looks on knows what was asked for
    with progress(as_json) as bar, _interruption_explained(), noted(folder, bar) as monitor:
        plan = plan_finetuning(config, *read_run_to_tune(record))
        after = finetune_run(plan, folder, resume=resume, device=device, monitor=monitor)
    best = load_model(folder / TUNED)[1].get("best_epoch")
    before = read_run(record).metrics.get("networks", {}).get("fused")
    networks = {"before": before, "after": after}
    measured = {name: network for name, network in networks.items() if network}
    _say_tuned(f"the fused network of {record.name}", folder / TUNED, measured, best, as_json)


def _say_tuned(name: str, file: Path, networks: dict[str, Any], best: int | None, as_json: bool) -> None:
    if as_json:
        accuracy = networks.get("after", {}).get("accuracy")
        return print_json({"out": str(file), "accuracy": accuracy, "best_epoch": best, "networks": networks})
    if networks:
        out.print(networks_table(networks))
    if best == 0:
        out.print(
            f"No epoch was better than {name} on held-out training images, so {file} holds its weights as they "
            "were. Try a lower --learning-rate or --augment none."
        )
    else:
        out.print(f"Fine-tuned {name}, written to {file}.")
    return None


@contextmanager
def _interruption_explained() -> Iterator[None]:
    """If a training is interrupted, print which checkpoint is not written yet and how to go on."""
    try:
        yield
    except (KeyboardInterrupt, Cancelled) as stopped:
        notes = getattr(stopped, "__notes__", [])
        if not notes:  # not in a training
            raise
        from ..training.files import AGAIN

        err.print("Interrupted;", *notes, AGAIN, highlight=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None
