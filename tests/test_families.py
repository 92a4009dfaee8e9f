"""Families of networks whose closed form was opened one after the other: each finds its reordered twin again."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from retrofit_core import METHODS
from tests.marks import each_case
from tests.networks import initialised, normal, seeded, shuffled
from tests.properties import assert_same_function

WIDTH, TOKENS, CLASSES = 8, 5, 3


class Code(nn.Module):
    """Layers by name, joined by a function of the module and its input."""

    def __init__(self, code, buffers=None, **layers):
        super().__init__()
        self.code = code
        for name, layer in layers.items():
            setattr(self, name, layer)
        for name, tensor in (buffers or {}).items():
            self.register_buffer(name, tensor)

    def forward(self, x):
        return self.code(self, x)


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
        embed=nn.Linear(4, WIDTH),
        positions=nn.Parameter(torch.randn(TOKENS, WIDTH) if batch_first else torch.randn(1, TOKENS, WIDTH)),
        encoder=nn.TransformerEncoder(layer, 1, enable_nested_tensor=False),
        head=nn.Linear(WIDTH, CLASSES),
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
        embed=nn.Linear(4, WIDTH),
        norm=nn.LayerNorm(WIDTH),
        attention=nn.MultiheadAttention(WIDTH, 2, batch_first=True),
        head=nn.Linear(WIDTH, CLASSES),
    )


def without_projection(batch_first=True):
    """torch's own layers on the input itself: a skip begins at its features, which no layer made."""

    def code(net, x):
        h = net.encoder(x if batch_first else x.transpose(0, 1))
        return net.head((h if batch_first else h.transpose(0, 1)).mean(1))

    layer = nn.TransformerEncoderLayer(WIDTH, 2, 12, batch_first=batch_first)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return Code(code, encoder=encoder, head=nn.Linear(WIDTH, CLASSES))


def raw_skip(channels_first):
    """A skip from the pixels themselves, around a convolution or around linear layers over channels."""

    def code(net, x):
        if channels_first:
            return net.head((x + net.second(net.first(x).relu())).relu().mean((2, 3)))
        x = x.permute(0, 2, 3, 1)
        return net.head((x + net.second(net.first(x).relu())).relu().mean((1, 2)))

    if channels_first:
        layers = {"first": nn.Conv2d(3, 6, 3, padding=1), "second": nn.Conv2d(6, 3, 3, padding=1)}
    else:
        layers = {"first": nn.Linear(3, 6), "second": nn.Linear(6, 3)}
    return Code(code, head=nn.Linear(3, CLASSES), **layers)


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

    blocks = nn.ModuleList(
        nn.ModuleList(make() for _ in range(2))
        for make in (
            lambda: nn.LayerNorm(WIDTH),
            lambda: nn.Linear(WIDTH, 3 * WIDTH),
            lambda: nn.Linear(WIDTH, WIDTH),
            lambda: nn.LayerNorm(WIDTH),
            lambda: nn.Linear(WIDTH, 12),
            lambda: nn.Linear(12, WIDTH),
        )
    )
    return Code(code, tokens=nn.Embedding(7, WIDTH), blocks=blocks, head=nn.Linear(WIDTH, CLASSES))


class Turned(nn.Module):
    """A linear layer as GPT-2 has it: its weight is transposed, and samples and tokens are flattened around the product."""

    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs)) if bias else None

    def forward(self, x):
        if self.bias is None:
            return x @ self.weight
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(x.size()[:-1] + self.bias.shape)


