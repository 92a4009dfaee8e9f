"""Labels: int64 wherever they come in, because torch takes uint8 for a mask and refuses other types."""

from typing import Any

import torch
from torch import Tensor


def as_labels(labels: Any) -> Tensor:
    """Whole numbers of any type as int64, on their device; anything else as it is, to be refused where labels are needed."""
    tensor = torch.as_tensor(labels)
    whole = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool)
    return tensor.to(torch.int64) if whole else tensor
