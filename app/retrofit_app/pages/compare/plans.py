"""What a leaderboard's Start would do: how many runs exist, which are impossible, and how many are left."""

from dataclasses import dataclass

import streamlit as st

from retrofit_app.figures import lettered
from retrofit_app.models import plans
from retrofit_app.runs.leaderboards import Leaderboard


@dataclass(frozen=True)
class BoardPlan:
    """What Start would do."""

    words: str
    """In Markdown"""
    missing: int
    """Runs to make"""
    refusals: dict[str, str]
    """Name of a row -> why its method does not apply"""


def board_plan(leaderboard: Leaderboard) -> BoardPlan:
    """Check every run that does not exist, without doing anything."""
    refusals = {
        run.name: lettered(row["reason"])
        for run in leaderboard.runs
        if (row := leaderboard.measured.get(run.name)) is not None and row.get("reason") and run.entry is None
    }
    wanted = [run for run in leaderboard.runs if run.entry is None and run.name not in refusals]
    words = "Checking which methods apply: {} of " + str(len(wanted))
    bar = st.progress(0.0, words.format(0)) if wanted else st.empty()
    for count, run in enumerate(wanted, 1):
        if refusal := plans.plan(run.config, None, leaderboard.home).refusal:
            refusals[run.name] = lettered(refusal)
        bar.progress(count / len(wanted), words.format(count))
    bar.empty()
    there = sum(run.entry is not None for run in leaderboard.runs)
    missing = len(leaderboard.runs) - there - len(refusals)
    parts = [f"{there} {'is' if there == 1 else 'are'} already done"] if there else []
    parts += (
        [f"{len(refusals)} {'does' if len(refusals) == 1 else 'do'} not apply to these networks"] if refusals else []
    )
    parts += [f"{missing} to do"] if missing else []
    words = f"**{len(leaderboard.runs)} run{'s' if len(leaderboard.runs) > 1 else ''}**: {', '.join(parts)}."
    return BoardPlan(words, missing, refusals)
