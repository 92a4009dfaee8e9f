"""Attentions: their heads, and the targets of queries, keys and values.

The function of a head does not depend on its basis, so heads have no neurons to be grouped: heads are grouped by their maps, and
a fused head keeps the d directions that matter most to the mean logits sum_i w_i q_i k_i, or to the heads' joint contribution to
the stream (docs/method.md).

Legend: B samples, H heads of d neurons, T tokens; n neurons of all heads in a group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx

from ..fusion.grouping.base import Grouping, check_grouping
from ..fusion.moments import MomentSums
from .graph import Values, call_of, name_of
from .ids import UNIFORM
from .layers import Operation
from .network import Network
from .walk import Batch, Walk

#: Largest relative error at which maps count as softmax(scale q'k), and mixed values as maps times values.
TOLERANCE = {torch.float32: 1e-2, torch.float64: 1e-6}
#: Eigenvalues below this fraction of the largest count as zero.
CUTOFF = 1e-12


@dataclass(eq=False)
class Heads:
    """The heads of one attention, in the order of their queries."""

    mix: fx.Node
    """Maps times values"""
    order: Tensor
    """(H,) their numbers there"""
    places: list[tuple[int, Tensor]]
    """Of queries, keys and values: the layer, and (H, d) columns of its outputs"""
    reader: Operation
    """What reads the mixed values"""
    reads: Tensor
    """(H, d) columns of its inputs"""
    scale: float = 1.0
    """The maps are softmax(scale q'k)"""

    def __len__(self) -> int:
        return len(self.order)

    @property
    def layers(self) -> list[int]:
        """The layers of queries, keys and values."""
        return [number for number, _ in self.places]

    def wanted(self, net: Network) -> list[fx.Node]:
        """The nodes that `read` needs."""
        ends = [net.layers[number].end for number in self.layers]
        return list(dict.fromkeys([*ends, *self.mix.all_input_nodes, self.reader.x]))

    def read(self, net: Network, values: Values, samples: int) -> tuple[Tensor, ...] | None:
        """Maps (B, H, T, T), then queries, keys, values and mixed values (B, H, T, d); None if tokens have several axes.

        Args:
            values: of the wanted nodes.
        """
        nodes = [*(net.layers[number].end for number in self.layers), self.reader.x]
        tokens = [x for node in nodes if (x := _tokens(node, values[node], samples)) is not None]
        if len(tokens) < len(nodes):
            return None
        maps = _maps(self.mix, values)
        maps = maps.reshape(samples, -1, *maps.shape[-2:])[:, self.order]
        columns = [*(places for _, places in self.places), self.reads]
        return maps, *(x[..., places].transpose(1, 2) for x, places in zip(tokens, columns, strict=True))


def _tokens(node: fx.Node, value: Tensor, samples: int) -> Tensor | None:
    """(B, T, width) of a layer's input or output, in which samples may come second; None if it has more axes."""
    axis = node.meta.get("samples")
    while value.ndim == 2 and axis is None and node.all_input_nodes:  # (T B, width): as before that
        node = node.all_input_nodes[name_of(node) == "addmm"]
        axis = node.meta.get("along") if len(node.meta.get("shape", ())) > 2 else None
    if axis not in (0, 1) or value.ndim not in (2, 3):
        return None
    value = value.unflatten(0, (samples, -1) if axis == 0 else (-1, samples)) if value.ndim == 2 else value
    return value if axis == 0 else value.transpose(0, 1)


def _maps(mix: fx.Node, values: Values) -> Tensor:
    target, args, kwargs = call_of(mix, values.__getitem__)
    if name_of(mix) != "scaled_dot_product_attention":
        return args[0]
    q, k, v, *more = args  # tokens in place of values
    return target(q, k, torch.eye(v.shape[-2]).to(v).expand(*v.shape[:-2], -1, -1), *more, **kwargs)


@torch.no_grad()
def heads_of(nets: Sequence[Network], sample: Batch) -> list[list[Heads | None]]:
    """The heads of each attention of some networks; None for those of another kind, whose neurons count as ordinary ones.

    Args:
        sample: inputs of two samples.
    """
    of_code = dict[int, list[Heads | None]]()
    for net in nets:
        if id(net.spaces) not in of_code:
            of_code[id(net.spaces)] = [_heads(net, *mixing) for mixing in net.spaces.neurons.mixings]
    return [[heads and _checked(net, heads, sample) for heads in of_code[id(net.spaces)]] for net in nets]


def with_joined_heads(net: Network, attentions: Sequence[Heads]) -> Network:
    """The network with one space for all heads of a layer, which are not grouped, as in networks of other numbers of heads."""
    spaces, listed = net.spaces, []
    members = {space: [space] for space in range(len(spaces))}
    for number, places in (role for heads in attentions for role in heads.places):
        first, *others = net.columns[number][places[:, 0], 0].tolist()
        members[first] = [first, *others]
        for other in others:
            members.pop(other, None)
    of_space = torch.full((len(spaces) + 1,), -1)
    start = torch.zeros_like(of_space)
    for new, own in enumerate(members.values()):
        axes = {key: torch.cat([spaces[k].axes[key] for k in own]) for key in spaces[own[0]].axes}
        listed.append(replace(spaces[own[0]], ids=torch.cat([spaces[k].ids for k in own]), axes=axes))
        for index, k in enumerate(own):
            of_space[k], start[k] = new, index * len(spaces[k].ids)
    rank = spaces.rank + start[spaces.space]
    return replace(net, spaces=replace(spaces, spaces=listed, space=of_space[spaces.space], rank=rank))


def _heads(net: Network, mix: fx.Node, queries: Tensor, values: Tensor) -> Heads | None:
    ids, spots = net.spaces.neurons.ids, net.spaces.spots
    queries, values = (ids.of(side).reshape(-1, side.shape[-1]) for side in (queries, values))
    for side in (queries, values):
        if len(side) != len(queries) or len(side.unique()) < side.numel() or side.min() <= UNIFORM:
            return None
    made = [
        [(number, one) for number, layer in enumerate(net.layers) for one in spots(layer.end, layer.axis, side)]
        for side in (queries, values)
    ]
    operations = [op for layer in net.layers for op in layer.operations]
    reading = [(op, one) for op in operations for one in spots(op.x, op.axis, values)]
    read_raw = any(spots(op.x, op.axis, queries) for op in operations)
    if (len(made[0]), len(made[1]), len(reading)) != (2, 1, 1) or read_raw:
        return None
    order = made[0][0][1].amin(1).argsort()
    places = [(number, one[order]) for number, one in [*made[0], *made[1]]]
    return Heads(mix, order, places, reading[0][0], reading[0][1][order])


def _checked(net: Network, heads: Heads, sample: Batch) -> Heads | None:
    """With the scale, queries and keys swapped if needed; None if it computes something else."""
    values = net.graph.run(net.weights, net.graph.input_values(sample), heads.wanted(net))
    if (read := heads.read(net, values, len(sample[0]))) is None:
        return None
    maps, q, k, v, mixed = read
    tolerance = TOLERANCE.get(maps.dtype, 1e-2)

    def close(one: Tensor, other: Tensor) -> bool:
        return bool((one - other).norm() <= tolerance * other.norm().clamp_min(1e-30))

    if maps.shape[3] != v.shape[2] or not (
        close(maps @ v, mixed) and close(maps.sum(-1), torch.ones_like(maps[..., 0]))
    ):
        return None
    query, key, value = heads.places
    for left, right, places in ((q, k, [query, key, value]), (k, q, [key, query, value])):
        if (left.shape[2], right.shape[2]) == maps.shape[2:]:
            # A constant added to all keys of a query changes no map.
            logits, wanted = (
                x - (maps * x).sum(-1, keepdim=True) for x in (left @ right.mT, maps.clamp_min(1e-30).log())
            )
            scale = (maps * logits * wanted).sum() / (maps * logits * logits).sum().clamp_min(1e-300)
            if close(maps.sqrt() * scale * logits, maps.sqrt() * wanted):
                return replace(heads, places=places, scale=scale.item())
    return None


@torch.no_grad()
def head_sums(
    parents: Sequence[Network], walks: Sequence[Walk], heads: Sequence[Heads], tokens: Sequence[Tensor | None]
) -> list[Tensor]:
    """Inner products of all parents' heads: (H, H) of maps, (n, n) of queries, of keys minus their means over tokens, and of
    mixed values.

    Args:
        walks: of the parents, which run ahead.
        tokens: for each batch, which tokens count (B, T); None: all.
    """
    totals: list[MomentSums] = []
    for number, counted in enumerate(tokens):
        sides: list[list[Tensor]] = [[], [], [], []]
        for net, walk, own in zip(parents, walks, heads, strict=True):
            values = walk.ahead(number, net.weights, own.wanted(net))
            read = own.read(net, values, len(walk.batches[number][0]))
            assert read is not None  # see `_checked`
            maps, q, k, _, mixed = read
            of_queries, of_keys = (_counted(counted, side) for side in (q, k))
            for side, part in zip(sides[1:], (q, k - _mean(k, of_keys), mixed), strict=True):
                rows = part.transpose(1, 2).flatten(2)
                side.append(_rows(rows, of_keys if side is sides[2] else of_queries).double())
            sides[0].append(_rows(maps.movedim(1, -1).flatten(2), of_queries).reshape(-1, len(own)).double())
        rows = [torch.cat(side, 1) for side in sides]
        totals = totals or [MomentSums(side.shape[1], device=side.device) for side in rows]
        for total, side in zip(totals, rows, strict=True):
            total.add(side)
    return [total.finish().zz for total in totals]


def _counted(tokens: Tensor | None, side: Tensor) -> Tensor | None:
    """Which of (B, H, T, d) queries or keys count, (B, T)."""
    return tokens.to(side.device) if tokens is not None and tokens.shape[1] == side.shape[2] else None


def _rows(tokens: Tensor, counted: Tensor | None) -> Tensor:
    """(N, width) those of (B, T, width) that count."""
    return tokens.flatten(0, 1) if counted is None else tokens[counted]


def _mean(keys: Tensor, counted: Tensor | None) -> Tensor:
    """(B, H, 1, d) means over the tokens that count."""
    if counted is None:
        return keys.mean(2, keepdim=True)
    weights = counted[:, None, :, None]
    return torch.where(weights, keys, 0).sum(2, keepdim=True) / weights.sum(2, keepdim=True).clamp_min(1)


#: Parent, its columns, the fused columns, and the weights of the former in the targets of the latter.
Block = tuple[int, Tensor, Tensor, Tensor]


def bases(
    parents: Sequence[Heads],
    fused: Heads,
    sums: Sequence[Tensor],
    s: Tensor,
    outgoing: Tensor,
    grouping: Any,
    generator: torch.Generator,
) -> tuple[Grouping, Iterator[tuple[int, Block]]]:
    """The groups of heads, and (role, block) for queries 0, keys 1 and values 2 of each fused head.

    Args:
        s: (H of all parents,) scores.
        outgoing: (D, n) weights of the layers that read the values.
    """
    members = [(net, head) for net, heads in enumerate(parents) for head in range(len(heads))]
    groups = grouping(sums[0], s, tuple(map(len, parents)), len(fused), generator=generator)
    groups = check_grouping(groups, len(members), len(fused))
    # Small factorisations gain nothing on a GPU.
    labels, s, query, key, mixed, outgoing = (t.cpu() for t in (groups.labels, s, *sums[1:], outgoing))
    sizes = [parents[net].reads.shape[1] for net, _ in members]
    columns, d = torch.arange(sum(sizes)).split(sizes), fused.reads.shape[1]

    def blocks() -> Iterator[tuple[int, Block]]:
        for number in range(len(fused)):
            inside = (labels == number).nonzero()[:, 0].tolist()
            n, first = torch.cat([columns[j] for j in inside]), sizes[inside[0]]
            scales = [s[j] / s[inside].sum() * parents[members[j][0]].scale / fused.scale for j in inside]
            w = torch.cat([scale.expand(sizes[j]) for scale, j in zip(scales, inside, strict=True)])
            of_roles = (
                *joint_basis(query[n][:, n], key[n][:, n], w, d, first),
                value_basis(mixed[n][:, n], outgoing[:, n], d, first),
            )
            for role, A in enumerate(of_roles):
                for j, part in zip(inside, A.split([sizes[j] for j in inside]), strict=True):
                    net, head = members[j]
                    yield role, (net, parents[net].places[role][1][head], fused.places[role][1][number], part)

    return groups, blocks()


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
    device, A, zz = A.device, A.cpu(), zz.cpu()  # small factorisations gain nothing on a GPU
    reading = A.new_zeros(A.shape[1], A.shape[0])
    heads, head_of = (A != 0).unique(dim=0, return_inverse=True)
    for number, columns in enumerate(heads):
        members, to = (head_of == number).nonzero()[:, 0], columns.nonzero()[:, 0]
        T, inner = A[members][:, to], zz[members][:, members]
        reading[to[:, None], members] = torch.linalg.lstsq(T.T @ inner @ T, T.T @ inner, driver="gelsd").solution
    return reading.to(device)
