"""retrofit train | finetune"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor, nn

from ..architectures import build, fitted, parse
from ..checkpoints import load_model, save_model
from ..data import Images, load
from ..data.splits import SPLITS, read_splits, write_splits
from ..evaluation import evaluate
from ..monitor import Cancelled, Event, Monitor
from ..registry import find
from ..training import RECIPES, recipe, train
from ..training.state import compare, digest
from .terminal import (
    INTERRUPTED,
    Arch,
    Data,
    Device,
    Json,
    Mean,
    Seed,
    Size,
    Std,
    check_output,
    command,
    err,
    floats,
    networks_table,
    new_table,
    out,
    print_json,
)

UNFINISHED = "unfinished"  # folder beside the checkpoints, for the states of trainings that are not done
AGAIN = "Run the same command with --resume to go on after the last finished epoch."

Epochs = Annotated[int | None, typer.Option(min=1, help="Passes over the rows. Default: the recipe's.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Images a step. Default: the recipe's.")]
Rate = Annotated[float | None, typer.Option(help="Highest learning rate. Default: the recipe's.")]
Precision = Annotated[
    str | None, typer.Option(help="float32, bfloat16, or auto: bfloat16 where it is faster. Default: the recipe's.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where the same command was stopped.")]


@command("train")
def train_command(
    data: Data = "digits",
    arch: Annotated[str, typer.Option(help="cnn, mlp, a preset such as vgg11-half, or a JSON spec.")] = "cnn",
    split: Annotated[str, typer.Option(help=f"Who gets which rows: {', '.join(SPLITS)}.")] = "sharded",
    parts: Annotated[int, typer.Option(min=1, help="Number of parents.")] = 2,
    only: Annotated[int | None, typer.Option(min=0, help="Train this parent alone (from 0); others elsewhere.")] = None,
    recipe_: Annotated[str, typer.Option("--recipe", help=f"{', '.join(RECIPES)}; small has no augmentation, paper has "
                                         "the paper's epochs for the number of parts.")] = "small",
    epochs: Epochs = None,
    batch: Batch = None,
    learning_rate: Rate = None,
    precision: Precision = None,
    seed: Seed = 0,
    out_folder: Annotated[Path, typer.Option("--out", help="Folder for the checkpoints and splits.json.")] = Path(
        "parents"
    ),
    resume: Resume = False,
    mean: Mean = None,
    std: Std = None,
    size: Size = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:  # fmt: skip
    """Train parents on the parts of a split, ready to be fused.

    Example: `retrofit train --data digits --split sharded --parts 2 --out parents`
    """
    if only is not None and only >= parts:
        raise ValueError(f"--only {only}: a split of {parts} parts has the parents 0 to {parts - 1}.")
    images, test = (load(data, name, floats(mean), floats(std), size) for name in ("train", "test"))
    rows = find(SPLITS, split, "split")(images.labels, parts, seed=seed)
    files = [out_folder / f"parent-{index}.safetensors" for index in range(parts)]
    wanted = range(parts) if only is None else [only]
    spec = fitted(parse(arch), images.shape, len(images.classes))
    given = {"epochs": epochs, "batch": batch, "learning_rate": learning_rate, "precision": precision}
    settings = _settings(recipe_, images, spec["architecture"], parts, given)
    for index in wanted:
        _check_unfinished(files[index], resume)
    _make_folder(out_folder)
    splits = out_folder / "splits.json"
    if splits.exists() and (resume or only is not None):
        _check_same_split(splits, files, rows, len(images))
    # Before the training: whoever stops it, or trains the parents on several machines, has it too.
    write_splits(splits, rows, images.labels, model_files=files,
                 split=f"{split}, {parts} parts, seed {seed}", training_set=f"{images.name} train")  # fmt: skip
    found = []
    with _bar(as_json) as monitor:
        for index in wanted:
            recipe_facts = {"name": recipe_, **settings, "seed": seed, "split": split, "part": index, "parts": parts}
            facts = _facts(images, rows[index], recipe_facts, size, file=splits.name)
            monitor.emit("phase", name=f"parent {index} of {parts}")
            run = {**settings, "seed": seed * 1000 + index, "device": device, "monitor": monitor}
            model = _trained(
                files[index], build(spec, seed=seed * 1000 + index), images, rows[index], run, facts, resume
            )
            found.append({"model": str(files[index]), "class_counts": facts["class_counts"], **evaluate(model, test)})
    if as_json:
        return print_json({"parents": found, "splits": str(splits)})
    table = new_table("parent", "test accuracy %", "training images per class", title=f"{images.name}, {split}")
    for row in found:
        table.add_row(Path(row["model"]).name, f"{row['accuracy']:.2f}", " ".join(map(str, row["class_counts"])))
    out.print(table)
    out.print(f"Next: retrofit fuse {' '.join(map(str, files))} --data {data} --splits {splits} "
              "--importance conductance --out fused.safetensors", soft_wrap=True)  # fmt: skip
    return None


@command("finetune")
def finetune_command(
    model: Annotated[Path, typer.Argument(help="The checkpoint to train on.")],
    out_file: Annotated[Path, typer.Option("--out", help="Checkpoint to write (.safetensors).")],
    data: Data = "digits",
    epochs: Epochs = None,
    batch: Batch = None,
    learning_rate: Rate = None,
    precision: Precision = None,
    seed: Seed = 0,
    resume: Resume = False,
    arch: Arch = None,
    mean: Mean = None,
    std: Std = None,
    size: Size = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train a network on with the paper's schedule: warm restarts, learning rate 3e-4, 200 epochs.

    Example: `retrofit finetune fused.safetensors --data cifar10 --out tuned.safetensors`
    """
    check_output(out_file, None)
    network, metadata = load_model(model, arch)
    constants = floats(mean) or metadata.get("mean"), floats(std) or metadata.get("std")
    size = size or metadata.get("size")
    images, test = (load(data, name, *constants, size) for name in ("train", "test"))
    given = {"epochs": epochs, "batch": batch, "learning_rate": learning_rate, "precision": precision}
    spec = metadata["architecture"]
    settings = _settings("finetune", images, spec["architecture"], 1, given)
    _check_unfinished(out_file, resume)
    origin = {"from": model.name, "from_weights": digest(network.state_dict())}
    rows = torch.arange(len(images))
    facts = _facts(images, rows, {"name": "finetune", **settings, "seed": seed, **origin}, size)
    with _bar(as_json) as monitor:
        found = {"before": evaluate(network, test)}
        monitor.emit("phase", name=model.name)
        run = {**settings, "seed": seed, "device": device, "monitor": monitor}
        network = _trained(out_file, network, images, rows, run, facts, resume)
        found["after"] = evaluate(network, test)
    if as_json:
        return print_json({"out": str(out_file), "accuracy": found["after"]["accuracy"], "networks": found})
    out.print(networks_table({"before": found["before"], "after": found["after"]}))
    out.print(f"Fine-tuned {model.name}, written to {out_file}.")
    return None


