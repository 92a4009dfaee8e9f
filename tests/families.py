"""One table of networks, for properties that hold for each: reordered twins, other spellings, every method."""

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import (
    BatchNorm1d,
    BatchNorm2d,
    Conv1d,
    Conv2d,
    Embedding,
    Flatten,
    LayerNorm,
    Linear,
    ModuleList,
    Parameter,
    PReLU,
    ReLU,
    RMSNorm,
    Sequential,
    Tanh,
)
from torch.nn import functional as F

from retrofit_core.networks.architectures import build
from tests.networks import (
    CNN_SHAPE,
    VGG_SHAPE,
    batchnorm_cnn,
    cnn,
    initialised,
    mlp,
    normal,
    residual,
    seeded,
    small_torchvision_vgg,
)

WIDTH, TOKENS, CLASSES = 8, 5, 3


class Code(nn.Module):
    """Layers, parameters and buffers by name, joined by a function of the module and its input."""

    def __init__(self, code: Callable[[Any, Any], Any], buffers: dict[str, Tensor] | None = None, **parts: Any) -> None:
        super().__init__()
        self.code = code
        for name, part in {**(buffers or {}), **parts}.items():
            if isinstance(part, Tensor) and not isinstance(part, Parameter):
                self.register_buffer(name, part.clone())
            else:
                setattr(self, name, copy.deepcopy(part))

    def forward(self, x: Tensor) -> Any:
        return self.code(self, x)


class Steps(Code):
    """A network whose code says in front of each level what is computed there: the names of its layers, what they read, the
    stream to which their outputs are added, and what is done to those first."""

    def forward(self, x: Tensor) -> Any:
        return self.stepwise(x)

    def stepwise(self, x: Tensor, before: Callable[..., None] | None = None) -> Any:
        """The outputs. `before(name, layers, inputs, stream, compute)` is called in front of each level."""
        steps = self.code(self, x)
        step = next(steps)
        while True:
            name, inputs, stream, change = (*step, None, None)[:4]
            layer = getattr(self, name)

            def compute(layer=layer, inputs=inputs, stream=stream, change=change):
                made = layer(inputs) if change is None else change(layer(inputs))
                return made if stream is None else stream + made

            if before is not None:
                before(name, layer, inputs, stream, compute)
            try:
                step = steps.send(compute())
            except StopIteration as end:
                return end.value


def encoder(causal=False, norm_first=True):
    """torch's own layers, with positions and masks."""

    def code(net, x):
        h = net.embed(x) + net.positions
        return net.head((net.encoder(h, mask=net.mask, is_causal=True) if causal else net.encoder(h)).mean(1))

    layer = nn.TransformerEncoderLayer(WIDTH, 2, 12, batch_first=True, norm_first=norm_first)
    return Code(
        code,
        {"mask": nn.Transformer.generate_square_subsequent_mask(TOKENS)},
        embed=Linear(4, WIDTH),
        positions=Parameter(torch.randn(TOKENS, WIDTH)),
        encoder=nn.TransformerEncoder(layer, 1, enable_nested_tensor=False),
        head=Linear(WIDTH, CLASSES),
    )


def masked():
    """One attention of torch that is called with a mask and gives its weights, by products of batches."""

    def code(net, x):
        h = net.embed(x)
        n = net.norm(h)
        return net.head((h + net.attention(n, n, n, attn_mask=net.mask)[0]).mean(1))

    return Code(
        code,
        {"mask": torch.ones(TOKENS, TOKENS).triu(1).bool()},
        embed=Linear(4, WIDTH),
        norm=LayerNorm(WIDTH),
        attention=nn.MultiheadAttention(WIDTH, 2, batch_first=True),
        head=Linear(WIDTH, CLASSES),
    )


def reader():
    """Two blocks of tokens that share one mask of padding, made from the tokens, for pairs."""

    def code(net, x):
        h = net.tokens(x)
        mask = (x != 0)[:, None, None, :].expand(h.shape[0], 1, h.shape[1], h.shape[1])
        for norm, qkv, out, last, first, second in zip(*net.blocks, strict=True):
            q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in qkv(norm(h)).chunk(3, 2))
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            h = h + out(mixed.transpose(1, 2).flatten(2))
            h = h + second(F.gelu(first(last(h))))
        return net.head(h[:, 0])

    blocks = ModuleList(
        ModuleList(make() for _ in range(2))
        for make in (
            lambda: LayerNorm(WIDTH),
            lambda: Linear(WIDTH, 3 * WIDTH),
            lambda: Linear(WIDTH, WIDTH),
            lambda: LayerNorm(WIDTH),
            lambda: Linear(WIDTH, 12),
            lambda: Linear(12, WIDTH),
        )
    )
    return Code(code, tokens=Embedding(7, WIDTH), blocks=blocks, head=Linear(WIDTH, CLASSES))


