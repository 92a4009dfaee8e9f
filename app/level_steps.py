"""The five steps inside a level, each with its pictures and two sentences."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from retrofit_app import figures, jobs, level_data, show, state
from retrofit_app.address import picks, picks_text
from retrofit_app.figures import Neurons, Palette, Picture, percent, title

PICKING = {"lasso": "lasso", "box": "box", "click": "points"}
SQUARE = 336  # px, the height of a cluster picture


@dataclass(frozen=True)
class View:
    """What the steps draw from."""

    entry: jobs.Entry
    palette: Palette
    index: int
    report: Any
    """`LevelReport`"""
    own: Any
    """`LevelAnalysis`, or None"""
    scores: list[str]
    missing: dict[str, str]

    @property
    def parents(self) -> list[str]:
        """Names of the parents."""
        return [f"network {chr(65 + parent % 26)}" for parent in range(len(self.report.widths))]

    def chart(
        self, key: str, heading: str, table: Any, *, kind: str | None = None, below: str | None = None, **options: Any
    ) -> None:
        """One of level_data's pictures."""
        selection = {name: options.pop(name) for name in ("on_select", "selection_mode") if name in options}

        def draw(colours: Palette) -> Picture:
            return level_data.picture(self.entry, kind or key, colours, self.index, **options)

        show.chart(key, draw, self.palette, table, self.entry, heading=heading, below=below, **selection)

    def grouping(self, score: str | None = None) -> Neurons:
        """The neurons as a score's grouping sees them; by default as the chosen one does."""
        if self.own is None:
            return level_data.seen(self.entry, self.index)
        return level_data.seen(self.entry, self.index, score or st.session_state.score, int(st.session_state.seed))

    def neurons(self) -> pd.DataFrame:
        """One row per neuron, as the chosen score groups them."""
        if self.own is None:
            return level_data.neuron_table(self.entry, self.index)
        return level_data.neuron_table(self.entry, self.index, st.session_state.score, int(st.session_state.seed))


def activations(view: View) -> None:
    """How the neurons respond, before anything is done with them."""
    report = view.report
    st.markdown(
        f"The networks see the same samples, and each neuron answers with {report.rows:,} numbers. Neurons "
        "that lie close together here answer alike, whichever network they come from: those are the ones worth merging."
    )
    left, right = st.columns(2, gap="large")
    with left:
        view.chart("activations", "**Who responds alike?**", view.neurons)
    with right:
        view.chart("activity", "**How strongly do they respond?**", view.neurons)


def importance(view: View) -> None:
    """How much each neuron counts."""
    st.markdown(
        "Importance says how much of a network's decisions passes through a neuron. It weighs the neuron when groups are formed "
        "and when errors are added up, so a neuron that nobody listens to may be lost."
    )
    columns = st.columns(len(view.scores)) if len(view.scores) > 1 else [st.container()]
    for column, score in zip(columns, view.scores, strict=True):
        with column:
            heading = f"**{title(score)}**" + (" (this run)" if score == view.entry.config["importance"] else "")
            options: dict[str, Any] = {"score": score} if view.own is not None else {}
            view.chart(
                f"scores-{score}",
                heading,
                partial(scores_table, view, score),
                kind="scores",
                name=title(score),
                **options,
            )
    missing(view)


def scores_table(view: View, score: str) -> pd.DataFrame:
    """A score, neuron by neuron."""
    found = view.grouping(score)
    return pd.DataFrame({"neuron": level_data.names(found), "importance × mean": found.weights})


def missing(view: View) -> None:
    """Scores that could not be computed, with the reason."""
    for score, reason in view.missing.items():
        if score != "accuracy":
            st.caption(f"{title(score)} is missing: {reason}")


# --- grouping -------------------------------------------------------------------------------------


