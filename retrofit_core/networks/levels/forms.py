"""Layer forms: how the layers of a level compute its outputs.

Legend: N rows = samples x positions, p inputs per neuron (unfolded for convolutions, channel-major, as `weight.flatten(1)`),
d neurons.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .kinds import AffineLayer, Convolution

#: One tensor, or a tuple of several inside a block.
Boundary = Tensor | tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Form:
    """Base of the forms: layers whose outputs are summed, possibly onto a residual stream."""

    closed: ClassVar[bool] = True
    """Whether a closed form fits it"""

    layers: tuple[AffineLayer | nn.Embedding, ...]
    paths: tuple[str, ...]
    """The layers' names in the model"""
    prefix: nn.Module
    """Maps the boundary before the level to each layer's input and, last, the stream"""
    adds: bool = False
    """Whether the outputs are added to a residual stream; the level's output is the sum"""
    inputs: tuple[str, ...] = ()
    """Names in the trace of the tensors that the layers read"""

    @property
    def bias(self) -> bool:
        """Whether there is a bias; the first layer that has one holds it."""
        return False

    @property
    def inputs_per_neuron(self) -> int:
        """p, without the bias."""
        return 0

    @property
    def parts(self) -> int:
        """Number of parts of a grouped convolution, each with its own inputs; else 0."""
        return 0

    @property
    def channelwise(self) -> bool:
        """Whether it is depthwise, so that its neurons are those that it reads."""
        return False

    def columns(self, m: int, width: int) -> int:
        """Columns of a level's sums: the parents' m neurons, then the stream."""
        return m + self.adds * width

    def read(self, boundary: Boundary) -> tuple[tuple[Tensor, ...], Tensor | None]:
        """The input (B, ...) of each layer, and the stream (B, ...) that their outputs are added to, if any."""
        tensors = self.prefix(boundary)
        tensors = (tensors,) if isinstance(tensors, Tensor) else tensors
        return (tensors[:-1], tensors[-1]) if self.adds else (tensors, None)

    def outputs(self, boundary: Boundary) -> Tensor:
        """(B, ...) sum of the layers' own outputs."""
        inputs, _ = self.read(boundary)
        outputs: list[Tensor] = [layer(x) for layer, x in zip(self.layers, inputs, strict=True)]
        return sum(outputs[1:], outputs[0])


@dataclass(frozen=True, eq=False)
class Opaque(Form):
    """Anything else: only a gradient fits it."""

    closed: ClassVar[bool] = False

    layers: tuple[AffineLayer | nn.Embedding, ...] = ()
    paths: tuple[str, ...] = ()
    prefix: nn.Module = nn.Identity()
    why: str = ""
    """Why it is not affine in its weights, as the end of a sentence"""


