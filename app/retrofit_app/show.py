"""A picture on a page: with its words, its numbers as a table, and files to take away."""

import io
import time
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from retrofit_app import figures, runs, state
from retrofit_app.address import option
from retrofit_app.figures import CONFIG, LIGHT, Palette, Picture

#: One button, the camera, which saves the picture in the format that is chosen in the sidebar.
CAMERA: dict[str, Any] = {**CONFIG, "displayModeBar": "hover", "modeBarButtons": [["toImage"]]}
FORMATS = {"svg": "SVG", "png": "PNG"}
LICENCE = "The data set's own licence holds for what is derived from it."


def chart(
    key: str,
    draw: Callable[[Palette], Picture],
    palette: Palette,
    table: Callable[[], pd.DataFrame],
    entry: runs.Entry,
    *,
    heading: str,
    below: str | None = None,
    bare: bool = False,
    **selection: Any,
) -> None:
    """A heading with "Table" beside it (the numbers, CSV and HTML), a picture, and its finding below.

    Args:
        draw: makes the picture in given colours; files are always in the light ones.
        table: the numbers behind it, made when asked for.
        below: other words than the picture's caption; "" for none.
        bare: for a projector: no table, and no words but those of `heading` and `below`.
        selection: on_select and selection_mode of st.plotly_chart.
    """
    picture = signed(draw(palette), palette, entry)
    stem = f"{entry.name}-{key}"
    if not bare:
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", gap="small"):
            st.markdown(heading, width="stretch")
            data(key, table, entry, draw, heading.replace("*", "").strip())
    elif heading:
        st.markdown(heading)
    saved = st.session_state.get("format") or "svg"
    config = {
        **CAMERA,
        "toImageButtonOptions": {"format": saved, "filename": stem, "scale": 3 if saved == "png" else 1},
    }
    st.plotly_chart(picture.figure, key=key, theme=None, alt=picture.alt, config=config, width="stretch", **selection)
    words = ("" if bare else picture.caption) if below is None else below
    if words:
        st.caption(words)


def data(
    key: str,
    table: Callable[[], pd.DataFrame],
    entry: runs.Entry,
    draw: Callable[[Palette], Picture] | None = None,
    heading: str = "",
) -> None:
    """The numbers of a picture with downloads; nothing is made before it is opened."""
    stem = f"{entry.name}-{key}"
    box = st.popover(
        "Table",
        icon=":material/table_view:",
        type="tertiary",
        key=f"{key}-data",
        on_change="rerun",
        help="Show the numbers behind this picture as a table, or save them. The camera at the picture's corner saves it "
        "as SVG or PNG (chosen in the sidebar).",
    )
    if not box.open:
        return
    with box:
        numbers = table()
        st.dataframe(numbers, hide_index=True, height=min(36 * len(numbers) + 40, 320), alt=f"The numbers of {stem}.")
        with st.container(horizontal=True):
            st.download_button(
                "CSV",
                lambda: csv(numbers, entry),
                f"{stem}.csv",
                "text/csv",
                on_click="ignore",
                key=f"{key}-csv",
                help="This table, with a last line that says where it comes from.",
            )
            if draw is not None:
                st.download_button(
                    "HTML",
                    lambda: html(draw(LIGHT), heading, entry),
                    f"{stem}.html",
                    "text/html",
                    on_click="ignore",
                    key=f"{key}-html",
                    help="The picture as one page that opens without a network (about 5 MB).",
                )


def csv(table: pd.DataFrame, entry: runs.Entry) -> bytes:
    """A table with its origin in a last line, which begins with # (pandas: comment="#")."""
    text = io.StringIO()
    table.to_csv(text, index=False)
    return f"{text.getvalue()}# {origin(entry)}\n".encode()


def html(picture: Picture, heading: str, entry: runs.Entry) -> bytes:
    """A picture as one HTML page with its words, its key and its origin; Plotly's script is inside."""
    unsigned = go.Figure(picture.figure).update_layout(title_text="")  # it stands below as text
    figure = unsigned.to_html(full_html=False, include_plotlyjs="inline", config=CAMERA)
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(heading)}</title>"
        f"<body style='font-family:Arial,sans-serif;max-width:900px;margin:24px auto'><h1 style='font-size:20px'>"
        f"{escape(heading)}</h1><div role='img' "
        f"aria-label='{escape(picture.alt, quote=True)}'>{figure}</div>{picture.key}<p>{escape(picture.alt)}</p>"
        f"<p style='color:#595955;font-size:14px'>{escape(origin(entry))}</p></body></html>"
    ).encode()


def signed(picture: Picture, palette: Palette, entry: runs.Entry) -> Picture:
    """The picture with its origin at its foot, which the page hides and the camera saves; it is signed once."""
    if picture.figure.layout.title.text is None:
        figures.sign(picture.figure, [f"{source(entry)}.", LICENCE], palette)
    return picture


def camera() -> None:
    """In the sidebar: what the camera of every picture saves. (A picture's own buttons cannot ask.)"""
    state.sync([option("format", list(FORMATS), "svg", "format of pictures")])
    with st.sidebar:
        st.segmented_control(
            "The camera saves",
            list(FORMATS),
            key="format",
            format_func=FORMATS.__getitem__,
            required=True,
            on_change=state.changed,
            args=("format",),
            help="The camera at a picture's corner saves it as it is seen: SVG stays sharp at any size, PNG goes anywhere.",
        )


def origin(entry: runs.Entry) -> str:
    """Run, date, the library's version, licence of the data."""
    return f"{source(entry)}. {LICENCE}"


def source(entry: runs.Entry) -> str:
    """Run, date, and the library's version (this one's, where the record has none)."""
    library = entry.status.get("version") or runs.library()
    made = time.strftime("%Y-%m-%d", time.localtime(entry.status.get("started") or time.time()))
    return f"Run {entry.name} of {made}, retrofit-workbench {library}"


def why(sentences: Sequence[str] | str, icon: str = ":material/info:") -> None:
    """Why a panel is empty."""
    text = sentences if isinstance(sentences, str) else " ".join(sentences)
    st.info(text, icon=icon)
