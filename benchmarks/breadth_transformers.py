"""Twelve small networks of the package transformers, each fused with a twin: the last section of docs/breadth.md.

python benchmarks/breadth_transformers.py      fuse all (pip install transformers; minutes) and write the page
"""

from typing import Any

import breadth
import torch
from breadth_table import table
from machine import write
from torch import Tensor, nn

from retrofit_core import METHODS, permuted

TOKENS, WORDS = 12, 99
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": WORDS,
    "max_position_embeddings": 64,
    "num_labels": breadth.CLASSES,
}
#: Class of transformers -> its configuration, the fields of a small one, and what it reads: tokens, or images of a size.
TRANSFORMERS: dict[str, tuple[str, dict[str, Any], int | None]] = {
    "BertForSequenceClassification": ("BertConfig", SMALL, None),
    "RobertaForSequenceClassification": ("RobertaConfig", SMALL, None),
    "DistilBertForSequenceClassification": (
        "DistilBertConfig",
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": WORDS, "num_labels": breadth.CLASSES},
        None,
    ),
    "BertForMaskedLM": ("BertConfig", SMALL, None),
    "GPT2LMHeadModel": (
        "GPT2Config",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": WORDS, "n_positions": 64},
        None,
    ),
    "LlamaForCausalLM": ("LlamaConfig", {**SMALL, "num_key_value_heads": 2}, None),
    "Qwen2ForCausalLM": ("Qwen2Config", {**SMALL, "num_key_value_heads": 2}, None),
    "T5ForConditionalGeneration": (
        "T5Config",
        {
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 4,
            "vocab_size": WORDS,
            "decoder_start_token_id": 0,
        },
        None,
    ),
    "ViTForImageClassification": ("ViTConfig", {**SMALL, "image_size": 32, "patch_size": 8}, 32),
    "CLIPModel": (
        "CLIPConfig",
        {
            "text_config": SMALL,
            "vision_config": {**SMALL, "image_size": 32, "patch_size": 8, "projection_dim": 16},
            "projection_dim": 16,
        },
        32,
    ),
    "SegformerForSemanticSegmentation": (
        "SegformerConfig",
        {
            "hidden_sizes": [16, 16, 32, 32],
            "depths": [1, 1, 1, 1],
            "decoder_hidden_size": 32,
            "num_attention_heads": [1, 1, 2, 2],
            "num_labels": breadth.CLASSES,
        },
        64,
    ),
    "ResNetForImageClassification": (
        "ResNetConfig",
        {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "num_labels": breadth.CLASSES},
        32,
    ),
}
#: Methods that must find a twin again, and their options.
FINDING: dict[str, dict[str, Any]] = {
    "HF-Linear": {"ridge": 0.0},
    "KF-Linear": {"ridge": 0.0},
    "Git-Re-Basin": {},
    "OTFusion": {},
}


class OneInput(nn.Module):
    """A network of transformers that takes one tensor and gives one."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        network = self.network
        if type(network).__name__ == "CLIPModel":
            tokens = torch.arange(2 * TOKENS, device=x.device).reshape(2, TOKENS) % WORDS
            return network(input_ids=tokens, pixel_values=x).logits_per_image
        if type(network).__name__ == "T5ForConditionalGeneration":
            return network(input_ids=x, decoder_input_ids=x).logits
        return network(x).logits


def transformers_network(name: str) -> tuple[nn.Module, Tensor]:
    """A small one with random weights, and inputs."""
    import transformers

    config, fields, size = TRANSFORMERS[name]
    torch.manual_seed(0)
    network = OneInput(getattr(transformers, name)(getattr(transformers, config)(**fields))).eval()
    samples = breadth.SAMPLES
    return network, torch.randint(WORDS, (samples, TOKENS)) if size is None else torch.randn(samples, 3, size, size)


def found_again(name: str, method: str) -> float:
    """By how much the outputs for new inputs differ, relative to the largest, where a network of transformers in double
    precision is fused with its twin, a copy with its neurons in another order."""
    network = transformers_network(name)[0].double()
    draw = torch.Generator().manual_seed(1)
    for parameter in network.parameters():  # many begin as constants, at which neurons cannot be told apart
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=draw, dtype=parameter.dtype)
    size = TRANSFORMERS[name][2]

    def inputs() -> Tensor:
        if size is None:
            return torch.randint(WORDS, (48, TOKENS), generator=draw)
        return torch.randn(300, 3, size, size, generator=draw).double()  # a layer of Segformer reads 1024 numbers

    fusion, new = inputs(), inputs()
    models = [network, permuted(network, fusion, seed=3)]
    fused = METHODS[method](models, fusion, device="cpu", **FINDING[method]).model
    with torch.no_grad():
        return relative(network(new), fused(new))


def relative(output: Tensor, other: Tensor) -> float:
    """Largest difference of two outputs, over the largest value."""
    return ((output - other).abs().max() / output.abs().max()).item()


def fused(name: str) -> dict[str, Any]:
    """Method -> the difference, or the reason why there is none."""
    answers: dict[str, Any] = {}
    for method in FINDING:
        try:
            answers[method] = float(f"{found_again(name, method):.1g}")
        except Exception as error:  # refused, or whatever the method's code raises
            answers[method] = breadth.said(error)
    return answers


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("transformers", {"transformers": [{"name": name, "fused": fused(name)} for name in TRANSFORMERS]})
    table(breadth.read("breadth"))
