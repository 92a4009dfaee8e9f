"""What each ingredient contributes: a waterfall from plain average over groups to fit, with controls; measured on request."""

import pandas as pd
import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.figures import Palette, difference, escaped
from retrofit_app.figures.waterfall import Step, waterfall
from retrofit_app.figures.words import first_up, signed
from retrofit_app.runs import ingredients
from retrofit_app.runs.ingredients import AVERAGE, OWN, UNWEIGHTED, Ingredient
from retrofit_app.runs.words import about
from retrofit_app.shell import navigation
from retrofit_app.widgets import works
from retrofit_app.widgets.errors import guarded
from retrofit_core.runs.store import Work, notes_of

NAMES = {
    "same_index": "same-index groups",
    "random": "random groups (one draw)",
    UNWEIGHTED: "uniform importance",
}
GROUPS = "+ groups, no fit"
#: Fusions that it needs: three without the fit, and two with it besides the run's own; one more without importance.
FITS = 5


@st.fragment
@guarded
def brought(entry: runs.Entry, palette: Palette) -> None:
    """Draw the waterfall, its measurement in progress, or the button to start that; nothing if there are no ingredients."""
    if not ingredients.has_some(entry):
        return
    st.header("What does each ingredient bring?", anchor=False)
    work = ingredients.work_of(entry)
    if work.state == "done":
        drawn(entry, work, palette)
    elif work.going:
        works.watch(lambda: work.going, lambda: growing(work, entry.config["method"], palette))
    else:
        ask(entry, work)
    navigation.link(
        "learn",
        "How does this work?",
        "The page Learn: averaging, groups and the fit on networks of a few neurons.",
        at="step=4",
    )


def drawn(entry: runs.Entry, work: Work, palette: Palette) -> None:
    """Draw the picture and its caption."""
    try:
        steps = steps_of(ingredients.read(work), entry.config["method"])
    except ValueError as error:
        st.error(f"The ingredients are not shown: {escaped(error)}")
        return
    widgets.chart(
        "ingredients",
        lambda colours: waterfall(steps, finding(steps), colours),
        palette,
        lambda: table(steps),
        entry,
        heading=f"**{escaped(finding(steps))}**",
        below="",
        reading="In brackets: 95 % intervals, paired image by image. A step is compared with the row above, a control "
        "(hatched) with the fused network. A control has the same fit; its groups ignore what the neurons do, or every neuron "
        "counts alike (uniform importance). Where random groups do nearly as well, the fit makes up for poor groups.",
    )


def steps_of(known: list[Ingredient], method: str) -> list[Step]:
    """The waterfall's rows: average, groups, fit, controls, as far as they apply to the networks."""
    found = {(each.groups, each.fitted): each for each in known}
    path = [
        (name, found[key])
        for name, key in (
            ("Plain average", (AVERAGE, False)),
            (GROUPS, (OWN, False)),
            (f"+ fit: {method}", (OWN, True)),
        )
        if key in found
    ]
    before = [None, *(each for _, each in path)]
    steps = [
        Step(
            name,
            above.facts["accuracy"] if above else 0.0,
            each.facts["accuracy"],
            difference(each.facts, above.facts) if above else None,
        )
        for (name, each), above in zip(path, before, strict=False)
    ]
    fused = found.get((OWN, True))
    for groups in NAMES:
        if fused and (control := found.get((groups, True))):
            without = found.get((groups, False))
            steps.append(
                Step(
                    first_up(NAMES[groups]),
                    0.0,
                    control.facts["accuracy"],
                    difference(control.facts, fused.facts),
                    control=True,
                    unfitted=without and without.facts["accuracy"],
                )
            )
    return steps


def finding(steps: list[Step]) -> str:
    """What groups and fit contribute."""
    gains = [
        f"{'groups bring' if step.name == GROUPS else 'the fit brings'} {signed(step.brings.points)} points"
        for step in steps
        if step.brings and not step.control
    ]
    return f"{first_up(' and then '.join(gains))}." if gains else ""


def table(steps: list[Step]) -> pd.DataFrame:
    """The numbers behind the picture."""
    return pd.DataFrame(
        [
            {
                "network": step.name,
                "accuracy %": step.accuracy,
                "without fit %": step.unfitted,
                "points": step.brings and step.brings.points,
                "low": step.brings and step.brings.ends and step.brings.ends[0],
                "high": step.brings and step.brings.ends and step.brings.ends[1],
                "compared with": "fused network" if step.control else "row above" if step.brings else "",
            }
            for step in steps
        ]
    )


# --- measuring ------------------------------------------------------------------------------------


def ask(entry: runs.Entry, work: Work) -> None:
    """Draw why there is nothing yet, and the button that measures it."""
    works.ended(work.state, work.folder, "not everything was measured")
    seconds = entry.status.get("seconds")
    weighs = ingredients.weighs(entry.config.get("importance"))
    fits = FITS + weighs
    takes = f", {about(fits * seconds)} on the machine of this run" if seconds else ""
    st.markdown(
        "To see what the groups and the fit each bring, the same networks are averaged, grouped without a fit, and fitted to "
        f"random and same-index groups{', and without importance' if weighs else ''}. That takes {fits} more fusions{takes}."
    )
    if st.button("Measure it", key="start-ingredients", icon=":material/play_arrow:"):
        works.start(lambda: ingredients.begin(entry))


def growing(work: Work, method: str, palette: Palette) -> None:
    """Draw the progress, and what is measured so far."""
    notes = notes_of(work.folder)
    index, total = notes.get("index") or 0, notes.get("total") or 1
    share = min(index / total, 1.0)
    works.progress(
        work.folder,
        share,
        f"{str(notes.get('name', 'starting')).rstrip(':').capitalize()}…",
        "Stops after the current step.",
        "cancel-ingredients",
    )
    if work.has_content:
        try:
            steps = steps_of(ingredients.read(work), method)
        except ValueError:  # still being written
            return
        if steps:
            works.growing("ingredients", waterfall(steps, "", palette), "", caption=False)