def cached(bias):
    """A block of GPT-2, whose keys and values are appended to a cache that starts from empty tensors."""

    def code(net, x):
        h = net.tokens(x) + net.positions
        q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in net.qkv(net.norm(h)).split(WIDTH, 2))
        k, v = (torch.cat([torch.empty(0), part], dim=-2) for part in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + net.out(mixed.transpose(1, 2).reshape(*h.shape))
        h = h + net.second(F.gelu(net.first(net.last(h))))
        return net.head(h[:, -1])

    return Code(
        code,
        tokens=nn.Embedding(7, WIDTH),
        positions=nn.Parameter(torch.randn(TOKENS, WIDTH)),
        norm=nn.LayerNorm(WIDTH),
        qkv=Turned(WIDTH, 3 * WIDTH, bias),
        out=Turned(WIDTH, WIDTH, bias),
        last=nn.LayerNorm(WIDTH),
        first=Turned(WIDTH, 12, bias),
        second=Turned(12, WIDTH, bias),
        head=nn.Linear(WIDTH, CLASSES),
    )


def grouped_queries(way):
    """A block of Llama: four heads of queries share two heads of keys and values; rotated queries and keys; gated neurons."""

    def rotated(h):
        angles = torch.arange(h.shape[2])[:, None] * torch.tensor([1.0, 0.3], dtype=h.dtype)
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
        return net.head(h[:, -1])

    return Code(
        code,
        tokens=nn.Embedding(7, WIDTH),
        norm=nn.RMSNorm(WIDTH),
        q=nn.Linear(WIDTH, 16, bias=False),
        k=nn.Linear(WIDTH, 8, bias=False),
        v=nn.Linear(WIDTH, 8, bias=False),
        out=nn.Linear(16, WIDTH, bias=False),
        last=nn.RMSNorm(WIDTH),
        gate=nn.Linear(WIDTH, 12, bias=False),
        up=nn.Linear(WIDTH, 12, bias=False),
        down=nn.Linear(12, WIDTH, bias=False),
        head=nn.Linear(WIDTH, CLASSES),
    )


def language_model(positions):
    """Tokens and positions that are looked up, a causal mask in a buffer, and the logits of the last token."""

    def code(net, x):
        ids = {"buffer": lambda: net.ids[:, : x.shape[1]], "arange": lambda: torch.arange(x.shape[1], device=x.device)}
        h = net.tokens(x) + net.positions(ids[positions]())
        q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in net.qkv(net.norm(h)).chunk(3, 2))
        maps = (q @ k.transpose(-2, -1) / math.sqrt(4)).masked_fill(net.mask == 0, -math.inf).softmax(-1)
        h = h + net.out((maps @ v).transpose(1, 2).flatten(2))
        h = h + net.second(F.gelu(net.first(net.last(h))))
        return net.head(h[:, -1])

    return Code(
        code,
        {"ids": torch.arange(TOKENS)[None], "mask": torch.ones(TOKENS, TOKENS).tril()},
        tokens=nn.Embedding(7, WIDTH),
        positions=nn.Embedding(TOKENS, WIDTH),
        norm=nn.LayerNorm(WIDTH),
        qkv=nn.Linear(WIDTH, 3 * WIDTH),
        out=nn.Linear(WIDTH, WIDTH),
        last=nn.LayerNorm(WIDTH),
        first=nn.Linear(WIDTH, 12),
        second=nn.Linear(12, WIDTH),
        head=nn.Linear(WIDTH, 7, bias=False),
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
        {"first": nn.Linear(2, 6), "second": nn.Linear(6, 2, bias=False), "scale": nn.Parameter(torch.rand(2, 1, 1))}
        | {f"{part}_bias": nn.Parameter(torch.randn(WIDTH)) for part in "qv"}
        if mlp
        else {"table": nn.Parameter(torch.randn(9, 2))}
    )
    return Code(
        code,
        {"index": index, "shift": shift, "coordinates": coordinates, "k_bias": torch.zeros(WIDTH)},
        stem=nn.Conv2d(3, WIDTH, 2, stride=2),
        norm=nn.LayerNorm(WIDTH),
        qkv=nn.Linear(WIDTH, 3 * WIDTH, bias=not mlp),
        out=nn.Linear(WIDTH, WIDTH),
        down=nn.Linear(WIDTH, 10),
        up=nn.Linear(10, WIDTH),
        head=nn.Linear(WIDTH, CLASSES),
        **tables,
    )


