"""One level, and its tensors as rows.

Legend: B samples, N rows = samples x positions, C or width neurons, p inputs of an affine level (unfolded for
convolutions, channel-major, as `weight.flatten(1)`).

A boundary is what is alive between two levels: one tensor, or, inside of a block, a tuple of several.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import batchnorm
from .kinds import CONVOLUTIONS

Boundary = Tensor | tuple[Tensor, ...]


@dataclass(frozen=True)
class Alive:
    """One tensor at a boundary."""

    axis: int
    """Of its neurons"""
    width: int
    """Number of them"""
    positions: int
    """Rows per sample"""
    maker: int
    """Number of the level whose neurons they are: those of its output, behind operations that make none"""


@dataclass(frozen=True, eq=False)
class Heads:
    """The neurons of one attention, in the levels of one network: queries, keys and values of each head."""

    query: tuple[int, Tensor]
    """Number of the level that makes them, and (heads, d) their positions in its output"""
    key: tuple[int, Tensor]
    value: tuple[int, Tensor]
    reader: int
    """Number of the level whose layer reads the values that the attention has mixed"""
    columns: Tensor
    """(heads, d) the positions of the mixed values among that layer's inputs"""
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
class Kind:
    """Neurons of one level that are grouped among themselves: exchanged with each other, not with the level's others."""

    first: tuple[int, int]
    """Number of the first level that makes these neurons, and which of its kinds they are: there they are grouped"""
    places: Tensor
    """(neurons, copies) their positions in the level's output; several where each neuron is made more than once"""
    fixed: bool = False
    """Whether they are classes: class c stays class c, whichever level makes it"""


@dataclass(frozen=True, eq=False)
class Carried:
    """A parameter or buffer before the layers of a level that holds numbers for neurons of levels before."""

    name: str
    axis: int
    """Of the neurons"""
    makers: tuple[tuple[int, Tensor, Tensor], ...]
    """Number of a level that makes neurons, (neurons,) their positions in its output, (neurons, copies) those in the tensor;
    entries of no neurons are the parents' mean"""


@dataclass(frozen=True, eq=False)
class Parts:
    """Neurons of one level that lie in the parts of a grouped convolution: its own, or those that it reads part by part."""

    first: int
    """Number of the first of the levels whose neurons lie in these parts: there the parts are grouped"""
    places: Tensor
    """(parts, neurons of each) their positions in the level's output"""


