"""Your runs: one table with filter and ticks, and actions for ticked runs."""

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app import figures, runs
from retrofit_app.address import session
from retrofit_app.figures import escaped, listing
from retrofit_app.figures.words import first_up
from retrofit_app.runs import leaderboards, methods
from retrofit_app.runs.leaderboards import KeptBoard
from retrofit_app.shell import navigation, picker
from retrofit_app.widgets import works
from retrofit_core.runs.store import SWEEP

from . import starting
from .views import MOST_TICKS, VIEW, Listing

TABLE, OPEN, MADE, PROBLEMS = "runs-table", "runs-open", "runs-made", "runs-problems"  # keys
ROW, HEAD, MOST_HIGH = 35, 38, 500  # px of the table
STATES = {"created": "at work", "running": "at work", "done": "finished"}
INDENT = "\N{EN SPACE}"
#: Columns that move below the table if all rows agree -> their words there.
SHARED = {
    "importance": "{} importance",
    "networks": "{} networks",
    "data": "the data {}",
    "samples": "{} samples",
    "seed": "seed {}",
}
Row = runs.Entry | KeptBoard


def history() -> None:
    """Draw the user's runs, newest first, and the shipped ones below.

    A leaderboard's runs are one row, which opens to list them below.
    """
    st.title("Your runs", anchor=False)
    for problem in st.session_state.pop(PROBLEMS, None) or []:
        st.error(escaped(problem))
    every, chosen = picker.choice().entries, VIEW.read(Listing)
    if all(entry.shipped for entry in every):
        st.caption(
            "You have no runs of your own yet. *New fusion* starts one, and `retrofit fuse … --record FOLDER` records one. These "
            "runs came with the workbench:"
        )
    boards = leaderboards.kept(every)
    listed = [
        row
        for whole in sorted(grouped(every, boards), key=lambda row: isinstance(row, runs.Entry) and row.shipped)
        if fits(whole, chosen.filter)
        for row in unfolded(whole, chosen.opened)
    ]
    known = {row.name: row for row in (*every, *boards)}
    ticks = [known[name] for name in chosen.ticks if name in known]
    if gone := [name for name in chosen.ticks if name not in known]:
        st.warning(escaped(f"Not among these runs: {listing(gone)}."))
    st.text_input(
        "Filter",
        **VIEW.control("filter"),
        icon=":material/search:",
        placeholder="words of a run: kf-linear digits shipped …",
        label_visibility="collapsed",
        help="Shows the runs whose row has all of these words.",
    )
    if listed:
        table(listed, [row.name for row in ticks], chosen.opened)
    else:
        st.caption(f"No run has all the words of “{escaped(chosen.filter)}”.")
    actions(ticks)
    for folder, sentence in picker.choice().unreadable.items():
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f":material/warning: {escaped(first_up(sentence))}", width="stretch")
            works.confirmed(f"delete-{folder.name}", "it", _delete, [folder], list(chosen.ticks))


def grouped(entries: Sequence[runs.Entry], boards: Sequence[KeptBoard]) -> list[Row]:
    """Rows with each leaderboard in place of its first run."""
    board_of = {entry.name: board for board in boards for entry in board.runs}
    rows = {(row := board_of.get(entry.name, entry)).name: row for entry in entries}
    return list(rows.values())


def unfolded(row: Row, opened: Sequence[str]) -> list[Row]:
    """A row, followed by its runs if it is an open leaderboard."""
    return [row, *row.runs] if isinstance(row, KeptBoard) and row.name in opened else [row]


def all_runs(rows: Sequence[Row]) -> list[runs.Entry]:
    """These rows' runs, each once."""
    every = [entry for row in rows for entry in (row.runs if isinstance(row, KeptBoard) else [row])]
    return list({entry.name: entry for entry in every}.values())


def fits(row: Row, words: str) -> bool:
    """Whether a row's line, or that of one of its runs, has all of these words."""
    board = f" {row.kind.words.removeprefix('the ')} {state(row)} {row.name}" if isinstance(row, KeptBoard) else ""
    lines = [
        f"{runs.details(entry)} {state(entry)} {entry.name}{board if row is not entry else ''}".lower()
        for entry in all_runs([row])
    ]
    return any(all(word in line for word in words.lower().split()) for line in lines)


def state(row: Row) -> str:
    """A run's or leaderboard's state in a word."""
    return STATES.get(row.state, row.state)


# --- the table ------------------------------------------------------------------------------------


