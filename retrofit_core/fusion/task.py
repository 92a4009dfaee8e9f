"""What is to be fused, and what a method takes."""

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..networks.outputs import as_classifier
from ..networks.packing import Packing, packed, packing_for, taking, taking_batches
from ..networks.training_flags import evaluating
from ..networks.wrappers import refuse_archived, unwrapped
from ..system import device as devices
from ..system.labels import as_shares
from ..system.runtime import Runtime
from ..system.settings import SAMPLES_SETTING, Value, check_seed, check_setting
from .eligibility import check_models
from .importance import Importance, Uniform, importance_name
from .results import FusionResult
from .samples import as_inputs, parents_data


@dataclass(frozen=True)
class Takes:
    """What a method can be given, beside parents, data, seed and runtime; declared by its value."""

    parents: tuple[int, int | None] = (1, None)
    """Least and greatest number; None: any"""
    equal_widths: bool = False
    """Whether all parents must have the same shapes"""
    other_depths: bool = False
    """Whether parents may be deeper than the fused network"""
    linear_layers: bool = True
    """Whether networks of linear layers are fused"""
    transformers: bool = True
    """Whether networks with attention are fused"""
    any_architecture: bool = False
    """Whether all networks that can be cut into levels are fused, whatever they compute inside of them"""
    target: bool = False
    """Whether the fused network may have widths of its own"""
    importance: bool = False
    """Whether neurons are weighed by importance"""
    parents_data: bool = False
    """Whether it looks at each parent's own data, scores aside"""
    base: bool = False
    """Whether it needs the parents' common ancestor"""
    class_shares: bool = False
    sample_counts: bool = False
    contributors: bool = False
    """Whether others may add their sums, see `contributors`"""
    memory: bool = False
    levels: bool = False
    """Whether it goes level by level: errors, journal, analysis"""
    keeps_parents: bool = False
    """Whether its result holds all parents side by side, in place of one network"""
    uses_data: bool = True
    """Whether the fusion data decide anything"""


@dataclass(frozen=True)
class Cost:
    """What a planned fusion would cost; the estimate makes seconds and bytes of it."""

    passes: float = 0
    """Samples that go forward through every parent"""
    scored: bool = False
    """Whether importance is computed"""
    groups: tuple[tuple[int, ...], ...] = ()
    """Widths of the parents' neurons in each neuron group that is aligned"""
    trained: str | None = None
    """"network" or "head": what an optimiser trains"""
    epochs: tuple[int, int] = (0, 0)
    """Fewest, most"""
    descent: Any = None
    """The optimiser's batches and held-out share (`Descent`)"""
    samples: int = 0
    """that it trains on"""
    complete: bool = True
    """False: the method does work that is not counted here"""
    bytes: int = 0
    """Of memory beside networks and data"""


@dataclass(frozen=True, eq=False)
class Task:
    """Parents, fusion data and everything that is given beside them; checked as far as every method checks it."""

    parents: Sequence[nn.Module]
    inputs: Tensor
    """(B, ...) fusion data"""
    labels: Tensor | None = None
    """(B,)"""
    target: nn.Module | None = None
    """Network of the fused architecture; None: as parent 0"""
    base: nn.Module | None = None
    """The network from which all parents were trained on"""
    importance: Importance = field(default_factory=Uniform)
    class_shares: Tensor | None = None
    """(n, classes) each parent's share of each class's training samples"""
    sample_counts: Sequence[int] | None = None
    """Each parent's number of training samples"""
    packing: Packing | None = None
    """How `inputs` packs several tensors, or integers; None: one tensor of floating-point numbers"""
    seed: int = 0
    runtime: Runtime = field(default_factory=Runtime)

    @classmethod
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
        """A task on data of any form that `as_inputs` takes, or the first samples of them.

        Args:
            logits: which output of networks that return several things, see `outputs.as_classifier`.
            importance: by default uniform.
            class_shares: (n, classes), see `labels.as_shares`.
        Raises:
            ValueError: no list of networks, one of TorchScript, no data, a seed out of range, an unknown device, a network that
                does not take the tensors of the data, or returns several things of which nobody says which are the logits.
        """
        check_models(parents)
        check_setting(SAMPLES_SETTING, samples)
        networks = {f"parent {index}": parent for index, parent in enumerate(parents)}
        networks |= {f"the {role}": model for role, model in (("target", target), ("base", base)) if model is not None}
        for name, model in networks.items():
            networks[name] = unwrapped(model)
            refuse_archived(networks[name], name)
        batches, labels = as_inputs(data, samples)
        packing = packing_for(list(networks.values())[: len(parents)], batches)
        inputs = packed(batches, packing)
        ready = {
            name: as_classifier(taking(_trainable(model), packing), inputs, logits, name)
            for name, model in networks.items()
            if name != "the base" and isinstance(model, nn.Module)  # the plan refuses others
        }
        importance = importance or Uniform()
        if packing is not None and packing.whole is not None:
            importance = importance.for_whole_numbers(packing.whole)
        check_seed(seed)
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
            _normal(inputs),
            None if labels is None else _normal(labels),
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
    def device(self) -> torch.device:
        """Where it runs."""
        return devices.pick(self.runtime.device)

    @property
    def dtype(self) -> torch.dtype:
        """Of the parents' weights."""
        return next(self.parents[0].parameters()).dtype

    def parents_data(self) -> list[tuple[Tensor, Tensor | None]]:
        """(inputs, labels) of each parent: its own data where they were given, else the fusion data.

        Raises:
            ValueError: another number of sets than parents.
        """
        pairs = parents_data(self.importance.data, (self.inputs, self.labels), len(self.parents), self.packing)
        return [(_normal(x), None if y is None else _normal(y)) for x, y in pairs]


