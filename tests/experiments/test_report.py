"""Reports of results that nobody measured: what is printed where, and the three formats beside their golden files.

After a change that is meant, `RETROFIT_WRITE_GOLDEN=1 pytest tests/experiments/test_report.py -k golden` writes the golden files
anew; read their difference before it is committed.
"""

import csv
import dataclasses
import io
import os
import re
from pathlib import Path

import numpy as np
import pytest

from retrofit_core.cli import main
from retrofit_core.experiments import setting as setting_module
from retrofit_core.experiments.bundles import Bundle, GivenParents, merged
from retrofit_core.experiments.lines import Line, spread
from retrofit_core.experiments.paper import paper_values
from retrofit_core.experiments.report import report, verdicts
from retrofit_core.experiments.report_formats import FORMATS, MARKDOWN, spreadsheet
from retrofit_core.experiments.report_words import ours_words, printed
from retrofit_core.experiments.reproduction import ReproducedColumn
from retrofit_core.experiments.results import write_result
from retrofit_core.experiments.scales import scale_of
from retrofit_core.experiments.tables import TABLES
from retrofit_core.experiments.units import ParentSource
from tests.experiments.made_up import bundle_of, cells_of, knowing, made, renamed
from tests.marks import each_case

GOLDEN = Path(__file__).parent / "golden"
ENDINGS = {"markdown": "md", "latex": "tex", "csv": "csv"}
SMOKE = [scale_of("smoke")]
NOTHING = Bundle({})


def column_of(written, table: str, column: str) -> ReproducedColumn:
    (found,) = (each for each in written.columns if (each.table, each.name) == (table, column))
    return found


def line_of(written, table: str, column: str, row: str) -> Line:
    return column_of(written, table, column).line(row)


def lines_of_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def golden_report():
    """Some rows missing, one refused, two seeds, images kept for a part."""
    cells = [*cells_of("fusion-set-size", seeds=2), *cells_of("runtime-vit"), *cells_of("inference-cost")]

    def facts(cell):
        if cell.row.startswith("Parent"):
            return {"known": knowing(60 + 10 * cell.units[0].index), "operations": 1000}
        if cell.row == "KF-Linear, conductance":
            return {"refusal": "level 'a_b' is 50 % of $x & y: use {fit}."}
        if cell.column != "1k samples, augmented" and cell.row == "KF-Linear, uniform":
            return None
        share = 50 + len(cell.row) + 3 * cell.seed
        return {"known": knowing(share), "seconds": share / 7, "operations": 1000 * len(cell.row)}

    tables = ["fusion-set-size", "runtime-vit", "inference-cost", "neuron-importance"]
    return report(bundle_of(cells, facts), tables, SMOKE)


