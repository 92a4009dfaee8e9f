"""The frontier: accuracy over the images and the processor seconds that a fusion gets.

    python benchmarks/frontier.py                 every row that the record lacks, cheap ones first
    python benchmarks/frontier.py --networks "ResNet-18 of digits, sharded" --ways KF-Linear --seeds 0 1 2
    python benchmarks/frontier.py --table         the record as tables

Seconds are those of one thread, without reading files and evaluation; those of conductance, on 400 training images of each
parent, count. KD stops after as many images as keep a run below eight minutes, so from many images it has fewer epochs. The
ResNet-18s are those of the table `beyond` at the scale `evening`, trained once into build/frontier.
"""

import argparse
import dataclasses
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from machine import read, shared_folder, write
from pairs import PAIRS, config

from retrofit_core import METHODS, centred, ensemble, evaluate
from retrofit_core.data import Images, load
from retrofit_core.experiments.scales import SCALES, training
from retrofit_core.runs import RunConfig, read_inputs
from retrofit_core.training.parents import train_parents

RECORD = "frontier"
DIGITS, HALF, FULL = "ResNet-18 of digits, sharded", "CIFAR-10 VGG11 half width, sharded", "CIFAR-10 VGG11, non-IID"
OF_ONE, OF_ALL = "parent 0", "all parents"
#: Network -> numbers of images of parent 0, and of all parents; of digits the last are all that there are.
SAMPLES = {
    DIGITS: {OF_ONE: (100, 400, 721), OF_ALL: (100, 400, 1438)},
    HALF: {OF_ONE: (400, 1000, 5000), OF_ALL: (400, 1000, 5000)},
    FULL: {OF_ONE: (400, 1000), OF_ALL: (400, 1000)},
}
UNLABELLED, LINEAR, CENTRED = "KF-Linear, no labels", "KF-Linear", "KF-Linear, centred"
TRAINED, BOTH, KD = "KF-Linear-KD", "KF-Linear-KD, centred", "KD"
#: Way -> method, importance, options, cheap ones first.
WAYS: dict[str, tuple[str, str, dict[str, Any]]] = {
    UNLABELLED: ("KF-Linear", "uniform", {}),
    LINEAR: ("KF-Linear", "conductance", {}),
    CENTRED: ("KF-Linear", "conductance", {"centre": True}),
    TRAINED: ("KF-Linear-KD", "conductance", {}),
    BOTH: ("KF-Linear-KD", "conductance", {"centre": True}),
    KD: ("KD", "uniform", {}),
}
#: The paper's epochs of KD, and the most images that it sees over all of them.
EPOCHS, KD_IMAGES = 100, {DIGITS: 72_100, HALF: 40_000}


@dataclasses.dataclass(frozen=True)
class Row:
    """What is measured once."""

    network: str
    way: str
    samples: int
    of: str
    augmented: bool = False
    """With a moved (CIFAR-10: and perhaps mirrored) copy of each image"""
    seed: int = 0


KEYS = [field.name for field in dataclasses.fields(Row)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=SAMPLES, default=list(SAMPLES))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--most", type=int, default=5000, help="images")
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if asked.table:
        print(tables(read(RECORD)))
        return
    known = {tuple(row[key] for key in KEYS) for row in read(RECORD).get("rows", [])}
    for row in rows(asked.networks, asked.ways, asked.seeds):
        if row.samples <= asked.most and dataclasses.astuple(row) not in known:
            base = config_of(row.network)
            test = load(base.data, "test")
            references = references_of(row.network, base, test)
            entry = {**dataclasses.asdict(row), **measured(row, base, test)}
            write(RECORD, {"references": references, "rows": [*read(RECORD).get("rows", []), entry]})
            print(entry, flush=True)


def rows(networks: list[str], ways: list[str], seeds: list[int]) -> list[Row]:
    """All rows, cheap ones first; of the wide pair only those that show what centring and images bring."""
    found = [
        Row(network, way, samples, of, augmented, seed)
        for seed in seeds
        for network in networks
        for way in ways
        for of, numbers in SAMPLES[network].items()
        for samples in numbers
        for augmented in (False, True)
        if (not augmented or (way, samples, of) == (LINEAR, 400, OF_ONE))
        and (way != UNLABELLED or samples == 400)
        and (way not in (TRAINED, BOTH) or samples < 5000 or of == OF_ALL)  # ten minutes each
        and (network != FULL or way in (LINEAR, CENTRED))
    ]
    return sorted(found, key=lambda row: (row.network == FULL, list(WAYS).index(row.way), row.samples))


