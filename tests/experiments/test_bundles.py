"""Bundles carry results whole, damage is noticed, and folders of them have a file of what each table shows."""

import dataclasses
import json
from pathlib import Path

import pytest

from retrofit_core.cli import main
from retrofit_core.experiments.bundles import Bundle, GivenParents, merged, read_bundle, results_in, write_bundle
from retrofit_core.experiments.folders import update_folder, used_by
from retrofit_core.experiments.results import write_result
from retrofit_core.experiments.tables import TABLES
from retrofit_core.experiments.units import ParentSource
from tests.experiments.made_up import bundle_of, cells_of, knowing, renamed


@pytest.fixture
def bundle() -> Bundle:
    """Results of a whole table, one refused, and a fine-tuned network."""
    cells = cells_of("vgg11-full")
    refused = {"HF-Linear, uniform": {"refusal": "it wants two parents."}}
    return bundle_of(cells, lambda cell: refused.get(cell.row, {"known": knowing(60)}))


def test_a_bundle_keeps_everything(bundle, tmp_path):
    write_bundle(tmp_path / "all.json", bundle)
    assert read_bundle(tmp_path / "all.json") == bundle
    assert any("start" in result.unit for result in bundle.results.values())  # fine-tunings are in it


def test_given_parents_are_known_by_their_digests_alone(tmp_path):
    source = ParentSource(None, {"given": ["a", "b"], "data": "cifar10"})
    cells = [cell for cell in cells_of("vgg11-noniid", given=source) if cell.column == "2-way"]
    results = bundle_of(cells, lambda cell: {"known": knowing(60)}).results
    given = GivenParents((("vgg11-noniid", "2-way"),), source.to_json(), "VGG11s")
    write_bundle(tmp_path / "given.json", Bundle(results, (given,)))
    (read,) = read_bundle(tmp_path / "given.json").given
    assert read == given
    again = [cell for cell in cells_of("vgg11-noniid", given=read.source) if cell.column == "2-way"]
    assert {unit.key() for cell in again for unit in cell.units} == results.keys()


def test_of_two_results_of_a_unit_the_later_one_counts(bundle):
    later = renamed(bundle, finished=2.0, title="later")
    for order in ([bundle, later], [later, bundle]):
        assert {result.title for result in merged(order).results.values()} == {"later"}


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text[: len(text) // 2], "is not a bundle of results: it contains other data"),
        (lambda text: text.replace("60.0", "61.0", 1), "is damaged: its content does not match its seal"),
        (lambda text: json.dumps({"rows": 3}), "is not a bundle of results: it contains other data"),
        (lambda text: "[]", "is not a bundle of results: it contains other data"),
        (lambda text: text.replace('"schema":1', '"schema":7', 1), "has layout 7, and this version reads 1"),
        (lambda text: "\udcff", "is not a bundle of results: it contains other data"),
    ],
    ids=["half", "number", "other", "list", "layout", "bytes"],
)
def test_a_damaged_bundle_is_refused_in_a_sentence(bundle, tmp_path, damage, words):
    file = tmp_path / "bundle.json"
    write_bundle(file, bundle)
    file.write_text(damage(file.read_text()), encoding="utf-8", errors="surrogateescape")
    with pytest.raises(ValueError, match=words) as refused:
        read_bundle(file)
    assert str(file) in str(refused.value) and str(refused.value).endswith(
        "`retrofit reproduce TABLE --bundle FOLDER`."
    )


ENDED = ("vgg11-full", "runtime-vgg", "fusion-set-size")


@pytest.fixture
def tables():
    return [TABLES[name] for name in ENDED]


@pytest.fixture
def several() -> Bundle:
    """Results of three tables, two of which show the same parents and fusions."""
    cells = [cell for name in ENDED for cell in cells_of(name)]
    return bundle_of(cells, lambda cell: {"known": knowing(60)})


def keys(path: Path) -> set[str]:
    return set(read_bundle(path).results)


def units(table: str) -> set[str]:
    return {unit.key() for cell in cells_of(table) for unit in cell.units}


def test_each_table_has_a_file_with_what_it_shows(several, tables, tmp_path):
    written = update_folder(tmp_path / "kept", several, tables)
    assert {path.stem: count for path, count in written.items()} == {name: len(units(name)) for name in ENDED}
    # A fine-tuning is refused where its start was, so that belongs to it.
    starts = {unit.start.key() for cell in cells_of("vgg11-full") for unit in cell.units if hasattr(unit, "start")}
    assert starts <= keys(tmp_path / "kept" / "vgg11-full.json") == units("vgg11-full")
    assert results_in(tmp_path / "kept") == several


@pytest.mark.slow
def test_every_result_that_comes_with_the_project_is_shown_by_its_table():
    """A change of a scale or a table must not take its records with it."""
    folder = Path(__file__).parents[2] / "benchmarks" / "results" / "experiments"
    for path in folder.glob("*.json"):
        kept = read_bundle(path)
        assert used_by(TABLES[path.stem], kept).results.keys() == kept.results.keys(), path.name


@pytest.mark.slow
def test_a_file_keeps_what_it_holds_and_of_one_unit_the_later_result(several, tables, tmp_path):
    first, *others = sorted(units("runtime-vgg"))
    update_folder(tmp_path, Bundle({key: several.results[key] for key in others}), tables)
    later = dataclasses.replace(several.results[first], title="later", finished=2.0)
    for more in (later, several.results[first]):  # an earlier one does not come back
        update_folder(tmp_path, Bundle({first: more}), tables)
        assert keys(tmp_path / "runtime-vgg.json") == {first, *others}
        read = read_bundle(tmp_path / "runtime-vgg.json").results
        assert read[first].title == "later" and all(read[key] == several.results[key] for key in others)


def test_a_folder_of_neither_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no results: neither bundles \(\*.json\) nor .* experiments"):
        results_in(tmp_path)
    (tmp_path / "notes.json").write_text(json.dumps({"rows": 3}))
    with pytest.raises(ValueError, match="notes.json is not a bundle of results: it contains other data"):
        results_in(tmp_path)


def test_a_damaged_file_stops_the_update_before_anything_is_written(several, tables, tmp_path):
    (tmp_path / "widths.json").write_text("{")
    with pytest.raises(ValueError, match="widths.json is not a bundle of results"):
        update_folder(tmp_path, several, tables)
    assert [path.name for path in tmp_path.iterdir()] == ["widths.json"]


@pytest.mark.slow
def test_the_command_writes_and_updates_a_folder(several, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for result in several.results.values():
        write_result("runs", result)
    assert main(["reproduce", "runtime-vgg", "--report", "--bundle", "kept"]) == 0
    assert [path.name for path in Path("kept").iterdir()] == ["runtime-vgg.json"]
    assert f"{len(units('runtime-vgg'))} results are in kept/runtime-vgg.json" in capsys.readouterr().err
    assert main(["reproduce", "all", "--report", "--bundle", "kept"]) == 0
    assert results_in("kept").results == several.results
    capsys.readouterr()
    assert main(["reproduce", "all", "--report", "--scale", "smoke", "--folder", "none", "--results", "kept"]) == 0
    assert capsys.readouterr().out.split("## What differs")[0].count("| 60.00 (1)") > 10
