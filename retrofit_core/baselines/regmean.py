"""RegMean: weights that come closest to every parent's layers on its own inputs (Jin et al. 2023). No alignment.

Legend: W_k (p, c) weights of a layer of parent k, G_k (p, p) the mean of x x' over its input rows, a(G) = G with the
off-diagonals times the ratio.
"""

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .. import device as devices
from ..eligibility import check_inputs, check_outputs, on_device
from ..moments.products import cholesky
from ..monitor import Monitor
from ..ranges import check_ranges
from ..results import FusionResult
from ..samples import as_tensors, parents_data
from ..training_flags import keeps_training_flags
from .averaging import average
from .layersums import BATCH, LayerSums, affine_layers, inputs_of

#: Strength, relative to the mean of the Gram matrices' diagonal, with which directions that no parent saw stay averages:
#: large beside the rounding of float32 products, small beside data.
VANISHING = {torch.float32: 1e-6, torch.float64: 1e-12}


@keeps_training_flags
@torch.no_grad()
def regmean(
    models: Sequence[nn.Module],
    data: Any,
    *,
    ratio: float = 0.9,
    importance_data: Any = None,
    target: nn.Module | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    monitor: Monitor | None = None,
) -> FusionResult:
    """W = (sum_k a(G_k))^-1 sum_k a(G_k) W_k for linear layers and ungrouped convolutions; other tensors are averaged.

    Neurons are not aligned, so parents that share their initialisation are what it is made for. The sums of all layers
    are held at once.

    Differences from the authors' code: convolutions too, their inputs unfolded; Gram matrices are means, so that parents
    count alike whatever the sizes of their data; directions that no parent ever sees leave the weights at the average.
    As theirs, biases are averaged.

    Args:
        data: fusion data, the inputs of every parent that has none of its own.
        ratio: what the off-diagonals are multiplied by (1: least squares; 0: a weighted average; 0.9 as in the paper).
        importance_data: (inputs, labels) for each parent: its own data; or "fusion".
        target: None, or a network of the parents' shapes; its weights do not matter.
        seed: of no use: nothing is random.
    Raises:
        ValueError: different shapes, a ratio outside 0 to 1, or another number of data sets than parents.
    """
    start, monitor, place = time.perf_counter(), monitor or Monitor(), devices.pick(device)
    check_ranges(ratio=ratio)
    inputs = as_tensors(data)[0]
    check_inputs(models, inputs, target=target, least=1, who="RegMean")
    check_outputs(models, inputs)
    sets = [own.to(inputs.dtype) for own, _ in parents_data(importance_data, (inputs, None), len(models))]
    fused = average(models).to(place).eval()
    if target is not None:
        average([models[0], target])  # refuses other shapes
    parents = [on_device(model, place).eval() for model in models]
    grams = [_grams(parent, x, monitor) for parent, x in zip(parents, sets, strict=True)]
    solved = []
    layers = affine_layers(fused)
    for number, (name, layer) in enumerate(layers.items()):
        monitor.check()
        monitor.emit("level", index=number, total=len(layers), name=name)
        found = [one.pop(name, None) for one in grams]
        if all(one is not None for one in found):
            weights = [parent.get_submodule(name).get_parameter("weight").flatten(1).T.double() for parent in parents]
            sums = [one.finish() for one in found if one is not None]
            W = solution(
                [one.xx for one in sums if one.xx is not None],
                weights,
                ratio,
                VANISHING[layer.weight.dtype],
                rows=[one.rows for one in sums],
            )
            layer.weight.copy_(W.T.view_as(layer.weight))
            solved.append(name)
    config = {
        "method": "RegMean",
        "ratio": ratio,
        "layers": solved,
        "samples": [len(x) for x in sets],
        "own_data": not (importance_data is None or isinstance(importance_data, str)),
        "seed": seed,
        "device": str(place),
    }
    return FusionResult(fused, [], config, time.perf_counter() - start)


def _grams(model: nn.Module, inputs: Tensor, monitor: Monitor) -> dict[str, LayerSums]:
    """Sums of x x' of every layer that runs."""
    dtype = next(model.parameters()).dtype
    layers, found = affine_layers(model), {}

    def note(name: str, h: Tensor, _: Tensor) -> None:
        if name not in found:
            found[name] = LayerSums(layers[name], 1, bias=False, dtype=dtype)
        found[name].add(h)

    with inputs_of(layers, note):
        for x in monitor.each("step", inputs.split(BATCH), name="forward"):
            model(x.to(devices.of(model), dtype))
    return found


def solution(
    grams: Sequence[Tensor],
    weights: Sequence[Tensor],
    ratio: float,
    vanishing: float,
    rows: Sequence[int] | None = None,
) -> Tensor:
    """(p, c) the weights W that minimise sum_k tr (W - W_k)' a(G_k) (W - W_k).

    Args:
        grams: (p, p) sums of x x' of each parent.
        weights: (p, c) W_k.
        rows: by which the sums are divided; default: 1.
    """
    mean = torch.stack(list(weights)).mean(0)
    total, right = torch.zeros_like(grams[0]), torch.zeros_like(mean)
    diagonal = torch.zeros_like(grams[0][0])
    for gram, own, count in zip(grams, weights, rows or [1] * len(grams), strict=True):
        away, energies = own - mean, gram.diagonal() / count
        total.add_(gram, alpha=ratio / count)
        diagonal += energies
        right.addmm_(gram, away, alpha=ratio / count).add_((1 - ratio) * energies[:, None] * away)
    size = diagonal.mean().item()
    if size == 0:
        return mean  # nothing ever reaches this layer
    total.diagonal().copy_(diagonal)
    factor, _ = cholesky(total, vanishing * size, bias=False)  # more, where the products' rounding asks for it
    return mean + torch.cholesky_solve(right, factor)
