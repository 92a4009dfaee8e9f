"""Two processes, or two parties, with some of the samples each end with one network: that of all samples in one process."""

import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from retrofit_core import fuse
from retrofit_core.fusion.algorithm import Retrofit
from retrofit_core.fusion.contributors import Alone, Parties, Processes
from retrofit_core.fusion.fit import Gradient, Ridge
from retrofit_core.fusion.importance import Conductance
from retrofit_core.fusion.task import Task
from retrofit_core.networks.architectures import build
from retrofit_core.system.monitor import Cancelled, Monitor
from retrofit_core.system.runtime import Runtime
from tests.marks import each_case
from tests.networks import CNN_SHAPE, VIT, batchnorm_cnn, cnn, initialised, labels, mlp, normal, residual

SAMPLES = 40
#: The samples of each process, by the name of the way to share them.
SHARES = {"unequal": (range(13), range(13, SAMPLES)), "every second": (range(0, SAMPLES, 2), range(1, SAMPLES, 2))}


class Function(nn.Module):
    """A function between a layer and a residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.first, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.second = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x).relu()
        h = h + self.first(h)
        return self.head(h + nn.functional.gelu(self.second(h)))


class Tokens(nn.Module):
    """Embeddings and places added up, one stream with a block."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(9, 5), nn.Embedding(6, 5)
        self.up, self.head = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, ids: Tensor) -> Tensor:
        h = self.tokens(ids) + self.places(torch.arange(6, device=ids.device).expand_as(ids))
        return self.head((h + self.up(h).relu()).mean(1))


def of(make):
    return lambda seed: initialised(make(), seed)


IDS = torch.randint(9, (SAMPLES, 6), generator=torch.Generator().manual_seed(0))
CASES = {
    "function": (of(Function), normal(SAMPLES, 6), {}),
    "BatchNorm": (lambda seed: batchnorm_cnn(seed=seed), normal(SAMPLES, *CNN_SHAPE), {}),
    "residual": (lambda seed: residual(seed=seed), normal(SAMPLES, *CNN_SHAPE), {}),
    "tokens": (of(Tokens), IDS, {}),
    "active": (lambda seed: cnn(seed=seed), normal(SAMPLES, *CNN_SHAPE), {"fit": Ridge(active=True)}),
    "centred": (of(Function), normal(SAMPLES, 6), {"centre": True}),
    "conductance": (of(Function), normal(SAMPLES, 6), {"importance": Conductance("fusion", steps=4)}),
}
NETWORKS = {
    "MLP": (lambda seed: mlp((6, 8, 7, 3), seed=seed), normal(SAMPLES, 6)),
    "BatchNorm": CASES["BatchNorm"][:2],
    "residual": CASES["residual"][:2],
    "ViT": (lambda seed: initialised(build(VIT, seed=seed), seed), normal(SAMPLES, *CNN_SHAPE)),
}
#: 36 fitted samples make batches of 10, 10, 10 and 6.
GRADIENT = Gradient(epochs=4, learning_rate=0.01, batch_size=10, perturbation=0.3, weighted_loss=True)
FITTED = {
    f"{network}, {grouping}": (
        make,
        x,
        {"fit": GRADIENT, "grouping": grouping, "importance": Conductance("fusion", steps=2)},
    )
    for network, (make, x) in NETWORKS.items()
    for grouping in ("kmeans", "hungarian")
}
#: Gradient fits need processes, and their batches depend on the order of samples.
RUNS = [
    *itertools.product(CASES, ["unequal"], ["processes", "parties"]),
    *((name, "unequal" if "kmeans" in name else "every second", "processes") for name in FITTED),
]


def fused(name: str, rows: Sequence[int] = range(SAMPLES), contributors=None):
    make, x, options = (CASES | FITTED)[name]
    data = (x[list(rows)], labels(SAMPLES, 3)[list(rows)])
    return fuse([make(0), make(1)], data, runtime=Runtime(device="cpu", contributors=contributors), **options)


def work(rank: int, folder: str) -> None:
    """One of the two processes."""
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    for name, share, way in RUNS:
        contributors = Processes() if way == "processes" else Parties(f"{folder}/{name}", rank, 2)
        result = fused(name, SHARES[share][rank], contributors)
        torch.save((result.model.state_dict(), facts(result)), Path(folder) / f"{name}-{share}-{way}-{rank}.pt")
    dist.destroy_process_group()


def facts(result):
    """What the reports say of each level."""
    return [(level.rows, level.grouping_error, level.approximation_error, level.curve) for level in result.levels]


