"""Which test catches what no other test catches? Random small changes of the code, and for each all tests that fail.

    python benchmarks/kill_matrix.py [--count 130] [--minutes 40] [TESTS ...]

`mutations.py` asks whether a change that a person wrote is caught, and stops at the first test. Here chance chooses the changes
(random_changes.py), and every test that executes the changed statement runs, files in a random order, until ENOUGH have failed.
Slow tests run only where no quick test objects. A process that has collected the tests is forked for each change and gets the
changed code of one function, so nothing is imported anew.
results/kill-matrix.json: each change with the tests that execute it and those that failed, by their numbers in the list of tests.
"""

import argparse
import ast
import builtins
import functools
import gc
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from machine import write
from random_changes import Change, chosen, marked

ROOT = Path(__file__).parent.parent
TESTS = ("grouping", "fit", "importance")  # folders of tests/, besides its own files
#: So many failures tell none of the tests from the others.
ENOUGH = 20


def codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes(constant)


class Matrix:
    """Takes pytest's loop over tests for its own."""

    def __init__(self, count: int, minutes: float, seed: int) -> None:
        self.count, self.until, self.seed = count, time.monotonic() + 60 * minutes, seed
        self.failed: set[str] = set()
        self.hits: set[int] = set()
        self.of_fixtures: dict[Any, set[int]] = {}
        self.functions: dict[tuple[str, str], list[FunctionType]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.unfreeze()
        self.items, objects = session.items, gc.get_objects()
        for each in objects:
            if type(each) is FunctionType:
                self.functions.setdefault((each.__code__.co_filename, each.__code__.co_qualname), []).append(each)
        caches = [each for each in objects if type(each) is functools._lru_cache_wrapper]
        self.caches = [each for each in caches if str(each.__module__).startswith(("tests", "retrofit"))]
        changes, rows = chosen(self.count, self.seed), []
        seen, seconds = self.forked(lambda out: self.cover(changes, out), 3600)[0]
        order = {item.nodeid: number for number, item in enumerate(self.items)}
        for number, one in enumerate(changes):
            if time.monotonic() > self.until:
                break
            ran = [item for item in self.items if number in seen.get(item.nodeid, ())]
            slow = [item for item in ran if item.get_closest_marker("slow")]
            quick = [item for item in ran if item not in slow]
            failed = self.objections(one, quick, seconds) or self.objections(one, slow, seconds)
            row = {"file": one.file, "line": one.line, "change": one.words}
            rows.append(row | {"ran": [order[i.nodeid] for i in ran], "failed": sorted(map(order.get, failed))})
            print(f"{number} {one.file}:{one.line} {one.words!r}: {len(failed)} of {len(ran)}", flush=True)
            tests = [[item.nodeid, round(seconds.get(item.nodeid, 0), 2)] for item in self.items]
            write("kill-matrix", {"seed": self.seed, "tests": tests, "changes": rows})
        return True

    def forked(self, work: Callable[[Any], None], limit: float) -> list[Any]:
        """What a forked process wrote, line by line, until it ended or its time was over."""
        with tempfile.NamedTemporaryFile("w+") as out:
            if (child := os.fork()) == 0:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.dup2(1, 2)
                try:
                    work(out)
                finally:
                    out.flush()
                    os._exit(0)
            while os.waitpid(child, os.WNOHANG)[0] == 0:
                time.sleep(0.05)
                limit -= 0.05
                if limit < 0:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    break
            return [json.loads(line) for line in Path(out.name).read_text().splitlines()]

    def patch(self, file: str, tree: ast.Module) -> None:
        for code in codes(compile(tree, str(ROOT / file), "exec")):
            for function in self.functions.get((code.co_filename, code.co_qualname), []):
                if function.__code__.co_freevars == code.co_freevars:
                    function.__code__ = code

    def cover(self, changes: list[Change], out: Any) -> None:
        """The changes whose statements each test executes, and its seconds; tests that fail would catch everything."""
        builtins.__dict__["__hit__"] = self.hits.add
        keys = list(dict.fromkeys((one.file, one.line) for one in changes))
        for file in {one.file for one in changes}:
            self.patch(file, marked(file, {line: number for number, (of, line) in enumerate(keys) if of == file}))
        found, seconds = {}, {}
        for item, after in zip(self.items, [*self.items[1:], None], strict=True):
            for cache in self.caches:
                cache.cache_clear()
            self.hits.clear()
            start = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            seconds[item.nodeid], found[item] = time.process_time() - start, set(self.hits)
        for item in found:
            for fixtures in item._fixtureinfo.name2fixturedefs.values():
                found[item] |= set().union(*(self.of_fixtures.get(one, set()) for one in fixtures))
        seen = {
            item.nodeid: [number for number, one in enumerate(changes) if keys.index((one.file, one.line)) in hits]
            for item, hits in found.items()
            if item.nodeid not in self.failed
        }
        out.write(json.dumps([seen, seconds]) + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Any:
        """What a fixture of several tests executes counts for all of them."""
        before = set(self.hits)
        self.hits.clear()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self.of_fixtures.setdefault(fixturedef, set()).update(self.hits)
            self.hits.update(before)

    def objections(self, one: Change, items: list[pytest.Item], seconds: dict[str, float]) -> list[str]:
        """The tests that fail on the changed code; an endless one fails by the clock."""
        files = sorted({item.path for item in items})
        random.Random(self.seed).shuffle(files)
        items = sorted(items, key=lambda item: files.index(item.path))

        def work(out: Any) -> None:
            self.patch(one.file, one.tree)
            signal.signal(signal.SIGPROF, _too_long)
            for item, after in zip(items, [*items[1:], None], strict=True):
                signal.setitimer(signal.ITIMER_PROF, 10 + 5 * seconds[item.nodeid])  # of its own time
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                signal.setitimer(signal.ITIMER_PROF, 0)
                if item.nodeid in self.failed:
                    out.write(json.dumps(item.nodeid) + "\n")
                    out.flush()
                if len(self.failed) == ENOUGH:
                    return

        return self.forked(work, 60 + 50 * sum(seconds[item.nodeid] for item in items)) if items else []


def _too_long(*_: Any) -> None:
    raise TimeoutError("the change makes this test endless")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="files or folders")
    parser.add_argument("--count", type=int, default=130, help="changes to choose")
    parser.add_argument("--minutes", type=float, default=40, help="begin no further change after so long")
    parser.add_argument("--marks", default="not long and not browser", help="of the tests that may run")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tests = arguments.tests or [*map(str, (ROOT / "tests").glob("test_*.py")), *(f"tests/{one}" for one in TESTS)]
    words = ["-o", "addopts=", "-m", arguments.marks]
    words += [word for name in ("cacheprovider", "rerunfailures", "terminal") for word in ("-p", f"no:{name}")]
    with tempfile.TemporaryDirectory() as folder:
        plugin = Matrix(arguments.count, arguments.minutes, arguments.seed)
        sys.exit(pytest.main([*words, "--basetemp", f"{folder}/tests", *tests], plugins=[plugin]))


if __name__ == "__main__":
    main()
