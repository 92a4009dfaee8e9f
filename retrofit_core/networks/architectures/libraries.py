"""Networks of timm and torchvision by name, such as `timm:resnet18`; never with pretrained weights.

Both libraries are imported on first use. A name in a file can only select one of their networks.
"""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from torch import nn

from ..user_code import LIBRARIES

#: Keywords that would download or read files.
REFUSED = (
    "pretrained",
    "pretrained_cfg",
    "pretrained_cfg_overlay",
    "checkpoint_path",
    "cache_dir",
    "weights",
    "progress",
)
REFUSED += ("weights_backbone",)
#: Without these, the networks below return auxiliary logits in training, and warn about their initialisation.
PLAIN = {"aux_logits": False, "init_weights": True}
WITH_AUXILIARY = ("googlenet", "inception_v3")


def is_library(name: object) -> bool:
    """Whether the name is that of a library's network."""
    return isinstance(name, str) and name.partition(":")[0] in LIBRARIES and ":" in name


def factory(name: str) -> Callable[..., nn.Module]:
    """The function that builds a library's network.

    Raises:
        ValueError: library not installed, or no such network.
    """
    library, _, network = name.partition(":")
    return {"timm": _timm, "torchvision": _torchvision}[library](network)


def keywords_for(name: str, shape: Sequence[int], classes: int) -> dict[str, Any]:
    """The keywords that the data set.

    Args:
        shape: (channels, height, width) of the images.
    """
    library, _, network = name.partition(":")
    if library == "torchvision":
        return {"num_classes": classes, **(PLAIN if network in WITH_AUXILIARY else {})}
    factory(name)
    settings = import_module("timm").get_pretrained_cfg(network)
    # Transformers only: other networks take any image size and do not accept the keyword.
    fixed = settings is not None and settings.fixed_input_size
    return {"num_classes": classes, "in_chans": shape[0], **({"img_size": shape[1]} if fixed else {})}


def _timm(network: str) -> Callable[..., nn.Module]:
    try:
        timm = import_module("timm")
    except ImportError as error:
        raise ValueError(
            f"the architecture 'timm:{network}' needs the package timm, which is not installed: pip install timm."
        ) from error
    if not timm.is_model(network):  # also refuses names that would be downloaded, such as hf-hub:NAME
        raise ValueError(_unknown("timm", network, timm.list_models()))
    return lambda **keywords: timm.create_model(network, pretrained=False, **keywords)


def _torchvision(network: str) -> Callable[..., nn.Module]:
    try:
        from torchvision import models
    except ImportError as error:
        raise ValueError(
            f"the architecture 'torchvision:{network}' needs the package torchvision, which is not installed: pip install "
            "torchvision."
        ) from error
    names = models.list_models(module=models)  # image classifiers only
    if network not in names:
        raise ValueError(_unknown("torchvision", network, names))
    return lambda **keywords: models.get_model(network, weights=None, **keywords)


def _unknown(library: str, network: str, names: Sequence[str]) -> str:
    near = get_close_matches(network, names, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{library} has no network {network!r} that classifies images (it has {len(names)} others).{hint}"
