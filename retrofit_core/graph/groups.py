"""The groups of all spaces, and the targets of a layer: which of the parents' neurons each fused neuron represents.

A space is grouped once, at the first layer that makes its neurons. Neurons in the parts of a grouped convolution can only be
grouped with neurons of parts that are grouped together: parts first, then neurons within.

Legend: m neurons of a layer in all parents, n of a space in all parents, d fused neurons.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..fusion.grouping import Grouping, grouped
from ..fusion.targets import weighted_means
from .network import Network


@dataclass(eq=False)
class Groups:
    """Groups of spaces so far.

    Args:
        nets: parents and, last, the fused network.
    """

    nets: Sequence[Network]
    grouping: Callable[..., Grouping]
    scores: Sequence[Sequence[Tensor]] = ()
    """Of each parent, (width,) for each layer, once they are known"""
    labels: dict[int, Tensor] = field(default_factory=dict)
    """Space -> (n,) the fused neuron of each of the parents' neurons"""
    parts: dict[int, Tensor] = field(default_factory=dict)
    """Family of grouped convolutions -> the fused part of each part of all parents"""
    bases: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """Layer of queries, keys or values -> (m, d) weights of its neurons in the targets of heads, and (m,) labels"""
    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Layer -> facts about the grouping of its heads"""

    @property
    def fused(self) -> Network:
        """The fused network."""
        return self.nets[-1]

    def columns(self, number: int) -> list[Tensor]:
        """Columns of a layer in each network, see `Network.columns`."""
        return [net.columns[number] for net in self.nets]

    def widths(self, space: int) -> tuple[int, ...]:
        """Neurons of each parent."""
        return tuple(len(net.spaces[space].ids) for net in self.nets[:-1])

    @cached_property
    def writers(self) -> dict[int, list[int]]:
        """Space -> the layers that make its neurons."""
        found: dict[int, list[int]] = {space: [] for space in range(len(self.fused.spaces))}
        for number, (layer, columns) in enumerate(zip(self.fused.layers, self.fused.columns, strict=True)):
            for space in columns[:, 0].unique().tolist():
                if space >= 0 and not layer.mixes:
                    found[space].append(number)
        return found

    def begun(self, number: int) -> list[int]:
        """The spaces that begin at a layer and are not grouped yet."""
        return [space for space, by in self.writers.items() if by[:1] == [number] and space not in self.labels]

    def report_of(self, number: int) -> dict[str, Any]:
        """Facts about the groups of a layer at which no space begins."""
        in_place = self.fused.layers[number].mixes or bool((self.fused.columns[number][:, 0] < 0).all())
        return self.reports.get(number, {"algorithm": "identity" if in_place else "stream"})

    def plain(self, number: int) -> bool:
        """Whether a layer makes exactly the neurons of one space, each once, in order."""
        columns = self.fused.columns[number]
        if columns[0, 0] < 0 or (columns[:, 0] != columns[0, 0]).any() or columns[:, 2].any():
            return False
        return torch.equal(columns[:, 1], torch.arange(len(columns))) and len(columns) == len(
            self.fused.spaces[int(columns[0, 0])].ids
        )

    def makes(self, number: int) -> bool:
        """Whether a layer makes neurons, and does not only process others channel by channel."""
        return self.plain(number) or not self.fused.layers[number].channelwise

    def compared(self, space: int) -> list[int]:
        """The layers whose outputs are compared to group a space: those of a stream."""
        first, *others = self.writers[space]
        if self.plain(first):
            return [first, *(k for k in others if self.plain(k))]
        return [first, *(k for k in others if self.makes(k))]

    def places(self, space: int, number: int) -> tuple[Tensor, Tensor]:
        """Where a layer makes a space's neurons: (n, copies) among the columns of all parents, and (d, copies) of the fused
        network."""
        found, start = [], 0
        for net, columns in zip(self.nets, self.columns(number), strict=True):
            inside = (columns[:, 0] == space).nonzero()[:, 0]
            order = (columns[inside, 1] * (1 + int(columns[:, 2].max())) + columns[inside, 2]).argsort()
            places = inside[order].view(len(net.spaces[space].ids), -1)
            if net is self.fused and len(found) == len(self.nets) - 1:
                return torch.cat(found), places
            found.append(start + places)
            start += len(columns)
        raise AssertionError("there is no fused network")

    # --- scores -----------------------------------------------------------------------------------------------------------------

    @cached_property
    def of_spaces(self) -> list[list[Tensor]]:
        """(n_k,) scores of each parent's neurons in each space, the means over the layers that make them."""
        found: list[list[Tensor]] = []
        for space, writers in self.writers.items():
            makers = dict.fromkeys([*writers[:1], *filter(self.makes, writers)])
            found.append([])
            for parent, raw in zip(self.nets, self.scores, strict=False):
                width, means = len(parent.spaces[space].ids), []
                for number in makers:
                    inside = parent.columns[number][:, 0] == space
                    places = parent.columns[number][inside, 1]
                    total = torch.zeros(width).double().index_add_(0, places, raw[number][inside].cpu().double())
                    means.append(total / places.bincount(minlength=width))
                found[-1].append(torch.stack(means).mean(0) if means else torch.ones(width).double())
        return found

    def of_layer(self, number: int) -> Tensor:
        """(m,) scores of a layer's neurons, those of their spaces; outputs that stay in place have their own."""
        found = []
        spaces = [space for space in self.fused.columns[number][:, 0].unique().tolist() if space >= 0]
        for net, (parent, raw) in enumerate(zip(self.nets, self.scores, strict=False)):
            columns, s = parent.columns[number], raw[number].cpu().double().clone()
            for space in spaces:
                inside = columns[:, 0] == space
                s[inside] = self.of_spaces[space][net][columns[inside, 1]]
            found.append(s)
        return torch.cat(found)

    def weights(self, number: int, raw: Sequence[Tensor], head: str) -> Tensor:
        """(m,) weights of a layer's neurons in its targets: their scores; of classes, what the head asks for.

        Args:
            raw: (width,) scores of each parent.
        """
        if self.fused.layers[number].mixes:
            widths = [net.widths[number] for net in self.nets[:-1]]
            return torch.cat([torch.full((width,), 1 / width).double() for width in widths])
        weights, mean = self.of_layer(number), torch.cat(list(raw)).mean()
        for k, (own, s) in enumerate(zip(weights.split([*map(len, raw)]), raw, strict=True)):
            classes = self.nets[k].columns[number][:, 0] < 0
            if head in ("scores", "ensemble"):
                own[classes] = s[classes].to(own)
            else:
                own[classes] = mean.to(own)
        return weights

    # --- groups -----------------------------------------------------------------------------------------------------------------

    def keep(self, space: int) -> None:
        """Let a space's neurons stay in place."""
        width = len(self.fused.spaces[space].ids)
        self.labels[space] = torch.cat([torch.arange(n).clamp_max(width - 1) for n in self.widths(space)])

    def group(
        self, space: int, number: int, gram: Tensor, grams: Mapping[int, Tensor], generator: torch.Generator
    ) -> tuple[float, dict[str, Any]]:
        """Group a space that begins at a layer; its cost, and facts about the search.

        Args:
            gram: (m, m) inner products of the layer's neurons, or of what can be fitted of them.
            grams: raw inner products at all compared layers.
        """
        theirs, _ = self.places(space, number)
        compared = {k: among(grams[k], self.places(space, k)[0]) for k in self.compared(space)}
        raw = compared[number]
        products = alike(compared.values()) if len(compared) > 1 else among(gram, theirs)
        s, own = torch.cat(self.of_spaces[space]).to(gram), self.fused.spaces[space]
        widths, width = self.widths(space), len(own.ids)
        if own.family is not None:
            assigned = self.part_of(space)
            found = grouped_within(self.grouping, products, s, assigned.to(gram.device), widths, own.inside, generator)
        else:
            nearness = products if self.plain(number) and len(compared) > 1 else raw
            found = grouped(self.grouping, products, s, widths, width, generator, nearness=nearness)
        self.labels[space] = found.labels.cpu()
        return found.cost, found.report

    def part_of(self, space: int) -> Tensor:
        """(n,) the fused part to which each neuron's part is assigned."""
        family = self.fused.spaces[space].family
        assert family is not None
        return self.parts[family][self.parts_in(space)]

    def parts_in(self, space: int) -> Tensor:
        """(n,) each neuron's part, with all parents' parts numbered one after another."""
        found, start = [], 0
        for net in self.nets[:-1]:
            own = net.spaces[space]
            assert own.parts is not None
            found.append(start + own.parts)
            start += own.shape[0]
        return torch.cat(found)

    def family(self, space: int) -> list[int]:
        """The layers all of whose neurons lie in the same parts as a space's."""
        family = self.fused.spaces[space].family
        spaces = {k for k in range(len(self.fused.spaces)) if self.fused.spaces[k].family == family is not None}
        return [
            number
            for number, columns in enumerate(self.fused.columns)
            if len(of := columns[:, 0].unique().tolist()) == 1 and spaces.issuperset(of)
        ]

    def group_parts(self, space: int, grams: Mapping[int, Tensor], generator: torch.Generator) -> None:
        """Group the parts that hold a space's neurons, by what all layers make in them.

        Args:
            grams: raw inner products at the layers of its `family`.
        """
        family, products, sums = self.fused.spaces[space].family, [], []
        assert family is not None
        for number in self.family(space):
            of = int(self.fused.columns[number][0, 0])
            parts = torch.empty(sum(map(len, self.columns(number)[:-1])), dtype=torch.int64)
            parts[self.places(of, number)[0]] = self.parts_in(of)[:, None]
            products.append(part_gram(grams[number], parts.to(grams[number].device)))
            s = self.of_layer(number)
            sums.append(torch.zeros(int(parts.max()) + 1, dtype=torch.float64).index_add_(0, parts, s))
        counts = [net.spaces[space].shape[0] for net in self.nets]
        gram = alike(products)
        s = torch.stack(sums).mean(0).to(gram)
        found = grouped(self.grouping, gram, s, tuple(counts[:-1]), counts[-1], generator)
        self.parts[family] = found.labels.cpu()

    # --- targets ----------------------------------------------------------------------------------------------------------------

    def labels_of(self, number: int) -> Tensor:
        """(m,) the fused column that stands for each of a layer's outputs; all their spaces are grouped."""
        if self.fused.layers[number].mixes:
            return torch.arange(self.fused.layers[number].width).repeat(len(self.nets) - 1)
        if number in self.bases:
            return self.bases[number][1]
        *theirs, ours = self.columns(number)
        return torch.cat([self.across(net, columns, ours) for net, columns in enumerate(theirs)])

    def across(self, net: int, theirs: Tensor, ours: Tensor) -> Tensor:
        """(n,) the fused column that stands for each column of a parent's value; all their spaces are grouped.

        Args:
            theirs, ours: see `Spaces.columns`.
        """
        own, columns = keys(ours), theirs.clone()
        order = own.argsort()
        for space in columns[:, 0].unique().tolist():
            if space >= 0:
                inside, labels = columns[:, 0] == space, self.labels[space].split(self.widths(space))[net]
                columns[inside, 1] = labels[columns[inside, 1]]
        return order[torch.searchsorted(own[order], keys(columns)).clamp_max(len(own) - 1)]

    def parts_of_columns(self, number: int) -> Tensor | None:
        """(m,) the fused part of a grouped convolution of each neuron of a layer, then (d,) of its stream; None without parts."""
        layer, columns = self.fused.layers[number], self.fused.columns[number]
        if layer.parts == 1:
            return None
        own = torch.arange(layer.width) // (layer.width // layer.parts)
        space = int(columns[0, 0])
        if layer.mixes:
            parts = own.repeat(len(self.nets) - 1)
        elif space >= 0 and self.fused.spaces[space].family is not None:
            parts = torch.empty(sum(map(len, self.columns(number)[:-1])), dtype=torch.int64)
            parts[self.places(space, number)[0]] = self.part_of(space)[:, None]
        else:
            parts = own[self.labels_of(number)]
        return torch.cat([parts, own] if layer.stream else [parts])

    def targets(self, number: int, s: Tensor) -> Tensor:
        """(m, d) A: the targets of a layer are z A.

        Args:
            s: (m,) scores.
        """
        A = weighted_means(self.labels_of(number), s, len(self.fused.columns[number])).A
        if number in self.bases:
            basis = self.bases[number][0]
            A = torch.where((basis.abs().sum(0) > 0), basis, A)
        return A

    def of_positions(self, number: int) -> list[Tensor]:
        """(n of a parent, d) for each parent, the weights of its neurons in the fused ones that a layer over positions keeps."""
        *theirs, ours = self.columns(number)
        labels = torch.cat([self.across(net, columns, ours) for net, columns in enumerate(theirs)])
        return list(weighted_means(labels, self.of_layer(number), len(ours)).A.split([*map(len, theirs)]))

    def along(self, name: str, axis: int) -> list[Tensor] | None:
        """(n of a parent, n fused) for each parent, the weights of its entries along an axis of a parameter in the fused ones;
        None if some are not grouped yet. What is in no space stays in place."""
        spaces = [k for k in range(len(self.fused.spaces)) if (name, axis) in self.fused.spaces[k].axes]
        if not self.labels.keys() >= set(spaces):
            return None
        shares = {}
        for space in spaces:
            s = torch.cat(self.of_spaces[space])
            A = weighted_means(self.labels[space], s, len(self.fused.spaces[space].ids)).A
            shares[space] = A.split(self.widths(space))
        found = []
        for net, parent in enumerate(self.nets[:-1]):
            n, d = (other.weights[name].shape[axis] for other in (parent, self.fused))
            A, free = torch.zeros(n, d, dtype=torch.float64), torch.ones(n, dtype=torch.bool)
            for space in spaces:
                one, other = (of.spaces[space].axes[name, axis] for of in (parent, self.fused))
                for copy in range(one.shape[1]):
                    A[one[:, copy, None], other[None, :, copy]] = shares[space][net]
                free[one.flatten()] = False
            places = free.nonzero()[:, 0]
            A[places, places] = 1 / (len(self.nets) - 1)
            found.append(A)
        return found


