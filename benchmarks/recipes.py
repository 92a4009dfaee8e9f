"""Why parents are weaker than the paper's: its training with one change at a time, on CIFAR-10.

    python benchmarks/recipes.py --data DATA --out OUT --work WORK --seconds 500            half-width VGG11s, 30 epochs
    python benchmarks/recipes.py ... --full "without CutMix" --keep OUT                     as wide and as long as the paper

Of each pair: accuracy over all classes and over each parent's own, of the ensemble and of two fusions, and the share of
each layer's channels that ever answer on 1,000 test images. A call continues after the last pair that it finds in --out,
and after the last epoch that it finds in --work.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from gpu_files import halve
from machine import facts
from torch import Tensor, nn

from retrofit_core import METHODS, evaluate
from retrofit_core.data import VARIABLE, Images, load
from retrofit_core.data.sampling import balanced
from retrofit_core.data.splits import SPLITS, write_splits
from retrofit_core.networks.architectures import build, fitted, parse
from retrofit_core.networks.checkpoints import load_model, save_model
from retrofit_core.system import device as devices
from retrofit_core.system.files import write
from retrofit_core.system.monitor import Cancelled, Monitor
from retrofit_core.training import recipe, train
from retrofit_core.training.evaluation import evaluate_parents
from retrofit_core.training.files import facts_of

#: One change each of the recipe "paper". "start" and "norm" are no arguments of `train`.
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "without CutMix": {"cutmix": False},
    "without AutoAugment": {"policy": None},
    "without both": {"cutmix": False, "policy": None},
    "without label smoothing": {"label_smoothing": 0.0},
    "without weight decay": {"weight_decay": 0.0},
    "without warm-up": {"warmup": 0.0},
    "a third of the rate": {"learning_rate": 3e-4},
    "AdamW, decay 0.01": {"optimizer": "adamw", "weight_decay": 1e-2},
    "float32": {"precision": "float32"},
    "He's initial weights": {"start": "he"},
    "BatchNorm": {"norm": True},
}
#: Splits of CIFAR-10 in two, and their seeds.
DRAWS = (("sharded", 0), ("dirichlet", 0), ("sharded", 1), ("dirichlet", 1))
ANSWERING = 1000  # images
SAMPLES = 400  # of parent 0, for the fusions


def main() -> None:
    """Measure pair after pair until the time is up."""
    began = time.time()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="the record (a JSON file)")
    parser.add_argument("--work", type=Path, required=True, help="folder for states of trainings")
    parser.add_argument("--full", help="train VGG11s of full width for 200 epochs with this change only")
    parser.add_argument("--keep", type=Path, help="folder for the parents, in half precision")
    parser.add_argument("--draws", type=int, nargs="+", default=[0, 1, 2, 3], help="places in the list of splits")
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--arch")
    options = parser.parse_args()
    os.environ[VARIABLE] = str(options.data.absolute())
    options.work.mkdir(parents=True, exist_ok=True)
    images, test, device = load("cifar10"), load("cifar10", "test"), devices.pick()
    arch = options.arch or ("vgg11" if options.full else "vgg11-half")
    epochs = options.epochs or (200 if options.full else 30)
    rows = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    monitor = Monitor(cancelled=lambda: time.time() > began + options.seconds)
    for split, seed in (DRAWS[place] for place in options.draws):
        for name in [options.full] if options.full else CHANGES:
            title = {"change": name, "split": split, "seed": seed, "network": arch, "epochs": epochs}
            if any({**row, **title} == row for row in rows):
                continue
            try:
                row = pair(images, test, device, title, options.work, options.keep, monitor)
            except Cancelled:
                return
            rows.append({**title, **row})
            write(options.out, json.dumps({"machine": facts(), "rows": rows}, indent=1))
            print(", ".join(f"{key} {value}" for key, value in rows[-1].items() if key != "answering"), flush=True)


def pair(
    images: Images,
    test: Images,
    device: torch.device,
    title: dict[str, Any],
    work: Path,
    keep: Path | None,
    monitor: Monitor,
) -> dict[str, Any]:
    """Train two parents and measure them; those of an earlier call go on where they were stopped."""
    start, change = time.perf_counter(), dict(CHANGES[title["change"]])
    parts = SPLITS[title["split"]](images.labels, 2, seed=title["seed"])
    spec = fitted(parse(title["network"]), images.shape, len(images.classes))
    spec |= {"batch_norm": True} if change.pop("norm", False) else {}
    he = change.pop("start", None) == "he"
    settings = {**recipe("paper", "cifar10", architecture="vgg", parts=2), **change, "epochs": title["epochs"]}
    models, key = [], f"{title['split']}-{title['seed']}-{title['network']}-{list(CHANGES).index(title['change'])}"
    for index, rows in enumerate(parts):
        seed = title["seed"] * 1000 + index
        model = build(spec, seed=seed).to(device)
        if he:
            torch.manual_seed(seed)
            model.apply(_he)
        state = work / f"{key}-{index}.state"
        train(model, images, rows, **settings, seed=seed, state=state, monitor=monitor)
        if keep:  # what is measured is what can be handed on
            path = keep / f"{key}-{index}.safetensors"
            save_model(model, path, architecture=spec, **facts_of(images, rows, settings, None, file=path.name))
            halve(path)
            model = load_model(path)[0].to(device)
        models.append(model)
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        files = [keep / f"{key}-{index}.safetensors" for index in range(2)]
        write_splits(keep / f"{key}-splits.json", parts, images.labels, model_files=files, training_set="cifar10 train")
    seconds = time.perf_counter() - start
    return {**measured(models, images, test, parts, device), "seconds of training": round(seconds, 1)}


def measured(
    models: list[nn.Module], images: Images, test: Images, parts: list[Tensor], device: torch.device
) -> dict[str, Any]:
    """Accuracies of parents, ensemble and fusions, and what part of each layer answers."""
    of_all = evaluate_parents(models, test, device=device)
    own = []
    for index, rows in enumerate(parts):
        classes = images.labels[rows].unique()
        per_class = of_all[f"parent {index}"]["per_class"]
        own.append(sum(per_class[int(label)] for label in classes) / len(classes))
    x = images.inputs(balanced(images.labels, SAMPLES, rows=parts[0]))
    fused = {
        method: evaluate(METHODS[method](models, (x,), device=device).model.to(device), test)["accuracy"]
        for method in ("KF-Linear", "HF-Linear")
    }
    shown = test.inputs(range(ANSWERING)).to(device)
    return {
        "parents": [of_all[f"parent {index}"]["accuracy"] for index in range(2)],
        "own classes": [round(each, 2) for each in own],
        "ensemble": of_all["ensemble"]["accuracy"],
        "ensemble, per class": of_all["ensemble"]["per_class"],
        **fused,
        "answering": [answering(model, shown) for model in models],
    }


@torch.no_grad()
def answering(model: nn.Module, shown: Tensor) -> list[list[int]]:
    """For each ReLU: channels that are positive anywhere, and all channels."""
    counts: list[list[int]] = []

    def note(_: nn.Module, __: Any, values: Tensor) -> None:
        alive = (values > 0).any(0).flatten(1).any(1)
        counts.append([int(alive.sum()), len(alive)])

    hooks = [part.register_forward_hook(note) for part in model.modules() if isinstance(part, nn.ReLU)]
    model.eval()(shown)
    for hook in hooks:
        hook.remove()
    return counts


def _he(part: nn.Module) -> None:
    """He et al. 2015 with fan-out, as torchvision starts its VGGs."""
    if isinstance(part, nn.Conv2d):
        nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
    elif isinstance(part, nn.Linear):
        nn.init.normal_(part.weight, 0, 0.01)
    if isinstance(part, nn.Conv2d | nn.Linear) and part.bias is not None:
        nn.init.zeros_(part.bias)


if __name__ == "__main__":
    main()