class Turned(nn.Module):
    """A linear layer as GPT-2 has it: its weight is transposed, and samples and tokens are flattened around the product."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.bias = Parameter(torch.randn(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(x.size()[:-1] + self.bias.shape)


def cached():
    """A block of GPT-2, whose keys and values are appended to a cache that starts from empty tensors."""

    def code(net, x):
        h = net.tokens(x) + net.positions
        q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in net.qkv(net.norm(h)).split(WIDTH, 2))
        k, v = (torch.cat([torch.empty(0, device=x.device), part], dim=-2) for part in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + net.out(mixed.transpose(1, 2).reshape(*h.shape))
        h = h + net.second(F.gelu(net.first(net.last(h))))
        return net.head(h[:, -1])

    return Code(
        code,
        tokens=Embedding(7, WIDTH),
        positions=Parameter(torch.randn(TOKENS, WIDTH)),
        norm=LayerNorm(WIDTH),
        qkv=Turned(WIDTH, 3 * WIDTH),
        out=Turned(WIDTH, WIDTH),
        last=LayerNorm(WIDTH),
        first=Turned(WIDTH, 12),
        second=Turned(12, WIDTH),
        head=Linear(WIDTH, CLASSES),
    )


def grouped_queries(way):
    """A block of Llama: four heads of queries share two heads of keys and values; rotated queries and keys; gated neurons; and
    the logits of the last token, or of each."""

    def rotated(h):
        angles = torch.arange(h.shape[2], device=h.device)[:, None] * torch.tensor([1.0, 0.3]).to(h)
        angles = torch.cat([angles, angles], 1)
        left, right = h.chunk(2, -1)
        return h * angles.cos() + torch.cat([-right, left], -1) * angles.sin()

    def code(net, x):
        h = net.tokens(x)
        n = net.norm(h)
        q, k, v = (layer(n).unflatten(2, (-1, 4)).transpose(1, 2) for layer in (net.q, net.k, net.v))
        q, k = (q, k) if "plain" in way else (rotated(q), rotated(k))
        if "repeated" in way:
            k, v = (part.repeat_interleave(2, 1) for part in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa="torch" in way)
        h = h + net.out(mixed.transpose(1, 2).flatten(2))
        n = net.last(h)
        h = h + net.down(F.silu(net.gate(n)) * net.up(n))
        return net.head(h if "each token" in way else h[:, -1])

    return Code(
        code,
        tokens=Embedding(7, WIDTH),
        norm=RMSNorm(WIDTH),
        q=Linear(WIDTH, 16, bias=False),
        k=Linear(WIDTH, 8, bias=False),
        v=Linear(WIDTH, 8, bias=False),
        out=Linear(16, WIDTH, bias=False),
        last=RMSNorm(WIDTH),
        gate=Linear(WIDTH, 12, bias=False),
        up=Linear(WIDTH, 12, bias=False),
        down=Linear(12, WIDTH, bias=False),
        head=Linear(WIDTH, CLASSES),
    )


def language_model(tied=False):
    """Tokens and positions that are looked up, a causal mask in a buffer, and the logits of the last token; or, as in GPT-2, of
    each token by a head that is the table of tokens."""

    def code(net, x):
        ids = torch.arange(x.shape[1], device=x.device) if tied else net.ids[:, : x.shape[1]]
        h = net.tokens(x) + net.positions(ids)
        q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in net.qkv(net.norm(h)).chunk(3, 2))
        maps = (q @ k.transpose(-2, -1) / math.sqrt(4)).masked_fill(net.mask == 0, -math.inf).softmax(-1)
        h = h + net.out((maps @ v).transpose(1, 2).flatten(2))
        h = h + net.second(F.gelu(net.first(net.last(h))))
        return net.head(h) if tied else net.head(h[:, -1])

    net = Code(
        code,
        {"ids": torch.arange(TOKENS)[None], "mask": torch.ones(TOKENS, TOKENS).tril()},
        tokens=Embedding(7, WIDTH),
        positions=Embedding(TOKENS, WIDTH),
        norm=LayerNorm(WIDTH),
        qkv=Linear(WIDTH, 3 * WIDTH),
        out=Linear(WIDTH, WIDTH),
        last=LayerNorm(WIDTH),
        first=Linear(WIDTH, 12),
        second=Linear(12, WIDTH),
        head=Linear(WIDTH, 7, bias=False),
    )
    if tied:
        net.head.weight = net.tokens.weight
    return net


def translator():
    """A block of an encoder and one of a decoder with one table of tokens, which is looked up by a function and is the head
    too, as in BART; the positions of the decoder are its own, and a buffer is added to the logits."""

    def attended(net, name, h, read, mask=None):
        q, k, v = (
            net.get_submodule(f"{name}_{part}")(x).unflatten(2, (2, 4)).transpose(1, 2)
            for part, x in zip("qkv", (h, read, read), strict=True)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return net.get_submodule(f"{name}_out")(mixed.transpose(1, 2).flatten(2))

    def code(net, x):
        h = F.embedding(x, net.source.weight) * 1.5
        n = net.norm(h)
        h = h + attended(net, "inner", n, n)
        h = net.between(h + net.second(net.first(h).relu()))
        y = net.target(x) + net.positions(torch.arange(x.shape[1], device=x.device))
        n = net.last(y)
        y = y + attended(net, "own", n, n, net.mask)
        y = y + attended(net, "cross", y, h)
        return net.head(y * WIDTH**-0.5) + net.shift

    names = [f"{name}_{part}" for name in ("inner", "own", "cross") for part in ("q", "k", "v", "out")]
    net = Code(
        code,
        {"mask": torch.ones(TOKENS, TOKENS).tril().bool(), "shift": torch.linspace(-1, 1, 7)[None]},
        source=Embedding(7, WIDTH),
        target=Embedding(7, WIDTH),
        positions=Embedding(TOKENS, WIDTH),
        **{name: Linear(WIDTH, WIDTH, bias=False) for name in names},
        **{name: RMSNorm(WIDTH) for name in ("norm", "between", "last")},
        first=Linear(WIDTH, 12, bias=False),
        second=Linear(12, WIDTH, bias=False),
        head=Linear(WIDTH, 7, bias=False),
    )
    net.target.weight = net.head.weight = net.source.weight
    return net


def compared():
    """Images compared with texts that are the same for all, as in CLIP: the classes are products, and no layer makes them."""

    def code(net, x):
        texts = net.tokens(net.ids)
        texts = texts + net.second(F.gelu(net.first(texts)))
        sides = net.of_texts(texts.mean(1)), net.of_images(net.stem(x).relu().mean((2, 3)))
        texts, images = (side / side.norm(dim=-1, keepdim=True) for side in sides)
        return net.scale.exp() * images @ texts.T

    return Code(
        code,
        {"ids": torch.arange(4 * TOKENS).view(4, TOKENS) ** 2 % 7},
        tokens=Embedding(7, WIDTH),
        first=Linear(WIDTH, 12),
        second=Linear(12, WIDTH),
        of_texts=Linear(WIDTH, 6, bias=False),
        stem=Conv2d(3, WIDTH, 3),
        of_images=Linear(WIDTH, 6, bias=False),
        scale=Parameter(torch.tensor(1.5)),
    )


def windows():
    """A shifted window of 2 x 2 positions, with cosines, and biases that a small network makes (SwinV2)."""

    def code(net, x):
        h = net.stem(x).permute(0, 2, 3, 1)
        B, H, W, C = h.shape
        y = net.norm(h).roll((-1, -1), (1, 2)).view(B, H // 2, 2, W // 2, 2, C)
        y = y.transpose(2, 3).reshape(-1, 4, C)
        y = F.linear(y, net.qkv.weight, torch.cat([net.q_bias, net.k_bias, net.v_bias]))
        q, k, v = y.reshape(-1, 4, 3, 2, C // 2).permute(2, 0, 3, 1, 4).unbind(0)
        logits = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * net.scale.exp()
        table = net.second(net.first(net.coordinates).relu()).view(-1, 2)
        logits = logits + table[net.index.view(-1)].view(4, 4, 2).permute(2, 0, 1)
        logits = (logits.view(B, -1, 2, 4, 4) + net.shift[None, :, None]).view(-1, 2, 4, 4)
        y = net.out((logits.softmax(-1) @ v).transpose(1, 2).reshape(-1, 4, C))
        y = y.view(B, H // 2, W // 2, 2, 2, C).transpose(2, 3).reshape(B, H, W, C).roll((1, 1), (1, 2))
        h = h + y
        return net.head((h + net.up(net.down(h).relu())).mean((1, 2)))

    shift = torch.zeros(4, 4, 4)
    shift[3, :2, 2:] = shift[3, 2:, :2] = -100.0
    line = torch.arange(2)
    y, x = (axis.flatten() for axis in torch.meshgrid(line, line, indexing="ij"))
    index = (y[:, None] - y + 1) * 3 + x[:, None] - x + 1
    coordinates = torch.stack(torch.meshgrid(torch.arange(-1.0, 2), torch.arange(-1.0, 2), indexing="ij"), -1)[None]
    return Code(
        code,
        {"index": index, "shift": shift, "coordinates": coordinates, "k_bias": torch.zeros(WIDTH)},
        stem=Conv2d(3, WIDTH, 2, stride=2),
        norm=LayerNorm(WIDTH),
        qkv=Linear(WIDTH, 3 * WIDTH, bias=False),
        out=Linear(WIDTH, WIDTH),
        down=Linear(WIDTH, 10),
        up=Linear(10, WIDTH),
        head=Linear(WIDTH, CLASSES),
        first=Linear(2, 6),
        second=Linear(6, 2, bias=False),
        scale=Parameter(torch.rand(2, 1, 1)),
        q_bias=Parameter(torch.randn(WIDTH)),
        v_bias=Parameter(torch.randn(WIDTH)),
    )


def prelu():
    """Slopes that are learned: one for each neuron, or one for all."""
    return Sequential(
        Conv2d(3, 6, 3),
        BatchNorm2d(6),
        PReLU(1),
        Conv2d(6, WIDTH, 3),
        PReLU(WIDTH),
        nn.AdaptiveAvgPool2d(1),
        Flatten(),
        Linear(WIDTH, CLASSES),
    )


def segmentation():
    """Classes for each pixel from maps at two scales, one of which is enlarged behind its classifier."""

    def enlarged(h, like):
        return F.interpolate(h, size=like.shape[-2:], mode="bilinear", align_corners=False)

    def code(net, x):
        low = net.first(x).relu()
        return enlarged(net.of_low(low) + enlarged(net.of_high(net.second(low).relu()), low), x)

    return Code(
        code,
        first=Conv2d(3, 6, 3, stride=2, padding=1),
        second=Conv2d(6, WIDTH, 3, stride=2, padding=1),
        of_low=Conv2d(6, CLASSES, 1),
        of_high=Conv2d(WIDTH, CLASSES, 1),
    )


# --- the same function, spelled in another way -----------------------------------------------------------------------------


def joined(join):
    """What `join` makes of a stem goes into the head."""
    return lambda net, x: net.head(torch.relu(join(net, torch.relu(net.stem(x)))))


def in_part(net, h):
    out = net.a(h)
    out[:, :2].mul_(0.3)
    out[:, 2:][:, 1] += h[:, 3]
    return out + h


def in_part_plain(net, h):
    out = net.a(h)
    out[:, :2] = out[:, :2] * 0.3
    out[:, 3] = out[:, 3] + h[:, 3]
    return out + h


def arithmetic(net, x):
    h = net.stem(x)
    h *= 0.5
    h /= 0.25
    h **= 2
    h -= 1.0
    return net.head(net.a(h).clamp_(min=0).add_(1.0))


def an_item(net, x):
    h = net.stem(x)
    same = h
    h[:] = h * 2
    return net.head(net.a(same.relu()).relu())


#: Name -> (code, the same function in plain words).
SPELLED = {
    "torch.add": (joined(lambda n, h: torch.add(h, n.a(h), alpha=0.3)), joined(lambda n, h: h + 0.3 * n.a(h))),
    "stack": (joined(lambda n, h: torch.stack([h, n.a(h)]).sum(0)), joined(lambda n, h: h + n.a(h))),
    "mean of a stack": (
        joined(lambda n, h: torch.stack([h, n.a(h), n.b(h)], 1).mean(1)),
        joined(lambda n, h: (h + n.a(h) + n.b(h)) / 3),
    ),
    "parts": (joined(in_part), joined(in_part_plain)),
    "behind layers": (
        lambda n, x: n.head(n.drop(n.relu(n.a(n.relu(n.stem(x)))))),
        lambda n, x: n.head(n.a(n.stem(x).relu()).relu()),
    ),
    "arithmetic": (arithmetic, lambda n, x: n.head(n.a((n.stem(x) * 2) ** 2 - 1).clamp(min=0) + 1)),
    "an item": (an_item, lambda n, x: n.head(n.a((2 * n.stem(x)).relu()).relu())),
}


def written(code):
    return Code(
        code,
        stem=Linear(6, 8),
        a=Linear(8, 8),
        b=Linear(8, 8),
        head=Linear(8, 4),
        relu=ReLU(inplace=True),
        drop=nn.Dropout(0.5, inplace=True),
    )


# --- structure among the neurons of a plain chain ----------------------------------------------------------------------------


def gate(net, x):
    left, right = net.a(x).chunk(2, 1)
    return net.c(left * right.sigmoid())


def sides(net, x):
    left, right = net.a(x).split([5, 3], 1)
    return net.c(torch.cat([right.relu(), left.tanh()], 1))


def two(inner=8):
    return {"a": Linear(6, 8), "c": Linear(inner, 3)}


def numbers(*shape):
    return normal(*shape, seed=5) + 1.5


FLAT, ROWS, MAPS = (6,), (5, 6), (2, 5, 5)
HALVES = [0] * 4 + [1] * 4
#: Name -> forward, its layers, and for each of the first level's neurons the kind to which it belongs.
STRUCTURED = {
    "gate": (gate, two(4), HALVES),
    "glu": (lambda net, x: net.c(F.glu(net.a(x), 1)), two(4), HALVES),
    "sides": (sides, two(8), [0] * 5 + [1] * 3),
    "GroupNorm": (lambda net, x: net.c(net.n(net.a(x)).relu()), two() | {"n": nn.GroupNorm(2, 8)}, HALVES),
    "softmax of parts": (lambda net, x: net.c(net.a(x).unflatten(1, (2, 4)).softmax(2).flatten(1)), two(), HALVES),
    "pairs": (lambda net, x: net.c(net.a(x).unflatten(1, (4, 2)).amax(2)), two(4), [0, 1] * 4),
    "constant": (lambda net, x: net.c((net.a(x) + torch.arange(8) / 4).relu()), two(), list(range(8))),
}
#: Name -> forward, its layers and buffers `p` and `q` with a number for each neuron, shape of an input.
BUFFERS = {
    "scale": (lambda net, x: net.c((net.a(x) * net.p).relu()), two() | {"p": numbers(1, 8)}, FLAT),
    "positions, in a block": (
        lambda net, x: net.c((h := net.a(x) + net.p).mean(1) + net.e(net.b(h).relu()).mean(1)),
        two() | {"b": Linear(8, 7), "e": Linear(7, 8), "p": numbers(1, 5, 8)},
        ROWS,
    ),
    "flattened maps": (
        lambda net, x: net.c((net.a(x).relu().flatten(1) - net.p).abs()),
        {"a": Conv2d(2, 4, 4), "c": Linear(16, 3), "p": numbers(16)},
        MAPS,
    ),
    "blur": (
        lambda net, x: net.c(F.conv2d(net.a(x).relu(), net.p, groups=8).mean((2, 3))),
        {"a": Conv2d(2, 8, 3), "c": Linear(8, 3), "p": normal(8, 1, 2, 2)},
        MAPS,
    ),
}


# --- levels of other kinds, step by step --------------------------------------------------------------------------------------


def inverted(width=4, wide=6):
    """A stem, an inverted residual block whose middle works channel by channel, a gate, and a sum behind a depthwise layer."""

    def code(net, x):
        h = (yield "stem", x).relu()
        inner = (yield "expand", h).relu()
        inner = (yield "middle", inner).relu()
        h = yield "shrink", inner, h
        h = yield "last", h.relu(), h
        return (yield "fc", h.relu().mean((2, 3)))

    return Steps(
        code,
        stem=Conv2d(2, width, 3, padding=1),
        expand=Conv2d(width, wide, 1),
        shrink=Conv2d(wide, width, 1),
        middle=Conv2d(wide, wide, 3, stride=1, padding=1, groups=wide),
        last=Conv2d(width, width, 3, padding=1, groups=width, bias=False),
        fc=Linear(width, CLASSES),
    )


PARTS, READ, MADE = 3, 2, 3


def aggregated(parts=PARTS, read=READ, made=MADE, width=4):
    """A stem, a block whose middle works part by part (ResNeXt) behind a gate (RegNet), and a head."""

    def code(net, x):
        h = (yield "stem", x).relu()
        inner = (yield "expand", h).relu()
        inner = (yield "middle", inner).relu()
        gate = (yield "squeeze", inner.mean((2, 3))).relu()
        gate = (yield "gate", gate).sigmoid()
        h = yield "shrink", inner * gate[:, :, None, None], h
        return (yield "fc", h.relu().mean((2, 3)))

    return Steps(
        code,
        stem=Conv2d(2, width, 3, padding=1),
        expand=Conv2d(width, parts * read, 1),
        middle=Conv2d(parts * read, parts * made, 3, padding=1, groups=parts),
        squeeze=Linear(parts * made, 2),
        gate=Linear(2, parts * made),
        shrink=Conv2d(parts * made, width, 1),
        fc=Linear(width, CLASSES),
    )


def scaled(width=4, inner=5):
    """Two blocks on a stream: one whose layer sees channels last, one whose scale is reshaped, and a head that pools."""

    def code(net, x):
        h = (yield "stem", x).relu()
        made = (yield "wide", h.permute(0, 2, 3, 1)).relu()
        h = yield "narrow", made, h, lambda made: net.first * made.permute(0, 3, 1, 2)
        h = yield "conv", h.relu(), h, lambda made: made.mul(net.second.reshape(1, -1, 1, 1))
        return (yield "last", h.relu()).relu().mean((2, 3))

    return Steps(
        code,
        stem=Conv2d(2, width, 3, padding=1),
        wide=Linear(width, inner),
        narrow=Linear(inner, width),
        first=Parameter(0.5 + torch.randn(width, 1, 1).abs()),
        second=Parameter(0.5 + torch.randn(width).abs()),
        conv=Conv2d(width, width, 3, padding=1, bias=False),
        last=Conv2d(width, CLASSES, 1),
    )


SKIPPED = 3


def partly(width=7, inner=5):
    """A layer half of whose channels go past a block (CSPNet), a block on the others, and what reads both side by side."""

    def code(net, x):
        h = (yield "stem", x).relu()
        past, h = h[:, :SKIPPED], h[:, SKIPPED:]
        made = (yield "wide", h).relu()
        h = yield "narrow", made, h
        h = (yield "last", torch.cat([h, past], 1)).relu()
        return (yield "fc", h.mean((2, 3)))

    return Steps(
        code,
        stem=Conv2d(2, width, 3, padding=1),
        wide=Conv2d(width - SKIPPED, inner, 1),
        narrow=Conv2d(inner, width - SKIPPED, 3, padding=1),
        last=Conv2d(width, 6, 1),
        fc=Linear(6, CLASSES),
    )


def dense(growth=3):
    """Layers that read all layers before them, side by side, behind a BatchNorm of their own (DenseNet)."""

    def code(net, x):
        x = net.stem(x)
        x = torch.cat([x, net.first(net.norms[0](x).relu())], 1)
        x = torch.cat([net.second(net.norms[1](x).relu()), x], 1)
        return net.fc(net.mix(net.norms[2](x).relu()).relu().mean((2, 3)))

    return Code(
        code,
        stem=Conv2d(2, 4, 3, padding=1),
        first=Conv2d(4, growth, 3, padding=1),
        second=Conv2d(4 + growth, growth, 1),
        mix=Conv2d(growth + 4 + growth, 6, 1),
        norms=ModuleList(BatchNorm2d(n) for n in (4, 4 + growth, growth + 4 + growth)),
        fc=Linear(6, CLASSES),
    )


def ghost():
    """A layer and what is made of it channel by channel, side by side, are added to a layer of twice as many channels."""

    def code(net, x):
        x = net.wide(x)
        y = net.primary(x.relu())
        return net.last((x + torch.cat([y, net.ghost(y.relu())], 1)).relu().mean((2, 3)))

    return Code(
        code,
        wide=Conv2d(2, 8, 1),
        primary=Conv2d(8, 4, 1),
        ghost=Conv2d(4, 4, 3, padding=1, groups=4),
        last=Linear(8, CLASSES),
    )


def branches():
    """Two grouped convolutions of the same inputs that are added (a reparametrised block)."""

    def code(net, x):
        x = net.stem(x).relu()
        return net.last((net.wide(x) + net.narrow(x)).relu().mean((2, 3)))

    return Code(
        code,
        stem=Conv2d(2, 6, 1),
        wide=Conv2d(6, 6, 3, padding=1, groups=3),
        narrow=Conv2d(6, 6, 1, groups=3, bias=False),
        last=Linear(6, CLASSES),
    )


def chain(*convolutions, last=100):
    return Sequential(*convolutions, ReLU(), Flatten(), Linear(last, 5), ReLU(), Linear(5, 3))


#: Grouped convolutions that cannot be matched part by part: of classes, of parts in parts, of each channel of parts.
PARTED = {
    "parts of classes": lambda: Sequential(
        *(Conv2d(2, 4, 1), ReLU(), Conv2d(4, 6, 3), Conv2d(6, 3, 5, groups=3), Flatten())
    ),
    "other parts": lambda: chain(Conv2d(2, 8, 1), Conv2d(8, 8, 1, groups=4), Conv2d(8, 4, 3, groups=2)),
    "channels in parts": lambda: chain(
        *(Conv2d(2, 4, 1), Conv2d(4, 8, 3, groups=4), ReLU()),
        *(Conv2d(8, 8, 1), Conv2d(8, 16, 2, groups=8)),
        last=256,
    ),
}


def split_attention():
    """A grouped convolution whose halves are weighed against each other, channel by channel (ResNeSt)."""

    def code(net, x):
        h = net.parted(net.stem(x).relu()).relu().unflatten(1, (2, 4))
        shares = net.up(F.gelu(net.down(h.sum(1).mean((2, 3), keepdim=True)))).unflatten(1, (2, 4)).softmax(1)
        return net.head((h * shares).sum(1).mean((2, 3)))

    layers = (Conv2d(2, 4, 1), Conv2d(4, 8, 3, groups=2), Conv2d(4, 3, 1), Conv2d(3, 8, 1), Linear(4, 3))
    return Code(code, **dict(zip(("stem", "parted", "down", "up", "head"), layers, strict=True)))


def tokens(kind=""):
    """A block whose queries, keys and values one layer makes, scaled values of a branch, and what may be asked of its maps."""

    def code(net, x):
        x = net.stem(x)
        q, k, v = net.qkv(net.norm(x)).reshape(x.shape[0], 7, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        if kind == "pooled":
            q, x = q[:, :, :6].unflatten(2, (3, 2)).amax(3), x[:, :3]
        maps = (q @ k.transpose(-2, -1) * 0.5).softmax(-1)
        x = x + net.out((maps @ v).transpose(1, 2).reshape(x.shape[0], -1, 8)) * net.scale
        return net.head(x.mean(1))

    return Code(
        code,
        stem=Linear(5, 8),
        norm=LayerNorm(8),
        qkv=Linear(8, 24),
        out=Linear(8, 8),
        scale=Parameter(torch.ones(8)),
        head=Linear(8, CLASSES),
    )


def cubes():
    parts = [nn.Conv3d(2, 4, 2, padding=1), nn.BatchNorm3d(4), ReLU(), nn.Conv3d(4, 5, (1, 2, 3)), ReLU()]
    return Sequential(*parts, Flatten(), Linear(5 * 4 * 3 * 2, CLASSES))


def signals():
    """A strided stem with circular padding, a block one channel at a time, a norm in front of a dilated layer."""

    def code(net, x):
        x = net.stem(x).relu()
        x = (x + net.norm2(net.conv2(net.norm1(net.conv1(x)).relu()))).relu()
        return net.head(net.last(net.norm(x)).relu().mean(2))

    return Code(
        code,
        stem=Conv1d(2, 5, 5, stride=2, padding=2, padding_mode="circular"),
        conv1=Conv1d(5, 5, 3, padding=1),
        norm1=BatchNorm1d(5),
        conv2=Conv1d(5, 5, 3, padding=1, groups=5),
        norm2=BatchNorm1d(5),
        norm=BatchNorm1d(5),
        last=Conv1d(5, 4, 2, dilation=2),
        head=Linear(4, CLASSES),
    )


# --- neurons that are followed --------------------------------------------------------------------------------------------------


def twice():
    """One hidden layer that runs twice."""
    code = lambda net, x: net.last(net.again(net.again(net.first(x).relu()).relu()).relu())  # noqa: E731
    return Code(code, first=Linear(3, 6), again=Linear(6, 6), last=Linear(6, 2))


def weighed():
    """Two heads, weighed by a softmax over two numbers, which are not neurons."""

    def code(net, x):
        h, shares = net.first(x).relu(), net.shares.softmax(-1)
        return shares[0] * net.early(h) + shares[1] * net.late(net.second(h).relu())

    layers = {name: Linear(6, n) for name, n in (("first", 6), ("second", 6), ("early", 3), ("late", 3))}
    return Code(code, shares=Parameter(torch.tensor([0.3, -0.5])), **layers)


def mixer():
    """Tokens are mixed by a layer that reads positions; the channels stay what they are."""

    def code(net, x):
        x = net.embed(x).flatten(2).mT
        x = x + net.back(net.mix(x.mT).relu()).mT
        x = x + net.narrow(net.wide(x).relu())
        return net.last(x.mean(1))

    return Code(
        code,
        embed=Conv2d(3, 6, 4, 4),
        mix=Linear(4, 5),
        back=Linear(5, 4),
        wide=Linear(6, 7),
        narrow=Linear(7, 6),
        last=Linear(6, 3),
    )


def unfolded():
    """Patches are taken of maps and added up to maps again; a bias that is put together of two."""

    def code(net, x):
        x = F.unfold(net.first(x), 3, padding=1).tanh()  # (B, 4 x 9, 64)
        x = F.fold(x, (8, 8), 3, padding=1).flatten(2).mT
        x = F.linear(x, net.inner.weight, torch.cat([net.left, net.right]))
        return net.last(torch.max(x.relu().mean(1), x.max(1)[0] / 3))

    return Code(
        code,
        first=Conv2d(3, 4, 1),
        inner=Linear(4, 6, bias=False),
        last=Linear(6, 3),
        left=Parameter(torch.randn(2)),
        right=Parameter(torch.randn(4)),
    )


def scored():
    """Attention written as sums of products, with scores of relative positions."""

    def code(net, x):
        x = net.embed(x).flatten(2).mT
        q, k, v = net.q(x), net.k(x), net.v(x)
        scores = torch.einsum("btc,bsc->bts", q, k) + torch.einsum("btc,tsc->bts", q, net.relative[:16])
        x = torch.einsum("bts,bsc->btc", scores.softmax(-1), v)
        bias = net.table[torch.arange(16)[:, None] + torch.arange(16)]  # of 40 distances 31 occur
        x = F.scaled_dot_product_attention(q, k, x, attn_mask=bias[..., 0] - bias[..., 1])
        return net.last(x.mean(1))

    return Code(
        code,
        embed=Conv2d(3, 6, 2, 2),
        q=Linear(6, 4),
        k=Linear(6, 4),
        v=Linear(6, 5),
        relative=Parameter(torch.randn(20, 16, 4)),
        last=Linear(5, 3),
        table=Parameter(torch.randn(40, 2)),
    )


def transposed(groups):
    layers = [Conv2d(3, 6, 1), Tanh(), nn.ConvTranspose2d(6, 12, 2, 2, groups=groups), Tanh()]
    return Sequential(*layers, Conv2d(12, 3, 3), Flatten(), Linear(3 * 14 * 14, 2))


def grouped():
    """A convolution of three groups, each of which reads two channels and makes four, and a gate at each position."""

    def code(net, x):
        x = net.middle(net.pads(F.pad(net.first(x).relu(), (1, 0, 2, 1))))
        x = x * net.gate(x).sigmoid()  # one number for all channels
        x = x / (1e-3 + x.norm(dim=1, keepdim=True))
        return net.last(F.pad(x.amax((2, 3)), (1, 1), value=0.5))

    return Code(
        code,
        first=Conv2d(3, 6, 1),
        middle=Conv2d(6, 12, 3, groups=3),
        gate=Conv2d(12, 1, 1),
        pads=nn.ReflectionPad2d(1),
        last=Linear(14, 3),
    )


def over_tokens():
    """A BatchNorm over the tokens, of which there are as many as neurons."""
    code = lambda net, x: net.last(net.norm(net.first(x)).relu().flatten(1))  # noqa: E731
    return Code(code, first=Linear(3, 5), norm=BatchNorm1d(5), last=Linear(25, 2))


# --- classes that more than one level makes ------------------------------------------------------------------------------------


def early(join, width=8, classes=4):
    """An early exit, and a head behind one more layer; `join` makes the logits of both."""

    def code(net, x):
        h = net.first(x).relu()
        return join(net.exit(h), net.head(net.second(h).relu()))

    return Code(
        code,
        first=Linear(6, width),
        exit=Linear(width, classes),
        second=Linear(width, width),
        head=Linear(width, classes),
    )


JOINS = {
    "python's sum": lambda early, late: sum([early, late]) / 2,
    "mean": lambda early, late: (early + late) / 2,
    "weighted": lambda early, late: 0.3 * early + 0.7 * late,
    "gated": lambda early, late: late * torch.sigmoid(early),
    "probabilities": lambda early, late: (early.softmax(1) + late.softmax(1)).log(),
}
CLASSES_TWICE = {name: partial(early, join) for name, join in JOINS.items()}


# --- weights that are shared, or belong to no layer ------------------------------------------------------------------------


def tied(head):
    """The head's weight is the embedding's; how the head is called is given."""
    code = lambda net, x: head(net, net.down(net.up(net.emb(x).mean(1)).relu()))  # noqa: E731
    parts = {"up": Linear(WIDTH, 6), "down": Linear(6, WIDTH), "head": Linear(WIDTH, 7, bias=False)}
    net = Code(code, emb=Embedding(7, WIDTH), **parts)
    net.head.weight = net.emb.weight
    return net


def autoencoder(turned):
    """Two layers, and the same two turned round; how they are turned is given."""

    def code(net, x):
        h = net.second(net.first(x).relu()).relu()
        h = turned(h, net.second.weight, net.inner).relu()
        return turned(h, net.first.weight, net.outer)

    inner, outer = Parameter(torch.zeros(8)), Parameter(torch.zeros(6))
    return Code(code, first=Linear(6, 8), second=Linear(8, 6), inner=inner, outer=outer)


TIED = {
    "tied head": lambda: tied(lambda net, h: net.head(h)),
    "tied head by product": lambda: tied(lambda net, h: h @ net.emb.weight.t()),
    "autoencoder, product": lambda: autoencoder(lambda h, weight, bias: h @ weight + bias),
    "autoencoder, t()": lambda: autoencoder(lambda h, weight, bias: F.linear(h, weight.t(), bias)),
}


def raw():
    """Layers that are parameters, one of them beside the input."""

    def code(net, x):
        h = F.linear(x, net.w).relu()
        return net.head(torch.addmm(h, h, net.v, alpha=0.3).relu())

    return Code(code, w=Parameter(normal(8, 6, seed=1)), v=Parameter(normal(8, 8, seed=2)), head=Linear(8, 4))


# --- the table -----------------------------------------------------------------------------------------------------------


IMAGES, IMAGE, SEQUENCES = (3, 8, 8), (2, 7, 7), (TOKENS, 4)
#: Name -> (how it is made, shape of an input; None: tokens).
FAMILIES = {
    "tokens that are mixed, in a block": (mixer, IMAGES),
    "TransformerEncoder": (encoder, SEQUENCES),
    "TransformerEncoder, norms behind": (lambda: encoder(norm_first=False), SEQUENCES),
    "TransformerEncoder, causal": (lambda: encoder(causal=True), SEQUENCES),
    "MultiheadAttention with a mask": (masked, SEQUENCES),
    "a mask of pairs, torch's attention": (reader, None),
    "a transposed weight and a cache": (cached, None),
    "grouped queries, by torch": (lambda: grouped_queries("torch"), None),
    "grouped queries, by torch, not rotated": (lambda: grouped_queries("torch, plain"), None),
    "grouped queries, logits of each token": (lambda: grouped_queries("repeated, each token"), None),
    "language model, position ids in a buffer": (language_model, None),
    "language model, logits of each token by the table": (lambda: language_model(tied=True), None),
    "encoder, decoder and head with one table": (translator, None),
    "images compared with texts": (compared, IMAGES),
    "shifted windows, cosines, biases by a network and by two of three parts": (windows, IMAGES),
    "PReLU": (prelu, IMAGES),
    "classes for each pixel from two scales": (segmentation, IMAGES),
    "tokens": (tokens, (7, 5)),
    "tokens pooled": (partial(tokens, "pooled"), (7, 5)),
    "three dimensions": (cubes, (2, 3, 3, 3)),
    "one dimension": (signals, (2, 12)),
    **{name: (partial(written, code), FLAT) for name, (code, _) in SPELLED.items()},
    "selu": (partial(written, joined(lambda n, h: h + F.selu(n.a(h)))), FLAT),
    **{name: (partial(Code, code, **parts), FLAT) for name, (code, parts, _) in STRUCTURED.items()},
    **{name: (partial(Code, code, **parts), shape) for name, (code, parts, shape) in BUFFERS.items()},
    **{name: (make, FLAT) for name, make in CLASSES_TWICE.items()},
    **{make.__name__: (make, IMAGE) for make in (inverted, aggregated, scaled, partly, dense, ghost, branches)},
    **{name: (make, IMAGE) for name, make in PARTED.items()},
    "split attention": (split_attention, IMAGE),
    **{name: (make, None if "head" in name else FLAT) for name, make in TIED.items()},
    "parameters": (raw, FLAT),
}


#: Name -> (how it is made, shape of an input, its groups of several neurons and their widths).
FOLLOWED = {
    "two heads weighed by a softmax over a list": (
        weighed,
        FLAT,
        {"first": 6, "second": 6, "early": 3},
    ),
    "tokens that are mixed": (mixer, IMAGES, {"embed": 6, "wide": 7, "last": 3}),
    "patches and biases of several parts": (unfolded, IMAGES, {"first": 4, "inner[0]": 2, "inner[1]": 4, "last": 3}),
    "sums of products in words": (scored, IMAGES, {"embed": 6, "q": 4, "v": 5, "last": 3}),
    "groups of a convolution": (grouped, IMAGES, {"first": 3, "last": 3}),
    "a BatchNorm over tokens": (over_tokens, (5, 3), {"first": 5, "last": 2}),
    "a transposed convolution of 2 groups": (partial(transposed, 2), IMAGES, {"0": 2, "4": 3, "6": 2}),
    "a transposed convolution of 6 groups": (partial(transposed, 6), IMAGES, {"0": 6, "4": 3, "6": 2}),
}


def of_spec(**spec):
    return lambda: initialised(build(spec, seed=0), 1)


def vision_transformer():
    model = seeded(1, torchvision.models.VisionTransformer, 16, 8, 2, 4, 24, 32, num_classes=5)
    torch.nn.init.normal_(model.class_token, generator=torch.Generator().manual_seed(2))  # zeros tell no neuron apart
    return initialised(model, 1)


VIT = {"architecture": "vit", "hidden": 12, "depth": 2, "heads": 3, "mlp_width": 7, "classes": 4, "size": 8}
#: Common networks in float64: how they are made, and the shape of an input.
NETWORKS = {
    "mlp": (mlp, (6,)),
    "cnn": (cnn, CNN_SHAPE),
    "vgg with a flatten": (of_spec(architecture="vgg", plan=[3, "M", 4, 5], classes=4, size=8), VGG_SHAPE),
    "vgg with BatchNorm": (
        of_spec(architecture="vgg", plan=[3, "M", 4], classes=4, size=8, batch_norm=True),
        VGG_SHAPE,
    ),
    "BatchNorm, no bias": (batchnorm_cnn, CNN_SHAPE),
    "residual": (residual, CNN_SHAPE),
    "resnet": (of_spec(architecture="resnet", layers=[2, 2], width=4, classes=4, size=8), VGG_SHAPE),
    "bottleneck": (of_spec(architecture="resnet", layers=[1, 2], width=3, bottleneck=True, size=8), VGG_SHAPE),
    "vit": (of_spec(**VIT), VGG_SHAPE),
    "shared": (lambda: initialised(twice(), 1), (3,)),
    "two heads": (lambda: initialised(early(JOINS["mean"], 8), 1), (6,)),
    "gated heads": (lambda: initialised(early(JOINS["gated"], 8), 1), (6,)),
    "torchvision vit": (vision_transformer, (3, 16, 16)),
    "torchvision vgg_bn": (lambda: small_torchvision_vgg(True).double(), VGG_SHAPE),
}


def network(name, seed=0):
    """A network of the table in float64 and evaluation mode, and inputs."""
    make, shape = (FAMILIES.get(name) or FOLLOWED[name])[:2]
    model = initialised(seeded(seed, make), seed).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # some begin as constants, at which neurons cannot be told apart
            if parameter.numel() > 1 and parameter.std() == 0:
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    x = torch.randint(7, (40, TOKENS), generator=torch.Generator().manual_seed(2)) if shape is None else None
    return model, normal(40, *shape) if x is None else x
