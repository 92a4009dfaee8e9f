"""Results of a fusion: the model and one report per level, as objects, a table, or a folder."""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ..networks.checkpoints import load_model, read_metadata, read_tensors, save_model
from ..networks.user_code import NotAllowed
from ..system import device as devices
from ..system import files
from ..system.extras import require
from .alignment import Alignment, Group
from .grouping import Grouping
from .moments import Moments, Rows, grouping_error
from .targets import Targets, weighted_means

ARRAYS = ("labels", "scores", "gram")
COMPONENTS = 3
#: Note on a network that is fitted as a whole.
SINGLE = "The network is a single level: fitting it is distillation, not fusion level by level."
if TYPE_CHECKING:
    import pandas as pd

    from ..graph.layers import Layer


@dataclass(frozen=True, eq=False)
class LevelReport:
    """One level of a finished fusion, with m parent neurons in total and d fused neurons."""

    name: str
    kind: str
    """Linear, Conv2d, ... or "not affine" """
    widths: tuple[int, ...]
    """Neurons of each parent"""
    width: int
    """d, neurons of the fused level"""
    rows: int
    """Samples x positions"""
    scores: Tensor = field(repr=False)
    """(m,) importance of all parents' neurons; at the head, the weights of its targets"""
    labels: Tensor = field(repr=False)
    """(m,) group of each parent neuron"""
    gram: Tensor = field(repr=False)
    """(m, m) float32 inner products of the raw outputs, sums over rows; (0, 0) for thousands of classes, see `wide`"""
    energy: float
    """sum_j s_j |z_j|^2, to which errors are compared"""
    grouping_error: float
    approximation_error: float
    ridge: float
    """lambda as used; NaN for gradient fits"""
    form: str
    """primal, dual, lookup (rows of embeddings) or gradient"""
    grouping: dict[str, Any]
    """Facts about the grouping"""
    cross_error: float = 0.0
    """Theorem 1's third term: 0 if targets are the groups' weighted means, of either sign otherwise"""
    stream: str = ""
    """The first level of the residual stream that the level writes to; empty if no other level makes its neurons"""
    missing_error: float = float("nan")
    """sum_k S_k |T_k - h_k|^2 if the level adds to a stream h: the energy of its targets, to which the approximation error is
    compared; else NaN"""
    weights: Tensor | None = field(default=None, repr=False)
    """(m, d) weight of each parent neuron in each target, if targets are not the groups' means (attention heads)"""
    curve: list[dict[str, Any]] = field(default_factory=list, repr=False)
    """Loss per epoch of a gradient fit; empty for a closed form"""
    seconds: dict[str, float] = field(default_factory=dict)
    """forward, moments, group, solve, fit, report"""

    @property
    def target_weights(self) -> Tensor:
        """(m, d) weight of each parent neuron in the targets."""
        return weighted_means(self.labels, self.scores, self.width).A if self.weights is None else self.weights

    @property
    def parents(self) -> Tensor:
        """(m,) the parent of each neuron."""
        return torch.repeat_interleave(torch.arange(len(self.widths)), torch.tensor(self.widths))

    @property
    def cost(self) -> float:
        """J = sum_j s_j |f_k(j) - z_j|^2 of the fused neurons f: the sum of grouping, approximation and cross error."""
        return self.grouping_error + self.approximation_error + self.cross_error

    def share(self, error: str) -> float:
        """An error ("grouping", "approximation", "missing") as a share of the energy; 0 without energy."""
        return getattr(self, f"{error}_error") / self.energy if self.energy else 0.0

    @cached_property
    def _components(self) -> tuple[Tensor, Tensor]:
        if not self.gram.numel():
            return torch.zeros(len(self.labels), COMPONENTS), torch.zeros(COMPONENTS)
        return principal_components(self.gram)

    @property
    def coordinates(self) -> Tensor:
        """(m, 3) principal components of the neurons' raw outputs, from the Gram matrix centred over neurons."""
        return self._components[0]

    @property
    def explained(self) -> Tensor:
        """(3,) share of the variance on each component."""
        return self._components[1]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the arrays, as JSON types."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in (*ARRAYS, "weights")}
        return {**plain, "widths": list(self.widths)}


@dataclass(frozen=True, eq=False)
class Fitted:
    """Results of a fit for a level's report; see the fields of `LevelReport`."""

    form: str
    approximation_error: float = float("nan")
    ridge: float = float("nan")
    cross_error: float = 0.0
    missing_error: float = float("nan")
    curve: list[dict[str, Any]] = field(default_factory=list)


