"""Targets of the heads of a fused attention (docs/method.md).

Legend: a fused head has d neurons and represents a group of the parents' heads with n neurons in total; q, k (N, n) queries
and keys, c (N, n) values mixed by the attention maps, a row for each token; w (n,) the weight of each neuron's head.

Queries and keys enter as q'k, and values as a product with the layer that reads them, so the function does not depend on the
basis of a head: it is spaces that have counterparts in another head, not neurons. A fused head keeps the d directions that
matter most to the mean logits sum_i w_i q_i k_i, or to the heads' joint contribution to the stream.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...networks.attention import attention_maps, mixed_values, of_heads
from ...networks.levels import Heads, Level
from ..grouping import Grouping, assigned, check_grouping, level_generator
from ..moments import MomentSums
from ..walk import Step, Walk, chosen

#: Eigenvalues below this fraction of the largest count as zero.
CUTOFF = 1e-12


def _mean(keys: Tensor, counted: Tensor | None) -> Tensor:
    """(B, H, 1, d) mean over the tokens that count."""
    if counted is None:
        return keys.mean(2, keepdim=True)
    weights = counted.view(len(keys), 1, -1, 1)
    return torch.where(weights, keys, 0).sum(2, keepdim=True) / weights.sum(2, keepdim=True).clamp_min(1)


@torch.no_grad()
def head_sums(walk: Walk, index: int, parents: Sequence[Heads]) -> list[Tensor]:
    """Inner products over samples, in float64, of all heads of all parents, which run ahead to the reader of their attention.

    Args:
        index: the current level of the walk.
    Returns:
        (heads, heads) of attention maps; (n, n) of queries; of keys minus each sample's mean over tokens, because a constant
        added to all keys changes no map; of mixed values.
    """
    totals: list[MomentSums] = []
    of_queries, of_keys = (walk.counted(walk.fused[level]) for level in parents[0].levels[:2])
    batches = walk.ahead(index, [parents[0].reader - 1])
    for (_, boundaries), queries, keys in zip(batches, of_queries, of_keys, strict=True):
        with walk.stopwatch.phase("moments"):
            rows: list[list[Tensor]] = [[], [], [], []]
            for levels, heads, boundary in zip(walk.parents, parents, boundaries, strict=True):
                maps = attention_maps(levels, heads, boundary)
                q, k = (of_heads(levels, heads, places, boundary) for places in (heads.query, heads.key))
                tokens = (q, k - _mean(k, keys), mixed_values(levels, heads, boundary))
                of_tokens = (part.transpose(1, 2).flatten(2) for part in tokens)
                flat = [
                    chosen(maps.movedim(1, -1).flatten(2), queries).reshape(-1, maps.shape[1]),
                    *(
                        chosen(part, counted).reshape(-1, part.shape[-1])
                        for part, counted in zip(of_tokens, (queries, keys, queries), strict=True)
                    ),
                ]
                for side_by_side, part in zip(rows, flat, strict=True):
                    side_by_side.append(part.double())
            totals = totals or [MomentSums(sum(part.shape[1] for part in parts), device=walk.device) for parts in rows]
            for total, parts in zip(totals, rows, strict=True):
                total.add(torch.cat(parts, 1))
    return [total.finish().zz for total in totals]


def head_groupings(
    step: Step, scores: Sequence[Sequence[Tensor]], grouping: Callable[..., Grouping]
) -> dict[int, Grouping]:
    """Level -> targets of its queries, keys or values, for the attention of a step's level.

    Heads are grouped by their maps, as neurons are by their outputs, weighted by the sum of their neurons' scores. A neuron's
    label is the fused neuron in which it has most weight, one to one within a head if possible.

    Args:
        scores: of each parent's neurons at each level.
        grouping: groups the heads.
    """
    walk, index = step.walk, step.index
    *parents, fused = [heads for levels in walk.networks if isinstance(heads := levels[index].blocks, Heads)]
    first = walk.levels.stream(fused.reader)[0]
    stream = walk.reports[first].target_weights if first < index else None
    generator = level_generator(walk.seed, min(fused.levels))
    maps, *products = head_sums(walk, index, parents)
    members = [(k, head) for k, heads in enumerate(parents) for head in range(heads.count)]
    s = torch.stack([_head_score(parents[k], head, scores[k]) for k, head in members])
    counts = tuple(heads.count for heads in parents)
    groups = grouping(maps, s, counts, fused.count, generator=generator)
    groups = check_grouping(groups, len(members), fused.count)
    sizes = [parents[k].columns.shape[1] for k, _ in members]
    columns = torch.arange(sum(sizes)).split(sizes)
    # Small factorisations gain nothing on a GPU.
    computed = (s, groups.labels, *products, _outgoing(walk.parents, parents, stream))
    s, head_labels, query, key, mixed, outgoing = (tensor.cpu() for tensor in computed)
    by_level: dict[int, tuple[Tensor, Tensor]] = {}
    for number in range(fused.count):
        inside = (head_labels == number).nonzero().flatten().tolist()
        n = torch.cat([columns[j] for j in inside])
        share = s[inside] / s[inside].sum()
        w = torch.cat(
            [(share[i] * parents[members[j][0]].scale / fused.scale).expand(sizes[j]) for i, j in enumerate(inside)]
        )
        d, first = fused.columns.shape[1], sizes[inside[0]]
        A_q, A_k = joint_basis(query[n][:, n], key[n][:, n], w, d, first)
        A_v = value_basis(mixed[n][:, n], outgoing[:, n], d, first)
        for A, role in ((A_q, "query"), (A_k, "key"), (A_v, "value")):
            level, places = getattr(fused, role)
            weights, labels = by_level.setdefault(level, _empty(walk, level))
            to = places[number]
            for j, part in zip(inside, A.split([sizes[j] for j in inside]), strict=True):
                k, head = members[j]
                rows = sum(walk.levels.widths(level)[:k]) + getattr(parents[k], role)[1][head]
                weights[rows[:, None], to] = part
                labels[rows] = to[_labels(part)]
    report = {**groups.report, "heads": head_labels.tolist(), "heads_cost": groups.cost}
    return {
        level: Grouping(labels.to(walk.device), weights.shape[1], 0.0, report, weights.to(walk.device))
        for level, (weights, labels) in by_level.items()
    }


def joint_basis(query: Tensor, key: Tensor, w: Tensor, d: int, first: int) -> tuple[Tensor, Tensor]:
    """A_q and A_k (n, d) such that (q A_q)(k A_k)' best approximates sum_i w_i q_i k_i with d directions.

    With Q the square root of q'q and K that of k'k, it is the truncated SVD of Q W K (Eckart and Young); each side takes the
    square root of the singular values, so that both have the same scale.

    Args:
        query, key: (n, n) inner products.
        w: (n,).
        first: number of neurons of the first head, to which the basis is rotated.
    """
    Q, Q_inverse = _roots(query)
    K, K_inverse = _roots(key)
    U, S, V = torch.linalg.svd(Q @ (w[:, None] * K))
    root = S[:d].sqrt()
    A_q, A_k = Q_inverse @ (U[:, :d] * root), K_inverse @ (V[:d].T * root)
    turn = _turn(A_q.T @ query[:, :first] + A_k.T @ key[:, :first])
    return _padded(A_q @ turn, d), _padded(A_k @ turn, d)


def value_basis(mixed: Tensor, outgoing: Tensor, d: int, first: int) -> Tensor:
    """A_v (n, d): the d directions of c outgoing' with most energy.

    Args:
        mixed: (n, n) inner products of c.
        outgoing: (D, n) outgoing weights of each value.
        first: as in `joint_basis`.
    """
    C, _ = _roots(mixed)
    added = outgoing @ C  # has the inner products of c outgoing'
    _, S, V = torch.linalg.svd(added, full_matrices=False)
    rank = int((S[:d] > CUTOFF**0.5 * S[0]).sum())
    U = added @ V[:rank].T / S[:rank]
    A = outgoing.T @ U
    return _padded(A @ _turn(A.T @ mixed[:, :first]), d)


def _roots(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Square root (n, n) of a Gram matrix, and the root's pseudo-inverse."""
    values, vectors = torch.linalg.eigh(gram)
    root = values.clamp_min(0).sqrt()
    large = values > CUTOFF * values[-1].clamp_min(1e-300)
    inverse = torch.where(large, 1 / root.clamp_min(1e-300), 0.0)
    return (vectors * root) @ vectors.T, (vectors * inverse) @ vectors.T


