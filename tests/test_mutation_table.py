"""The changes that benchmarks/mutations.py makes on purpose still fit the code."""

import runpy

from tests.marks import ROOT, skip_without

skip_without("benchmarks", "app")


def test_every_old_text_stands_exactly_once():
    mutations = runpy.run_path(str(ROOT / "benchmarks" / "mutation_table.py"))["MUTATIONS"]
    texts = {file: (ROOT / file).read_text() for file in {mutation.file for mutation in mutations}}
    assert [mutation.name for mutation in mutations if texts[mutation.file].count(mutation.old) != 1] == []
