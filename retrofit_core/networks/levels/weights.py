"""Weights that a fit cannot write: computed from other tensors before each call, or used by several layers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn
from torch.nn.utils import parametrize
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

#: Layers of torch whose weight and bias are parameters unless they were replaced.
WITH_WEIGHTS = (
    nn.Linear,
    nn.Bilinear,
    nn.Embedding,
    nn.EmbeddingBag,
    nn.modules.conv._ConvNd,
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.RMSNorm,
    nn.GroupNorm,
    nn.PReLU,
)

#: Names, in lower case, of two factors whose product is added to a weight.
FACTORS = (
    ("lora_a", "lora_b"),
    ("lora_embedding_a", "lora_embedding_b"),
    ("lora_down", "lora_up"),
    ("lokr_w1", "lokr_w2"),
)
#: What tells a network or layer of the library peft.
MARKS_OF_PEFT = ("peft_config", "merge_and_unload", "adapter_layer_names")


@dataclass(frozen=True)
class Computed:
    """A weight that a layer computes from other tensors, so that a value written into it is lost."""

    tensor: str
    """Its name in the layer"""
    by: str
    """What computes it"""
    remedy: str
    """A call that makes it plain; {layer} stands for the layer"""


def computed_weights(layer: nn.Module) -> list[Computed]:
    """The weights of one layer, its submodules left out, that it computes: weight and spectral norm (both kinds of
    each), pruning, any other parametrisation, and a `weight` or `bias` of a torch layer that is no parameter."""
    computed: dict[str, Computed] = {}
    if parametrize.is_parametrized(layer):
        for tensor, chain in layer.parametrizations.items():  # type: ignore[union-attr]
            by = ", ".join(type(step).__name__.strip("_") for step in chain)
            remedy = f"torch.nn.utils.parametrize.remove_parametrizations({{layer}}, {tensor!r})"
            computed[tensor] = Computed(tensor, by, remedy)
    for hook in layer._forward_pre_hooks.values():
        if isinstance(hook, WeightNorm):
            remedy = f"torch.nn.utils.remove_weight_norm({{layer}}, {hook.name!r})"
            computed[hook.name] = Computed(hook.name, "weight_norm", remedy)
        elif isinstance(hook, SpectralNorm):
            remedy = f"torch.nn.utils.remove_spectral_norm({{layer}}, {hook.name!r})"
            computed[hook.name] = Computed(hook.name, "spectral_norm", remedy)
        elif isinstance(hook, BasePruningMethod):
            remedy = f"torch.nn.utils.prune.remove({{layer}}, {hook._tensor_name!r})"
            computed[hook._tensor_name] = Computed(hook._tensor_name, "pruning", remedy)
    for tensor in ("weight", "bias") if isinstance(layer, WITH_WEIGHTS) else ():
        value = getattr(layer, tensor, None)
        if tensor not in computed and isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
            computed[tensor] = Computed(tensor, "its own code", f"{{layer}}.{tensor} = torch.nn.Parameter(...)")
    return list(computed.values())


def refuse_computed_weights(model: nn.Module, network: str) -> None:
    """Refuse a network with computed weights or adapters, for everything that writes, averages or reorders weights.

    Args:
        network: the network's name at the start of the sentence, such as "parent 0".
    Raises:
        ValueError: names the first such layer and the call that makes its weight plain.
    """
    _refuse_adapters(model, network)
    for name, layer in model.named_modules():
        for computed in computed_weights(layer):
            remedy = computed.remedy.format(layer=f"model.get_submodule({name!r})")
            raise ValueError(
                f"{network}: the {computed.tensor} of layer {name!r} is computed from other tensors before each call "
                f"({computed.by}), so it cannot be fitted, averaged or reordered. Make it plain first: {remedy}."
            )


def _refuse_adapters(model: nn.Module, network: str) -> None:
    """Refuse factors of low rank, LoRA's and those of others in peft: the mean of products is not the product of means."""
    merging = [name for name, module in model.named_modules() if hasattr(module, "merge_and_unload")]
    for name, module in model.named_modules():
        held = {part.lower(): part for part in (*module._modules, *module._parameters)}
        pair = next(([held[part] for part in parts] for parts in FACTORS if held.keys() >= set(parts)), None)
        if pair is None and not any(hasattr(module, mark) for mark in MARKS_OF_PEFT):
            continue
        what = (
            f"layer {name!r} holds {' and '.join(map(repr, pair))}"
            if pair
            else f"{name or 'it'!r} holds an adapter of peft"
        )
        whose = f"model.get_submodule({merging[0]!r})" if merging and merging[0] else "model"
        remedy = (
            f"{whose}.merge_and_unload()"
            if merging
            else f"add their product, scaled as its forward does, to the weight beside {name!r}, and put a plain layer there"
        )
        raise ValueError(
            f"{network}: {what}, whose factors count as a product: fitted, averaged or reordered one by one they make another "
            f"network. Merge them into the weights first: {remedy}."
        )


def repeated(modules: Iterable[nn.Module]) -> set[int]:
    """id() of each tensor, buffers included, that more than one of these modules holds, itself or inside.

    Two parameters that view the same memory do not count: copies of a network (the fused one is one) hold them apart.
    """
    holders: dict[int, set[int]] = defaultdict(set)
    for module in modules:
        for tensor in (*module.parameters(), *module.buffers()):
            holders[id(tensor)].add(id(module))
    return {tensor for tensor, holding in holders.items() if len(holding) > 1}


def shared_weights(model: nn.Module) -> Iterator[Sequence[str]]:
    """Full names of parameters of different layers that are one tensor; a layer that runs twice is one layer."""
    names: dict[int, list[str]] = defaultdict(list)
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            names[id(parameter)].append(f"{path}.{name}".lstrip("."))
    yield from (tied for tied in names.values() if len(tied) > 1)


def refuse_batch_statistics(layers: Iterable[tuple[str, nn.Module]]) -> None:
    """Refuse BatchNorms that normalise by the current batch, for their outputs depend on how samples are batched.

    Args:
        layers: by name, as a graph calls them; their submodules are checked as well.
    Raises:
        ValueError: names the first such BatchNorm.
    """
    for path, layer in layers:
        for name, module in layer.named_modules(prefix=path):
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:
                raise ValueError(batch_statistics(name))


def batch_statistics(name: str) -> str:
    """The sentence for a BatchNorm without running statistics."""
    return (
        f"the BatchNorm {name!r} keeps no running statistics, so what it computes depends on which samples share a batch, "
        "and no level can be fitted to that. Put one with track_running_stats=True there and let training data pass it in "
        "training mode, or use GroupNorm or InstanceNorm."
    )


def sole_calls(
    graph: fx.Graph, modules: Mapping[Any, Any], kinds: tuple[type[nn.Module], ...]
) -> list[tuple[fx.Node, Any]]:
    """The calls of layers of exactly these kinds, each called once, whose parameters nothing else shares or computes."""
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    called = [(node, modules[node.target]) for node in graph.nodes if node.op == "call_module"]
    called = [(node, layer) for node, layer in called if type(layer) in kinds and calls[node.target] == 1]
    # Most networks have none: then nothing is searched for shared weights.
    tied = repeated(holder for holder in modules.values() if isinstance(holder, nn.Module)) if called else set()
    return [
        (node, layer)
        for node, layer in called
        if not tied & set(map(id, layer.parameters())) and not computed_weights(layer)
    ]
