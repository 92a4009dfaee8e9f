"""Peak memory of KF-Linear under a budget below the cache: `python benchmarks/memory.py`.

A pair of VGG11s of half width with 1,000 and 10,000 samples; with --large, two ResNet-50s of random weights at 224 x 224 with a
few of the paper's 25,000, and what follows for all of them. With --accounted, what the estimate of a run expects for them stands
beside what was measured, without a fusion. Each run is a separate process. Linux tells its largest resident size
during the fusion: the peak is set back once networks and data are loaded. The budget holds the largest level's sums, but not the
boundary tensors of all samples, so these are recomputed.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, read, shared_folder, write
from pairs import PAIRS, config

from retrofit_core.system import device as devices
from retrofit_core.system.files import write as write_whole

SAMPLES = (1000, 10000)
MEMORY = 300_000_000
PAIR = list(PAIRS)[1]
#: The largest level's sums take 0.7 GB; samples, and those of the paper.
LARGE_MEMORY, LARGE_SAMPLES, ALL_SAMPLES = 10**9, (25, 50), 25_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, help="one run in this process")
    parser.add_argument("--large", action="store_true", help="ResNet-50s at 224 x 224")
    parser.add_argument(
        "--accounted", action="store_true", help="the estimate for these alone; the record keeps its runs"
    )
    arguments = parser.parse_args()
    if arguments.accounted:
        record = read("memory-resnet50") | {"accounted": accounted()}  # the machine's facts are those of its runs
        return write_whole(RESULTS / "memory-resnet50.json", json.dumps(record, indent=1) + "\n")
    if arguments.samples:
        return (once_large if arguments.large else once)(arguments.samples)
    samples, name = (LARGE_SAMPLES, "memory-resnet50") if arguments.large else (SAMPLES, "memory")
    runs = {str(count): separate(count, arguments.large) for count in samples}
    few, many = (runs[str(count)]["peak bytes"] for count in samples)
    if arguments.large:
        write(
            name, {"budget, bytes": LARGE_MEMORY, "runs": runs, "all samples": for_all(runs), "accounted": accounted()}
        )
    else:
        write(name, {"pair": PAIR, "budget, bytes": MEMORY, "runs": runs, "ratio": many / few})
    return None


def separate(samples: int, large: bool) -> dict[str, Any]:
    """A run in a process of its own."""
    words = [sys.executable, __file__, "--samples", str(samples), *["--large"] * large]
    seconds, before, peak = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[-3:]
    run = {"seconds": float(seconds), "bytes before": int(before), "peak bytes": int(peak)}
    print(samples, run, flush=True)
    return run


def for_all(runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Bytes of the inputs of all samples in half precision, and of the whole fusion: what it took beside its inputs with most
    samples, and these."""
    a_sample = 2 * 3 * 224 * 224
    most = max(map(int, runs))
    beside = runs[str(most)]["peak bytes"] - most * a_sample
    return {
        "samples": ALL_SAMPLES,
        "input bytes": ALL_SAMPLES * a_sample,
        "peak bytes": beside + ALL_SAMPLES * a_sample,
    }


def accounted() -> list[dict[str, int]]:
    """Bytes that the estimate expects for some samples and all, and for all under the default budget."""
    from retrofit_core import METHODS
    from retrofit_core.runs.estimate.memory import fusion_memory

    image = torch.zeros(1, 3, 224, 224, dtype=torch.float16)
    algorithm, task = METHODS["KF-Linear"].prepare(large_networks(), image.expand(LARGE_SAMPLES[0], -1, -1, -1))
    levels, rows = algorithm.plan(task).levels, []
    for samples, budget in [*((n, LARGE_MEMORY) for n in (*LARGE_SAMPLES, ALL_SAMPLES)), (ALL_SAMPLES, devices.MEMORY)]:
        expected = fusion_memory(levels, algorithm.fit, samples, budget) + samples * image.nbytes
        rows.append({"samples": samples, "budget, bytes": budget, "bytes": expected})
        print(rows[-1], flush=True)
    return rows


def once(samples: int) -> None:
    from retrofit_core.runs import read_inputs

    inputs = read_inputs(config(shared_folder(), PAIR, samples=samples, fusion_from="iid"))
    fused(inputs.models, inputs.fusion[0], MEMORY)


def large_networks() -> list[torch.nn.Module]:
    from retrofit_core.networks.architectures import build

    spec = {"architecture": "resnet", "layers": [3, 4, 6, 3], "bottleneck": True, "size": 224, "imagenet_stem": True}
    return [build({**spec, "classes": 1000}, seed=seed) for seed in (0, 1)]


def once_large(samples: int) -> None:
    inputs = torch.empty(samples, 3, 224, 224, dtype=torch.float16)
    fused(large_networks(), inputs.normal_(generator=torch.Generator().manual_seed(0)), LARGE_MEMORY)


def fused(models: Any, inputs: torch.Tensor, memory: int) -> None:
    """Fuse, and print seconds, and resident bytes before and at the peak."""
    from retrofit_core import METHODS

    Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what is resident now
    before, start = _resident("VmRSS"), time.perf_counter()
    METHODS["KF-Linear"](models, inputs, memory=memory, device="cpu")
    print(time.perf_counter() - start, before, _resident("VmHWM"))


def _resident(name: str) -> int:
    """Bytes: VmRSS is what is resident now, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
