"""compare(): many methods on the same parents, data and test images; one leaderboard.

`comparison` makes such leaderboards from checkpoints.
"""

import dataclasses
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..data import Images
from ..fusion.eligibility import check_finite, check_models, output_shape
from ..fusion.importance import IMPORTANCE
from ..fusion.results import FusionResult
from ..fusion.samples import as_inputs, read_once
from ..methods import METHODS, Method
from ..networks.copies import copies, evaluating, run
from ..networks.inputs import Inputs, batches_of, like, rows_of
from ..networks.outputs import as_classifier, check_class_scores
from ..networks.wrappers import unwrapped
from ..system.device import on_device
from ..system.files import write
from ..system.labels import check_classes, class_labels
from ..system.monitor import Monitor
from ..system.registry import known_name
from ..system.texts import read_options
from ..training.evaluation import NO_ACCURACY, NotANumber, as_bits, as_logits, measured, scores
from .answers import difference
from .config import choice_of, title_of
from .grid import grid

if TYPE_CHECKING:
    import pandas as pd

BATCH = 500  # batch size for measuring
Run = Callable[[Sequence[nn.Module], Any], nn.Module | FusionResult]  # of (models, data)
SAMPLES = "the test samples"  # in place of a data set's name
SCORES = ("accuracy", "loss", "calibration_error", "per_class")
#: A row without results.
EMPTY: dict[str, Any] = dict.fromkeys(
    ["name", "method", "grouping", "importance", "options", "seconds", "reason", "key", *SCORES]
    + ["operations", "parameters", "difference", "interval", "knows", "chose", "runs"]
)