def grouping(view: View) -> None:
    """Who is merged with whom, under each score."""
    report = view.report
    share = percent(100 * report.grouping_error / (report.energy or 1))
    st.markdown(
        f"The {sum(report.widths)} neurons are put into {report.width} groups that respond alike, and each group becomes one "
        f"neuron of the fused network. What does not fit its group is the grouping error: {share} of the neurons' energy here."
    )
    if report.width == 1:
        show.why("This level has one cluster: every neuron is in it, and colours have nothing to tell apart.")
    phone = "Mobi" in (st.context.headers.get("User-Agent") or "")
    st.session_state.setdefault("picking", "click" if phone else "lasso")
    st.session_state.setdefault("whole", False)
    squares(view)
    st.html(figures.cluster_key(view.parents, sum(report.widths), view.palette))
    controls(view)
    picked_table(view)
    left, right = st.columns(2, gap="large")
    with left:
        agreement(view)
    with right:
        heading = f"**Cluster sizes**, {title(st.session_state.score)}"
        view.chart("sizes", heading, lambda: sizes_table(view), **chosen_grouping(view))


def chosen_grouping(view: View) -> dict[str, Any]:
    """Score and seed as options of a picture."""
    return {"score": st.session_state.score, "seed": int(st.session_state.seed)} if view.own is not None else {}


def controls(view: View) -> None:
    """Score, seed, how to pick, outliers."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.segmented_control(
            "Score", view.scores, key="score", on_change=state.changed, args=("score",), format_func=title, required=True,
            help="Whose grouping the table, the histogram and the sizes below follow. The pictures show all of them.",
        )  # fmt: skip
        seeds = len(view.own.labels[st.session_state.score]) if view.own is not None else 1
        if seeds > 1:
            st.selectbox(
                "Seed", [str(seed) for seed in range(seeds)], key="seed", on_change=state.changed, args=("seed",), width=130,
                format_func=lambda seed: "the run's" if seed == "0" else f"other {seed}",
                help="The same neurons grouped again with another start: what changes now is chance, not the score.",
            )  # fmt: skip
        st.segmented_control(
            "Pick neurons by", list(PICKING), key="picking", persist_state="session", required=True,
            help="Lasso or box: draw around neurons. Click: one at a time, and a finger scrolls the page as usual. The picked "
            "ones stay bright under every score and at every level; the table below lists them.",
        )  # fmt: skip
        st.toggle(
            "Show outliers", key="whole", persist_state="session",
            help="Widen the frame until every neuron is inside. Otherwise those outside stand open on its border.",
        )  # fmt: skip


def squares(view: View) -> None:
    """One cluster picture per score, side by side, with a common frame."""
    run_score = view.entry.config["importance"]
    reference = "uniform" if "uniform" in view.scores else view.scores[0]
    columns = st.columns(len(view.scores), gap="small") if len(view.scores) > 1 else [st.columns([1, 1])[0]]
    for column, score in zip(columns, view.scores, strict=True):
        found = view.grouping(score)
        heading = f"**{title(score)}**"
        if score != reference and (index := agreement_of(view, reference, score)) is not None:
            heading += f" · ARI {figures.number(index, 2)}"
        words = f"densest {int(found.counts.max())} · alone {int((found.counts == 1).sum())}"
        words += " · this run's score" if score == run_score else ""
        if len(view.scores) > 1:
            words += "  \n" + (f"{figures.flow(view.grouping(reference), found)}" if score != reference else
                               "right: what the densest cluster becomes")  # fmt: skip
        with column:
            square(view, score, found, heading, words)


def square(view: View, score: str, found: Neurons, heading: str, words: str) -> None:
    """One cluster picture that can be picked in."""
    key = f"clusters-{score}"
    picked, marked = picks_of(view, found, "pick"), picks_of(view, found, "mark")

    def pick() -> None:
        points = st.session_state[key]["selection"]["points"]
        rows = sorted({int(point["customdata"]["0"]) for point in points if "customdata" in point})
        if rows:
            state.change(pick=text_of(found, rows))

    mode = PICKING[st.session_state.picking or "click"]
    options = {**chosen_grouping(view), "score": score} if view.own is not None else {}
    view.chart(
        key, heading, partial(neurons_as, view, score), kind="clusters", below=words, picked=tuple(picked),
        marked=tuple(marked), height=SQUARE, whole=bool(st.session_state.whole),
        drag={"lasso": "lasso", "box": "select"}.get(mode), on_select=pick,
        selection_mode=("points",) if mode == "points" else ("points", mode), **options,
    )  # fmt: skip


def neurons_as(view: View, score: str) -> pd.DataFrame:
    """One row per neuron, as a score groups them."""
    if view.own is None:
        return view.neurons()
    return level_data.neuron_table(view.entry, view.index, score, int(st.session_state.seed))


def picks_of(view: View, found: Neurons, name: str) -> list[int]:
    """The picked or marked neurons that this level has, as numbers among all of its neurons."""
    return level_data.rows_of(found, picks(st.session_state[name], len(view.report.widths)) or [])


def text_of(found: Neurons, rows: list[int]) -> str:
    """Neurons as the address names them."""
    return picks_text([(int(found.parents[row]), int(found.own[row])) for row in rows])


def agreement_of(view: View, first: str, second: str) -> float | None:
    """Mean index between two scores' groupings."""
    rows = view.own.agreement if view.own is not None else []
    return next((row["mean"] for row in rows if {row["first"], row["second"]} == {first, second}), None)


