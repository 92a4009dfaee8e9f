"""Which networks can be fused, and how: every classifier of torchvision, and small networks of timm, one of each family.

    python benchmarks/breadth.py                       both libraries (about an hour on one thread)
    python benchmarks/breadth.py --library timm        one of them (pip install timm)
    python benchmarks/breadth.py --only resnet18 vgg11 some networks; the record keeps the others as they were measured before
    python benchmarks/breadth.py --quick --record now  fuse nothing: whether networks are accepted (a tenth of the time)
    python benchmarks/breadth.py --table               write docs/breadth.md from the record, measure nothing

Each network gets random weights in double precision (those above LARGE in single), and a twin: the same network with its neurons
in another order. Asked is, with reasons where the answer is no:
- levels: how many there are between places where one tensor is alive, and of which kind; what had to be taken whole;
- aligned: whether the symmetry of its neurons is known, and Git Re-Basin finds the twin's order again, so that the mean of both
  is the network; OTFusion and ZipIt must accept it;
- closed form: whether KF-Linear accepts it, inside of its blocks or as a chain, and fuses network and twin to the network.
"""

import argparse
import gc
import math
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from breadth_table import table
from breadth_timm import TIMM
from machine import read, write
from torch import Tensor, nn

from retrofit_core.levels import partition, single_level
from retrofit_core.methods import METHODS
from retrofit_core.registry import first_line
from retrofit_core.symmetry import neuron_groups, shuffled

CLASSES, SAMPLES = 5, 6
#: Side of the images, the first at which a network runs.
SIZES = (64, 96, 128, 224, 240, 256)
#: Parameters from which on weights are float32, and from which on nothing is fused.
LARGE, LARGEST = 40_000_000, 150_000_000
#: Seconds of the processor for each of the three questions.
LIMIT = 60
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}
ALIGNING = ("Git-Re-Basin", "OTFusion", "ZipIt")


class OutOfTime(BaseException):
    """Not an Exception, for tracing catches those."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", choices=LIBRARIES, action="append", help="default: both")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="some networks")
    parser.add_argument("--quick", action="store_true", help="ask whether networks are accepted, and fuse nothing")
    parser.add_argument("--record", default="breadth", help="name in benchmarks/results")
    parser.add_argument("--table", action="store_true", help="write the table alone")
    arguments = parser.parse_args()
    content = read(arguments.record)
    for library in () if arguments.table else arguments.library or LIBRARIES:
        names = LIBRARIES[library][0]()
        rows = {row["name"]: row for row in content.get(library, []) if row["name"] in names}
        for name in names:
            if not arguments.only or name in arguments.only:
                rows[name] = looked_at(library, name, arguments.quick)
                print(summary(rows[name]), flush=True)
                content[library] = [rows[one] for one in names if one in rows]
        write(arguments.record, content)
    if arguments.record == "breadth":
        table(read("breadth"))


def torchvision_names() -> list[str]:
    """Every classifier of torchvision."""
    import torchvision

    return torchvision.models.list_models(module=torchvision.models)


def torchvision_network(name: str, size: int) -> nn.Module:
    """One of them, without pretrained weights."""
    import torchvision

    more: dict[str, Any] = {"image_size": size if size % 14 else 56} if name.startswith("vit_") else {}
    if name == "vit_h_14":
        more = {"image_size": 56}
    if name in ("googlenet", "inception_v3"):
        more = {"aux_logits": False, "init_weights": False}
    return torchvision.models.get_model(name, num_classes=CLASSES, **more)


def timm_network(name: str, size: int) -> nn.Module:
    """A network of timm, for images of this size if it can be told."""
    import timm

    try:
        return timm.create_model(name, num_classes=CLASSES, img_size=size)
    except TypeError:
        return timm.create_model(name, num_classes=CLASSES)


LIBRARIES: dict[str, tuple[Callable[[], list[str]], Callable[[str, int], nn.Module]]] = {
    "torchvision": (torchvision_names, torchvision_network),
    "timm": (lambda: list(TIMM), timm_network),
}


def looked_at(library: str, name: str, quick: bool = False) -> dict[str, Any]:
    """A row of the record.

    Args:
        quick: nothing is fused.
    """
    start = time.process_time()
    row: dict[str, Any] = {"name": name}
    try:
        with limited(2 * LIMIT):
            model, x = made(LIBRARIES[library][1], name)
    except (Exception, OutOfTime) as error:
        return {**row, "error": said(error)}
    row |= {"parameters": sum(p.numel() for p in model.parameters()), "size": x.shape[-1]}
    for question in (levels_of, aligned, closed_form):
        try:
            with limited(LIMIT):
                row[question.__name__] = question(model, x, quick)
        except (Exception, OutOfTime) as error:
            row[question.__name__] = {"reason": said(error)}
        gc.collect()
    return {**row, "seconds": round(time.process_time() - start, 1)}


def made(make: Callable[[str, int], nn.Module], name: str) -> tuple[nn.Module, Tensor]:
    """The network, and inputs of the first size that it takes."""
    for size in SIZES:
        torch.manual_seed(0)
        try:
            model = make(name, size).eval()
            size = 56 if name == "vit_h_14" else size
            x = torch.randn(SAMPLES, 3, size, size)
            with torch.no_grad():
                model(x[:1])
            break
        except Exception:
            if size == SIZES[-1]:
                raise
    large = sum(p.numel() for p in model.parameters()) > LARGE
    enlivened(model)
    return (model, x) if large else (model.double(), x.double())


@torch.no_grad()
def enlivened(model: nn.Module) -> None:
    """Random values where a network begins with constants, at which neurons could not be told apart."""
    generator = torch.Generator().manual_seed(1)
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not tensor.is_floating_point() or tensor.numel() < 2 or tensor.std() > 0:
            continue
        if name.endswith("running_var"):
            tensor.uniform_(0.5, 2, generator=generator)
        else:
            mean = tensor.mean().item()
            about = 0.0 if abs(mean) < 0.1 else mean  # the 1e-6 of layer scales says nothing
            tensor.copy_(about + 0.2 * torch.randn(tensor.shape, generator=generator))


def levels_of(model: nn.Module, x: Tensor, quick: bool) -> dict[str, Any]:
    """How many levels, how many of them affine, and what was taken whole."""
    levels = partition(model, x[:2])
    kinds = [level.kind for level in levels]
    if single_level(kinds):
        return {"reason": "one single level"}
    whole = [
        name
        for level in levels
        for name, module in level.module.named_modules()
        if name and foreign(module) and any(True for _ in module.parameters())
    ]
    return {"levels": len(levels), "affine": sum(kind != "not affine" for kind in kinds), "whole": sorted(set(whole))}


def foreign(module: nn.Module) -> bool:
    """Whether a module in a trace is none of torch's own layers."""
    return not type(module).__module__.startswith(("torch.nn", "torch.fx")) and type(module) is not nn.Module


