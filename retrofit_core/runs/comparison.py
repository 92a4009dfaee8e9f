"""Many methods on the same parents, data and test images: one leaderboard."""

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ..data import Images
from ..data.sampling import balanced
from ..fusion.importance import IMPORTANCE
from ..fusion.results import FusionResult
from ..methods import METHODS
from ..networks import own
from ..networks.training_flags import evaluating
from ..system import device as devices
from ..system.device import on_device
from ..system.files import write
from ..system.monitor import Cancelled, Monitor
from ..system.registry import known_name
from ..system.settings import settings_of
from ..training.evaluation import measured, scores
from . import RunConfig, execute, identity, of_network, read_identity, read_inputs, read_run, record_folder
from . import difference as other_work
from .config import check_choices, config_options
from .execute import Measurements
from .images import read_images
from .options import read_options

if TYPE_CHECKING:
    import pandas as pd

RESAMPLES = 10_000
#: Settings that are passed to those methods that have them.
STYLE = ("ridge", "toward", "preset", "memory", "base")
#: What all runs of a comparison share.
SAME = ("models", "data", "arch", "mean", "std", "size", "splits", "device")
DEFAULT = {field.name: field.default for field in dataclasses.fields(RunConfig)}
SCORES = ("accuracy", "loss", "calibration_error", "per_class")
#: A row without any results.
EMPTY: dict[str, Any] = dict.fromkeys(
    (
        "name",
        "method",
        "grouping",
        "importance",
        "options",
        "seconds",
        "reason",
        "key",
        *SCORES,
        "operations",
        "parameters",
        "difference",
        "interval",
    )
)


@dataclass(frozen=True)
class Leaderboard:
    """What `compare` found: a row for each parent and each method, best first; those that do not apply last."""

    rows: list[dict[str, Any]]
    """name, method, grouping (None: the method's own), importance (None for parents), options, accuracy (%), loss,
    per_class (%), calibration_error, difference (points to the best row, be it a method or a parent) and interval (its
    95 %), seconds (of the fusion), operations (multiply-adds for one image), parameters, reason (None, or why there is no
    network), key (of the run).
    Every row has all of them; what was not measured is None."""
    classes: list[str]
    data: str
    samples: int
    """Test images"""
    parents: list[str] = field(default_factory=list)
    """Names of the checkpoints' files"""
    splits: str | None = None
    """Name of the splits file"""
    fusion_samples: int | None = None
    """None where the runs differ, as importance_samples and seed"""
    importance_samples: int | None = None
    seed: int | None = None

    @property
    def fused(self) -> bool:
        """Whether any method gave a network."""
        return any(row["method"] is not None and row["reason"] is None for row in self.rows)

    def to_frame(self) -> "pd.DataFrame":
        """One line a row; a column for each class."""
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


def configurations(base: RunConfig, methods: str, importance: str) -> list[RunConfig]:
    """The runs of a comparison: each method with each importance; methods that take no importance once.

    Args:
        base: the settings of all; ridge, toward, preset, memory and base are left out for methods that do not have them, and the
            analysis for those that do not go level by level.
        methods: names separated by commas, each with options behind plus signs ("zipit+repair=true",
            "kf-linear+grouping=local_search"); "all" for all. An option of some scores is given to the runs with these.
        importance: names separated by commas.
    Raises:
        ValueError: an unknown method, option or importance.
    """
    parts = [part.strip() for part in methods.split(",")]
    configs = []
    for word in itertools.chain.from_iterable(METHODS if part == "all" else [part] for part in parts):
        name, *texts = word.split("+")
        if not all([name, *texts]):
            raise ValueError(
                f"{word!r} is no method of a comparison (--methods). Write names separated by commas, or all; options behind "
                "plus signs, as zipit+repair=true."
            )
        method = known_name(METHODS, name, "method")
        keywords, takes = METHODS[method].keywords(), METHODS[method].takes
        others = {setting: DEFAULT[setting] for setting in STYLE if setting not in keywords}
        others["analyse"] = base.analyse and takes.levels  # there are no levels to analyse otherwise
        options = read_options(texts)
        if "importance" in options or "+" in importance:
            raise ValueError(
                f"a comparison takes names of scores for all methods (--importance {','.join(IMPORTANCE)}); options of a score "
                "stand behind a method (--methods kf-linear+steps=20) and go to the runs with that score."
            )
        if takes.levels and "grouping" in options:
            others["grouping"] = options.pop("grouping")
        scores = [score.strip() for score in importance.split(",")] if takes.importance else ["uniform"]
        of_scores = {name: _scores_with(name) for name in options}
        for score in scores:
            # An option of some of the scores is given to these.
            fitting = {
                name: value
                for name, value in options.items()
                if not of_scores[name] or score in of_scores[name] or not set(scores) & set(of_scores[name])
            }
            config = dataclasses.replace(base, method=method, importance=score, **others)
            configs.append(dataclasses.replace(config, options=config_options(config, fitting)))
            check_choices(configs[-1])
    return list({config.key(): config for config in configs}.values())