def dealt(shares: Sequence[Sequence[int]]) -> list[int]:
    """All samples in the order that processes give them: the first of each, the second of each, ..."""
    return [number for turn in itertools.zip_longest(*shares) for number in turn if number is not None]


@pytest.mark.slow
def test_both_hold_the_network_of_all_samples(tmp_path):
    command = "import sys; from tests.test_processes import work; work(int(sys.argv[1]), sys.argv[2])"
    workers = [subprocess.Popen([sys.executable, "-c", command, str(rank), str(tmp_path)]) for rank in range(2)]
    assert [worker.wait(timeout=240) for worker in workers] == [0, 0]
    for name, share, way in RUNS:
        run = f"{name}, {share}, {way}"
        (first, said), (second, others) = (torch.load(tmp_path / f"{name}-{share}-{way}-{rank}.pt") for rank in (0, 1))
        alone = fused(name, dealt(SHARES[share]))
        assert said == others, run
        for key, tensor in alone.model.state_dict().items():
            assert torch.equal(first[key], second[key]), f"{run}: {key}"
            torch.testing.assert_close(
                first[key], tensor, rtol=1e-6, atol=1e-8, msg=lambda m, at=f"{run}: {key}": f"{at}: {m}"
            )
        for level, (rows, *errors, curve) in zip(alone.levels, said, strict=True):
            expected = pytest.approx(
                (level.grouping_error, level.approximation_error), rel=1e-5, abs=1e-9 * level.energy
            )
            assert (rows, tuple(errors)) == (level.rows, expected), f"{run}: {level.name}"
            for epoch, one in zip(curve, level.curve, strict=True):
                assert epoch == pytest.approx(one, rel=1e-6), f"{run}: {level.name}"


class Twice(Alone):
    """As if another process held the same samples: every sum is twice as large, no mean is."""

    def samples(self, samples, work=bytes):
        return 2 * samples

    def total(self, index, sums):
        return sums.moments() + sums.moments() if not hasattr(sums, "__add__") else sums + sums

    def add_up(self, tensor):
        return 2 * tensor


@each_case("name", CASES)
def test_the_same_samples_twice_say_the_same(name):
    """The ridge is a multiple of the inputs' energy, so nothing changes but sums."""
    once, twice = fused(name), fused(name, contributors=Twice())
    for key, tensor in once.model.state_dict().items():
        torch.testing.assert_close(twice.model.state_dict()[key], tensor, rtol=1e-5, atol=1e-7)


def test_a_party_waits_for_the_others_and_hears_of_other_settings(tmp_path):
    said = []

    def leave(event):
        said.append(event["name"])
        raise Cancelled

    with pytest.raises(Cancelled):
        Parties(tmp_path / "alone", 0, 2, monitor=Monitor(leave)).samples(5)
    assert said == ["waiting for party 1"]
    other = Parties(tmp_path / "two", 1, 2, settings=b"x", monitor=Monitor(leave))
    with pytest.raises(Cancelled):
        other.samples(5)
    with pytest.raises(ValueError, match="party 1 fuses different networks from party 0, or uses different settings"):
        Parties(tmp_path / "two", 0, 2).samples(4)
    with pytest.raises(ValueError, match="holds files of party 1 from an earlier run"):
        Parties(tmp_path / "two", 1, 2)
    with pytest.raises(ValueError, match="there is no party 2 of 2"):
        Parties(tmp_path / "three", 2, 2)


@each_case("options", [{}, {"fit": Ridge(0.5)}, {"seed": 1}])
def test_what_parties_must_have_in_common(options):
    """Networks and settings decide, the samples and where they are do not."""
    task = Task.of([cnn(seed=0), cnn(seed=1)], CASES["active"][1], seed=options.pop("seed", 0))
    other = Task.of([cnn(seed=0), cnn(seed=2)], CASES["active"][1])
    fewer = Task.of([cnn(seed=0), cnn(seed=1)], CASES["active"][1][:7], runtime=Runtime(memory=10**8))
    common = Retrofit().common(fewer)
    assert Retrofit().common(other) != common
    assert (Retrofit(**options).common(task) == common) == (not options and task.seed == 0)


def test_a_party_leaves_no_sums_of_earlier_rounds(tmp_path):
    party = Parties(tmp_path, 0, 1)
    assert [party.samples(3), party.largest(2.5)] == [3, 2.5]
    assert torch.equal(party.add_up(torch.arange(3.0)), torch.arange(3.0))
    assert [path.name for path in tmp_path.iterdir()] == ["00002-0.safetensors"]
