"""A level, its neurons, and its tensors as rows.

Legend: B samples, N rows = samples x positions, C or width neurons, p inputs of an affine level (unfolded for
convolutions, channel-major, as `weight.flatten(1)`).

A boundary is what is alive between two levels: one tensor, or a tuple of several inside a block.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..statedicts import tensors_in
from .folds import Fold
from .forms import Affine, Boundary, Form, Opaque
from .kinds import AffineLayer


@dataclass(frozen=True)
class Alive:
    """One tensor at a boundary."""

    axis: int
    """Neuron axis: 1 (channels, features of a flat tensor), -1 (tokens) or 2 (channels of several frames)"""
    width: int
    """Number of neurons"""
    positions: int
    """Rows per sample: spatial positions or tokens, 1 for a flat tensor"""
    maker: int
    """Number of the level that made these neurons"""


@dataclass(frozen=True, eq=False)
class Heads:
    """The neurons of one attention: queries, keys and values of each head."""

    query: tuple[int, Tensor]
    """Number of the level that makes them, and (heads, d) their positions in its output"""
    key: tuple[int, Tensor]
    value: tuple[int, Tensor]
    reader: int
    """Number of the level whose layer reads the mixed values"""
    columns: Tensor
    """(heads, d) positions of the mixed values among that layer's inputs"""
    scale: float = 1.0
    """The attention maps are softmax(scale q'k)"""

    @property
    def count(self) -> int:
        """Number of heads."""
        return len(self.columns)

    @property
    def levels(self) -> tuple[int, int, int]:
        """The levels that make queries, keys and values."""
        return self.query[0], self.key[0], self.value[0]


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of grouped convolutions, which several spaces of neurons share."""

    first: int
    """Number of the first level whose neurons are in these parts: the parts are grouped there"""
    places: Tensor
    """(parts, neurons per part) positions in the output of the current level"""


@dataclass(frozen=True, eq=False)
class Written:
    """A space in the output of a level that makes it: neurons that may be permuted without changing what the network computes."""

    space: int
    """Its number, in the order in which levels make the spaces: the same in all networks of a fusion"""
    places: Tensor
    """(neurons, copies) positions; several copies if each neuron is made more than once"""
    fixed: bool
    """Whether neuron c must stay neuron c in every level, because they are classes or for another reason"""


@dataclass(frozen=True, eq=False)
class Carried:
    """A parameter or buffer, before a level's layers, with numbers for neurons of earlier levels; or a tensor that holds them on
    another axis than a level's own neurons."""

    name: str
    axis: int
    """Neuron axis"""
    makers: tuple[tuple[int, Tensor, Tensor], ...]
    """Number of a level that makes neurons, (neurons,) their positions in its output, (neurons, copies) those in the tensor;
    entries that belong to no neuron become the parents' mean"""


@dataclass(frozen=True, eq=False)
class Read:
    """The neurons that a layer reads."""

    maker: int
    """Number of the level that makes them; -1: they are the network's input, or keep their places"""
    index: Tensor
    """(neurons, copies) their positions on the layer's input axis, in the order of the maker's output"""


