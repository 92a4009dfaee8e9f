"""The attention layers of a network cut inside its blocks: their heads, and what each head attends to.

Legend: B samples, T tokens, H heads of d neurons. A head's map is softmax(scale q'k) over keys, (B, H, T, T); its mixed values
are its map times its values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from .levels import Boundary, Heads, Level, compose
from .symmetry import Group

#: Largest relative error at which a map counts as softmax(scale q'k), and the mixed values as map times values.
TOLERANCE = {torch.float32: 1e-2, torch.float64: 1e-6}

#: For a group of neurons: level -> (neurons, copies) positions in its output.
Rows = Mapping[int, Tensor]


def attentions(levels: Sequence[Level], groups: Mapping[Group, Rows], example: Tensor) -> list[Heads]:
    """Find a network's attention layers, with heads in the order in which the query level makes them.

    Candidates are neuron groups that are made twice and read by no layer: queries and keys. An example then confirms that
    the maps are softmax(scale q'k) and mix the values head by head. Other kinds of attention are left out: their queries
    and keys count as ordinary neurons, each query in the group of its key.

    Args:
        groups: for each neuron group, the levels that make it.
    """
    pairs: dict[tuple[int, ...], list[Rows]] = {}
    for group, rows in groups.items():
        twice = sum(positions.shape[1] for positions in rows.values()) == 2
        if twice and not group.fixed and not any(part.kind == "in" for part in group.parts):
            pairs.setdefault(tuple(rows), []).append(rows)
    found = [_heads(levels, makers, heads, groups) for makers, heads in pairs.items()]
    checked = [_checked(levels, heads, example) for heads in found if heads is not None]
    return [heads for heads in checked if heads is not None]


def _heads(
    levels: Sequence[Level], makers: tuple[int, ...], heads: Sequence[Rows], groups: Mapping[Group, Rows]
) -> Heads | None:
    """The neurons of an attention; None if its heads differ in width, no single layer reads them, or some head lacks its own
    values."""
    reader = next(
        (index for index in range(max(makers) + 1, len(levels)) if not _alive(levels[index], makers)), len(levels) - 1
    )
    if len({len(rows[makers[0]]) for rows in heads}) > 1 or len(levels[reader].form.paths) != 1:
        return None
    first, second = makers if len(makers) == 2 else makers * 2
    query, key = (torch.stack([rows[level][:, copy] for rows in heads]) for level, copy in ((first, 0), (second, -1)))
    columns, values, value_levels = [], [], []
    weight = f"{levels[reader].form.paths[0]}.weight"
    for group, rows in groups.items():
        read = [part for part in group.parts if part.kind == "in" and part.name == weight]
        if read and len(rows) == 1 and read[0].index.shape[1] == 1 and _alive(levels[reader - 1], rows):
            (level,) = rows
            value_levels.append(level)
            values.append(rows[level][:, 0])
            columns.append(read[0].index[:, 0])
    widths = {len(positions) for positions in values}
    if len(values) != len(heads) or len(widths) != 1 or len(set(value_levels)) != 1:
        return None
    in_order = sorted(range(len(heads)), key=lambda head: int(query[head].min()))
    by_value = sorted(range(len(values)), key=lambda head: int(values[head].min()))
    return Heads(
        (first, query[in_order]),
        (second, key[in_order]),
        (value_levels[0], torch.stack(values)[by_value]),
        reader,
        torch.stack(columns)[by_value],
    )


def _alive(level: Level, makers: Sequence[int] | Rows) -> bool:
    """Whether the output of any of these levels is still alive after a level."""
    return any(tensor.maker in makers for tensor in level.alive)


@torch.no_grad()
def _checked(levels: Sequence[Level], heads: Heads, example: Tensor) -> Heads | None:
    """Set the scale and swap queries and keys if needed; None if the example shows another computation."""
    boundary = compose(levels[: heads.reader], example)
    tensors = (boundary,) if isinstance(boundary, Tensor) else boundary
    if any(tensors[_index_of(levels, heads, level)].ndim != 3 for level in heads.levels):
        return None  # tokens along more than one axis
    if levels[heads.reader].form.read(boundary)[0][0].ndim != 3:
        return None  # pooled before a layer reads the mixed values
    maps = attention_maps(levels, heads, boundary)
    tolerance = TOLERANCE.get(maps.dtype, 1e-2)
    v, mixed = of_heads(levels, heads, heads.value, boundary), mixed_values(levels, heads, boundary)
    if not (_close(maps @ v, mixed, tolerance) and _close(maps.sum(-1), torch.ones_like(maps[..., 0]), tolerance)):
        return None
    for turned in (heads, replace(heads, query=heads.key, key=heads.query)):
        q, k = (of_heads(levels, turned, part, boundary) for part in (turned.query, turned.key))
        if (q.shape[2], k.shape[2]) != maps.shape[2:]:
            return None  # queries pooled before they meet the keys
        logits, wanted = (_centred(values, maps) for values in (q @ k.transpose(-1, -2), maps.clamp_min(1e-30).log()))
        scale = (maps * logits * wanted).sum() / (maps * logits * logits).sum().clamp_min(1e-300)
        if _close(maps.sqrt() * scale * logits, maps.sqrt() * wanted, tolerance):
            return replace(turned, scale=scale.item())
    return None


def _centred(logits: Tensor, maps: Tensor) -> Tensor:
    """Subtract the map-weighted mean over keys: a constant added to all keys of a query changes no map."""
    return logits - (maps * logits).sum(-1, keepdim=True) / maps.sum(-1, keepdim=True)


def _close(left: Tensor, right: Tensor, tolerance: float) -> bool:
    return bool((left - right).norm() <= tolerance * right.norm().clamp_min(1e-30))


def _index_of(levels: Sequence[Level], heads: Heads, maker: int) -> int:
    """Index of a level's output among the tensors at the boundary before the reader."""
    return next(index for index, tensor in enumerate(levels[heads.reader - 1].alive) if tensor.maker == maker)


def of_heads(levels: Sequence[Level], heads: Heads, part: tuple[int, Tensor], boundary: Boundary) -> Tensor:
    """(B, H, T, d) queries, keys or values, read from the boundary before the reader.

    Args:
        part: `heads.query`, `heads.key` or `heads.value`.
    """
    tensors = (boundary,) if isinstance(boundary, Tensor) else boundary
    level, positions = part
    return tensors[_index_of(levels, heads, level)][:, :, positions.to(tensors[0].device)].transpose(1, 2)


def mixed_values(levels: Sequence[Level], heads: Heads, boundary: Boundary) -> Tensor:
    """(B, H, T, d) mixed values that the reader's layer gets from each head."""
    (inputs, *_), _ = levels[heads.reader].form.read(boundary)
    return inputs[:, :, heads.columns.to(inputs.device)].transpose(1, 2)


def attention_maps(levels: Sequence[Level], heads: Heads, boundary: Boundary) -> Tensor:
    """(B, H, T, T) maps: the mixed values when one token's values are 1 and all others 0, probing d tokens at a time.

    Args:
        boundary: before the reader.
    """
    tensors = [boundary] if isinstance(boundary, Tensor) else list(boundary)
    level, positions = heads.value
    index = _index_of(levels, heads, level)
    plain, d = tensors[index], positions.shape[1]
    positions, parts = positions.to(plain.device), []
    for tokens in torch.arange(plain.shape[1]).split(d):
        probe = plain.clone()
        probe[:, :, positions.flatten()] = 0
        for dimension, token in enumerate(tokens.tolist()):
            probe[:, token, positions[:, dimension]] = 1
        probed = tuple(probe if number == index else tensor for number, tensor in enumerate(tensors))
        mixed = mixed_values(levels, heads, probed[0] if isinstance(boundary, Tensor) else probed)
        parts.append(mixed[..., : len(tokens)])
    return torch.cat(parts, -1)
