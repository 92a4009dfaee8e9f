"""What the heads of an attention attend to on one image, in each network of a run."""

from math import isqrt
from typing import Any

from retrofit_app import runs

from . import sources
from .activity import levels
from .kept import kept


@kept(20, of_data=True)
def attended(entry: runs.Entry, level: int, row: int) -> list[Any]:
    """(heads, T) for each network, the fused one last: the share of a head's attention that each token gets from the class
    token, if there is one (T is a square and one more); else from all tokens on average.

    Raises:
        ValueError: as `activity.activity`, or the level makes no heads in one of the networks.
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
