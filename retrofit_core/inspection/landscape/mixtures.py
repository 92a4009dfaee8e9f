"""Loss and accuracy of mixtures of networks at many points of weight space, with images decoded and normalised once."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from ...networks.norm_statistics import has_statistics
from ...system import device as devices
from ...system.duplicates import duplicate
from ...system.monitor import Monitor
from .plane import flat, parameters, statistics, views

#: Most bytes of a layer's outputs per pass: what CPU caches hold, and what keeps a GPU busy.
PASS_BYTES = {"cpu": 8 * 2**20, "cuda": 256 * 2**20}


class Mixtures:
    """Networks of one architecture, and the loss and accuracy of their mixtures on some images.

    A mixture has the weights sum_i a_i W_i; the shares a_i sum to one. Its BatchNorms normalise by statistics of all images at
    that point. Mixtures run one by one, with images in parts that fit into CPU caches.
    """

    def __init__(
        self,
        networks: Mapping[str, nn.Module],
        inputs: Tensor,
        labels: Tensor,
        *,
        device: torch.device | None = None,
    ) -> None:
        """Copy the networks' weights, without changing them.

        Args:
            networks: name -> network, alike (`weights.check_alike`).
            inputs: (n, ...) normalised.
            labels: (n,) int64.
        """
        self.names = tuple(networks)
        self.device = device or torch.device("cpu")
        models = list(networks.values())
        self._parameters, self._statistics = parameters(models[0]), statistics(models[0])
        self.weights = torch.stack([flat(parameters(model)) for model in models]).to(self.device)  # (k, D)
        self.inputs = inputs.to(self.device, self.weights.dtype)
        self.labels = labels.to(self.device)
        self.has_statistics = any(has_statistics(model) for model in models)
        self._buffers = self.weights[:, :0]
        if self._statistics:
            self._buffers = torch.stack([flat(statistics(model)) for model in models]).to(self.weights)
        with torch.inference_mode(False):
            self._template = duplicate(models[0]).to(self.device).eval()
            self._network = with_batch_statistics(self._template) if self.has_statistics else self._template
        fitting = PASS_BYTES[self.device.type] // max(1, _largest_output(self._template, self.inputs[:1]))
        self.images_at_once = max(1, min(len(self.inputs), fitting))

    @devices.exact()
    @torch.inference_mode()
    def measure(self, shares: Tensor, monitor: Monitor | None = None) -> Tensor:
        """(P, 2) float64 on the CPU: mean cross entropy and accuracy (%) of mixtures (P, k).

        Raises:
            Cancelled: on the monitor's request, between two passes.
        """
        measured = []
        for share in shares:
            (monitor or Monitor()).check()
            measured.append(_loss_and_accuracy(self._logits(share), self.labels))
        return torch.stack(measured)

    @devices.exact()
    @torch.inference_mode()
    def measure_network(self, index: int) -> Tensor:
        """(2,) float64: mean cross entropy and accuracy (%) of a network with its own BatchNorm statistics."""
        tensors = views(self.weights[index], self._parameters) | views(self._buffers[index], self._statistics)
        parts = [functional_call(self._template, tensors, (x.clone(),)) for x in self.inputs.split(self.images_at_once)]
        return _loss_and_accuracy(torch.cat(parts), self.labels)

    def _logits(self, share: Tensor) -> Tensor:
        """(n, classes) outputs of a mixture (k,)."""
        # Skip trailing networks without shares: those of the plane come first.
        used = int(share.nonzero().max()) + 1
        mixed = share[:used].to(self.weights)
        tensors = views(mixed @ self.weights[:used], self._parameters)
        if self.has_statistics:  # of all images
            return functional_call(self._network, tensors, (self.inputs.clone(),))
        tensors |= views(mixed @ self._buffers[:used], self._statistics)
        parts = self.inputs.split(self.images_at_once)
        return torch.cat([functional_call(self._network, tensors, (x.clone(),)) for x in parts])


def with_batch_statistics(model: nn.Module) -> nn.Module:
    """A copy whose BatchNorms normalise by the batch's mean and (population) variance."""
    with torch.inference_mode(False):
        twin = duplicate(model)
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
