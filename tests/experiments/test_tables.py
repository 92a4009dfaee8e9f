"""Every number that the paper prints has units of work behind it, and these are known by what they are."""

import dataclasses
from pathlib import Path

import pytest
import torch

from retrofit_core.data.datasets import DATASETS
from retrofit_core.experiments.paper import FIGURES, OURS, Value, paper_values
from retrofit_core.experiments.rows import impossible, read_row, rows_by_score
from retrofit_core.experiments.scales import SCALES, network, scale_of
from retrofit_core.experiments.tables import TABLES
from retrofit_core.experiments.units import (
    Clustering,
    FineTuning,
    Fusion,
    LossLandscape,
    Parent,
    ParentSource,
    TunedEnsemble,
    Unit,
)
from retrofit_core.inspection.landscape import Landscape
from retrofit_core.networks.architectures import build, fitted, parse
from retrofit_core.training.config import TrainConfig
from tests.marks import each_case

ROOT = Path(__file__).parents[2]
PAPER = scale_of("paper")
#: Cells of the paper that no unit stands behind, and why.
WITHOUT_UNITS = {
    ("runtime-end-to-end", "fusion", "theoretical 0-time fusion"): "zero by its name",
    ("runtime-end-to-end", "fine-tuning", "ours, no fine-tuning"): "zero by its name",
}
#: Rows that the method cannot have.
IMPOSSIBLE = ("Transformer-OTFusion, deeplift", "Transformer-OTFusion-Weights, deeplift")


def cell_of(value: Value) -> tuple[str, str, str]:
    return value.table, value.column, value.row


@pytest.fixture(scope="module")
def cells():
    return {(table.name, cell.column, cell.row): cell for table in TABLES.values() for cell in table.cells(PAPER, 1)}


def test_every_table_of_the_paper_has_a_spec_with_its_labels():
    printed = {value.table: set() for value in paper_values()}
    for value in paper_values():
        printed[value.table].add(value.label)
    pictures = {name: {label} for name, label in FIGURES.items()}
    ours = {name: set() for name in OURS}
    assert {name: set(table.labels) for name, table in TABLES.items()} == printed | pictures | ours


def test_the_landscape_is_that_of_the_figure(cells):
    """ViTs on two non-IID parts of CIFAR-10, KF-Gradient with DeepLIFT, clipped at 4.6: one unit behind all of its numbers."""
    units = {unit for (table, _, _), cell in cells.items() if table == "landscape" for unit in cell.units}
    (unit,) = units
    assert isinstance(unit, LossLandscape) and unit.landscape.clip == 4.6 and unit.landscape.resolution == 15
    training, run = unit.source.training, unit.fusion.run
    assert training is not None and (training.data, training.split, training.parts) == ("cifar10", "dirichlet", 2)
    assert training.arch == ("vit",)
    assert (run.method, run.importance) == ("KF-Gradient", "deeplift")
    rows = {(column, row) for table, column, row in cells if table == "landscape"}
    assert len(rows) == 3 * 4 + 3 and ("barrier", "Parent 0 to KF-Gradient, deeplift") in rows


def test_every_number_of_the_paper_has_units(cells):
    """A row of the best score has those of each score."""
    missing = {
        cell_of(value)
        for value in paper_values()
        for row in rows_by_score((value.row,))
        if (value.table, value.column, row) not in cells and row not in IMPOSSIBLE
    }
    assert missing == set(WITHOUT_UNITS)
    assert all(cell.units for cell in cells.values())
    assert all(impossible(read_row(row)) for row in IMPOSSIBLE) and not any(row in IMPOSSIBLE for _, _, row in cells)


