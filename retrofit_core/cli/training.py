"""retrofit train"""

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from ..architectures import build, parse
from ..checkpoints import save_model
from ..data import Images, load
from ..data.splits import SPLITS, write_splits
from ..evaluation import evaluate
from ..registry import find
from ..training import train
from .terminal import Data, Device, Json, Mean, Seed, Std, command, floats, new_table, out, print_json, progress


@command("train")
def train_command(
    data: Data = "digits",
    arch: Annotated[str, typer.Option(help="cnn, mlp, a preset such as vgg11-half, or a JSON spec.")] = "cnn",
    split: Annotated[str, typer.Option(help=f"Who gets which rows: {', '.join(SPLITS)}.")] = "sharded",
    parts: Annotated[int, typer.Option(min=1, help="Number of parents.")] = 2,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over each parent's rows.")] = 20,
    seed: Seed = 0,
    out_folder: Annotated[Path, typer.Option("--out", help="Folder for the checkpoints and splits.json.")] = Path(
        "parents"
    ),
    mean: Mean = None,
    std: Std = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train parents on the parts of a split, ready to be fused.

    Example: `retrofit train --data digits --split sharded --parts 2 --out parents`
    """
    images = load(data, "train", floats(mean), floats(std))
    test = load(data, "test", floats(mean), floats(std))
    rows = find(SPLITS, split, "split")(images.labels, parts, seed=seed)
    files = [out_folder / f"parent-{index}.safetensors" for index in range(parts)]
    found = []
    with progress(as_json) as monitor:
        for index, (file, part) in enumerate(zip(files, rows, strict=True)):
            model = build(_fitting(parse(arch), images), seed=seed * 1000 + index)
            train(model, images, part, epochs=epochs, seed=seed * 1000 + index, monitor=monitor, device=device)
            measured = evaluate(model, test)
            counts = torch.bincount(images.labels[part], minlength=len(images.classes)).tolist()
            recipe = {"epochs": epochs, "seed": seed, "split": split, "part": index, "parts": parts}
            save_model(model, file, classes=list(images.classes), mean=list(images.mean), std=list(images.std),
                       data=images.name, class_counts=counts, recipe=recipe)  # fmt: skip
            found.append({"model": str(file), "class_counts": counts, **measured})
    write_splits(out_folder / "splits.json", rows, images.labels, model_files=files,
                 split=f"{split}, {parts} parts, seed {seed}", training_set=f"{images.name} train")  # fmt: skip
    if as_json:
        return print_json({"parents": found, "splits": str(out_folder / "splits.json")})
    table = new_table("parent", "test accuracy %", "training images per class", title=f"{images.name}, {split}")
    for row in found:
        table.add_row(Path(row["model"]).name, f"{row['accuracy']:.2f}", " ".join(map(str, row["class_counts"])))
    out.print(table)
    out.print(f"Next: retrofit fuse {' '.join(map(str, files))} --data {data} --splits {out_folder / 'splits.json'} "
              "--importance conductance --out fused.safetensors", soft_wrap=True)  # fmt: skip
    return None


def _fitting(spec: dict[str, Any], images: Images) -> dict[str, Any]:
    """The spec with sizes that the data decide filled in, where it leaves them open."""
    channels, height, _ = images.shape
    if spec["architecture"] == "mlp":
        return {"sizes": [images.shape[0] * images.shape[1] * images.shape[2], 256, len(images.classes)], **spec}
    return {"channels": channels, "size": height, "classes": len(images.classes), **spec}