@dataclass(frozen=True)
class Leaderboard:
    """The result of `compare`: a row for each parent and method, best first; methods that do not apply last."""

    rows: list[dict[str, Any]]
    """name, method, grouping (None: the method's own), importance (None for parents), options, accuracy (%), loss,
    per_class (%), calibration_error, difference (percentage points, to the best row, method or parent) and its 95 % interval,
    knows (the test images that it knows with a single seed, see `answers.from_bits`), seconds (of the fusion), operations
    (multiply-adds per image), parameters, chose (what Auto chose), reason (None, or why there is no network), key (of the run),
    runs (of all seeds). Numbers are means over seeds. Every row has all of them; what was not measured is None."""
    classes: list[str]
    data: str
    samples: int
    """Number of test images"""

    @property
    def fused(self) -> bool:
        """Whether any method produced a network."""
        return any(row["method"] is not None and row["reason"] is None for row in self.rows)

    def to_frame(self) -> "pd.DataFrame":
        """All rows, with the interval's ends as `low` and `high`."""
        import pandas as pd

        rows = [row | dict(zip(("low", "high"), row["interval"] or (None, None), strict=True)) for row in self.rows]
        return pd.DataFrame(rows, dtype=object)  # otherwise None in texts may become nan, which is true

    def summary(self) -> "pd.DataFrame":
        """The table of the networks as text, as `print(board)` shows it, without those that have none."""
        import pandas as pd

        columns = ["network", "acc. %", "to best", "loss", "ECE", "sec.", "M ops"]
        return pd.DataFrame([self._cells(row) for row in self.rows if row["reason"] is None], columns=columns)

    def _cells(self, row: dict[str, Any]) -> list[str]:
        low, high = row["interval"]
        name = f"{row['name']}: {row['chose']}" if row["chose"] else row["name"]
        costs = ["" if row["seconds"] is None else f"{row['seconds']:.1f}", f"{row['operations'] / 1e6:.3g}"]
        digits = 1 if abs(low) < 10 else 0
        scores = [f"{row['loss']:.2f}", f"{row['calibration_error']:.2f}"]
        return [name, f"{row['accuracy']:.2f}", f"{low:.{digits}f},{high:.{digits}f}", *scores, *costs]

    @property
    def title(self) -> str:
        """What was measured on."""
        return f"{self.samples} test samples" if self.data == SAMPLES else f"{self.samples} test images of {self.data}"

    @property
    def caption(self) -> str:
        """What the columns of the summary mean."""
        return (
            "to best: 95 % interval of the gap to the first row, in points (paired bootstrap over samples and seeds); ECE: "
            "expected calibration error; sec.: seconds of the fusion; M ops: million multiply-adds per sample"
        )

    @property
    def reasons(self) -> list[str]:
        """Why methods have no network."""
        return [f"{row['name']}: {row['reason']}" for row in self.rows if row["reason"] is not None]

    def __str__(self) -> str:
        return "\n".join([self.title, self.summary().to_string(index=False), self.caption, *self.reasons])

    def _repr_html_(self) -> str:
        return self.summary().to_html(index=False)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def save(self, folder: str | Path) -> None:
        """Write leaderboard.json."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / "leaderboard.json", json.dumps(self.to_json(), indent=1))


def compare(
    models: Sequence[nn.Module],
    data: Any,
    test: Any,
    methods: str | Sequence[str] | Mapping[str, Run] = "all",
    *,
    seeds: int = 1,
    logits: str | int | None = None,
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
            (models, data) that returns a network or a FusionResult, and runs once.
        seeds: run each method with so many seeds, from `seed` on; rows are means, and intervals cover samples and seeds.
        logits: see `fuse`.
        keywords: for all methods that have them, such as seed=0, device="cpu", target=network, memory=bytes;
            importance="uniform,conductance" are scores, for the methods that use one; importance_data: default: the fusion data.
    Returns:
        A row for each parent and method, best first, with the difference to the best and its paired 95 % bootstrap interval; a
        method that does not apply is a row with the reason. `print` shows the table; `summary` and `to_frame` give it.
    Raises:
        ValueError: no networks, an unknown method or score, a keyword that no method has, scores for functions, test data
            without labels, with labels that are no classes of the networks, or that the networks do not take.
        Cancelled: on the monitor's request.
    """
    if seeds < 1:
        raise ValueError(f"seeds is {seeds}, and a method runs at least once. Give the number of seeds, such as 3.")
    monitor, device = monitor or Monitor(), keywords.setdefault("device", "auto")
    check_models(models)
    models = list(copies({f"parent {k}": unwrapped(model) for k, model in enumerate(models)}).values())
    data, test = read_once(data), read_once(test)
    example, labels = as_inputs(data)

    def classifier(network: nn.Module, name: str) -> nn.Module:
        return as_classifier(network, example, logits, name)

    parents = {f"parent {k}": classifier(model, f"parent {k}") for k, model in enumerate(models)}
    shapes = {name: output_shape(parent, example, name) for name, parent in parents.items()}
    for name, shape in shapes.items():
        check_class_scores(shape, f"compare: the accuracy of {name}", NO_ACCURACY)
    if isinstance(methods, Mapping):
        entrants = _of_functions(methods, keywords, models, data, classifier)
    else:  # the same samples for all, also those of a loader that shuffles
        samples = example if labels is None else (example, labels)
        entrants = _of_methods(methods, keywords, seeds, (list(parents.values()), samples))
    measure = Measure(test, example, monitor)
    check_classes(measure.labels, min(shape[0] for shape in shapes.values()), measure.title, "the networks")

    def result_of(call: Callable[[], nn.Module | FusionResult]) -> Measured:
        start = time.perf_counter()
        result = call()
        seconds, chose = time.perf_counter() - start, ""
        if isinstance(result, FusionResult):
            result, seconds, chose = result.model, result.seconds, choice_of(result.config)
        return measure(on_device(result, device), seconds, chose)

    rows: dict[str, Measured | str] = {}
    for name, parent in parents.items():
        try:
            rows[name] = measure(on_device(parent, device))
        except NotANumber as error:
            rows[name] = str(error)
    timed = [(row, [partial(result_of, call) for call in calls]) for row, calls in entrants]
    *_, ranked = rank(rows, timed, monitor)
    return Leaderboard(ranked, list(map(str, measure.classes)), measure.title, len(measure.labels))


def method_variants(
    methods: str | Sequence[str], importance: str | Sequence[str] = "uniform"
) -> Iterator[tuple[Method, str | None, dict[str, Any]]]:
    """Each method with each score (None if it takes none), and its options.

    Args:
        methods: names, possibly comma-separated, each with options after plus signs ("zipit+repair=true"); "all" for all.
            An option `importance` replaces the common scores.
        importance: names, likewise.
    Raises:
        ValueError: an unknown name, or an invalid method with options.
    """
    if any("+" in score for score in _names(importance)):
        raise ValueError(
            f"a comparison takes names of scores for all methods (--importance {','.join(IMPORTANCE)}); append a score and its "
            "options to a method: --methods kf-linear+importance=conductance+steps=20."
        )
    for word in itertools.chain.from_iterable(METHODS if each == "all" else [each] for each in _names(methods)):
        name, *texts = word.split("+") if isinstance(word, str) else [word]
        if not all([name, *texts]):
            raise ValueError(
                f"{word!r} is not a method of a comparison (--methods). Write comma-separated names, or all, with "
                "options appended with plus signs, as in zipit+repair=true."
            )
        method, options = METHODS[name], read_options(texts)
        of_word = _names(options.pop("importance", importance))
        scores = [known_name(IMPORTANCE, score, "importance") for score in of_word]
        if not method.takes.importance:
            scores = [None]
        for score in scores:
            yield method, score, dict(options)


