"""Results that belong to a run, kept for all sessions until its record, its analysis or, where asked for, its data change."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import streamlit as st

from retrofit_app.runs import Entry
from retrofit_core.runs.store import Work

from . import sources

Function = TypeVar("Function", bound=Callable[..., Any])


def keep(most: int, spinner: str | bool = False, *, of_data: bool = False) -> Callable[[Function], Function]:
    """Keep a function's results; runs and works among its arguments count by their content. Results are shared: do not modify.

    Args:
        most: number of results.
        of_data: whether results also depend on the run's data set.
    """
    versions = {Entry: _with_data if of_data else _version, Work: lambda work: work.version}
    return cast(Any, st.cache_resource(max_entries=most, show_spinner=spinner, hash_funcs=versions))


def _version(entry: Entry) -> tuple[Any, ...]:
    """An analysis added later changes it, too."""
    return *entry.version, entry.status.get("checksums", {}).get("analysis.json", "")


def _with_data(entry: Entry) -> tuple[Any, ...]:
    data = entry.config["data"]
    return *_version(entry), data, sources.changed(data)
