"""Targets of the classes (`head`), with and without centred parents, on held-out training images and on test images.

    python benchmarks/heads.py            fuse what the cache lacks, then fit and measure every head
    python benchmarks/heads.py --table    the record as a table

All levels but the last are the same for every head, so they are fused once, and the last one is fitted by the library's solve.
400 samples, of parent 0's training rows or of all parents'; conductance and centring also see 400 of each parent. Held-out images
are training images of the parents that are no fusion samples. A gain is the difference to `head="scores"` of the same fusions,
parents not centred, ridge "auto"; its interval (95 %) is over test images. Digits: one draw of each network and regime. The
record has more images than the default where it says so, and 4,000 held-out ones there and on MNIST.
"""

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from auto import CHOSEN_ON, NETWORKS, REGIMES, drawn
from machine import read, shared_folder, write
from pairs import GIVEN, config
from scores import in_turn
from torch import Tensor

from retrofit_core import METHODS, build, importance_scores, partition, train
from retrofit_core.data import load
from retrofit_core.data.splits import read_splits
from retrofit_core.fusion.moments import MomentSums, solve
from retrofit_core.fusion.targets import of_ensemble
from retrofit_core.networks.levels import compose
from retrofit_core.runs import read_inputs

RECORD, DIGITS = "heads", ("MLP", "CNN", "VGG")
SEEDS = {"CIFAR-10 VGG11 half width, sharded": 2, "MNIST MLP, non-IID": 5}
#: Head -> the temperature of its softmax; 0: a mean of logits.
HEADS = {
    "scores": 0,
    "mean": 0,
    "shares": 0,
    "ensemble": 2,
    "ensemble-shares": 2,
    "ensemble at 1": 1,
    "ensemble at 4": 4,
}
RIDGES = ("0.01x", "0.1x")
"""The first one is "auto" """


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/retrofit-heads"))
    parser.add_argument("--only", nargs="*", choices=[*GIVEN, *DIGITS], default=[*GIVEN, *DIGITS], help="what to fuse")
    parser.add_argument(
        "--images", type=int, default=2500, help="of the test, and held out; of digits and MNIST all of the test"
    )
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if not asked.table:
        asked.cache.mkdir(exist_ok=True)
        for name in asked.only:
            for draw in of_pair(name) if name in GIVEN else of_digits(name):
                fuse(asked.cache, asked.images, **draw)
        fused: dict[tuple[str, ...], list[Any]] = {}
        for path in sorted(asked.cache.glob("*.pt")):
            name, _, *way = path.stem.split(" - ")
            fused.setdefault((name, *way), []).append(torch.load(path))
        rows = [row for (name, *way), draws in fused.items() for row in measured(draws, name, *way)]
        write(RECORD, {"samples": 400, "rows": rows})
    print(table(read(RECORD)["rows"]))


def of_pair(name: str) -> Iterator[dict[str, Any]]:
    """A given pair, with the samples of each fusion seed."""
    for seed, source in itertools.product(range(SEEDS.get(name, 1)), ("parent0", "iid")):
        asked = config(shared_folder(), name, seed=seed, fusion_from=source, importance="conductance")
        inputs, test = read_inputs(asked), load(asked.data, "test")
        parts = read_splits(asked.splits or "", asked.models, len(inputs.train))
        given = {"parents": inputs.models, "data": inputs.fusion, "own": inputs.importance}
        yield {
            **given,
            "parts": parts,
            "images": inputs.train,
            "test": test,
            "draw": f"{name} - {seed}",
            "source": source,
            "seed": seed,
        }


def of_digits(network: str) -> Iterator[dict[str, Any]]:
    """Networks trained on digits, in every regime."""
    images, test = load("digits", "train"), load("digits", "test")
    for regime, (divide, epochs) in REGIMES.items():
        parts = divide(images.labels, len(epochs), seed=CHOSEN_ON)
        parents = [build(NETWORKS[network], seed=k) for k in range(len(parts))]
        for k, (parent, rows) in enumerate(zip(parents, parts, strict=True)):
            train(parent, images, rows, epochs=epochs[k], seed=k)
        own = [drawn(images, rows, CHOSEN_ON) for rows in parts]
        for source, data in (("parent0", own[0]), ("iid", drawn(images, torch.cat(list(parts)).unique(), CHOSEN_ON))):
            given = {"parents": parents, "data": data, "own": own, "parts": parts, "images": images, "test": test}
            yield {**given, "draw": f"{regime} - {network}", "source": source, "seed": CHOSEN_ON}


