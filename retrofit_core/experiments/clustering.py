"""The effect of importance scores on the clustering of neurons (the paper's fig:vgg-ni and fig:importancehistogram).

The figure clusters the neurons of two networks at one convolution by their raw outputs on 200 samples. A parent's outputs do
not depend on the fused levels below, so nothing is fused.
"""

import json
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..fusion.grouping import KMeans, level_generator
from ..fusion.importance import as_importance
from ..fusion.importance.scoring import check_scores, parents_scores
from ..fusion.results import principal_components
from ..graph.network import Network, networks_of
from ..runs import RunConfig, read_inputs
from ..system.monitor import Monitor
from .tables import NEARLY

SCORES = ("uniform", "conductance", "deeplift")
BINS = 40  # of a histogram of scores


@torch.no_grad()
def clustering(
    config: RunConfig, level: int, seeds: int, monitor: Monitor | None = None, device: str | torch.device = "cpu"
) -> dict[str, Any]:
    """Agreement of one level's k-means clusterings between scores and seeds, and the distribution of scores.

    Args:
        config: parents, data and samples; its method and score are ignored.
        level: index from 0.
        seeds: number of k-means runs.
    Returns:
        "agreement": mean, minimum and maximum adjusted Rand index for every two scores, and every score with itself over
        seeds; "singletons": number of groups of one neuron, by score; "histograms": by score, counts of the last
        convolution's neurons of parent 0 by score times number of neurons (1 is uniform), with "edges"; "plane": data of
        the figure, the neurons' first two principal components ("points", (2, m), "explained"), "widths", and by score the
        first seed's "labels" and the "weights", (m,) scores in multiples of their mean.
    Raises:
        ValueError: as in `read_inputs`, or the parents have no such level.
    """
    monitor = monitor or Monitor()
    inputs = read_inputs(config)
    x = inputs.fusion[0].to(device)
    parents = networks_of([model.to(device) for model in inputs.models], x)
    layers = min((net.layers for net in parents), key=len)
    if not 0 <= level < len(layers):
        raise ValueError(f"the parents have the levels 0 to {len(layers) - 1}. Found {level}.")
    z = torch.cat([_outputs(net, level, x) for net in parents], 1).double()
    gram, widths = z.T @ z, tuple(net.widths[level] for net in parents)
    convolutions = [index for index, layer in enumerate(layers) if layer.kind.startswith("Conv")]
    convolution = convolutions[-1] if convolutions else max(0, len(layers) - 2)  # else the last before the classes
    assert isinstance(inputs.importance, list)
    labels, singletons, histograms, scored = {}, {}, {}, {}
    for name in SCORES:
        score = as_importance(name)
        check_scores(parents, score, inputs.importance)
        scores = parents_scores(parents, score, inputs.importance, monitor)
        weights = torch.cat([scores_of.values[level] for scores_of in scores]) / len(parents)
        groups = [
            KMeans()(gram, weights, widths, widths[0], generator=level_generator(seed, level)).labels
            for seed in range(seeds)
        ]
        labels[name] = torch.stack(groups)
        singletons[name] = int((torch.bincount(groups[0]) == 1).sum())
        scored[name] = (weights / weights.mean()).tolist()
        relative = (scores[0].values[convolution] * parents[0].widths[convolution]).cpu().numpy()
        histograms[name] = histogram(relative)
    points, explained = principal_components(gram, 2)
    plane = {
        "level": layers[level].name,
        "widths": list(widths),
        "points": (points / points.std()).T.tolist(),
        "explained": explained.tolist(),
        "labels": {name: groups[0].tolist() for name, groups in labels.items()},
        "weights": scored,
    }
    return {
        "agreement": agreement(labels),
        "singletons": singletons,
        "histograms": histograms,
        "plane": json.loads(json.dumps(plane), parse_float=lambda text: round(float(text), 3)),  # enough for a figure
    }


def _outputs(net: Network, level: int, x: Tensor) -> Tensor:
    """(rows, width) what a level's neurons put out."""
    place = net.layers[level].place
    return (
        net.graph.run(net.weights, net.graph.input_values([x]), [place])[place]
        .movedim(net.axes[level], -1)
        .flatten(0, -2)
    )


def histogram(relative: np.ndarray) -> dict[str, list[float]]:
    """Counts of scores in bins of equal width, with their edges; NEARLY is one more edge, so that the share below it is exact."""
    edges = np.union1d(np.histogram_bin_edges(relative, BINS), float(NEARLY))
    counts, _ = np.histogram(relative, edges)
    return {"counts": counts.tolist(), "edges": edges.tolist()}


def agreement(labels: dict[str, Tensor]) -> list[dict[str, Any]]:
    """Adjusted Rand index of every two scores over all pairs of seeds, and of every score with itself.

    Args:
        labels: score -> (seeds, m) groups.
    """
    from sklearn.metrics import adjusted_rand_score  # importing it takes two seconds

    rows = []
    for first, second in combinations_with_replacement(labels, 2):
        left, right = labels[first], labels[second]
        pairs = combinations(left, 2) if first == second else product(left, right)
        indices = [float(adjusted_rand_score(a.cpu().numpy(), b.cpu().numpy())) for a, b in pairs]
        rows.append(
            {
                "first": first,
                "second": second,
                "mean": sum(indices) / len(indices),
                "least": min(indices),
                "most": max(indices),
            }
        )
    return rows
