"""How active a level's neurons are on images, in each network of a run, what excites them most, and what heads attend to.

A neuron's activity on an image is its largest output over all positions (of a map, or of tokens), before the activation
function.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

from retrofit_app import runs
from retrofit_app.figures.exciting import GAP
from retrofit_app.runs import methods
from retrofit_core.system import files

from . import checkpoints, samples, sources
from .kept import kept

IMAGES = 1000  # most images to look at
SIDE = 64  # most pixels of an image in a row; smaller ones are enlarged to whole multiples
BATCH = 100  # images at a time


@dataclass(frozen=True, eq=False)
class Activity:
    """The activity of one level's neurons in the parents and, last, in the fused network."""

    values: list[Any]
    """(N, width) for each network, over N images"""
    at: list[Any]
    """(N, width) for each network, the output at one random position of each image, the same in all networks"""
    rows: Any
    """(N,) the images' numbers in their split"""
    classes: list[str]
    """The N images' classes"""
    split: str
    of: int
    """Images in the split"""

    def strongest(self, network: int, neuron: int, count: int) -> list[int]:
        """The images, of the N, on which a neuron is most active, strongest first."""
        values = self.values[network][:, neuron]
        return values.topk(min(count, len(values))).indices.tolist()

    def on(self, network: int, neuron: int, images: list[int]) -> list[float]:
        """A neuron's activity on some of the N images."""
        return self.values[network][images, neuron].tolist()

    def range(self, network: int, neuron: int) -> tuple[float, float]:
        """A neuron's least and greatest activity on the images."""
        values = self.values[network][:, neuron]
        return float(values.min()), float(values.max())


@kept(12, "Looking at images…", of_data=True)
def activity(entry: runs.Entry, level: int) -> Activity:
    """The activity of a level's neurons on test images.

    Raises:
        ValueError: the method does not go level by level, or a network or the data set is missing, damaged or not the
            run's.
    """
    if not methods.goes_level_by_level(entry):
        raise ValueError(
            f"{entry.config['method']} does not go level by level, so its networks are not cut into levels."
        )
    import torch

    from retrofit_core.data.sampling import balanced
    from retrofit_core.networks.levels import compose

    images = sources.test_images(entry)
    generator = torch.Generator().manual_seed(0)
    rows = balanced(images.labels, min(IMAGES, len(images)), generator=generator).sort().values
    place = torch.rand(len(rows), generator=generator)
    values, at = [], []
    with torch.inference_mode():
        for of_network in levels(entry).networks:
            parts, last = [], of_network[level]
            for batch, share in zip(rows.split(BATCH), place.split(BATCH), strict=True):
                h = _by_position(last, compose(of_network[: level + 1], images.inputs(batch)))
                parts.append((h.amax(1), h[range(len(batch)), (share * h.shape[1]).long()]))
            for all_of_it, of_batches in zip((values, at), zip(*parts, strict=True), strict=True):
                all_of_it.append(torch.cat(of_batches).clone())
    classes = [images.classes[int(images.labels[row])] for row in rows]
    return Activity(values, at, rows, classes, images.split, len(images))


@kept(2, of_data=True)
def levels(entry: runs.Entry) -> Any:
    """All of a run's networks cut into levels as in the run (a `Levels`).

    Raises:
        ValueError: as `activity`.
    """
    import torch

    from retrofit_core.fusion.network_levels import cut_into_levels
    from retrofit_core.inspection.analysis.analyse import retrofit_of
    from retrofit_core.networks.checkpoints import load_model

    retrofit = retrofit_of({**methods.fusion(entry), "importance": "uniform"})
    automatic = retrofit.boundaries == "auto"
    images = sources.test_images(entry)
    return cut_into_levels(
        [_parent(entry, name, images) for name in entry.config["models"]],
        images.inputs([0, min(1, len(images) - 1)]),
        target=load_model(entry.folder / "fused.safetensors")[0],
        device=torch.device("cpu"),
        boundaries=retrofit.fit.levels if automatic else retrofit.boundaries,
        leaves=retrofit.leaves,
    )


def largest(networks_levels: Sequence[Any], x: Any) -> list[Any]:
    """(N, width) for each level of one network: every neuron's largest output over all positions, for inputs x."""
    import torch

    found = []
    with torch.inference_mode():
        for level in networks_levels:
            x = level.module(x)
            found.append(_by_position(level, x).amax(1))
    return found


@kept(12, of_data=True)
def kernels(entry: runs.Entry, level: int, _below: Any) -> list[Any]:
    """(width, inputs, high, wide) the incoming weights of a level's neurons in each network, the fused one last; [] if their
    inputs are not simply the image's channels or the neurons of the level below.

    An input of the fused network is a group of the level below, so a parent's weights are summed over each group's members:
    weights on the same inputs are at the same place in all networks.

    Args:
        _below: the `LevelReport` of the level below; None for the first.
    Raises:
        ValueError: as `activity`.
    """
    from retrofit_core.networks.levels import is_branched

    networks, shape = levels(entry).networks, sources.test_images(entry).shape
    found = []
    for number, network in enumerate(networks):
        below = network[level - 1] if level else None
        inputs = below.width if below is not None else shape[0]
        layer, form = network[level].affine, network[level].form
        if layer is None or len(form.layers) > 1 or form.adds or form.parts or layer.weight[0].numel() % inputs:
            return []
        if layer.weight.ndim > 2 and layer.weight.shape[1] != inputs:
            return []
        if below is not None and (is_branched(network[:level]) or not below.plain):
            return []
        weights = layer.weight.detach().reshape(network[level].width, inputs, -1)
        if _below is not None and number < len(networks) - 1:
            groups = _below.labels.split(list(_below.widths))[number]
            weights = weights.new_zeros(len(weights), _below.width, weights.shape[2]).index_add_(1, groups, weights)
        found.append(weights.reshape(*weights.shape[:2], *_sides(layer, weights, shape)))
    return found