def quick_first(configs: Iterable[RunConfig]) -> list[RunConfig]:
    """In the order of work: a leaderboard fills soonest when trainings come last, and fits of all levels before these."""

    def effort(config: RunConfig) -> tuple[bool, bool]:
        method = METHODS[config.method]
        return method.takes.levels, any(name.endswith("epochs") for name in method.keywords())

    return sorted(configs, key=effort)


def _scores_with(option: str) -> list[str]:
    return [name for name, cls in IMPORTANCE.items() if option in settings_of(cls)]


def compare(
    configs: Sequence[RunConfig],
    *,
    images: int | None = None,
    records: str | Path | None = None,
    also: Iterable[str | Path] = (),
    out: str | Path | None = None,
    monitor: Monitor | None = None,
) -> Leaderboard:
    """Run every config, the quick methods first, and measure its network on the same test images.

    Args:
        configs: of the same parents and data, see `configurations`.
        images: test images, balanced over the classes (default: all).
        records: folder for the runs' records, see `runs.record_folder`; a run that is finished there, with checkpoints and
            data as they are now, is not run again.
        also: further finished records of any name; one of the same work is taken in place of a new run.
        out: folder into which the leaderboard is saved after every row.
    Raises:
        ValueError: no configs, configs of different parents or data, or inputs that cannot be read. A method that does
            not apply to the parents is a row with its reason.
        Cancelled: the comparison was cancelled; finished records stay.
    """
    monitor = monitor or Monitor()
    _check_same(configs)
    test, rows, parents = _inputs(configs[0], images)
    correct: dict[str, Tensor] = {}
    table = []
    finished = _finished(also)
    measurements = Measurements()

    def board() -> Leaderboard:
        so_far = Leaderboard(ranked(table, correct), list(test.classes), test.name, len(rows), **_compared(configs))
        if out is not None:
            so_far.save(out)
        return so_far

    for index, parent in enumerate(parents):
        row = EMPTY | {"name": f"parent {index}"}
        model = on_device(parent, configs[0].device)
        table.append(row | _measured(model, test, rows, row["name"], correct, monitor))
    for index, config in enumerate(quick_first(configs)):
        board()
        monitor.check()
        name = title(config)
        monitor.emit("phase", name=f"{name} ({index + 1} of {len(configs)}):", index=index, total=len(configs))
        table.append(_row(config, name, test, rows, correct, records, finished, measurements, monitor))
    return board()


def _compared(configs: Sequence[RunConfig]) -> dict[str, Any]:
    """The settings that all runs share, so that a leaderboard can be traced to its command."""
    parents = [Path(model).name for model in configs[0].models]
    splits = Path(configs[0].splits).name if configs[0].splits else None
    names = {"fusion_samples": "samples", "importance_samples": "importance_samples", "seed": "seed"}
    values = {ours: {getattr(config, name) for config in configs} for ours, name in names.items()}
    return {"parents": parents, "splits": splits} | {
        name: different.pop() if len(different) == 1 else None for name, different in values.items()
    }


def title(config: RunConfig) -> str:
    """Method, grouping in place of its own, importance where it takes one, and options."""
    score = filter(None, [config.grouping, _taken(config)])
    options = [key if value is True else f"{key}={value}" for key, value in (config.options or {}).items()]
    return ", ".join([config.method, *score, *options])


def difference(ours: Tensor, best: Tensor, seed: int = 0) -> tuple[float, tuple[float, float]]:
    """Points of accuracy between two networks on the same images, and its paired bootstrap interval of 95 %.

    Resampling n images draws the numbers of images that only one of both knows from a multinomial, so that is drawn
    directly.

    Args:
        ours, best: (n,) bool, which images each knows.
    """
    n = len(ours)
    won, lost = int((ours & ~best).sum()), int((~ours & best).sum())
    drawn = np.random.default_rng(seed).multinomial(n, [won / n, lost / n, (n - won - lost) / n], RESAMPLES)
    low, high = np.percentile(100 * (drawn[:, 0] - drawn[:, 1]) / n, [2.5, 97.5])
    return 100 * (won - lost) / n, (float(low), float(high))