def config_of(network: str) -> RunConfig:
    """The config of a network's parents; those of digits are trained where they are missing."""
    if network in PAIRS:
        return config(shared_folder(), network)
    folder = Path(__file__).parent.parent / "build" / "frontier"
    parents = training(SCALES["evening"], "digits", ("resnet18",), "sharded", 2)
    train_parents(parents, folder, resume=True, test=False)
    return RunConfig(models=parents.files(folder), data="digits", splits=parents.splits(folder))


def references_of(network: str, base: RunConfig, test: Images) -> dict[str, Any]:
    """All known accuracies of parents and ensembles, with those of this network; centred by 400 images of all parents."""
    known = read(RECORD).get("references", {})
    if network in known:
        return known
    inputs = read_inputs(dataclasses.replace(base, fusion_from="iid"))
    models, centres = inputs.models, inputs.fusion[0]
    own = {f"parent {k}": accuracy(model, test) for k, model in enumerate(models)}
    both = {"ensemble": models, "centred ensemble": [centred(model, centres) for model in models]}
    own |= {name: accuracy(ensemble(parents), test) for name, parents in both.items()}
    return {**known, network: {**own, "test images": len(test)}}


def measured(row: Row, base: RunConfig, test: Images) -> dict[str, Any]:
    """Accuracy and seconds of one fusion."""
    method, importance, options = WAYS[row.way]
    if row.way == KD:
        options = {"epochs": min(EPOCHS, KD_IMAGES[row.network] // row.samples)}
    asked = dataclasses.replace(
        base,
        method=method,
        importance=importance,
        samples=row.samples,
        fusion_from="iid" if row.of == OF_ALL else "parent0",
        augment=int(row.augmented),
        seed=row.seed,
        options=options or None,
    )
    inputs = read_inputs(asked)
    start = time.process_time()
    result = METHODS[method](inputs.models, inputs.fusion, **{**inputs.keywords(asked), "device": "cpu"})
    spent = round(time.process_time() - start, 1)
    return {"accuracy": accuracy(result.model, test), "seconds": spent, "options": options}


def accuracy(model: torch.nn.Module, test: Images) -> float:
    return round(evaluate(model, test)["accuracy"], 2)


def tables(record: dict[str, Any]) -> str:
    """A table for each network: accuracies, and seconds in brackets, by method and images."""
    return "\n\n".join(table(network, record) for network in SAMPLES if network in record["references"])


def table(network: str, record: dict[str, Any]) -> str:
    references, known = record["references"][network], [row for row in record["rows"] if row["network"] == network]
    columns = [(of, samples) for of, numbers in SAMPLES[network].items() for samples in numbers]
    best = max(value for name, value in references.items() if name.startswith("parent"))
    ensembles = [f"{name} {references[name]:.1f}" for name in ("ensemble", "centred ensemble")]
    head = [f"{network}: {', '.join([f'best parent {best:.1f}', *ensembles])}"]
    lines = [head + [f"{samples:,} of {of}" for of, samples in columns], ["---"] * (1 + len(columns))]
    for way in WAYS:
        for augmented in (False, True):
            chosen = [row for row in known if (row["way"], row["augmented"]) == (way, augmented)]
            if chosen:
                cells = [
                    cell([row for row in chosen if (row["of"], row["samples"]) == column], way) for column in columns
                ]
                lines.append([way + ", with a moved copy of each" * augmented, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(found: list[dict[str, Any]], way: str) -> str:
    """The mean of all seeds; of KD also its epochs, where they are not the paper's."""
    if not found:
        return "-"
    values = [row["accuracy"] for row in found]
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    epochs = found[0]["options"].get("epochs", EPOCHS)
    fewer = f", {epochs} epochs" if way == KD and epochs < EPOCHS else ""
    return f"{statistics.mean(values):.1f}{spread} ({statistics.mean(row['seconds'] for row in found):.0f} s{fewer})"


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
