"""A leaderboard's cost: how many runs exist, which are impossible, and the approximate time of the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import lettered
from retrofit_app.runs.leaderboards import BoardRun, Leaderboard
from retrofit_app.runs.words import duration


@dataclass(frozen=True)
class BoardPlan:
    """What Start would do."""

    words: str
    """In Markdown"""
    missing: int
    """Runs to make"""
    refusals: dict[str, str]
    """Name of a row -> why its method does not apply"""


def plan(leaderboard: Leaderboard, entries: Sequence[runs.Entry]) -> BoardPlan:
    """Count and estimate without doing anything."""
    from retrofit_core.runs.estimate.predict import START

    wanted = [run for run in leaderboard.runs if run.entry is None and run.name not in _refused(leaderboard)]
    estimates = _estimates(leaderboard, wanted, list(entries))
    refusals = {
        run.name: lettered(estimate.refusal)
        for run, estimate in zip(wanted, estimates, strict=True)
        if estimate.refusal
    }
    refusals |= {name: lettered(why) for name, why in _refused(leaderboard).items()}
    missing = [estimate for estimate in estimates if not estimate.refusal]
    there = sum(run.entry is not None for run in leaderboard.runs)
    # One process makes them all and loads Python and torch once.
    starts = START[0], START[1] * (_crowding() if _on_cpu(leaderboard) else 1.0)
    least, most = (
        start + sum(max(estimate.seconds[end] - start, 0.0) for estimate in missing) for end, start in enumerate(starts)
    )
    parts = [f"{there} {_are(there)} already done"] if there else []
    parts += [f"{len(refusals)} {_does(len(refusals))} not apply to these networks"] if refusals else []
    parts += [f"{len(missing)} to do"] if missing else []
    words = f"**{len(leaderboard.runs)} run{'s' if len(leaderboard.runs) > 1 else ''}**: {', '.join(parts)}."
    if missing:
        unknown = (
            ""
            if all(estimate.whole for estimate in missing)
            else (
                ", and alignments take additional time, which is not known before their first run here (seconds for small "
                "networks)"
            )
        )
        words += (
            f" That takes about **{duration(least)} to {duration(most)}** on this machine at its current load{unknown}."
        )
    return BoardPlan(words, len(missing), refusals)


def _refused(leaderboard: Leaderboard) -> dict[str, str]:
    """Name -> the worker's reason to refuse it."""
    return {
        run.name: row["reason"]
        for run in leaderboard.runs
        if (row := leaderboard.measured.get(run.name)) is not None and row.get("reason") and run.entry is None
    }


def _estimates(leaderboard: Leaderboard, wanted: Sequence[BoardRun], entries: list[runs.Entry]) -> list[Any]:
    stamps = tuple(_stamp(leaderboard.home / name) for name in leaderboard.base.models)
    finished = tuple(entry.name for entry in entries if entry.state == "done")
    past = runs.past(entries)
    words = "Checking which methods apply and how long they take: {} of " + str(len(wanted))
    estimates, crowding = [], _crowding()
    bar = st.progress(0.0, words.format(0)) if wanted else st.empty()
    for count, run in enumerate(wanted, 1):
        estimates.append(_estimate((run.config.key(), stamps, finished), crowding, run.config, past, leaderboard.home))
        bar.progress(count / len(wanted), words.format(count))
    bar.empty()
    return estimates


@st.cache_data(max_size=2**22, show_spinner=False)
def _estimate(key: tuple[Any, ...], crowding: float, _config: Any, _past: list[dict[str, Any]], _folder: Path) -> Any:
    from retrofit_core.runs.estimate import estimate

    return estimate(_config, None, _past, _folder, crowding)


def _crowding() -> float:
    """This machine's crowding in half steps; a change renews estimates."""
    from retrofit_core.runs.estimate import crowding

    return round(2 * crowding()) / 2


def _on_cpu(leaderboard: Leaderboard) -> bool:
    from retrofit_core.system import device

    return device.pick(leaderboard.base.device).type == "cpu"


def _stamp(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _does(count: int) -> str:
    return "does" if count == 1 else "do"
