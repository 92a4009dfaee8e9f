"""Tasks, and the base class of methods."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..networks.classnames import check_same_classes, names_in
from ..networks.copies import copies, running_themselves
from ..networks.inputs import Inputs, contents, count_of, in_words, joined, leaves_of, moved, rows_of
from ..networks.outputs import Which, as_classifier, as_given, check_alone, one_output
from ..networks.wrappers import refuse_archived, unwrapped
from ..system import device as devices
from ..system.runtime import Runtime
from ..system.settings import SAMPLES_SETTING, SEED_SETTING, Value, check_setting, setting, settings_of
from .eligibility import check_models, check_module, check_weights
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
    """In evaluation mode, as is the target"""
    inputs: Inputs
    """Fusion data: a tensor (B, ...), or a dict or tuple of them; (0,) if the method needs none and none are given"""
    labels: Tensor | None = None
    """(B,)"""
    target: nn.Module | None = setting(None, "network with the fused architecture; None: parent 0's architecture")
    importance: Importance = field(default_factory=Uniform)
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
        logits: Which | None = None,
        target: nn.Module | None = None,
        importance: Importance | None = None,
        seed: int = 0,
        runtime: Runtime | None = None,
    ) -> "Task":
        """Make a task from data in any form, see `as_inputs`, or their first samples.

        Args:
            data: None where the method needs none.
            logits: the output that holds the logits, if networks return several, see `outputs.as_classifier`.
            importance: default: uniform.
        Raises:
            ValueError: no list of networks, a TorchScript one, networks that name other classes, no data, a seed out of
                range, an unknown device, or a network that does not accept the data's tensors or has several outputs without
                `logits`.
        """
        check_models(parents)
        check_setting(SAMPLES_SETTING, samples)
        networks = {f"parent {index}": parent for index, parent in enumerate(parents)}
        networks |= {"the target": target} if target is not None else {}
        for name, model in networks.items():
            check_module(model, name)
            networks[name] = unwrapped(model)
            refuse_archived(networks[name], name)
            check_weights(networks[name], name)
        ready = copies(networks)
        check_same_classes({name: names_in(model) for name, model in ready.items()})
        if data is None:
            if logits is not None:
                raise ValueError(
                    "logits are found by running the networks on data, and none are given. Leave logits out."
                )
            inputs, labels = torch.empty(0), None
        else:
            inputs, labels = as_inputs(data, samples)
            with running_themselves(networks):
                ready = {name: as_classifier(model, inputs, logits, name, added=True) for name, model in ready.items()}
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
            target=ready.get("the target"),
            importance=importance,
            seed=seed,
            runtime=runtime,
        )

    @property
    def has_several_outputs(self) -> bool:
        """Whether several outputs of each network are fused."""
        chosen = one_output(self.parents[0])
        return chosen is not None and isinstance(chosen.which, tuple)

    @property
    def headline(self) -> str:
        """The parents and the data in words."""
        names = dict.fromkeys(type(parent).__name__ for parent in self.parents)
        count = count_of(self.inputs)
        words = in_words(self.inputs)
        if isinstance(self.inputs, Tensor) and self.inputs.ndim > 1:
            words = " x ".join(map(str, self.inputs.shape[1:]))
        data = f"{count} samples of {words}" if count else "no data"
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

    def parents_data(self) -> list[tuple[Inputs, Tensor | None]]:
        """(inputs, labels) of each parent: its own data if given, else the fusion data.

        Raises:
            ValueError: the numbers of sets and parents differ.
        """
        return parents_data(self.importance.data, (self.inputs, self.labels), len(self.parents))

    def samples(self) -> tuple[Inputs, Tensor | None]:
        """All samples at hand, each once: the fusion samples, then the parents' own; labels (B,) if all have them."""
        pairs = [(self.inputs, self.labels)]
        if self.importance.data is not None and not isinstance(self.importance.data, str):
            pairs += self.parents_data()
        inputs = joined([moved(x, "cpu", self.dtype) for x, _ in pairs])  # else a sample is not its own copy
        rows = dict[tuple[bytes, ...], int]()
        for row, sample in enumerate(contents(inputs)):
            rows.setdefault(sample, row)
        sets = [leaf for x, _ in pairs for leaf in leaves_of(x)]
        stand_ins = any(
            len(leaf) > 1 and not leaf.stride(0) for leaf in sets
        )  # a check of a run has one sample, many times
        first = torch.arange(count_of(inputs)) if stand_ins else torch.tensor(list(rows.values()))
        labels = [y.cpu() for _, y in pairs if y is not None]
        return rows_of(inputs, first), torch.cat(labels)[first] if len(labels) == len(pairs) else None


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
        check_alone(parent, rows_of(task.inputs, slice(2)), f"parent {index}")
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
    chosen = one_output(task.parents[0])
    config = result.config | ({"logits": chosen.which} if chosen is not None and chosen.which is not None else {})
    return replace(result, model=as_given(result.model), config=config, **times)
