"""The weights of networks of one architecture as points of one space."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

#: Name and shape of each tensor, in the order of a flat vector.
Shapes = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Layout:
    """The position of each tensor of a network in a flat vector of D numbers."""

    shapes: Shapes

    @property
    def size(self) -> int:
        """D."""
        return sum(prod(shape) for _, shape in self.shapes)

    def flat(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """(D,) concatenated tensors."""
        return torch.cat([tensors[name].detach().flatten() for name, _ in self.shapes])

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Views of the tensors in (D,), or of the stacked tensors in (P, D), by name."""
        parts = flat.split([prod(shape) for _, shape in self.shapes], -1)
        return {
            name: part.view((*flat.shape[:-1], *shape)) for part, (name, shape) in zip(parts, self.shapes, strict=True)
        }


def parameters(model: nn.Module) -> dict[str, Tensor]:
    """The parameters; those that two modules share appear once."""
    return dict(model.named_parameters())


def statistics(model: nn.Module) -> dict[str, Tensor]:
    """BatchNorm means and variances, and all other floating-point buffers."""
    return {name: buffer for name, buffer in model.named_buffers() if buffer.dtype.is_floating_point}


def layout(tensors: Mapping[str, Tensor]) -> Layout:
    """The layout of some tensors."""
    return Layout(tuple((name, tuple(tensor.shape)) for name, tensor in tensors.items()))


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
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"a plane goes through networks of one architecture, but {key!r} is {_words(shapes[0])} in {first} and "
                    f"{_words(shapes[1])} in {name}. Leave out one of the two."
                )
        dtypes = {tensor.dtype for each in (model, other) for tensor in parameters(each).values()}
        if len(dtypes) > 1:
            raise ValueError(f"{first} and {name} have weights of different types, {_listed(dtypes)}. Convert them.")


def _words(shape: tuple[int, ...] | None) -> str:
    return "absent" if shape is None else f"of shape {shape}"


def _listed(dtypes: set[torch.dtype]) -> str:
    return " and ".join(sorted(map(str, dtypes)))


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