def _names(words: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in words.split(",")] if isinstance(words, str) else list(words)


def _of_methods(
    methods: str | Sequence[str], keywords: Mapping[str, Any], seeds: int, given: tuple[Any, Any]
) -> list[tuple[dict[str, Any], list[Any]]]:
    """Entrants of methods by name, each with all seeds; they are called with `given`."""
    shared = dict(keywords)
    seed, importance = shared.pop("seed", 0), shared.pop("importance", "uniform")
    own_data = read_once(shared.pop("importance_data", None))
    entrants, lost = [], set(shared)
    for method, score, options in method_variants(methods, importance):
        settings = {**options, **({"importance": score} if score else {})}
        accepted = method.keywords(settings)
        lost -= accepted.keys()
        settings = {name: value for name, value in shared.items() if name in accepted} | settings
        method.algorithm(**settings)
        if score and IMPORTANCE[score].needs_data:
            settings["importance_data"] = "fusion" if own_data is None else own_data
        elif method.takes.parents_data and own_data is not None:
            settings["importance_data"] = own_data
        row = {"name": title_of(method.name, score, options), "method": method.name, "importance": score}
        row |= {"grouping": options.pop("grouping", None), "options": options or None}
        seeded = [{"seed": seed + k} if "seed" in accepted else {} for k in range(seeds)]
        entrants.append((row, [partial(method, *given, **{**each, **settings}) for each in seeded]))
    if lost:
        raise ValueError(f"none of these methods has a keyword {min(lost)!r}. Leave it out.")
    return entrants


def _of_functions(
    methods: Mapping[str, Run],
    keywords: Mapping[str, Any],
    models: Sequence[nn.Module],
    data: Any,
    classifier: Callable[..., nn.Module],
) -> list[tuple[dict[str, Any], list[Any]]]:
    """Entrants of a user's functions of (models, data).

    Raises:
        ValueError: keywords, which functions do not get.
    """
    if lost := sorted(keywords.keys() - {"device"}):
        raise ValueError(
            f"functions do not receive compare's {', '.join(lost)}. Give such options to each: "
            '{"mine": lambda models, data: METHODS["KF-Linear"](models, data, importance="conductance", '
            'importance_data="fusion")}.'
        )

    def call(name: str, run: Run) -> nn.Module | FusionResult:
        result = run(models, data)
        if isinstance(result, FusionResult):
            return dataclasses.replace(result, model=classifier(result.model, name))
        return classifier(result, name)

    return [({"name": name, "method": name}, [partial(call, name, run)]) for name, run in methods.items()]


class Measured(NamedTuple):
    """A network of a comparison, measured."""

    answers: NDArray[Any]
    """(n,) bool, the samples that it knows"""
    facts: dict[str, Any]
    """Scores and costs, by the names in EMPTY"""
    chose: str = ""
    """See `choice_of`"""


#: A row without measurements, by the names in EMPTY, and its networks, one for each seed; they may extend the row.
Entrant = tuple[dict[str, Any], Sequence[Callable[[], Measured]]]


def rank(
    parents: Mapping[str, Measured | str], entrants: Sequence[Entrant], monitor: Monitor
) -> Iterator[list[dict[str, Any]]]:
    """Measure and rank all networks; a method that fails is a row with the reason.

    Args:
        parents: by name, measured, or why there is no measurement.
    Returns:
        The ranked rows before the first method, and after each.
    Raises:
        Cancelled: on the monitor's request.
    """
    table, answers = list[dict[str, Any]](), dict[str, NDArray[Any]]()

    def networks(index: int, monitor: Monitor, _device: str) -> list[Measured]:
        row, runs = entrants[index]
        name = f"{row['name']} ({index + 1} of {len(entrants)}):"
        monitor.emit("phase", name=name, index=index, total=len(entrants))
        return [run() for run in runs]

    def add(row: dict[str, Any], measured: Sequence[Measured] | str) -> None:
        facts = {"reason": measured} if isinstance(measured, str) else _means(measured)
        table.append(EMPTY | row | facts)
        if not isinstance(measured, str):
            answers[row["name"]] = np.stack([each.answers for each in measured])

    for name, parent in parents.items():
        add({"name": name}, parent if isinstance(parent, str) else [parent])
    yield ranking(table, answers)
    tasks = [partial(networks, index) for index in range(len(entrants))]
    for index, found in grid(tasks, monitor=monitor):
        add(entrants[index][0], found)
        yield ranking(table, answers)


