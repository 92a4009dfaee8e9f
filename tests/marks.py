"""Decorators that several files give to their tests, and what they need of the machine."""

import functools
import inspect
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

Test = Callable[..., None]
ROOT = Path(__file__).parents[1]


def skip_without(*paths: str) -> None:
    """Skip a test, or the rest of a file, where files or folders of the repository were not brought along.

    A machine with a GPU is often lent for minutes: the core and its tests are copied there, pages, pictures and app are not.
    """
    if missing := [path for path in paths if not (ROOT / path).exists()]:
        pytest.skip(f"{', '.join(missing)} of the repository not brought along", allow_module_level=True)


def is_chosen(words: str) -> bool:
    """Whether a case is to be tried: all are, unless the environment variable CASE holds words, which it must have."""
    return os.environ.get("CASE", "") in words


def each_case(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """`pytest.mark.parametrize` within one test: every case is tried, and those that fail are reported by their values.

    Each case has a monkeypatch, a folder, captured output and a generator of its own; it shares all other fixtures. Of
    several, CASE chooses, see `is_chosen`.
    """
    arguments = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]
    listed = [tuple(case) if len(arguments) > 1 or isinstance(names, tuple) else (case,) for case in cases]
    assert listed, "there is no case"

    def loop(test: Test) -> Test:
        named = [dict(zip(arguments, values, strict=True)) for values in listed]
        if hasattr(test, "cases"):  # a loop itself: all combinations are cases
            named = [outer | inner for outer in named for inner in test.cases]  # pyright: ignore
        plain = inspect.unwrap(test, stop=lambda looped: not hasattr(looped, "cases"))
        signature = inspect.signature(plain)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in named[0]]

        @functools.wraps(test)  # with the marks of a loop within this one
        def all_cases(subtests: pytest.Subtests, **given: Any) -> None:
            for number, case in enumerate(named):
                words = ", ".join(str(getattr(value, "__name__", value))[:80] for value in case.values())
                if not is_chosen(words):
                    continue
                with subtests.test(words), pytest.MonkeyPatch.context() as patch:
                    plain(**case, **_renewed(given, number, patch))

        subtests = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        all_cases.__signature__ = signature.replace(parameters=[*fixtures, subtests])  # pyright: ignore
        all_cases.cases = named  # pyright: ignore
        return all_cases

    return loop


def _renewed(fixtures: dict[str, Any], number: int, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    fixtures = dict(fixtures)
    if "monkeypatch" in fixtures:
        fixtures["monkeypatch"] = patch
    if "tmp_path" in fixtures:
        fixtures["tmp_path"] = fixtures["tmp_path"] / f"case-{number}"
        fixtures["tmp_path"].mkdir()
    if "capsys" in fixtures:
        fixtures["capsys"].readouterr()
    if "generator" in fixtures:
        fixtures["generator"].manual_seed(fixtures["generator"].initial_seed())
    return fixtures


def spread(rows: Iterable[Any], columns: Iterable[Any], times: int) -> list[tuple[Any, Any]]:
    """Pairs instead of the full product: every row meets `times` columns, and every column as many rows as any other, up
    to one. Neighbours meet different columns, so kinds listed side by side meet all of them."""
    rows, columns = list(rows), list(columns)
    times = min(times, len(columns))
    return [
        (row, columns[(times * number + k) % len(columns)]) for number, row in enumerate(rows) for k in range(times)
    ]
