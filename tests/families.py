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


def encoder(causal=False, batch_first=True, norm_first=True):
    """torch's own layers, with positions, masks, and samples first or second."""

    def code(net, x):
        h = net.embed(x) + net.positions
        h = h if batch_first else h.transpose(0, 1)
        h = net.encoder(h, mask=net.mask, is_causal=True) if causal else net.encoder(h)
        return net.head((h if batch_first else h.transpose(0, 1)).mean(1))

    layer = nn.TransformerEncoderLayer(WIDTH, 2, 12, batch_first=batch_first, norm_first=norm_first)
    return Code(
        code,
        {"mask": nn.Transformer.generate_square_subsequent_mask(TOKENS)},
        embed=Linear(4, WIDTH),
        positions=Parameter(torch.randn(TOKENS, WIDTH) if batch_first else torch.randn(1, TOKENS, WIDTH)),
        encoder=nn.TransformerEncoder(layer, 1, enable_nested_tensor=False),
        head=Linear(WIDTH, CLASSES),
    )


def masked(**options):
    """One attention of torch that is called with a mask."""

    def code(net, x):
        h = net.embed(x)
        n = net.norm(h)
        return net.head((h + net.attention(n, n, n, attn_mask=net.mask, **options)[0]).mean(1))

    return Code(
        code,
        {"mask": torch.ones(TOKENS, TOKENS).triu(1).bool()},
        embed=Linear(4, WIDTH),
        norm=LayerNorm(WIDTH),
        attention=nn.MultiheadAttention(WIDTH, 2, batch_first=True),
        head=Linear(WIDTH, CLASSES),
    )


def without_projection(batch_first=True):
    """torch's own layers on the input itself: a skip begins at its features, which no layer made."""

    def code(net, x):
        h = net.encoder(x if batch_first else x.transpose(0, 1))
        return net.head((h if batch_first else h.transpose(0, 1)).mean(1))

    layer = nn.TransformerEncoderLayer(WIDTH, 2, 12, batch_first=batch_first)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return Code(code, encoder=encoder, head=Linear(WIDTH, CLASSES))


def raw_skip():
    """A skip from the pixels themselves around linear layers over channels."""

    def code(net, x):
        x = x.permute(0, 2, 3, 1)
        return net.head((x + net.second(net.first(x).relu())).relu().mean((1, 2)))

    return Code(code, first=Linear(3, 6), second=Linear(6, 3), head=Linear(3, CLASSES))


def reader(kind):
    """Two blocks of tokens that share one mask of padding, made from the tokens: boolean or added, for keys or for pairs."""

    def code(net, x):
        h = net.tokens(x)
        mask = (x != 0)[:, None, None, :]
        if "pairs" in kind:
            mask = mask.expand(h.shape[0], 1, h.shape[1], h.shape[1])
        if "added" in kind:
            mask = (~mask).to(h.dtype) * -1e4
        for norm, qkv, out, last, first, second in zip(*net.blocks, strict=True):
            q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in qkv(norm(h)).chunk(3, 2))
            if "torch" in kind:
                mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            else:
                maps = q @ k.transpose(-2, -1) / 2
                maps = maps + mask if "added" in kind else maps.masked_fill(~mask, -1e4)
                mixed = maps.softmax(-1) @ v
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

    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        self.weight = Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.bias = Parameter(torch.randn(outputs)) if bias else None

    def forward(self, x):
        if self.bias is None:
            return x @ self.weight
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(x.size()[:-1] + self.bias.shape)


def cached(bias):
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
        qkv=Turned(WIDTH, 3 * WIDTH, bias),
        out=Turned(WIDTH, WIDTH, bias),
        last=LayerNorm(WIDTH),
        first=Turned(WIDTH, 12, bias),
        second=Turned(12, WIDTH, bias),
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
        elif "expanded" in way:
            k, v = (part[:, :, None].expand(-1, -1, 2, -1, -1).reshape(q.shape) for part in (k, v))
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


def language_model(positions, tied=False):
    """Tokens and positions that are looked up, a causal mask in a buffer, and the logits of the last token; or, as in GPT-2, of
    each token by a head that is the table of tokens."""

    def code(net, x):
        ids = {"buffer": lambda: net.ids[:, : x.shape[1]], "arange": lambda: torch.arange(x.shape[1], device=x.device)}
        h = net.tokens(x) + net.positions(ids[positions]())
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


