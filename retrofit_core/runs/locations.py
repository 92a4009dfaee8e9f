"""Locate the files of a config."""

import dataclasses
import os
from pathlib import Path

from .config import RunConfig


def located(config: RunConfig, folder: str | Path) -> RunConfig:
    """Convert a config's file names from relative to a folder to relative to the current one."""
    base = Path(folder)
    if base == Path():
        return config

    def at(name: str | None) -> str | None:
        return name and str(base / name)

    data = [] if config.data == "digits" else [base / Path(config.data).expanduser(), base / "data" / config.data]
    target = config.target
    return dataclasses.replace(
        config,
        models=tuple(str(base / name) for name in config.models),
        splits=at(config.splits),
        base=at(config.base),
        target=at(target) if target and os.path.isfile(base / target) else target,
        data=next((str(path) for path in data if path.exists()), config.data),
    )
