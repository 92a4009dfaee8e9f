"""A run's networks cut into levels, and what their neurons put out on images. Computed on demand."""

from collections.abc import Sequence
from typing import Any

from retrofit_app import runs
from retrofit_app.runs import methods
from retrofit_core.system import files

from . import checkpoints, sources
from .keep import keep

IMAGES = 1000  # most images to look at
BATCH = 100  # images at a time


@keep(12, "Looking at images…", of_data=True)
def outputs(entry: runs.Entry, level: int) -> Any:
    """(N, widths) a level's neurons of all parents on N test images, as many of each class: of a map, or of tokens, at one
    random position of each image, the same in all networks.

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
    parts = []
    with torch.inference_mode():
        for batch, share in zip(rows.split(BATCH), place.split(BATCH), strict=True):
            of_batch = [
                _by_position(network[level], compose(network[: level + 1], images.inputs(batch)))
                for network in levels(entry).networks[:-1]
            ]
            parts.append(torch.cat([h[range(len(h)), (share * h.shape[1]).long()] for h in of_batch], dim=1))
    return torch.cat(parts).double().numpy()


@keep(2, of_data=True)
def levels(entry: runs.Entry) -> Any:
    """All of a run's networks cut into levels as in the run, the fused one last (a `Levels`).

    Raises:
        ValueError: as `outputs`.
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


def _parent(entry: runs.Entry, name: str, images: Any) -> Any:
    path, recorded = entry.base / name, entry.inputs.get(name)
    if recorded and path.exists() and files.digest(path) != recorded:
        raise ValueError(f"{path.name} is not the network that this run fused: it has changed since.")
    return checkpoints.of_run(entry, path, images)


def _by_position(level: Any, boundary: Any) -> Any:
    """(N, positions, width) a level's outputs."""
    h = level.of(boundary).movedim(level.axis, -1)
    return h.reshape(len(h), -1, level.width)
