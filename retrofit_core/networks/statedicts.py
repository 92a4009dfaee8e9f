"""Find a network's weights in a training checkpoint: under any key, behind any wrapper's prefix, averaged or not."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .weightfiles import nested

AUTO, EMA, MODEL = "auto", "ema", "model"
#: Keys where training scripts put a network's tensors, most usual first; averaged ones as timm prefers them.
KEYS = (
    "state_dict_ema",
    "model_ema",
    "",
    "state_dict",
    "model_state_dict",
    "model",
    "module",
    "net",
    "network",
    "weights",
    "params",
)
#: Name components that wrappers add, unless the network has a module of that name.
INSIDE = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "module")
#: Prefixes to strip when recognising a network; "backbone" is not one, because it is only part of the network.
OUTER = (*INSIDE, "model", "net", "network", "online_model")
AVERAGED = re.compile(r"(^|[._])(ema|shadow|averaged?|avg|swa)($|[._]|\d)", re.IGNORECASE)
COUNTERS = ("total_ops", "total_params")  # thop's profiler adds them to every module
STEPS = "num_batches_tracked"  # BatchNorm needs it only for an average over all batches


def tensors_in(module: nn.Module) -> dict[str, Tensor]:
    """The state dict without extra state that is no tensor (`get_extra_state`)."""
    return {name: value for name, value in module.state_dict().items() if isinstance(value, Tensor)}


@dataclass(frozen=True)
class NamedTensors:
    """A set of named tensors in a file, and its key there."""

    label: str
    tensors: Mapping[str, Any]
    left: tuple[str, ...] = ()
    """Matrices that do not belong to the network and are left out"""

    @property
    def averaged(self) -> bool:
        """Whether its key names a weight average."""
        return AVERAGED.search(self.label) is not None

    @property
    def rank(self) -> int:
        """How usual its key is, 0 for the most usual one."""
        keys = [key for key in self.label.split(".") if key not in INSIDE]
        known = [KEYS.index(key) if key in KEYS else len(KEYS) for key in keys]
        return max(known, default=KEYS.index(""))


def found_in(content: object) -> list[NamedTensors]:
    """All mappings with named tensors in a file's content, averaged ones and usual keys first."""
    found: list[NamedTensors] = []
    for keys, value in _under_words(content):
        if isinstance(value, Mapping):
            named = {name: each for name, each in value.items() if isinstance(name, str)}
            if any(map(is_array, named.values())):
                found.append(NamedTensors(".".join(keys), {name: _as_tensor(each) for name, each in named.items()}))
    return sorted(found, key=lambda one: (not one.averaged, one.rank))


def _under_words(content: object) -> Iterator[tuple[tuple[str, ...], Any]]:
    return ((keys, value) for keys, value in nested(content) if all(isinstance(key, str) for key in keys))


def is_array(value: object) -> bool:
    """Whether it is a tensor or NumPy array with at least one axis."""
    return isinstance(value, Tensor | np.ndarray) and len(value.shape) > 0


def _as_tensor(value: object) -> Any:
    """Convert a NumPy array to a tensor if torch has its type; else return the value."""
    with suppress(TypeError):
        return torch.from_numpy(value) if isinstance(value, np.ndarray) else value
    return value


def unwrapped(state: Mapping[str, Any]) -> Iterator[dict[str, Tensor]]:
    """Candidates for recognising a network: tensors without profilers' counters and wrappers' name components, then with one
    more common or wrapper's prefix stripped each time."""
    state = {name: value for name, value in state.items() if isinstance(value, Tensor) and _last(name) not in COUNTERS}
    state = _without(state, INSIDE[:-1])
    while state:
        steps = {f"{name[: -len('running_mean')]}{STEPS}" for name in state if _last(name) == "running_mean"}
        yield {**{name: torch.zeros((), dtype=torch.int64) for name in steps}, **state}
        heads = dict.fromkeys(name.partition(".")[0] for name in state)
        first = next((part for part in OUTER if part in heads), next(iter(heads)))
        stripped = {name.partition(".")[2]: value for name, value in state.items() if name.startswith(f"{first}.")}
        state = stripped if first in OUTER or len(heads) == 1 else {}


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _without(state: Mapping[str, Tensor], parts: Iterable[str]) -> dict[str, Tensor]:
    """The tensors with some name components removed, unless names would then collide."""
    shorter = {".".join(part for part in name.split(".") if part not in parts): value for name, value in state.items()}
    return shorter if len(shorter) == len(state) else dict(state)


