"""A GPU that is not there.

    with rehearsal():
        fused = fuse(models, data, device="cuda")

Tensors say that they lie on cuda:0 and hold their numbers on the CPU. PyTorch believes them: its own checks, and all that it
does differently on CUDA, are those of CUDA. What its CUDA kernels would refuse is refused here: two devices in one operation,
and a CPU's generator.

What it cannot show: kernels (numbers are the CPU's, cuDNN and fused attention are off), streams, memory, and how long it takes.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge
from torch.optim.optimizer import _foreach_supported_types
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.hooks import RemovableHandle

from retrofit_core.system import graphs

CUDA = torch.device("cuda", 0)
_INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put")

torch._C._ensureCUDADeviceGuardSet()


class Held(Tensor):
    """A tensor that says it lies on cuda:0; `inner` lies on the CPU."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Held":
        held = Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=CUDA,
        )
        held.inner = inner
        return held

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Where the rehearsal is over, a result can still be read."""
        return _carried_out(func, args, kwargs or {})

    @property
    def data(self) -> Tensor:
        return Tensor.data.__get__(self)

    @data.setter
    def data(self, other: "Held") -> None:
        Tensor.data.__set__(self, other)
        self.inner = other.inner

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """A hook of the tensor's gradient, for `_backward`; PyTorch's own are known to its engine alone."""
        edge: Any = get_gradient_edge(self)
        hooks = edge.node.metadata.setdefault(edge.output_nr, OrderedDict())
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle

    def tolist(self) -> Any:
        """As PyTorch, which refuses it for classes of one's own."""
        return self.cpu().tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        """As CUDA refuses it."""
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )

    __array__ = numpy

    def __repr__(self, **_: Any) -> str:
        return f"{self.inner!r} on {CUDA}"


class _Rehearsal(TorchDispatchMode):
    """Takes over what concerns the device; all else goes its way."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _asked(kwargs) == "cuda" or any(isinstance(leaf, Held) for leaf in tree_leaves((args, kwargs))):
            return _carried_out(func, args, kwargs)
        return func(*args, **kwargs)


def _asked(kwargs: Mapping[str, Any]) -> str | None:
    """The type of the device that a call names."""
    device = kwargs.get("device")
    return None if device is None else torch.device(device).type


def _carried_out(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation that concerns the device."""
    name = func._schema.name.removeprefix("aten::")
    if name == "_to_copy":
        return _moved(func, args[0], kwargs)
    if name == "copy_":
        return _copied(func, *args)
    if name == "_fused_sdp_choice":
        return 0  # products and softmax one by one: a CPU has no kernels of a GPU's fused attention
    _refuse_what_cuda_refuses(name, func, args, kwargs)
    inner_args, inner_kwargs = tree_map_only(Held, _inner, (args, kwargs))
    if "device" in inner_kwargs:
        inner_kwargs["device"] = torch.device("cpu")
    out = func(*inner_args, **inner_kwargs)
    held = return_and_correct_aliasing(func, args, kwargs, tree_map_only(Tensor, Held, out))
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, Held) and leaf.inner.shape != leaf.shape:
            raise NotImplementedError(f"{name} gives a tensor another shape, which a rehearsal cannot follow.")
    return held


def _inner(tensor: Held) -> Tensor:
    return tensor.inner


def _moved(func: Any, tensor: Tensor, kwargs: Mapping[str, Any]) -> Tensor:
    """`_to_copy`: to another device, another dtype, or both."""
    here = "cuda" if isinstance(tensor, Held) else "cpu"
    rest = {key: value for key, value in kwargs.items() if key not in ("device", "non_blocking")}
    out = func(tensor.inner if isinstance(tensor, Held) else tensor, **rest)
    return Held(out) if (_asked(kwargs) or here) == "cuda" else out


def _copied(func: Any, to: Tensor, source: Tensor, *_: Any) -> Tensor:
    """`copy_`, which may cross devices."""
    func(*(tensor.inner if isinstance(tensor, Held) else tensor for tensor in (to, source)))
    return to


