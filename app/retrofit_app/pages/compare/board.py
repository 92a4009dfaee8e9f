"""All methods on one set of parents: the form, the plan, and the leaderboard as it fills."""

from pathlib import PurePath
from typing import Any

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Palette, claimed, escaped
from retrofit_app.figures.leaderboard import Point, accuracy_against_seconds
from retrofit_app.models.checkpoints import form_words
from retrofit_app.runs import compared, leaderboards, methods
from retrofit_app.runs.leaderboards import PAPERS, Leaderboard
from retrofit_app.shell import lectures
from retrofit_app.shell.picker import Choice
from retrofit_app.widgets import works
from retrofit_app.widgets.errors import guarded

from . import lecture, parameters, plans, ranking, taking
from .parameters import COMPARE, Board


@st.fragment
@guarded
def board(choice: Choice, palette: Palette) -> None:
    """Draw the form, the plan, and the leaderboard so far."""
    finished = {entry.name: entry for entry in choice.entries if entry.state == "done"}
    if not finished:
        widgets.why("A leaderboard takes the networks and settings of a finished run, and there is none yet.")
        return
    first = finished.get(choice.entry.name) or next(iter(finished.values()))
    asked = _asked(finished, first)
    entry, problem = finished[asked.of], ""
    try:
        leaderboard = leaderboards.leaderboard(entry, asked.methods, asked.scores, choice.entries)
    except ValueError as error:
        problem = form_words(str(error))
    if lectures.read().lecture:
        if not problem and (slides := lecture.of_board(leaderboard, entry, {}, palette)):
            lectures.show(f"{runs.networks_words(entry)}, {leaderboard.base.samples} samples", slides)
            return
        st.info("Lecture mode needs at least two ranked networks.", icon=":material/info:")
    _form(_pairs([entry, first, *finished.values()]), asked)
    if problem:
        widgets.why(f"There is nothing to rank: {problem}")
        return
    _settings_words(entry)
    if leaderboard.going:
        works.watch(lambda: leaderboard.going, lambda: growing(asked, palette))
        return
    above, below = st.empty(), st.empty()  # the last leaderboard vanishes at once, instead of turning grey
    plan = plans.board_plan(leaderboard)
    with above.container():
        works.ended(leaderboard.state, leaderboard.folder, "finished runs are kept")
        _start(leaderboard, plan)
    with below.container():
        results(leaderboard, entry, palette, plan.refusals)


def _pairs(entries: list[runs.Entry]) -> dict[str, runs.Entry]:
    """The first run of each set of parents and settings."""
    firsts: dict[Any, runs.Entry] = {}
    for entry in entries:
        config = entry.config
        alike = (compared.kind(entry), *(config.get(name) for name in ("samples", "seed", "fusion_from", "target")))
        firsts.setdefault(alike, entry)
    return {entry.name: entry for entry in firsts.values()}


def _asked(finished: dict[str, runs.Entry], first: runs.Entry) -> Board:
    every = tuple(methods.table())
    usual = tuple(name for name in every if name in (*leaderboards.USUAL, first.config["method"]))
    usually = "conductance" if first.config.get("splits") else "uniform"  # own data are those of a splits file
    score = first.config["importance"] if methods.weighs(first) else usually
    return parameters.board(list(finished), every, tuple(methods.importances()), Board(first.name, usual, (score,)))


def _form(pairs: dict[str, runs.Entry], asked: Board) -> None:
    st.selectbox(
        "Networks and settings of run",
        list(pairs),
        **COMPARE.control("of"),
        format_func=lambda name: _pair_words(pairs[name]),
        help="All runs of the leaderboard take the parents, data, samples and seed of this run. Each set of parents is listed "
        "once.",
    )
    by_family = leaderboards.families(list(methods.table()))
    keys = {words: COMPARE.key(f"family-{words.partition(':')[0]}") for words in by_family}

    def choose() -> None:
        chosen = {name for key in keys.values() for name in st.session_state.get(key) or ()}
        COMPARE.change(methods=tuple(name for name in methods.table() if name in chosen))

    for words, names in by_family.items():
        st.session_state[keys[words]] = [name for name in names if name in asked.methods]
        family, _, does = words.partition(":")
        st.pills(
            f"**{family}**{':' * bool(does)}{does}",
            names,
            key=keys[words],
            on_change=choose,
            selection_mode="multi",
            help="A method that does not apply to these networks gets a row with the reason.",
        )
    st.pills(
        "Importance scores",
        list(methods.importances()),
        **COMPARE.control("scores", tuple),
        selection_mode="multi",
        help="Methods that weigh neurons run once with each of them.",
    )


