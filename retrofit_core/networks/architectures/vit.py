"""The paper's vision transformer for small images (Luenam et al. 2026; after omihub777/ViT-CIFAR).

Unlike the usual ViT, it divides attention scores by the square root of the hidden width (not of a head's), ends each
MLP with a second GELU, and initialises class token and positions with standard deviation 1.
"""

from collections.abc import Mapping
from math import isqrt, sqrt
from typing import Any

import torch
from torch import Tensor, nn

from .base import Architecture, enlarging, recorded, side_of

HEAD_WIDTH = 32  # 384 / 12
# The paper's table gives the MLP 1536 neurons on CIFAR-100 and 384 on Tiny-ImageNet. The authors' earlier code and
# ViT-CIFAR, whose accuracies it repeats, have these swapped; so do our names without a width.
CIFAR = {"patch": 4, "resize": 32}  # 8 x 8 patches
TINY_IMAGENET = {"patch": 8, "resize": 64}
SIZES: dict[str, dict[str, Any]] = {
    "vit": {**CIFAR, "mlp_width": 384},
    "vit-mlp1536": {**CIFAR, "mlp_width": 1536},
    "vit-tiny-imagenet": {**TINY_IMAGENET, "mlp_width": 1536},
    "vit-tiny-imagenet-mlp384": {**TINY_IMAGENET, "mlp_width": 384},
    # Ours, for digits on a laptop: 4 x 4 patches.
    "vit-small": {"patch": 4, "resize": 16, "hidden": 96, "depth": 3, "heads": 3, "mlp_width": 192},
}


class Attention(nn.Module):
    """Multi-head self-attention over tokens (n, t, hidden), with separate layers for queries, keys, values."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.split, self.root = (heads, hidden // heads), sqrt(hidden)
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        # (n, t, hidden) -> (n, heads, t, hidden / heads)
        q, k, v = (layer(x).unflatten(2, self.split).transpose(1, 2) for layer in (self.q, self.k, self.v))
        weights = (q @ k.transpose(2, 3) / self.root).softmax(-1)  # (n, heads, t, t), rows sum to 1
        mixed = (weights @ v).transpose(1, 2).flatten(2)  # (n, t, hidden)
        return self.dropout(self.o(mixed))


class EncoderBlock(nn.Module):
    """Attention, then an MLP per token, each with a LayerNorm before and a skip around it: (n, t, hidden)."""

    def __init__(self, hidden: int, heads: int, mlp_width: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(hidden), Attention(hidden, heads, dropout)
        self.norm2 = nn.LayerNorm(hidden)
        self.mlp = nn.Sequential(
            nn.Linear(hidden, mlp_width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(mlp_width, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(self.norm1(x)) + x
        return self.mlp(self.norm2(x)) + x


class FirstToken(nn.Module):
    """Tokens (n, t, hidden) -> the class token (n, hidden); a module, so that a level can end after it."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


class ViT(Architecture):
    """Patches embedded linearly, class token, learned positions, encoder blocks, LayerNorm and Linear.

    Args:
        patch: height and width of a patch; images are enlarged to a multiple of it.
        hidden: width of the tokens, a multiple of `heads`.
        depth: number of encoder blocks.
        size: height and width of the images.
        resize: enlarge smaller images to this size.
        dropout: after the attention's and each of the MLP's linear layers.
    """

    def __init__(
        self,
        patch: int = 4,
        hidden: int = 384,
        depth: int = 7,
        heads: int = 12,
        mlp_width: int = 384,
        classes: int = 10,
        channels: int = 3,
        size: int = 32,
        resize: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if hidden % heads:
            raise ValueError(f"vit needs a hidden width that is a multiple of its heads. Found {hidden} and {heads}.")
        side = side_of(size, resize, multiple=patch)
        self.spec = {
            "architecture": "vit",
            "patch": patch,
            "hidden": hidden,
            "depth": depth,
            "heads": heads,
            "mlp_width": mlp_width,
            "classes": classes,
            "channels": channels,
            **recorded(size, side),
            "dropout": dropout,
        }
        self.resize = enlarging(size, side)
        self.grid = (side // patch, patch)
        self.embedding = nn.Linear(patch * patch * channels, hidden)
        self.cls = nn.Parameter(torch.randn(1, 1, hidden))
        self.positions = nn.Parameter(torch.randn(1, 1 + self.grid[0] ** 2, hidden))
        self.blocks = nn.Sequential(*(EncoderBlock(hidden, heads, mlp_width, dropout) for _ in range(depth)))
        self.first = FirstToken()
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.resize(images)  # (n, channels, side, side)
        x = x.unflatten(3, self.grid).unflatten(2, self.grid)  # (n, channels, rows, patch, columns, patch)
        x = x.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)  # (n, rows * columns, patch * patch * channels)
        x = self.embedding(x)  # (n, rows * columns, hidden)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.positions  # (n, t, hidden)
        x = self.first(self.blocks(x))  # (n, hidden)
        return self.head(self.norm(x))  # (n, classes)


def recognise(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any] | None:
    """The spec of a ViT's tensors, else None.

    The tensors do not show the number of heads: 32 neurons each, as in the paper. Images are RGB or grey.
    """
    embedding, positions = shapes.get("embedding.weight", ()), shapes.get("positions", ())
    head, mlp = shapes.get("head.weight", ()), shapes.get("blocks.0.mlp.0.weight", ())
    if (len(embedding), len(positions), len(head), len(mlp)) != (2, 3, 2, 2) or embedding[0] % HEAD_WIDTH:
        return None
    # At most one fits: 3 is not the square of a fraction.
    channels = next((c for c in (3, 1) if c * isqrt(embedding[1] // c) ** 2 == embedding[1]), None)
    rows = isqrt(positions[1] - 1) if positions[1] > 1 else 0
    if channels is None or rows**2 + 1 != positions[1]:
        return None
    patch = isqrt(embedding[1] // channels)
    return {
        "architecture": "vit",
        "patch": patch,
        "hidden": embedding[0],
        "depth": sum(name.endswith(".attention.q.weight") for name in shapes),
        "heads": embedding[0] // HEAD_WIDTH,
        "mlp_width": mlp[0],
        "classes": head[0],
        "channels": channels,
        "size": rows * patch,
        "dropout": 0.0,
    }
