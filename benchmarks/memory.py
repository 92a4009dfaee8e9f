"""Peak memory of KF-Linear with 1,000 and 10,000 samples under a budget below the cache: `python benchmarks/memory.py`.

Each run is a separate process. Linux tells its largest resident size during the fusion: the peak is set back once networks
and data are loaded. The budget holds the largest level's sums, but not the boundary tensors of all samples, so these are
recomputed.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from machine import shared_folder, write
from pairs import PAIRS, config

SAMPLES = (1000, 10000)
MEMORY = 300_000_000
PAIR = list(PAIRS)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, help="one run in this process")
    arguments = parser.parse_args()
    if arguments.samples:
        return once(arguments.samples)
    runs = {}
    for samples in SAMPLES:
        words = [sys.executable, __file__, "--samples", str(samples)]
        seconds, before, peak = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[-3:]
        runs[str(samples)] = {"seconds": float(seconds), "bytes before": int(before), "peak bytes": int(peak)}
        print(samples, runs[str(samples)], flush=True)
    ratio = runs[str(SAMPLES[1])]["peak bytes"] / runs[str(SAMPLES[0])]["peak bytes"]
    write("memory", {"pair": PAIR, "budget, bytes": MEMORY, "runs": runs, "ratio": ratio})
    return None


def once(samples: int) -> None:
    from retrofit_core import METHODS
    from retrofit_core.runs import read_inputs

    inputs = read_inputs(config(shared_folder(), PAIR, samples=samples, fusion_from="iid"))
    Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what is resident now
    before, start = _resident("VmRSS"), time.perf_counter()
    METHODS["KF-Linear"](inputs.models, inputs.fusion[0], memory=MEMORY, device="cpu")
    print(time.perf_counter() - start, before, _resident("VmHWM"))


def _resident(name: str) -> int:
    """Bytes: VmRSS is what is resident now, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
