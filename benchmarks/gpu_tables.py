"""Stages of gpu.py that measure tables of the paper, by the planner and the runner of `retrofit reproduce`."""

import dataclasses
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from gpu_call import Call
from gpu_files import halve, pack, unpack

from retrofit_core.experiments.bundles import Bundle, read_bundle, write_bundle
from retrofit_core.experiments.cells import Cell
from retrofit_core.experiments.results import Result, read_result, write_result
from retrofit_core.experiments.runner import all_needs, plan, run
from retrofit_core.experiments.scales import scale_of
from retrofit_core.experiments.tables import TABLES
from retrofit_core.experiments.units import Parent, Unit
from retrofit_core.experiments.work import title
from retrofit_core.system.monitor import Cancelled, Event, Monitor
from retrofit_core.training.parents import NOTE, train_parents

#: Stage -> tables and their columns (none named: all). The tables of a stage but those of the last have the same parents,
#: and the longest work comes last; in the last stage, the tables in which the paper's methods lead by most come first.
STAGES: dict[int, tuple[tuple[str, tuple[str, ...]], ...]] = {
    3: (("vgg11-noniid", ("2-way",)), ("runtime-vgg", ()), ("fusion-set-size", ()), ("neuron-importance", ())),
    4: (("vgg11-sharded", ("2-way",)),),
    5: (
        ("vit-sharded-cifar100", ("2-way",)),
        ("runtime-vit", ("400 samples",)),
        ("runtime-vit", ("6000 samples",)),
    ),
    6: (
        ("vgg11-sharded", ("4-way",)),
        ("vgg11-noniid", ("4-way",)),
        ("vgg11-sharded", ("6-way",)),
        ("vgg11-noniid", ("8-way",)),
    ),
}


def reproduce(call: Call, stage: int, out: Path, earlier: Path | None) -> str:
    """Measure what is missing of a stage's tables until the time is up; returns how far it got.

    Leaves all results as a bundle, gpu-stage-N.json, and what the missing ones need in parts.
    """
    root, bundle = call.work / "runs", out / f"gpu-stage-{stage}.json"
    results = take_over([folder for folder in (earlier, out) if folder], bundle.name, root)
    tables = [cells_of(call, *table, parents) for table in STAGES[stage] for parents in call.parents]
    whole = plan(chain(*tables), root)
    for unit, result in whole:
        if result is None:
            results.pop(unit.key(), None)  # measured with other parents or data
        else:
            results[unit.key()] = result
    failed: dict[str, str] = {}

    def save() -> None:
        kept = {key: untimed(result) for key, result in results.items()} if call.beside else results
        write_bundle(bundle, Bundle(kept))

    save()  # also if the time is up before any more are measured

    def note(unit: Unit, result: Result | str) -> None:
        if isinstance(result, str):
            failed[unit.key()] = words = result
        else:
            results[unit.key()] = result
            save()
            words = result.refusal or f"{result.metrics['all_seconds']:.1f} s, {result.metrics.get('accuracy', '-')} %"
        print(f"{title(unit)}: {words}", flush=True)

    def hand_on() -> list[Path]:
        return pack(state_of([unit for unit, _ in whole if unit.key() not in results], root), root, out)

    for cells in tables:
        missing = [unit for unit, result in plan(cells, root) if result is None and unit.key() not in failed]
        try:
            train(call, missing, root)
        except Cancelled:
            break
        except Exception as error:  # the defect of one table's parents must not cost the others their minutes
            for unit in missing:
                note(unit, repr(error))
            continue
        hand_on()  # a call that is killed must not cost its parents
        run(missing, root, deadline=call.until, device=str(call.device), on_result=note)
    for path in hand_on():
        print(f"too large to hand on beside the others: {path.relative_to(root)}", flush=True)
    done = sum(unit.key() in results for unit, _ in whole)
    end = f"call it again with --from {out}" if done + len(failed) < len(whole) else "nothing is left to do"
    return f"{done} of {len(whole)} units measured, {len(failed)} failed; {end}"


