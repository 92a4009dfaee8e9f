"""Checks before any work: which networks and data can be fused."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..networks.copies import tried
from ..networks.inputs import Inputs, count_of, leaves_of, rows_of
from ..networks.outputs import does_not_run, logits_in
from ..networks.weights import refuse_computed_weights
from ..system.device import rows_per_batch
from ..system.refusals import Refusal

#: Numbers of samples from which sums of squares leave float32.
LARGEST = 1e15


def check_inputs(
    models: Sequence[nn.Module],
    inputs: Inputs,
    *,
    target: nn.Module | None,
    least: int,
    method: str,
    written: Sequence[nn.Module] | None = None,
) -> None:
    """Check parents and fusion data for any method.

    Args:
        least: minimum number of samples; 0: none are needed.
        written: networks whose weights are written, averaged or mapped, while the others only run; default: all.
    Raises:
        ValueError: no parents; mixed floating-point weights, or computed ones; too few or infinite samples.
    """
    check_models(models)
    if least or count_of(inputs):
        _check_data(inputs, least, method)
    everyone = [*models, *([target] if target is not None else [])]
    for index, model in enumerate(everyone):
        name = f"parent {index}" if index < len(models) else "the target"
        if written is None or any(model is other for other in written):
            refuse_computed_weights(model, name)
    dtypes = {str(parameter.dtype) for model in everyone for parameter in model.parameters()}
    if len(dtypes) > 1:
        raise ValueError(
            f"the parents and the target mix {' and '.join(sorted(dtypes))}. Convert all of them with model.float()."
        )


def check_models(models: object) -> None:
    """Check that `models` is a list of networks.

    Raises:
        ValueError: another type, an empty list, or an entry that is no torch.nn.Module.
    """
    if not isinstance(models, (list, tuple, nn.ModuleList)):
        raise ValueError(
            f"the parents are {type(models).__name__}, not a list. Pass a list of networks, each a torch.nn.Module."
        )
    if not len(models):
        raise ValueError("there is no parent to fuse. Pass a list of at least one model.")
    for index, model in enumerate(models):
        check_module(model, f"parent {index}")


def check_module(model: object, network: str) -> None:
    """Check that a model is a network, and no name of a file.

    Raises:
        ValueError: it is no torch.nn.Module.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"{network} is {type(model).__name__}, not a torch.nn.Module. Read checkpoints with load_model(FILE)[0]."
        )


def check_outputs(models: Sequence[nn.Module], inputs: Inputs) -> tuple[int, ...]:
    """Run one sample through every network, for methods that do not cut networks into levels.

    Returns:
        Output shape for one sample.
    Raises:
        ValueError: a network fails on it, or output shapes differ.
    """
    shapes = [output_shape(model, inputs, f"parent {index}") for index, model in enumerate(models)]
    if len(set(shapes)) > 1:
        raise ValueError(
            f"the networks have {' and '.join('x'.join(map(str, shape)) for shape in shapes)} classes; class c is fused with "
            "class c. Give all of them the same classes."
        )
    return shapes[0]


def output_shape(model: nn.Module, inputs: Inputs, network: str) -> tuple[int, ...]:
    """Output shape of a network for one sample, (classes,) or (tokens, classes), found by running the first one.

    Args:
        network: its name, to start the message.
    Raises:
        ValueError: the network fails on the sample.
    """
    one = rows_of(inputs, slice(1))
    output = tried(model, one)
    if isinstance(output, Exception):
        raise does_not_run(network, one, output) from output
    return tuple(logits_in(output, network).shape[1:])


def _check_data(inputs: Inputs, least: int, method: str) -> None:
    if (count := count_of(inputs)) < least:
        raise Refusal(
            f"the fusion set holds {count} sample{'s' * (count != 1)}; {method} needs at least {least}, and "
            "the paper uses 400.",
            ("samples", least),
        )
    check_finite(inputs, "fusion sample")


def check_finite(inputs: Inputs, sample: str) -> None:
    """Refuse samples with NaN, infinity, or numbers whose squares are too large to be summed.

    Args:
        sample: what one is called, to start the message.
    Raises:
        ValueError: says which one is the first.
    """
    for leaf in leaves_of(inputs):
        if leaf.is_floating_point():
            _check_finite(leaf, sample)


def _check_finite(tensor: Tensor, sample: str) -> None:
    # flags and absolute values of all would double them
    batches = tensor.split(rows_per_batch(max(tensor[:1].nbytes, 1)))
    largest = torch.cat([batch[:, None].flatten(1).abs().amax(1) for batch in batches])
    finite, small = largest.isfinite(), largest < LARGEST
    if not finite.all():
        first = int((~finite).nonzero()[0])
        raise ValueError(f"{sample} {first} holds NaN or infinity ({int((~finite).sum())} samples do). Remove them.")
    if not small.all():
        first = int((~small).nonzero()[0])
        raise ValueError(
            f"{sample} {first} holds {largest[first].item():.3g}, whose squares float32 cannot add up "
            f"({int((~small).sum())} samples hold {LARGEST:.0e} or more). Normalise the data as the parents' training did."
        )


def check_weights(model: nn.Module, network: str) -> None:
    """Check that the weights are finite real numbers; extra state that is no tensor is left alone.

    Raises:
        ValueError: quantised layers; NaN or infinity; no parameters, or complex ones, or those of half precision.
    """
    _refuse_quantised(model, network)
    weights = dict(model.named_parameters())
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, Tensor) or not tensor.dtype.is_floating_point or tensor.isfinite().all():
            continue
        masked = tensor == -torch.inf  # in a buffer: an attention mask
        if name in weights or not (tensor.isfinite() | masked).all():
            raise ValueError(f"{network} has NaN or infinity in {name!r}. Load an earlier checkpoint of it.")
    if not weights:
        raise ValueError(f"{network} has no parameters, so there is nothing to fuse.")
    if (name := next((name for name, weight in weights.items() if weight.is_complex()), None)) is not None:
        raise ValueError(
            f"{network} has complex weights ({name!r}), and methods take real ones. Keep torch.view_as_real(weight) as the "
            "parameter, and call torch.view_as_complex on it in forward."
        )
    kinds = {parameter.dtype for parameter in weights.values()}
    if not kinds <= {torch.float32, torch.float64}:
        raise ValueError(f"{network} has {', '.join(map(str, kinds))} parameters. Convert it with model.float().")


def _refuse_quantised(model: nn.Module, network: str) -> None:
    """Refuse quantised layers, and weights that are integers or a library's quantised tensors."""
    layers = ((path, type(module)) for path, module in model.named_modules())
    quantised = [(path, kind.__name__) for path, kind in layers if "quantized" in kind.__module__]
    for name, weight in model.named_parameters():
        if "torchao" in type(weight).__module__ or not (weight.is_floating_point() or weight.is_complex()):
            quantised.append((name, f"{type(weight).__name__} of {weight.dtype}"))
    if quantised:
        where, what = quantised[0]
        raise ValueError(
            f"{network}: {where or 'it'!r} is a quantised {what}, whose numbers are integers with scales, which cannot be fitted "
            "or averaged. Fuse the networks before quantising them, and quantise the result."
        )
