"""The weights of networks of one architecture as points of one space."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn


def parameters(model: nn.Module) -> dict[str, Tensor]:
    """The parameters; those that two modules share appear once."""
    return dict(model.named_parameters())


def statistics(model: nn.Module) -> dict[str, Tensor]:
    """BatchNorm means and variances, and all other floating-point buffers."""
    return {name: buffer for name, buffer in model.named_buffers() if buffer.dtype.is_floating_point}


def flat(tensors: Mapping[str, Tensor]) -> Tensor:
    """(D,) the tensors one after the other."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors.values()])


def views(numbers: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Views of the tensors in (D,), or of the stacked tensors in (P, D), by name."""
    parts = numbers.split([tensor.numel() for tensor in like.values()], -1)
    return {
        name: part.view((*numbers.shape[:-1], *tensor.shape))
        for part, (name, tensor) in zip(parts, like.items(), strict=True)
    }


def check_alike(networks: Mapping[str, nn.Module]) -> None:
    """Refuse networks that are not points of one space.

    Raises:
        ValueError: no weights, a tensor that one lacks or that has another shape (names it), or different types.
    """
    (first, model), *others = networks.items()
    ours = {**parameters(model), **statistics(model)}
    if not parameters(model):
        raise ValueError(f"{first} has no weights, so there is no landscape around it.")
    for name, other in others:
        theirs = {**parameters(other), **statistics(other)}
        for key in dict.fromkeys((*ours, *theirs)):
            shapes = [tuple(of[key].shape) if key in of else None for of in (ours, theirs)]
            words = ["absent" if shape is None else f"of shape {shape}" for shape in shapes]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"a plane goes through networks of one architecture, but {key!r} is {words[0]} in {first} and "
                    f"{words[1]} in {name}. Leave out one of the two."
                )
        dtypes = {tensor.dtype for each in (model, other) for tensor in parameters(each).values()}
        if len(dtypes) > 1:
            listed = " and ".join(sorted(map(str, dtypes)))
            raise ValueError(f"{first} and {name} have weights of different types, {listed}. Convert them.")


def gram(weights: Sequence[Tensor]) -> Tensor:
    """(k, k) float64 inner products of networks' differences to the first, (D,) each, computed in parts."""
    total = torch.zeros(len(weights), len(weights), dtype=torch.float64)
    for parts in zip(*(flat.split(PART) for flat in weights), strict=True):
        first = parts[0].double()
        differences = torch.stack([part.double() - first for part in parts])
        total += (differences @ differences.T).cpu()
    return total


#: Weights per part.
PART = 1_000_000
