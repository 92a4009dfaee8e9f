"""Which test catches what no other test catches? Random small changes of the code, and for each all tests that fail.

    python benchmarks/kill_matrix.py [--count 130] [--minutes 40] [TESTS ...]

`mutations.py` asks whether a change that a person wrote is caught, and stops at the first test. Here chance chooses the changes
(a comparison, an operation, a constant, a condition, a dropped call, a returned None; never a message), and every test that
executes the changed statement runs. A process that has collected the tests is forked for each change and gets the changed code
of one function, so nothing is imported anew. Slow tests run only where no quick test objects. A change that ENOUGH tests catch
tells none of them from the others: the rest, in files of a random order, does not run.
results/kill-matrix.json: each change with the tests that execute it and those that failed, by their numbers in the list of tests.
"""

import argparse
import ast
import builtins
import copy
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
from typing import Any, NamedTuple

import pytest
from machine import write

ROOT = Path(__file__).parent.parent
ROOMS = ("fusion", "networks", "baselines", "runs")
ENOUGH = 20
TESTS = ("grouping", "fit", "importance")  # folders of tests/, besides its own files
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult,
}  # fmt: skip


class Mutant(NamedTuple):
    file: str
    line: int
    function: str
    change: str
    tree: ast.Module


def changed(node: ast.AST) -> ast.AST | None:
    """The node with its small change, None where there is none to make."""
    new: Any = copy.deepcopy(node)
    match new:
        case ast.Compare() if type(new.ops[0]) in SWAPPED:
            new.ops[0] = SWAPPED[type(new.ops[0])]()
        case ast.BinOp() | ast.BoolOp() if type(new.op) in SWAPPED:
            new.op = SWAPPED[type(new.op)]()
        case ast.UnaryOp(op=ast.Not()):
            new = new.operand
        case ast.Constant(value=bool()):
            new.value = not new.value
        case ast.Constant(value=int()):
            new.value += 1
        case ast.Constant(value=float()):
            new.value *= 2
        case ast.If() | ast.IfExp() | ast.While():
            new.test = ast.UnaryOp(ast.Not(), new.test)
        case ast.Expr(value=ast.Call()):
            new = ast.Pass()
        case ast.Return(value=ast.expr()):
            new.value = ast.Constant(None)
        case _:
            return None
    return ast.copy_location(new, node)


def places(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, ast.AST, str, int | None]]:
    """Function, innermost statement, parent node, field and index of every node of a function's body, messages left out."""

    def under(node: ast.AST, function: str, statement: ast.stmt | None) -> Iterator[Any]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
                continue
            for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr):
                    continue
                inner = child if isinstance(child, ast.stmt) else statement
                name = function
                if isinstance(child, ast.FunctionDef | ast.ClassDef) and not isinstance(node, ast.FunctionDef):
                    name = f"{function}.{child.name}".strip(".")
                elif inner is not None and statement is not None:
                    yield function, inner, node, field, index
                inside = isinstance(child, ast.FunctionDef) or statement is not None
                yield from under(child, name, inner if inside else None)

    yield from under(tree, "", None)


def mutants(count: int, seed: int) -> list[Mutant]:
    """Random changes, as many in each kind of node as chance gives a list in which all kinds are equally frequent."""
    kinds: dict[str, list[Callable[[], Mutant]]] = {}
    for path in sorted(path for room in ROOMS for path in (ROOT / "retrofit_core" / room).rglob("*.py")):
        tree = ast.parse(path.read_text())
        for number, (_, _, parent, field, index) in enumerate(places(tree)):
            value = getattr(parent, field)
            node = value if index is None else value[index]
            if changed(node) is not None:
                kinds.setdefault(type(node).__name__, []).append(functools.partial(mutant, path, number))
    chance = random.Random(seed)
    names = [name for name in sorted(kinds) for _ in range(1 if name in ("Return", "While") else 3)]
    return [chance.choice(kinds[chance.choice(names)])() for _ in range(count)]


def mutant(path: Path, number: int) -> Mutant:
    tree = ast.parse(path.read_text())
    function, statement, parent, field, index = list(places(tree))[number]
    value = getattr(parent, field)
    old = value if index is None else value[index]
    new = changed(old)
    words = f"{ast.unparse(old)[:80]} -> {ast.unparse(new)[:80]}" if new is not None else ""
    if index is None:
        setattr(parent, field, new)
    else:
        value[index] = new
    return Mutant(str(path.relative_to(ROOT)), statement.lineno, function, words, ast.fix_missing_locations(tree))


