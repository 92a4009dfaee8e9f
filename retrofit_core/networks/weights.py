"""Weights that a fit cannot write: computed from other tensors before each call, or used by several layers."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

#: torch layers whose weight and bias are parameters unless replaced.
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

#: Lower-case names of two factors whose product is added to a weight.
FACTORS = (
    ("lora_a", "lora_b"),
    ("lora_embedding_a", "lora_embedding_b"),
    ("lora_down", "lora_up"),
    ("lokr_w1", "lokr_w2"),
)
#: Attributes of networks and layers of the peft library.
MARKS_OF_PEFT = ("peft_config", "merge_and_unload", "adapter_layer_names")


#: Older hooks of torch that compute a weight: what they do, their attribute with its name, and the function that removes them.
HOOKS = {
    WeightNorm: ("weight_norm", "name", "remove_weight_norm"),
    SpectralNorm: ("spectral_norm", "name", "remove_spectral_norm"),
    BasePruningMethod: ("pruning", "_tensor_name", "prune.remove"),
}


def computed_weights(layer: nn.Module) -> dict[str, tuple[str, str]]:
    """The weights that one layer, without submodules, computes from other tensors, so that writing to them has no effect: by
    weight or spectral norm (old and new APIs), pruning, any parametrisation, or as a torch layer's `weight` or `bias` that is
    not a parameter.

    Returns:
        Name in the layer -> what computes it, and a call that makes it plain, with {layer} for the layer.
    """
    computed: dict[str, tuple[str, str]] = {}
    if parametrize.is_parametrized(layer):
        for tensor, chain in layer.parametrizations.items():  # type: ignore[union-attr]
            by = ", ".join(type(step).__name__.strip("_") for step in chain)
            computed[tensor] = by, f"torch.nn.utils.parametrize.remove_parametrizations({{layer}}, {tensor!r})"
    for hook in layer._forward_pre_hooks.values():
        for kind, (by, attribute, remove) in HOOKS.items():
            if isinstance(hook, kind):
                tensor = getattr(hook, attribute)
                computed[tensor] = by, f"torch.nn.utils.{remove}({{layer}}, {tensor!r})"
    for tensor in ("weight", "bias") if isinstance(layer, WITH_WEIGHTS) else ():
        value = getattr(layer, tensor, None)
        if tensor not in computed and isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
            computed[tensor] = "its own code", f"{{layer}}.{tensor} = torch.nn.Parameter(...)"
    return computed


def refuse_computed_weights(model: nn.Module, network: str) -> None:
    """Refuse networks with computed weights or adapters, whose weights cannot be written, averaged or reordered.

    Args:
        network: its name to start the message, such as "parent 0".
    Raises:
        ValueError: names the first such layer and the call that makes its weight plain.
    """
    _refuse_adapters(model, network)
    for name, layer in model.named_modules():
        for tensor, (by, remedy) in computed_weights(layer).items():
            plain = remedy.format(layer=f"model.get_submodule({name!r})")
            raise ValueError(
                f"{network}: the {tensor} of layer {name!r} is computed from other tensors before each call "
                f"({by}), so it cannot be fitted, averaged or reordered. Make it plain first: {plain}."
            )


def _refuse_adapters(model: nn.Module, network: str) -> None:
    """Refuse low-rank factors such as LoRA's and other peft adapters: the mean of products is not the product of means."""
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
            else f"add their product, scaled as its forward does, to the weight beside {name!r}, and put a plain "
            "layer there"
        )
        raise ValueError(
            f"{network}: {what}, whose factors matter only as a product: fitting, averaging or reordering them one "
            f"by one gives a different network. Merge them into the weights first: {remedy}."
        )


def shared_weights(model: nn.Module) -> Iterator[Sequence[str]]:
    """Groups of parameter names that refer to one tensor in different layers; a layer that runs twice is one layer."""
    names: dict[int, list[str]] = defaultdict(list)
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            names[id(parameter)].append(f"{path}.{name}".lstrip("."))
    yield from (tied for tied in names.values() if len(tied) > 1)


def refuse_shared(model: nn.Module, path: str, start: str, why: str) -> None:
    """Refuse a layer whose weight or bias is also another's, such as a head that is the table of tokens.

    Args:
        path: the layer's name.
        start, why: of the message, before and after the names of the tensor.
    Raises:
        ValueError: says so.
    """
    for names in shared_weights(model):
        if {f"{path}.weight", f"{path}.bias"} & set(names):
            raise ValueError(f"{start}: {' and '.join(map(repr, names))} are one tensor, {why}")
