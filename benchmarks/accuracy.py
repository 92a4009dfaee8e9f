"""Accuracy of every method with every importance score on the real checkpoints, three fusion seeds.

python benchmarks/accuracy.py            everything (about an hour on two cores: gradient fits and full test sets)
python benchmarks/accuracy.py --fit Linear --pair "MNIST MLP, non-IID"
"""

import argparse
import dataclasses
import itertools
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from machine import shared_folder, write
from pairs import PAIRS, config, in_turn, scores_of

from retrofit_core import METHODS, ensemble, evaluate
from retrofit_core.data import load
from retrofit_core.fusion.importance import IMPORTANCE
from retrofit_core.runs import RunConfig, read_inputs

SEEDS = (0, 1, 2)
#: Titles of the two kinds of fit, with their names in the library's table.
FITS = {"Linear": "ridge", "Gradient": "gradient"}
STRENGTHS = ("0.001x", "0.1x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", choices=FITS, action="append", help="default: both")
    parser.add_argument("--pair", choices=PAIRS, action="append", help="default: all three")
    arguments = parser.parse_args()
    for pair in arguments.pair or PAIRS:
        base = config(shared_folder(), pair)
        test = load(base.data, "test")
        models = read_inputs(base).models
        reference = {f"parent {k}": evaluate(model, test)["accuracy"] for k, model in enumerate(models)}
        reference["ensemble"] = evaluate(ensemble(models), test)["accuracy"]
        print(pair, {name: round(value, 2) for name, value in reference.items()}, flush=True)
        scores = {name: _scores(dataclasses.replace(base, importance=name)) for name in IMPORTANCE}
        facts = {
            "pair": pair,
            "samples": 400,
            "test images": len(test),
            "reference": reference,
            "importance seconds": {name: spent for name, (_, spent) in scores.items()},
        }
        for fit in arguments.fit or FITS:
            measure(base, fit, models, {name: values for name, (values, _) in scores.items()}, facts)


def measure(base: RunConfig, fit: str, models: Any, scores: dict[str, Any], facts: dict[str, Any]) -> None:
    """All rows of one pair and kind of fit, written after each seed."""
    test = load(base.data, "test")
    rows: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for seed in SEEDS:
        fusion = read_inputs(dataclasses.replace(base, seed=seed)).fusion
        fitted = [name for name, method in METHODS.items() if method.fixed.get("fit") == FITS[fit]]
        for importance, method in itertools.product(IMPORTANCE, fitted):
            for variant, options in _variants(fit, importance, facts["pair"]).items():
                result = METHODS[method](
                    models,
                    fusion,
                    importance=in_turn(scores[importance]),
                    importance_data="fusion",
                    seed=seed,
                    **options,
                )
                accuracy = evaluate(result.model, test)["accuracy"]
                rows.setdefault((method, importance, variant), []).append((accuracy, result.seconds))
                print(f"seed {seed} {method} {importance} {variant}: {accuracy:.2f} {result.seconds:.1f} s", flush=True)
        done = [_row(key, values) for key, values in rows.items()]
        name = Path(base.models[0]).stem.removesuffix("-0")
        write(f"accuracy-{name}-{fit.lower()}", {**facts, "seeds": SEEDS[: SEEDS.index(seed) + 1], "rows": done})


def _variants(fit: str, importance: str, pair: str) -> dict[str, dict[str, str]]:
    """Options by title: the default, towards the parents, and on the VGG pair other strengths with uniform scores."""
    if FITS[fit] != "ridge":
        return {"": {}}
    others = STRENGTHS if importance == "uniform" and "VGG11, non-IID" in pair else ()
    strengths = [("zero", "auto")]
    if importance != "deeplift":
        strengths += [("parents", "auto"), *(("zero", strength) for strength in others)]
    return {f"toward {toward}, {ridge}": {"toward": toward, "ridge": ridge} for toward, ridge in strengths}


def _row(key: tuple[str, str, str], values: list[tuple[float, float]]) -> dict[str, Any]:
    accuracies = [accuracy for accuracy, _ in values]
    spread = statistics.stdev(accuracies) if len(accuracies) > 1 else None
    return {
        "method": key[0],
        "importance": key[1],
        "ridge": key[2],
        "mean": statistics.mean(accuracies),
        "deviation": spread,
        "accuracies": accuracies,
        "median seconds": statistics.median(seconds for _, seconds in values),
    }


def _scores(settings: RunConfig) -> tuple[list[list[torch.Tensor]], float]:
    """Each parent's scores on its own training rows, and the seconds."""
    inputs = read_inputs(settings)
    start = time.perf_counter()
    return scores_of(inputs, settings.importance), time.perf_counter() - start


if __name__ == "__main__":
    main()
