"""A run's networks, and what the neurons of their levels put out on images. Computed on demand."""

from typing import Any

from retrofit_app import runs
from retrofit_app.runs import methods
from retrofit_app.runs.levels import record
from retrofit_core.system import files

from . import sources
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
        raise ValueError(f"{entry.config['method']} does not go level by level, so its networks have no levels.")
    import torch

    from retrofit_core.data.sampling import balanced

    images, parents = sources.test_images(entry), networks(entry).nets[:-1]
    generator = torch.Generator().manual_seed(0)
    rows = balanced(images.labels, min(IMAGES, len(images)), generator=generator).sort().values
    place = torch.rand(len(rows), generator=generator)
    parts = []
    for batch, share in zip(rows.split(BATCH), place.split(BATCH), strict=True):
        x, of_batch = images.inputs(batch), []
        for net in parents:
            at = net.layers[level].place
            with torch.inference_mode():
                value = net.graph.run(net.weights, net.graph.input_values([x]), [at])[at]
            h = value.movedim(net.axes[level], -1).reshape(len(x), -1, len(net.columns[level]))
            of_batch.append(h[range(len(h)), (share * h.shape[1]).long()])
        parts.append(torch.cat(of_batch, dim=1))
    return torch.cat(parts).double().numpy()


@keep(2, of_data=True)
def networks(entry: runs.Entry) -> Any:
    """All of a run's networks, the fused one last, whose layers are the run's levels, with its groups (a `Groups`).

    Raises:
        ValueError: as `outputs`.
    """
    from retrofit_core.inspection.analysis.networks import fused_networks

    images = sources.test_images(entry)
    few = images.inputs(range(min(3, len(images))))
    return fused_networks(models(entry), record(entry).levels, few)


def models(entry: runs.Entry) -> list[Any]:
    """A run's networks as modules, the fused one last, with classes in the order of its images.

    Raises:
        ValueError: as `outputs`.
    """
    from retrofit_core.networks.checkpoints import load_model

    images, arch = sources.test_images(entry), entry.config.get("arch")
    paths = [entry.base / name for name in entry.config["models"]]
    for path, name in zip(paths, entry.config["models"], strict=True):
        recorded = entry.inputs.get(name)
        if recorded and path.exists() and files.digest(path) != recorded:
            raise ValueError(f"{path.name} is not the network that this run fused: it has changed since.")
    return [load_model(path, arch, like=images)[0] for path in (*paths, entry.folder / "fused.safetensors")]
