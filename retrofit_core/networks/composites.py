"""Networks made of several networks: ensembles.

Their spec contains the specs of their parts, so that one file is a whole checkpoint. A part without a spec is stored as
None: the file keeps its tensors, and the reader must supply the module.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from . import architectures
from .inputs import each_of
from .outputs import are_probabilities, check_class_scores, logits_in, logs

Combination = Callable[[Tensor], Tensor]
MOST_NESTED = 4  # ensembles of ensembles
#: Advice if outputs have no probabilities.
MEAN_OF_VALUES = "Use the mean of outputs: Ensemble-Logits, or combine='logits'."


def mean_of_softmax(logits: Tensor) -> Tensor:
    """(models, n, classes) -> log of the mean probabilities (n, classes).

    Raises:
        ValueError: the outputs are not class scores.
    """
    _check_scores(logits)
    return logits.log_softmax(2).logsumexp(0) - torch.log(torch.tensor(float(len(logits))))


def mean_of_logits(logits: Tensor) -> Tensor:
    """(models, n, classes) -> (n, classes)."""
    return logits.mean(0)


def _check_scores(logits: Tensor) -> None:
    if isinstance(logits, Tensor):  # torch.fx proxies have no shape
        check_class_scores(logits.shape[2:], "a mean of probabilities", MEAN_OF_VALUES)


#: Architectures made of others; not in ARCHITECTURES because they are not trained from scratch.
COMPOSITES = ("ensemble",)
COMBINATIONS: dict[str, Combination] = {
    "softmax": mean_of_softmax,
    "logits": mean_of_logits,
}


class Ensemble(nn.Module):
    """Several classifiers as one: what each takes -> (n, classes), see `evaluation.ensemble`."""

    def __init__(self, models: Sequence[nn.Module], combine: str) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.combine = combine

    @property
    def spec(self) -> dict[str, Any]:
        """Members and combination."""
        members = [spec_of(model) for model in self.models]
        return {"architecture": "ensemble", "members": members, "combine": self.combine}

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        # clones: a network may write into its input
        outputs = [
            logits_in(model(*each_of(args, torch.clone), **each_of(kwargs, torch.clone))) for model in self.models
        ]
        logits = torch.stack([logs(own) if are_probabilities(own) else own for own in outputs])  # (models, n, classes)
        return COMBINATIONS[self.combine](logits)


def spec_of(model: nn.Module) -> dict[str, Any] | None:
    """A copy of a network's spec, or None."""
    spec = getattr(model, "spec", None)
    return copy.deepcopy(spec) if isinstance(spec, dict) else None


# --- from a spec ----------------------------------------------------------------------------------------------------


def build(spec: Mapping[str, Any], depth: int = 0) -> nn.Module:
    """Build the network of a spec, ensembles included, for weights that are loaded later.

    Raises:
        ValueError: as in `architectures.build`; a part without a spec, or a spec that makes no network.
    """
    if str(spec.get("architecture")) not in COMPOSITES:
        return architectures.build(spec)
    if depth >= MOST_NESTED:
        raise ValueError(f"networks made of several networks can be nested {MOST_NESTED} times at most.")
    combine = spec.get("combine")
    if not isinstance(combine, str) or combine not in COMBINATIONS:
        raise ValueError(f"an ensemble combines by {', '.join(COMBINATIONS)}. Found {combine!r:.80}.")
    parts = spec.get("members")
    if not isinstance(parts, list) or not 1 <= len(parts) <= architectures.DEEPEST:
        raise ValueError(f"a network that is made of several needs a list of members. Found {parts!r:.80}.")
    strange = next((k for k, part in enumerate(parts) if not isinstance(part, Mapping)), None)
    if strange is not None:
        raise ValueError(
            f"entry {strange} of its members is not an architecture of this library, so the file alone does not say "
            "how to build it. Pass a function that builds the whole network (arch=...), or the network to "
            "FusionResult.load (model=...)."
        )
    return Ensemble([build(part, depth + 1) for part in parts], combine)
