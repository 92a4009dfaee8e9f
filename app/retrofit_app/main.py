"""The workbench's entry: pages, the run picker that stands on all of them, and the panel for what goes wrong."""

import gc
import sys
from pathlib import Path

import streamlit as st

from retrofit_app import presets, runs, show, state

HERE = Path(__file__).parent
PAGES = [
    st.Page(HERE / "views" / "fuse.py", title="Fuse", default=True),
    st.Page(HERE / "views" / "levels.py", title="Levels"),
]
#: Beside the links only: as icons of the pages themselves the browser would fetch them from another host.
ICONS = {"Fuse": ":material/merge:", "Levels": ":material/stacks:"}
#: Parameters that another run may not have: kept only where it fused the same networks.
OF_A_RUN = ("level", "seed", "neuron", "pick", "mark")


def menu() -> None:
    """Links to the pages that carry the run. Streamlit's own menu would drop it from the address."""
    for other in PAGES:
        st.page_link(other, icon=ICONS[other.title], query_params=state.parameters("run", "format"), width="stretch")


def change_run(by_name: dict[str, runs.Entry], before: runs.Entry) -> None:
    """The picker's callback: one change of the address.

    Also called when a run has ended and its line has changed: then the browser sends the old line.
    """
    chosen = by_name.get(st.session_state.run)
    if chosen is None:
        st.session_state.run = before.name
        return
    same = all(chosen.config.get(name) == before.config.get(name) for name in ("models", "target", "boundaries"))
    state.change(run=chosen.name, **({} if same else state.defaults(OF_A_RUN)))


def pick_run() -> None:
    """The run that all pages show, from the URL or the picker; kept in the session as `entry` and `entries`."""
    entries, problems = runs.entries()
    if not entries:
        raise ValueError("the shipped example is missing. Make it again: python -m retrofit_app.bundle")
    named = runs.bundle_facts().get("first")
    first = next((entry.name for entry in entries if entry.shipped and entry.name == named), entries[0].name)
    by_name = {entry.name: entry for entry in entries}
    chosen = state.choice("run", list(by_name), first, "run")
    with st.sidebar:
        menu()
        st.selectbox(
            "Run",
            list(by_name),
            key="run",
            format_func=lambda name: runs.label(by_name[name]),
            on_change=change_run,
            args=(by_name, by_name[chosen]),
            help="Finished and current runs: the shipped ones, then those of your runs folder (`retrofit app --runs "
            "FOLDER`, and what `retrofit fuse --record` writes there), newest first.",
        )
        st.caption(runs.details(by_name[chosen]))
        st.caption(
            f"{sum(entry.shipped for entry in entries)} shipped, {sum(not entry.shipped for entry in entries)} of your own."
        )
        for problem in problems:
            st.caption(f":material/warning: {problem}")
    st.session_state.update(entry=by_name[chosen], entries=entries, first=first)


@st.cache_resource
def spare_the_libraries(with_torch: bool) -> None:
    """Streamlit collects garbage after every run of a page or a fragment; looking through torch takes 0.15 s each time."""
    gc.collect()
    gc.freeze()


@state.guarded
def whole() -> None:
    """The picker and the chosen page."""
    spare_the_libraries("torch" in sys.modules)
    state.begin()
    pick_run()
    show.camera()
    st.set_page_config(page_title=f"{page.title} · {st.session_state.entry.name}")
    above = st.container()
    page.run()
    if sentence := state.unused(presets.NAMES if page.title == "Fuse" else ()):
        above.warning(sentence)


page = st.navigation(PAGES, position="hidden")
st.set_page_config(page_title=page.title, page_icon=str(HERE / "static" / "favicon.png"), layout="wide")
# Streamlit leaves 6 rem above and 5 rem beside the content, half of a projector's first screen; and a row of choices that
# does not fit on a phone is cut off. A picture whose width is no whole number of pixels is drawn twice, because Plotly and
# Streamlit round it differently. The line at a picture's foot is for what the camera saves.
st.html("""<style>
.stMainBlockContainer{padding:3.6rem clamp(1rem,3vw,3rem) 4rem;max-width:1180px}
@media(min-width:900px){.stMainBlockContainer{padding-top:1.6rem} .stAppHeader{background:transparent;pointer-events:none}
.stAppHeader button{pointer-events:auto}}
.st-key-heading h1{font-size:1.9rem;padding:0}
[data-testid=stFullScreenFrame]{width:round(down,100%,1px)!important}
.stPlotlyChart:has(.gtitle){clip-path:inset(0 0 28px 0)} .stElementContainer:has(.stPlotlyChart .gtitle){margin-bottom:-28px}
@media(max-width:700px){.stButtonGroup [role=radiogroup]{flex-wrap:wrap}
:is(.stMain,.stSidebar) :is(.stButton,.stDownloadButton,.stPopover,.stButtonGroup) button,.stPageLink a,.stExpander summary,
:is(.stSelectbox,.stNumberInput,.stTextInput) :is([data-baseweb=select]>div,[data-baseweb=input],[role=group],input),
:is(.stCheckbox,.stToggle) label,[role=tab]{min-height:44px}
.stPageLink a,:is(.stCheckbox,.stToggle) label{align-items:center}
.stTooltipHoverTarget{min-height:0!important}}
</style>""")
whole()
