"""DeepLIFT by Captum's rules (Shrikumar et al. 2017; Kokhlikyan et al. 2020), on graphs whose operations they cover."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, fx

from ...graph.entries import MOVES
from ...graph.graph import Graph, Values, Weights, name_of, words
from ...graph.network import Network
from ...system.extras import require
from ...system.monitor import Monitor
from ...system.refusals import Refusal
from ...system.settings import setting
from .base import Importance, Neurons, Scores, summed, true_logits

#: Operations that are linear, for which the rule is the gradient: of any inputs, and of one that depends on the data.
LINEAR = {"add", "sub", "mean", "sum", "avg_pool", "adaptive_avg_pool", "constant_pad_nd", "pad"} | MOVES
OF_ONE = {"linear", "conv", "conv_transpose", "batch_norm", "mul", "div", "matmul", "mm", "addmm"}
#: Functions of each entry that Captum has its rule for.
ENTRYWISE = words("relu elu leaky_relu sigmoid tanh softplus")
RULED = ENTRYWISE | {"max_pool"}


@dataclass(frozen=True, eq=False)
class DeepLift(Importance):
    """DeepLIFT of a neuron for the logit of the true class (Shrikumar et al. 2017), on models that Captum's rules cover.

    Rescale rule, zero baseline; the score is the sum over positions of |attribution|, averaged over samples. With
    `fallback="gradient"`, the report's `completeness_gap` is the error in the sum of each level's attributions (29 %
    measured on a GELU network).
    """

    title: ClassVar[str] = "DeepLIFT"

    fallback: Literal["gradient"] | None = setting(
        None,
        "gradient: use the plain gradient where Captum has no rule; none: refuse such networks",
        title="Where DeepLIFT has no rule",
    )

    def check(self, neurons: Neurons) -> None:
        """Check that a difference to zero has a meaning, and that the rules, or the fallback, cover the network, a chain."""
        cures = ("importance", "uniform"), ("importance", "conductance")
        if neurons.reads_whole_numbers:
            raise Refusal(
                "importance 'deeplift' compares a sample with zero, but some inputs of these networks are integers, such as "
                "tokens, where zero is a value like any other. Use importance='conductance', which follows their embeddings, or "
                "'uniform'.",
                *cures,
            )
        if neurons.net.branched:
            raise Refusal(
                "importance 'deeplift' is defined only where all that is alive is one layer's output, but this network has "
                "neurons inside blocks. Use importance='uniform' or 'conductance'.",
                *cures,
            )
        missing = without_rule(neurons.net)
        if missing and self.fallback != "gradient":
            raise Refusal(
                f"DeepLIFT has no rule for {missing[0]} ({len(missing)} such operation{'s' * (len(missing) > 1)}). Use "
                "importance='conductance', or the plain gradient there with fallback='gradient'.",
                cures[1],
                ("fallback", "gradient"),
            )

    def scores(self, neurons: Neurons, x: Any, y: Tensor | None, *, monitor: Monitor) -> Scores:
        """DeepLIFT at each tensor, in one pass."""
        assert y is not None
        graph = copy.copy(neurons.net.graph)
        graph.compute = partial(_by_rule, neurons.net.graph)  # type: ignore[method-assign]
        ruled = Neurons.of(replace(neurons.net, graph=graph))

        def attribute(inputs: list[Tensor], labels: Tensor) -> tuple[list[Tensor], float]:
            tensors = ruled.run([torch.cat([tensor, torch.zeros_like(tensor)]) for tensor in inputs])
            logits = true_logits(tensors[-1], labels.repeat(2))
            gradients = torch.autograd.grad(logits.sum(), tensors)
            changes = [one - other for one, other in (tensor.detach().chunk(2) for tensor in (*tensors, logits))]
            parts = [change * gradient.chunk(2)[0] for change, gradient in zip(changes, gradients, strict=False)]
            return parts, changes[-1].sum().item()

        found = summed("deeplift", attribute, neurons, x, y, monitor, copies=16)
        return replace(found, report={**found.report, "without_rule": without_rule(neurons.net)})


def without_rule(net: Network) -> list[str]:
    """Operations that have no rule of DeepLIFT, in words."""
    graph, missing = net.graph, list[str]()
    for node in graph.nodes:
        name, of_data = name_of(node), [other for other in node.all_input_nodes if other in graph.of_data]
        linear = name in LINEAR or (name in OF_ONE and len(of_data) == 1)
        if of_data and isinstance(net.spaces.neurons.real[node], Tensor) and not (linear or name in RULED):
            missing.append(f"{name}() in {node.meta.get('module', '')!r}")
    return missing


def _by_rule(graph: Graph, node: fx.Node, weights: Weights, values: Values) -> Any:
    """As `Graph.compute`, with gradients by DeepLIFT's rules."""
    source, name = node.args[0] if node.args else None, name_of(node)
    if source not in graph.of_data or name not in RULED:
        return Graph.compute(graph, node, weights, values)
    return _Rule.apply(values[source], lambda x: Graph.compute(graph, node, weights, {**values, source: x}), name)


class _Rule(torch.autograd.Function):
    """An operation on samples and their baselines, one after another, whose gradient is that of DeepLIFT.

    Max pooling: what a maximum rises from the baseline's to the larger of both belongs to the sample's entry, what it falls from
    there to the sample's to the baseline's entry. So does Captum, but it keeps only one of overlapping windows.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, compute: Callable[[Tensor], Tensor], name: str) -> Tensor:
        ctx.x, ctx.compute, ctx.name = x.detach(), compute, name
        return compute(ctx.x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        with torch.enable_grad():
            x = ctx.x.requires_grad_()
            made = ctx.compute(x)
        (plain,) = torch.autograd.grad(made, x, gradient, retain_graph=True)
        rule = _captum()._core.deep_lift.nonlinear
        with torch.no_grad():
            if ctx.name in ENTRYWISE:
                return rule(None, x, made, plain, gradient), None, None
            sample, zero = made.chunk(2)
            larger = sample.maximum(zero)
            (parts,) = torch.autograd.grad(made, x, gradient * torch.cat([larger - zero, sample - larger]))
            one, other = parts.chunk(2)
            parts = torch.cat([one + other, torch.zeros_like(one)])
            return rule(None, x, parts, plain, torch.ones_like(x)), None, None


def _captum() -> Any:
    """Import Captum here: only this score needs it, it takes a second, and it warns in notebooks without widgets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        require("captum", "baselines")
        import captum.attr
    return captum.attr