def _means(measured: Sequence[Measured]) -> dict[str, Any]:
    """Means of scores and costs over seeds, and what Auto chose."""
    chose = " / ".join(dict.fromkeys(each.chose for each in measured if each.chose)) or None
    return {key: _mean([each.facts[key] for each in measured]) for key in measured[0].facts} | {"chose": chose}


def costs(network: nn.Module, example: Inputs, seconds: float | None = None) -> dict[str, Any]:
    """Seconds of the fusion, multiply-adds for a sample, and parameters."""
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return {"seconds": seconds, "operations": operations(network, example), "parameters": parameters}


class Measure:
    """Measures networks on test images or samples."""

    def __init__(self, test: Any, example: Inputs, monitor: Monitor) -> None:
        """Read the test data.

        Args:
            test: Images, or samples with labels, see `as_inputs`.
            example: what the networks take, which samples must match.
        Raises:
            ValueError: unusable data.
        """
        if isinstance(test, Images):
            self.labels, self.title, self.classes = test.labels, test.name, list(test.classes)
            self.example = test.inputs([0])
            self._outputs: Callable[[nn.Module], Tensor] = lambda model: scores(model, test, monitor=monitor)
        else:
            samples, labels = as_inputs(test)
            samples = like(samples, example)
            check_finite(samples, "test sample")
            if labels is None:
                raise ValueError("the test data have no labels, by which networks are measured. Pass (inputs, labels).")
            self.labels = class_labels(labels, "the test data")
            self.title = SAMPLES
            self.classes: list[str] = []
            self.example = rows_of(samples, slice(1))
            self._outputs = lambda model: _outputs(model, samples, monitor)

    def __call__(self, network: nn.Module, seconds: float | None = None, chose: str = "") -> Measured:
        """A network's scores and costs.

        Raises:
            ValueError: a label beyond the networks' classes.
        """
        outputs = self._outputs(network)
        check_classes(self.labels, outputs.shape[1], self.title, "the networks")
        self.classes = self.classes or [str(label) for label in range(outputs.shape[1])]
        values = measured(outputs, self.labels, outputs.shape[1])
        facts = {score: values[score] for score in SCORES} | costs(network, self.example, seconds)
        return Measured((outputs.argmax(1) == self.labels).numpy(), facts, chose)


@torch.inference_mode()
def _outputs(model: nn.Module, samples: Inputs, monitor: Monitor) -> Tensor:
    with evaluating(model):
        batches = monitor.each("evaluate", batches_of(samples, BATCH))
        parts = [run(model, x).float().cpu() for x in batches]
    return as_logits(torch.cat(parts).clone(), "the test samples")


def operations(model: nn.Module, example: Inputs) -> int:
    """Multiply-adds of a network for one sample, in matrix products and convolutions."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, evaluating(model), torch.no_grad():
        run(model, example)
    return counter.get_total_flops() // 2


def ranking(table: list[dict[str, Any]], answers: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """Sort rows, best first, and add the difference to the first; rows without a network come last, in order.

    Args:
        answers: by name, (runs, n) bool, the samples that each run's network knows.
    """
    measured_rows = sorted((row for row in table if row["reason"] is None), key=lambda row: -row["accuracy"])
    for row in measured_rows:
        known = answers[row["name"]]
        row["difference"], row["interval"] = difference(known, answers[measured_rows[0]["name"]])
        row["knows"] = as_bits(known[0]) if len(known) == 1 else None
    return measured_rows + [row for row in table if row["reason"] is not None]


def _mean(values: Sequence[Any]) -> Any:
    """Mean of numbers, or of lists of numbers, over seeds; None where there is none."""
    if len(values) == 1 or None in values:
        return values[0] if len(values) == 1 else None
    if isinstance(values[0], list):
        return [_mean(same) for same in zip(*values, strict=True)]
    return sum(values) / len(values)
