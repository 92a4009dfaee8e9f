"""compare(): many methods on the same parents, data and test images; one leaderboard.

`comparison` makes such leaderboards from checkpoints.
"""

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..data import Images
from ..fusion.eligibility import check_models, output_shape
from ..fusion.importance import IMPORTANCE
from ..fusion.results import FusionResult
from ..fusion.samples import as_inputs
from ..methods import METHODS, Method
from ..networks.copies import copies
from ..networks.outputs import as_classifier, check_class_scores
from ..networks.packing import Packing, packed, packing_for, taking
from ..networks.training_flags import evaluating
from ..networks.wrappers import unwrapped
from ..system import device as devices
from ..system.device import on_device
from ..system.files import write
from ..system.labels import check_classes, class_labels
from ..system.monitor import Cancelled, Monitor
from ..system.registry import known_name
from ..system.settings import settings_of
from ..system.texts import read_options
from ..training.evaluation import NO_ACCURACY, measured, scores
from .answers import as_bits, difference
from .config import title_of

if TYPE_CHECKING:
    import pandas as pd

BATCH = 500  # batch size for measuring
Run = Callable[[Sequence[nn.Module], Any], nn.Module | FusionResult]
SCORES = ("accuracy", "loss", "calibration_error", "per_class")
#: A row without results.
EMPTY: dict[str, Any] = dict.fromkeys(
    ["name", "method", "grouping", "importance", "options", "seconds", "reason", "key", *SCORES]
    + ["operations", "parameters", "difference", "interval", "knows"]
)


