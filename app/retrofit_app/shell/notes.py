"""The presenter's notes, in a window of their own: the audience sees only the page."""

import streamlit as st

from retrofit_app.widgets.components import registered

NAME = "retrofit-notes"
SCRIPT = """
const held = new WeakMap() // the component's element -> its button
let notes = null // the window, while it is open

export default function ({ parentElement, data }) {
    let shown = held.get(parentElement)
    if (!shown) held.set(parentElement, (shown = made(parentElement.querySelector('button'))))
    shown.show(data)
    return () => {
        document.removeEventListener('keydown', shown.pressed)
        held.delete(parentElement)
    }
}

function made(button) {
    let now = null
    const isOpen = () => notes && !notes.closed
    const write = () => {
        const { document: page } = notes
        page.title = `Notes · ${now.title}`
        page.body.style.cssText = 'font:1.3rem/1.5 sans-serif;margin:1.2rem;color-scheme:light dark'
        page.body.replaceChildren(...[['b', now.title], ['p', now.note]].map(([kind, words]) => {
            const part = page.createElement(kind)
            part.textContent = words
            return part
        }))
    }
    const turn = () => {
        if (isOpen()) return notes.close()
        notes = window.open('', 'retrofit-notes', 'popup,width=640,height=440')
        if (notes) write()
    }
    button.onclick = turn
    const pressed = event => {
        const typed = event.target.closest?.('input, textarea, [contenteditable=true]')
        if (now.keys && !typed && !event.ctrlKey && !event.metaKey && !event.altKey && event.key.toLowerCase() === 'n') turn()
    }
    document.addEventListener('keydown', pressed)
    return {
        pressed,
        show(data) {
            now = data
            button.textContent = now.keys ? 'Notes · N' : 'Notes'
            if (isOpen()) write()
        },
    }
}
"""
HTML = (
    "<button type='button' title='Notes for the presenter, in a window of their own. They follow the page.'></button>"
)


def notes(title: str, note: str, keys: bool) -> None:
    """Draw the button that opens and closes them; they follow the shown page.

    Args:
        title: the shown page's name.
        keys: whether N does it, too.
    """
    data = {"title": title, "note": note.replace("*", ""), "keys": keys}
    with st.container(key="notes", width="content"):
        draw = registered(NAME, html=HTML, js=SCRIPT, isolate_styles=False)
        draw(key="presenter-notes", data=data, height="content", width="content")
