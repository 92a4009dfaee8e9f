"""DeepLIFT with Captum (Shrikumar et al. 2017; Kokhlikyan et al. 2020), on models that its rules cover."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.dropout import _DropoutNd

from ...networks.levels import Level
from ...networks.levels.kinds import BatchNorm
from ...system.extras import require
from ...system.monitor import Monitor
from ...system.refusals import Refusal
from ...system.settings import setting
from .base import Importance, Neurons, Scores, summed, true_logits

#: Modules that are linear in evaluation mode, for which the gradient is the right rule.
LINEAR_MODULES = (
    *(nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Flatten, BatchNorm, _DropoutNd, nn.Identity),
    *(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
)
LINEAR_FUNCTIONS = {
    *("add", "sub", "mean", "sum", "linear", "conv2d", "avg_pool2d", "adaptive_avg_pool2d"),
    *("cat", "flatten", "reshape", "view", "permute", "transpose", "contiguous", "squeeze", "unsqueeze", "expand"),
    *("getitem", "getattr", "size"),
}


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

    def for_whole_numbers(self, whole: Tensor) -> Self:
        """Raise ValueError: a difference to zero has no meaning for integers."""
        raise Refusal(
            "importance 'deeplift' compares a sample with zero, but some inputs of these networks are integers, such "
            "as tokens, where zero is a value like any other. Use importance='conductance', which follows their "
            "embeddings, or 'uniform'.",
            ("importance", "conductance"),
            ("importance", "uniform"),
        )

    def check(self, neurons: Neurons) -> None:
        """Check that the rules, or the fallback, cover the network, and that it is a chain of levels."""
        if not neurons.in_chain:
            raise Refusal(
                "importance 'deeplift' is defined only at the ends of levels, but this network has neurons inside blocks. "
                "Use importance='uniform' or 'conductance'.",
                ("importance", "uniform"),
                ("importance", "conductance"),
            )
        check_rules(neurons.levels, self.fallback)

    def scores(self, neurons: Neurons, x: Tensor, y: Tensor | None, *, monitor: Monitor) -> Scores:
        """DeepLIFT at each level's output."""
        assert y is not None
        missing = check_rules(neurons.levels, self.fallback)
        network = nn.Sequential(*(level.module for level in neurons.levels))
        with torch.no_grad():
            zero = network(torch.zeros_like(x[:1]))
            true_logits(zero, y[:1])  # raises before Captum does

        def attribute(inputs: Tensor, labels: Tensor) -> tuple[list[Tensor], float]:
            with torch.no_grad():
                outputs = network(inputs)
                change = (true_logits(outputs, labels) - true_logits(zero.expand_as(outputs), labels)).sum().item()
            return _attributions(network, inputs, labels), change

        scores = summed("deeplift", attribute, neurons, x, y, monitor, copies=16)
        return replace(scores, report={**scores.report, "without_rule": missing})


def check_rules(levels: Sequence[Level], fallback: str | None = None) -> list[str]:
    """Operations that only the fallback covers, in words.

    Raises:
        ValueError: there are some, and no fallback.
    """
    missing = uncovered(levels)
    if missing and fallback != "gradient":
        raise Refusal(
            f"DeepLIFT has no rule for {missing[0]} ({len(missing)} such "
            f"operation{'s' if len(missing) > 1 else ''}). Use modules of torch.nn, each once; or "
            "importance='conductance'; or the plain gradient there with fallback='gradient'.",
            ("importance", "conductance"),
            ("fallback", "gradient"),
        )
    return missing


def _attributions(network: nn.Sequential, x: Tensor, y: Tensor) -> list[Tensor]:
    """DeepLIFT at each level's output, with the same shape.

    Captum attributes to one layer per pass. Its backward pass to the first level's output passes all the others, so one pass
    is enough.
    """
    outputs: list[Tensor] = []
    gradients: dict[int, Tensor] = {}

    def keep(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        output.requires_grad_()
        index = len(outputs)
        outputs.append(output.detach().clone())
        output.register_hook(lambda gradient: gradients.__setitem__(index, gradient.detach()))
        # Return a copy, because Captum hooks its rules to the tensor that an activation reads, and they must run first.
        return output.clone()

    hooks = [level.register_forward_hook(keep) for level in network[1:]]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Captum warns of its own hooks
            attributed = _captum().LayerDeepLift(network, network[0]).attribute(x, torch.zeros_like(x), target=y)
    finally:
        for hook in hooks:
            hook.remove()
    first = (attributed[0] if isinstance(attributed, tuple) else attributed).detach()
    halves = [(output.chunk(2), gradients[index].chunk(2)[0]) for index, output in enumerate(outputs)]
    return [first, *((at_input - at_zero) * gradient for (at_input, at_zero), gradient in halves)]


def _captum() -> Any:
    """Import Captum here: only this score needs it, it takes a second, and it warns in notebooks without widgets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        require("captum", "baselines")
        import captum.attr
    return captum.attr


def uncovered(levels: Sequence[Level]) -> list[str]:
    """Operations for which DeepLIFT has no rule, in words."""
    non_linear = tuple(_captum()._core.deep_lift.SUPPORTED_NON_LINEAR)
    missing, seen = [], set()
    # A joined level has several graph modules.
    parts = [(level, part) for level in levels for part in level.module.modules() if isinstance(part, fx.GraphModule)]
    for level, part in parts:
        for node in part.graph.nodes:
            if node.op == "call_module":
                module = part.get_submodule(str(node.target))
                if not isinstance(module, (*LINEAR_MODULES, *non_linear)):
                    missing.append(f"the {type(module).__name__} {node.target!r}")
                elif id(module) in seen and not isinstance(module, LINEAR_MODULES):
                    missing.append(f"the {type(module).__name__} {node.target!r}, which is used twice")
                seen.add(id(module))
            elif node.op in ("call_function", "call_method"):
                name = node.target if node.op == "call_method" else getattr(node.target, "__name__", str(node.target))
                scales = str(name) == "mul" and len(node.all_input_nodes) == 1
                if str(name) not in LINEAR_FUNCTIONS and not scales:
                    missing.append(f"the function {name}() in level {level.name!r}")
    return missing