def tied(model: nn.Module) -> dict[str, list[str]]:
    """For tensors with several names in the network: each name -> all its names."""
    by_tensor: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        by_tensor.setdefault(id(tensor), []).append(name)
    return {name: names for names in by_tensor.values() if len(names) > 1 for name in names}


def fitting(model: nn.Module, found: Iterable[NamedTensors]) -> list[NamedTensors]:
    """The tensor sets that fit the network, behind any prefix, renamed to its own names.

    Tensors outside the prefix are left out: Lightning saves those of metrics and the loss next to the network. Averages
    without buffers get those of the plain weights.
    """
    expected, twins = model.state_dict(), tied(model)
    spare = {name for name, _ in model.named_buffers()} - expected.keys()  # not persistent here
    found = list(found)
    fits = [fit for each in found for fit in _fits(each, expected, twins, spare)]
    plain = next((fit for fit in fits if not fit.averaged), None)
    if plain is not None:
        names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        parameters = {name: value for name, value in expected.items() if name in names}
        known = {fit.label for fit in fits}
        others = [each for each in found if each.averaged and each.label not in known]
        partial = (fit for each in others for fit in _fits(each, parameters, twins, spare))
        fits += [NamedTensors(fit.label, {**plain.tensors, **fit.tensors}) for fit in partial]
    return fits


def _fits(
    found: NamedTensors, expected: Mapping[str, Tensor], twins: Mapping[str, list[str]], spare: set[str]
) -> list[NamedTensors]:
    state = {name: value for name, value in found.tensors.items() if name in expected or isinstance(value, Tensor)}
    for parts in ((), INSIDE[:-1], INSIDE):
        renamed = _without(state, parts) if parts else state
        if inside := _by_prefix(renamed, expected, twins, spare):
            outside = {name: value for name, value in renamed.items() if not name.startswith(tuple(inside))}
            left = tuple(name for name, value in outside.items() if value.is_floating_point() and value.dim() > 1)
            labels = {prefix: ".".join(filter(None, (found.label, prefix.rstrip(".")))) for prefix in inside}
            return [NamedTensors(labels[prefix], tensors, left) for prefix, tensors in inside.items()]
    return []


def _by_prefix(
    state: Mapping[str, Tensor], expected: Mapping[str, Tensor], twins: Mapping[str, list[str]], spare: set[str]
) -> dict[str, dict[str, Tensor]]:
    """The network's tensors for each prefix that has all of them and nothing else."""
    anchor = next((name for name in expected if _last(name) != STEPS), "")
    anchors = twins.get(anchor, [anchor])
    prefixes = {name[: -len(end)] for name in state for end in anchors if end and f".{name}".endswith(f".{end}")}
    inside = {prefix: taken for prefix in sorted(prefixes) if (taken := _taken(state, prefix, expected, twins))}
    good = {}
    for prefix, taken in inside.items():
        others = [other for other in inside if other != prefix and other.startswith(prefix)]
        rest = [name for name in state if name.startswith(prefix) and not name.startswith(tuple(others))]
        known = (name.removeprefix(prefix) for name in rest)
        if all(name in expected or name in spare or _is_counter(name, expected) for name in known):
            good[prefix] = taken
    return good


