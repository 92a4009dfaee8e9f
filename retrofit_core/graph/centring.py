"""Class scores without a preference for some classes: subtract from each logit of a parent its mean over samples.

A parent that knows few classes scores these high on every sample, and so overrules the parents that know the others. Its mean
logits over samples of all classes estimate this preference (the logit adjustment of Menon et al. 2021, with a network's own
answers in place of class frequencies). Ours, not the paper's.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..networks.copies import copies
from ..networks.inputs import Inputs, batches_of, contents, leaves_of, moved
from ..system import device as devices
from .graph import Graph, Weights, beside, load, weights_of
from .network import BATCH, Network
from .tracing import trace_all


@torch.no_grad()
def bias_of_logits(
    graph: Graph, weights: Weights, sample: Sequence[Tensor], name: str, *, relative: bool = True
) -> str:
    """The parameter (classes,) that is added to a network's logits.

    Args:
        sample: inputs of a few samples.
        name: the network's, for the error.
        relative: whether only differences between logits count, as in logarithms of probabilities.
    Raises:
        ValueError: there is none.
    """
    logits, *others = graph(weights, *sample)
    for key in reversed(list(weights)):
        if key in graph.weights and weights[key].shape == logits.shape[1:] and not others:
            step = torch.arange(logits.shape[1]).to(logits)
            off = graph({**weights, key: weights[key] + step}, *sample)[0] - logits - step
            if (off - relative * off.mean(1, keepdim=True)).abs().max() < 1e-3:
                return key
    raise ValueError(f"no bias of {name} adds to its logits, so they cannot be centred. Leave centre out.")


@torch.no_grad()
def mean_logits(
    nets: Sequence[Network], batches: Sequence[Sequence[Tensor]], own_data: Sequence[tuple[Any, Tensor | None]]
) -> list[list[float]]:
    """Mean of each logit of each network over all samples at hand, each of which counts once.

    Args:
        batches: of the fusion samples.
        own_data: (inputs, labels) of each network.
    """
    sets = [list(batch) for batch in batches]
    sets += [leaves_of(x) for x, _ in own_data]
    leaves = [torch.cat([tensor.cpu() for tensor in column]) for column in zip(*sets, strict=True)]
    first = dict[tuple[bytes, ...], int]()
    for row, sample in enumerate(contents(leaves)):
        first.setdefault(sample, row)
    rows, size = torch.tensor(list(first.values())), len(batches[0][0])
    means = []
    for net in nets:
        parts = ([leaf[some] for leaf in leaves] for some in rows.split(size))
        means.append((_sum_of_logits(net.graph, net.weights, parts) / len(rows)).tolist())
    return means


def _sum_of_logits(graph: Graph, weights: Weights, batches: Iterable[Sequence[Tensor]]) -> Tensor:
    """(classes,) float64, over all samples."""
    sums = [graph(weights, *beside(batch, weights))[0].double().sum(0) for batch in batches]
    return torch.stack(sums).sum(0)


@devices.exact()
@torch.no_grad()
def centred(model: nn.Module, inputs: Inputs) -> nn.Module:
    """A copy of a classifier, on its device and in evaluation mode, whose logits have mean zero over the samples, class by class.

    Args:
        inputs: samples, best of all classes.
    Raises:
        ValueError: no bias adds to its logits.
    """
    (copied,) = copies({"the network": model}).values()
    ready = moved(inputs, devices.of(model), next(model.parameters()).dtype)
    graph, weights, leaves = trace_all(copied, ready), weights_of(copied), leaves_of(ready)
    name = bias_of_logits(graph, weights, [leaf[:2] for leaf in leaves], "the network", relative=False)
    mean = _sum_of_logits(graph, weights, batches_of(leaves, BATCH)) / len(leaves[0])
    return load(copied, {**weights, name: weights[name] - mean.to(weights[name])})
