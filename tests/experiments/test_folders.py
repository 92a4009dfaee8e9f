"""Folders of bundles: each table has a file with what it shows, and is added to by one command."""

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
from tests.experiments.made_up import bundle_of, cells_of, knowing, made, renamed

ENDED = ("vgg11-full", "runtime-vgg", "fusion-set-size")


@pytest.fixture
def tables():
    return [TABLES[name] for name in ENDED]


@pytest.fixture
def bundle() -> Bundle:
    """Of three tables, two of which show the same parents and fusions."""
    cells = [cell for name in ENDED for cell in cells_of(name)]
    return bundle_of(cells, lambda cell: {"known": knowing(60)})


def keys(path: Path) -> set[str]:
    return set(read_bundle(path).results)


def units(table: str) -> set[str]:
    return {unit.key() for cell in cells_of(table) for unit in cell.units}


def test_each_table_has_a_file_with_what_it_shows(bundle, tables, tmp_path):
    written = update_folder(tmp_path / "kept", bundle, tables, with_images=True)
    assert {each.path.stem: each.results for each in written} == {name: len(units(name)) for name in ENDED}
    assert all(each.bytes == each.path.stat().st_size for each in written)
    # A fine-tuning is refused where its start was, so that belongs to it.
    starts = {unit.start.key() for cell in cells_of("vgg11-full") for unit in cell.units if hasattr(unit, "start")}
    assert starts <= keys(tmp_path / "kept" / "vgg11-full.json") == units("vgg11-full")
    assert results_in(tmp_path / "kept") == bundle


@pytest.mark.slow
def test_what_tables_share_stands_in_both_and_what_none_shows_in_neither(bundle, tables, tmp_path):
    shared = units("runtime-vgg") & {unit.key() for cell in cells_of("vgg11-noniid") for unit in cell.units}
    assert shared
    update_folder(tmp_path, bundle, [*tables, TABLES["vgg11-noniid"]])
    assert shared <= keys(tmp_path / "runtime-vgg.json") & keys(tmp_path / "vgg11-noniid.json")
    stranger = made(dataclasses.replace(cells_of("widths")[0].units[0], test_images=7))
    assert not used_by(list(TABLES.values()), Bundle({stranger.key: stranger})).results


def test_all_scales_data_sets_and_earlier_methods_are_kept(tmp_path):
    cells = [*cells_of("fusion-set-size"), *cells_of("fusion-set-size", "small"), *cells_of("fusion-set-size", "paper")]
    old = renamed(bundle_of(cells, lambda cell: {}), inputs={"method version": "0"})
    assert used_by([TABLES["fusion-set-size"]], old).results.keys() == old.results.keys()


def test_a_file_keeps_what_no_table_shows_any_more(bundle, tables, tmp_path):
    stranger = made(dataclasses.replace(cells_of("widths")[0].units[0], test_images=7))
    write_bundle(tmp_path / "runtime-vgg.json", Bundle({stranger.key: stranger}))
    update_folder(tmp_path, bundle, tables)
    assert keys(tmp_path / "runtime-vgg.json") == {stranger.key, *units("runtime-vgg")}


@pytest.mark.slow
def test_every_result_that_comes_with_the_project_is_shown_by_its_table():
    """A change of a scale or a table must not take its records with it."""
    folder = Path(__file__).parents[2] / "benchmarks" / "results" / "experiments"
    for path in folder.glob("*.json"):
        kept = read_bundle(path)
        assert used_by([TABLES[path.stem]], kept).results.keys() == kept.results.keys(), path.name


@pytest.mark.slow
def test_a_file_keeps_what_it_holds_and_of_one_unit_the_later_result(bundle, tables, tmp_path):
    first, *others = sorted(units("runtime-vgg"))
    update_folder(tmp_path, Bundle({key: bundle.results[key] for key in others}), tables, with_images=True)
    later = dataclasses.replace(bundle.results[first], title="later", finished=2.0)
    for more in (later, bundle.results[first]):  # an earlier one does not come back
        update_folder(tmp_path, Bundle({first: more}), tables)
        assert keys(tmp_path / "runtime-vgg.json") == {first, *others}
        read = read_bundle(tmp_path / "runtime-vgg.json").results
        assert read[first].title == "later" and not read[first].correct  # it was added without images
        assert all(read[key] == bundle.results[key] for key in others)  # these keep theirs


