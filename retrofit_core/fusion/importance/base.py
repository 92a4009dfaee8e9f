"""What a score is: the neurons of one parent that it sees, the base class of all scores, and the two that compute nothing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, fx

from ...graph.graph import Values, name_of
from ...graph.layers import weight_of
from ...graph.network import Network
from ...networks.inputs import leaves_of
from ...networks.outputs import check_class_scores
from ...system.labels import as_labels
from ...system.monitor import Monitor
from ...system.settings import Value, setting
from ..samples import read_once

#: Added to every score, so that classes which a parent never saw keep a tiny weight (docs/method.md).
EPSILON = 1e-8
#: Maximum bytes of a batch's activations and gradients.
BATCH_BYTES = 2**30


@dataclass(frozen=True)
class Place:
    """A tensor of a network that holds neurons."""

    name: str
    axis: int
    """Neuron axis"""
    width: int
    """Number of neurons"""


@dataclass(frozen=True, eq=False)
class Neurons:
    """The neurons of one parent that are scored: the outputs of its layers; the last are the classes.

    Called with inputs (B, ...), it returns the tensors that hold them, (B, ...) each. These have gradients where gradients are
    enabled, and can be differentiated with respect to each other.
    """

    places: Sequence[Place]
    """Name, axis and width of each tensor"""
    run: Callable[..., list[Tensor]]
    """Tensors that the network reads (and a point of the path from zero to them) -> the tensors"""
    net: Network
    nodes: Sequence[fx.Node]

    @classmethod
    def of(cls, net: Network) -> "Neurons":
        """The neurons of a network, layer by layer; then the classes if no layer makes them."""
        graph, classes = net.graph, net.spaces.neurons.shape(net.graph.output)
        nodes, axes, names = [layer.place for layer in net.layers], list(net.axes), [layer.name for layer in net.layers]
        sizes, at = [len(columns) for columns in net.columns], len(nodes)
        if at - 1 in net.last and classes == (1, sizes[-1]):
            at -= 1
        else:
            names.append("classes")
        nodes[at:], axes[at:], sizes[at:] = [graph.output], [1], [classes[-1]]
        tables = [node for node in graph.nodes if name_of(node) == "embedding"]

        def run(leaves: Sequence[Tensor], point: float = 1.0) -> list[Tensor]:
            differentiable = torch.is_grad_enabled()

            def leaf(value: Tensor, factor: float) -> Tensor:
                return (value.detach() * factor).requires_grad_(differentiable) if value.is_floating_point() else value

            # Weights have gradients so that tensors which do not depend on the inputs have them too.
            weights = {
                name: leaf(tensor, 1.0) if name in graph.trained else tensor for name, tensor in net.weights.items()
            }
            given: Values = graph.input_values([leaf(value, point) for value in leaves])
            if not all(value.is_floating_point() for value in leaves):
                found = graph.run(net.weights, graph.input_values(leaves), tables)
                given |= {node: leaf(value, point) for node, value in found.items()}
            values = graph.run(weights, given, nodes)
            return [values[node] for node in nodes]

        return cls([Place(*facts) for facts in zip(names, axes, sizes, strict=True)], run, net, nodes)

    def __call__(self, x: Any) -> list[Tensor]:
        return self.run(leaves_of(x))

    def __iter__(self) -> Iterator[Place]:
        return iter(self.places)

    def weights(self) -> list[Tensor]:
        """For each layer, (p, width) what each neuron reads its inputs with; last its bias, if the layer has one."""
        return [weight_of(layer, self.net.weights) for layer in self.net.layers]

    @property
    def reads_whole_numbers(self) -> bool:
        """Whether some of the network's inputs are whole numbers, such as tokens."""
        graph, real = self.net.graph, self.net.spaces.neurons.real
        return not all(real[node].is_floating_point() for node in graph.inputs)

    def batch(self, copies: int) -> int:
        """Samples (1 to 64) for which `copies` of all tensors, float32, fit into BATCH_BYTES."""
        numbers = sum(self.net.spaces.neurons.shape(node).numel() for node in self.nodes)
        return max(1, min(64, BATCH_BYTES // (4 * copies * numbers)))


@dataclass(frozen=True)
class Scores:
    """Raw scores of one parent, and facts about how they were computed."""

    values: list[Tensor]
    """One (width,) tensor per place, not negative"""
    report: dict[str, Any] = field(default_factory=dict)
    """For attributions in a chain: `completeness_gap` per level, |sum of attributions - (f_y(x) - f_y(0))| relative to the
    latter"""


@dataclass(frozen=True, eq=False)
class Importance(Value):
    """Base class of importance scores: their data, requirements and cost.

    A new score needs a method `scores` and one line in IMPORTANCE; its fields are its options.
    """

    title: ClassVar[str] = ""
    """Its displayed name, if that is not its name in the table"""
    needs_data: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = True
    """Whether it explains decisions for the true classes"""
    reads_logits: ClassVar[bool] = True
    """If it needs labels: whether it reads the logit of the true class, so that outputs must be class scores"""

    data: Any = field(default=None)
    """Data for the scores: one (inputs, labels) per parent (in the paper, its own training data), or "fusion" for the fusion
    data"""
    normalise_scores: bool = setting(
        True, "normalise the scores of each level and parent to sum to 1", title="Scores sum to one"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "data", read_once(self.data))

    def on(self, data: object) -> Self:
        """The same score on these data.

        Raises:
            ValueError: it already has data.
        """
        if self.data is not None:
            raise ValueError(
                f"importance_data is given in addition to data inside {type(self).__name__}(...). Pass only one of "
                "them."
            )
        return replace(self, data=data)

    def check(self, neurons: Neurons) -> None:
        """Check before any work that the score covers these neurons.

        Raises:
            ValueError: says what it does not cover, and a solution.
        """

    def scores(self, neurons: Neurons, x: Any, y: Tensor | None, *, monitor: Monitor) -> Scores | Sequence[Tensor]:
        """One (width,) tensor per place, not negative; the caller adds 1e-8 and normalises them. Gradients are enabled.

        Args:
            x: all inputs, (B, ...) or a mapping or tuple of such, on the network's device; the score itself splits them into
                batches (`neurons.batch`).
            y: (B,) int64 labels of the network's classes. None only if `needs_labels` is false; other scores assert that
                they are given.
            monitor: `monitor.each("step", batches, name=)` shows progress, and stops where that was requested.
        """
        raise NotImplementedError(f"{type(self).__name__} has no scores(self, neurons, x, y, *, monitor).")


@dataclass(frozen=True, eq=False)
class Uniform(Importance):
    """Equal importance of all neurons (paper sec. 2.2); needs no data."""

    needs_data: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = False

    def scores(self, neurons: Neurons, x: Any, y: Tensor | None, *, monitor: Monitor) -> Scores:
        """1/width for each neuron, (width,) each."""
        return Scores([torch.full((place.width,), 1 / place.width, dtype=torch.float64) for place in neurons])


@dataclass(frozen=True, eq=False)
class Custom(Importance):
    """Importance from a function `(neurons, x, y) -> Scores`, or one (width,) tensor or array per place."""

    reads_logits: ClassVar[bool] = False  # left to the function

    function: Callable[..., Any] = field(kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keywords passed to the function"""

    @property
    def __name__(self) -> str:
        """The function's name, for records and messages."""
        return getattr(self.function, "__name__", str(self.function))

    def scores(self, neurons: Neurons, x: Any, y: Tensor | None, *, monitor: Monitor) -> Any:
        """The function's result."""
        return self.function(neurons, x, y, **self.options)


def summed(
    name: str,
    attribute: Callable[[list[Tensor], Tensor], tuple[Sequence[Tensor], float]],
    neurons: Neurons,
    x: Any,
    y: Tensor,
    monitor: Monitor,
    *,
    copies: int,
) -> Scores:
    """Scores from attributions, batch by batch.

    Args:
        attribute: (the tensors that the network reads, labels) -> the attributions of the scored tensors, (B, ...) each, and the
            sum of f_y(x) - f_y(0), which the attributions of each tensor of a chain should add up to.
        copies: of all tensors that it holds at once.
    """
    axes, size = [place.axis for place in neurons], neurons.batch(copies)
    sums: list[Tensor | float] = [0.0] * len(axes)
    signed, change = torch.zeros(len(axes), dtype=torch.float64, device=y.device), 0.0
    batches = list(zip(*(tensor.split(size) for tensor in (*leaves_of(x), as_labels(y))), strict=True))
    for *inputs, labels in monitor.each("step", batches, name=name):
        attributions, of_batch = attribute(inputs, labels)
        for index, attribution in enumerate(attributions):
            values = attribution.movedim(axes[index], -1).flatten(0, -2)
            sums[index] = sums[index] + values.abs().double().sum(0)  # of samples and positions
            signed[index] += attribution.sum(dtype=torch.float64)
        change += of_batch
    report: dict[str, Any] = {"samples": len(y)}
    if not neurons.net.branched:  # a change of the logits passes through each tensor
        report["completeness_gap"] = [abs(total - change) / max(abs(change), 1e-12) for total in signed.tolist()]
    return Scores([torch.as_tensor(total / len(y)) for total in sums], report)


def true_logits(outputs: Tensor, y: Tensor) -> Tensor:
    """f_y(x): (B,) each sample's logit of its label.

    Raises:
        ValueError: outputs are no class scores.
    """
    check_class_scores(
        outputs.shape[1:], "the logit of the true class", "Use importance='uniform'.", ("importance", "uniform")
    )
    return outputs.gather(1, y[:, None].to(torch.int64))[:, 0]
