"""The networks of a finished fusion, the fused one last, whose layers are the levels of its reports."""

from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from ...fusion.correspondence import aligned
from ...fusion.results import LevelReport
from ...graph.blocks import Block, in_blocks
from ...graph.groups import Groups
from ...graph.layers import Layer
from ...graph.network import Network, networks_of
from ...networks.inputs import Inputs
from .stopped import groups_of


def fused_networks(
    models: Sequence[nn.Module],
    reports: Sequence[LevelReport],
    inputs: Inputs,
) -> Groups:
    """The groups of a fusion, with its networks.

    Args:
        models: the parents and, last, the fused network, on one device.
        inputs: see `networks_of`.
    Raises:
        ValueError: the reports are of other networks.
    """
    descended = any(report.form == "gradient" for report in reports)
    nets = networks_of(models, inputs, opaque=descended)
    nets = aligned([*map(_as_fitted, nets)] if descended else nets, apart=descended)
    found = [
        ([net.widths[number] for net in nets[:-1]], nets[-1].widths[number]) for number in range(len(nets[-1].layers))
    ]
    if found != [([*report.widths], report.width) for report in reports] or len({len(net.layers) for net in nets}) > 1:
        raise ValueError(
            f"the run has levels {[report.name for report in reports]} that differ in layers or widths from the "
            f"{len(nets[-1].layers)} found now. Pass the parents that were fused."
        )
    return groups_of(nets, reports)


def _as_fitted(net: Network) -> Network:
    """The network in the blocks of a gradient fit; a block of one layer is this layer."""
    place, layers, blocked = net.graph.place, list[Layer](), in_blocks(net)
    for block in blocked.layers:
        assert isinstance(block, Block)
        inside = [layer for layer in net.layers if place[block.start] < place[layer.end] <= place[block.end]]
        written = {name for layer in inside for op in layer.operations for name in (*op.names, *op.vectors)}
        alone = len(inside) == 1 and inside[0].end is block.end and written.issuperset(block.trained)
        layers.append(inside[0] if alone and not inside[0].table else block)
    return replace(net, layers=layers)