def level_report(
    level: "Layer | Group",
    widths: Sequence[int],
    sums: Moments | Rows,
    s: Tensor,
    groups: Grouping,
    fitted: Fitted,
) -> LevelReport:
    """The report of a grouped level, with its tensors on the CPU.

    Args:
        widths: number of neurons of each parent, m in total.
        sums: sums over rows of the parents' outputs; zz may hold more columns after theirs.
        s: (m,) scores.
    """
    zz = sums.zz[: len(s), : len(s)]
    weights, targets, labels = s.to(zz), groups.targets(s), groups.labels.to(zz.device)
    if groups.reading is not None:
        labels, targets = torch.arange(len(s), device=zz.device), Targets(targets.A @ groups.reading, weights)
    return LevelReport(
        name=level.name,
        kind=level.kind,
        widths=tuple(widths),
        width=level.width,
        rows=sums.rows,
        scores=s.cpu(),
        labels=groups.labels.cpu(),
        gram=zz.float().cpu(),
        energy=(weights @ zz.diagonal()).item(),
        grouping_error=grouping_error(zz, weights, labels, targets),
        grouping=groups.report,
        weights=None if groups.weights is None else groups.weights.cpu(),
        **vars(fitted),
    )


def principal_components(gram: Tensor, components: int = COMPONENTS) -> tuple[Tensor, Tensor]:
    """PCA of m points from their Gram matrix: coordinates (m, components) and explained shares (components,).

    Equals scikit-learn's PCA on the points, up to signs, which make the largest entry positive.
    """
    from scipy.linalg import eigh

    full = gram.double().cpu().numpy()
    centred = full - full.mean(0) - full.mean(1)[:, None] + full.mean()
    m = len(full)
    count = min(components, m)
    values, vectors = eigh((centred + centred.T) / 2, subset_by_index=(m - count, m - 1))
    values, vectors = np.clip(values[::-1], 0, None), vectors[:, ::-1]
    signs = np.sign(vectors[np.abs(vectors).argmax(0), np.arange(count)])
    points = np.zeros((m, components))
    points[:, :count] = vectors * signs * np.sqrt(values)
    shares = np.zeros(components)
    shares[:count] = values / max(np.trace(centred), 1e-300)
    return torch.from_numpy(points), torch.from_numpy(shares)


@dataclass(frozen=True, eq=False, repr=False)
class FusionResult:
    """The fused model, on parent 0's device, with its reports, whose tensors are on the CPU."""

    model: nn.Module
    levels: list[LevelReport]
    config: dict[str, Any]
    """Settings that determine the result"""
    seconds: float = 0.0
    """Of the fusion"""
    importance: list[dict[str, Any]] = field(default_factory=list)
    """One report per parent: completeness gaps of attributions"""
    alignment: Alignment | None = None
    """For methods that align neurons and average: the map of neurons, and the reordered parents. Not saved; the labels of its
    groups are those of the levels, which are saved"""
    processor_seconds: float | None = None
    """CPU time of all threads, which hardly depends on other processes, unlike `seconds`; not saved"""

    def on(self, device: torch.device) -> "FusionResult":
        """The result with its network and its alignment on a device; reports are on the CPU anyway."""
        alignment = self.alignment and self.alignment.on(device)
        return replace(self, model=devices.on_device(self.model, device), alignment=alignment)

    @property
    def note(self) -> str:
        """What a method chose, if any, and why; a note if the network was a single level, which is distillation."""
        single = SINGLE if [level.kind for level in self.levels] == ["not affine"] else ""
        sentences = [self.config.get("choice", ""), single]
        return " ".join(filter(None, sentences))

    def __repr__(self) -> str:
        """A headline, and a line for each level."""
        return "\n".join([self._headline(), *([self._short().to_string(index=False)] if self.levels else [])])

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        head = f"<p>{html.escape(self._headline())}</p>"
        return head + (self._short().to_html(index=False) if self.levels else "")

    def _headline(self) -> str:
        words = [self.config[name] for name in ("method", "grouping", "fit", "importance") if self.config.get(name)]
        levels = f"{len(self.levels)} levels" if self.levels else "no levels"
        return f"FusionResult: {', '.join(map(str, words))}; {levels}, {self.seconds:.2f} s"

    def _short(self) -> "pd.DataFrame":
        table = self.to_frame()
        shares = {name: f"{name.removesuffix(' share')} %" for name in ("grouping share", "approximation share")}
        for name, short in shares.items():
            table[short] = (100 * table[name]).round(2)
        return table.loc[:, ["level", "widths", "fused", *shares.values(), "form"]]

    def to_frame(self) -> "pd.DataFrame":
        """One row per level: widths, errors (also relative to the energy), seconds."""
        return frame(self.levels)

    def save(self, folder: str | Path, **metadata: object) -> None:
        """Write a folder for `load` and the workbench: fused.safetensors, levels.parquet, arrays.npz, result.json."""
        require("pyarrow", "data")
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        save_model(self.model, folder / "fused.safetensors", **metadata)
        save_levels(self.levels, folder)
        facts = {"config": self.config, "seconds": self.seconds, "importance": self.importance}
        files.write(folder / "result.json", json.dumps(facts, indent=1, default=str))

    @classmethod
    def load(cls, folder: str | Path, model: nn.Module | None = None) -> "FusionResult":
        """Read a folder written by `save`. For an architecture of your own, pass a `model`, whose weights are overwritten.

        Raises:
            ValueError: a file is missing or broken.
        """
        folder = Path(folder)
        try:
            facts = files.json_of(folder / "result.json")
        except (OSError, ValueError) as error:
            raise ValueError(f"{folder} is not a saved fusion: result.json is missing or broken.") from error
        if not isinstance(facts, dict) or not {"config", "seconds", "importance"} <= facts.keys():
            raise ValueError(f"{folder} is not a saved fusion: result.json lacks config, seconds or importance.")
        weights = folder / "fused.safetensors"
        if model is None:
            try:
                model, _ = load_model(weights)
            except ValueError as error:
                if isinstance(error, NotAllowed) or read_metadata(weights).get("architecture"):
                    raise
                raise ValueError(
                    f"{weights} does not say how to build its network, which is none of this library's. Pass one of the same "
                    f"architecture, whose weights are overwritten: FusionResult.load({str(folder)!r}, model=NETWORK)."
                ) from error
        else:
            try:
                model.load_state_dict(read_tensors(weights))
            except Exception as error:  # torch has its own exceptions
                raise ValueError(f"{weights} is broken or does not fit the model passed ({error}).") from error
        return cls(model, load_levels(folder), facts["config"], facts["seconds"], facts["importance"])


