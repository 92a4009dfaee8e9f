"""Language models: masks of padding as a second input, logits of each token, weights that are the table of tokens."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from retrofit_core import METHODS, permuted
from retrofit_core.system.monitor import Monitor
from tests.families import TOKENS, WIDTH, Code, network
from tests.marks import ROOT, each_case, spread
from tests.networks import initialised, seeded
from tests.properties import assert_close, untouched
from tests.test_contract import options_for

pytestmark = pytest.mark.slow

LINEAR = ("KF-Linear", "HF-Linear")
#: A decoder as Llama's, and one as GPT-2's, whose head is the table of tokens.
CAUSAL = ("grouped queries, logits of each token", "language model, logits of each token by the table")


class Masked(Code):
    """A network with a second input, the mask of the tokens that are not padding."""

    def forward(self, input_ids, attention_mask):
        return self.code(self, input_ids, attention_mask)


def masked(causal, seed):
    """A block of a transformer; the classes of a text from the mean over its tokens, or the logits of each token."""

    def code(net, x, mask):
        h = net.tokens(x) + net.positions(torch.arange(x.shape[1], device=x.device))
        q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in net.qkv(net.norm(h)).chunk(3, 2))
        seen = mask[:, None, None, :].bool()
        seen = seen & net.causal if causal else seen
        h = h + net.out(F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(2))
        h = h + net.second(F.gelu(net.first(net.last(h))))
        weights = mask[..., None].to(h.dtype)
        return net.head(h if causal else (h * weights).sum(1) / weights.sum(1))

    layers = {
        "qkv": nn.Linear(WIDTH, 3 * WIDTH),
        "out": nn.Linear(WIDTH, WIDTH),
        "first": nn.Linear(WIDTH, 12),
        "second": nn.Linear(12, WIDTH),
        "head": nn.Linear(WIDTH, 7),
    }

    def make():
        tables = {"tokens": nn.Embedding(7, WIDTH), "positions": nn.Embedding(TOKENS, WIDTH)}
        norms = {"norm": nn.LayerNorm(WIDTH), "last": nn.LayerNorm(WIDTH)}
        return Masked(code, {"causal": torch.ones(TOKENS, TOKENS).tril().bool()}, **tables, **norms, **layers)

    return initialised(seeded(seed, make), seed)


def texts(side, count=40, fill=None, dtype=torch.int64):
    """Texts of two to five tokens, filled up on one side, with their masks; `fill`: the seed of what fills them up."""
    draw = torch.Generator().manual_seed(3)
    ids, lengths = torch.randint(1, 7, (count, TOKENS), generator=draw), torch.randint(2, 6, (count, 1), generator=draw)
    real = torch.arange(TOKENS) < lengths if side == "right" else torch.arange(TOKENS) >= TOKENS - lengths
    other = 0 if fill is None else torch.randint(7, ids.shape, generator=torch.Generator().manual_seed(fill))
    return {"input_ids": torch.where(real, ids, other), "attention_mask": real.to(dtype)}


@each_case(
    "method, causal, side, dtype",
    [
        ("KF-Linear", False, "right", torch.int64),
        ("HF-Linear", True, "right", torch.bool),
        ("OTFusion", True, "left", torch.float64),
    ],
)
def test_a_permuted_copy_is_found_again_with_a_mask_as_second_input(method, causal, side, dtype):
    model, data = masked(causal, 0), texts(side, dtype=dtype)
    twin = permuted(model, data, 3)
    options = {"ridge": 0.0} if method in LINEAR else {}
    with untouched(model, twin):
        fused = METHODS[method]([model, twin], data, device="cpu", **options).model
    fresh = texts(side, fill=4, dtype=dtype)
    real = fresh["attention_mask"].bool() if causal else slice(None)
    with torch.no_grad():
        assert_close(fused(**fresh)[real], model(**fresh)[real], 1e-6)


@each_case("method, causal, side", [("KF-Linear", False, "right"), ("HF-Linear", True, "left")])
def test_padding_does_not_count_as_samples(method, causal, side):
    """Whatever the tokens are that fill a text up, the fused network is the same."""
    parents = [masked(causal, seed) for seed in range(2)]
    fused = [METHODS[method](parents, texts(side, fill=fill), device="cpu").model for fill in (None, 4)]
    for one, other in zip(*(net.parameters() for net in fused), strict=True):
        assert_close(one, other, 1e-9)


def test_a_hidden_layer_is_least_squares_on_the_tokens_that_count():
    parents, data = [masked(True, seed) for seed in range(2)], texts("left")
    result = METHODS["KF-Linear"](parents, data, grouping="same_index", ridge=0.0, device="cpu")
    fused, (labels,) = result.model, [level.labels for level in result.levels if level.name == "first"]
    real, read, made = data["attention_mask"].bool(), [], []

    def note(layer, args, output):
        read.append(args[0][real])
        made.append(output[real])

    with torch.no_grad():
        for net in (*parents, fused):
            net.first.register_forward_hook(note)
            net(**data)
        x = torch.cat([read[2], torch.ones(len(read[2]), 1)], 1)
        solution = torch.linalg.lstsq(x, (made[0] + made[1]) / 2, driver="gelsd").solution
    assert_close(made[2][:, labels[:12]], x @ solution, 1e-9)


@pytest.mark.long
@each_case("method, name", [*spread(METHODS, CAUSAL, 1), ("LP", CAUSAL[1])])
def test_every_method_takes_logits_of_each_token_or_refuses_them_before_any_work(name, method):
    models, x = [network(name, seed)[0] for seed in range(2)], network(name)[1]
    classes = models[0](x).shape[2]
    following = torch.cat([x[:, 1:], torch.full((len(x), 1), -100)], 1) % classes
    following[:, -1] = -100
    events = []
    with untouched(*models):
        try:
            options = {**options_for(method), "monitor": Monitor(events.append)}
            fused = METHODS[method](models, (x, following), **options).model
        except ValueError as error:
            assert str(error).endswith(".") and not [event for event in events if event["kind"] != "phase"]
            assert (
                "class scores" in str(error)
                or "one tensor" in str(error)
                or "share the weights" in str(error)
                or "outside its layer" in str(error)
            )
            return
    with torch.no_grad():
        assert fused(x).shape == models[0](x).shape and fused(x).isfinite().all()


def of_transformers():
    """benchmarks/breadth_transformers.py, which makes twelve small networks of the package transformers."""
    if not importlib.util.find_spec("transformers") or not (ROOT / "benchmarks").exists():
        pytest.skip("needs the package transformers and benchmarks/ of the repository")
    sys.path.insert(0, str(Path(ROOT, "benchmarks")))
    try:
        return importlib.import_module("breadth_transformers")
    finally:
        sys.path.pop(0)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_networks_of_transformers_are_found_again(subtests):
    transformers = of_transformers()
    for name in transformers.TRANSFORMERS:
        for method in transformers.FINDING:
            with subtests.test(f"{name}, {method}"):
                assert transformers.found_again(name, method) <= 1e-6