def _refuse_what_cuda_refuses(name: str, func: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
    """Raise what CUDA would; places that lie on the CPU may index, and are copied."""
    generator = kwargs.get("generator")
    if generator is not None and generator.device.type != "cuda":
        raise RuntimeError(f"Expected a 'cuda' device type for generator but found 'cpu' ({name})")
    given: Any = (args, kwargs)
    if name in _INDEXING and isinstance(args[0], Held):
        given = (args[0], args[2:], kwargs)
    tensors = [leaf for leaf in tree_leaves(given) if isinstance(leaf, Tensor)]
    held = any(isinstance(tensor, Held) for tensor in tensors)
    on_cpu = [tensor for tensor in tensors if not isinstance(tensor, Held) and tensor.ndim > 0]
    written = func._schema.arguments and func._schema.arguments[0].alias_info
    if written is not None and written and written.is_write and args and type(args[0]) is Tensor:
        on_cpu.append(args[0])
    if held and on_cpu:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! ({name} with "
            f"tensors on the CPU of shapes {', '.join(str(tuple(tensor.shape)) for tensor in on_cpu)})"
        )


def _backward(
    roots: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    keep_graph: bool,
    create_graph: bool,
    inputs: Sequence[Tensor] = (),
    allow_unreachable: bool = True,
    accumulate_grad: bool = True,
) -> tuple[Tensor | None, ...] | None:
    """Reverse mode, node by node: PyTorch's own engine asks CUDA for its streams. Hooks of tensors are called, no others."""
    wanted = [get_gradient_edge(tensor) for tensor in inputs]
    buffers: dict[Any, dict[int, Tensor]] = {}
    for root, gradient in zip(roots, gradients, strict=True):
        edge = get_gradient_edge(root)
        _add(buffers, edge.node, edge.output_nr, torch.ones_like(root) if gradient is None else gradient)
    found: dict[Any, Tensor] = {}
    with torch.set_grad_enabled(create_graph):
        for node in _outermost_first(list(buffers)):
            given = {number: _hooked(node, number, gradient) for number, gradient in buffers.pop(node, {}).items()}
            found.update({(node, number): gradient for number, gradient in given.items()})
            leaf = not node.next_functions
            if not given or (leaf and inputs and not accumulate_grad):
                continue
            numbers = range(len(node._input_metadata))
            results = getattr(node, "apply", node)(*(given.get(number) for number in numbers))
            results = results if isinstance(results, tuple) else (results,)
            for (below, number), gradient in zip(node.next_functions, () if leaf else results, strict=False):
                if below is not None and gradient is not None:
                    _add(buffers, below, number, gradient)
    return None if accumulate_grad else tuple(found.get((edge.node, edge.output_nr)) for edge in wanted)


def _hooked(node: Any, number: int, gradient: Tensor) -> Tensor:
    """A gradient that is complete, as the hooks of its tensor hand it on."""
    for hook in list(node.metadata.get(number, {}).values()):
        replaced = hook(gradient)
        gradient = gradient if replaced is None else replaced
    return gradient


def _add(buffers: dict[Any, dict[int, Tensor]], node: Any, number: int, gradient: Tensor) -> None:
    """Add a gradient, in the shape and the dtype of what it belongs to."""
    expected = node._input_metadata[number]
    gradient = gradient.sum_to_size(expected.shape).to(expected.dtype)
    held = buffers.setdefault(node, {})
    held[number] = held[number] + gradient if number in held else gradient


def _outermost_first(roots: list[Any]) -> list[Any]:
    """All nodes below the roots, each before those it hands gradients to."""
    order, seen, stack = list[Any](), set[Any](), [(node, False) for node in roots]
    while stack:
        node, left = stack.pop()
        if left:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(below, False) for below, _ in node.next_functions if below is not None]
    return order[::-1]


def _without_gradients(mode: Any) -> None:
    """In place of inference mode, in which a tensor cannot hold another one."""
    mode._inference_mode_context = torch.no_grad() if mode.mode else torch.enable_grad()
    mode._inference_mode_context.__enter__()


class _Mark:
    """A CUDA event: what it marks is done at once."""

    def __init__(self, **_: Any) -> None:
        self.time = 0.0

    def record(self, _: Any = None) -> None:
        self.time = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: "_Mark") -> float:
        return 1000 * (end.time - self.time)


@contextmanager
def rehearsal() -> Iterator[None]:
    """Within it there is a device cuda:0, an H100 as far as it can be asked; PyTorch is as before behind it."""
    cuda = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_capability": lambda *_: (9, 0),
        "get_device_name": lambda *_: "a rehearsal",
        "mem_get_info": lambda *_: (80 << 30, 80 << 30),
        "synchronize": lambda *_: None,
        "current_stream": lambda *_: None,
        "Event": _Mark,
        "is_current_stream_capturing": lambda: False,
        "default_generators": (torch.Generator(),),  # of dropout and the like, which draws on the CPU here
        "get_rng_state": lambda *_: torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": lambda *_: None,
        "manual_seed_all": lambda *_: None,
        "_lazy_init": lambda: None,
    }
    before = torch._C._only_lift_cpu_tensors(), torch.__future__.get_swap_module_params_on_conversion()
    torch._C._set_only_lift_cpu_tensors(True)
    torch.__future__.set_swap_module_params_on_conversion(True)  # tied parameters stay tied, as on CUDA
    _foreach_supported_types.append(Held)
    try:
        with ExitStack() as stack:
            for name, value in cuda.items():
                stack.enter_context(patch.object(torch.cuda, name, value))
            stack.enter_context(
                patch.object(
                    torch.accelerator, "current_stream", lambda *_: SimpleNamespace(is_capturing=lambda: False)
                )
            )
            stack.enter_context(patch.object(graphs, "_on_gpu", lambda step, device: step))
            engine = torch.autograd._engine_run_backward

            def backward(roots: Sequence[Tensor], *rest: Any, **options: Any) -> Any:
                held = any(isinstance(root, Held) for root in roots)
                return (_backward if held else engine)(roots, *rest, **options)

            stack.enter_context(patch.object(torch.autograd, "_engine_run_backward", backward))
            stack.enter_context(patch.object(torch.autograd.graph, "_engine_run_backward", backward))
            stack.enter_context(torch.backends.cudnn.flags(enabled=False))
            stack.enter_context(patch.object(torch.inference_mode, "__enter__", _without_gradients))
            stack.enter_context(_Rehearsal())
            yield
    finally:
        _foreach_supported_types.remove(Held)
        torch.__future__.set_swap_module_params_on_conversion(before[1])
        torch._C._set_only_lift_cpu_tensors(before[0])
