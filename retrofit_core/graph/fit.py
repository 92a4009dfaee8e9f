"""The closed form of a layer: every parent neuron's own fit, then the weights for the groups' targets (paper sec. 4.2.2 a).

Legend: N rows, p inputs of the fused layer, m neurons of all parents side by side, d fused neurons, W0 (p, m) the parents' own
weights, mapped to the fused inputs.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from ..fusion.fit import Ridge
from ..fusion.fit.ridge import IN_BLOCKS, WITH_ATTENTIONS
from ..fusion.grouping import Grouping
from ..fusion.moments import (
    Moments,
    MomentSums,
    Rows,
    Solution,
    approximation_error,
    cross_error,
    solve,
    squared_misses,
)
from ..fusion.results import Fitted
from ..fusion.targets import Targets
from .activated import refined
from .groups import Groups, keys
from .layers import weight_of, write
from .network import Network
from .walk import Step

#: Targets with a smaller deviation, relative to the largest, are not rescaled.
DEAD = 1e-6


class ClosedForm:
    """The options of a ridge, settled for some networks.

    Args:
        groups: of the networks, which are checked.
        attentions: whether they have heads whose targets are bases.
    Raises:
        ValueError: they cannot be fitted so; before any work.
    """

    def __init__(self, fit: Ridge, groups: Groups, attentions: bool) -> None:
        self.fit, self.groups, fused = fit, groups, groups.fused
        self.strength = fit.ridge
        if fit.ridge == "auto" and fused.branched:
            self.strength = WITH_ATTENTIONS if attentions else IN_BLOCKS
        maps = fit.needs_parents_weights or (fit.toward == "auto" and not fused.branched)
        numbers = [number for number in range(len(fused.layers)) if maps and (attentions or not mapped(groups, number))]
        unmapped = next((fused.layers[number].name for number in numbers if not fused.layers[number].table), "")
        if unmapped and fit.needs_parents_weights:
            raise ValueError(
                f"level {unmapped!r} does not read its inputs neuron by neuron, so the parents' weights cannot be mapped onto "
                "the fused inputs. Use toward='zero' and refit=True."
            )
        self.pulls = fit.toward == "parents" or (fit.toward == "auto" and not fused.branched and not unmapped)
        for number, layer in enumerate(fused.layers[:-1]) if fit.active else ():
            read = [] if fused.branched else [_places_read(net, number) for net in groups.nets]
            alike = all(
                places.shape[1] and seen.shape == read[-1][1].shape and torch.allclose(seen, read[-1][1], 1e-4, 1e-5)
                for places, seen in read
            )
            if not (read and alike):
                raise ValueError(
                    f"level {layer.name!r}: active=True compares neurons by what the next layer reads of them, which is known "
                    "only for chains of layers that read every neuron at the same places. Leave it out."
                )

    def solve(self, step: Step, sums: Moments | Rows, parts: Tensor | None) -> Solution:
        """Every parent neuron's own fit, or its own weights; its Gram matrix (m, m) is that by which neurons are grouped.

        Args:
            parts: (m,) see `Groups.parts_of_columns`.
        """
        fit, m, last = self.fit, sum(step.widths), step.number in self.groups.fused.last
        W0 = parents_weights(step, self.groups, parts) if self.pulls or not fit.refit else None
        solution = solve(sums, self.strength, toward=W0 if self.pulls else None)
        if W0 is not None and not fit.refit:  # means of the parents' weights in place of fitted ones
            solution = replace(solution, weights=lambda A: W0 @ A, missed=partial(squared_misses, sums))
        gram = solution.gram if fit.project else sums.zz
        if fit.active and not last:
            gram = _activity(step)
        if fit.repair and not (last or step.layer.stream or step.number in self.groups.bases):
            solution = as_varied(sums, solution)
        return replace(solution, gram=gram[:m, :m])


# --- the parents' own weights -----------------------------------------------------------------------------------------------


def mapped(groups: Groups, number: int) -> bool:
    """Whether a layer reads equally many copies of the same neurons in all networks, at equally many positions."""
    read = [
        [({*map(tuple, columns[:, ::2].tolist())}, kernel) for columns, kernel in map(net.inputs, operations)]
        for net, operations in ((net, net.layers[number].operations) for net in groups.nets)
    ]
    return not groups.fused.layers[number].mixes and all(of_net == read[-1] for of_net in read)


def parents_weights(step: Step, groups: Groups, parts: Tensor | None) -> Tensor:
    """W0: weights of several neurons in one group are summed, those of fused neurons without a member are 0; zeros (p, d) for the
    stream, and W0 again for the layers' outputs before a function."""
    layer, found = step.layer, []
    of_parents = [None] * len(step.widths) if parts is None else parts[: sum(step.widths)].split(step.widths)
    for k, (net, own) in enumerate(zip(step.nets[:-1], step.layers, strict=False)):
        V = weight_of(own, net.weights)
        W0, start, begun = V.new_zeros(layer.inputs, V.shape[1]), 0, 0
        for op, ours in zip(own.operations, layer.operations, strict=True):
            theirs, kernel = net.inputs(op)
            columns, _ = groups.fused.inputs(ours)
            slots = (
                groups.across(k, theirs, columns).view(op.groups, -1).to(V.device)
            )  # parts x channels -> fused channel
            slots = slots.repeat_interleave(op.width // op.groups, 0).T  # (channels of a part, n)
            if (part := of_parents[k]) is not None:
                slots = slots - len(columns) // ours.groups * part
            places = (slots[:, None] * kernel + torch.arange(kernel, device=V.device)[:, None]).flatten(0, 1)
            rows = V[begun : begun + len(places)]
            inside = (places >= 0) & (places < ours.weight.shape[1])
            W0.scatter_add_(0, start + places * inside, rows * inside)
            start, begun = start + ours.weight.shape[1], begun + len(places)
        if layer.has_bias and own.has_bias:
            W0[-1] += V[-1]
        found.append(W0)
    W0 = torch.cat(found, 1).to(step.device)
    stream = W0.new_zeros(len(W0), bool(layer.stream) * layer.width)
    return torch.cat([W0, stream, W0[:, : W0.shape[1] * bool(layer.functions)]], 1)


# --- what the next layer reads ----------------------------------------------------------------------------------------------


def _places_read(net: Network, number: int) -> tuple[Tensor, Tensor]:
    """(n, copies) where the next layer reads each of a layer's neurons; (n, 0) if it does not read them alone, and all alike. And
    what it reads of each if all have the same values, which are those of any network."""
    layer, reader, real = net.layers[number], net.layers[number + 1], net.spaces.neurons.real
    op = reader.operations[0]
    (columns, _), made = net.inputs(op), net.columns[number]
    alone = len(reader.operations) == 1 and not (reader.stream or reader.mixes or layer.table or reader.parts > 1)
    if not alone or {*columns[:, 0].tolist()} != {*made[:, 0].tolist()} or len(columns) % len(made):
        return made[:, :0], made[:0]
    places = torch.empty(len(made), len(columns) // len(made), dtype=torch.int64)
    places[keys(made).argsort()] = keys(columns).argsort().view(places.shape)
    like, numbers = real[layer.end].narrow(layer.axis, 0, 1), torch.Generator().manual_seed(0)
    one = torch.randn(like.shape, generator=numbers).to(like).expand_as(real[layer.end])
    given = {layer.end: one, **{node: real[node] for node in net.graph.inputs}}
    rows = net.graph.run(net.weights, given, [op.x])[op.x].movedim(op.axis, -1)[..., places.to(one.device)]
    same = torch.allclose(rows, rows[..., :1, :].expand_as(rows), 1e-4, 1e-5)
    return places if same else places[:, :0], rows[..., 0, :]


def _activity(step: Step) -> Tensor:
    """(m, m) centred inner products of what the next layer reads of each neuron, behind activation functions and pooling."""
    sums = MomentSums(sum(step.widths), device=step.device)
    reading = [
        (net, _places_read(net, step.number)[0], net.layers[step.number + 1].operations[0]) for net in step.nets[:-1]
    ]
    for number in range(len(step.inputs)):
        rows = []
        for walk, (net, places, op) in zip(step.walks, reading, strict=False):
            x = walk.ahead(number, net.weights, [op.x])[op.x].movedim(op.axis, -1)
            rows.append(x[..., places.to(x.device)].mT.flatten(0, -2))
        sums.add(torch.cat(rows, 1))
    total = sums.finish()
    return total.zz - torch.outer(total.sz, total.sz) / total.rows


# --- weights ----------------------------------------------------------------------------------------------------------------


def fitted(step: Step, sums: Moments | Rows, solution: Solution, found: Grouping, s: Tensor) -> Fitted:
    """Write the weights for the groups' targets, less the stream, into a layer.

    Args:
        s: (m,) scores.
    """
    layer, targets = step.layer, found.targets(s)
    if layer.functions:
        return _activated(step, sums, solution, targets)
    missing = replace(targets, A=torch.cat([targets.A, less_stream(step)]))
    solution = _beside_fixed_biases(step, sums, solution)
    V = solution.weights(missing.A)
    write(layer, step.nets[-1].weights, V)
    return closed_form_report(sums, found, s, solution, missing, V, bool(layer.stream))


def _beside_fixed_biases(step: Step, sums: Moments | Rows, solution: Solution) -> Solution:
    """The same; outputs whose bias lies in a buffer, which is not written, are fitted beside it, without a bias."""
    weights = step.nets[-1].weights
    bias = next((op.bias for op in step.layer.operations if op.bias is not None), None)
    if bias is None or not bias.fixed or isinstance(sums, Moments) and sums.parts is not None:
        return solution
    fixed, held = bias.places(weights) < 0, bias.read(weights).double()
    if isinstance(sums, Rows):
        alone: Moments | Rows = Rows(sums.x[:, :-1], torch.cat([sums.z, sums.x[:, -1:]], 1))
    else:
        xz = torch.cat([sums.xz[:-1], sums.xx[:-1, -1:]], 1)
        alone = replace(sums, xx=sums.xx[:-1, :-1], xz=xz, bias=False)
    without = solve(alone, solution.strength)

    def fitted_weights(A: Tensor) -> Tensor:
        V = solution.weights(A)
        less = torch.cat([A[:, fixed], -held[None, fixed].to(A)])
        V[:, fixed] = torch.cat([without.weights(less), held[None, fixed].to(V)])
        return V

    return replace(solution, weights=fitted_weights, missed=partial(squared_misses, sums))


def less_stream(step: Step) -> Tensor:
    """(d or 0, d) the weights of the stream in what is missing."""
    d = step.layer.width
    return -torch.eye(d, dtype=torch.float64, device=step.device)[: d * bool(step.layer.stream)]


def _activated(step: Step, sums: Moments | Rows, solution: Solution, targets: Targets) -> Fitted:
    """Fit a layer first to the outputs of the parents' layers, then to what is missing after the function."""
    layer, net, m, d = step.layer, step.nets[-1], sum(step.widths), step.layer.width
    first = torch.cat([targets.A.new_zeros(m + d * bool(layer.stream), d), targets.A])
    dtype = next(iter(net.weights.values())).dtype
    missing = torch.cat([targets.A, less_stream(step)]).to(dtype)
    rows: Sequence[tuple[Tensor, Tensor]] = [(x[:, 0], z[:, : len(missing)] @ missing) for x, z in step.rows(dtype)]

    def function(u: Tensor) -> Tensor:
        """What is done to each output before the sum."""
        for node in layer.functions:
            u = net.graph.run(net.weights, {node.all_input_nodes[0]: u}, [node])[node]
        return u

    xx = sums.x.T @ sums.x if isinstance(sums, Rows) else sums.xx
    V = refined(xx, sums.bias, solution.weights(first), solution.strength, function, rows)
    write(layer, net.weights, V)
    return Fitted(sums.form, float("nan"), ridge=solution.strength)


def closed_form_report(
    sums: Moments | Rows, groups: Grouping, s: Tensor, solution: Solution, missing: Targets, V: Tensor, adds: bool
) -> Fitted:
    """The errors of a layer's weights V (p, d) for what is missing.

    Args:
        s: (m,) scores.
        missing: the groups' targets, less the stream.
        adds: whether the layer adds to a stream.
    """
    labels, missed = groups.labels, solution.missed(missing.A, V)
    untouched = approximation_error(sums, missing, torch.zeros_like(V)) if adds else float("nan")
    if groups.reading is not None:  # heads: compare each neuron with its reconstruction from the targets
        missing, V = Targets(missing.A @ groups.reading, s), V @ groups.reading
        labels, missed = torch.arange(len(s), device=s.device), None
    return Fitted(
        sums.form,
        approximation_error(sums, missing, V, missed),
        solution.strength,
        cross_error(sums, s, labels, missing, V),
        untouched,
    )


def as_varied(sums: Moments | Rows, solution: Solution) -> Solution:
    """The solution for targets rescaled to the mean standard deviation of their neurons, about the mean, or about zero without
    a bias.

    The mean of neurons that agree only in part varies less than they do, so the activation function after it passes on less
    (Jordan et al. 2023). The fit is linear in its targets, so its columns are rescaled.
    """
    means = sums.sz / sums.rows if sums.bias else torch.zeros_like(sums.sz)
    deviations = (sums.zz.diagonal() / sums.rows - means**2).clamp_min(0).sqrt()

    def weights(A: Tensor) -> Tensor:
        centre = means @ A
        spread = ((A * (sums.zz @ A)).sum(0) / sums.rows - centre**2).clamp_min(0).sqrt()
        alive = spread > DEAD * deviations.max()
        factor = torch.where(alive, (deviations @ A) / spread.clamp_min(1e-300), 1.0)
        V = solution.weights(A) * factor
        if sums.bias:
            V[-1] += (1 - factor) * centre
        return V

    return replace(solution, weights=weights, missed=partial(squared_misses, sums))