def _taken(
    state: Mapping[str, Tensor], prefix: str, expected: Mapping[str, Tensor], twins: Mapping[str, list[str]]
) -> dict[str, Tensor]:
    """The network's tensors behind a prefix; {} if one is missing."""
    taken: dict[str, Tensor] = {}
    for name in expected:
        there = [prefix + twin for twin in (name, *twins.get(name, ())) if prefix + twin in state]
        if there:
            value = state[there[0]]
            if _last(name) == STEPS and isinstance(value, Tensor) and value.numel() == 1:
                value = value.reshape(()).to(torch.int64)  # other versions saved another shape
            taken[name] = value
        elif _last(name) == STEPS:
            taken[name] = torch.zeros((), dtype=torch.int64)
        else:
            return {}
    return taken


def _is_counter(name: str, expected: Mapping[str, Tensor]) -> bool:
    """Whether it is a profiler's counter, or a BatchNorm's that the network's norm does not have."""
    mean = f"{name.rpartition('.')[0]}.running_mean".lstrip(".")
    return _last(name) in COUNTERS or (_last(name) == STEPS and mean in expected)


def chosen(fits: list[NamedTensors], weights: str) -> NamedTensors:
    """Choose the requested weights.

    Args:
        fits: from `fitting`, at least one.
        weights: "auto" (averaged ones if present, as timm does; else the most usual key), "ema", "model" (not averaged), or
            their key.
    Raises:
        ValueError: none or several match; the message continues a sentence about the file.
    """
    labels = ", ".join(fit.label or "(no key)" for fit in fits)
    averaged, plain = [fit for fit in fits if fit.averaged], [fit for fit in fits if not fit.averaged]
    pools = {AUTO: averaged or plain, EMA: averaged, MODEL: plain}
    pool = pools.get(weights, [fit for fit in fits if fit.label == weights or fit.label.startswith(f"{weights}.")])
    if not pool:
        what = {EMA: "no averaged (EMA) weights", MODEL: "averaged (EMA) weights only"}.get(
            weights, f"no weights under {weights!r}"
        )
        raise ValueError(f"holds {what} that fit the network. Fitting: {labels}.")
    best = min(fit.rank for fit in pool)
    usual = [fit for fit in pool if fit.rank == best]
    if any(not same(usual[0], fit) for fit in usual[1:]) or (
        best == len(KEYS) and any(not same(pool[0], fit) for fit in pool)
    ):
        raise ValueError(
            f"holds several weights that fit the network: {labels}. Choose with --weights KEY (in Python weights=)."
        )
    return usual[0]


def same(first: NamedTensors, second: NamedTensors) -> bool:
    """Whether both hold equal tensors under the same names."""
    return first.tensors.keys() == second.tensors.keys() and all(
        torch.equal(tensor, second.tensors[name]) for name, tensor in first.tensors.items()
    )


def words(fits: list[NamedTensors], read: NamedTensors) -> str:
    """A sentence on which weights were read, if there were others; else ""."""
    others = [fit for fit in fits if fit is not read and not same(fit, read)]
    if not others:
        return ""
    kind = "averaged (EMA) " if read.averaged else ""
    label = read.label or "(no key)"
    plain = next((fit for fit in others if not fit.averaged), None)
    other = MODEL if read.averaged and plain else others[0].label
    listed = ", ".join(label or "(no key)" for label, _ in groupby(fit.label for fit in others))
    return f"the {kind}weights under {label} were read; it also holds {listed}: --weights {other} (in Python weights=)."


def averaged_in(content: object, expected: Container[str]) -> str:
    """The first key that names averaged weights, else "".

    Args:
        expected: the network's own names, which may contain such words too.
    """
    for keys, value in _under_words(content):
        parts = [part for part in keys[-1].split(".") if part not in INSIDE] if keys else []
        if not parts or any(".".join(parts[start:]) in expected for start in range(len(parts))):
            continue
        holds = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else (value,)
        if AVERAGED.search(keys[-1]) and any(isinstance(each, Mapping | list) or is_array(each) for each in holds):
            return ".".join(keys)
    return ""


def untied(model: nn.Module, state: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """Pairs of names of one tensor in the network for which the state has different tensors."""
    for name, names in tied(model).items():
        for other in names:
            if not torch.equal(state[name], state[other]):
                yield name, other