def rows(listed: Sequence[Row], shown: str, opened: Sequence[str]) -> pd.DataFrame:
    """A line for each row; an open leaderboard's runs are indented.

    Args:
        shown: name of the run that all pages show.
        opened: names of the leaderboards that are open.
    """
    inside = {entry.name for row in listed if isinstance(row, KeptBoard) and row.name in opened for entry in row.runs}
    lines = []
    for row in listed:
        if isinstance(row, KeptBoard):
            line = _line(row.best) | {
                "open": "Close" if row.name in opened else "Open",
                "method": f"Sweep: {row.settings['over'].replace('_', ' ')}" if row.kind == SWEEP else "Leaderboard",
                "state": state(row),
                "run": f"{len(row.runs)} runs",
            }
            if row.kind == SWEEP:  # what varies is on its page
                line |= {row.settings["over"]: None} if row.settings["over"] in line else {}
            else:
                line["importance"] = row.settings["scores"].replace(",", ", ")
        else:
            line = _line(row) | {"open": "shown" if row.name == shown else "Open"}
            line["method"] = INDENT * (row.name in inside) + line["method"]
        lines.append(line)
    return pd.DataFrame(lines, columns=["open", *(name for name in lines[0] if name != "open")])


def _line(entry: runs.Entry) -> dict[str, Any]:
    """A run's settings and accuracy."""
    return {
        "method": entry.config["method"],
        "accuracy": entry.accuracy,
        "±": None if entry.accuracy is None else figures.margin(entry.accuracy, entry.images),
        "state": state(entry),
        "importance": entry.config.get("importance") if methods.weighs(entry) else "",
        "networks": runs.networks_words(entry).replace(" networks", "").replace(" split", ""),
        "data": PurePath(entry.config.get("data", "")).name,
        "samples": entry.config.get("samples"),
        "seed": entry.config.get("seed"),
        "made": pd.Timestamp(float(entry.status.get("started") or 0), unit="s"),
        "run": f"{entry.title or entry.name}{' (shipped)' if entry.shipped else ''}",
    }


def table(listed: list[Row], ticks: list[str], opened: tuple[str, ...]) -> None:
    """Draw the table, whose ticks are in the address."""
    names = [row.name for row in listed]
    key = _key(names, ticks)

    def tick() -> None:
        here = [names[row] for row in sorted(st.session_state[key]["selection"]["rows"])]
        hidden = [name for name in ticks if name not in names]
        if len(hidden + here) > MOST_TICKS:
            st.toast(f"{MOST_TICKS} runs can be ticked at a time.", icon=":material/info:")
        first = (hidden + here)[:MOST_TICKS]
        st.session_state[MADE] = (names, first if first == hidden + here else None, st.session_state[MADE][2])
        VIEW.change(ticks=tuple(first))

    def open_one() -> None:
        row = listed[st.session_state[OPEN]["row"]]
        if isinstance(row, KeptBoard):
            rest = tuple(name for name in opened if name != row.name)
            VIEW.change(opened=rest if row.name in opened else (*rest, row.name))
        else:
            session.open_run(row.name)

    lines = rows(listed, picker.choice().entry.name, opened)
    columns = {"state": any(row.state != "done" for row in listed)}
    shared = [name for name in SHARED if len(listed) > 1 and len(set(lines[name])) == 1]
    columns |= dict.fromkeys(shared, False)
    column = st.column_config
    st.dataframe(
        lines.drop(columns=[name for name, wanted in columns.items() if not wanted]),
        key=key,
        hide_index=True,
        height=min(ROW * len(listed) + HEAD, MOST_HIGH),
        on_select=tick,
        selection_mode="multi-row",
        selection_default={"selection": {"rows": [names.index(name) for name in ticks if name in names]}},
        placeholder="–",
        alt="Runs with their accuracies and settings.",
        column_config={
            "open": column.ButtonColumn("", width=72, on_click=open_one, key=OPEN),
            "method": column.TextColumn("method", width=96),
            "accuracy": column.NumberColumn("accuracy", format="%.1f %%", width=72, help="Of the fused network."),
            "±": column.NumberColumn("±", format="%.1f", width=40, help="Half the 95 % interval, in points."),
            "state": column.TextColumn("state", width=84),
            "importance": column.TextColumn("importance", width=92),
            "networks": column.TextColumn("networks", width=88, help="How many, and on which split they were trained."),
            "data": column.TextColumn("data", width=58),
            "samples": column.NumberColumn("samples", width=66),
            "seed": column.NumberColumn("seed", width=46),
            "made": column.DatetimeColumn("made", format="D MMM YYYY", width=90),
            "run": column.TextColumn("run", width=142),
        },
    )
    if said := [SHARED[name].format(lines[name].iloc[0]) for name in shared if lines[name].iloc[0] not in (None, "")]:
        st.caption(escaped(f"All of them: {listing(said)}."))