@dataclass(frozen=True, eq=False)
class Level(Alive):
    """One step of the composition f = f_L o ... o f_1; the parameters are the model's own, not copies.

    Its output is one of the tensors at the boundary after it, or a tensor that one is computed from (`tail`).
    """

    name: str
    """The affine layer or the block at whose output the level ends, else its last layer with parameters."""
    module: nn.Module
    """Boundary in, boundary out."""
    form: Form
    """What is fitted: the layers, and how they read the boundary before."""
    head: bool
    """True for the last level: its neurons are the classes."""
    alive: tuple[Alive, ...]
    """The tensors at the boundary after the level."""
    at: int = 0
    """Index of the output there"""
    node: str = ""
    """Name of the output in the trace"""
    tail: bool = False
    """Whether operations such as a mean over positions follow the last layer; the neurons are the layer's"""
    folds: tuple[Fold, ...] = ()
    """Layers that replace others of the model, in the order of putting them back."""
    residual: bool = False
    """Whether a skip adds the input's neurons to the output's, so that both must have the same order."""
    writes: tuple[Written, ...] = ()
    """The spaces of its neurons"""
    blocks: Parts | Heads | None = None
    """The parts of grouped convolutions, or the attention, that its neurons belong to, if they may not all be permuted freely"""
    carried: tuple[Carried, ...] = ()
    """Parameters and buffers before its layers with numbers per neuron: LayerNorm's scale and shift, masks, positions"""
    reads: tuple[Read | None, ...] = ()
    """What each of its layers reads, if neurons of one level; empty if neurons cannot be followed"""
    crossed: Carried | None = None
    """The output of layers that mix positions: its rows are neurons of earlier levels"""
    part: int = 0
    """Number of neurons that are fitted at a time; 0: all at once"""

    @property
    def affine(self) -> AffineLayer | None:
        """The first of its layers; None if the level is not affine in its weights."""
        return self.form.layers[0] if isinstance(self.form, Affine) else None

    @property
    def why_not_affine(self) -> str:
        """Why only a gradient can fit it, as the end of a sentence; else empty."""
        return self.form.why if isinstance(self.form, Opaque) else ""

    @property
    def plain(self) -> bool:
        """Whether its neurons are exactly one space, each made once, in order."""
        return len(self.writes) == 1 and torch.equal(self.writes[0].places, torch.arange(self.width)[:, None])

    @property
    def fixed(self) -> bool:
        """Whether all its neurons keep their positions."""
        return self.head or (self.plain and self.writes[0].fixed)

    @property
    def classes(self) -> tuple[Tensor, ...]:
        """(classes, copies) positions of classes in its output: all at the head, some at other levels that make classes (early
        exits, several heads)."""
        if self.head:
            return (torch.arange(self.width)[:, None],)
        return tuple(written.places for written in self.writes if written.fixed)

    @property
    def numbers(self) -> int:
        """Numbers per sample at the boundary after the level."""
        return sum(tensor.width * tensor.positions for tensor in self.alive)

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in self.module.parameters())

    @property
    def kind(self) -> str:
        """Label in tables: Linear, Conv2d, ..., "no layer" or "not affine"."""
        names = {id(fold.layer): fold.kind for fold in self.folds}
        kinds = [names.get(id(layer)) or type(layer).__name__ for layer in self.form.layers]
        return " + ".join(kinds) or ("not affine" if isinstance(self.form, Opaque) else "no layer")

    def of(self, boundary: Boundary) -> Tensor:
        """The level's output (B, ...) at the boundary after it; its neurons are on `axis`."""
        return boundary if isinstance(boundary, Tensor) else boundary[self.at]

    def inputs(self, boundary: Boundary, dtype: torch.dtype | None = None, *, ones: bool = False) -> Tensor:
        """The input rows of an affine level, (N, p): one per output position, convolution patches unfolded.

        Args:
            boundary: before the level.
            dtype, ones: see `Affine.rows`.
        """
        assert isinstance(self.form, Affine)
        return self.form.rows(self.form.read(boundary)[0], dtype, ones=ones)

    def weights(self) -> Tensor:
        """The weights of its layers, (p, d) float64, see `Affine.weights`."""
        assert isinstance(self.form, Affine)
        return self.form.weights()

    def write(self, V: Tensor) -> None:
        """Copy weights (p, d) into its layers."""
        assert isinstance(self.form, Affine)
        self.form.write(V)

    def state(self) -> dict[str, Tensor]:
        """The level's own tensors under their names in the whole model."""
        parts = self.module if isinstance(self.module, nn.Sequential) else [self.module]
        return {name: tensor for part in parts for name, tensor in tensors_in(part).items()}

    def put_back(self) -> None:
        """Write folded layers back into the model they came from."""
        for fold in self.folds:
            fold.put_back()


def is_branched(levels: Iterable[Level]) -> bool:
    """Whether several tensors are alive between some levels, as inside blocks."""
    return any(len(level.alive) > 1 for level in levels)


def merged(levels: Sequence[Level]) -> Level:
    """Join several levels into one; a single level stays as it is."""
    if len(levels) == 1:
        return levels[0]
    names = ", ".join(level.name for level in levels)
    return replace(
        levels[-1],
        module=nn.Sequential(*(level.module for level in levels)),
        form=Opaque(why=f"it joins {len(levels)} levels ({names}) to match a shallower network"),
        folds=tuple(fold for level in levels for fold in level.folds),
        residual=all(level.residual for level in levels),
    )


def compose(levels: Iterable[Level], x: Boundary) -> Any:
    """Run levels in turn, from inputs (B, ...) or another boundary to the boundary after the last."""
    for level in levels:
        x = level.module(x)
    return x


def each(boundary: Boundary, change: Callable[[Tensor], Tensor]) -> Any:
    """Apply a function to each tensor (B, ...) of a boundary."""
    return change(boundary) if isinstance(boundary, Tensor) else tuple(map(change, boundary))


def rows(tensor: Tensor, axis: int) -> Tensor:
    """Reshape a boundary tensor to rows x neurons: (B, C, H, W), (B, T, D) or (B, D) -> (N, width)."""
    return tensor.movedim(axis, -1).reshape(-1, tensor.shape[axis])
