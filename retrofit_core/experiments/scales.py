"""SCALES: named sets of differences from the paper's settings, printed with every number."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..system.registry import find

#: CIFAR-10 stood in for CIFAR-100 when the ViTs were measured: such results are shown with a badge, and count for nothing.
STAND_IN = {"cifar100": "cifar10"}
#: Fusion samples, and samples of each parent for scores.
USUAL = 400


@dataclass(frozen=True)
class Scale:
    """Reductions of a table's settings; None and 1.0 keep the paper's."""

    name: str
    sentence: str
    """Differences from the paper, in words"""
    width: float = 1.0
    """Relative channels of VGGs, and of ResNets without `resnet_width`"""
    resnet_width: float | None = None
    """Relative channels of ResNets, except on digits, where they train in minutes at any width"""
    plan: tuple[int | str, ...] = ()
    """Replaces VGG11's plan, for images too small for it"""
    vit: Mapping[str, int] = field(default_factory=dict)
    """Replaced sizes of ViTs"""
    recipe: str = "paper"
    epochs: int | None = None
    """Epochs of the parents' training"""
    augment: str = "auto"
    """Augmentation in the parents' training"""
    share: float = 1.0
    """Fraction of the fusion samples, but at least 400 of them"""
    samples: int | None = None
    """Maximum fusion samples, and samples for scores"""
    fit_epochs: int | None = None
    """Maximum epochs of each gradient fit and of distillation"""
    finetune_epochs: int = 200
    test_images: int | None = None
    seeds: int = 5
    """Number of fusions of the same parents"""
    always: str | None = None
    """A single data set for everything"""
    many_fits: Mapping[str, Any] = field(default_factory=dict)
    """Fields replaced in columns whose rows are mostly gradient fits of ViTs"""


SCALES: dict[str, Scale] = {
    "smoke": Scale(
        "smoke",
        "digits, networks of a few neurons, two epochs: shows that everything runs, but says nothing about accuracy",
        width=0.0625,
        plan=(8, "M", 8, "M", 8),
        vit={"hidden": 12, "depth": 2, "heads": 2, "mlp_width": 16, "patch": 8},
        recipe="small",
        epochs=2,
        samples=40,
        fit_epochs=2,
        finetune_epochs=1,
        test_images=100,
        seeds=1,
        always="digits",
    ),
    "small": Scale(
        "small",
        "a quarter of the channels, 10 epochs with crop and flip, a fifth of the samples (at least 400), 20 epochs "
        "per fit, 2,000 test images",
        width=0.25,
        vit={"hidden": 96, "depth": 4, "heads": 3, "mlp_width": 192},
        recipe="short",
        epochs=10,
        augment="crop=4,flip",
        share=0.2,
        fit_epochs=20,
        finetune_epochs=3,
        test_images=2000,
        seeds=1,
    ),
    "evening": Scale(
        "evening",
        "half of the channels (a quarter in ResNets, except on digits), 30 epochs with crop and flip, 10 epochs of "
        "fine-tuning; in tables of ViTs 15 epochs, two fifths of the samples, 50 epochs per fit",
        width=0.5,
        resnet_width=0.25,  # training a ResNet-34 of half the channels takes two cores over two hours
        vit={"hidden": 192, "depth": 5, "heads": 6, "mlp_width": 192},
        recipe="short",
        epochs=30,
        augment="crop=4,flip",
        finetune_epochs=10,
        seeds=3,
        # with the paper's 5,000 samples and 100 epochs, a fit takes over an hour on a core, and a column has nine
        many_fits={"epochs": 15, "share": 0.4, "fit_epochs": 50},
    ),
    "paper": Scale("paper", "the paper's settings"),
}
#: Names of scales, the fullest first. `smoke`, which is not informative about accuracy, is shown only if there is nothing else.
BEST_FIRST = ("paper", "evening", "small", "smoke")
#: The scales that are informative about accuracy, the fullest first.
SAYING = BEST_FIRST[:-1]
#: What numbers of given parents say in place of a scale: "given VGG11s of half width, 8 epochs". They are fused as in the paper.
GIVEN = "given "


def scale_of(name: str) -> Scale:
    """The scale of this name; raises ValueError if unknown."""
    return find(SCALES, name, "scale")
