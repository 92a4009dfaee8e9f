"""Which network comes out when trained ones are fused, and where along the levels is something lost?"""

import json
import math
import time
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from retrofit_app import figures, jobs, state
from retrofit_app.figures import Network, listing, number, percent

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
POLL = 0.5  # seconds
IMPORTANCE = ("conductance", "uniform", "deeplift")  # as in retrofit_core.importance, whose import takes torch's time
KNOWN = 5.0  # per cent of a class right, above which a network counts as knowing it
PHASES = {
    "importance": "how much each neuron matters",
    "conductance": "how much each neuron matters (conductance)",
    "deeplift": "how much each neuron matters (DeepLIFT)",
    "grouping": "grouping the neurons",
    "fit": "fitting the level",
    "evaluate": "measuring on the test images",
}


def page() -> None:
    """Headline, who knows what, new fusion, accuracies, levels."""
    asked, known = st.session_state.entry, st.session_state.entries
    # A run that has nothing to show yet leaves the shipped one on the page.
    shown = asked if asked.state == "done" else next(entry for entry in known if entry.name == st.session_state.first)
    palette = state.palette()
    headline(shown, palette)
    if asked.state != "done":
        current(asked)
        st.caption(f"Above and below: the shipped example, {state.label(shown)}.")
    new_fusion(asked)
    accuracies(shown, known, palette)
    levels(shown)


# --- the headline ---------------------------------------------------------------------------------


def headline(entry: jobs.Entry, palette: figures.Palette) -> None:
    """Title, the finding in words with its numbers, and who knows which class."""
    networks, classes = entry.metrics.get("networks"), entry.metrics.get("classes")
    parents = len(entry.config["models"])
    if not networks or not classes:
        st.title(f"{_count(parents)} networks, fused into one", anchor=False)
        st.markdown(
            f"{entry.config['method']}. Accuracies were not measured: run `retrofit fuse … --evaluate --record`."
        )
        return
    counts = jobs.class_counts(entry.config)
    tables = [networks[f"parent {index}"] for index in range(parents)]
    seen = [[count > 0 for count in row] for row in counts] if counts else \
        [[(value or 0) >= KNOWN for value in table["per_class"]] for table in tables]  # fmt: skip
    halves = parents == 2 and all(first != second for first, second in zip(*seen, strict=True))
    st.title("Two half-blind networks, one that sees it all" if halves else f"{_count(parents)} networks, fused into one",
             anchor=False)  # fmt: skip
    st.markdown(_finding(entry, networks, classes, seen, halves))
    if parents > 4:
        return
    left = [
        figures.class_card(f"Network {LETTERS[index]}", f"{percent(table['accuracy'])} of the test images",
                           table["per_class"], classes, palette, seen=seen[index])
        for index, table in enumerate(tables)
    ]  # fmt: skip
    fused = networks["fused"]
    right = figures.class_card("Fused", f"{percent(fused['accuracy'])}, one network of {_size(entry)}",
                               fused["per_class"], classes, palette, fused=True)  # fmt: skip
    st.html(figures.cards(left, right, palette))
    st.caption(_provenance(entry, fused))


def _finding(
    entry: jobs.Entry, networks: dict[str, Any], classes: list[str], seen: list[list[bool]], halves: bool
) -> str:
    config, fused = entry.config, networks["fused"]
    own = config.get("splits") and config.get("fusion_from") != "iid"
    source = f"{config['samples']} of network A's training images" if own else f"{config['samples']} training images"
    seconds = f", in {number(entry.status['seconds'])} s" if "seconds" in entry.status else ""
    words = []
    if halves:
        known = [listing([name for name, has in zip(classes, row, strict=True) if has]) for row in seen]
        words.append(
            f"Network A was trained on the classes {known[0]}, network B on {known[1]}; so each gets only "
            f"{percent(networks['parent 0']['accuracy'])} and {percent(networks['parent 1']['accuracy'])} of the test "
            "images right."
        )
    else:
        each = [percent(networks[f"parent {index}"]["accuracy"]) for index in range(len(config["models"]))]
        words.append(f"On their own the networks get {listing(each)} of the test images right.")
    words.append(
        f"Retrofitting fuses them, level by level, into **one network that gets {percent(fused['accuracy'])}** "
        f"({config['method']}, {config.get('importance')} importance), from {source}{seconds}."
    )
    if "average" in networks:
        words.append(f"Simply averaging their weights gives {percent(networks['average']['accuracy'])};")
    words.append(f"running both and averaging their predictions gives {percent(networks['ensemble']['accuracy'])}, at "
                 f"{_times(len(config['models']))} the cost.")  # fmt: skip
    return " ".join(words)


