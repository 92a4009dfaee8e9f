"""Whether a config can work, before it is started, or the refusal with its cures; kept until a checkpoint changes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from retrofit_core.system.refusals import Cure, cures_of


@dataclass(frozen=True)
class Plan:
    """Whether a run can work."""

    refusal: str = ""
    cures: tuple[Cure, ...] = ()
    """If refused: settings with values that would work"""


def plan(config: Any, training: Any, folder: Path) -> Plan:
    """The library's answer to a `RunConfig`.

    Args:
        training: the `TrainConfig` of parents that may have to be trained first, or None.
        folder: what the config's file names are relative to.
    """
    paths = [folder / name for name in config.models]
    stamps = tuple(path.stat().st_mtime if path.exists() else 0.0 for path in paths)
    return _plan((config.key(), training and training.key(), stamps), config, training, folder)


@st.cache_data(max_size=2**22, show_spinner=False)
def _plan(key: tuple[Any, ...], _config: Any, _training: Any, _folder: Path) -> Plan:
    from retrofit_core.runs.planning import check_run

    try:
        check_run(_config, _training, _folder)
    except ValueError as error:
        return Plan(refusal=str(error), cures=cures_of(error))
    return Plan()