@pytest.mark.slow
def test_images_are_not_lost_to_a_copy_without_and_can_be_added_later(bundle, tables, tmp_path):
    for with_images in (False, True, False):
        update_folder(tmp_path, bundle, tables, with_images)
        read = read_bundle(tmp_path / "runtime-vgg.json").results
        assert all(
            bool(result.correct) == (with_images or tmp_path.joinpath("was").exists()) for result in read.values()
        )
        if with_images:
            (tmp_path / "was").touch()


@pytest.mark.slow
def test_other_tables_files_are_left_alone(bundle, tables, tmp_path):
    update_folder(tmp_path, bundle, tables)
    before = (tmp_path / "vgg11-full.json").read_bytes()
    update_folder(tmp_path, renamed(bundle, title="again", finished=3.0), [TABLES["runtime-vgg"]])
    assert (tmp_path / "vgg11-full.json").read_bytes() == before
    assert {result.title for result in results_in(tmp_path).results.values()} == {"made up", "again"}


@pytest.mark.slow
def test_given_parents_stand_once_with_all_of_their_columns(tmp_path):
    files = [tmp_path / name for name in ("a", "b")]
    for file in files:
        file.write_text(file.name)
    source = ParentSource(None, tuple(map(str, files)), None, "digits")
    columns = (("vgg11-noniid", "2-way"), ("runtime-vgg", "seconds"))
    here = [GivenParents((column,), source.models, source.to_json()) for column in columns]
    elsewhere = dataclasses.replace(here[1], names=("a", "b"))  # the same files, by another path
    cells = [cell for table, column in columns for cell in cells_of(table, given=source) if cell.column == column]
    known = merged([bundle_of(cells, lambda cell: {}), *(Bundle({}, (each,)) for each in (*here, elsewhere))])
    (given,) = known.given
    assert given.columns == columns and given.names == source.models
    update_folder(tmp_path / "kept", known, [TABLES[table] for table, _ in columns])
    for table, column in columns:
        (given,) = read_bundle(tmp_path / "kept" / f"{table}.json").given
        assert given.columns == ((table, column),) and given.names == ("a", "b")
    assert {each.columns for each in results_in(tmp_path / "kept").given} == {columns[::-1]}


@pytest.mark.slow
def test_a_runs_folder_is_told_from_a_folder_of_bundles(bundle, tables, tmp_path):
    update_folder(tmp_path / "kept", bundle, tables, with_images=True)
    for result in bundle.results.values():
        write_result(tmp_path / "runs", result)
    write_bundle(tmp_path / "runs" / "of-another.json", Bundle({}))  # beside what a runs folder has
    assert results_in(tmp_path / "runs").results == bundle.results == results_in(tmp_path / "kept").results


def test_a_folder_of_neither_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no results: neither bundles \(\*.json\) nor .* experiments"):
        results_in(tmp_path)
    (tmp_path / "notes.json").write_text(json.dumps({"rows": 3}))
    with pytest.raises(ValueError, match="notes.json is not a bundle of results: it contains other data"):
        results_in(tmp_path)


def test_a_damaged_file_stops_the_update_before_anything_is_written(bundle, tables, tmp_path):
    (tmp_path / "widths.json").write_text("{")
    with pytest.raises(ValueError, match="widths.json is not a bundle of results"):
        update_folder(tmp_path, bundle, tables)
    assert [path.name for path in tmp_path.iterdir()] == ["widths.json"]


@pytest.mark.slow
def test_the_command_writes_and_updates_a_folder(bundle, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for result in bundle.results.values():
        write_result("runs", result)
    assert main(["report", "runtime-vgg", "--bundle", "kept", "--with-images"]) == 0
    assert [path.name for path in Path("kept").iterdir()] == ["runtime-vgg.json"]
    assert f"{len(units('runtime-vgg'))} results are in kept/runtime-vgg.json" in capsys.readouterr().out
    assert main(["report", "--bundle", "kept", "--with-images"]) == 0
    assert results_in("kept").results == bundle.results
    assert main(["report", "runtime-vgg", "--bundle", "one.json"]) == 0
    assert keys(Path("one.json")) == units("runtime-vgg")
    assert main(["report", "--bundle", "all.json"]) == 0
    assert keys(Path("all.json")) == bundle.results.keys()
    shown = []
    for results in ("kept", "all.json"):
        capsys.readouterr()
        assert main(["report", "--scale", "smoke", "--folder", "none", "--results", results, "--only-measured"]) == 0
        shown.append(capsys.readouterr().out.split("## What differs")[0].count("| 60.00 (1)"))
    assert shown[0] == shown[1] > 10
    assert main(["report", "resnet-compression", "--folder", "none", "--bundle", "kept"]) == 0
    assert "Nothing written to kept: there are no results for these tables." in capsys.readouterr().err