def picked_table(view: View) -> None:
    """The picked neurons as a table (or all of them); a row that is chosen gets a ring in the pictures."""
    found, table = view.grouping(), view.neurons()
    picked = picks_of(view, found, "pick")
    shown = table.iloc[picked] if picked else table.sort_values("importance × mean", ascending=False)
    with st.container(horizontal=True, vertical_alignment="center"):
        if picked:
            parents = [
                f"{int((found.parents[picked] == parent).sum())} of {name}" for parent, name in enumerate(view.parents)
            ]
            mean = float(found.weights[picked].mean())
            st.markdown(
                f"**{len(picked)} neurons picked**: {', '.join(parents)}; mean importance {figures.number(mean, 2)} × mean"
            )
            st.button("Clear pick", key="clear", on_click=state.change, kwargs={"pick": "", "mark": ""}, icon=":material/close:",
                      help="Show all neurons as bright again, and take the rings away.")  # fmt: skip
        else:
            st.markdown(
                "**All neurons.** Draw around some in a picture to list only them; choose rows to ring them there."
            )
        st.download_button(
            "CSV of these rows", lambda: show.csv(shown, view.entry), on_click="ignore", icon=":material/download:",
            file_name=f"{view.entry.name}-{view.report.name}-{st.session_state.score}-neurons.csv", mime="text/csv",
            help="Exactly the rows of this table.",
        )  # fmt: skip
    if st.session_state.pick and not picked:
        st.caption("None of the picked neurons exists at this level; they are kept for the others.")
    key = f"neurons-{view.index}-{st.session_state.score}-{st.session_state.seed}-{len(picked)}"
    rows = shown.index.to_list()

    def mark() -> None:
        chosen = [rows[row] for row in st.session_state[key]["selection"]["rows"] if row < len(rows)]
        state.change(mark=text_of(found, chosen))

    column = st.column_config.NumberColumn
    st.dataframe(
        shown, key=key, hide_index=True, height=min(36 * len(shown) + 40, 220), on_select=mark, selection_mode="multi-row",
        alt=f"Neurons of level {view.report.name} with cluster and importance under {title(st.session_state.score)}.",
        column_config={
            "neuron": st.column_config.TextColumn("neuron", pinned=True, help="Network and number: A3 is neuron 3 of network A."),
            "importance × mean": column(format="%.2f", help="Importance in multiples of the level's mean."),
            "distance": column(format="%.3g", help="To the cluster's centroid, in the plane of the picture."),
            "kept R²": column(format="%.2f", help="Share of the neuron's variance that its fused neuron explains, in this run."),
        },
    )  # fmt: skip


def agreement(view: View) -> None:
    """How alike the scores' groupings are, beside how alike seeds are."""
    heading = "**Do the scores group differently?**"
    if view.own is None:
        st.markdown(heading)
        show.why("The groupings of other scores are part of the analysis, which this run does not have.")
        return
    view.chart("agreement", heading, lambda: pd.DataFrame(view.own.agreement))
    st.caption(
        "Adjusted Rand index (ARI): 1 the same groups, 0 chance. On the diagonal: one score, grouped again from other seeds "
        "(mean, least to most), which is the noise floor. “seeds” beside every other index repeats the lower floor of the two."
    )
    missing(view)


def sizes_table(view: View) -> pd.DataFrame:
    """How many clusters have how many members."""
    sizes, clusters = np.unique(view.grouping().counts, return_counts=True)
    return pd.DataFrame({"members": sizes, "clusters": clusters})


