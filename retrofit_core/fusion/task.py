"""Tasks, and the base class of methods."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..networks.classnames import check_same_classes, names_in
from ..networks.copies import copies, running_themselves
from ..networks.outputs import GivingLogits, as_classifier, check_alone
from ..networks.packing import Inputs, Packing, TakingPacked, added, as_given, packed, packing_for, taking
from ..networks.wrappers import Wrapper, class_name, refuse_archived, unwrapped, wrapper_of
from ..system import device as devices
from ..system.labels import as_shares
from ..system.runtime import Runtime
from ..system.settings import SAMPLES_SETTING, SEED_SETTING, Value, check_setting, setting, settings_of
from .eligibility import check_models
from .importance import Importance, Uniform, importance_name
from .results import FusionResult
from .samples import as_inputs, parents_data

#: A plan prints so many lines and characters at most.
MOST_LINES, WIDEST = 30, 120


@dataclass(frozen=True)
class Takes:
    """What a method accepts besides parents, data, seed and runtime."""

    parents: tuple[int, int | None] = (1, None)
    """Minimum and maximum number; None: any"""
    equal_widths: bool = False
    """Whether all parents must have the same shapes"""
    other_depths: bool = False
    """Whether parents may be deeper than the fused network"""
    linear_layers: bool = True
    """Whether it fuses networks of linear layers"""
    transformers: bool = True
    """Whether it fuses networks with attention"""
    any_architecture: bool = False
    """Whether it fuses any network that can be cut into levels, whatever they compute"""
    target: bool = False
    """Whether the fused network may have its own widths"""
    importance: bool = False
    """Whether it weights neurons by importance"""
    parents_data: bool = False
    """Whether it uses each parent's own data, apart from scores"""
    base: bool = False
    """Whether it needs the parents' common ancestor"""
    class_shares: bool = False
    sample_counts: bool = False
    memory: bool = False
    levels: bool = False
    """Whether it fuses level by level, with errors and analysis"""
    tries: bool = False
    """Whether it tries such fusions, and its result may be one of them"""
    keeps_parents: bool = False
    """Whether its result holds all parents instead of one network"""
    uses_data: bool = True
    """Whether the result depends on the fusion data"""

    @property
    def importance_data(self) -> bool:
        """Whether it uses the parents' own data in any way."""
        return self.importance or self.parents_data

    @property
    def analysis(self) -> bool:
        """Whether its levels can be analysed."""
        return self.levels or self.tries