def test_what_stands_behind_a_number_is_what_its_names_say(cells):
    for (table, column, row), cell in cells.items():
        if table in FIGURES:  # tests of their own
            continue
        for unit in cell.units:
            start = unit.start if isinstance(unit, FineTuning) else unit
            if isinstance(unit, TunedEnsemble):
                assert row == "Ensemble" and column.startswith(f"{len(unit.members)}-way")
            elif row.startswith("Parent"):
                assert isinstance(start, Parent) and row == f"Parent {start.index}"
            elif isinstance(start, Fusion):
                assert table == "runtime-end-to-end" or read_row(row).variant[0] == start.run.method
            else:
                assert isinstance(start, Clustering) and table == "neuron-importance"
        if table != "runtime-end-to-end":
            is_tuned = "fine-tuned" in column and table != "inference-cost"
            assert [isinstance(unit, FineTuning | TunedEnsemble) for unit in cell.units] == [is_tuned], (
                table,
                column,
                row,
            )


@pytest.mark.slow
@each_case("scale", SCALES)
@each_case("table", TABLES)
def test_every_scale_has_cells_of_every_table_each_once(table, scale):
    cells = TABLES[table].cells(scale_of(scale), 2)
    names = [(cell.column, cell.row, cell.seed) for cell in cells]
    assert names and len(set(names)) == len(names)
    assert {cell.column for cell in cells} == {column.name for column in TABLES[table].columns}
    for cell in cells:
        for unit in cell.units:
            assert Unit.key(unit) == unit.key() and len(unit.key()) == 12


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_unit_is_other_work_if_anything_of_it_is():
    source = ParentSource(TrainConfig())
    column = TABLES["vgg11-noniid"].columns[0]
    fusion = next(
        cell.units[0]
        for cell in TABLES["vgg11-noniid"].cells(SCALES["smoke"])
        if cell.row == "KF-Linear, uniform" and cell.column == column.name
    )
    units = [
        fusion,
        dataclasses.replace(fusion, source=source),
        dataclasses.replace(fusion, test_images=7),
        dataclasses.replace(fusion, only=(1, 0)),
        *(
            dataclasses.replace(fusion, run=dataclasses.replace(fusion.run, **change))
            for change in ({"seed": 1}, {"method": "HF-Linear"}, {"samples": 41}, {"options": {"restarts": 3}})
        ),
        FineTuning(fusion, 1),
        FineTuning(fusion, 2),
        FineTuning(fusion, 1, 1e-5),
        FineTuning(fusion, 1, seed=1),
        LossLandscape(fusion, Landscape()),
        LossLandscape(fusion, Landscape(resolution=16)),
        LossLandscape(dataclasses.replace(fusion, test_images=7), Landscape()),
        Parent(fusion.source, 0),
        Parent(fusion.source, 1),
    ]
    assert len({unit.key() for unit in units}) == len(units)


# --- networks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape", "classes", "parameters"),
    [
        ("vit", (3, 32, 32), 100, 6_303_460),
        ("vit-tiny-imagenet", (3, 64, 64), 200, 12_598_472),
        # Convolutions of 9,217,728 weights and 2,752 biases, 512 x 10 + 10, no normalisation.
        ("vgg11", (3, 32, 32), 10, 9_225_610),
        ("resnet18", (3, 32, 32), 100, 11_220_132),
        ("resnet50-imagenet", (3, 224, 224), 1000, 25_557_032),
    ],
)
def test_the_networks_of_the_paper_have_their_size(name, shape, classes, parameters):
    with torch.device("meta"):
        model = build(fitted(parse(network(name, PAPER, "cifar10")), shape, classes))
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize(("scale", "shards"), [("small", "0,1,3,4,5,6;2,7"), ("smoke", None)])
def test_bloodmnist_is_divided_into_white_blood_cells_and_the_others(scale, shards):
    """As the paper says; digits, which take its part at `smoke`, have other classes, which the seed deals out."""
    training = TABLES["bloodmnist"].columns[0].source(SCALES[scale]).training
    assert (training.data, training.shards) == ("bloodmnist" if shards else "digits", shards)
    names = DATASETS["bloodmnist"].classes
    assert [names[label] for label in (2, 7)] == ["erythroblast", "platelet"]
