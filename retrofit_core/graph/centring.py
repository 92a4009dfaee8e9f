"""Class scores without a preference for some classes: subtract from each logit of a parent its mean over samples.

A parent that knows few classes scores these high on every sample, and so overrules the parents that know the others. Its mean
logits over samples of all classes estimate this preference (the logit adjustment of Menon et al. 2021, with a network's own
answers in place of class frequencies). Ours, not the paper's.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .network import Network
from .tracing import leaves_of


@torch.no_grad()
def bias_of_logits(net: Network, sample: Sequence[Tensor], name: str) -> str:
    """The parameter (classes,) that is added to a network's logits.

    Args:
        sample: inputs of a few samples.
        name: the network's, for the error.
    Raises:
        ValueError: there is none.
    """
    (logits, *_), numbers = net.graph(net.weights, *sample), range(len(net.graph.outputs))
    for key in reversed(list(net.weights)):
        if key in net.graph.weights and net.weights[key].shape == logits.shape[1:]:
            step = torch.arange(logits.shape[1]).to(logits)
            moved, *_ = net.graph({**net.weights, key: net.weights[key] + step}, *sample)
            off = moved - logits - step  # of the logarithms of probabilities, only differences show
            if len(numbers) == 1 and (off - off.mean(1, keepdim=True)).abs().max() < 1e-3:
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
    for row in range(len(leaves[0])):
        first.setdefault(tuple(leaf[row].numpy().tobytes() for leaf in leaves), row)
    rows, size = torch.tensor(list(first.values())), len(batches[0][0])
    means = []
    for net in nets:
        like = next(tensor for tensor in net.weights.values() if tensor.is_floating_point())
        sums = [
            net.graph(
                net.weights,
                *(leaf[some].to(like.device, like.dtype if leaf.is_floating_point() else None) for leaf in leaves),
            )[0]
            .double()
            .sum(0)
            for some in rows.split(size)
        ]
        means.append((torch.stack(sums).sum(0) / len(rows)).tolist())
    return means
