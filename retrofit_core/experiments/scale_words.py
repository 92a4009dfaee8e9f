"""Differences from the paper in a column of a table, in words that need no list of scales."""

from collections.abc import Iterator
from inspect import signature
from typing import Any

from ..networks.architectures import parse
from ..networks.architectures.vgg import POOL
from ..networks.architectures.vit import ViT
from ..training.recipes import PAPER_EPOCHS, recipe
from .scales import USUAL, network, run_settings
from .setting import Setting

#: Names of some widths.
WIDTHS = {1.0: "full width", 0.5: "half width", 0.25: "a quarter of the width"}


def differences(setting: Setting) -> tuple[str, ...]:
    """Differences from the paper in networks, training, data and samples; empty if there are none."""
    if setting.scale.always is not None:
        return (setting.scale.sentence,)
    other = [f"{setting.data} in place of {setting.column.data}"] if setting.data != setting.column.data else []
    return (*_parents(setting), *other, *_work(setting))


def _parents(setting: Setting) -> Iterator[str]:
    """The parents' size and training, or what is known of given ones."""
    if setting.given is not None:
        yield f"given {setting.given.about or 'parents'}"
        return
    column, scale = setting.column, setting.column.scale(setting.scale)
    first = column.arch[0]
    printed, ours = parse(first), parse(network(first, scale, setting.data))
    if printed != ours:
        yield from _size(printed, ours)
    if scale.epochs is not None:
        network_and_data = (printed["architecture"], column.data)
        usual = ""
        if network_and_data in PAPER_EPOCHS:  # the paper prints no other epochs
            epochs = recipe("paper", column.data, architecture=network_and_data[0], parts=column.parts)["epochs"]
            usual = f" in place of {epochs}"
        yield f"{scale.epochs} epochs{usual}"


def _size(printed: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
    """A network's size relative to the paper's."""
    if ours["architecture"] == "vgg":
        widths = [next(item for item in spec["plan"] if item != POOL) for spec in (ours, printed)]
        yield _width(widths[0] / widths[1])
    elif ours["architecture"] == "resnet":
        yield _width(ours["width"] / 64)  # the usual width, which specs omit
    else:
        usual = {name: each.default for name, each in signature(ViT).parameters.items()} | printed
        of = [f" of {usual[name]}" if usual[name] > ours[name] else "" for name in ("hidden", "depth")]
        yield f"{ours['hidden']}{of[0]} channels, {ours['depth']}{of[1]} blocks"


def _width(share: float) -> str:
    return WIDTHS.get(share, f"{share:g} of the width")


def _work(setting: Setting) -> Iterator[str]:
    """Reductions in fusions, fine-tunings and measurements."""
    column, scale = setting.column, setting.column.scale(setting.scale)
    printed = column.settings.get("samples", USUAL)
    samples = run_settings(scale, column.settings)["samples"]
    if samples != printed:
        yield f"{samples:,} of {printed:,} fusion samples"
    if scale.fit_epochs is not None:
        yield f"at most {scale.fit_epochs} epochs a fit"
    if column.tuned and scale.finetune_epochs != type(scale).finetune_epochs:
        yield f"{scale.finetune_epochs} epochs of fine-tuning in place of {type(scale).finetune_epochs}"
    if scale.test_images is not None:
        yield f"{scale.test_images:,} test images"
