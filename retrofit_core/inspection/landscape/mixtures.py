"""Loss and accuracy of mixtures of networks at many points of weight space, with images decoded and normalised once."""

from collections.abc import Mapping
from contextlib import nullcontext
from functools import reduce

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy, pad

from ...networks.norm_statistics import has_statistics
from ...system import device as devices
from ...system.duplicates import duplicate
from ...system.monitor import Monitor
from ..settings import Norms
from .plane import flat, parameters, statistics, views

#: Most bytes of a layer's outputs per pass: what CPU caches hold, and what keeps a GPU busy.
PASS_BYTES = {"cpu": 8 * 2**20, "cuda": 256 * 2**20}
#: A pass may be this much larger in reduced precision: numbers take half, and weights are rounded once per pass.
REDUCED = 8


class Mixtures:
    """Networks of one architecture, and the loss and accuracy of their mixtures on some images.

    A mixture has the weights sum_i a_i W_i; the shares a_i sum to one. Mixtures run one by one, with images in parts that fit
    into CPU caches.
    """

    def __init__(
        self,
        networks: Mapping[str, nn.Module],
        inputs: Tensor,
        labels: Tensor,
        *,
        norms: Norms = "estimated",
        device: torch.device | None = None,
    ) -> None:
        """Copy the networks' weights, without changing them.

        Args:
            networks: name -> network, alike (`weights.check_alike`).
            inputs: (n, ...) normalised.
            labels: (n,) int64.
            norms: BatchNorm statistics: "estimated" exactly at each point over the images, or "interpolated" like the
                weights.
        """
        self.names = tuple(networks)
        self.device = device or torch.device("cpu")
        models = list(networks.values())
        self._parameters, self._statistics = parameters(models[0]), statistics(models[0])
        self.weights = torch.stack([flat(parameters(model)) for model in models]).to(self.device)  # (k, D)
        self.inputs = inputs.to(self.device, self.weights.dtype)
        self.labels = labels.to(self.device)
        self.has_statistics = any(has_statistics(model) for model in models)
        self.norms = norms
        self._buffers = self.weights[:, :0]
        if self._statistics:
            self._buffers = torch.stack([flat(statistics(model)) for model in models]).to(self.weights)
        with torch.inference_mode(False):
            self._template = with_sliced_pools(models[0]).to(self.device).eval()
            self._network = with_batch_statistics(self._template) if self._is_estimated else self._template
        self._bytes = _largest_output(self._template, self.inputs[:1])
        self.is_large = self._bytes * len(self.inputs) > PASS_BYTES[self.device.type] // 2
        """Whether products take most of the time of a pass"""

    @property
    def _is_estimated(self) -> bool:
        return self.has_statistics and self.norms == "estimated"

    def images_at_once(self, precision: torch.dtype | None = None) -> int:
        """Images per pass: all if statistics are estimated over them."""
        if self._is_estimated:
            return len(self.inputs)
        limit = PASS_BYTES[self.device.type] * (REDUCED if precision == torch.bfloat16 else 1)
        return max(1, min(len(self.inputs), limit // max(1, self._bytes)))

    @devices.exact()
    @torch.inference_mode()
    def measure(self, shares: Tensor, precision: torch.dtype | None = None, monitor: Monitor | None = None) -> Tensor:
        """(P, 2) float64 on the CPU: mean cross entropy and accuracy (%) of mixtures (P, k).

        Args:
            precision: of products, torch.bfloat16 or None for the weights'.
        Raises:
            Cancelled: on the monitor's request, between two passes.
        """
        measured = []
        for share in shares:
            (monitor or Monitor()).check()
            measured.append(_loss_and_accuracy(self._logits(share, self.inputs, precision), self.labels))
        return torch.stack(measured)

    @devices.exact()
    @torch.inference_mode()
    def measure_network(self, index: int) -> Tensor:
        """(2,) float64: mean cross entropy and accuracy (%) of a network with its own BatchNorm statistics."""
        tensors = views(self.weights[index], self._parameters) | views(self._buffers[index], self._statistics)
        parts = [
            functional_call(self._template, tensors, (x.clone(),)) for x in self.inputs.split(self.images_at_once())
        ]
        return _loss_and_accuracy(torch.cat(parts), self.labels)

    def _logits(self, share: Tensor, inputs: Tensor, precision: torch.dtype | None) -> Tensor:
        """(n, classes) outputs of a mixture (k,)."""
        # Skip trailing networks without shares: those of the plane come first.
        used = int(share.nonzero().max()) + 1
        mixed = share[:used].to(self.weights)
        tensors = views(mixed @ self.weights[:used], self._parameters)
        if not self._is_estimated:
            for name, tensor in views(mixed @ self._buffers[:used], self._statistics).items():
                # Extrapolated variances may be negative.
                tensors[name] = tensor.clamp_min(0) if name.endswith("running_var") else tensor
        reduced = precision == torch.bfloat16
        if reduced and inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)  # faster in bfloat16
        with torch.autocast(self.device.type, torch.bfloat16) if reduced else nullcontext():
            parts = inputs.split(self.images_at_once(precision))
            return torch.cat([functional_call(self._network, tensors, (x.clone(),)) for x in parts])


def with_batch_statistics(model: nn.Module) -> nn.Module:
    """A copy whose BatchNorms normalise by the batch's mean and (population) variance."""
    with torch.inference_mode(False):
        twin = with_sliced_pools(model)
        for module in twin.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.track_running_stats = False
                module.running_mean = module.running_var = module.num_batches_tracked = None
    return twin


def _loss_and_accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """(2,) from outputs (n, classes)."""
    accuracy = 100 * (logits.argmax(1) == labels).double().mean()
    return torch.stack([cross_entropy(logits.double(), labels), accuracy]).cpu()


@torch.inference_mode()
def _largest_output(model: nn.Module, x: Tensor) -> int:
    """Bytes of the largest module output for one image, or of the image."""
    largest = x.numel() * x.element_size()

    def note(module: nn.Module, arguments: object, output: object) -> None:
        nonlocal largest
        if isinstance(output, Tensor):
            largest = max(largest, output.numel() * output.element_size())

    hooks = [module.register_forward_hook(note) for module in model.modules()]
    try:
        model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return largest


# --- max pooling as a maximum of slices: the same values, and up to ten times as fast on a CPU ---------------------------
# PyTorch's own kernel also records the index of each maximum, which takes most of its time for channels-first layouts.


class SlicedMaxPool(nn.Module):
    """nn.MaxPool2d without dilation, indices or ceil mode."""

    def __init__(self, pool: nn.MaxPool2d) -> None:
        super().__init__()
        self.window, self.stride, self.padding = (_pair(size) for size in (pool.kernel_size, pool.stride, pool.padding))

    def forward(self, x: Tensor) -> Tensor:
        """(..., H, W) -> (..., H', W')"""
        if any(self.padding):
            rows, columns = self.padding
            x = pad(x, (columns, columns, rows, rows), value=float("-inf"))
        for axis, window, stride in zip((-2, -1), self.window, self.stride, strict=True):
            last = x.shape[axis] - window
            slices = (x.narrow(axis, first, last + 1) for first in range(window))
            strided = [part[..., ::stride, :] if axis == -2 else part[..., ::stride] for part in slices]
            x = reduce(torch.maximum, strided)
        return x


def with_sliced_pools(model: nn.Module) -> nn.Module:
    """A copy of a network with max pools replaced where possible."""
    twin = duplicate(model)
    for name, module in list(twin.named_modules()):
        if type(module) is nn.MaxPool2d and name and _is_plain(module):
            parent, _, child = name.rpartition(".")
            setattr(twin.get_submodule(parent), child, SlicedMaxPool(module))
    return twin


def _is_plain(pool: nn.MaxPool2d) -> bool:
    return _pair(pool.dilation) == (1, 1) and not pool.return_indices and not pool.ceil_mode


def _pair(size: int | tuple[int, ...]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])
