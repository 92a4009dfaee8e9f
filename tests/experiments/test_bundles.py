"""Bundles carry results whole, and damage is noticed."""

import dataclasses
import json

import pytest

from retrofit_core.experiments.bundles import Bundle, GivenParents, merged, read_bundle, write_bundle
from retrofit_core.experiments.units import FineTuning, ParentSource
from tests.experiments.made_up import bundle_of, cells_of, knowing, made, renamed


@pytest.fixture
def bundle() -> Bundle:
    """Results of a whole table, one refused, and a fine-tuned network."""
    cells = cells_of("vgg11-full")
    refused = {"HF-Linear, uniform": {"refusal": "it wants two parents."}}
    return bundle_of(cells, lambda cell: refused.get(cell.row, {"known": knowing(60)}))


def test_a_bundle_keeps_everything_if_asked(bundle, tmp_path):
    size = write_bundle(tmp_path / "all.json", bundle, with_images=True)
    assert read_bundle(tmp_path / "all.json") == bundle
    assert size == (tmp_path / "all.json").stat().st_size
    assert any("start" in result.unit for result in bundle.results.values())  # fine-tunings are in it


def test_without_images_only_long_lists_are_left_out(bundle, tmp_path):
    write_bundle(tmp_path / "short.json", bundle)
    read = read_bundle(tmp_path / "short.json")
    for key, result in bundle.results.items():
        metrics = {name: number for name, number in result.metrics.items() if name != "per_class"}
        assert read.results[key] == dataclasses.replace(result, correct="", metrics=metrics)


def test_bundles_of_the_same_results_are_the_same_file(bundle, tmp_path):
    other_way = Bundle(dict(reversed(bundle.results.items())))
    for name, each in (("a", bundle), ("b", other_way)):
        write_bundle(tmp_path / name, each)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_result_takes_less_than_a_kilobyte(bundle, tmp_path):
    """So that the thousand results of a scale stay below a megabyte."""
    assert write_bundle(tmp_path / "short.json", bundle) < 1000 * len(bundle.results)


def test_given_parents_are_known_by_their_digests_alone(tmp_path):
    files = [tmp_path / f"parent-{index}.safetensors" for index in range(2)]
    for index, file in enumerate(files):
        file.write_text(str(index))
    source = ParentSource(None, tuple(map(str, files)), None, "/some/where/cifar10")
    cells = [cell for cell in cells_of("vgg11-noniid", given=source) if cell.column == "2-way"]
    results = bundle_of(cells, lambda cell: {"accuracy": 60.0}).results
    given = GivenParents((("vgg11-noniid", "2-way"),), source.models, source.to_json())
    write_bundle(tmp_path / "given.json", Bundle(results, (given,)))
    text = (tmp_path / "given.json").read_text()
    assert str(tmp_path) not in text  # neither in names nor in commands
    for file in files:
        file.unlink()
    (read,) = read_bundle(tmp_path / "given.json").given
    assert read.names == ("parent-0.safetensors", "parent-1.safetensors")
    again = [cell for cell in cells_of("vgg11-noniid", given=read.source) if cell.column == "2-way"]
    assert {unit.key() for cell in again for unit in cell.units} == results.keys()


def test_of_two_results_of_a_unit_the_later_one_counts(bundle):
    later = renamed(bundle, finished=2.0, title="later")
    for order in ([bundle, later], [later, bundle]):
        assert {result.title for result in merged(order).results.values()} == {"later"}


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text[: len(text) // 2], "is not a bundle of results: it is not JSON"),
        (lambda text: text.replace("60.0", "61.0", 1), "is damaged: its content does not match its seal"),
        (lambda text: json.dumps({"rows": 3}), "is not a bundle of results: it contains other data"),
        (lambda text: "[]", "is not a bundle of results: it contains other data"),
        (lambda text: text.replace('"schema":1', '"schema":7', 1), "has layout 7, and this version reads 1"),
        (lambda text: "\udcff", "is not a bundle of results: it is not JSON"),
    ],
    ids=["half", "number", "other", "list", "layout", "bytes"],
)
def test_a_damaged_bundle_is_refused_in_a_sentence(bundle, tmp_path, damage, words):
    file = tmp_path / "bundle.json"
    write_bundle(file, bundle)
    file.write_text(damage(file.read_text()), encoding="utf-8", errors="surrogateescape")
    with pytest.raises(ValueError, match=words) as refused:
        read_bundle(file)
    assert str(file) in str(refused.value) and str(refused.value).endswith("`retrofit report --bundle FILE`.")


def test_a_bundle_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nothing.json cannot be read: No such file"):
        read_bundle(tmp_path / "nothing.json")


def test_settings_that_results_share_are_written_once(bundle, tmp_path):
    write_bundle(tmp_path / "short.json", bundle)
    text = (tmp_path / "short.json").read_text()
    assert text.count("an abacus") == 1 and text.count('"split":"full"') == 1


def test_a_fine_tuning_keeps_what_it_started_from(tmp_path):
    start = cells_of("vgg11-full")[0].units[0]
    tuned = FineTuning(FineTuning(start, 1), 2)
    result = made(tuned)
    write_bundle(tmp_path / "tuned.json", Bundle({result.key: result}), with_images=True)
    assert read_bundle(tmp_path / "tuned.json").results[tuned.key()].unit == tuned.to_json()