# --- targets and fit ------------------------------------------------------------------------------


def targets(view: View) -> None:
    """What each group's fused neuron is asked to do, and what the parents keep by that."""
    st.markdown(
        "Each group's target is the importance-weighted mean of what its members answer: that is what the fused neuron should "
        "answer to the same samples. A parent's neuron keeps what this one answer tells about its own, R² = 1 being everything."
    )
    if view.own is None:
        show.why("What neurons keep, and the targets, are part of the analysis, which this run does not have.")
        return
    left, right = st.columns(2, gap="large")
    with left:
        view.chart("kept", "**What do neurons keep?**", view.neurons)
    with right:
        detail(view)


def detail(view: View) -> None:
    """One fused neuron: its members, and its output against its target."""
    own = level_data.seen(view.entry, view.index)
    ranked = np.argsort(-own.counts, kind="stable").tolist()
    st.selectbox(
        "One fused neuron in detail", [str(neuron) for neuron in ranked], key="neuron", on_change=state.changed, args=("neuron",),
        format_func=lambda neuron: f"{neuron} · {own.counts[int(neuron)]} member{'' if own.counts[int(neuron)] == 1 else 's'}",
        help="Each cluster of the run becomes one neuron of the fused network. The largest come first.",
    )  # fmt: skip
    neuron = int(st.session_state.neuron)
    rows = np.flatnonzero(own.labels == neuron)
    known = level_data.names(own)
    named = ", ".join(known[row] for row in rows[: level_data.MEMBERS]) + (
        "…" if len(rows) > level_data.MEMBERS else ""
    )
    st.markdown(f"{figures.members_words(own, neuron)} {named}")
    rows_table = pd.DataFrame({"target": view.own.targets[:, neuron], "output": view.own.outputs[:, neuron]})
    view.chart("fit", "**Does it reach its target?**", lambda: rows_table, neuron=neuron)


def fit(view: View) -> None:
    """How the weights were found, and what is left."""
    report = view.report
    if report.form == "aligned":
        st.markdown("Nothing is fitted by this method: the parents' weights are averaged group by group, so there are no "
                    "targets and no approximation error.")  # fmt: skip
        return
    share = percent(100 * report.approximation_error / (report.energy or 1))
    how = (
        "are trained by gradient descent until its outputs come close to the targets"
        if report.form == "gradient"
        else "are solved for in closed form, so that its outputs reach the targets as well as they can"
    )
    st.markdown(
        f"The weights of the fused level {how}, from the fused outputs of the level below. What is missing then is the "
        f"approximation error: {share} of the neurons' energy here."
    )
    left, right = st.columns(2, gap="large")
    with left:
        if report.curve:
            view.chart("curve", "**How did the fit go?**", lambda: pd.DataFrame(report.curve))
        else:
            view.chart(
                "residual",
                "**What is left?** Closed form, no curve",
                lambda: residual_table(report),
            )
    with right:
        plane(view)
    if view.own is not None:
        left, right = st.columns(2, gap="large")
        with left:
            detail(view)


def residual_table(report: Any) -> pd.DataFrame:
    """Errors of a level as shares of its energy."""
    names = ("grouping_error", "approximation_error", "unavoidable_error")
    shares = [100 * getattr(report, name) / (report.energy or 1) for name in names]
    return pd.DataFrame({"error": [name.replace("_", " ") for name in names], "per cent of energy": shares})


def plane(view: View) -> None:
    """The level's loss around its weights."""
    heading = "**The level's own loss around its weights**"
    if view.own is None or "quadratic" not in view.own.plane:
        st.markdown(heading)
    if view.own is None:
        show.why("The loss around the weights is part of the analysis, which this run does not have.")
    elif "quadratic" not in view.own.plane:
        show.why(f"No picture: {view.own.plane.get('why', 'it was not computed for this level.')}")
    else:
        view.chart("plane", heading, lambda: pd.DataFrame(view.own.plane["marks"]))
        st.caption("★ the fitted weights, ● ◆ each parent's own weights mapped onto the fused inputs. "
                   "Dark is low loss; the scale is logarithmic, and exact on this plane.")  # fmt: skip