def _trainable(model: nn.Module) -> nn.Module:
    """The model, or a copy that gradients can flow through where it was made in inference mode."""
    with torch.inference_mode(False):
        return copy.deepcopy(model) if any(tensor.is_inference() for tensor in model.parameters()) else model


def _normal(tensor: Tensor) -> Tensor:
    """A tensor that gradients can flow through, also where it was made in inference mode."""
    with torch.inference_mode(False):
        return tensor.clone() if tensor.is_inference() else tensor


@dataclass(frozen=True)
class Algorithm(Value):
    """Base of the methods: a frozen value whose fields are its options."""

    takes: ClassVar[Takes] = Takes()
    parts: ClassVar[Mapping[str, Mapping[str, type[Any]]]] = {}
    """Fields that hold other values: field -> table of names"""

    @property
    def needs_shares(self) -> bool:
        """Whether it needs each parent's share of each class."""
        return False

    @property
    def needs_counts(self) -> bool:
        """Whether it needs each parent's number of training samples."""
        return False

    def plan(self, task: Task) -> Any:
        """Check everything and cut, pair, load; nothing is computed. What the work would cost stands in the plan.

        Raises:
            ValueError: what is asked cannot be done.
        """
        raise NotImplementedError

    def run(self, plan: object) -> FusionResult:
        """Do what was planned."""
        raise NotImplementedError


def planned(algorithm: Algorithm, task: Task) -> Any:
    """The plan; anything given that the method would ignore is refused.

    Raises:
        ValueError: names what does nothing; or from the plan.
    """
    takes = algorithm.takes
    asked = {
        "target": (task.target is not None, takes.target),
        "base": (task.base is not None, takes.base),
        "importance": (not isinstance(task.importance, Uniform), takes.importance),
        "importance_data": (task.importance.data is not None, takes.importance or takes.parents_data),
        "class_shares": (task.class_shares is not None, takes.class_shares),
        "sample_counts": (task.sample_counts is not None, takes.sample_counts),
        "contributors": (task.runtime.contributors is not None, takes.contributors),
    }
    for name, (is_set, is_taken) in asked.items():
        if is_set and not is_taken:
            raise ValueError(f"{type(algorithm).__name__} takes no {name}. Leave it out.")
    return algorithm.plan(task)


def carry_out(algorithm: Algorithm, task: Task) -> FusionResult:
    """Plan and run, the parents in evaluation mode and left as they were.

    Raises:
        ValueError: from the plan, before any work.
        Cancelled: the monitor asked for it.
    """
    with torch.inference_mode(False), evaluating(*task.parents):
        plan = planned(algorithm, task)
        start = time.process_time()
        result = algorithm.run(plan)
    result = replace(result, processor_seconds=time.process_time() - start)
    return result if task.packing is None else replace(result, model=taking_batches(result.model, task.packing))
