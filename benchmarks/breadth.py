"""Which networks can be fused, and how: every classifier of torchvision, and small networks of timm, one of each family.

    python benchmarks/breadth.py                       ask all networks of both libraries (half an hour on one thread)
    python benchmarks/breadth.py --library timm        one of them (pip install timm)
    python benchmarks/breadth.py --only resnet18 vgg11 some networks; the record keeps the others as they were measured before
    python benchmarks/breadth.py --refused             those again that the record refuses something, that question alone
    python benchmarks/breadth.py --fuse                fuse those that are accepted with a twin, the smallest first
    python benchmarks/breadth.py --table               write docs/breadth.md from the record, measure nothing

Each network gets random weights. Asked is, with reasons where the answer is no:
- levels: how many a gradient fit has, and how many of them are one layer;
- aligned: whether the symmetry of its neurons is known, so that a copy with reordered neurons computes the same;
- closed form: whether KF-Linear accepts it, inside of its blocks or as a chain.

With --fuse, in double precision: whether Git Re-Basin finds the order of a twin again (the same network with its neurons in
another order), so that the mean of both is the network, and OTFusion and ZipIt accept both; and whether KF-Linear without a
ridge makes the network of both.
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
from breadth_table import TOLERANCE, table
from machine import read, write
from torch import Tensor, nn

from retrofit_core import permuted
from retrofit_core.baselines.groups import groups_of
from retrofit_core.graph.blocks import in_blocks
from retrofit_core.graph.network import networks_of
from retrofit_core.methods import METHODS
from retrofit_core.system.registry import first_line

CLASSES, SAMPLES = 5, 6
#: Small networks of timm 1.0, one of nearly every family; families whose smallest network has more than 50 million weights are
#: left out, but for VGG.
TIMM = """
    cait_xxs24_224 coat_tiny convit_tiny convmixer_768_32 convnext_atto cpubone_nano crossvit_tiny_240
    cs3darknet_focus_s csatv2 cspnext_tiny davit_tiny deit_tiny_patch16_224 densenet121 dla46x_c dpn48b
    edgenext_xx_small efficientformer_l1 efficientformerv2_s0 efficientnet_lite0 efficientvim_m1 efficientvit_b0
    efficientvit_m0 ese_vovnet19b_slim_dw fasternet_t0 fastvit_t8 focalnet_tiny_srf gcvit_xxtiny ghostnet_050
    gmlp_ti16_224 halonet_h1 hardcorenas_b hgnetv2_b0 hiera_tiny_224 hrnet_w18_small iformer_t inception_next_atto
    inception_v3 inception_v4 lcnet_035 lcnetv2_small legacy_seresnet18 legacy_xception levit_128s lowformer_b0
    mambaout_femto mixer_s32_224 mobilenetv3_small_050 mobilevit_xxs mvitv2_tiny nest_tiny nextvit_small pit_ti_224
    poolformer_s12 poolformerv2_s12 pvt_v2_b0 rdnet_tiny regnetx_002 repghostnet_050 repvgg_a0 repvit_m1 res2next50
    resmlp_12_224 resnest14d resnet18 resnetv2_18 rexnet_100 sam2_hiera_tiny selecsls42 sequencer2d_s shvit_s1
    skresnet18 starnet_s050 swiftformer_xs swin_tiny_patch4_window7_224 swinv2_cr_tiny_224 swinv2_tiny_window8_256
    test_coatnet test_nfnet test_vit_relpos tiny_vit_5m_224 tnt_s_legacy_patch16_224 tresnet_m twins_svt_small vgg11
    visformer_tiny vit_tiny_patch16_224 vit_tiny_patch16_dinov3_qkvb vit_tiny_r_s16_p8_224 vitamin_small_224 volo_d1_224
    xception41p xcit_nano_12_p8_224
""".split()  # noqa: SIM905 - a line for each would be long
#: Side of the images, the first at which a network runs.
SIZES = (64, 96, 128, 224, 240, 256)
#: Parameters from which on nothing is fused.
LARGEST = 60_000_000
#: Parameters from which on a network is not tried.
MOST = 320_000_000
#: Seconds of the processor for each question.
LIMIT = 120


class OutOfTime(BaseException):
    """Not an Exception, for tracing catches those."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", choices=LIBRARIES, action="append", help="default: both")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="some networks")
    parser.add_argument("--missing", action="store_true", help="networks that the record does not have yet")
    parser.add_argument("--refused", action="store_true", help="ask again what the record refuses")
    parser.add_argument("--fuse", action="store_true", help="fuse what is accepted and was not fused yet with a twin")
    parser.add_argument("--record", default="breadth", help="name in benchmarks/results")
    parser.add_argument("--table", action="store_true", help="write the table alone")
    arguments = parser.parse_args()
    for library in () if arguments.table else arguments.library or LIBRARIES:
        names = LIBRARIES[library][0]()
        rows = {row["name"]: row for row in read(arguments.record).get(library, []) if row["name"] in names}
        chosen = [name for name in names if not arguments.only or name in arguments.only]
        chosen = [name for name in chosen if not (arguments.missing and name in rows)]
        if arguments.fuse:
            chosen = sorted(
                (name for name in chosen if unfused(rows.get(name))), key=lambda name: rows[name]["parameters"]
            )
        if arguments.refused:
            chosen = [name for name in chosen if refused(rows.get(name))]
        for name in chosen:
            if arguments.fuse:
                rows[name] = fused(library, rows[name])
            else:
                rows[name] = looked_at(library, name, rows[name] if arguments.refused else None)
            print(summary(rows[name]), flush=True)
            write(arguments.record, {**read(arguments.record), library: [rows[one] for one in names if one in rows]})
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
    "timm": (lambda: TIMM, timm_network),
}