def _sides(layer: Any, weights: Any, shape: Sequence[int]) -> tuple[int, int]:
    """Height and width of the picture of one input's weights: a kernel, the image, or a square of positions."""
    if layer.weight.ndim == 4:
        return layer.weight.shape[2:]
    places = weights.shape[2]
    if places == shape[1] * shape[2]:
        return shape[1], shape[2]
    side = round(places**0.5)
    return (side, side) if side * side == places else (1, places)


def answering(entry: runs.Entry, level: int) -> list[int]:
    """How many of a level's neurons are positive on some image, in each network; [] unless a ReLU follows, which lets nothing
    else pass.

    Raises:
        ValueError: as `activity`.
    """
    import torch

    from retrofit_core.networks.levels import compose

    images, networks = sources.test_images(entry), levels(entry).networks
    if level + 1 == len(networks[0]):
        return []
    with torch.inference_mode():
        h = compose(networks[0][: level + 1], images.inputs(range(min(2, len(images)))))
        if not isinstance(h, torch.Tensor):
            return []
        following = networks[0][level + 1].module
        every, positive = following(h), following(h.clamp_min(0))
        if not isinstance(every, torch.Tensor) or not torch.equal(every, positive):
            return []
    return [int((values.amax(0) > 0).sum()) for values in activity(entry, level).values]


@kept(100, of_data=True)
def responses(entry: runs.Entry, level: int, row: int) -> list[Any]:
    """(width,) the activity of a level's neurons in each network on one image of the split.

    Raises:
        ValueError: as `activity`.
    """
    x = sources.test_images(entry).inputs([row])
    return [largest(network[: level + 1], x)[-1][0] for network in levels(entry).networks]


def _parent(entry: runs.Entry, name: str, images: Any) -> Any:
    path, recorded = entry.base / name, entry.inputs.get(name)
    if recorded and path.exists() and files.digest(path) != recorded:
        raise ValueError(f"{path.name} is not the network that this run fused: it has changed since.")
    return checkpoints.of_run(entry, path, images)


def _by_position(level: Any, boundary: Any) -> Any:
    """(N, positions, width) a level's outputs."""
    h = level.of(boundary).movedim(level.axis, -1)
    return h.reshape(len(h), -1, level.width)


@kept(500, of_data=True)
def strip(entry: runs.Entry, rows: tuple[int, ...]) -> str:
    """Some images of the split side by side, as a data URL."""
    from PIL import Image

    images = sources.test_images(entry)
    times = max(SIDE // max(images.shape[1:]), 1)
    side = min(max(images.shape[1:]) * times, SIDE)
    gap = round(GAP * side)
    whole = Image.new("RGBA", ((side + gap) * len(rows) - gap, side), (0, 0, 0, 0))
    for column, pixels in enumerate(images.pixels(list(rows))):
        one = samples.image_of(pixels)
        one = one.resize((one.width * times, one.height * times), Image.Resampling.NEAREST)
        one.thumbnail((side, side))
        corner = ((side + gap) * column + (side - one.width) // 2, (side - one.height) // 2)
        whole.paste(one.convert("RGBA"), corner)
    return samples.url_of(whole)


@kept(20, of_data=True)
def attended(entry: runs.Entry, level: int, row: int) -> list[Any]:
    """(heads, T) for each network, the fused one last: the share of a head's attention that each token gets from the class
    token, if there is one (T is a square and one more); else from all tokens on average.

    Raises:
        ValueError: as `activity`, or the level makes no heads in one of the networks.
    """
    import torch

    from retrofit_core.networks.attention import attention_maps
    from retrofit_core.networks.levels import Heads, compose

    x, found = sources.test_images(entry).inputs([row]), []
    with torch.inference_mode():
        for network in levels(entry).networks:
            heads = network[level].blocks
            if not isinstance(heads, Heads):
                raise ValueError(f"level {network[level].name} makes no heads.")
            maps = attention_maps(network, heads, compose(network[: heads.reader], x))[0]
            found.append((maps[:, 0] if isqrt(maps.shape[-1] - 1) ** 2 == maps.shape[-1] - 1 else maps.mean(1)).clone())
    return found


def on_patches(attention: Any) -> Any:
    """(high, wide) shares of the patches from those of all tokens (T,), see `attended`; (1, T) if they are no square."""
    count = len(attention)
    patches = attention[1:] if isqrt(count - 1) ** 2 == count - 1 else attention
    side = isqrt(len(patches))
    return patches.reshape((side, side) if side**2 == len(patches) else (1, -1)).numpy()
