"""Moments of a 3 x 3 convolution without unfolding its inputs: neighbouring patches share their pixels.

x'x consists of 81 blocks (C x C), one for each pair of kernel offsets a, b. A block is the sum over positions y of
pixel(y + a) pixel(y + b)' and depends on a and b only through the lag b - a, but for patches at the border. Of the 45
blocks on and above the diagonal 13 are different; the border costs 12 thin products more.

Legend: B samples, C channels, a = (down, right) offsets in -1..1, pixels outside the image are zero.
"""

from itertools import product

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from .moments import Moments

Offset = tuple[int, int]
OFFSETS: list[Offset] = list(product((-1, 0, 1), repeat=2))  # type: ignore[arg-type]
#: One of each pair of opposite lags.
LAGS: list[Offset] = [lag for lag in product(range(-2, 3), repeat=2) if lag >= (0, 0)]  # type: ignore[misc]
EDGES: list[Offset] = [(-1, 0), (1, 0), (0, -1), (0, 1)]
#: With fewer channels the 13 products are too small to be fast.
MIN_CHANNELS = 96


def applies(layer: nn.Module | None) -> bool:
    """Whether `layer` is a 3 x 3 convolution of stride 1 with one row of zeros around its input."""
    return (
        isinstance(layer, nn.Conv2d)
        and (layer.kernel_size, layer.stride, layer.dilation) == ((3, 3), (1, 1), (1, 1))
        and layer.padding in ((1, 1), "same")
        and layer.padding_mode == "zeros"
        and layer.groups == 1
        and layer.in_channels >= MIN_CHANNELS
    )


class LagSums:
    """Sums over samples from which xx and xz follow, in float64 whatever the products' precision."""

    def __init__(self, channels: int, m: int, device: torch.device) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.float64, device=device)

        self.channels = channels
        self.whole = {lag: zeros(channels, channels) for lag in LAGS}
        # (edge, lag): pixels on that edge of the image and their partners, also on it
        self.edge = {(edge, lag): zeros(channels, channels) for edge in EDGES for lag in LAGS if _along(edge, lag)}
        self.corner = {(down, right): zeros(channels, channels) for down in (-1, 1) for right in (-1, 1)}
        self.outputs = {offset: zeros(channels, m) for offset in OFFSETS}
        self.pixels = {offset: zeros(channels) for offset in OFFSETS}

    def add(self, h: Tensor, z: Tensor) -> None:
        """Add a batch: the convolution's inputs h (B, C, H, W), the parents' output rows z (B H W, m) in the precision
        of the products."""
        image = h.permute(0, 2, 3, 1).to(z.dtype).contiguous()  # (B, H, W, C)
        padded = pad(image, (0, 0, 2, 2, 2, 2))
        height, width = image.shape[1:3]
        for shift in {*LAGS, *OFFSETS}:
            down, right = 2 + shift[0], 2 + shift[1]
            partner = padded[:, down : down + height, right : right + width].contiguous()
            if shift in self.outputs:
                self.outputs[shift] += _product(partner, z)
                self.pixels[shift] += partner.sum((0, 1, 2), dtype=torch.float64)
            if shift in self.whole:
                self.whole[shift] += _product(image, partner)
            for edge in EDGES:
                if (edge, shift) in self.edge:
                    self.edge[edge, shift] += _product(_on(image, edge), _on(partner, edge))
        for down, right in self.corner:
            pixel = _on(_on(image, (down, 0)), (0, right))
            self.corner[down, right] += _product(pixel, pixel)

    def write(self, sums: Moments) -> None:
        """Set xx and xz of sums that hold everything else; columns are channel-major, as `weight.flatten(1)`."""
        assert sums.xx is not None and sums.xz is not None
        channels, p = self.channels, 9 * self.channels
        xx = sums.xx[:p, :p].unflatten(0, (channels, 9)).unflatten(2, (channels, 9))
        xz = sums.xz[:p].unflatten(0, (channels, 9))
        for i, a in enumerate(OFFSETS):
            xz[:, i] = self.outputs[a]
            for j, b in enumerate(OFFSETS):
                xx[:, i, :, j] = self._block(a, b)
        if sums.bias:
            pixels = torch.stack([self.pixels[a] for a in OFFSETS], 1).flatten()
            sums.xx[p, :p] = sums.xx[:p, p] = pixels
            sums.xx[p, p] = sums.rows
            sums.xz[p] = sums.sz

    def _block(self, a: Offset, b: Offset) -> Tensor:
        """(C, C): sum over positions y of pixel(y + a) pixel(y + b)'.

        From all pixels with a partner at the lag, those are taken away whose position y lies outside the image; both
        pixels are inside it only if both offsets point across the same edge.
        """
        lag = (b[0] - a[0], b[1] - a[1])
        if lag not in self.whole:
            return self._block(b, a).T
        down = (-a[0], 0) if a[0] == b[0] != 0 else None
        right = (0, -a[1]) if a[1] == b[1] != 0 else None
        found = self.whole[lag]
        for edge in (down, right):
            found = found if edge is None else found - self.edge[edge, lag]
        return found + self.corner[down[0], right[1]] if down and right else found  # it was taken away twice


def _along(edge: Offset, lag: Offset) -> bool:
    """Whether the lag runs along the edge, so that both pixels can lie on it."""
    return edge[0] * lag[0] == 0 and edge[1] * lag[1] == 0


def _on(image: Tensor, edge: Offset) -> Tensor:
    """The pixels on an edge: the first row for (-1, 0), the last column for (0, 1)."""
    axis = 1 if edge[0] else 2
    return image.narrow(axis, 0 if sum(edge) < 0 else image.shape[axis] - 1, 1)


def _product(left: Tensor, right: Tensor) -> Tensor:
    return (left.reshape(-1, left.shape[-1]).T @ right.reshape(-1, right.shape[-1])).double()
