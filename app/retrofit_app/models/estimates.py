"""What a config would do, before it is started: time, memory or the refusal, and its levels; kept until a checkpoint changes."""

from pathlib import Path
from typing import Any

import streamlit as st


def estimate(config: Any, training: Any, folder: Path) -> Any:
    """The library's estimate of a `RunConfig`.

    Args:
        training: the `TrainConfig` of parents that may have to be trained first, or None.
        folder: what the config's file names are relative to.
    """
    return _estimate(_key(config, training, folder), config, training, folder)


def levels(config: Any, training: Any, folder: Path) -> tuple[Any, ...]:
    """The matched levels (`PlannedLevel`s); none if the run is refused."""
    return _levels(_key(config, training, folder), config, training, folder)


def _key(config: Any, training: Any, folder: Path) -> tuple[Any, ...]:
    paths = [folder / name for name in config.models]
    stamps = tuple(path.stat().st_mtime if path.exists() else 0.0 for path in paths)
    return config.key(), training and training.key(), stamps


@st.cache_data(max_size=2**22, show_spinner=False)
def _estimate(key: tuple[Any, ...], _config: Any, _training: Any, _folder: Path) -> Any:
    from retrofit_core.runs.estimate import estimate

    return estimate(_config, _training, _folder)


@st.cache_data(max_size=2**20, show_spinner="Cutting the networks into levels…")
def _levels(key: tuple[Any, ...], _config: Any, _training: Any, _folder: Path) -> tuple[Any, ...]:
    from retrofit_core.runs.estimate import planned_levels

    try:
        return planned_levels(_config, _training, _folder)
    except (ValueError, OSError):  # the estimate says so
        return ()