def _turn(products: Tensor) -> Tensor:
    """The rotation of a basis towards the neurons of one head (Procrustes).

    Args:
        products: (directions, neurons of the head) inner products.
    """
    if products.shape[0] != products.shape[1]:
        return torch.eye(len(products)).to(products)
    U, _, V = torch.linalg.svd(products)
    return U @ V


def _padded(A: Tensor, d: int) -> Tensor:
    """Pad (n, directions) with columns of zeros to (n, d)."""
    return torch.cat([A, A.new_zeros(len(A), d - A.shape[1])], 1)


def read_back(A: Tensor, zz: Tensor) -> Tensor:
    """(d, m) the weights that best reconstruct each parent neuron from the targets z A of its head.

    Args:
        A: (m, d) weights of the targets; neurons of one head contribute to the same targets.
        zz: (m, m) inner products of the neurons.
    """
    device, A, zz = A.device, A.cpu(), zz.cpu()  # as in `head_groupings`
    reading = A.new_zeros(A.shape[1], A.shape[0])
    heads, head_of = (A != 0).unique(dim=0, return_inverse=True)
    for number, columns in enumerate(heads):
        members, to = (head_of == number).nonzero()[:, 0], columns.nonzero()[:, 0]
        T, inner = A[members][:, to], zz[members][:, members]
        reading[to[:, None], members] = torch.linalg.lstsq(T.T @ inner @ T, T.T @ inner, driver="gelsd").solution
    return reading.to(device)


def _labels(A: Tensor) -> Tensor:
    """(n,) the column in which each row has most weight; one to one as far as possible."""
    labels = A.abs().argmax(1)
    rows, columns = assigned(A.abs(), maximize=True)
    labels[rows] = columns
    return labels


def _head_score(heads: Heads, head: int, scores: Sequence[Tensor]) -> Tensor:
    """Sum of the scores of a head's neurons.

    Args:
        scores: of one parent, (width,) for each level.
    """
    parts = (heads.query, heads.key, heads.value)
    return torch.stack([scores[level][places[head].to(scores[level].device)].sum() for level, places in parts]).sum()


def _outgoing(parents: Sequence[Sequence[Level]], heads: Sequence[Heads], stream: Tensor | None) -> Tensor:
    """(D, n) weights of the layers that read the values, to the fused stream if its groups are known, else to each parent's
    own neurons."""
    weights = [
        levels[attention.reader].form.layers[0].weight.detach().flatten(1).double()[:, attention.columns.flatten()]
        for levels, attention in zip(parents, heads, strict=True)
    ]
    together = torch.block_diag(*weights)
    return together if stream is None else stream.T.to(together) @ together


def _empty(walk: Walk, level: int) -> tuple[Tensor, Tensor]:
    """Weights (m, d) and labels (m,) of a level, all zero, on the CPU."""
    m = sum(walk.levels.widths(level))
    return torch.zeros(m, walk.fused[level].width, dtype=torch.float64), torch.zeros(m, dtype=torch.int64)
