"""Results are read from files and folders whole, or refused in a sentence."""

import dataclasses
import json
from itertools import product

import pytest

from retrofit_core.experiments.results import GivenParents, Records, merged_records, results_in
from retrofit_core.experiments.scales import SCALES
from retrofit_core.experiments.setting import every_setting
from retrofit_core.experiments.tables import TABLES
from retrofit_core.experiments.units import ParentSource
from tests.experiments.made_up import cells_of, knowing, records_of, write_records
from tests.marks import ROOT


@pytest.fixture
def records() -> Records:
    """Results of a whole table, one refused, fine-tuned networks, and given parents."""
    refused = {"HF-Linear, uniform": {"refusal": "it wants two parents."}}
    results = records_of(cells_of("vgg11-full"), lambda cell: refused.get(cell.row, {"known": knowing(60)})).results
    source = ParentSource(None, {"given": ["a", "b"], "data": "cifar10"})
    return Records(results, (GivenParents((("vgg11-noniid", "2-way"),), source, "VGG11s"),))


def test_a_file_and_a_folder_are_read_whole(records, tmp_path):
    write_records(tmp_path / "all.json", records)
    assert results_in(tmp_path / "all.json") == results_in(tmp_path) == merged_records([records])


def test_what_results_share_is_written_once(records, tmp_path):
    """As in the files that come with the project."""
    path = tmp_path / "all.json"
    write_records(path, records)
    content = json.loads(path.read_text())
    content["shared"] = []

    def number(facts):
        for name, value in list(facts.items()):
            if name in ("training", "machine"):
                content["shared"].append(value)
                facts[name] = len(content["shared"]) - 1
            elif isinstance(value, dict | list):
                for each in [value] if isinstance(value, dict) else [one for one in value if isinstance(one, dict)]:
                    number(each)

    for result in content["results"]:
        number(result)
    path.write_text(json.dumps(content))
    assert results_in(path) == merged_records([records])


def test_of_two_results_of_a_unit_the_later_one_counts(records):
    late = {key: dataclasses.replace(each, finished=2.0, title="late") for key, each in records.results.items()}
    for order in ([records, Records(late)], [Records(late), records]):
        assert {result.title for result in merged_records(order).results.values()} == {"late"}


@pytest.mark.parametrize(
    "content", [b'{"results": [', b'{"rows": 3}', b"[]", b"\xff\xfe", b'{"results": [{"key": "a"}]}']
)
def test_other_content_is_refused_in_a_sentence(tmp_path, content):
    (tmp_path / "notes.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"notes.json does not hold results of .* Delete it, or copy it again"):
        results_in(tmp_path)


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no results: neither JSON files nor .* experiments"):
        results_in(tmp_path)


@pytest.mark.slow
def test_every_result_that_comes_with_the_project_is_shown_by_a_table():
    """A change of a scale or a table must not take its records with it."""
    records, shown = results_in(ROOT / "benchmarks" / "results" / "experiments"), set()
    for table, scale in product(TABLES.values(), SCALES.values()):
        for setting in (each for column in table.columns for each in every_setting(table, column, scale, records)):
            shown |= {each.key for cell in setting.cells for each in (*cell.results, cell.start) if each}
    assert shown == records.results.keys()