#: Columns of the table of levels.
COLUMNS = ("level", "kind", "widths", "fused", "rows", "grouping error", "approximation error")
COLUMNS += ("grouping share", "approximation share", "ridge", "form", "seconds")


def table_row(level: LevelReport) -> dict[str, Any]:
    """A level's numbers by column."""
    errors = level.grouping_error, level.approximation_error
    shares = level.share("grouping"), level.share("approximation")
    widths, seconds = " + ".join(map(str, level.widths)), sum(level.seconds.values())
    values = (level.name, level.kind, widths, level.width, level.rows, *errors)
    return dict(zip(COLUMNS, (*values, *shares, level.ridge, level.form, seconds), strict=True))


def frame(levels: Sequence[LevelReport]) -> "pd.DataFrame":
    """The levels' numbers as a table, which has its columns even without levels."""
    import pandas as pd

    return pd.DataFrame(list(map(table_row, levels)), columns=list(COLUMNS))


def save_levels(levels: Sequence[LevelReport], folder: Path) -> None:
    """Write arrays.npz and levels.parquet (one row per level, nested facts as JSON)."""
    arrays = {}
    for index, level in enumerate(levels):
        for name in ARRAYS:
            arrays[f"{index}/{name}"] = getattr(level, name).cpu().numpy()
        if level.weights is not None:
            arrays[f"{index}/weights"] = level.weights.cpu().numpy()
        arrays[f"{index}/coordinates"] = level.coordinates.numpy().astype(np.float32)
    with files.replacing(folder / "arrays.npz") as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    table = frame(levels)
    table["report"] = [json.dumps(level.to_dict(), default=str) for level in levels]
    with files.replacing(folder / "levels.parquet") as temporary:
        table.to_parquet(temporary)


def load_levels(folder: str | Path) -> list[LevelReport]:
    """Read files written by `save_levels`.

    Raises:
        ValueError: a file is missing or broken.
    """
    require("pyarrow", "data")
    import pandas as pd

    folder = Path(folder)
    try:
        table = pd.read_parquet(folder / "levels.parquet")
        # numpy does not close a broken file
        with (folder / "arrays.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return [_read_level(json.loads(report), arrays, index) for index, report in enumerate(table["report"])]
    except Exception as error:  # pyarrow, zip, json and numpy have their own exceptions
        raise ValueError(f"{folder}: levels.parquet or arrays.npz is missing or broken ({error}).") from error


def _read_level(facts: dict[str, Any], arrays: Mapping[str, np.ndarray], index: int) -> LevelReport:
    tensors: dict[str, Any] = {name: torch.from_numpy(arrays[f"{index}/{name}"]) for name in ARRAYS}
    if f"{index}/weights" in arrays:
        tensors["weights"] = torch.from_numpy(arrays[f"{index}/weights"])
    known: dict[str, Any] = {each.name: facts[each.name] for each in fields(LevelReport) if each.name in facts}
    known["widths"] = tuple(known["widths"])
    return LevelReport(**known, **tensors)