@dataclass(frozen=True, eq=False)
class Level:
    """One step of the composition f = f_L o ... o f_1; the parameters are the model's own, not copies."""

    name: str
    """The affine layer or the block at whose output the level ends, else its last layer with parameters."""
    module: nn.Module
    """Boundary in, boundary out."""
    width: int
    """Number of output neurons."""
    axis: int
    """Neuron axis of the output: 1 (channels, features of a flat tensor), -1 (tokens) or 2 (channels of several frames)."""
    positions: int
    """Rows per sample: the output's spatial positions or tokens, 1 for a flat tensor."""
    head: bool
    """True for the last level: its neurons are the classes."""
    layers: tuple[batchnorm.Affine, ...]
    """What is fitted, last in it: one layer, or two whose outputs are added; empty if the level is not affine in its weights."""
    prefix: nn.Module | None
    """The part before the layers, see `read`; without parameters but for `vectors`. None if the level is not affine."""
    why_not_affine: str
    """The reason, as the end of a sentence; empty for an affine level."""
    tables: tuple[nn.Embedding, ...] = ()
    """Tables of embeddings whose rows are its output, or whose rows are added to it; a level has these or `layers`"""
    folds: tuple[tuple[batchnorm.Affine, batchnorm.Affine | None, batchnorm.BatchNorm | batchnorm.Scale], ...] = ()
    """(folded layer, affine layer, BatchNorm or scale) for each that was folded here; None: into nothing before it."""
    residual: bool = False
    """Whether a skip adds the input's neurons to the output's, so that both must have the same order."""
    tail: bool = False
    """Whether operations follow the last layer, a mean over positions for instance: its neurons are then those of its layer"""
    adds: bool = False
    """Whether the layers' outputs are added to a residual stream; the level's output is the sum."""
    function: nn.Module | None = None
    """The activation function through which the layer's outputs go before they are added"""
    paths: tuple[str, ...] = ()
    """The names of the layers in the model."""
    alive: tuple[Alive, ...] = ()
    """The tensors at the boundary after the level."""
    at: int | None = None
    """Which of them is the level's output; None where the boundary is one tensor."""
    stream: int | None = None
    """The first of the levels that make the same neurons, those of one residual stream; None: no other level makes its."""
    vectors: tuple[str, ...] = ()
    """Parameters before the layers that hold numbers for each neuron: scale and shift of a LayerNorm, class token, positions"""
    buffers: tuple[str, ...] = ()
    """Buffers before the layers that may hold such numbers: masks, scales, positions; in a level that is not affine anywhere"""
    carried: tuple[Carried, ...] = ()
    """Those of both that do, and for which neurons"""
    heads: Heads | None = None
    """The attention whose queries, keys or values it makes"""
    parts: Parts | None = None
    """The parts of a grouped convolution in which its neurons lie; None: it has nothing to do with one"""
    kinds: tuple[Kind, ...] = ()
    """The kinds of its neurons; none given where those of a chain's level are all of one, and of queries, keys and values"""
    node: str = ""
    """The name of its output in the trace"""

    @property
    def affine(self) -> batchnorm.Affine | None:
        """The first of its layers; None if the level is not affine in its weights."""
        return self.layers[0] if self.layers else None

    @property
    def plain(self) -> bool:
        """Whether all its neurons are of one kind, each made once, in their order."""
        places = [kind.places for kind in self.kinds]
        return not places or (len(places) == 1 and torch.equal(places[0], torch.arange(self.width)[:, None]))

    @property
    def classes(self) -> tuple[Tensor, ...]:
        """(classes, copies) the positions of classes in its output: at the head all, of levels that make them too (early exits,
        several heads) those; class c stays class c there."""
        if self.head:
            return (torch.arange(self.width)[:, None],)
        return tuple(kind.places for kind in self.kinds if kind.fixed)

    @property
    def fixed(self) -> bool:
        """Whether all its neurons are classes, each made once, in their order."""
        return self.head or (self.plain and bool(self.classes))

    @property
    def partwise(self) -> int:
        """The number of parts of its layer, if that is a grouped convolution, each part of which reads its own inputs; else 0."""
        groups = self.layers[0].groups if self.layers and isinstance(self.layers[0], CONVOLUTIONS) else 1
        return groups if groups > 1 else 0

    @property
    def channelwise(self) -> bool:
        """Whether it works channel by channel, as a depthwise convolution does: its neurons are those that it reads."""
        return self.partwise == self.width and bool(self.layers) and self.layers[0].weight.shape[1] == 1

    @property
    def bias(self) -> bool:
        """Whether it has one; of two layers the first holds it."""
        return any(layer.bias is not None for layer in self.layers)

    @property
    def inputs_per_neuron(self) -> int:
        """p, the weights of a neuron, without its bias."""
        return sum(layer.weight[0].numel() for layer in self.layers)

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
        """What the level is, for tables: Linear, Conv2d, ..., or the reason why it is not affine."""
        norms = {id(layer): norm for layer, affine, norm in self.folds if affine is None}
        layers = [norms.get(id(layer), layer) for layer in self.layers] or self.tables
        return " + ".join(type(layer).__name__ for layer in layers) or "not affine"

    def output(self, boundary: Boundary) -> Tensor:
        """The level's output, of the boundary after it."""
        return boundary if isinstance(boundary, Tensor) else boundary[self.at or 0]

    def read(self, boundary: Boundary) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """The inputs of its layers, and the stream to which their outputs are added, if there is one.

        Args:
            boundary: before the level.
        """
        assert self.prefix is not None
        tensors = self.prefix(boundary)
        tensors = (tensors,) if isinstance(tensors, Tensor) else tensors
        return (tensors[:-1], tensors[-1]) if self.adds else (tensors, None)

    def made(self, boundary: Boundary) -> Tensor:
        """The layers' own outputs, where something follows before they are added, or before the network ends."""
        inputs, _ = self.read(boundary)
        outputs: list[Tensor] = [layer(x) for layer, x in zip(self.layers, inputs, strict=True)]
        return sum(outputs[1:], outputs[0])

    def inputs(self, boundary: Boundary, dtype: torch.dtype | None = None, *, ones: bool = False) -> Tensor:
        """The level's input rows x of shape (N, p): one row per output position, convolution patches unfolded.

        Args:
            dtype: of the rows; default: the boundary tensor's.
            ones: append a column of ones (p + 1).
        """
        return unfolded_together(self.layers, self.read(boundary)[0], dtype, ones=ones)

    def part_inputs(self, tensors: Sequence[Tensor], dtype: torch.dtype | None = None) -> Tensor:
        """The input rows of each part, (N, parts, p), of grouped convolutions; ones last if the level has a bias.

        Args:
            tensors: the layers' inputs, see `read`.
        """
        windows = [  # of maps (B, height, width, parts, channels of one, kernel height, kernel width)
            _windows(layer, tensor).unflatten(tensor.ndim - 1, (self.partwise, -1))
            for layer, tensor in zip(self.layers, tensors, strict=True)
            if not isinstance(layer, nn.Linear)
        ]
        dims = tensors[0].ndim
        inputs = windows[0].new_empty(
            *windows[0].shape[:dims], self.inputs_per_neuron + self.bias, dtype=dtype or tensors[0].dtype
        )
        start = 0
        for view in windows:
            own = view.shape[dims:]
            inputs[..., start : start + own.numel()].unflatten(-1, own).copy_(view)
            start += own.numel()
        if self.bias:
            inputs[..., -1] = 1
        return inputs.flatten(0, dims - 2)

    def weights(self) -> Tensor:
        """V (p, d) float64, such that `inputs @ V` are the rows of the layers' outputs; the bias in the last row.

        Of grouped convolutions column k holds the weights of neuron k on the inputs of its own part.
        """
        V = torch.cat([layer.weight.detach().flatten(1).T.double() for layer in self.layers])
        biases = [layer.bias.detach().double() for layer in self.layers if layer.bias is not None]
        return torch.cat([V, torch.stack(biases).sum(0)[None]]) if biases else V

    @torch.no_grad()
    def write(self, V: Tensor) -> None:
        """Copy V (p, d) into the layers, the last row into the first bias that there is."""
        sizes = [layer.weight[0].numel() for layer in self.layers]
        for layer, weights in zip(self.layers, V[: sum(sizes)].split(sizes), strict=True):
            layer.weight.copy_(weights.T.reshape(layer.weight.shape))
        biases = [layer.bias for layer in self.layers if layer.bias is not None]
        for bias, values in zip(biases, [V[-1], *[torch.zeros_like(V[-1])] * len(biases)], strict=False):
            bias.copy_(values)

    def state(self) -> dict[str, Tensor]:
        """The level's own tensors under the names that they have in the whole model."""
        parts = self.module if isinstance(self.module, nn.Sequential) else [self.module]
        return {name: tensor for part in parts for name, tensor in part.state_dict().items()}

    def put_back(self) -> None:
        """Write folded layers back into the model they came from."""
        for layer, affine, norm in self.folds:
            batchnorm.put_back(layer, affine, norm)


