"""Every number that the paper prints has a cell, which is what its names say."""

from pathlib import Path

import pytest
import torch

from retrofit_core.data.datasets import DATASETS
from retrofit_core.experiments.configs import applies, cells_of, network
from retrofit_core.experiments.paper import FIGURES, OURS, Value, paper_values
from retrofit_core.experiments.rows import read_row, rows_by_score
from retrofit_core.experiments.scales import SCALES, scale_of
from retrofit_core.experiments.tables import TABLES
from retrofit_core.networks.architectures import build, fitted, parse
from tests.marks import each_case

ROOT = Path(__file__).parents[2]
PAPER = scale_of("paper")
#: Numbers of the paper that no cell measures, and why.
WITHOUT_CELLS = {
    ("runtime-end-to-end", "fusion", "theoretical 0-time fusion"): "zero by its name",
    ("runtime-end-to-end", "fine-tuning", "ours, no fine-tuning"): "zero by its name",
}
#: Rows that the method cannot have.
IMPOSSIBLE = ("Transformer-OTFusion, deeplift", "Transformer-OTFusion-Weights, deeplift")


def cell_of(value: Value) -> tuple[str, str, str]:
    return value.table, value.column, value.row


@pytest.fixture(scope="module")
def cells():
    return {
        (table.name, cell.column, cell.row): cell for table in TABLES.values() for cell in cells_of(table, "paper", 1)
    }


def test_every_table_of_the_paper_has_a_spec_with_its_labels():
    printed = {value.table: set() for value in paper_values()}
    for value in paper_values():
        printed[value.table].add(value.label)
    pictures = {name: {label} for name, label in FIGURES.items()}
    ours = {name: set() for name in OURS}
    assert {name: set(table.labels) for name, table in TABLES.items()} == printed | pictures | ours


def test_every_number_of_the_paper_has_a_cell(cells):
    """A row of the best score has those of each score."""
    lacking = {
        cell_of(value)
        for value in paper_values()
        for row in rows_by_score((value.row,))
        if (value.table, value.column, row) not in cells and row not in IMPOSSIBLE
    }
    assert lacking == set(WITHOUT_CELLS)
    column = TABLES["vit-full-cifar100"].columns[0]
    assert not any(applies(read_row(row), column) for row in IMPOSSIBLE)


@pytest.mark.slow
@each_case("scale", SCALES)
@each_case("table", TABLES)
def test_every_scale_has_cells_of_every_table_each_once(table, scale):
    names = list(cells_of(TABLES[table], scale, 2))
    assert names and len(set(names)) == len(names)
    assert {cell.column for cell in names} == {column.name for column in TABLES[table].columns}


def test_a_second_seed_is_of_fusions_alone_and_a_second_set_of_parents_is_of_all():
    cells = list(cells_of(TABLES["vgg11-noniid"], "small", 2, 2))
    rows = {
        (cell.parents, cell.seed): {
            each.row for each in cells if (each.parents, each.seed) == (cell.parents, cell.seed)
        }
        for cell in cells
    }
    assert rows[0, 0] == rows[1, 0] and rows[0, 1] == rows[1, 1]
    assert rows[0, 0] - rows[0, 1] == {"Ensemble", "Average", *(f"Parent {index}" for index in range(8))}
    assert {cell.training.seed for cell in cells} == {0, 1}


# --- networks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape", "classes", "parameters"),
    [
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
    training = next(cells_of(TABLES["bloodmnist"], scale)).training
    assert (training.data, training.shards) == ("bloodmnist" if shards else "digits", shards)
    names = DATASETS["bloodmnist"].classes
    assert [names[label] for label in (2, 7)] == ["erythroblast", "platelet"]
