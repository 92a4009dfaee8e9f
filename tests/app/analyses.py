"""A finished analysis of the shipped run that no worker had to compute: groupings, scores and rows at random."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from retrofit_app import runs
from retrofit_core.inspection.analysis import FILES, Analysis, LevelAnalysis
from retrofit_core.runs import Run
from retrofit_core.runs.record import checksums
from retrofit_core.training.evaluation import as_bits

SCORES = ("uniform", "conductance", "deeplift")


def invented(run: Run, *, without: str = "") -> Analysis:
    """For every level of a run; the run's own score keeps the run's labels and scores. One score may be left out."""
    generator = np.random.default_rng(0)
    levels = []
    for report in run.levels:
        m, d = len(report.labels), report.width
        labels = {name: torch.tensor(generator.integers(0, d, m)) for name in SCORES}
        labels[run.config.importance] = report.labels
        scores = {name: torch.tensor(generator.random(m) + 0.1) for name in SCORES}
        scores["uniform"] = torch.ones(m)
        scores[run.config.importance] = report.scores
        labels, scores = (
            {name: held for name, held in by_name.items() if name != without} for by_name in (labels, scores)
        )
        targets = torch.tensor(generator.normal(size=(16, d)), dtype=torch.float32)
        levels.append(
            LevelAnalysis(
                report.name,
                scores,
                labels,
                targets,
                targets * 0.9,
            )
        )
    accuracy = [95.0, *(94.0 - 7.5 * (index >= 1) for index in range(len(levels)))]
    knows = [as_bits(np.arange(1000) < 10 * value) for value in accuracy]
    return Analysis(levels, accuracy, 1000, {}, 1.0, knows=knows)


def copied(name: str = "mine", of: str = "kf-linear", without: str = "", **changes: Any) -> Path:
    """A shipped run as one of the user's own, with changes of its configuration and without a folder of it."""
    folder = runs.runs_folder() / name
    shutil.copytree(runs.BUNDLED / of, folder, ignore=shutil.ignore_patterns(without))
    for file in ("config.json", "result.json") if changes else ():
        content = json.loads((folder / file).read_text())
        content["config"] |= changes
        (folder / file).write_text(json.dumps(content))
    return folder


def analysed(folder: Path, source: Path = runs.BUNDLED / "kf-linear", **options) -> Path:
    """A copy of a record with an invented analysis, sealed like a real one."""
    from retrofit_core.runs import read_run

    run_folder = folder / "analysed"
    shutil.copytree(source, run_folder)
    invented(read_run(run_folder), **options).save(run_folder)
    status = json.loads((run_folder / "status.json").read_text())
    status["checksums"] |= checksums(run_folder, FILES)
    (run_folder / "status.json").write_text(json.dumps(status))
    return run_folder


def plain(folder: Path, source: Path = runs.BUNDLED / "kf-linear") -> Path:
    """A copy of a record without its analysis."""
    run_folder = folder / "plain"
    shutil.copytree(source, run_folder)
    for name in FILES:
        (run_folder / name).unlink()
    status = json.loads((run_folder / "status.json").read_text())
    status["checksums"] = {name: sum_ for name, sum_ in status["checksums"].items() if name not in FILES}
    (run_folder / "status.json").write_text(json.dumps(status))
    return run_folder
