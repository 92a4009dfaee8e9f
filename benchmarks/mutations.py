"""Does the suite guard the mathematics? Changes the core on purpose, one change at a time, and notes which test objects.

    python benchmarks/mutations.py                 all changes (about half an hour on two cores)
    python benchmarks/mutations.py --only NAME ... some of them, by name or the beginning of a name
    python benchmarks/mutations.py --check         whether every change still fits the code, without a test

Each change is made in a copy of the repository. There the tests that should catch it run first, then those of
`make quick`. A change that no test catches is a hole in the suite, and the script ends with 1. So it does where the old
text of a change is not found exactly once (then the table needs the new text), where the changed code cannot be imported
(then it is no change of the mathematics), and where the tests fail on the unchanged copy.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from machine import write
from mutation_table import MUTATIONS, Mutation

ROOT = Path(__file__).parent.parent
QUICK = ("-m", "not slow and not browser")
#: Seconds for one run of pytest; a change may make a loop endless.
LIMIT = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="changes whose names begin so")
    parser.add_argument("--check", action="store_true", help="look for the old texts only")
    parser.add_argument("--jobs", type=int, default=1, help="changes that are tried at the same time (default: 1)")
    arguments = parser.parse_args()
    mutations = [one for one in MUTATIONS if not arguments.only or one.name.startswith(tuple(arguments.only))]
    if not mutations:
        sys.exit(f"no change has a name that begins with {' or '.join(arguments.only)}.")
    check_table(mutations)
    if arguments.check:
        print(f"{len(mutations)} changes fit the code.")
        return
    with tempfile.TemporaryDirectory() as folder:
        copies = [copied(Path(folder) / str(number)) for number in range(arguments.jobs)]
        check_unchanged(copies[0], mutations)
        rows = list(tried(mutations, copies))
    if not arguments.only:
        write("mutations", {"quick": " ".join(QUICK), "limit, seconds": LIMIT, "rows": rows})
    missed = [row["mutation"] for row in rows if row["by"] in ("nothing", "import")]
    print(f"{len(rows) - len(missed)} of {len(rows)} changes were caught by a test.")
    if missed:
        sys.exit(f"no test caught: {', '.join(missed)}.")


def check_table(mutations: Sequence[Mutation]) -> None:
    """End the script, with all reasons, where a change does not fit the code or names a test file that is gone."""
    wrong = []
    for one in mutations:
        path = ROOT / one.file
        count = path.read_text().count(one.old) if path.exists() else 0
        if count != 1:
            wrong.append(f"{one.name}: {one.old!r} stands {count} times in {one.file}, wanted once")
        if one.old == one.new:
            wrong.append(f"{one.name}: the new text is the old one")
        wrong += [f"{one.name}: there is no {test}" for test in one.tests.split() if not (ROOT / test).exists()]
    names = [one.name for one in MUTATIONS]
    wrong += [f"two changes are called {name!r}" for name in sorted(set(names)) if names.count(name) > 1]
    if wrong:
        sys.exit("benchmarks/mutation_table.py does not fit the code:\n" + "\n".join(wrong))


def copied(folder: Path) -> Path:
    """A copy of every file that git knows or would take, compiled."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "retrofit_core", "tests"], cwd=folder, check=True)
    return folder


def check_unchanged(folder: Path, mutations: Sequence[Mutation]) -> None:
    """End the script where the tests fail without any change: then they would catch everything."""
    files = sorted({test for one in mutations for test in one.tests.split()})
    for name, words in (("named", files), ("quick", QUICK)):
        caught, seconds = objection(folder, words, limit=20 * LIMIT)
        if caught:
            sys.exit(f"the {name} tests do not pass on the unchanged code: {caught}.")
        print(f"unchanged: the {name} tests pass in {seconds:.0f} s", flush=True)


def tried(mutations: Sequence[Mutation], copies: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """One row for each change, in the order of the table; each copy serves one change at a time."""
    free: SimpleQueue[Path] = SimpleQueue()
    for folder in copies:
        free.put(folder)

    def attempt(mutation: Mutation) -> dict[str, Any]:
        folder = free.get()
        try:
            return tried_in(folder, mutation)
        finally:
            free.put(folder)

    print("mutation | caught by | seconds")
    with ThreadPoolExecutor(len(copies)) as pool:
        for row in pool.map(attempt, mutations):
            print(f"{row['mutation']} | {row['caught by']} | {row['seconds']:.0f}", flush=True)
            yield row


def tried_in(folder: Path, mutation: Mutation) -> dict[str, Any]:
    """Change the copy, run the tests, change it back."""
    path = folder / mutation.file
    whole = path.read_text()
    path.write_text(whole.replace(mutation.old, mutation.new))
    compiled = list(path.parent.glob(f"__pycache__/{path.stem}.*.pyc"))
    for file in compiled:  # of the unchanged text; times and sizes of files may be equal
        file.unlink()
    try:
        by = "named tests"
        caught, seconds = objection(folder, mutation.tests.split())
        if not caught:
            by = "quick"
            caught, more = objection(folder, QUICK)
            seconds += more
    finally:
        path.write_text(whole)
    by = "nothing" if not caught else "import" if caught.startswith("import") else by
    row = {"mutation": mutation.name, "file": mutation.file, "old": mutation.old, "new": mutation.new, "by": by}
    return {**row, "caught by": caught or "NOTHING", "seconds": round(seconds, 1)}


def objection(folder: Path, words: Sequence[str], limit: float = LIMIT) -> tuple[str, float]:
    """The first test that fails, "import" with its reason where there is nothing to test, or "" where all pass; seconds."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),  # before the checkout, which is installed
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "RETROFIT_SHARED": os.environ.get("RETROFIT_SHARED", str(ROOT.parent / "shared")),
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=line", "-p", "no:cacheprovider", *words]
    start = time.perf_counter()
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"the limit of {limit:.0f} s", time.perf_counter() - start
    seconds = time.perf_counter() - start
    if done.returncode == 0:
        return "", seconds
    failure = re.search(r"^(?:FAILED|ERROR) (\S+?::\S+)", done.stdout, re.M)
    last = (done.stdout + done.stderr).strip().splitlines()[-1:]
    return (failure[1] if failure else f"import: {' '.join(last)}"), seconds


if __name__ == "__main__":
    main()
