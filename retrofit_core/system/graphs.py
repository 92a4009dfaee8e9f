"""Steps that repeat, as CUDA graphs: launching a step's kernels one by one takes longer than computing them."""

import warnings
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

Output = TypeVar("Output")

#: Calls that run kernel by kernel before one is captured: libraries choose algorithms, optimisers create their state.
WARM = 3


def replayed(step: Callable[..., Output], device: torch.device) -> Callable[..., Output]:
    """A function that does the same as `step`; on a GPU it captures the step as a CUDA graph and replays that.

    Each replay overwrites the output of the one before. Everything else that the step reads or writes must stay where it is:
    change a tensor in place between two calls, and pass what differs from call to call as an input. A step that cannot be
    captured, because the host reads a number in it, runs kernel by kernel.

    Args:
        step: takes tensors by position, on the device; inputs of other shapes are captured on their own.
    """
    return step if device.type == "cpu" else _on_gpu(step, device)


def _on_gpu(step: Callable[..., Output], device: torch.device) -> Callable[..., Output]:
    stream = torch.cuda.Stream(device)
    calls = Counter[object]()
    captured: dict[object, Callable[..., Output]] = {}

    def eager(*inputs: Tensor) -> Output:
        """Kernel by kernel, on the stream of the capture: autograd remembers streams."""
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This instance was constructed with capturable")
            output = step(*inputs)
        torch.cuda.current_stream(device).wait_stream(stream)
        return output

    def capture(*inputs: Tensor) -> Callable[..., Output]:
        graph, held = torch.cuda.CUDAGraph(), [given.clone() for given in inputs]
        try:
            with torch.cuda.graph(graph, stream=stream):
                output = step(*held)
        except RuntimeError:
            return eager

        def replay(*inputs: Tensor) -> Output:
            for mine, given in zip(held, inputs, strict=True):
                mine.copy_(given)
            graph.replay()
            return output

        return replay

    def call(*inputs: Tensor) -> Output:
        shapes = tuple((given.shape, given.dtype) for given in inputs)
        calls[shapes] += 1
        if calls[shapes] <= WARM:
            return eager(*inputs)
        if shapes not in captured:
            captured[shapes] = capture(*inputs)
        return captured[shapes](*inputs)

    return call
