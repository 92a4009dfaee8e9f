"""A run as text to paste: command line, Python, notebook cell. All three give the numbers of the run.

They are written from the same configurations that the run was made of, and are to be executed in the runs folder or in
any empty one: parents that are missing are trained first.
"""

import dataclasses
from pathlib import PurePath
from typing import Any

from .runs import RunConfig
from .training.parents import TrainConfig

IMPORTS = "from retrofit_core.runs import RunConfig, execute"
TRAINING_IMPORTS = "from retrofit_core.training.parents import TrainConfig, train_parents"


def command(config: RunConfig, training: TrainConfig | None = None) -> str:
    """Lines for a shell: the parents' training if it is known, then the fusion into a record named by its key.

    Example:
        >>> print(command(RunConfig(models=("a.safetensors",), splits="splits.json")))
        retrofit fuse a.safetensors --splits splits.json --record 929374ab51
    """
    lines = [] if training is None else [f"{training.command(_folder(config))} --resume"]
    return "\n".join([*lines, f"{config.command()} --record {config.key()}"])


def python(config: RunConfig, training: TrainConfig | None = None) -> str:
    """A script that does the same and prints the levels' errors and, if they are measured, the accuracies."""
    lines = [*_imports(training), "", *_training(config, training), *_assignment("config", config)]
    lines += [f'result, metrics = execute(config, "{config.key()}")', "print(result.to_frame().to_string())"]
    if config.evaluate:
        lines += [
            'for name, network in metrics["networks"].items():',
            "    print(f\"{name:12} {network['accuracy']:.2f} %\")",
        ]
    return "\n".join(lines) + "\n"


def notebook_cell(config: RunConfig, training: TrainConfig | None = None) -> str:
    """A cell for Jupyter that does the same and shows the accuracies, or else the levels."""
    shown = "result.to_frame()"
    lines = [*_imports(training), "", *_training(config, training), *_assignment("config", config)]
    lines += [f'result, metrics = execute(config, "{config.key()}")']
    if config.evaluate:
        shown = 'pd.DataFrame(metrics["networks"]).T[["accuracy", "loss"]]'
        lines = ["import pandas as pd", *lines]
    return "\n".join([*lines, shown])


def _imports(training: TrainConfig | None) -> list[str]:
    return [IMPORTS, TRAINING_IMPORTS] if training is not None else [IMPORTS]


def _folder(config: RunConfig) -> str:
    return str(PurePath(config.models[0]).parent)


def _training(config: RunConfig, training: TrainConfig | None) -> list[str]:
    if training is None:
        return []
    return [*_assignment("training", training), f"train_parents(training, {_quoted(_folder(config))}, resume=True)"]


def _assignment(name: str, config: Any) -> list[str]:
    """A dataclass as the call that makes it, without what has its default."""
    fields = [(field.name, getattr(config, field.name), field.default) for field in dataclasses.fields(config)]
    arguments = [f"    {key}={_quoted(value)}," for key, value, default in fields if value != default]
    kind = type(config).__name__
    return [f"{name} = {kind}(", *arguments, ")"] if arguments else [f"{name} = {kind}()"]


def _quoted(value: Any) -> str:
    """Python's own notation, with double quotes where that needs no escapes."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_quoted, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quoted(key)}: {_quoted(held)}' for key, held in value.items())}}}"
    text = repr(value)
    return f'"{value}"' if isinstance(value, str) and text == f"'{value}'" and '"' not in value else text
