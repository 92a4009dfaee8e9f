"""Labels, converted to int64 on input because torch treats uint8 as a mask and refuses other types; and class shares."""

import torch
from torch import Tensor


def class_labels(labels: Tensor, reader: str) -> Tensor:
    """(n,) int64 labels.

    Args:
        reader: who needs them, to start the message.
    Raises:
        ValueError: not one integer per sample; says what to pass.
    """
    if why := why_no_labels(labels):
        raise ValueError(f"{reader}: {why}")
    return as_labels(labels)


def check_classes(labels: Tensor, classes: int, reader: str, network: str = "the parents", instead: str = "") -> None:
    """Refuse labels that are no class of the networks.

    Args:
        labels: (n,) int64.
        reader: who needs them, to start the message.
        network: whose classes they should be.
        instead: another way out, such as ", or none".
    Raises:
        ValueError: says what to pass.
    """
    if not len(labels) or 0 <= int(labels.min()) <= int(labels.max()) < classes:
        return
    low, high = int(labels.min()), int(labels.max())
    unlabelled = " Leave out samples without a label, which negative numbers usually mark." if low < 0 else ""
    raise ValueError(
        f"{reader}: the labels run from {low} to {high}, and {network} {'have' if network.endswith('s') else 'has'} {classes} "
        f"classes. Pass labels from 0 to {classes - 1}{instead}.{unlabelled}"
    )


def why_no_labels(labels: Tensor) -> str | None:
    """Why these are not labels (one integer per sample) and what to pass; None if they are."""
    dtype, shape = labels.dtype, tuple(labels.shape)
    if labels.ndim == 1 and not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool):
        return None
    return (
        f"labels of shape {shape}, {dtype}, are not one whole number for each sample. Pass labels.long(); of a column "
        "labels[:, 0]; of one-hot rows labels.argmax(1); omit what is not the class of a sample."
    )


def as_labels(labels: object) -> Tensor:
    """Convert integers of any type to int64, on their device; other types stay, to be refused where labels are needed."""
    tensor = torch.as_tensor(labels)
    whole = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool)
    return tensor.to(torch.int64) if whole else tensor