def _provenance(entry: jobs.Entry, fused: dict[str, Any]) -> str:
    p, n = fused["accuracy"] / 100, fused["samples"]
    chance = 196 * math.sqrt(max(p * (1 - p), 1e-4) / n)
    words = [
        f"Columns: share of each class that is recognised; hollow: the network never saw that class. {n} test images, so "
        f"differences of less than about {chance * math.sqrt(2):.0f} points between two networks may be chance."
    ]
    if entry.shipped:
        facts = json.loads((jobs.BUNDLED / "bundle.json").read_text())
        found = [table["fused"] for table in facts["tried"].values()]
        words.append(
            f"One split of scikit-learn's digits (seed {facts['seed']}); over the split seeds {', '.join(facts['tried'])} "
            f"{facts['typical']} gives {number(min(found))} to {percent(max(found))}, "
            f"on average {percent(sum(found) / len(found))}."
        )
    return " ".join(words)


def _size(entry: jobs.Entry) -> str:
    return "A's size" if not entry.config.get("target") else "its own size"


def _times(n: int) -> str:
    return "twice" if n == 2 else f"{_count(n).lower()} times"


def _count(n: int) -> str:
    return {1: "One", 2: "Two", 3: "Three", 4: "Four", 5: "Five", 6: "Six"}.get(n, str(n))


# --- new fusion -----------------------------------------------------------------------------------


def new_fusion(asked: jobs.Entry) -> None:
    """The form; a start goes to a worker process and the run into the URL."""
    shipped = [entry for entry in st.session_state.entries if entry.shipped]
    seconds = {entry.config["method"]: entry.status.get("seconds", 0.0) for entry in shipped}
    with (
        st.expander("New fusion of these two networks", icon=":material/add_circle:"),
        st.form("new", border=False, enter_to_submit=False),
    ):
        columns = st.columns([2, 2, 1.4, 1.4], vertical_alignment="bottom")
        method = columns[0].selectbox(
            "Method", list(seconds), index=list(seconds).index("KF-Linear") if "KF-Linear" in seconds else 0,
            help="HF pairs the neurons of two equal networks one to one, KF clusters them. Linear fits each level in "
            "closed form, Gradient by gradient descent.",
        )  # fmt: skip
        importance = columns[1].selectbox(
            "Importance", IMPORTANCE,
            help="What a neuron counts when neurons are grouped: its part in the network's decisions (conductance or "
            "DeepLIFT, on each parent's own data), or all the same.",
        )  # fmt: skip
        samples = columns[2].number_input(
            "Samples", 10, 700, 400, 10,
            help="Training images of network A that the fusion sees, balanced over its classes. It has 715.",
        )  # fmt: skip
        seed = columns[3].number_input(
            "Seed",
            0,
            9999,
            0,
            1,
            help="Decides which samples are drawn and where clusterings start. Same seed, same numbers.",
        )
        started = st.form_submit_button(
            "Start", type="primary", icon=":material/play_arrow:", disabled=asked.state in jobs.ACTIVE,
            help="Runs in a process of its own: you can reload or close the page, and come back to the same address.",
        )  # fmt: skip
        st.caption("The shipped runs took " + listing([f"{time_:.1f} s ({name})" for name, time_ in seconds.items()])
                   + ", and about 5 s to start and measure. The same settings are never run twice: "
                   "you get the run that exists.")  # fmt: skip
    if started:
        from retrofit_app import bundle

        begin(bundle.config(method, importance=importance, samples=int(samples), seed=int(seed)))


def begin(config: Any) -> None:
    """Start, go on with, or open the run of a config."""
    try:
        folder = jobs.start(config)
    except jobs.Busy as busy:
        st.warning(f"Not started: {busy}")
        st.button("Show that run", on_click=state.open_in_url, args=("run", busy.run))
        return
    except ValueError as error:
        st.error(f"Not started: {error}")
        return
    state.open_in_url("run", folder.name, st.session_state.first)
    st.rerun()


def current(entry: jobs.Entry) -> None:
    """A run that is not finished: its progress, or why it ended and what can be done."""
    with st.container(border=True):
        st.markdown(f"**Your run**: {state.details(entry)}")
        if entry.state in jobs.ACTIVE:
            watch(str(entry.folder))
            return
        show = st.warning if entry.state == "cancelled" else st.error
        show(jobs.failure(entry))
        with st.container(horizontal=True):
            if st.button(
                "Go on with it", icon=":material/resume:", help="Takes up the run after its last finished level."
            ):
                from retrofit_core.runs import RunConfig

                begin(RunConfig.from_json(entry.config))
            st.button("Back to the shipped example", on_click=state.open_in_url,
                      args=("run", st.session_state.first, st.session_state.first))  # fmt: skip
        if entry.state != "cancelled" and (log := jobs.log_tail(entry.folder)):
            with st.expander("The worker's last lines"):
                st.code(log, language=None)


