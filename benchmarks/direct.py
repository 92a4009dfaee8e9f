"""The direct form of HF-Linear and KF-Linear: activations of all samples, pseudo-inverses, k-means on long vectors.

What a reader of the paper would write first. It is the yardstick of `speed.py` and, at small size, an oracle of
the tests; it shares no algorithm with `retrofit_core` (levels are cut by hand: convolution or linear layers in order).
"""

import copy

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from torch import Tensor, nn
from torch.nn import functional as F


@torch.no_grad()
def fuse_directly(
    models: list[nn.Module],
    inputs: Tensor,
    scores: list[list[Tensor]],
    *,
    grouping: str,
    restarts: int = 10,
    seed: int = 0,
) -> nn.Module:
    """Fuse plain chains of Linear and Conv2d with parameter-free modules between them.

    Args:
        inputs: (B, ...).
        scores: scores[parent][level], (width,) each.
        grouping: "hungarian" or "kmeans".
        restarts: k-means starts (scikit-learn's n_init).
    """
    fused = copy.deepcopy(models[0])
    n_levels = len(_layers(fused))
    for index in range(n_levels):
        layer = _layers(fused)[index]
        X = _with_ones(_rows(_layer_input(fused, index, inputs), layer), layer)  # (N, p)
        Z = torch.cat([_outputs(model, index, inputs) for model in models], 1).double()  # (N, m)
        s = torch.cat([parent[index] for parent in scores])
        inverse = torch.linalg.pinv(X)  # (p, N)
        projected = X @ (inverse @ Z)
        if index == n_levels - 1:
            labels = torch.arange(len(layer.weight)).repeat(len(models))
        elif grouping == "hungarian":
            labels = _match(projected, s, len(layer.weight))
        else:
            clusters = KMeans(len(layer.weight), n_init=restarts, random_state=seed)
            labels = torch.from_numpy(clusters.fit(projected.T.numpy(), sample_weight=s.numpy()).labels_).long()
        members = F.one_hot(labels, len(layer.weight)).double() * s[:, None]
        T = Z @ (members / members.sum(0))
        V = inverse @ T
        layer.weight.copy_((V[:-1] if layer.bias is not None else V).T.reshape(layer.weight.shape))
        if layer.bias is not None:
            layer.bias.copy_(V[-1])
    return fused


def _layers(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, (nn.Linear, nn.Conv2d))]


def _capture(model: nn.Module, index: int, inputs: Tensor) -> tuple[Tensor, Tensor]:
    kept = {}

    def hook(_module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        kept["input"], kept["output"] = args[0], output

    handle = _layers(model)[index].register_forward_hook(hook)
    model(inputs)
    handle.remove()
    return kept["input"], kept["output"]


def _layer_input(model: nn.Module, index: int, inputs: Tensor) -> Tensor:
    return _capture(model, index, inputs)[0]


def _outputs(model: nn.Module, index: int, inputs: Tensor) -> Tensor:
    output = _capture(model, index, inputs)[1]
    return output.movedim(1, -1).reshape(-1, output.shape[1])


def _rows(tensor: Tensor, layer: nn.Module) -> Tensor:
    if isinstance(layer, nn.Linear):
        return tensor.double()
    patches = F.unfold(tensor, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
    return patches.transpose(1, 2).reshape(-1, patches.shape[1]).double()


def _with_ones(rows: Tensor, layer: nn.Module) -> Tensor:
    return torch.cat([rows, torch.ones(len(rows), 1, dtype=rows.dtype)], 1) if layer.bias is not None else rows


def _match(projected: Tensor, s: Tensor, width: int) -> Tensor:
    left, right = projected[:, :width].T, projected[:, width:].T
    weights = s[:width, None] * s[None, width:] / (s[:width, None] + s[None, width:])
    rows, columns = linear_sum_assignment((weights * torch.cdist(left, right).square()).numpy())
    labels = np.arange(2 * width)
    labels[width + columns] = rows
    return torch.from_numpy(labels)
