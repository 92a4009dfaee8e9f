"""All knowledge about devices: which one to use, the precision of sums, bytes -> rows per batch."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .duplicates import duplicate
from .registry import first_line

#: Bytes per chunk of unfolded rows: large enough for full-speed products, small enough for any machine.
CHUNK_BYTES = 128 * 2**20
#: Bytes for a level besides networks and data: sums, factors and kept boundary tensors.
MEMORY = 8 * 2**30
#: Bytes of pixels that training keeps on its device; with more, it decodes them for every epoch.
PIXEL_BYTES = 2 * 2**30

#: What multiplies float32 numbers in a precision of its own: matrix products, convolutions and recurrent layers.
_LIBRARIES: Any = torch.backends
_MULTIPLYING = (
    _LIBRARIES.cuda.matmul,
    _LIBRARIES.cudnn.conv,
    _LIBRARIES.cudnn.rnn,
    _LIBRARIES.mkldnn.matmul,
    _LIBRARIES.mkldnn.conv,
    _LIBRARIES.mkldnn.rnn,
)
#: Device types whose autocast may surround a fusion.
_AUTOCAST = ("cpu", "cuda", "xpu")

PRECISIONS = ("auto", "float32", "bfloat16")


def pick(name: str | torch.device | None = None) -> torch.device:
    """The device called `name`; default: CUDA if available, else the CPU.

    The result has an index ("cuda" becomes "cuda:0"), as tensors' devices do, so that devices can be compared.

    Raises:
        ValueError: the device does not exist on this machine, or lacks float64 for sums.
    """
    if name is None or name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type == "mps":
            raise ValueError("device 'mps' has no float64, in which sums are held. Use 'cpu' or 'auto'.")
        device = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = first_line(error)
        raise ValueError(f"device {name!r} is not available here ({reason}). Use 'cpu' or 'auto'.") from error
    return device


def on_device(model: nn.Module, device: str | torch.device | None) -> nn.Module:
    """The model if it is entirely on the device, else a copy there.

    Args:
        device: as for `pick`.
    """
    chosen = pick(device)
    lies_there = all(tensor.device == chosen for tensor in (*model.parameters(), *model.buffers()))
    return model if lies_there else duplicate(model).to(chosen)


def of(module: nn.Module) -> torch.device:
    """The device of a module's parameters (the CPU if it has none)."""
    return next((p.device for p in module.parameters()), torch.device("cpu"))


def in_units(count: int) -> str:
    """Human-readable bytes: 300 bytes, 12 kB, 1,130 MB."""
    unit, size = next((pair for pair in (("MB", 10**6), ("kB", 10**3)) if count >= pair[1]), ("bytes", 1))
    return f"{count / size:,.0f} {unit}"


def sum_dtype(device: torch.device) -> torch.dtype:
    """float64 if the device multiplies it at a good rate (CPUs, data-centre GPUs), else float32.

    Sums over batches of float32 products are float64 in any case (see `moments`).
    """
    if device.type == "cpu":
        return torch.float64
    if device.type == "cuda":
        # Data-centre cards (P100 6.0, V100 7.0, A100 8.0, H100 9.0, B200 10.0) run float64 at half the float32 rate;
        # consumer cards of the same generations (x.6, x.9, 12.x) at 1/64.
        return (
            torch.float64
            if torch.cuda.get_device_capability(device) in {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}
            else torch.float32
        )
    return torch.float32