def _pair_words(entry: runs.Entry) -> str:
    config = entry.config
    target = f", fused into {PurePath(config['target']).name}" if config.get("target") else ""
    return (
        f"{runs.networks_words(entry)} on {PurePath(config.get('data', '')).name} · {config.get('samples')} samples, seed "
        f"{config.get('seed')}{target} · as run {entry.name}"
    )


def _settings_words(entry: runs.Entry) -> None:
    """Name the run's options that a leaderboard leaves at their defaults."""
    if left := [name for name in entry.config.get("options") or {} if name not in leaderboards.SHARED_OPTIONS]:
        names = ", ".join(name.replace("_", " ") for name in left)
        st.caption(f"The leaderboard takes the defaults of these options of that run: {names}.")


# --- the worker -----------------------------------------------------------------------------------


def _start(leaderboard: Leaderboard, plan: plans.BoardPlan) -> None:
    st.markdown(plan.words)
    if leaderboard.state == "done" and not plan.missing:
        st.caption("The leaderboard is complete.")
        return
    label = "Start" if leaderboard.state == "new" else "Continue"
    if not plan.missing:
        label = "Rank them"
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button(
            label,
            key="start-board",
            type="primary",
            icon=":material/play_arrow:",
            help="Runs in its own process: you can reload or close the page. Finished runs appear below, and as "
            "one entry of *Your runs* on Fuse.",
        ):
            works.start(lambda: leaderboards.start(leaderboard))


def growing(asked: Board, palette: Palette) -> None:
    """Draw the progress, and the leaderboard so far."""
    entries, _ = runs.entries()
    entry = next(entry for entry in entries if entry.name == asked.of)
    leaderboard = leaderboards.leaderboard(entry, asked.methods, asked.scores, entries)
    done = sum(run.name in leaderboard.measured for run in leaderboard.runs)
    current = leaderboard.at_work
    step = leaderboards.step(current) if current else ""
    now = f" · {current.name}{f', {step}' if step else ''}" if current else ""
    words = f"{done} of {len(leaderboard.runs)} methods are finished{now}"
    stops = "Stops after the current step. Finished runs are kept, and you can continue later."
    works.progress(leaderboard.folder, done / len(leaderboard.runs), words, stops, "cancel-board")
    results(leaderboard, entry, palette, {})


# --- the leaderboard ------------------------------------------------------------------------------


def results(leaderboard: Leaderboard, entry: runs.Entry, palette: Palette, refusals: dict[str, str]) -> None:
    """Draw the table and the picture."""
    rows = ranking.rows(leaderboard, entry, refusals)
    table = ranking.table(leaderboard, entry, rows)
    if sentence := ranking.finding(rows):
        st.markdown(claimed(sentence))
    if sentence := ranking.noticed(rows):
        st.markdown(f"What to notice: {escaped(sentence)}")
    st.html(table.html(palette))
    for note in table.notes:
        st.caption(escaped(note))
    origin = ranking.origin(leaderboard, entry)
    if not leaderboard.going:
        taking.notations(table, origin, "leaderboard")
    _picture(leaderboard, rows, palette, origin)
    if not leaderboard.going:
        st.divider()
        taking.copy(origin, "this leaderboard", "board")


def _picture(leaderboard: Leaderboard, rows: list[ranking.BoardRow], palette: Palette, origin: widgets.Several) -> None:
    """Draw accuracy against seconds; without a menu while it grows, because its files would be outdated at once."""
    points = [
        Point(
            row.rank,
            row.name,
            row.seconds,
            row.accuracy,
            row.method in PAPERS,
        )
        for row in rows
        if row.method and row.rank and row.seconds is not None and row.accuracy is not None
    ]
    parents = [row.accuracy for row in rows if row.method is None and row.accuracy is not None]
    if len(points) < 2 or not parents:
        return
    heading = "**What accuracy costs**: accuracy against the seconds of the fusion"
    reading = (
        "● the paper’s methods, □ others; the number is the place in the table. The dotted line is the best parent."
    )
    if leaderboard.going:
        works.growing("board", accuracy_against_seconds(points, max(parents), palette), heading, caption=False)
    else:
        widgets.chart(
            "accuracy-seconds",
            lambda colours: accuracy_against_seconds(points, max(parents), colours),
            palette,
            origin,
            heading=heading,
            reading=reading,
        )
