"""One level fitted in plain lines, by PyTorch's own least squares: the oracle of closed forms inside of networks."""

import copy
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn import functional as F

from tests.families import Steps


def patches(conv, h):
    """Input rows of a convolution (N, p), one for each sample and position, by F.unfold."""
    columns = F.unfold(h, conv.kernel_size, padding=conv.padding, stride=conv.stride)  # (B, p, positions)
    return columns.transpose(1, 2).flatten(0, 1)


def flat(h):
    return h.movedim(1, -1).flatten(0, -2)


def least_squares(x, targets, bias=True):
    x = torch.cat([x, torch.ones(len(x), 1).double()], 1) if bias else x
    return torch.linalg.lstsq(x, targets, driver="gelsd").solution


def projected(inputs, rows):
    """What is nearest to rows among what a layer can make of its inputs."""
    return torch.cat([inputs, torch.ones(len(inputs), 1).double()], 1) @ least_squares(inputs, rows)


def matched(left, right):
    """For each column of one matrix the column of the other with which it is paired at the least sum of distances."""
    distances = ((left[:, :, None] - right[:, None]) ** 2).sum(0)
    return torch.from_numpy(linear_sum_assignment(distances.numpy())[1])


def put(layer, V):
    rows = V if layer.bias is None else V[:-1]
    layer.weight.copy_(rows.T.reshape(layer.weight.shape))
    if layer.bias is not None:
        layer.bias.copy_(V[-1])


def states(net: Steps, x: Tensor) -> dict[str, Tensor]:
    """(N, width) what each level gives, by name, as rows."""
    made = {}

    def note(name: str, layer: Any, inputs: Any, stream: Any, compute: Any) -> None:
        last = isinstance(layer, nn.Linear) and stream is None  # channels last
        made[name] = compute().flatten(0, -2) if last else flat(compute())

    with torch.no_grad():
        net.stepwise(x, note)
    return made


@torch.no_grad()
def fitted(parents: list[Steps], x: Tensor, order: dict[str, Tensor]) -> Steps:
    """The fused network for given orders of parent 1's neurons, without a ridge and with scales of 1, level by level."""
    fused = copy.deepcopy(parents[0])
    for scale in fused.parameters(recurse=False):
        scale.fill_(1)
    mine, theirs = (states(parent, x) for parent in parents)

    def fit(name: str, layer: nn.Module, inputs: Tensor, stream: Tensor | None, compute: Any) -> None:
        targets = (mine[name] + theirs[name][:, order[name]]) / 2
        targets = targets if stream is None else targets - flat(stream)
        if isinstance(layer, nn.Linear):
            put(layer, least_squares(inputs.flatten(0, -2), targets, layer.bias is not None))
            return
        read, made = inputs.shape[1] // layer.groups, len(layer.weight) // layer.groups
        for part in range(layer.groups):
            own = slice(part * made, (part + 1) * made)
            alone = nn.Conv2d(read, made, layer.kernel_size, layer.stride, layer.padding, bias=layer.bias is not None)
            rows = patches(alone, inputs[:, part * read : (part + 1) * read])
            put(alone.double(), least_squares(rows, targets[:, own], layer.bias is not None))
            layer.weight[own] = alone.weight
            if layer.bias is not None:
                layer.bias[own] = alone.bias

    fused.stepwise(x, fit)
    return fused
