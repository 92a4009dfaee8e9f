"""Two front ends side by side, the project's trace and `torch.export`: torchvision, timm, twelve networks of transformers.

    python benchmarks/traces.py                        all (pip install timm transformers); about an hour on one thread
    python benchmarks/traces.py --library transformers one of them
    python benchmarks/traces.py --only resnet18 vgg11  some networks; the record keeps the others
    python benchmarks/traces.py --fuse                 fuse those of transformers with a twin, and write docs/breadth.md
    python benchmarks/traces.py --table                print the record, measure nothing

Asked of each: is the network accepted, does its graph give the network's outputs, also for another number of samples, and
how long does it take. Export is not strict, leaves the number of samples free, and is functional (`run_decompositions({})`).
Seconds are those of the processor. What is opaque in the project's trace are modules with weights that are not of torch.nn.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import breadth
import torch
from breadth_table import table as page
from machine import read, write
from torch import Tensor, nn

from retrofit_core import METHODS, permuted
from retrofit_core.networks.levels import trace_classifier
from retrofit_core.networks.levels.kinds import held
from retrofit_core.networks.levels.tracing import Interpreter, Trace

TOLERANCE = 1e-5
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


def fused(name: str) -> dict[str, Any]:
    """Method -> the difference, or the reason why there is none."""
    answers: dict[str, Any] = {}
    for method in FINDING:
        try:
            answers[method] = float(f"{found_again(name, method):.1g}")
        except Exception as error:  # refused, or whatever the method's code raises
            answers[method] = breadth.said(error)
    return answers


def names(library: str) -> list[str]:
    return list(TRANSFORMERS) if library == "transformers" else breadth.LIBRARIES[library][0]()


def network(library: str, name: str) -> tuple[nn.Module, Tensor]:
    """The network in evaluation mode, and six samples."""
    return (
        transformers_network(name) if library == "transformers" else breadth.made(breadth.LIBRARIES[library][1], name)
    )


def traced(model: nn.Module, x: Tensor) -> tuple[Callable[[Tensor], Tensor], dict[str, Any]]:
    """The project's trace as a function, and what it says of itself."""
    trace: Trace = trace_classifier(model, x[:2])
    opaque = {
        str(node.target)
        for node in trace.graph.nodes
        if isinstance(module := held(node), nn.Module)
        and breadth.foreign(module)
        and any(True for _ in module.parameters())
    }
    kinds = {str(node.target) for node in trace.graph.nodes if node.op in ("call_function", "call_method")}
    return Interpreter(trace.graph).run, {
        "nodes": len(trace.graph.nodes),
        "kinds": len(kinds),
        "opaque": sorted(opaque),
    }


def exported(model: nn.Module, x: Tensor) -> tuple[Callable[[Tensor], Tensor], dict[str, Any]]:
    """The graph of torch.export as a function, and what it says of itself."""
    free = ({0: torch.export.Dim("samples", min=2, max=4096)},)
    program = torch.export.export(model, (x[:2],), dynamic_shapes=free, strict=False).run_decompositions({})
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    return program.module(), {"nodes": len(calls), "kinds": sorted({str(node.target) for node in calls})}


def asked(front_end: Callable, model: nn.Module, x: Tensor) -> dict[str, Any]:
    """Whether a front end accepts the network, and gives its outputs."""
    start = time.process_time()
    call, facts = front_end(model, x)
    seconds = round(time.process_time() - start, 2)
    with torch.no_grad():
        gaps = [relative(model(batch), call(batch)) for batch in (x[:2], x[:5])]
    return {**facts, "seconds": seconds, "equal": gaps[0] <= TOLERANCE, "free": gaps[1] <= TOLERANCE}


def relative(output: Any, other: Any) -> float:
    """Largest difference of two outputs, over the largest value; infinity where they are of different shapes."""
    output, other = (value.logits if hasattr(value, "logits") else value for value in (output, other))
    if output.shape != other.shape:
        return float("inf")
    return ((output - other).abs().max() / output.abs().max()).item()


def table(record: dict[str, Any]) -> str:
    """A line a library."""
    lines = [
        "| library | networks | trace: accepted, equal, any batch, nothing opaque; s | export: the same; s |",
        "| --- | --- | --- | --- |",
    ]
    for library, rows in record.items():
        if library.startswith("machine"):
            continue
        cells = []
        for name in ("traced", "exported"):
            answers = [row[name] for row in rows if name in row and "reason" not in row[name]]
            counts = [
                sum(test(answer) for answer in answers)
                for test in (
                    lambda _: True,
                    lambda a: a["equal"],
                    lambda a: a["free"],
                    lambda a: a["free"] and not a.get("opaque"),
                )
            ]
            cells.append(f"{', '.join(map(str, counts))}; {sum(answer['seconds'] for answer in answers):.0f}")
        lines.append(f"| {library} | {len(rows)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    libraries = (*breadth.LIBRARIES, "transformers")
    parser.add_argument("--library", choices=libraries, action="append", help="default: all")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="some networks")
    parser.add_argument(
        "--fuse", action="store_true", help="fuse networks of transformers with twins, measure nothing else"
    )
    parser.add_argument("--table", action="store_true", help="print the table alone")
    arguments = parser.parse_args()
    if arguments.fuse:
        rows = [{**row, "fused": fused(row["name"])} for row in read("traces")["transformers"]]
        write("traces", {**read("traces"), "transformers": rows})
        page(read("breadth"))
        return
    for library in () if arguments.table else arguments.library or libraries:
        rows = {row["name"]: row for row in read("traces").get(library, [])}
        for name in names(library):
            if (arguments.only and name not in arguments.only) or breadth_is_too_large(library, name):
                continue
            try:
                model, x = network(library, name)
            except Exception as error:
                rows[name] = {"name": name, "error": breadth.said(error)}
                continue
            rows[name] = {"name": name, "fused": rows.get(name, {}).get("fused", {})}
            for front_end in (traced, exported):
                rows[name][front_end.__name__] = breadth.answered(
                    lambda model, x, ask=front_end: asked(ask, model, x), model, x
                )
            print(name, {key: {**value, "kinds": 0} for key, value in rows[name].items() if key != "name"}, flush=True)
            write("traces", {**read("traces"), library: [rows[one] for one in names(library) if one in rows]})
    print(table(read("traces")))


def breadth_is_too_large(library: str, name: str) -> bool:
    return library != "transformers" and breadth.counted(breadth.LIBRARIES[library][1], name) > breadth.MOST


if __name__ == "__main__":
    main()