def keys(columns: Tensor) -> Tensor:
    """(d,) one number for each space, neuron and copy."""
    large = 1 << 20
    return (columns[:, 0] + 1) * large * large + columns[:, 1] * large + columns[:, 2]


# --- inner products -------------------------------------------------------------------------------------------------------


def alike(grams: Iterable[Tensor]) -> Tensor:
    """(m, m) the sum of Gram matrices, each divided by its trace, so that the scale of a state does not matter."""
    return torch.stack([gram / gram.trace().clamp_min(1e-300) for gram in grams]).sum(0)


def among(gram: Tensor, places: Tensor) -> Tensor:
    """(n, n) inner products of some neurons, summed over their copies.

    Args:
        places: (n, copies) their positions.
    """
    places = places.to(gram.device)
    return torch.stack([gram[copy][:, copy] for copy in places.T]).sum(0)


def part_gram(zz: Tensor, parts: Tensor) -> Tensor:
    """(G, G) <Z_g Z_g', Z_h Z_h'> = |Z_g' Z_h|^2 of all parents' parts.

    Args:
        zz: (m, m) inner products of neurons.
        parts: (m,) the part of each, with all parents' parts numbered consecutively.
    """
    members = one_hot(parts).to(zz)
    return members.T @ zz.square() @ members


def grouped_within(
    grouping: Callable[..., Grouping],
    gram: Tensor,
    scores: Tensor,
    assigned: Tensor,
    widths: Sequence[int],
    places: Tensor,
    generator: torch.Generator,
) -> Grouping:
    """Group a level's neurons within each part of the fused network.

    Args:
        assigned: (m,) the fused network's part to which each neuron's part is assigned.
        widths: number of neurons of each parent.
        places: (parts, neurons of each) of the fused network's level.
    """
    parents = torch.arange(len(widths)).repeat_interleave(torch.tensor(widths)).to(gram.device)
    labels, cost, report = torch.empty_like(assigned), 0.0, dict[str, Any]()
    for part, slots in enumerate(places.to(gram.device)):
        inside = (assigned == part).nonzero()[:, 0]
        counts = tuple(count for count in parents[inside].bincount().tolist() if count)
        groups = grouped(grouping, gram[inside][:, inside], scores[inside], counts, len(slots), generator)
        labels[inside] = slots[groups.labels]
        cost, report = cost + groups.cost, groups.report
    algorithm = {name: value for name, value in report.items() if name == "algorithm"}
    return Grouping(labels, places.numel(), cost, {**algorithm, "parts": len(places)})