def untimed(result: Result) -> Result:
    """A result without the seconds of its fusion, which are no runtime where other work ran beside it."""
    if "fusion" not in result.unit:
        return result
    times = ("seconds", "processor_seconds")
    return dataclasses.replace(
        result, metrics={key: value for key, value in result.metrics.items() if key not in times}
    )


def take_over(folders: Sequence[Path], bundle: str, root: Path) -> dict[str, Result]:
    """The results that earlier calls left in folders, put into a runs folder with what else they left."""
    results: dict[str, Result] = {}
    for folder in folders:
        if (folder / bundle).exists():
            results |= read_bundle(folder / bundle).results
        unpack(folder, root)
    for key, result in results.items():
        if read_result(root, key) is None:
            write_result(root, result)
    return results


def cells_of(call: Call, name: str, columns: Sequence[str], parents: int = 0) -> list[Cell]:
    """The cells of a table's columns for one set of parents, the paper's rows first, with CIFAR-10 where CIFAR-100 is not
    on disk."""
    table, scale = TABLES[name], dataclasses.replace(scale_of(call.scale), nearest=True)
    cells = [
        cell
        for cell in table.cells(scale, call.seeds, parents=parents + 1)
        if cell.parents == parents and (not columns or cell.column in columns)
    ]
    return sorted(cells, key=lambda cell: cell.row in table.more_rows)


def parents_of(units: Sequence[Unit]) -> list[Parent]:
    """The parents that units are or need, each once."""
    needed = chain.from_iterable((*all_needs(unit), unit) for unit in units)
    return list({unit.key(): unit for unit in needed if isinstance(unit, Parent)}.values())


def train(call: Call, missing: Sequence[Unit], root: Path) -> None:
    """Train the parents that units lack, several at once, for one waits for Python and leaves a GPU idle; the runner takes
    them over.

    Raises:
        Cancelled: the time is up; finished epochs are kept.
    """
    lacking = [parent for parent in parents_of(missing) if not checkpoint(parent, root).exists()]
    together, cores = min(call.processes, len(lacking)), os.cpu_count() or 1
    share = max(1, cores // max(together, 1))
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(share)  # each process compiles with workers of its own
    one = partial(train_one, root, str(call.device), call.compile, call.until)
    if together < 2:
        for parent in lacking:
            one(parent)
        return
    with ProcessPoolExecutor(together, get_context("spawn"), torch.set_num_threads, (share,)) as pool:
        list(pool.map(one, lacking))


def train_one(root: Path, device: str, compiled: bool, until: float, parent: Parent) -> None:
    """One parent, going on where it was stopped. Its weights are rounded to float16, so that what is measured is what is
    handed on."""
    config = parent.source.training
    assert config is not None

    def say(event: Event) -> None:
        if event["kind"] == "epoch" and event["epoch"] % 10 == 0:
            left = until - time.time()
            print(f"{title(parent)}: epoch {event['epoch']} of {event['epochs']}, {left:.0f} s left", flush=True)

    monitor = Monitor(say, lambda: time.time() > until)
    ways: dict[str, Any] = {"resume": True, "test": False, "monitor": monitor, "compile": compiled}
    train_parents(dataclasses.replace(config, device=device), root / config.folder, only=parent.index, **ways)
    halve(checkpoint(parent, root))


def checkpoint(parent: Parent, root: Path) -> Path:
    """A parent's file."""
    return Path(parent.source.files(root)[parent.index])


def state_of(left: Sequence[Unit], root: Path) -> list[Path]:
    """What units that are left need: their parents."""
    parents = [checkpoint(parent, root) for parent in parents_of(left)]
    notes = [file.with_name(name) for file in parents for name in ("splits.json", NOTE)]
    return [path for path in dict.fromkeys((*notes, *parents)) if path.is_file()]