def aligned(model: nn.Module, x: Tensor, quick: bool) -> dict[str, Any]:
    """Groups of neurons, the largest difference that a shuffled copy makes, and that of the mean of both once aligned."""
    groups = neuron_groups(model, x)
    facts: dict[str, Any] = {"groups": sum(not group.fixed for group in groups)}
    for method in () if quick else ALIGNING:
        METHODS[method].plan([model, model], x, device="cpu")
    if quick or size_of(model) > LARGEST:
        return {**facts, "not fused": "not asked" if quick else "too large"}
    twin = shuffled(model, x, torch.Generator().manual_seed(3))
    facts["twin"] = gap(model, METHODS["Git-Re-Basin"]([model, twin], x, device="cpu").model, x)
    if not facts["twin"] <= TOLERANCE[x.dtype]:
        facts["reason"] = f"the twin is not found again (outputs differ by {facts['twin']:.2g} of their size)"
    return facts


def closed_form(model: nn.Module, x: Tensor, quick: bool) -> dict[str, Any]:
    """Levels of the closed form, whether they lie inside of blocks, and the difference of the fused network to the network."""
    levels = METHODS["KF-Linear"].plan([model], x, device="cpu").levels
    facts: dict[str, Any] = {"levels": len(levels.fused), "inside": levels.branched}
    if quick or size_of(model) > LARGEST:
        return {**facts, "not fused": "not asked" if quick else "too large"}
    twin = shuffled(model, x, torch.Generator().manual_seed(3))
    facts["twin"] = gap(model, METHODS["KF-Linear"]([model, twin], x, ridge=0.0, device="cpu").model, x)
    if not facts["twin"] <= TOLERANCE[x.dtype]:
        facts["reason"] = f"the twin is not found again (outputs differ by {facts['twin']:.2g} of their size)"
    return facts


def size_of(model: nn.Module) -> int:
    """Number of parameters."""
    return sum(p.numel() for p in model.parameters())


@torch.no_grad()
def gap(model: nn.Module, other: nn.Module, x: Tensor) -> float:
    """The largest difference of their outputs, relative to the largest output."""
    expected = model(x)
    value = ((other(x) - expected).abs().max() / expected.abs().max().clamp_min(1e-12)).item()
    return float(f"{value:.2g}") if math.isfinite(value) else math.inf


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Ends what takes longer."""

    def stop(*_: Any) -> None:
        raise OutOfTime(f"not within {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of this process, whatever else the machine does
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def said(error: BaseException) -> str:
    """An error as a reason; of one that is no refusal also its kind and place."""
    if isinstance(error, (ValueError, OutOfTime)):
        return first_line(error)[:240]
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {place.name}: {first_line(error)}"[:240]


def summary(row: dict[str, Any]) -> str:
    """A row on one line."""
    words = [f"{row['name']:32}", row.get("error", "")]
    for question in ("levels_of", "aligned", "closed_form"):
        facts = row.get(question, {})
        words.append(f"{question}: {facts.get('reason', facts)}")
    return " | ".join(map(str, words))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