@st.fragment(run_every=POLL)
@state.guarded
def watch(folder: str) -> None:
    """Poll the record until the run ends; only this part of the page is drawn again."""
    entry = jobs.read_entry(Path(folder))
    if entry.state not in jobs.ACTIVE:
        st.rerun()
    status = entry.status
    level, total = status.get("level"), status.get("levels")
    what = PHASES.get(status.get("name", ""), "")
    if entry.state == "created":
        done, text = 0.0, "Starting the worker…"
    elif not total or level is None:
        done, text = 0.02, f"Before the first level: {what or 'reading networks and data'}"
    elif status.get("name") == "evaluate":
        done, text = 0.98, f"All {total} levels are fused; {what}"
    else:
        done, text = (level + 0.5) / (total + 0.2), f"Level {level + 1} of {total}" + (f": {what}" if what else "")
        if "Gradient" in entry.config["method"] and "loss" in status:
            text += f", loss {status['loss']:.3g}"
    begun = status.get("started") if entry.state == "running" else None
    st.progress(min(max(done, 0.0), 1.0), text=text + (f" · {time.time() - begun:.0f} s" if begun else ""))
    stopping = (entry.folder / "cancel").exists()
    if st.button("Cancelling…" if stopping else "Cancel", key="cancel", icon=":material/stop:", disabled=stopping,
                 help="Stops after the current step. Finished levels are kept, and you can go on later."):  # fmt: skip
        jobs.cancel(entry.folder)


# --- accuracies -----------------------------------------------------------------------------------


def accuracies(entry: jobs.Entry, known: list[jobs.Entry], palette: figures.Palette) -> None:
    """Parents, ensemble, average and fused networks, over all and class by class."""
    networks = entry.metrics.get("networks")
    if not networks:
        return
    st.header("How good is each network?", anchor=False)
    rows = measured(entry, known)
    left, right = st.columns([2, 3], gap="medium")
    with left:
        st.markdown("**Accuracy** on the test images")
        chart(figures.accuracy_bars([row for row, _ in rows], palette), "accuracy")
    with right:
        st.markdown("**Accuracy per class**, in per cent")
        chart(figures.class_grid([row for row, _ in rows], entry.metrics["classes"], palette), "per-class")
    st.caption("Teal: fused networks of one network's size; the one that is open has a frame. Hatched: the ensemble (all "
               "networks run side by side) and the plain average of the weights, for comparison.")  # fmt: skip
    table = pd.DataFrame([
        {"network": row.name, "accuracy": row.accuracy, "loss": facts["loss"], "calibration error": facts["calibration_error"],
         **dict(zip(entry.metrics["classes"], row.per_class, strict=True))}
        for row, facts in rows
    ])  # fmt: skip
    per_cent = {name: st.column_config.NumberColumn(name, format="%.0f", help=f"Per cent of class {name} recognised.", width=48)
                for name in entry.metrics["classes"]}  # fmt: skip
    st.dataframe(
        table, hide_index=True, alt="Accuracy, loss, calibration error and accuracy per class of every network.",
        column_config={
            "network": st.column_config.TextColumn("network", pinned=True),
            "accuracy": st.column_config.NumberColumn("accuracy %", format="%.1f", help="Per cent of the test images."),
            "loss": st.column_config.NumberColumn("loss", format="%.3f", help="Mean cross entropy; lower is better."),
            "calibration error": st.column_config.NumberColumn(
                "calibration error", format="%.3f",
                help="Mean gap between confidence and accuracy (15 bins); 0 is best. It is large for a network that is "
                "right more often than it claims, too."),
            **per_cent,
        },
    )  # fmt: skip


def measured(entry: jobs.Entry, known: list[jobs.Entry]) -> list[tuple[Network, dict[str, Any]]]:
    """The rows of the accuracy figures: this run's networks, and the shipped fusions of the same parents."""
    networks = entry.metrics["networks"]
    rows = [(f"network {LETTERS[index % 26]}", "parent", networks[f"parent {index}"], False)
            for index in range(len(entry.config["models"]))]  # fmt: skip
    rows.append(("ensemble", "reference", networks["ensemble"], False))
    if "average" in networks:
        rows.append(("plain average", "reference", networks["average"], False))
    same = [other for other in known if other.shipped and other.metrics
            and all(other.config.get(name) == entry.config.get(name) for name in ("models", "data"))]  # fmt: skip
    rows += [
        (other.config["method"], "fused", other.metrics["networks"]["fused"], other.name == entry.name)
        for other in same
    ]
    if entry.name not in [other.name for other in same]:
        rows.append(
            (
                f"this run: {entry.config['method']}" if same else entry.config["method"],
                "fused",
                networks["fused"],
                True,
            )
        )
    return [
        (Network(name, role, facts["accuracy"], facts["per_class"], chosen), facts)
        for name, role, facts, chosen in rows
    ]