def operations(model: nn.Module, example: Tensor) -> int:
    """Multiply-adds that a network spends on one image (1, C, H, W): products of matrices and convolutions."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, evaluating(model), torch.no_grad():
        model(example)
    return counter.get_total_flops() // 2


def _check_same(configs: Sequence[RunConfig]) -> None:
    """Refuse runs of different parents, data or devices."""
    if not configs:
        raise ValueError("nothing to compare: name at least one method.")
    for name in SAME:
        if len({str(getattr(config, name)) for config in configs}) > 1:
            raise ValueError(f"a comparison needs the same {name} in all runs.")


def _inputs(config: RunConfig, images: int | None) -> tuple[Images, Tensor, list[nn.Module]]:
    test = read_images(config, "test")
    if images is not None and not 1 <= images <= len(test):
        raise ValueError(
            f"images={images} (--images): data set {test.name!r} has {len(test)} test images. Take 1 to {len(test)} of them, "
            "or all by leaving it out."
        )
    rows = torch.arange(len(test)) if images is None else balanced(test.labels, images)
    plain = RunConfig(
        config.models,
        config.data,
        splits=config.splits,
        arch=config.arch,
        mean=config.mean,
        std=config.std,
        size=config.size,
        samples=config.samples,
        fusion_from=config.fusion_from,
    )
    own.allow(config.target)  # finished runs are read with the networks that they hold
    return test, rows, read_inputs(plain).models


def _row(
    config: RunConfig,
    name: str,
    test: Images,
    rows: Tensor,
    correct: dict[str, Tensor],
    records: str | Path | None,
    finished: Sequence[Path],
    measurements: Measurements,
    monitor: Monitor,
) -> dict[str, Any]:
    row = EMPTY | {
        "name": name,
        "method": config.method,
        "grouping": config.grouping,
        "importance": _taken(config),
        "options": config.options,
        "key": config.key(),
    }
    try:
        folder = _same_work(config, finished) or (record_folder(records, config) if records else None)
        row["key"] = folder.name if folder else config.key()
        measurements.fused = None
        result = _result(config, folder, measurements, monitor)
    except (Cancelled, KeyboardInterrupt):
        raise
    except ValueError as error:
        return row | {"reason": str(error)}
    except Exception as error:  # one method's defect must not cost the others' hours
        return row | {"reason": f"failed: {type(error).__name__}: {error}"}
    model = on_device(result.model, config.device)
    logits = measurements.fused[rows] if measurements.fused is not None else None  # of this run, if it measured them
    return row | {"seconds": result.seconds} | _measured(model, test, rows, name, correct, monitor, logits)


def _finished(also: Iterable[str | Path]) -> list[Path]:
    """Those of some folders that hold a finished record that can be read."""
    folders = []
    for folder in map(Path, also):
        with contextlib.suppress(ValueError):
            if read_run(folder).state == "done":
                folders.append(folder)
    return folders


def _same_work(config: RunConfig, finished: Sequence[Path]) -> Path | None:
    """The first of some finished records with the network that a config would make of the files as they are now."""
    stored = [(folder, read_identity(folder)) for folder in finished]
    alike = [(folder, other) for folder, other in stored if other and other.config.method == config.method]
    wanted = identity(of_network(config)) if alike else None  # which reads the files
    for folder, other in alike:
        if wanted and not other_work(dataclasses.replace(other, config=of_network(other.config)), wanted):
            return folder
    return None


def _taken(config: RunConfig) -> str | None:
    return config.importance if METHODS[config.method].takes.importance else None


def _result(config: RunConfig, folder: Path | None, measurements: Measurements, monitor: Monitor) -> FusionResult:
    """The result in the finished record of the same work, or that of a new run."""
    if folder is not None and (folder / "config.json").exists() and read_run(folder).state == "done":
        return FusionResult.load(folder)
    return execute(config, folder, monitor, measurements)[0]


def _measured(
    model: nn.Module,
    test: Images,
    rows: Tensor,
    name: str,
    correct: dict[str, Tensor],
    monitor: Monitor,
    logits: Tensor | None = None,
) -> dict[str, Any]:
    """Scores of a network, its cost, and in `correct` which images it knows.

    Args:
        logits: its outputs for these images, where they are known.
    """
    labels = test.labels[rows]
    logits = scores(model, test, rows=rows, monitor=monitor) if logits is None else logits
    correct[name] = logits.argmax(1) == labels
    values = measured(logits, labels, len(test.classes))
    example = test.normalise(test.pixels(rows[:1]).to(devices.of(model)))
    return {score: values[score] for score in SCORES} | {
        "operations": operations(model, example),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def ranked(table: list[dict[str, Any]], correct: dict[str, Tensor]) -> list[dict[str, Any]]:
    """Best first, each with its difference to the first; rows without a network last, in their order."""
    measured_rows = sorted((row for row in table if row["reason"] is None), key=lambda row: -row["accuracy"])
    for row in measured_rows:
        row["difference"], row["interval"] = difference(correct[row["name"]], correct[measured_rows[0]["name"]])
    return measured_rows + [row for row in table if row["reason"] is not None]


def _flat(row: dict[str, Any], classes: Iterable[str]) -> dict[str, Any]:
    low, high = row["interval"] or (None, None)
    per_class = dict(zip((f"class {name}" for name in classes), row["per_class"] or [], strict=False))
    options = " ".join(f"{key}={value}" for key, value in (row["options"] or {}).items())
    plain = {key: value for key, value in row.items() if key not in ("interval", "per_class", "options")}
    return {**plain, "options": options, "low": low, "high": high, **per_class}
