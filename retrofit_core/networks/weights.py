"""Weights that a fit cannot write: computed from other tensors before each call."""

from collections.abc import Iterator

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

#: Lower-case names of two factors whose product is added to a weight, and attributes of the peft library.
FACTORS = (
    {"lora_a", "lora_b"},
    {"lora_embedding_a", "lora_embedding_b"},
    {"lora_down", "lora_up"},
    {"lokr_w1", "lokr_w2"},
)
MARKS_OF_PEFT = ("peft_config", "merge_and_unload", "adapter_layer_names")


def refuse_computed_weights(model: nn.Module, network: str) -> None:
    """Refuse networks whose weights are computed from other tensors before each call, or have adapters: writing, averaging or
    reordering the tensors one by one gives a different network.

    Args:
        network: its name to start the message, such as "parent 0".
    Raises:
        ValueError: names the first such layer, and how to make its weight plain.
    """
    for name, layer in model.named_modules():
        held = {part.lower() for part in (*layer._modules, *layer._parameters)}
        if any(held >= pair for pair in FACTORS) or any(hasattr(layer, mark) for mark in MARKS_OF_PEFT):
            raise ValueError(
                f"{network}: {name or 'it'!r} holds an adapter, whose factors matter only as a product: fitting, averaging or "
                "reordering them one by one gives a different network. Merge them into the weights first, as "
                "model.merge_and_unload() of peft does."
            )
        for tensor in _computed_weights(layer):
            raise ValueError(
                f"{network}: the {tensor} of layer {name!r} is computed from other tensors before each call, so it cannot be "
                "fitted, averaged or reordered. Make it plain first: remove_parametrizations, remove_weight_norm, "
                "remove_spectral_norm or prune.remove of torch.nn.utils, or assign a torch.nn.Parameter."
            )


def _computed_weights(layer: nn.Module) -> Iterator[str]:
    """The weights that one layer, without submodules, computes from others, by weight or spectral norm, pruning, any
    parametrisation, or a torch layer's `weight` or `bias` that is not a parameter."""
    if parametrize.is_parametrized(layer):
        yield from layer.parametrizations  # type: ignore[misc]
    for hook in layer._forward_pre_hooks.values():
        if isinstance(hook, (WeightNorm, SpectralNorm, BasePruningMethod)):
            yield str(vars(hook).get("name") or vars(hook)["_tensor_name"])
    for tensor in ("weight", "bias") if isinstance(layer, WITH_WEIGHTS) else ():
        value = getattr(layer, tensor, None)
        if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
            yield tensor
