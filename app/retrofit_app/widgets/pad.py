"""A pad to draw on with mouse, pen or finger; the server gets each line when it ends."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from .components import registered

NAME = "retrofit-pad"
SIDE = 144  # px
MOST = 5_000  # most points that are kept
HTML = f"""<div class='pad'><canvas width='{2 * SIDE}' height='{2 * SIDE}' role='img'></canvas><button>Clear</button></div>"""
CSS = f"""
.pad{{display:flex;flex-direction:column;gap:.4rem;width:{SIDE}px}}
canvas{{width:{SIDE}px;height:{SIDE}px;background:#000;border:1px solid var(--st-border-color);border-radius:4px;cursor:crosshair;
touch-action:none;box-sizing:border-box}}
button{{font:inherit;font-size:.875rem;color:var(--st-text-color);background:var(--st-background-color);cursor:pointer;
min-height:2.5rem;border:1px solid var(--st-border-color);border-radius:var(--st-button-radius)}}
button:hover,button:focus-visible{{color:var(--st-primary-color);border-color:var(--st-primary-color)}}
"""
SCRIPT = f"""
export default function ({{ parentElement, data, setStateValue }}) {{
    const canvas = parentElement.querySelector('canvas'), pen = canvas.getContext('2d')
    const strokes = data.strokes
    let drawing = false
    canvas.setAttribute('aria-label', data.label)
    const paint = () => {{
        pen.clearRect(0, 0, canvas.width, canvas.height)
        Object.assign(pen, {{ strokeStyle: '#FFF', lineWidth: {SIDE // 5}, lineCap: 'round', lineJoin: 'round' }})
        for (const stroke of strokes) {{
            pen.beginPath()
            stroke.forEach(([x, y]) => pen.lineTo(2 * x, 2 * y))
            if (stroke.length === 1) pen.lineTo(2 * stroke[0][0] + 0.1, 2 * stroke[0][1])
            pen.stroke()
        }}
    }}
    const place = event => {{
        const box = canvas.getBoundingClientRect()
        return [Math.round(event.clientX - box.left), Math.round(event.clientY - box.top)]
    }}
    canvas.onpointerdown = event => {{
        if (event.button || !event.isPrimary) return
        canvas.setPointerCapture(event.pointerId)
        strokes.push([place(event)])
        drawing = true
        paint()
    }}
    canvas.onpointermove = event => {{
        if (!drawing) return
        strokes[strokes.length - 1].push(place(event))
        paint()
    }}
    canvas.onpointerup = canvas.onpointercancel = () => {{
        if (drawing) setStateValue('strokes', strokes)
        drawing = false
    }}
    parentElement.querySelector('button').onclick = () => setStateValue('strokes', [])
    paint()
}}
"""


def pad(key: str, label: str, on_change: Callable[[], None]) -> list[list[tuple[float, float]]]:
    """Draw the pad and return its lines, as points from the upper left corner; the session keeps them under the key.

    Args:
        label: its purpose, for screen readers.
    """

    def told() -> None:
        st.session_state[f"{key}-kept"] = _lines(st.session_state[key]["strokes"])
        on_change()

    kept = st.session_state.get(f"{key}-kept", [])
    draw = registered(NAME, html=HTML, css=CSS, js=SCRIPT)
    draw(key=key, data={"strokes": kept, "label": label}, on_strokes_change=told, width="content")
    return kept


def _lines(told: Any) -> list[list[tuple[float, float]]]:
    """The browser's lines, read as points; [] if there are too many."""
    lines = [[(float(x), float(y)) for x, y in line] for line in told or () if line]
    return lines if sum(map(len, lines)) <= MOST else []
