"""Facts of the machine that a measurement was made on, the rates that it reaches, and where results are written."""

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import torch

from retrofit_core.experiments.work import commit, processor
from retrofit_core.system.files import write as write_whole

RESULTS = Path(__file__).parent / "results"


def facts() -> dict[str, Any]:
    """Processor, cores, memory, versions, commit."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "cuda": torch.version.cuda if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": commit() or "",
        "date": time.strftime("%Y-%m-%d"),
    }


def product_rate(dtype: torch.dtype, device: torch.device | None = None, size: int | None = None) -> float:
    """Floating-point operations a second of a large matrix product on a device, best of ten after a warm-up."""
    device = device or torch.device("cpu")
    size = size or (3072 if device.type == "cpu" else 8192)
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    times = []
    for _ in range(11):
        synchronise(device)
        start = time.perf_counter()
        a @ b
        synchronise(device)
        times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times[1:])


def synchronise(device: torch.device) -> None:
    torch.cuda.synchronize(device) if device.type == "cuda" else None  # so that timings are correct


def peak_bytes(device: torch.device) -> int | None:
    """The most memory that tensors took on a GPU since `forget_peak`; None on a CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def forget_peak(device: torch.device) -> None:
    """Begin to measure `peak_bytes` anew."""
    if device.type == "cuda":
        torch.cuda.init()  # else nothing is there to reset
        torch.cuda.reset_peak_memory_stats(device)


def read(name: str) -> dict[str, Any]:
    """The record results/NAME.json, empty if there is none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(name: str, content: dict[str, Any]) -> None:
    """Write results with the machine's facts to results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    save(path, content)
    print(f"written to {path.relative_to(Path(__file__).parent.parent)}")


def save(path: Path, content: dict[str, Any]) -> None:
    """Write results with the machine's facts to a file, whole or not at all."""
    write_whole(path, json.dumps({**content, "machine": facts()}, indent=1) + "\n")


def shared_folder() -> Path:
    """Folder with `data` and `models`: RETROFIT_SHARED, else ../shared beside the repository."""
    folder = Path(os.environ.get("RETROFIT_SHARED", Path(__file__).parent.parent.parent / "shared"))
    if not (folder / "models").is_dir():
        raise SystemExit(f"no checkpoints at {folder}: set RETROFIT_SHARED to a folder with `data` and `models`.")
    return folder