@torch.no_grad()
def fuse(
    cache: Path,
    count: int,
    parents: Any,
    data: Any,
    own: Any,
    parts: Any,
    images: Any,
    test: Any,
    draw: str,
    source: str,
    seed: int,
) -> None:
    """Keep what the fused last level reads, and what the parents say, of samples, held-out images and test images."""
    generator = torch.Generator().manual_seed(777)
    order = torch.randperm(len(images), generator=generator)[:count]
    x, sampled = images.inputs(order), {tuple(sample.flatten().tolist()) for sample in data[0]}
    order = order[torch.tensor([tuple(sample.flatten().tolist()) not in sampled for sample in x])]
    rows = torch.randperm(len(test), generator=generator)[: count if "CIFAR" in draw else None]
    sets = {
        "fusion": data,
        "held-out": (images.inputs(order), images.labels[order]),
        "test": (test.inputs(rows), test.labels[rows]),
    }
    told = {name: torch.stack([in_batches(parent, inputs) for parent in parents]) for name, (inputs, _) in sets.items()}
    means = torch.stack([in_batches(parent, torch.cat([data[0], *(x for x, _ in own)])).mean(0) for parent in parents])
    counts = torch.stack(
        [torch.bincount(images.labels[part], minlength=len(images.classes)) for part in parts]
    ).double()
    for importance in ("uniform", "conductance"):
        path = cache / f"{draw} - {importance} - {source}.pt"
        if path.exists():
            continue
        scores = [
            importance_scores(partition(parent, x[:2]), *of, importance=importance).values
            for parent, of in zip(parents, own, strict=True)
        ]
        options = {"importance": in_turn(scores), "importance_data": "fusion", "seed": seed, "device": "cpu"}
        fused = METHODS["KF-Linear"](parents, data, **options)
        levels = partition(fused.model, x[:2])

        def read_by_head(batch: Tensor) -> Tensor:
            return levels[-1].inputs(compose(levels[:-1], batch), torch.float64, ones=True)  # noqa: B023

        kept = {name: in_batches(read_by_head, inputs) for name, (inputs, _) in sets.items()}
        labels = {name: of for name, (_, of) in sets.items()}
        votes = {
            "scores": fused.levels[-1].scores.view(len(parents), -1),
            "shares": counts / counts.sum(0).clamp_min(1),
        }
        torch.save({"x": kept, "told": told, "labels": labels, "means": means, "votes": votes}, path)


def in_batches(function: Any, inputs: Tensor) -> Tensor:
    """(B, ...) float64 outputs."""
    return torch.cat([function(batch).double() for batch in inputs.split(500)])


def measured(draws: list[Any], name: str, importance: str, source: str) -> Iterator[dict[str, Any]]:
    """A row for each head, with and without centred parents, and ridge; means over draws."""
    base = right(draws, "scores", False, RIDGES[0])
    for centre, head, ridge in itertools.product((False, True), HEADS, RIDGES):
        if ridge != RIDGES[0] and (centre or head not in ("scores", "ensemble")):
            continue
        found = right(draws, head, centre, ridge)
        gains = {of: 100 * (found[of] - base[of]) for of in found}
        yield {
            "parents": name,
            "draws": len(draws),
            "importance": importance,
            "source": source,
            "head": head,
            "centre": centre,
            "ridge": ridge,
            "test images": len(found["test"]),
            **{of: round(100 * values.mean().item(), 2) for of, values in found.items()},
            "held-out gain": round(gains["held-out"].mean().item(), 2),
            "gain": round(gains["test"].mean().item(), 2),
            "interval": round(1.96 * (gains["test"].std() / len(gains["test"]) ** 0.5).item(), 2),
        }


def right(draws: list[Any], head: str, centre: bool, ridge: str) -> dict[str, Tensor]:
    """How often each held-out and each test image is right, and the targets themselves on test images."""
    found: dict[str, list[Tensor]] = {"held-out": [], "test": [], "targets": []}
    for draw in draws:
        votes = draw["votes"]["shares" if "shares" in head else "scores"].double().clamp_min(1e-8)
        votes = torch.ones_like(votes) if head == "mean" else votes / votes.sum(0)
        told = {
            of: (z - centre * draw["means"][:, None]).movedim(0, 1) for of, z in draw["told"].items()
        }  # (N, n, classes)
        said = {
            of: of_ensemble(z, votes, HEADS[head]) if HEADS[head] else (z * votes / votes.sum(0)).sum(1)
            for of, z in told.items()
        }
        sums = MomentSums(said["fusion"].shape[1], draw["x"]["fusion"].shape[1], bias=True)
        sums.add(said["fusion"], draw["x"]["fusion"])
        V = solve(sums.finish(), ridge).weights(torch.eye(said["fusion"].shape[1], dtype=torch.float64))
        outputs = {of: draw["x"][of] @ V for of in ("held-out", "test")} | {"targets": said["test"]}
        for of, values in outputs.items():
            found[of].append((values.argmax(1) == draw["labels"]["test" if of == "targets" else of]).double())
    return {
        of: torch.cat(many) if of == "held-out" else torch.stack(many).mean(0)  # draws share the test images alone
        for of, many in found.items()
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Test images; samples of parent 0, the default ridge and temperature."""
    shown = [(head, centre) for head in ("scores", "ensemble", "shares", "ensemble-shares") for centre in (False, True)]
    titles = [f"{head}, centred" if centre else head for head, centre in shown]
    lines = [f"| parents, importance | {' | '.join(titles)} |", f"|{' --- |' * (len(shown) + 1)}"]
    fused: dict[str, dict[tuple[str, bool], dict[str, Any]]] = {}
    for row in rows:
        if (row["source"], row["ridge"]) == ("parent0", RIDGES[0]):
            fused.setdefault(f"{row['parents']}, {row['importance']}", {})[row["head"], row["centre"]] = row
    for name, cells in fused.items():
        words = [f"{row['test']:.1f}" for row in map(cells.__getitem__, shown)]
        gained = cells["ensemble", False]
        words[2] += f" ({gained['gain']:+.1f} ± {gained['interval']:.1f})"
        lines.append(f"| {name} | {' | '.join(words)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