def marked(file: str, lines: dict[int, int]) -> ast.Module:
    """A file's tree that notes a number in front of the statement that begins on a line."""
    tree = ast.parse((ROOT / file).read_text())
    for node in list(ast.walk(tree)):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                marks = [
                    ast.parse(f"__hit__({lines[each.lineno]})").body if each.lineno in lines else [] for each in body
                ]
                body[:] = [each for mark, old in zip(marks, body, strict=True) for each in (*mark, old)]
    return ast.fix_missing_locations(tree)


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

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.unfreeze()
        objects = gc.get_objects()
        self.functions: dict[tuple[str, str], list[FunctionType]] = {}
        for each in objects:
            if type(each) is FunctionType and "retrofit_core" in each.__code__.co_filename:
                self.functions.setdefault((each.__code__.co_filename, each.__code__.co_qualname), []).append(each)
        self.caches = [
            each for each in objects
            if type(each) is functools._lru_cache_wrapper and str(each.__module__).startswith(("tests", "retrofit"))
        ]  # fmt: skip
        self.items = session.items
        chosen = mutants(self.count, self.seed)
        seen, seconds = self.forked(lambda out: self.cover(chosen, out), 3600)[0]
        print(f"unchanged: {len(seen)} tests, {sum(seconds.values()):.0f} s", flush=True)
        rows, numbers = [], {item.nodeid: number for number, item in enumerate(self.items)}
        for number, one in enumerate(chosen):
            if time.monotonic() > self.until:
                break
            touching = [item for item in self.items if number in seen.get(item.nodeid, ())]
            quick = [item for item in touching if not item.get_closest_marker("slow")]
            slow = [item for item in touching if item not in quick]
            start, ran, failed = time.monotonic(), quick, self.objections(one, quick, seconds)
            if not failed and slow:
                ran, failed = touching, self.objections(one, slow, seconds)
            row = {"file": one.file, "line": one.line, "function": one.function, "change": one.change}
            rows.append(row | {"ran": [numbers[i.nodeid] for i in ran], "failed": sorted(map(numbers.get, failed))})
            took = time.monotonic() - start
            print(
                f"{number} {one.file}:{one.line} {one.change!r}: {len(failed)} of {len(ran)}, {took:.0f} s", flush=True
            )
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

    def cover(self, chosen: list[Mutant], out: Any) -> None:
        """Which changes' statements each test executes; what fixtures of a file execute counts for all its tests."""
        builtins.__dict__["__hit__"] = self.hits.add
        names = {
            file: sorted({one.line for one in chosen if one.file == file}) for file in {one.file for one in chosen}
        }
        keys = [(file, line) for file, lines in names.items() for line in lines]
        for file, lines in names.items():
            self.patch(file, marked(file, {line: keys.index((file, line)) for line in lines}))
        found, seconds = {}, {}
        for item, after in zip(self.items, [*self.items[1:], None], strict=True):
            for cache in self.caches:
                cache.cache_clear()
            self.hits.clear()
            start = time.perf_counter()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            seconds[item.nodeid], found[item.nodeid] = time.perf_counter() - start, set(self.hits)
        rows = {}
        for item in self.items:
            if item.nodeid not in self.failed:  # it would catch everything
                shared = [
                    self.of_fixtures.get(one, set())
                    for ones in item._fixtureinfo.name2fixturedefs.values()
                    for one in ones
                ]
                hits = found[item.nodeid].union(*shared)
                rows[item.nodeid] = [n for n, one in enumerate(chosen) if keys.index((one.file, one.line)) in hits]
        out.write(json.dumps([rows, seconds]) + "\n")

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

    def objections(self, one: Mutant, items: list[pytest.Item], seconds: dict[str, float]) -> list[str]:
        """The tests that fail on the changed code; an endless one fails by the clock."""

        files = sorted({item.path for item in items})
        random.Random(self.seed).shuffle(files)
        items = sorted(items, key=lambda item: files.index(item.path))

        def work(out: Any) -> None:
            self.patch(one.file, one.tree)
            signal.signal(signal.SIGALRM, _too_long)
            for item, after in zip(items, [*items[1:], None], strict=True):
                signal.alarm(10 + 5 * int(seconds[item.nodeid]))
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                signal.alarm(0)
                if item.nodeid in self.failed:
                    out.write(json.dumps(item.nodeid) + "\n")
                    out.flush()
                if len(self.failed) == ENOUGH:
                    return

        return self.forked(work, 60 + 5 * sum(seconds[item.nodeid] for item in items))


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
    tests = arguments.tests or [
        *map(str, sorted((ROOT / "tests").glob("test_*.py"))),
        *(f"tests/{one}" for one in TESTS),
    ]
    words = [
        "-o",
        "addopts=",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:rerunfailures",
        "-p",
        "no:terminal",
        "-m",
        arguments.marks,
    ]
    with tempfile.TemporaryDirectory() as folder:
        plugin = Matrix(arguments.count, arguments.minutes, arguments.seed)
        sys.exit(pytest.main([*words, "--basetemp", f"{folder}/tests", *tests], plugins=[plugin]))


if __name__ == "__main__":
    main()