@dataclass(frozen=True, eq=False)
class Affine(Form):
    """Linear layers or convolutions: rows of inputs (N, p) times weights (p, d)."""

    layers: tuple[AffineLayer, ...]

    @property
    def bias(self) -> bool:
        return any(layer.bias is not None for layer in self.layers)

    @property
    def inputs_per_neuron(self) -> int:
        return sum(layer.weight[0].numel() for layer in self.layers)

    def rows(self, tensors: Sequence[Tensor], dtype: torch.dtype | None = None, *, ones: bool = False) -> Tensor:
        """(N, p) inputs of the layers side by side, one row per output position; stacking their weights gives the sum.

        Unfolding, conversion and the column of ones take one pass over memory.

        Args:
            tensors: see `read`.
            dtype: of the rows; default: the tensors'.
            ones: append a column of ones (p + 1).
        """
        windows = [
            tensor if isinstance(layer, nn.Linear) else _windows(layer, tensor)
            for layer, tensor in zip(self.layers, tensors, strict=True)
        ]
        sizes = [layer.weight[0].numel() for layer in self.layers]
        rows = windows[0].new_empty(windows[0].numel() // sizes[0], sum(sizes) + ones, dtype=dtype or tensors[0].dtype)
        start = 0
        for size, view in zip(sizes, windows, strict=True):
            rows[:, start : start + size].view(view.shape).copy_(view)
            start += size
        rows[:, start:] = 1
        return rows

    def weights(self) -> Tensor:
        """V (p, d) float64, such that `rows @ V` are the rows of the layers' outputs; the last row is the bias.

        For grouped convolutions, column k holds neuron k's weights on the inputs of its own part.
        """
        V = torch.cat([layer.weight.detach().flatten(1).T.double() for layer in self.layers])
        biases = [layer.bias.detach().double() for layer in self.layers if layer.bias is not None]
        return torch.cat([V, torch.stack(biases).sum(0)[None]]) if biases else V

    @torch.no_grad()
    def write(self, V: Tensor) -> None:
        """Copy V (p, d) into the layers, the last row into the first bias; further biases become zero."""
        sizes = [layer.weight[0].numel() for layer in self.layers]
        for layer, weights in zip(self.layers, V[: sum(sizes)].split(sizes), strict=True):
            layer.weight.copy_(weights.T.reshape(layer.weight.shape))
        biases = [layer.bias for layer in self.layers if layer.bias is not None]
        for bias, values in zip(biases, [V[-1], *[torch.zeros_like(V[-1])] * len(biases)], strict=False):
            bias.copy_(values)


@dataclass(frozen=True, eq=False)
class Activated(Affine):
    """One layer whose outputs go through an activation function before they are added to the stream."""

    function: nn.Module = nn.Identity()

    def columns(self, m: int, width: int) -> int:
        """The outputs of the parents' layers follow the stream."""
        return 2 * m + width


@dataclass(frozen=True, eq=False)
class Partwise(Affine):
    """Grouped (or depthwise) convolutions: each part reads its own inputs, rows (N, parts, p)."""

    @property
    def parts(self) -> int:
        return self.layers[0].groups  # type: ignore[union-attr, return-value]

    @property
    def channelwise(self) -> bool:
        weight = self.layers[0].weight
        return self.parts == len(weight) and weight.shape[1] == 1

    def rows(self, tensors: Sequence[Tensor], dtype: torch.dtype | None = None, *, ones: bool = False) -> Tensor:
        windows = [  # 2d: (B, height, width, parts, channels per part, kernel height, kernel width)
            _windows(layer, tensor).unflatten(tensor.ndim - 1, (self.parts, -1))  # type: ignore[arg-type]
            for layer, tensor in zip(self.layers, tensors, strict=True)
        ]
        dims, p = tensors[0].ndim, self.inputs_per_neuron
        inputs = windows[0].new_empty(*windows[0].shape[:dims], p + ones, dtype=dtype or tensors[0].dtype)
        start = 0
        for view in windows:
            of_part = view.shape[dims:]
            inputs[..., start : start + of_part.numel()].unflatten(-1, of_part).copy_(view)
            start += of_part.numel()
        inputs[..., start:] = 1
        return inputs.flatten(0, dims - 2)


@dataclass(frozen=True, eq=False)
class Lookup(Form):
    """Embedding tables: each token picks one row (tokens, d)."""

    layers: tuple[nn.Embedding, ...]

    @property
    def sizes(self) -> list[int]:
        """Rows of each table."""
        return [len(table.weight) for table in self.layers]

    def weights(self) -> Tensor:
        """V (tokens, d) float64, the tables stacked."""
        return torch.cat([table.weight.detach().double() for table in self.layers])

    @torch.no_grad()
    def write(self, V: Tensor) -> None:
        """Copy V (tokens, d) into the tables."""
        for table, rows in zip(self.layers, V.split(self.sizes), strict=True):
            table.weight.copy_(rows)


@dataclass(frozen=True, eq=False)
class Tied(Form):
    """A linear layer tied to an earlier level's embedding, which writes the shared weight, so only the bias is fitted here; or
    no layer, where the classes are products of what earlier levels make."""

    layers: tuple[nn.Linear, ...]

    @property
    def sizes(self) -> list[int]:
        """One row for the bias, if there is one."""
        return [sum(layer.bias is not None for layer in self.layers)]

    def weights(self) -> Tensor:
        """V (1, d) float64, the bias; (0, 0) without one."""
        biases = [layer.bias for layer in self.layers if layer.bias is not None]
        return torch.stack(list[Tensor](biases)).detach().double() if biases else torch.empty(0, 0)

    @torch.no_grad()
    def write(self, V: Tensor) -> None:
        """Copy V (1, d), see `weights`, into the bias."""
        for layer in self.layers[: len(V)]:
            layer.bias.copy_(V[0])


def _windows(conv: Convolution, tensor: Tensor) -> Tensor:
    """A view of the padded input; in 2d (B, out height, out width, C, kernel height, kernel width)."""
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
