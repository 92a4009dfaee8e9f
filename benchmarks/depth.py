"""Where grouping and importance matter: the given pairs of VGG11s, fused one way in the first three levels, another way after.

    python benchmarks/depth.py            measure what the record lacks
    python benchmarks/depth.py --table    the record as a table

Closed form, 400 samples of parent 0 (conductance sees 400 of each parent, in 10 steps), one fusion seed. Of each fusion:
accuracy on 2,500 test images, and what the groups lose at each level, as a share of the neurons' energy. Of each parent: the
channels of each level that are positive anywhere on 1,000 test images. An interval (95 %) is over test images.
"""

import argparse
import itertools
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from machine import read, shared_folder, write
from pairs import GIVEN, config
from recipes import ANSWERING, answering
from scores import in_turn, scores_of

from retrofit_core import METHODS, evaluate
from retrofit_core.data import load
from retrofit_core.fusion.grouping import GROUPINGS, Grouping
from retrofit_core.fusion.importance import Conductance
from retrofit_core.runs import read_inputs
from retrofit_core.runs.answers import difference, from_bits

RECORD, FIRST, IMAGES, STEPS = "depth", 3, 2500, 10
PAIRS = sorted((name for name in GIVEN if "VGG11" in name), key=lambda name: "200" not in name)
GROUPED = {"KF": "kmeans", "HF": "hungarian"}
SCORES = {"uniform": "uniform", "conductance": Conductance(steps=STEPS)}
#: (grouping, importance) in the first levels, and in the others.
WAYS = [
    *itertools.product(itertools.product(GROUPED, ["uniform"]), repeat=2),
    *(
        ((method, first), (method, then))
        for method in reversed(GROUPED)
        for first, then in (("conductance", "conductance"), ("conductance", "uniform"), ("uniform", "conductance"))
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PAIRS, default=PAIRS)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if not asked.table:
        for name in asked.only:
            measure(name)
    print(table(read(RECORD)))


def measure(name: str) -> None:
    """Add a pair's parents and fusions to the record, one by one."""
    record = {"samples": 400, "images": IMAGES, "parents": {}, "rows": [], **read(RECORD)}
    left = [
        way
        for way in WAYS
        if not any((row["pair"], *map(tuple, row["ways"])) == (name, *way) for row in record["rows"])
    ]
    if not left:
        return
    asked = config(shared_folder(), name, importance="conductance")
    inputs, test = read_inputs(asked), load(asked.data, "test")
    order = torch.randperm(len(test), generator=torch.Generator().manual_seed(777))[:IMAGES]
    shown, scores = test.inputs(range(ANSWERING)), cache(lambda importance: scores_of(inputs, SCORES[importance]))
    record["parents"][name] = [answering(model, shown) for model in inputs.models]
    write(RECORD, record)
    for early, late in left:
        by_depth = (scores(importance) for _, importance in (early, late))
        mixed = [[*first[:FIRST], *then[FIRST:]] for first, then in zip(*by_depth, strict=True)]
        fused = METHODS["KF-Linear"](
            inputs.models,
            inputs.fusion,
            grouping=grouped_by(GROUPED[early[0]] if index < FIRST else GROUPED[late[0]] for index in range(8)),
            importance=in_turn(mixed),
            importance_data="fusion",
            device="cpu",
        )
        said = evaluate(fused.model, test, rows=order)
        record["rows"].append(
            {
                "pair": name,
                "ways": [early, late],
                "accuracy": said["accuracy"],
                "grouping share": [100 * level.grouping_error / level.energy for level in fused.levels[:-1]],
                "knows": said["knows"],
            }
        )
        write(RECORD, record)


def grouped_by(names: Iterable[str]) -> Callable[..., Grouping]:
    """A grouping of one's own that takes another name of GROUPINGS at each level."""
    turns = iter(names)
    return lambda *neurons, **options: GROUPINGS[next(turns)]()(*neurons, **options)


def table(record: dict[str, Any]) -> str:
    """Accuracies with the difference to KF and uniform scores everywhere, and the grouping errors by level."""
    lines = []
    for name in record["parents"]:
        lines.append(f"{name}: channels that answer")
        lines += [" ".join(f"{count}/{width}" for count, width in of_parent) for of_parent in record["parents"][name]]
        rows = {tuple(map(tuple, row["ways"])): row for row in record["rows"] if row["pair"] == name}
        knows = {ways: from_bits(row["knows"], record["images"]) for ways, row in rows.items()}
        for (early, late), row in rows.items():
            points, (low, high) = difference(knows[early, late], knows[(("KF", "uniform"),) * 2])
            shares = " ".join(f"{share:.1f}" for share in row["grouping share"])
            way = f"first {' '.join(early)}, then {' '.join(late)}"
            lines.append(f"{way}: {row['accuracy']:.1f} ({points:+.1f}, {low:.1f} to {high:.1f}); {shares}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
