"""Beyond the paper: the closed form inside blocks. Ours; the paper has no such table."""

from .ablation import ABLATION, Change
from .cells import Column, Table

FUSED = "KF-Linear, conductance"
TOWARD, OF_BOTH = ", towards parents", ", all data"
#: Gradient fits of whole blocks, and the closed forms inside them.
BLOCKS = {"HF-Gradient": "HF-Linear", "KF-Gradient": "KF-Linear"}

#: The closed form in place of the gradient fit, on the same samples and scores.
INSIDE = tuple(
    Change(samples, f"{linear}, {score}", f"{linear}, {score}{words}", f"{gradient}, {score}{words}")
    for samples, words, scores in (
        ("samples of parent 0", "", ("uniform", "conductance")),
        ("samples of both", OF_BOTH, ("uniform",)),
    )
    for gradient, linear in BLOCKS.items()
    for score in scores
)
#: Changes that come closer to the ensemble than KF-Linear.
CLOSER = (
    Change("samples of parent 0", "ridge towards the parents", FUSED + TOWARD, FUSED),
    Change("samples of both", "fused", FUSED + OF_BOTH, FUSED),
    Change("for comparison", "the ensemble", "Ensemble", FUSED),
)

BEYOND = Table(
    "beyond",
    "Beyond the paper (ours): the closed form inside of blocks",
    (
        *(column for column in ABLATION.columns if not column.transformer),
        Column("ResNet-18, sharded", "digits", ("resnet18",), "sharded", 2),
        Column("ViT, sharded", "digits", ("vit-small",), "sharded", 2),
    ),
    (
        "Parent 0",
        "Parent 1",
        "Ensemble",
        "Average",
        "LP",
        "KD",
        "PLeaS",
        "PLeaS, REPAIR",
        *(f"{method}, {score}" for pair in BLOCKS.items() for method in pair for score in ("uniform", "conductance")),
        FUSED + TOWARD,
        *(f"{method}, uniform{OF_BOTH}" for pair in BLOCKS.items() for method in pair),
        f"PLeaS{OF_BOTH}",
        FUSED + OF_BOTH,
    ),
)
