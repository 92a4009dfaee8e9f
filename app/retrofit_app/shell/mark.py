"""What all pages wear: the style sheet, and the product's name and mark above the menu, two overlapping circles."""

from functools import cache
from pathlib import Path

import streamlit as st

from retrofit_app.shell.style import stylesheet
from retrofit_app.widgets import palette

STATIC = Path(__file__).parents[1] / "static"
NAME = (
    "<text x='70' y='30' font-family='Source Sans, Source Sans Pro, Arial, sans-serif' font-size='29' font-weight='600' "
    "fill='{ink}'>Retrofit</text></svg>"
)


#: How much larger a page is on paper (1104 px) than in its window; a phone's pictures keep their size, since they stack there.
#: And what a help button beside a text is about, where Streamlit says "Help", and what happened to a server that does not answer,
#: where it asks for the internet.
SCRIPT = """<script>onbeforeprint = () => {
    const width = document.querySelector('.stMainBlockContainer > *').clientWidth
    document.documentElement.style.setProperty('--paper', width > 700 ? 1104 / width : 1)
}
window.naming ??= new MutationObserver(() => {
    document.querySelectorAll('button[aria-label=Help]').forEach(one => {
        const text = one.closest('.stElementContainer')?.innerText.trim()
        if (text) one.setAttribute('aria-label', `Help for ${text.slice(0, 80)}`)
    })
    const dialog = document.querySelector('[role=dialog]')
    const words = dialog?.innerText.includes('Streamlit') && [...dialog.querySelectorAll('div')].pop()
    if (words) words.textContent = 'The workbench was stopped. Start it again with retrofit app: this page reconnects by itself.'
})
naming.observe(document.body, { childList: true, subtree: true })</script>"""


def dress(*parts: str) -> None:
    """Put parts of style.css into the page.

    Raises:
        KeyError: there is no such part.
    """
    # The empty element keeps it in the page. Styles alone go where toasts go, and a toast would take their place.
    st.html(f"{''.join(map(stylesheet, parts))}<i hidden></i>{SCRIPT}", unsafe_allow_javascript=True)


def mark() -> None:
    """Draw mark and name at the top of the sidebar; only the mark if that is folded."""
    st.logo(_drawn(palette().ink), icon_image=_drawn(""), size="large")


@cache
def _drawn(ink: str) -> str:
    """The mark as SVG, with the name beside it in a given colour; without a colour, alone."""
    drawing = (STATIC / "mark.svg").read_text().strip()
    if not ink:
        return drawing
    wide = drawing.replace('viewBox="0 0 58 40" width="58"', 'viewBox="0 0 186 40" width="186"')
    return wide.removesuffix("</svg>") + NAME.format(ink=ink)