# --- levels ---------------------------------------------------------------------------------------


@st.fragment
@state.guarded
def levels(entry: jobs.Entry) -> None:
    """One row per level, the errors, and the neurons of one level."""
    palette = state.palette()
    st.header("What happens at each level?", anchor=False)
    from retrofit_core.results import frame  # torch: only once the first pictures are on the page

    try:
        run = state.record(entry)
    except ValueError as error:
        st.error(f"This run's levels are not shown: {str(error).replace(str(entry.folder), entry.name)}")
        return
    if not run.levels:
        st.caption("This method combines whole networks: there are no levels to look at.")
        return
    table = frame(run.levels)
    names = [level.name for level in run.levels]
    body = [level for level in run.levels if level.name != names[-1]] or run.levels
    default = max(body, key=lambda level: (level.grouping_error + level.approximation_error) / (level.energy or 1)).name
    level_table(table)
    numbers, picture = st.columns([1, 1], gap="large")
    with picture:
        chosen = state.choice("level", names, default, "level of this run")
        st.radio(
            "Level", names, key="level", horizontal=True, format_func=lambda name: f"{names.index(name) + 1} · {name}",
            on_change=state.written("level", default),
            help="From the input up. Each level is one layer with the functions without weights before it.",
        )  # fmt: skip
        index = names.index(chosen)
        drawn = figures.clusters(run.levels[index], palette)
        chart(drawn, "clusters")
        st.caption(drawn.caption)
        parents = [f"network {LETTERS[parent % 26]}" for parent in range(len(entry.config["models"]))]
        st.html(figures.cluster_key(parents, sum(run.levels[index].widths), palette))
    with numbers:
        st.markdown("**What is lost**, in per cent of the neurons' importance-weighted energy")
        errors = figures.level_errors(table, palette, index)
        chart(errors, "errors")
        st.caption(f"{errors.caption} Grouping: neurons that share a cluster are not alike. Approximation: the new level "
                   "does not reach the clusters' centres.")  # fmt: skip
        with st.expander("The neurons of this level as a table"):
            neuron_table(run.levels[index])


def level_table(table: pd.DataFrame) -> None:
    """Widths, errors and seconds of each level."""
    shown = pd.DataFrame({
        "level": [f"{index + 1} · {name}" for index, name in enumerate(table["level"])],
        "neurons": [f"{widths} → {fused}" for widths, fused in zip(table["widths"], table["fused"], strict=True)],
        "grouping": 100 * table["grouping share"], "approximation": 100 * table["approximation share"],
        "seconds": table["seconds"], "kind": table["kind"], "fit": table["form"],
    })  # fmt: skip
    number_ = st.column_config.NumberColumn
    st.dataframe(
        shown, hide_index=True, alt="One row per level: widths, grouping error, approximation error, seconds.",
        column_config={
            "level": st.column_config.TextColumn("level", pinned=True),
            "neurons": st.column_config.TextColumn(
                "neurons", help="Of each parent → of the fused level, which is the number of clusters.", width=100),
            "fit": st.column_config.TextColumn("fit", help="primal or dual: closed form; gradient: gradient descent."),
            "grouping": number_("grouping %", format="%.2f", width=78,
                                help="Grouping error: neurons against their cluster's centre."),
            "approximation": number_("approx. %", format="%.2f", width=74,
                                     help="Approximation error: the fitted level against the clusters' centres."),
            "seconds": number_("seconds", format="%.2f", width=64,
                               help="Forward passes, moments, grouping and fit of this level."),
        },
    )  # fmt: skip


def neuron_table(level: Any) -> None:
    """The picture's data as a table."""
    parents, labels = level.parents.tolist(), level.labels.tolist()
    scores = level.scores / level.scores.mean().clamp_min(1e-300)
    first = [sum(level.widths[:parent]) for parent in range(len(level.widths))]
    st.dataframe(
        pd.DataFrame({
            "network": [LETTERS[parent % 26] for parent in parents],
            "neuron": [neuron - first[parent] for neuron, parent in enumerate(parents)],
            "cluster": labels, "members": [labels.count(label) for label in labels],
            "importance × mean": scores.tolist(),
        }),
        hide_index=True, height=260, alt=f"Neurons of level {level.name} with their clusters and importance.",
        column_config={"importance × mean": st.column_config.NumberColumn(format="%.2f")},
    )  # fmt: skip


def chart(picture: figures.Picture, key: str) -> None:
    """A picture with its alternative text."""
    st.plotly_chart(picture.figure, key=key, theme=None, alt=picture.alt, config=figures.CONFIG, width="stretch")


page()