def prelu(count):
    """Slopes that are learned: one for each neuron, or one for all."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3),
        nn.BatchNorm2d(6),
        nn.PReLU(6 if count else 1),
        nn.Conv2d(6, WIDTH, 3),
        nn.PReLU(WIDTH if count else 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(WIDTH, CLASSES),
    )


def normed_head():
    """A BatchNorm before the layer that makes the classes, and a learned factor of all neurons."""
    code = lambda net, x: net.head(net.norm(net.factor * net.conv(x).relu().mean((2, 3))))  # noqa: E731
    parts = {"conv": nn.Conv2d(3, WIDTH, 3), "norm": nn.BatchNorm1d(WIDTH), "factor": nn.Parameter(torch.tensor([1.5]))}
    return Code(code, head=nn.Linear(WIDTH, CLASSES), **parts)


def upsampling(skip, **options):
    """Maps that are made larger by a transposed convolution with a BatchNorm behind it, and smaller again."""

    def code(net, x):
        h = net.stem(x).relu()
        y = net.down(net.norm(net.up(h)).relu())
        return net.head((h + y if skip else y).relu().mean((2, 3)))

    return Code(
        code,
        stem=nn.Conv2d(3, 6, 3, stride=2, padding=1),
        up=nn.ConvTranspose2d(6, WIDTH, 3, stride=2, padding=1, output_padding=1, **options),
        norm=nn.BatchNorm2d(WIDTH),
        down=nn.Conv2d(WIDTH, 6, 3, stride=2, padding=1),
        head=nn.Linear(6, CLASSES),
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

    layers = {} if way == "one" else {"of_low": nn.Conv2d(6, CLASSES, 1)}
    return Code(
        code,
        first=nn.Conv2d(3, 6, 3, stride=2, padding=1),
        second=nn.Conv2d(6, WIDTH, 3, stride=2, padding=1),
        of_high=nn.Conv2d(WIDTH, CLASSES, 1),
        **layers,
    )


IMAGES, SEQUENCES = (3, 8, 8), (TOKENS, 4)
#: Name -> (how it is made, shape of an input).
FAMILIES = {
    "TransformerEncoder": (encoder, SEQUENCES),
    "TransformerEncoder, norms behind": (lambda: encoder(norm_first=False), SEQUENCES),
    "TransformerEncoder, causal": (lambda: encoder(causal=True), SEQUENCES),
    "TransformerEncoder, samples second": (lambda: encoder(batch_first=False), SEQUENCES),
    "TransformerEncoder on the input itself": (without_projection, (TOKENS, WIDTH)),
    "TransformerEncoder on the input itself, as many tokens as features": (without_projection, (WIDTH, WIDTH)),
    "TransformerEncoder on the input itself, samples second": (lambda: without_projection(False), (TOKENS, WIDTH)),
    "a skip from the pixels": (lambda: raw_skip(channels_first=True), IMAGES),
    "a skip from the pixels, channels last": (lambda: raw_skip(channels_first=False), IMAGES),
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
    "MultiheadAttention with a mask": (masked, SEQUENCES),
    "MultiheadAttention with a mask, weights not needed": (lambda: masked(need_weights=False), SEQUENCES),
    "language model, position ids in a buffer": (lambda: language_model("buffer"), None),
    "language model, position ids counted": (lambda: language_model("arange"), None),
    "shifted windows, a table of biases": (lambda: windows(mlp=False), IMAGES),
    "shifted windows, cosines, biases by a network and by two of three parts": (lambda: windows(mlp=True), IMAGES),
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
}


def network(name, seed=0):
    """A network of a family in float64 and evaluation mode, and inputs."""
    make, shape = FAMILIES[name]
    model = initialised(seeded(seed, make), seed).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # some begin as constants, at which neurons cannot be told apart
            if parameter.numel() > 1 and parameter.std() == 0:
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    x = torch.randint(7, (40, TOKENS), generator=torch.Generator().manual_seed(2)) if shape is None else None
    return model, normal(40, *shape) if x is None else x


@each_case("method", ["KF-Linear", "HF-Linear"])
@each_case("name", FAMILIES)
def test_a_twin_is_found_again(name, method):
    """Also in a network of other weights: nothing of the parents' function is there before."""
    model, x = network(name)
    twin, target = shuffled(model, x), network(name, seed=1)[0]
    assert_same_function(twin, model, x, 1e-9)
    result = METHODS[method]([model, twin], x, target=target, ridge=0.0, device="cpu")
    assert_same_function(result.model, model, x, 1e-6)


def with_linear_layers(model):
    """A copy in which transposed layers are torch's."""
    model = copy.deepcopy(model)
    for name, child in model.named_children():
        if isinstance(child, Turned):
            layer = nn.Linear(*child.weight.shape, bias=child.bias is not None).to(child.weight)
            layer.load_state_dict({**child.state_dict(), "weight": child.weight.T})
            setattr(model, name, layer)
    return model


@each_case("bias", [True, False])
@pytest.mark.parametrize("method", ["RegMean", "PLeaS", "ZipIt", "Git-Re-Basin", "OTFusion", "Transformer-OTFusion"])
def test_a_transposed_weight_is_a_linear_layer(method, bias):
    """Its neurons are compared, and its weights solved, as those of the same network with torch's layers."""
    parents = [seeded(seed, cached, bias).double().eval() for seed in range(2)]
    tokens = torch.randint(0, 7, (60, TOKENS), generator=torch.Generator().manual_seed(0))
    results = [
        METHODS[method](models, tokens, device="cpu") for models in (parents, list(map(with_linear_layers, parents)))
    ]
    assert_same_function(results[0].model, results[1].model, tokens, 1e-9)
    assert results[0].config.get("layers") == results[1].config.get("layers")
