"""The form of a new fusion: presets, networks, a preview of the split, the fusion, and Start."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import escaped
from retrofit_app.models import sources
from retrofit_app.runs import methods
from retrofit_app.shell import picker
from retrofit_app.widgets import controls, copies
from retrofit_app.widgets.errors import guarded
from retrofit_core.runs.config import commands

from . import cures, going, options, own_files, parameters, plan, presets
from .parameters import HELP, Picks
from .presets import FORM, PRESETS

SCALED = ("cnn", "mlp", "vgg11", "vgg13", "vgg16")


@st.fragment
@guarded
def form() -> None:
    """Draw the fields, and Start below them. The address holds the picks; a change redraws only this part."""
    st.title("New fusion", anchor=False)
    preset, picks = presets.read()
    picks, ignored = options.settle(picks)
    for sentence in ignored:
        st.warning(escaped(sentence))
    _pick_preset(preset, picks)
    st.markdown("**Networks**")
    networks(picks)
    with st.spinner("Checking whether this works…", show_time=True):
        planned = plan.plan(picks)
    preview(planned)
    st.markdown("**Fusion**")
    fusion(picks)
    advanced(picks)
    with st.container(horizontal=True, vertical_alignment="center", key="fuse-action"):
        start(planned, picks)
    if planned.config is not None:
        copies.show(lambda: commands([(planned.config, planned.training)]))


def _pick_preset(preset: str, picks: Picks) -> None:
    chosen = presets.holds(preset, picks)
    if not chosen:  # its sentence would say what is no longer so
        st.session_state[FORM.key("preset")] = None
    st.pills(
        "Start from",
        list(PRESETS),
        key=FORM.key("preset"),
        required=True,
        format_func=lambda name: PRESETS[name].title,
        on_change=lambda: FORM.start_from(preset=st.session_state[FORM.key("preset")]),
        help=HELP["preset"],
    )
    if chosen:
        st.caption(PRESETS[preset].sentence)


# --- networks -------------------------------------------------------------------------------------


def networks(picks: Picks) -> None:
    """Draw the choice of the networks' source, and its controls."""
    controls.switch(FORM, "networks", "Networks", parameters.NETWORKS, HELP["networks"])
    if picks.networks == "own":
        with grid("data"):
            data(picks)
        own_files.ask(picks)
    if picks.networks == "train":
        with grid("train"):
            data(picks)
            controls.ask(FORM, HELP, "arch", "parents", "split")
            if picks.split == "dirichlet":
                controls.ask(FORM, HELP, "ratio")
            controls.ask(FORM, HELP, "split_seed")
            if picks.arch in SCALED:
                controls.ask(FORM, HELP, "widths")


def grid(name: str) -> Any:
    """A container for controls, with the same columns as every group of the form (see style.css)."""
    return st.container(key=FORM.key(f"grid-{name}"))


def data(picks: Picks) -> None:
    """Draw the choice of the data set."""
    data_sets = sources.data_sets()
    options = data_sets if picks.data in data_sets else [*data_sets, picks.data]

    st.selectbox(
        "Data set",
        options,
        help=HELP["data"],
        accept_new_options=True,
        format_func=sources.title,
        placeholder="choose, or type a folder's path",
        **FORM.control("data", lambda text: text if text in options else sources.short_name(text)),
    )


def preview(planned: plan.Plan) -> None:
    """Draw which network gets which classes, as the seed determines, and a line about each network."""
    if planned.counts and planned.classes:
        widgets.split(planned.counts, planned.classes)
    if planned.notes:
        st.caption("  \n".join(map(escaped, planned.notes)))


# --- the fusion -----------------------------------------------------------------------------------


def fusion(picks: Picks) -> None:
    """Draw the choice of method, importance, samples and the result's shape."""
    chosen = methods.table()[picks.method]
    takes = chosen.takes
    with grid("fusion"):
        st.selectbox(
            "Method",
            list(methods.table()),
            help=HELP["method"],
            **FORM.control("method", change=lambda name: FORM.change(method=name, grouping="", options=())),
        )
        if takes.importance:
            part("importance", list(methods.importances()))
        controls.ask(FORM, HELP, "samples")
        if picks.networks == "train" and picks.arch in SCALED and takes.target:
            controls.ask(FORM, HELP, "fused")
        if picks.networks == "own" and takes.target:
            controls.ask(FORM, HELP, "target")
    st.caption(chosen.sentence)


def advanced(picks: Picks) -> None:
    """Draw what has good defaults, folded; a line below names changed options."""
    chosen = methods.table()[picks.method]
    with st.expander("Advanced", icon=":material/tune:", key=FORM.key("advanced")):
        if picks.networks == "train":
            st.markdown("**Training of the networks**")
            with grid("training"):
                controls.ask(FORM, HELP, "recipe", "epochs")
        if picks.networks != "shipped" and picks.data != "digits":
            st.markdown("**Images**")
            with grid("pixels"):
                controls.ask(FORM, HELP, "size")
        st.markdown("**Fusion**")
        with grid("more"):
            if chosen.takes.levels:
                default = chosen.fixed.get("grouping", "")
                part("grouping", ["", *methods.groupings()], lambda name: name or f"{default} (default)")
            if picks.networks != "own" or picks.rows:
                controls.ask(FORM, HELP, "source")
            controls.ask(FORM, HELP, "fusion_seed")
            if "preset" in chosen.keywords():
                controls.ask(FORM, HELP, "settings")
        with grid(f"options-{picks.method}"):
            options.ask(picks)
    if picks.options:
        st.caption(f"Changed: {escaped(', '.join(picks.options))}")


def part(name: str, names: list[str], words: Callable[[str], str] = str) -> None:
    """Draw the choice of a part with options; a new choice keeps the options that both have."""

    def write() -> None:
        picks, _ = options.settle(replace(presets.last(), **{name: st.session_state.get(FORM.key(name))}))
        presets.choose(picks)

    st.selectbox(name.capitalize(), names, key=FORM.key(name), on_change=write, help=HELP[name], format_func=words)


def start(planned: plan.Plan, picks: Picks) -> None:
    """Draw the button, and why it cannot be pressed: the refusal with its cures, or the run that exists."""
    entries = picker.choice().entries
    same = runs.same_work(planned.config, entries) if planned.config else None
    busy = next((entry for entry in entries if not entry.shipped and entry.active), None)
    if planned.refusal:
        st.error(f"This cannot be started: {escaped(planned.refusal)}")
    elif planned.lacking:
        st.info(planned.lacking)
    elif same:
        st.info(
            f"A run with these settings already exists. {escaped(runs.other_version(same))}"
            if same.state == "done"
            else "This run is in progress."
        )
    elif busy:
        st.info(f"Run {escaped(busy.name)} is still in progress, and only one can run at a time.")
    with st.container(horizontal=True, vertical_alignment="center", width="content"):
        if planned.refusal:
            cures.buttons(planned.cures, picks)
        pressed = st.button(
            "Open that run" if same else "Start",
            key="start",
            type="primary",
            icon=":material/folder_open:" if same else ":material/play_arrow:",
            disabled=bool(planned.refusal or planned.lacking) or (busy is not None and same is None),
            help="Runs in its own process: you can reload or close the page, and return to the same address.",
        )
    if pressed:
        going.begin(lambda: runs.start(planned.config, planned.training))
