"""Link, files, and the command and Python that measure it again."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.widgets import copies, works
from retrofit_core.runs.store import FINETUNING, Work

PYTHON = """\
from retrofit_core.inspection.landscape import Landscape
from retrofit_core.runs.landscapes import material_of

material = material_of({record!r})
landscape = Landscape({settings})
plan = landscape.plan(material.networks, {through!r}, material.images())
*_, survey = landscape.run(plan)
survey.save("landscape")
"""
BEFORE = "from retrofit_core.runs.landscapes"
TUNED = "from retrofit_core.runs.finetunings import read_tuned\n"


def everything(entry: runs.Entry, work: Work) -> None:
    """Draw this landscape's downloads, folded."""
    with st.expander("Take it with you", icon=":material/download:"):
        with st.container(horizontal=True):
            for name, words in (("landscape.csv", "All points (CSV)"), ("landscape.json", "Everything (JSON)")):
                st.download_button(
                    words,
                    (work.folder / name).read_bytes(),
                    f"{entry.name}-{name}",
                    on_click="ignore",
                    icon=":material/download:",
                    key=f"take-{name}",
                    help="As `retrofit landscape --out` writes it: networks, grid and lines"
                    + ("." if name.endswith("csv") else ", flatness and how they were measured."),
                )
        note = f"Start it in the folder of the run. The same settings give the same numbers.{where(entry)}"
        copies.tabs((command_of(entry, work.settings), python_of(entry, work)), note, link=True)


def where(entry: runs.Entry) -> str:
    """What a shipped run needs first, because its record is inside the program's folder."""
    if not entry.shipped:
        return ""
    return " First make the record: its command is on Fuse, under Copy the shown run."


def command_of(entry: runs.Entry, settings: Mapping[str, Any]) -> str:
    """The command that measures a landscape with these settings again."""
    from retrofit_core.runs.landscapes import LandscapeConfig

    return f"{LandscapeConfig.from_json(settings).command(works.record_of(entry))} --clip 4.6 --out landscape"


def python_of(entry: runs.Entry, work: Work) -> str:
    """The same as a script."""
    from retrofit_core.inspection.landscape import Landscape

    settings, record = work.settings["landscape"], works.record_of(entry)
    words = ", ".join(f"{name}={value!r}" for name, value in settings.items() if value != getattr(Landscape, name))
    text = PYTHON.format(record=record, settings=words, through=work.settings["through"])
    more = ""
    if tuned := work.settings.get("tuned"):
        more, text = f", read_tuned({f'{record}/{FINETUNING.folder}/{tuned}'!r})", text.replace(BEFORE, TUNED + BEFORE)
    if align := work.settings["align"]:
        more += f", align={align!r}"
    return text.replace(f"material_of({record!r})", f"material_of({record!r}{more})")