def float64_is_as_fast(device: torch.device) -> bool:
    """Whether products in float64 are as fast as in float32: on the tensor cores of A100 and H100 (docs/measurements.md)."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) in {(8, 0), (9, 0)}


@contextmanager
def exact() -> Iterator[None]:
    """Within it, products have the precision of their numbers whatever surrounds it: float32 products, convolutions and
    recurrent layers are IEEE float32 on every device, autocast is off, and tensors are not those of inference mode, which
    allow no gradients.

    Unless told otherwise, PyTorch lets cuDNN round convolutions and recurrent layers to TF32, which has 10 bits. All is
    restored behind it, also after an exception. Precision is a setting of the process: other threads have it as well.
    """
    with ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        for kind in _AUTOCAST:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if any(each.fp32_precision != "ieee" for each in _MULTIPLYING):
            stack.enter_context(_ieee())
        yield


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Within it, this is the dtype of tensors and modules that are made without one."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _ieee() -> Iterator[None]:
    """Float32 products as IEEE 754 has them.

    PyTorch keeps each setting twice, and raises where the older one is read (as `torch.backends.cudnn.flags` and torch.compile
    do) and contradicts the newer one. So both are set.
    """
    before = [each.fp32_precision for each in _MULTIPLYING]
    products = _unless_contradicting(torch.get_float32_matmul_precision)
    convolutions = _unless_contradicting(lambda: torch.backends.cudnn.allow_tf32)
    try:
        _set_older(None if products is None else "highest", None if convolutions is None else False)
        for each in _MULTIPLYING:
            each.fp32_precision = "ieee"
        yield
    finally:
        _set_older(products, convolutions)
        for each, precision in zip(_MULTIPLYING, before, strict=True):
            each.fp32_precision = "none"  # follows the library's setting, as before if that gives the same
            if each.fp32_precision != precision:
                each.fp32_precision = precision


def _unless_contradicting(read: Callable[[], Any]) -> Any:
    """An older setting; None if PyTorch refuses to read it."""
    try:
        return read()
    except RuntimeError:
        return None


def _set_older(products: str | None, convolutions: bool | None) -> None:
    """Set the older settings; None leaves one as it is."""
    if products is not None:
        torch.set_float32_matmul_precision(products)
    if convolutions is not None:
        torch.backends.cudnn.allow_tf32 = convolutions


def autocast_dtype(precision: str, device: torch.device) -> torch.dtype:
    """The dtype of products in mixed precision; "auto" is bfloat16 if the device multiplies it faster.

    Raises:
        ValueError: unknown precision.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}. Known: {', '.join(PRECISIONS)}.")
    if precision == "auto":
        return torch.bfloat16 if gains_by_bfloat16(device) else torch.float32
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def gains_by_bfloat16(device: torch.device) -> bool:
    """Whether the device has instructions for bfloat16 products (CUDA from Ampere on, AMX, AVX512-BF16)."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and bool({"amx_bf16", "avx512_bf16"} & _cpu_flags())


@cache
def _cpu_flags() -> frozenset[str]:
    """CPU flags on Linux; empty elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def rows_per_batch(bytes_per_row: int, budget: int = CHUNK_BYTES) -> int:
    """How many rows fit into `budget` bytes; at least one."""
    return max(1, budget // max(1, bytes_per_row))


class Stopwatch:
    """Sums seconds per named phase, for the breakdown forward / moments / solve / group / fit in reports.

    On a GPU it uses events in the stream, so that nothing waits until it is read.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._phases: list[tuple[str, Any, Any]] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the seconds spent in the block to phase `name`."""
        start = self._mark()
        try:
            yield
        finally:
            self._phases.append((name, start, self._mark()))

    def read(self) -> dict[str, float]:
        """Seconds per phase since the last read; waits for the device."""
        if self._phases and self.device.type == "cuda":
            self._phases[-1][2].synchronize()
        seconds: dict[str, float] = {}
        for name, start, end in self._phases:
            taken = start.elapsed_time(end) / 1000 if self.device.type == "cuda" else end - start
            seconds[name] = seconds.get(name, 0.0) + taken
        self._phases.clear()
        return seconds

    def _mark(self) -> Any:
        if self.device.type != "cuda":
            return time.perf_counter()
        mark = torch.cuda.Event(enable_timing=True)
        mark.record(torch.cuda.current_stream(self.device))
        return mark


def check_sums(where: str, *sums: Tensor) -> None:
    """Refuse sums that overflow.

    Args:
        where: layer or level, for the message.
    Raises:
        ValueError: infinite or NaN values.
    """
    if not all(torch.isfinite(tensor).all() for tensor in sums):
        raise ValueError(
            f"at {where!r} sums over the fusion data overflow or hold NaN: squares of what its neurons compute exceed the "
            "networks' precision. Normalise the data as in training, or convert the networks with model.double()."
        )