@dataclass(frozen=True, eq=False)
class Task:
    """Parents, fusion data and further inputs, with the checks that all methods share.

    All networks and tensors are its own: nothing that a method does to them reaches those that were given.
    """

    parents: Sequence[nn.Module]
    """In evaluation mode, as are target and base"""
    inputs: Tensor
    """(B, ...) fusion data; (0,) if the method needs none and none are given"""
    labels: Tensor | None = None
    """(B,)"""
    target: nn.Module | None = setting(None, "network with the fused architecture; None: parent 0's architecture")
    base: nn.Module | None = setting(
        None, "the parents' common ancestor: the network from which all of them were trained on"
    )
    importance: Importance = field(default_factory=Uniform)
    class_shares: Tensor | None = setting(
        None, "(parents, classes) each parent's share of each class's training samples"
    )
    sample_counts: Sequence[int] | None = setting(None, "each parent's number of training samples")
    packing: Packing | None = None
    """How `inputs` packs several tensors or integers; None: one floating-point tensor"""
    seed: int = 0
    runtime: Runtime = field(default_factory=Runtime)

    @classmethod
    @devices.exact()
    def of(
        cls,
        parents: Sequence[nn.Module],
        data: object,
        samples: int | None = None,
        *,
        logits: str | int | None = None,
        target: nn.Module | None = None,
        base: nn.Module | None = None,
        importance: Importance | None = None,
        class_shares: object = None,
        sample_counts: Sequence[int] | None = None,
        seed: int = 0,
        runtime: Runtime | None = None,
    ) -> "Task":
        """Make a task from data in any form, see `as_inputs`, or their first samples.

        Args:
            data: None where the method needs none.
            logits: the output that holds the logits, if networks return several, see `outputs.as_classifier`.
            importance: default: uniform.
            class_shares: (n, classes), see `labels.as_shares`.
        Raises:
            ValueError: no list of networks, a TorchScript one, networks that name other classes, no data, a seed out of
                range, an unknown device, or a network that does not accept the data's tensors or has several outputs without
                `logits`.
        """
        check_models(parents)
        check_setting(SAMPLES_SETTING, samples)
        networks = {f"parent {index}": parent for index, parent in enumerate(parents)}
        networks |= {f"the {role}": model for role, model in (("target", target), ("base", base)) if model is not None}
        for name, model in networks.items():
            networks[name] = unwrapped(model)
            refuse_archived(networks[name], name)
        check_same_classes({name: names_in(model) for name, model in networks.items() if name != "the base"})
        originals = {name: model for name, model in networks.items() if isinstance(model, nn.Module)}
        networks |= copies(originals)
        called = {
            name: model
            for name, model in networks.items()
            if name != "the base" and isinstance(model, nn.Module)  # the plan refuses others
        }
        if data is None:
            if logits is not None:
                raise ValueError(
                    "logits are found by running the networks on data, and none are given. Leave logits out."
                )
            inputs, labels, packing, ready = torch.empty(0), None, None, called
        else:
            batches, labels = as_inputs(data, samples)
            packing = packing_for(list(networks.values())[: len(parents)], batches)
            inputs = packed(batches, packing)
            with running_themselves(originals):
                ready = {
                    name: added(as_classifier(taking(model, packing), inputs, logits, name), model)
                    for name, model in called.items()
                }
        importance = importance or Uniform()
        check_setting(SEED_SETTING, seed)
        runtime = runtime or Runtime()
        devices.pick(runtime.device)
        if importance.needs_data and importance.data is None:
            raise ValueError(
                f"importance {importance_name(importance)!r} needs data: [(inputs, labels), ...], one "
                "pair per parent (the paper: its own training data), or 'fusion' for the fusion data. Pass them inside "
                f"the value: {type(importance).__name__}(data=...); METHODS take them as importance_data too."
            )
        return cls(
            list(ready.values())[: len(parents)],
            inputs,
            labels,
            target=ready.get("the target", target),
            base=networks.get("the base"),
            importance=importance,
            class_shares=None if class_shares is None else as_shares(class_shares),
            sample_counts=sample_counts,
            packing=packing,
            seed=seed,
            runtime=runtime,
        )

    @property
    def tokens(self) -> Tensor | None:
        """(B, T) which tokens of the fusion data count; None: all, see `Packing.tokens`."""
        taking_packed = wrapper_of(self.parents[0], TakingPacked)  # also where the caller packed
        return None if taking_packed is None else taking_packed.packing.tokens(self.inputs)

    def given(self, samples: Tensor) -> Inputs:
        """What the networks are called with without our wrappers that pack it, see `unpacking`."""
        taking_packed = wrapper_of(self.parents[0], TakingPacked)
        if taking_packed is None:
            return samples
        args, kwargs = taking_packed.packing.unpack(samples)
        return kwargs or tuple(args)

    @property
    def headline(self) -> str:
        """The parents and the data in words."""
        names = dict.fromkeys(class_name(parent) for parent in self.parents)
        shape = " x ".join(map(str, self.inputs.shape[1:]))
        data = f"{len(self.inputs)} samples of {shape}" if len(self.inputs) else "no data"
        return f"{len(self.parents)} parents ({', '.join(names)}), {data}"

    @property
    def target_spec(self) -> Any:
        """The architecture of a target: its spec, or else the name of its class."""
        return None if self.target is None else getattr(self.target, "spec", type(self.target).__name__)

    @property
    def device(self) -> torch.device:
        """The device to use."""
        return devices.pick(self.runtime.device)

    @property
    def dtype(self) -> torch.dtype:
        """The parents' dtype."""
        return next(self.parents[0].parameters()).dtype

    def parents_data(self) -> list[tuple[Tensor, Tensor | None]]:
        """(inputs, labels) of each parent: its own data if given, else the fusion data.

        Raises:
            ValueError: the numbers of sets and parents differ.
        """
        return parents_data(self.importance.data, (self.inputs, self.labels), len(self.parents), self.packing)

    def samples(self) -> tuple[Tensor, Tensor | None]:
        """All samples at hand, each once: the fusion samples, then the parents' own; labels (B,) if all have them."""
        pairs = [(self.inputs, self.labels)]
        if self.importance.data is not None and not isinstance(self.importance.data, str):
            pairs += self.parents_data()
        inputs = torch.cat([x.to("cpu", self.dtype) for x, _ in pairs])  # else a sample is not its own copy
        rows = dict[bytes, int]()
        for row, sample in enumerate(inputs):
            rows.setdefault(sample.detach().numpy().tobytes(), row)
        stand_ins = any(len(x) > 1 and not x.stride(0) for x, _ in pairs)  # a check of a run has one sample, many times
        first = list(range(len(inputs)) if stand_ins else rows.values())
        labels = [y.cpu() for _, y in pairs if y is not None]
        return inputs[first], torch.cat(labels)[first] if len(labels) == len(pairs) else None


