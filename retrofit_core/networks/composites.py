"""Networks made of several networks: ensembles, and partial zips (a common trunk with the parents' own tails).

Their spec contains the specs of their parts, so that one file is a whole checkpoint. A part without a spec is stored as
None: the file keeps its tensors, and the reader must supply the module.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from . import architectures
from .architectures import is_count
from .levels import Level, partition
from .outputs import check_class_scores, logits_in

Combination = Callable[[Tensor, Tensor | None], Tensor]
#: Size limit for an input and each part of a partial zip, which is built and run before its tensors are read.
LARGEST = 1 << 30
MOST_NESTED = 4  # ensembles of ensembles
#: Advice if outputs have no probabilities.
MEAN_OF_VALUES = "Use the mean of outputs: Ensemble-Logits, or combine='logits'."


def mean_of_softmax(logits: Tensor, shares: Tensor | None) -> Tensor:
    """(models, n, classes) -> log of the mean probabilities (n, classes).

    Raises:
        ValueError: the outputs are not class scores.
    """
    _check_scores(logits)
    return logits.log_softmax(2).logsumexp(0) - torch.log(torch.tensor(float(len(logits))))


def mean_of_logits(logits: Tensor, shares: Tensor | None) -> Tensor:
    """(models, n, classes) -> (n, classes)."""
    return logits.mean(0)


def share_of_softmax(logits: Tensor, shares: Tensor | None) -> Tensor:
    """Log probabilities (n, classes), weighted by each model's share of a class's samples.

    Raises:
        ValueError: the outputs are not class scores.
    """
    assert shares is not None
    _check_scores(logits)
    # log 0 = -inf is intended: a model without samples of a class gets no weight there.
    return (logits.log_softmax(2) + shares.to(logits).log().unsqueeze(1)).logsumexp(0).log_softmax(1)


def _check_scores(logits: Tensor) -> None:
    if isinstance(logits, Tensor):  # torch.fx proxies have no shape
        check_class_scores(logits.shape[2:], "a mean of probabilities", MEAN_OF_VALUES)


COMBINATIONS: dict[str, Combination] = {
    "softmax": mean_of_softmax,
    "logits": mean_of_logits,
    "shares": share_of_softmax,
}


class Ensemble(nn.Module):
    """Several classifiers as one: images -> (n, classes), see `evaluation.ensemble`."""

    shares: Tensor | None

    def __init__(self, models: Sequence[nn.Module], combine: str, shares: Tensor | None) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.combine = combine
        self.register_buffer("shares", shares)

    @property
    def spec(self) -> dict[str, Any]:
        """Members and combination."""
        members = [spec_of(model) for model in self.models]
        classes = {} if self.shares is None else {"classes": self.shares.shape[1]}
        return {"architecture": "ensemble", "members": members, "combine": self.combine, **classes}

    def forward(self, images: Tensor) -> Tensor:
        # clones: a network may write into its input
        logits = torch.stack([logits_in(model(images.clone())) for model in self.models])  # (models, n, classes)
        return COMBINATIONS[self.combine](logits, self.shares)


class PartialZip(nn.Module):
    """A common trunk that runs once, followed by the parents' own tails: images -> (n, classes).

    Args:
        fused: the network whose first levels are the trunk. Its parameters and the parents' are shared, not copied.
        parents: the networks whose remaining levels are the tails.
        entries: for each parent (its neurons at the cut,), the trunk's neuron that each one reads; None: all the first.
        levels: number of levels in the trunk.
        combine: how to combine the heads, an entry of COMBINATIONS without shares.
        example: (B, ...) input.
    Raises:
        ValueError: as in `partition`.
    """

    def __init__(
        self,
        fused: nn.Module,
        parents: Sequence[nn.Module],
        entries: Sequence[Tensor] | None,
        *,
        levels: int,
        combine: str,
        example: Tensor,
        leaves: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.spec = {
            "architecture": "partial-zip",
            "trunk": spec_of(fused),
            "tails": [spec_of(parent) for parent in parents],
            "levels": levels,
            "combine": combine,
            "input": list(example.shape[1:]),
            "leaves": list(leaves),
        }
        common = _cut(fused, example, levels, leaves)[0]
        self.trunk = nn.Sequential(*(level.module for level in common))
        readers = []
        for k, parent in enumerate(parents):
            before, tail = _cut(parent, example, levels, leaves)
            entry = torch.zeros(before[-1].width, dtype=torch.int64) if entries is None else entries[k]
            readers.append(_Reader(nn.Sequential(*(level.module for level in tail)), entry, common[-1]))
        self.heads = Ensemble(readers, combine, None)

    def forward(self, images: Tensor) -> Tensor:
        return self.heads(self.trunk(images))

    def separate(self, images: Tensor) -> Tensor:
        """(parents, n, classes) outputs of each head."""
        h = self.trunk(images)
        return torch.stack([reader(h) for reader in self.heads.models])


def _cut(model: nn.Module, example: Tensor, count: int, leaves: Sequence[str]) -> tuple[list[Any], list[Any]]:
    levels = partition(model, example, leaves=leaves)
    if not 1 <= count < len(levels):
        raise ValueError(
            f"a network of {len(levels)} levels cannot be cut behind level {count}, so that both parts have some."
        )
    return levels[:count], levels[count:]


class _Reader(nn.Module):
    """A parent's tail behind the unmerge: each neuron at the cut reads the fused neuron of its group."""

    def __init__(self, tail: nn.Module, entry: Tensor, end: Level) -> None:
        super().__init__()
        self.tail, self.axis, self.width = tail, end.axis, end.width
        self.register_buffer("entry", entry)

    def forward(self, h: Tensor) -> Tensor:
        return self.tail(h.index_select(self.axis, self.get_buffer("entry")))


