"""Moments of a 3 x 3 convolution without unfolding its inputs, because neighbouring patches share pixels.

x'x consists of 81 blocks (C x C), one for each pair of kernel offsets a, b. A block is the sum over positions y of
pixel(y + a) pixel(y + b)'. With u = y + a, it is a sum over pixels u and their partners u + lag, lag = b - a, so it depends
on a and b only through the lag, except at borders: y = u - a must be in the image, which excludes the first row for offsets
that point down, the last row for those that point up, and columns likewise. So the image is split into bands (first, middle,
last); each lag sums each band separately, and a block adds its bands.

Nothing is subtracted. Each entry of x'x is a sum of the same products as in the unfolded form, with the same error bound,
eps times a small factor times |x_i| |x_j|, on maps of any size; diagonals are sums of squares.

Legend: B samples, C channels, a = (down, right) offsets in -1..1, pixels outside the image are zero.
"""

from itertools import product

import torch
from torch import Tensor

from .sums import Moments, MomentSums

Offset = tuple[int, int]
Band = tuple[int, ...]
OFFSETS: list[Offset] = list(product((-1, 0, 1), repeat=2))  # type: ignore[arg-type]
#: One of each pair of opposite lags.
LAGS: list[Offset] = [lag for lag in product(range(-2, 3), repeat=2) if lag >= (0, 0)]  # type: ignore[misc]
#: With fewer channels, the 13 products are too small to be fast.
MIN_CHANNELS = 64


class LagSums:
    """Sums over samples for the moments of a convolution, in float64 for products of any precision.

    Args:
        channels: C of the convolution's input.
        m: number of columns of the outputs z.
        bias: whether x has a column of ones.
    """

    def __init__(self, channels: int, m: int, *, bias: bool, device: torch.device | None = None) -> None:
        self.channels, self.bias = channels, bias
        self.outputs = MomentSums(m, device=device)
        #: (lag, band of rows, band of columns) -> (C, C) sum over the pixels of both bands and their partners.
        self.pairs: dict[tuple[Offset, Band, Band], Tensor] = {}
        self.products = {a: self.outputs.zz.new_zeros(channels, m) for a in OFFSETS}
        self.pixels = {a: self.outputs.zz.new_zeros(channels) for a in OFFSETS}

    def add(self, z: Tensor, h: Tensor) -> None:
        """Add a batch: the parents' output rows z (B H W, m), in the products' precision, and the convolution's inputs h
        (B, C, H, W)."""
        self.outputs.add(z)
        B, C, height, width = h.shape
        # With samples inside, neighbouring pixels of an image row are a matrix without a copy.
        image = h.permute(2, 3, 0, 1).to(z.dtype).contiguous()  # (H, W, B, C)
        outputs = z.reshape(B, height, width, -1).permute(1, 2, 0, 3).contiguous()  # (H, W, B, m)
        for lag in LAGS:
            for (down, rows), (right, columns) in product(_bands(height, lag[0]), _bands(width, lag[1])):
                if (lag, down, right) not in self.pairs:
                    self.pairs[lag, down, right] = self.outputs.zz.new_zeros(C, C)
                _add_products(self.pairs[lag, down, right], image, image, rows, columns, lag)
        sums = image.sum(2, dtype=torch.float64)  # (H, W, C)
        for a in OFFSETS:  # pixel u is read at offset a by position u - a
            rows, columns = _overlap(height, -a[0]), _overlap(width, -a[1])
            _add_products(self.products[a], image, outputs, rows, columns, (-a[0], -a[1]))
            self.pixels[a] += sums[rows, columns].sum((0, 1))

    def finish(self) -> Moments:
        """The moments, with channel-major columns like `weight.flatten(1)`. Nothing can be added afterwards."""
        sums = self.outputs.finish()
        p = 9 * self.channels
        xx = sums.zz.new_empty(p + self.bias, p + self.bias)
        xz = sums.zz.new_empty(p + self.bias, len(sums.zz))
        blocks = xx[:p, :p].unflatten(0, (self.channels, 9)).unflatten(2, (self.channels, 9))
        for i, a in enumerate(OFFSETS):
            xz[:p].unflatten(0, (self.channels, 9))[:, i] = self.products[a]
            # Write nine blocks at once: one at a time would touch the same memory nine times.
            blocks[:, i] = torch.stack([self._block(a, b) for b in OFFSETS]).permute(1, 2, 0)
        if self.bias:
            xx[p, :p] = xx[:p, p] = torch.stack([self.pixels[a] for a in OFFSETS], 1).flatten()
            xx[p, p] = sums.rows
            xz[p] = sums.sz
        return Moments(sums.zz, sums.sz, xx, xz, sums.rows, self.bias, sums.rounding)

    def _block(self, a: Offset, b: Offset) -> Tensor:
        """(C, C) sum over positions y of pixel(y + a) pixel(y + b)', from the bands that offset a reads."""
        if b < a:
            return self._block(b, a).T
        lag = (b[0] - a[0], b[1] - a[1])
        bands = [
            pairs
            for (other, down, right), pairs in self.pairs.items()
            if other == lag and a[0] in down and a[1] in right
        ]
        return sum(bands, self.outputs.zz.new_zeros(self.channels, self.channels))


def _bands(size: int, lag: int) -> list[tuple[Band, slice]]:
    """The rows (or columns) with a partner at a lag, split into bands, each with the offsets that read it.

    At lag 0, position u - a is outside the image for the first row at a = 1 and for the last row at a = -1. At other lags, the
    partner is outside as well, so a single band suffices.
    """
    if lag:
        bands = [((-1, 0, 1), _overlap(size, lag))]
    elif size == 1:
        bands = [((0,), slice(0, 1))]
    else:
        bands = [((-1, 0), slice(0, 1)), ((-1, 0, 1), slice(1, size - 1)), ((0, 1), slice(size - 1, size))]
    return [(band, span) for band, span in bands if span.start < span.stop]


def _overlap(size: int, lag: int) -> slice:
    """The rows (or columns) u for which u + lag is in the image as well."""
    return slice(max(0, -lag), max(0, size - max(0, lag)))


def _add_products(total: Tensor, left: Tensor, right: Tensor, rows: slice, columns: slice, lag: Offset) -> None:
    """Add the sum over pixels u in rows x columns of left(u)' right(u + lag); images are (H, W, B, C)."""
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return
    partners = right[rows.start + lag[0] : rows.stop + lag[0], columns.start + lag[1] : columns.stop + lag[1]]
    pixels = left[rows, columns]
    if columns.stop - columns.start == 1:  # one long column, for which a copy is small
        total += pixels.flatten(0, 2).T @ partners.flatten(0, 2)
        return
    product_ = total if total.dtype == left.dtype else torch.zeros_like(total, dtype=left.dtype)
    for pixel_row, partner_row in zip(pixels, partners, strict=True):
        product_.addmm_(pixel_row.flatten(0, 1).T, partner_row.flatten(0, 1))
    if product_ is not total:
        total += product_
