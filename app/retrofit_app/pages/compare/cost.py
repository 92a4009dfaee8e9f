"""A leaderboard's cost: how many runs exist, which are impossible, and the approximate time of the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from retrofit_app.figures import lettered
from retrofit_app.models import estimates
from retrofit_app.runs.leaderboards import BoardRun, Leaderboard
from retrofit_app.runs.records import Entry
from retrofit_app.runs.times import likely


@dataclass(frozen=True)
class BoardPlan:
    """What Start would do."""

    words: str
    """In Markdown"""
    missing: int
    """Runs to make"""
    refusals: dict[str, str]
    """Name of a row -> why its method does not apply"""


def plan(leaderboard: Leaderboard, entries: Sequence[Entry]) -> BoardPlan:
    """Count and estimate without doing anything.

    Args:
        entries: all runs, which give times.
    """
    from retrofit_core.runs.estimate import START

    wanted = [run for run in leaderboard.runs if run.entry is None and run.name not in _refused(leaderboard)]
    found = _estimates(leaderboard, wanted)
    refusals = {
        run.name: lettered(estimate.refusal) for run, estimate in zip(wanted, found, strict=True) if estimate.refusal
    }
    refusals |= {name: lettered(why) for name, why in _refused(leaderboard).items()}
    missing = [estimate for estimate in found if not estimate.refusal]
    there = sum(run.entry is not None for run in leaderboard.runs)
    parts = [f"{there} {_are(there)} already done"] if there else []
    parts += [f"{len(refusals)} {_does(len(refusals))} not apply to these networks"] if refusals else []
    parts += [f"{len(missing)} to do"] if missing else []
    words = f"**{len(leaderboard.runs)} run{'s' if len(leaderboard.runs) > 1 else ''}**: {', '.join(parts)}."
    if missing:  # one process makes them all and loads Python and torch once
        seconds = START + sum(estimate.seconds - START for estimate in missing)
        words += f" That takes {likely(seconds, entries)}."
    return BoardPlan(words, len(missing), refusals)


def _refused(leaderboard: Leaderboard) -> dict[str, str]:
    """Name -> the worker's reason to refuse it."""
    return {
        run.name: row["reason"]
        for run in leaderboard.runs
        if (row := leaderboard.measured.get(run.name)) is not None and row.get("reason") and run.entry is None
    }


def _estimates(leaderboard: Leaderboard, wanted: Sequence[BoardRun]) -> list[Any]:
    words = "Checking which methods apply and how long they take: {} of " + str(len(wanted))
    found = []
    bar = st.progress(0.0, words.format(0)) if wanted else st.empty()
    for count, run in enumerate(wanted, 1):
        found.append(estimates.estimate(run.config, None, leaderboard.home))
        bar.progress(count / len(wanted), words.format(count))
    bar.empty()
    return found


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _does(count: int) -> str:
    return "does" if count == 1 else "do"
