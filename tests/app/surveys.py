"""A landscape that nobody had to measure: numbers that can be foretold."""

import json
from pathlib import Path
from typing import Any

import torch

from retrofit_core.inspection.landscape import Marker, Rise, Survey
from retrofit_core.inspection.landscape import Path as Line

SPANNING = ("parent 0", "parent 1", "fused")
FACTS: dict[str, Any] = {
    "data": "digits",
    "split": "test",
    "images": 40,
    "resolution": 5,
    "seed": 3,
    "norms": "estimated",
    "device": "cpu",
    "radius": 1.0,
    "clip": None,
}


def invented(n: int = 5) -> Survey:
    """A plane on which the loss is x + y and the accuracy 50 + x; A lies at (0, 0), B at (10, 0), fused at (5, 8)."""
    xs, ys = torch.linspace(-2, 12, n, dtype=torch.float64), torch.linspace(-2, 10, n, dtype=torch.float64)
    loss = (xs[None] + 2) + (ys[:, None] + 2)
    accuracy = (50 + xs[None]).expand(n, n)
    markers = (
        Marker("parent 0", 0.0, 0.0, 0.0, 1.5, 50.0),
        Marker("parent 1", 10.0, 0.0, 0.0, 1.25, 60.0),
        Marker("fused", 5.0, 8.0, 0.0, 0.5, 90.0),
        Marker("average", 5.0, 1.0, 3.21, 2.25, 20.0),
    )
    t = (0.0, 0.5, 1.0)
    paths = (
        Line("parent 0", "parent 1", t, (1.5, 2.5, 1.25), (50.0, 30.0, 60.0)),
        Line("parent 0", "fused", t, (1.5, 1.0, 0.5), (50.0, 70.0, 90.0)),
        Line("parent 1", "fused", t, (1.25, 1.0, 0.5), (60.0, 70.0, 90.0)),
    )
    rises = tuple(Rise(marker.name, 1.0, 0.1 * index, 0.2 * index) for index, marker in enumerate(markers))
    return Survey(
        SPANNING,
        xs,
        ys,
        loss,
        accuracy,
        torch.ones(n, n, dtype=torch.bool),
        markers,
        FACTS,
        paths,
        rises,
        n * n,
        n * n,
        1.0,
    )


def placed(record: Path, key: str = "0123456789", seed: int = 0) -> Path:
    """A landscape of a record as a worker leaves it behind."""
    from retrofit_core.inspection.landscape import Landscape
    from retrofit_core.runs.landscapes import LandscapeConfig

    folder = record / LandscapeConfig.kind.folder / key
    invented().save(folder)
    LandscapeConfig(SPANNING, None, Landscape(resolution=5, images=40, seed=seed)).save(folder, record)
    return folder


def noted(folder: Path, state: str, error: str = "") -> None:
    """How the last worker of a landscape ended."""
    (folder / "analysing.json").write_text(json.dumps({"state": state, "error": error}))
