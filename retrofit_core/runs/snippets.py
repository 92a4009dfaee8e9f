"""A run, or a comparison of runs, as text to paste: command line and Python. Both give the same numbers.

They are generated from the run's own configurations, for execution in the runs folder or any empty one; they first train
missing parents.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from ..system.texts import changed
from ..training.parents import TrainConfig
from . import RunConfig
from .comparison import SAME

IMPORTS = "from retrofit_core.runs import RunConfig, execute"
COMPARISON_IMPORTS = "from retrofit_core.runs.comparison import compare_runs\nfrom retrofit_core.runs import RunConfig"
#: Columns that a comparison prints.
SHOWN = '["name", "accuracy", "difference", "low", "high", "loss", "seconds"]'
TRAINING_IMPORTS = "from retrofit_core.training.parents import TrainConfig, train_parents"


def command(config: RunConfig, training: TrainConfig | None = None) -> str:
    """Shell lines: the parents' training if known, then the fusion into a record named by its key.

    Examples:
        >>> print(command(RunConfig(models=("a.safetensors",), splits="splits.json")))
        retrofit fuse a.safetensors --splits splits.json --record 6365e64c81
    """
    lines = [] if training is None else [f"{training.command(_folder(config))} --resume"]
    return "\n".join([*lines, f"{config.command()} --record {config.key()}"])


def python(config: RunConfig, training: TrainConfig | None = None) -> str:
    """A script that does the same and prints the levels' errors and any measured accuracies."""
    lines = [IMPORTS, TRAINING_IMPORTS, ""] if training is not None else [IMPORTS, ""]
    lines += [] if training is None else _trained(training, _folder(config))
    lines += [*_assignment("config", config), f'result, metrics = execute(config, "{config.key()}")']
    lines.append("print(result.to_frame().to_string())")
    if config.evaluate:
        lines += [
            'for name, network in metrics["networks"].items():',
            "    print(f\"{name:12} {network['accuracy']:.2f} %\")",
        ]
    return "\n".join(lines) + "\n"


def comparison_command(runs: Sequence[tuple[RunConfig, TrainConfig | None]]) -> str:
    """Shell lines that make runs.

    Args:
        runs: each with the training of its parents, if known.
    """
    return "\n".join(dict.fromkeys(line for run in runs for line in command(*run).splitlines()))


def comparison_python(runs: Sequence[tuple[RunConfig, TrainConfig | None]]) -> str:
    """A script that does the same and prints a leaderboard per set of parents."""
    trainings = {_folder(config): training for config, training in runs if training is not None}
    lines = [COMPARISON_IMPORTS, *([TRAINING_IMPORTS] if trainings else []), ""]
    for folder, training in trainings.items():
        lines += _trained(training, folder)
    boards: dict[str, list[RunConfig]] = {}
    for config, _ in runs:
        boards.setdefault(str([getattr(config, name) for name in SAME]), []).append(config)
    for configs in boards.values():
        calls = [[f"    {line}" for line in _call(config)] for config in configs]
        lines += ["configs = [", *(line for call in calls for line in (*call[:-1], f"{call[-1]},")), "]"]
        lines += ['board = compare_runs(configs, records=".")', f"print(board.to_frame()[{SHOWN}].to_string())"]
    return "\n".join(lines) + "\n"


def _folder(config: RunConfig) -> str:
    return str(PurePath(config.models[0]).parent)


def _trained(training: TrainConfig, folder: str) -> list[str]:
    return [*_assignment("training", training), f"train_parents(training, {_quoted(folder)}, resume=True)"]


def _assignment(name: str, config: Any) -> list[str]:
    """Lines that assign a dataclass to a name."""
    first, *rest = _call(config)
    return [f"{name} = {first}", *rest]


def _call(config: Any) -> list[str]:
    """A dataclass as a constructor call, without defaults."""
    kind, arguments = type(config).__name__, [f"    {key}={_quoted(value)}," for key, value in changed(config).items()]
    return [f"{kind}(", *arguments, ")"] if arguments else [f"{kind}()"]


def _quoted(value: Any) -> str:
    """repr with double quotes, if that needs no escapes."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_quoted, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quoted(key)}: {_quoted(held)}' for key, held in value.items())}}}"
    text = repr(value)
    return f'"{value}"' if isinstance(value, str) and text == f"'{value}'" and '"' not in value else text