@dataclass(frozen=True)
class Leaderboard:
    """The result of `compare`: a row for each parent and method, best first; methods that do not apply last."""

    rows: list[dict[str, Any]]
    """name, method, grouping (None: the method's own), importance (None for parents), options, accuracy (%), loss,
    per_class (%), calibration_error, difference (percentage points to the best row, method or parent) and its 95 %
    interval, knows (the test images that it knows, see `answers.from_bits`), seconds (of the fusion), operations (multiply-
    adds per image), parameters, reason (None, or why there is no network), key (of the run). Every row has all of them;
    what was not measured is None."""
    classes: list[str]
    data: str
    samples: int
    """Number of test images"""
    parents: list[str] = field(default_factory=list)
    """File names of the checkpoints, or names of the parents"""
    splits: str | None = None
    """Name of the splits file"""
    fusion_samples: int | None = None
    """None if the runs differ; likewise importance_samples and seed"""
    importance_samples: int | None = None
    seed: int | None = None

    @property
    def fused(self) -> bool:
        """Whether any method produced a network."""
        return any(row["method"] is not None and row["reason"] is None for row in self.rows)

    def to_frame(self) -> "pd.DataFrame":
        """One line per row, with a column per class."""
        import pandas as pd

        frame = pd.DataFrame([_flat(row, self.classes) for row in self.rows])
        frame["reason"] = frame["reason"].astype(object).where(frame["reason"].notna(), None)  # pandas' nan is true
        return frame

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "test_images": self.samples}

    def save(self, folder: str | Path) -> None:
        """Write leaderboard.csv and leaderboard.json."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / "leaderboard.json", json.dumps(self.to_json(), indent=1))
        write(folder / "leaderboard.csv", self.to_frame().to_csv(index=False))


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
    """Fuse networks by many methods and rank the results, including the parents, with intervals and costs.

    For checkpoints, with records to resume, use `retrofit compare` or `comparison.compare_runs`.

    Args:
        models: the parents; not modified.
        data: fusion data: a tensor (B, ...), (inputs, labels), a DataLoader or a Dataset, normalised as in training.
        test: test data: Images, or anything with labels that may be `data`.
        methods: "all", or names, each with options after plus signs ("zipit+repair=true"); or name -> function
            (models, data) that returns a network or a FusionResult.
        importance: names of scores, for the methods that use them.
        importance_data: [(inputs, labels), ...], one pair per parent; default: the fusion data.
        logits: see `fuse`.
        names: of the parents; default: parent 0, parent 1, ...
        classes: class names; default: those of Images, else numbers.
        keywords: for all methods that have them, such as target=network or memory=bytes.
    Returns:
        A row for each parent and method, best first; a method that does not apply is a row with the reason. Every row has the
        difference to the best one, with its paired 95 % bootstrap interval.
    Raises:
        ValueError: no networks, an unknown method or score, a keyword that no method has, scores for functions, test data
            without labels or that the networks do not take.
        Cancelled: on the monitor's request.
    """
    monitor = monitor or Monitor()
    check_models(models)
    models = list(copies({f"parent {index}": unwrapped(model) for index, model in enumerate(models)}).values())
    batches, labels = as_inputs(data)
    packing = packing_for(models, batches)
    example = packed(batches, packing)
    parents = [
        as_classifier(taking(model, packing), example, logits, f"parent {index}") for index, model in enumerate(models)
    ]
    for index, parent in enumerate(parents):
        shape = output_shape(parent, example, f"parent {index}")
        check_class_scores(shape, f"compare: the accuracy of parent {index}", NO_ACCURACY)
    titles = list(names) if names is not None else [f"parent {index}" for index in range(len(parents))]
    if len(titles) != len(parents):
        raise ValueError(f"{len(titles)} names for {len(parents)} networks: give one for each, or none.")
    own = isinstance(methods, Mapping)  # functions get data in the form that was given
    given = (list(models), data) if own and packing is not None else (parents, data)
    if not own and packing is not None:
        given = parents, example if labels is None else (example, labels)

    def entrant(row: dict[str, Any], run: Run) -> Entrant:
        def fuse() -> tuple[nn.Module, float | None, None]:
            made = run(*given)
            network, seconds = (made.model, made.seconds) if isinstance(made, FusionResult) else (made, None)
            if own and packing is not None:
                network = as_classifier(taking(network, packing), example, logits, row["name"])
            return network, seconds, None

        return Entrant(row, fuse)

    if isinstance(methods, Mapping):
        _check_functions(methods, importance, importance_data, keywords)
        runs = [({"name": name, "method": name}, run) for name, run in methods.items()]
    else:
        runs = _runs(methods, importance, importance_data, {"seed": seed, "device": device, **keywords})
    measure = Measure(test, packing=packing, monitor=monitor)

    def leaderboard(rows: list[dict[str, Any]], known: list[str]) -> Leaderboard:
        labels = [str(name) for name in classes or known]
        return Leaderboard(rows, labels, measure.title, len(measure.labels), titles, None, len(example), None, seed)

    return rank(
        dict(zip(titles, parents, strict=True)),
        [entrant(*pair) for pair in runs],
        measure,
        device=device,
        monitor=monitor,
        leaderboard=leaderboard,
    )


def chosen_methods(
    methods: str | Sequence[str], importance: str | Sequence[str]
) -> Iterator[tuple[Method, str | None, dict[str, Any]]]:
    """Each method with each score (None if it takes none), and its options.

    Args:
        methods: names, possibly comma-separated, each with options after plus signs ("zipit+repair=true"); "all" for all.
            Options of a score apply to runs with that score; an option `importance` replaces the common scores.
        importance: names, likewise.
    Raises:
        ValueError: an unknown name, or an invalid method with options.
    """
    of_all = [known_name(IMPORTANCE, name.partition("+")[0], "importance") for name in _listed(importance)]
    for word in itertools.chain.from_iterable(METHODS if each == "all" else [each] for each in _listed(methods)):
        if not isinstance(word, str):
            raise ValueError(
                f'{word!r} is not the name of a method. Give functions with names: methods={{"mine": function}}.'
            )
        name, *texts = word.split("+")
        if not all([name, *texts]):
            raise ValueError(
                f"{word!r} is not a method of a comparison (--methods). Write comma-separated names, or all, with "
                "options appended with plus signs, as in zipit+repair=true."
            )
        method, options = METHODS[name], read_options(texts)
        if any("+" in score for score in _listed(importance)):
            raise ValueError(
                f"a comparison takes names of scores for all methods (--importance {','.join(IMPORTANCE)}); append "
                "a score's options to a method (--methods kf-linear+steps=20) and they apply to the runs with that "
                "score."
            )
        own = options.pop("importance", None)
        scores = [known_name(IMPORTANCE, own, "importance")] if own else of_all
        owners = {option: {score for score in scores if option in settings_of(IMPORTANCE[score])} for option in options}
        for score in scores if method.takes.importance else [None]:
            yield (
                method,
                score,
                {name: value for name, value in options.items() if not owners[name] or score in owners[name]},
            )


def _runs(
    methods: str | Sequence[str], importance: str | Sequence[str], data: Any, keywords: dict[str, Any]
) -> list[tuple[dict[str, Any], Run]]:
    """Each row's description, and the function that makes its network.

    Args:
        data: the parents' own data; None: the fusion data.
    """
    taken = set()
    runs = []
    for method, score, options in chosen_methods(methods, importance):
        scored: dict[str, Any] = {"importance": score} if score else {}
        accepted = method.keywords({**options, **scored})
        shared = {key: value for key, value in keywords.items() if key in accepted}
        taken |= shared.keys()
        method.algorithm(**shared, **scored, **options)
        if score and IMPORTANCE[score].needs_data:
            scored["importance_data"] = "fusion" if data is None else data
        made = partial(_fused, method, {**shared, **scored, **options})
        row = {"name": title_of(method.name, score, options), "method": method.name, "importance": score}
        row |= {"grouping": options.pop("grouping", None), "options": options or None}
        runs.append((row, made))
    if strange := sorted(keywords.keys() - taken):
        raise ValueError(f"none of these methods has a keyword {strange[0]!r}. Leave it out.")
    return runs


def _check_functions(
    methods: Mapping[str, Any], importance: str | Sequence[str], importance_data: Any, keywords: Mapping[str, Any]
) -> None:
    """Refuse other arguments for functions, which only take (models, data)."""
    for name, run in methods.items():
        if not callable(run):
            raise ValueError(
                f"methods[{name!r}] is {run!r}, which is not a function of (models, data). Give a function, or a "
                "method of the "
                'project as METHODS["KF-Linear"].'
            )
    given = {"importance": importance != "uniform", "importance_data": importance_data is not None}
    if lost := [name for name, is_given in given.items() if is_given] + sorted(keywords):
        raise ValueError(
            f"functions do not receive compare's {', '.join(lost)}. Give such options to each: "
            '{"mine": lambda models, data: METHODS["KF-Linear"](models, data, importance="conductance", '
            'importance_data="fusion")}.'
        )


def _fused(method: Method, keywords: dict[str, Any], models: Sequence[nn.Module], data: Any) -> FusionResult:
    return method(list(models), data, **keywords)


def _listed(names: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


@dataclass(frozen=True)
class Entrant:
    """A method in a comparison."""

    row: dict[str, Any]
    """The row without measurements, by the names in EMPTY; `fuse` may extend it"""
    fuse: Callable[[], tuple[nn.Module, float | None, Tensor | None]]
    """-> its network, seconds of the fusion, and its outputs for the test images if known"""


def rank(
    parents: Mapping[str, nn.Module],
    entrants: Sequence[Entrant],
    measure: "Measure",
    *,
    device: str,
    monitor: Monitor,
    leaderboard: Callable[[list[dict[str, Any]], list[str]], "Leaderboard"],
) -> "Leaderboard":
    """Run all methods, measure and rank the networks; a method that fails is a row with the reason.

    Args:
        device: where to measure networks.
        leaderboard: (rows, class names) -> leaderboard; called before each run and at the end.
    Raises:
        ValueError: the parents cannot be measured.
        Cancelled: on the monitor's request.
    """
    table = [EMPTY | {"name": name} | measure(name, on_device(parent, device)) for name, parent in parents.items()]
    for index, entrant in enumerate(entrants):
        leaderboard(ranked(table, measure.correct), measure.classes)
        monitor.check()
        name = entrant.row["name"]
        monitor.emit("phase", name=f"{name} ({index + 1} of {len(entrants)}):", index=index, total=len(entrants))
        try:
            network, seconds, outputs = entrant.fuse()
            found = {"seconds": seconds} | measure(name, on_device(network, device), outputs)
        except (Cancelled, KeyboardInterrupt):
            raise
        except ValueError as error:
            found = {"reason": str(error)}
        except Exception as error:  # one method's bug must not waste hours of others
            found = {"reason": f"failed: {type(error).__name__}: {error}"}
        table.append(EMPTY | entrant.row | found)
    return leaderboard(ranked(table, measure.correct), measure.classes)


class Measure:
    """Measures networks on test images or samples, and remembers which of these each classifies correctly."""

    def __init__(
        self, test: Any, rows: Tensor | None = None, *, packing: Packing | None = None, monitor: Monitor
    ) -> None:
        """Read the test data.

        Args:
            test: Images, or samples with labels, see `as_inputs`.
            rows: of Images; None for all.
            packing: layout of several tensors in the networks' inputs.
        Raises:
            ValueError: unusable data.
        """
        self.monitor, self.correct = monitor, dict[str, Tensor]()
        if isinstance(test, Images):
            self.labels = test.labels if rows is None else test.labels[rows]
            self.title, self.classes = test.name, list(test.classes)
            self.example = test.normalise(test.pixels([0] if rows is None else rows[:1]))
            self._outputs: Callable[[nn.Module], Tensor] = lambda model: scores(model, test, rows=rows, monitor=monitor)
        else:
            inputs, labels = as_inputs(test)
            samples = packed(inputs, packing)
            if labels is None:
                raise ValueError("the test data have no labels, by which networks are measured. Pass (inputs, labels).")
            self.labels, self.title = class_labels(labels, "the test data"), "test samples"
            self.classes: list[str] = []
            self.example = samples[:1]
            self._outputs = lambda model: _outputs(model, samples, monitor)

    def __call__(self, name: str, model: nn.Module, outputs: Tensor | None = None) -> dict[str, Any]:
        """A network's scores and cost, by the names in EMPTY.

        Args:
            outputs: (n, classes) of the network, if known.
        Raises:
            ValueError: a label that is no class of the network.
        """
        outputs = self._outputs(model) if outputs is None else outputs
        check_classes(self.labels, outputs.shape[1], "the test data", name)
        self.classes = self.classes or [str(label) for label in range(outputs.shape[1])]
        self.correct[name] = outputs.argmax(1) == self.labels
        values = measured(outputs, self.labels, outputs.shape[1])
        return {score: values[score] for score in SCORES} | {
            "operations": operations(model, self.example.to(devices.of(model))),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
        }


@torch.inference_mode()
def _outputs(model: nn.Module, samples: Tensor, monitor: Monitor) -> Tensor:
    device = devices.of(model)
    with evaluating(model):
        parts = [model(x.to(device)).float().cpu() for x in monitor.each("evaluate", samples.split(BATCH))]
    return torch.cat(parts).clone()


def operations(model: nn.Module, example: Tensor) -> int:
    """Multiply-adds of a network for one image (1, C, H, W), in matrix products and convolutions."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, evaluating(model), torch.no_grad():
        model(example)
    return counter.get_total_flops() // 2


def ranked(table: list[dict[str, Any]], correct: dict[str, Tensor]) -> list[dict[str, Any]]:
    """Sort rows, best first, and add the difference to the first; rows without a network come last, in order."""
    measured_rows = sorted((row for row in table if row["reason"] is None), key=lambda row: -row["accuracy"])
    known = {name: answers.numpy() for name, answers in correct.items()}
    for row in measured_rows:
        row["difference"], row["interval"] = difference(known[row["name"]], known[measured_rows[0]["name"]])
        row["knows"] = as_bits(known[row["name"]])
    return measured_rows + [row for row in table if row["reason"] is not None]


def _flat(row: dict[str, Any], classes: Iterable[str]) -> dict[str, Any]:
    low, high = row["interval"] or (None, None)
    per_class = dict(zip((f"class {name}" for name in classes), row["per_class"] or [], strict=False))
    options = " ".join(f"{key}={value}" for key, value in (row["options"] or {}).items())
    plain = {key: value for key, value in row.items() if key not in ("interval", "per_class", "options", "knows")}
    return {**plain, "options": options, "low": low, "high": high, **per_class}