def is_branched(levels: Iterable[Level]) -> bool:
    """Whether several tensors are alive between some of the levels: levels inside of blocks."""
    return any(len(level.alive) > 1 for level in levels)


def merged(levels: Sequence[Level]) -> Level:
    """Several levels as one; a single level stays as it is."""
    if len(levels) == 1:
        return levels[0]
    return replace(
        levels[-1],
        module=nn.Sequential(*(level.module for level in levels)),
        layers=(),
        tables=(),
        prefix=None,
        why_not_affine=f"it joins {len(levels)} levels ({', '.join(level.name for level in levels)}) to match a shallower "
        "network",
        folds=tuple(fold for level in levels for fold in level.folds),
        residual=all(level.residual for level in levels),
    )


def compose(levels: Iterable[Level], x: Any) -> Any:
    """Run levels one after the other: from boundary to boundary."""
    for level in levels:
        x = level.module(x)
    return x


def each(boundary: Boundary, change: Callable[[Tensor], Tensor]) -> Any:
    """A boundary with each of its tensors changed."""
    return change(boundary) if isinstance(boundary, Tensor) else tuple(map(change, boundary))


def rows(tensor: Tensor, axis: int) -> Tensor:
    """A boundary tensor as rows x neurons: (B, C, H, W), (B, T, D) or (B, D) -> (N, width)."""
    return tensor.movedim(axis, -1).reshape(-1, tensor.shape[axis])


def unfolded(
    affine: batchnorm.Affine, tensor: Tensor, dtype: torch.dtype | None = None, *, ones: bool = False
) -> Tensor:
    """Input rows (N, p) such that `rows @ weight.flatten(1).T + bias` are the layer's output rows."""
    return unfolded_together([affine], [tensor], dtype, ones=ones)


def unfolded_together(
    layers: Sequence[batchnorm.Affine],
    tensors: Sequence[Tensor],
    dtype: torch.dtype | None = None,
    *,
    ones: bool = False,
) -> Tensor:
    """The input rows of layers whose outputs are added, side by side: their weights one below the other give the sum.

    Unfolding, conversion and the column of ones take one pass over memory.
    """
    windows = [
        tensor if isinstance(layer, nn.Linear) else _windows(layer, tensor)
        for layer, tensor in zip(layers, tensors, strict=True)
    ]
    sizes = [layer.weight[0].numel() for layer in layers]
    count, p = windows[0].numel() // sizes[0], sum(sizes)
    unfolded_rows = torch.empty(count, p + ones, dtype=dtype or tensors[0].dtype, device=tensors[0].device)
    start = 0
    for size, view in zip(sizes, windows, strict=True):
        unfolded_rows[:, start : start + size].view(view.shape).copy_(view)
        start += size
    if ones:
        unfolded_rows[:, -1] = 1
    return unfolded_rows


def _windows(conv: batchnorm.Convolution, tensor: Tensor) -> Tensor:
    """A view of the padded input, of maps (B, out height, out width, C, kernel height, kernel width)."""
    mode = "constant" if conv.padding_mode == "zeros" else conv.padding_mode
    padding = conv._reversed_padding_repeated_twice  # holds for int, tuple, "same" and "valid" alike
    tensor = F.pad(tensor, padding, mode=mode) if any(padding) else tensor
    B, C, *sizes = tensor.shape
    spans = [d * (k - 1) + 1 for d, k in zip(conv.dilation, conv.kernel_size, strict=True)]
    counts = [(size - span) // step + 1 for size, span, step in zip(sizes, spans, conv.stride, strict=True)]
    b, c, *strides = tensor.stride()
    steps = [stride * step for stride, step in zip(strides, conv.stride, strict=True)]
    inner = [stride * d for stride, d in zip(strides, conv.dilation, strict=True)]
    return tensor.as_strided((B, *counts, C, *conv.kernel_size), (b, *steps, c, *inner))