def looked_at(library: str, name: str, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """A row of the record.

    Args:
        before: the row as it stands, of which what is refused is asked again.
    """
    start = time.process_time()
    row: dict[str, Any] = {"name": name}
    weights = counted(LIBRARIES[library][1], name)
    if weights > MOST:
        return {**row, "parameters": weights, "untried": True}
    try:
        with limited(2 * LIMIT):
            model, x = made(LIBRARIES[library][1], name)
    except (Exception, OutOfTime) as error:
        return {**row, "error": said(error)}
    row |= {"parameters": sum(p.numel() for p in model.parameters()), "size": x.shape[-1]}
    for question in QUESTIONS:
        known = (before or {}).get(question.__name__, {"reason": ""})
        row[question.__name__] = known if "reason" not in known else answered(question, model, x[:2])
    return {**row, "seconds": round(time.process_time() - start, 1)}


def counted(make: Callable[[str, int], nn.Module], name: str) -> int:
    """How many weights a network has; 0 where it cannot be made without memory."""
    try:
        with torch.device("meta"):
            return sum(p.numel() for p in make(name, SIZES[0]).parameters())
    except Exception:
        return 0


def refused(row: dict[str, Any] | None) -> bool:
    """Whether the record refuses something of a network."""
    return row is not None and any("reason" in row.get(question.__name__, {}) for question in QUESTIONS)


def answered(question: Callable[[nn.Module, Tensor], dict[str, Any]], model: nn.Module, x: Tensor) -> dict[str, Any]:
    """The facts, or the reason why there are none."""
    gc.collect()
    try:
        with limited(LIMIT):
            return question(model, x)
    except (Exception, OutOfTime) as error:
        return {"reason": said(error)}


def unfused(row: dict[str, Any] | None) -> bool:
    """Whether a network was accepted, is not too large, and was not fused yet."""
    tried = row is not None and "levels_of" in row and row["parameters"] <= LARGEST
    facts = [row["aligned"], row["closed_form"]] if row is not None and tried else []
    return any("reason" not in answer and "twin" not in answer for answer in facts)


def fused(library: str, row: dict[str, Any]) -> dict[str, Any]:
    """The row of a network that was accepted, with what comes of fusing it with a twin."""
    model, x = made(LIBRARIES[library][1], row["name"])
    model, x = model.double(), x.double()
    new = {}
    for name, question in (("aligned", realigned), ("closed_form", refitted)):
        if "reason" not in row[name] and "twin" not in row[name]:
            new[name] = {**row[name], **answered(question, model, x)}
    return {**row, **new}


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
    enlivened(model)
    return model, x


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


def levels_of(model: nn.Module, x: Tensor) -> dict[str, Any]:
    """How many levels of a gradient fit, and how many of them are one layer."""
    (net,) = networks_of([model], x)
    blocks, ends = in_blocks(net).layers, {layer.end for layer in net.layers}
    if len(blocks) == 1:
        return {"reason": "one single level"}
    return {"levels": len(blocks), "affine": sum(block.end in ends for block in blocks)}


def aligned(model: nn.Module, x: Tensor) -> dict[str, Any]:
    """Groups of neurons; that a copy in another order computes the same is checked when they are read off."""
    (net,) = networks_of([model], x, parts=False)
    groups = sum(not group.fixed and group.width > 1 for group in groups_of(net, model))
    return {"groups": groups} if groups else {"reason": "no neurons may change places"}


def closed_form(model: nn.Module, x: Tensor) -> dict[str, Any]:
    """Levels of the closed form, and whether they lie inside of blocks."""
    fused = METHODS["KF-Linear"].plan([model, model], x, device="cpu").fusion.fused
    return {"levels": len(fused.layers), "inside": fused.branched}


#: What is asked of each network.
QUESTIONS = (levels_of, aligned, closed_form)


def realigned(model: nn.Module, x: Tensor) -> dict[str, Any]:
    """The difference that the mean of network and twin makes, once their neurons are aligned."""
    twin = permuted(model, x, 3)
    for method in ("OTFusion", "ZipIt"):
        METHODS[method].plan([model, twin], x, device="cpu")
    return compared(model, METHODS["Git-Re-Basin"]([model, twin], x, device="cpu").model, x)


def refitted(model: nn.Module, x: Tensor) -> dict[str, Any]:
    """The same of the closed form without a ridge."""
    twin = permuted(model, x, 3)
    return compared(model, METHODS["KF-Linear"]([model, twin], x, ridge=0.0, device="cpu").model, x)


def compared(model: nn.Module, other: nn.Module, x: Tensor) -> dict[str, Any]:
    """How far another network is from a network."""
    facts: dict[str, Any] = {"twin": gap(model, other, x)}
    if not facts["twin"] <= TOLERANCE:
        facts["reason"] = f"the twin is not found again (outputs differ by {facts['twin']:.2g} of their size)"
    return facts


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
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {frame.name}: {first_line(error)}"[:240]


def summary(row: dict[str, Any]) -> str:
    """A row on one line."""
    words = [f"{row['name']:32}", row.get("error", "not tried" * ("untried" in row))]
    for question in ("levels_of", "aligned", "closed_form"):
        facts = row.get(question, {})
        words.append(f"{question}: {facts.get('reason', facts)}")
    return " | ".join(map(str, words))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