def unpacking(model: nn.Module) -> nn.Module:
    """The network, with the same tensors, on inputs that are not packed."""
    if isinstance(model, TakingPacked):
        return model.wrapped
    return model.around(unpacking(model.wrapped)) if isinstance(model, Wrapper) else model


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Checked inputs of a fusion. It prints as lines which fit on a screen."""

    task: Task

    def lines(self) -> list[str]:
        """What is planned."""
        return [self.task.headline]

    def __repr__(self) -> str:
        lines = self.lines()
        left = len(lines) - MOST_LINES
        if left > 0:
            half = MOST_LINES // 2
            lines = [*lines[:half], f"... {left + 1} more", *lines[half + left + 1 :]]
        return "\n".join(line if len(line) <= WIDEST else f"{line[: WIDEST - 4]} ..." for line in lines)


class Algorithm(Value):
    """Base class of methods: a frozen value whose fields are its options."""

    takes: ClassVar[Takes] = Takes()
    parts: ClassVar[Mapping[str, Mapping[str, type[Any]]]] = {}
    """Fields that hold other values: field -> table of names"""
    title: ClassVar[str] = ""
    """Its name in messages and results"""

    @property
    def needs_shares(self) -> bool:
        """Whether it needs each parent's share of each class."""
        return False

    @property
    def needs_counts(self) -> bool:
        """Whether it needs each parent's number of training samples."""
        return False

    def plan(self, task: Task) -> Any:
        """Check everything, and cut, pair and load, without computing.

        Raises:
            ValueError: the fusion is impossible.
        """
        raise NotImplementedError

    def run(self, plan: object) -> FusionResult:
        """Carry out a plan."""
        raise NotImplementedError

    def result(self, fused: nn.Module, task: Task, **facts: object) -> FusionResult:
        """The result of a method without levels.

        Args:
            facts: further facts that determined the network, for the configuration.
        """
        config = {"method": self.title, **self.to_json(), **facts, "device": str(task.device)}
        return FusionResult(fused, [], config)


@devices.exact()
def planned(algorithm: Algorithm, task: Task) -> Any:
    """Plan a fusion, and check that the method ignores nothing.

    Raises:
        ValueError: names what the method would ignore; or from `plan`.
    """
    asked = {
        "importance": not isinstance(task.importance, Uniform),
        "importance_data": task.importance.data is not None,
        **{name: getattr(task, name) is not None for name in settings_of(Task)},
    }
    for name, is_set in asked.items():
        if is_set and not getattr(algorithm.takes, name):
            raise ValueError(f"{type(algorithm).__name__} takes no {name}. Leave it out.")
    plan = algorithm.plan(task)  # whose refusals are more specific
    for index, parent in enumerate(task.parents):
        check_alone(parent, task.inputs[:2], f"parent {index}")
    return plan


def carry_out(algorithm: Algorithm, task: Task) -> FusionResult:
    """Plan and run. The result is of parent 0's own class (or the target's) and lies where parent 0 lies.

    Raises:
        ValueError: from `plan`, before any work.
        Cancelled: the monitor requested it.
    """
    with devices.exact(), torch.inference_mode(False):
        plan = planned(algorithm, task)
        began = time.perf_counter(), time.process_time()
        result = algorithm.run(plan).on(devices.of(task.parents[0]))
        times = {"seconds": time.perf_counter() - began[0], "processor_seconds": time.process_time() - began[1]}
    chosen = wrapper_of(task.parents[0], GivingLogits)
    config = result.config | ({} if chosen is None else {"logits": chosen.which})
    return replace(result, model=as_given(result.model, task.packing), config=config, **times)