def _key(names: list[str], ticks: list[str]) -> str:
    """The key of the table's widget. It changes when rows or ticks change elsewhere, because a widget takes ticks only once."""
    known_names, known_ticks, count = st.session_state.get(MADE, (None, None, 0))
    if (names, ticks) != (known_names, known_ticks):
        count += 1
        st.session_state[MADE] = (names, ticks, count)
    return f"{TABLE}-{count}"


# --- actions for ticked runs ----------------------------------------------------------------------


def actions(ticks: list[Row]) -> None:
    """Draw buttons for the ticked rows."""
    if not ticks:
        st.caption("Tick runs to delete or compare them.")
        return
    names = [row.name for row in ticks]
    deletable = [row for row in ticks if isinstance(row, KeptBoard) or not row.shipped]
    with st.container(horizontal=True, vertical_alignment="center", key="runs-actions"):
        st.markdown(f"**{len(ticks)} ticked**", width="content")
        if deletable:
            count = sum(len(row.runs) if isinstance(row, KeptBoard) else 1 for row in deletable)
            works.confirmed("delete", "this run" if count == 1 else f"these {count} runs", _delete, deletable, names)
        if len(ticks) == 1 and isinstance(only := ticks[0], runs.Entry) and not only.shipped:
            st.text_input(
                "Title",
                only.title,
                runs.MOST_LETTERS,
                key=f"title-{only.name}",
                placeholder="give it a title",
                label_visibility="collapsed",
                width=220,
                on_change=_rename,
                args=(only,),
            )
        if (
            len(ticks) == 1
            and isinstance(one := ticks[0], runs.Entry)
            and one.ended_early
            and st.button("Run again", key="again", icon=":material/replay:", help="Fuses from the start.")
        ):
            starting.run_again(one.folder)
        st.button(
            "Clear",
            key="clear-ticks",
            type="tertiary",
            on_click=lambda: VIEW.change(ticks=()),
            help="Removes all ticks.",
        )
    if len(ticks) == 1 and isinstance(board := ticks[0], KeptBoard):
        if board.kind == SWEEP:
            asked = {name: str(board.settings[name]) for name in ("of", "over", "seeds")}
            asked["values"] = ", ".join(map(str, board.settings["values"]))
            help = "The page Compare: accuracy against the setting. You can continue a stopped sweep there."
            navigation.link("compare", "Open the sweep", help, view="sweep", **asked)
        else:
            asked = {name: board.settings[name] for name in ("of", "methods", "scores")}
            help = "The page Compare: the ranking of these methods. You can continue a stopped leaderboard there."
            navigation.link("compare", "Open the leaderboard", help, view="board", **asked)
    finished = [entry.name for entry in all_runs(ticks) if entry.state == "done"]
    if len(finished) > 1:
        navigation.link(
            "compare",
            "Compare them side by side",
            "The page Compare: these runs with their parents, ensemble and average; how they differ, by class and by level.",
            runs="|".join(finished),
        )


def _rename(entry: runs.Entry) -> None:
    try:
        runs.rename(entry, st.session_state[f"title-{entry.name}"])
    except ValueError as error:
        st.toast(f"Not changed: {escaped(error)}", icon=":material/info:")


def _delete(rows: Sequence[Row | Path], ticks: list[str]) -> None:
    """Delete runs (or folders of unreadable ones), and leaderboards with theirs; some may have been started since the page was
    drawn."""
    gone, problems = set[str](), list[str]()
    for row in rows:
        board = isinstance(row, KeptBoard)
        try:
            if board and row.going:
                raise ValueError(f"{row.words} is still running. Cancel it first.")
            for each in row.runs if board else [row]:
                folder = each if isinstance(each, Path) else each.folder
                runs.delete(folder)
                gone.add(folder.name)
                picker.leave_run(folder.name)
            if board:
                leaderboards.delete(row)
                gone.add(row.name)
        except ValueError as error:
            problems.append(f"Not deleted: {error}")
    st.session_state[PROBLEMS] = problems
    VIEW.change(ticks=tuple(name for name in ticks if name not in gone))