def spec_of(model: nn.Module) -> dict[str, Any] | None:
    """A copy of a network's spec, or None."""
    spec = getattr(model, "spec", None)
    return copy.deepcopy(spec) if isinstance(spec, dict) else None


# --- from a spec ----------------------------------------------------------------------------------------------------


def build(spec: Mapping[str, Any], depth: int = 0) -> nn.Module:
    """Build the network of a spec, composites included, for weights that are loaded later.

    Raises:
        ValueError: as in `architectures.build`; a part without a spec, or a spec that makes no network.
    """
    builder = COMPOSITES.get(str(spec.get("architecture")))
    if builder is None:
        return architectures.build(spec)
    if depth >= MOST_NESTED:
        raise ValueError(f"networks made of several networks can be nested {MOST_NESTED} times at most.")
    return builder(spec, depth + 1)


def _ensemble(spec: Mapping[str, Any], depth: int) -> nn.Module:
    combine = spec.get("combine")
    counted = combine == "shares"
    if not isinstance(combine, str) or combine not in COMBINATIONS or (counted and not is_count(spec.get("classes"))):
        names = ", ".join(COMBINATIONS)
        raise ValueError(f"an ensemble combines by {names}, and the last needs classes. Found {combine!r:.80}.")
    members = [build(part, depth) for part in _parts(spec, "members")]
    return Ensemble(members, combine, torch.zeros(len(members), spec["classes"]) if counted else None)


def _partial_zip(spec: Mapping[str, Any], depth: int) -> nn.Module:
    shape, combine, leaves = spec.get("input"), spec.get("combine"), spec.get("leaves", [])
    if not isinstance(shape, list) or not all(is_count(size) for size in shape) or math.prod(shape) > LARGEST:
        raise ValueError(f"a partial zip needs the shape of one input. Found {shape!r:.80}.")
    if combine not in ("softmax", "logits") or not is_count(spec.get("levels"), architectures.DEEPEST):
        raise ValueError("a partial zip needs its number of levels, and combines by softmax or logits.")
    if not isinstance(leaves, list) or not all(isinstance(name, str) for name in leaves):
        raise ValueError(f"the leaves of a partial zip are names of modules. Found {leaves!r:.80}.")
    parts = [*_parts({"trunk": [spec.get("trunk")]}, "trunk"), *_parts(spec, "tails")]
    for part in parts:
        with torch.device("meta"):
            numbers = sum(parameter.numel() for parameter in build(part, depth).parameters())
        if numbers > LARGEST:
            raise ValueError(f"a part of a partial zip would hold {numbers} numbers; {LARGEST} are allowed.")
    # Cutting runs the parts, so they need memory; their initial weights must not disturb the caller's seeds.
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        trunk, *tails = (build(part, depth) for part in parts)
        example = torch.zeros(2, *shape)
        return PartialZip(trunk, tails, None, levels=spec["levels"], combine=combine, example=example, leaves=leaves)


#: Architectures made of others; not in ARCHITECTURES because they are not trained from scratch.
COMPOSITES: dict[str, Callable[[Mapping[str, Any], int], nn.Module]] = {
    "ensemble": _ensemble,
    "partial-zip": _partial_zip,
}


def _parts(spec: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    parts = spec.get(name)
    if not isinstance(parts, list) or not 1 <= len(parts) <= architectures.DEEPEST:
        raise ValueError(f"a network that is made of several needs a list of {name}. Found {parts!r:.80}.")
    strange = next((k for k, part in enumerate(parts) if not isinstance(part, Mapping)), None)
    if strange is not None:
        raise ValueError(
            f"entry {strange} of its {name} is not an architecture of this library, so the file alone does not say "
            "how to build it. Pass a function that builds the whole network (arch=...), or the network to "
            "FusionResult.load (model=...)."
        )
    return parts


def check_entries(model: nn.Module) -> None:
    """Refuse tails that read neurons outside the trunk.

    Raises:
        ValueError: a tail does; the message names it.
    """
    for name, module in model.named_modules():
        if isinstance(module, _Reader):
            entry = module.get_buffer("entry")
            if entry.dtype != torch.int64 or entry.min() < 0 or entry.max() >= module.width:
                raise ValueError(
                    f"{name!r} reads neurons {entry.min().item()} to {entry.max().item()} of a trunk that has {module.width}."
                )
