"""Buttons that save a picture as seen in the browser, without redrawing it on the server."""

from typing import Any

import streamlit as st
from streamlit.components.v2 import component

NAME = "retrofit-saver"
HTML = "<div class='saver' role='group' aria-label='Save the picture'><button>SVG</button><button>PNG</button></div>"
CSS = """
.saver{display:flex;gap:.5rem}
button{font:inherit;font-size:.875rem;color:var(--st-text-color);background:var(--st-background-color);cursor:pointer;min-height:2.5rem;
border:1px solid var(--st-border-color);border-radius:var(--st-button-radius);padding:.25rem .75rem}
button:hover,button:focus-visible{color:var(--st-primary-color);border-color:var(--st-primary-color)}
"""
#: Plotly's camera makes the file: the picture holds its hidden button and its settings. Pictures on our own canvas make
#: theirs themselves.
SCRIPT = """
export default function ({ parentElement, data }) {
    parentElement.querySelectorAll('button').forEach(button => {
        const format = button.textContent.toLowerCase()
        button.title = `Save the picture as it is seen: ${data.stem}.${format}`
        button.onclick = () => {
            if (data.picture) {
                document.dispatchEvent(new CustomEvent('retrofit-save', { detail: { ...data, format } }))
                return
            }
            const chart = document.querySelector(`.st-key-${CSS.escape(data.chart)} .js-plotly-plot`)
            chart._context.toImageButtonOptions = { format, filename: data.stem, scale: format === 'png' ? 3 : 1 }
            chart.querySelector('.modebar-btn').click()
        }
    })
}
"""


@st.cache_resource
def _component() -> Any:
    return component(NAME, html=HTML, css=CSS, js=SCRIPT)


def saver(chart: str, stem: str, key: str, picture: str = "") -> None:
    """Draw buttons for SVG (sharp at any size) and PNG (usable anywhere).

    Args:
        chart: the key of a `st.plotly_chart` on the page, or of `neurons.pictures`.
        stem: the file's name without extension.
        picture: which of `neurons.pictures`.
    """
    _component()(key=key, data={"chart": chart, "stem": stem, "picture": picture}, width="content")
