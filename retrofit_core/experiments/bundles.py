"""Bundles: many results in one file, without networks, small enough to keep next to the code."""

import dataclasses
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..runs.store import UNIT
from ..system.files import json_of, key_of, write
from .results import Result, all_results, rounded, seal_of
from .units import ParentSource

SCHEMA = 1
#: Accuracies over 10,000 images have at most four decimals.
DIGITS = 6


@dataclass(frozen=True)
class GivenParents:
    """Parents given as files, and the table columns that were measured with them."""

    columns: tuple[tuple[str, str], ...]
    """Names of table and column"""
    digests: Mapping[str, Any]
    """Result of `ParentSource.to_json`: digests of the files, and the data set"""
    about: str = ""
    """Description: network, width, training"""

    @property
    def source(self) -> ParentSource:
        """The parents, identified by the digests of their files."""
        return ParentSource(None, self.digests)


@dataclass(frozen=True)
class Bundle:
    """Results by key, and the columns of given parents."""

    results: Mapping[str, Result]
    given: tuple[GivenParents, ...] = ()

    @cached_property
    def seeds(self) -> dict[str, dict[int, int]]:
        """`ParentSource.key` of the first set of parents -> set (seed of their training) -> number of fusion seeds."""
        seeds: dict[str, dict[int, int]] = {}
        for unit in (start_of(result.unit) for result in self.results.values()):
            facts = {name: unit[name] for name in ("training", "given", "data") if name in unit}
            index = facts.get("training", {}).get("seed", 0)
            first = {**facts, "training": {**facts["training"], "seed": 0}} if "training" in facts else facts
            of_parents = seeds.setdefault(key_of(first), {})
            of_parents[index] = max(of_parents.get(index, 1), 1 + unit.get("fusion", {}).get("seed", 0))
        return seeds


def start_of(unit: Mapping[str, Any]) -> Mapping[str, Any]:
    """A unit, or the one from which its fine-tuning started; for an ensemble, the first one's."""
    if "ensemble" in unit:
        return start_of(unit["ensemble"][0])
    return start_of(unit["start"]) if "start" in unit else unit


def write_bundle(path: str | Path, bundle: Bundle) -> None:
    """Write a bundle atomically, with a seal.

    Numbers have six decimals. Training settings, machines and digests that results share are written once.
    """
    shared: dict[str, int] = {}
    results = [_packed(result, shared) for _, result in sorted(bundle.results.items())]
    content = {
        "results": results,
        "shared": [json.loads(text) for text in shared],
        "given": [
            {"columns": entry.columns, "facts": dict(entry.digests), "about": entry.about} for entry in bundle.given
        ],
    }
    write(path, json.dumps({"schema": SCHEMA, "seal": seal_of(content), **content}, separators=(",", ":")) + "\n")


def read_bundle(path: str | Path) -> Bundle:
    """Read a bundle.

    Raises:
        ValueError: the file is missing, no bundle, or damaged.
    """
    try:
        content = json_of(path)
        schema, seal, entries = content.pop("schema"), content.pop("seal"), content["results"]
    except OSError as error:
        raise ValueError(f"the bundle {path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is not a bundle of results: it contains other data. {REMEDY}") from error
    if schema != SCHEMA:
        raise ValueError(f"the bundle {path} has layout {schema}, and this version reads {SCHEMA}. {REMEDY}")
    if seal != seal_of(content):
        raise ValueError(f"the bundle {path} is damaged: its content does not match its seal. {REMEDY}")
    results = [_unpacked(entry, content["shared"]) for entry in entries]
    given = [
        GivenParents(tuple(map(tuple, entry["columns"])), entry["facts"], entry["about"]) for entry in content["given"]
    ]
    return Bundle({result.key: result for result in results}, tuple(given))


def bundles_in(folder: str | Path) -> Bundle:
    """All bundles of a folder, merged; empty if there are none.

    Raises:
        ValueError: as in `read_bundle`.
    """
    return merged(read_bundle(path) for path in sorted(Path(folder).glob("*.json")))


def results_in(path: str | Path) -> Bundle:
    """The results of a bundle, a folder of bundles, or a runs folder, whose results are two folders deeper.

    Raises:
        ValueError: another folder, or as in `read_bundle`.
    """
    path = Path(path)
    if not path.is_dir():
        return read_bundle(path)
    if (path / UNIT.folder).is_dir():
        return Bundle(all_results(path))
    if not any(path.glob("*.json")):
        raise ValueError(
            f"the folder {path} holds no results: neither bundles (*.json) nor what a runs folder has, "
            f"{UNIT.folder}. {REMEDY}"
        )
    return bundles_in(path)


REMEDY = "Copy it again from where it came, or write one with `retrofit reproduce TABLE --bundle FOLDER`."


def merged(bundles: Iterable[Bundle]) -> Bundle:
    """All results, for each key the latest; given parents once, with all their columns."""
    results: dict[str, Result] = {}
    given: dict[str, GivenParents] = {}
    for bundle in bundles:
        for key, result in bundle.results.items():
            # A result read from a bundle is as late as the one written to it.
            if key not in results or round(results[key].finished, DIGITS) <= round(result.finished, DIGITS):
                results[key] = result
        for entry in bundle.given:
            parents = json.dumps(entry.digests, sort_keys=True)
            first = given.get(parents, entry)
            columns = tuple(dict.fromkeys((*first.columns, *entry.columns)))
            given[parents] = dataclasses.replace(first, columns=columns, about=first.about or entry.about)
    return Bundle(dict(sorted(results.items())), tuple(given.values()))


def _packed(result: Result, shared: dict[str, int]) -> dict[str, Any]:
    """A result's fields other than defaults, with numbers in place of shared facts."""
    facts = rounded(dataclasses.asdict(result), DIGITS)
    facts["unit"] = _exchanged(facts["unit"], lambda fact: _number(fact, shared))
    facts["machine"] = _number(facts["machine"], shared)
    words = shlex.split(facts["command"])
    facts["command"] = shlex.join(Path(word).name if Path(word).is_absolute() else word for word in words)
    facts["inputs"] = {role: _number(digest, shared) for role, digest in facts["inputs"].items()}
    return {name: value for name, value in facts.items() if value not in (None, "", {})}


def _unpacked(entry: Mapping[str, Any], shared: list[Any]) -> Result:
    unit = _exchanged(entry["unit"], shared.__getitem__)
    inputs = {role: shared[number] for role, number in entry.get("inputs", {}).items()}
    return Result(**{"command": "", **entry, "unit": unit, "inputs": inputs, "machine": shared[entry["machine"]]})


def _exchanged(unit: dict[str, Any], exchange: Any) -> dict[str, Any]:
    """A unit with its parents' training settings or digests exchanged, including those of the networks it starts from."""
    if "ensemble" in unit:
        return {**unit, "ensemble": [_exchanged(member, exchange) for member in unit["ensemble"]]}
    if "start" in unit:
        return {**unit, "start": _exchanged(unit["start"], exchange)}
    return unit | {name: exchange(unit[name]) for name in ("training", "given") if name in unit}


def _number(value: Any, shared: dict[str, int]) -> int:
    return shared.setdefault(json.dumps(value, sort_keys=True), len(shared))
