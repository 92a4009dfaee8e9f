"""Ablation: the whole method, and one part changed at a time. Ours; the paper has no such table."""

from dataclasses import dataclass

from .cells import Column, Table

#: The whole method with each fit.
CLOSED_FORM, GRADIENT = "KF-Linear, conductance", "KF-Gradient, conductance"


@dataclass(frozen=True)
class Change:
    """One part of a whole method, changed."""

    part: str
    words: str
    """What replaces the part"""
    row: str
    """Row of the table"""
    whole: str
    """The row to compare with"""


def _changes(whole: str, parts: dict[str, dict[str, str]]) -> tuple[Change, ...]:
    """Changes from words and rows; a row that starts with a comma is appended to the whole's name."""
    return tuple(
        Change(part, words, whole + row if row.startswith(",") else row, whole)
        for part, rows in parts.items()
        for words, row in rows.items()
    )


CHANGES: tuple[Change, ...] = (
    *_changes(
        CLOSED_FORM,
        {
            "fit": {
                "no refit: mean of the parents' weights": ", not refitted",
                "gradient descent, block by block": GRADIENT,
                "ridge ten times weaker": ", ridge 0.001x",
                "ridge ten times stronger": ", ridge 0.1x",
                "ridge towards the parents": ", towards parents",
            },
            "groups": {
                "random": "Random-Linear, conductance",
                "neuron i with neuron i": ", neuron i with neuron i",
                "pairs (Hungarian)": "HF-Linear, conductance",
                "no projection: raw outputs": ", not projected",
            },
            "importance": {
                "none (uniform)": "KF-Linear, uniform",
                "at the class head alone": ", scores at the head alone",
                "everywhere but the head": ", head without scores",
                "not normalised": ", scores as they are",
                "DeepLIFT": "KF-Linear, deeplift",
            },
            "samples": {"of all parents": ", all data"},
        },
    ),
    *_changes(
        GRADIENT,
        {
            "fit": {"from fresh weights": ", a fresh start", "loss weighted by scores": ", weighted loss"},
            "groups": {
                "random": ", random groups",
                "neuron i with neuron i": ", neuron i with neuron i",
                "pairs (Hungarian)": "HF-Gradient, conductance",
            },
            "importance": {
                "none (uniform)": "KF-Gradient, uniform",
                "at the class head alone": ", scores at the head alone",
                "everywhere but the head": ", head without scores",
            },
            "samples": {"of all parents": ", all data"},
        },
    ),
)


#: Each column is a kind of parents; two parents, samples of parent 0.
ABLATION = Table(
    "ablation",
    "Which part of the method earns the gain (ours): one part changed at a time",
    (
        Column("VGG11, non-IID", "cifar10", ("vgg11",), "dirichlet", 2),
        Column("VGG11, sharded", "cifar10", ("vgg11",), "sharded", 2),
        Column("MLP, non-IID", "mnist", ("mlp",), "dirichlet", 2),
        Column("ViT, non-IID", "bloodmnist", ("vit-small",), "dirichlet", 2),
    ),
    tuple(
        dict.fromkeys(
            ["Parent 0", "Parent 1", "Ensemble", "Average", CLOSED_FORM, GRADIENT, *(change.row for change in CHANGES)]
        )
    ),
    lambda column, row, seed: not (column.transformer and "Linear" in row.split(",")[0]),  # gradient fits alone
)
