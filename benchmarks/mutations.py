"""Does the suite guard the numbers? Changes core and app on purpose, one change at a time, and notes which test objects.

    python benchmarks/mutations.py                 all changes (about a quarter of an hour on one core)
    python benchmarks/mutations.py --only NAME ... some of them, by name or the beginning of a name
    python benchmarks/mutations.py --quick         what the named tests let pass must also pass `make quick` to survive
    python benchmarks/mutations.py --check         whether every change still fits the code, without a test

Each change is made in a copy of the repository, where the tests run that should catch it. A change that they do not catch
has survived: a hole in the suite, and the script ends with 1. So it does where the old text of a change is not found
exactly once (then the table needs the new text), where the changed code cannot be imported (then it is no change of the
mathematics), and where the tests fail on the unchanged copy. results/mutations.json holds what was found, also after
`--only`, which replaces the rows of the changes that it tried.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from machine import read, write
from mutation_table import MUTATIONS, Mutation

ROOT = Path(__file__).parent.parent
NAMED = "not browser"  # what may run of the tests that a change names
QUICK = f"not slow and not long and {NAMED}"
#: Seconds for the tests of one change, which may make a loop endless; and for all named tests, unchanged.
LIMIT, LIMIT_UNCHANGED = 300, 1800
SURVIVED, BROKEN = "nothing", "no test: "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="changes whose names begin so")
    parser.add_argument("--quick", action="store_true", help="try survivors with all tests of `make quick`, too")
    parser.add_argument("--check", action="store_true", help="look for the old texts only")
    arguments = parser.parse_args()
    mutations = [one for one in MUTATIONS if not arguments.only or one.name.startswith(tuple(arguments.only))]
    if not mutations:
        sys.exit(f"no change has a name that begins with {' or '.join(arguments.only)}.")
    check_table(mutations)
    if arguments.check:
        print(f"{len(mutations)} changes fit the code.")
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder))
        check_copy(copy, mutations)
        print("mutation | caught by | seconds")
        rows = [tried(mutation, copy, arguments.quick) for mutation in mutations]
    write("mutations", {"seconds at most": LIMIT, "rows": merged(rows)})
    missed = [row["mutation"] for row in rows if row["caught by"].startswith((SURVIVED, BROKEN))]
    print(f"{len(rows) - len(missed)} of {len(rows)} changes were caught by a test.")
    if missed:
        sys.exit(f"no test caught: {', '.join(missed)}.")


def check_table(mutations: Sequence[Mutation]) -> None:
    """End the script, with all reasons, where a change does not fit the code or names a test that is gone."""
    wrong = []
    for one in mutations:
        path = ROOT / one.file
        count = path.read_text().count(one.old) if path.exists() else 0
        if count != 1:
            wrong.append(f"{one.name}: {one.old!r} stands {count} times in {one.file}, wanted once")
        if one.old == one.new:
            wrong.append(f"{one.name}: the new text is the old one")
        wrong += [f"{one.name}: there is no {test}" for test in one.tests.split() if not _is_there(test)]
    names = [one.name for one in MUTATIONS]
    wrong += [f"two changes are called {name!r}" for name in sorted(set(names)) if names.count(name) > 1]
    if wrong:
        sys.exit("benchmarks/mutation_table.py does not fit the code:\n" + "\n".join(wrong))


def _is_there(test: str) -> bool:
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.is_file() and (not name or f"def {name}(" in path.read_text())


def copied(folder: Path) -> Path:
    """A copy of every file that git knows or would take, compiled."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "retrofit_core", "app", "tests"], cwd=folder, check=True)
    return folder


def check_copy(copy: Path, mutations: Sequence[Mutation]) -> None:
    """End the script where the copy is not what is tested, or where the tests fail without any change: then they would
    catch everything."""
    for package, folder in (("retrofit_core", copy), ("retrofit_app", copy / "app")):
        words = [sys.executable, "-c", f"import {package}; print({package}.__file__)"]
        done = subprocess.run(words, cwd=copy, env=_environment(copy), capture_output=True, text=True)
        imported = done.stdout.strip()
        if Path(imported).resolve() != (folder / package / "__init__.py").resolve():
            sys.exit(f"tests in the copy {copy} would import {imported or 'nothing'}.")
    tests = sorted({test for one in mutations for test in one.tests.split()})
    caught, seconds = objection(copy, tests, LIMIT_UNCHANGED)
    if caught:
        sys.exit(f"the named tests do not pass on the unchanged code: {caught}.")
    print(f"unchanged: the named tests pass in {seconds:.0f} s", flush=True)


def tried(mutation: Mutation, copy: Path, quick: bool) -> dict[str, Any]:
    """Change the copy, run the tests, change it back."""
    path = copy / mutation.file
    whole = path.read_text()
    path.write_text(whole.replace(mutation.old, mutation.new))
    for file in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        file.unlink()  # of the unchanged text; times and sizes of files may be equal
    try:
        caught, seconds = objection(copy, mutation.tests.split(), LIMIT)
        if quick and not caught:
            caught, more = objection(copy, [], LIMIT)
            seconds += more
    finally:
        path.write_text(whole)
    row = {"mutation": mutation.name, "file": mutation.file, "old": mutation.old, "new": mutation.new}
    row |= {"caught by": caught or SURVIVED, "seconds": round(seconds, 1)}
    print(f"{mutation.name} | {row['caught by']} | {seconds:.0f}", flush=True)
    return row


def objection(copy: Path, tests: Sequence[str], limit: float) -> tuple[str, float]:
    """The first test that fails, a reason where there was nothing to test, or "" where all pass; seconds.

    Args:
        tests: files or FILE::NAME; none: all that are not slow. Those that need a browser are left out.
    """
    marks = NAMED if tests else QUICK
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=line", "-p", "no:cacheprovider", "-m", marks]
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [*words, *tests], cwd=copy, env=_environment(copy), capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return f"the limit of {limit:.0f} s", time.perf_counter() - start
    seconds = time.perf_counter() - start
    if done.returncode == 0:
        return "", seconds
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?::\S+)", done.stdout, re.M)
    last = (done.stdout + done.stderr).strip().splitlines()[-1:]
    return (failed[1] if failed else f"{BROKEN}{' '.join(last)}"), seconds


def _environment(copy: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(copy), str(copy / "app")]),  # before the checkout, which is installed
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "RETROFIT_SHARED": os.environ.get("RETROFIT_SHARED", str(ROOT.parent / "shared")),
    }


def merged(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest row of each change that the table still has, in its order."""
    newest = {row["mutation"]: row for row in [*read("mutations").get("rows", []), *rows]}
    known = [(one, newest[one.name]) for one in MUTATIONS if one.name in newest]
    return [row | {"file": one.file} for one, row in known if (row["old"], row["new"]) == (one.old, one.new)]


if __name__ == "__main__":
    main()