def translator(tied):
    """A block of T5's encoder and one of its decoder, which look tokens up in one table; the positions of the decoder are its
    own. Or the head is this table too, with rows looked up by a function, and a buffer is added to its logits, as in BART."""

    def attended(net, name, h, read, mask=None):
        q, k, v = (
            net.get_submodule(f"{name}_{part}")(x).unflatten(2, (2, 4)).transpose(1, 2)
            for part, x in zip("qkv", (h, read, read), strict=True)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return net.get_submodule(f"{name}_out")(mixed.transpose(1, 2).flatten(2))

    def code(net, x):
        h = F.embedding(x, net.source.weight) * 1.5 if tied else net.source(x)
        n = net.norm(h)
        h = h + attended(net, "inner", n, n)
        h = net.between(h + net.second(net.first(h).relu()))
        y = net.target(x) + net.positions(torch.arange(x.shape[1], device=x.device))
        n = net.last(y)
        y = y + attended(net, "own", n, n, net.mask)
        y = y + attended(net, "cross", y, h)
        return net.head(y * WIDTH**-0.5) + net.shift if tied else net.head(y)

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
    for layer in (net.target, net.head)[: 1 + tied]:
        layer.weight = net.source.weight
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


def windows(mlp):
    """A shifted window of 2 x 2 positions, with a table of biases or a small network that makes them, and cosines or products."""

    def code(net, x):
        h = net.stem(x).permute(0, 2, 3, 1)
        B, H, W, C = h.shape
        y = net.norm(h).roll((-1, -1), (1, 2)).view(B, H // 2, 2, W // 2, 2, C)
        y = y.transpose(2, 3).reshape(-1, 4, C)
        y = F.linear(y, net.qkv.weight, torch.cat([net.q_bias, net.k_bias, net.v_bias])) if mlp else net.qkv(y)
        q, k, v = y.reshape(-1, 4, 3, 2, C // 2).permute(2, 0, 3, 1, 4).unbind(0)
        if mlp:
            logits = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * net.scale.exp()
            table = net.second(net.first(net.coordinates).relu()).view(-1, 2)
        else:
            logits, table = q @ k.transpose(-2, -1), net.table
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
    tables = (
        {"first": Linear(2, 6), "second": Linear(6, 2, bias=False), "scale": Parameter(torch.rand(2, 1, 1))}
        | {f"{part}_bias": Parameter(torch.randn(WIDTH)) for part in "qv"}
        if mlp
        else {"table": Parameter(torch.randn(9, 2))}
    )
    return Code(
        code,
        {"index": index, "shift": shift, "coordinates": coordinates, "k_bias": torch.zeros(WIDTH)},
        stem=Conv2d(3, WIDTH, 2, stride=2),
        norm=LayerNorm(WIDTH),
        qkv=Linear(WIDTH, 3 * WIDTH, bias=not mlp),
        out=Linear(WIDTH, WIDTH),
        down=Linear(WIDTH, 10),
        up=Linear(10, WIDTH),
        head=Linear(WIDTH, CLASSES),
        **tables,
    )


@torch.fx.wrap
def in_windows(h, weight, bias, table):
    """Shifted windows as torchvision's Swin has them: a mask that is written, a bias whose keys are set to zero in place."""
    B, H, W, C = h.shape
    bias = bias.clone()
    bias[C : 2 * C].zero_()
    y = h.roll((-1, -1), (1, 2)).view(B, H // 2, 2, W // 2, 2, C).transpose(2, 3).reshape(-1, 4, C)
    q, k, v = F.linear(y, weight, bias).reshape(-1, 4, 3, 2, C // 2).permute(2, 0, 3, 1, 4)
    mask = h.new_zeros(H, W)
    mask[-1], mask[:-1, -1] = 2, 1
    mask = mask.view(H // 2, 2, W // 2, 2).transpose(1, 2).reshape(-1, 4)
    apart = (mask[:, None] != mask[:, :, None]) * -100.0
    logits = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) + table).view(B, -1, 2, 4, 4)
    y = (logits + apart[:, None]).view(-1, 2, 4, 4).softmax(-1) @ v
    y = y.transpose(1, 2).reshape(B, H // 2, W // 2, 2, 2, C).transpose(2, 3).reshape(B, H, W, C)
    return y.roll((1, 1), (1, 2))


def by_function_of_windows():
    """An attention in a function that torch.fx is told to record as one operation."""

    def code(net, x):
        h = net.stem(x).permute(0, 2, 3, 1)
        h = h + net.out(in_windows(h, net.qkv.weight, net.qkv.bias, net.table[net.index].permute(2, 0, 1)))
        return net.head((h + net.up(net.down(h).relu())).mean((1, 2)))

    return Code(
        code,
        {"index": torch.arange(4)[:, None] - torch.arange(4) + 3},
        stem=Conv2d(3, WIDTH, 2, stride=2),
        qkv=Linear(WIDTH, 3 * WIDTH),
        table=Parameter(torch.randn(7, 2)),
        out=Linear(WIDTH, WIDTH),
        down=Linear(WIDTH, 10),
        up=Linear(10, WIDTH),
        head=Linear(WIDTH, CLASSES),
    )


def prelu(count):
    """Slopes that are learned: one for each neuron, or one for all."""
    return Sequential(
        Conv2d(3, 6, 3),
        BatchNorm2d(6),
        PReLU(6 if count else 1),
        Conv2d(6, WIDTH, 3),
        PReLU(WIDTH if count else 1),
        nn.AdaptiveAvgPool2d(1),
        Flatten(),
        Linear(WIDTH, CLASSES),
    )


def normed_head():
    """A BatchNorm before the layer that makes the classes, and a learned factor of all neurons."""
    code = lambda net, x: net.head(net.norm(net.factor * net.conv(x).relu().mean((2, 3))))  # noqa: E731
    parts = {"conv": Conv2d(3, WIDTH, 3), "norm": BatchNorm1d(WIDTH), "factor": Parameter(torch.tensor([1.5]))}
    return Code(code, head=Linear(WIDTH, CLASSES), **parts)


def upsampling(skip, **options):
    """Maps that are made larger by a transposed convolution with a BatchNorm behind it, and smaller again."""

    def code(net, x):
        h = net.stem(x).relu()
        y = net.down(net.norm(net.up(h)).relu())
        return net.head((h + y if skip else y).relu().mean((2, 3)))

    return Code(
        code,
        stem=Conv2d(3, 6, 3, stride=2, padding=1),
        up=nn.ConvTranspose2d(6, WIDTH, 3, stride=2, padding=1, output_padding=1, **options),
        norm=BatchNorm2d(WIDTH),
        down=Conv2d(WIDTH, 6, 3, stride=2, padding=1),
        head=Linear(6, CLASSES),
    )


def segmentation(way):
    """Classes for each pixel, from maps at one or two scales that are enlarged before or behind their classifiers."""

    def enlarged(h, like):
        return F.interpolate(h, size=like.shape[-2:], mode="bilinear", align_corners=False)

    def code(net, x):
        low = net.first(x).relu()
        high = net.second(low).relu()
        if way == "one":
            h = net.of_high(high)
        elif way == "before":
            h = net.of_low(low) + net.of_high(enlarged(high, low))
        else:
            h = net.of_low(low) + enlarged(net.of_high(high), low)
        h = enlarged(h, x)
        return h.log_softmax(1) if way == "one" else h

    layers = {} if way == "one" else {"of_low": Conv2d(6, CLASSES, 1)}
    return Code(
        code,
        first=Conv2d(3, 6, 3, stride=2, padding=1),
        second=Conv2d(6, WIDTH, 3, stride=2, padding=1),
        of_high=Conv2d(WIDTH, CLASSES, 1),
        **layers,
    )


# --- the same function, spelled in another way -----------------------------------------------------------------------------


def joined(join):
    """What `join` makes of a stem goes into the head."""
    return lambda net, x: net.head(torch.relu(join(net, torch.relu(net.stem(x)))))


def in_place(change):
    """A join whose first operation writes into what the layer made, without a name for the result."""

    def join(net, h):
        o = net.a(h)
        change(o, h)
        return o

    return joined(join)


def subtracted(net, h):
    o = net.a(h)
    o -= h
    return o


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


def thrown_away(net, x):
    h = net.stem(x)
    net.relu(h)
    k = net.a(h)
    k.relu_()
    return net.head(k)


def by_function(net, x):
    h = F.relu_(net.stem(x))
    k = net.a(h)
    F.relu(k, inplace=True)
    return net.head(torch.sigmoid_(k))


def two_names(net, x):
    h = net.stem(x)
    same = h
    h += net.a(h.relu())
    return net.head(h.relu() + same)


def two_names_plain(net, x):
    h = net.stem(x)
    h = h + net.a(h.relu())
    return net.head(h.relu() + h)


def preactivation(net, x):
    h = net.stem(x)
    return net.head(h + net.a(net.relu(h)))


def preactivation_plain(net, x):
    h = net.stem(x).relu()
    return net.head(h + net.a(h))


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
    "add to the stream": (joined(lambda n, h: torch.add(n.a(h), h, alpha=0.3)), joined(lambda n, h: n.a(h) + h * 0.3)),
    "add in place": (joined(lambda n, h: h.add_(n.a(h), alpha=0.3)), joined(lambda n, h: h + 0.3 * n.a(h))),
    "add minus one": (joined(lambda n, h: h.add(n.a(h), alpha=-1)), joined(lambda n, h: h + -1 * n.a(h))),
    "add two layers": (
        joined(lambda n, h: torch.add(n.a(h), n.b(h), alpha=0.3)),
        joined(lambda n, h: n.a(h) + n.b(h) * 0.3),
    ),
    "torch.sub": (joined(lambda n, h: torch.sub(h, n.a(h), alpha=0.3)), joined(lambda n, h: h - 0.3 * n.a(h))),
    "rsub": (joined(lambda n, h: torch.rsub(h, n.a(h), alpha=0.3)), joined(lambda n, h: n.a(h) - h * 0.3)),
    "addcmul": (
        joined(lambda n, h: torch.addcmul(h, n.a(h), n.b(h), value=0.3)),
        joined(lambda n, h: h + n.a(h) * n.b(h) * 0.3),
    ),
    "stack": (joined(lambda n, h: torch.stack([h, n.a(h)]).sum(0)), joined(lambda n, h: h + n.a(h))),
    "mean of a stack": (
        joined(lambda n, h: torch.stack([h, n.a(h), n.b(h)], 1).mean(1)),
        joined(lambda n, h: (h + n.a(h) + n.b(h)) / 3),
    ),
    "parts": (joined(in_part), joined(in_part_plain)),
    "isub": (joined(subtracted), joined(lambda n, h: n.a(h) - h)),
    "add_": (in_place(lambda o, h: o.add_(h, alpha=0.3)), joined(lambda n, h: n.a(h) + h * 0.3)),
    "relu_": (in_place(lambda o, h: F.relu_(o)), joined(lambda n, h: n.a(h).relu())),
    "mul_, then add_": (in_place(lambda o, h: (o.mul_(0.3), o.add_(h))), joined(lambda n, h: n.a(h) * 0.3 + h)),
    "behind layers": (
        lambda n, x: n.head(n.drop(n.relu(n.a(n.relu(n.stem(x)))))),
        lambda n, x: n.head(n.a(n.stem(x).relu()).relu()),
    ),
    "thrown away": (thrown_away, lambda n, x: n.head(n.a(n.stem(x).relu()).relu())),
    "by function": (by_function, lambda n, x: n.head(n.a(n.stem(x).relu()).relu().sigmoid())),
    "two names": (two_names, two_names_plain),
    "preactivation": (preactivation, preactivation_plain),
    "arithmetic": (arithmetic, lambda n, x: n.head(n.a((n.stem(x) * 2) ** 2 - 1).clamp(min=0) + 1)),
    "an item": (an_item, lambda n, x: n.head(n.a((2 * n.stem(x)).relu()).relu())),
}
#: The rest has no plainer words.
SUMS = {
    "minus of two": lambda n, h: n.a(h) - n.b(h),
    "addcdiv": lambda n, h: torch.addcdiv(h, n.a(h), 1 + n.b(h).abs(), value=0.3),
    "F.dropout": lambda n, h: h + F.dropout(n.a(h), training=n.training),
    "F.alpha_dropout, default": lambda n, h: h + F.alpha_dropout(n.a(h)),
    "StochasticDepth": lambda n, h: h + n.path(n.a(h)),
    "selu": lambda n, h: h + F.selu(n.a(h)),
    "modules made in forward": lambda n, h: Sequential(nn.Identity(), ReLU(inplace=True))(n.a(h)),
    "a norm made in forward": lambda n, h: h + LayerNorm(8, elementwise_affine=False)(n.a(h)),
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
        path=torchvision.ops.StochasticDepth(0.3, "row"),
    )


def activated(kind):
    layers = [Linear(6, 8), kind(), Linear(8, 5), Sequential(Tanh(), kind()), Linear(5, 3)]
    return Sequential(*layers)


# --- structure among the neurons of a plain chain ----------------------------------------------------------------------------


def gate(net, x):
    left, right = net.a(x).chunk(2, 1)
    return net.c(left * right.sigmoid())


def interleaved(net, x):
    h = net.a(x)
    return net.c(h[:, ::2] * h[:, 1::2].sigmoid())


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
    "GLU": (lambda net, x: net.c(net.g(net.a(x))), two(4) | {"g": nn.GLU()}, HALVES),
    "interleaved": (interleaved, two(4), [0, 1] * 4),
    "sides": (sides, two(8), [0] * 5 + [1] * 3),
    "GroupNorm": (lambda net, x: net.c(net.n(net.a(x)).relu()), two() | {"n": nn.GroupNorm(2, 8)}, HALVES),
    "group_norm": (lambda net, x: net.c(F.group_norm(net.a(x), 2).relu()), two(), HALVES),
    "softmax of parts": (lambda net, x: net.c(net.a(x).unflatten(1, (2, 4)).softmax(2).flatten(1)), two(), HALVES),
    "pairs": (lambda net, x: net.c(net.a(x).unflatten(1, (4, 2)).amax(2)), two(4), [0, 1] * 4),
    "constant": (lambda net, x: net.c((net.a(x) + torch.arange(8) / 4).relu()), two(), list(range(8))),
}
#: Name -> forward, its layers and buffers `p` and `q` with a number for each neuron, shape of an input.
BUFFERS = {
    "buffer added": (lambda net, x: net.c((net.a(x) + net.p).relu()), two() | {"p": numbers(8)}, FLAT),
    "scale": (lambda net, x: net.c((net.a(x) * net.p).relu()), two() | {"p": numbers(1, 8)}, FLAT),
    "mask": (lambda net, x: net.c(net.a(x).relu() * net.p), two() | {"p": (numbers(8) > 1.5).double()}, FLAT),
    "two buffers": (
        lambda net, x: net.c(torch.addcmul(net.q, net.a(x), net.p)),
        two() | {"p": numbers(8), "q": -numbers(8)},
        FLAT,
    ),
    "positions": (
        lambda net, x: net.c(net.b(net.a(x) + net.p).relu().mean(1)),
        two() | {"b": Linear(8, 8), "p": numbers(1, 5, 8)},
        ROWS,
    ),
    "positions, in a block": (
        lambda net, x: net.c((h := net.a(x) + net.p).mean(1) + net.e(net.b(h).relu()).mean(1)),
        two() | {"b": Linear(8, 7), "e": Linear(7, 8), "p": numbers(1, 5, 8)},
        ROWS,
    ),
    "maps": (
        lambda net, x: net.c((net.a(x) * net.p).relu().mean((2, 3))),
        {"a": Conv2d(2, 8, 3), "c": Linear(8, 3), "p": numbers(8, 1, 1)},
        MAPS,
    ),
    "half of a gate": (
        lambda net, x: net.c((h := net.a(x).chunk(2, 1))[0] * net.p * h[1].sigmoid()),
        two(4) | {"p": numbers(4)},
        FLAT,
    ),
    "two layers side by side": (
        lambda net, x: net.c((torch.cat([net.b(x), net.a(x)], 1) + net.p).relu()),
        two(13) | {"b": Linear(6, 5), "p": numbers(13)},
        FLAT,
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
    "BatchNorm without weights": (
        lambda net, x: net.c(net.n(net.a(x).relu())),
        two() | {"n": BatchNorm1d(8, affine=False)},
        FLAT,
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


#: Grouped convolutions that cannot be matched part by part: of pixels, of classes, of parts in parts, of each channel of parts.
PARTED = {
    "channels of pixels": lambda: chain(Conv2d(2, 2, 3, groups=2), Conv2d(2, 4, 1)),
    "channels of a layer and of pixels": lambda: Code(
        lambda net, x: net.c(net.d(torch.cat([net.a(x), x], 1)).relu().mean((2, 3))),
        **{"a": Conv2d(2, 8, 1), "d": Conv2d(10, 10, 3, groups=10), "c": Linear(10, 3)},
    ),
    "parts of pixels": lambda: chain(Conv2d(2, 4, 3, groups=2)),
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
        logits = q @ k.transpose(-2, -1) * 0.5
        maps = (logits + net.bias if kind == "bias" else logits).softmax(-1)
        if kind == "gate":
            maps = maps * maps
        x = x + net.out((maps @ v).transpose(1, 2).reshape(x.shape[0], -1, 8)) * net.scale
        return net.head(x.mean(1))

    return Code(
        code,
        stem=Linear(5, 8),
        norm=LayerNorm(8),
        qkv=Linear(8, 24),
        out=Linear(8, 8),
        scale=Parameter(torch.ones(8)),
        bias=Parameter(torch.randn(2, 7, 7)),
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


def side_by_side():
    """Two branches side by side, a gate, a GroupNorm and a PReLU with a slope for each channel."""

    def code(net, x):
        x = net.slopes(net.norm(torch.cat([net.left(x), net.right(x)], 1)))
        x = x * net.gate(x.mean((2, 3), keepdim=True)).sigmoid()
        return net.last(x.mean((2, 3)))

    return Code(
        code,
        left=Conv2d(3, 4, 3, padding=1),
        right=Conv2d(3, 6, 1),
        norm=nn.GroupNorm(2, 10),
        slopes=PReLU(10),
        gate=Conv2d(10, 10, 1),
        last=Linear(10, 3),
    )


def gated():
    """A chain whose first layer makes both halves of a gate, with a buffer for each neuron of one half."""

    def code(net, x):
        left, right = net.wide(x).chunk(2, 1)
        return net.last(net.inner(left * net.scale * right.sigmoid()).relu())

    scale = torch.linspace(0.5, 1.5, 5)
    return Code(code, wide=Linear(6, 10), inner=Linear(5, 7), last=Linear(7, 4), scale=scale)


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


def token_gate():
    """Half of the channels, mixed over tokens, are a gate of the other half (gMLP); a scale for each channel (ResMLP)."""

    def code(net, x):
        x = net.embed(x).flatten(2).mT
        u, v = F.gelu(net.wide(x)).chunk(2, 2)
        x = x + net.narrow(u * net.gate(net.norm(v).mT).mT)
        return net.last((x + net.scale * net.mix(x.mT).mT).mean(1))

    return Code(
        code,
        embed=Conv2d(3, 6, 4, 4),
        wide=Linear(6, 10),
        norm=LayerNorm(5),
        gate=Linear(4, 4),
        narrow=Linear(5, 6),
        mix=Linear(4, 4),
        scale=Parameter(torch.rand(6)),
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


def corrected():
    """Classes that a small block corrects; in a gradient fit they are where a level of a chain ends."""

    def code(net, x):
        classes = net.exit(net.first(x).relu())
        return classes + net.head(net.inner(classes).relu())

    first, exits = Linear(6, 8), Linear(8, 4)
    return Code(code, first=first, exit=exits, inner=Linear(4, 5), head=Linear(5, 4))


def both():
    """One layer makes the classes of an early exit and hidden neurons, side by side."""

    def code(net, x):
        classes, h = net.wide(net.first(x).relu()).split([4, 5], 1)
        return classes * net.head(h.relu()).sigmoid()

    return Code(code, first=Linear(6, 8), wide=Linear(8, 9), head=Linear(5, 4))


def several():
    """An ensemble inside of a network."""
    members = (Sequential(Linear(6, width), ReLU(), Linear(width, 4)) for width in (7, 8, 9))
    code = lambda net, x: torch.stack([member(x) for member in net.members]).mean(0)  # noqa: E731
    return Code(code, members=ModuleList(members))


JOINS = {
    "mean": lambda early, late: (early + late) / 2,
    "weighted": lambda early, late: 0.3 * early + 0.7 * late,
    "gated": lambda early, late: late * torch.sigmoid(early),
    "probabilities": lambda early, late: (early.softmax(1) + late.softmax(1)).log(),
    "largest": torch.maximum,
    "stacked": lambda early, late: torch.stack([early, late]).mean(0),
    "python's sum": lambda early, late: sum([early, late]) / 2,
    "interpolated": lambda early, late: torch.lerp(early, late, 0.3),
    "log of both": lambda early, late: torch.logaddexp(early.log_softmax(1), late.log_softmax(1)),
    "only one of them": lambda early, late: torch.where(early > late, early, late),
}
CLASSES_TWICE = {name: partial(early, join) for name, join in JOINS.items()}
CLASSES_TWICE |= {"corrected": corrected, "both": both, "ensemble": several}


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
    "tied head by function": lambda: tied(lambda net, h: F.linear(h, net.emb.weight)),
    "tied head by product": lambda: tied(lambda net, h: h @ net.emb.weight.t()),
    "autoencoder, t()": lambda: autoencoder(lambda h, weight, bias: F.linear(h, weight.t(), bias)),
    "autoencoder, T": lambda: autoencoder(lambda h, weight, bias: F.linear(h, weight.T, bias)),
    "autoencoder, transpose": lambda: autoencoder(lambda h, weight, bias: F.linear(h, weight.transpose(0, 1), bias)),
    "autoencoder, product": lambda: autoencoder(lambda h, weight, bias: h @ weight + bias),
}


def raw(first, second):
    """Layers that are parameters."""
    code = lambda net, x: net.head(second(first(x, net.w).relu(), net.v).relu())  # noqa: E731
    w, v = Parameter(normal(8, 6, seed=1)), Parameter(normal(8, 8, seed=2))
    return Code(code, w=w, v=v, head=Linear(8, 4))


RAW = {
    "parameters, @": lambda: raw(lambda x, w: x @ w.t(), lambda x, w: x @ w),
    "parameters, matmul": lambda: raw(lambda x, w: x.matmul(w.T), lambda x, w: torch.mm(x, w)),
    "parameters, F.linear": lambda: raw(F.linear, lambda x, w: torch.addmm(x, x, w, alpha=0.3)),
}


def normed_by_function():
    """What follows the norm is not affine, so that a wrong scale cannot be fitted away."""
    code = lambda net, x: net.head(F.layer_norm(net.a(x), (7,), net.scale, net.shift).softmax(1))  # noqa: E731
    scale, shift = Parameter(normal(7, seed=1) + 2), Parameter(normal(7, seed=2))
    return Code(code, a=Linear(6, 7), scale=scale, shift=shift, head=Linear(7, 3))


def of_maps(norm):
    """Convolutions by functions of the network's own parameters, and a norm of each map between them."""
    code = lambda net, x: net.head(  # noqa: E731
        F.conv2d(norm(net, F.conv2d(x, net.w, net.a, padding=1)).relu(), net.v, stride=2).mean((2, 3))
    )
    w, v = Parameter(normal(6, 2, 3, 3, seed=1)), Parameter(normal(5, 6, 1, 1, seed=2))
    a = Parameter(normal(6, seed=3))
    return Code(code, {}, w=w, v=v, a=a, n=nn.InstanceNorm2d(6, affine=True), head=Linear(5, 3))


# --- the table -----------------------------------------------------------------------------------------------------------


IMAGES, IMAGE, SEQUENCES = (3, 8, 8), (2, 7, 7), (TOKENS, 4)
#: Name -> (how it is made, shape of an input; None: tokens).
FAMILIES = {
    "tokens that are mixed, in a block": (mixer, IMAGES),
    "tokens that are mixed, in a gate": (token_gate, IMAGES),
    "TransformerEncoder": (encoder, SEQUENCES),
    "TransformerEncoder, norms behind": (lambda: encoder(norm_first=False), SEQUENCES),
    "TransformerEncoder, causal": (lambda: encoder(causal=True), SEQUENCES),
    "TransformerEncoder, samples second": (lambda: encoder(batch_first=False), SEQUENCES),
    "TransformerEncoder on the input itself": (without_projection, (TOKENS, WIDTH)),
    "TransformerEncoder on the input itself, as many tokens as features": (without_projection, (WIDTH, WIDTH)),
    "TransformerEncoder on the input itself, samples second": (lambda: without_projection(False), (TOKENS, WIDTH)),
    "a skip from the pixels, channels last": (raw_skip, IMAGES),
    "a mask of keys": (lambda: reader("boolean keys"), None),
    "a mask of keys, added": (lambda: reader("added keys"), None),
    "a mask of pairs": (lambda: reader("boolean pairs"), None),
    "a mask of pairs, added": (lambda: reader("added pairs"), None),
    "a mask of pairs, torch's attention": (lambda: reader("boolean pairs, torch"), None),
    "a transposed weight and a cache": (lambda: cached(bias=True), None),
    "a transposed weight without a bias": (lambda: cached(bias=False), None),
    "grouped queries, repeated keys": (lambda: grouped_queries("repeated"), None),
    "grouped queries, expanded keys": (lambda: grouped_queries("expanded"), None),
    "grouped queries, by torch": (lambda: grouped_queries("torch"), None),
    "grouped queries, by torch, not rotated": (lambda: grouped_queries("torch, plain"), None),
    "grouped queries, repeated keys, not rotated": (lambda: grouped_queries("repeated, plain"), None),
    "grouped queries, logits of each token": (lambda: grouped_queries("repeated, each token"), None),
    "MultiheadAttention with a mask": (masked, SEQUENCES),
    "MultiheadAttention with a mask, weights not needed": (lambda: masked(need_weights=False), SEQUENCES),
    "language model, position ids in a buffer": (lambda: language_model("buffer"), None),
    "language model, position ids counted": (lambda: language_model("arange"), None),
    "language model, logits of each token by the table": (lambda: language_model("arange", tied=True), None),
    "encoder and decoder with one table": (lambda: translator(tied=False), None),
    "encoder, decoder and head with one table": (lambda: translator(tied=True), None),
    "images compared with texts": (compared, IMAGES),
    "shifted windows, a table of biases": (lambda: windows(mlp=False), IMAGES),
    "shifted windows, cosines, biases by a network and by two of three parts": (lambda: windows(mlp=True), IMAGES),
    "shifted windows in a function": (by_function_of_windows, IMAGES),
    "PReLU, one slope": (lambda: prelu(0), IMAGES),
    "PReLU, a slope for each neuron": (lambda: prelu(1), IMAGES),
    "BatchNorm before the head": (normed_head, IMAGES),
    "ConvTranspose": (lambda: upsampling(skip=False), IMAGES),
    "classes for each pixel, enlarged": (lambda: segmentation("one"), IMAGES),
    "classes for each pixel from two scales, one enlarged before its classifier": (
        lambda: segmentation("before"),
        IMAGES,
    ),
    "classes for each pixel from two scales, one enlarged behind it": (lambda: segmentation("behind"), IMAGES),
    "ConvTranspose inside of a block, without a bias": (lambda: upsampling(skip=True, bias=False), IMAGES),
    "tokens": (tokens, (7, 5)),
    **{f"tokens {kind}": (partial(tokens, kind), (7, 5)) for kind in ("bias", "gate", "pooled")},
    "three dimensions": (cubes, (2, 3, 3, 3)),
    "one dimension": (signals, (2, 12)),
    "probabilities": (lambda: Sequential(Linear(6, 5), ReLU(), Linear(5, 3), nn.LogSoftmax(1)), FLAT),
    "one output": (lambda: Sequential(Linear(6, 8), ReLU(), Linear(8, 1)), FLAT),
    "layers of tokens": (lambda: Sequential(Linear(6, 8), ReLU(), Linear(8, 4)), ROWS),
    **{name: (partial(written, code), FLAT) for name, (code, _) in SPELLED.items()},
    **{name: (partial(written, joined(join)), FLAT) for name, join in SUMS.items()},
    **{kind.__name__: (partial(activated, kind), FLAT) for kind in (nn.SELU, nn.Softshrink, nn.Tanhshrink, nn.RReLU)},
    **{name: (partial(Code, code, **parts), FLAT) for name, (code, parts, _) in STRUCTURED.items()},
    **{name: (partial(Code, code, **parts), shape) for name, (code, parts, shape) in BUFFERS.items()},
    **{name: (make, FLAT) for name, make in CLASSES_TWICE.items()},
    **{make.__name__: (make, IMAGE) for make in (inverted, aggregated, scaled, partly, dense, ghost, branches)},
    **{name: (make, IMAGE) for name, make in PARTED.items()},
    "split attention": (split_attention, IMAGE),
    "the largest of two layers in a stack": (
        partial(Code, lambda net, x: net.c(torch.stack([net.a(x), net.b(x)]).amax(0)), **two(), b=Linear(6, 8)),
        FLAT,
    ),
    **{name: (make, None if "head" in name else FLAT) for name, make in TIED.items()},
    **{name: (make, FLAT) for name, make in RAW.items()},
    "a norm whose vectors are the network's own": (normed_by_function, FLAT),
    "kernels that are parameters, InstanceNorm": (lambda: of_maps(lambda net, x: net.n(x)), IMAGE),
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
    "a transposed convolution": (partial(transposed, 1), IMAGES, {"0": 6, "2": 12, "4": 3, "6": 2}),
    "a transposed convolution of 2 groups": (partial(transposed, 2), IMAGES, {"0": 2, "4": 3, "6": 2}),
    "a transposed convolution of 6 groups": (partial(transposed, 6), IMAGES, {"0": 6, "4": 3, "6": 2}),
}


def of_spec(**spec):
    return lambda: initialised(build(spec, seed=0), 1)


def vision(make, **keywords):
    return lambda: initialised(getattr(torchvision.models, make)(**keywords), 1)


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
    "joined": (lambda: initialised(side_by_side(), 1), VGG_SHAPE),
    "gate in a chain": (lambda: initialised(gated(), 1), (6,)),
    "two heads": (lambda: initialised(early(JOINS["mean"], 8), 1), (6,)),
    "gated heads": (lambda: initialised(early(JOINS["gated"], 8), 1), (6,)),
    "torchvision vit": (vision_transformer, (3, 16, 16)),
    "torchvision vgg_bn": (lambda: small_torchvision_vgg(True).double(), VGG_SHAPE),
    "torchvision squeezenet": (vision("squeezenet1_1", num_classes=5), (3, 32, 32)),
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
