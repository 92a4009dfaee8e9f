"""compare(): many methods on networks that lie in memory, with no file that describes them; one leaderboard."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Images
from ..fusion.eligibility import check_models, output_shape
from ..fusion.importance import IMPORTANCE
from ..fusion.results import FusionResult
from ..fusion.samples import as_inputs
from ..methods import METHODS
from ..networks.outputs import as_classifier, check_class_scores
from ..networks.packing import Packing, packed, packing_for, taking
from ..networks.training_flags import evaluating
from ..networks.wrappers import unwrapped
from ..system import device as devices
from ..system.device import on_device
from ..system.labels import class_labels
from ..system.monitor import Cancelled, Monitor
from ..system.registry import find, known_name
from ..training.evaluation import NO_ACCURACY, measured, scores
from .comparison import EMPTY, SCORES, Leaderboard, operations, ranked
from .options import read_options

BATCH = 500  # samples at once when a network is measured
Run = Callable[[Sequence[nn.Module], Any], nn.Module | FusionResult]


def compare(
    models: Sequence[nn.Module],
    data: Any,
    test: Any,
    methods: str | Sequence[str] | Mapping[str, Run] = "all",
    *,
    importance: str | Sequence[str] = "uniform",
    importance_data: Any = None,
    logits: str | int | None = None,
    names: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    device: str = "auto",
    monitor: Monitor | None = None,
    **keywords: Any,
) -> Leaderboard:
    """Fuse networks by many methods and rank what comes out, parents included, with intervals and costs.

    The same for checkpoints, with records that are gone on with: `retrofit compare`, or `comparison.compare`.

    Args:
        models: the parents; they are left as they are.
        data: fusion data: a tensor (B, ...), (inputs, labels), a DataLoader or a Dataset, normalised as in training.
        test: what accuracies are measured on: Images, or anything with labels that may be `data`.
        methods: "all", or names, each with options behind plus signs ("zipit+repair=true"); or name -> function
            (models, data) that gives a network or a FusionResult.
        importance: names of scores, for the methods that weigh neurons by them.
        importance_data: [(inputs, labels), ...], one pair a parent; default: the fusion data.
        logits: see `fuse`.
        names: of the parents; default: parent 0, parent 1, ...
        classes: names of the classes; default: those of Images, else numbers.
        keywords: of all methods that have them, such as target=network or memory=bytes.
    Returns:
        A row for each parent and method, best first; a method that does not apply is a row with its reason. Every row has the
        difference to the best one, with its paired bootstrap interval of 95 %.
    Raises:
        ValueError: no networks, an unknown method or score, a keyword that no method has, test data without labels or that
            the networks do not take.
        Cancelled: the monitor asked for it.
    """
    monitor = monitor or Monitor()
    check_models(models)
    models = [unwrapped(model) for model in models]
    batches, labels = as_inputs(data)
    packing = packing_for(models, batches)
    example = packed(batches, packing)
    parents = [
        as_classifier(taking(model, packing), example, logits, f"parent {index}") for index, model in enumerate(models)
    ]
    for index, parent in enumerate(parents):
        shape = output_shape(parent, example, f"parent {index}")
        check_class_scores(shape, f"compare: the accuracy of parent {index}", NO_ACCURACY)
    own = isinstance(methods, Mapping)  # such functions see what they were given
    given = (list(models), data) if own and packing is not None else (parents, data)
    if not own and packing is not None:
        given = parents, example if labels is None else (example, labels)
    titles = list(names) if names is not None else [f"parent {index}" for index in range(len(parents))]
    if len(titles) != len(parents):
        raise ValueError(f"{len(titles)} names for {len(parents)} networks: give one for each, or none.")
    runs = _runs(methods, importance, importance_data, {"seed": seed, "device": device, **keywords})
    measure = _Measure(test, packing, monitor)
    table = []
    for title, parent in zip(titles, parents, strict=True):
        table.append(EMPTY | {"name": title} | measure(title, on_device(parent, device)))
    for index, (row, run) in enumerate(runs):
        monitor.check()
        title = row["name"]
        monitor.emit("phase", name=f"{title} ({index + 1} of {len(runs)}):", index=index, total=len(runs))
        try:
            made = run(*given)
            network, seconds = (made.model, made.seconds) if isinstance(made, FusionResult) else (made, None)
            if own and packing is not None:
                network = as_classifier(taking(network, packing), example, logits, title)
            table.append(EMPTY | row | {"seconds": seconds} | measure(title, on_device(network, device)))
        except (Cancelled, KeyboardInterrupt):
            raise
        except ValueError as error:
            table.append(EMPTY | row | {"reason": str(error)})
        except Exception as error:  # one method's defect must not cost the others' hours
            table.append(EMPTY | row | {"reason": f"failed: {type(error).__name__}: {error}"})
    labels = [str(name) for name in classes or measure.names]
    return Leaderboard(
        ranked(table, measure.correct), labels, measure.title, measure.count, titles, None, len(example), None, seed
    )


def _runs(
    methods: str | Sequence[str] | Mapping[str, Run],
    importance: str | Sequence[str],
    own: Any,
    keywords: dict[str, Any],
) -> list[tuple[dict[str, Any], Run]]:
    """What each row says, and the function that makes its network."""
    if isinstance(methods, Mapping):
        return [({"name": name, "method": name}, run) for name, run in methods.items()]
    words = list(METHODS) if methods == "all" else _listed(methods)
    weights = [known_name(IMPORTANCE, name, "importance") for name in _listed(importance)]
    taken = set()
    runs = []
    for word in words:
        name, *texts = word.split("+")
        method = find(METHODS, name, "method")
        options = read_options(texts)
        for score in weights if method.takes.importance else [None]:
            scored: dict[str, Any] = {"importance": score} if score else {}
            if score and IMPORTANCE[score].needs_data:
                scored["importance_data"] = "fusion" if own is None else own
            accepted = method.keywords({**options, **({"importance": score} if score else {})})
            shared = {key: value for key, value in keywords.items() if key in accepted}
            taken |= shared.keys()
            given = {**shared, **scored, **options}
            method.algorithm(**{key: value for key, value in given.items() if key != "importance_data"})
            said = [key if value is True else f"{key}={value}" for key, value in options.items()]
            title = ", ".join(filter(None, [method.name, score, *said]))
            row = {"name": title, "method": method.name, "importance": score, "options": options or None}
            runs.append((row, _caller(method, given)))
    if strange := sorted(keywords.keys() - taken):
        raise ValueError(f"none of these methods has a keyword {strange[0]!r}. Leave it out.")
    return runs


def _caller(method: Any, given: dict[str, Any]) -> Run:
    return lambda models, data: method(list(models), data, **given)


def _listed(names: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


class _Measure:
    """Measures networks on the test data, and remembers which samples each knows."""

    def __init__(self, test: Any, packing: Packing | None, monitor: Monitor) -> None:
        self.monitor, self.correct = monitor, dict[str, Tensor]()
        self.images = test if isinstance(test, Images) else None
        if self.images is not None:
            self.labels, self.title = self.images.labels, self.images.name
            self.names, self.example = list(self.images.classes), self.images.inputs([0])
        else:
            inputs, labels = as_inputs(test)
            self.inputs = packed(inputs, packing)
            if labels is None:
                raise ValueError("the test data have no labels, by which networks are measured. Pass (inputs, labels).")
            self.labels, self.title, self.example = (
                class_labels(labels, "the test data"),
                "test samples",
                self.inputs[:1],
            )
            self.names: list[str] = []
        self.count = len(self.labels)

    def __call__(self, name: str, model: nn.Module) -> dict[str, Any]:
        device = devices.of(model)
        outputs = scores(model, self.images, monitor=self.monitor) if self.images is not None else self._outputs(model)
        if int(self.labels.max()) >= outputs.shape[1]:
            raise ValueError(
                f"{name} tells {outputs.shape[1]} classes apart, and the test data have the label {int(self.labels.max())}."
            )
        self.names = self.names or [str(label) for label in range(outputs.shape[1])]
        self.correct[name] = outputs.argmax(1) == self.labels
        values = measured(outputs, self.labels, outputs.shape[1])
        return {score: values[score] for score in SCORES} | {
            "operations": operations(model, self.example.to(device)),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
        }

    @torch.inference_mode()
    def _outputs(self, model: nn.Module) -> Tensor:
        device = devices.of(model)
        with evaluating(model):
            parts = [model(x.to(device)).float().cpu() for x in self.monitor.each("evaluate", self.inputs.split(BATCH))]
        return torch.cat(parts).clone()