@pytest.mark.parametrize("name", FORMATS)
def test_golden(name):
    text, file = FORMATS[name](golden_report()), GOLDEN / f"report.{ENDINGS[name]}"
    if os.environ.get("RETROFIT_WRITE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
    assert file.stat().st_size < 30_000


@pytest.fixture(scope="module")
def empty():
    """The report of everything where nothing is measured."""
    return report(NOTHING, list(TABLES), SMOKE)


def test_every_number_of_the_paper_is_in_the_report(empty):
    lines = {
        (line["table"], line["column"], line["row"]): line
        for line in lines_of_csv(spreadsheet(empty))
        if line["kind"] == "cell"
    }
    assert len(paper_values()) > 400
    for value in paper_values():
        line = lines[value.table, value.column, value.row]
        assert float(line["paper"]) == value.mean
        # Short tables repeat means without deviations, and "best" rows stand in them alone.
        assert value.deviation is None or float(line["paper_deviation"]) == value.deviation
    assert all(line["command"].startswith("retrofit ") for line in lines.values() if line["state"] == "not measured")
    text = MARKDOWN.report(empty)
    assert all(f"\nretrofit reproduce {name} --scale smoke\n" in text for name in TABLES)


@pytest.mark.slow
def test_nothing_is_measured_of_nothing(empty):
    assert {measured for measured, _ in empty.counts().values()} == {0}
    # Tables share no cell, so all cells are those of the tables.
    assert sum(cells for _, cells in empty.counts().values()) == sum(len(cells_of(name)) for name in TABLES)
    assert {claim.verdict for column in empty.columns for claim in column.claims} == {"not measured"}
    assert empty.summary.measured() == 0 and not empty.summary.counts
    assert not report(NOTHING, list(TABLES), SMOKE, only_measured=True).tables


def test_means_deviations_and_two_sigma():
    # Ours: 74, 76, 78, of mean 76 and deviation 2. The paper: 76.1 ± 0.5, of an unknown number of seeds.
    cells = cells_of("fusion-set-size", seeds=3)
    bundle = bundle_of(cells, lambda cell: {"accuracy": 74.0 + 2 * cell.seed})
    line = line_of(report(bundle, ["fusion-set-size"], SMOKE), "fusion-set-size", "5k samples", "KF-Gradient, uniform")
    assert line.is_within is None  # of digits, not of CIFAR-10
    line = dataclasses.replace(line, substitute="")
    assert (line.mean, line.deviation) == (pytest.approx(76), pytest.approx(2))
    assert line.difference == pytest.approx(-0.1)
    assert ours_words(line) == "76.00 ± 2.00 (3)"
    assert (
        line.is_within is True and dataclasses.replace(line, by_parents=((75.0,),)).is_within is False
    )  # 1.1 of 2 * 0.5
    # Of five seeds: 2 * 0.5 * sqrt(1 + 1/5) = 1.0954.
    of_five = dataclasses.replace(line, paper=dataclasses.replace(line.paper, seeds=5))
    assert dataclasses.replace(of_five, by_parents=((75.01,),)).is_within is True
    assert dataclasses.replace(of_five, by_parents=((75.0,),)).is_within is False
    # Of two sets of parents, with means 75 and 75.3: 76.1 - 75.15 = 0.95 of 2 * 0.5 * sqrt(1/2 + 1/5) = 0.837.
    assert dataclasses.replace(of_five, by_parents=((75.0,), (75.2, 75.4))).is_within is False
    assert dataclasses.replace(of_five, by_parents=((75.0,), (75.5, 75.7))).is_within is True
    without = dataclasses.replace(line.paper, deviation=None)
    assert dataclasses.replace(line, paper=without).is_within is None
    assert dataclasses.replace(line, paper=None).difference is None


def test_several_sets_of_parents_are_one_factor():
    """Two sets, the second with a better fusion; deviations are over sets, claims over the best parent of each."""
    shares = {0: {"Parent 0": 40, "Parent 1": 30}, 1: {"Parent 0": 20, "Parent 1": 50}}
    cells = TABLES["vgg11-noniid"].cells(SMOKE[0], 2, parents=2)
    cells = [
        cell for cell in cells if cell.column == "2-way" and cell.row in ("Parent 0", "Parent 1", "KF-Linear, uniform")
    ]
    assert [cell.units[0].source.training.seed for cell in cells] == [cell.parents for cell in cells]
    assert len({cell.units[0].key() for cell in cells}) == len(cells) == 2 * (2 + 2)
    bundle = bundle_of(
        cells,
        lambda cell: {"known": knowing(shares[cell.parents].get(cell.row, 60 + 10 * cell.parents + 4 * cell.seed))},
    )
    written = report(bundle, ["vgg11-noniid"], SMOKE)
    column = column_of(written, "vgg11-noniid", "2-way")
    line = line_of(written, "vgg11-noniid", "2-way", "KF-Linear, uniform")
    assert line.by_parents == ((60, 64), (70, 74)) and ours_words(line) == "67.00 ± 7.07 (2 parents, 4)"
    # Within sets 8 (of 60, 64 and of 70, 74); between their means 50, of which 8 / 2 come from the seeds.
    assert line.spread == pytest.approx({"parents": 46**0.5, "fusion": 8**0.5, "images": (67 * 33 / 100) ** 0.5})
    (claim,) = (claim for claim in column.claims if claim.ours is not None)
    assert claim.rows == ("KF-Linear, uniform", "best parent")
    assert claim.ours == pytest.approx(((62 - 40) + (72 - 50)) / 2) and claim.seeds == 4
    assert "(median of the rows): 6.78 over sets of parents, 2.83 over fusion seeds" in MARKDOWN.report(written)
    assert (column.setting.measured, len(bundle.results)) == (3, 8)  # one set is meant, and with one seed


def test_spread_finds_what_made_the_numbers():
    generator = np.random.default_rng(0)
    parents = generator.normal(scale=2, size=(4000, 1))
    found = spread((50 + parents + generator.normal(size=(4000, 3))).tolist(), 100)
    assert found == pytest.approx({"parents": 2, "fusion": 1, "images": 5}, rel=0.04)
    assert {*spread([[50.0]], 0).values(), *spread([], 0).values()} == {None}
    assert list(spread([[50.0, 50.0], [50.0]], 0).values()) == [0, 0, None]


def test_more_seeds_than_the_scale_has_are_shown_but_not_missed():
    cells = [cell for cell in cells_of("fusion-set-size", seeds=3) if cell.seed != 1]
    column = column_of(
        report(bundle_of(cells, lambda cell: {}), ["fusion-set-size"], SMOKE), "fusion-set-size", "5k samples"
    )
    assert (column.setting.measured, len(column.setting.meant)) == (5, 5)
    assert {len(line.values) for line in column.all_lines} == {2}
    asked = report(bundle_of(cells, lambda cell: {}), ["fusion-set-size"], SMOKE, seeds=3)
    assert column_of(asked, "fusion-set-size", "5k samples").setting.measured == 10
    assert asked.tables[0].commands == ("retrofit reproduce fusion-set-size --scale smoke --seeds 3",)


def test_parents_stand_in_order_of_accuracy():
    shares = {"Parent 0": 20, "Parent 1": 50, "Parent 2": 40, "Parent 3": 10}
    cells = [cell for cell in cells_of("vgg11-noniid") if cell.column == "4-way" and cell.row in shares]
    written = report(bundle_of(cells, lambda cell: {"accuracy": float(shares[cell.row])}), ["vgg11-noniid"], SMOKE)
    lines = [line for line in column_of(written, "vgg11-noniid", "4-way").all_lines if line.row in shares]
    assert [line.values for line in lines] == [(50.0,), (40.0,), (20.0,), (10.0,)]
    assert [line.note for line in lines] == ["parent 1 of ours", "parent 2 of ours", "parent 0 of ours", ""]
    half = bundle_of(cells[:2], lambda cell: {"accuracy": float(shares[cell.row])})
    lines = column_of(report(half, ["vgg11-noniid"], SMOKE), "vgg11-noniid", "4-way").all_lines
    assert [line.values for line in lines if line.row in shares] == [(20.0,), (50.0,), (), ()]


def test_a_best_row_is_the_best_of_ours():
    shares = {"HF-Linear, uniform": 20.0, "HF-Linear, conductance": 50.0, "HF-Linear, deeplift": 40.0}
    cells = [cell for cell in cells_of("bloodmnist") if cell.row in shares]
    written = report(bundle_of(cells, lambda cell: {"accuracy": shares[cell.row]}), ["bloodmnist"], SMOKE)
    best = line_of(written, "bloodmnist", "2-way", "HF-Linear, best")
    assert (best.values, best.note) == ((50.0,), "that of HF-Linear, conductance")
    assert line_of(written, "bloodmnist", "2-way", "KF-Linear, best").state == "not measured"


def test_a_refusal_is_a_footnote():
    cells = cells_of("bloodmnist")
    written = report(bundle_of(cells, lambda cell: {"refusal": "two are wanted."}), ["bloodmnist"], SMOKE)
    assert "| refused [1] " in MARKDOWN.report(written) and "\n[1] two are wanted.  \n" in MARKDOWN.report(written)
    assert written.counts() == {"smoke, digits for bloodmnist": (len(cells), len(cells))}  # nothing is left to be done
    assert not written.tables[0].commands


def test_a_fine_tuning_of_what_was_refused_is_refused():
    cell = next(cell for cell in cells_of("vgg11-full") if (cell.column, cell.row) == ("2-way fine-tuned", "PLeaS"))
    refused = made(cell.units[0].start, refusal="no.")
    line = line_of(
        report(Bundle({refused.key: refused}), ["vgg11-full"], SMOKE), "vgg11-full", "2-way fine-tuned", "PLeaS"
    )
    assert (line.state, line.note) == ("refused", "no.")


def test_rows_that_do_not_apply_are_not_applicable(empty):
    line = line_of(empty, "vgg11-noniid", "4-way", "HF-Linear, uniform")
    assert (line.state, line.paper) == ("N/A", None)
    deeplift = line_of(empty, "vit-full-cifar100", "2-way fine-tuned", "Transformer-OTFusion, deeplift")
    assert (deeplift.state, deeplift.paper.mean) == ("not planned", 74.0)
    assert deeplift.note.startswith("DeepLIFT is known at the ends of levels only")
    assert not [line for line in column_of(empty, "vgg11-noniid", "2-way").all_lines if line.row == "Parent 2"]


def test_seconds_add_up_and_operations_are_multiples():
    cells = [*cells_of("runtime-end-to-end"), *cells_of("inference-cost")]
    bundle = bundle_of(cells, lambda cell: {"operations": 500 if cell.row.startswith("Parent") else 1000})
    written = report(bundle, ["runtime-end-to-end", "inference-cost"], SMOKE)
    ours = "ours, with fine-tuning"
    seconds = [line_of(written, "runtime-end-to-end", column, ours).values for column in ("fusion", "total")]
    assert seconds == [(1.5,), (3.0,)]
    assert line_of(written, "inference-cost", "2-way zero-shot", "Ensemble").values == (2.0,)
    assert not column_of(written, "inference-cost", "2-way zero-shot").claims


def test_accuracy_on_a_part_is_that_of_its_classes():
    cells = [cell for cell in cells_of("resnet50-imagenet") if cell.row == "ZipIt"]
    written = report(bundle_of(cells, lambda cell: {"per_part": [30.0, 70.0]}), ["resnet50-imagenet"], SMOKE)
    columns = [f"{name}, 25k samples" for name in ("joint", "task A", "task B")]
    assert [line_of(written, "resnet50-imagenet", column, "ZipIt").values for column in columns] == [
        (50.0,),
        (30.0,),
        (70.0,),
    ]
    without = report(bundle_of(cells, lambda cell: {"per_part": []}), ["resnet50-imagenet"], SMOKE)
    assert line_of(without, "resnet50-imagenet", columns[1], "ZipIt").state == "not measured"


def test_claims_find_parents_of_another_column():
    cells = cells_of("fusion-set-size")
    written = report(
        bundle_of(cells, lambda cell: {"known": knowing(40 if cell.row.startswith("Parent") else 60)}),
        ["fusion-set-size"],
        SMOKE,
    )
    claimed = column_of(written, "fusion-set-size", "5k samples").claims
    (claim,) = [claim for claim in claimed if claim.right == "best parent"]
    assert claim.ours == pytest.approx(20) and claim.interval[0] > 0


@pytest.mark.parametrize("scale", ["smoke", "small"])
def test_smoke_decides_nothing(scale):
    """The same results at `small` agree with the paper and have a rank correlation."""
    cells = TABLES["vgg11-noniid"].cells(scale_of(scale))
    right = {row: 90 - index for index, row in enumerate(dict.fromkeys(cell.row for cell in cells))}
    known = bundle_of(cells, lambda cell: {"known": knowing(right[cell.row]), "accuracy": float(right[cell.row])})
    written = report(known, ["vgg11-noniid"], [scale_of(scale)])
    said = "\n".join(MARKDOWN.report(written).split("\n## ")[1:])
    assert bool(re.search(r"Rank correlation (of|at)", said)) == (scale == "small")
    assert bool(re.search(r"\| agreed +\|", said)) == (scale == "small")
    lines = lines_of_csv(spreadsheet(written))
    assert any(line["kind"] == "rank correlation" for line in lines) == (scale == "small")
    assert any(line["state"] == "agreed" for line in lines) == (scale == "small")


@pytest.fixture
def no_data(monkeypatch):
    """A machine without any data set."""
    monkeypatch.setattr("retrofit_core.experiments.scales.is_on_disk", lambda name: False)


def test_results_of_a_substitute_count_where_the_data_set_is_gone(no_data):
    """A bundle prints on a machine that has no data."""
    small = scale_of("small")
    cells = TABLES["runtime-vit"].cells(dataclasses.replace(small, always="cifar10"))
    written = report(bundle_of(cells, lambda cell: {"seconds": 7.0}), ["runtime-vit"], [small])
    column = column_of(written, "runtime-vit", "400 samples")
    assert (column.badge, column.all_lines[0].values) == ("small, cifar10 for cifar100", (7.0,))
    assert "| small, cifar10 for cifar100 |" in MARKDOWN.report(written)
    assert "- small, cifar10 for cifar100: runtime-vit (400 samples); runtime-vit (6000 samples)." in MARKDOWN.report(
        written
    )


def test_the_nearest_data_set_with_results_is_shown(no_data):
    table, small = TABLES["runtime-vit"], scale_of("small")
    served = {name: table.cells(dataclasses.replace(small, always=name)) for name in ("cifar100", "digits")}
    results = {
        **bundle_of(served["digits"], lambda cell: {"seconds": 1.0}).results,
        **bundle_of(served["cifar100"], lambda cell: {"seconds": 2.0}).results,
    }
    column = column_of(report(Bundle(results), ["runtime-vit"], [small]), "runtime-vit", "400 samples")
    assert (column.badge, column.all_lines[0].values) == ("small", (2.0,))


def test_given_parents_have_columns_of_their_own(tmp_path):
    files = [tmp_path / f"parent-{index}.safetensors" for index in range(2)]
    for index, file in enumerate(files):
        file.write_text(str(index))
    source = ParentSource(None, tuple(map(str, files)), "splits.json", "digits")
    (tmp_path / "splits.json").write_text("{}")
    source = dataclasses.replace(source, given_splits=str(tmp_path / "splits.json"))
    given = GivenParents((("vgg11-noniid", "2-way"),), source.models, source.to_json(), source.given_splits)
    cells = [cell for cell in cells_of("vgg11-noniid", given=source) if cell.column == "2-way"]
    results = bundle_of(cells[:3], lambda cell: {"accuracy": 60.0}).results
    written = report(Bundle(results, (given,)), ["vgg11-noniid", "vgg11-sharded"], SMOKE)
    column = column_of(written, "vgg11-noniid", "2-way")
    assert column.badge == "smoke, given parents, digits for cifar10" and column.setting.measured == 3
    assert {column.badge for column in written.tables[1].columns} == {"smoke, digits for cifar10"}
    assert any("--columns 2-way --model" in command for command in written.tables[0].commands)
    assert "Given parents: " in MARKDOWN.report(written)


@pytest.mark.slow
def test_given_parents_stand_at_the_fullest_scale_that_means_the_same_work(tmp_path):
    """They are not made smaller, so `evening` and `paper` fuse them alike; `small` has other epochs and test images."""
    files = [tmp_path / f"parent-{index}.safetensors" for index in range(2)]
    for index, file in enumerate(files):
        file.write_text(str(index))
    source = ParentSource(None, tuple(map(str, files)), None, "digits")
    given = GivenParents((("vgg11-noniid", "2-way"),), source.models, source.to_json())
    small, evening, paper = (scale_of(name) for name in ("small", "evening", "paper"))
    cells = [cell for scale in ("small", "paper") for cell in cells_of("vgg11-noniid", scale, 1, source)]
    bundle = Bundle(bundle_of([cell for cell in cells if cell.column == "2-way"], lambda cell: {}).results, (given,))

    def badges(*scales):
        (table,) = report(bundle, ["vgg11-noniid"], scales, columns={"2-way"}, only_measured=True).tables
        return [column.badge for column in table.columns]

    words = "given parents, digits for cifar10"  # with the paper's settings they are named by themselves
    assert badges(evening, small, paper) == badges(paper, evening, small)[::-1] == [f"small, {words}", words]
    assert badges(evening) == [f"evening, {words}"]


def test_results_of_earlier_methods_are_marked():
    cells = cells_of("fusion-set-size")
    bundle = bundle_of(cells, lambda cell: {})
    old = renamed(bundle, inputs={"method version": "0"})
    written = report(old, ["fusion-set-size"], SMOKE)
    assert written.outdated == len({cell.units[0].key() for cell in cells}) - 2  # parents have no method
    lines = {line.row: line for column in written.columns for line in column.lines}
    assert all(("earlier version" in line.note) != row.startswith("Parent") for row, line in lines.items())
    assert f"- {written.outdated} results come from earlier versions" in MARKDOWN.report(written)


def test_results_of_other_tables_are_counted():
    bundle = bundle_of([*cells_of("fusion-set-size"), *cells_of("resnet-compression")], lambda cell: {})
    written = report(bundle, ["fusion-set-size"], SMOKE)
    assert written.others == len({unit.key() for cell in cells_of("resnet-compression") for unit in cell.units})
    assert f"- {written.others} results belong to other tables or scales." in MARKDOWN.report(written)


def test_only_what_is_measured(empty):
    cells = [cell for cell in cells_of("fusion-set-size") if cell.row == "KF-Gradient, uniform"]
    written = report(
        bundle_of(cells, lambda cell: {}), ["fusion-set-size", "resnet-compression"], SMOKE, only_measured=True
    )
    assert [table.name for table in written.tables] == ["fusion-set-size"]
    assert {line.row for column in written.columns for line in column.all_lines} == {"KF-Gradient, uniform"}
    assert "not measured" not in MARKDOWN.report(written).split("\n## ")[1]


@pytest.mark.parametrize(("number", "text"), [(76.0, "76.0"), (83.8, "83.8"), (0.74, "0.74"), (8717.0, "8717.0")])
def test_the_papers_digits(number, text):
    assert printed(number) == text


def test_the_command_prints_writes_and_bundles(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = cells_of("fusion-set-size")
    for result in bundle_of(cells, lambda cell: {"known": knowing(40)}).results.values():
        write_result("runs", result)
    words = ["report", "fusion-set-size", "--scale", "smoke"]
    assert main(words) == 0
    from_folder = capsys.readouterr().out
    assert from_folder.startswith("# The paper's numbers, and ours\n") and "17 of 17 cells" in from_folder
    assert main([*words, "--bundle", "all.json", "--with-images"]) == 0
    assert main([*words, "--folder", "elsewhere", "--results", "all.json", "--out", "report.md"]) == 0
    assert "The report is in report.md" in capsys.readouterr().out
    assert Path("report.md").read_text(encoding="utf-8") == from_folder
    assert main([*words, "--folder", "elsewhere", "--results", "runs", "--format", "csv"]) == 0
    assert len(lines_of_csv(capsys.readouterr().out)) > 17


@pytest.mark.slow
def test_without_a_scale_the_command_prints_whatever_is_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("retrofit_core.experiments.scales.is_on_disk", lambda name: True)
    chosen = [
        *(cell for cell in cells_of("vgg11-noniid", "evening") if cell.column == "2-way"),
        *(cell for cell in cells_of("vgg11-noniid", "smoke") if cell.column in ("2-way", "4-way")),
    ]
    for result in bundle_of(chosen, lambda cell: {"known": knowing(40)}).results.values():
        write_result("runs", result)
    assert main(["report", "vgg11-noniid"]) == 0
    printed_text = capsys.readouterr().out
    sections = [part for part in printed_text.split("\n### ") if part.startswith(("2-way", "4-way", "8-way"))]
    scales = [(part[:5], name) for part in sections for name in ("small", "evening", "smoke") if f"| {name}" in part]
    assert scales == [("2-way", "evening"), ("2-way", "smoke"), ("4-way", "smoke")]
    assert sections[-1].startswith("8-way") and "not measured" in sections[-1]
    assert "retrofit reproduce vgg11-noniid --scale small" in printed_text


@each_case(
    ("words", "sentence"),
    [
        (["vgg"], "unknown table 'vgg'"),
        (["--format", "html"], "unknown format 'html'. Known: markdown, latex, csv."),
        (["--scale", "huge"], "unknown scale 'huge'"),
        (["vgg11-noniid", "--columns", "9-way"], "unknown column '9-way'"),
        (["--results", "none.json"], "the bundle none.json cannot be read"),
        (["--model", "c", "--model", "d"], "no chosen column has 2 parents, as many as --model names. Choose a table"),
        (["vgg11-noniid", "--model", "a", "--model", "b"], "there is no file a"),
    ],
)
def test_the_command_refuses_in_a_sentence(words, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("c", "d"):
        Path(name).write_text(name)
    assert main(["report", *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.slow
def test_given_checkpoints_are_found_again_by_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).write_text(name)
    source = ParentSource(None, ("a", "b"), None, "digits")
    cells = [cell for cell in cells_of("vgg11-noniid", given=source) if cell.column == "2-way"]
    bundle = bundle_of(cells, lambda cell: {"accuracy": 12.5})
    for result in bundle.results.values():
        write_result("runs", result)
    words = ["report", "vgg11-noniid", "--scale", "smoke"]
    given = ["--model", "a", "--model", "b", "--data", "digits"]
    assert main(words) == 0
    assert "12.50" not in capsys.readouterr().out
    assert main([*words, *given]) == 0
    assert capsys.readouterr().out.count("12.50 (1)") > 20
    assert main([*words, *given, "--bundle", "all.json"]) == 0
    Path("a").unlink()
    capsys.readouterr()
    assert main([*words, "--folder", "elsewhere", "--results", "all.json"]) == 0
    assert capsys.readouterr().out.count("12.50 (1)") > 20


@pytest.mark.parametrize(("table", "kept"), [("widths", True), ("resnet-compression", False)])
def test_results_stay_where_a_new_version_left_their_networks_as_they_were(table, kept):
    """Gradient methods' second version changed residual networks alone."""
    bundle = renamed(bundle_of(cells_of(table), lambda cell: {}), inputs={"method version": "1"})
    of_gradient = {key: result for key, result in bundle.results.items() if "-Gradient" in str(result.unit)}
    assert of_gradient
    assert {setting_module.is_of_this_version(result) for result in of_gradient.values()} == {kept}


def summary_of(shares, scales=("evening", "small")):
    """Of `fusion-set-size`, where the networks of a scale know as many images as its `shares` say of a row and column."""
    results = {}
    for scale in scales:
        cells = cells_of("fusion-set-size", scale, 1)
        facts = {(cell.column, cell.row): shares(scale, cell) for cell in cells}
        results |= bundle_of(
            cells,
            lambda cell, facts=facts: (
                None if (share := facts[cell.column, cell.row]) is None else {"known": knowing(share)}
            ),
        ).results
    return report(Bundle(results), ["fusion-set-size"], [scale_of(name) for name in scales]).summary


@pytest.fixture
def all_data(monkeypatch):
    """A machine with every data set."""
    monkeypatch.setattr("retrofit_core.experiments.scales.is_on_disk", lambda name: True)


def test_the_summary_counts_each_number_once_at_its_fullest_scale(all_data):
    only = ("KF-Gradient, uniform", "Parent 0")
    summary = summary_of(lambda scale, cell: None if scale == "evening" and cell.row not in only else 50)
    printed_numbers = {(value.column, value.row) for value in paper_values("fusion-set-size")}
    at_evening = {(column, row) for column, row in printed_numbers if row in only}
    assert summary.numbers == len(printed_numbers)
    assert [(count.scale, count.numbers) for count in summary.counts] == [
        ("evening", len(at_evening)),
        ("small", len(printed_numbers) - len(at_evening)),
    ]
    assert (summary.measured("evening"), summary.measured()) == (len(at_evening), len(printed_numbers))


def test_the_summary_counts_each_claim_once_by_its_verdict(all_data):
    shares = {"Parent 0": 40, "Parent 1": 30, "KF-Gradient, uniform": 60, "KF-Gradient, conductance": 60}
    summary = summary_of(lambda scale, cell: shares.get(cell.row, 90) if scale == "small" else None)
    claimed = summary.decided()
    assert not summary.decided("evening") and len(claimed) == summary.claims
    # Above the best parent by 20, DeepLIFT above conductance by 30, conductance level with uniform scores.
    for claim in claimed:
        expected = "agreed" if claim.paper > 0 else "contradicted"
        assert claim.verdict == ("undecided" if claim.left.endswith("conductance") else expected)
    assert sum(verdicts(claimed)) == len(claimed) and all(verdicts(claimed))


def blood(data: str, scale: str, **shares: int) -> Bundle:
    """Results of `bloodmnist` measured on a data set; parents know 40 images."""
    cells = TABLES["bloodmnist"].cells(dataclasses.replace(scale_of(scale), always=data), 1)
    known = {"Parent 0": 40, "Parent 1": 40, **{row.replace("_", "-") + ", uniform": n for row, n in shares.items()}}
    return bundle_of(cells, lambda cell: {"known": knowing(known[cell.row])} if cell.row in known else None)


def test_a_substitute_counts_for_nothing_and_stands_apart(no_data):
    """CIFAR-10 tells nothing of the paper's numbers on BloodMNIST, not even at a fuller scale."""
    own, other = blood("bloodmnist", "small", KF_Linear=60), blood("cifar10", "evening", KF_Linear=90, HF_Linear=10)
    scales = [scale_of("evening"), scale_of("small")]
    alone = report(other, ["bloodmnist"], scales, only_measured=True)
    assert (alone.summary.measured(), alone.summary.decided(), alone.summary.counts) == (0, [], ())
    printed = len(
        {value.row for value in paper_values("bloodmnist")} & {line.row for line in alone.columns[0].all_lines}
    )
    assert [(count.badge, count.numbers) for count in alone.summary.substituted] == [
        ("evening, cifar10 for bloodmnist", printed)
    ]
    both = report(merged([own, other]), ["bloodmnist"], scales, only_measured=True)
    assert [(count.scale, count.badge) for count in both.summary.counts] == [("small", "small")]
    assert [claim.ours for claim in both.summary.decided() if claim.right == "best parent"] == [pytest.approx(20)]
    assert both.summary.substituted == alone.summary.substituted
    assert {line.is_within for line in alone.columns[0].all_lines} == {None}
    above, _, apart = MARKDOWN.report(both).partition("## Measured on another data set than the paper's\n")
    assert [line.split()[-2] for line in above.splitlines() if line.startswith("| bloodmnist ")] == ["small"]
    assert "evening, cifar10 for bloodmnist |" in apart
    assert "were measured on another data set than the paper's. They do not count." in above


def test_the_report_begins_with_the_summary(all_data):
    bundle = bundle_of(cells_of("fusion-set-size", "small", 1), lambda cell: {"known": knowing(50)})
    text = MARKDOWN.report(report(bundle, ["fusion-set-size"], [scale_of("small")], only_measured=True))
    first, second = (line for line in text.splitlines() if line.startswith("- Of "))
    measured = "we measured 11 at scale `small` or larger, 0 of them at `evening` or larger."
    assert first == f"- Of 11 numbers in these tables of the paper, {measured}"
    assert second.startswith("- Of 8 claims (differences between methods), we measured 8 at scale `small`")
    assert "| fusion-set-size | 11 " in text
