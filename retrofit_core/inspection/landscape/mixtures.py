"""Loss and accuracy of mixtures of networks at many points of weight space, with images decoded and normalised once."""

import time
from collections.abc import Mapping
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import cross_entropy

from ...networks.levels.kinds import BatchNorm
from ...networks.norm_statistics import has_statistics
from ...system import device as devices
from ...system.monitor import Monitor
from ..settings import Norms
from .pooling import with_sliced_pools
from .weights import flat, parameters, statistics, views

#: Most bytes of a layer's outputs per pass: what CPU caches hold, and what keeps a GPU busy.
PASS_BYTES = {"cpu": 8 * 2**20, "cuda": 256 * 2**20}
#: Most points per pass, and bytes of their weights.
MOST_POINTS, STACK_BYTES = 16, 64 * 2**20
#: A pass may be this much larger in reduced precision: numbers take half, and weights are rounded once per pass.
REDUCED = 8


class Mixtures:
    """Networks of one architecture, and the loss and accuracy of their mixtures on some images.

    A mixture has the weights sum_i a_i W_i; the shares a_i sum to one. If layers are so small that a pass over all images
    fits into CPU caches, many points run at once with stacked weights (torch.func.vmap); larger networks run point by
    point, with images in parts that fit. Measured on two cores, stacked weights take half the time of a plain loop for
    digits networks, and up to twice its time for a VGG11 or a ViT: grouped convolutions and batched products are slower
    than large ones.
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
        self.points_at_once = self._points_at_once()
        """Points of weight space per pass; 1: point by point"""

    @property
    def _is_estimated(self) -> bool:
        return self.has_statistics and self.norms == "estimated"

    def _points_at_once(self) -> int:
        limit = PASS_BYTES[self.device.type]
        by_outputs = limit // max(1, self._bytes * len(self.inputs))
        by_weights = STACK_BYTES // self.weights[0].nbytes
        count = max(1, min(MOST_POINTS, by_outputs, by_weights))
        return count if count > 1 and self._can_be_stacked() else 1

    @torch.inference_mode()
    def _can_be_stacked(self) -> bool:
        """Whether torch.func supports all of the network's operations, which foreign networks may violate."""
        shares = torch.zeros(2, len(self.names), dtype=torch.float64)
        shares[:, 0] = 1
        try:
            self._stacked(self._tensors(shares), self.inputs[:2])
        except (RuntimeError, ValueError):
            return False
        return True

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
        parts = []
        for part in shares.split(self.points_at_once):
            (monitor or Monitor()).check()
            parts.append(_loss_and_accuracy(self._logits(part, self.inputs, precision), self.labels))
        return torch.cat(parts)

    @devices.exact()
    @torch.inference_mode()
    def measure_network(self, index: int) -> Tensor:
        """(2,) float64: mean cross entropy and accuracy (%) of a network with its own BatchNorm statistics."""
        tensors = views(self.weights[index], self._parameters) | views(self._buffers[index], self._statistics)
        parts = [functional_call(self._template, tensors, (x,)) for x in self.inputs.split(self.images_at_once())]
        return _loss_and_accuracy(torch.cat(parts)[None], self.labels)[0]

    @devices.exact()
    @torch.inference_mode()
    def seconds(self, precision: torch.dtype | None = None) -> float:
        """Predicted time of one point, from the second of two passes over some of the images."""
        count, images = self.points_at_once, self.images_at_once(precision)
        images = min(images, 32) if self._is_estimated and count == 1 else images
        shares = torch.zeros(count, len(self.names), dtype=torch.float64)
        shares[:, 0] = 1
        taken = 0.0
        for _ in range(2):
            devices.synchronise(self.device)
            start = time.perf_counter()
            self._logits(shares, self.inputs[:images], precision)
            devices.synchronise(self.device)
            taken = time.perf_counter() - start
        return taken * len(self.inputs) / images / count

    def _logits(self, shares: Tensor, inputs: Tensor, precision: torch.dtype | None) -> Tensor:
        """(P, n, classes)"""
        tensors = self._tensors(shares)
        reduced = precision == torch.bfloat16
        with torch.autocast(self.device.type, torch.bfloat16) if reduced else nullcontext():
            if self.points_at_once > 1:
                return self._stacked(tensors, inputs)
            formatted = inputs
            if reduced and inputs.dim() == 4:
                formatted = inputs.contiguous(memory_format=torch.channels_last)  # faster in bfloat16
            single = [{name: tensor[index] for name, tensor in tensors.items()} for index in range(len(shares))]
            parts = formatted.split(self.images_at_once(precision))
            return torch.stack(
                [torch.cat([functional_call(self._network, each, (x,)) for x in parts]) for each in single]
            )

    def _tensors(self, shares: Tensor) -> dict[str, Tensor]:
        """The stacked tensors (P, ...) of mixtures (P, k)."""
        # Skip trailing networks without shares: those of the plane come first.
        used = int(shares.abs().sum(0).nonzero().max()) + 1
        mixed = shares[:, :used].to(self.weights)
        tensors = views(mixed @ self.weights[:used], self._parameters)
        if self._is_estimated:
            return tensors
        for name, tensor in views(mixed @ self._buffers[:used], self._statistics).items():
            # Extrapolated variances may be negative.
            tensors[name] = tensor.clamp_min(0) if name.endswith("running_var") else tensor
        return tensors

    def _stacked(self, tensors: dict[str, Tensor], inputs: Tensor) -> Tensor:
        return vmap(lambda each: functional_call(self._network, each, (inputs,)))(tensors)


def with_batch_statistics(model: nn.Module) -> nn.Module:
    """A copy whose BatchNorms normalise by the batch's mean and (population) variance."""
    with torch.inference_mode(False):
        twin = with_sliced_pools(model)
        for module in twin.modules():
            if isinstance(module, BatchNorm):
                module.track_running_stats = False
                module.running_mean = module.running_var = module.num_batches_tracked = None
    return twin


def _loss_and_accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """(P, 2) from outputs (P, n, classes)."""
    losses = torch.stack([cross_entropy(each.double(), labels) for each in logits])
    accuracies = 100 * (logits.argmax(2) == labels).double().mean(1)
    return torch.stack([losses, accuracies], 1).cpu()


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
