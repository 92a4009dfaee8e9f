"""The analysis as an object, and as two files of a run's record: analysis.json and analysis.npz."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...system import files

FILES = ("analysis.json", "analysis.npz")


@dataclass(frozen=True, eq=False)
class LevelAnalysis:
    """One level: m neurons of all parents side by side, d fused ones, r rows of examples."""

    name: str
    scores: dict[str, Tensor]
    """Importance -> (m,), normalised as in the run; for the run's importance, the scores it used"""
    labels: dict[str, Tensor]
    """Importance -> (m,) groups of the run's Gram matrix with the run's seed, numbered for the largest overlap with its groups"""
    targets: Tensor
    """(r, d) targets T of random rows; float16 on disk, like the outputs"""
    outputs: Tensor
    """(r, d) fitted outputs of the same rows"""


@dataclass(frozen=True, eq=False)
class Analysis:
    """All levels of a finished fusion."""

    levels: list[LevelAnalysis]
    accuracy: list[float]
    """In %: [0] the ensemble, [k] if the fusion had stopped after level k, [-1] the fused network. Empty without test
    images"""
    samples: int
    """Test images behind `accuracy`"""
    missing: dict[str, str]
    """Importance, or "accuracy" -> why it could not be computed"""
    seconds: float
    knows: list[str] = field(default_factory=list)
    """For each accuracy, which of the test images are right, see `answers.from_bits`"""

    def save(self, folder: str | Path) -> None:
        """Write analysis.json and analysis.npz."""
        folder = Path(folder)
        arrays: dict[str, np.ndarray] = {}
        for index, level in enumerate(self.levels):
            arrays |= {f"{index}/scores/{name}": _numpy(value) for name, value in level.scores.items()}
            arrays |= {f"{index}/labels/{name}": _numpy(value).astype(np.int32) for name, value in level.labels.items()}
            # float16 ends at 65504: scale a level's rows by their largest entry
            scale = max(level.targets.abs().max().item(), level.outputs.abs().max().item()) or 1.0
            arrays[f"{index}/scale"] = np.array(scale)
            arrays[f"{index}/targets"] = (_numpy(level.targets) / scale).astype(np.float16)
            arrays[f"{index}/outputs"] = (_numpy(level.outputs) / scale).astype(np.float16)
        with files.replacing(folder / "analysis.npz") as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        levels = [{"name": level.name, "importance": list(level.scores)} for level in self.levels]
        files.write(folder / "analysis.json", json.dumps({**vars(self), "levels": levels}, indent=1))

    @classmethod
    def load(cls, folder: str | Path) -> "Analysis":
        """Read what `save` wrote.

        Raises:
            ValueError: a file is missing or damaged.
        """
        folder = Path(folder)
        try:
            facts = files.json_of(folder / "analysis.json")
            # opened here, because numpy leaves damaged files open
            with (folder / "analysis.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                levels = [_read_level(level, arrays, index) for index, level in enumerate(facts.pop("levels"))]
            return cls(levels, **facts)
        except Exception as error:  # zip, json and numpy each have their own
            raise ValueError(f"{folder}: analysis.json or analysis.npz is missing or broken ({error}).") from error


def _numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def _read_level(facts: dict[str, Any], arrays: Mapping[str, np.ndarray], index: int) -> LevelAnalysis:
    def read(name: str) -> Tensor:
        return torch.from_numpy(arrays[f"{index}/{name}"])

    scale = float(arrays[f"{index}/scale"])
    return LevelAnalysis(
        name=facts["name"],
        scores={name: read(f"scores/{name}") for name in facts["importance"]},
        labels={name: read(f"labels/{name}").long() for name in facts["importance"]},
        targets=read("targets").float() * scale,
        outputs=read("outputs").float() * scale,
    )
