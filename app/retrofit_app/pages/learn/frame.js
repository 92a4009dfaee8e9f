// The explanation in a frame. What it shows goes into the workbench's address, and what the address says goes into the frame;
// keys that are pressed beside the frame work in it, too.

const WAIT = 600 // ms after the last change within a step until the address gets it
const KEYS = ['PageDown', 'PageUp', 'ArrowLeft', 'ArrowRight', 'Escape', 'j', 'k', 'l', 'p', 'J', 'K', 'L', 'P']
const TYPING = 'input, select, textarea, [contenteditable=true], [role=combobox], [role=listbox], [role=slider]'
const held = new WeakMap() // the component's element -> its frame

export default function ({ parentElement, data, setTriggerValue }) {
    let frame = held.get(parentElement)
    if (!frame) held.set(parentElement, (frame = framed(parentElement, data)))
    frame.tell = words => setTriggerValue('shows', words)
    frame.follow(data)
    return () => {
        frame.remove()
        held.delete(parentElement)
    }
}

const stepOf = words => new URLSearchParams(words).get('step') || '1'

function framed(place, data) {
    const node = document.createElement('iframe')
    node.title = 'How retrofitting works, step by step'
    node.srcdoc = data.page.replace('<html', `<html data-theme="${data.theme}" data-state="${data.at.replaceAll('&', '&amp;')}"`)
    let at = data.at, theme = data.theme // what the address and the workbench last said
    let own = [] // what we told the address, and it has not yet said
    let shown = data.at, timer = 0
    const enlarge = () => node.classList.toggle('lecture', new URLSearchParams(shown).has('lecture'))
    const heard = event => {
        if (event.source !== node.contentWindow || !('retrofitShows' in event.data)) return
        const { retrofitShows: words, at: before } = event.data
        const turned = stepOf(words) !== stepOf(shown)
        shown = words
        enlarge()
        clearTimeout(timer)
        if (before === null) return // the address said it
        timer = setTimeout(() => {
            own.push(words)
            frame.tell(words)
        }, turned ? 0 : WAIT)
    }
    const pressed = event => {
        if (event.ctrlKey || event.metaKey || event.altKey || !KEYS.includes(event.key) || event.target.closest?.(TYPING)) return
        event.preventDefault()
        node.contentDocument?.body.dispatchEvent(new KeyboardEvent('keydown', { key: event.key, bubbles: true, cancelable: true }))
    }
    const frame = {
        follow(now) {
            if (now.theme !== theme) node.contentWindow.postMessage({ retrofitTheme: (theme = now.theme) }, '*')
            if (now.at === at) return
            at = now.at
            if (own.includes(at)) own = own.slice(own.indexOf(at) + 1)
            else {
                own = []
                clearTimeout(timer)
                node.contentWindow.postMessage({ retrofitShow: at }, '*')
            }
        },
        remove() {
            clearTimeout(timer)
            window.removeEventListener('message', heard)
            document.removeEventListener('keydown', pressed)
            node.remove()
        },
    }
    window.addEventListener('message', heard)
    document.addEventListener('keydown', pressed)
    enlarge()
    place.replaceChildren(node)
    return frame
}
