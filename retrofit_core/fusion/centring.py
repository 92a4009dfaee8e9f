"""Class scores without a preference for some classes: subtract from each logit of a parent its mean over samples.

A parent that knows few classes scores these high on every sample, and so overrules the parents that know the others. Its mean
logits over samples of all classes estimate this preference (the logit adjustment of Menon et al. 2021, with a network's own
answers in place of class frequencies). Ours, not the paper's.
"""

import torch
from torch import Tensor, nn

from ..networks.copies import copies
from ..networks.outputs import GivingLogs
from ..networks.wrappers import wrapper_of
from ..system.device import exact, of

BATCH = 400


@exact()
def centred(model: nn.Module, inputs: Tensor) -> nn.Module:
    """A copy of a classifier, on its device and in evaluation mode, whose logits have mean zero over the samples, class by class.

    Args:
        inputs: (B, ...) samples, best of all classes.
    Raises:
        ValueError: no bias adds to its logits.
    """
    (copied,) = copies({"the network": model}).values()
    return shifted(model, inputs[:1], mean_logits(copied, inputs))


@torch.no_grad()
def mean_logits(model: nn.Module, inputs: Tensor) -> Tensor:
    """(classes,) mean of each logit over samples, float64.

    Args:
        model: in evaluation mode.
    """
    return torch.stack([_logits(model, batch).double().sum(0) for batch in inputs.split(BATCH)]).sum(0) / len(inputs)


@torch.no_grad()
def shifted(model: nn.Module, example: Tensor, means: Tensor, name: str = "the network") -> nn.Module:
    """A copy, in evaluation mode, of a classifier from whose logits (classes,) numbers are subtracted.

    Args:
        example: (1, ...) input.
        name: the network's, for the error.
    Raises:
        ValueError: no bias adds to its logits.
    """
    (copied,) = copies({name: model}).values()
    logits, relative = _logits(copied, example), wrapper_of(copied, GivingLogs) is not None
    step = (
        torch.arange(len(means)).to(logits) if relative else logits.new_ones(())
    )  # only differences show in probabilities
    for bias in reversed(list(copied.parameters())):
        if bias.shape != means.shape:
            continue
        bias.sub_(step)
        changed, expected = _logits(copied, example), logits - step
        if relative:
            changed, expected = (each - each.mean(1, keepdim=True) for each in (changed, expected))
        if torch.allclose(changed, expected, atol=1e-3):
            bias.copy_(bias + step - means.to(bias))
            return copied
        bias.add_(step)
    raise ValueError(f"no bias of {name} adds to its logits, so they cannot be centred. Leave centre out.")


def _logits(model: nn.Module, inputs: Tensor) -> Tensor:
    return model(inputs.to(of(model), next(model.parameters()).dtype))