def _settings(
    name: str, images: Images, architecture: str, parts: int, given: dict[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """The recipe's arguments of `train`, every one of them, with what was given on the command line in their place."""
    known = {key: entry.default for key, entry in inspect.signature(train).parameters.items()}
    left_out = ("model", "images", "rows", "seed", "state", "monitor", "device", "budget")
    defaults = {key: value for key, value in known.items() if key not in left_out}
    chosen = recipe(name, images.name, images.shape[1], architecture, parts)
    return {**defaults, **chosen, **{key: value for key, value in given.items() if value is not None}}


def _facts(images: Images, rows: Tensor, recipe: dict[str, Any], size: int | None, **files: str) -> dict[str, Any]:
    """What a checkpoint tells of its training; the list of rows itself is in the splits file."""
    return {
        "classes": list(images.classes), "mean": list(images.mean), "std": list(images.std), "data": images.name,
        "class_counts": torch.bincount(images.labels[rows], minlength=len(images.classes)).tolist(),
        "recipe": recipe, "rows": {"count": len(rows), "digest": digest({"rows": rows}), **files},
        **({"size": size} if size else {}),
    }  # fmt: skip


def _trained(
    file: Path, model: nn.Module, images: Images, rows: Tensor, run: dict[str, Any], facts: dict[str, Any], resume: bool
) -> nn.Module:
    """The model after training, written as a checkpoint; until it is done, its state lies in a folder beside it."""
    state = _state_of(file)
    if resume and file.exists() and not state.exists():
        finished, found = load_model(file)
        stored = {name: found.get(name) for name in facts if name != "recipe"}
        told = found.get("recipe")
        told = told if isinstance(told, dict) else {}
        wanted = {"architecture": getattr(model, "spec", None), **facts, **facts["recipe"]}
        del wanted["recipe"]
        advice = f"Remove {file} to train it again."
        compare({"architecture": found["architecture"], **stored, **told}, wanted, f"{file} was trained", advice)
        return finished
    try:
        history = train(model, images, rows, state=state, **run)
    except (KeyboardInterrupt, Cancelled):
        err.print(f"Interrupted; {file.name} is not written yet. {AGAIN}", highlight=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None
    accuracies = [entry["accuracy"] for entry in history if entry["accuracy"] is not None]
    save_model(model, file, **facts, validation_accuracy=max(accuracies, default=None))
    state.unlink(missing_ok=True)
    with suppress(OSError):  # the states of other parents are in it
        state.parent.rmdir()
    return model


def _state_of(file: Path) -> Path:
    return file.parent / UNFINISHED / file.name


def _check_unfinished(file: Path, resume: bool) -> None:
    """Refuse to throw away hours of work, or to begin anew where somebody wants to go on."""
    state = _state_of(file)
    if state.exists() and not resume:
        raise ValueError(f"{state} is from a training that was stopped. {AGAIN} To begin anew, remove that file.")


def _check_same_split(path: Path, files: list[Path], rows: list[Tensor], n_rows: int) -> None:
    """Refuse to mix parents of two splits in one folder."""
    found = read_splits(path, files, n_rows)
    if not all(torch.equal(left, right) for left, right in zip(found, rows, strict=True)):
        raise ValueError(
            f"{path} holds another split than this command's (data, --split, --parts and --seed decide it): repeat the "
            "command that it was made with, or take another --out folder."
        )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out {folder}: no such folder can be made: {error.strerror}.") from error


@contextmanager
def _bar(quiet: bool) -> Iterator[Monitor]:
    """A bar on standard error: who is trained, epoch, loss, accuracy on held-out images, time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}"), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bar:
        yield Monitor(_shower(bar))


def _shower(bar: Progress) -> Callable[[Event], None]:
    task = bar.add_task("starting", total=None, detail="")
    measured = ""

    def show(event: Event) -> None:
        nonlocal task, measured
        if event["kind"] == "phase":  # a task of its own, so that the time left starts afresh
            bar.remove_task(task)
            task, measured = bar.add_task(event["name"], total=None, detail=""), ""
        elif event["kind"] == "epoch":
            accuracy = "" if event["accuracy"] is None else f", held out {event['accuracy']:.2f} %"
            measured = f", loss {event['loss']:.4g}{accuracy}"
        elif event["kind"] == "batch":
            done = event["epoch"] - 1 + event["index"] / event["total"]
            detail = f"epoch {event['epoch']}/{event['epochs']}{measured}"
            bar.update(task, completed=done, total=event["epochs"], detail=detail)

    return show
